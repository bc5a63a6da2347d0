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

/// What the agents that count have written, one line a codon.
fn done(project: &TestProject) -> String {
    std::fs::read_to_string(project.directory().join("work/done.txt")).unwrap()
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
            "--replan` goes on",
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
    let told = "codon `later` is new";
    let over = run(&[]);
    over.expect_code(0);
    assert!(
        over.stderr.contains(told) && over.stderr.contains("Nothing left to do"),
        "{over}"
    );
    let dry = run(&["--dry-run"]);
    assert!(dry.expect_code(0).stdout.contains(told), "{dry}");
    let status = project.run(["status", "-e", "work"]);
    assert!(
        status.stdout.contains(told) && status.stdout.contains("hankweave run -e work --replan"),
        "{status}"
    );

    let dry = run(&["--dry-run", "--replan"]);
    assert!(
        dry.stdout.contains("next: later") && !dry.stdout.contains(told),
        "{dry}"
    );
    let more = run(&["--replan"]);
    more.expect_code(0);
    assert!(
        !more.stderr.contains(told) && more.stderr.contains("1 of 1 codon"),
        "{more}"
    );
    assert_eq!(done(&project), "a\nlater\n");

    write(&project, &[("a", "true"), ("later", "true"), ("last", "true")]);
    let anew = run(&["--new"]);
    anew.expect_code(0);
    assert!(
        !anew.stderr.contains("is new") && anew.stderr.contains("3 of 3 codons"),
        "{anew}"
    );
}

/// The failed codon is taken out of hank.json: the run goes back behind the success before it, and on with what is there now.
// covers: STATE-45
#[test]
fn a_plan_made_anew_goes_on_without_the_codon_that_failed() {
    let project = project();
    let run = |more: &[&str]| project.run([&["run", "--headless", "-e", "work"], more].concat());
    write(&project, &[("a", "true"), ("b", "false"), ("c", "true")]);
    run(&[]).expect_code(1);
    write(&project, &[("a", "true"), ("d", "true")]);
    run(&[]).expect_code(65);
    run(&["--replan"]).expect_code(0);
    assert_eq!(done(&project), "a\nd\n");
    let plan = &state(&project)["executionPlan"];
    let ids: Vec<&Value> = plan
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| &entry["codonId"])
        .collect();
    assert_eq!(ids, ["a", "d"]);

    // Nothing that has run is left: nobody can know what is behind it.
    write(&project, &[("x", "true")]);
    let refused = run(&["--replan"]);
    refused.expect_code(65);
    assert!(
        refused.stderr.contains("none of the codons that have run") && !refused.stderr.contains("--replan`"),
        "{refused}"
    );
}
