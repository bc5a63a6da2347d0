//! Codons that are complete only when a command passes (HANK-61).

use std::fs;

use hankweave_testing::{Finished, TestProject};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::{assert_usd, codon, project};

/// An agent that keeps each of its prompts in a file of its own, adds a line to `work.txt` and costs 0.25 dollars.
const AGENT: &str = r#"
session="${HANKWEAVE_RESUME_SESSION:-s-new}"
echo line >> work.txt
cat > "prompt-$(wc -l < work.txt)"
printf '{"type":"system","subtype":"init","session_id":"%s","model":"shell","cwd":"/","tools":[]}\n' "$session"
printf '{"type":"result","subtype":"success","is_error":false,"session_id":"%s","result":"fine","model_usage_since_last_result":' "$session"
printf '{"shell":{"inputTokens":100,"outputTokens":10,"cacheReadInputTokens":0,"cacheCreationInputTokens":0,"costUSD":0.25}}}\n'
"#;

fn stage(check: &Value, more: &Value) -> TestProject {
    let project = project();
    let script = project.write("agent.sh", AGENT);
    let mut only = json!({"id": "only", "name": "Only", "agent": {"command": ["sh", script], "stream": "claude"}, "model": "shell",
        "continuationMode": "fresh", "promptText": "begin", "check": check, "env": {"WANTED": "3"}, "checkpointedFiles": ["work.txt"]});
    only.as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    project.write_hank(&json!({"hank": [only]}));
    project
}

fn run(project: &TestProject, code: i32) -> (Finished, Value) {
    let finished = project.run(["run", "--headless", "--json"]);
    finished.expect_code(code);
    assert_eq!(project.left_behind(), []);
    let state = project.state(&project.directory());
    (finished, codon(&state["runs"][0], "only").clone())
}

fn prompt(project: &TestProject, number: usize) -> String {
    fs::read_to_string(project.directory().join(format!("prompt-{number}"))).unwrap()
}

/// Passes when there are as many lines as are wanted.
const COUNT: &str =
    r#"lines=$(wc -l < work.txt); echo "there are $lines <!-- kept -->"; [ "$lines" -ge "$WANTED" ]"#;

// covers: HANK-61
#[test]
fn an_agent_goes_on_until_its_work_passes() {
    let project = stage(&json!({"run": COUNT}), &json!({}));
    let (finished, record) = run(&project, 0);
    assert_eq!(record["status"], "completed", "{record:#}");
    assert_eq!(record["claudeSessionId"], "s-new", "it went on in its session");
    assert_usd(&record["finalCost"], 0.75);
    assert_eq!(prompt(&project, 1), "begin");
    for number in [2, 3] {
        let prompt = prompt(&project, number);
        let printed = format!("\n\nthere are {} <!-- kept -->\n\n", number - 1);
        assert!(prompt.contains(&printed), "{prompt}");
        assert!(
            prompt.contains("has not passed: the command exited with code 1"),
            "{prompt}"
        );
    }
    assert!(
        finished.stdout.contains("the agent goes on (try 2 of 3)"),
        "{finished}"
    );
    let validated = project.run(["validate", "--json"]).expect_code(0).json_document();
    assert_eq!(validated["codons"][0]["spawns"][1], format!("sh -c {COUNT:?}"));
}

// covers: HANK-61
#[test]
fn a_codon_whose_work_never_passes_has_failed() {
    let never = "echo no; exit 7";
    // As many tries as it has, none at all, and with a limit that would complete it.
    for (check, more, cost) in [
        (json!({"run": never, "retries": 2}), json!({}), 0.75),
        (json!({"run": never, "retries": 0}), json!({}), 0.25),
        (
            json!({"run": never}),
            json!({"budget": {"maxOutputTokens": 10}}),
            0.25,
        ),
    ] {
        let project = stage(&check, &more);
        let (_, record) = run(&project, 1);
        assert_eq!(record["status"], "failed", "{record:#}");
        assert_usd(&record["partialCost"], cost);
        let why = record["failureReason"]["message"].as_str().unwrap();
        assert_eq!(
            why,
            "the check `echo no; exit 7` has not passed: the command exited with code 7"
        );
    }
}

#[test]
fn a_run_that_is_stopped_ends_its_check() {
    let project = stage(&json!({"run": "echo checking; tail -f /dev/null"}), &json!({}));
    let mut running = project.start(["run", "--headless", "--json"]);
    running.wait_for_line(|line| line.contains("\"checking\""));
    running.signal(Signal::TERM);
    running
        .finish_within(crate::real_money::DEADLINE)
        .expect_code(143);
    assert_eq!(project.left_behind(), []);
    let state = project.state(&project.directory());
    assert_eq!(codon(&state["runs"][0], "only")["status"], "failed");
}
