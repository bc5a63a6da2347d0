//! The inspection commands, on the state fixtures and on damaged execution directories.

use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use hankweave_testing::TestProject;
use serde_json::{Value, json};

use crate::support::{assert_usd, project, shell_agent};

/// The document that holds a bit of everything.
const FULL: &str = "full-state.json";

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../hankweave-core/tests/fixtures/state")
        .join(name)
}

fn expected() -> serde_json::Map<String, Value> {
    serde_json::from_slice(&std::fs::read(fixture("expected.json")).unwrap()).unwrap()
}

fn on_fixture(project: &TestProject, command: &[&str], name: &str, code: i32) -> Value {
    let file = fixture(name);
    let options = ["--state", file.to_str().unwrap(), "--format", "json"];
    let finished = project.run(command.iter().chain(&options));
    finished.expect_code(code).json_document()
}

/// Writes every SHA of the full document into a file, and returns its path.
fn known_checkpoints(project: &TestProject) -> PathBuf {
    fn collect(value: &Value, found: &mut Vec<String>) {
        match value {
            Value::Object(object) => object.iter().for_each(|(name, value)| match value.as_str() {
                Some(sha) if name.to_lowercase().contains("checkpoint") => found.push(sha.to_owned()),
                _ => collect(value, found),
            }),
            Value::Array(items) => items.iter().for_each(|item| collect(item, found)),
            _ => {}
        }
    }
    let mut found = Vec::new();
    collect(
        &serde_json::from_slice(&std::fs::read(fixture(FULL)).unwrap()).unwrap(),
        &mut found,
    );
    project.write("known.json", json!(found).to_string())
}

// covers: CLI-11
#[test]
fn every_fixture_answers_as_expected() {
    let project = project();
    let known = known_checkpoints(&project);
    let known = ["--known-checkpoints", known.to_str().unwrap()];
    for (name, expected) in expected() {
        let valid = expected["valid"].as_bool().unwrap();
        let code = if valid { 0 } else { 1 };
        let verdict = on_fixture(&project, &["state", "validate", known[0], known[1]], &name, code);
        assert_eq!(verdict["valid"], expected["valid"], "{name}");
        let errors = verdict["errors"].as_array().unwrap();
        for pair in expected["errors"].as_array().unwrap() {
            let fits = |error: &Value| {
                error["type"] == pair[0] && error.to_string().contains(pair[1].as_str().unwrap())
            };
            assert!(errors.iter().any(fits), "{name}: {verdict:#}");
        }
        if !valid {
            continue;
        }
        assert_eq!(verdict["source"], "primary", "{name}");
        let strange = verdict["warnings"].as_array().unwrap().iter();
        let strange = strange.filter(|warning| name == FULL || warning["type"] != "missing_checkpoint");
        assert_eq!(strange.count(), 0, "{name}: {verdict:#}");
        for figure in ["total", "currentRun", "totalSpend"] {
            assert_usd(
                &verdict["costs"][figure],
                expected["costs"][figure].as_f64().unwrap(),
            );
        }
        let thread = on_fixture(&project, &["thread", known[0], known[1]], &name, 0);
        for key in ["totalRuns", "hasRunningCodon", "failed", "nextCodonId"] {
            assert_eq!(thread[key], expected["thread"][key], "{name} {key}");
        }
        let codons = thread["codons"].as_array().unwrap().iter().map(|entry| {
            let codon = &entry["codon"];
            json!([
                codon["codonId"],
                codon["status"],
                entry["runId"],
                entry["runIndex"],
                entry["codonIndexInRun"]
            ])
        });
        assert_eq!(
            json!(codons.collect::<Vec<_>>()),
            expected["thread"]["codons"],
            "{name}"
        );
        let costs = on_fixture(&project, &["state", "cost"], &name, 0);
        assert_usd(
            &costs["total"]["codonCost"],
            expected["costs"]["total"].as_f64().unwrap(),
        );
        assert_usd(
            &costs["total"]["spend"],
            expected["costs"]["totalSpend"].as_f64().unwrap(),
        );
        assert_usd(
            &costs["currentRun"]["codonCost"],
            expected["costs"]["currentRun"].as_f64().unwrap(),
        );
    }
}

// covers: CLI-8
#[test]
fn a_thread_holds_everything_that_scripts_rely_on() {
    let project = project();
    let known = known_checkpoints(&project);
    let thread = on_fixture(
        &project,
        &["thread", "--known-checkpoints", known.to_str().unwrap()],
        FULL,
        0,
    );
    let newest = &thread["codons"][1];
    let names: Vec<&str> = newest.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(
        names,
        [
            "codon",
            "runId",
            "runStatus",
            "runStartTime",
            "runEndTime",
            "gitBranch",
            "globalIndex",
            "runIndex",
            "codonIndexInRun",
            "validatedCheckpoints",
            "continuationSessionId"
        ]
    );
    let checkpoint = newest["validatedCheckpoints"].as_array().unwrap().last().unwrap();
    assert_eq!(checkpoint["type"], "completed");
    assert_eq!(checkpoint["sha"], newest["codon"]["completionCheckpoint"]);
    let planned = on_fixture(&project, &["state", "show"], FULL, 0)["executionPlan"]
        .as_array()
        .unwrap()
        .len();
    assert_eq!(thread["sessions"].as_object().unwrap().len(), planned);
    let without = on_fixture(&project, &["thread", "--no-checkpoint-validation"], FULL, 0);
    assert_eq!(without["codons"][1]["validatedCheckpoints"], json!([]));
    let older = on_fixture(
        &project,
        &["thread", "--run", "1736003600000-p8d4we-2hn5rc"],
        FULL,
        0,
    );
    assert_eq!(older["codons"][0]["codon"]["status"], "completing-sentinels");
    assert_eq!((&older["failed"], &older["totalRuns"]), (&json!(true), &json!(2)));
    let unknown = on_fixture(&project, &["thread", "--run", "nobody"], FULL, 0);
    assert_eq!(
        (&unknown["codons"], &unknown["totalRuns"]),
        (&json!([]), &json!(0))
    );
}

#[test]
fn missing_checkpoints_are_warnings() {
    let project = project();
    let none = project.write("none.json", "[]");
    let verdict = on_fixture(
        &project,
        &["state", "validate", "--known-checkpoints", none.to_str().unwrap()],
        FULL,
        0,
    );
    let warnings = verdict["warnings"].as_array().unwrap();
    assert!(
        warnings
            .iter()
            .all(|warning| warning["type"] == "missing_checkpoint"),
        "{verdict:#}"
    );
    assert!(
        warnings
            .iter()
            .any(|warning| warning["path"] == "initialCheckpoint"),
        "{verdict:#}"
    );
}

// covers: CLI-10
#[test]
fn events_are_folded_and_each_has_its_outcome() {
    let project = project();
    let transitioned = |from: &str, to: &str, metadata: Value| {
        json!({"type": "CodonTransitioned",
               "data": {"runId": "r", "codonId": "a", "from": from, "to": to, "metadata": metadata}})
    };
    let events = [
        json!({"type": "RunStarted", "data": {"runId": "r", "runFolder": "/x/r", "gitBranch": "run-r",
               "startingConditions": {"type": "fresh"}, "serverPid": 1}}),
        json!({"type": "CodonStarted", "data": {"runId": "r", "codonId": "a"}}),
        transitioned("preparing", "running", json!({})),
        transitioned(
            "preparing",
            "starting",
            json!({"checkpointSha": "abc", "whatever": 1}),
        ),
        transitioned("starting", "initializing", json!({"claudePid": "nine"})),
        json!({"type": "RunFailed", "data": {"runId": "s"}}),
        json!({"type": "CodonStarted", "data": {"runId": "r", "codonId": "b"}}),
        json!({"type": "CostsUpdated", "data": {"runId": "r", "codonId": "a", "cost": -1}}),
        transitioned("starting", "finished", json!({})),
    ];
    let lines: Vec<String> = events.iter().map(Value::to_string).collect();
    let as_lines = project.write("events.jsonl", lines.join("\n"));
    let as_list = project.write("events.json", json!(events).to_string());
    let apply = |file: &Path| {
        let file = file.to_str().unwrap();
        let arguments = [
            "state",
            "apply",
            "--events",
            file,
            "--now",
            "2025-01-04T12:00:00Z",
            "--json",
        ];
        project.run(arguments).expect_code(0).json_document()
    };
    let result = apply(&as_lines);
    assert_eq!(result, apply(&as_list));
    let outcomes = result["outcomes"].as_array().unwrap().iter();
    let outcomes: Vec<Value> = outcomes
        .map(|outcome| json!([outcome["outcome"], outcome["kind"], outcome["fields"]]))
        .collect();
    assert_eq!(
        json!(outcomes),
        json!([
            ["applied", null, []],
            ["applied", null, []],
            ["rejected", "invalid_transition", []],
            ["applied", null, []],
            ["rejected", "metadata", ["claudeLogPath", "claudePid"]],
            ["rejected", "not_found", []],
            ["rejected", "conflict", []],
            ["rejected", "metadata", ["cost", "tokens"]],
            ["rejected", "invalid_transition", ["to"]],
        ])
    );
    assert_eq!(
        result["state"]["runs"][0]["codons"][0],
        json!({"status": "starting", "codonId": "a", "startTime": "2025-01-04T12:00:00.000Z", "rigSetupCheckpoint": "abc"})
    );
    let state = fixture(FULL);
    let onto = [
        "state",
        "apply",
        "--state",
        state.to_str().unwrap(),
        "--events",
        as_list.to_str().unwrap(),
    ];
    let refused = project
        .run(onto.iter().chain(&["--json"]))
        .expect_code(0)
        .json_document();
    assert_eq!(
        refused["outcomes"][0]["kind"], "conflict",
        "a run is still running there"
    );
}

#[test]
fn what_cannot_be_read_is_bad_input() {
    let project = project();
    let broken = fixture("corrupt-cut-off.json.txt");
    let broken = broken.to_str().unwrap();
    for arguments in [
        &["state", "show", "--state", broken][..],
        &["state", "cost", "--state", broken],
        &["thread", "--state", broken],
        &["state", "validate", "--state", "nowhere.json"],
        &["state", "apply", "--events", broken],
        &["thread", "-e", "nowhere"],
    ] {
        project.run(arguments).expect_code(65);
    }
    project
        .run(["state", "apply", "--events", broken, "--now", "soon"])
        .expect_code(2);
}

/// A project whose only codon ran once.
fn finished_project() -> TestProject {
    let project = project();
    let codon = json!({"id": "only", "name": "only", "agent": shell_agent(&project), "model": "shell",
        "continuationMode": "fresh", "promptText": "hello"});
    project.write_hank(&json!({"hank": [codon]}));
    project.run(["run", "--headless"]).expect_code(0);
    project
}

fn verdict(project: &TestProject, code: i32) -> Value {
    project
        .run(["state", "validate", "--json"])
        .expect_code(code)
        .json_document()
}

fn state_file(project: &TestProject, name: &str) -> PathBuf {
    project.directory().join(".hankweave").join(name)
}

// covers: CLI-9, F4
#[test]
fn a_start_would_take_the_backup_and_then_the_recorded_events() {
    let project = finished_project();
    let whole = verdict(&project, 0);
    assert_eq!(whole["source"], "primary");
    std::fs::write(state_file(&project, "state.json"), "{").unwrap();
    let backup = verdict(&project, 1);
    assert_eq!(
        (&backup["source"], &backup["runIds"]),
        (&json!("backup"), &whole["runIds"])
    );
    assert_eq!(backup["errors"][0]["type"], "corrupted_data");
    std::fs::write(state_file(&project, "state.json.bak"), "{").unwrap();
    let log = verdict(&project, 1);
    assert_eq!(
        (&log["source"], &log["runIds"]),
        (&json!("log"), &whole["runIds"])
    );
    assert_eq!(
        (&log["costs"], &log["resetWarning"]),
        (&whole["costs"], &json!(false))
    );
    std::fs::remove_file(state_file(&project, "state.json")).unwrap();
    std::fs::remove_file(state_file(&project, "state.log")).unwrap();
    std::fs::remove_dir_all(state_file(&project, "events")).unwrap();
    let fresh = verdict(&project, 1);
    assert_eq!(
        (&fresh["source"], &fresh["resetWarning"]),
        (&json!("fresh"), &json!(true))
    );
    assert_eq!(fresh["warnings"][0]["type"], "orphaned_folder");
}

/// With room for less than the longest line of the journal, everything else in it is found.
// covers: F5, D6
#[test]
fn the_recorded_events_are_read_in_little_memory() {
    let project = finished_project();
    let whole = verdict(&project, 0);
    for name in ["state.json", "state.json.bak", "state.log"] {
        std::fs::remove_file(state_file(&project, name)).unwrap();
    }
    let journal = state_file(&project, "events/000001.jsonl");
    let lines = std::fs::read(&journal).unwrap();
    let mut file = std::fs::File::create(&journal).unwrap();
    file.set_len(96 << 20).unwrap();
    file.seek(SeekFrom::End(0)).unwrap();
    file.write_all(&[b"\n", &lines[..]].concat()).unwrap();
    let command = "ulimit -d 65536; exec \"$0\" state validate --json";
    let looked = Command::new("sh")
        .args(["-c", command, env!("CARGO_BIN_EXE_hankweave")])
        .current_dir(project.directory())
        .output()
        .unwrap();
    let found: Value = serde_json::from_slice(&looked.stdout).unwrap();
    assert_eq!(
        (&found["source"], &found["runIds"]),
        (&json!("log"), &whole["runIds"])
    );
}

// covers: CLI-9
#[test]
fn repair_does_what_a_start_would_do_and_nothing_else_changes_a_file() {
    let project = finished_project();
    let whole = verdict(&project, 0);
    std::fs::write(state_file(&project, "state.json"), "{").unwrap();
    std::fs::write(state_file(&project, "state.json.tmp"), "{").unwrap();
    let before = project.files();
    verdict(&project, 1);
    assert_eq!(project.files(), before);
    project.run(["state", "validate", "--repair"]).expect_code(1);
    let repaired = verdict(&project, 0);
    assert_eq!(
        (&repaired["source"], &repaired["runIds"]),
        (&json!("primary"), &whole["runIds"])
    );
    assert!(!state_file(&project, "state.json.tmp").exists());
    let kept = std::fs::read_dir(state_file(&project, "")).unwrap();
    let kept = kept.filter(|entry| {
        let name = entry.as_ref().unwrap().file_name();
        name.to_string_lossy().starts_with("state.json.corrupt-")
    });
    assert_eq!(kept.count(), 1);
}

// A run may be named by a part of its id, such as the six characters that screens show.
// covers: CLI-8
#[test]
fn a_run_is_named_by_the_start_or_the_end_of_its_id() {
    let project = project();
    let agent = shell_agent(&project);
    project.write_hank(
        &json!({"hank": [{"id": "a", "name": "a", "agent": agent, "model": "sonnet",
        "continuationMode": "fresh", "promptText": "go"}]}),
    );
    project.run(["run", "--headless"]).expect_code(0);
    project.run(["run", "--headless", "--new"]).expect_code(0);
    let state = project.state(&project.directory());
    let id = state["runs"][1]["runId"].as_str().unwrap();
    let whole = project.run(["history", "--json", "--run", id]);
    let short = project.run(["history", "--json", "--run", &id[id.len() - 6..]]);
    assert_eq!(short.expect_code(0).stdout, whole.expect_code(0).stdout);
    project
        .run(["cost", "--since", &id[id.len() - 6..]])
        .expect_code(0);
    let several = project.run(["cost", "--since", &id[..4]]);
    assert!(
        several
            .expect_code(65)
            .stderr
            .contains("part of the ids of 2 runs"),
        "{several}"
    );
    let none = project.run(["cost", "--since", "nobody"]);
    assert!(
        none.expect_code(65).stderr.contains("hankweave history --all"),
        "{none}"
    );
}
