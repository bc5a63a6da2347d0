//! Failure of a task, with the facts that a user needs to find its cause.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Fail;
use hankweave_core::budget::{Ceiling, CeilingUse};
use hankweave_core::cost::Usd;
use hankweave_core::machine::Extra;
use hankweave_core::time::{duration_argument, round_up, short_duration};

/// Cause of a task's failure.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct TaskFailure {
    /// Cause, in a sentence that does not name the codon.
    pub cause: String,
    /// Codon that failed or was denied, if the cause belongs to one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub codon_id: Option<String>,
    /// Last lines of the codon's agent, or of the run if no codon failed; the newest last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub last_lines: Vec<String>,
    /// Command that prints more, for the machine that ran the task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// Total budget with which the task continues, if it is spent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub needed: Option<NeededBudget>,
    /// Names that others wrote; kept as they are.
    #[serde(flatten)]
    #[cfg_attr(feature = "schema", schemars(skip))]
    pub extra: Extra,
}

/// Total budget with which a run continues; only the limits that have to be raised.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct NeededBudget {
    /// In US dollars.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_dollars: Option<Usd>,
    /// Time at work, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_time_seconds: Option<u64>,
    /// US dollars that are spent; absent in records of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used_dollars: Option<Usd>,
    /// Whether more was spent than is known.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub used_is_lower_bound: bool,
    /// Time at work so far, in seconds; absent in records of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used_time_seconds: Option<u64>,
}

impl NeededBudget {
    /// Returns the limits to raise for a budget that is spent; `None` if there is none.
    #[must_use]
    pub fn of(total: &CeilingUse) -> Option<Self> {
        let more = total.more();
        (more != Ceiling::default()).then(|| Self {
            max_dollars: more.max_dollars,
            max_time_seconds: more.max_time.map(|time| time.as_secs()),
            used_dollars: more.max_dollars.map(|_| total.spent()),
            used_is_lower_bound: more.max_dollars.is_some() && total.is_lower_bound(),
            used_time_seconds: more.max_time.map(|_| total.elapsed().as_secs()),
        })
    }

    /// Returns the options of `run` and `task resume` that raise the limits to these amounts.
    #[must_use]
    pub fn options(&self) -> String {
        let dollars = self.max_dollars.map(Usd::as_dollars);
        let dollars = dollars.map(|dollars| format!(" --max-cost {dollars:.2}"));
        let time = self
            .max_time_seconds
            .map(|seconds| format!(" --max-time {}", duration_argument(Duration::from_secs(seconds))));
        dollars.into_iter().chain(time).collect()
    }

    /// Returns the meaning of the amounts in [`options`](Self::options); `None` in records of older versions.
    #[must_use]
    pub fn explanation(&self) -> Option<String> {
        let dollars = self.max_dollars.zip(self.used_dollars).map(|(most, used)| {
            let (left, used) = (most.saturating_sub(used), used.display(self.used_is_lower_bound));
            format!(
                "--max-cost is the total, not what is added: {used} counts, so {:.2} leaves ${:.2}",
                most.as_dollars(),
                left.as_dollars()
            )
        });
        let time = self.max_time_seconds.zip(self.used_time_seconds);
        let time = time.map(|(most, used)| {
            let (most, used) = (round_up(Duration::from_secs(most)), Duration::from_secs(used));
            let left = most.saturating_sub(used);
            let [most, used, left] = [most, used, left].map(short_duration);
            format!("--max-time is the total, not what is added: {used} counts, so {most} leaves {left}")
        });
        let parts: Vec<String> = dollars.into_iter().chain(time).collect();
        (!parts.is_empty()).then(|| format!("{}; a task that needs more fails again", parts.join("; ")))
    }

    /// Returns the spent amount and the limit that it has reached, such as `$0.7500` and `$0.5500`; `None` if it has reached none.
    #[must_use]
    pub fn spent_of(&self, limits: Ceiling) -> Option<(String, String)> {
        let dollars = limits.max_dollars.zip(self.used_dollars);
        let dollars = dollars.filter(|(most, used)| used >= most);
        if let Some((most, used)) = dollars {
            return Some((used.display(self.used_is_lower_bound), most.to_string()));
        }
        let time = limits.max_time.zip(self.used_time_seconds);
        let time = time.map(|(most, used)| (most, Duration::from_secs(used)));
        let (most, used) = time.filter(|(most, used)| used >= most)?;
        Some((short_duration(used), short_duration(most)))
    }
}

impl TaskFailure {
    /// Whether the failure has more than its cause: a codon, lines, a command or a budget.
    #[must_use]
    pub fn has_details(&self) -> bool {
        self.codon_id.is_some()
            || !self.last_lines.is_empty()
            || self.command.is_some()
            || self.needed.is_some()
    }
}

impl<T: Into<String>> From<T> for TaskFailure {
    fn from(cause: T) -> Self {
        Self {
            cause: cause.into(),
            ..Self::default()
        }
    }
}

/// Shows the codon and the cause.
impl fmt::Display for TaskFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.codon_id {
            Some(codon) => write!(f, "{codon}: {}", self.cause),
            None => f.write_str(&self.cause),
        }
    }
}

impl From<TaskFailure> for Fail {
    fn from(failure: TaskFailure) -> Self {
        Self {
            error: failure.to_string(),
            failure: failure.has_details().then(|| Box::new(failure)),
        }
    }
}
