//! Sentinels that act on the end of their codon.

use std::fs;
use std::time::Duration;

use hankweave_testing::{Finished, TestProject};
use serde_json::{Value, json};

use crate::sentinel_models::{ONE_ANSWER, server};
use crate::support::{assert_usd, codon, project, shell_agent};

/// A sentinel that acts on the end of its codon with this script, and `more`.
fn closing(script: &str, more: Value) -> Value {
    let mut config = json!({"id": "closing", "name": "C", "command": ["sh", "-c", script],
        "trigger": {"type": "event", "on": ["codon.completed"]}, "execution": {"strategy": "immediate"}});
    config
        .as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    config
}

/// Says what it was shown, and `costs` a number of dollars.
fn says(costs: &str) -> String {
    let outcome = r#"cat | sed 's/.*"success":\([a-z]*\).*/\1/'"#;
    format!("outcome=$({outcome}); echo '{{\"text\": \"success '$outcome'\", \"costDollars\": {costs}}}'")
}

fn asks(what: &str) -> String {
    format!("cat > /dev/null; echo '{{\"text\": \"x\", \"ask\": \"{what}\", \"reason\": \"enough\"}}'")
}

fn one(id: &str, agent: &Value, sentinels: Value) -> Value {
    json!({"id": id, "name": id, "agent": agent, "model": "shell", "continuationMode": "fresh", "promptText": "go",
        "checkpointedFiles": ["done.txt", "notes/*"], "sentinels": sentinels})
}

fn of<'e>(lines: &'e [Value], kind: &str) -> Vec<&'e Value> {
    let lines = lines.iter().filter(|line| line["type"] == kind);
    lines.map(|line| &line["data"]).collect()
}

fn run(project: &TestProject, code: i32) -> (Finished, Value) {
    let finished = project.run(["run", "--headless", "--json"]);
    finished.expect_code(code);
    let state = project.state(&project.directory());
    (finished, state)
}

/// Where in the output the first line of this type about this codon is.
#[track_caller]
fn position(lines: &[Value], kind: &str, id: &str) -> usize {
    let is_it = |line: &Value| line["type"] == kind && line["data"]["codonId"] == id;
    lines.iter().position(is_it).unwrap()
}

// covers: SENT-23, SENT-10, STATE-29
#[test]
fn a_sentinel_acts_on_the_end_of_its_codon_before_the_next_one_begins_and_its_cost_counts() {
    let project = project();
    let agent = shell_agent(&project);
    let output = json!({"answer": "json", "output": {"file": "notes/end.md"}});
    let watched = json!([{"sentinelConfig": closing(&says("0.25"), output)}]);
    project.write_hank(&json!({"hank": [one("a", &agent, watched), one("b", &agent, json!([]))]}));
    let (finished, state) = run(&project, 0);
    let lines = finished.json_lines();
    let order = [
        position(&lines, "codon.completed", "a"),
        position(&lines, "sentinel.output", "a"),
        position(&lines, "sentinel.unloaded", "a"),
        position(&lines, "codon.started", "b"),
    ];
    assert!(order.is_sorted(), "{order:?}");
    let record = codon(&state["runs"][0], "a");
    let sentinel = &record["sentinels"]["executed"][0];
    assert_eq!(
        (
            &record["status"],
            &sentinel["status"],
            &sentinel["unloadReason"],
            &sentinel["llmCallCount"]
        ),
        (
            &json!("completed"),
            &json!("unloaded"),
            &json!("codon-complete"),
            &json!(1)
        )
    );
    assert_usd(&record["sentinels"]["totalCost"], 0.25);
    assert_eq!(
        fs::read_to_string(project.directory().join("notes/end.md")).unwrap(),
        "success true"
    );
    let cost = project.run(["state", "cost", "--json"]).json_document();
    assert!(cost.to_string().contains("0.25"), "{cost}");
    project.run(["state", "validate"]).expect_code(0);
    // What it has written is in the next checkpoint, and no change of the next codon.
    assert_eq!(
        codon(&state["runs"][0], "b")["filesChanged"],
        json!(1),
        "{state:#}"
    );
    let sha = |id: &str| {
        codon(&state["runs"][0], id)["completionCheckpoint"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    let between = format!("{}..{}", sha("a"), sha("b"));
    for (range, is_in) in [("b", false), (&between, true)] {
        let diff = project
            .run(["diff", range, "--stat"])
            .expect_code(0)
            .stdout
            .clone();
        assert_eq!(diff.contains("notes/end.md"), is_in, "{range}: {diff}");
    }
}

// covers: SENT-23
#[test]
fn the_end_of_a_codon_that_failed_or_was_skipped_is_told_and_that_of_one_that_stops_is_not() {
    for (prompt, by, status, said) in [
        ("fail", "", "failed", Some("success false")),
        ("wait for go", "skip", "skipped", Some("success false")),
        ("wait for go", "stop", "failed", Some("success false")),
        ("wait for go", "pause", "failed", None),
    ] {
        let project = project();
        let agent = json!({"command": ["sh", "-c", "cat > /dev/null; exit 3"], "stream": "claude"});
        let agent = if prompt == "fail" {
            agent
        } else {
            shell_agent(&project)
        };
        let guard = json!({"sentinelConfig": {"id": "guard", "name": "G", "command": ["sh", "-c", asks(by)], "answer": "json",
            "trigger": {"type": "event", "on": ["assistant.action"]}, "execution": {"strategy": "immediate"}},
            "settings": {"mayAsk": ["skip", "stop", "pause"]}});
        let last_word = json!({"sentinelConfig": closing(&says("0"), json!({"answer": "json"}))});
        let mut first = one("a", &agent, json!([guard, last_word]));
        first["promptText"] = json!(prompt);
        project.write_hank(&json!({"hank": [first]}));
        let finished = project.run(["run", "--headless", "--json"]);
        let state = project.state(&project.directory());
        let record = codon(&state["runs"][0], "a");
        assert_eq!(record["status"], status, "{by}: {finished}");
        let lines = finished.json_lines();
        let told: Vec<&str> = of(&lines, "sentinel.output")
            .into_iter()
            .filter(|data| data["sentinelId"] == "closing")
            .filter_map(|data| data["content"].as_str())
            .collect();
        assert_eq!(told, said.into_iter().collect::<Vec<_>>(), "{by}: {finished}");
        // A rehearsal gives up what was collected where the run did.
        let collects = json!({"trigger": {"type": "event", "on": ["assistant.action", "codon.completed"]},
            "execution": {"strategy": "count", "threshold": 900}});
        project.write("closing.json", closing("wc -c", collects).to_string());
        let rehearsed = project.run(["sentinel", "test", "closing.json", "--json"]);
        let firings = rehearsed.expect_code(0).json_lines();
        let kinds: Vec<&Value> = firings
            .iter()
            .flat_map(|firing| firing["events"].as_array().unwrap())
            .map(|event| &event["type"])
            .collect();
        let expected: Vec<&str> = said.iter().map(|_| "codon.completed").collect();
        assert_eq!(kinds, expected, "{by}: {rehearsed}");
        let executed = record["sentinels"]["executed"].as_array().unwrap();
        assert!(
            executed.iter().all(|one| one["status"] == "unloaded"),
            "{record:#}"
        );
        assert_eq!(project.left_behind(), []);
    }
}

// covers: SENT-23, SENT-13
#[test]
fn after_the_end_a_sentinel_may_pause_the_run_and_change_nothing_else() {
    for what in ["skip", "stop", "pause"] {
        let project = project();
        let agent = shell_agent(&project);
        let watched = json!([{"sentinelConfig": closing(&asks(what), json!({"answer": "json"})), "settings": {"mayAsk": [what]}}]);
        project.write_hank(&json!({"hank": [one("a", &agent, watched), one("b", &agent, json!([]))]}));
        let checked = project.run(["validate"]).expect_code(0).stdout.clone();
        let warns = format!("then `{what}` does nothing; grant `pause`");
        assert_eq!(checked.contains(&warns), what != "pause", "{checked}");
        let (finished, state) = run(&project, if what == "pause" { 3 } else { 0 });
        let run_record = &state["runs"][0];
        assert_eq!(codon(run_record, "a")["status"], "completed");
        let lines = finished.json_lines();
        let infos = of(&lines, "info");
        let late = format!("sentinel closing asks for `{what}`, but its codon has ended: enough");
        assert_eq!(infos.iter().any(|data| data["message"] == late), what != "pause");
        let codons = run_record["codons"].as_array().unwrap().len();
        assert_eq!(codons, if what == "pause" { 1 } else { 2 });
        if what == "pause" {
            assert_eq!(run_record["interruptedBy"], "sentinel");
            assert_eq!(run_record["cause"], "a: paused by sentinel closing: enough");
            // The sentinel is not asked about this end again.
            let (_, state) = run(&project, 0);
            assert_eq!(state["runs"][0]["codons"].as_array().unwrap().len(), 1);
            assert_eq!(codon(&state["runs"][0], "b")["status"], "completed");
        }
    }
}

// covers: SENT-23, SENT-20
#[test]
fn the_budget_of_the_hank_holds_after_the_end_as_well() {
    let server = server(json!([{"text": "fine"}]));
    let asks = |id: &str| {
        json!({"sentinelConfig": {"id": id, "name": "C", "model": "anthropic/claude-haiku-4-5",
            "userPromptText": "{{ events[0].data.success }}",
            "trigger": {"type": "event", "on": ["codon.completed"]}, "execution": {"strategy": "immediate"}}})
    };
    // The first answer uses the budget up: the next codon does not start, and no sentinel is asked about it.
    let mut project = project();
    project
        .set("ANTHROPIC_BASE_URL", server.url())
        .set("ANTHROPIC_API_KEY", crate::sentinel_models::KEY);
    let agent = json!("scripted");
    project.write_hank(&json!({"overrides": {"budget": {"maxDollars": ONE_ANSWER}},
        "hank": [one("a", &agent, json!([asks("one")])), one("b", &agent, json!([asks("one")]))]}));
    let paused = project.run(["run", "--headless"]);
    paused.expect_code(3);
    let state = project.state(&project.directory());
    let record = &state["runs"][0];
    assert_eq!(
        (
            &record["interruptedBy"],
            record["codons"].as_array().unwrap().len()
        ),
        (&json!("ceiling"), 1)
    );
    assert_usd(&codon(record, "a")["sentinels"]["totalCost"], ONE_ANSWER);
    assert_eq!(server.requests().len(), 1);
}

// covers: SENT-23, SENT-21
#[test]
fn what_was_asked_about_an_end_is_asked_once_whatever_is_killed() {
    let project = project();
    let agent = shell_agent(&project);
    let waits = "cat > /dev/null; echo asked >> asked.txt; while [ ! -e never ]; do sleep 0.1; done";
    let watched = json!([{"sentinelConfig": closing(waits, json!({})), "settings": {"reportToWebsocket": {"triggers": true}}}]);
    project.write_hank(&json!({"hank": [one("a", &agent, watched), one("b", &agent, json!([]))]}));
    let mut running = project.start(["run", "--headless", "--json"]);
    running.wait_for_line(|line| line.contains("\"sentinel.triggered\""));
    running.kill();
    let asked = || fs::read_to_string(project.directory().join("asked.txt")).unwrap_or_default();
    let before = asked();
    let (finished, state) = run(&project, 0);
    assert_eq!(asked(), before);
    let lines = finished.json_lines();
    assert!(of(&lines, "sentinel.triggered").is_empty());
    // That it was asked was recorded before it was.
    let record = codon(&state["runs"][1], "a");
    assert_eq!(
        (
            &record["status"],
            &record["sentinels"]["executed"][0]["llmCallCount"]
        ),
        (&json!("completed"), &json!(1))
    );
    assert_eq!(codon(&state["runs"][0], "b")["status"], "completed");
    assert_eq!(project.left_behind(), []);
    project.run(["state", "validate"]).expect_code(0);
}

// covers: SENT-23
#[test]
fn a_stop_waits_for_no_last_word() {
    let project = project();
    let agent = shell_agent(&project);
    let waits = "cat > /dev/null; while [ ! -e never ]; do sleep 0.1; done";
    let watched = json!([{"sentinelConfig": closing(waits, json!({})), "settings": {"reportToWebsocket": {"triggers": true}}}]);
    project.write_hank(&json!({"hank": [one("a", &agent, watched), one("b", &agent, json!([]))]}));
    let mut running = project.start(["run", "--headless", "--json"]);
    running.wait_for_line(|line| line.contains("\"sentinel.triggered\""));
    project.run(["stop"]).expect_code(0);
    running.finish_within(Duration::from_secs(20)).expect_code(3);
    let state = project.state(&project.directory());
    let record = codon(&state["runs"][0], "a");
    assert_eq!(record["status"], "completed");
    assert_eq!(record["sentinels"]["executed"][0]["status"], "unloaded");
    assert_eq!(project.left_behind(), []);
}

// covers: SENT-23, SENT-12
#[test]
fn each_iteration_and_each_attempt_has_its_own_end_and_a_question_comes_after_it() {
    let project = project();
    let agent = shell_agent(&project);
    let watched = json!([{"sentinelConfig": closing(&says("0.125"), json!({"answer": "json"}))}]);
    let mut asked = one("b", &agent, json!([]));
    asked["approval"] = json!("Go on?");
    project.write_hank(&json!({"hank": [
        {"type": "loop", "id": "l", "name": "L", "terminateOn": {"type": "iterationLimit", "limit": 2},
            "codons": [one("a", &agent, watched)]}, asked]}));
    let finished = project.run(["run", "--headless", "--json"]);
    let lines = finished.json_lines();
    let outputs: Vec<&Value> = of(&lines, "sentinel.output")
        .iter()
        .map(|data| &data["codonId"])
        .collect();
    assert_eq!(outputs, ["a#0", "a#1"], "{finished}");
    let costs: Vec<&Value> = of(&lines, "loop.iteration.completed")
        .iter()
        .map(|data| &data["costUsd"])
        .collect();
    assert_eq!(costs.len(), 2);
    let state = project.state(&project.directory());
    assert_eq!(state["runs"][0]["interruptedBy"], "approval", "{finished}");
    let ended = lines.iter().position(|line| line["type"] == "run.ended").unwrap();
    assert!(position(&lines, "sentinel.unloaded", "a#1") < ended);
    assert_usd(&codon(&state["runs"][0], "a#1")["sentinels"]["totalCost"], 0.125);
}

// covers: SENT-23, CLI-25
#[test]
fn the_rehearsal_of_a_sentinel_shows_the_end_as_a_run_does() {
    let project = project();
    let agent = shell_agent(&project);
    let config = closing(
        "wc -c",
        json!({"trigger": {"type": "event", "on": ["assistant.action", "codon.completed"]},
        "execution": {"strategy": "count", "threshold": 900}}),
    );
    project.write("closing.json", config.to_string());
    project.write_hank(&json!({"hank": [one("a", &agent, json!([{"sentinelConfig": "closing.json"}]))]}));
    let (finished, _) = run(&project, 0);
    assert_eq!(of(&finished.json_lines(), "sentinel.output").len(), 2);
    let rehearsed = project.run(["sentinel", "test", "closing.json", "--json"]);
    let firings = rehearsed.expect_code(0).json_lines();
    let kinds: Vec<Vec<&Value>> = firings
        .iter()
        .map(|firing| {
            firing["events"]
                .as_array()
                .unwrap()
                .iter()
                .map(|event| &event["type"])
                .collect()
        })
        .collect();
    assert_eq!(kinds.last().unwrap(), &["codon.completed"]);
    assert_eq!(kinds.len(), 2);
}

// covers: SENT-23, RUN-22
#[test]
fn the_last_word_is_rolled_back_and_replayed_like_others() {
    let project = project();
    let agent = shell_agent(&project);
    let output = json!({"answer": "json", "output": {"file": "notes/end.md"}});
    let watched = json!([{"sentinelConfig": closing(&says("0.25"), output)}]);
    project.write_hank(&json!({"hank": [one("a", &agent, watched), one("b", &agent, json!([]))]}));
    run(&project, 0);
    let directory = project.directory().to_string_lossy().into_owned();
    let replayed = project.run(["replay", &directory, "--speed", "max", "--json"]);
    let last = replayed.expect_code(0).json_lines().pop().unwrap();
    assert_eq!(last["data"]["difference"], Value::Null);
    let place = last["data"]["execution"].as_str().unwrap();
    assert_eq!(
        project.state(std::path::Path::new(place)),
        project.state(&project.directory())
    );
    // It came after the checkpoint of its codon, and so it goes with what came after that.
    let note = project.directory().join("notes/end.md");
    project.run(["rollback", "--codon", "a"]).expect_code(0);
    assert!(!note.exists());
    project.run(["undo"]).expect_code(0);
    assert!(note.exists());
}
