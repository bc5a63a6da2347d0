//! Codons that did nothing, and files that codons must have changed (HANK-66, AGENT-49).

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use hankweave_testing::acp_agent::{self, SCRIPT};
use hankweave_testing::{Finished, TestProject};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::{codon, project};

/// An agent that carries out its prompt as shell lines, which may call `say`, `tool` and `used`. In a session that it continues it carries out
/// `again.sh`, and stores its prompt in `told.md`. Without `used` it reports no usage.
const AGENT: &str = r#"
prompt=$(cat)
session="${HANKWEAVE_RESUME_SESSION:-s-$$}"
usage=
say() { printf '{"type":"assistant","session_id":"%s","message":{"id":"m-%s","role":"assistant","model":"shell","content":[{"type":"text","text":"%s"}]}}\n' "$session" $$ "$1"; }
tool() { printf '{"type":"assistant","session_id":"%s","message":{"id":"m-%s","role":"assistant","model":"shell","content":[{"type":"tool_use","id":"t-1","name":"Look","input":{}}]}}\n' "$session" $$; }
used() { usage=',"usage":{"input_tokens":'$1',"output_tokens":0}'; }
printf '{"type":"system","subtype":"init","session_id":"%s","model":"shell","cwd":"/","tools":[]}\n' "$session"
if [ -n "$HANKWEAVE_RESUME_SESSION" ]; then
  printf '%s\n' "$prompt" >> told.md
  [ ! -e again.sh ] || . ./again.sh
else
  eval "$prompt"
fi
printf '{"type":"result","subtype":"success","is_error":false,"session_id":"%s","result":"I would need more information"%s}\n' "$session" "$usage"
"#;

fn shell(project: &TestProject) -> Value {
    let script = project.home().join("agent.sh");
    fs::write(&script, AGENT).unwrap();
    json!({"command": ["sh", script], "stream": "claude"})
}

fn one(project: &TestProject, prompt: &str, more: &Value) -> Value {
    let mut only = json!({"id": "only", "name": "Only", "agent": shell(project), "model": "shell", "continuationMode": "fresh",
        "promptText": prompt, "checkpointedFiles": ["**/*.txt"]});
    only.as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    only
}

fn stage(prompt: &str, more: &Value) -> TestProject {
    let project = project();
    let only = one(&project, prompt, more);
    project.write_hank(&json!({"hank": [only]}));
    project
}

fn state(project: &TestProject) -> Value {
    project.state(&project.directory())
}

/// The newest record of the codon `only`.
fn record(project: &TestProject) -> Value {
    let state = state(project);
    let records = state["runs"][0]["codons"].as_array().unwrap();
    records.last().unwrap().clone()
}

#[track_caller]
fn run(project: &TestProject, code: i32) -> (Finished, Value) {
    let finished = project.run(["run", "--headless", "--json"]);
    finished.expect_code(code);
    (finished, record(project))
}

#[track_caller]
fn why(record: &Value) -> &str {
    assert_eq!(record["status"], "failed", "{record:#}");
    record["failureReason"]["message"].as_str().unwrap()
}

// covers: AGENT-49
#[test]
fn an_agent_that_states_that_it_used_nothing_and_did_nothing_is_no_success() {
    let nothing = "say hello; used 0";
    let (_, record) = run(&stage(nothing, &json!({})), 1);
    let said = why(&record);
    for words in [
        "used no token and no tool, and changed no file",
        "it answered: I would need more information",
        r#""requires": "nothing""#,
    ] {
        assert!(said.contains(words), "{said}");
    }
    for (case, prompt, more) in [
        ("it says nothing about usage", "say hello", json!({})),
        ("a token", "used 1", json!({})),
        ("a tool", "tool; used 0", json!({})),
        ("a file", "echo x > x.txt; used 0", json!({})),
        ("it is meant", nothing, json!({"requires": "nothing"})),
        ("a check shows it", nothing, json!({"check": {"run": "true"}})),
    ] {
        let project = stage(prompt, &more);
        let (_, record) = run(&project, 0);
        assert_eq!(record["status"], "completed", "{case}: {record:#}");
    }
}

// covers: AGENT-49
#[test]
fn a_loop_whose_agent_only_asks_ends_with_its_first_iteration() {
    let project = project();
    let asks = |usage: &str| format!(r#"{{"turns":[{{"text":"I would need more information"{usage}}}]}}"#);
    let inner = json!({"id": "only", "name": "Only", "agent": {"script": "s.json"}, "continuationMode": "fresh",
        "promptText": "go", "onFailure": "abort"});
    project.write_hank(&json!({"hank": [{"type": "loop", "id": "l", "name": "L",
        "terminateOn": {"type": "iterationLimit", "limit": 4}, "codons": [inner]}]}));
    project.write("s.json", asks(r#","usage":{"input":0,"output":0}"#));
    let (_, record) = run(&project, 1);
    assert!(why(&record).contains("used no token and no tool"), "{record:#}");
    // A script without usage states none, and a rehearsal without a script works as ever.
    project.write("s.json", asks(""));
    project.run(["run", "--headless", "--new"]).expect_code(0);
    project.write("s.json", "{}");
    project.run(["run", "--headless", "--new"]).expect_code(0);
}

// covers: HANK-66
#[test]
fn an_agent_that_changed_nothing_is_told_so_in_its_session_once() {
    let project = stage("say hello", &json!({"requires": "changes"}));
    project.write("again.sh", "echo now > now.txt");
    let (finished, record) = run(&project, 0);
    assert_eq!(
        (&record["status"], &record["filesChanged"]),
        (&json!("completed"), &json!(1))
    );
    let told = fs::read_to_string(project.directory().join("told.md")).unwrap();
    assert!(told.contains("no file has changed since you began"), "{told}");
    assert!(
        finished
            .stdout
            .contains("it changed nothing, and it has to (`requires`); the agent continues (retry 1 of 1)"),
        "{}",
        finished.stdout
    );

    let project = stage("say hello", &json!({"requires": "changes"}));
    let (_, record) = run(&project, 1);
    assert_eq!(why(&record), "it changed nothing, and it has to (`requires`)");
    assert_eq!(
        (&record["filesChanged"], &record["failureReason"]["retriable"]),
        (&json!(0), &json!(true))
    );
    let told = fs::read_to_string(project.directory().join("told.md")).unwrap();
    assert_eq!(told.lines().count(), 1, "{told}");
}

// covers: HANK-66
#[test]
fn a_check_and_the_required_files_share_the_tries_of_the_check() {
    let more =
        json!({"requires": ["src/**"], "check": {"run": "[ $(wc -l < told.md) -ge 3 ]", "retries": 5}});
    let project = stage(
        "echo x > x.txt",
        &json!({"checkpointedFiles": ["**/*.txt", "src/**"]}).merged(&more),
    );
    project.write(
        "again.sh",
        "[ ! -e ../seen ] || { mkdir -p src; echo done > src/done; }; touch ../seen",
    );
    let (_, record) = run(&project, 0);
    assert_eq!(record["status"], "completed");
    let told = fs::read_to_string(project.directory().join("told.md")).unwrap();
    let (files, checks) = (
        told.matches("no file that matches `src/**`").count(),
        told.matches("has not passed").count(),
    );
    assert_eq!((files, checks), (2, 1), "{told}");
}

/// Objects that are put together.
trait Merged {
    fn merged(self, other: &Value) -> Value;
}

impl Merged for Value {
    fn merged(mut self, other: &Value) -> Value {
        self.as_object_mut()
            .unwrap()
            .extend(other.as_object().unwrap().clone());
        self
    }
}

// covers: HANK-66
#[test]
fn only_real_changes_of_the_codon_itself_count_and_each_pattern_needs_one() {
    let rig = json!({"rigSetup": [{"type": "command", "command": {"run": "echo rig > rig.txt"}}]});
    for (case, prompt, more, missing) in [
        (
            "the rig",
            "say x",
            json!({"requires": "changes"}).merged(&rig),
            "it changed nothing",
        ),
        (
            "another file",
            "echo y > y.txt",
            json!({"requires": ["docs/*.txt"]}),
            "no checkpointed file that matches `docs/*.txt`",
        ),
        (
            "one of two",
            "echo y > y.txt",
            json!({"requires": ["*.txt", "docs/*.txt"]}),
            "no checkpointed file that matches `docs/*.txt`",
        ),
        (
            "taken out",
            "echo y > y.txt",
            json!({"requires": ["*.txt", "!y.txt"]}),
            "no checkpointed file that matches `*.txt`",
        ),
        (
            "the same again",
            "echo old > old.txt",
            json!({"requires": "changes"}),
            "it changed nothing",
        ),
        (
            "a file that is not watched",
            "echo y > y.rs",
            json!({"requires": "changes"}),
            "it changed nothing",
        ),
    ] {
        let project = stage(prompt, &more);
        project.write("old.txt", "old\n");
        let (_, record) = run(&project, 1);
        assert!(why(&record).contains(missing), "{case}: {record:#}");
    }
    for (prompt, more) in [
        ("echo y > y.txt", json!({"requires": ["*.txt"]})),
        ("rm old.txt", json!({"requires": "changes"})),
        (
            "echo new > old.txt",
            json!({"requires": ["old.txt"]}).merged(&rig),
        ),
    ] {
        let project = stage(prompt, &more);
        project.write("old.txt", "old\n");
        let (_, record) = run(&project, 0);
        assert_eq!(
            (&record["status"], &record["filesChanged"]),
            (&json!("completed"), &json!(1)),
            "{prompt}"
        );
    }
}

// covers: HANK-66
#[test]
fn the_requirement_of_the_hank_holds_for_codons_without_their_own_and_policies_apply() {
    let project = project();
    let one = |id: &str, more: &Value| one(&project, "say x", &json!({"id": id}).merged(more));
    project.write_hank(&json!({"overrides": {"requires": "changes"}, "hank": [
        one("free", &json!({"requires": "nothing"})),
        one("ignored", &json!({"onFailure": "ignore"})),
        one("tried", &json!({"onFailure": "retry", "retryConfig": {"maxAttempts": 1, "delayMs": 0}}))]}));
    project.run(["run", "--headless"]).expect_code(1);
    let state = state(&project);
    let ended = state["runs"][0]["codons"].as_array().unwrap().iter();
    let ended: Vec<_> = ended
        .map(|record| {
            (
                record["codonId"].as_str().unwrap(),
                record["status"].as_str().unwrap(),
            )
        })
        .collect();
    let expected = [
        ("free", "completed"),
        ("ignored", "failed"),
        ("tried", "failed"),
        ("tried", "failed"),
    ];
    assert_eq!(ended, expected);
}

// covers: HANK-66
#[test]
fn changes_of_earlier_attempts_count_from_the_start_of_the_codon() {
    // A retry of a codon that wrote its file and failed.
    let once = "if [ -e x.txt ]; then say done; else echo x > x.txt; exit 3; fi";
    let retry =
        json!({"requires": ["x.txt"], "onFailure": "retry", "retryConfig": {"maxAttempts": 1, "delayMs": 0}});
    let (_, record) = run(&stage(once, &retry), 0);
    assert_eq!(
        (&record["status"], &record["filesChanged"]),
        (&json!("completed"), &json!(1)),
        "{record:#}"
    );
    // One that was stopped, and one whose run was killed, each with a rig and without one.
    for signal in [Signal::TERM, Signal::KILL] {
        for rig in [
            json!({}),
            json!({"rigSetup": [{"type": "command", "command": {"run": "echo rig > rig.txt"}}]}),
        ] {
            for (work, code) in [("echo x > x.txt; ", 0), ("", 1)] {
                let more = json!({"requires": "changes"}).merged(&rig);
                let once = format!("if [ -e go ]; then say done; else {work}say ready; exec sleep 600; fi");
                let project = stage(&once, &more);
                let mut running = project.start(["run", "--headless", "--json"]);
                running.wait_for_line(|line| line.contains(r#""content":"ready""#));
                running.signal(signal);
                running.finish_within(Duration::from_secs(60));
                project.write("go", "");
                project
                    .run(["run", "--headless", "--recover", "session"])
                    .expect_code(code);
                let status = if code == 0 { "completed" } else { "failed" };
                assert_eq!(record_of(&project), status, "{signal:?} {rig} {work}");
            }
        }
    }
}

fn record_of(project: &TestProject) -> String {
    record(project)["status"].as_str().unwrap().to_owned()
}

// covers: HANK-66
#[test]
fn an_agent_over_acp_is_compared_with_the_start_of_the_codon_too() {
    let writes = json!({"write": {"path": "work.txt", "content": "done"}});
    let first = |step: Value| json!({"unless": {"path": "go", "step": step}});
    for (requires, code) in [(json!(["work.txt"]), 0), (json!(["other.txt"]), 1)] {
        let turn =
            json!([first(writes.clone()), {"say": "ready"}, {"raw": "now"}, first(json!({"wait": true}))]);
        let project = project();
        project.write_hank(&json!({"hank": [{"id": "only", "name": "Only", "agent": {"acp": acp_agent::command("acp::plays")},
            "continuationMode": "fresh", "promptText": "begin", "env": {SCRIPT: json!({"turn": turn}).to_string()},
            "checkpointedFiles": ["*.txt"], "requires": requires}]}));
        let mut running = project.start(["run", "--headless", "--json"]);
        running.wait_for_line(|line| line.contains("\"now\""));
        running.signal(Signal::TERM);
        running.finish_within(Duration::from_secs(60)).expect_code(143);
        project.write("go", "");
        project
            .run(["run", "--headless", "--recover", "session"])
            .expect_code(code);
        if code == 1 {
            assert!(why(&record(&project)).contains("`other.txt`"));
        }
    }
}

// covers: HANK-66
#[test]
fn a_codon_with_no_budget_left_still_has_to_have_its_effects() {
    let spent = r#"used 5"#;
    let budget = json!({"requires": "changes", "budget": {"maxOutputTokens": 1}});
    let project = stage(spent, &budget);
    let (_, record) = run(&project, 1);
    assert!(why(&record).contains("it changed nothing"), "{record:#}");
}

// covers: HANK-66
#[test]
fn what_a_codon_changed_is_said_everywhere() {
    let project = project();
    let first = one(
        &project,
        "echo x > x.txt; echo y > y.txt",
        &json!({"id": "first"}),
    );
    let second = one(&project, "say x", &json!({"id": "second"}));
    project.write_hank(&json!({"hank": [first, second]}));
    let printed = project.run(["run", "--headless"]);
    printed.expect_code(0);
    let both = format!("{}{}", printed.stdout, printed.stderr);
    for words in ["first: completed after", ", changed 2 files", ", changed nothing"] {
        assert!(both.contains(words), "{words}: {both}");
    }
    for command in [&["status"][..], &["history"], &["state", "history"]] {
        let said = project.run(command).stdout;
        assert!(
            said.contains("2 files") && said.contains("changed nothing"),
            "{command:?}: {said}"
        );
    }
    let status: Value = serde_json::from_str(&project.run(["status", "--json"]).stdout).unwrap();
    let codons = &status["run"]["codons"];
    assert_eq!(
        (&codons[0]["filesChanged"], &codons[1]["filesChanged"]),
        (&json!(2), &json!(0))
    );
    let of_view = |id: &str| status["view"]["items"][id]["attempts"]["1.1"]["filesChanged"].clone();
    assert_eq!((of_view("first"), of_view("second")), (json!(2), json!(0)));
    let run = state(&project)["runs"][0].clone();
    assert_eq!(codon(&run, "first")["filesChanged"], 2);
}

// covers: HANK-66, STATE-69
#[test]
fn requirements_that_say_nothing_are_refused() {
    let project = project();
    let only = |more: &Value| one(&project, "x", more);
    let in_loop = |stalled: Value| {
        json!({"type": "loop", "id": "l", "name": "L", "stalledAfter": stalled,
        "terminateOn": {"type": "untilCheckPasses", "run": "true"}, "codons": [only(&json!({}))]})
    };
    for (hank, code, words) in [
        (
            json!({"hank": [only(&json!({"requires": "change"}))]}),
            1,
            "must be changes, nothing or a list of patterns",
        ),
        (
            json!({"hank": [only(&json!({"requires": true}))]}),
            1,
            "must be changes, nothing or a list of patterns",
        ),
        (
            json!({"hank": [only(&json!({"requires": ["!x"]}))]}),
            1,
            "must have a pattern that takes files in",
        ),
        (
            json!({"hank": [only(&json!({"requires": ["../x"]}))]}),
            1,
            "must not contain `..`",
        ),
        (
            json!({"hank": [only(&json!({"requireChanges": true}))]}),
            1,
            "write `requires`",
        ),
        (
            json!({"overrides": {"requires": []}, "hank": [only(&json!({}))]}),
            1,
            "overrides.requires",
        ),
        (json!({"hank": [in_loop(json!(101))]}), 1, "hank[0].stalledAfter"),
        (json!({"hank": [in_loop(json!(0))]}), 0, "valid"),
        (
            json!({"overrides": {"requires": "changes"}, "hank": [only(&json!({"requires": "nothing"}))]}),
            0,
            "valid",
        ),
    ] {
        project.write_hank(&hank);
        let finished = project.run(["validate"]);
        let said = format!("{}{}", finished.stdout, finished.stderr);
        assert_eq!(finished.code, Some(code), "{said}");
        assert!(said.contains(words), "{words}: {said}");
    }
}

/// A known program that succeeds without a word of a model and without a token.
// covers: AGENT-49
#[test]
fn a_known_agent_whose_model_said_nothing_did_nothing() {
    let gemini = [
        r#"{"type":"init","session_id":"s-1","model":"gemini-2.5-pro"}"#,
        r#"{"type":"result","status":"success","stats":{"total_tokens":0,"input_tokens":0,"output_tokens":0,"cached":0,"input":0,"tool_calls":0,"models":{}}}"#,
    ];
    let word =
        r#"{"type":"message","role":"assistant","content":"I would need more information","delta":true}"#;
    for (word, code) in [(None, 1), (Some(word), 0)] {
        let mut project = project();
        let lines: Vec<&str> = gemini[..1]
            .iter()
            .chain(&word)
            .chain(&gemini[1..])
            .copied()
            .collect();
        let version = r#"case "$*" in *--version*) echo 0.61.0; exit ;; esac"#;
        let lines = lines.join("' '");
        let script = format!("#!/bin/sh\n{version}\ncat > /dev/null\nprintf '%s\\n' '{lines}'\n");
        let program = project.write("bin/gemini", script);
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        project.set("HANKWEAVE_GEMINI_PATH", &program);
        project.set("GEMINI_API_KEY", "k");
        let only = json!({"id": "only", "name": "Only", "agent": "gemini", "model": "gemini-2.5-pro", "continuationMode": "fresh",
            "promptText": "/unknown"});
        project.write_hank(&json!({"hank": [only]}));
        let finished = project.run(["run", "--headless"]);
        finished.expect_code(code);
        assert_eq!(
            finished.stderr.contains("the agent did nothing"),
            code == 1,
            "{finished}"
        );
    }
}

// covers: HANK-66, HANK-93
#[test]
fn validate_warns_of_requirements_that_no_checkpoint_holds_and_of_names_that_are_no_variables() {
    let more = json!({"requires": ["src/**"], "checkpointedFiles": ["docs/**"]});
    let project = stage("true # <%DATADIR%> in <%PROJECT_DIR%>, <% no name %>", &more);
    let warned = project.run(["validate"]);
    warned.expect_code(0);
    for part in [
        "no pattern of checkpointedFiles covers `src/**`",
        "`<%DATADIR%>` is no variable, so the agent gets it as it stands",
    ] {
        assert!(
            warned.stdout.contains(part) || warned.stderr.contains(part),
            "{part}: {}",
            warned.stdout
        );
    }
    let (_, record) = run(&project, 1);
    assert_eq!(
        why(&record),
        "it changed no checkpointed file that matches `src/**`, and it has to (`requires`)"
    );
}
