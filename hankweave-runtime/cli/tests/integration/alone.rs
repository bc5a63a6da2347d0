//! Screens for a user who left a run alone: the traces of an undo and a crash, the commands that continue, and rows that agree.

use std::time::{Duration, Instant};

use hankweave_testing::{Running, TestProject};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::one_fold::assert_one_account;
use crate::support::{project, shell_agent};

const SOON: Duration = Duration::from_secs(60);

fn codon(id: &str, agent: &Value, prompt: &str) -> Value {
    json!({"id": id, "name": format!("Name of {id}"), "agent": agent, "model": "claude-sonnet-4-5", "continuationMode": "fresh",
        "promptText": prompt, "checkpointedFiles": ["*.txt"]})
}

/// Writes a hank of two codons that complete.
fn two(project: &TestProject) {
    let agent = shell_agent(project);
    project.write_hank(&json!({"hank": [codon("plan", &agent, "plan"), codon("build", &agent, "build")]}));
}

/// Writes a hank whose second codon writes `half.txt` and `done.txt`, and then works until there is a file `go`.
fn halfway(project: &TestProject) {
    let writes = project.write(
        "writes.sh",
        "echo by the agent >> half.txt\necho begun >> done.txt\nexec sh agent.sh\n",
    );
    let works = shell_agent(project);
    let agent = json!({"command": ["sh", writes], "stream": "claude"});
    project
        .write_hank(&json!({"hank": [codon("plan", &works, "plan"), codon("build", &agent, "wait for go")]}));
}

/// Starts the run of [`halfway`], and waits until its second codon has written.
#[track_caller]
fn begun(project: &TestProject) -> Running {
    let mut running = project.start(["run", "--headless"]);
    running.wait_for_line(|line| line.contains("build: working"));
    let half = project.directory().join("half.txt");
    let end = Instant::now() + SOON;
    while !half.exists() {
        assert!(Instant::now() < end, "no half.txt");
        std::thread::yield_now();
    }
    running
}

#[track_caller]
fn text(project: &TestProject, command: &[&str]) -> String {
    project.run(command).expect_code(0).stdout.clone()
}

#[track_caller]
fn assert_has(text: &str, words: &[&str]) {
    for each in words {
        assert!(text.contains(each), "`{each}` is not in\n{text}");
    }
}

// covers: STATE-66, WIRE-48
#[test]
fn an_undo_of_a_run_that_started_over_leads_to_where_the_history_stood() {
    let project = project();
    two(&project);
    project.run(["run", "--headless"]).expect_code(0);
    project.run(["rollback", "--codon", "plan"]).expect_code(0);
    project.run(["run", "--headless", "--new"]).expect_code(0);
    assert_one_account(&project);
    let undone = text(&project, &["undo"]);
    assert_has(&undone, &["next: build"]);
    let page = assert_one_account(&project);
    assert_eq!(page["codons"], json!({"completed": 1, "planned": 2}));
    assert_eq!(
        page["money"]["before"], 0.0,
        "nothing is before the first run: {page}"
    );
    assert_eq!(page["items"]["plan"]["attempts"]["1.1"]["state"], "completed");
    assert_eq!(page["items"]["build"].get("attempts"), None, "{page}");
    assert_has(
        &text(&project, &["status"]),
        &[
            "build  planned",
            "undone or run again: 3 attempts, $0.7500, ",
            "next: build",
        ],
    );
    assert_has(
        &text(&project, &["history"]),
        &["1 codon, 1 attempt in 1 run; 2 runs are recorded"],
    );
    // The run after it continues there, and its budget counts all of them.
    project.run(["run", "--headless"]).expect_code(0);
    let page = assert_one_account(&project);
    assert_eq!(page["codons"], json!({"completed": 2, "planned": 2}));
    assert_eq!(page["money"]["before"], 0.0);
    project.run(["undo"]).expect_code(0);
    assert_one_account(&project);
    project.run(["undo"]).expect_code(0);
    let page = assert_one_account(&project);
    assert_eq!(
        page["codons"],
        json!({"completed": 2, "planned": 2}),
        "the rollback is undone"
    );
}

// covers: RUN-19, CLI-23, CLI-31, CLI-32
#[test]
fn what_a_crash_left_in_no_checkpoint_is_named_and_shown() {
    let project = project();
    halfway(&project);
    let running = begun(&project);
    assert_has(
        &text(&project, &["report"]),
        &[
            "> `build`: 2 files changed so far, `done.txt`, `half.txt`, what you have changed included, ",
            " Not counted: 2 files that `build` has changed so far, which no checkpoint has.",
        ],
    );
    running.kill();
    let diff = text(&project, &["diff", "build"]);
    assert_has(&diff, &["+by the agent", "+begun"]);
    assert!(!diff.contains("hank.json"), "{diff}");
    assert_eq!(text(&project, &["diff"]), diff, "the newest codon");
    // Of a long difference the beginning is shown.
    let done = project.directory().join("done.txt");
    let before = std::fs::read_to_string(&done).unwrap();
    project.write("done.txt", format!("{before}{}", "long\n".repeat(300_000)));
    let long = text(&project, &["diff"]);
    let head: String = long.lines().take(9).collect::<Vec<_>>().join("\n");
    assert_has(&head, &["--- a/done.txt\n", "+begun\n+long"]);
    project.write("done.txt", before);
    let changes = project
        .run(["diff", "build", "--json"])
        .expect_code(0)
        .json_document();
    assert_eq!(
        (&changes["to"], changes["changes"].as_array().unwrap().len()),
        (&Value::Null, 2)
    );

    let log = project
        .run(["op", "log", "--json"])
        .expect_code(0)
        .json_document();
    let shown = text(&project, &["op", "show", log[0]["id"].as_str().unwrap()]);
    assert_has(
        &shown,
        &[
            "  files unknown\n",
            "hankweave diff build  shows what build has left, which no checkpoint of it has",
            "goes to its last checkpoint, without what build did until it crashed",
        ],
    );
    assert_eq!(log[0].get("files"), None, "{log:#}");
    let words = "  not in any checkpoint, so kept: half.txt\n";
    assert_has(&text(&project, &["undo", "--dry-run"]), &[words]);
    let undone = project.run(["undo", "--json"]).expect_code(0).json_document();
    assert_eq!(undone["kept"], json!(["half.txt"]));
    assert!(project.directory().join("half.txt").exists());
    let told = text(&project, &["journal"]);
    assert_has(&told, &["not in any checkpoint, so kept: half.txt"]);
}

/// No codon has a checkpoint of its end, neither while the first one runs nor after a crash in it.
// covers: CLI-23
#[test]
fn the_work_of_the_first_codon_is_shown_while_it_runs_and_after_a_crash() {
    let project = project();
    let agent = shell_agent(&project);
    project.write_hank(&json!({"hank": [codon("plan", &agent, "wait for go")]}));
    let mut running = project.start(["run", "--headless"]);
    running.wait_for_line(|line| line.contains("plan: working"));
    project.write("done.txt", "half\n");
    assert_has(&text(&project, &["diff"]), &["+half"]);
    running.kill();
    assert_has(&text(&project, &["diff"]), &["+half"]);
}

/// Before a run has changed anything, its operation has equal files at both ends.
// covers: CLI-31
#[test]
fn no_difference_is_offered_between_a_checkpoint_and_itself() {
    let project = project();
    let agent = shell_agent(&project);
    project.write_hank(&json!({"hank": [codon("plan", &agent, "wait for go")]}));
    let mut running = project.start(["run", "--headless"]);
    running.wait_for_line(|line| line.contains("plan: working"));
    running.kill();
    let log = project
        .run(["op", "log", "--json"])
        .expect_code(0)
        .json_document();
    let shown = text(&project, &["op", "show", log[0]["id"].as_str().unwrap()]);
    assert!(!shown.contains("shows what changed"), "{shown}");
}

// covers: CLI-14, CLI-24, CLI-44
#[test]
fn a_row_has_the_sum_of_its_attempts_and_lost_time_is_marked_everywhere() {
    let project = project();
    halfway(&project);
    begun(&project).kill();
    project.write("go", "");
    let again = project.run(["run", "--headless", "--recover", "session"]);
    let said = &again.expect_code(0).stderr;
    let rows: Vec<&str> = said
        .lines()
        .filter(|line| line.trim_start().starts_with("build "))
        .collect();
    assert_eq!(rows.len(), 3, "the sum and two attempts: {said}");
    assert!(
        rows[0].starts_with("  build  completed ") && rows[0].ends_with("  2 attempts"),
        "{said}"
    );
    assert!(
        rows[0].contains("$0.2500") && rows[0].contains("2 files"),
        "{said}"
    );
    assert!(
        rows[1].starts_with("    build  restarted ") && !rows[1].contains("files"),
        "{said}"
    );
    let row = |text: &str| {
        text.lines()
            .find(|line| line.contains(" 3 attempts"))
            .unwrap()
            .to_owned()
    };
    let status = text(&project, &["status"]);
    let history = text(&project, &["history"]);
    assert_eq!(row(&status).trim(), row(&history).trim(), "{status}\n{history}");
    assert!(
        row(&status).contains("completed  ≥ ") || row(&status).contains("completed   ≥ "),
        "{status}"
    );
    assert_has(
        &history,
        &[
            "\n    build  crashed ",
            "\n    build  restarted ",
            "\n    build  completed ",
        ],
    );
    let report = text(&project, &["report"]);
    assert_has(&report, &["| completed, 3 attempts | at least "]);
    assert_has(
        &text(&project, &["history", "--all"]),
        &["    its process ended without recording why\n"],
    );
}

// covers: CLI-23
#[test]
fn a_line_of_the_user_is_none_of_the_codon_that_changed_the_same_file() {
    let project = project();
    halfway(&project);
    let running = begun(&project);
    running.signal(Signal::INT);
    running.finish_within(SOON).expect_code(130);
    let done = project.directory().join("done.txt");
    let begun = std::fs::read_to_string(&done).unwrap();
    project.write("done.txt", format!("{begun}mine\n"));
    project.write("go", "");
    project
        .run(["run", "--headless", "--recover", "crash-point"])
        .expect_code(0);
    let diff = text(&project, &["diff", "build"]);
    assert_has(&diff, &["+begun", "+wait for go", "+by the agent"]);
    assert!(!diff.contains("+mine"), "{diff}");
    assert_has(&text(&project, &["report"]), &[": a run continued with build\n"]);
}

// covers: CLI-4
#[test]
fn a_stop_names_every_command_that_continues() {
    let project = project();
    halfway(&project);
    let mut running = project.start(["run", "--headless", "--max-cost", "5"]);
    running.wait_for_line(|line| line.contains("build: working"));
    running.signal(Signal::INT);
    let stopped = running.finish_within(SOON);
    assert_has(
        &stopped.expect_code(130).stderr,
        &[
            // In the order of `status` and of the question.
            "\n  continue     hankweave run --recover session\n               keeps the files and lets build continue in its session\n  or           hankweave run\n               rolls back to the last success, plan, and runs build again",
        ],
    );
}

// covers: CLI-4, CLI-14
#[test]
fn hints_after_a_denial_name_the_money_that_is_needed() {
    let project = project();
    let agent = shell_agent(&project);
    let mut ship = codon("ship", &agent, "ship");
    ship["approval"] = json!("Ship it?");
    project.write_hank(&json!({"hank": [codon("plan", &agent, "plan"), ship]}));
    project
        .run(["run", "--headless", "--max-cost", "0.3"])
        .expect_code(3);
    project.run(["approve", "ship", "--deny"]).expect_code(0);
    let paused = project.run(["run", "--headless", "--max-cost", "0.2"]);
    let onward = "hankweave approve ship && hankweave run --max-cost 0.45";
    assert_has(
        &paused.expect_code(3).stderr,
        &[&format!("  continue     {onward}\n")],
    );
    let status = text(&project, &["status"]);
    assert_has(
        &status,
        &[
            onward,
            "then `hankweave run --max-cost 0.45` asks about ship again",
        ],
    );
    project.run(["approve", "ship"]).expect_code(0);
    project
        .run(["run", "--headless", "--max-cost", "0.45"])
        .expect_code(0);
}

// covers: CLI-4, RUN-6
#[test]
fn a_run_that_had_nothing_to_do_is_none_that_hints_repeat() {
    let project = project();
    two(&project);
    project
        .run(["run", "--headless", "--max-cost", "5"])
        .expect_code(0);
    project.run(["run", "--headless"]).expect_code(0);
    assert_has(
        &text(&project, &["status"]),
        &["budget: $0.5000 of $5.0000, ", "  hankweave run --new "],
    );
}

// covers: HANK-13
#[test]
fn a_copy_that_is_merged_replaces_no_folder() {
    let project = project();
    let agent = shell_agent(&project);
    project.write("template/a.txt", "a");
    project.write("site/own.txt", "own");
    project.write("fresh/own.txt", "own");
    let mut build = codon("build", &agent, "build");
    build["rigSetup"] = json!([
        {"type": "copy", "copy": {"from": "template", "to": "site"}},
        {"type": "copy", "copy": {"from": "template", "to": "fresh"}, "replace": true}
    ]);
    project.write_hank(&json!({"hank": [build]}));
    let dry = text(&project, &["run", "--dry-run"]);
    assert_has(
        &dry,
        &[
            "a run that works there copies into it: files of the same names are replaced, and others stay",
            "a run that works there removes it with everything in it and copies again",
        ],
    );
}

// covers: CLI-24
#[test]
fn a_client_that_connects_later_is_told_of_the_codons_before() {
    let project = project();
    halfway(&project);
    let running = begun(&project);
    let mut attached = project.start(["attach"]);
    let line = attached.wait_for_line(|line| line.starts_with("plan: completed after "));
    assert_has(&line, &["$0.2500, changed 1 file in all"]);
    project.write("go", "");
    drop(attached);
    drop(running);
}

/// All figures of a report count from one start.
// covers: CLI-44
#[test]
fn a_report_counts_files_from_where_its_codons_started_over() {
    let project = project();
    two(&project);
    project.run(["run", "--headless"]).expect_code(0);
    project.run(["run", "--headless", "--new"]).expect_code(0);
    let state = project.state(&project.directory());
    let report = project.run(["report", "--json"]).expect_code(0).json_document();
    assert_eq!(
        report["files"]["from"], state["runs"][0]["startingConditions"]["initialCheckpointSha"],
        "{report:#}"
    );
    assert_one_account(&project);
}

/// A run in which nothing was left to run does not remove the limit of the work before it.
// covers: CLI-44
#[test]
fn a_run_without_anything_to_do_keeps_the_limit_of_the_work_before_it() {
    let project = project();
    two(&project);
    project
        .run(["run", "--headless", "--max-cost", "5"])
        .expect_code(0);
    project.run(["rollback", "--codon", "plan"]).expect_code(0);
    project.run(["undo"]).expect_code(0);
    let again = project.run(["run", "--headless", "--max-cost", "0.01"]);
    let again = &again.expect_code(0).stderr;
    assert!(!again.contains("over its budget"), "{again}");
    let report = project.run(["report", "--json"]).expect_code(0).json_document();
    let money = &report["money"];
    assert_eq!(
        (&money["limit"], &money["limitedBy"]),
        (&json!(5), &json!("--max-cost 5")),
        "{money:#}"
    );
    assert_has(&text(&project, &["status"]), &[" of $5.0000, "]);
}
