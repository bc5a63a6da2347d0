//! Attempts of a task, computed from the lines of its log. An attempt goes from the start of a worker or an agent to its end, and has the codons that ended
//! in between (TASK-106).

use std::time::Duration;

use hankweave_core::cost::Usd;
use hankweave_core::time::Timestamp;
use serde::Serialize;
use serde_json::Value;

use crate::logs::LogEntry;
use crate::registry::{ATTEMPT_COST, ATTEMPT_COST_IS_LOWER_BOUND, BY_HAND};

/// Key of a line about a suspension: its length in milliseconds.
pub const SUSPENDED_MS: &str = "suspendedMs";

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks with a reference")]
const fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// An attempt of a task, from its start to its end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct TaskExecution {
    /// Number of the attempt in the registry: 1, and one more after each resume or requeue. A start after an approval keeps the number, so two attempts can
    /// have the same one.
    pub attempt: u32,
    /// Worker or agent of the attempt.
    pub agent_id: String,
    /// Whether a user or an agent worked without a worker, so that nothing counted the cost.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub by_hand: bool,
    /// Time of its start.
    pub started_at: Timestamp,
    /// Time of its end; `None` while it continues.
    pub ended_at: Option<Timestamp>,
    /// Outcome; `running` while it continues.
    pub status: String,
    /// Error, if it failed.
    pub error: Option<String>,
    /// Whether the change that ended the attempt also requeued the task. The attempt then does not count as failed.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub requeued: bool,
    /// Cost, in US dollars; `None` while it continues, and when no worker noted it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost: Option<Usd>,
    /// Whether the attempt cost more than `cost`, by an unknown amount.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub cost_is_lower_bound: bool,
    /// Time for which the run was suspended, in milliseconds, if its log is on this machine.
    #[serde(skip_serializing_if = "is_zero")]
    pub suspended_ms: u64,
    /// Codons that ended in the attempt, oldest first; none if their log is on another machine.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub codons: Vec<Value>,
    /// Number of its first log line in the registry, by which [`with_codons`] recognizes the attempt; `None` for a line without a number.
    #[serde(skip)]
    line: Option<u64>,
}

/// Cost of an attempt, as all screens show it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttemptCost {
    /// Nothing counted it, because no worker ran the attempt.
    Uncounted,
    /// No worker noted it.
    Unknown,
    /// Counted and noted.
    Known {
        /// Amount, in US dollars.
        cost: Usd,
        /// Whether the attempt may have cost more.
        is_lower_bound: bool,
    },
}

impl AttemptCost {
    /// Returns the amount as `display` writes it; a dash for an attempt by hand.
    #[must_use]
    pub fn words(self, display: impl Fn(Usd, bool) -> String) -> String {
        match self {
            Self::Uncounted => "-".to_owned(),
            Self::Unknown => "unknown".to_owned(),
            Self::Known { cost, is_lower_bound } => display(cost, is_lower_bound),
        }
    }
}

impl TaskExecution {
    /// Returns the outcome as a word.
    #[must_use]
    pub fn outcome(&self) -> &str {
        if self.requeued { "requeued" } else { &self.status }
    }

    /// Returns the cost: the noted one if the attempt has ended, otherwise at least the sum of its codons.
    #[must_use]
    pub fn cost(&self) -> AttemptCost {
        match self.cost {
            _ if self.by_hand => AttemptCost::Uncounted,
            Some(cost) => AttemptCost::Known {
                cost,
                is_lower_bound: self.cost_is_lower_bound,
            },
            None if self.codons.is_empty() => AttemptCost::Unknown,
            None => AttemptCost::Known {
                cost: self.logged_codons().map(|codon| codon.cost).sum(),
                is_lower_bound: true,
            },
        }
    }

    /// Returns the codons that ended in the attempt, oldest first.
    pub(crate) fn logged_codons(&self) -> impl Iterator<Item = LoggedCodon<'_>> {
        self.codons.iter().map(LoggedCodon::of)
    }

    /// Returns the time from the start to `end`, without suspensions.
    #[must_use]
    pub fn worked(&self, end: Timestamp) -> Duration {
        let suspended = Duration::from_millis(self.suspended_ms);
        end.since(self.started_at).saturating_sub(suspended)
    }

    /// Adds to the attempt what a log line between its start and its end reports: the end of a codon, or a suspension.
    fn take_line(&mut self, data: &Value) {
        let suspended = data[SUSPENDED_MS].as_u64().unwrap_or(0);
        self.suspended_ms = self.suspended_ms.saturating_add(suspended);
        if data["id"].is_string() && data["success"].is_boolean() {
            self.codons.push(data.clone());
        }
    }
}

/// End of a codon in the log of a task.
pub(crate) struct LoggedCodon<'c> {
    pub(crate) id: &'c str,
    /// Outcome as a word, such as `completed`.
    pub(crate) outcome: &'c str,
    /// Cost in US dollars; 0 if none was noted.
    pub(crate) cost: Usd,
    /// Whether the codon may have cost more.
    pub(crate) is_lower_bound: bool,
}

impl<'c> LoggedCodon<'c> {
    fn of(data: &'c Value) -> Self {
        let dollars = data["cost"].as_f64();
        let cost = dollars.and_then(|dollars| Usd::from_dollars(dollars).ok());
        // Lines of older versions have no `outcome`.
        let by_success = if data["success"] == true {
            "completed"
        } else {
            "failed"
        };
        Self {
            id: data["id"].as_str().unwrap_or_default(),
            outcome: data["outcome"].as_str().unwrap_or(by_success),
            cost: cost.unwrap_or(Usd::ZERO),
            is_lower_bound: data["costIsLowerBound"] == true,
        }
    }
}

/// Adds codons and suspensions to `attempts`, which come from the registry's log lines. Only `log`, the task's log file on this machine, has them.
#[must_use]
pub fn with_codons(mut attempts: Vec<TaskExecution>, log: &[LogEntry]) -> Vec<TaskExecution> {
    for logged in executions(log) {
        let same = |attempt: &&mut TaskExecution| attempt.line.is_some() && attempt.line == logged.line;
        if let Some(attempt) = attempts.iter_mut().find(same) {
            attempt.codons = logged.codons;
            attempt.suspended_ms = logged.suspended_ms;
        }
    }
    attempts
}

/// Returns the attempts in the lines of a log or registry, oldest first.
#[must_use]
pub fn executions(lines: &[LogEntry]) -> Vec<TaskExecution> {
    let mut attempts: Vec<TaskExecution> = Vec::new();
    let mut number = 1;
    for line in lines {
        let data = line.data.clone().unwrap_or_default();
        let text = |name: &str| data[name].as_str().map(str::to_owned);
        match text("toStatus").as_deref() {
            Some("pending") => {
                if let Some(last) = attempts.last_mut() {
                    // A worker that requeues a task fails and resumes it in one change, so both lines have one time.
                    last.requeued |= text("fromStatus").as_deref() == Some("failed")
                        && last.ended_at == Some(line.timestamp);
                }
                // Neither the creation (no `fromStatus`) nor an approval changes the number.
                if !matches!(data["fromStatus"].as_str(), None | Some("waiting")) {
                    number += 1;
                }
            }
            Some("running") => attempts.push(TaskExecution {
                attempt: number,
                agent_id: text("agentId").unwrap_or_default(),
                by_hand: data[BY_HAND] == true,
                started_at: line.timestamp,
                ended_at: None,
                status: "running".to_owned(),
                error: None,
                requeued: false,
                cost: None,
                cost_is_lower_bound: false,
                suspended_ms: 0,
                codons: Vec::new(),
                line: line.seq,
            }),
            // A denial or a cancellation of a waiting task is the outcome of the attempt that asked the question.
            Some(status) if data["fromStatus"] == "waiting" => {
                if let Some(last) = attempts.last_mut() {
                    status.clone_into(&mut last.status);
                    last.error = text("error");
                }
            }
            Some(status) => {
                let last = attempts.last_mut().filter(|last| last.ended_at.is_none());
                if let Some(last) = last {
                    (last.ended_at, last.error) = (Some(line.timestamp), text("error"));
                    status.clone_into(&mut last.status);
                    last.cost = serde_json::from_value(data[ATTEMPT_COST].clone()).ok();
                    last.cost_is_lower_bound = data[ATTEMPT_COST_IS_LOWER_BOUND] == true;
                }
            }
            None => {
                if let Some(last) = attempts.last_mut() {
                    last.take_line(&data);
                }
            }
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
            json!({"of": "somebody else", "id": "x"}),
            json!({"fromStatus": "pending", "toStatus": "running", "agentId": "w2"}),
            json!({"fromStatus": "running", "toStatus": "failed", "error": "DETACHED"}),
            json!({"fromStatus": "failed", "toStatus": "pending"}),
            json!({"fromStatus": "pending", "toStatus": "cancelled"}),
            json!({"fromStatus": "cancelled", "toStatus": "pending"}),
        ];
        // The detachment is one commit, hence the second 8. The lines after it say nothing about its attempt.
        let times = (0..9).chain([8, 9, 10]);
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

    // covers: TASK-106, TASK-123
    #[test]
    fn a_denial_is_the_outcome_of_the_attempt_that_asked() {
        let line = |(millis, data): (i64, Value)| LogEntry {
            timestamp: Timestamp::from_millis(millis),
            level: LogLevel::Info,
            message: String::new(),
            data: Some(data),
            seq: None,
        };
        let asked = [
            json!({"toStatus": "pending"}),
            json!({"fromStatus": "pending", "toStatus": "running", "agentId": "w1"}),
            json!({"fromStatus": "running", "toStatus": "waiting", "lastAttemptCost": 0.25}),
        ];
        for (to, error) in [("failed", Some("publish: denied by ann")), ("cancelled", None)] {
            let answer = json!({"fromStatus": "waiting", "toStatus": to, "error": error});
            let lines: Vec<_> = (0..)
                .zip(asked.iter().cloned().chain([answer]))
                .map(line)
                .collect();
            let attempts = executions(&lines);
            let [attempt] = &attempts[..] else {
                panic!("{attempts:?}")
            };
            assert_eq!((attempt.outcome(), attempt.error.as_deref()), (to, error));
            assert_eq!(
                attempt.ended_at,
                Some(Timestamp::from_millis(2)),
                "its work ended when it asked"
            );
            assert_eq!(
                attempt.cost(),
                AttemptCost::Known {
                    cost: Usd::from_micros(250_000),
                    is_lower_bound: false
                }
            );
        }
    }

    /// Codons belong to the attempt in which they ended, whatever its number. An attempt by hand has no counted cost.
    // covers: TASK-106, TASK-121
    #[test]
    fn codons_belong_to_their_attempt_and_one_by_hand_costs_nothing_that_is_counted() {
        let codon = |id: &str, cost: f64| json!({"id": id, "success": true, "cost": cost});
        let registry = [
            json!({"toStatus": "pending"}),
            json!({"fromStatus": "pending", "toStatus": "running", "agentId": "w1"}),
            json!({"fromStatus": "running", "toStatus": "waiting"}),
            json!({"fromStatus": "waiting", "toStatus": "pending"}),
            json!({"fromStatus": "pending", "toStatus": "running", "agentId": "ann", "byHand": true}),
            json!({"fromStatus": "running", "toStatus": "failed", "error": "DETACHED"}),
        ];
        let line = |(seq, data): (u64, Value)| LogEntry {
            timestamp: Timestamp::from_millis(0),
            level: LogLevel::Info,
            message: String::new(),
            data: Some(data),
            seq: (seq > 0).then_some(seq),
        };
        let lines: Vec<_> = (1..).zip(registry).map(line).collect();
        let mut log = lines.clone();
        log.insert(2, line((0, json!({"suspendedMs": 40}))));
        log.insert(2, line((0, codon("draft", 0.25))));
        log.insert(4, line((0, json!({"codon": "publish"}))));
        let attempts = with_codons(executions(&lines), &log);
        let worked: Vec<_> = attempts
            .iter()
            .map(|attempt| attempt.worked(Timestamp::from_millis(100)).as_millis())
            .collect();
        assert_eq!(worked, [60, 100], "without the time for which it was suspended");
        let told: Vec<_> = attempts
            .iter()
            .map(|attempt| (attempt.attempt, attempt.codons.len(), attempt.cost()))
            .collect();
        let of_codons = AttemptCost::Known {
            cost: Usd::from_micros(250_000),
            is_lower_bound: true,
        };
        assert_eq!(told, [(1, 1, of_codons), (1, 0, AttemptCost::Uncounted)]);
        let words: Vec<_> = attempts
            .iter()
            .map(|attempt| attempt.cost().words(Usd::display))
            .collect();
        assert_eq!(words, ["at least $0.2500", "-"]);
    }
}
