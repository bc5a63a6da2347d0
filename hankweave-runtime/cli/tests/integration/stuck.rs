//! Loops that only repeat themselves (STATE-69).

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use hankweave_testing::TestProject;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::{codon, project};

/// An agent that carries out the first line of `do.sh`. `$HANKWEAVE_ITERATION` is the iteration, and the prompts of iteration N are in `prompt-N.md`.
const AGENT: &str = r#"
prompt=$(cat)
session="${HANKWEAVE_RESUME_SESSION:-s-$$}"
printf '{"type":"system","subtype":"init","session_id":"%s","model":"shell","cwd":"/","tools":[]}\n' "$session"
printf '%s\n' "$prompt" >> "prompt-$HANKWEAVE_ITERATION.md"
eval "$(head -n 1 do.sh)"
printf '{"type":"result","subtype":"success","is_error":false,"session_id":"%s","result":"done","usage":{"input_tokens":10,"output_tokens":5}}\n' "$session"
"#;

const FAILS: &str = "echo 1 failed in 0.$RANDOM.s; exit 1";

fn write(project: &TestProject, check: &str, of_loop: &Value, of_codon: &Value) {
    let script = project.home().join("agent.sh");
    fs::write(&script, AGENT).unwrap();
    let codon = |id: &str| {
        json!({"id": id, "name": id, "agent": {"command": ["bash", script], "stream": "claude"}, "model": "shell",
            "continuationMode": "fresh", "promptText": "go on", "checkpointedFiles": ["*.txt"]})
    };
    let mut inner = codon("fix");
    inner
        .as_object_mut()
        .unwrap()
        .extend(of_codon.as_object().unwrap().clone());
    let mut found = json!({"type": "loop", "id": "l", "name": "L",
        "terminateOn": {"type": "untilCheckPasses", "run": check, "limit": 8}, "codons": [inner, codon("look")]});
    found
        .as_object_mut()
        .unwrap()
        .extend(of_loop.as_object().unwrap().clone());
    project.write_hank(&json!({"hank": [found, codon("end")]}));
}

fn stage(does: &str, check: &str, of_loop: &Value) -> TestProject {
    let project = project();
    write(&project, check, of_loop, &json!({}));
    project.write("do.sh", does);
    project
}

fn state(project: &TestProject) -> Value {
    project.state(&project.directory())
}

fn until_there(path: &Path) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !path.exists() {
        assert!(Instant::now() < deadline, "{} is not written", path.display());
        std::thread::yield_now();
    }
}

/// Ids of the codons of the newest run, in order.
fn ran(project: &TestProject) -> Vec<String> {
    let state = state(project);
    let records = state["runs"][0]["codons"].as_array().unwrap().iter();
    records
        .map(|record| record["codonId"].as_str().unwrap().to_owned())
        .collect()
}

fn stalls(state: &Value, id: &str) -> Value {
    let runs = state["runs"].as_array().unwrap();
    let records = runs
        .iter()
        .flat_map(|run| run["codons"].as_array().unwrap().iter().rev());
    let mut records = records.filter(|record| record["codonId"] == id);
    records.next().unwrap()["loopStall"]["iterations"].clone()
}

#[track_caller]
fn run(project: &TestProject, code: i32) -> String {
    let finished = project.run(["run", "--headless"]);
    finished.expect_code(code);
    assert_eq!(project.left_behind(), []);
    format!("{}{}", finished.stdout, finished.stderr)
}

// covers: STATE-69
#[test]
fn a_loop_that_only_repeats_itself_is_stuck_and_goes_on_when_the_user_says_so() {
    let project = stage("true", FAILS, &json!({}));
    let said = run(&project, 3);
    for words in [
        "the loop repeats itself (1 of 2 times): nothing changed, and its check printed the same",
        "Paused before fix#3: loop `l` is stuck: 2 iterations in a row changed nothing, and its check printed the same as before",
        "hankweave run",
    ] {
        assert!(said.contains(words), "{words}: {said}");
    }
    assert_eq!(
        ran(&project),
        ["fix#0", "look#0", "fix#1", "look#1", "fix#2", "look#2"]
    );
    let document = state(&project);
    let newest = &document["runs"][0];
    assert_eq!(
        (&newest["status"], &newest["interruptedBy"]),
        (&json!("failed"), &json!("stuck"))
    );
    assert!(
        newest["cause"]
            .as_str()
            .unwrap()
            .starts_with("fix#3: loop `l` is stuck"),
        "{newest:#}"
    );
    let told = fs::read_to_string(project.directory().join("prompt-2.md")).unwrap();
    assert!(
        told.contains("No file has changed in the iteration before this one"),
        "{told}"
    );

    let status = project.run(["status"]).stdout;
    assert!(
        status.contains("paused (stuck)") && status.contains("loop `l` is stuck: 2 iterations in a row"),
        "{status}"
    );
    assert!(status.contains("continues with fix#3"), "{status}");
    let json: Value = serde_json::from_str(&project.run(["status", "--json"]).stdout).unwrap();
    assert_eq!(json["run"]["interruptedBy"], "stuck");
    assert_eq!(json["view"]["interruptedBy"], "stuck");
    assert_eq!(json["view"]["state"], "paused");

    // One more iteration, and it is stuck again.
    run(&project, 3);
    assert_eq!(ran(&project), ["fix#3", "look#3"]);
    // The user repairs the work.
    project.write("ok", "");
    write(
        &project,
        "[ -e ok ] && exit 0; echo 1 failed; exit 1",
        &json!({}),
        &json!({}),
    );
    run(&project, 0);
    assert_eq!(ran(&project), ["fix#4", "look#4", "end"]);
}

/// Lines of a command's two streams come in random order; the order makes no difference.
// covers: STATE-69
#[test]
fn the_order_of_lines_makes_no_other_output() {
    let check = "if [ $((HANKWEAVE_ITERATION % 2)) = 0 ]; then echo one; echo two; else echo two; echo one; fi; exit 1";
    let project = stage("true", check, &json!({}));
    let told = run(&project, 3);
    assert!(told.contains("stuck"), "{told}");
    assert_eq!(ran(&project).len(), 6, "three iterations of two codons");
}

// covers: STATE-69
#[test]
fn a_changed_file_or_another_output_starts_the_count_again() {
    for (does, check) in [
        ("[ $HANKWEAVE_ITERATION != 2 ] || echo x >> x.txt", FAILS),
        ("true", "cat told; [ -e told ] || echo y; echo x > told; exit 1"),
    ] {
        let project = stage(does, check, &json!({}));
        run(&project, 3);
        let last = if check == FAILS { "look#4" } else { "look#3" };
        assert_eq!(ran(&project).last().unwrap(), last, "{does}, {check}");
    }
}

// covers: STATE-69
#[test]
fn the_hank_says_after_how_many_iterations_and_never_is_possible() {
    for (of_loop, code, last) in [
        (json!({"stalledAfter": 1}), 3, "look#1"),
        (json!({"stalledAfter": 4}), 3, "look#4"),
        (json!({"stalledAfter": 0}), 1, "look#7"),
        // A loop that is about to end anyway ends as ever.
        (json!({"stalledAfter": 7}), 1, "look#7"),
        (
            json!({"terminateOn": {"type": "iterationLimit", "limit": 4}}),
            0,
            "end",
        ),
        (
            json!({"terminateOn": {"type": "iterationLimit", "limit": 4}, "stalledAfter": 1}),
            3,
            "look#1",
        ),
        (
            json!({"terminateOn": {"type": "iterationLimit", "limit": 2}, "stalledAfter": 1}),
            0,
            "end",
        ),
    ] {
        let project = stage("true", FAILS, &of_loop);
        run(&project, code);
        assert_eq!(ran(&project).last().unwrap(), last, "{of_loop}");
    }
}

// covers: STATE-69
#[test]
fn the_count_survives_a_kill_and_a_stop_and_knows_what_the_interrupted_attempt_changed() {
    for signal in [Signal::KILL, Signal::TERM] {
        for (work, count) in [("true", 1), ("echo x >> x.txt", 0)] {
            let wait = format!(
                "[ $HANKWEAVE_ITERATION != 1 ] || [ -e go ] || {{ {work}; touch ready; exec sleep 600; }}"
            );
            let project = stage(&wait, FAILS, &json!({}));
            let mut running = project.start(["run", "--headless", "--json"]);
            running.wait_for_line(|line| line.contains("codon.started") && line.contains("fix#1"));
            until_there(&project.directory().join("ready"));
            running.signal(signal);
            running.finish_within(Duration::from_secs(60));
            project.write("go", "");
            project
                .run(["run", "--headless", "--recover", "session"])
                .expect_code(3);
            let document = state(&project);
            assert_eq!(
                stalls(&document, "look#1"),
                count,
                "{signal:?} {work}: {document:#}"
            );
        }
    }
}

// covers: STATE-69
#[test]
fn a_rollback_takes_its_iterations_out_of_the_count() {
    let project = stage("true", FAILS, &json!({}));
    run(&project, 3);
    let first = codon(&state(&project)["runs"][0], "look#0")["completionCheckpoint"].clone();
    project
        .run(["rollback", "--to", first.as_str().unwrap()].as_slice())
        .expect_code(0);
    run(&project, 3);
    assert_eq!(ran(&project), ["fix#1", "look#1", "fix#2", "look#2"]);
    assert_eq!(stalls(&state(&project), "look#2"), 2);
}

// covers: STATE-69
#[test]
fn a_stuck_loop_is_looked_at_before_its_approval_is_asked_for() {
    let project = project();
    write(
        &project,
        FAILS,
        &json!({"stalledAfter": 1}),
        &json!({"approval": true}),
    );
    project.write("do.sh", "true");
    for _ in 0..2 {
        run(&project, 3);
        project.run(["approve"]).expect_code(0);
    }
    let said = run(&project, 3);
    assert!(said.contains("is stuck"), "{said}");
    let said = run(&project, 3);
    assert!(said.contains("waits for an approval"), "{said}");
    assert_eq!(state(&project)["runs"][0]["interruptedBy"], "approval");
}

// covers: STATE-69
#[test]
fn a_budget_that_ends_the_loop_comes_first_and_sentinels_watch_as_ever() {
    let watch = json!({"sentinels": [{"sentinelConfig": {"id": "watch", "name": "Watch", "command": ["sh", "-c", "cat > /dev/null; echo seen"],
        "trigger": {"type": "event", "on": ["codon.completed"]}, "execution": {"strategy": "immediate"}}}]});
    let project = project();
    write(
        &project,
        FAILS,
        &json!({}),
        &json!({"budget": {"maxOutputTokens": 1}}),
    );
    project.write("do.sh", "true");
    let said = run(&project, 1);
    let raise = "so no iteration follows: a larger `maxOutputTokens` in hank.json lets one follow";
    assert!(said.contains(raise), "{said}");
    let project = project_with(&watch);
    run(&project, 3);
    assert_eq!(ran(&project).len(), 6);
}

// covers: STATE-69
#[test]
fn the_count_survives_a_pause_at_the_budget_of_the_run_in_the_last_answer_of_an_iteration() {
    let project = stage("true", FAILS, &json!({}));
    // A codon costs 1.05 dollars.
    let prices = r#"{"models": {"shell": {"input": 30000, "output": 150000}}}"#;
    project.write("prices.json", prices);
    let run = |most: &str| {
        let options = ["run", "--headless", "--prices", "prices.json", "--max-cost"];
        let finished = project.run(options.into_iter().chain([most]));
        finished.expect_code(3);
        format!("{}{}", finished.stdout, finished.stderr)
    };
    let said = run("4");
    assert!(said.contains("the loop repeats itself (1 of 2 times)"), "{said}");
    assert_eq!(ran(&project), ["fix#0", "look#0", "fix#1", "look#1"]);
    assert_eq!(stalls(&state(&project), "look#1"), 1);
    let said = run("40");
    assert!(
        said.contains("loop `l` is stuck: 2 iterations in a row"),
        "{said}"
    );
    assert_eq!(ran(&project), ["fix#2", "look#2"]);
}

fn project_with(of_codon: &Value) -> TestProject {
    let project = project();
    write(&project, FAILS, &json!({}), of_codon);
    project.write("do.sh", "true");
    project
}
