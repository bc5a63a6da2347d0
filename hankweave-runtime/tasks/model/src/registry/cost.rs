//! Cost of a task, as its registry keeps it (TASK-121).

use hankweave_core::cost::{Usd, over_budget};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::logs::LogEntry;
use crate::task::TaskRecord;

/// Keys of an attempt's cost, in the log line that ends the attempt, and of the last attempt's cost, in a record's `extra`.
pub(crate) const ATTEMPT_COST: &str = "lastAttemptCost";
pub(crate) const ATTEMPT_COST_IS_LOWER_BOUND: &str = "lastAttemptCostIsLowerBound";

/// Key of a task's cost before it started anew, in a record.
pub(super) const BEFORE_ANEW: &str = "beforeAnew";

/// Costs of a task. They are stored in the record's `extra`, so that every registry has them and older programs keep them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskCost {
    /// Cost of all attempts, in US dollars.
    pub cost: Usd,
    /// Cost of the last attempt, in US dollars.
    pub last_attempt_cost: Usd,
    /// Whether the last attempt cost more, by an unknown amount.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub last_attempt_cost_is_lower_bound: bool,
    /// Whether all attempts cost more, by an unknown amount.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cost_is_lower_bound: bool,
    /// Total budget of the last attempt, in US dollars; `None` if it had none or is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<Usd>,
    /// Cost of the attempts before the task last started anew, in US dollars. The budget does not count them. `None` if it never started anew.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before_anew: Option<Usd>,
}

impl TaskCost {
    /// Returns the costs in the data of a state; `None` if an older version wrote it, which stored only the last attempt.
    #[must_use]
    pub fn of_data(data: &Map<String, Value>) -> Option<Self> {
        let noted = |name: &str| data.get(name).cloned().unwrap_or(Value::Null);
        Self::of_fields(noted)
    }

    /// Returns the costs of a task; `None` if no worker has noted any.
    #[must_use]
    pub fn of(record: &TaskRecord) -> Option<Self> {
        Self::of_fields(|name| record.extra().get(name).cloned().unwrap_or(Value::Null))
    }

    fn of_fields(noted: impl Fn(&str) -> Value) -> Option<Self> {
        let stored = json!({"cost": noted("cost"), "lastAttemptCost": noted(ATTEMPT_COST),
            "lastAttemptCostIsLowerBound": noted(ATTEMPT_COST_IS_LOWER_BOUND) == true,
            "costIsLowerBound": noted("costIsLowerBound") == true, "budget": noted("budget"),
            "beforeAnew": noted(BEFORE_ANEW)});
        serde_json::from_value(stored).ok()
    }

    /// Returns the fields to change in the stored record. Each attempt has its own lower-bound mark, and null removes that of an earlier attempt. `None` keeps
    /// the stored value: a budget is unknown until the run has reported it.
    pub(super) fn fields(self) -> [(&'static str, Option<Value>); 6] {
        let mark = |is_lower_bound: bool| match is_lower_bound {
            true => Some(Value::Bool(true)),
            false => Some(Value::Null),
        };
        [
            ("cost", Some(json!(self.cost))),
            (ATTEMPT_COST, Some(json!(self.last_attempt_cost))),
            (
                ATTEMPT_COST_IS_LOWER_BOUND,
                mark(self.last_attempt_cost_is_lower_bound),
            ),
            ("costIsLowerBound", mark(self.cost_is_lower_bound)),
            ("budget", self.budget.map(|budget| json!(budget))),
            (BEFORE_ANEW, self.before_anew.map(|before| json!(before))),
        ]
    }

    /// Writes the cost of the attempt into the log line that ends it (TASK-106).
    pub(super) fn put_attempt_into(self, line: &mut LogEntry) {
        if let Some(Value::Object(data)) = &mut line.data {
            data.insert(ATTEMPT_COST.to_owned(), json!(self.last_attempt_cost));
            if self.last_attempt_cost_is_lower_bound {
                data.insert(ATTEMPT_COST_IS_LOWER_BOUND.to_owned(), true.into());
            }
        }
    }

    /// Returns the amounts for people, the sum first: `$1.3500, of which the last attempt $0.4500`. A single attempt has no second amount. If the sum
    /// is over its budget, `; the last attempt $0.4500` follows, because `of which` would refer to the overrun.
    #[must_use]
    pub fn in_words(self) -> String {
        let last = self
            .last_attempt_cost
            .display(self.last_attempt_cost_is_lower_bound);
        let is_single = self.cost == self.last_attempt_cost;
        match self.over_budget() {
            _ if is_single => self.sum_in_words(),
            Some(_) => format!("{}; the last attempt {last}", self.sum_in_words()),
            None => format!("{}, of which the last attempt {last}", self.sum_in_words()),
        }
    }

    /// Returns the cost of all attempts for people, and by how much the budget is exceeded, if it is.
    #[must_use]
    pub fn sum_in_words(self) -> String {
        let sum = self.cost.display(self.cost_is_lower_bound);
        match self.over_budget() {
            None => sum,
            Some(over) if self.before_anew.is_none() => over,
            Some(over) => format!("{sum}, since it started anew {over}"),
        }
    }

    /// Returns the amount by which the attempts since the task last started anew exceed the budget, in words; `None` if they do not.
    #[must_use]
    pub fn over_budget(self) -> Option<String> {
        let counted = self.cost.saturating_sub(self.before_anew.unwrap_or_default());
        // The mark of all attempts may come from those before the task started anew. If the last attempt is the only one since then, its own mark counts.
        let is_last_alone = self.before_anew.is_some() && counted == self.last_attempt_cost;
        let is_lower_bound = match is_last_alone {
            true => self.last_attempt_cost_is_lower_bound,
            false => self.cost_is_lower_bound,
        };
        over_budget(counted, self.budget?, is_lower_bound)
    }
}

/// Adds up the costs of several tasks.
impl std::iter::Sum for TaskCost {
    fn sum<I: Iterator<Item = Self>>(costs: I) -> Self {
        costs.fold(Self::default(), |sum, next| Self {
            cost: sum.cost + next.cost,
            last_attempt_cost: sum.last_attempt_cost + next.last_attempt_cost,
            last_attempt_cost_is_lower_bound: sum.last_attempt_cost_is_lower_bound
                || next.last_attempt_cost_is_lower_bound,
            cost_is_lower_bound: sum.cost_is_lower_bound || next.cost_is_lower_bound,
            budget: None,
            before_anew: None,
        })
    }
}

#[cfg(test)]
mod tests {
    use hankweave_core::id::TaskId;
    use hankweave_core::time::Timestamp;

    use super::*;
    use crate::registry::{NewTask, Patch, RegistryChange, TaskPatch, TaskRow};
    use crate::task::TaskTransition;

    // covers: TASK-121
    #[test]
    fn costs_stay_with_a_task_and_a_row_of_an_older_version_has_none() {
        let new = NewTask::new(TaskId::new("task_cost").unwrap());
        let (row, _) = TaskRow::new(new, 0, Timestamp::UNIX_EPOCH);
        assert_eq!(TaskCost::of(&row.record), None);
        let cost = TaskCost {
            cost: Usd::from_micros(1_350_000),
            last_attempt_cost: Usd::from_micros(450_000),
            last_attempt_cost_is_lower_bound: false,
            cost_is_lower_bound: false,
            budget: None,
            before_anew: None,
        };
        let noted = |row: &TaskRow, cost| {
            let change = RegistryChange {
                id: row.id().clone(),
                expected_version: row.version,
                token: 0,
                steps: vec![TaskTransition::Cancel],
                cost: Some(cost),
                approval: None,
                by: None,
                lease: None,
                files: Patch::Keep,
            };
            row.change(&change, Timestamp::UNIX_EPOCH).unwrap().row
        };
        let row = noted(&row, cost);
        assert_eq!(TaskCost::of(&row.record), Some(cost));
        assert_eq!(cost.in_words(), "$1.3500, of which the last attempt $0.4500");
        let stored = serde_json::to_value(&row).unwrap();
        assert_eq!(
            [&stored["cost"], &stored["lastAttemptCost"]],
            [&json!(1.35), &json!(0.45)]
        );
        // Later notes and a stored row keep the costs.
        let renamed = TaskPatch {
            name: Patch::Set("other".into()),
            ..TaskPatch::default()
        };
        let row = row.patched(renamed, Timestamp::UNIX_EPOCH).unwrap().row;
        let read: TaskRow = serde_json::from_value(serde_json::to_value(&row).unwrap()).unwrap();
        assert_eq!(TaskCost::of(&read.record), Some(cost));
        let lost = TaskCost {
            last_attempt_cost_is_lower_bound: true,
            cost_is_lower_bound: true,
            ..cost
        };
        let more = TaskCost {
            last_attempt_cost_is_lower_bound: false,
            ..lost
        };
        let resumed = RegistryChange {
            id: read.id().clone(),
            expected_version: read.version,
            token: 0,
            steps: vec![TaskTransition::Resume],
            cost: None,
            approval: None,
            by: None,
            lease: None,
            files: Patch::Keep,
        };
        let resumed = read.change(&resumed, Timestamp::UNIX_EPOCH).unwrap().row;
        assert_eq!(TaskCost::of(&resumed.record), Some(cost));
        let row = noted(&resumed, lost);
        assert_eq!(TaskCost::of(&row.record), Some(lost));
        let resume = RegistryChange {
            id: row.id().clone(),
            expected_version: row.version,
            token: 0,
            steps: vec![TaskTransition::Resume],
            cost: None,
            approval: None,
            by: None,
            lease: None,
            files: Patch::Keep,
        };
        let again = row.change(&resume, Timestamp::UNIX_EPOCH).unwrap().row;
        let row = noted(&again, more);
        assert_eq!(TaskCost::of(&row.record), Some(more), "the last attempt is exact");
        assert!(row.record.extra().get(ATTEMPT_COST_IS_LOWER_BOUND).is_none());
        assert_eq!(
            more.in_words(),
            "at least $1.3500, of which the last attempt $0.4500"
        );
        let limited = |dollars: u64| TaskCost {
            budget: Some(Usd::from_micros(dollars * 10_000)),
            ..more
        };
        assert_eq!(limited(135).over_budget(), None);
        let over = "at least $1.3500 of $1.0000, over its budget by at least $0.3500";
        assert_eq!(
            limited(100).in_words(),
            format!("{over}; the last attempt $0.4500")
        );
        assert_eq!(
            TaskCost::of(&noted(&resumed, limited(100)).record),
            Some(limited(100))
        );
    }
}
