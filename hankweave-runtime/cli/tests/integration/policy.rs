//! What a run does when a codon fails (HANK-41 to HANK-47).

use hankweave_testing::TestProject;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::{codon, project};

/// An agent that counts its attempts in a file. It fails as often as the first word of its prompt says, with the second word as its error.
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

// covers: HANK-44
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

// covers: HANK-45
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

// Nothing blocks then.
// covers: HANK-44, RUN-15
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

/// Writes a hank whose agent meets a usage limit at its first attempt. The limit ends after `seconds`; the agent prints `line`, in which `LATER`
/// becomes that time.
fn write_limited_hank(project: &TestProject, seconds: u32, line: &str) {
    let script = project.write("agent.sh", LIMITED_AGENT);
    let agent = json!({"command": ["sh", script], "stream": "claude"});
    let prompt = format!("{seconds} {line}");
    project.write_hank(
        &json!({"hank": [{"id": "flaky", "name": "flaky", "agent": agent, "model": "shell",
        "continuationMode": "fresh", "promptText": prompt, "checkpointedFiles": ["*.txt"]}]}),
    );
}

const LIMITED_AGENT: &str = r#"
read -r seconds line
tries=$(cat tries 2>/dev/null || echo 0)
tries=$((tries + 1))
echo $tries > tries
printf '{"type":"system","subtype":"init","session_id":"s-1","model":"shell","cwd":"/","tools":[]}\n'
if [ $tries -eq 1 ]; then
  later=$(($(date +%s) + seconds))
  printf '%s\n' "$line" | sed "s/LATER/$later/"
  case "$line" in
  *rate_limit_event*) printf '{"type":"result","is_error":true,"session_id":"s-1","result":"You have hit your limit","api_error_status":429,"usage":{}}\n' ;;
  esac
  exit 1
fi
printf '{"type":"result","subtype":"success","is_error":false,"session_id":"s-1","result":"done","usage":{}}\n'
"#;

const EVENT: &str = r#"{"type":"rate_limit_event","rate_limit_info":{"status":"rejected","resetsAt":LATER,"rateLimitType":"five_hour"}}"#;

const WAITS: &str = "waits for its usage limit until ";

/// The default policy ends the run at a failure; a limit of the provider is none of the codon.
// covers: HANK-46, F10, CLI-27
#[test]
fn a_run_waits_for_the_end_of_a_usage_limit() {
    let texts = [
        EVENT,
        r#"{"type":"result","is_error":true,"result":"rate limit reached, retry-after: 2"}"#,
        r#"{"type":"result","is_error":true,"result":"Claude AI usage limit reached|LATER"}"#,
    ];
    for line in texts {
        let project = project();
        write_limited_hank(&project, 2, line);
        let tell = "cat >> told";
        let finished = project.run(["run", "--headless", "--notify", tell]);
        finished.expect_code(0);
        assert!(finished.stdout.contains(WAITS), "{finished}");
        let told = std::fs::read_to_string(project.directory().join("told")).unwrap();
        let told: Vec<Value> = told
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert!(told[0]["reason"].as_str().unwrap().contains(WAITS), "{told:?}");
        let events: Vec<&Value> = told.iter().map(|news| &news["event"]).collect();
        assert_eq!(events, ["waiting", "completed"]);
        let state = project.state(&project.directory());
        assert_eq!(tries(&state["runs"][0]), ["failed", "completed"]);
        let reason = &state["runs"][0]["codons"][0]["failureReason"];
        assert_eq!(reason["type"], "rate-limit", "{reason}");
        assert!(reason["retryAt"].is_string(), "{reason}");
    }
}

/// The end of the limit is on record, so a restart waits for it as well. A user who does not want to wait that long need not.
// covers: HANK-46, F10
#[test]
fn a_wait_survives_a_restart_and_can_be_limited_and_stopped() {
    let project = project();
    write_limited_hank(&project, 3_600, EVENT);
    let mut running = project.start(["run", "--headless"]);
    let said = running.wait_for_line(|line| line.contains(WAITS));
    running.kill();
    let moment = |line: &str| {
        let (_, rest) = line.split_once(WAITS).unwrap();
        rest.split(',').next().unwrap().trim().to_owned()
    };
    let status = project.run(["status"]);
    assert!(status.stdout.contains(&moment(&said)), "{status}");

    let refused = project.run(["run", "--headless", "--max-wait", "59m"]);
    refused.expect_code(EXIT_PAUSED);
    assert!(refused.stderr.contains("--max-wait is 59m0s"), "{refused}");
    assert!(refused.stderr.contains(&moment(&said)), "{refused}");
    // What is offered waits for it, and what `status` offers as well.
    let status = project.run(["status", "--json"]).json_document();
    let offered = status["commands"][0].as_str().unwrap().to_owned();
    // As people write it, and not too short: `59m58s`, or `1h0m`.
    let patience = |words: &str| {
        let (_, rest) = words.split_once("run --max-wait ")?;
        let mut seconds = 0;
        let mut number = 0;
        for c in rest.trim().chars() {
            match (c.to_digit(10), c) {
                (Some(digit), _) => number = number * 10 + digit,
                (None, 'h') => (seconds, number) = (seconds + 3_600 * number, 0),
                (None, 'm') => (seconds, number) = (seconds + 60 * number, 0),
                (None, 's') => (seconds, number) = (seconds + number, 0),
                _ => return None,
            }
        }
        (number == 0).then_some(seconds)
    };
    let told = refused.stderr.lines().find_map(patience);
    assert!(matches!(told, Some(3_000..=3_660)), "{refused}");
    assert!(matches!(patience(&offered), Some(3_000..=3_660)), "{offered}");

    let mut again = project.start(offered.split_ascii_whitespace().skip(1).chain(["--headless"]));
    let once_more = again.wait_for_line(|line| line.contains(WAITS));
    assert_eq!(moment(&once_more), moment(&said));
    again.signal(Signal::INT);
    again
        .finish_within(std::time::Duration::from_secs(60))
        .expect_code(130);
    assert_eq!(
        std::fs::read_to_string(project.directory().join("tries")).unwrap(),
        "1\n"
    );
}

/// Unfinished on purpose.
const EXIT_PAUSED: i32 = 3;

/// A codon that would complete, and what else it says.
fn plain(project: &TestProject, more: Value) -> Value {
    let mut codon = json!({"name": more["id"], "agent": flaky_agent(project), "model": "shell", "continuationMode": "fresh",
        "promptText": "0 fine"});
    codon
        .as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    codon
}

// covers: HANK-20
#[test]
fn failures_of_rigs_can_be_ignored_for_a_run() {
    let project = project();
    let rig = json!([{"type": "command", "command": {"run": "exit 3"}}, {"type": "command", "command": {"run": "touch later"}}]);
    project.write_hank(&json!({"hank": [plain(&project, json!({"id": "a", "rigSetup": rig}))]}));
    let run = |more: &[&str]| project.run([&["run", "--headless", "--new"], more].concat());
    run(&[]).expect_code(1);
    let later = project.directory().join("later");
    assert!(!later.exists());
    run(&["--ignore-rig-failures"]).expect_code(0);
    assert!(later.exists(), "the rest of the rig is set up");
}

// covers: STATE-55
#[test]
fn a_codon_that_has_nothing_to_continue_fails_before_an_agent_starts() {
    let project = project();
    let rig = json!([{"type": "command", "command": {"run": "exit 3"}}]);
    let ignored = plain(
        &project,
        json!({"id": "a", "rigSetup": rig, "onFailure": "ignore"}),
    );
    let continues = plain(
        &project,
        json!({"id": "b", "continuationMode": "continue-previous"}),
    );
    project.write_hank(&json!({"hank": [ignored, continues]}));
    let run = project.run(["run", "--headless"]);
    run.expect_code(1);
    let state = project.state(&project.directory());
    let failed = codon(&state["runs"][0], "b");
    let figures = json!([
        failed["status"],
        failed["failedDuring"],
        failed["exitCode"],
        failed["failureReason"]["retriable"]
    ]);
    assert_eq!(figures, json!(["failed", "starting", -1, false]));
    assert!(
        run.stderr
            .contains("there is no earlier session that this codon could continue"),
        "{run}"
    );
}
