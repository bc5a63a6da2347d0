//! `hankweave journal`: the recorded events as JSON lines (CLI-12).

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::Write;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;

use hankweave_testing::TestProject;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::{project, shell_agent};

/// A project with one codon whose agent gets this prompt.
fn with_prompt(prompt: &str) -> TestProject {
    let project = project();
    let codon = json!({"id": "only", "name": "only", "agent": shell_agent(&project), "model": "shell",
        "continuationMode": "fresh", "promptText": prompt});
    project.write_hank(&json!({"hank": [codon]}));
    project
}

fn segment(project: &TestProject) -> PathBuf {
    project.directory().join(".hankweave/events/000001.jsonl")
}

fn kinds(lines: &[Value]) -> Vec<&str> {
    lines.iter().filter_map(|line| line["type"].as_str()).collect()
}

// covers: CLI-12
#[test]
fn the_journal_is_printed_as_it_stands_from_any_place_and_by_type() {
    let project = with_prompt("hello");
    project.run(["run", "--headless"]).expect_code(0);
    let before = project.files();
    let all = project.run(["journal"]);
    assert_eq!(
        all.expect_code(0).stdout,
        fs::read_to_string(segment(&project)).unwrap()
    );
    assert_eq!(all.stderr, "");
    let lines = all.json_lines();
    let last = lines.last().unwrap()["seq"].as_u64().unwrap();
    let behind = |after: u64| {
        let finished = project.run(["journal", "--after", &after.to_string()]);
        finished.expect_code(0).json_lines()
    };
    assert_eq!(behind(last - 3)[0]["seq"].as_u64(), Some(last - 2));
    assert_eq!(behind(last), [] as [Value; 0]);
    let some = project.run(["journal", "--type", "codon.started", "--type", "codon.completed"]);
    assert_eq!(
        kinds(&some.expect_code(0).json_lines()),
        ["codon.started", "codon.completed"]
    );
    assert_eq!(project.files(), before);
}

/// A torn line is reported, the others are printed, and the next run continues after it.
// covers: P7, CLI-12
#[test]
fn a_torn_line_is_told_and_healed_by_the_next_run() {
    let project = with_prompt("hello");
    project.run(["run", "--headless"]).expect_code(0);
    let whole = fs::read_to_string(segment(&project)).unwrap();
    let mut file = OpenOptions::new().append(true).open(segment(&project)).unwrap();
    file.write_all(b"{\"seq\":999,\"id\"").unwrap();
    let torn = project.run(["journal"]);
    assert_eq!(torn.expect_code(0).stdout, whole);
    assert!(torn.stderr.contains("the last line is not whole"), "{torn}");
    assert_eq!(project.run(["--quiet", "journal"]).stderr, "");
    project.run(["run", "--headless", "--new"]).expect_code(0);
    let healed = project.run(["journal"]);
    assert_eq!(healed.expect_code(0).stderr, "1 damaged lines were left out\n");
    assert!(healed.stdout.starts_with(&whole));
    assert_eq!(
        kinds(&healed.json_lines())
            .iter()
            .filter(|kind| **kind == "codon.completed")
            .count(),
        2
    );
}

// covers: CLI-12
#[test]
fn a_live_run_is_followed_from_before_its_first_event_to_its_last() {
    let project = with_prompt("wait for go");
    let state_dir = project.directory().join(".hankweave");
    DirBuilder::new().mode(0o700).create(state_dir).unwrap();
    let mut follow = project.start(["journal", "--follow"]);
    let run = project.start(["run", "--headless"]);
    follow.wait_for_line(|line| line.contains("\"codon.started\""));
    run.signal(Signal::TERM);
    run.finish_within(std::time::Duration::from_secs(60))
        .expect_code(143);
    follow.wait_for_line(|line| line.contains("\"RunFailed\""));
    follow.signal(Signal::INT);
    let followed = follow.finish_within(std::time::Duration::from_secs(60));
    assert_eq!(followed.signal, Some(Signal::INT.as_raw()));
    let now = project.run(["journal"]).expect_code(0).stdout.clone();
    assert!(
        now.starts_with(&followed.stdout),
        "{followed}\n--- journal\n{now}"
    );
}

#[test]
fn where_nothing_ever_ran_there_is_no_journal() {
    let project = project();
    let finished = project.run(["journal"]);
    finished.expect_code(65);
    assert!(
        finished.stderr.contains("is no execution directory"),
        "{finished}"
    );
}
