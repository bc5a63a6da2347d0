//! The rules of the reducer (STATE-14 to STATE-32), as stories.

use hankweave_core::codon::{CODON, CodonExecution, CodonStatus};
use hankweave_core::document::{RunStatus, render};
use hankweave_core::event::{Recorded, StateEvent};
use hankweave_core::state::{LiveState, Rejected};
use hankweave_core::time::Timestamp;
use serde_json::{Value, json};

const RUN: &str = "1736000000000-abc123-def456";

/// A document that events are played into; `seq` and time continue by one.
struct Stage {
    live: LiveState,
    played: Vec<Recorded<StateEvent>>,
}

impl Stage {
    fn new() -> Self {
        Self {
            live: LiveState::default(),
            played: Vec::new(),
        }
    }

    /// A run with one codon in `status`.
    fn with_codon(status: CodonStatus) -> Self {
        let mut stage = Self::new();
        stage.accept(run_started(RUN));
        stage.accept(event("CodonStarted", json!({"codonId": "draft"})));
        for to in way_to(status) {
            stage.transition(to);
        }
        stage
    }

    fn try_play(&mut self, event: StateEvent) -> Result<(), Rejected> {
        let seq = self.played.len() as u64 + 1;
        let recorded = Recorded {
            seq,
            at: Timestamp::from_millis(seq.cast_signed() * 1_000),
            event,
        };
        self.live.apply(&recorded)?;
        self.played.push(recorded);
        Ok(())
    }

    #[track_caller]
    fn accept(&mut self, event: StateEvent) {
        self.try_play(event).unwrap();
        let document = self.live.document();
        assert_eq!(self.live.totals().total, document.total_cost());
        assert_eq!(self.live.totals().spend, document.total_spend());
        let current = document
            .current_run()
            .map(|run| run.codon_cost())
            .unwrap_or_default();
        assert_eq!(self.live.totals().current_run, current);
    }

    /// Refused, and the document is as it was byte for byte.
    #[track_caller]
    fn refuse(&mut self, event: StateEvent) -> Rejected {
        let before = render(self.live.document());
        let rejected = self.try_play(event).unwrap_err();
        assert_eq!(render(self.live.document()), before, "{rejected}");
        rejected
    }

    #[track_caller]
    fn transition(&mut self, to: CodonStatus) {
        let from = self.codon().status();
        self.accept(transitioned(from, to, metadata(from, to)));
    }

    fn codon(&self) -> &CodonExecution {
        self.live.document().runs[0].codons.last().unwrap()
    }
}

fn run_started(id: &str) -> StateEvent {
    event(
        "RunStarted",
        json!({"runId": id, "runFolder": format!("/p/.hankweave/runs/{id}"), "gitBranch": format!("run-{id}"),
               "startingConditions": {"type": "fresh"}, "serverPid": 7}),
    )
}

fn event(name: &str, mut data: Value) -> StateEvent {
    data.as_object_mut().unwrap().entry("runId").or_insert(json!(RUN));
    serde_json::from_value(json!({"type": name, "data": data})).unwrap()
}

fn transitioned(from: CodonStatus, to: CodonStatus, metadata: Value) -> StateEvent {
    event(
        "CodonTransitioned",
        json!({"codonId": "draft", "from": from, "to": to, "metadata": metadata}),
    )
}

/// Everything that `to` demands.
fn metadata(from: CodonStatus, to: CodonStatus) -> Value {
    match to {
        CodonStatus::Preparing | CodonStatus::Starting | CodonStatus::CompletingSentinels => json!({}),
        CodonStatus::Initializing => json!({"claudePid": 9, "claudeLogPath": "runs/r/draft-claude.log"}),
        CodonStatus::Running => json!({"claudeSessionId": "s"}),
        CodonStatus::Completed => json!({"checkpointSha": "def456"}),
        CodonStatus::Failed => json!({"exitCode": 1, "failureReason": {"type": "timeout", "retriable": true},
                                      "failedDuring": from}),
        CodonStatus::Skipped => json!({"skippedDuring": from}),
    }
}

fn way_to(status: CodonStatus) -> Vec<CodonStatus> {
    use CodonStatus::{
        Completed, CompletingSentinels, Failed, Initializing, Preparing, Running, Skipped, Starting,
    };
    match status {
        Preparing => vec![],
        Starting => vec![Starting],
        Initializing => vec![Starting, Initializing],
        Running => vec![Starting, Initializing, Running],
        CompletingSentinels => vec![Starting, Initializing, Running, CompletingSentinels],
        Completed => vec![Starting, Initializing, Running, Completed],
        Failed => vec![Starting, Failed],
        Skipped => vec![Starting, Initializing, Running, Skipped],
    }
}

fn tokens(input: u64) -> Value {
    json!({"inputTokens": input, "outputTokens": 0, "cacheCreationTokens": 0, "cacheReadTokens": 0})
}

// covers: STATE-14
#[test]
fn typed_and_dynamic_agree() {
    let mut accepted = 0;
    for from in CodonStatus::ALL {
        for to in CodonStatus::ALL {
            let mut stage = Stage::with_codon(*from);
            let played = stage.try_play(transitioned(*from, *to, metadata(*from, *to)));
            let in_graph = CODON.edges.iter().any(|edge| {
                let name = |status: &CodonStatus| {
                    CODON
                        .states
                        .iter()
                        .find(|state| state.stored_name == status.as_str())
                        .unwrap()
                        .name
                };
                edge.from == name(from) && edge.to == name(to)
            });
            assert_eq!(played.is_ok(), in_graph, "{from} to {to}");
            assert_eq!(from.targets().contains(to), in_graph, "{from} to {to}");
            accepted += usize::from(in_graph);
        }
    }
    assert_eq!(accepted, 16);
}

#[test]
fn apply_is_all_or_nothing() {
    let mut stage = Stage::with_codon(CodonStatus::Running);
    let wrong_state = transitioned(CodonStatus::Starting, CodonStatus::Initializing, json!({}));
    assert_eq!(stage.refuse(wrong_state).kind(), "invalid_transition");
    let rejected = stage.refuse(transitioned(CodonStatus::Running, CodonStatus::Failed, json!({})));
    assert_eq!(
        (rejected.kind(), rejected.fields()),
        ("metadata", vec!["exitCode", "failureReason", "failedDuring"])
    );
    let blank = transitioned(
        CodonStatus::Running,
        CodonStatus::Completed,
        json!({"checkpointSha": " "}),
    );
    assert_eq!(stage.refuse(blank).fields(), ["checkpointSha"]);
    let unknown = event(
        "CostsUpdated",
        json!({"codonId": "nobody", "cost": 1, "tokens": tokens(1)}),
    );
    assert_eq!(stage.refuse(unknown).kind(), "not_found");
    assert_eq!(
        stage
            .refuse(event("RunCompleted", json!({"runId": "other"})))
            .kind(),
        "not_found"
    );
    assert_eq!(
        stage
            .refuse(event("CodonStarted", json!({"codonId": "draft"})))
            .kind(),
        "conflict"
    );
    assert_eq!(stage.refuse(run_started("second")).kind(), "conflict");
}

// covers: STATE-16
#[test]
fn the_message_of_missing_metadata_names_the_fields() {
    let mut stage = Stage::with_codon(CodonStatus::Initializing);
    let rejected = stage.refuse(transitioned(
        CodonStatus::Initializing,
        CodonStatus::Running,
        json!({}),
    ));
    assert_eq!(
        rejected.to_string(),
        "Missing required metadata for transition to running: claudeSessionId"
    );
}

#[test]
fn terminal_is_final() {
    for status in [CodonStatus::Completed, CodonStatus::Failed, CodonStatus::Skipped] {
        let mut stage = Stage::with_codon(status);
        for to in CodonStatus::ALL {
            let rejected = stage.refuse(transitioned(status, *to, metadata(CodonStatus::Preparing, *to)));
            assert_eq!(rejected.kind(), "invalid_transition");
        }
        stage.refuse(event(
            "CostsUpdated",
            json!({"codonId": "draft", "cost": 1, "tokens": tokens(1)}),
        ));
        let before = render(stage.live.document());
        let checkpoint =
            json!({"codonId": "draft", "checkpointType": "completed", "sha": "other", "branch": "b"});
        stage.accept(event("CheckpointCreated", checkpoint));
        assert_eq!(render(stage.live.document()), before);
    }
}

#[test]
fn replay_equals_live() {
    let mut stage = Stage::with_codon(CodonStatus::Running);
    stage.accept(event(
        "CostsIncremented",
        json!({"codonId": "draft", "costDelta": 0.01, "tokensDelta": tokens(5)}),
    ));
    stage.transition(CodonStatus::CompletingSentinels);
    stage.accept(event(
        "CodonFinalCostSet",
        json!({"codonId": "draft", "finalCost": 0.02, "finalTokens": tokens(6)}),
    ));
    stage.transition(CodonStatus::Completed);
    stage.accept(event("RunCompleted", json!({})));

    let lines: Vec<String> = stage
        .played
        .iter()
        .map(|recorded| serde_json::to_string(recorded).unwrap())
        .collect();
    let mut again = LiveState::default();
    for line in lines {
        again.apply(&serde_json::from_str(&line).unwrap()).unwrap();
    }
    assert_eq!(render(again.document()), render(stage.live.document()));
}

// covers: STATE-28
#[test]
fn costs_count_while_sentinels_drain_and_become_final() {
    let mut stage = Stage::with_codon(CodonStatus::CompletingSentinels);
    stage.accept(event(
        "CostsUpdated",
        json!({"codonId": "draft", "cost": 0.5, "tokens": tokens(9)}),
    ));
    stage.transition(CodonStatus::Completed);
    let CodonExecution::Completed(codon) = stage.codon() else {
        panic!("{:?}", stage.codon())
    };
    assert_eq!(
        (
            codon.final_cost.as_dollars(),
            codon.final_tokens.usage.input_tokens
        ),
        (0.5, 9)
    );
}

// covers: STATE-47
#[test]
fn a_skipped_codon_counts_nothing_and_was_spent_all_the_same() {
    let mut stage = Stage::with_codon(CodonStatus::Running);
    stage.accept(event(
        "CostsUpdated",
        json!({"codonId": "draft", "cost": 0.5, "tokens": tokens(9)}),
    ));
    stage.transition(CodonStatus::Skipped);
    let document = stage.live.document();
    assert_eq!(
        (
            document.total_cost().as_dollars(),
            document.total_spend().as_dollars()
        ),
        (0.0, 0.5)
    );
}

// covers: L4
#[test]
fn a_crash_closes_the_open_codon_and_the_run_in_one_step() {
    let mut stage = Stage::with_codon(CodonStatus::Initializing);
    let crash = json!({"detectedAt": "2025-01-04T12:00:00Z", "lastCodonStatus": "initializing"});
    stage.accept(event("RunCrashed", crash));
    let CodonExecution::Failed(codon) = stage.codon() else {
        panic!("{:?}", stage.codon())
    };
    assert_eq!(
        (codon.exit_code, codon.failed_during.as_str()),
        (-1, "initializing")
    );
    assert_eq!(codon.failure_reason.message.as_deref(), Some("Server crashed"));
    assert!(!codon.failure_reason.retriable);
    let document = stage.live.document();
    assert_eq!(
        (document.runs[0].status, &document.current_run_id),
        (RunStatus::Crashed, &None)
    );
    stage.refuse(event("RunCompleted", json!({})));
}

#[test]
fn a_retry_is_another_record_and_events_mean_the_open_one() {
    let mut stage = Stage::with_codon(CodonStatus::Failed);
    stage.accept(event("CodonStarted", json!({"codonId": "draft"})));
    stage.transition(CodonStatus::Starting);
    let statuses: Vec<CodonStatus> = stage.live.document().runs[0]
        .codons
        .iter()
        .map(|codon| codon.status())
        .collect();
    assert_eq!(statuses, [CodonStatus::Failed, CodonStatus::Starting]);
}

// covers: STATE-18
#[test]
fn a_failure_may_have_begun_earlier_and_never_later() {
    let mut stage = Stage::with_codon(CodonStatus::CompletingSentinels);
    let from = CodonStatus::CompletingSentinels;
    stage.accept(transitioned(
        from,
        CodonStatus::Failed,
        metadata(CodonStatus::Running, CodonStatus::Failed),
    ));
    let mut stage = Stage::with_codon(CodonStatus::Starting);
    let later = transitioned(
        CodonStatus::Starting,
        CodonStatus::Failed,
        metadata(CodonStatus::Running, CodonStatus::Failed),
    );
    assert_eq!(stage.refuse(later).fields(), ["failedDuring"]);
}

// covers: STATE-13
#[test]
fn the_older_spelling_of_a_state_is_understood_and_never_written() {
    let mut stage = Stage::with_codon(CodonStatus::Running);
    let old = json!({"codonId": "draft", "from": "running", "to": "completing_sentinels"});
    stage.accept(event("CodonTransitioned", old));
    assert!(render(stage.live.document()).contains("\"completing-sentinels\""));
}

// covers: STATE-31
#[test]
fn a_plan_names_each_codon_once() {
    let mut stage = Stage::new();
    let entry = json!({"codon": {"id": "a"}, "codonId": "a"});
    let twice = json!({"type": "PlanReplaced", "data": {"executionPlan": [entry, entry]}});
    assert_eq!(
        stage.refuse(serde_json::from_value(twice).unwrap()).kind(),
        "conflict"
    );
}
