//! A hank.json that was changed between two runs (STATE-45).

use serde_json::{Value, json};

use crate::support::{project, shell_agent};
use hankweave_testing::TestProject;

fn write(project: &TestProject, codons: &[(&str, &str)]) {
    let agent = shell_agent(project);
    let codon = |&(id, check): &(&str, &str)| -> Value {
        json!({"id": id, "name": id, "agent": agent, "model": "claude-sonnet-4-5", "continuationMode": "fresh",
            "promptText": id, "check": {"run": check, "retries": 0}})
    };
    project.write_hank(&json!({"hank": codons.iter().map(codon).collect::<Vec<_>>()}));
}

fn state(project: &TestProject) -> Value {
    project.state(&project.directory().join("work"))
}

// covers: STATE-45, RUN-1
#[test]
fn a_codon_that_is_gone_refuses_a_start_before_anything_is_spent() {
    let project = project();
    let run = |more: &[&str]| project.run([&["run", "--headless", "-e", "work"], more].concat());
    write(
        &project,
        &[("a", "true"), ("b", "false"), ("c", "true"), ("d", "true")],
    );
    run(&[]).expect_code(1);
    let before = state(&project);

    write(&project, &[("a", "true"), ("b", "true"), ("x", "true")]);
    for refused in [run(&[]), run(&["--recover", "session"])] {
        refused.expect_code(65);
        let told = [
            "codon `c` is still to be run",
            "codon `d` is still to be run",
            "--new` starts over",
        ];
        assert!(told.iter().all(|told| refused.stderr.contains(told)), "{refused}");
    }
    assert_eq!(state(&project), before);
    let dry = run(&["--dry-run"]);
    dry.expect_code(65);
    assert!(
        dry.stdout.contains("error: codon `c` is still to be run"),
        "{dry}"
    );
    let json = run(&["--dry-run", "--json"]).expect_code(65).json_document();
    assert_eq!(json["planChanges"]["misfits"].as_array().unwrap().len(), 2);
    assert_eq!(state(&project), before);

    // Undone, it goes on where it failed.
    write(
        &project,
        &[("a", "true"), ("b", "true"), ("c", "true"), ("d", "true")],
    );
    run(&[]).expect_code(0);
}

// covers: STATE-45
#[test]
fn a_codon_that_is_new_is_told_and_runs_with_a_new_plan() {
    let project = project();
    let run = |more: &[&str]| project.run([&["run", "--headless", "-e", "work"], more].concat());
    write(&project, &[("a", "true")]);
    run(&[]).expect_code(0);
    write(&project, &[("a", "true"), ("later", "true")]);
    let told = "codon `later` is new in hank.json and is not run";
    let over = run(&[]);
    over.expect_code(0);
    assert!(
        over.stderr.contains(told) && over.stderr.contains("Nothing left to do"),
        "{over}"
    );
    let dry = run(&["--dry-run"]);
    assert!(dry.expect_code(0).stdout.contains(told), "{dry}");
    let anew = run(&["--new"]);
    anew.expect_code(0);
    assert!(
        !anew.stderr.contains(told) && anew.stderr.contains("2 of 2 codons"),
        "{anew}"
    );
}
