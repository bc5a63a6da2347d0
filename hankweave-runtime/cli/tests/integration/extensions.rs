//! Codons that continue until their context is full (HANK-48, HANK-49).

use std::fs;

use hankweave_testing::{Finished, ModelServer, Scenario, TestProject, agents};
use serde_json::{Value, json};

use crate::support::{assert_usd, codon, project};

/// An agent that appends its prompt to `prompts.txt`, costs 0.25 dollars for 10 tokens out, and does what the line of `ends` for this process says.
const AGENT: &str = r#"
read -r prompt
session="${HANKWEAVE_RESUME_SESSION:-s-new}"
printf '%s %s\n' "$session" "$prompt" >> prompts.txt
this=$(sed -n "$(wc -l < prompts.txt)p" ends)
printf '{"type":"system","subtype":"init","session_id":"%s","model":"shell","cwd":"/","tools":[]}\n' "$session"
printf '{"type":"assistant","session_id":"%s","parent_tool_use_id":null,"message":{"id":"m-%s","role":"assistant","model":"shell",' "$session" $$
printf '"content":[{"type":"text","text":"working"}],"usage":{"input_tokens":100,"output_tokens":1}}}\n'
result() {
  printf '{"type":"result","subtype":"success","is_error":%s,"session_id":"%s","result":"%s","model_usage_since_last_result":' "$1" "$session" "$2"
  printf '{"shell":{"inputTokens":100,"outputTokens":10,"cacheReadInputTokens":0,"cacheCreationInputTokens":0,"costUSD":0.25}}}\n'
}
case "$this" in
full) result true "Prompt is too long"; exit 1 ;;
overloaded) result true "API Error: 529 overloaded"; exit 1 ;;
compact) printf '{"type":"system","subtype":"compact_boundary","session_id":"%s"}\n' "$session"; result false fine ;;
wait) exec tail -f /dev/null ;;
*) result false fine ;;
esac
"#;

fn write_hank(project: &TestProject, ends: &str, more: &Value) {
    let script = project.write("agent.sh", AGENT);
    project.write("ends", ends);
    let mut only = json!({"id": "only", "name": "Only", "agent": {"command": ["sh", script], "stream": "claude"}, "model": "shell",
        "continuationMode": "fresh", "promptText": "begin", "exhaustWithPrompt": "more in <%PROJECT_DIR%><!-- gone -->"});
    only.as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    project.write_hank(&json!({"hank": [only]}));
}

fn run(ends: &str, more: &Value, code: i32) -> (TestProject, Finished, Value) {
    let project = project();
    write_hank(&project, ends, more);
    let finished = project.run(["run", "--headless", "--json"]);
    finished.expect_code(code);
    let state = project.state(&project.directory());
    let record = codon(&state["runs"][0], "only").clone();
    assert_eq!(
        state["runs"][0]["codons"].as_array().unwrap().len(),
        1,
        "one record for all"
    );
    (project, finished, record)
}

fn extensions(finished: &Finished) -> Vec<Value> {
    let lines = finished.json_lines().into_iter();
    lines
        .filter(|event| event["type"] == "codon.extended")
        .map(|event| event["data"].clone())
        .collect()
}

fn prompts(project: &TestProject) -> usize {
    let text = fs::read_to_string(project.directory().join("prompts.txt")).unwrap();
    text.lines().count()
}

// covers: HANK-48
#[test]
fn a_codon_is_extended_in_the_same_session_as_often_as_it_says() {
    let (project, finished, record) = run("", &json!({"maxExtensions": 2}), 0);
    let root = project.directory().canonicalize().unwrap();
    let root = root.display();
    let text = fs::read_to_string(project.directory().join("prompts.txt")).unwrap();
    assert_eq!(
        text,
        format!("s-new begin\ns-new more in {root}\ns-new more in {root}\n")
    );
    assert_eq!(
        (
            &record["status"],
            &record["claudeSessionId"],
            &record["previousSessionId"]
        ),
        (&json!("completed"), &json!("s-new"), &Value::Null)
    );
    assert_usd(&record["finalCost"], 0.75);
    assert_eq!(record["finalTokens"]["outputTokens"], 30);
    let told = extensions(&finished);
    assert_eq!(told.len(), 2);
    for (number, event) in (1..).zip(&told) {
        assert_eq!(
            (
                &event["extensionNumber"],
                &event["codonName"],
                &event["exhaustWithPrompt"]
            ),
            (
                &json!(number),
                &json!("Only"),
                &json!("more in <%PROJECT_DIR%><!-- gone -->")
            )
        );
        assert_usd(&event["cumulativeCost"], 0.25 * f64::from(number));
        assert_eq!(event["cumulativeTokens"]["outputTokens"], 10 * number);
    }
    let log = record["claudeLogPath"].as_str().unwrap();
    let log = fs::read_to_string(project.directory().join(".hankweave").join(log)).unwrap();
    assert_eq!(log.lines().count(), 9, "three lines of each process in one file");
    let logs = fs::read_dir(project.directory().join(".hankweave/runs"))
        .unwrap()
        .flatten()
        .find(|entry| entry.file_name() != ".git")
        .unwrap();
    let logs = fs::read_dir(logs.path())
        .unwrap()
        .flatten()
        .map(|entry| entry.file_name());
    assert_eq!(logs.filter(|name| name != "counting.json").count(), 1);
}

// On overflow, or at the boundary of a compaction where that is allowed.
// covers: HANK-48
#[test]
fn a_full_context_ends_the_extensions_with_success() {
    let (project, finished, record) = run("fine\nfine\nfull\n", &json!({}), 0);
    assert_eq!((prompts(&project), extensions(&finished).len()), (3, 2));
    assert_eq!(
        (&record["status"], &record["contextExceeded"]),
        (&json!("completed"), &json!(true))
    );
    assert_usd(&record["finalCost"], 0.75);
    let (project, _, record) = run("full\n", &json!({}), 0);
    assert_eq!((prompts(&project), &record["status"]), (1, &json!("completed")));
    let (project, _, record) = run("fine\ncompact\n", &json!({"autoCompact": true}), 0);
    assert_eq!((prompts(&project), &record["status"]), (2, &json!("completed")));
}

// A shortened conversation continues; only a codon that waits for a full context ends with it.
// covers: RUN-10, HANK-61
#[test]
fn a_check_that_fails_is_told_to_an_agent_that_has_shortened_its_conversation() {
    let project = project();
    write_hank(&project, "compact\nfine\n", &json!({"autoCompact": true}));
    let hank = fs::read_to_string(project.directory().join("hank.json")).unwrap();
    let mut hank: Value = serde_json::from_str(&hank).unwrap();
    let only = hank["hank"][0].as_object_mut().unwrap();
    only.remove("exhaustWithPrompt");
    only.insert(
        "check".to_owned(),
        json!({"run": "test $(wc -l < prompts.txt) = 2", "retries": 1}),
    );
    project.write_hank(&hank);
    project.run(["run", "--headless"]).expect_code(0);
    let state = project.state(&project.directory());
    let record = codon(&state["runs"][0], "only");
    assert_eq!((prompts(&project), &record["contextExceeded"]), (2, &Value::Null));
}

// covers: HANK-48
#[test]
fn an_error_ends_the_extensions_and_fails_the_codon_with_all_its_costs() {
    let (project, _, record) = run("fine\noverloaded\n", &json!({}), 1);
    assert_eq!(
        (
            prompts(&project),
            &record["status"],
            &record["failureReason"]["retriable"]
        ),
        (2, &json!("failed"), &json!(true))
    );
    assert_usd(&record["partialCost"], 0.5);
}

#[test]
fn a_budget_counts_all_extensions_together() {
    let (project, finished, record) = run("", &json!({"model": "sonnet", "budget": {"maxDollars": 0.6}}), 0);
    assert_eq!((prompts(&project), &record["status"]), (3, &json!("completed")));
    let ended = finished
        .json_lines()
        .into_iter()
        .find(|event| event["type"] == "codon.completed")
        .unwrap();
    assert_usd(&ended["data"]["budgetExceeded"]["used"], 0.75);
    let (project, ..) = run("", &json!({"budget": {"maxOutputTokens": 20}}), 0);
    assert_eq!(prompts(&project), 2);
}

#[test]
fn a_run_that_is_terminated_while_a_codon_is_extended_keeps_its_costs() {
    let project = project();
    write_hank(&project, "fine\nwait\n", &json!({}));
    let mut running = project.start(["run", "--headless", "--json"]);
    running.wait_for_line(|line| line.contains("codon.extended"));
    running.wait_for_line(|line| line.contains("assistant.action"));
    running.signal(rustix::process::Signal::TERM);
    running
        .finish_within(std::time::Duration::from_secs(60))
        .expect_code(143);
    assert_eq!(project.left_behind(), []);
    let state = project.state(&project.directory());
    let record = codon(&state["runs"][0], "only");
    assert_eq!(
        (&record["status"], &record["claudeSessionId"]),
        (&json!("failed"), &json!("s-new"))
    );
    assert_usd(&record["partialCost"], 0.25);
}

/// The program compacts by itself unless that is switched off; then the overflow ends the extensions.
#[test]
fn the_real_claude_is_extended_until_its_context_overflows_and_does_not_compact() {
    let claude = match agents::claude() {
        Ok(claude) => claude,
        Err(skip) => return println!("{skip}"),
    };
    let answer = |text: &str, input: u64| json!({"text": text, "usage": {"input": input, "output": 10}});
    let full = json!({"error": {"status": 400, "type": "invalid_request_error", "code": "context_length_exceeded",
        "message": "prompt is too long: 210340 tokens > 200000 maximum"}, "repeat": "forever"});
    let turns = json!([answer("Begun.", 1000), answer("More.", 185_000), full]);
    let server = ModelServer::start(Scenario::try_from(json!({"turns": turns})).unwrap()).unwrap();
    let mut project = project();
    project.set("HANKWEAVE_CLAUDE_PATH", claude);
    let env = json!({"ANTHROPIC_BASE_URL": server.url(), "ANTHROPIC_API_KEY": "sk-test", "CLAUDE_CODE_MAX_RETRIES": "1",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"});
    project.write_hank(
        &json!({"hank": [{"id": "only", "name": "only", "agent": "claude", "model": "claude-sonnet-4-5",
        "continuationMode": "fresh", "promptText": "BEGIN", "exhaustWithPrompt": "GO ON", "env": env}]}),
    );
    let finished = project.run(["run", "--headless", "--json"]);
    finished.expect_code(0);
    assert_eq!(extensions(&finished).len(), 2);
    let state = project.state(&project.directory());
    let record = codon(&state["runs"][0], "only");
    assert_eq!(
        (&record["status"], &record["contextExceeded"]),
        (&json!("completed"), &json!(true))
    );
    let bodies: Vec<String> = server
        .requests()
        .iter()
        .filter_map(|asked| asked.body())
        .map(Value::to_string)
        .collect();
    // The third process finds out by itself that nothing more fits.
    assert_eq!(bodies.len(), 2, "one request for each answer, and none to sum up");
    assert!(
        bodies[1].contains("BEGIN") && bodies[1].contains("GO ON"),
        "the conversation continues"
    );
}
