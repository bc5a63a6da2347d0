//! Decides for which changed files an event is published although no checkpoint holds them: those for which a sentinel waits (SENT-22).

use serde_json::json;

use super::condition::Condition;
use super::{ConditionConfig, Trigger};

/// Type of the event of a changed file.
const FILE_UPDATED: &str = "file.updated";

/// The fields of the event that are known before the file is read.
const KNOWN: [&str; 4] = ["path", "filename", "action", "size"];

/// Changed files for which sentinels wait.
#[derive(Debug, Clone)]
pub struct FileInterest {
    /// For each trigger on changed files, its conditions on fields in [`KNOWN`]. Other conditions are taken as true.
    triggers: Vec<Vec<Condition>>,
}

impl FileInterest {
    /// Returns the interest of sentinels with these triggers; `None` when none of them waits for changed files.
    #[must_use]
    pub fn of<'t>(triggers: impl IntoIterator<Item = &'t Trigger>) -> Option<Self> {
        let names_files = |kinds: &[String]| kinds.iter().any(|kind| kind == "*" || kind == FILE_UPDATED);
        let of_files = triggers.into_iter().filter(|trigger| names_files(trigger.on()));
        let triggers: Vec<_> = of_files
            .map(|trigger| match trigger {
                Trigger::Event { conditions, .. } => known(conditions),
                // In a sequence every changed file counts, because one that matches no step may interrupt the sequence.
                Trigger::Sequence { .. } => Vec::new(),
            })
            .collect();
        (!triggers.is_empty()).then_some(Self { triggers })
    }

    /// Whether a sentinel may wait for this change; `action` is the value of that field in the event.
    #[must_use]
    pub fn matches(&self, path: &str, action: &str, size: Option<u64>) -> bool {
        let filename = path.rsplit('/').next().unwrap_or(path);
        let mut data = json!({"path": path, "filename": filename, "action": action});
        if let Some(size) = size {
            data["size"] = json!(size);
        }
        self.triggers
            .iter()
            .any(|conditions| conditions.iter().all(|condition| condition.is_true(&data)))
    }
}

fn known(conditions: &[ConditionConfig]) -> Vec<Condition> {
    let known = conditions
        .iter()
        .filter(|condition| KNOWN.contains(&condition.path.as_str()));
    known.map(Condition::new).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interest(triggers: serde_json::Value) -> Option<FileInterest> {
        let triggers: Vec<Trigger> = serde_json::from_value(triggers).unwrap();
        FileInterest::of(&triggers)
    }

    // covers: SENT-22
    #[test]
    fn only_changes_that_a_trigger_may_want_are_wanted() {
        assert!(interest(json!([{"type": "event", "on": ["tool.result"]}])).is_none());
        let secrets = json!({"type": "event", "on": ["file.updated"], "conditions": [
            {"operator": "matches", "path": "path", "value": "(^|/)\\.env$"},
            {"operator": "contains", "path": "content", "value": "KEY"}]});
        let found = interest(json!([secrets])).unwrap();
        assert!(found.matches("deploy/.env", "created", Some(3)));
        assert!(!found.matches("a.py", "created", Some(3)));
        let large = json!({"type": "event", "on": ["*"], "conditions": [
            {"operator": "greaterThan", "path": "size", "value": 100}]});
        let found = interest(json!([secrets, large])).unwrap();
        assert!(found.matches("a.py", "modified", Some(101)));
        assert!(!found.matches("a.py", "deleted", None));
        let sequence = json!({"type": "sequence", "interestFilter": {"on": ["file.updated"]},
            "pattern": [{"type": "file.updated"}]});
        assert!(interest(json!([sequence])).unwrap().matches("x", "deleted", None));
    }
}
