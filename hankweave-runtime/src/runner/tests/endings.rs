//! How the end of a codon or a run is recorded.

use super::commands::live;
use super::*;
use crate::options::OutputDirectory;
use crate::runner::{RunOutcome, RunResult};
use crate::shutdown::Shutdown;

/// Returns the events in the journal.
fn events(stage: &Stage) -> Vec<Value> {
    let journal = std::fs::read_to_string(stage.work().join(".hankweave/events/000001.jsonl")).unwrap();
    let lines = journal.lines();
    lines.map(|line| serde_json::from_str(line).unwrap()).collect()
}

async fn run(stage: &Stage) -> RunOutcome {
    stage.open().await.run(Shutdown::new()).await.unwrap()
}

// covers: RUN-10, HANK-48
#[tokio::test]
async fn work_that_a_check_rejects_has_the_exit_code_of_its_agent() {
    let stage = Stage::new(&["full"]);
    let check = json!({"run": "exit 1", "retries": 0});
    stage.write(&["full"], &json!({"exhaustWithPrompt": "more", "check": check}));
    let outcome = run(&stage).await;
    assert!(matches!(outcome.result, RunResult::Failed(_)), "{outcome:?}");
    let text = std::fs::read_to_string(stage.work().join(".hankweave/state.json")).unwrap();
    let state: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(state["runs"][0]["codons"][0]["exitCode"], 0, "{state}");
}

// covers: HANK-26
#[tokio::test]
async fn a_plan_whose_last_results_cannot_be_copied_has_ended_in_the_next_run_as_well() {
    let mut stage = Stage::new(&["one"]);
    let fails = json!({"type": "command", "command": {"run": "exit 1"}});
    let output = json!({"beforeCopy": [fails], "copy": ["done.txt"]});
    stage.write(&["one"], &json!({"outputFiles": [output]}));
    let path = stage.folder.path().join("results");
    stage.options.output = Some(OutputDirectory {
        path,
        overwrite: false,
    });
    for number in 1..3 {
        let outcome = run(&stage).await;
        assert!(
            matches!(outcome.result, RunResult::OutputFailed(..)),
            "{outcome:?}"
        );
        assert!(outcome.done, "run {number}");
    }
}

/// The codon failed once, its retry was stopped, and now its failures are ignored.
// covers: HANK-45
#[tokio::test(start_paused = true)]
async fn an_attempt_after_an_interruption_is_no_retry_of_a_codon_without_retries() {
    let stage = Stage::new(&[]);
    let retries = json!({"onFailure": "retry", "retryConfig": {"maxAttempts": 1, "delayMs": 1}});
    stage.write(&["fail once slow"], &retries);
    let mut live = live(&stage).await;
    live.started("a").await;
    live.started("a").await;
    let outcome = live.stop().await;
    assert!(outcome.codons[1].interrupted_by.is_some(), "{outcome:?}");
    let before = events(&stage).len();

    stage.write(&["one"], &json!({"onFailure": "ignore"}));
    assert_eq!(run(&stage).await.result, RunResult::Completed);
    let events = events(&stage).split_off(before);
    let is_message = |event: &&Value| event["type"] == "info";
    let messages: Vec<&Value> = events
        .iter()
        .filter(is_message)
        .map(|event| &event["data"]["message"])
        .collect();
    assert_eq!(messages, ["a is run again"], "{events:#?}");
    let waits = events.iter().filter(|event| event["data"]["kind"] == "wait");
    let counts: Vec<_> = waits
        .map(|event| (event["data"].get("done"), event["data"].get("total")))
        .collect();
    assert_eq!(counts, [(None, None)]);
}
