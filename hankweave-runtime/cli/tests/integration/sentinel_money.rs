//! What sentinels may spend, and what is known of it at every ending (SENT-20, SENT-21).

use std::time::Duration;

use hankweave_testing::{ModelServer, TestProject};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::sentinel_models::{KEY, ONE_ANSWER, asked, run, sentinel, server, watched};
use crate::support::{assert_usd, codon, project};

/// Number of messages of the agent: a sentinel has a question about each.
const MESSAGES: usize = 12;

/// An agent that says this much at once, for next to nothing, and then does `rest`. It waits while there is a file `hold`.
fn chatty(project: &TestProject, rest: &str) -> Value {
    let script = format!(
        r#"cat > /dev/null
printf '{{"type":"system","subtype":"init","session_id":"s","model":"claude-sonnet-4-5","cwd":"/","tools":[]}}\n'
for number in $(seq {MESSAGES}); do
  printf '{{"type":"assistant","session_id":"s","parent_tool_use_id":null,"message":{{"id":"m-%s","role":"assistant",' "$number"
  printf '"model":"claude-sonnet-4-5","stop_reason":"end_turn","content":[{{"type":"text","text":"on"}}],"usage":{{"input_tokens":0,"output_tokens":1}}}}}}\n'
  while [ -e hold ]; do sleep 0.05; done
done
{rest}
"#
    );
    json!({"command": ["sh", project.write("chatty.sh", script)], "stream": "claude"})
}

/// Ends well.
const DONE: &str = r#"printf '{"type":"result","subtype":"success","is_error":false,"session_id":"s","result":"done","num_turns":1}\n'"#;

/// Works until it is stopped.
const ON: &str = "exec sleep 600";

/// A project of one codon whose agent is [`chatty`], with `more` keys, watched by these.
fn chattering(server: &ModelServer, rest: &str, more: Value, sentinels: &[Value]) -> TestProject {
    let mut project = project();
    project
        .set("ANTHROPIC_BASE_URL", server.url())
        .set("ANTHROPIC_API_KEY", KEY);
    let entries: Vec<Value> = sentinels
        .iter()
        .map(|sentinel| json!({"sentinelConfig": sentinel}))
        .collect();
    let mut codon = json!({"id": "a", "name": "A", "agent": chatty(&project, rest), "model": "claude-sonnet-4-5",
        "continuationMode": "fresh", "promptText": "go", "sentinels": entries});
    codon
        .as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    project.write_hank(&json!({"hank": [codon]}));
    project
}

fn named(id: &str) -> Value {
    sentinel(json!({"id": id}))
}

/// What is said of questions that were not asked.
fn withheld(lines: &[Value]) -> Vec<String> {
    let messages = lines.iter().filter(|line| line["type"] == "info");
    let messages = messages.filter_map(|line| line["data"]["message"].as_str());
    let withheld = messages.filter(|message| message.contains("not asked"));
    withheld.map(str::to_owned).collect()
}

// covers: SENT-20
/// Ends a run of a project with this process id.
type EndRun<'a> = &'a dyn Fn(&TestProject, u32);

#[test]
fn no_question_is_asked_once_agent_and_sentinels_have_used_up_the_budget_of_the_hank() {
    let server = server(json!([{"text": "dear", "repeat": "forever"}]));
    let project = chattering(&server, DONE, json!({}), &[named("narrator")]);
    let most = (ONE_ANSWER * 1.5).to_string();
    let finished = project.run(["run", "--headless", "--json", "--max-cost", &most]);
    finished.expect_code(0);
    assert_eq!(asked(&server).len(), 2, "the second one uses up the budget");
    let lines = finished.json_lines();
    let not_asked = MESSAGES - 2;
    assert_eq!(
        withheld(&lines),
        [format!(
            "sentinel narrator: {not_asked} questions were not asked, because the budget is used up"
        )]
    );
    let unloaded = lines.iter().find(|line| line["type"] == "sentinel.unloaded");
    assert_eq!(unloaded.unwrap()["data"]["dropped"], not_asked);
    let state = project.state(&project.directory());
    let record = codon(&state["runs"][0], "a");
    assert_usd(&record["sentinels"]["totalCost"], 2.0 * ONE_ANSWER);
    assert_eq!(record["sentinels"]["executed"][0]["llmCallCount"], 2);
}

// covers: SENT-20
#[test]
fn several_sentinels_go_beyond_the_budget_by_the_one_answer_that_each_waits_for() {
    let server = server(json!([{"text": "dear", "delay_ms": 100, "repeat": "forever"}]));
    let sentinels = ["one", "two", "three", "four", "five", "six"].map(named);
    let project = chattering(&server, DONE, json!({}), &sentinels);
    let most = (ONE_ANSWER * 1.5).to_string();
    project
        .run(["run", "--headless", "--max-cost", &most])
        .expect_code(0);
    // Of those that wait for a place none is asked either.
    let asked = asked(&server).len();
    assert!((2..=5).contains(&asked), "{asked}");
    let state = project.state(&project.directory());
    let record = codon(&state["runs"][0], "a");
    let answers = u32::try_from(asked).unwrap();
    assert_usd(&record["sentinels"]["totalCost"], f64::from(answers) * ONE_ANSWER);
}

// covers: SENT-20
#[test]
fn no_question_is_asked_after_the_budget_of_its_codon_has_ended_the_agent() {
    let server = server(json!([{"text": "late", "delay_ms": 2_000, "repeat": "forever"}]));
    let budget = json!({"budget": {"maxOutputTokens": MESSAGES}});
    let project = chattering(&server, ON, budget, &[named("narrator")]);
    project.write("hold", "");
    let running = project.start(["run", "--headless", "--json"]);
    while asked(&server).is_empty() {
        std::thread::yield_now();
    }
    std::fs::remove_file(project.directory().join("hold")).unwrap();
    let finished = running.finish_within(Duration::from_secs(60));
    finished.expect_code(0);
    // The answer that it waits for still counts.
    assert_eq!(asked(&server).len(), 1);
    assert_eq!(withheld(&finished.json_lines()).len(), 1, "{finished}");
    let state = project.state(&project.directory());
    let record = codon(&state["runs"][0], "a");
    assert_usd(&record["sentinels"]["totalCost"], ONE_ANSWER);
    assert_eq!(record["sentinels"]["executed"][0].get("uncountedRequests"), None);
}

// covers: SENT-20
#[test]
fn the_limit_of_a_loop_holds_back_the_sentinels_of_its_codons() {
    let server = server(json!([{"text": "dear", "repeat": "forever"}]));
    let project = chattering(&server, DONE, json!({}), &[named("narrator")]);
    let hank: Value =
        serde_json::from_slice(&std::fs::read(project.directory().join("hank.json")).unwrap()).unwrap();
    let budget = json!({"maxDollars": ONE_ANSWER * 1.5});
    project.write_hank(
        &json!({"hank": [{"type": "loop", "id": "l", "name": "L", "codons": hank["hank"], "budget": budget,
        "terminateOn": {"type": "iterationLimit", "limit": 1}}]}),
    );
    project.run(["run", "--headless"]).expect_code(0);
    assert_eq!(asked(&server).len(), 2);
}

/// Stops a run whose sentinel waits for its first answer; returns the record of its codon.
#[track_caller]
fn stopped_with(stop: impl Fn(&TestProject, u32), server: &ModelServer, code: i32) -> (Value, Vec<Value>) {
    let project = chattering(server, ON, json!({}), &[named("narrator")]);
    let mut running = project.start(["run", "--headless", "--json"]);
    let last = format!("\"outputTokens\":{MESSAGES},");
    running.wait_for_line(|line| line.contains("\"token.usage\"") && line.contains(&last));
    while asked(server).is_empty() {
        std::thread::yield_now();
    }
    stop(&project, running.pid());
    let finished = running.finish_within(Duration::from_secs(60));
    finished.expect_code(code);
    let state = project.state(&project.directory());
    (codon(&state["runs"][0], "a").clone(), finished.json_lines())
}

// covers: SENT-20, SENT-21
#[test]
fn a_stop_and_a_skip_ask_nothing_more_and_what_they_cut_off_makes_the_cost_a_lower_bound() {
    let signal = |_: &TestProject, pid: u32| {
        let pid = rustix::process::Pid::from_raw(pid.cast_signed()).unwrap();
        rustix::process::kill_process(pid, Signal::TERM).unwrap();
    };
    let skip = |project: &TestProject, _: u32| {
        project.run(["skip"]).expect_code(0);
    };
    let ways: [(&str, EndRun<'_>, i32); 2] = [("stop", &signal, 143), ("skip", &skip, 0)];
    for (name, stop, code) in ways {
        let server = server(json!([{"text": "never", "delay_ms": 600_000, "repeat": "forever"}]));
        let (record, lines) = stopped_with(stop, &server, code);
        assert_eq!(asked(&server).len(), 1, "{name}");
        let not_asked = MESSAGES - 1;
        assert_eq!(
            withheld(&lines),
            [format!(
                "sentinel narrator: {not_asked} questions were not asked and 1 got no answer, because its codon did not wait for it"
            )],
            "{name}"
        );
        assert_eq!(
            record["sentinels"]["executed"][0]["uncountedRequests"], 1,
            "{name}"
        );
        let completed = lines.iter().find(|line| line["type"] == "codon.completed");
        assert_eq!(completed.unwrap()["data"]["costIsLowerBound"], true, "{name}");
    }
}

// covers: SENT-21
#[test]
fn a_question_that_a_killed_server_was_waiting_for_makes_the_cost_a_lower_bound() {
    let server =
        server(json!([{"text": "never", "delay_ms": 600_000}, {"text": "quick", "repeat": "forever"}]));
    let project = watched(&server, sentinel(json!({})), json!({}), "wait for go");
    let running = project.start(["run", "--headless"]);
    while asked(&server).is_empty() {
        std::thread::yield_now();
    }
    running.kill();
    project.write("go", "");
    project.run(["run", "--headless"]).expect_code(0);
    let cost = project.run(["state", "cost", "--json"]).json_document();
    let of = |run: usize| cost["runs"][run]["codons"][0]["sentinels"][0]["costIsLowerBound"].clone();
    assert_eq!((of(0), of(1)), (Value::Null, json!(true)), "{cost:#}");
    assert_eq!(cost["total"]["costIsLowerBound"], true);
}

/// The price of a question is that of the agent's messages: the one that the user gives.
// covers: SENT-21, AGENT-46
#[test]
fn a_sentinel_costs_what_the_user_says_also_when_its_run_is_killed() {
    let prices = json!({"models": {"claude-haiku-4-5": {"input": 10, "output": 50}}});
    let priced = ["run", "--headless", "--json", "--prices", "mine.json"];
    let server = server(json!([{"text": "quick", "repeat": "forever"}]));
    let project = watched(&server, sentinel(json!({})), json!({}), "wait for go");
    project.write("mine.json", prices.to_string());
    let mut running = project.start(priced);
    running.wait_for_line(|line| line.contains("\"sentinel.output\""));
    let before = asked(&server).len();
    running.kill();
    project.write("go", "");
    project.run(priced).expect_code(0);
    let after = asked(&server).len() - before;
    let state = project.state(&project.directory());
    for (run, questions) in [(0, after), (1, before)] {
        let record = codon(&state["runs"][run], "a");
        let sentinels = record["sentinels"]["executed"].as_array().unwrap();
        let cost = sentinels[0]["totalCost"].as_f64().unwrap();
        let expected = 10.0 * ONE_ANSWER * questions as f64;
        assert!((cost - expected).abs() < 1e-9, "{questions}: {record:#}");
    }
}

/// The cost of the sentinel of a run, whether more is known to have been spent, and the number of questions.
#[track_caller]
fn told(server: &ModelServer, more: Value) -> (f64, bool, usize) {
    let project = watched(server, sentinel(more), json!({}), "go");
    let story = run(&project, 0);
    let one = &story.codon["sentinels"]["executed"][0];
    let is_lower_bound = one["uncountedRequests"].as_u64().is_some();
    let completed = &story.of("codon.completed")[0]["costIsLowerBound"];
    let unloaded = &story.of("sentinel.unloaded")[0]["costIsLowerBound"];
    let expected = if is_lower_bound { json!(true) } else { Value::Null };
    assert_eq!(
        (completed, unloaded),
        (&expected, &expected),
        "{}",
        story.finished
    );
    for output in story.of("sentinel.output") {
        assert_eq!(output["costIsLowerBound"], expected, "{}", story.finished);
    }
    let status = project.run(["status", "--json"]).json_document();
    assert_eq!(status["costIsLowerBound"], is_lower_bound, "{status:#}");
    (
        one["totalCost"].as_f64().unwrap(),
        is_lower_bound,
        asked(server).len(),
    )
}

// covers: SENT-21
#[test]
fn what_nobody_knows_of_the_bill_of_a_sentinel_is_said() {
    let near = |cost: f64, expected: f64| (cost - expected).abs() < 1e-9;
    // It timed out, and the second attempt was answered.
    let late = server(json!([{"text": "late", "delay_ms": 600_000}, {"text": "in time"}]));
    let (cost, is_lower_bound, asked) = told(&late, json!({"timeoutSeconds": 1}));
    assert!(near(cost, ONE_ANSWER) && is_lower_bound && asked == 2, "{cost}");
    // The connection broke.
    let cut = server(json!([{"text": "cut", "drop": "before_headers"}]));
    let (cost, is_lower_bound, _) = told(&cut, json!({"llmParams": {"maxRetries": 0}}));
    assert!(near(cost, 0.0) && is_lower_bound, "{cost}");
    // A refusal costs nothing.
    let full = json!({"error": {"status": 529, "type": "overloaded_error", "message": "overloaded"}});
    let (cost, is_lower_bound, _) = told(&server(json!([full])), json!({"llmParams": {"maxRetries": 0}}));
    assert!(near(cost, 0.0) && !is_lower_bound, "{cost}");
    // The model has no price: this host name does not show that it is on this machine.
    let far = server(json!([{"text": "far"}]));
    let elsewhere = far.url().replace("127.0.0.1", "127.1");
    let own = |url: &str| json!({"baseUrl": format!("{url}/v1"), "keyVariable": "ANTHROPIC_API_KEY"});
    let (cost, is_lower_bound, asked) =
        told(&far, json!({"model": "far/llama", "endpoint": own(&elsewhere)}));
    assert!(near(cost, 0.0) && is_lower_bound && asked == 1, "{cost}");
    let here = server(json!([{"text": "here"}]));
    let (cost, is_lower_bound, _) = told(
        &here,
        json!({"model": "here/llama", "endpoint": own(&here.url())}),
    );
    assert!(
        near(cost, 0.0) && !is_lower_bound,
        "what answers here sends no bill"
    );
}

// covers: SENT-21
#[test]
fn openrouter_says_itself_what_an_answer_cost() {
    let own = |server: &ModelServer| json!({"baseUrl": format!("{}/v1", server.url()), "keyVariable": "ANTHROPIC_API_KEY"});
    let billed = |model: &str, usage: Value| {
        let server = server(json!([{"text": "there", "usage": usage}]));
        let told = told(&server, json!({"model": model, "endpoint": own(&server)}));
        assert_eq!(asked(&server)[0]["usage"], json!({"include": true}));
        told
    };
    let usage = json!({"input": 1_000, "output": 200});
    let with_bill = json!({"input": 1_000, "output": 200, "cost": 0.0123});
    let dotted = "openrouter/anthropic/claude-haiku-4.5";
    assert_eq!(billed(dotted, with_bill.clone()), (0.0123, false, 1));
    assert_eq!(
        billed("openrouter/acme/unheard-of", with_bill),
        (0.0123, false, 1)
    );
    assert_eq!(billed(dotted, usage), (ONE_ANSWER, false, 1));
}
