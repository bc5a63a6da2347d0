//! Reasons why tasks have failed, ask or wait, and the commands that help. [`reason`] knows a row alone; [`reasons`], for lists, also earlier tasks
//! and workers.

use std::time::Duration;

use hankweave_core::cost::Usd;
use hankweave_core::id::TaskId;
use hankweave_task_model::registry::{FilesLocation, TaskRow};
use hankweave_task_model::task::{NeededBudget, TaskRecord, TaskStatus};
use hankweave_tasks::coordinator::WorkerPresence;
use serde_json::Value;

use super::earlier::EarlierTasks;
use crate::hints::HintCommands;
use crate::holding::TaskHolders;
use crate::owning_task::{has_ended, patience_option};
use crate::present_workers::present;
use crate::receipt::has_record;
use crate::registry::Registry;
use crate::running_tasks::{absent_worker, ended_cost, left_at_work, set_budget};
use crate::task_lines::in_words;
use crate::terminal::exit::CliError;
use crate::terminal::screen::{one_line, size};

/// Returns the question of a waiting task, with the codon.
pub(super) fn question(row: &TaskRow) -> Option<String> {
    match &row.record {
        TaskRecord::Waiting(waiting) => Some(format!("{}: {}", waiting.codon_id, waiting.question)),
        _ => None,
    }
}

/// Returns why the task has failed, asks or waits, where its row shows it.
pub(crate) fn reason(row: &TaskRow) -> Option<String> {
    match &row.record {
        TaskRecord::Failed(failed) => {
            let error = in_words(&failed.error).unwrap_or_else(|| failed.error.clone());
            // The error of a pause at the budget names both amounts already.
            let is_said = failed
                .failure
                .as_ref()
                .is_some_and(|failure| failure.needed.is_some());
            let over = over_budget(row).filter(|_| !is_said);
            Some(match over {
                Some(over) => format!("{error}; {over}"),
                None => error,
            })
        }
        TaskRecord::Completed(completed) => {
            let result = &completed.result;
            let by_hand = result.by_hand.then(|| "by hand".to_owned());
            let said: Vec<String> = by_hand.into_iter().chain(result.message.clone()).collect();
            let said = Some(said.join(": ")).filter(|said| !said.is_empty());
            let parts: Vec<String> = said.into_iter().chain(over_budget(row)).collect();
            (!parts.is_empty()).then(|| parts.join("; "))
        }
        TaskRecord::Cancelled(_) => over_budget(row),
        TaskRecord::Pending(_) => {
            // Why the last attempt ended and the task was requeued.
            let error = row.record.metadata().get("error").and_then(Value::as_str);
            let error = error.and_then(in_words);
            let after = (!row.after.is_empty()).then(|| format!("after {}", ids(&row.after)));
            let parts: Vec<String> = error.into_iter().chain(after).collect();
            with_budget(row, (!parts.is_empty()).then(|| parts.join("; ")))
        }
        TaskRecord::Running(_) => with_budget(row, None),
        _ => with_budget(row, question(row)),
    }
}

/// Adds the priority of a task that waits for a worker, and the budget that was set for a task that has not ended.
fn with_budget(row: &TaskRow, reason: Option<String>) -> Option<String> {
    let budget = set_budget(row).filter(|_| !has_ended(row.record.status()));
    // Workers take only pending tasks in the order of their priority.
    let is_ordered = row.priority != 0 && row.record.status() == TaskStatus::Pending;
    let priority = is_ordered.then(|| format!("priority {}", row.priority));
    let parts: Vec<String> = reason
        .into_iter()
        .chain(priority)
        .chain(budget.map(|most| format!("budget {most}")))
        .collect();
    (!parts.is_empty()).then(|| parts.join("; "))
}

/// Returns the total budget of the task: the one that was set for it, otherwise the one that its last attempt had from the hank.
pub(super) fn budget(row: &TaskRow) -> Option<Usd> {
    set_budget(row).or_else(|| ended_cost(row)?.budget)
}

/// Describes by how much the task has cost more than its budget; `None` if it has not.
fn over_budget(row: &TaskRow) -> Option<String> {
    let over = ended_cost(row)?.over_budget()?;
    Some(format!("cost {over}"))
}

fn ids(ids: &[TaskId]) -> String {
    let ids: Vec<&str> = ids.iter().map(TaskId::as_str).collect();
    ids.join(", ")
}

/// Returns what the run of a task on this machine waits for, if it waits for a time: the end of a usage limit, or a retry.
pub(super) fn waiting(registry: &Registry, row: &TaskRow) -> Option<String> {
    let workspace = registry.workspace_of(row);
    let is_running = row.record.status() == TaskStatus::Running && has_record(&workspace);
    is_running.then(|| crate::status::waiting(&workspace))?
}

/// Describes how long a running task is still held, and what to type (TASK-105); `None` if it is not held.
pub(super) async fn held_until(registry: &Registry, id: &TaskId) -> Result<Option<String>, CliError> {
    let row = registry.task(id).await?;
    let Some(holders) = TaskHolders::of(registry, std::slice::from_ref(&row)).await? else {
        return Ok(None);
    };
    Ok(match absent_worker(registry, &holders, &row) {
        Some(absent) => Some(absent.with_advice(&row, |what| registry.command(what))),
        None => holders.until_free(&row, |what| registry.command(what)),
    })
}

/// Returns the command that lets a worker continue a failed or cancelled task, with a budget that is large enough.
pub(crate) fn resume_command(registry: &Registry, row: &TaskRow) -> Option<String> {
    if !matches!(row.record.status(), TaskStatus::Failed | TaskStatus::Cancelled) {
        return None;
    }
    let options = match needed_budget(row) {
        Some(needed) => needed.options(),
        None => patience(registry, row).map(patience_option).unwrap_or_default(),
    };
    Some(registry.command(&format!("task resume {}{options}", row.id())))
}

/// Returns how long the next attempt would have to wait for the usage limit at which a task paused on this machine.
pub(super) fn patience(registry: &Registry, row: &TaskRow) -> Option<Duration> {
    // Only the record of a paused run is worth reading.
    reason(row).filter(|reason| reason.starts_with(PAUSED))?;
    crate::status::patience(&registry.workspace_of(row))
}

/// Start of the error of a task whose run paused.
const PAUSED: &str = "paused: ";

/// Returns the command that makes room for a failed task whose record has reached its disk limit: a new attempt would reach it at once. `None` for other
/// tasks.
pub(super) fn room_needed(registry: &Registry, row: &TaskRow) -> Option<String> {
    if row.record.status() != TaskStatus::Failed {
        return None;
    }
    let workspace = registry.workspace_of(row);
    let full = crate::status::disk_use(&workspace).filter(|found| found.used >= found.limit)?;
    let cleanup = HintCommands::about(&workspace).command("cleanup --keep 1");
    Some(format!(
        "first `{cleanup}`, or a larger maxDiskGb in its hank: its record takes {} of {}",
        size(full.used),
        size(full.limit)
    ))
}

/// Returns the budget that a failed task needs to continue; `None` if it has not spent its budget.
pub(super) fn needed_budget(row: &TaskRow) -> Option<NeededBudget> {
    match &row.record {
        TaskRecord::Failed(failed) => failed.failure.as_ref()?.needed,
        _ => None,
    }
}

/// Returns why each of these tasks has failed, asks or waits, with the status of earlier tasks, and whether its worker is absent.
pub(super) async fn reasons(registry: &Registry, rows: &[TaskRow]) -> Result<Vec<Option<String>>, CliError> {
    let holders = TaskHolders::of(registry, rows).await?;
    let mut earlier = EarlierTasks::new(registry, rows);
    let has_pending = rows.iter().any(|row| row.record.status() == TaskStatus::Pending);
    let workers = match has_pending {
        true => present(registry).await?,
        false => Vec::new(),
    };
    let mut reasons = Vec::new();
    for row in rows {
        let absent = holders
            .as_ref()
            .and_then(|holders| absent_worker(registry, holders, row));
        let is_pending = row.record.status() == TaskStatus::Pending;
        let has_earlier = is_pending && !row.after.is_empty();
        let elsewhere = is_pending.then(|| registry.begun_elsewhere(row)).flatten();
        let elsewhere = elsewhere.or_else(|| without_own_worker(registry, row, &workers));
        let why = match (has_earlier, absent) {
            (true, _) => {
                let waits = match earlier.blocked(row).await? {
                    Some(blocked) => Some(blocked),
                    None => earlier
                        .listed(row)
                        .await?
                        .map(|earlier| format!("after {earlier}")),
                };
                with_budget(row, waits)
            }
            (false, Some(absent)) => {
                let way_out = absent.with_way_out(row, |what| registry.command(what));
                with_budget(row, Some(way_out))
            }
            (false, None) => match elsewhere {
                Some(elsewhere) => with_budget(row, Some(elsewhere)),
                None if row.record.status() == TaskStatus::Running => {
                    with_budget(row, waiting(registry, row))
                }
                None => reason(row).map(|reason| with_room(registry, row, reason)),
            },
        };
        let left = left_at_work(registry, row);
        let parts: Vec<String> = cancellation(row).into_iter().chain(why).chain(left).collect();
        reasons.push((!parts.is_empty()).then(|| parts.join("; ")));
    }
    Ok(reasons)
}

/// Returns a hint if a pending task was begun in the folder that this registry uses here, and only workers of other folders are present.
pub(super) fn without_own_worker(
    registry: &Registry,
    row: &TaskRow,
    workers: &[WorkerPresence],
) -> Option<String> {
    let here = registry.layers.location();
    let is_begun_here = FilesLocation::of(&row.record)? == here;
    // A worker of an older version does not report its folder.
    let is_own = |worker: &WorkerPresence| worker.location.as_ref().is_none_or(|there| *there == here);
    let is_left = is_begun_here && row.record.status() == TaskStatus::Pending;
    let worker = registry.command("worker");
    (is_left && !workers.is_empty() && !workers.iter().any(is_own))
        .then(|| {
            format!(
                "begun here, and no worker of this folder is there: `{worker}` continues it, and so does a worker with the --remote to which its runs were pushed"
            )
        })
}

/// Returns the user who cancelled a task, or asked its worker to stop.
fn cancellation(row: &TaskRow) -> Option<String> {
    let by = one_line(row.cancelled_by()?);
    Some(match row.record.status() {
        TaskStatus::Cancelled => format!("by {by}"),
        _ => format!("stopping: cancelled by {by}"),
    })
}

/// Adds [`room_needed`] to the reason of a task that paused.
fn with_room(registry: &Registry, row: &TaskRow, reason: String) -> String {
    // Measuring a record takes time, so only that of a paused task is measured.
    let is_paused = reason.starts_with(PAUSED);
    match is_paused.then(|| room_needed(registry, row)).flatten() {
        Some(room) => format!("{reason}; {room}"),
        None => reason,
    }
}
