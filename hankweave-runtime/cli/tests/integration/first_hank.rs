//! The example that the README starts with.

use std::path::Path;
use std::time::Duration;

use crate::support::{assert_checkpoint, project};

// covers: CLI-18
#[test]
fn the_first_hank_runs_to_its_end_and_a_second_call_finds_nothing_to_do() {
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/first-hank");
    let project = project();
    let execution = project.directory();
    let checked = project.run([Path::new("validate"), &example]);
    assert!(
        checked.expect_code(0).stdout.contains("valid (0 warnings)"),
        "{checked}"
    );
    let run = || project.run([Path::new("run"), &example, Path::new("-e"), &execution]);

    let finished = run();
    finished.expect_code(0);
    assert!(
        finished.elapsed < Duration::from_secs(5),
        "it took {:?}",
        finished.elapsed
    );

    let state = project.state(&execution);
    let [run_record] = &state["runs"].as_array().unwrap()[..] else {
        panic!("one run: {state:#}")
    };
    assert_eq!(run_record["status"], "completed");
    assert_eq!(run_record["startingConditions"]["type"], "fresh");
    assert!(state["currentRunId"].is_null());
    let records = run_record["codons"].as_array().unwrap();
    assert_eq!(records.len(), state["executionPlan"].as_array().unwrap().len());
    let said = format!("{}{}", finished.stdout, finished.stderr);
    for record in records {
        assert_eq!(record["status"], "completed", "{record:#}");
        assert_checkpoint(&project, &execution, &record["completionCheckpoint"]);
        let id = record["codonId"].as_str().unwrap();
        assert!(said.contains(id), "the summary names {id}\n{finished}");
    }

    let log = project.checkpoints_git(&execution, &["log", "--all", "--format=%s"]);
    let completed = log
        .expect_code(0)
        .stdout
        .lines()
        .filter(|line| line.starts_with("completed:"))
        .count();
    assert_eq!(completed, records.len(), "{log}");

    let again = run();
    again.expect_code(0);
    assert!(
        format!("{}{}", again.stdout, again.stderr).contains("left to do"),
        "{again}"
    );
    assert!(
        !again.stderr.contains("page: "),
        "it would be gone at once: {again}"
    );
    assert_eq!(
        project.state(&execution)["runs"].as_array().map(Vec::len),
        Some(1),
        "no run for nothing"
    );
}
