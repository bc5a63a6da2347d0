//! Work in the background of an agent that has answered: it is waited for, and what is cut off is said everywhere (HANK-75).

use std::process::Command;
use std::time::{Duration, Instant};

use hankweave_testing::TestProject;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::real_money::assert_true;
use crate::real_stories::{real, stage};
use crate::support::{codon, project};

pub(crate) const DEADLINE: Duration = Duration::from_secs(100);

/// Starts a command in the background, waits for it, and continues.
pub(crate) fn script(command: &str) -> Value {
    json!({"turns": [
        {"text": "I run the tests.", "tools": [{"background": {"command": command}}], "usage": {"input": 100, "output": 10}},
        {"text": "I wait for them.", "usage": {"input": 110, "output": 10}},
        {"afterBackground": true, "text": "They have passed.", "tools": [{"bash": {"command": "cat tests.txt > report.txt"}}],
            "usage": {"input": 120, "output": 10}},
        {"text": "The report is written."}]})
}

/// A project of one codon that plays this script, with these keys.
fn scripted(script: &Value, keys: &Value) -> TestProject {
    let project = project();
    project.write("play.json", script.to_string());
    let mut only = json!({"id": "only", "name": "Only", "agent": {"script": "play.json"}, "model": "claude-sonnet-4-5",
        "continuationMode": "fresh", "promptText": "Test it.", "checkpointedFiles": ["*.txt"], "settleSeconds": 1});
    only.as_object_mut()
        .unwrap()
        .extend(keys.as_object().unwrap().clone());
    project.write_hank(&json!({"hank": [only]}));
    project
}

fn record(project: &TestProject) -> Value {
    let state = project.state(&project.directory());
    let runs = state["runs"].as_array().unwrap();
    let newest = runs
        .iter()
        .max_by_key(|run| run["startTime"].as_str().unwrap().to_owned());
    codon(newest.unwrap(), "only").clone()
}

pub(crate) fn read(project: &TestProject, name: &str) -> String {
    std::fs::read_to_string(project.directory().join(name)).unwrap_or_default()
}

pub(crate) fn is_wait(line: &str) -> bool {
    line.contains("\"progress\"") && line.contains("\"kind\":\"background\"")
}

// covers: HANK-75
#[test]
fn a_codon_waits_until_its_background_tests_have_ended_and_its_report_is_written() {
    let check = json!({"check": {"run": "grep passed report.txt"}});
    let project = scripted(&script("sleep 3; echo passed > tests.txt"), &check);
    let finished = project.run(["run", "--headless", "--json"]);
    finished.expect_code(0);
    let lines = finished.json_lines();
    let wait = lines.iter().find(|line| is_wait(&line.to_string())).unwrap();
    assert_eq!(wait["data"]["subject"], "sleep 3; echo passed > tests.txt");
    assert!(wait["data"]["endsAt"].is_string() && wait["data"]["codonId"] == "only");
    assert_eq!(read(&project, "report.txt"), "passed\n");
    let record = record(&project);
    assert_eq!(
        (&record["status"], &record["remarks"]),
        (&json!("completed"), &Value::Null)
    );
    // What was used before the wait counts once, and so does the rest.
    assert_eq!(record["finalTokens"]["inputTokens"], 330, "{record:#}");
    let report = project.run(["report"]).expect_code(0).stdout.clone();
    let waited = report.lines().find(|line| line.contains("only waited "));
    assert!(
        waited.is_some_and(|line| line.contains("s for background work")),
        "{report}"
    );
    assert_eq!(project.left_behind(), []);
}

// covers: HANK-75
#[test]
fn what_is_cut_off_is_said_in_the_summary_the_status_the_record_and_the_report() {
    let endless = script("exec tail -f /dev/null # 400");
    let cut = "background work that its agent was waiting for was ended after 1s (maxBackgroundSeconds): exec tail -f /dev/null # 400";
    let hint = "Raise `maxBackgroundSeconds`, or let the codon complete with its answer so far: `\"onBackgroundCut\": \"complete\"`";
    for (policy, code, status) in [("fail", 1, "failed"), ("complete", 0, "completed")] {
        let keys = json!({"maxBackgroundSeconds": 1, "onBackgroundCut": policy});
        let project = scripted(&endless, &keys);
        let finished = project.run(["run", "--headless"]);
        finished.expect_code(code);
        assert_eq!(project.left_behind(), []);
        let record = record(&project);
        assert_eq!(record["status"], status, "{record:#}");
        let (said, reason) = (record["remarks"].to_string(), &record["failureReason"]);
        match policy {
            "fail" => {
                let message = reason["message"].as_str().unwrap();
                assert!(message.contains(cut) && message.contains(hint), "{message}");
                assert_eq!(
                    (&reason["type"], &reason["retriable"]),
                    (&json!("unknown"), &json!(true))
                );
            }
            _ => assert!(said.contains(cut) && reason.is_null(), "{record:#}"),
        }
        let status = project.run(["status"]).stdout.clone();
        let report = project.run(["report"]).expect_code(0).stdout.clone();
        assert!(finished.stderr.contains(cut), "{finished}");
        assert!(status.contains(cut), "{status}");
        // The name of the work is no error of a provider.
        assert!(!finished.stderr.contains("what it is"), "{finished}");
        assert!(report.contains("was ended after 1s"), "{report}");
    }
}

// covers: HANK-75
#[test]
fn the_keys_may_stand_in_the_overrides_and_are_checked() {
    let project = scripted(&script("exec tail -f /dev/null"), &json!({}));
    let text = read(&project, "hank.json");
    let mut hank: Value = serde_json::from_str(&text).unwrap();
    hank["overrides"] = json!({"maxBackgroundSeconds": 1, "onBackgroundCut": "complete"});
    project.write_hank(&hank);
    project.run(["run", "--headless"]).expect_code(0);
    assert!(record(&project)["remarks"].to_string().contains("after 1s"));
    hank["overrides"] = json!({"maxBackgroundSeconds": 0, "onBackgroundCut": "skip"});
    project.write_hank(&hank);
    let refused = project.run(["validate"]).expect_code(1).stdout.clone();
    assert!(
        refused.contains("maxBackgroundSeconds") && refused.contains("onBackgroundCut"),
        "{refused}"
    );
}

/// An agent of shell lines whose stream says nothing of background work.
fn shell(project: &TestProject, body: &str, keys: &Value) {
    let opening = r#"{"type":"system","subtype":"init","session_id":"s-1","model":"m","cwd":"/","tools":[]}"#;
    let closing =
        r#"{"type":"result","subtype":"success","is_error":false,"session_id":"s-1","result":"done"}"#;
    let agent = project.write(
        "agent.sh",
        format!("printf '%s\\n' '{opening}' '{closing}'\n{body}\n"),
    );
    let mut only = json!({"id": "only", "name": "Only", "agent": {"command": ["sh", agent], "stream": "claude"}, "model": "m",
        "continuationMode": "fresh", "promptText": "Test it.", "settleSeconds": 2});
    only.as_object_mut()
        .unwrap()
        .extend(keys.as_object().unwrap().clone());
    project.write_hank(&json!({"hank": [only]}));
}

/// The agent has said nothing of it, and what it left running writes: it is waited for, and its end is no failure.
// covers: HANK-75
#[test]
fn what_an_agent_left_running_is_waited_for_as_long_as_it_is_busy() {
    let busy = "(i=0; while [ $i -lt 25 ]; do i=$((i+1)); echo $i >> busy.txt; sleep 0.2; done; echo late > late.txt) & wait";
    let project_of_one_that_ends = project();
    shell(&project_of_one_that_ends, busy, &json!({}));
    project_of_one_that_ends.run(["run", "--headless"]).expect_code(0);
    assert_eq!(read(&project_of_one_that_ends, "late.txt"), "late\n");
    assert_eq!(record(&project_of_one_that_ends)["remarks"], Value::Null);

    let endless = "(while :; do echo x >> busy.txt; sleep 0.1; done) & wait";
    let project = project();
    shell(&project, endless, &json!({"maxBackgroundSeconds": 4}));
    let finished = project.run(["run", "--headless"]);
    finished.expect_code(0);
    let remark =
        "what its agent left running was busy and was ended 4s after the answer (maxBackgroundSeconds)";
    assert!(finished.stderr.contains(remark), "{finished}");
    assert_eq!(project.left_behind(), []);
}

/// A server without clients is no work that ends.
// covers: HANK-75
#[test]
fn a_server_that_was_left_running_is_not_waited_for() {
    if Command::new("python3").arg("-V").output().is_err() {
        return println!("skipped: there is no python3");
    }
    let serve = "exec python3 -c 'import socket; s = socket.socket(); s.bind((\"127.0.0.1\", 0)); s.listen(); s.accept()'";
    let mut script = script(serve);
    script["turns"].as_array_mut().unwrap().truncate(2);
    let project = scripted(&script, &json!({"settleSeconds": 2}));
    let finished = project.run(["run", "--headless"]);
    finished.expect_code(0);
    let remarks = record(&project)["remarks"].to_string();
    assert!(
        remarks.contains("was ended 2s after the answer (settleSeconds): exec python3"),
        "{remarks}"
    );
    assert!(
        finished.stderr.contains("takes connections and is idle"),
        "{finished}"
    );
    assert_eq!(project.left_behind(), []);
}

// covers: HANK-75
#[test]
fn a_wait_that_was_killed_or_stopped_leaves_nothing_and_the_next_run_goes_on() {
    for signal in [Signal::KILL, Signal::INT] {
        let project = scripted(&script("exec tail -f /dev/null"), &json!({}));
        let mut running = project.start(["run", "--headless", "--json"]);
        running.wait_for_line(is_wait);
        let waits = "only waits for background work, at most ";
        let work = "exec tail -f /dev/null";
        let end = Instant::now() + DEADLINE;
        loop {
            let status = project.run(["status"]).expect_code(0).stdout.clone();
            if status.contains(waits) && status.contains(&format!(": {work}\n")) {
                break;
            }
            assert!(Instant::now() < end, "{status}");
        }
        let status = project.run(["status", "--json"]).json_document();
        assert_eq!(status["background"]["subject"], work, "{status:#}");
        assert!(status["background"]["endsAt"].is_string());
        assert_eq!(
            status["view"]["headline"],
            format!("Waits for background work of Only: {work}")
        );
        running.signal(signal);
        running.finish_within(DEADLINE);
        let status = project.run(["status", "--json"]).json_document();
        assert_eq!(status["background"], Value::Null);
        let again = json!({"turns": [{"text": "${PROMPT}"}]});
        project.write("play.json", again.to_string());
        let finished = project.run(["run", "--headless", "--json", "--recover", "session"]);
        finished.expect_code(0);
        assert!(
            finished
                .stdout
                .contains("what you had running in the background was ended"),
            "{finished}"
        );
        assert_eq!(project.left_behind(), [], "{signal:?}");
        assert_eq!(record(&project)["status"], "completed");
    }
}

/// Tests of 4 s in the background; the real program waits for them, reads what they say and writes its report.
fn waits_for_tests(tests: &str) -> Value {
    let bash = json!({"op": "bash", "command": tests, "description": "Run the tests", "background": true});
    let write = json!({"op": "write", "path": "${CWD}/report.txt", "content": "passed\n"});
    let turn = |text: &str, tools: &[&Value], input: u64| json!({"text": text, "tools": tools, "usage": {"input": input, "output": 10}});
    json!({"turns": [turn("I run the tests.", &[&bash], 600), turn("I wait for them.", &[], 640),
        turn("They have passed.", &[&write], 700), turn("The report is written.", &[], 740)]})
}

// covers: AGENT-50, HANK-75
#[test]
fn the_real_claude_is_waited_for_and_what_it_used_is_what_was_served() {
    let tests = "for i in 1 2 3 4; do echo test $i; sleep 1; done";
    let Some((project, server)) = stage("", waits_for_tests(tests)) else {
        return;
    };
    project
        .write_hank(&json!({"hank": [real(&server, "only", "fresh", "TASK", &json!({"settleSeconds": 1}))]}));
    let finished = project.run(["run", "--headless", "--json"]);
    finished.expect_code(0);
    assert_eq!(read(&project, "report.txt"), "passed\n");
    assert!(
        finished
            .stdout
            .lines()
            .any(|line| is_wait(line) && line.contains("Run the tests"))
    );
    assert_true(&project, &server);
    assert_eq!(project.left_behind(), []);
}

// covers: AGENT-50, HANK-75
#[test]
fn the_real_claude_is_cut_off_at_the_limit() {
    let Some((project, server)) = stage("", waits_for_tests("tail -f /dev/null")) else {
        return;
    };
    let keys = json!({"settleSeconds": 1, "maxBackgroundSeconds": 3});
    project.write_hank(&json!({"hank": [real(&server, "only", "fresh", "TASK", &keys)]}));
    project.run(["run", "--headless"]).expect_code(1);
    let message = record(&project)["failureReason"]["message"].to_string();
    assert!(
        message.contains("was ended after 3s (maxBackgroundSeconds): Run the tests"),
        "{message}"
    );
    assert_true(&project, &server);
    assert_eq!(project.left_behind(), []);
}
