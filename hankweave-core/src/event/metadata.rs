//! Converts the metadata of a codon's transition between two forms: the JSON object in an event, and the typed transition of the codon machine.
//!
//! The fields of a transition are in the table of the codon machine. The JSON object differs from the table in a few names (every checkpoint is a
//! `checkpointSha`) and rules (a blank completion checkpoint, a `failedDuring` earlier than `from`), and only those are written here (STATE-16, STATE-17).

use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::codon::{CODON, CodonExecution, CodonPhase, CodonStatus, CodonTransition};
use crate::machine::{Edge, Field};
use crate::shape::Checker;
use crate::time::Timestamp;

/// The metadata of an event do not have all fields of the transition, or not with valid values.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", describe(*to, missing, invalid))]
#[non_exhaustive]
pub struct MetadataError {
    /// The state that was to be entered.
    pub to: CodonStatus,
    /// Required names that are absent or `null`, in the order of the documentation.
    pub missing: Vec<&'static str>,
    /// Names whose value is not valid.
    pub invalid: Vec<&'static str>,
}

fn describe(to: CodonStatus, missing: &[&str], invalid: &[&str]) -> String {
    let mut parts = Vec::new();
    if !missing.is_empty() {
        parts.push(format!(
            "Missing required metadata for transition to {to}: {}",
            missing.join(", ")
        ));
    }
    if !invalid.is_empty() {
        parts.push(format!(
            "Invalid metadata for transition to {to}: {}",
            invalid.join(", ")
        ));
    }
    parts.join("; ")
}

/// Returns the name of a transition's field in events; no transition has two checkpoints.
fn name_in_event(stored_name: &'static str) -> &'static str {
    match stored_name.ends_with("Checkpoint") {
        true => "checkpointSha",
        false => stored_name,
    }
}

/// Returns the name under which an event that ends a codon has the phase in which it ended; `None` for a step to any state but failed and skipped.
const fn phase_name(to: CodonStatus) -> Option<&'static str> {
    if matches!(to, CodonStatus::Failed) {
        Some("failedDuring")
    } else if matches!(to, CodonStatus::Skipped) {
        Some("skippedDuring")
    } else {
        None
    }
}

/// Returns the value of a field that the metadata may leave out although the transition needs it.
fn default_value(stored_name: &str, at: Timestamp) -> Option<Value> {
    match stored_name {
        "endTime" => Some(json!(at)),
        "resultMessageReceived" => Some(json!(false)),
        _ => None,
    }
}

/// Returns an edge to a state; all edges to one state have equal metadata.
fn edge_to(to: CodonStatus) -> Option<&'static Edge> {
    let mut states = CODON.states.iter();
    let state = states.find(|state| state.stored_name == to.as_str())?;
    CODON.edges.iter().find(|edge| edge.to == state.name)
}

/// Turns the metadata of an event into the typed transition, with the phase that the event names for a failure or a skip.
///
/// `at` replaces an `endTime` that the metadata do not give. Unknown names are ignored. The caller has checked that the edge exists.
///
/// # Errors
///
/// Returns [`MetadataError`] with every missing and every invalid name.
pub fn decode_metadata(
    from: CodonPhase,
    to: CodonStatus,
    metadata: Option<&Map<String, Value>>,
    at: Timestamp,
) -> Result<(CodonTransition, CodonPhase), MetadataError> {
    let mut fields = MetadataReader {
        metadata,
        to,
        missing: Vec::new(),
        invalid: Vec::new(),
    };
    // Both are read before either is looked at, so that all problems are found.
    let transition = fields.transition(at);
    let phase = phase_name(to).map_or(Some(from), |name| fields.phase(name, from));
    match (transition, phase) {
        (Some(transition), Some(phase)) => Ok((transition, phase)),
        _ => Err(MetadataError {
            to,
            missing: fields.missing,
            invalid: fields.invalid,
        }),
    }
}

/// Reader of metadata that collects the problems.
struct MetadataReader<'a> {
    metadata: Option<&'a Map<String, Value>>,
    to: CodonStatus,
    missing: Vec<&'static str>,
    invalid: Vec<&'static str>,
}

impl MetadataReader<'_> {
    /// The typed transition; `None` when something is missing or invalid.
    fn transition(&mut self, at: Timestamp) -> Option<CodonTransition> {
        let edge = edge_to(self.to)?;
        let mut supplied = Map::new();
        for field in edge.metadata {
            let name = name_in_event(field.stored_name);
            let value = self
                .get(name)
                .cloned()
                .or_else(|| default_value(field.stored_name, at));
            match value {
                Some(value) => {
                    drop(supplied.insert(field.stored_name.to_owned(), self.checked(field, value)))
                }
                None if field.required => self.missing.push(name),
                None => {}
            }
        }
        if !self.missing.is_empty() || !self.invalid.is_empty() {
            return None;
        }
        let mut transition = json!({"method": edge.method});
        if !edge.metadata.is_empty() {
            transition["metadata"] = Value::Object(supplied);
        }
        // The checks refuse all that the type refuses, so this is not expected to fail.
        let read = CodonTransition::deserialize(transition);
        read.map_err(|_| self.invalid.push("metadata")).ok()
    }

    /// Returns a value as the target state stores it, and notes the name of an invalid one.
    fn checked(&mut self, field: &Field, mut value: Value) -> Value {
        let mut checker = Checker::default();
        if let Some(check) = CodonExecution::shape_of(Some(self.to), field.stored_name) {
            check(&mut checker, &mut value);
        }
        let is_blank = value.as_str().is_some_and(|text| text.trim().is_empty());
        let names_no_commit = field.stored_name == "completionCheckpoint" && is_blank;
        if names_no_commit || !checker.into_findings().is_empty() {
            self.invalid.push(name_in_event(field.stored_name));
        }
        value
    }

    fn get(&self, name: &str) -> Option<&Value> {
        let value = self.metadata?.get(name);
        value.filter(|value| !value.is_null())
    }

    /// Reads the phase in which the codon ended; it must not be later than `from`, the phase that the event leaves (STATE-18).
    fn phase(&mut self, name: &'static str, from: CodonPhase) -> Option<CodonPhase> {
        let Some(value) = self.get(name) else {
            self.missing.push(name);
            return None;
        };
        let phase = CodonPhase::deserialize(value).ok().filter(|phase| *phase <= from);
        if phase.is_none() {
            self.invalid.push(name);
        }
        phase
    }
}

/// Writes a typed transition as the metadata of an event.
///
/// `endTime` is written in addition to the documented names, so that the typed codon and the stored record agree to the millisecond. Only a path
/// that is not UTF-8 cannot be written as JSON; the metadata are then missing and refused on reading.
#[must_use]
pub fn encode_metadata(transition: &CodonTransition, from: CodonPhase) -> Map<String, Value> {
    let mut written = serde_json::to_value(transition).unwrap_or_default();
    let supplied = written.get_mut("metadata").map(Value::take);
    let Some(edge) = edge_to(transition.target()) else {
        return Map::new();
    };
    let mut metadata = Map::new();
    for field in edge.metadata {
        let value = supplied
            .as_ref()
            .and_then(|supplied| supplied.get(field.stored_name));
        if let Some(value) = value.filter(|value| !value.is_null()) {
            metadata.insert(name_in_event(field.stored_name).to_owned(), value.clone());
        }
    }
    if let Some(name) = phase_name(transition.target()) {
        metadata.insert(name.to_owned(), json!(from));
    }
    metadata
}
