//! Strategies for property tests.

use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::Story;
use super::story::metadata;
use crate::codon::CodonStatus;
use crate::document::HankweaveState;
use crate::event::{Recorded, StateEvent};

/// Histories of up to `length` events. About two of three fit what happened before them; the reducer refuses
/// the others.
pub fn histories(length: usize) -> impl Strategy<Value = Vec<Recorded<StateEvent>>> {
    vec(moves(), 0..=length).prop_map(|moves| {
        let mut story = Story::new();
        let mut events: Vec<Recorded<StateEvent>> = Vec::new();
        for (index, wish) in moves.into_iter().enumerate() {
            let event = wish.in_story(&story);
            events.push(Recorded {
                seq: index as u64 + 1,
                at: crate::time::Timestamp::from_millis(1_736_000_000_000 + index as i64 * 1_000),
                event: event.clone(),
            });
            // A refused event is still part of the history.
            let _ = story.try_tell(event);
        }
        events
    })
}

/// Returns a strategy for the documents of histories with up to `length` events.
pub fn states(length: usize) -> impl Strategy<Value = HankweaveState> {
    histories(length).prop_map(|events| {
        let mut live = crate::state::LiveState::default();
        for event in &events {
            let _ = live.apply(event);
        }
        live.into_document()
    })
}

/// Something that may happen next, in words that fit any story.
#[derive(Debug, Clone)]
enum Move {
    StartRun {
        run: u8,
        continues: Option<u8>,
    },
    EndRun {
        how: u8,
        run: Option<u8>,
    },
    StartCodon {
        codon: u8,
    },
    Step {
        to: CodonStatus,
        honest: bool,
        whole: bool,
    },
    Costs {
        micros: u32,
        how: u8,
    },
    Messages {
        count: u8,
    },
    Sentinels {
        count: u8,
    },
    Checkpoint {
        which: u8,
        codon: u8,
    },
    Plan {
        codons: Vec<u8>,
    },
    Extensions {
        count: u8,
    },
    RollBack {
        to: Option<u8>,
        restored: bool,
    },
}

fn moves() -> impl Strategy<Value = Move> {
    let status = || prop::sample::select(CodonStatus::ALL);
    prop_oneof![
        2 => (0..4u8, proptest::option::of(0..4u8)).prop_map(|(run, continues)| Move::StartRun { run, continues }),
        1 => (0..3u8, proptest::option::of(0..4u8)).prop_map(|(how, run)| Move::EndRun { how, run }),
        3 => (0..3u8).prop_map(|codon| Move::StartCodon { codon }),
        9 => (status(), prop::bool::weighted(0.9), prop::bool::weighted(0.9))
            .prop_map(|(to, honest, whole)| Move::Step { to, honest, whole }),
        4 => (any::<u32>(), 0..3u8).prop_map(|(micros, how)| Move::Costs { micros, how }),
        1 => any::<u8>().prop_map(|count| Move::Messages { count }),
        1 => (0..3u8).prop_map(|count| Move::Sentinels { count }),
        1 => (0..5u8, 0..3u8).prop_map(|(which, codon)| Move::Checkpoint { which, codon }),
        1 => vec(0..4u8, 0..4).prop_map(|codons| Move::Plan { codons }),
        1 => any::<u8>().prop_map(|count| Move::Extensions { count }),
        1 => (proptest::option::weighted(0.8, 0..4u8), any::<bool>()).prop_map(|(to, restored)| Move::RollBack { to, restored }),
    ]
}

impl Move {
    fn in_story(self, story: &Story) -> StateEvent {
        let run = story.state().runs.front();
        let run_id = run.map_or_else(|| "r9".to_owned(), |run| run.run_id.to_string());
        let newest = run.and_then(|run| run.codons.last());
        let codon_id = newest.map_or_else(|| "z".to_owned(), |codon| codon.codon_id().to_string());
        let (kind, data) = match self {
            Self::StartRun { run, continues } => ("RunStarted", start_run(run, continues)),
            Self::EndRun { how, run } => {
                let run_id = run.map_or(run_id, |run| format!("r{run}"));
                let kind = ["RunCompleted", "RunFailed", "RunCrashed"][usize::from(how)];
                let data = json!({"runId": run_id, "detectedAt": "2025-01-05T00:00:00Z", "lastCodonStatus": "unknown"});
                (kind, data)
            }
            Self::StartCodon { codon } => (
                "CodonStarted",
                json!({"runId": run_id, "codonId": codon_name(codon)}),
            ),
            Self::Step { to, honest, whole } => {
                let from = newest.map_or(CodonStatus::Preparing, |codon| codon.status());
                let to = if honest { likely(from, to) } else { to };
                let metadata = if whole {
                    metadata(from, to, &codon_id)
                } else {
                    Value::Null
                };
                let data = json!({"runId": run_id, "codonId": codon_id, "from": from, "to": to, "metadata": metadata});
                ("CodonTransitioned", data)
            }
            Self::Costs { micros, how } => costs(&run_id, &codon_id, f64::from(micros) / 1e6, how),
            Self::Messages { count } => (
                "AssistantMessageCountUpdated",
                json!({"runId": run_id, "codonId": codon_id, "newCount": count}),
            ),
            Self::Sentinels { count } => ("SentinelStatesUpdated", sentinels(&run_id, &codon_id, count)),
            Self::Checkpoint { which: 4, .. } => ("InitialCheckpointSet", json!({"sha": "first"})),
            Self::Checkpoint { which, codon } => {
                let kind = ["rig-setup", "completed", "error", "skipped"][usize::from(which)];
                let data = json!({"runId": run_id, "codonId": codon_name(codon), "checkpointType": kind, "sha": "abc", "branch": "run"});
                ("CheckpointCreated", data)
            }
            Self::Plan { codons } => {
                let entry = |codon| json!({"codon": {"id": codon_name(codon)}, "codonId": codon_name(codon)});
                let plan: Vec<Value> = codons.into_iter().map(entry).collect();
                ("PlanReplaced", json!({"executionPlan": plan}))
            }
            Self::RollBack { to, restored } => {
                let rollback = to.map(|run| {
                    let source = start_run(0, Some(run))["startingConditions"]["source"].take();
                    json!({"source": source, "restored": restored})
                });
                ("RollbackPending", json!({"rollback": rollback}))
            }
            Self::Extensions { count } => (
                "ExtensionCountUpdated",
                json!({"runId": run_id, "codonId": codon_id, "extensionCount": count}),
            ),
        };
        StateEvent::from_json(json!({"type": kind, "data": data})).expect("the words are those of the events")
    }
}

fn start_run(run: u8, continues: Option<u8>) -> Value {
    let conditions = match continues {
        None => json!({"type": "fresh"}),
        Some(parent) => json!({"type": "continuation", "source": {"runId": format!("r{parent}"),
            "afterCodon": codon_name(parent % 3), "checkpointSha": format!("{}-rig", codon_name(parent % 3))}}),
    };
    json!({"runId": format!("r{run}"), "runFolder": format!("/x/r{run}"), "gitBranch": format!("run-r{run}"),
           "startingConditions": conditions, "serverPid": 1})
}

fn costs(run_id: &str, codon_id: &str, dollars: f64, how: u8) -> (&'static str, Value) {
    let tokens = json!({"inputTokens": 1, "outputTokens": 2, "cacheCreationTokens": 0, "cacheReadTokens": 0});
    let mut data = json!({"runId": run_id, "codonId": codon_id});
    let (kind, cost, count) = match how {
        0 => ("CostsUpdated", "cost", "tokens"),
        1 => ("CostsIncremented", "costDelta", "tokensDelta"),
        _ => ("CodonFinalCostSet", "finalCost", "finalTokens"),
    };
    (data[cost], data[count]) = (json!(dollars), tokens);
    (kind, data)
}

fn sentinels(run_id: &str, codon_id: &str, count: u8) -> Value {
    let state = |index: u8| {
        json!({"id": format!("s{index}"), "model": "haiku", "loadedAt": "2025-01-04T12:00:00Z", "llmCallCount": 1,
               "failedLLMCalls": 0, "totalTriggers": 1, "totalCost": 0.25, "status": "active"})
    };
    let states: Vec<Value> = (0..count).map(state).collect();
    json!({"runId": run_id, "codonId": codon_id, "sentinelStates": states, "totalCost": 0.25 * f64::from(count)})
}

fn codon_name(codon: u8) -> String {
    char::from(b'a' + codon).to_string()
}

/// The wish, or the way ahead where it cannot be had at once.
fn likely(from: CodonStatus, wish: CodonStatus) -> CodonStatus {
    let targets = from.targets();
    match targets.contains(&wish) {
        true => wish,
        false => targets.first().copied().unwrap_or(wish),
    }
}
