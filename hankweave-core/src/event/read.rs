//! Reading an event that came from outside (STATE-22).

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::StateEvent;
use crate::codon::CodonStatus;
use crate::machine::Name;
use crate::shape::{Checker, Shape, ShapeProblem, Variants, required};

/// A value that is no event.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct InvalidEvent {
    /// Kind of mistake.
    pub kind: InvalidEventKind,
    /// The names that are missing or wrong: `type`, `data`, or names of the data; each once.
    pub fields: Vec<String>,
    /// All mistakes in words for people.
    pub message: String,
}

/// The sorts of values that are no events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InvalidEventKind {
    /// A transition from or to a state that does not exist, and nothing else is wrong.
    NoSuchState,
    /// Data that are missing or not valid.
    Data,
}

impl InvalidEventKind {
    /// The kind as `state apply` prints it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NoSuchState => "invalid_transition",
            Self::Data => "metadata",
        }
    }
}

impl StateEvent {
    /// Reads `{type, data}`; other names are ignored.
    ///
    /// # Errors
    ///
    /// Returns [`InvalidEvent`] for an unknown type and for data that do not fit it, with everything that is wrong.
    pub fn from_json(mut event: Value) -> Result<Self, InvalidEvent> {
        let mut checker = Checker::default();
        checker.object(
            &mut event,
            &[required("type", String::check), required("data", Map::check)],
        );
        let findings = checker.into_findings();
        let (Some(name), true) = (event["type"].as_str(), findings.is_empty()) else {
            return Err(InvalidEvent::data("an event", findings));
        };
        let Some(rules) = StateEvent::rules(name) else {
            return Err(InvalidEvent::unknown_type(name));
        };
        let (name, mut data) = (name.to_owned(), event["data"].take());
        let mut checker = Checker::default();
        checker.object(&mut data, rules);
        let findings = checker.into_findings();
        if findings.is_empty() {
            // The rules refuse all that the types refuse, so this is not expected to fail.
            return Self::deserialize(json!({"type": name, "data": data})).map_err(|error| {
                let path = String::from("data");
                let message = error.to_string();
                InvalidEvent::data(&name, vec![ShapeProblem { path, message }])
            });
        }
        let no_such_state = findings.iter().all(|finding| names_no_state(finding, &data));
        match no_such_state {
            true => Err(InvalidEvent::no_such_state(&data, findings)),
            false => Err(InvalidEvent::data(&name, findings)),
        }
    }
}

/// Whether the finding is about a text in `from` or `to`, where the name of a state must be; only a transition has these fields.
fn names_no_state(finding: &ShapeProblem, data: &Value) -> bool {
    let is_state_field = ["from", "to"].contains(&finding.path.as_str());
    is_state_field && data[finding.path.as_str()].is_string()
}

impl InvalidEvent {
    fn unknown_type(name: &str) -> Self {
        let known: Vec<&str> = StateEvent::names().collect();
        Self {
            kind: InvalidEventKind::Data,
            fields: vec!["type".to_owned()],
            message: format!("there is no event `{name}`; the events are {}", known.join(", ")),
        }
    }

    fn no_such_state(data: &Value, findings: Vec<ShapeProblem>) -> Self {
        let state = |name: &str| data[name].as_str().unwrap_or_default().to_owned();
        Self {
            kind: InvalidEventKind::NoSuchState,
            message: format!(
                "Invalid transition from {} to {}: a codon is {}",
                state("from"),
                state("to"),
                CodonStatus::NAMES.join(", ")
            ),
            fields: fields(&findings),
        }
    }

    fn data(of: &str, findings: Vec<ShapeProblem>) -> Self {
        let parts = findings
            .iter()
            .map(|ShapeProblem { path, message }| match path.as_str() {
                "" => message.clone(),
                path => format!("{path}: {message}"),
            });
        let parts: Vec<String> = parts.collect();
        Self {
            kind: InvalidEventKind::Data,
            message: format!("Invalid data of {of}: {}", parts.join("; ")),
            fields: fields(&findings),
        }
    }
}

/// Returns the names of data in which there are findings: the first name of each path, each once.
fn fields(findings: &[ShapeProblem]) -> Vec<String> {
    let mut fields: Vec<String> = Vec::new();
    for finding in findings {
        let field = finding.path.split(['.', '[']).next().unwrap_or_default();
        if !field.is_empty() && !fields.iter().any(|known| known == field) {
            fields.push(field.to_owned());
        }
    }
    fields
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn refused(event: Value, kind: InvalidEventKind, fields: &[&str], message: &str) {
        let error = StateEvent::from_json(event).unwrap_err();
        assert_eq!(
            (error.kind, &*error.fields),
            (
                kind,
                &*fields.iter().map(|field| (*field).to_owned()).collect::<Vec<_>>()
            )
        );
        assert_eq!(error.message, message);
    }

    fn costs(cost: Value, tokens: Value) -> Value {
        json!({"data": {"runId": "r", "codonId": "c", "cost": cost, "tokens": tokens}, "type": "CostsUpdated"})
    }

    /// All that is missing or wrong is named, in any order of the event's fields.
    // covers: STATE-16
    #[test]
    fn every_field_that_is_wrong_is_named() {
        let data = InvalidEventKind::Data;
        refused(
            json!(5),
            data,
            &[],
            "Invalid data of an event: must be an object, not a number",
        );
        refused(
            json!({"data": 1}),
            data,
            &["type", "data"],
            "Invalid data of an event: type: is missing; data: must be an object, not a number",
        );
        refused(
            json!({"type": "RunFailed", "data": {"runId": 1}}),
            data,
            &["runId"],
            "Invalid data of RunFailed: runId: must be a string, not 1",
        );
        refused(
            costs(
                json!("x"),
                json!({"inputTokens": -1, "outputTokens": 0, "cacheReadTokens": 0}),
            ),
            data,
            &["cost", "tokens"],
            "Invalid data of CostsUpdated: cost: must be a number, not `x`; \
             tokens.inputTokens: must be a whole number from 0 on, not -1; tokens.cacheCreationTokens: is missing",
        );
        let tokens =
            json!({"inputTokens": 1, "outputTokens": 1, "cacheCreationTokens": 1, "cacheReadTokens": 1});
        assert!(StateEvent::from_json(costs(json!(1), tokens)).is_ok());
    }

    #[test]
    fn an_unknown_event_is_told_what_there_is() {
        let error = StateEvent::from_json(json!({"type": "RunExploded", "data": {}})).unwrap_err();
        assert_eq!(error.fields, ["type"]);
        assert!(
            error
                .message
                .starts_with("there is no event `RunExploded`; the events are RunStarted, RunCompleted")
        );
    }

    /// An edge outside the table is an invalid transition, also when no state has that name.
    // covers: STATE-15
    #[test]
    fn a_state_that_does_not_exist_is_no_edge() {
        let event = |from: Value, to: Value| json!({"type": "CodonTransitioned", "data": {"runId": "r", "codonId": "c", "from": from, "to": to}});
        let states =
            "preparing, starting, initializing, running, completing-sentinels, completed, failed, skipped";
        refused(
            event(json!("running"), json!("finished")),
            InvalidEventKind::NoSuchState,
            &["to"],
            &format!("Invalid transition from running to finished: a codon is {states}"),
        );
        refused(
            event(json!("begun"), json!("finished")),
            InvalidEventKind::NoSuchState,
            &["from", "to"],
            &format!("Invalid transition from begun to finished: a codon is {states}"),
        );
        refused(
            event(json!("running"), json!(3)),
            InvalidEventKind::Data,
            &["to"],
            "Invalid data of CodonTransitioned: to: must be the name of a status, not 3",
        );
    }

    // covers: STATE-9
    #[test]
    fn null_is_absent() {
        let sentinel = json!({"id": "s", "model": "m", "loadedAt": "2025-01-04T12:00:00Z", "llmCallCount": 0, "failedLLMCalls": 0,
            "totalTriggers": null, "lastLlmCallAt": null, "totalCost": 0, "status": "active"});
        let data = json!({"runId": "r", "codonId": "c", "sentinelStates": [sentinel], "totalCost": 0});
        assert!(StateEvent::from_json(json!({"type": "SentinelStatesUpdated", "data": data})).is_ok());
    }

    /// There are rules for every event that can be read, and for no other.
    // covers: STATE-22
    #[test]
    fn the_rules_know_every_event() {
        let names: Vec<String> = StateEvent::names().map(|name| format!("`{name}`")).collect();
        let error = StateEvent::deserialize(json!({"type": "?", "data": {}})).unwrap_err();
        let expected = format!("unknown variant `?`, expected one of {}", names.join(", "));
        assert_eq!(error.to_string(), expected);
    }
}
