//! Attempts of a task by the lines of its log: each start of a worker or an agent, to its end (TASK-106).

use hankweave_core::cost::Usd;
use hankweave_core::time::Timestamp;
use serde::Serialize;

use crate::logs::LogEntry;
use crate::registry::{ATTEMPT_COST, ATTEMPT_COST_IS_LOWER_BOUND};

/// An attempt of a task, from its start to its end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskExecution {
    /// Number in the registry, which counts resumed and requeued tasks, not starts: two attempts with an approval between them have one number.
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
    /// The task was requeued at once, and did not fail.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub requeued: bool,
    /// Cost, in US dollars; `None` while it continues, and where no worker noted it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost: Option<Usd>,
    /// It cost more, and it is unknown how much.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub cost_is_lower_bound: bool,
}

impl TaskExecution {
    /// Returns the outcome in a word.
    #[must_use]
    pub fn outcome(&self) -> &str {
        if self.requeued { "requeued" } else { &self.status }
    }
}

/// Returns the attempts in the lines of a log or registry, oldest first.
#[must_use]
pub fn executions(lines: &[LogEntry]) -> Vec<TaskExecution> {
    let (mut attempts, mut attempt): (Vec<TaskExecution>, u32) = (Vec::new(), 1);
    for line in lines {
        let data = line.data.clone().unwrap_or_default();
        let text = |name: &str| data[name].as_str().map(str::to_owned);
        match text("toStatus").as_deref() {
            // The number stays over an approval.
            Some("pending") => {
                if let Some(last) = attempts.last_mut() {
                    last.requeued = text("fromStatus").as_deref() == Some("failed")
                        && last.ended_at == Some(line.timestamp);
                }
                attempt += u32::from(!matches!(data["fromStatus"].as_str(), None | Some("waiting")));
            }
            Some("running") => attempts.push(TaskExecution {
                attempt,
                agent_id: text("agentId").unwrap_or_default(),
                started_at: line.timestamp,
                ended_at: None,
                status: "running".to_owned(),
                error: None,
                requeued: false,
                cost: None,
                cost_is_lower_bound: false,
            }),
            Some(status) => {
                let last = attempts.last_mut().filter(|last| last.ended_at.is_none());
                if let Some(last) = last {
                    (last.ended_at, last.error) = (Some(line.timestamp), text("error"));
                    status.clone_into(&mut last.status);
                    last.cost = serde_json::from_value(data[ATTEMPT_COST].clone()).ok();
                    last.cost_is_lower_bound = data[ATTEMPT_COST_IS_LOWER_BOUND] == true;
                }
            }
            None => {}
        }
    }
    attempts
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::logs::LogLevel;

    // covers: TASK-106
    #[test]
    fn attempts_are_told_from_the_lines_of_the_registry() {
        let data = [
            json!({"name": "x", "owner": "ann", "toStatus": "pending"}),
            json!({"fromStatus": "pending", "toStatus": "cancelled"}),
            json!({"fromStatus": "cancelled", "toStatus": "pending"}),
            json!({"fromStatus": "pending", "toStatus": "running", "agentId": "w1"}),
            json!({"fromStatus": "running", "toStatus": "failed", "error": "red", "lastAttemptCost": 0.45, "lastAttemptCostIsLowerBound": true}),
            json!({"fromStatus": "failed", "toStatus": "pending"}),
            json!({"of": "somebody else"}),
            json!({"fromStatus": "pending", "toStatus": "running", "agentId": "w2"}),
            json!({"fromStatus": "running", "toStatus": "failed", "error": "DETACHED"}),
            json!({"fromStatus": "failed", "toStatus": "pending"}),
        ];
        // The last two are one commit.
        let times = (0..9).chain([8]);
        let lines: Vec<_> = times
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
                {"attempt": 2, "agentId": "w1", "startedAt": at(3), "endedAt": at(4), "status": "failed", "error": "red",
                    "cost": 0.45, "costIsLowerBound": true},
                {"attempt": 3, "agentId": "w2", "startedAt": at(7), "endedAt": at(8), "status": "failed", "error": "DETACHED", "requeued": true},
            ])
        );
    }
}
