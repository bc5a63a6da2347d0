//! How the end of a codon or a run is recorded.

use super::*;
use crate::options::OutputDirectory;
use crate::runner::{RunOutcome, RunResult};
use crate::shutdown::Shutdown;

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
