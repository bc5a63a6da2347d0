//! Facts about tasks that need both their registry and the files on this machine: the cost so far, and whether the worker and the run of a task work
//! (TASK-52, TASK-121).

use hankweave_core::cost::Usd;
use hankweave_task_model::registry::{TaskCost, TaskRow};
use hankweave_task_model::task::TaskStatus;
use hankweave_tasks::worker::TaskSpec;

use crate::directory::{SuspendedWorker, is_served, suspended_worker};
use crate::hints::HintCommands;
use crate::holding::{AbsentWorker, TaskHolders, continues, has_crashed};
use crate::receipt;
use crate::registry::Registry;

/// Returns the cost of a task so far, with that of its running attempt; `None` for a task that no worker has run. Every screen takes the cost from here
/// (TASK-121).
pub(crate) async fn cost_so_far(registry: &Registry, row: &TaskRow) -> Option<TaskCost> {
    let ended = ended_cost(row);
    let is_uncertain = ended.is_some_and(|cost| cost.cost_is_lower_bound);
    // Of a running attempt, or one that lost its worker, the files here may know more than the registry.
    if row.record.status() != TaskStatus::Running && !is_uncertain {
        return ended;
    }
    let (layers, task) = (registry.layers.clone(), row.clone());
    let read_cost = move || layers.find(&task).cost(&task);
    let cost = registry.world.blocking.run(read_cost).await?;
    Some(with_set_budget(row, cost))
}

/// Returns the cost of the attempts of a task that have ended.
pub(crate) fn ended_cost(row: &TaskRow) -> Option<TaskCost> {
    TaskCost::of(&row.record).map(|cost| with_set_budget(row, cost))
}

/// Puts the budget that was set for the task next to its cost; the last attempt may have had a smaller budget.
fn with_set_budget(row: &TaskRow, cost: TaskCost) -> TaskCost {
    let budget = set_budget(row).or(cost.budget);
    TaskCost { budget, ..cost }
}

/// Returns the total budget that was set for the task itself, by `task create … -- --max-cost` or `task resume --max-cost`.
pub(crate) fn set_budget(row: &TaskRow) -> Option<Usd> {
    TaskSpec::read(row.record.metadata()).ok()?.max_cost()
}

/// Returns the absence of a running task's worker: it is suspended on this machine, late or gone, or the task is worked on by hand. `None` if the worker is
/// present.
pub(crate) fn absent_worker(
    registry: &Registry,
    holders: &TaskHolders,
    row: &TaskRow,
) -> Option<AbsentWorker> {
    let is_running = row.record.status() == TaskStatus::Running;
    let suspended = is_running.then(|| suspended_worker(&registry.workspace_of(row)));
    // If the newest attempt is not in these files, another worker has taken the task, and the suspended one here no longer counts.
    let has_task = |_: &SuspendedWorker| registry.files(row).has_newest_attempt(row);
    match suspended.flatten().filter(has_task) {
        Some(process) => Some(holders.suspended(row, process)),
        None => holders.absent(row, run_has_crashed(registry, row)),
    }
}

/// Returns what stops the run of a task that is no longer running by its registry: the worker would have stopped the run, but is suspended. `None` if no
/// such run is left.
pub(crate) fn left_at_work(registry: &Registry, row: &TaskRow) -> Option<String> {
    if row.record.status() == TaskStatus::Running {
        return None;
    }
    let workspace = registry.workspace_of(row);
    let worker = suspended_worker(&workspace)?;
    if !worker.with_run {
        let stop = HintCommands::about(&workspace).command("stop");
        return Some(format!(
            "its run works on, and spends, because its worker is suspended: `{stop}` stops it"
        ));
    }
    // A user's own suspended run in the workspace has no worker; `status` alone reports it.
    (!worker.is_run()).then(|| {
        let continued = continues(worker.pid);
        format!("its run is suspended with its worker: after {continued} the worker stops it")
    })
}

/// Whether the newest attempt of a running task has a run in the workspace on this machine, and that run has crashed.
fn run_has_crashed(registry: &Registry, row: &TaskRow) -> bool {
    let workspace = registry.workspace_of(row);
    if row.record.status() != TaskStatus::Running || !receipt::has_record(&workspace) {
        return false;
    }
    let state = crate::state::read_execution(&workspace);
    state.is_ok_and(|state| has_crashed(&state, is_served(&workspace), row))
}
