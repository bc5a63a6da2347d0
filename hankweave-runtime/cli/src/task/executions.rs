//! `hankweave task executions`

use std::process::ExitCode;

use hankweave_core::id::TaskId;
use hankweave_core::time::Timestamp;
use hankweave_task_model::LogEntry;
use serde::Serialize;
use serde_json::{Value, json};

use crate::args::Global;
use crate::exit::Failure;
use crate::output;
use crate::registry::Registry;
use crate::screen::one_line;

/// A try of a task, from its start to its end (TASK-106).
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Execution {
    attempt: u32,
    agent_id: String,
    started_at: Timestamp,
    ended_at: Option<Timestamp>,
    status: String,
    error: Option<String>,
}

pub(super) async fn executions(
    global: &Global,
    registry: &Registry,
    id: &TaskId,
) -> Result<ExitCode, Failure> {
    registry.task(id).await?;
    let lines = registry.coordinator.log_lines(id.clone(), 0).await;
    let tries = tries(&lines.map_err(|error| registry.failure(&error))?);
    if global.json() {
        return output::print_json(&json!({"executions": tries}));
    }
    output::print(tries.iter().map(line).collect::<String>())?;
    Ok(ExitCode::SUCCESS)
}

fn line(execution: &Execution) -> String {
    let end = execution
        .ended_at
        .map_or_else(|| "-".to_owned(), |end| end.to_string());
    let error = execution
        .error
        .as_deref()
        .map(|error| format!("  {}", one_line(error)));
    format!(
        "{:>3}  {:<10} {:<16}  {}  {end}{}\n",
        execution.attempt,
        execution.status,
        one_line(&execution.agent_id),
        execution.started_at,
        error.unwrap_or_default(),
    )
}

/// What the lines of a registry say about tries. A resumption begins the next one, which nobody has started yet.
fn tries(lines: &[LogEntry]) -> Vec<Execution> {
    let (mut tries, mut attempt) = (Vec::new(), 1);
    for line in lines {
        let data = line.data.clone().unwrap_or_default();
        let text = |name: &str| data[name].as_str().map(str::to_owned);
        match text("toStatus").as_deref() {
            Some("pending") => attempt += u32::from(data["fromStatus"] != Value::Null),
            Some("running") => tries.push(Execution {
                attempt,
                agent_id: text("agentId").unwrap_or_default(),
                started_at: line.timestamp,
                ended_at: None,
                status: "running".to_owned(),
                error: None,
            }),
            Some(status) => end(tries.last_mut(), line.timestamp, status, text("error")),
            None => {}
        }
    }
    tries
}

fn end(last: Option<&mut Execution>, at: Timestamp, status: &str, error: Option<String>) {
    if let Some(last) = last.filter(|last| last.ended_at.is_none()) {
        (last.ended_at, last.error) = (Some(at), error);
        status.clone_into(&mut last.status);
    }
}

#[cfg(test)]
mod tests {
    use hankweave_task_model::Level;

    use super::*;

    // covers: TASK-106
    #[test]
    fn tries_are_told_from_the_lines_of_the_registry() {
        let data = [
            json!({"name": "x", "owner": "ann", "toStatus": "pending"}),
            json!({"fromStatus": "pending", "toStatus": "cancelled"}),
            json!({"fromStatus": "cancelled", "toStatus": "pending"}),
            json!({"fromStatus": "pending", "toStatus": "running", "agentId": "w1"}),
            json!({"fromStatus": "running", "toStatus": "failed", "error": "red"}),
            json!({"fromStatus": "failed", "toStatus": "pending"}),
            json!({"of": "somebody else"}),
            json!({"fromStatus": "pending", "toStatus": "running", "agentId": "w2"}),
        ];
        let lines: Vec<_> = (0..)
            .zip(data)
            .map(|(millis, data)| LogEntry {
                timestamp: Timestamp::from_millis(millis),
                level: Level::Info,
                message: String::new(),
                data: Some(data),
                seq: None,
            })
            .collect();
        let told = json!(tries(&lines));
        let at = |millis| Timestamp::from_millis(millis);
        assert_eq!(
            told,
            json!([
                {"attempt": 2, "agentId": "w1", "startedAt": at(3), "endedAt": at(4), "status": "failed", "error": "red"},
                {"attempt": 3, "agentId": "w2", "startedAt": at(7), "endedAt": null, "status": "running", "error": null},
            ])
        );
    }
}
