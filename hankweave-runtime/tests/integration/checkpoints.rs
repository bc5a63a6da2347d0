//! Checkpoints as a user meets them.

use std::fs;

use hankweave_testing::TestProject;
use serde_json::{Value, json};

use crate::support::{codon, project};

/// Runs three codons that write `one`, `two` and `three` to `file`; the last one fails until its script is mended.
fn a_failed_run(project: &TestProject) -> Value {
    let script = |name: &str, rest: &str| {
        let turns = format!(r#"[{{"tools":[{{"write":{{"path":"file","content":"{name}"}}}}]}}]"#);
        project.write(&format!("{name}.json"), format!(r#"{{"turns":{turns}{rest}}}"#));
    };
    script("one", "");
    script("two", "");
    script("three", r#","result":{"message":"no"},"exitCode":1"#);
    let codon = |id: &str| {
        json!({"id": id, "name": id, "agent": {"script": format!("{id}.json")}, "continuationMode": "fresh",
            "promptText": "go", "checkpointedFiles": ["file"]})
    };
    project.write_hank(&json!({"hank": [codon("one"), codon("two"), codon("three")]}));
    project.run(["run", "--headless"]).expect_code(1);
    script("three", "");
    project.state(&project.directory())
}

// covers: G10, F21
#[test]
fn checkpoints_that_are_gone_are_told_and_left_out_of_the_way_back() {
    let project = project();
    let state = a_failed_run(&project);
    let sha = |id: &str, kind: &str| {
        let sha = &codon(&state["runs"][0], id)[kind];
        sha.as_str().unwrap().to_owned()
    };
    let gone = [
        sha("two", "completionCheckpoint"),
        sha("three", "errorCheckpoint"),
    ];
    let objects = project.directory().join(".hankweave/checkpoints/objects");
    for gone in &gone {
        fs::remove_file(objects.join(&gone[..2]).join(&gone[2..])).unwrap();
    }

    let finished = project.run(["run", "--headless"]);
    finished.expect_code(0);

    for gone in &gone {
        let told = format!("checkpoint {gone} is damaged or gone");
        assert!(finished.stderr.contains(&told), "{}", finished.stderr);
    }
    let state = project.state(&project.directory());
    let resumed = &state["runs"][0];
    let source = &resumed["startingConditions"]["source"];
    assert_eq!(source["checkpointSha"], json!(sha("one", "completionCheckpoint")));
    assert_eq!(resumed["codons"].as_array().map(Vec::len), Some(2));
    assert_eq!(codon(resumed, "three")["status"], "completed");
}

// covers: G8, F1
#[test]
fn going_back_that_a_crash_cut_off_is_finished_before_anything_else() {
    let project = project();
    let state = a_failed_run(&project);
    let sha = |id: &str, kind: &str| codon(&state["runs"][0], id)[kind].clone();
    let note = json!({"target": sha("two", "completionCheckpoint"), "left": sha("three", "errorCheckpoint"),
        "safety": sha("three", "errorCheckpoint"), "at": "2025-01-04T12:00:00.000Z"});
    let checkpoints = project.directory().join(".hankweave/checkpoints");
    let place = checkpoints.join("unfinished-restore.json");
    fs::write(&place, note.to_string()).unwrap();
    // With `--new` nothing else would touch the files.
    let finished = project.run(["run", "--headless", "--new"]);
    finished.expect_code(0);
    assert!(
        finished.stderr.contains("had been interrupted and was finished"),
        "{}",
        finished.stderr
    );
    assert!(!place.exists());
}
