//! Name of a history of runs on a remote, and the references that it stands for.

use std::fmt;

use hankweave_core::id::{RunId, TaskId};
use hankweave_core::time::Timestamp;
use serde::{Deserialize, Serialize};

/// Start of all our references.
pub(crate) const ROOT: &str = "refs/hankweave/";

/// Name of an execution on a remote: `runs/ID` with the id of its first run, or `tasks/ID-MILLISECONDS` with the id and creation time of a task. The
/// time is part of the name because two registries may use equal ids.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct RemoteExecution(String);

impl RemoteExecution {
    /// Returns the name for a directory whose first run was `first`.
    #[must_use]
    pub fn of_run(first: &RunId) -> Self {
        Self(format!("runs/{}", as_reference(first.as_str())))
    }

    /// Returns the name for a task.
    #[must_use]
    pub fn of_task(id: &TaskId, created: Timestamp) -> Self {
        Self(format!(
            "tasks/{}-{}",
            as_reference(id.as_str()),
            created.as_millis()
        ))
    }

    /// Returns the reference of the record.
    pub(crate) fn record(&self) -> String {
        format!("{ROOT}{}/record", self.0)
    }

    /// Returns the reference under which a replaced record stays reachable.
    pub(crate) fn kept(&self, commit: &str) -> String {
        format!("{ROOT}{}/kept/{commit}", self.0)
    }

    /// Returns the execution whose record has this reference.
    pub(crate) fn of_reference(reference: &str) -> Option<Self> {
        let name = reference.strip_prefix(ROOT)?.strip_suffix("/record")?;
        Self::try_from(name.to_owned()).ok()
    }

    /// Whether this is the execution of a task.
    #[must_use]
    pub fn is_of_task(&self) -> bool {
        self.0.starts_with("tasks/")
    }

    /// Whether `wanted` fits this name: it is the name or its start, or the start or end of the id.
    #[must_use]
    pub fn is_meant_by(&self, wanted: &str) -> bool {
        let id = self.0.split_once('/').map_or("", |(_, id)| id);
        self.0.starts_with(wanted) || id.starts_with(wanted) || id.ends_with(wanted)
    }
}

/// Returns the name in a form that every git accepts as part of a reference.
fn as_reference(name: &str) -> String {
    let plain = |character: char| character.is_ascii_alphanumeric() || matches!(character, '.' | '_' | '-');
    let is_accepted = name.chars().all(plain)
        && !name.starts_with('.')
        && !name.contains("..")
        && !name.ends_with('.')
        && !name.ends_with(".lock");
    if is_accepted {
        return name.to_owned();
    }
    let escaped = |byte: u8| match byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-') {
        true => char::from(byte).to_string(),
        false => format!("%{byte:02X}"),
    };
    name.bytes().map(escaped).collect()
}

impl TryFrom<String> for RemoteExecution {
    type Error = &'static str;

    fn try_from(name: String) -> Result<Self, Self::Error> {
        let id = name.strip_prefix("runs/").or_else(|| name.strip_prefix("tasks/"));
        let id = id.ok_or("it begins neither with `runs/` nor with `tasks/`")?;
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-' | b'%');
        // The id must be as `as_reference` returns it. A `%` shows that it is escaped; escaping it again would change it.
        match !id.is_empty() && id.bytes().all(plain) && (id.contains('%') || as_reference(id) == id) {
            true => Ok(Self(name)),
            false => Err("it can be no part of a reference"),
        }
    }
}

impl From<RemoteExecution> for String {
    fn from(execution: RemoteExecution) -> Self {
        execution.0
    }
}

impl fmt::Display for RemoteExecution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_id_is_a_reference_and_nothing_else_is_an_execution() {
        let name = |id: &str| RemoteExecution::of_task(&TaskId::new(id).unwrap(), Timestamp::from_millis(7));
        for (id, expected) in [
            ("report-7", "tasks/report-7-7"),
            ("a..b", "tasks/a%2E%2Eb-7"),
            ("x.lock", "tasks/x%2Elock-7"),
        ] {
            let execution = name(id);
            assert_eq!(execution.to_string(), expected);
            let read = RemoteExecution::of_reference(&execution.record());
            assert_eq!(read, Some(execution));
        }
        for wrong in [
            "refs/hankweave/x/record",
            "refs/hankweave/runs/../record",
            "refs/heads/main",
        ] {
            assert_eq!(RemoteExecution::of_reference(wrong), None, "{wrong}");
        }
        for wanted in ["rep", "tasks/report", "report-7-7", "7-7"] {
            assert!(name("report-7").is_meant_by(wanted), "{wanted}");
        }
        assert!(!name("report-7").is_meant_by("port"));
    }
}
