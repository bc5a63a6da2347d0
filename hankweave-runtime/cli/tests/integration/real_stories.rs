//! Steering the real `claude` program: it is stopped while it works, fails, runs out of context and of money, and its session continues.

use std::time::Duration;

use hankweave_testing::{Finished, ModelServer, Scenario, TestProject, agents};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::{assert_checkpoint, assert_usd, codon, project};

/// 1,000 tokens in and 100 out cost this much with the model of these stories, also when the agent was stopped in a tool after them.
const MESSAGE: f64 = 0.0045;

const DEADLINE: Duration = Duration::from_secs(100);

/// A project whose agent is the real one and talks to a scripted model; `None`, with the reason printed, where there is no such agent.
pub(crate) fn stage(binary: &str, scenario: Value) -> Option<(TestProject, ModelServer)> {
    let claude = match agents::claude() {
        Ok(claude) => claude,
        Err(skip) => {
            println!("{skip}");
            return None;
        }
    };
    let server = ModelServer::start(Scenario::try_from(scenario).unwrap()).unwrap();
    let mut project = match binary {
        "" => project(),
        binary => TestProject::new(binary),
    };
    project.set("HANKWEAVE_CLAUDE_PATH", claude);
    Some((project, server))
}

pub(crate) fn real(server: &ModelServer, id: &str, mode: &str, prompt: &str, more: &Value) -> Value {
    let mut codon = json!({
        "id": id, "name": id, "agent": "claude", "model": "claude-sonnet-4-5", "continuationMode": mode,
        "promptText": prompt, "checkpointedFiles": ["**/*.txt"],
        "env": {
            "ANTHROPIC_BASE_URL": server.url(), "ANTHROPIC_API_KEY": "sk-test", "CLAUDE_CODE_MAX_RETRIES": "1",
            "DISABLE_TELEMETRY": "1", "DISABLE_ERROR_REPORTING": "1", "DISABLE_AUTOUPDATER": "1",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        },
    });
    for (key, value) in more.as_object().unwrap() {
        codon[key] = value.clone();
    }
    codon
}

fn usage() -> Value {
    json!({"input": 1000, "output": 100})
}

/// The model has a file made and then a command run that never ends.
fn endless() -> Value {
    json!([{"text": "I begin.", "usage": usage(),
        "tools": [{"op": "bash", "command": "echo half > half.txt; tail -f /dev/null", "description": "Begin", "timeout": 300_000}]}])
}

fn answer(text: &str) -> Value {
    json!([{"text": text, "usage": usage()}])
}

/// Runs the program with commands on its standard input: each line of `commands` is shell, what it prints is typed.
pub(crate) fn type_commands(project: &TestProject, commands: &str) -> Finished {
    let line = format!(
        "half() {{ while [ ! -e half.txt ]; do sleep 0.05; done; }}; {{ {commands}; }} | '{}' run --no-autostart --headless --json",
        env!("CARGO_BIN_EXE_hankweave")
    );
    project.start(["-c", &line]).finish_within(DEADLINE)
}

/// Waits until a codon is recorded in this state.
const ENDED: &str =
    r#"ended() { until grep -Eqs "\"status\": ?\"$1\"" .hankweave/state.json; do sleep 0.05; done; }"#;

fn state(project: &TestProject) -> Value {
    project.state(&project.directory())
}

// The session of a skipped codon that had said something continues.
// covers: RUN-10, STATE-55
#[test]
fn an_agent_that_works_can_be_skipped_and_its_session_goes_on() {
    let lanes = json!([
        {"name": "next", "when": {"user": "NEXT-TASK"}, "turns": answer("Then I do this.")},
        {"name": "skipped", "when": {"user": "SKIPPED-TASK"}, "turns": endless()}]);
    let Some((project, server)) = stage("/bin/sh", json!({"lanes": lanes})) else {
        return;
    };
    project.write_hank(&json!({"hank": [
        real(&server, "skipped", "fresh", "SKIPPED-TASK", &json!({})),
        real(&server, "next", "continue-previous", "NEXT-TASK", &json!({}))]}));
    let commands =
        format!("{ENDED}; echo next; half; echo skip; ended skipped; echo next; ended completed; echo quit");
    type_commands(&project, &commands).expect_code(0);

    assert_eq!(project.left_behind(), []);
    let state = state(&project);
    let [skipped, next] = ["skipped", "next"].map(|id| codon(&state["runs"][0], id));
    assert_eq!(
        (&skipped["status"], &skipped["skippedDuring"]),
        (&json!("skipped"), &json!("running"))
    );
    assert_usd(&skipped["partialCost"], MESSAGE);
    assert_eq!(skipped["assistantMessageCount"], 1);
    assert_checkpoint(&project, &project.directory(), &skipped["skipCheckpoint"]);
    assert_eq!(next["status"], "completed", "{next:#}");
    assert_eq!(next["previousSessionId"], skipped["claudeSessionId"]);
    assert_usd(&next["finalCost"], 0.0045);
}

// covers: RUN-13
#[test]
fn an_agent_that_works_can_be_stopped_by_force() {
    let Some((project, server)) = stage("/bin/sh", json!({"turns": endless()})) else {
        return;
    };
    project.write_hank(&json!({"hank": [real(&server, "a", "fresh", "TASK", &json!({}))]}));
    let commands = format!("{ENDED}; echo next; half; echo stop enough; ended failed; echo quit");
    type_commands(&project, &commands);
    assert_eq!(project.left_behind(), []);
    let state = state(&project);
    let stopped = codon(&state["runs"][0], "a");
    assert_eq!(
        (
            &stopped["status"],
            &stopped["exitCode"],
            &stopped["failureReason"]["retriable"]
        ),
        (&json!("failed"), &json!(-1), &json!(true))
    );
    assert_eq!(stopped["failureReason"]["message"], "Force stopped: enough");
    assert_usd(&stopped["partialCost"], MESSAGE);
    assert_checkpoint(&project, &project.directory(), &stopped["errorCheckpoint"]);
}

/// The runtime is asked to end while the second codon works; the next run continues in the conversation of the first.
#[test]
fn a_run_that_was_terminated_goes_on_with_the_session_of_the_last_success() {
    let lanes = json!([
        {"name": "second", "when": {"user": "SECOND-TASK"}, "turns": [endless()[0], answer("Now it is done.")[0]]},
        {"name": "first", "when": {"user": "FIRST-TASK"}, "turns": answer("The first is done.")}]);
    let Some((project, server)) = stage("", json!({"lanes": lanes})) else {
        return;
    };
    project.write_hank(&json!({"hank": [
        real(&server, "first", "fresh", "FIRST-TASK", &json!({})),
        real(&server, "second", "continue-previous", "SECOND-TASK", &json!({}))]}));
    let mut running = project.start(["run", "--headless", "--json"]);
    running.wait_for_line(|line| line.contains("\"tool_use\"") && line.contains("second"));
    running.signal(Signal::TERM);
    running.finish_within(DEADLINE).expect_code(143);
    assert_eq!(project.left_behind(), []);
    project.run(["run", "--headless"]).expect_code(0);

    let state = state(&project);
    let (ended, begun) = (&state["runs"][1], &state["runs"][0]);
    let first = codon(ended, "first");
    let [cut_off, again] = [codon(ended, "second"), codon(begun, "second")];
    assert_eq!(
        (&cut_off["status"], &cut_off["failureReason"]["interrupted"]),
        (&json!("failed"), &json!(true))
    );
    assert_eq!(again["status"], "completed");
    for record in [cut_off, again] {
        assert_eq!(record["previousSessionId"], first["claudeSessionId"]);
    }
    // What the program reports for a resumed session holds all that came before; only its own part counts.
    assert_usd(&again["finalCost"], 0.0045);
    assert_usd(&cut_off["partialCost"], MESSAGE);
}

// As the real program has it.
// covers: AGENT-11
#[test]
fn a_loop_until_the_context_is_full_ends_with_the_real_overflow() {
    let full = json!({"error": {"status": 400, "type": "invalid_request_error", "code": "context_length_exceeded",
        "message": "prompt is too long: 210340 tokens > 200000 maximum"}, "repeat": "forever"});
    let turns = json!([answer("Begun.")[0], answer("Once.")[0], answer("Twice.")[0], full]);
    let lanes = json!([
        {"name": "end", "when": {"user": "END-TASK"}, "turns": answer("The end.")},
        {"name": "loop", "when": {"user": "LOOP-TASK|BEGIN-TASK"}, "turns": turns}]);
    let Some((project, server)) = stage("", json!({"lanes": lanes})) else {
        return;
    };
    let inner = real(&server, "again", "continue-previous", "LOOP-TASK", &json!({}));
    project.write_hank(&json!({"hank": [
        real(&server, "begin", "fresh", "BEGIN-TASK", &json!({})),
        {"type": "loop", "id": "l", "name": "L", "terminateOn": {"type": "contextExceeded"}, "codons": [inner]},
        real(&server, "end", "fresh", "END-TASK", &json!({}))]}));
    project.run(["run", "--headless"]).expect_code(0);
    let state = state(&project);
    let run = &state["runs"][0];
    let ran: Vec<&str> = run["codons"]
        .as_array()
        .unwrap()
        .iter()
        .map(|record| record["codonId"].as_str().unwrap())
        .collect();
    assert_eq!(ran, ["begin", "again#0", "again#1", "again#2", "end"]);
    let full = codon(run, "again#2");
    assert_eq!(
        (&full["status"], &full["contextExceeded"]),
        (&json!("completed"), &json!(true))
    );
    for id in ["again#0", "again#1", "again#2"] {
        assert_eq!(
            codon(run, id)["previousSessionId"],
            codon(run, "begin")["claudeSessionId"]
        );
    }
    assert_eq!(codon(run, "end")["status"], "completed");
}

// After both failures another attempt may succeed.
// covers: AGENT-9
#[test]
fn an_overloaded_model_and_a_dropped_connection_are_tried_again() {
    let overloaded =
        json!({"error": {"status": 529, "type": "overloaded_error", "message": "Overloaded"}, "repeat": 2});
    let dropped = json!({"text": "This never arrives.", "drop": "before_headers",
        "usage": usage(), "repeat": 2});
    for (fault, name) in [(overloaded, "overloaded"), (dropped, "dropped")] {
        let scenario = json!({"turns": [fault, answer("Whole at last.")[0]]});
        let Some((project, server)) = stage("", scenario) else {
            return;
        };
        let policy = json!({"onFailure": "retry", "retryConfig": {"maxAttempts": 2, "delayMs": 10}});
        project.write_hank(&json!({"hank": [real(&server, "a", "fresh", "TASK", &policy)]}));
        project.run(["run", "--headless"]).expect_code(0);
        let state = state(&project);
        let tries = state["runs"][0]["codons"].as_array().unwrap();
        assert_eq!(tries.last().unwrap()["status"], "completed", "{name}");
        for failed in &tries[..tries.len() - 1] {
            assert_eq!(failed["failureReason"]["retriable"], true, "{name}: {failed:#}");
        }
        // The program itself makes one retry in each attempt of the codon.
        assert_eq!(tries.len(), 2, "{name}: {tries:#?}");
        assert_eq!(tries[0]["failureReason"]["type"], "api-error", "{name}");
    }
}

// The agent is stopped, by its own limit or by ours, and says what it has used.
// covers: HANK-37
#[test]
fn a_budget_stops_the_real_agent_in_the_middle_of_a_turn() {
    let Some((project, server)) = stage("", json!({"turns": endless()})) else {
        return;
    };
    let budget = json!({"budget": {"maxDollars": 0.004}});
    project.write_hank(&json!({"hank": [real(&server, "a", "fresh", "TASK", &budget)]}));
    let finished = project.run(["run", "--headless"]);
    finished.expect_code(0);
    assert_eq!(project.left_behind(), []);
    assert!(
        finished
            .stderr
            .contains("budget reached: used $0.0045 of $0.0040"),
        "{finished}"
    );
    let state = state(&project);
    let stopped = codon(&state["runs"][0], "a");
    assert_eq!(
        (&stopped["status"], &stopped["resultMessageReceived"]),
        (&json!("completed"), &json!(true))
    );
    assert_usd(&stopped["finalCost"], MESSAGE);
    assert_usd(&stopped["budgetExceeded"]["used"], MESSAGE);
    assert_checkpoint(&project, &project.directory(), &stopped["completionCheckpoint"]);
}
