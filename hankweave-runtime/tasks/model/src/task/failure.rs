//! Failure of a task, with what a user needs to find its cause.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::Fail;
use hankweave_core::machine::Extra;

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
    /// Names that others wrote; kept as they are.
    #[serde(flatten)]
    #[cfg_attr(feature = "schema", schemars(skip))]
    pub extra: Extra,
}

impl TaskFailure {
    /// Whether it says more than its cause.
    #[must_use]
    pub fn has_details(&self) -> bool {
        self.codon_id.is_some() || !self.last_lines.is_empty() || self.command.is_some()
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

/// The codon and the cause.
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
