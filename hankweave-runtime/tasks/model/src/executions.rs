//! The tries of a task, as lines of its log tell them (TASK-106).

use hankweave_core::time::Timestamp;
use serde::Serialize;

use crate::logs::LogEntry;

/// A try of a task, from its start to its end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskExecution {
    /// 1 for the first; a task that was resumed without a start in between leaves a number out.
    pub attempt: u32,
    /// Who worked on it.
    pub agent_id: String,
    /// When it began.
    pub started_at: Timestamp,
    /// When it ended; `None` while it continues.
    pub ended_at: Option<Timestamp>,
    /// `running`, or how it ended.
    pub status: String,
    /// Error, if it failed.
    pub error: Option<String>,
}

/// Returns the attempts in the lines of a log or registry. A resumption begins the next one, which nobody has started yet.
#[must_use]
pub fn executions(lines: &[LogEntry]) -> Vec<TaskExecution> {
    let (mut tries, mut attempt) = (Vec::new(), 1);
    for line in lines {
        let data = line.data.clone().unwrap_or_default();
        let text = |name: &str| data[name].as_str().map(str::to_owned);
        match text("toStatus").as_deref() {
            // An attempt that waited for an approval continues.
            Some("pending") => {
                attempt += u32::from(!matches!(data["fromStatus"].as_str(), None | Some("waiting")));
            }
            Some("running") => tries.push(TaskExecution {
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

fn end(last: Option<&mut TaskExecution>, at: Timestamp, status: &str, error: Option<String>) {
    if let Some(last) = last.filter(|last| last.ended_at.is_none()) {
        (last.ended_at, last.error) = (Some(at), error);
        status.clone_into(&mut last.status);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::logs::LogLevel;

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
                level: LogLevel::Info,
                message: String::new(),
                data: Some(data),
                seq: None,
            })
            .collect();
        let told = json!(executions(&lines));
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
