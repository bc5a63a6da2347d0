//! Background work that a codon waits for, together with everything else that may end a codon or follow it (HANK-75).

use hankweave_testing::TestProject;
use serde_json::{Value, json};

use crate::background::{DEADLINE, is_wait, read, script};
use crate::support::{codon, project};

/// A codon that plays the script of its name.
fn playing(project: &TestProject, id: &str, script: &Value, keys: &Value) -> Value {
    project.write(&format!("{id}.json"), script.to_string());
    let mut written = json!({"id": id, "name": id, "agent": {"script": format!("{id}.json")}, "model": "claude-sonnet-4-5",
        "continuationMode": "fresh", "promptText": "Test it.", "checkpointedFiles": ["*.txt"], "settleSeconds": 1});
    written
        .as_object_mut()
        .unwrap()
        .extend(keys.as_object().unwrap().clone());
    written
}

fn newest_run(project: &TestProject) -> Value {
    let state = project.state(&project.directory());
    let runs = state["runs"].as_array().unwrap().iter();
    runs.max_by_key(|run| run["startTime"].as_str().unwrap().to_owned())
        .unwrap()
        .clone()
}

const QUICK: &str = "sleep 1; echo passed >> tests.txt";
const ENDLESS: &str = "exec tail -f /dev/null";

// covers: HANK-75
#[test]
fn each_iteration_of_a_loop_waits_for_its_own_work() {
    let project = project();
    let test = playing(&project, "test", &script(QUICK), &json!({}));
    project.write_hank(&json!({"hank": [{"type": "loop", "id": "l", "name": "L",
        "terminateOn": {"type": "iterationLimit", "limit": 2}, "codons": [test]}]}));
    let finished = project.run(["run", "--headless", "--json"]);
    finished.expect_code(0);
    assert_eq!(read(&project, "report.txt"), "passed\npassed\n");
    let waits = finished.stdout.lines().filter(|line| is_wait(line));
    let waited: Vec<&str> = waits
        .flat_map(|line| ["test#0", "test#1"].into_iter().filter(|id| line.contains(id)))
        .collect();
    assert!(
        waited.contains(&"test#0") && waited.contains(&"test#1"),
        "{finished}"
    );
    assert_eq!(project.left_behind(), []);
}

// covers: HANK-75, HANK-37
#[test]
fn what_is_spent_after_a_wait_counts_and_ends_the_codon_at_its_limit() {
    let project = project();
    let mut play = script(QUICK);
    play["turns"][2]["usage"] = json!({"input": 1_000_000, "output": 0});
    let keys = json!({"budget": {"maxDollars": 1}});
    project.write_hank(&json!({"hank": [playing(&project, "test", &play, &keys)]}));
    project.run(["run", "--headless"]).expect_code(0);
    let run = newest_run(&project);
    let record = codon(&run, "test");
    assert_eq!(record["budgetExceeded"]["limit"], 1, "{record:#}");
    // What its answers took beyond their first token is known only if it ended before it was stopped.
    let (cost, all) = (
        record["finalCost"].as_f64().unwrap(),
        3.0 + 210.0 * 3e-6 + 20.0 * 15e-6,
    );
    assert!((3.0..=all + 1e-9).contains(&cost), "{record:#}");
    assert_eq!(project.left_behind(), []);
}

// covers: HANK-75, SENT-10
#[test]
fn a_sentinel_pauses_a_codon_that_waits() {
    let project = project();
    let asks = r#"if grep -q 'I wait'; then echo '{"text": "x", "ask": "pause", "reason": "enough"}'; else echo '{"text": "y"}'; fi"#;
    let guard = json!([{"sentinelConfig": {"id": "guard", "name": "G", "command": ["sh", "-c", asks], "answer": "json",
        "trigger": {"type": "event", "on": ["assistant.action"]}, "execution": {"strategy": "immediate"}},
        "settings": {"mayAsk": ["pause"]}}]);
    let test = playing(&project, "test", &script(ENDLESS), &json!({"sentinels": guard}));
    project.write_hank(&json!({"hank": [test]}));
    project.run(["run", "--headless"]).expect_code(3);
    let run = newest_run(&project);
    assert_eq!(run["cause"], "test: paused by sentinel guard: enough", "{run:#}");
    assert_eq!(project.left_behind(), []);
}

// covers: HANK-75, STATE-65
#[test]
fn the_question_of_the_next_codon_comes_after_the_wait() {
    let project = project();
    let test = playing(&project, "test", &script(QUICK), &json!({}));
    let publish = json!({"approval": "Publish?"});
    let publish = playing(
        &project,
        "publish",
        &json!({"turns": [{"text": "Out."}]}),
        &publish,
    );
    project.write_hank(&json!({"hank": [test, publish]}));
    let asked = project.run(["run", "--headless"]);
    assert!(asked.expect_code(3).stderr.contains("Publish?"), "{asked}");
    assert_eq!(read(&project, "report.txt"), "passed\n");
    project.run(["approve"]).expect_code(0);
    project.run(["run", "--headless"]).expect_code(0);
    assert_eq!(project.left_behind(), []);
}

// covers: HANK-75, CLI-33
#[test]
fn a_wait_comes_out_in_a_replay_as_it_is_recorded() {
    let project = project();
    let cut = json!({"maxBackgroundSeconds": 1, "onBackgroundCut": "complete"});
    let codons = [
        playing(&project, "test", &script(QUICK), &json!({})),
        playing(&project, "serve", &script(ENDLESS), &cut),
    ];
    project.write_hank(&json!({"hank": codons}));
    project.run(["run", "--headless"]).expect_code(0);
    let directory = project.directory().to_string_lossy().into_owned();
    let finished = project.run(["replay", &directory, "--speed", "max", "--json"]);
    finished.expect_code(0);
    let outcome = finished.json_lines().pop().unwrap();
    assert_eq!(outcome["data"]["difference"], Value::Null, "{outcome:#}");
    let place = std::path::PathBuf::from(outcome["data"]["execution"].as_str().unwrap());
    assert_eq!(project.state(&place), project.state(&project.directory()));
}

// covers: HANK-75, TASK-91
#[test]
fn a_task_that_waits_is_cancelled_and_leaves_nothing() {
    let project = project();
    let started = project.directory().join("started");
    let serve = format!("touch '{}'; {ENDLESS}", started.display());
    let test = playing(&project, "test", &script(&serve), &json!({}));
    project.write_hank(&json!({"hank": [test]}));
    project
        .run([
            "task",
            "create",
            "Serve",
            "--hank",
            "hank.json",
            "--id",
            "serve-1",
        ])
        .expect_code(0);
    let worker = project.start(["worker", "--once"]);
    let end = std::time::Instant::now() + DEADLINE;
    while !started.exists() {
        assert!(std::time::Instant::now() < end, "the work did not begin");
        std::thread::yield_now();
    }
    project.run(["task", "cancel", "serve-1"]).expect_code(0);
    worker.finish_within(DEADLINE).expect_code(0);
    let shown = project.run(["task", "show", "serve-1", "--json"]);
    assert_eq!(shown.json_document()["task"]["status"], "cancelled", "{shown}");
    assert_eq!(project.left_behind(), []);
}
