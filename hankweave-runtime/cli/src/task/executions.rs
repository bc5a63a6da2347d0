//! `hankweave task executions` (TASK-106)

use std::process::ExitCode;

use hankweave_core::id::TaskId;
use hankweave_task_model::TaskExecution;
use serde_json::json;

use crate::args::Global;
use crate::exit::CliError;
use crate::output;
use crate::registry::Registry;
use crate::screen::{local_time, one_line};

pub(super) async fn executions(
    global: &Global,
    registry: &Registry,
    id: &TaskId,
) -> Result<ExitCode, CliError> {
    registry.task(id).await?;
    let lines = registry.coordinator.log_lines(id.clone(), 0).await;
    let tries = hankweave_task_model::executions(&lines.map_err(|error| registry.failure(&error))?);
    if global.json() {
        return output::print_json(&json!({"executions": tries}));
    }
    output::print(tries.iter().map(line).collect::<String>())?;
    Ok(ExitCode::SUCCESS)
}

fn line(execution: &TaskExecution) -> String {
    let end = execution.ended_at.map_or_else(|| "-".to_owned(), local_time);
    let error = execution
        .error
        .as_deref()
        .map(|error| format!("  {}", one_line(error)));
    format!(
        "{:>3}  {:<10} {:<16}  {:<12}  {end:<12}{}\n",
        execution.attempt,
        execution.status,
        one_line(&execution.agent_id),
        local_time(execution.started_at),
        error.unwrap_or_default(),
    )
}
