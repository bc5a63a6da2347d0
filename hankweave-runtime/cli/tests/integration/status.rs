//! What `status` says of a run in every way that one can be found: before it begins, at work, waiting, paused, stopped, killed.

use std::time::Duration;

use hankweave_core::time::Timestamp;
use hankweave_testing::TestProject;
use serde_json::{Value, json};

use crate::support::{project, shell_agent};

/// One codon for each prompt, the first of them with more keys.
fn write_hank(project: &TestProject, prompts: &[&str], more: &Value) {
    let agent = shell_agent(project);
    let codon = |(number, prompt): (usize, &&str)| {
        let mut codon = json!({"id": format!("c{number}"), "name": "n", "agent": agent, "model": "claude-sonnet-4-5",
            "continuationMode": "fresh", "promptText": prompt, "checkpointedFiles": ["*.txt"]});
        let more = more.as_object().filter(|_| number == 0);
        codon
            .as_object_mut()
            .unwrap()
            .extend(more.cloned().unwrap_or_default());
        codon
    };
    let codons: Vec<Value> = prompts.iter().enumerate().map(codon).collect();
    project.write_hank(&json!({ "hank": codons }));
}

/// Returns the text for people and the document for programs, which agree.
#[track_caller]
fn status(project: &TestProject) -> (String, Value) {
    let text = project.run(["status"]).expect_code(0).stdout.clone();
    let document = project.run(["status", "--json"]).expect_code(0).json_document();
    assert!(text.contains(document["outlook"].as_str().unwrap()), "{text}");
    (text, document)
}

/// The commands that are offered, without the options of the run.
fn offered(document: &Value) -> Vec<String> {
    serde_json::from_value(document["commands"].clone()).unwrap()
}

#[test]
fn a_run_that_waits_for_commands_says_what_is_next_and_then_what_runs() {
    let project = project();
    write_hank(&project, &["wait for go", "two"], &Value::Null);
    let mut run = project.start(["run", "--headless", "--json", "--no-autostart"]);
    run.wait_for_line(|line| line.contains("\"server.idle\""));
    let (text, before) = status(&project);
    assert_eq!(before["outlook"], "the run waits for a command; next: c0");
    assert_eq!(
        (&before["nextCodonId"], &before["hasRunningCodon"]),
        (&json!("c0"), &json!(false))
    );
    assert_eq!(offered(&before)[1..], ["hankweave next", "hankweave stop"]);
    assert!(text.contains(": running, since "), "{text}");

    project.run(["next"]).expect_code(0);
    run.wait_for_line(|line| line.contains("\"codon.started\""));
    let (_, during) = status(&project);
    assert_eq!(during["outlook"], "c0 is running");
    assert_eq!(
        (&during["nextCodonId"], &during["hasRunningCodon"]),
        (&Value::Null, &json!(true))
    );
    assert_eq!(offered(&during), ["hankweave attach", "hankweave stop"]);
    project.run(["stop"]).expect_code(0);
    run.finish_within(Duration::from_secs(60)).expect_code(3);

    let (text, after) = status(&project);
    assert_eq!(
        (&after["outlook"], &after["nextCodonId"]),
        (&json!("next: c0"), &json!("c0"))
    );
    assert!(text.contains(": stopped, "), "{text}");
    let commands = offered(&after);
    assert!(commands[0].ends_with(" --recover session"), "{commands:?}");
}

#[test]
fn a_run_that_waits_to_try_again_says_which_codon_and_when() {
    let project = project();
    let failing = r#"{"turns":[{"text":"oops"}],"result":{"message":"overloaded","status":529}}"#;
    project.write("failing.json", failing);
    let policy = json!({"agent": {"script": "failing.json"}, "onFailure": "retry",
        "retryConfig": {"maxAttempts": 2, "delayMs": 60_000}});
    write_hank(&project, &["one", "two"], &policy);
    let mut run = project.start(["run", "--headless"]);
    run.wait_for_line(|line| line.contains("retry 1 of 2"));
    let (text, waiting) = status(&project);
    assert!(
        text.contains("c0 failed and is tried again (retry 1 of 2) in "),
        "{text}"
    );
    let retry = &waiting["retry"];
    assert_eq!((&retry["codonId"], &retry["number"]), (&json!("c0"), &json!(1)));
    let seconds = retry["inSeconds"].as_f64().unwrap();
    assert!((0.0..=60.0).contains(&seconds), "{seconds}");
    assert!(
        !text.contains("blocked") && !text.contains("nothing is left"),
        "{text}"
    );

    // Stopped while it waits, it is the failed codon that is next.
    project.run(["stop"]).expect_code(0);
    run.finish_within(Duration::from_secs(60)).expect_code(3);
    let (text, stopped) = status(&project);
    assert_eq!(
        (&stopped["outlook"], &stopped["nextCodonId"], &stopped["failed"]),
        (&json!("next: c0"), &json!("c0"), &json!(false)),
        "{text}"
    );
}

const MONTH: i64 = 30 * 24 * 3_600_000;

/// Returns what `status` shows with a clock that was set by a month since the run wrote its records. The live process is the one that wrote them.
fn after_a_month_was_set(project: &TestProject, ahead: bool) -> (String, Value) {
    let seen = project.directory().join("seen/.hankweave");
    std::fs::create_dir_all(&seen).unwrap();
    let ours = project.directory().join(".hankweave");
    std::fs::copy(ours.join("execution-meta.json"), seen.join("execution-meta.json")).unwrap();
    // The lock record of a copy names no directory.
    let lock = std::fs::read(ours.join("server.lock")).unwrap();
    let mut lock: Value = serde_json::from_slice(&lock).unwrap();
    lock.as_object_mut().unwrap().remove("directory");
    std::fs::write(seen.join("server.lock"), lock.to_string()).unwrap();
    let set = |time: &mut Value| {
        if let Some(text) = time.as_str() {
            let then = Timestamp::parse(text).unwrap().as_millis();
            let then = if ahead { then - MONTH } else { then + MONTH };
            *time = json!(Timestamp::from_millis(then));
        }
    };
    // From the log: state.json may be written a moment later.
    let mut state = project.run(["state", "show"]).expect_code(0).json_document();
    for codon in state["runs"][0]["codons"].as_array_mut().unwrap() {
        set(&mut codon["startTime"]);
        set(&mut codon["endTime"]);
    }
    std::fs::write(seen.join("state.json"), state.to_string()).unwrap();
    let at = ["-e", "seen"];
    let text = project
        .run(["status"].iter().chain(&at))
        .expect_code(0)
        .stdout
        .clone();
    let document = project.run(["status", "--json"].iter().chain(&at));
    (text, document.expect_code(0).json_document())
}

// covers: D9
#[test]
fn whoever_looks_with_a_clock_that_was_set_sees_how_long_it_takes() {
    let project = project();
    let failing = r#"{"turns":[{"text":"oops"}],"result":{"message":"overloaded","status":529}}"#;
    project.write("failing.json", failing);
    let policy = json!({"agent": {"script": "failing.json"}, "onFailure": "retry",
        "retryConfig": {"maxAttempts": 2, "delayMs": 60_000}});
    write_hank(&project, &["one"], &policy);
    let mut run = project.start(["run", "--headless"]);
    run.wait_for_line(|line| line.contains("retry 1 of 2"));
    for ahead in [true, false] {
        let (text, waiting) = after_a_month_was_set(&project, ahead);
        let seconds = waiting["retry"]["inSeconds"].as_f64().unwrap();
        // No more has passed than this test takes.
        assert!(seconds > 0.0 && seconds <= 60.0, "{ahead}: {seconds}\n{text}");
    }
    run.kill();
    std::fs::remove_dir_all(project.directory().join(".hankweave")).unwrap();

    write_hank(&project, &["wait for go"], &json!({}));
    let mut run = project.start(["run", "--headless", "--json"]);
    run.wait_for_line(|line| line.contains("\"assistant.action\""));
    let (text, _) = after_a_month_was_set(&project, true);
    assert!(
        text.contains("running") && text.contains("all runs unknown"),
        "{text}"
    );
    assert!(!text.contains("720 h"), "{text}");
    run.kill();
    let (text, _) = status(&project);
    assert!(
        text.contains("rolls back to where the work began, for nothing has completed"),
        "{text}"
    );
}

#[test]
fn a_run_that_was_killed_says_what_was_cut_off_and_how_to_go_on() {
    let project = project();
    write_hank(&project, &["one", "wait for go", "three"], &Value::Null);
    let mut run = project.start(["run", "--headless", "--json"]);
    run.wait_for_line(|line| line.contains("\"assistant.action\"") && line.contains("\"c1\""));
    run.kill();
    let (text, killed) = status(&project);
    assert!(text.contains(": crashed, started "), "{text}");
    let view = &killed["view"];
    assert_eq!(
        (&view["state"], &view["items"]["c1"]["attempts"]["1.1"]["state"]),
        (&json!("crashed"), &json!("crashed"))
    );
    assert!(text.contains("rolls back to the last success"), "{text}");
    // The cost of the answer that was being written is unknown.
    assert!(text.contains("all runs at least $0.25"), "{text}");
    assert_eq!(killed["costIsLowerBound"], true);
    assert_eq!(killed["outlook"], "c1 crashed; the next run continues there");
    assert_eq!(killed["live"], false);
    let commands = offered(&killed);
    assert_eq!(
        commands[..3],
        [
            "hankweave run --recover session",
            "hankweave run",
            "hankweave run --recover crash-point"
        ]
    );
}

// A run that paused after an ignored failure is neither complete nor failed.
// covers: STATE-54
#[test]
fn a_run_that_pauses_behind_an_ignored_failure_says_what_is_next() {
    let project = project();
    let failing =
        r#"{"turns":[{"text":"oops","usage":{"input":100000,"output":0}}],"result":{"message":"no credit"}}"#;
    project.write("failing.json", failing);
    let ignored = json!({"agent": {"script": "failing.json"}, "onFailure": "ignore",
        "budget": {"maxDollars": 0.3, "onExceeded": "fail"}});
    write_hank(&project, &["one", "two"], &ignored);
    for _ in 0..2 {
        // The second time the run pauses before it has a codon of its own.
        project
            .run(["run", "--headless", "--max-cost", "0.3"])
            .expect_code(3);
        let (text, paused) = status(&project);
        assert_eq!(
            (&paused["outlook"], &paused["nextCodonId"], &paused["failed"]),
            (&json!("next: c1"), &json!("c1"), &json!(false)),
            "{text}"
        );
        assert!(
            text.contains(": paused (") && text.contains("continues with c1"),
            "{text}"
        );
        let view = &paused["view"];
        assert_eq!(view["state"], "paused");
        // Whether more was used than is known depends on the run that says so.
        let headline = view["headline"]
            .as_str()
            .unwrap()
            .replace("used at least ", "used ");
        assert_eq!(
            headline,
            "Paused (total budget of $0.3000 spent): c1: the total budget is used up: used $0.3000 of $0.3000"
        );
        assert_eq!(view["items"]["c0"]["attempts"]["1.1"]["state"], "failed");
    }
    let more = project.run(["run", "--headless", "--max-cost", "9"]);
    more.expect_code(0);
    let (_, done) = status(&project);
    assert_eq!(done["nextCodonId"], Value::Null);
}

/// Every command has one name for the outcome of a run, in lines of at most 80 columns.
// covers: CLI-11
#[test]
fn a_run_has_one_name_in_every_command() {
    let project = project();
    write_hank(&project, &["one", "wait for go"], &Value::Null);
    let hank = std::fs::read_to_string(project.directory().join("hank.json")).unwrap();
    let mut hank: Value = serde_json::from_str(&hank).unwrap();
    hank["hank"][1]["approval"] = "Deploy?".into();
    project.write_hank(&hank);
    let says = |word: &str| {
        for command in [&["cost"][..], &["history"], &["history", "--all"]] {
            let text = project.run(command).expect_code(0).stdout.clone();
            let run = text.lines().find(|line| line.starts_with("run ")).unwrap();
            assert!(run.contains(word), "{command:?}: {text}");
            let is_wide = |line: &&str| command == ["cost"] && line.chars().count() > 80;
            assert_eq!(text.lines().find(is_wide), None, "{text}");
        }
    };
    project.run(["run", "--headless"]).expect_code(3);
    says("paused");
    project.run(["approve"]).expect_code(0);
    let mut run = project.start(["run", "--headless", "--json"]);
    run.wait_for_line(|line| line.contains("\"running\"") && line.contains("c1"));
    says("running");
    run.kill();
    says("crashed");
    let cost = project.run(["cost"]).expect_code(0).stdout.clone();
    assert!(cost.contains("  c1 ") && cost.contains("unknown"), "{cost}");
}
