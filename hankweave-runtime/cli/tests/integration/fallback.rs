//! Agents and models that take a codon over (HANK-80 to HANK-84).

use std::time::Duration;

use hankweave_testing::{ModelServer, Scenario, TestProject, agents};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::real_acp::{native, natives};
use crate::real_agents::{RealAgent, settings};
use crate::support::{assert_usd, codon, project};

/// Far longer than anything here takes; it only turns a hang into a failure.
const DEADLINE: Duration = Duration::from_secs(120);

/// An agent that appends its model to `work.txt` and then fails with what `refuses-MODEL` says, waits for ever where `waits-MODEL`
/// is there, or succeeds.
const AGENT: &str = r#"
prompt=$(cat)
model=$HANKWEAVE_MODEL
session=${HANKWEAVE_RESUME_SESSION:-s-$model-$$}
printf '%s %s %s\n' "$model" "${HANKWEAVE_RESUME_SESSION:+resumed}" "$ACCOUNT" >> "${BASE:-..}/agents.log"
printf '%s' "$prompt" > "${BASE:-..}/prompt-$model"
printf '{"type":"system","subtype":"init","session_id":"%s","model":"%s","cwd":"/","tools":[]}\n' "$session" "$model"
printf '{"type":"assistant","session_id":"%s","parent_tool_use_id":null,"message":{"id":"msg-%s","role":"assistant","model":"%s","content":[{"type":"text","text":"I am %s, half-way."},{"type":"tool_use","id":"t-%s","name":"Write","input":{"file_path":"work.txt"}}],"usage":{"input_tokens":1000,"output_tokens":100}}}\n' "$session" $$ "$model" "$model" $$
echo "$model" >> work.txt
if [ -e "${BASE:-..}/waits-$model" ]; then exec sleep 600; fi
usage='"usage":{"input_tokens":1000,"output_tokens":100}'
if [ -e "${BASE:-..}/refuses-$model" ]; then
  in=$(($(date +%s) + 3600))
  printf '{"type":"result","subtype":"success","is_error":true,"session_id":"%s","result":"%s",%s}\n' "$session" "$(sed "s/EPOCH/$in/" "${BASE:-..}/refuses-$model")" "$usage"
  exit 1
fi
printf '{"type":"result","subtype":"success","is_error":false,"session_id":"%s","result":"done",%s}\n' "$session" "$usage"
"#;

const LIMIT: &str = "Claude AI usage limit reached|EPOCH";
const OUTAGE: &str = "API Error: 529 overloaded_error";
const UNKNOWN: &str = "There's an issue with the selected model (first). It may not exist. (status 404)";

const FIRST: &str = "claude-opus-4-5";
const SECOND: &str = "claude-sonnet-4-5";
const THIRD: &str = "claude-haiku-4-5";

struct Story(TestProject);

impl Story {
    fn new() -> Self {
        let project = project();
        project.write("agent.sh", AGENT);
        Self(project)
    }

    /// The agent under a name of its own, which makes it another agent.
    fn agent(&self, name: &str) -> Value {
        json!({"command": ["sh", self.0.write("agent.sh", AGENT), name], "stream": "claude"})
    }

    /// Has this model refuse.
    fn refuse(&self, model: &str, words: &str) {
        std::fs::write(self.beside(&format!("refuses-{model}")), words).unwrap();
    }

    fn beside(&self, name: &str) -> std::path::PathBuf {
        self.0.directory().parent().unwrap().join(name)
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.beside(name)).unwrap_or_default()
    }

    /// Codons whose own agent is `one` with the first model.
    fn hank(&self, ids: &[&str], fallback: &Value, more: &Value) {
        let codons = ids.iter().map(|id| {
            let mut codon = json!({"id": id, "name": id, "agent": self.agent("one"), "model": FIRST, "continuationMode": "fresh",
                "promptText": format!("TASK-{id}"), "checkpointedFiles": ["*.txt"], "fallback": fallback});
            codon.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            codon
        });
        self.0.write_hank(&json!({"hank": codons.collect::<Vec<_>>()}));
    }

    /// Codon, model and status of all attempts, oldest first.
    fn attempts(&self) -> Vec<(String, String, String)> {
        let state = self.0.state(&self.0.directory());
        let runs = state["runs"].as_array().unwrap().iter().rev();
        let records = runs.flat_map(|run| run["codons"].as_array().unwrap());
        let text = |value: &Value| value.as_str().unwrap_or("?").to_owned();
        records
            .map(|record| {
                let model = &record["chosenAgent"]["model"];
                (text(&record["codonId"]), text(model), text(&record["status"]))
            })
            .collect()
    }

    #[track_caller]
    fn expect_attempts(&self, expected: &[(&str, &str, &str)]) {
        let found = self.attempts();
        let found: Vec<_> = found
            .iter()
            .map(|(codon, model, status)| (&**codon, &**model, &**status))
            .collect();
        assert_eq!(found, expected);
    }
}

// covers: STATE-73, WIRE-39
#[test]
fn an_attempt_whose_agent_another_one_replaced_has_one_name_on_every_screen() {
    let story = Story::new();
    let other = json!({"agent": story.agent("two"), "model": SECOND});
    story.hank(&["one"], &json!([other]), &json!({}));
    story.refuse(FIRST, LIMIT);
    let ended = story.0.run(["run", "--headless"]);
    ended.expect_code(0);
    let words = format!("command with {SECOND} continued in its place");
    let (_, summary) = ended.stderr.split_once("Finished:").expect("a summary");
    for (screen, told) in [
        ("summary", summary.to_owned()),
        ("thread", story.0.run(["thread"]).stdout),
        ("history", story.0.run(["state", "history"]).stdout),
    ] {
        assert!(told.contains("one  replaced "), "{screen}: {told}");
        assert!(told.contains(&words), "{screen}: {told}");
        assert!(!told.contains("paused"), "{screen}: {told}");
    }
    let thread = story.0.run(["thread", "--json"]).stdout;
    assert!(thread.contains(&format!("command with {SECOND}")), "{thread}");
    let page = story.0.directory().with_file_name("page.html");
    let export = ["view", "--export", page.to_str().unwrap()];
    story.0.run(export).expect_code(0);
    let page = std::fs::read_to_string(page).unwrap();
    assert!(
        page.contains(r#""state":"replaced""#),
        "no replaced attempt in the page"
    );
    assert!(
        !page.contains(r#""state":"paused""#),
        "a paused attempt in the page"
    );
    // The times of the limit are local with their offset in the report, and in UTC in JSON.
    let report = story.0.run(["report"]).stdout;
    assert!(
        report.contains(" +00:00") && !report.contains(".000Z"),
        "{report}"
    );
    let report = story.0.run(["report", "--json"]).stdout;
    assert!(report.contains(".000Z") && !report.contains("+00:00"), "{report}");
}

// covers: HANK-80, HANK-81, HANK-82, STATE-70
#[test]
fn the_next_agent_takes_a_codon_over_and_the_first_comes_back() {
    let story = Story::new();
    let other = json!({"agent": story.agent("two"), "model": SECOND});
    story.hank(&["one", "two"], &json!([other]), &json!({}));
    story.refuse(FIRST, LIMIT);
    let ended = story.0.run(["run", "--headless", "--json"]);
    ended.expect_code(0);
    story.expect_attempts(&[
        ("one", FIRST, "failed"),
        ("one", SECOND, "completed"),
        ("two", SECOND, "completed"),
    ]);
    let told: Vec<Value> = ended
        .json_lines()
        .into_iter()
        .filter(|line| line["type"] == "codon.fallback")
        .collect();
    assert_eq!(told.len(), 2, "{told:#?}");
    let first = &told[0]["data"];
    assert_eq!(
        (&first["codonId"], &first["model"], &first["entry"]),
        (&json!("one"), &json!(SECOND), &json!(1))
    );
    assert_eq!(first["instead"]["cause"], "usage-limit");
    assert!(
        first["instead"]["until"].is_string() && first["sameSession"] == false,
        "{first:#}"
    );

    // Codon `two` starts with the second agent, so its prompt is its own task alone.
    let prompt = story.read(&format!("prompt-{SECOND}"));
    assert_eq!(prompt, "TASK-two", "nothing of it was begun before");
    let log = ended.json_lines();
    assert!(
        log.iter()
            .any(|line| line["type"] == "codon.started" && line["data"]["model"] == SECOND)
    );

    // Screens, status and report say it, in the time of the user.
    let status = story.0.run(["status"]).expect_code(0).stdout.clone();
    let words =
        format!("ran on command with {SECOND}, instead of command with {FIRST}, whose usage limit ends at ");
    assert!(status.contains(&words) && !status.contains('Z'), "{status}");
    let report = story.0.run(["report"]).expect_code(0).stdout.clone();
    assert!(report.contains("whose usage limit ends at"), "{report}");
    let attempts = report
        .lines()
        .filter(|line| line.starts_with("- `one`, attempt 1"));
    let first: Vec<&str> = attempts.collect();
    assert!(
        first.iter().all(|line| line.contains(", until ")) && first.len() == 1,
        "the end of the limit stands with the attempt: {report}"
    );
    assert!(
        !report.contains("waited"),
        "nobody waited for a limit that another agent went around: {report}"
    );
    for line in [
        "- `one`, attempt 1: ".to_owned(),
        format!(", replaced, on command with {FIRST}: Claude AI usage limit reached"),
        "- `one`, attempt 2: ".to_owned(),
        format!(", completed, on command with {SECOND}"),
    ] {
        assert!(report.contains(&line), "{line}: {report}");
    }
    assert!(
        report.contains(&format!(
            " ran on command with {SECOND}, instead of command with {FIRST}, "
        )),
        "{report}"
    );
    story.0.run(["replay", "."]).expect_code(0);
}

// covers: HANK-81
#[test]
fn an_agent_that_takes_over_is_told_what_was_done() {
    let story = Story::new();
    story.hank(
        &["one"],
        &json!([{"agent": story.agent("two"), "model": SECOND}]),
        &json!({}),
    );
    story.refuse(FIRST, LIMIT);
    story.0.run(["run", "--headless"]).expect_code(0);
    let prompt = story.read(&format!("prompt-{SECOND}"));
    for part in [
        "TASK-one\n\nAnother agent (command with claude-opus-4-5) began this task",
        "> I am claude-opus-4-5, half-way.",
        "It used these tools: Write.",
        "These files changed meanwhile: work.txt.",
    ] {
        assert!(prompt.contains(part), "{part} in {prompt}");
    }
    assert_eq!(story.read("agents.log"), format!("{FIRST}  \n{SECOND}  \n"));
}

// covers: HANK-81
#[test]
fn another_model_or_account_of_an_agent_goes_on_in_its_session() {
    let mut story = Story::new();
    story.0.set("WORK_ACCOUNT", "work");
    let account = json!({"env": {"ACCOUNT_KEY": "$WORK_ACCOUNT"}});
    story.hank(&["one"], &json!([account, SECOND]), &json!({}));
    story.refuse(FIRST, LIMIT);
    let ended = story.0.run(["run", "--headless"]);
    ended.expect_code(0);
    story.expect_attempts(&[
        ("one", FIRST, "failed"),
        ("one", FIRST, "failed"),
        ("one", SECOND, "completed"),
    ]);
    let log = story.read("agents.log");
    assert_eq!(log, format!("{FIRST}  \n{FIRST} resumed \n{SECOND} resumed \n"));
    assert!(
        story
            .read(&format!("prompt-{SECOND}"))
            .starts_with("You were interrupted")
    );
    assert!(
        ended.stderr.contains("in the same session") || ended.stdout.contains("in the same session"),
        "{ended}"
    );
    let other = format!("falls back to command with {FIRST} (fallback 1) instead of command with {FIRST}, ");
    assert!(ended.stdout.contains(&other), "{ended}");
    let state = std::fs::read_to_string(story.0.directory().join(".hankweave/state.json")).unwrap();
    assert!(
        !state.contains("$WORK_ACCOUNT") && state.contains("[not recorded]"),
        "variables have no values in the record"
    );
}

// covers: HANK-80
#[test]
fn outages_come_after_the_retries_and_attempts_count_together() {
    let story = Story::new();
    let policy = json!({"onFailure": "retry", "retryConfig": {"maxAttempts": 2, "delayMs": 1}});
    story.hank(&["one"], &json!([SECOND, THIRD]), &policy);
    story.refuse(FIRST, OUTAGE);
    story.refuse(SECOND, OUTAGE);
    story.0.run(["run", "--headless"]).expect_code(0);
    story.expect_attempts(&[
        ("one", FIRST, "failed"),
        ("one", FIRST, "failed"),
        ("one", FIRST, "failed"),
        // Its retries were used up by the first model.
        ("one", SECOND, "failed"),
        ("one", THIRD, "completed"),
    ]);
}

// covers: HANK-80
#[test]
fn an_unknown_model_is_not_asked_for_again_and_an_exhausted_list_fails() {
    let story = Story::new();
    story.hank(&["one", "two"], &json!([SECOND, "wait"]), &json!({}));
    story.refuse(FIRST, UNKNOWN);
    story.0.run(["run", "--headless"]).expect_code(0);
    story.expect_attempts(&[
        ("one", FIRST, "failed"),
        ("one", SECOND, "completed"),
        ("two", SECOND, "completed"),
    ]);
    story.refuse(SECOND, OUTAGE);
    story.0.run(["run", "--headless", "--new"]).expect_code(1);
    let attempts = story.attempts();
    let last: Vec<&str> = attempts[3..].iter().map(|(_, model, _)| &**model).collect();
    assert_eq!(last, [FIRST, SECOND]);
}

// covers: HANK-80, F10
#[test]
fn a_list_of_limits_pauses_as_without_one() {
    let story = Story::new();
    story.hank(&["one"], &json!([SECOND]), &json!({}));
    story.refuse(FIRST, LIMIT);
    story.refuse(SECOND, LIMIT);
    story
        .0
        .run(["run", "--headless", "--max-wait", "1"])
        .expect_code(3);
    story.expect_attempts(&[("one", FIRST, "failed"), ("one", SECOND, "failed")]);
    // With more patience it waits, and is stopped while it does.
    let mut running = story.0.start(["run", "--headless", "--json", "--max-wait", "2d"]);
    running.wait_for_line(|line| line.contains("waits for its usage limit"));
    running.signal(Signal::TERM);
    running.finish_within(DEADLINE).expect_code(143);
    assert_eq!(story.attempts().len(), 2);
}

// covers: HANK-80
#[test]
fn a_failure_of_the_codon_itself_falls_back_to_nothing() {
    let story = Story::new();
    story.hank(
        &["one"],
        &json!([SECOND]),
        &json!({"check": {"run": "false", "retries": 0}}),
    );
    story.0.run(["run", "--headless"]).expect_code(1);
    story.expect_attempts(&[("one", FIRST, "failed")]);
}

// covers: HANK-82, HANK-33
#[test]
fn budgets_hold_over_all_entries() {
    let story = Story::new();
    let budget = json!({"budget": {"maxDollars": 0.012, "onExceeded": "fail"}});
    story.hank(
        &["one"],
        &json!([{"agent": story.agent("two"), "model": SECOND}]),
        &budget,
    );
    story.refuse(FIRST, LIMIT);
    // 1,000 and 100 tokens of opus are $0.0075, of sonnet $0.0045: together as much as the limit, and the next answer would be beyond it.
    story.0.run(["run", "--headless"]).expect_code(1);
    story.expect_attempts(&[("one", FIRST, "failed"), ("one", SECOND, "failed")]);
    let state = story.0.state(&story.0.directory());
    let records = state["runs"][0]["codons"].as_array().unwrap();
    assert_usd(&records[0]["partialCost"], 0.0075);
    assert_usd(&records[1]["partialCost"], 0.0045);
    let exceeded = &records[1]["budgetExceeded"];
    assert_usd(&exceeded["limit"], 0.0045);
}

// covers: HANK-80, HANK-81
#[test]
fn a_fallback_that_is_killed_is_run_again_and_loops_checks_and_rollback_go_on() {
    let story = Story::new();
    let fallback = json!([{"agent": story.agent("two"), "model": SECOND}]);
    let codon = json!({"id": "turn", "name": "turn", "agent": story.agent("one"), "model": FIRST, "continuationMode": "fresh",
        "promptText": "TASK", "checkpointedFiles": ["*.txt"]});
    story.0.write_hank(&json!({"overrides": {"fallback": fallback}, "hank": [
        {"type": "loop", "id": "until", "name": "until", "codons": [codon], "terminateOn": {"type": "untilCheckPasses", "run": "test $(wc -l < work.txt) -ge 3", "limit": 5}}]}));
    story.refuse(FIRST, LIMIT);
    story.refuse(&format!("waits-{SECOND}"), "");
    std::fs::rename(
        story.beside(&format!("refuses-waits-{SECOND}")),
        story.beside(&format!("waits-{SECOND}")),
    )
    .unwrap();
    let mut running = story.0.start(["run", "--headless", "--json"]);
    running.wait_for_line(|line| line.contains("codon.started") && line.contains(SECOND));
    running.signal(Signal::KILL);
    running.kill();
    std::fs::remove_file(story.beside(&format!("waits-{SECOND}"))).unwrap();
    story.0.run(["run", "--headless"]).expect_code(0);
    let attempts = story.attempts();
    let after_kill = &attempts[2..];
    assert!(
        after_kill
            .iter()
            .all(|(_, model, status)| model == SECOND && status == "completed"),
        "{attempts:?}"
    );
    assert!(after_kill.len() >= 2, "{attempts:?}");
    story.0.run(["replay", "."]).expect_code(0);
    story.0.run(["rollback", "--codon", "turn#0"]).expect_code(0);
    story.0.run(["run", "--headless"]).expect_code(0);
    assert!(
        story
            .attempts()
            .iter()
            .skip(2)
            .all(|(_, model, _)| model == SECOND)
    );
}

// covers: HANK-81
#[test]
fn a_codon_continues_the_conversation_of_another_agent_by_a_summary() {
    let story = Story::new();
    story.hank(
        &["one", "two"],
        &json!([{"agent": story.agent("two"), "model": SECOND}]),
        &json!({}),
    );
    let hank = std::fs::read_to_string(story.0.directory().join("hank.json")).unwrap();
    let mut hank: Value = serde_json::from_str(&hank).unwrap();
    hank["hank"][1]["continuationMode"] = json!("continue-previous");
    story.0.write_hank(&hank);
    story.refuse(FIRST, UNKNOWN);
    // The second codon has its own agent again when it starts in a run of its own.
    story.refuse(SECOND, "a failure of the agent");
    story.0.run(["run", "--headless"]).expect_code(1);
    std::fs::remove_file(story.beside(&format!("refuses-{SECOND}"))).unwrap();
    hank["hank"][0]["approval"] = Value::Null;
    hank["hank"][0].as_object_mut().unwrap().remove("approval");
    hank["hank"][1]["approval"] = json!(true);
    story.0.write_hank(&hank);
    story.0.run(["run", "--headless", "--new"]).expect_code(3);
    std::fs::remove_file(story.beside(&format!("refuses-{FIRST}"))).unwrap();
    story.0.run(["approve"]).expect_code(0);
    story.0.run(["run", "--headless"]).expect_code(0);
    let attempts = story.attempts();
    let (codon, model, status) = attempts.last().unwrap();
    assert_eq!((&**codon, &**model, &**status), ("two", FIRST, "completed"));
    let prompt = story.read(&format!("prompt-{FIRST}"));
    assert!(
        prompt.starts_with("TASK-two\n\nThe task above continues the conversation of another agent"),
        "{prompt}"
    );
    assert!(
        prompt.contains("> TASK-one") && prompt.contains("> I am claude-sonnet-4-5, half-way."),
        "{prompt}"
    );
}

// covers: HANK-83, HANK-84
#[test]
fn validate_refuses_what_cannot_take_over_and_tells_prices() {
    let story = Story::new();
    let validate = |fallback: Value, more: &Value| {
        story.hank(&["one"], &fallback, more);
        story.0.run(["validate"])
    };
    let limited = json!({"budget": {"maxDollars": 1}});
    let none = json!({});
    for (fallback, more, words) in [
        (
            json!([{"agent": "coder", "model": "x"}]),
            &none,
            "fallback[0] (codon \"one\"): no agent is called `coder`",
        ),
        (
            json!([FIRST]),
            &none,
            " one) with claude-opus-4-5, what the codon has anyway",
        ),
        (json!([SECOND, SECOND]), &none, "an entry before it"),
        (json!(["wait", "wait"]), &none, "waits already"),
        (json!([{"agent": "codex"}]), &none, "model"),
        (
            json!(["house-model"]),
            &limited,
            "nobody here knows the price of `house-model`",
        ),
        (
            json!([{"env": {"ANTHROPIC_API_KEY": "$NOT_SET_HERE"}}]),
            &none,
            "`NOT_SET_HERE` is not set here",
        ),
        (
            json!([{}]),
            &none,
            "must name a model, an agent or an environment",
        ),
        (json!("sonnet"), &none, "must be a list of models and agents"),
    ] {
        let refused = validate(fallback.clone(), more);
        refused.expect_code(1);
        assert!(refused.stdout.contains(words), "{fallback}: {refused}");
    }
    let good = json!([SECOND, "wait", {"env": {"ANTHROPIC_API_KEY": "plain"}}]);
    let told = validate(good, &limited).expect_code(0).stdout.clone();
    // With the program that it starts.
    let agent = format!("sh {}/agent.sh one", story.0.directory().display());
    let words = format!(
        "falls back to command ({agent}) with claude-sonnet-4-5 ($3.0000 in, $15.0000 out per million tokens), then a wait for the usage limit, then command ({agent}) with claude-opus-4-5 and another ANTHROPIC_API_KEY"
    );
    assert!(told.contains(&words), "{told}");
    assert_eq!(
        told.matches(&format!("starts {agent} (fallback)\n")).count(),
        2,
        "{told}"
    );
    let rehearsed = story.0.run(["run", "--headless", "--rehearse"]);
    rehearsed.expect_code(0);
    let told = format!("{}{}", rehearsed.stdout, rehearsed.stderr);
    assert!(
        told.contains("would fall back to: claude-sonnet-4-5, then a wait for the usage limit"),
        "{rehearsed}"
    );
}

// covers: HANK-80
#[test]
fn approvals_and_sentinels_are_asked_once_and_watch_each_attempt() {
    let story = Story::new();
    let watch = json!({"id": "watch", "name": "Watch", "command": ["sh", "-c", "cat > /dev/null; echo seen"], "execution": {"strategy": "immediate"},
        "trigger": {"type": "event", "on": ["assistant.action"]}});
    story.hank(
        &["one"],
        &json!([{"agent": story.agent("two"), "model": SECOND}]),
        &json!({"approval": true, "sentinels": [{"sentinelConfig": watch}]}),
    );
    story.refuse(FIRST, LIMIT);
    story.0.run(["run", "--headless"]).expect_code(3);
    story.0.run(["approve"]).expect_code(0);
    story.0.run(["run", "--headless"]).expect_code(0);
    story.expect_attempts(&[("one", FIRST, "failed"), ("one", SECOND, "completed")]);
    let state = story.0.state(&story.0.directory());
    for record in state["runs"][0]["codons"].as_array().unwrap() {
        assert_eq!(record["sentinels"]["executed"][0]["id"], "watch", "{record:#}");
    }
    assert_eq!(codon(&state["runs"][0], "one")["chosenAgent"]["entry"], 0);
}

// covers: HANK-80, HANK-82
#[test]
fn a_task_falls_back_and_its_cost_is_that_of_both_agents() {
    let story = Story::new();
    let base = story.0.directory().parent().unwrap().to_owned();
    story.refuse(FIRST, LIMIT);
    let codon = json!({"id": "one", "name": "one", "agent": story.agent("one"), "model": FIRST, "continuationMode": "fresh", "promptText": "TASK",
        "env": {"BASE": base}, "checkpointedFiles": ["*.txt"], "fallback": [{"agent": story.agent("two"), "model": SECOND}]});
    story
        .0
        .write("page/hank.json", json!({"hank": [codon]}).to_string());
    let create = ["task", "create", "Take over", "--hank", "page", "--id", "over"];
    story.0.run(create).expect_code(0);
    story.0.run(["worker", "--once"]).expect_code(0);
    let shown = story
        .0
        .run(["task", "show", "over", "--json"])
        .expect_code(0)
        .json_document();
    assert_eq!(shown["task"]["status"], "completed", "{shown:#}");
    assert_usd(&shown["task"]["cost"], 0.0075 + 0.0045);
}

/// The answer of claude's provider when a subscription is used up, until an hour from now.
fn used_up() -> Value {
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap();
    let headers = json!({
        "retry-after": "7200", "anthropic-ratelimit-unified-status": "rejected",
        "anthropic-ratelimit-unified-reset": (now.as_secs() + 3_600).to_string(),
        "anthropic-ratelimit-unified-representative-claim": "five_hour",
        "anthropic-ratelimit-unified-overage-status": "rejected",
    });
    json!({"error": {"status": 429, "type": "rate_limit_error", "message": "limit", "headers": headers}, "repeat": "forever"})
}

fn says(text: &str, input: u64, output: u64) -> Value {
    json!({"text": text, "usage": {"input": input, "output": output}})
}

fn writes(name: &str, input: u64, output: u64) -> Value {
    json!({"text": format!("I write {name}."), "usage": {"input": input, "output": output},
        "tools": [{"op": "write", "path": format!("${{CWD}}/{name}"), "content": "made\n"}]})
}

/// A project in which the real claude asks this server, and the real codex where there is one.
fn real_stage(scenario: Value) -> Option<(TestProject, ModelServer, bool)> {
    let claude = match agents::claude() {
        Ok(claude) => claude,
        Err(skip) => {
            println!("{skip}");
            return None;
        }
    };
    let server = ModelServer::start(Scenario::try_from(scenario).unwrap()).unwrap();
    let codex = RealAgent::codex(agents::codex())
        .inspect_err(|skip| println!("{skip}"))
        .ok();
    let mut project = match &codex {
        Some(codex) => codex.another_machine(&server),
        None => project(),
    };
    project.set("HANKWEAVE_CLAUDE_PATH", claude);
    for (file, text) in settings(&server) {
        let file = project.home().join(file);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, text).unwrap();
    }
    Some((project, server, codex.is_some()))
}

fn claude_codon(server: &ModelServer, id: &str, fallback: &Value, with_key: bool) -> Value {
    let mut codon = json!({"id": id, "name": id, "agent": "claude", "model": "claude-opus-4-5", "continuationMode": "fresh",
        "promptText": format!("TASK-{id}"), "checkpointedFiles": ["**/*.txt"], "fallback": fallback,
        "env": {"ANTHROPIC_BASE_URL": server.url(), "CLAUDE_CODE_MAX_RETRIES": "1", "DISABLE_TELEMETRY": "1", "DISABLE_ERROR_REPORTING": "1",
            "DISABLE_AUTOUPDATER": "1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "SCRIPTED_KEY": "sk-good"}});
    let (name, key) = match with_key {
        true => ("ANTHROPIC_API_KEY", "sk-test"),
        false => ("CLAUDE_CODE_OAUTH_TOKEN", "sk-ant-oat01-none"),
    };
    codon["env"][name] = json!(key);
    codon
}

/// What was served to each model, in dollars.
fn served(server: &ModelServer) -> f64 {
    let rate = |lane: &str| match lane {
        "opus" => (5.0, 25.0),
        "sonnet" => (3.0, 15.0),
        "codex" => (1.25, 10.0),
        other => panic!("{other} was asked"),
    };
    let served = server.served();
    let whole = served.iter().filter(|one| one.whole && one.input > 0);
    whole
        .map(|one| {
            let (input, output) = rate(&one.lane);
            (one.input as f64 * input + one.output as f64 * output) / 1e6
        })
        .sum()
}

fn records(project: &TestProject) -> Vec<Value> {
    let state = project.state(&project.directory());
    let runs = state["runs"].as_array().unwrap().iter().rev();
    runs.flat_map(|run| run["codons"].as_array().unwrap().clone())
        .collect()
}

#[track_caller]
fn assert_served(project: &TestProject, server: &ModelServer) {
    let state = project.state(&project.directory());
    let runs = state["runs"].as_array().unwrap();
    let records = runs.iter().flat_map(|run| run["codons"].as_array().unwrap());
    let cost = |record: &Value| {
        record
            .get("finalCost")
            .or(record.get("partialCost"))
            .unwrap()
            .as_f64()
            .unwrap()
    };
    let sum: f64 = records.map(cost).sum();
    assert_usd(&json!(sum), served(server));
    assert_eq!(project.left_behind(), []);
}

// covers: HANK-80, HANK-81, HANK-82
#[test]
fn the_real_codex_takes_over_from_the_real_claude_and_begins_the_next_codon() {
    let scenario = json!({"lanes": [
        {"name": "codex", "when": {"dialect": "responses"}, "turns": [says("Taken over.", 700, 30), says("And the second.", 500, 20)]},
        {"name": "opus", "when": {"model": "opus"}, "turns": [writes("half.txt", 1000, 100), used_up()]}]});
    let Some((project, server, with_codex)) = real_stage(scenario) else {
        return;
    };
    if !with_codex {
        return;
    }
    let fallback = json!([{"agent": "codex", "model": "gpt-5.1-codex"}]);
    let codons = ["one", "two"].map(|id| claude_codon(&server, id, &fallback, false));
    project.write_hank(&json!({"overrides": {"budget": {"maxDollars": 5}}, "hank": codons}));
    project.run(["run", "--headless"]).expect_code(0);
    let records = records(&project);
    let [limited, taken, next] = &records[..] else {
        panic!("{records:#?}");
    };
    assert!(limited["failureReason"]["retryAt"].is_string(), "{limited:#}");
    for (record, id) in [(taken, "one"), (next, "two")] {
        assert_eq!(
            (&record["codonId"], &record["status"]),
            (&json!(id), &json!("completed")),
            "{record:#}"
        );
        assert_eq!(record["chosenAgent"]["agent"], "codex");
        assert_eq!(record["chosenAgent"]["instead"]["agent"], "claude");
    }
    assert_served(&project, &server);
    let asked = format!("{:?}", server.requests());
    for part in [
        "Another agent (claude with claude-opus-4-5) began this task",
        "I write half.txt.",
        "It used these tools: Write.",
    ] {
        assert!(asked.contains(part), "{part}");
    }
    let replayed = project.run(["replay", "."]);
    replayed.expect_code(0);
    let report = project.run(["report"]).expect_code(0).stdout.clone();
    assert!(
        report.contains("codex") && report.contains("usage limit"),
        "{report}"
    );
}

// covers: HANK-80, HANK-82
#[test]
fn the_work_of_a_sub_agent_counts_when_another_agent_takes_over() {
    let task = json!({"op": "task", "description": "Small job", "prompt": "DELEGATED: write", "subagent": "general-purpose", "background": false});
    let delegates = json!({"text": "I delegate.", "tools": [task], "usage": {"input": 1000, "output": 40}});
    let scenario = json!({"lanes": [
        {"name": "codex", "when": {"dialect": "responses"}, "turns": [says("Taken over.", 700, 30)]},
        {"name": "opus", "when": {"first_user": "DELEGATED"}, "turns": [writes("half.txt", 2000, 200), says("Written.", 2100, 50)]},
        {"name": "opus", "when": {"model": "opus"}, "turns": [delegates, used_up()]}]});
    let Some((project, server, true)) = real_stage(scenario) else {
        return;
    };
    let fallback = json!([{"agent": "codex", "model": "gpt-5.1-codex"}]);
    let codon = claude_codon(&server, "one", &fallback, false);
    project.write_hank(&json!({"overrides": {"budget": {"maxDollars": 5}}, "hank": [codon]}));
    project.run(["run", "--headless"]).expect_code(0);
    assert!(project.directory().join("half.txt").exists());
    let records = records(&project);
    let [limited, taken] = &records[..] else {
        panic!("{records:#?}");
    };
    assert!(limited["failureReason"]["retryAt"].is_string(), "{limited:#}");
    assert_eq!(taken["chosenAgent"]["agent"], "codex");
    assert_served(&project, &server);
}

// covers: HANK-80, HANK-81
#[test]
fn the_real_opencode_takes_over_from_the_real_claude() {
    let scenario = json!({"lanes": [
        {"name": "opus", "when": {"model": "opus"}, "turns": [writes("half.txt", 1000, 100), used_up()]},
        {"name": "opencode", "when": {"model": "m"}, "turns": [writes("rest.txt", 700, 30), says("Taken over.", 800, 20)]}]});
    let claude = match agents::claude() {
        Ok(claude) => claude,
        Err(skip) => return println!("{skip}"),
    };
    let server = ModelServer::start(Scenario::try_from(scenario).unwrap()).unwrap();
    let Some((agent, model, speaker)) = natives(&server).find(|(agent, ..)| *agent == "opencode") else {
        return;
    };
    let mut project = native(agent, model, &speaker, &server);
    project.set("HANKWEAVE_CLAUDE_PATH", claude);
    let fallback = json!([{"agent": agent, "model": model, "env": speaker.env}]);
    project.write_hank(&json!({"hank": [claude_codon(&server, "one", &fallback, false)]}));
    project.run(["run", "--headless"]).expect_code(0);
    let records = records(&project);
    let [limited, taken] = &records[..] else {
        panic!("{records:#?}");
    };
    assert!(limited["failureReason"]["retryAt"].is_string(), "{limited:#}");
    assert_eq!(
        (&taken["status"], &taken["chosenAgent"]["agent"]),
        (&json!("completed"), &json!("opencode")),
        "{taken:#}"
    );
    for file in ["half.txt", "rest.txt"] {
        assert!(project.directory().join(file).exists(), "{file}");
    }
    let asked = format!("{:?}", server.requests());
    for part in [
        "Another agent (claude with claude-opus-4-5) began this task",
        "I write half.txt.",
    ] {
        assert!(asked.contains(part), "{part}");
    }
    assert_eq!(project.left_behind(), []);
}

// covers: HANK-80, HANK-81
#[test]
fn another_model_of_the_real_claude_goes_on_in_its_session() {
    let overloaded = json!({"error": {"status": 529, "type": "overloaded_error", "message": "Overloaded"}, "repeat": "forever"});
    let unknown = json!({"error": {"status": 404, "type": "not_found_error", "message": "model: nine"}, "repeat": "forever"});
    for (failure, begun) in [(overloaded, true), (unknown, false)] {
        let first = match begun {
            true => vec![writes("half.txt", 1000, 100), failure],
            false => vec![failure],
        };
        let scenario = json!({"lanes": [
            {"name": "sonnet", "when": {"model": "sonnet"}, "turns": [writes("rest.txt", 800, 40), says("Done.", 900, 30)]},
            {"name": "opus", "when": {"model": "opus"}, "turns": first}]});
        let Some((project, server, _)) = real_stage(scenario) else {
            return;
        };
        let codon = claude_codon(&server, "one", &json!(["claude-sonnet-4-5"]), true);
        project.write_hank(&json!({"hank": [codon]}));
        project.run(["run", "--headless"]).expect_code(0);
        let records = records(&project);
        let [failed, done] = &records[..] else {
            panic!("{records:#?}");
        };
        assert_eq!(
            (&failed["status"], &done["status"]),
            (&json!("failed"), &json!("completed"))
        );
        assert_eq!(done["chosenAgent"]["model"], "claude-sonnet-4-5");
        let same = failed["claudeSessionId"] == done["claudeSessionId"];
        assert_eq!(
            same, begun,
            "a session in which nothing was done is left: {records:#?}"
        );
        assert_served(&project, &server);
        project.run(["replay", "."]).expect_code(0);
    }
}

/// Files of an attempt that a fallback replaced are work of the codon, also when the fallback is killed.
// covers: CLI-44, CLI-62, HANK-80
#[test]
fn files_of_a_replaced_attempt_are_not_denied_after_the_fallback_was_killed() {
    let story = Story::new();
    story.refuse(FIRST, LIMIT);
    std::fs::write(story.beside(&format!("waits-{SECOND}")), "").unwrap();
    let agent = story.agent("command");
    let mut build = json!({"id": "build", "name": "Build", "agent": agent, "model": FIRST, "continuationMode": "fresh",
        "promptText": "go", "checkpointedFiles": ["work.txt"]});
    build["fallback"] = json!([SECOND]);
    story.0.write_hank(&json!({"hank": [build]}));
    let mut running = story.0.start(["run", "--headless"]);
    running.wait_for_line(|line| line.contains(&format!("I am {SECOND}, half-way.")));
    let work = story.0.directory().join("work.txt");
    while !std::fs::read_to_string(&work).is_ok_and(|text| text.contains(SECOND)) {
        std::thread::yield_now();
    }
    running.kill();
    let report = story.0.run(["report"]).expect_code(0).stdout.clone();
    assert!(
        report.contains("> `build`: left 1 file changed, `work.txt`"),
        "{report}"
    );
    assert!(
        report.contains(&format!("Worked on by: command with {FIRST} (`build`); ")),
        "{report}"
    );
    let diff = story.0.run(["diff", "build"]).expect_code(0).stdout.clone();
    assert!(
        diff.contains(&format!("+{FIRST}")) && diff.contains(&format!("+{SECOND}")),
        "{diff}"
    );
}

/// Every screen names a fallback agent that started after an outage, was stopped and continues in its session. The first agent is named as well,
/// because it worked on the codon. The command that continues names the agent that it continues with.
// covers: HANK-80, HANK-81, CLI-14, CLI-44
#[test]
fn a_stand_in_that_continues_in_its_session_is_told_as_that() {
    let story = Story::new();
    let other = json!({"agent": story.agent("two"), "model": SECOND});
    story.hank(&["one"], &json!([other]), &json!({}));
    story.refuse(FIRST, OUTAGE);
    std::fs::write(story.beside(&format!("waits-{SECOND}")), "").unwrap();
    let mut run = story.0.start(["run", "--headless", "--json"]);
    run.wait_for_line(|line| {
        line.contains("\"assistant.action\"") && line.contains(&format!("I am {SECOND}"))
    });
    run.signal(Signal::INT);
    run.finish_within(DEADLINE).expect_code(130);
    let instead =
        format!("ran on command with {SECOND}, instead of command with {FIRST}, which has an outage");
    let status = story.0.run(["status"]).expect_code(0).stdout.clone();
    let onward = format!("lets one continue in its session, on command with {SECOND}");
    assert!(status.contains(&instead) && status.contains(&onward), "{status}");
    std::fs::remove_file(story.beside(&format!("waits-{SECOND}"))).unwrap();
    story
        .0
        .run(["run", "--headless", "--recover", "session"])
        .expect_code(0);
    for command in ["status", "report"] {
        let told = story.0.run([command]).expect_code(0).stdout.clone();
        assert!(told.contains(&instead), "{command}: {told}");
    }
    let report = story.0.run(["report"]).expect_code(0).stdout.clone();
    let worked = report
        .lines()
        .find(|line| line.starts_with("Worked on by: "))
        .unwrap();
    assert!(worked.contains(FIRST) && worked.contains(SECOND), "{worked}");
}

/// The first agent is limited for years, and the second one has an outage: a run that the user starts later asks the second one again.
// covers: HANK-80
#[test]
fn a_new_run_asks_an_agent_again_that_had_an_outage() {
    let project = project();
    let limit = json!({"message": "Claude AI usage limit reached|4102444800", "status": 429});
    let script = |result: &Value| json!({"turns": [{"text": "on it", "usage": {"input": 100, "output": 10}}], "result": result});
    project.write("limited.json", script(&limit).to_string());
    project.write(
        "out.json",
        script(&json!({"message": "Overloaded", "status": 529})).to_string(),
    );
    let build = json!({"id": "build", "name": "build", "agent": {"script": "limited.json"}, "model": "opus",
        "continuationMode": "fresh", "promptText": "go", "fallback": ["wait", {"agent": {"script": "out.json"}, "model": "haiku"}]});
    project.write_hank(&json!({"hank": [build]}));
    let first = project.run(["run", "--headless"]);
    first.expect_code(3);
    assert!(!first.stderr.contains("waited before"), "nobody waited: {first}");
    project.write(
        "out.json",
        json!({"turns": [{"text": "done", "usage": {"input": 100, "output": 10},
        "tools": [{"write": {"path": "done.txt", "content": "done"}}]}]})
        .to_string(),
    );
    project.run(["run", "--headless"]).expect_code(0);
    let state = project.state(&project.directory());
    let chosen = &state["runs"][0]["codons"][0]["chosenAgent"];
    assert_eq!(chosen["model"], "haiku", "{state:#}");
}
