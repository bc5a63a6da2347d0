//! Codons that are complete only when a command passes (HANK-61).

use std::fs;

use hankweave_testing::{Finished, TestProject};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::{assert_usd, codon, project, shell_agent};

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
    assert_eq!(record["claudeSessionId"], "s-new", "it continued in its session");
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
        finished.stdout.contains("the agent continues (retry 2 of 3)"),
        "{finished}"
    );
    let validated = project.run(["validate", "--json"]).expect_code(0).json_document();
    assert_eq!(validated["codons"][0]["spawns"][1], format!("sh -c {COUNT:?}"));
}

// covers: HANK-61
#[test]
fn a_codon_whose_work_never_passes_has_failed() {
    let never = "echo no; exit 7";
    // With as many retries as it has, with none, and with a limit that would complete it.
    let used_up = "; for a retry its budget has nothing left: used 10 of 10 output tokens (a larger `maxOutputTokens` allows it)";
    for (check, more, cost, also) in [
        (json!({"run": never, "retries": 2}), json!({}), 0.75, ""),
        (json!({"run": never, "retries": 0}), json!({}), 0.25, ""),
        (
            json!({"run": never}),
            json!({"budget": {"maxOutputTokens": 10}}),
            0.25,
            used_up,
        ),
    ] {
        let project = stage(&check, &more);
        let (_, record) = run(&project, 1);
        assert_eq!(record["status"], "failed", "{record:#}");
        assert_usd(&record["partialCost"], cost);
        let why = record["failureReason"]["message"].as_str().unwrap();
        assert_eq!(
            why,
            format!("the check `echo no; exit 7` has not passed: the command exited with code 7{also}")
        );
        let status = project.run(["status"]).stdout.clone();
        let is_limited = status.contains("within 10 output tokens unless hank.json gives more");
        assert_eq!(is_limited, !also.is_empty(), "{status}");
        assert_eq!(record["budgetExceeded"].is_object(), is_limited, "{record:#}");
    }
}

// covers: HANK-61
#[test]
fn a_check_that_was_killed_is_done_again_in_the_same_session() {
    let waits = "[ -e go ] || { echo checking; exec sleep 600; }; [ $(wc -l < work.txt) -ge 3 ]";
    let project = stage(&json!({"run": waits}), &json!({}));
    kill_at(&project, "\"checking\"");
    project.write("go", "");
    project
        .run(["run", "--headless", "--recover", "session"])
        .expect_code(0);
    let state = project.state(&project.directory());
    let record = codon(&state["runs"][0], "only");
    assert_eq!(record["claudeSessionId"], "s-new");
    assert!(prompt(&project, 2).starts_with("You were interrupted"));
    assert!(prompt(&project, 3).contains("has not passed"));
    assert_eq!(project.left_behind(), []);
    assert_usd(&record["finalCost"], 0.5);
    assert_usd(&codon(&state["runs"][1], "only")["partialCost"], 0.25);
}

/// Starts a run and kills it as soon as it prints a line with this.
fn kill_at(project: &TestProject, said: &str) {
    let mut running = project.start(["run", "--headless", "--json"]);
    running.wait_for_line(|line| line.contains(said));
    running.signal(Signal::KILL);
    let killed = running.finish_within(crate::real_money::DEADLINE);
    assert_eq!(killed.signal, Some(9));
}

/// A loop of one codon until `check` passes, and a codon after it. `more` is added to both codons, and `policy` is their failure policy.
fn stage_loop(check: &Value, more: &Value, policy: &str) -> TestProject {
    let project = project();
    let script = project.write("agent.sh", AGENT);
    let codon = |id: &str| {
        let mut codon = json!({"id": id, "name": id, "agent": {"command": ["sh", script], "stream": "claude"}, "model": "shell",
            "continuationMode": "fresh", "promptText": id, "env": {"WANTED": "3"}, "onFailure": policy, "checkpointedFiles": ["work.txt"]});
        let keys = codon.as_object_mut().unwrap();
        keys.extend(more.as_object().unwrap().clone());
        codon
    };
    let found =
        json!({"type": "loop", "id": "l", "name": "L", "terminateOn": check, "codons": [codon("turn")]});
    project.write_hank(&json!({"hank": [found, codon("end")]}));
    project
}

/// `ID status` of each codon of the newest run.
fn ends(project: &TestProject) -> Vec<String> {
    let state = project.state(&project.directory());
    let codons = state["runs"][0]["codons"].as_array().unwrap().iter();
    let end = |codon: &Value| format!("{} {}", codon["codonId"], codon["status"]).replace('"', "");
    codons.map(end).collect()
}

fn until(run: &str, limit: u64) -> Value {
    json!({"type": "untilCheckPasses", "run": run, "limit": limit})
}

// covers: CLI-14, STATE-68
#[test]
fn a_check_that_prints_nothing_says_how_it_ended_and_not_what_its_agent_is_told() {
    let project = stage_loop(&until("test -e never || exit 4", 2), &json!({}), "abort");
    project.run(["run", "--headless"]).expect_code(1);
    let status = project.run(["status"]).expect_code(0).stdout.clone();
    let words = "    check failed: the command exited with code 4; the loop continues\n";
    assert!(status.contains(words), "{status}");
}

// covers: HANK-62, STATE-68
#[test]
fn a_loop_goes_round_until_its_check_passes_and_each_iteration_is_told_what_was_missing() {
    let project = stage_loop(&until(COUNT, 9), &json!({}), "abort");
    let finished = project.run(["run", "--headless", "--json"]);
    finished.expect_code(0);
    let expected = [
        "turn#0 completed",
        "turn#1 completed",
        "turn#2 completed",
        "end completed",
    ];
    assert_eq!(ends(&project), expected);
    assert_eq!(prompt(&project, 1), "turn");
    for number in [2, 3] {
        let told = format!(
            "turn\n\nYour work was checked, and the check `{COUNT}` has not passed: the command exited with code 1. It printed:\n\nthere are {} <!-- kept -->\n\n",
            number - 1
        );
        assert!(
            prompt(&project, number).starts_with(&told),
            "{}",
            prompt(&project, number)
        );
    }
    assert_eq!(prompt(&project, 4), "end");
    let run = &project.state(&project.directory())["runs"][0];
    assert_eq!(codon(run, "turn#1")["loopCheck"]["passed"], false);
    assert_eq!(codon(run, "turn#2")["loopCheck"], json!({"passed": true}));
    let lines = finished.json_lines();
    let last = lines
        .iter()
        .rfind(|event| event["type"] == "loop.iteration.completed");
    let last = &last.unwrap()["data"];
    assert_eq!(
        (&last["isFinal"], &last["terminationReason"]),
        (&json!(true), &json!("check_passed"))
    );

    // After a rollback into the loop, the run continues from there with the output of the check there.
    project.run(["rollback", "--codon", "turn#0"]).expect_code(0);
    project.run(["run", "--headless"]).expect_code(0);
    assert_eq!(ends(&project), expected[1..]);
    let validated = project.run(["validate", "--json"]).expect_code(0).json_document();
    assert_eq!(validated["codons"][0]["spawns"][1], format!("sh -c {COUNT:?}"));
    let tree = project.run(["validate"]);
    assert!(tree.stdout.contains("passes, at most 9 times"), "{tree}");
}

// covers: HANK-62
#[test]
fn a_loop_whose_check_never_passes_has_failed_unless_that_is_ignored() {
    let never = until("echo no; exit 7", 2);
    let short = json!({"budget": {"maxOutputTokens": 10}});
    for (more, policy, code, expected) in [
        (json!({}), "abort", 1, vec!["turn#0 completed", "turn#1 failed"]),
        (json!({}), "retry", 1, vec!["turn#0 completed", "turn#1 failed"]),
        (
            json!({}),
            "ignore",
            0,
            vec!["turn#0 completed", "turn#1 failed", "end completed"],
        ),
        // A limit that ends the loop does not get around its check.
        (short, "abort", 1, vec!["turn#0 failed"]),
    ] {
        let project = stage_loop(&never, &more, policy);
        project.run(["run", "--headless"]).expect_code(code);
        assert_eq!(ends(&project), expected);
        let state = project.state(&project.directory());
        let failed = expected
            .iter()
            .find_map(|end| end.strip_suffix(" failed"))
            .unwrap();
        let why = &codon(&state["runs"][0], failed)["failureReason"]["message"];
        let why = why.as_str().unwrap();
        assert!(
            why.ends_with("; the check `echo no; exit 7` has not passed: the command exited with code 7"),
            "{why}"
        );
    }
}

// covers: HANK-62, STATE-68
#[test]
fn a_loop_that_was_killed_in_its_check_goes_on_with_the_iteration_and_what_it_knew() {
    let check = "lines=$(wc -l < work.txt); echo \"lines $lines\"; [ -e go ] || [ $lines -lt 2 ] || exec sleep 600; [ $lines -ge 4 ]";
    let project = stage_loop(&until(check, 9), &json!({}), "abort");
    kill_at(&project, "\"lines 2\"");
    project.write("go", "");
    project
        .run(["run", "--headless", "--recover", "session"])
        .expect_code(0);
    // The killed iteration continues in its session, and the prompt of the next one has the output of the check after it.
    assert_eq!(
        ends(&project),
        ["turn#1 completed", "turn#2 completed", "end completed"]
    );
    assert!(
        prompt(&project, 2).contains("lines 1") && prompt(&project, 3).starts_with("You were interrupted")
    );
    assert!(prompt(&project, 4).contains("lines 3"));
    assert_eq!(project.left_behind(), []);
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

// covers: HANK-61
#[test]
fn a_check_for_which_no_time_is_left_fails_the_codon_for_good() {
    let more = json!({"budget": {"maxTimeSeconds": 1}, "onFailure": "retry"});
    let project = stage(&json!({"run": "tail -f /dev/null"}), &more);
    let (_, record) = run(&project, 1);
    assert_eq!(record["status"], "failed", "{record:#}");
    let reason = &record["failureReason"];
    assert_eq!(reason["retriable"], false, "{reason}");
    let why = reason["message"].as_str().unwrap();
    assert!(why.contains("the time of the codon is over"), "{why}");
}

/// A total budget that is used up by the last answer of an iteration pauses the run; with more money the loop continues with its next iteration.
// covers: HANK-62
#[test]
fn a_total_budget_pauses_a_loop_whose_check_has_not_passed_and_more_money_continues_it() {
    let project = project();
    let turn = json!({"text": "Built", "tools": [{"append": {"path": "work.txt", "content": "x\n"}}], "usage": {"input": 60_000, "output": 9_000}});
    project.write("turn.json", json!({"turns": [turn]}).to_string());
    let turn = json!({"id": "turn", "name": "turn", "agent": {"script": "turn.json"}, "model": "claude-sonnet-4-5",
        "continuationMode": "fresh", "promptText": "go", "checkpointedFiles": ["work.txt"]});
    let check = until("test $(wc -l < work.txt) -ge 2", 5);
    let found = json!({"type": "loop", "id": "l", "name": "L", "terminateOn": check, "codons": [turn]});
    project.write_hank(&json!({"hank": [found]}));
    let paused = project.run(["run", "--headless", "--max-cost", "0.2"]);
    let words = &paused.expect_code(3).stderr;
    assert!(words.contains("Paused before turn#1"), "{paused}");
    assert_eq!(ends(&project), ["turn#0 completed"]);
    project
        .run(["run", "--headless", "--max-cost", "5"])
        .expect_code(0);
    assert_eq!(ends(&project), ["turn#1 completed"]);
}

/// Adds a line to `work.txt` for 0.3150 dollars, and has to add two.
fn stage_paid(retries: u64) -> TestProject {
    let project = project();
    let turn = json!({"text": "Built", "tools": [{"append": {"path": "work.txt", "content": "x\n"}}], "usage": {"input": 60_000, "output": 9_000}});
    project.write("turn.json", json!({"turns": [turn]}).to_string());
    let check = json!({"run": "test $(wc -l < work.txt) -ge 2", "retries": retries});
    project.write_hank(&json!({"hank": [{"id": "only", "name": "Only", "agent": {"script": "turn.json"}, "model": "claude-sonnet-4-5",
        "continuationMode": "fresh", "promptText": "go", "check": check, "checkpointedFiles": ["work.txt"]}]}));
    project
}

/// A total budget that is used up by the answer whose work does not pass pauses the run; with more money the agent continues in its session.
// covers: HANK-38
#[test]
fn a_total_budget_pauses_a_codon_whose_check_has_not_passed_and_more_money_continues_its_session() {
    let project = stage_paid(3);
    let paused = project.run(["run", "--headless", "--max-cost", "0.2"]);
    let words = &paused.expect_code(3).stderr;
    assert!(
        words.contains("the total budget is used up: used $0.3150 of $0.2000"),
        "{paused}"
    );
    assert!(words.contains("hankweave run --max-cost 0.52"), "{paused}");
    let session = |state: &Value| codon(&state["runs"][0], "only")["claudeSessionId"].clone();
    let before = session(&project.state(&project.directory()));
    project
        .run(["run", "--headless", "--max-cost", "0.52"])
        .expect_code(0);
    assert_eq!(session(&project.state(&project.directory())), before);
}

/// After a failure that leaves nothing of the total budget, the message names a budget with which the run continues. Without that budget no file is
/// rolled back.
// covers: HANK-40
#[test]
fn a_run_that_could_start_nothing_takes_no_file_back() {
    let project = stage_paid(0);
    let failed = project.run(["run", "--headless", "--max-cost", "0.2"]);
    let words = &failed.expect_code(1).stderr;
    assert!(words.contains("hankweave run --max-cost 0.52"), "{failed}");
    let nothing = project.run(["run", "--headless", "--max-cost", "0.2"]);
    let words = &nothing.expect_code(3).stderr;
    assert!(
        words.contains("used $0.3150 of $0.2000") && words.contains("--max-cost 0.52"),
        "{nothing}"
    );
    assert_eq!(
        fs::read_to_string(project.directory().join("work.txt")).unwrap(),
        "x\n",
        "{nothing}"
    );
    assert_eq!(
        project.state(&project.directory())["runs"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
    project
        .run(["run", "--headless", "--max-cost", "0.52"])
        .expect_code(1);
}

/// A check that the time of the whole cuts off pauses the run; more time continues it.
// covers: HANK-62
#[test]
fn a_check_that_the_time_of_the_whole_cuts_off_pauses_the_run() {
    let project = project();
    let agent = shell_agent(&project);
    let codon = json!({"id": "a", "name": "a", "agent": agent, "model": "shell", "continuationMode": "fresh", "promptText": "go",
        "checkpointedFiles": ["*.txt"], "check": {"run": "test -e passes || sleep 60"}});
    project.write_hank(&json!({"hank": [codon]}));
    let paused = project.run(["run", "--headless", "--max-time", "2"]);
    assert!(paused.expect_code(3).stderr.contains("Paused"), "{paused}");
    project.write("passes", "");
    project
        .run(["run", "--headless", "--max-time", "1h"])
        .expect_code(0);
}
