//! What a second start does with what the first one left.

use std::os::unix::fs::PermissionsExt;

use rustix::process::Signal;
use serde_json::{Value, json};

use hankweave_testing::TestProject;

use crate::support::{assert_checkpoint, codon, project, shell_agent};

fn write_hank(project: &TestProject) {
    let agent = shell_agent(project);
    let codon = |id: &str, prompt: &str| {
        json!({"id": id, "name": id, "agent": agent, "model": "shell", "continuationMode": "fresh",
            "promptText": prompt, "checkpointedFiles": ["*.txt"]})
    };
    project.write_hank(&json!({"hank": [codon("first", "first"), codon("second", "second, wait for go")]}));
}

fn second_has_started(line: &str) -> bool {
    let event: Value = serde_json::from_str(line).unwrap();
    event["type"] == "codon.started" && event["data"]["codonId"] == "second"
}

#[test]
fn a_run_that_was_killed_is_recorded_as_crashed_and_the_work_goes_on() {
    let project = project();
    write_hank(&project);
    let mut running = project.start(["run", "--headless", "--json"]);
    running.wait_for_line(second_has_started);
    assert_eq!(running.kill().signal, Some(9));
    project.write("go", "");

    project.run(["run", "--headless"]).expect_code(0);

    let directory = project.directory();
    assert_eq!(
        std::fs::read_to_string(directory.join("done.txt")).unwrap(),
        "first\nsecond, wait for go\n"
    );
    assert_eq!(
        project.left_behind(),
        [],
        "the agent of the killed run is gone as well"
    );
    let state = project.state(&directory);
    assert_eq!(
        (state["runs"].as_array().map(Vec::len), &state["currentRunId"]),
        (Some(2), &Value::Null)
    );
    let (crashed, resumed) = (&state["runs"][1], &state["runs"][0]);

    assert_eq!(crashed["status"], "crashed");
    let (first, lost) = (codon(crashed, "first"), codon(crashed, "second"));
    assert_eq!(first["status"], "completed");
    assert_checkpoint(&project, &directory, &first["completionCheckpoint"]);
    assert_eq!(
        (&lost["status"], &lost["exitCode"]),
        (&json!("failed"), &json!(-1))
    );
    assert_eq!(lost["failedDuring"], "running");
    let reason = json!({"type": "unknown", "retriable": false, "message": "Server crashed"});
    assert_eq!(lost["failureReason"], reason);

    assert_eq!(resumed["status"], "completed");
    assert_eq!(resumed["startingConditions"]["type"], "continuation");
    let source = &resumed["startingConditions"]["source"];
    assert_eq!(
        (&source["runId"], &source["afterCodon"]),
        (&crashed["runId"], &json!("first"))
    );
    assert_eq!(source["checkpointSha"], first["completionCheckpoint"]);
    assert_eq!(codon(resumed, "second")["status"], "completed");
    assert_eq!(
        resumed["codons"].as_array().map(Vec::len),
        Some(1),
        "what was done is not done again"
    );
}

// Another program may write a file in which a run ended while a codon was open.
// covers: STATE-36
#[test]
fn a_codon_that_an_ended_run_left_open_is_closed_and_the_work_goes_on() {
    for status in ["completed", "failed", "crashed"] {
        let project = project();
        write_hank(&project);
        project.write("go", "");
        let state_dir = project.directory().join(".hankweave");
        std::fs::create_dir(&state_dir).unwrap();
        std::fs::set_permissions(&state_dir, std::fs::Permissions::from_mode(0o700)).unwrap();
        let open = json!({"codonId": "first", "startTime": "2025-01-04T12:00:00.000Z", "status": "running", "claudePid": 1,
            "claudeLogPath": "runs/r/first-claude.log", "claudeSessionId": "s", "currentCost": 0.5, "assistantMessageCount": 1,
            "currentTokens": {"inputTokens": 1, "outputTokens": 1, "cacheCreationTokens": 0, "cacheReadTokens": 0}});
        let run = json!({"runId": "r", "runFolder": "/x/.hankweave/runs/r", "gitBranch": "run-r", "startingConditions": {"type": "fresh"},
            "codons": [open], "status": status, "startTime": "2025-01-04T12:00:00.000Z", "serverPid": 1});
        let plan: Vec<Value> = ["first", "second"]
            .iter()
            .map(|id| json!({"codonId": id, "codon": {"id": id, "name": id}}))
            .collect();
        let state = json!({"runs": [run], "currentRunId": null, "executionPlan": plan});
        std::fs::write(state_dir.join("state.json"), state.to_string()).unwrap();

        let finished = project.run(["run", "--headless"]);
        finished.expect_code(0);
        assert!(finished.stderr.contains("left codon first open"), "{finished}");
        let state = project.state(&project.directory());
        let runs = state["runs"].as_array().unwrap();
        let closed = &runs[runs.len() - 1];
        assert_eq!(
            (&closed["status"], &closed["codons"][0]["status"]),
            (&json!(status), &json!("failed"))
        );
        assert_eq!(closed["codons"][0]["partialCost"], json!(0.5));
        assert!(runs.iter().all(|run| run["status"] != "running"), "{state:#}");
        assert_eq!(runs[0]["status"], "completed");
        project.run(["run", "--headless"]).expect_code(0);
        assert_eq!(
            project.state(&project.directory())["runs"]
                .as_array()
                .map(Vec::len),
            Some(runs.len())
        );
    }
}

// What was there is kept.
// covers: RUN-4
#[test]
fn back_to_the_beginning_means_its_files_too() {
    let project = project();
    project.write("kept.txt", "as it was\n");
    let agent = shell_agent(&project);
    let hank = |prompt: &str| {
        json!({"hank": [{"id": "first", "name": "first", "agent": agent, "model": "shell", "continuationMode": "fresh",
            "promptText": prompt, "checkpointedFiles": ["*.txt"]}]})
    };
    project.write_hank(&hank("wait for go"));
    let mut running = project.start(["run", "--headless", "--json"]);
    running.wait_for_line(|line| line.contains("codon.started"));
    project.write("kept.txt", "half\n");
    running.kill();

    project.write_hank(&hank("one"));
    let finished = project.run(["run", "--headless", "--recover", "last-success"]);
    finished.expect_code(0);
    let text = |name: &str| std::fs::read_to_string(project.directory().join(name)).unwrap();
    assert_eq!((&*text("kept.txt"), &*text("done.txt")), ("as it was\n", "one\n"));
    let source = &project.state(&project.directory())["runs"][0]["startingConditions"]["source"];
    assert_eq!(source["afterCodon"], Value::Null);
}

// `server.lock` names the run from its first record on, and not half a minute later.
#[test]
fn the_lock_file_names_the_run_before_its_first_codon_starts() {
    let project = project();
    write_hank(&project);
    let mut running = project.start(["run", "--headless", "--json"]);
    running.wait_for_line(|line| line.contains("codon.started"));
    let lock = std::fs::read(project.directory().join(".hankweave/server.lock")).unwrap();
    let lock: Value = serde_json::from_slice(&lock).unwrap();
    assert_eq!(lock["runId"], project.state(&project.directory())["currentRunId"]);
    assert!(lock["runId"].is_string(), "{lock}");
    running.kill();
}

// covers: P9, RUN-15
#[test]
fn a_stopped_run_leaves_no_process_and_is_resumed() {
    let project = project();
    write_hank(&project);
    let mut running = project.start(["run", "--headless", "--json"]);
    running.wait_for_line(second_has_started);
    running.signal(Signal::TERM);
    running
        .finish_within(std::time::Duration::from_secs(30))
        .expect_code(143);
    assert_eq!(project.left_behind(), []);
    let state = project.state(&project.directory());
    assert_eq!(
        (&state["currentRunId"], &state["runs"][0]["status"] == "running"),
        (&Value::Null, false)
    );

    project.write("go", "");
    project.run(["run", "--headless"]).expect_code(0);
    let done = std::fs::read_to_string(project.directory().join("done.txt")).unwrap();
    assert_eq!(done, "first\nsecond, wait for go\n");
}

#[test]
fn what_the_author_corrects_after_a_failure_is_not_taken_back() {
    let project = project();
    project.write("first.json", r#"{"turns":[{"text":"done"}]}"#);
    project.write(
        "second.json",
        r#"{"turns":[{"text":"oops"}],"result":{"message":"no"},"exitCode":1}"#,
    );
    let codon = |id: &str, script: &str| json!({"id": id, "name": id, "agent": {"script": script}, "continuationMode": "fresh", "promptText": "go"});
    // However a reference is spelled.
    project
        .write_hank(&json!({"hank": [codon("one", "first.json"), codon("two", "./scripts/../second.json")]}));
    project.run(["run", "--headless"]).expect_code(1);

    let corrected = r#"{"turns":[{"text":"better"}]}"#;
    project.write("second.json", corrected);
    project.run(["run", "--headless"]).expect_code(0);
    let kept = std::fs::read_to_string(project.directory().join("second.json")).unwrap();
    assert_eq!(kept, corrected);
}

/// A codon that says something for 0.3 dollars and hangs; `goes_on` lets it end.
fn write_hanging(project: &TestProject) {
    project.write(
        "agent.json",
        json!({"turns": [{"text": "working", "usage": {"input": 100_000, "output": 0},
            "tools": [{"append": {"path": "done.txt", "content": "half\n"}}], "hang": true}]})
        .to_string(),
    );
    let codon = json!({"id": "survey", "name": "survey", "agent": {"script": "agent.json"}, "model": "claude-sonnet-4-5",
        "continuationMode": "fresh", "promptText": "TASK", "checkpointedFiles": ["*.txt"]});
    project.write_hank(&json!({"hank": [codon]}));
}

fn goes_on(project: &TestProject) {
    let script = json!({"turns": [{"text": "${PROMPT}", "usage": {"input": 100_000, "output": 0},
        "tools": [{"append": {"path": "done.txt", "content": "${PROMPT}\n"}}]}]});
    project.write("agent.json", script.to_string());
}

fn has_appended(line: &str) -> bool {
    let event: Value = serde_json::from_str(line).unwrap();
    event["type"] == "tool.result"
}

const GO_ON: &str = "You were interrupted before you had finished.";

// After a stop, a signal or a crash the agent can continue in its session, if the user wants that; otherwise the files are rolled back.
// covers: RUN-3
#[test]
fn what_was_cut_off_goes_on_in_its_session_when_that_is_asked_for() {
    for (kill, recover, expected) in [
        (false, Some("session"), ["half", GO_ON].as_slice()),
        (true, Some("session"), &["half", GO_ON]),
        (false, Some("crash-point"), &["half", "TASK"]),
        // Nothing has completed, so the files of the beginning come back, and what the dead codon made goes.
        (true, Some("last-success"), &["TASK"]),
        (false, None, &["TASK"]),
    ] {
        let project = project();
        write_hanging(&project);
        let mut running = project.start(["run", "--headless", "--json"]);
        running.wait_for_line(has_appended);
        match kill {
            true => assert_eq!(running.kill().signal, Some(9)),
            false => {
                running.signal(Signal::INT);
                running
                    .finish_within(std::time::Duration::from_secs(30))
                    .expect_code(130);
            }
        }
        let status = project.run(["status"]).stdout;
        let offer = "hankweave run --recover session";
        assert!(status.contains(offer), "{status}");
        let words = match kill {
            true => [": crashed, started ", "survey crashed"],
            false => [": stopped, ", "next: survey"],
        };
        for words in words {
            assert!(status.contains(words), "{words}\n{status}");
        }
        assert!(!status.contains("failed"), "{status}");

        goes_on(&project);
        let flags = recover.iter().flat_map(|recover| ["--recover", *recover]);
        project
            .run(["run", "--headless"].into_iter().chain(flags))
            .expect_code(0);
        let done = std::fs::read_to_string(project.directory().join("done.txt")).unwrap();
        let lines: Vec<&str> = done.lines().collect();
        assert_eq!(lines.len(), expected.len(), "killed: {kill}, {recover:?}: {done}");
        for (line, begin) in lines.iter().zip(expected) {
            assert!(line.starts_with(begin), "{done}");
        }
        let state = project.state(&project.directory());
        let [second, first] = [0, 1].map(|run| &state["runs"][run]["codons"][0]);
        let goes_on = recover == Some("session");
        assert_eq!(second["status"], "completed");
        assert_eq!(second["previousSessionId"] == first["claudeSessionId"], goes_on);
        let resumed = &state["runs"][0]["startingConditions"]["resumedSession"];
        assert_eq!(*resumed == first["claudeSessionId"], goes_on, "{state:#}");
    }
}

// An agent that cannot resume gets a prompt about that, and its codon runs again with its task.
// covers: RUN-3
#[test]
fn an_agent_that_begins_another_session_is_given_its_task_again() {
    let project = project();
    write_hank(&project);
    let mut running = project.start(["run", "--headless", "--json"]);
    running.wait_for_line(second_has_started);
    running.signal(Signal::TERM);
    running
        .finish_within(std::time::Duration::from_secs(30))
        .expect_code(143);
    project.write("go", "");
    let finished = project.run(["run", "--headless", "--recover", "session"]);
    finished.expect_code(0);
    for words in [
        "second: restarted after",
        "cannot be resumed: the agent began another one",
        "second runs again from its beginning",
    ] {
        assert!(finished.stdout.contains(words), "{words}\n{finished}");
    }
    let state = project.state(&project.directory());
    let records = state["runs"][0]["codons"].as_array().unwrap();
    let ended: Vec<&Value> = records.iter().map(|record| &record["status"]).collect();
    assert_eq!(ended, ["failed", "completed"]);
    assert_eq!(records[0]["failureReason"]["interruptedBy"], "lost-session");
    let done = std::fs::read_to_string(project.directory().join("done.txt")).unwrap();
    // It may have done something with the words for the session that it does not have, until it was stopped.
    assert!(done.ends_with("second, wait for go\n"), "{done}");
    assert_eq!(project.left_behind(), []);
}

/// An agent that was skipped before it wrote its session down does not know it afterwards, as gemini.
// covers: RUN-3
#[test]
fn a_codon_that_continues_a_skipped_one_begins_anew_where_the_agent_does_not_know_its_session() {
    let mut project = project();
    let program = project.write(
        "bin/gemini",
        r#"#!/bin/sh
case "$*" in *--version*) echo 0.61.0; exit ;; esac
cat > /dev/null
case "$*" in *--resume*) echo 'Error resuming session: No previous sessions found for this project.' >&2; exit 42 ;; esac
echo "{\"type\":\"init\",\"session_id\":\"s-$$\",\"model\":\"gemini-2.5-pro\"}"
echo '{"type":"message","role":"assistant","content":"I work."}'
echo '{"type":"tool_use","tool_id":"t-1","tool_name":"look","parameters":{}}'
[ -e go ] || exec sleep 600
echo '{"type":"result","status":"success","stats":{}}'
"#,
    );
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    project.set("HANKWEAVE_GEMINI_PATH", program);
    project.set("GEMINI_API_KEY", "k");
    let codon = |id: &str, mode: &str| json!({"id": id, "name": id, "agent": "gemini", "model": "gemini-2.5-pro", "continuationMode": mode, "promptText": "x"});
    project.write_hank(&json!({"hank": [codon("one", "fresh"), codon("two", "continue-previous")]}));
    let mut running = project.start(["run", "--headless", "--json"]);
    running.wait_for_line(|line| line.contains("\"type\":\"assistant.action\"") && line.contains("I work."));
    project.write("go", "");
    project.run(["skip"]).expect_code(0);
    let finished = running.finish_within(std::time::Duration::from_secs(120));
    finished.expect_code(0);
    assert!(
        finished.stdout.contains("two runs again from its beginning"),
        "{finished}"
    );
    let state = project.state(&project.directory());
    let codons = state["runs"][0]["codons"].as_array().unwrap();
    let ends: Vec<_> = codons
        .iter()
        .map(|codon| {
            (
                codon["codonId"].as_str().unwrap(),
                codon["status"].as_str().unwrap(),
            )
        })
        .collect();
    assert_eq!(
        ends,
        [("one", "skipped"), ("two", "failed"), ("two", "completed")]
    );
    assert_eq!(codons[1]["failureReason"]["interruptedBy"], "lost-session");
}

/// An agent that makes `new.txt` and works on, or ends where `go` is; it can be continued in its session.
fn making_agent(project: &TestProject) -> Value {
    let script = r#"cat > /dev/null
printf '{"type":"system","subtype":"init","session_id":"s-1","model":"claude-sonnet-4-5","cwd":"/","tools":[]}\n'
echo made >> new.txt
printf '{"type":"assistant","session_id":"s-1","message":{"id":"m-%s","role":"assistant","model":"claude-sonnet-4-5","content":[{"type":"text","text":"made"}],"usage":{"input_tokens":1000,"output_tokens":1}}}\n' $$
[ -e go ] || exec sleep 600
printf '{"type":"result","subtype":"success","is_error":false,"session_id":"s-1","result":"done","usage":{"input_tokens":1000,"output_tokens":1}}\n'
"#;
    json!({"command": ["sh", project.write("making.sh", script)], "stream": "claude"})
}

/// The set-up is that of the first attempt, whose session the second one continued: both are undone, and what they made goes with them.
// covers: RUN-2, STATE-51
#[test]
fn a_codon_with_a_rig_that_was_killed_twice_runs_again_from_its_set_up() {
    let project = project();
    let agent = making_agent(&project);
    let rig = json!([{"type": "command", "command": {"run": "echo ready > ready.txt"}}]);
    project.write_hank(
        &json!({"hank": [{"id": "prepare", "name": "Prepare", "agent": agent, "model": "claude-sonnet-4-5",
        "continuationMode": "fresh", "promptText": "go", "checkpointedFiles": ["*.txt"], "rigSetup": rig}]}),
    );
    for more in [&[][..], &["--recover", "session"]] {
        let arguments = [&["run", "--headless"], more].concat();
        let mut running = project.start(arguments);
        running.wait_for_line(|line| line.contains("made"));
        running.kill();
    }
    // Even a command that changes no file records the crash; the offered commands stay.
    project.run(["undo", "--dry-run"]);
    let status = project.run(["status"]).expect_code(0).stdout.clone();
    for part in [
        "prepare crashed; the next run continues there",
        "hankweave run --recover session ",
        "hankweave run --recover crash-point ",
    ] {
        assert!(status.contains(part), "{part}: {status}");
    }
    project.write("go", "");
    let again = project.run(["run", "--headless"]);
    again.expect_code(0);
    assert!(again.stdout.contains("new.txt (deleted)"), "{again}");
    let made = std::fs::read_to_string(project.directory().join("new.txt")).unwrap();
    assert_eq!(made, "made\n", "{again}");
    let report = project.run(["report"]).expect_code(0).stdout.clone();
    assert!(
        report.contains("| Undone or run again: `prepare` | 2 attempts |"),
        "{report}"
    );
}
