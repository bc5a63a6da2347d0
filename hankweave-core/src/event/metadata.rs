//! The border between a transition's metadata as the events carry it and the typed transition.
//!
//! The documented metadata has its own names (`checkpointSha` for three different checkpoint fields) and its own rules (a blank completion checkpoint, a `failedDuring`
//! earlier than `from`), so it is a format of its own (STATE-16, STATE-17).

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::codon::{CodonPhase, CodonStatus, CodonTransition, Complete, Fail, Initialize, Run, Skip, Start};
use crate::time::Timestamp;

/// The metadata of an event lack what the target state demands.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", describe(*to, missing, invalid))]
pub struct MetadataError {
    /// The state that was to be entered.
    pub to: CodonStatus,
    /// Required names that are absent or `null`, in the order of the documentation.
    pub missing: Vec<&'static str>,
    /// Names whose value is not what it must be.
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

/// Turns the metadata of an event into the typed transition, with the phase that the event names for a failure or a skip.
///
/// `at` stands in for an `endTime` that the metadata do not give. Unknown names are ignored. The caller has checked that the edge exists.
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
    let mut fields = Fields {
        metadata,
        missing: Vec::new(),
        invalid: Vec::new(),
    };
    let decoded = fields.decode(from, to, at);
    match decoded {
        Some(decoded) if fields.missing.is_empty() && fields.invalid.is_empty() => Ok(decoded),
        _ => Err(MetadataError {
            to,
            missing: fields.missing,
            invalid: fields.invalid,
        }),
    }
}

struct Fields<'a> {
    metadata: Option<&'a Map<String, Value>>,
    missing: Vec<&'static str>,
    invalid: Vec<&'static str>,
}

impl Fields<'_> {
    fn decode(
        &mut self,
        from: CodonPhase,
        to: CodonStatus,
        at: Timestamp,
    ) -> Option<(CodonTransition, CodonPhase)> {
        // Every field is read before the first `?`, so that all problems are found.
        match to {
            CodonStatus::Preparing => None,
            CodonStatus::Starting => {
                let rig_setup_checkpoint = self.optional("checkpointSha")?;
                Some((CodonTransition::Start(Start { rig_setup_checkpoint }), from))
            }
            CodonStatus::Initializing => {
                let pid = self.required("claudePid");
                let log = self.required("claudeLogPath");
                let previous = self.optional("previousSessionId");
                let (claude_pid, claude_log_path, previous_session_id) = (pid?, log?, previous?);
                let metadata = Initialize {
                    claude_pid,
                    claude_log_path,
                    previous_session_id,
                };
                Some((CodonTransition::Initialize(metadata), from))
            }
            CodonStatus::Running => {
                let claude_session_id = self.required("claudeSessionId")?;
                Some((CodonTransition::Run(Run { claude_session_id }), from))
            }
            CodonStatus::CompletingSentinels => Some((CodonTransition::CompleteSentinels, from)),
            CodonStatus::Completed => {
                let sha = self.required::<crate::id::CheckpointSha>("checkpointSha");
                let received = self.optional("resultMessageReceived");
                let end = self.optional("endTime");
                if sha.as_ref().is_some_and(crate::id::CheckpointSha::is_blank) {
                    self.invalid.push("checkpointSha");
                }
                let metadata = Complete {
                    end_time: end?.unwrap_or(at),
                    completion_checkpoint: sha?,
                    result_message_received: received?.unwrap_or(false),
                };
                Some((CodonTransition::Complete(metadata), from))
            }
            CodonStatus::Failed => {
                let exit_code = self.required("exitCode");
                let failure_reason = self.required("failureReason");
                let during = self.phase("failedDuring", from);
                let sha = self.optional("checkpointSha");
                let end = self.optional("endTime");
                let metadata = Fail {
                    end_time: end?.unwrap_or(at),
                    exit_code: exit_code?,
                    failure_reason: failure_reason?,
                    error_checkpoint: sha?,
                };
                Some((CodonTransition::Fail(metadata), during?))
            }
            CodonStatus::Skipped => {
                let during = self.phase("skippedDuring", from);
                let sha = self.optional("checkpointSha");
                let end = self.optional("endTime");
                let metadata = Skip {
                    end_time: end?.unwrap_or(at),
                    skip_checkpoint: sha?,
                };
                Some((CodonTransition::Skip(metadata), during?))
            }
        }
    }

    fn get(&self, name: &str) -> Option<&Value> {
        self.metadata
            .and_then(|metadata| metadata.get(name))
            .filter(|value| !value.is_null())
    }

    fn required<T: DeserializeOwned>(&mut self, name: &'static str) -> Option<T> {
        if self.get(name).is_none() {
            self.missing.push(name);
            return None;
        }
        self.optional(name).flatten()
    }

    /// `None` when the value is there and wrong; `Some(None)` when it is absent.
    fn optional<T: DeserializeOwned>(&mut self, name: &'static str) -> Option<Option<T>> {
        let Some(value) = self.get(name) else {
            return Some(None);
        };
        match T::deserialize(value) {
            Ok(value) => Some(Some(value)),
            Err(_) => {
                self.invalid.push(name);
                None
            }
        }
    }

    /// The phase in which the codon ended: active, and not later than the state it is in (STATE-18).
    fn phase(&mut self, name: &'static str, from: CodonPhase) -> Option<CodonPhase> {
        let phase: CodonPhase = self.required(name)?;
        if phase > from {
            self.invalid.push(name);
            return None;
        }
        Some(phase)
    }
}

/// Writes a typed transition as the metadata of an event.
///
/// `endTime` is written beside the documented names, so that the typed codon and the stored record agree to the millisecond.
#[must_use]
pub fn encode_metadata(transition: &CodonTransition, from: CodonPhase) -> Map<String, Value> {
    let mut metadata = Map::new();
    let mut put = |name: &str, value: Value| {
        if !value.is_null() {
            metadata.insert(name.to_owned(), value);
        }
    };
    match transition {
        CodonTransition::Start(start) => put("checkpointSha", json(&start.rig_setup_checkpoint)),
        CodonTransition::Initialize(initialize) => {
            put("claudePid", json(&initialize.claude_pid));
            put("claudeLogPath", json(&initialize.claude_log_path));
            put("previousSessionId", json(&initialize.previous_session_id));
        }
        CodonTransition::Run(run) => put("claudeSessionId", json(&run.claude_session_id)),
        CodonTransition::CompleteSentinels => {}
        CodonTransition::Complete(complete) => {
            put("checkpointSha", json(&complete.completion_checkpoint));
            put("resultMessageReceived", json(&complete.result_message_received));
            put("endTime", json(&complete.end_time));
        }
        CodonTransition::Fail(fail) => {
            put("exitCode", json(&fail.exit_code));
            put("failureReason", json(&fail.failure_reason));
            put("failedDuring", json(&from));
            put("checkpointSha", json(&fail.error_checkpoint));
            put("endTime", json(&fail.end_time));
        }
        CodonTransition::Skip(skip) => {
            put("skippedDuring", json(&from));
            put("checkpointSha", json(&skip.skip_checkpoint));
            put("endTime", json(&skip.end_time));
        }
    }
    metadata
}

/// A path that is not UTF-8 is the only value here that JSON cannot hold; it then counts as absent and is refused on reading.
fn json(value: &impl serde::Serialize) -> Value {
    serde_json::to_value(value).unwrap_or(Value::Null)
}
