//! Three codons with the real `claude` program: work, a resumed session, and a refusal by the interface.

use hankweave_testing::{ModelServer, Scenario, agents};
use serde_json::{Value, json};

use crate::support::{assert_checkpoint, assert_usd, codon, project};

const GOOD_KEY: &str = "sk-good";

#[test]
fn a_hank_with_the_real_claude_ends_as_the_state_model_says() {
    let claude = match agents::claude() {
        Ok(claude) => claude,
        Err(skip) => return println!("{skip}"),
    };
    let server = ModelServer::start(scenario()).unwrap();
    let mut project = project();
    project.set("HANKWEAVE_CLAUDE_PATH", claude);
    project.write_hank(&hank(&server.url()));

    let finished = project.run(["run", "--headless"]);

    finished.expect_code(1);
    let directory = project.directory();
    assert_eq!(
        std::fs::read_to_string(directory.join("note.txt")).unwrap(),
        "hello\n"
    );
    assert_eq!(
        std::fs::read_to_string(directory.join("size.txt"))
            .unwrap()
            .trim(),
        "6"
    );
    assert_eq!(project.left_behind(), []);
    assert_conversation(&server);

    let state = project.state(&directory);
    let run = &state["runs"][0];
    assert_eq!(
        (&run["status"], &state["currentRunId"]),
        (&json!("failed"), &Value::Null)
    );
    let [first, second, third] = ["work", "resume", "refused"].map(|id| codon(run, id));
    for record in [first, second] {
        assert_eq!(
            (&record["status"], &record["exitCode"]),
            (&json!("completed"), &json!(0))
        );
        assert_eq!(record["resultMessageReceived"], true);
        assert_checkpoint(&project, &directory, &record["completionCheckpoint"]);
        let log = directory
            .join(".hankweave")
            .join(record["claudeLogPath"].as_str().unwrap());
        assert!(log.is_file(), "{}", log.display());
    }
    assert_checkpoint(&project, &directory, &state["initialCheckpoint"]);

    // 3300 in, 180 out, 2000 written to and 4000 read from the cache at 3, 15, 3.75 and 0.30 USD per million.
    assert_usd(&first["finalCost"], 0.0213);
    assert_eq!(first["finalTokens"], tokens(3300, 180, 2000, 4000));
    assert!(
        first["claudeSessionId"].as_str().is_some_and(|id| id.len() == 36),
        "{first:#}"
    );

    // The program itself reports 0.02823 here: everything since the session began.
    assert_usd(&second["finalCost"], 0.00693);
    assert_eq!(second["finalTokens"], tokens(1200, 37, 500, 3000));
    assert_eq!(second["claudeSessionId"], first["claudeSessionId"]);
    assert_eq!(second["previousSessionId"], first["claudeSessionId"]);

    assert_eq!(
        (&third["status"], &third["failedDuring"]),
        (&json!("failed"), &json!("running"))
    );
    assert_eq!(
        (&third["exitCode"], &third["failureReason"]["type"]),
        (&json!(1), &json!("api-error"))
    );
    assert_eq!(third["failureReason"]["retriable"], false);
    assert_usd(&third["partialCost"], 0.0);
    assert_ne!(third["claudeSessionId"], first["claudeSessionId"]);
}

fn scenario() -> Scenario {
    let work = json!([
        {"text": "I write the note.",
         "tools": [{"op": "write", "path": "${CWD}/note.txt", "content": "hello\n"}],
         "usage": {"input": 1000, "output": 50, "cache_creation": 2000}},
        {"text": "I measure it.",
         "tools": [{"op": "bash", "command": "wc -c < note.txt > size.txt", "description": "Measure the note"}],
         "usage": {"input": 1100, "output": 60, "cache_read": 2000}},
        {"text": "Done.", "usage": {"input": 1200, "output": 70, "cache_read": 2000}}]);
    let resumed = json!([
        {"text": "Six bytes.",
         "usage": {"input": 1200, "output": 37, "cache_creation": 500, "cache_read": 3000}}]);
    Scenario::try_from(json!({"require_key": GOOD_KEY, "lanes": [
        {"name": "resumed", "when": {"user": "SECOND-TASK"}, "turns": resumed},
        {"name": "work", "when": {"user": "FIRST-TASK"}, "turns": work}]}))
    .unwrap()
}

fn hank(url: &str) -> Value {
    let codon = |id: &str, mode: &str, prompt: &str, key: &str| {
        json!({
            "id": id, "name": id, "agent": "claude", "model": "claude-sonnet-4-5", "continuationMode": mode,
            "promptText": prompt, "checkpointedFiles": ["**/*.txt"],
            "env": {
                "ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": key, "CLAUDE_CODE_MAX_RETRIES": "1",
                "DISABLE_TELEMETRY": "1", "DISABLE_ERROR_REPORTING": "1", "DISABLE_AUTOUPDATER": "1",
                "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            },
        })
    };
    json!({"hank": [
        codon("work", "fresh", "FIRST-TASK: write the note and measure it.", GOOD_KEY),
        codon("resume", "continue-previous", "SECOND-TASK: how large was it?", GOOD_KEY),
        codon("refused", "fresh", "THIRD-TASK: never answered.", "sk-wrong")]})
}

/// One codon with a subscription of the real program, whose first answer is an error; returns its records.
fn run_one(claude: std::path::PathBuf, first: &Value, policy: &str, code: i32) -> Vec<Value> {
    let turns = json!([first, {"text": "Done.", "usage": {"input": 10, "output": 5}}]);
    let scenario = json!({"lanes": [{"name": "work", "when": {"user": "TASK"}, "turns": turns}]});
    let server = ModelServer::start(Scenario::try_from(scenario).unwrap()).unwrap();
    let mut project = project();
    project.set("HANKWEAVE_CLAUDE_PATH", claude);
    let mut hank = hank(&server.url());
    let codons = hank["hank"].as_array_mut().unwrap();
    codons.truncate(1);
    codons[0]["onFailure"] = json!(policy);
    let env = codons[0]["env"].as_object_mut().unwrap();
    env.remove("ANTHROPIC_API_KEY");
    env.insert("CLAUDE_CODE_OAUTH_TOKEN".to_owned(), json!("sk-ant-oat01-none"));
    project.write_hank(&hank);
    project.run(["run", "--headless"]).expect_code(code);
    let state = project.state(&project.directory());
    let runs = state["runs"].as_array().unwrap().iter().rev();
    runs.flat_map(|run| run["codons"].as_array().unwrap().clone())
        .collect()
}

/// Answer of a subscription that is used up, which the program reports in words and events of its own.
#[test]
fn the_real_claude_waits_for_the_end_of_a_usage_limit() {
    let claude = match agents::claude() {
        Ok(claude) => claude,
        Err(skip) => return println!("{skip}"),
    };
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap();
    let resets_at = (now.as_secs() + 8).to_string();
    let headers = json!({
        "retry-after": "7200", "anthropic-ratelimit-unified-status": "rejected",
        "anthropic-ratelimit-unified-reset": resets_at,
        "anthropic-ratelimit-unified-representative-claim": "five_hour",
        "anthropic-ratelimit-unified-overage-status": "rejected",
    });
    let limit =
        json!({"error": {"status": 429, "type": "rate_limit_error", "message": "limit", "headers": headers}});
    let records = run_one(claude, &limit, "abort", 0);
    let [limited, done] = &records[..] else {
        panic!("{records:#?}");
    };
    assert_eq!(limited["failureReason"]["type"], "rate-limit", "{limited:#}");
    assert!(limited["failureReason"]["retryAt"].is_string(), "{limited:#}");
    assert_eq!(done["status"], "completed", "{done:#}");
}

#[test]
fn the_real_claude_is_not_asked_again_for_a_model_that_there_is_not() {
    let claude = match agents::claude() {
        Ok(claude) => claude,
        Err(skip) => return println!("{skip}"),
    };
    let unknown = json!({"error": {"status": 404, "type": "not_found_error", "message": "model: nine"}, "repeat": "forever"});
    let records = run_one(claude, &unknown, "retry", 1);
    let [failed] = &records[..] else {
        panic!("{records:#?}");
    };
    assert_eq!(failed["failureReason"]["retriable"], false, "{failed:#}");
}

/// The resumed session has the whole earlier conversation; the wrong key gets nothing but refusals.
#[track_caller]
fn assert_conversation(server: &ModelServer) {
    let asked = server.requests();
    let lanes: Vec<_> = asked.iter().filter_map(|asked| asked.lane()).collect();
    assert_eq!(lanes[..4], ["work", "work", "work", "resumed"], "{lanes:?}");
    assert!(
        lanes.len() > 4 && lanes[4..].iter().all(|lane| *lane == "unmatched"),
        "{lanes:?}"
    );
}

fn tokens(input: u64, output: u64, cache_creation: u64, cache_read: u64) -> Value {
    json!({
        "inputTokens": input, "outputTokens": output,
        "cacheCreationTokens": cache_creation, "cacheReadTokens": cache_read,
    })
}

/// A prompt that is a command of claude's own reaches no model. One that only talks changes nothing, and its session gets a prompt about that.
// covers: AGENT-49, HANK-66
#[test]
fn what_the_real_claude_did_not_do_is_no_success() {
    let claude = match agents::claude() {
        Ok(claude) => claude,
        Err(skip) => return println!("{skip}"),
    };
    let says = |text: &str| json!({"text": text, "usage": {"input": 10, "output": 5}});
    let writes = json!({"text": "Now I do it.", "usage": {"input": 10, "output": 5},
        "tools": [{"op": "write", "path": "${CWD}/note.txt", "content": "hello\n"}]});
    let scenario = json!({"lanes": [
        {"name": "told", "when": {"user": "has changed since you began"}, "turns": [writes, says("Done.")]},
        {"name": "talks", "when": {"user": "TALK"}, "turns": [says("I would need more information.")]}]});
    let server = ModelServer::start(Scenario::try_from(scenario).unwrap()).unwrap();
    let mut project = project();
    project.set("HANKWEAVE_CLAUDE_PATH", claude);
    let mut hank = hank(&server.url());
    let codons = hank["hank"].as_array_mut().unwrap();
    codons.truncate(2);
    codons[0]["promptText"] = "/help me with the tests".into();
    codons[0]["onFailure"] = "ignore".into();
    codons[1]["promptText"] = "TALK".into();
    codons[1]["requires"] = json!(["*.txt"]);
    codons[1]["continuationMode"] = "fresh".into();
    project.write_hank(&hank);

    project.run(["run", "--headless"]).expect_code(0);

    let state = project.state(&project.directory());
    let run = &state["runs"][0];
    let swallowed = codon(run, "work");
    assert_eq!(swallowed["status"], "failed", "{swallowed:#}");
    let why = swallowed["failureReason"]["message"].as_str().unwrap();
    assert!(
        why.contains("used no token and no tool, and changed no file"),
        "{why}"
    );
    let told = codon(run, "resume");
    assert_eq!(
        (&told["status"], &told["filesChanged"]),
        (&json!("completed"), &json!(1)),
        "{told:#}"
    );
    // Three answers of 10 and 5 tokens at 3 and 15 dollars per million.
    assert_usd(&told["finalCost"], 3.0 * (10.0 * 3.0 + 5.0 * 15.0) / 1e6);
    assert_eq!(server.requests().len(), 3, "the command reached no model");
}
