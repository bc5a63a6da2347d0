//! `hankweave task executions` and `task show --attempts` (TASK-106)

use std::process::ExitCode;

use hankweave_core::id::TaskId;
use hankweave_core::time::{Timestamp, short_duration};
use hankweave_task_model::TaskExecution;
use hankweave_task_model::registry::TaskRow;
use serde_json::json;

use super::show::{cost_so_far, in_words};
use crate::args::Global;
use crate::exit::CliError;
use crate::output;
use crate::registry::Registry;
use crate::report::money;
use crate::screen::{local_time, one_line};

/// Returns the attempts of a task, oldest first.
pub(super) async fn attempts(registry: &Registry, id: &TaskId) -> Result<Vec<TaskExecution>, CliError> {
    let lines = registry.coordinator.log_lines(id.clone(), 0).await;
    Ok(hankweave_task_model::executions(
        &lines.map_err(|error| registry.failure(&error))?,
    ))
}

/// Adds the cost so far of the attempt that is made.
async fn with_cost_so_far(
    registry: &Registry,
    row: &TaskRow,
    mut attempts: Vec<TaskExecution>,
) -> Vec<TaskExecution> {
    let running = attempts.last_mut().filter(|last| last.ended_at.is_none());
    if let (Some(last), Some(cost)) = (running, cost_so_far(registry, row).await) {
        last.cost = Some(cost.last_attempt_cost);
        last.cost_is_lower_bound = cost.last_attempt_cost_is_lower_bound;
    }
    attempts
}

pub(super) async fn executions(
    global: &Global,
    registry: &Registry,
    id: &TaskId,
) -> Result<ExitCode, CliError> {
    let row = registry.task(id).await?;
    let attempts = attempts(registry, id).await?;
    let attempts = with_cost_so_far(registry, &row, attempts).await;
    if global.json() {
        return output::print_json(&json!({"executions": attempts}));
    }
    if attempts.is_empty() {
        output::print(format!("no attempt of {id} has started\n"))?;
        return Ok(ExitCode::SUCCESS);
    }
    let now = registry.coordinator.now().await;
    let now = now.map_err(|error| registry.failure(&error))?;
    let lines = (1..).zip(&attempts);
    output::print(
        lines
            .map(|(number, attempt)| line(number, attempt, now))
            .collect::<String>(),
    )?;
    Ok(ExitCode::SUCCESS)
}

/// Number, outcome, worker, start, end, duration, cost and error.
fn line(number: usize, execution: &TaskExecution, now: Timestamp) -> String {
    let end = execution.ended_at.map_or_else(|| "-".to_owned(), local_time);
    let took = execution.ended_at.unwrap_or(now).since(execution.started_at);
    let cost = match execution.cost {
        Some(cost) => money(cost, execution.cost_is_lower_bound),
        None => "unknown".to_owned(),
    };
    // The error of an attempt that ended without a result is a code.
    let error = execution
        .error
        .as_deref()
        .map(|error| format!("  {}", one_line(in_words(error).unwrap_or(error))));
    format!(
        "{number:>3}  {:<10} {:<16}  {:<12}  {end:<12}  {:>7}  {cost:>10}{}\n",
        execution.outcome(),
        one_line(&execution.agent_id),
        local_time(execution.started_at),
        short_duration(took),
        error.unwrap_or_default(),
    )
}
