//! The execution plan of state.json.

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use crate::codon::LoopContext;
use crate::hank::OnFailure;
use crate::id::CodonId;
use crate::shape::{Checker, Shape};

/// One step of the plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Shape)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct PlanEntry {
    /// The configuration of the codon, never of a loop.
    pub codon: PlannedCodon,
    /// The id it runs under: inside a loop with the iteration after it, such as `review#0`.
    pub codon_id: CodonId,
    /// Its place in a loop, if it is in one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loop_context: Option<LoopContext>,
    /// Fields that this version does not know; kept and written back.
    #[serde(flatten)]
    #[cfg_attr(feature = "schema", schemars(skip))]
    pub extra: Map<String, Value>,
}

/// The configuration of a codon as the plan keeps it: the JSON object as it is, so that a plan written by
/// another version survives being read and written.
///
/// The values of its variables are left out: they are not needed here, and every reader would see them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct PlannedCodon(#[serde(deserialize_with = "without_values")] Map<String, Value>);

/// Written instead of the value of a variable.
const NOT_RECORDED: &str = "[not recorded]";

fn without_values<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Map<String, Value>, D::Error> {
    let mut codon = Map::deserialize(deserializer)?;
    conceal(&mut codon);
    Ok(codon)
}

/// Keeps only the names of the variables (X10).
fn conceal(codon: &mut Map<String, Value>) {
    let variables = codon.get_mut("env").and_then(Value::as_object_mut);
    for (_, value) in variables.into_iter().flatten() {
        *value = Value::from(NOT_RECORDED);
    }
}

impl PlannedCodon {
    /// The id of hank.json.
    #[must_use]
    pub fn id(&self) -> Option<&str> {
        self.string("id")
    }

    /// The name for people.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.string("name")
    }

    /// Whether the agent resumes the conversation of the codon before.
    #[must_use]
    pub fn continues_previous(&self) -> bool {
        self.string("continuationMode") == Some("continue-previous")
    }

    /// What follows when it fails.
    #[must_use]
    pub fn on_failure(&self) -> OnFailure {
        match self.string("onFailure") {
            Some("retry") => OnFailure::Retry,
            Some("ignore") => OnFailure::Ignore,
            _ => OnFailure::Abort,
        }
    }

    /// The globs of `checkpointedFiles`.
    pub fn checkpointed_files(&self) -> impl Iterator<Item = &str> {
        let globs = self.0.get("checkpointedFiles").and_then(Value::as_array);
        globs.into_iter().flatten().filter_map(Value::as_str)
    }

    /// The whole configuration.
    #[must_use]
    pub fn as_json(&self) -> &Map<String, Value> {
        &self.0
    }

    fn string(&self, key: &str) -> Option<&str> {
        self.0.get(key).and_then(Value::as_str)
    }
}

impl Shape for PlannedCodon {
    fn check(checker: &mut Checker, value: &mut Value) {
        Map::check(checker, value);
    }
}

impl From<Map<String, Value>> for PlannedCodon {
    fn from(mut object: Map<String, Value>) -> Self {
        conceal(&mut object);
        Self(object)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STORED: &str = r#"{"codon":{"id":"review","name":"Review Iteration","x":1},"codonId":"review#1","loopContext":{"loopId":"review-loop","iteration":1,"codonIndexInLoop":0},"later":true}"#;

    #[test]
    fn an_entry_is_read_and_written_word_for_word() {
        let entry: PlanEntry = serde_json::from_str(STORED).unwrap();
        assert_eq!(serde_json::to_string(&entry).unwrap(), STORED);
        assert_eq!(
            (entry.codon.id(), entry.codon.name()),
            (Some("review"), Some("Review Iteration"))
        );
        assert!(!entry.codon.continues_previous());
    }

    // covers: X10
    #[test]
    fn of_variables_the_plan_keeps_the_names_alone() {
        let stored = r#"{"codon":{"id":"a","env":{"API_KEY":"sesame","OTHER":"sesame"}},"codonId":"a"}"#;
        let read: PlanEntry = serde_json::from_str(stored).unwrap();
        let made = PlannedCodon::from(
            serde_json::from_str::<Map<String, Value>>(stored).unwrap()["codon"]
                .as_object()
                .unwrap()
                .clone(),
        );
        assert_eq!(read.codon, made);
        let written = serde_json::to_string(&read).unwrap();
        assert!(!written.contains("sesame"), "{written}");
        assert!(
            written.contains("API_KEY") && written.contains("OTHER"),
            "{written}"
        );
        assert_eq!(serde_json::from_str::<PlanEntry>(&written).unwrap(), read);
    }

    #[test]
    fn a_null_loop_context_is_none() {
        let entry: PlanEntry =
            serde_json::from_str(r#"{"codon":{},"codonId":"a","loopContext":null}"#).unwrap();
        assert_eq!(entry.loop_context, None);
    }
}
