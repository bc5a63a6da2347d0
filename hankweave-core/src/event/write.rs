//! A state event as the text that log, journal and clients have of it.

use serde::Serialize;

use super::StateEvent;
use crate::cost::{TokenUsage, Usd};
use crate::id::{CodonId, RunId};
use crate::json::{push_member, push_text_member};

impl StateEvent {
    /// Adds the JSON text of the event, what its serialisation gives.
    ///
    /// Nearly all events of a long run are these three kinds, and everybody waits for them to be recorded, so they are put together from their
    /// parts, which is quicker.
    ///
    /// # Errors
    ///
    /// What the serialisation says, as for a path that is not UTF-8; a part of the text may have been added then.
    pub fn write_json(&self, json: &mut Vec<u8>) -> serde_json::Result<()> {
        match self {
            Self::CostsIncremented {
                run_id,
                codon_id,
                cost_delta,
                tokens_delta,
            } => {
                begin(json, self.name(), run_id, codon_id);
                push_cost(json, ",\"costDelta\":", *cost_delta)?;
                push_tokens(json, ",\"tokensDelta\":", tokens_delta)?;
            }
            Self::CostsUpdated {
                run_id,
                codon_id,
                cost,
                tokens,
            } => {
                begin(json, self.name(), run_id, codon_id);
                push_cost(json, ",\"cost\":", *cost)?;
                push_tokens(json, ",\"tokens\":", tokens)?;
            }
            Self::AssistantMessageCountUpdated {
                run_id,
                codon_id,
                new_count,
            } => {
                begin(json, self.name(), run_id, codon_id);
                push_member(json, ",\"newCount\":", new_count)?;
            }
            other => return other.serialize(&mut serde_json::Serializer::new(json)),
        }
        json.extend_from_slice(b"}}");
        Ok(())
    }
}

fn begin(json: &mut Vec<u8>, name: &str, run_id: &RunId, codon_id: &CodonId) {
    push_text_member(json, "{\"type\":", name);
    push_text_member(json, ",\"data\":{\"runId\":", run_id.as_str());
    push_text_member(json, ",\"codonId\":", codon_id.as_str());
}

fn push_cost(json: &mut Vec<u8>, before: &str, cost: Usd) -> serde_json::Result<()> {
    json.extend_from_slice(before.as_bytes());
    cost.write_json(json)
}

fn push_tokens(json: &mut Vec<u8>, before: &str, tokens: &TokenUsage) -> serde_json::Result<()> {
    json.extend_from_slice(before.as_bytes());
    push_member(json, "{\"inputTokens\":", &tokens.input_tokens)?;
    push_member(json, ",\"outputTokens\":", &tokens.output_tokens)?;
    push_member(json, ",\"cacheCreationTokens\":", &tokens.cache_creation_tokens)?;
    push_member(json, ",\"cacheReadTokens\":", &tokens.cache_read_tokens)?;
    json.push(b'}');
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(event: &StateEvent) {
        let mut json = b"before".to_vec();
        event.write_json(&mut json).unwrap();
        let expected = serde_json::to_string(event).unwrap();
        assert_eq!(std::str::from_utf8(&json).unwrap(), format!("before{expected}"));
    }

    #[test]
    fn a_path_that_is_no_text_is_an_error() {
        use std::os::unix::ffi::OsStringExt as _;
        let event = StateEvent::RunStarted {
            run_id: RunId::new("run").unwrap(),
            run_folder: std::ffi::OsString::from_vec(vec![0xff]).into(),
            git_branch: String::new(),
            starting_conditions: crate::document::StartingConditions::fresh(None),
            server_pid: crate::id::Pid(1),
        };
        assert!(event.write_json(&mut Vec::new()).is_err());
    }

    proptest! {
        #[test]
        fn events_are_written_as_their_serialisation_writes_them(
            (run, codon) in ("w[a-z0-9-]{0,9}", "w[a-zA-Z0-9_.-]{0,9}(#[0-9])?"),
            nanos in any::<u64>(),
            counts in any::<[u64; 4]>(),
        ) {
            let (run_id, codon_id) = (RunId::new(run).unwrap(), CodonId::new(codon).unwrap());
            let cost = Usd::from_nanos(nanos);
            let [input_tokens, output_tokens, cache_creation_tokens, cache_read_tokens] = counts;
            let tokens = TokenUsage { input_tokens, output_tokens, cache_creation_tokens, cache_read_tokens };
            check(&StateEvent::CostsIncremented {
                run_id: run_id.clone(),
                codon_id: codon_id.clone(),
                cost_delta: cost,
                tokens_delta: tokens,
            });
            check(&StateEvent::CostsUpdated {
                run_id: run_id.clone(),
                codon_id: codon_id.clone(),
                cost,
                tokens,
            });
            check(&StateEvent::AssistantMessageCountUpdated {
                run_id: run_id.clone(),
                codon_id,
                new_count: counts[0],
            });
            check(&StateEvent::RunCompleted { run_id });
        }
    }
}
