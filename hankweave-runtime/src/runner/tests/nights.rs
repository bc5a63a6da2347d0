//! Loops that continue all night: a late iteration costs what an early one did.

use serde_json::{Value, json};

use super::Stage;
use crate::runner::RunResult;
use crate::shutdown::Shutdown;

const ITERATIONS: usize = 60;

/// The lines of the journal, in order.
fn journal(stage: &Stage) -> Vec<String> {
    let text = std::fs::read_to_string(stage.work().join(".hankweave/events/000001.jsonl")).unwrap();
    text.lines().map(str::to_owned).collect()
}

/// Returns the kind of a journal line for a message.
fn kind(line: &str) -> String {
    let line: Value = serde_json::from_str(line).unwrap();
    match line["data"]["transitionType"].as_str() {
        Some(transition) => transition.to_owned(),
        None => line["type"].as_str().unwrap().to_owned(),
    }
}

// covers: STATE-42, WIRE-16
#[tokio::test]
async fn a_late_iteration_writes_as_much_as_an_early_one() {
    let stage = Stage::new(&["x"]);
    let codon = json!({"id": "a", "name": "a", "model": "m", "continuationMode": "fresh", "agent": "actor",
        "promptText": "x", "checkpointedFiles": ["*.txt"], "description": "y".repeat(2_000)});
    stage.write_items(
        &json!([{"type": "loop", "id": "l", "name": "l", "codons": [codon],
        "terminateOn": {"type": "iterationLimit", "limit": ITERATIONS}}]),
    );
    let outcome = stage.open().await.run(Shutdown::new()).await.unwrap();
    assert_eq!(outcome.result, RunResult::Completed);
    let lines = journal(&stage);
    let iterations: Vec<&[String]> = lines
        .split_inclusive(|line| kind(line) == "loop.iteration.completed")
        .collect();
    // The first one also has the beginning of the run, and the last element its end.
    assert_eq!(iterations.len(), ITERATIONS + 1);
    let bytes = |iteration: usize| iterations[iteration].iter().map(String::len).sum::<usize>();
    let (early, late) = (bytes(2), bytes(ITERATIONS - 2));
    let said = |iteration: usize| {
        let lines = iterations[iteration].iter();
        lines
            .map(|line| format!("{}: {}", kind(line), line.len()))
            .collect::<Vec<_>>()
    };
    // Numbers have more digits by then, and nothing else is longer.
    assert!(
        late <= early + early / 20,
        "{:#?} {:#?}",
        said(2),
        said(ITERATIONS - 2)
    );
}
