//! Changes of the user between two runs, and which of them the next run rolls back (RUN-2).

use std::fs;

use hankweave_testing::TestProject;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::{codon, project, shell_agent};

fn one(id: &str, agent: &Value, more: &Value) -> Value {
    let mut codon = json!({"id": id, "name": id, "agent": agent, "model": "claude-sonnet-4-5", "continuationMode": "fresh",
        "promptText": id, "checkpointedFiles": ["*.txt", "*.conf"]});
    let more = more.as_object().unwrap().clone();
    codon.as_object_mut().unwrap().extend(more);
    codon
}

/// The second codon changes two files and fails while there is a file `broken`.
fn failing() -> TestProject {
    let project = project();
    let agent = shell_agent(&project);
    let text = fs::read_to_string(project.directory().join("agent.sh")).unwrap();
    let fails = "say working\n[ \"$prompt\" = two ] && [ -e broken ] && echo half >> done.txt && echo half >> prices.txt && exit 3\n";
    project.write("agent.sh", text.replace("say working\n", fails));
    project.write("prices.txt", "pear x\n");
    project.write_hank(&json!({"hank": [one("one", &agent, &json!({})), one("two", &agent, &json!({}))]}));
    project.write("broken", "");
    project.run(["run", "--headless"]).expect_code(1);
    fs::remove_file(project.directory().join("broken")).unwrap();
    project
}

fn read(project: &TestProject, name: &str) -> String {
    fs::read_to_string(project.directory().join(name)).unwrap_or_default()
}

// covers: RUN-2
#[test]
fn what_somebody_changes_after_a_failure_stays_when_the_next_run_goes_back() {
    let project = failing();
    project.write("prices.txt", "pear 2\n");
    let status = project.run(["status"]).expect_code(0).stdout.clone();
    assert!(
        status.contains("rolls back to the last success, one, and runs two again"),
        "{status}"
    );
    let finished = project.run(["run", "--headless"]);
    let said = &finished.expect_code(0).stdout;
    assert_eq!(
        (read(&project, "done.txt"), read(&project, "prices.txt")),
        ("one\ntwo\n".to_owned(), "pear 2\n".to_owned())
    );
    assert!(
        said.contains(" of one (1 file changed: done.txt)\n")
            && said.contains("changed since the run ended, so kept: prices.txt\n"),
        "{finished}"
    );
}

// covers: RUN-2
#[test]
fn a_file_that_only_the_failed_codon_has_changed_goes_back() {
    let project = failing();
    project.run(["run", "--headless"]).expect_code(0);
    assert_eq!(read(&project, "prices.txt"), "pear x\n");
}

// covers: RUN-2, RUN-19
#[test]
fn who_goes_back_by_choice_gets_the_files_of_then() {
    let project = failing();
    project.write("prices.txt", "pear 2\n");
    project.run(["rollback", "--last-success"]).expect_code(0);
    assert_eq!(read(&project, "prices.txt"), "pear x\n");
}

/// Each repair lets the set-up get one step further.
// covers: RUN-2, HANK-20
#[test]
fn what_somebody_mends_after_a_failed_set_up_stays_and_its_cause_is_named() {
    let project = project();
    let agent = shell_agent(&project);
    let needs = |file: &str| json!({"type": "command", "command": {"run": format!("[ -e {file} ] || {{ echo {file} is missing >&2; exit 4; }}")}});
    let rig = json!({"rigSetup": [needs("a.conf"), needs("b.conf")]});
    project.write_hank(&json!({"hank": [one("one", &agent, &rig)]}));
    for (missing, mended) in [("a.conf", vec!["a.conf"]), ("b.conf", vec!["a.conf", "b.conf"])] {
        let failed = project.run(["run", "--headless"]);
        failed.expect_code(1);
        let step = mended.len();
        let cause = format!("rig step {step} failed: the command exited with code 4: {missing} is missing");
        let status = project.run(["status"]).expect_code(0).stdout.clone();
        assert!(
            failed.stderr.contains(&cause) && status.contains(&cause),
            "{failed}\n{status}"
        );
        assert!(
            status.contains("keeps the files and runs one again from its set-up"),
            "{status}"
        );
        project.write(missing, "1\n");
        for file in mended {
            assert_eq!(read(&project, file), "1\n");
        }
    }
    project.run(["run", "--headless"]).expect_code(0);
    assert_eq!(
        (read(&project, "a.conf"), read(&project, "b.conf")),
        ("1\n".to_owned(), "1\n".to_owned())
    );
}

/// The second codon was stopped, and the user rolls back to the files that it left.
// covers: RUN-2
#[test]
fn after_a_rollback_to_a_stop_the_codon_runs_with_the_files_that_were_chosen() {
    let project = project();
    let agent = shell_agent(&project);
    let waits = json!({"promptText": "wait for go"});
    project.write_hank(&json!({"hank": [one("one", &agent, &json!({})), one("two", &agent, &waits)]}));
    let mut run = project.start(["run", "--headless", "--json"]);
    run.wait_for_line(|line| line.contains("\"codonId\":\"two\"") && line.contains("\"working\""));
    project.write("prices.txt", "half\n");
    run.signal(Signal::INT);
    run.finish_within(std::time::Duration::from_secs(100))
        .expect_code(130);
    project.write("go", "");
    project.write("prices.txt", "other\n");
    let back = project.run(["rollback", "--codon", "two", "--at", "error"]);
    let said = &back.expect_code(0).stdout;
    assert!(
        said.contains("next: two (`hankweave run` keeps the files and runs two again from its beginning)\n"),
        "{said}"
    );
    project.run(["run", "--headless"]).expect_code(0);
    assert_eq!(read(&project, "prices.txt"), "half\n");
    let state = project.state(&project.directory());
    assert_eq!(codon(&state["runs"][0], "two")["status"], "completed");
}

// covers: CLI-1
#[test]
fn commands_without_a_live_run_name_what_shows_the_record() {
    let project = project();
    let agent = shell_agent(&project);
    let looped = json!({"type": "loop", "id": "l", "name": "L", "terminateOn": {"type": "iterationLimit", "limit": 2},
        "codons": [one("mend", &agent, &json!({}))]});
    project.write_hank(&json!({"hank": [looped]}));
    project.run(["run", "--headless"]).expect_code(0);
    let page = project.run(["page"]);
    assert!(
        page.expect_code(65)
            .stderr
            .contains("`hankweave view` serves its page"),
        "{page}"
    );
    // A codon of a loop is its newest iteration here, and all of them in its logs.
    let diff = |what: &str| project.run(["diff", what]).expect_code(0).stdout.clone();
    assert_eq!(diff("mend"), diff("mend#1"));
}
