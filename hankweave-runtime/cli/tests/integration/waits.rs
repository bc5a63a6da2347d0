//! Every wait has an answer on the screen: how long it lasts, or how far it is.

use std::process::Command;
use std::time::Duration;

use hankweave_testing::TestProject;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::support::{project, shell_agent};
use crate::terminal::Terminal;

const INIT: &str = r#"{"type":"system","subtype":"init","session_id":"s-1","model":"claude-sonnet-4-5","cwd":"/","tools":[]}"#;

const OVERLOADED: &str = r#"{"type":"result","is_error":true,"session_id":"s-1","result":"overloaded","api_error_status":529,"usage":{}}"#;

/// A codon whose agent prints these lines and then does `rest`.
fn codon(project: &TestProject, id: &str, lines: &[&str], rest: &str) -> Value {
    let lines: Vec<String> = [&[INIT], lines]
        .concat()
        .iter()
        .map(|line| format!("'{line}'"))
        .collect();
    let script = format!("cat > /dev/null\nprintf '%s\\n' {}\n{rest}\n", lines.join(" "));
    let agent = json!({"command": ["sh", project.write(&format!("{id}.sh"), script)], "stream": "claude"});
    json!({"id": id, "name": id, "agent": agent, "model": "claude-sonnet-4-5", "continuationMode": "fresh", "promptText": "go"})
}

/// The number after the words, as often as it changes.
#[track_caller]
fn until_it_ticks(terminal: &mut Terminal, before: &str) {
    let shown = |screen: &str| {
        let (_, rest) = screen.split_once(before)?;
        Some(rest.split([' ', '\n']).next()?.to_owned())
    };
    terminal.until_standing(|screen| shown(screen).is_some());
    let first = shown(&terminal.standing());
    terminal.until_standing(|screen| shown(screen).is_some_and(|now| Some(now) != first));
}

// covers: CLI-36
#[test]
fn a_rig_command_shows_its_last_line_and_its_time() {
    let project = project();
    let mut slow = codon(&project, "one", &[], "");
    slow["rigSetup"] = json!([
        {"type": "command", "command": {"run": "true"}},
        {"type": "command", "command": {"run": "echo fetching; echo unpacking; exec sleep 600"}},
    ]);
    project.write_hank(&json!({"hank": [slow]}));
    let Some(mut terminal) = Terminal::sized(&project, 14, 100, "run") else {
        return;
    };
    terminal.until_standing(|screen| screen.contains("│ | unpacking") && screen.contains(": echo fetching;"));
    until_it_ticks(&mut terminal, "rig 2 of 2, ");
    terminal.press("\u{3}");
    until_gone(terminal);
}

#[track_caller]
fn until_gone(mut terminal: Terminal) {
    terminal.until("continue  ");
    assert_eq!(terminal.close(), Some(130));
}

// covers: CLI-36
#[test]
fn an_agent_that_asks_again_and_a_run_that_is_stopped_are_counted_down() {
    let project = project();
    let retry = r#"{"type":"system","subtype":"api_retry","attempt":2,"max_retries":10,"retry_delay_ms":600000,"error_status":529,"error":"overloaded"}"#;
    let one = codon(
        &project,
        "one",
        &[retry],
        "trap '' INT TERM; while :; do sleep 600; done",
    );
    project.write_hank(&json!({"hank": [one]}));
    let Some(mut terminal) = Terminal::sized(&project, 14, 100, "run") else {
        return;
    };
    terminal.until_standing(|screen| screen.contains(" after overloaded (retry 2 of 10)"));
    until_it_ticks(&mut terminal, "the agent asks again in 9m");
    terminal.press("\u{3}");
    until_it_ticks(&mut terminal, "· stopping: ");
    terminal.press("\u{3}");
    until_gone(terminal);
}

// covers: CLI-36
#[test]
fn a_codon_that_is_tried_again_is_counted_down() {
    let project = project();
    let mut failing = codon(&project, "one", &[OVERLOADED], "exit 1");
    failing["onFailure"] = json!("retry");
    failing["retryConfig"] = json!({"maxAttempts": 2, "delayMs": 60_000});
    project.write_hank(&json!({"hank": [failing]}));
    let Some(mut terminal) = Terminal::sized(&project, 14, 100, "run") else {
        return;
    };
    terminal.until_standing(|screen| screen.contains("(retry 1 of 2)") && screen.contains("✗ one"));
    until_it_ticks(&mut terminal, "  tried again in ");
    terminal.press("\u{3}");
    until_gone(terminal);
}

// covers: CLI-36
#[test]
fn every_wait_is_told_while_it_lasts() {
    let project = project();
    let retry = r#"{"type":"system","subtype":"api_retry","attempt":1,"max_retries":3,"retry_delay_ms":10,"error":"overloaded"}"#;
    let mut failing = codon(&project, "one", &[retry, OVERLOADED], "exit 1");
    failing["rigSetup"] = json!([{"type": "command", "command": {"run": "echo hi"}}]);
    failing["onFailure"] = json!("retry");
    failing["retryConfig"] = json!({"maxAttempts": 1, "delayMs": 1});
    project.write_hank(&json!({"hank": [failing]}));
    let lines = project
        .run(["run", "--headless", "--json"])
        .expect_code(1)
        .json_lines();
    let told = |kind: &str| {
        let found = lines
            .iter()
            .find(|line| line["type"] == "progress" && line["data"]["kind"] == kind);
        found.unwrap_or_else(|| panic!("no {kind} in {lines:#?}"))["data"].clone()
    };
    assert_eq!(told("rig")["subject"], "echo hi");
    assert_eq!(
        (&told("rig")["done"], &told("rig")["total"]),
        (&json!(0), &json!(1))
    );
    assert_eq!(
        (&told("retry")["done"], &told("retry")["subject"]),
        (&json!(1), &json!("overloaded"))
    );
    assert!(told("retry")["endsAt"].is_string() && told("wait")["endsAt"].is_string());
    assert_eq!(
        (&told("wait")["done"], &told("wait")["total"]),
        (&json!(1), &json!(1))
    );
}

// covers: CLI-24
#[test]
fn sub_agents_are_a_tree_and_the_line_that_never_moves_tells_how_full_the_context_is() {
    let project = project();
    let said = |id: &str, parent: &str, block: &str, tokens: u32| {
        format!(
            r#"{{"type":"assistant","session_id":"s-1","parent_tool_use_id":{parent},"message":{{"id":"{id}","role":"assistant","model":"claude-sonnet-4-5","stop_reason":"tool_use","content":[{block}],"usage":{{"input_tokens":{tokens},"output_tokens":5}}}}}}"#
        )
    };
    let uses =
        |id: &str, input: &str| format!(r#"{{"type":"tool_use","id":"{id}","name":"Task","input":{input}}}"#);
    let lines = [
        said(
            "m-1",
            "null",
            &uses("t-1", r#"{"description":"look at the tests","prompt":"p"}"#),
            122_000,
        ),
        said(
            "m-2",
            r#""t-1""#,
            &uses("t-2", r#"{"description":"count them","prompt":"p"}"#),
            190_000,
        ),
        said("m-3", r#""t-2""#, r#"{"type":"text","text":"there are 7"}"#, 10),
    ];
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let one = codon(&project, "one", &lines, "exec sleep 600");
    project.write_hank(&json!({"hank": [one]}));
    let Some(mut terminal) = Terminal::sized(&project, 14, 100, "run") else {
        return;
    };
    terminal.until_standing(|screen| screen.contains("there are 7") && screen.contains(" ctx 61 %"));
    let screen = terminal.standing();
    let tree = "  │ the agent works\n  │ › Task look at the tests\n  └ look at the tests: › Task count them\n    └ count them: there are 7\n";
    let tree = tree
        .replace("› Task look at the tests", "› Task p")
        .replace(": › Task count them", ": › Task p");
    let described = screen
        .replace("› Task look at the tests", "› Task p")
        .replace("Task count them", "Task p");
    assert!(described.contains(&tree), "{screen}");
    terminal.press("\u{3}");
    until_gone(terminal);
}

#[test]
fn keys_command_a_run_after_the_shell_had_the_terminal() {
    let project = project();
    let agent = shell_agent(&project);
    let codon = |id: &str| json!({"id": id, "name": id, "agent": agent, "model": "shell", "continuationMode": "fresh", "promptText": id});
    project.write_hank(&json!({"hank": [codon("one"), codon("two")]}));
    let running = project.start(["run", "--headless", "--no-autostart"]);
    crate::support::port(&project.directory());
    let program = env!("CARGO_BIN_EXE_hankweave");
    let line = format!("tty > tty; echo $$ > pid; exec '{program}' attach --control");
    let Some(mut terminal) = Terminal::of(&project, &line) else {
        running.kill();
        return;
    };
    terminal.until("d detach");
    let read = |name: &str| std::fs::read_to_string(project.directory().join(name)).unwrap();
    let set = Command::new("stty")
        .args(["-F", read("tty").trim(), "icanon", "echo"])
        .status();
    assert!(set.unwrap().success());
    let pid = Pid::from_raw(read("pid").trim().parse().unwrap()).unwrap();
    kill_process(pid, Signal::CONT).unwrap();
    // The frame that is drawn again comes after the settings.
    terminal.until("next: one");
    let is_ours = || {
        let shown = Command::new("stty")
            .args(["-F", read("tty").trim(), "-a"])
            .output()
            .unwrap();
        String::from_utf8_lossy(&shown.stdout).contains("-icanon")
    };
    while !is_ours() {
        std::thread::yield_now();
    }
    terminal.press("n");
    terminal.until("starting one");
    terminal.press("d");
    terminal.close();
    project.run(["stop"]).expect_code(0);
    running.finish_within(Duration::from_secs(60)).expect_code(3);
}
