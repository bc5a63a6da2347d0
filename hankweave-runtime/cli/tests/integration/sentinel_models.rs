//! Sentinels that ask a model, over real HTTP.

use std::fs;
use std::time::Duration;

use hankweave_testing::{Finished, ModelServer, Scenario, TestProject, agents};
use serde_json::{Value, json};

use crate::support::{assert_usd, codon, project, shell_agent};

pub(crate) const KEY: &str = "sk-only-for-the-provider";

/// claude-haiku-4-5, in US dollars for a million tokens.
const INPUT: f64 = 1.0;
const OUTPUT: f64 = 5.0;

/// What one answer of the server costs that uses 1,000 tokens in and 200 out.
pub(crate) const ONE_ANSWER: f64 = (1_000.0 * INPUT + 200.0 * OUTPUT) / 1e6;

/// Starts a model server that answers every request from `turns`. It does not look for side requests of an agent: it recognizes these by their
/// missing tools, and requests of sentinels have no tools either.
pub(crate) fn server(turns: Value) -> ModelServer {
    let turns: Vec<Value> = turns
        .as_array()
        .unwrap()
        .iter()
        .map(|turn| {
            let mut turn = turn.clone();
            if turn.get("error").is_none() && turn.get("usage").is_none() {
                turn["usage"] = json!({"input": 1_000, "output": 200});
            }
            turn
        })
        .collect();
    let scenario = json!({"require_key": KEY, "aux_when": "never", "turns": turns});
    ModelServer::start(Scenario::try_from(scenario).unwrap()).unwrap()
}

/// A sentinel that asks about what the agent says, and `more`.
pub(crate) fn sentinel(more: Value) -> Value {
    let mut config = json!({"id": "narrator", "name": "N", "model": "anthropic/claude-haiku-4-5",
        "userPromptText": "In {{ codonId }}: {% for event in events %}{{ event.data.content }}{% endfor %}",
        "trigger": {"type": "event", "on": ["assistant.action"]}, "execution": {"strategy": "immediate"}});
    config
        .as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    config
}

/// A project of one codon, watched by this one.
pub(crate) fn watched(server: &ModelServer, sentinel: Value, settings: Value, prompt: &str) -> TestProject {
    let mut project = project();
    project
        .set("ANTHROPIC_BASE_URL", server.url())
        .set("ANTHROPIC_API_KEY", KEY);
    let agent = shell_agent(&project);
    project.write_hank(
        &json!({"hank": [{"id": "a", "name": "A", "agent": agent, "model": "shell", "continuationMode": "fresh", "promptText": prompt,
        "checkpointedFiles": ["done.txt"], "sentinels": [{"sentinelConfig": sentinel, "settings": settings}]}]}),
    );
    project
}

pub(crate) struct Story {
    pub(crate) finished: Finished,
    lines: Vec<Value>,
    pub(crate) codon: Value,
    state: Value,
}

pub(crate) fn run(project: &TestProject, code: i32) -> Story {
    let finished = project.run(["run", "--headless", "--json"]);
    finished.expect_code(code);
    let state = project.state(&project.directory());
    Story {
        lines: finished.json_lines(),
        codon: codon(&state["runs"][0], "a").clone(),
        finished,
        state,
    }
}

impl Story {
    pub(crate) fn of(&self, kind: &str) -> Vec<&Value> {
        let lines = self.lines.iter().filter(|line| line["type"] == kind);
        lines.map(|line| &line["data"]).collect()
    }

    fn figures(&self) -> Value {
        let one = &self.codon["sentinels"]["executed"][0];
        json!([one["llmCallCount"], one["failedLLMCalls"], one["unloadReason"]])
    }
}

/// The bodies of the questions.
pub(crate) fn asked(server: &ModelServer) -> Vec<Value> {
    let requests = server.requests();
    requests
        .iter()
        .filter_map(|asked| asked.body().cloned())
        .collect()
}

// covers: SENT-10, SENT-15, SENT-16, X9
#[test]
fn a_sentinel_asks_its_model_and_what_that_cost_is_everywhere_and_the_key_nowhere() {
    let server = server(json!([{"text": "It has begun to work."}]));
    let project = watched(
        &server,
        sentinel(json!({"systemPromptText": "You are brief."})),
        json!({}),
        "go",
    );
    let story = run(&project, 0);
    let bodies = asked(&server);
    assert_eq!(bodies.len(), 1);
    assert_eq!(
        (&bodies[0]["system"], &bodies[0]["messages"], &bodies[0]["model"]),
        (
            &json!("You are brief."),
            &json!([{"role": "user", "content": "In a: working"}]),
            &json!("claude-haiku-4-5")
        )
    );
    let output = story.of("sentinel.output");
    assert_eq!(
        (
            &output[0]["content"],
            &output[0]["outputType"],
            &output[0]["tokens"]
        ),
        (
            &json!("It has begun to work."),
            &json!("text"),
            &json!({"input": 1_000, "output": 200})
        )
    );
    assert_usd(&output[0]["cost"], ONE_ANSWER);
    assert_usd(&story.codon["sentinels"]["totalCost"], ONE_ANSWER);
    assert_usd(&story.of("codon.completed")[0]["sentinelCost"], ONE_ANSWER);
    assert_eq!(story.figures(), json!([1, 0, "codon-complete"]));
    let log = project
        .directory()
        .join(".hankweave/outputs/narrator/narrator-a.md");
    assert_eq!(fs::read_to_string(log).unwrap(), "It has begun to work.");
    let status = project.run(["status", "--json"]).json_document();
    assert_usd(&status["totalSpend"], 0.25 + ONE_ANSWER);
    let folder = project.directory().parent().unwrap().to_owned();
    for path in project.files().iter().filter(|path| folder.join(path).is_file()) {
        let bytes = fs::read(folder.join(path)).unwrap();
        let has = bytes.windows(KEY.len()).any(|window| window == KEY.as_bytes());
        assert!(!has, "the key is in {}", path.display());
    }
    assert!(!story.finished.stdout.contains(KEY) && !story.finished.stderr.contains(KEY));
}

/// What the guard answers with.
fn verdict() -> Value {
    let schema = json!({"type": "object", "required": ["ask", "reason"], "properties": {"ask": {"enum": ["stop", "none"]},
        "reason": {"type": "string"}}, "additionalProperties": false});
    json!({"structuredOutput": {"output": "object", "schemaStr": schema.to_string(), "schemaName": "verdict"},
        "output": {"lastValueFile": "verdict.json"}})
}

// covers: SENT-13, SENT-17
#[test]
fn an_answer_without_its_form_is_repaired_once_and_both_are_paid() {
    let server = server(json!([
        {"text": "I think it should stop."},
        {"tools": [{"name": "verdict", "input": {"ask": "stop", "reason": "it has gone far enough"}}]},
    ]));
    // Without the stop this agent would wait as good as for ever.
    let project = watched(
        &server,
        sentinel(verdict()),
        json!({"mayAsk": ["stop"]}),
        "wait for go",
    );
    let story = run(&project, 1);
    let bodies = asked(&server);
    assert_eq!(
        bodies[0]["tool_choice"],
        json!({"type": "tool", "name": "verdict"})
    );
    let again = bodies[1]["messages"].as_array().unwrap();
    assert_eq!(
        (again.len(), &again[1]["content"]),
        (3, &json!("I think it should stop."))
    );
    assert!(again[2]["content"].as_str().unwrap().contains("it is no JSON"));
    assert_eq!(
        story.codon["failureReason"]["message"],
        "stopped by sentinel narrator: it has gone far enough"
    );
    assert_usd(&story.codon["sentinels"]["totalCost"], 2.0 * ONE_ANSWER);
    assert_eq!(story.figures()[0], 2);
}

// covers: SENT-7, SENT-17
#[test]
fn a_reply_without_its_form_that_uses_up_the_dollars_of_a_sentinel_is_no_question_without_an_answer() {
    let server = server(json!([{"text": "I think it should stop.", "repeat": "forever"}]));
    let mut spent = verdict();
    spent["maxDollars"] = json!(ONE_ANSWER / 2.0);
    let project = watched(&server, sentinel(spent), json!({}), "go");
    let story = run(&project, 0);
    assert_eq!(story.figures(), json!([1, 0, "budget-reached"]));
    let said = story.of("info");
    let is_missing = |data: &&Value| {
        data["message"]
            .as_str()
            .is_some_and(|text| text.contains("no answer"))
    };
    assert!(!said.iter().any(is_missing), "{said:?}");
}

// covers: SENT-17
#[test]
fn an_answer_that_has_its_form_is_kept_as_a_value_and_one_that_never_has_is_an_error() {
    let server =
        server(json!([{"tools": [{"name": "verdict", "input": {"ask": "none", "reason": "fine"}}]}]));
    let project = watched(&server, sentinel(verdict()), json!({}), "go");
    let story = run(&project, 0);
    let value = json!({"ask": "none", "reason": "fine"});
    let output = story.of("sentinel.output");
    assert_eq!(
        (&output[0]["outputType"], &output[0]["content"]),
        (&json!("structured"), &value)
    );
    let kept = |name: &str| {
        fs::read_to_string(project.directory().join(".hankweave/outputs/narrator").join(name)).unwrap()
    };
    assert_eq!(kept("narrator-a.jsonl"), format!("{value}\n"));
    assert_eq!(kept("verdict.json"), format!("{value:#}\n"));

    let server = crate::sentinel_models::server(
        json!([{"tools": [{"name": "verdict", "input": {"ask": "explode"}}], "repeat": "forever"}]),
    );
    let project = watched(&server, sentinel(verdict()), json!({}), "go");
    let story = run(&project, 0);
    let error = story.of("sentinel.error")[0].clone();
    let message = error["message"].as_str().unwrap();
    assert!(
        message.starts_with("the answer of the model does not have its form: "),
        "{message}"
    );
    assert!(message.contains("\"reason\" is a required property"), "{message}");
    assert_eq!(error["errorType"], "llm-call-failed");
    assert_eq!(story.figures(), json!([2, 1, "codon-complete"]));
    assert_usd(&story.codon["sentinels"]["totalCost"], 2.0 * ONE_ANSWER);
}

// covers: SENT-16
#[test]
fn what_may_pass_is_tried_again_and_what_may_not_takes_the_sentinel_out_of_service() {
    let limited = json!({"error": {"status": 429, "type": "rate_limit_error", "message": "slow down", "headers": {"retry-after": "0"}}});
    let server = server(json!([limited, limited, {"text": "at last"}]));
    let project = watched(&server, sentinel(json!({})), json!({}), "go");
    let story = run(&project, 0);
    assert_eq!(story.of("sentinel.output")[0]["content"], "at last");
    assert_eq!(
        (story.figures(), asked(&server).len()),
        (json!([1, 0, "codon-complete"]), 3)
    );

    let server = crate::sentinel_models::server(json!([{"text": "never"}]));
    let mut project = watched(&server, sentinel(json!({})), json!({}), "go");
    project.set("ANTHROPIC_API_KEY", "sk-wrong-and-secret");
    let story = run(&project, 0);
    assert_eq!(story.figures(), json!([1, 1, "fatal-error"]));
    let error = story.of("sentinel.error")[0]["message"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(error.starts_with("the model gave no answer: HTTP 401"), "{error}");
    assert!(!error.contains("sk-wrong-and-secret"), "{error}");
    assert_eq!(story.of("sentinel.unloaded")[0]["errorType"], "configuration");

    let server = crate::sentinel_models::server(json!([limited, limited, limited, limited]));
    let project = watched(
        &server,
        sentinel(json!({"llmParams": {"maxRetries": 1}})),
        json!({}),
        "go",
    );
    assert_eq!(
        (run(&project, 0).figures(), asked(&server).len()),
        (json!([1, 1, "codon-complete"]), 2)
    );
}

/// Says two things, the second once the file `go` exists.
const TALKER: &str = r#"cat > /dev/null
say() { printf '{"type":"assistant","session_id":"s-1","message":{"id":"m-%s","role":"assistant","model":"shell","content":[{"type":"text","text":"%s"}],"usage":{"input_tokens":1,"output_tokens":1}}}\n' "$1" "$1"; }
printf '{"type":"system","subtype":"init","session_id":"s-1","model":"shell","cwd":"/","tools":[]}\n'
say one
while [ ! -e go ]; do sleep 0.05; done
say two
printf '{"type":"result","subtype":"success","is_error":false,"session_id":"s-1","result":"done","num_turns":1,"total_cost_usd":0,"usage":{"input_tokens":1,"output_tokens":1}}\n'
"#;

// covers: SENT-18
#[test]
fn a_sentinel_that_remembers_says_again_what_was_said() {
    let server = server(json!([{"text": "first"}, {"text": "second"}]));
    let talk = json!({"systemPromptText": "s", "conversational": {"trimmingStrategy": {"type": "maxTurns", "maxTurns": 5}}});
    let project = watched(&server, sentinel(talk), json!({}), "go");
    project.write("agent.sh", TALKER);
    let mut running = project.start(["run", "--headless", "--json"]);
    running.wait_for_line(|line| line.contains("sentinel.output"));
    project.write("go", "");
    running.finish_within(Duration::from_secs(60)).expect_code(0);
    let turns = json!([{"role": "user", "content": "In a: one"}, {"role": "assistant", "content": "first"}, {"role": "user", "content": "In a: two"}]);
    assert_eq!(asked(&server)[1]["messages"], turns);
}

// covers: SENT-10, P9
#[test]
fn a_server_killed_while_a_model_repairs_its_answer_has_the_first_one_on_its_bill() {
    let server = server(
        json!([{"text": "no form"}, {"text": "late", "delay_ms": 600_000}, {"tools": [{"name": "verdict", "input": {"ask": "none", "reason": "fine"}}]}]),
    );
    let project = watched(&server, sentinel(verdict()), json!({}), "wait for go");
    let running = project.start(["run", "--headless"]);
    assert!(server.wait_until(Duration::from_secs(60), |served| {
        served.iter().any(|served| served.whole)
    }));
    // The second question is asked once the first answer is recorded.
    while asked(&server).len() < 2 {
        std::thread::yield_now();
    }
    running.kill();
    project.write("go", "");
    project.run(["run", "--headless"]).expect_code(0);
    let state = project.state(&project.directory());
    let record = codon(&state["runs"][1], "a");
    assert_usd(&record["sentinels"]["totalCost"], ONE_ANSWER);
}

// covers: SENT-7
#[test]
fn a_sentinel_that_costs_too_much_is_taken_out_of_service() {
    let server = server(json!([{"text": "dear", "repeat": "forever"}]));
    let all = json!({"maxDollars": ONE_ANSWER / 2.0, "userPromptText": "{{ events | length }}", "trigger": {"type": "event", "on": ["*"]},
        "errorHandling": {"onError": "failCodon"}});
    let project = watched(&server, sentinel(all), json!({}), "go");
    // To have spent everything is no error, so codon and run continue.
    let story = run(&project, 0);
    assert_eq!(
        (story.figures(), asked(&server).len()),
        (json!([1, 0, "budget-reached"]), 1)
    );
    assert_eq!(story.of("sentinel.unloaded")[0]["errorType"], "resource");
}

// covers: SENT-10
#[test]
fn what_sentinels_cost_counts_in_the_budget_of_the_hank() {
    let server = server(json!([{"text": "dear", "repeat": "forever"}]));
    let project = watched(&server, sentinel(json!({})), json!({}), "go");
    let place = project.directory().join("hank.json");
    let mut hank: Value = serde_json::from_slice(&fs::read(&place).unwrap()).unwrap();
    hank["hank"][0]["model"] = json!("claude-sonnet-4-5");
    hank["overrides"] = json!({"budget": {"maxDollars": 0.25 + ONE_ANSWER / 2.0}});
    let next = json!({"id": "b", "name": "B", "agent": hank["hank"][0]["agent"], "model": "claude-sonnet-4-5", "continuationMode": "fresh", "promptText": "go"});
    hank["hank"].as_array_mut().unwrap().push(next);
    project.write_hank(&hank);
    let finished = project.run(["run", "--headless"]);
    let paused = "Paused before b: the total budget is used up: used $0.2520 of $0.2510";
    assert!(finished.expect_code(3).stderr.contains(paused), "{finished}");
}

// covers: SENT-15
#[test]
fn a_model_that_cannot_be_asked_is_told_before_the_start() {
    let server = server(json!([]));
    let mut project = watched(&server, sentinel(json!({})), json!({}), "go");
    project.set("ANTHROPIC_API_KEY", "");
    let told = project.run(["validate"]);
    let why = "sentinel narrator will be left out: the variable `ANTHROPIC_API_KEY` is not set, which holds the key of its model";
    assert!(told.expect_code(0).stdout.contains(why), "{told}");
    let doctor = project.run(["doctor"]);
    assert!(doctor.expect_code(0).stdout.contains(why), "{doctor}");
    let story = run(&project, 0);
    assert_eq!(story.codon["sentinels"], Value::Null);

    let mut project = watched(
        &server,
        sentinel(json!({})),
        json!({"failCodonIfNotLoaded": true}),
        "go",
    );
    project.set("ANTHROPIC_API_KEY", "");
    let refused = project.run(["run", "--headless"]);
    assert!(
        refused
            .expect_code(65)
            .stderr
            .contains("sentinel narrator cannot be loaded: the variable"),
        "{refused}"
    );

    let far = json!({"model": "far/llama", "endpoint": {"baseUrl": "http://far.example/v1"}});
    let told = watched(&server, sentinel(far), json!({}), "go").run(["validate"]);
    let why = "no price is known of `far/llama`, so what it costs is unknown";
    assert!(told.expect_code(0).stdout.contains(why), "{told}");
    let local =
        json!({"model": "here/llama", "endpoint": {"baseUrl": "http://127.0.0.1:9/v1"}, "maxDollars": 1});
    let project = watched(&server, sentinel(local), json!({}), "go");
    let refused = project.run(["run", "--headless"]);
    assert!(
        refused
            .expect_code(65)
            .stderr
            .contains("no price is known of `here/llama`"),
        "{refused}"
    );
    assert_eq!(asked(&server), [Value::Null; 0]);
}

// covers: SENT-19
#[test]
fn a_sentinel_that_speaks_of_what_stands_in_files_is_told() {
    let server = server(json!([{"text": "seen", "repeat": "forever"}]));
    let contents = json!({"trigger": {"type": "event", "on": ["file.updated"],
        "conditions": [{"operator": "contains", "path": "content", "value": "go"}]},
        "userPromptText": "{{ (events | last).data.path }}: {{ (events | last).data.content }}"});
    let project = watched(&server, sentinel(contents), json!({}), "go");
    assert_eq!(run(&project, 0).figures(), json!([1, 0, "codon-complete"]));
    assert_eq!(asked(&server)[0]["messages"][0]["content"], "done.txt: go\n");
}

// covers: SENT-17
#[test]
fn a_schema_that_cannot_be_used_is_refused_when_the_hank_is_read() {
    let server = server(json!([]));
    let broken = json!({"structuredOutput": {"output": "object", "schemaFile": "verdict.json"}});
    let project = watched(&server, sentinel(broken), json!({}), "go");
    let why = |told: &Finished| told.expect_code(1).stdout.clone();
    assert!(why(&project.run(["validate"])).contains("`verdict.json` does not exist"));
    project.write("verdict.json", r#"{"properties": {"a": {"type": "nothing"}}}"#);
    assert!(why(&project.run(["validate"])).contains("structuredOutput: the schema cannot be used"));
}

/// The real agent and a sentinel talk to one server, each in a lane of its own.
// covers: SENT-10, SENT-16
#[test]
fn a_model_watches_the_real_claude_at_work() {
    let claude = match agents::claude() {
        Ok(claude) => claude,
        Err(skip) => return println!("{skip}"),
    };
    let scenario = json!({"aux_when": "never", "lanes": [
        {"name": "watch", "when": {"system": "You keep a log"},
         "turns": [{"text": "A file was written.", "repeat": "forever", "usage": {"input": 1_000, "output": 200}}]},
        {"name": "work", "when": {"has_tools": true}, "turns": [
            {"tools": [{"op": "write", "path": "${CWD}/story.txt", "content": "once"}]}, {"text": "done"}]},
        {"name": "rest", "turns": [{"text": "ok", "repeat": "forever"}]}]});
    let server = ModelServer::start(Scenario::try_from(scenario).unwrap()).unwrap();
    let mut project = project();
    project
        .set("HANKWEAVE_CLAUDE_PATH", claude)
        .set("ANTHROPIC_BASE_URL", server.url())
        .set("ANTHROPIC_API_KEY", KEY)
        .set("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1");
    let files = json!({"systemPromptText": "You keep a log", "trigger": {"type": "event", "on": ["file.updated"]},
        "userPromptText": "{{ (events | last).data.path }}"});
    project.write_hank(
        &json!({"hank": [{"id": "a", "name": "A", "model": "sonnet", "continuationMode": "fresh", "promptText": "Write a story",
        "checkpointedFiles": ["*.txt"], "sentinels": [{"sentinelConfig": sentinel(files)}]}]}),
    );
    let story = run(&project, 0);
    let output = story.of("sentinel.output");
    assert_eq!(output[0]["content"], "A file was written.");
    let answers = server
        .served()
        .iter()
        .filter(|served| served.lane == "watch")
        .count();
    assert_eq!(story.figures()[0], answers);
    #[expect(clippy::cast_precision_loss, reason = "a few answers")]
    let paid = answers as f64 * ONE_ANSWER;
    assert_usd(&story.codon["sentinels"]["totalCost"], paid);
    assert!(story.state["runs"][0]["status"] == "completed");
}
