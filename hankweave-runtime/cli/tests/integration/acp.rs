//! Agents that speak the Agent Client Protocol (AGENT-23 to AGENT-26), played by this very test binary.

use std::fs;
use std::time::Duration;

use hankweave_testing::acp_agent::{self, SCRIPT};
use hankweave_testing::{Finished, TestProject};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::{codon, project};

/// Not a story: what the stories start as their agent.
#[test]
#[ignore = "it is the agent of the others"]
fn plays() {
    acp_agent::play_if_asked();
}

/// A codon whose agent follows `script`.
fn acp(script: &Value, more: &Value) -> Value {
    let mut only = json!({"id": "only", "name": "Only", "agent": {"acp": acp_agent::command("acp::plays")},
        "continuationMode": "fresh", "promptText": "begin", "env": {SCRIPT: script.to_string()}, "checkpointedFiles": ["*.txt"]});
    only.as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    only
}

fn stage(script: &Value, more: &Value) -> TestProject {
    let project = project();
    project.write_hank(&json!({"hank": [acp(script, more)]}));
    project
}

fn run(project: &TestProject, code: i32) -> Value {
    let finished = project.run(["run", "--headless", "--json"]);
    finished.expect_code(code);
    record(project)
}

fn record(project: &TestProject) -> Value {
    assert_eq!(project.left_behind(), []);
    let state = project.state(&project.directory());
    let run = state["runs"].as_array().unwrap().last().unwrap();
    codon(run, "only").clone()
}

fn why(record: &Value) -> &str {
    assert_eq!(record["status"], "failed", "{record:#}");
    record["failureReason"]["message"].as_str().unwrap()
}

/// What the agent was answered, in order.
fn answers(project: &TestProject) -> Vec<Value> {
    let lines = fs::read_to_string(project.directory().join("answers.jsonl")).unwrap();
    lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// The flag, the variable, the hank and hankweave.json name such an agent for every codon, and `acp` as the model leaves that to it.
// covers: CLI-38
#[test]
fn it_can_be_named_wherever_an_agent_can() {
    let script = json!({"turn": [{"say": "I was told ${PROMPT}."}, writes()]});
    let speaker = json!({"acp": acp_agent::command("acp::plays")});
    let of_claude = json!({"agent": "claude", "model": "sonnet"});
    let stage = |overrides: Value| {
        let project = project();
        project.write_hank(&json!({"overrides": overrides, "hank": [acp(&script, &of_claude)]}));
        project
    };
    let done = |project: TestProject, more: &[&str]| {
        let validated = project.run([&["validate"], more].concat());
        validated.expect_code(0);
        let finished = project.run([&["run", "--headless"], more].concat());
        finished.expect_code(0);
        let record = record(&project);
        assert_eq!(record["claudeSessionId"], "s-1", "{finished}");
        let log = record["claudeLogPath"].as_str().unwrap();
        assert!(log.ends_with("only-acp.log"), "{log}");
    };
    let text = speaker.to_string();
    done(stage(json!({})), &["--agent", &text, "--model", "acp"]);
    let mut by_variable = stage(json!({}));
    by_variable.set("HANKWEAVE_RUNTIME_AGENT", &text);
    by_variable.set("HANKWEAVE_RUNTIME_MODEL", "acp");
    done(by_variable, &[]);
    done(stage(json!({"agent": speaker, "model": "acp"})), &[]);
    let by_file = stage(json!({}));
    by_file.write(
        "hankweave.json",
        json!({"agent": speaker, "model": "acp"}).to_string(),
    );
    let shown = by_file.run(["config"]);
    assert!(shown.expect_code(0).stdout.contains("acp::plays"), "{shown}");
    done(by_file, &[]);
}

// covers: CLI-38
#[test]
fn what_is_wrong_with_an_agent_of_every_codon_is_told_before_anything_is_written() {
    let refused = |agent: &str, code: i32, told: &str| {
        let more = json!({"agent": "claude", "model": "sonnet", "budget": {"maxDollars": 1}});
        let project = stage(&json!({}), &more);
        let before = project.files();
        let finished = project.run(["run", "--headless", "--agent", agent]);
        finished.expect_code(code);
        assert!(finished.stderr.contains(told), "{told}: {finished}");
        assert_eq!(project.files(), before);
    };
    refused("acp", 65, r#"write { "acp": ["your-program"] }"#);
    refused("nobody", 65, "no agent is called `nobody`");
    refused(r#"{"acp": []}"#, 2, "must not be empty");
    refused(r#"{"acp": ["sh"], "model": "m"}"#, 2, "`model` is not a key");
    refused(r#"{"script": "s.json"}"#, 2, "only a codon has a script");
    refused(
        r#"{"acp": ["nowhere-to-be-found"]}"#,
        65,
        "this limit cannot be held",
    );
    // The list of what is here has it, and a program that is missing.
    let project = stage(&json!({}), &json!({}));
    project.write("hankweave.json", r#"{"agent": {"acp": ["nowhere-to-be-found"]}}"#);
    let looked = project.run(["doctor", "--json"]);
    let findings = looked.expect_code(1).json_document()["findings"].clone();
    let findings = findings.as_array().unwrap();
    assert!(
        findings.iter().any(|finding| finding["name"] == "acp"),
        "{findings:#?}"
    );
    let needs = findings
        .iter()
        .find(|finding| finding["name"] == "needs")
        .unwrap();
    assert!(
        needs["found"]
            .as_str()
            .unwrap()
            .contains("`nowhere-to-be-found` was not found"),
        "{needs}"
    );
}

fn writes() -> Value {
    json!({"write": {"path": "work.txt", "content": "done"}})
}

// covers: AGENT-23, AGENT-24
#[test]
fn an_ended_turn_with_a_changed_file_completes_a_codon() {
    let tool = json!({"sessionUpdate": "tool_call", "toolCallId": "t", "title": "Write work.txt", "kind": "edit", "status": "completed"});
    let usage = json!({"sessionUpdate": "usage_update", "used": 9, "size": 99, "cost": {"amount": 0.25, "currency": "USD"}});
    let project = stage(
        &json!({"turn": [{"say": "I was told ${PROMPT}."}, writes(), {"update": tool}, {"update": usage}]}),
        &json!({}),
    );
    let finished = project.run(["run", "--headless", "--json"]);
    finished.expect_code(0);
    let record = record(&project);
    assert_eq!(record["status"], "completed", "{record:#}");
    assert_eq!(record["claudeSessionId"], "s-1");
    assert_eq!(record["finalCost"], 0.25);
    assert_eq!(record["costIsLowerBound"], true, "what else it used is not known");
    for told in ["I was told begin.", "Write work.txt"] {
        assert!(finished.stdout.contains(told), "{told}: {}", finished.stdout);
    }
}

// covers: AGENT-24
#[test]
fn an_ended_turn_that_nothing_shows_to_be_a_success_fails_the_codon() {
    let project = stage(&json!({"turn": [{"say": "429 Too Many Requests"}]}), &json!({}));
    let record = run(&project, 1);
    let why = why(&record);
    assert!(
        why.contains("without a word of success") && why.ends_with("429 Too Many Requests"),
        "{why}"
    );
    assert_eq!(record["failureReason"]["type"], "rate-limit");
}

// covers: AGENT-24
#[test]
fn a_check_shows_the_success_and_sends_the_agent_back_to_its_session() {
    let count = r#"echo >> tries; [ "$(wc -l < tries)" -ge 3 ]"#;
    let check = |retries: u64| json!({"check": {"run": count, "retries": retries}});
    let project = stage(&json!({"turn": [{"say": "${PROMPT}"}]}), &check(3));
    let finished = project.run(["run", "--headless", "--json"]);
    finished.expect_code(0);
    assert_eq!(record(&project)["status"], "completed");
    assert!(
        finished.stdout.contains("Your work was checked"),
        "{}",
        finished.stdout
    );
    assert!(
        !finished.stdout.contains("an old message"),
        "the past of a session is not told again"
    );
    let project = stage(&json!({"turn": []}), &check(0));
    assert!(why(&run(&project, 1)).contains("has not passed"));
}

// covers: AGENT-24
#[test]
fn every_other_end_fails_the_codon_with_its_reason() {
    for (script, words, retriable) in [
        (
            json!({"end": {"result": {"stopReason": "refusal"}}}),
            "refused to continue",
            false,
        ),
        (
            json!({"end": {"result": {"stopReason": "max_tokens"}}}),
            "output limit",
            true,
        ),
        (json!({"end": {"result": {}}}), "version 1 of the protocol", false),
        (
            json!({"end": {"error": {"code": -32603, "message": "Internal error", "data": {"status": 401}}}}),
            "gave up: Internal error",
            false,
        ),
        (json!({"turn": [{"exit": 3}]}), "exited with code 3", true),
        (
            json!({"turn": [writes(), {"exit": 0}]}),
            "without reporting a result",
            true,
        ),
        (
            json!({"greeting": {"protocolVersion": 2}}),
            "speaks version 2",
            false,
        ),
        (
            json!({"opening": {"code": -32000, "message": "Authentication required"}}),
            "sign in first",
            false,
        ),
    ] {
        let record = run(&stage(&script, &json!({})), 1);
        assert!(why(&record).contains(words), "{script}: {record:#}");
        assert_eq!(record["failureReason"]["retriable"], retriable, "{script}");
    }
}

// covers: AGENT-25
#[test]
fn a_session_goes_on_only_where_the_agent_loads_sessions() {
    let two = |script: &Value| {
        let mut second = acp(script, &json!({"continuationMode": "continue-previous"}));
        second["id"] = json!("second");
        let project = project();
        project.write_hank(&json!({"hank": [acp(script, &json!({})), second]}));
        project
    };
    let turn =
        json!([{"write": {"path": "work.txt", "content": "x"}}, {"write": {"path": "a.txt", "content": ""}}]);
    let project = two(&json!({"turn": turn, "agentCapabilities": {}}));
    project.run(["run", "--headless"]).expect_code(1);
    let state = project.state(&project.directory());
    let second = codon(&state["runs"][0], "second");
    assert!(
        why(second).contains("cannot continue with a session"),
        "{second:#}"
    );
    assert_eq!(codon(&state["runs"][0], "only")["status"], "completed");
}

fn ask(method: &str, params: &Value) -> Value {
    json!({"ask": {"method": method, "params": params}})
}

// covers: AGENT-26
#[test]
fn requests_for_files_and_processes_are_refused_as_methods_that_are_not_offered() {
    let file = |content: &Value| json!({"path": "${CWD}/note.txt", "content": content});
    let project = stage(
        &json!({"turn": [
            ask("fs/write_text_file", &file(&json!("one"))),
            ask("fs/read_text_file", &file(&Value::Null)),
            ask("terminal/create", &json!({"command": "touch", "args": ["note.txt"]})),
            ask("later/method", &json!({})),
            writes(),
        ]}),
        &json!({}),
    );
    let record = run(&project, 0);
    assert_eq!(record["status"], "completed");
    let answers = answers(&project);
    let codes: Vec<&Value> = answers.iter().map(|answer| &answer["error"]["code"]).collect();
    assert_eq!(codes, [-32601; 4]);
    assert!(!project.directory().join("note.txt").exists());
}

// covers: AGENT-26
#[test]
fn the_hank_decides_what_an_agent_may_do() {
    let options =
        json!([{"optionId": "yes", "kind": "allow_once"}, {"optionId": "no", "kind": "reject_once"}]);
    let wants = |kind: &str| {
        let call = json!({"toolCallId": kind, "title": kind, "kind": kind});
        ask(
            "session/request_permission",
            &json!({"toolCall": call, "options": options}),
        )
    };
    let turn = json!([wants("edit"), wants("execute"), writes()]);
    for (permissions, expected) in [
        (json!("allow"), ["yes", "yes"]),
        (json!("deny"), ["no", "no"]),
        (json!({"execute": "deny"}), ["yes", "no"]),
    ] {
        let project = stage(&json!({"turn": turn}), &json!({}));
        let mut hank = acp(&json!({"turn": turn}), &json!({}));
        hank["agent"]["permissions"] = permissions;
        project.write_hank(&json!({"hank": [hank]}));
        run(&project, 0);
        let answers = answers(&project);
        let told: Vec<&Value> = answers
            .iter()
            .map(|answer| &answer["result"]["outcome"]["optionId"])
            .collect();
        assert_eq!(told, expected);
    }
}

// covers: AGENT-23
#[test]
fn garbage_long_lines_and_a_storm_of_requests_are_survived() {
    let read = json!({"method": "fs/read_text_file", "params": {"path": "${CWD}/nothing"}});
    let project = stage(
        &json!({"turn": [
            {"raw": "Listening on port 4096"}, {"raw": "{\"id\":"}, {"raw": "[]"}, {"raw": "{}"}, {"raw": "\u{0}"},
            {"long": 17 << 20},
            {"storm": {"count": 2000, "ask": read}},
            writes()]}),
        &json!({}),
    );
    let finished = project.run(["run", "--headless", "--json"]);
    finished.expect_code(0);
    assert!(finished.stdout.contains("output.truncated"));
    record(&project);
    assert_eq!(answers(&project).len(), 2_000);
}

/// Runs until the agent has said so, signals the run, and returns its end.
fn stopped(project: &TestProject, said: &str) -> Finished {
    let mut running = project.start(["run", "--headless", "--json"]);
    running.wait_for_line(|line| line.contains(said));
    running.signal(Signal::TERM);
    running.finish_within(Duration::from_secs(60))
}

/// A codon that was stopped after its work is done continues in its session, and has nothing left to do there.
// covers: AGENT-24
#[test]
fn work_of_an_attempt_that_was_stopped_counts_for_the_one_that_continues_it() {
    let first = |step: Value| json!({"unless": {"path": "go", "step": step}});
    for (works, rig, code) in [
        (true, false, 0),
        (true, true, 0),
        (false, false, 1),
        (false, true, 1),
    ] {
        let work = if works {
            writes()
        } else {
            json!({"say": "nothing"})
        };
        let turn = json!([first(work), {"say": "ready"}, {"raw": "now"}, first(json!({"wait": true}))]);
        let rig_setup = json!([{"type": "command", "command": {"run": "echo rig > rig.txt"}}]);
        let more = if rig {
            json!({"rigSetup": rig_setup})
        } else {
            json!({})
        };
        let project = stage(&json!({"turn": turn}), &more);
        stopped(&project, "\"now\"").expect_code(143);
        project.write("go", "");
        let finished = project.run(["run", "--headless", "--recover", "session"]);
        finished.expect_code(code);
        let state = project.state(&project.directory());
        let record = codon(&state["runs"][0], "only");
        let status = if works { "completed" } else { "failed" };
        assert_eq!(record["status"], status, "{record:#}");
    }
}

// covers: AGENT-23, AGENT-14
#[test]
fn a_stopped_agent_is_told_to_cancel_and_leaves_nothing_behind() {
    let detach = json!({"detach": "sleep 1000 & sleep 1000"});
    for last in [json!({"wait": true}), json!({"deaf": true})] {
        let project = stage(
            &json!({"turn": [detach, {"say": "ready"}, {"raw": "now"}, last]}),
            &json!({}),
        );
        let finished = stopped(&project, "\"now\"");
        let record = record(&project);
        assert_eq!(record["status"], "failed", "{record:#}");
        assert_eq!(record["failureReason"]["interrupted"], true, "{record:#}");
        // An agent that ignores the stop is killed, so the run ends in time.
        assert!(
            finished.elapsed < Duration::from_secs(30),
            "{:?}",
            finished.elapsed
        );
    }
}

#[test]
fn an_agent_that_never_answers_is_ended_by_the_limits_of_its_codon() {
    let limit = json!({"budget": {"maxTimeSeconds": 1, "onExceeded": "fail"}});
    for script in [json!({"greeting": "never"}), json!({"turn": [{"deaf": true}]})] {
        let record = run(&stage(&script, &limit), 1);
        assert_eq!(record["status"], "failed", "{record:#}");
    }
}

// covers: AGENT-22, AGENT-24
#[test]
fn what_cannot_be_held_or_shown_is_refused_before_anything_is_written() {
    let nothing = json!({});
    for (more, words) in [
        (json!({"budget": {"maxDollars": 1}}), "does not tell what it uses"),
        (
            json!({"budget": {"maxOutputTokens": 1}}),
            "this limit cannot be held",
        ),
        (
            json!({"budget": {"maxContextTokens": 1}}),
            "this limit cannot be held",
        ),
        (
            json!({"checkpointedFiles": []}),
            "does not say whether it has succeeded",
        ),
        (
            json!({"agent": "acp", "model": "x"}),
            r#"write { "acp": ["your-program"] }"#,
        ),
        (
            json!({"agent": {"acp": ["no-such-agent"]}}),
            "was not found on PATH",
        ),
        (
            json!({"agent": {"acp": ["sh"], "permissions": "ask"}}),
            "must be one of allow, deny",
        ),
        (
            json!({"agent": {"acp": ["sh"], "permissions": {"write": "deny"}}}),
            "write",
        ),
    ] {
        let project = stage(&nothing, &more);
        let before = project.files();
        let finished = project.run(["run", "--headless"]);
        assert_ne!(finished.code, Some(0), "{more}");
        let told = format!("{}{}", finished.stdout, finished.stderr);
        assert!(told.contains(words), "{more}: {told}");
        assert_eq!(project.files(), before, "{more}");
    }
    let project = stage(&nothing, &nothing);
    project.run(["validate"]).expect_code(0);
}

#[test]
fn the_example_is_valid_and_stands_on_the_page() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let example = fs::read_to_string(root.join("examples/acp/hank.json")).unwrap();
    let page = fs::read_to_string(root.join("docs/agents.md")).unwrap();
    assert!(page.contains(&format!("```json\n{example}```")));
    let project = project();
    project.write("hank.json", example);
    let document = project.run(["validate", "--json"]).expect_code(0).json_document();
    assert_eq!(document["valid"], true, "{document:#}");
}

// covers: AGENT-71, HANK-95
#[test]
fn a_session_is_forked_where_the_agent_offers_it_and_refused_with_what_to_write_where_not() {
    let plan = |script: &Value| {
        let mut plan = acp(script, &json!({"id": "plan", "name": "Plan"}));
        plan["promptText"] = json!("plan");
        plan
    };
    let stage = |offers: &Value| {
        let script = |content: &str| {
            let write = json!({"write": {"path": "work.txt", "content": content}});
            json!({"agentCapabilities": {"loadSession": true, "sessionCapabilities": offers}, "turn": [write]})
        };
        let project = project();
        let forks = json!({"continuationMode": {"fork": "plan"}});
        project.write_hank(&json!({"hank": [plan(&script("planned")), acp(&script("done"), &forks)]}));
        project.run(["validate"]).expect_code(0);
        project
    };
    let project = stage(&json!({"fork": {}}));
    project.run(["run", "--headless"]).expect_code(0);
    let state = project.state(&project.directory());
    let session = |id: &str| {
        let record = codon(&state["runs"][0], id);
        record["claudeSessionId"].as_str().unwrap().to_owned()
    };
    assert!(session("only").starts_with("copy-"), "{state:#}");
    assert!(session("only").ends_with(&session("plan")), "{state:#}");
    assert_eq!(
        codon(&state["runs"][0], "only")["previousSessionId"],
        json!(session("plan"))
    );

    let project = stage(&json!({"resume": {}}));
    let refused = project.run(["run", "--headless"]);
    assert_ne!(refused.code, Some(0), "{refused}");
    let state = project.state(&project.directory());
    let why = why(codon(&state["runs"][0], "only")).to_owned();
    assert!(
        why.contains("offers no session/fork") && why.contains("write \"continuationMode\""),
        "{why}"
    );
}
