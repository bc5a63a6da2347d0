//! Other models of an agent, by a clock that the test sets.

use hankweave_core::codon::CodonStatus;
use hankweave_core::time::Timestamp;
use serde_json::json;

use super::*;
use crate::runner::RunResult;
use crate::shutdown::Shutdown;

/// Half an hour before the limit ends; and a minute after it, once `late.txt` is there.
#[derive(Debug)]
struct Evening(PathBuf);

impl Clock for Evening {
    fn now(&self) -> Timestamp {
        let after = match self.0.join("late.txt").exists() {
            true => 60_000,
            false => -1_800_000,
        };
        Timestamp::from_millis(LIMIT_ENDS + after)
    }
}

fn evening(prompts: &[&str]) -> Stage {
    let mut stage = Stage::new(prompts);
    stage.clock = Arc::new(Evening(stage.work()));
    stage.write(prompts, &json!({"fallback": ["n"]}));
    stage
}

/// The models of the attempts of all runs, oldest first.
fn models(stage: &Stage) -> Vec<(String, String)> {
    let text = std::fs::read_to_string(stage.work().join(".hankweave/state.json")).unwrap();
    let state: Value = serde_json::from_str(&text).unwrap();
    let runs = state["runs"].as_array().unwrap().iter().rev();
    let records = runs.flat_map(|run| run["codons"].as_array().unwrap());
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    records
        .map(|record| (text(&record["codonId"]), text(&record["chosenAgent"]["model"])))
        .collect()
}

fn pairs(found: &[(String, String)]) -> Vec<(&str, &str)> {
    found
        .iter()
        .map(|(codon, model)| (codon.as_str(), model.as_str()))
        .collect()
}

const LIMITED: &str = "fail limit unless on n: x";

// covers: HANK-80, HANK-82
#[tokio::test(start_paused = true)]
async fn the_first_model_is_used_again_at_the_next_codon_after_its_limit() {
    let stage = evening(&[LIMITED, "second", "third"]);
    let rig = |run: &str| json!([{"type": "command", "command": {"run": run}}]);
    let codon = |id: &str, prompt: &str, run: &str| {
        json!({"id": id, "name": id, "model": "m", "continuationMode": "fresh", "agent": "actor", "promptText": prompt,
            "checkpointedFiles": ["*.txt"], "fallback": ["n"], "rigSetup": rig(run)})
    };
    // The agent of the codon is chosen before its rig, so it is still early then.
    stage.write_items(&json!([
        codon("a", LIMITED, "true"),
        codon("b", "second", "touch late.txt"),
        codon("c", "third", "true")
    ]));
    let outcome = stage.open().await.run(Shutdown::new()).await.unwrap();
    assert_eq!(outcome.result, RunResult::Completed);
    let statuses: Vec<CodonStatus> = outcome.codons.iter().map(|codon| codon.status).collect();
    use CodonStatus::{Completed, Failed};
    assert_eq!(statuses, [Failed, Completed, Completed, Completed]);
    assert_eq!(
        pairs(&models(&stage)),
        [("a", "m"), ("a", "n"), ("b", "n"), ("c", "m")]
    );
}

// covers: HANK-82
#[tokio::test(start_paused = true)]
async fn a_known_limit_holds_for_the_next_run() {
    let stage = evening(&[LIMITED, "fail at the second"]);
    let outcome = stage.open().await.run(Shutdown::new()).await.unwrap();
    assert!(matches!(outcome.result, RunResult::Failed(_)), "{outcome:?}");
    assert_eq!(pairs(&models(&stage)), [("a", "m"), ("a", "n"), ("b", "n")]);
    stage.write(&[LIMITED, "second"], &json!({"fallback": ["n"]}));
    let outcome = stage.open().await.run(Shutdown::new()).await.unwrap();
    assert_eq!(outcome.result, RunResult::Completed);
    assert_eq!(models(&stage).last().unwrap().1, "n", "it is still early");
    std::fs::write(stage.work().join("late.txt"), "").unwrap();
    stage.write(&["first", "second"], &json!({"fallback": ["n"]}));
    let mut late = evening(&["again"]);
    late.clock = Arc::clone(&stage.clock);
    let outcome = late.open().await.run(Shutdown::new()).await.unwrap();
    assert_eq!(outcome.result, RunResult::Completed);
    assert_eq!(models(&late)[0].1, "m");
}

// covers: HANK-80
#[tokio::test(start_paused = true)]
async fn a_wait_in_the_list_waits_as_long_as_a_run_may_and_no_longer() {
    for (patience, expected) in [
        (3_600, vec![("a", "m"), ("a", "m")]),
        (60, vec![("a", "m"), ("a", "n")]),
    ] {
        let mut stage = evening(&[]);
        stage.options.max_wait = Duration::from_secs(patience);
        let codon = json!({"id": "a", "name": "a", "model": "m", "continuationMode": "fresh", "agent": "actor",
            "promptText": "fail once limit unless on n: x", "checkpointedFiles": ["*.txt"], "fallback": ["wait", "n"]});
        stage.write_items(&json!([codon]));
        let outcome = stage.open().await.run(Shutdown::new()).await.unwrap();
        assert_eq!(outcome.result, RunResult::Completed);
        assert_eq!(pairs(&models(&stage)), expected, "{patience}");
    }
}
