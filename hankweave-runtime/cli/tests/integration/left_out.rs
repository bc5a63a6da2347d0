//! Files that belong to a checkpoint and are too large for it are not lost without a word (G4).

use std::fs::{self, File};

use hankweave_testing::TestProject;
use serde_json::{Value, json};

use crate::support::project;

const MIB: u64 = 1 << 20;

/// A project with two codons, each of which writes a file of `mib` MiB, which takes no room on the disk, and a small one.
fn with_codons(overrides: &Value, mib: u64) -> TestProject {
    let project = project();
    let bash = json!({"bash": {"command": format!("truncate -s {} large.bin; date > small.bin", mib * MIB)}});
    project.write("large.json", json!({"turns": [{"tools": [bash]}]}).to_string());
    let codon = |id: &str| {
        json!({"id": id, "name": id, "agent": {"script": "large.json"}, "model": "opus",
        "continuationMode": "fresh", "promptText": "go", "checkpointedFiles": ["*.bin"]})
    };
    project.write_hank(&json!({"overrides": overrides, "hank": [codon("one"), codon("two")]}));
    project
}

// covers: G4
#[test]
fn a_file_that_is_too_large_for_checkpoints_is_told_wherever_one_looks() {
    let project = with_codons(&json!({"checkpointedFileLimitMb": 2}), 3);
    let run = project.run(["run", "--headless"]);
    run.expect_code(0);
    let told = "large.bin (3.00 MiB, more than `checkpointedFileLimitMb` allows)";
    let lines: Vec<&str> = run.stdout.lines().filter(|line| line.contains(told)).collect();
    assert_eq!(lines, [format!("one: not in its checkpoint: {told}")], "{run}");
    assert!(run.stderr.contains(&format!("  not in them  {told}\n")), "{run}");
    assert_eq!(run.stderr.matches("large.bin").count(), 1, "{run}");

    let status = project.run(["status"]);
    assert!(
        status
            .stdout
            .contains(&format!("not in the last checkpoint: {told}\n")),
        "{status}"
    );
    let files = json!([{"path": "large.bin", "reason": "too-large", "size": 3 * MIB}]);
    let status = project.run(["status", "--json"]).expect_code(0).json_document();
    assert_eq!(status["leftOut"], json!({"files": files, "count": 1}));
    let listed = project.run(["checkpoints"]);
    let without = listed
        .stdout
        .lines()
        .filter(|line| line.ends_with("  without 1 file"));
    assert_eq!(without.count(), 2, "{listed}");
    let rows = project
        .run(["checkpoints", "--json"])
        .expect_code(0)
        .json_document();
    let newest = &rows["checkpoints"][0];
    assert_eq!(newest["leftOut"]["files"], files, "{rows}");
    let shown = project.run(["checkpoints", "show", newest["sha"].as_str().unwrap()]);
    assert!(
        shown
            .expect_code(0)
            .stdout
            .contains(&format!("not in it: {told}\n")),
        "{shown}"
    );

    // Two checkpoints lack one file: that is reported once, as an event for programs.
    let events = project.run(["run", "--new", "--headless", "--json"]);
    let events = events.expect_code(0).json_lines();
    let of_kind = |event: &&Value| event["type"] == "checkpoint.incomplete";
    let told: Vec<&Value> = events
        .iter()
        .filter(of_kind)
        .map(|event| &event["data"])
        .collect();
    assert_eq!(told.len(), 2, "{told:?}");
    assert_eq!((&told[0]["codonId"], &told[0]["leftOut"]), (&Value::Null, &files));
    assert_eq!(
        (&told[1]["codonId"], &told[1]["count"]),
        (&json!("one"), &json!(1))
    );

    // A rollback leaves it alone.
    project.run(["rollback", "--codon", "one"]).expect_code(0);
    let large = fs::metadata(project.directory().join("large.bin")).unwrap();
    assert_eq!(large.len(), 3 * MIB);
}

// covers: G4
#[test]
fn the_limit_for_files_in_checkpoints_can_be_changed() {
    // Without a word it is 100 MiB.
    let run = with_codons(&json!({}), 101).run(["run", "--headless"]);
    assert!(
        run.expect_code(0).stdout.contains("large.bin (101.00 MiB"),
        "{run}"
    );

    let mut project = with_codons(&json!({"checkpointedFileLimitMb": 2}), 3);
    for (limit, is_told) in [("2", true), ("3", false)] {
        project.set("HANKWEAVE_RUNTIME_CHECKPOINTED_FILE_LIMIT_MB", limit);
        let run = project.run(["run", "--new", "--headless"]);
        let told = run.expect_code(0).stdout.contains("not in its checkpoint");
        assert_eq!(told, is_told, "{limit}: {run}");
    }
    let status = project.run(["status", "--json"]).expect_code(0).json_document();
    assert_eq!(status["leftOut"], Value::Null);
    // A file that a checkpoint has is restored.
    let large = project.directory().join("large.bin");
    File::create(&large).unwrap();
    project.run(["rollback", "--codon", "two"]).expect_code(0);
    assert_eq!(fs::metadata(&large).unwrap().len(), 3 * MIB);
}

#[test]
fn a_limit_that_is_none_is_refused_at_its_place() {
    let project = with_codons(&json!({"checkpointedFileLimitMb": 0}), 1);
    let refused = project.run(["validate"]);
    assert!(
        refused
            .expect_code(1)
            .stdout
            .contains("overrides.checkpointedFileLimitMb"),
        "{refused}"
    );
}
