//! A machine with the shape of the codon, with plain field types.

use hankweave_core::machine;
use hankweave_core::machine::{Extra, Sample};
use serde::{Deserialize, Serialize};
use serde_json::json;

/// Sentinels at work.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Loaded {
    /// Their names.
    pub loaded: Vec<String>,
}

/// Sentinels that are done.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(crate) struct Executed {
    /// Their names.
    pub executed: Vec<String>,
}

impl From<Loaded> for Executed {
    fn from(sentinels: Loaded) -> Self {
        Self {
            executed: sentinels.loaded,
        }
    }
}

impl Sample for Loaded {
    fn sample(n: u32) -> Self {
        Self {
            loaded: Sample::sample(n),
        }
    }
}

/// One run of one agent, as the state document stores it.
#[machine(Codon, tests)]
#[serde(tag = "status", rename_all = "kebab-case", rename_all_fields = "camelCase")]
pub(crate) enum CodonExecution {
    #[shared]
    Base {
        /// Which codon.
        #[sample("build#0".into())]
        codon_id: String,
        start_time: String,
        loop_context: Option<u32>,
        #[extra]
        extra: Extra,
    },

    /// Rig setup is running.
    #[initial]
    #[to(start => Starting, fail => Failed, skip => Skipped)]
    Preparing {
        #[live(start = None)]
        rig_setup_checkpoint: Option<String>,
    },

    /// The agent is being started.
    #[to(initialize => Initializing, fail => Failed, skip => Skipped)]
    Starting {
        rig_setup_checkpoint: Option<String>,
        /// Sentinels that watch this codon.
        sentinels: Loaded,
    },

    /// The agent runs, its session is not known yet.
    #[to(run => Running, fail => Failed, skip => Skipped)]
    #[keeps(rig_setup_checkpoint, sentinels)]
    Initializing {
        /// Process id of the agent.
        claude_pid: u32,
        claude_log_path: String,
        previous_session_id: Option<String>,
    },

    /// The agent works.
    #[to(complete_sentinels => CompletingSentinels, complete => Completed, fail => Failed, skip => Skipped)]
    #[keeps(
        rig_setup_checkpoint,
        sentinels,
        claude_pid,
        claude_log_path,
        previous_session_id
    )]
    Running {
        claude_session_id: String,
        #[live(start = 0.0, add)]
        current_cost: f64,
        #[live(start = 0)]
        assistant_message_count: u32,
    },

    /// The agent is done, its sentinels are not.
    #[serde(alias = "completing_sentinels")]
    #[to(complete => Completed, fail => Failed, skip => Skipped)]
    #[same_as(Running)]
    CompletingSentinels,

    /// All went well.
    #[terminal]
    #[keeps(rig_setup_checkpoint, claude_session_id, claude_log_path, previous_session_id)]
    #[tolerates(claude_pid, current_cost, assistant_message_count)]
    Completed {
        end_time: String,
        #[fixed(0)]
        exit_code: i32,
        #[carry(current_cost)]
        final_cost: f64,
        #[carry]
        sentinels: Executed,
        #[serde(alias = "checkpointSha")]
        completion_checkpoint: String,
        #[serde(default)]
        result_message_received: bool,
    },

    /// It went wrong.
    #[terminal]
    Failed {
        end_time: String,
        #[origin]
        failed_during: CodonPhase,
        exit_code: i32,
        error_checkpoint: Option<String>,
        #[carry]
        claude_pid: Option<u32>,
        #[carry]
        claude_session_id: Option<String>,
        #[carry]
        rig_setup_checkpoint: Option<String>,
        #[carry(current_cost)]
        partial_cost: f64,
        #[carry]
        sentinels: Executed,
    },

    /// It was left out.
    #[terminal]
    Skipped {
        end_time: String,
        #[origin]
        skipped_during: CodonPhase,
        #[carry]
        assistant_message_count: Option<u32>,
        #[carry(current_cost)]
        partial_cost: f64,
        #[carry]
        sentinels: Executed,
    },
}

use codon::{Complete, CompleteSentinels, Fail, Initialize, Run, Running, Start};

fn new() -> Codon<codon::Preparing> {
    Codon::new("build#0".into(), "2025-01-04T12:00:00.000Z".into(), None)
}

fn start() -> Start {
    Start {
        rig_setup_checkpoint: None,
        sentinels: Loaded {
            loaded: vec!["watch".into()],
        },
    }
}

fn initialize() -> Initialize {
    Initialize {
        claude_pid: 12,
        claude_log_path: "runs/r/build-claude.log".into(),
        previous_session_id: None,
    }
}

fn run() -> Run {
    Run {
        claude_session_id: "session".into(),
    }
}

fn complete() -> Complete {
    Complete {
        end_time: "2025-01-04T12:05:00.000Z".into(),
        completion_checkpoint: "abc".into(),
        result_message_received: true,
    }
}

fn fail() -> Fail {
    Fail {
        end_time: "2025-01-04T12:05:00.000Z".into(),
        exit_code: 1,
        error_checkpoint: None,
    }
}

fn running() -> Codon<Running> {
    new().start(start()).initialize(initialize()).run(run())
}

#[test]
fn a_codon_walks_from_preparing_to_completed_and_keeps_its_cost() {
    let mut running = running();
    running.add_current_cost(0.25);
    running.add_current_cost(0.5);
    running.set_assistant_message_count(3);
    let completed = running.complete_sentinels().complete(complete());
    assert_eq!(completed.final_cost, 0.75);
    assert_eq!(completed.exit_code, 0);
    assert_eq!(
        completed.sentinels,
        Executed {
            executed: vec!["watch".into()]
        }
    );
    assert_eq!(completed.status(), CodonStatus::Completed);
}

#[test]
fn failing_remembers_where_and_takes_defaults_for_what_did_not_happen_yet() {
    let failed = new().fail(fail());
    assert_eq!(failed.failed_during, CodonPhase::Preparing);
    assert_eq!((failed.claude_pid, failed.partial_cost), (None, 0.0));
    let failed = running().fail(fail());
    assert_eq!(failed.failed_during, CodonPhase::Running);
    assert_eq!(failed.claude_pid, Some(12));
}

#[test]
fn a_step_gives_the_value_and_the_event_and_the_event_does_the_same_to_the_stored_form() {
    let before = running().into_execution();
    let (completed, event) = running().step(complete()).into_parts();
    assert_eq!(event, CodonTransition::Complete(complete()));
    assert_eq!(before.apply(event), Ok(completed.into_execution()));
    let step = running().step(CompleteSentinels);
    assert_eq!(step.event().method(), "complete_sentinels");
    assert_eq!(step.into_event().target(), CodonStatus::CompletingSentinels);
}

#[test]
fn an_illegal_event_hands_the_value_back_and_names_what_is_legal() {
    let before = new().into_execution();
    let error = before
        .clone()
        .apply(CodonTransition::Complete(complete()))
        .unwrap_err();
    assert_eq!(*error.value, before);
    assert_eq!(
        error.to_string(),
        "invalid transition from preparing: no step `complete` (legal: start -> starting, fail -> failed, skip -> skipped)"
    );
    assert!(!CodonStatus::Preparing.legal(CodonStatus::Completed));
    assert!(CodonStatus::Running.legal(CodonStatus::Completed));
}

#[test]
fn a_stored_running_codon_round_trips_and_becomes_typed_again() {
    let json = json!({
        "status": "running", "codonId": "build#0", "startTime": "2025-01-04T12:00:00.000Z",
        "extensionCount": 2, "sentinels": {"loaded": []}, "claudePid": 7, "claudeLogPath": "log",
        "claudeSessionId": "s", "currentCost": 0.5, "assistantMessageCount": 1,
    });
    let execution: CodonExecution = serde_json::from_value(json.clone()).unwrap();
    assert_eq!(execution.codon_id(), "build#0");
    assert_eq!(execution.extra().get("extensionCount"), Some(&json!(2)));
    assert_eq!(serde_json::to_value(&execution).unwrap(), json);
    let refused = Codon::<codon::Starting>::try_from(execution.clone()).unwrap_err();
    assert_eq!(refused.to_string(), "expected status starting, found running");
    assert_eq!(refused.into_value(), execution);
    let typed = Codon::<Running>::try_from(execution).unwrap();
    assert_eq!(typed.fail(fail()).extra.get("extensionCount"), Some(&json!(2)));
}

#[track_caller]
fn refused(json: &serde_json::Value, message: &str) {
    let error = serde_json::from_str::<CodonExecution>(&json.to_string())
        .unwrap_err()
        .to_string();
    assert!(error.contains(message), "{error}");
}

#[test]
fn stored_values_that_break_a_rule_are_refused_with_the_reason() {
    let preparing = json!({"status": "preparing", "codonId": "a", "startTime": "t", "finalCost": 1});
    refused(
        &preparing,
        "field `finalCost` does not belong to status `preparing`",
    );
    refused(&json!({"codonId": "a"}), "missing field `status`");
    refused(
        &json!({"status": "starting", "codonId": "a", "startTime": "t"}),
        "missing field `sentinels`",
    );
    let completed = json!({
        "status": "completed", "codonId": "a", "startTime": "t", "endTime": "t", "exitCode": 3, "finalCost": 1,
        "sentinels": {"executed": []}, "completionCheckpoint": "abc", "claudeSessionId": "s", "claudeLogPath": "l",
    });
    refused(&completed, "field `exitCode` must be 0, not 3");
    let failed = json!({
        "status": "failed", "codonId": "a", "startTime": "t", "endTime": "t", "exitCode": 3, "partialCost": 1,
        "sentinels": {"executed": []}, "failedDuring": "completed",
    });
    refused(
        &failed,
        "unknown variant `completed`, expected one of `preparing`",
    );
}

#[test]
fn the_tag_may_come_last_and_old_names_are_read_and_null_is_absent() {
    let text = r#"{"codonId": "a", "startTime": "t", "note": [1], "loopContext": null, "sentinels": {"loaded": []},
        "claudePid": 7, "claudeLogPath": "l", "claudeSessionId": "s", "currentCost": 1, "assistantMessageCount": 0,
        "status": "completing_sentinels"}"#;
    let execution: CodonExecution = serde_json::from_str(text).unwrap();
    assert_eq!(execution.status(), CodonStatus::CompletingSentinels);
    assert_eq!(execution.loop_context(), &None);
    assert_eq!(execution.extra().get("note"), Some(&json!([1])));
    assert_eq!(
        serde_json::to_value(&execution).unwrap()["status"],
        "completing-sentinels"
    );
}

// covers: STATE-10
#[test]
fn tolerated_fields_are_read_and_not_written() {
    let completed = json!({
        "status": "completed", "codonId": "a", "startTime": "t", "endTime": "t", "exitCode": 0, "finalCost": 1.0,
        "sentinels": {"executed": []}, "checkpointSha": "abc", "claudeSessionId": "s", "claudeLogPath": "l",
        "claudePid": 4,
    });
    let execution: CodonExecution = serde_json::from_value(completed).unwrap();
    let written = serde_json::to_value(&execution).unwrap();
    assert_eq!(written.get("claudePid"), None);
    assert_eq!(written["completionCheckpoint"], "abc");
}

#[test]
fn names_are_parsed_printed_and_ordered() {
    assert_eq!(
        "completing_sentinels".parse(),
        Ok(CodonStatus::CompletingSentinels)
    );
    assert_eq!(
        CodonStatus::CompletingSentinels.to_string(),
        "completing-sentinels"
    );
    assert_eq!(CodonStatus::ALL.len(), 8);
    assert_eq!(CodonPhase::ALL.len(), 5);
    assert!(CodonStatus::Preparing < CodonStatus::Failed);
    assert_eq!(
        CodonPhase::try_from(CodonStatus::Failed),
        Err(CodonStatus::Failed)
    );
    let error = "done".parse::<CodonPhase>().unwrap_err().to_string();
    assert!(
        error.starts_with("unknown name `done`, expected one of `preparing`, `starting`"),
        "{error}"
    );
}

// covers: STATE-14
#[test]
fn the_graph_has_sixteen_edges_and_draws_itself() {
    assert_eq!((CODON.states.len(), CODON.edges.len()), (8, 16));
    assert!(
        CODON
            .to_mermaid()
            .contains("    Running --> CompletingSentinels : complete_sentinels\n")
    );
    assert!(CODON.to_dot().contains("    Failed [shape=doublecircle];\n"));
    assert!(CODON.to_plantuml().ends_with("Skipped --> [*]\n@enduml\n"));
    assert!(CODON.to_json().contains("\"storedName\": \"claudePid\""));
}

#[test]
fn events_have_a_stored_form() {
    let event = CodonTransition::CompleteSentinels;
    assert_eq!(
        serde_json::to_value(&event).unwrap(),
        json!({"method": "complete_sentinels"})
    );
    let event = CodonTransition::Run(run());
    let json = json!({"method": "run", "metadata": {"claudeSessionId": "session"}});
    assert_eq!(serde_json::to_value(&event).unwrap(), json);
    assert_eq!(serde_json::from_value::<CodonTransition>(json).unwrap(), event);
}

#[test]
fn a_known_name_smuggled_in_among_the_unknown_ones_is_noticed() {
    let mut execution = new().into_execution();
    assert_eq!(execution.validate(), []);
    let CodonExecution::Preparing(preparing) = &mut execution else {
        panic!("a new codon is preparing");
    };
    preparing.extra.insert("finalCost", json!(1));
    preparing.extra.insert("status", json!("failed"));
    preparing.extra.insert("note", json!("fine"));
    let violations: Vec<String> = execution.validate().iter().map(ToString::to_string).collect();
    assert_eq!(
        violations,
        [
            "field `finalCost` must be absent, not 1",
            "field `status` must be the name of the state, not \"failed\"",
        ]
    );
    let refused = Codon::<codon::Preparing>::try_from(execution).unwrap_err();
    assert!(
        refused
            .to_string()
            .starts_with("not a valid value of status preparing; field `finalCost`")
    );
}
