//! The words at the end of a run that has failed: what happened, what it is, what helps, how long to wait, and what to type next (AGENT-30).

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Instant;

use hankweave_core::agent::{CLASSES, ErrorClass};
use hankweave_testing::acp_agent::{self, SCRIPT};
use hankweave_testing::{Finished, TestProject};
use serde_json::{Value, json};

use crate::support::{SOON, project, wait_for};

const FIXTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../hankweave-core/tests/fixtures");

/// Not a story: what a story starts as its agent.
#[test]
#[ignore = "it is the agent of another test"]
fn plays() {
    acp_agent::play_if_asked();
}

fn codon(more: Value) -> Value {
    let mut codon = json!({"id": "only", "name": "only", "model": "m", "continuationMode": "fresh", "promptText": "go",
        "checkpointedFiles": ["*.txt"]});
    codon
        .as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    codon
}

/// Runs the codon, which does not complete, and returns what a person sees.
fn ended(project: &TestProject, codon: Value) -> Finished {
    project.write_hank(&json!({"hank": [codon]}));
    let finished = project.run(["run", "--headless", "--max-wait", "1"]);
    assert!(
        finished.stderr.contains("  continue     hankweave run"),
        "{finished}"
    );
    finished
}

/// A program that prints a recording and ends with `code`.
fn printing(project: &mut TestProject, agent: &str, recording: &str, code: u8) {
    let path = project.home().join(agent);
    let script = format!(
        "#!/bin/sh\ncat > /dev/null\ncat '{FIXTURES}/agent-streams/{recording}.jsonl'\nexit {code}\n"
    );
    fs::write(&path, script).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    project.set(format!("HANKWEAVE_{}_PATH", agent.to_uppercase()), path);
}

fn class(id: &str) -> &'static ErrorClass {
    CLASSES.iter().find(|class| class.id == id).unwrap()
}

/// What a paused run waits for helps by itself.
#[track_caller]
fn tells(finished: &Finished, class: &ErrorClass) {
    let is = format!("  what it is   {}\n", class.words);
    let helps = format!("  what helps   {}\n", class.hint);
    assert!(finished.stderr.contains(&is), "{}: {finished}", class.id);
    let has_failed = finished.code == Some(1);
    assert_eq!(
        finished.stderr.contains(&helps),
        has_failed,
        "{}: {finished}",
        class.id
    );
}

/// What providers and agents are known to say, each in the mouth of an agent.
// covers: AGENT-30
#[test]
fn every_class_of_failures_is_told_with_what_helps() {
    let examples = fs::read_to_string(format!("{FIXTURES}/failures.jsonl")).unwrap();
    let examples: Vec<Value> = examples
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    for known in CLASSES {
        // The end of a limit is waited for, or else the run pauses.
        let is_a_limit = known.retriable || known.id == "usage-limit";
        let mut of_class = examples.iter().filter(|example| example["class"] == known.id);
        let example = of_class
            .find(|example| is_a_limit || example["waitMs"].is_null())
            .unwrap();
        let said = example["said"].as_str().unwrap();
        let lines = [
            json!({"type": "system", "subtype": "init", "session_id": "s-1", "model": "m"}),
            json!({"type": "result", "subtype": "success", "is_error": true, "result": said, "terminal_reason": "api_error"}),
        ];
        let project = project();
        project.write("said.jsonl", lines.map(|line| format!("{line}\n")).concat());
        let command = json!(["sh", "-c", "cat > /dev/null; cat said.jsonl; exit 1"]);
        let finished = ended(
            &project,
            codon(json!({"agent": {"command": command, "stream": "claude"}})),
        );
        let code = finished.code.unwrap();
        assert!(code == 1 || code == 3 && is_a_limit, "{}: {finished}", known.id);
        assert!(finished.stderr.contains(said), "{}: {finished}", known.id);
        tells(&finished, known);
        let asks = finished.stderr.contains("  to wait      ");
        assert_eq!(asks, example["waitMs"].is_u64(), "{}: {finished}", known.id);
    }
}

/// What the real programs print when the key is wrong, when the provider asks to slow down, and when the context is full.
// covers: AGENT-30
#[test]
fn what_real_agents_print_at_their_end_is_told_by_its_class() {
    for (agent, model, recording, code, id) in [
        ("claude", "sonnet", "claude/error-401", 1, "authentication"),
        ("claude", "sonnet", "claude/error-429", 1, "rate-limit"),
        ("claude", "sonnet", "claude/context-exceeded", 1, "context"),
        ("codex", "gpt-5.1-codex", "codex/error-401", 1, "authentication"),
        ("codex", "gpt-5.1-codex", "codex/error-429", 1, "rate-limit"),
        ("codex", "gpt-5.1-codex", "codex/context-exceeded", 1, "context"),
        ("pi", "house/m", "pi/error-401", 0, "authentication"),
        ("pi", "house/m", "pi/error-429", 0, "rate-limit"),
        ("pi", "house/m", "pi-0.87/error-429", 0, "rate-limit"),
        ("pi", "house/m", "pi-0.87/context-exceeded", 0, "context"),
        ("opencode", "house/m", "opencode/error-401", 1, "authentication"),
        ("opencode", "house/m", "opencode/error-429", 1, "rate-limit"),
        (
            "gemini",
            "gemini-2.5-pro",
            "gemini/error-401",
            145,
            "authentication",
        ),
    ] {
        let mut project = project();
        printing(&mut project, agent, recording, code);
        let finished = ended(&project, codon(json!({"agent": agent, "model": model})));
        tells(&finished, class(id));
    }
}

// covers: S5
#[test]
fn what_an_agent_says_on_standard_error_alone_is_told_wherever_one_looks() {
    let init = r#"{"type":"system","subtype":"init","session_id":"s-1","model":"m"}"#;
    let done = r#"{"type":"result","subtype":"success","is_error":false,"result":"done"}"#;
    let says = "seq 1000 >&2; echo 'Error: no such account' >&2";
    for (script, words) in [
        (format!("{says}; exit 3"), "exited with code 3"),
        (format!("{says}; exit 0"), "without reporting a session"),
        (format!("echo '{init}'; {says}; exit 3"), "exited with code 3"),
        (
            format!("echo '{init}'; {says}; exit 0"),
            "without reporting a result",
        ),
        (
            format!("echo '{init}'; echo '{done}'; {says}; exit 3"),
            "reported success but exited with code 3",
        ),
        (
            format!("echo '{init}'; {says}; tail -f /dev/null"),
            "the agent was silent for 1s",
        ),
    ] {
        let project = project();
        let command = json!(["sh", "-c", format!("cat > /dev/null; {script}")]);
        let agent = json!({"agent": {"command": command, "stream": "claude"}, "shimIdleTimeout": 1});
        let finished = ended(&project, codon(agent));
        let told = format!("{words}: Error: no such account");
        assert!(finished.stderr.contains(&told), "{finished}");
        let status = project.run(["status"]);
        assert!(status.stdout.contains(&told), "{status}");
    }
}

// covers: AGENT-30
#[test]
fn an_agent_that_was_killed_or_said_no_word_of_success_is_told_as_that() {
    let project = project();
    let init = r#"{"type":"system","subtype":"init","session_id":"s-1","model":"m"}"#;
    let command = json!(["sh", "-c", format!("cat > /dev/null; echo '{init}'; kill -9 $$")]);
    let finished = ended(
        &project,
        codon(json!({"agent": {"command": command, "stream": "claude"}})),
    );
    assert!(finished.stderr.contains("killed by signal 9"), "{finished}");
    assert!(
        finished.stderr.contains("  its log      hankweave logs"),
        "{finished}"
    );
    assert!(
        !finished.stderr.contains("what it is"),
        "nothing is known of it: {finished}"
    );

    let silent = self::project();
    let script = json!({"turn": [{"say": "429 Too Many Requests"}]});
    let agent = json!({"agent": {"acp": acp_agent::command("endings::plays")}, "model": "acp", "env": {SCRIPT: script.to_string()}});
    let finished = ended(&silent, codon(agent));
    assert!(
        finished.stderr.contains("without a word of success"),
        "{finished}"
    );
    tells(&finished, class("rate-limit"));
}

/// A program that prints messages as claude does without its partial ones, in as few fields as it likes, and works until it is ended.
fn working(lines: &[&str]) -> Value {
    let printed: Vec<_> = lines.iter().map(|line| format!("echo '{line}'; ")).collect();
    let script = format!("cat > /dev/null; {}touch works; exec sleep 600", printed.concat());
    codon(
        json!({"model": "claude-sonnet-4-5", "agent": {"command": ["sh", "-c", script], "stream": "claude"}}),
    )
}

// covers: AGENT-7, AGENT-8
#[test]
fn a_program_that_is_ended_before_its_result_costs_at_least_what_it_told() {
    let init = r#"{"type":"system","subtype":"init","session_id":"s-1"}"#;
    let message =
        r#"{"type":"assistant","message":{"content":[],"usage":{"input_tokens":100000,"output_tokens":1}}}"#;
    let ended = message.replace("{\"content", r#"{"id":"m-1","stop_reason":"end_turn","content"#);
    for (lines, said) in [
        (vec![], "unknown"),
        (vec![init], "unknown"),
        (vec![init, message], "at least $0.3000"),
        (vec![init, message, message], "at least $0.6000"),
        (vec![init, &ended], "at least $0.3000"),
    ] {
        let project = project();
        project.write_hank(&json!({"hank": [working(&lines)]}));
        let running = project.start(["run", "--headless"]);
        wait_for(&project.directory().join("works"));
        let told = || {
            project
                .run(["journal", "--json", "--type", "token.usage"])
                .json_lines()
                .len()
        };
        let end = Instant::now() + SOON;
        let messages = lines.len().saturating_sub(1);
        while told() < messages {
            assert!(Instant::now() < end, "what the program told is not counted");
        }
        project.run(["stop"]).expect_code(0);
        let stopped = running.finish_within(SOON);
        assert!(stopped.expect_code(3).stderr.contains(said), "{said}: {stopped}");
        for command in ["status", "cost", "report"] {
            let shown = project.run([command]);
            let text = shown.expect_code(0).stdout.replace("≥ ", "at least ");
            assert!(text.contains(said), "{said}: {shown}");
        }
    }
}
