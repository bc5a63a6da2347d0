//! `hankweave task cancel`, `approve`, `deny`, `resume`, `complete`, `detach` and `delete`: steps of tasks that a user takes.

use std::collections::BTreeSet;
use std::io::IsTerminal;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use hankweave_core::budget::{Ceiling, CeilingUse};
use hankweave_core::cost::Usd;
use hankweave_core::id::{AgentId, TaskId};
use hankweave_core::machine::Extra;
use hankweave_core::time::short_duration;
use hankweave_runtime::world::disk::{Disk as _, RealDisk};
use hankweave_task_model::registry::{AnewRequest, FilesLocation, Patch, TaskCost, TaskPatch, TaskRow};
use hankweave_task_model::task::{NeededBudget, TaskResult, TaskStatus};
use hankweave_task_model::{CheckpointId, TaskError};
use hankweave_tasks::coordinator::UpdateTask;
use hankweave_tasks::lifecycle::{TaskAnswer, TaskStep};
use hankweave_tasks::worker::TaskSpec;
use serde_json::json;

use super::EarlierTasks;
use super::create::print_hint;
use super::reasons::{held_until, needed_budget, patience, room_needed};
use super::row_line::line;
use super::show::{last_answer, newest_files};
use crate::args::{
    Global, TaskAnswerArgs, TaskCompleteArgs, TaskDeleteArgs, TaskDetachArgs, TaskResumeArgs, settings_of_run,
};
use crate::failures::hank_with_mistakes;
use crate::holding::TaskHolders;
use crate::owning_task::{OwningTask, has_ended, patience_option};
use crate::present_workers::{left_elsewhere, takers};
use crate::receipt::has_record;
use crate::registry::Registry;
use crate::running_tasks::{absent_worker, cost_so_far, left_at_work};
use crate::status::next_attempt;
use crate::terminal::exit::{CliError, CliErrorKind};
use crate::terminal::keyboard::forget_typed;
use crate::terminal::output;
use crate::terminal::screen::{ask, one_line};
use crate::validate::{ceiling, load_planned, max_wait};

async fn print_row(global: &Global, registry: &Registry, row: &TaskRow) -> Result<ExitCode, CliError> {
    if global.json() {
        return output::print_json(row);
    }
    if global.quiet {
        return Ok(ExitCode::SUCCESS);
    }
    output::print(line(row, cost_so_far(registry, row).await))?;
    Ok(ExitCode::SUCCESS)
}

/// Task after a step, and sentences for the user about the effect.
type SteppedTask = (TaskRow, Vec<String>);

/// Takes a step for each of these tasks. A refusal does not stop the others, and all refusals are reported together (TASK-129).
async fn for_each(
    global: &Global,
    registry: &Registry,
    ids: &[TaskId],
    step: impl AsyncFn(&TaskId) -> Result<SteppedTask, CliError>,
) -> Result<ExitCode, CliError> {
    let mut seen = BTreeSet::new();
    let ids: Vec<&TaskId> = ids.iter().filter(|id| seen.insert(*id)).collect();
    let (mut rows, mut refused) = (Vec::new(), Vec::new());
    for id in &ids {
        match step(id).await {
            Ok((row, hints)) => {
                if !global.json() {
                    print_row(global, registry, &row).await?;
                }
                if !global.json() && !global.quiet {
                    let left = left_at_work(registry, &row);
                    hints.iter().chain(&left).for_each(|hint| print_hint(hint));
                }
                rows.push(row);
            }
            Err(error) => refused.push(error),
        }
    }
    match rows.as_slice() {
        _ if !global.json() => {}
        [row] if ids.len() == 1 => drop(output::print_json(row)?),
        [] => {}
        rows => drop(output::print_json(&json!({"tasks": rows}))?),
    }
    CliError::of_several(refused, ids.len()).map_or(Ok(ExitCode::SUCCESS), Err)
}

/// Cancels a task for a user, or asks the worker that holds it to stop it.
pub(crate) async fn cancel_or_ask(registry: &Registry, id: &TaskId) -> Result<TaskRow, TaskError> {
    let by = user_name(registry);
    match registry.lifecycle.asked_by(&by).cancel(id).await {
        Err(TaskError::ResourceLocked { .. }) => {
            registry.coordinator.request_cancel(id.clone(), Some(by)).await
        }
        row => row,
    }
}

pub(super) async fn cancel(
    global: &Global,
    registry: &Registry,
    ids: &[TaskId],
) -> Result<ExitCode, CliError> {
    for_each(global, registry, ids, async |id| {
        let row = cancel_or_ask(registry, id).await;
        let row = row.map_err(|error| registry.failure(&error))?;
        let is_asked = row.cancel_requested_at.is_some();
        let hint = match is_asked {
            true => Some(stopping_words(registry, &row).await?),
            false => None,
        };
        Ok((row, hint.into_iter().collect()))
    })
    .await
}

/// Describes when the worker of a task will stop it, after the request to do so.
async fn stopping_words(registry: &Registry, row: &TaskRow) -> Result<String, CliError> {
    let show = registry.command(&format!("task show {}", row.id()));
    let holders = TaskHolders::of(registry, std::slice::from_ref(row)).await?;
    let absent = holders.and_then(|holders| absent_worker(registry, &holders, row));
    Ok(match absent {
        None => format!("its worker stops it; `{show}` shows when it has"),
        Some(absent) => {
            let advice = absent.with_advice(row, |task| registry.command(task));
            match absent.is_lost() {
                true => format!("{advice}; `{show}` shows when it is cancelled"),
                false => format!("its worker stops it once it works again; {advice}"),
            }
        }
    })
}

/// Approves or denies what a waiting task asks about (TASK-123).
pub(super) async fn answer(
    global: &Global,
    registry: &Registry,
    args: &TaskAnswerArgs,
    granted: bool,
) -> Result<ExitCode, CliError> {
    let by = args.by.clone().unwrap_or_else(|| user_name(registry));
    let step = TaskStep::Answer(TaskAnswer {
        granted,
        by,
        reason: args.reason.clone(),
    });
    for_each(global, registry, &args.tasks.ids, async |id| {
        let row = match registry.lifecycle.take(id, &step).await {
            Ok(row) => row,
            Err(error) => return Err(refused_answer(registry, id, &error).await),
        };
        let resume = registry.command(&format!("task resume {id}"));
        let next = match granted {
            true => match left_elsewhere(registry, &row).await? {
                Some(elsewhere) => format!("approved; the task was {elsewhere}"),
                None => {
                    let begun_in = FilesLocation::of(&row.record);
                    format!("approved; {}", takers(registry, "it", begun_in.as_ref()).await?)
                }
            },
            false => format!("denied; `{resume}` lets the task ask again"),
        };
        Ok((row, vec![next]))
    })
    .await
}

/// Returns the error of an answer that was refused. For a task that asks nothing now it adds the last answer.
async fn refused_answer(registry: &Registry, id: &TaskId, error: &TaskError) -> CliError {
    let failure = registry.failure(error);
    let is_held = matches!(error, TaskError::ResourceLocked { .. });
    let row = registry.task(id).await.ok();
    let asks_nothing = |row: &TaskRow| match is_held {
        true => row.record.status() != TaskStatus::Waiting,
        false => error.code() == "INVALID_TRANSITION",
    };
    let Some(row) = row.filter(asks_nothing) else {
        return failure;
    };
    let answer = row.record.metadata().get("approval").and_then(last_answer);
    let answer = answer.map(|answer| format!("the last answer to a question of it: {answer}"));
    let status = row.record.status();
    // The holder does not matter if no question is open.
    let remedy = match failure.remedy().filter(|_| !is_held) {
        Some(remedy) => Some(remedy.to_owned()),
        None => is_held.then(|| format!("the task is {status} and asks nothing now")),
    };
    match (answer, remedy) {
        (None, None) => failure,
        (answer, remedy) => {
            let parts: Vec<String> = answer.into_iter().chain(remedy).collect();
            failure.hint(parts.join("; "))
        }
    }
}

/// Returns the login name of the user, also where no variable holds it, as in a service; the number of the user where the system has no name for it.
fn user_name(registry: &Registry) -> String {
    if let Some(name) = registry.world.environment.user() {
        return name;
    }
    let number = rustix::process::getuid().as_raw();
    let users = RealDisk
        .read(Path::new("/etc/passwd"), LARGEST_PASSWD)
        .unwrap_or_default();
    let users = String::from_utf8_lossy(&users).into_owned();
    let name = users.lines().find_map(|user| {
        let mut fields = user.split(':');
        let name = fields.next()?;
        (fields.nth(1)?.parse() == Ok(number)).then_some(name)
    });
    name.map_or_else(|| format!("user {number}"), str::to_owned)
}

/// Most of the list of users that is read, in bytes.
const LARGEST_PASSWD: u64 = 1 << 20;

pub(super) async fn resume(
    global: &Global,
    registry: &Registry,
    args: &TaskResumeArgs,
) -> Result<ExitCode, CliError> {
    for_each(global, registry, &args.tasks.ids, async |id| {
        resume_one(registry, id, args).await
    })
    .await
}

/// Resumes a task: refuses what its next attempt could not do, notes the new limits, lets the task start anew if asked, and requeues it. With an agent
/// the task is not requeued: the agent works on it by hand.
async fn resume_one(
    registry: &Registry,
    id: &TaskId,
    args: &TaskResumeArgs,
) -> Result<SteppedTask, CliError> {
    let prefix = args.checkpoint.clone();
    let files = registry.files(&registry.task(id).await?);
    let checkpoint = files.run(move |files| {
        let checkpoint = prefix.as_deref().map(|prefix| files.checkpoint_id(Some(prefix)));
        checkpoint.transpose()
    });
    let checkpoint = checkpoint.await.map_err(|error| registry.layer_failure(&error))?;
    if let Some(agent) = &args.agent {
        return resume_for(registry, id, checkpoint, agent).await;
    }
    refuse_uncounted(registry, id, args).await?;
    // The budget of a task that starts anew counts from there, so nothing of it is spent.
    if !args.anew {
        refuse_spent(registry, id, args).await?;
    }
    refuse_limited(registry, id, args).await?;
    // Checked before the limits are raised: a refusal leaves them as they were.
    if args.anew {
        check_anew(registry, &registry.task(id).await?)?;
    }
    raise_limits(registry, id, args).await?;
    if args.anew {
        let row = start_anew(registry, id).await?;
        // A pending task waits for a worker already and needs no requeuing.
        if row.record.status() == TaskStatus::Pending {
            let takes = takers(registry, "it", None).await?;
            let waits = format!("it waits for a worker; {takes}");
            return Ok((row, vec![waits, STARTS_ANEW.to_owned()]));
        }
    }
    let before = registry.task(id).await?;
    let room = room_needed(registry, &before);
    let run = next_run(registry, &before);
    let row = registry
        .lifecycle
        .asked_by(&user_name(registry))
        .resume(id, checkpoint)
        .await;
    let row = unless_held(registry, id, row).await?;
    let elsewhere = left_elsewhere(registry, &row).await?;
    let next = match EarlierTasks::new(registry, &[]).blocked(&row).await? {
        Some(blocked) => format!("it {blocked}"),
        None => match elsewhere {
            Some(elsewhere) => format!("it was {elsewhere}"),
            None => format!(
                "it waits for a worker; {}",
                takers(registry, "it", FilesLocation::of(&row.record).as_ref()).await?
            ),
        },
    };
    let anew = args.anew.then(|| STARTS_ANEW.to_owned());
    Ok((
        row,
        room.into_iter().chain([next]).chain(anew).chain(run).collect(),
    ))
}

/// Effect of a request to start anew.
const STARTS_ANEW: &str = "a worker with neither its files nor its run from a remote starts it anew and pays for its codons again; one with either continues it; one that left it alone looks at it again within its lease";

/// Describes the first step of the next run of a task; `None` if its newest files are elsewhere.
fn next_run(registry: &Registry, row: &TaskRow) -> Option<String> {
    if registry.files(row).went_on_in(row).is_some() {
        return None;
    }
    let workspace = registry.workspace_of(row);
    let task = OwningTask::of(&workspace).map(|task| task.known_as(row.clone(), None));
    Some(format!("its run {}", next_attempt(&workspace, task)?))
}

/// Whether a resumed task may start at all.
fn may_start(row: &TaskRow) -> bool {
    matches!(
        row.record.status(),
        TaskStatus::Pending | TaskStatus::Failed | TaskStatus::Cancelled
    )
}

/// Refuses `--anew` for a task that no worker has started, or whose files are here.
fn check_anew(registry: &Registry, row: &TaskRow) -> Result<(), CliError> {
    if !may_start(row) || registry.layers.missing(row).is_some() {
        return Ok(());
    }
    let (id, files) = (row.id(), registry.files(row));
    let has_run = files.has_run();
    // The user may repeat the request, perhaps with another limit.
    if !has_run && AnewRequest::of(&row.record).is_some() {
        return Ok(());
    }
    let message = match has_run {
        true => format!(
            "the files of {id} are in {}, and it continues there",
            files.path().display()
        ),
        false => format!("{id} has not begun anywhere"),
    };
    let continues = match row.record.status() {
        TaskStatus::Pending => "it waits for a worker, which continues it".to_owned(),
        _ => {
            let resume = registry.command(&format!("task resume {id}"));
            format!("`{resume}`, without --anew, lets a worker continue it")
        }
    };
    Err(CliError::new(CliErrorKind::Input, message).hint(continues))
}

/// Records the user's request to start a task anew, so that any worker may do so (TASK-127). The files of such a task are not in this folder.
async fn start_anew(registry: &Registry, id: &TaskId) -> Result<TaskRow, CliError> {
    let row = registry.task(id).await?;
    if !may_start(&row) {
        return Ok(row);
    }
    let update = UpdateTask {
        id: id.clone(),
        patch: TaskPatch {
            anew_by: Some(user_name(registry)),
            if_version: Some(row.version),
            ..TaskPatch::default()
        },
        token: None,
    };
    let updated = registry.lifecycle.update(update).await;
    updated.map_err(|error| registry.failure(&error))
}

/// Refuses a budget in dollars that the run of the task could not keep to, as `task create` does (HANK-28): the hank has mistakes with this budget, and none
/// without it. A hank that cannot be read here is left to the worker.
async fn refuse_uncounted(registry: &Registry, id: &TaskId, args: &TaskResumeArgs) -> Result<(), CliError> {
    let row = registry.task(id).await?;
    let Ok(mut spec) = TaskSpec::read(row.record.metadata()) else {
        return Ok(());
    };
    let planned = |spec: &TaskSpec| {
        let settings = settings_of_run(&spec.hank, &spec.arguments).ok()?;
        load_planned(&spec.hank, &settings).ok()
    };
    let was_usable =
        args.max_cost.is_some() && planned(&spec).is_some_and(|hank| !hank.problems.has_errors());
    for (name, value) in &args.limits() {
        spec.set_option(name, value);
    }
    match planned(&spec).filter(|hank| was_usable && hank.problems.has_errors()) {
        Some(hank) => Err(hank_with_mistakes(&hank)),
        None => Ok(()),
    }
}

/// Refuses to resume a task whose total budget is spent and would not be raised enough: its next attempt would fail at once (TASK-115).
async fn refuse_spent(registry: &Registry, id: &TaskId, args: &TaskResumeArgs) -> Result<(), CliError> {
    let row = registry.task(id).await?;
    if !matches!(row.record.status(), TaskStatus::Failed | TaskStatus::Cancelled) {
        return Ok(());
    }
    // A task that did not stop at its budget may have used up the limits that are new now.
    let Some(needed) = needed_budget(&row) else {
        return match needed_beyond(registry, &row, args) {
            Some(needed) => refuse_spent_limits(registry, id, &needed, given_limits(args)),
            None => Ok(()),
        };
    };
    let Ok(mut spec) = TaskSpec::read(row.record.metadata()) else {
        return Ok(());
    };
    for (name, value) in &args.limits() {
        spec.set_option(name, value);
    }
    // The hank may allow more by now. If it cannot be read here, the worker decides.
    let settings = settings_of_run(&spec.hank, &spec.arguments).ok();
    let Some(limits) = settings.and_then(|settings| ceiling(&spec.hank, &settings).ok()) else {
        return Ok(());
    };
    refuse_spent_limits(registry, id, &needed, limits)
}

/// Refuses an attempt that may not wait until the end of its usage limit: it would pause at once.
async fn refuse_limited(registry: &Registry, id: &TaskId, args: &TaskResumeArgs) -> Result<(), CliError> {
    let row = registry.task(id).await?;
    let (Some(needed), Ok(mut spec)) = (patience(registry, &row), TaskSpec::read(row.record.metadata()))
    else {
        return Ok(());
    };
    for (name, value) in &args.limits() {
        spec.set_option(name, value);
    }
    let settings = settings_of_run(&spec.hank, &spec.arguments).ok();
    let most = settings.and_then(|settings| max_wait(&spec.hank, &settings).ok());
    if most.is_none_or(|most| needed <= most) {
        return Ok(());
    }
    let ends = short_duration(needed);
    let message = format!("{id} would pause at its usage limit again, which ends in {ends}");
    let resume = registry.command(&format!("task resume {id}{}", patience_option(needed)));
    Err(CliError::new(CliErrorKind::Input, message).hint(format!("`{resume}` waits for that")))
}

/// Returns the limits that the command line sets for later attempts.
fn given_limits(args: &TaskResumeArgs) -> Ceiling {
    let time = args
        .max_time
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    Ceiling {
        max_dollars: args.max_cost,
        max_time: time,
    }
}

/// Returns the budget that a task needs if its attempts have already used up the limits of the command line; `None` if these leave something.
fn needed_beyond(registry: &Registry, row: &TaskRow, args: &TaskResumeArgs) -> Option<NeededBudget> {
    let limits = given_limits(args);
    let workspace = registry.workspace_of(row);
    let state = has_record(&workspace).then(|| crate::state::read_execution(&workspace).ok());
    if let Some(state) = state.flatten() {
        return NeededBudget::of(&CeilingUse::of(limits, &state));
    }
    // The files are on another machine, and the registry has only the cost.
    let cost = TaskCost::of(&row.record)?;
    let most = limits.max_dollars.filter(|most| cost.cost >= *most)?;
    // Room for as much as was asked for, rounded up to a cent.
    let enough = ((cost.cost + most).as_dollars() * 100.0).ceil() / 100.0;
    Some(NeededBudget {
        max_dollars: Usd::from_dollars(enough).ok(),
        used_dollars: Some(cost.cost),
        used_is_lower_bound: cost.cost_is_lower_bound,
        ..NeededBudget::default()
    })
}

/// Refuses limits that are spent already, with the command that raises them enough.
fn refuse_spent_limits(
    registry: &Registry,
    id: &TaskId,
    needed: &NeededBudget,
    limits: Ceiling,
) -> Result<(), CliError> {
    let Some((used, limit)) = needed.spent_of(limits) else {
        return Ok(());
    };
    let error = registry.failure(&TaskError::BudgetSpent {
        id: id.to_string(),
        used,
        limit,
    });
    let resume = registry.command(&format!("task resume {id}{}", needed.options()));
    let why = needed.explanation().map(|why| format!("; {why}"));
    Err(error.hint(format!("`{resume}` continues it{}", why.unwrap_or_default())))
}

/// Writes the new limits into the spec of a task that can be resumed (TASK-115).
async fn raise_limits(registry: &Registry, id: &TaskId, args: &TaskResumeArgs) -> Result<(), CliError> {
    let limits = args.limits();
    let row = registry.task(id).await?;
    match row.record.status() {
        _ if limits.is_empty() => return Ok(()),
        TaskStatus::Failed | TaskStatus::Cancelled => {}
        TaskStatus::Running => {
            let message = format!("the limits of {id} cannot be changed while it is running");
            let error = CliError::new(CliErrorKind::Input, message);
            return Err(match held_until(registry, id).await? {
                Some(until) => error.hint(until),
                None => error,
            });
        }
        // The step that follows refuses a task that cannot be resumed.
        _ => return Ok(()),
    }
    let wrong = |why: String| CliError::new(CliErrorKind::Input, why);
    let mut metadata = row.record.metadata().clone();
    let mut spec = TaskSpec::read(&metadata).map_err(|why| wrong(format!("{id} runs no hank: {why}")))?;
    for (name, value) in &limits {
        spec.set_option(name, value);
    }
    spec.put_into(&mut metadata)
        .map_err(|error| wrong(error.to_string()))?;
    let update = UpdateTask {
        id: id.clone(),
        patch: TaskPatch {
            metadata: Patch::Set(metadata),
            if_version: Some(row.version),
            ..TaskPatch::default()
        },
        token: None,
    };
    let updated = registry.lifecycle.update(update).await;
    updated.map(drop).map_err(|error| registry.failure(&error))
}

/// Starts a task for an agent that works in its workspace by hand (TASK-115). Such a task is not locked.
async fn resume_for(
    registry: &Registry,
    id: &TaskId,
    checkpoint: Option<CheckpointId>,
    agent: &AgentId,
) -> Result<SteppedTask, CliError> {
    let row = registry.task(id).await?;
    let is_here = registry.lifecycle.check_location(&row).await;
    is_here.map_err(|error| registry.failure(&error))?;
    let made = registry.make_workspace(id).await;
    let workspace = made.map_err(|error| {
        let message = format!("failed to create the workspace of {id}: {error}");
        CliError::new(CliErrorKind::Io, message)
    })?;
    let row = registry
        .lifecycle
        .asked_by(&user_name(registry))
        .resume_for(id, checkpoint, agent.clone())
        .await;
    let row = unless_held(registry, id, row).await?;
    let [done, free] = ["complete", "detach"].map(|what| registry.command(&format!("task {what} {id}")));
    let works = format!(
        "{} works on it in {}",
        one_line(agent.as_str()),
        workspace.display()
    );
    let hints = vec![
        works,
        "nothing runs its hank there: do its work by hand or with an agent of your own".to_owned(),
        format!("end with `{done}` or `{free}`;"),
        "a worker requeues it once nothing has changed for its --orphan-after".to_owned(),
    ];
    Ok((row, hints))
}

/// Completes a running task without a live worker (TASK-105).
pub(super) async fn complete(
    global: &Global,
    registry: &Registry,
    args: &TaskCompleteArgs,
) -> Result<ExitCode, CliError> {
    let result = TaskResult {
        success: true,
        status: Some("completed".to_owned()),
        data: args.result.clone(),
        error: None,
        message: args.message.clone(),
        by_hand: true,
        extra: Extra::default(),
    };
    let (id, step) = (&args.task.id, TaskStep::Complete(result));
    // Checked before, because the hooks of the step write files before the registry can refuse it (TASK-32).
    let row = match registry.lifecycle.check(id, &step).await {
        Ok(()) => registry.lifecycle.take(id, &step).await,
        Err(refused) => Err(refused),
    };
    // After a refusal: a task with one of these statuses can be taken by hand first.
    let is_free = matches!(
        registry.task(id).await?.record.status(),
        TaskStatus::Pending | TaskStatus::Failed | TaskStatus::Cancelled
    );
    let row = unless_held(registry, id, row).await.map_err(|refused| {
        let take = registry.command(&format!("task resume {id} -a NAME"));
        match is_free {
            true => refused.hint(format!("`{take}` takes it by hand; then it can be completed")),
            false => refused,
        }
    })?;
    print_row(global, registry, &row).await
}

/// Error code of a task that was detached by hand.
const DETACHED: &str = "DETACHED";

/// Requeues a running task without a live worker (TASK-105).
pub(super) async fn detach(
    global: &Global,
    registry: &Registry,
    args: &TaskDetachArgs,
) -> Result<ExitCode, CliError> {
    let step = TaskStep::Requeue(DETACHED.to_owned());
    let lifecycle = registry.lifecycle.asked_by(&user_name(registry));
    for_each(global, registry, &args.tasks.ids, async |id| {
        if let Some(agent) = &args.agent {
            check_agent(registry, id, agent).await?;
        }
        let row = lifecycle.take(id, &step).await;
        let row = unless_held(registry, id, row).await?;
        let elsewhere = left_elsewhere(registry, &row).await?;
        let hint = elsewhere.map(|elsewhere| format!("it was {elsewhere}"));
        Ok((row, hint.into_iter().collect()))
    })
    .await
}

/// Refuses a task on which this agent does not work.
async fn check_agent(registry: &Registry, id: &TaskId, agent: &str) -> Result<(), CliError> {
    let has = agent_of(&registry.task(id).await?);
    let message = match has {
        Some(own) if own == agent => return Ok(()),
        Some(other) => format!("{id} is a task of {other}, not of {agent}"),
        None => format!("{id} is no task of {agent}: it has not started"),
    };
    Err(CliError::new(CliErrorKind::Input, message))
}

/// Returns the task after a step, or the error of the step. If the task is held, the error says for how long, and what to type.
async fn unless_held(
    registry: &Registry,
    id: &TaskId,
    taken: Result<TaskRow, TaskError>,
) -> Result<TaskRow, CliError> {
    match taken {
        Err(
            error @ (TaskError::ResourceLocked { .. } | TaskError::InvalidTransition { from: "running", .. }),
        ) => {
            let failure = registry.failure(&error);
            Err(match held_until(registry, id).await? {
                Some(until) => failure.hint(until),
                None => failure,
            })
        }
        taken => taken.map_err(|error| registry.failure(&error)),
    }
}

/// Returns the agent, worker or user of the newest attempt of a task.
fn agent_of(row: &TaskRow) -> Option<String> {
    let record = serde_json::to_value(row).ok()?;
    record["agentId"].as_str().map(str::to_owned)
}

/// Asks the user to confirm that a task is deleted, unless `--force` is given.
pub(super) fn confirm_delete(args: &TaskDeleteArgs) -> Result<(), CliError> {
    if args.force {
        return Ok(());
    }
    let id = &args.task.id;
    let usage = |message: String| {
        CliError::new(CliErrorKind::Usage, message).hint("--force deletes without a question")
    };
    if !std::io::stdin().is_terminal() {
        return Err(usage(format!(
            "deleting {id} needs a confirmation, and there is no terminal"
        )));
    }
    let io = |error: std::io::Error| CliError::from_error(CliErrorKind::Io, &error);
    forget_typed();
    ask(format!("Delete {id} with all its files? [y/N] ")).map_err(io)?;
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer).map_err(io)?;
    match answer.trim() {
        "y" | "Y" | "yes" => Ok(()),
        _ => Err(CliError::new(
            CliErrorKind::Failed,
            format!("{id} was not deleted"),
        )),
    }
}

pub(super) async fn delete(global: &Global, registry: &Registry, id: &TaskId) -> Result<ExitCode, CliError> {
    let row = registry.coordinator.task(id.clone()).await;
    let row = row.map_err(|error| registry.failure(&error))?;
    let is_over = row.as_ref().is_none_or(|row| has_ended(row.record.status()));
    let elsewhere = row.as_ref().and_then(|row| newest_files(registry, row));
    let elsewhere = elsewhere.filter(|place| place.machine != registry.layers.location().machine);
    let files = row.map(|row| registry.layers.find(&row).path());
    let row = registry.lifecycle.delete(id).await;
    let row = row.map_err(|error| match is_over {
        true => registry.failure(&error),
        false => {
            let cancel = registry.command(&format!("task cancel {id}"));
            let hint = format!("`{cancel}` ends it; then it can be deleted");
            registry.failure(&error).hint(hint)
        }
    })?;
    if global.json() {
        return output::print_json(&row);
    }
    let left = files.filter(|files| registry.world.disk.metadata(files).is_ok());
    output::print(match (left, elsewhere) {
        (_, Some(FilesLocation { machine, folder })) => {
            format!("{id} is deleted; its files in {folder}/{id} on {machine} are left\n")
        }
        (None, None) => format!("{id} is deleted, with its files\n"),
        (Some(left), None) => format!("{id} is deleted; the files in {} are left\n", left.display()),
    })?;
    Ok(ExitCode::SUCCESS)
}
