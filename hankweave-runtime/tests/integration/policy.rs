//! What a run does when a codon fails ("hank configuration", section 6.4).

use hankweave_testing::TestProject;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::{codon, project};

/// An agent that counts its tries in a file and fails, with what the second word of its prompt says, as often as the first word says.
fn flaky_agent(project: &TestProject) -> Value {
    let script = project.write("agent.sh", FLAKY_AGENT);
    json!({"command": ["sh", script], "stream": "claude"})
}

const FLAKY_AGENT: &str = r#"
read -r failures why
tries=$(cat tries 2>/dev/null || echo 0)
tries=$((tries + 1))
echo $tries > tries
printf '{"type":"system","subtype":"init","session_id":"s-%s","model":"shell","cwd":"/","tools":[]}\n' $tries
if [ $tries -le "$failures" ]; then
  printf '{"type":"result","subtype":"success","is_error":true,"session_id":"s-%s","result":"%s","usage":{}}\n' $tries "$why"
  exit 1
fi
printf '{"type":"result","subtype":"success","is_error":false,"session_id":"s-%s","result":"done","usage":{}}\n' $tries
"#;

fn write_hank(project: &TestProject, prompt: &str, policy: &Value) {
    let agent = flaky_agent(project);
    let mut flaky = json!({"id": "flaky", "name": "flaky", "agent": agent, "model": "shell", "continuationMode": "fresh",
        "promptText": prompt, "checkpointedFiles": ["*.txt"],
        "rigSetup": [{"type": "command", "command": {"run": "echo set up >> rig.txt"}}]});
    flaky
        .as_object_mut()
        .unwrap()
        .extend(policy.as_object().unwrap().clone());
    let mut last = flaky.clone();
    last["id"] = json!("last");
    last["promptText"] = json!("0 fine");
    project.write_hank(&json!({"hank": [flaky, last]}));
}

fn tries(run: &Value) -> Vec<&str> {
    let records = run["codons"].as_array().unwrap().iter();
    records
        .filter(|record| record["codonId"] == "flaky")
        .map(|record| record["status"].as_str().unwrap())
        .collect()
}

#[test]
fn a_codon_is_tried_again_in_the_same_run_with_a_record_and_a_log_of_its_own() {
    let project = project();
    let config = json!({"onFailure": "retry", "retryConfig": {"maxAttempts": 3, "delayMs": 10}});
    write_hank(&project, "2 API Error: 529 overloaded", &config);
    project.run(["run", "--headless"]).expect_code(0);

    let state = project.state(&project.directory());
    let run = &state["runs"][0];
    assert_eq!(tries(run), ["failed", "failed", "completed"]);
    assert_eq!(
        (state["runs"].as_array().unwrap().len(), &run["status"]),
        (1, &json!("completed"))
    );
    let mut logs: Vec<&str> = run["codons"].as_array().unwrap()[..3]
        .iter()
        .map(|record| record["claudeLogPath"].as_str().unwrap())
        .collect();
    for log in &logs {
        let text = std::fs::read_to_string(project.directory().join(".hankweave").join(log)).unwrap();
        assert_eq!(text.lines().count(), 2, "{log}");
    }
    logs.dedup();
    assert_eq!(logs.len(), 3);
    let rig = std::fs::read_to_string(project.directory().join("rig.txt")).unwrap();
    assert_eq!(rig.lines().count(), 2, "once for each codon, not for each try");
}

#[test]
fn when_the_tries_are_used_up_the_run_fails() {
    let project = project();
    let config = json!({"onFailure": "retry", "retryConfig": {"maxAttempts": 2, "delayMs": 0}});
    write_hank(&project, "9 API Error: 529 overloaded", &config);
    project.run(["run", "--headless"]).expect_code(1);
    let state = project.state(&project.directory());
    assert_eq!(tries(&state["runs"][0]), ["failed", "failed", "failed"]);
    assert_eq!(state["runs"][0]["status"], "failed");
}

#[test]
fn what_another_try_cannot_mend_is_not_tried_again() {
    let project = project();
    write_hank(
        &project,
        "9 Your credit balance is too low",
        &json!({"onFailure": "retry"}),
    );
    project.run(["run", "--headless"]).expect_code(1);
    assert_eq!(tries(&project.state(&project.directory())["runs"][0]), ["failed"]);
}

#[test]
fn an_ignored_failure_is_recorded_and_told_and_the_run_goes_on() {
    let project = project();
    write_hank(
        &project,
        "9 Your credit balance is too low",
        &json!({"onFailure": "ignore"}),
    );
    let finished = project.run(["run", "--headless", "--json"]);
    finished.expect_code(0);
    let ended = finished
        .json_lines()
        .into_iter()
        .find(|event| event["type"] == "codon.completed" && event["data"]["codonId"] == "flaky");
    assert_eq!(ended.unwrap()["data"]["failureIgnored"], true);
    let state = project.state(&project.directory());
    assert_eq!(codon(&state["runs"][0], "flaky")["status"], "failed");
    assert_eq!(state["runs"][0]["status"], "completed");
}

#[test]
fn a_run_that_was_killed_while_it_waited_goes_on_counting() {
    let project = project();
    let config =
        |delay: u32| json!({"onFailure": "retry", "retryConfig": {"maxAttempts": 2, "delayMs": delay}});
    write_hank(&project, "9 API Error: 529 overloaded", &config(60_000));
    let mut running = project.start(["run", "--headless"]);
    running.wait_for_line(|line| line.contains("retry 1 of 2"));
    running.signal(Signal::KILL);
    running.kill();

    write_hank(&project, "9 API Error: 529 overloaded", &config(0));
    project.run(["run", "--headless"]).expect_code(1);
    let state = project.state(&project.directory());
    assert_eq!(tries(&state["runs"][1]), ["failed"]);
    assert_eq!(
        tries(&state["runs"][0]),
        ["failed", "failed"],
        "two retries, no third one"
    );
}

// "a run whose last codon failed-ignored ends `completed`": nothing blocks then.
#[test]
fn a_plan_that_ended_with_an_ignored_failure_has_ended_and_is_not_blocked() {
    let project = project();
    let script = r#"{"turns":[{"text":"oops"}],"result":{"message":"no credit"}}"#;
    project.write("script.json", script);
    project.write_hank(
        &json!({"hank": [{"id": "last", "name": "last", "agent": {"script": "script.json"},
        "continuationMode": "fresh", "promptText": "go", "onFailure": "ignore"}]}),
    );
    project.run(["run", "--headless"]).expect_code(0);
    let status = project.run(["status"]);
    let said = &status.expect_code(0).stdout;
    assert!(
        said.contains("the plan has ended") && !said.contains("blocked"),
        "{said}"
    );
    assert!(!said.contains("crash-point"), "{said}");
}
