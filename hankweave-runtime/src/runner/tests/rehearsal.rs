//! Rehearsals in a directory that an embedder gives, and real runs in that directory (CLI-74).

use futures_util::future::BoxFuture;
use hankweave_agents::Launch;
use hankweave_core::agent::{Capabilities, InterruptedBy};
use hankweave_core::hank::RehearsedKind::{Ask, Repeat, Run};
use serde_json::json;

use super::{Actor, Stage};
use crate::driver::{AgentDriver, RunningAgent, StartError};
use crate::recovery::OpenExecutionError;
use crate::runner::{RunOutcome, RunResult};
use crate::shutdown::Shutdown;

/// The actor in the place of the scripted agent, which is a process.
struct Understudy;

impl AgentDriver for Understudy {
    fn name(&self) -> &str {
        "scripted"
    }

    fn capabilities(&self) -> Capabilities {
        Actor.capabilities()
    }

    fn start<'a>(&'a self, launch: Launch) -> BoxFuture<'a, Result<RunningAgent, StartError>> {
        Actor.start(launch)
    }
}

async fn run(stage: &mut Stage, rehearsal: bool) -> RunOutcome {
    stage.options.rehearsal = rehearsal;
    let opened = stage.builder().driver(Understudy).open().await.unwrap();
    opened.run(Shutdown::new()).await.unwrap()
}

// covers: CLI-74, STATE-65
#[tokio::test]
async fn a_rehearsal_leaves_a_directory_in_which_a_run_begins_anew() {
    let mut stage = Stage::new(&["one", "two"]);
    let asked = json!({"id": "b", "name": "b", "model": "m", "continuationMode": "fresh", "agent": "actor", "promptText": "two",
        "approval": "Go on?", "check": {"run": "exit 1"}});
    let mut first = asked.clone();
    (first["id"], first["promptText"], first["approval"]) = (json!("a"), json!("one"), json!(false));
    stage.write_items(&json!([
        {"type": "loop", "id": "l", "name": "L", "terminateOn": {"type": "iterationLimit", "limit": 3}, "codons": [first]},
        asked
    ]));
    for number in 1..=2 {
        let outcome = run(&mut stage, true).await;
        assert_eq!(
            (&outcome.result, outcome.codons.len()),
            (&RunResult::Completed, 2)
        );
        let steps = outcome.rehearsed.unwrap();
        let steps: Vec<_> = steps
            .iter()
            .map(|step| (step.codon.as_str(), step.kind, step.text.as_str()))
            .collect();
        let expected = [
            ("a#0", Repeat, "3"),
            ("a#0", Run, "exit 1"),
            ("b", Ask, "Go on?"),
            ("b", Run, "exit 1"),
        ];
        assert_eq!(steps, expected);
        assert_eq!(
            stage.done(),
            "one\ntwo\n".repeat(number),
            "each rehearsal begins at the first codon"
        );
    }
    let opened = stage.builder().open().await.unwrap();
    assert!(!opened.is_finished() && opened.trouble().await.unwrap().is_none());
    opened.close().await.unwrap();

    stage.write(&["one", "two"], &json!({"approval": true}));
    let outcome = run(&mut stage, false).await;
    assert!(outcome.rehearsed.is_none() && outcome.codons.is_empty());
    assert!(
        matches!(&outcome.result, RunResult::Paused(pause) if pause.by == InterruptedBy::Approval && pause.codon.as_str() == "a"),
        "{:?}",
        outcome.result
    );
}

// covers: CLI-74
#[tokio::test]
async fn a_rehearsal_is_refused_where_a_run_is_recorded() {
    let mut stage = Stage::new(&["one"]);
    run(&mut stage, false).await;
    stage.options.rehearsal = true;
    let refused = stage.builder().driver(Understudy).open().await;
    assert!(
        matches!(refused, Err(OpenExecutionError::RecordOfRuns { .. })),
        "{refused:?}"
    );
    stage.options.rehearsal = false;
    assert!(stage.open().await.is_finished(), "the record is as it was");
    assert_eq!(stage.done(), "one\n");
}
