//! Commands from another terminal to a live run: `attach`, `next`, `skip`, `stop`, `rollback` (CLI-15).

use std::process::Command;
use std::time::Duration;

use hankweave_testing::{Running, TestProject};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::support::{project, shell_agent, until_stopped};
use crate::terminal::Terminal;

const SOON: Duration = Duration::from_secs(60);

/// A project of codons with these prompts; their ids are their numbers, `c0`, `c1`, ….
fn with_prompts(prompts: &[&str]) -> TestProject {
    let project = project();
    let agent = shell_agent(&project);
    let codons = prompts.iter().enumerate().map(|(number, prompt)| {
        json!({"id": format!("c{number}"), "name": format!("C{number}"), "agent": agent, "model": "shell",
            "continuationMode": "fresh", "promptText": prompt, "checkpointedFiles": ["done.txt"]})
    });
    project.write_hank(&json!({"hank": codons.collect::<Vec<Value>>()}));
    project
}

/// A run that waits for commands, and has begun to.
fn waiting_run(project: &TestProject) -> Running {
    let mut run = project.start(["run", "--headless", "--json", "--no-autostart"]);
    run.wait_for_line(|line| line.contains("\"server.idle\""));
    run
}

fn completed(line: &str) -> bool {
    line.contains("\"codon.completed\"")
}

// covers: CLI-15
#[test]
fn a_live_run_does_what_another_terminal_wants_and_answers() {
    let project = with_prompts(&["one", "wait for go", "three"]);
    let mut run = waiting_run(&project);
    let next = project.run(["next"]);
    assert_eq!(next.expect_code(0).stdout, "starting c0\n");
    run.wait_for_line(completed);
    let next = project.run(["next", "--json"]).expect_code(0).json_document();
    assert_eq!(
        (&next["command"], &next["outcome"], &next["codonId"]),
        (&json!("codon.next"), &json!("starting"), &json!("c1"))
    );
    run.wait_for_line(|line| line.contains("\"codon.started\""));
    let refused = project.run(["next"]);
    refused.expect_code(1);
    assert!(refused.stderr.contains("refused: "), "{refused}");
    assert_eq!(project.run(["skip"]).expect_code(0).stdout, "stopping c1\n");
    run.wait_for_line(completed);
    let refused = project.run(["skip"]);
    refused.expect_code(1);
    // Back to the end of the first codon, while the run stays.
    let back = project.run(["rollback", "--codon", "c0"]);
    assert!(
        back.expect_code(0).stdout.starts_with("rolled back to c0"),
        "{back}"
    );
    run.wait_for_line(|line| {
        line.contains("\"rollback.completed\"") || line.contains("\"rollback-completed\"")
    });
    // What people are shown of a name is enough, also of the checkpoint before the first codon.
    let initial = project.state(&project.directory())["initialCheckpoint"].clone();
    project
        .run(["rollback", "--to", &initial.as_str().unwrap()[..10]])
        .expect_code(0);
    assert!(!project.directory().join("done.txt").exists());
    assert_eq!(
        project.run(["stop"]).expect_code(0).stdout,
        "the run is being stopped\n"
    );
    // Unfinished on purpose: the third codon has not run.
    run.finish_within(SOON).expect_code(3);
    let gone = project.run(["next"]);
    gone.expect_code(65);
    assert!(gone.stderr.contains("no run is live in"), "{gone}");
}

// covers: CLI-14, CLI-27, STATE-5
#[test]
fn the_reason_of_a_stop_is_recorded_and_shown() {
    let mut project = with_prompts(&["wait for go"]);
    project.set("LOGNAME", "ada");
    let note = "printf '%s' \"$HANKWEAVE_EVENT: $HANKWEAVE_REASON\" > note.txt";
    let mut run = project.start(["run", "--headless", "--json", "--notify", note]);
    run.wait_for_line(|line| line.contains("\"codon.started\""));
    project
        .run(["stop", "--reason", "the fan is loud"])
        .expect_code(0);
    run.finish_within(SOON).expect_code(3);
    let recorded = project.state(&project.directory())["runs"][0].clone();
    assert_eq!(recorded["cause"], "the fan is loud (asked by ada)");
    let message = &recorded["codons"][0]["failureReason"]["message"];
    assert_eq!(message, "stopped on request: the fan is loud (asked by ada)");
    let noted = std::fs::read_to_string(project.directory().join("note.txt")).unwrap();
    assert_eq!(
        noted,
        "stopped: Stopped on request: the fan is loud (asked by ada); 0 of 1 codon completed."
    );
    std::fs::create_dir(project.directory().join(".hankweave/runs/1700000000000-zzzzzz")).unwrap();
    let status = project.run(["status"]).expect_code(0).stdout.clone();
    assert!(
        status.contains(": stopped, ") && status.contains("\n  the fan is loud (asked by ada)\n")
            && status.contains("odd record: runs/1700000000000-zzzzzz: no run in the document has this folder (orphaned_folder)"),
        "{status}"
    );
    let document = project.run(["status", "--json"]).json_document();
    assert_eq!(
        (&document["run"]["cause"], &document["warnings"][0]["type"]),
        (&recorded["cause"], &serde_json::json!("orphaned_folder"))
    );
    assert_eq!(
        document["view"]["headline"],
        "Stopped: the fan is loud (asked by ada)"
    );
}

#[test]
fn an_agent_that_does_not_end_is_killed_by_a_forced_stop() {
    let project = with_prompts(&["wait for go"]);
    let mut run = project.start(["run", "--headless", "--json"]);
    run.wait_for_line(|line| line.contains("\"codon.started\""));
    project.run(["stop", "--force"]).expect_code(0);
    run.finish_within(SOON);
    assert_eq!(project.left_behind(), []);
}

#[test]
fn attaching_shows_everything_and_ends_with_the_run() {
    let project = with_prompts(&["one", "two"]);
    let mut run = waiting_run(&project);
    let mut attached = project.start(["attach", "--json", "--after", "0"]);
    attached.wait_for_line(|line| line.contains("\"server.idle\""));
    for _ in 0..2 {
        project.run(["next"]).expect_code(0);
        run.wait_for_line(completed);
        attached.wait_for_line(completed);
    }
    project.run(["stop"]).expect_code(0);
    // Every codon has ended.
    run.finish_within(SOON).expect_code(0);
    let attached = attached.finish_within(SOON);
    let lines = attached.expect_code(0).json_lines();
    let seqs: Vec<u64> = lines.iter().filter_map(|line| line["seq"].as_u64()).collect();
    let journal = project.run(["journal"]).expect_code(0).json_lines();
    let recorded: Vec<u64> = journal.iter().filter_map(|line| line["seq"].as_u64()).collect();
    assert!(seqs.len() > 10, "{attached}");
    assert_eq!(
        seqs,
        recorded[..seqs.len()],
        "none is missing and none comes twice"
    );
}

// The server closes the connection of a client that does not read, and has ended before the client reads on.
// covers: WIRE-21, WIRE-32
#[test]
fn whoever_reads_on_after_the_end_gets_everything_as_well() {
    let project = project();
    let agent = shell_agent(&project);
    let talk = json!([{"type": "command", "command": {"run": "i=0; while [ $i -lt 8000 ]; do echo \"$i\" says more than fits into what waits for somebody who does not read, again and again, and again, and again, and again, and again; i=$((i+1)); done"}}]);
    project.write_hank(
        &json!({"hank": [{"id": "c0", "name": "C0", "agent": agent, "model": "shell", "rigSetup": talk,
        "continuationMode": "fresh", "promptText": "one", "checkpointedFiles": ["done.txt"]}]}),
    );
    let mut run = waiting_run(&project);
    let mut attached = project.start(["attach", "--json", "--after", "0"]);
    attached.wait_for_line(|line| line.contains("\"server.idle\""));
    attached.signal(Signal::STOP);
    project.run(["next"]).expect_code(0);
    run.wait_for_line(completed);
    project.run(["stop"]).expect_code(0);
    run.finish_within(SOON).expect_code(0);
    attached.signal(Signal::CONT);
    let attached = attached.finish_within(SOON);
    let seqs = |lines: Vec<Value>| {
        lines
            .iter()
            .filter_map(|line| line["seq"].as_u64())
            .collect::<Vec<_>>()
    };
    let shown = seqs(attached.expect_code(0).json_lines());
    let recorded = seqs(project.run(["journal"]).expect_code(0).json_lines());
    assert!(recorded.len() > 8_000);
    assert_eq!(shown.len(), recorded.len());
    assert_eq!(shown, recorded, "none is missing and none comes twice");
}

#[test]
fn leaving_leaves_the_run_to_itself() {
    let project = with_prompts(&["wait for go"]);
    let mut run = project.start(["run", "--headless", "--json"]);
    run.wait_for_line(|line| line.contains("\"codon.started\""));
    let mut attached = project.start(["attach", "--json", "--after", "0"]);
    attached.wait_for_line(|line| line.contains("\"codon.started\""));
    attached.signal(Signal::INT);
    attached.finish_within(SOON);
    let status = project.run(["status", "--json"]).expect_code(0).json_document();
    assert_eq!(status["hasRunningCodon"], true);
    assert_eq!(status["outlook"], "c0 is running");
    project.run(["stop"]).expect_code(0);
    run.finish_within(SOON).expect_code(3);
    let status = project.run(["status", "--json"]).json_document();
    assert_eq!(
        (
            &status["outlook"],
            &status["nextCodonId"],
            &status["run"]["interruptedBy"]
        ),
        (&json!("next: c0"), &json!("c0"), &json!("stop"))
    );
}

#[test]
fn an_address_that_is_none_is_told_without_its_token() {
    let project = project();
    let wrong = project.run(["attach", "--url", "http://127.0.0.1:1#secret-of-mine"]);
    wrong.expect_code(65);
    assert!(!wrong.stderr.contains("secret-of-mine"), "{wrong}");
    let nobody = project.run(["attach", "--url", "http://127.0.0.1:1/#token=secret-of-mine"]);
    nobody.expect_code(74);
    assert!(!nobody.stderr.contains("secret-of-mine"), "{nobody}");
}

/// Keys on a terminal; what takes files back is asked once more.
// covers: CLI-15
#[test]
fn keys_on_a_terminal_command_a_run() {
    let project = with_prompts(&["one", "two"]);
    let mut run = waiting_run(&project);
    let Some(mut terminal) = Terminal::open(&project, "attach --control") else {
        return;
    };
    terminal.until("n next");
    terminal.press("n");
    let is_idle = |line: &str| line.contains("\"server.idle\"");
    terminal.until("starting c0");
    run.wait_for_line(is_idle);
    terminal.press("n");
    terminal.until("starting c1");
    // A codon that is reported as completed may still be busy with its results; the run is idle after that.
    run.wait_for_line(is_idle);
    terminal.press("r");
    terminal.until("2  c0 completed");
    terminal.press("2");
    terminal.until("y means it");
    terminal.press("y");
    terminal.until("rolled back to c0");
    assert_eq!(
        std::fs::read_to_string(project.directory().join("done.txt")).unwrap(),
        "one\n"
    );
    terminal.press("q");
    terminal.until("y means it");
    terminal.press("y");
    terminal.until("the run is being stopped");
    run.finish_within(SOON);
    // A client that follows a run ends with it.
    assert_eq!(terminal.close(), Some(0));
}

/// A shell sets a terminal as it likes while a program is stopped, and no signal says that the program has it again after `bg` and `fg`.
// covers: CLI-15, CLI-41
#[test]
fn keys_need_no_enter_after_a_shell_had_the_terminal() {
    let project = with_prompts(&["one", "two"]);
    let mut run = waiting_run(&project);
    let line = format!(
        "tty > tty; sh -c 'echo $$ > pid; exec {} attach --control'",
        env!("CARGO_BIN_EXE_hankweave")
    );
    let Some(mut terminal) = Terminal::of(&project, &line) else {
        return;
    };
    terminal.until("n next");
    let read = |name: &str| std::fs::read_to_string(project.directory().join(name)).unwrap();
    let set = || {
        let set = ["-F", read("tty").trim(), "icanon", "echo"].map(str::to_owned);
        assert!(Command::new("stty").args(set).status().unwrap().success());
    };
    let pid = Pid::from_raw(read("pid").trim().parse().unwrap()).unwrap();
    // No question of when the program began to listen for Ctrl+Z.
    kill_process(pid, Signal::STOP).unwrap();
    until_stopped(pid);
    set();
    kill_process(pid, Signal::CONT).unwrap();
    terminal.press("n");
    terminal.until("starting c0");
    run.wait_for_line(completed);
    set();
    terminal.press("n");
    terminal.until("starting c1");
    run.wait_for_line(completed);
    terminal.press("d");
    assert_eq!(terminal.close(), Some(0));
    project.run(["stop"]).expect_code(0);
    run.finish_within(SOON);
}
