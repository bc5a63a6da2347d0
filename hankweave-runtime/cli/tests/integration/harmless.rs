//! Texts of agents, hanks, files and records cannot steer a terminal or deceive its reader (S9).

use hankweave_testing::{Finished, TestProject};
use serde_json::{Value, json};

use crate::support::project;
use crate::terminal::Terminal;

/// Writes the clipboard, clears the screen (twice, once with a C1 control), turns the direction of text around and hides.
const EVIL: &str =
    "\u{1b}]52;c;ZXZpbA==\u{7}\u{1b}[2J\u{9b}2J\u{202e}\u{2066}\u{200f}\u{61c}\u{200b}\u{7f}\u{8}evil";

/// `EVIL` as a person sees it.
const SHOWN: &str =
    r"\u{1b}]52;c;ZXZpbA==\u{7}\u{1b}[2J\u{9b}2J\u{202e}\u{2066}\u{200f}\u{61c}\u{200b}\u{7f}\u{8}evil";

/// Prints what the test has prepared; waits for `go` where there is a file `wait`.
const AGENT: &str = r#"
prompt=$(cat)
cat "$prompt.jsonl"
for name in evil*.sh; do [ -e "$name" ] && sh "$name"; done
while [ -e wait ] && [ ! -e go ]; do sleep 0.05; done
cat "$prompt.end"
"#;

/// A project of two codons, the second of which fails, with the hostile text wherever a text is allowed.
fn hostile_project() -> TestProject {
    let project = project();
    let script = project.write("agent.sh", AGENT);
    let line = |value: Value| format!("{value}\n");
    let session = format!("s-{EVIL}");
    let message = |id: &str, content: Value| {
        line(
            json!({"type": "assistant", "session_id": session, "parent_tool_use_id": null, "message": {"id": id, "role": "assistant",
            "model": EVIL, "content": [content], "usage": {"input_tokens": 10, "output_tokens": 1}}}),
        )
    };
    let mut said = line(
        json!({"type": "system", "subtype": "init", "session_id": session, "model": EVIL, "cwd": "/", "tools": [EVIL]}),
    );
    said += &message("m1", json!({"type": "text", "text": EVIL}));
    said += &message(
        "m2",
        json!({"type": "tool_use", "id": "t1", "name": EVIL, "input": {"command": EVIL}}),
    );
    said += &line(
        json!({"type": "user", "session_id": session, "parent_tool_use_id": null, "message": {"role": "user",
        "content": [{"type": "tool_result", "tool_use_id": "t1", "is_error": true, "content": EVIL}]}}),
    );
    let end = |failed: bool| {
        let usage = json!({"input_tokens": 10, "output_tokens": 5});
        line(
            json!({"type": "result", "subtype": if failed { "error_during_execution" } else { "success" }, "is_error": failed,
            "session_id": session, "result": EVIL, "num_turns": 1, "total_cost_usd": 0.25, "usage": usage}),
        )
    };
    for (name, failed) in [("first", false), ("second", true)] {
        project.write(&format!("{name}.jsonl"), &said);
        project.write(&format!("{name}.end"), end(failed));
    }
    project.write(&format!("made by {EVIL}\nfirst.txt"), "before");
    let codon = |id: &str| {
        json!({"id": id, "name": format!("{id} {EVIL}"), "agent": {"command": ["sh", script], "stream": "claude"}, "model": "shell",
            "continuationMode": "fresh", "promptText": id, "checkpointedFiles": ["*.txt"],
            "rigSetup": [{"type": "command", "command": {"run": format!("printf '%s\\n' '{EVIL}'; printf x >> 'made by {EVIL}\nfirst.txt'")}}]})
    };
    project.write_hank(
        &json!({"meta": {"name": EVIL, "version": EVIL}, "hank": [codon("first"), codon("second")]}),
    );
    project
}

/// Whether a printer may write it: of the hidden characters line breaks alone.
fn is_harmless(character: char) -> bool {
    let hidden = ['\u{202e}', '\u{2066}', '\u{200f}', '\u{61c}', '\u{200b}'];
    matches!(character, '\n' | '\t') || !(character.is_control() || hidden.contains(&character))
}

#[track_caller]
fn assert_harmless(printed: &Finished) {
    for text in [&printed.stdout, &printed.stderr] {
        let evil = text.lines().find(|line| !line.chars().all(is_harmless));
        assert_eq!(evil, None, "{printed:?}");
        assert!(
            !text.contains("\nfirst.txt"),
            "a file name adds a line: {printed}"
        );
    }
}

/// What the view itself writes moves the cursor and colours; nothing of the hostile text is among it.
#[track_caller]
fn assert_harmless_view(screen: &str) {
    assert!(screen.contains("]52;c;"), "nothing was shown: {screen:?}");
    for evil in ["\u{1b}]", "\u{1b}[2J", "\u{7}", "\u{9b}", "\u{8}", "\u{7f}"] {
        assert!(!screen.contains(evil), "{evil:?} in {screen:?}");
    }
    let hidden = ['\u{202e}', '\u{2066}', '\u{200f}', '\u{61c}', '\u{200b}'];
    assert!(!screen.contains(hidden), "{screen:?}");
}

// covers: S9
#[test]
fn every_printed_field_is_harmless() {
    let mut project = hostile_project();
    project.set("HANKWEAVE_LOG", "trace");
    let codon = json!({"id": EVIL, "name": EVIL, "model": EVIL, "promptFile": EVIL, "checkpointedFiles": [EVIL], EVIL: EVIL});
    project.write("broken.json", json!({EVIL: EVIL, "hank": [codon]}).to_string());
    let refused = project.run(["validate", "broken.json"]);
    assert_harmless(refused.expect_code(1));
    assert!(refused.stdout.contains(r"\u{202e}"), "{refused}");
    let validated = project.run(["validate"]);
    assert_harmless(validated.expect_code(0));
    assert!(validated.stdout.contains(SHOWN), "{validated}");
    let run = project.run(["run", "--headless"]);
    assert_harmless(run.expect_code(1));
    for shown in [
        format!("first: {SHOWN} {SHOWN}"),
        format!("first: {SHOWN} failed: {SHOWN}"),
        format!("first: | {SHOWN}"),
    ] {
        assert!(run.stdout.contains(&shown), "no {shown} in {run}");
    }
    assert!(run.stderr.contains(SHOWN), "{run}");
    let log = std::fs::read_to_string(project.directory().join(".hankweave/logs/server.log")).unwrap();
    assert!(log.chars().all(is_harmless), "{log:?}");
    let here = project.directory();
    let sha = project.state(&here)["runs"][0]["codons"][0]["completionCheckpoint"]
        .as_str()
        .unwrap()
        .to_owned();
    let commands: &[&[&str]] = &[
        &["status"],
        &["status", "--json"],
        &["thread"],
        &["thread", "--json"],
        &["checkpoints"],
        &["checkpoints", "--json"],
        &["checkpoints", "show", &sha],
        &["checkpoints", "show", &sha, "--json"],
        &["checkpoints", "verify"],
        &["state", "show"],
        &["state", "history"],
        &["state", "validate"],
        &["state", "cost"],
        &["validate", "--json"],
        &["config"],
        &["config", "--json"],
        &["journal"],
        &["journal", "-e", EVIL],
        &["diff"],
        &["logs", "-v"],
        &["logs", "--server"],
        &["thread", "--run", EVIL],
        &["run", EVIL],
        &["attach", "--url", EVIL],
        &["rollback", "--to", EVIL],
        &["rollback", "--codon", "first", "--at", "rig-setup", "--dry-run"],
        &[
            "rollback",
            "--codon",
            "first",
            "--at",
            "rig-setup",
            "--dry-run",
            "--json",
        ],
        &["run", "--headless", "--json", "--recover", "crash-point"],
    ];
    for arguments in commands {
        assert_harmless(&project.run(*arguments));
    }
    // JSON has the data unchanged.
    let journal = project
        .run(["journal", "--type", "assistant.action"])
        .json_lines();
    let is_tool = |line: &&Value| line["data"]["toolName"] == EVIL;
    assert!(journal.iter().any(|line| is_tool(&line)), "{journal:#?}");
    let state = project.run(["state", "show"]).json_document();
    assert_eq!(state["runs"][0], project.state(&here)["runs"][0]);
}

// covers: S9
#[test]
fn what_is_drawn_on_a_terminal_is_harmless() {
    let project = hostile_project();
    let Some(mut screen) = Terminal::open(&project, "run --recover last-success") else {
        return;
    };
    screen.until_ended();
    assert_harmless_view(&screen.sent());
    project.write("wait", "");
    let mut run = project.start(["run", "--headless", "--recover", "crash-point"]);
    run.wait_for_line(|line| line.contains("failed: "));
    let attached = project.start(["attach", "--after", "0"]);
    let mut screen = Terminal::open(&project, "attach --after 0").unwrap();
    screen.until("]52;c;");
    project.write("go", "");
    screen.until_ended();
    drop(run);
    assert_harmless_view(&screen.sent());
    let attached = attached.finish_within(std::time::Duration::from_secs(60));
    assert_harmless(&attached);
    assert!(attached.stdout.contains(SHOWN), "{attached}");
}
