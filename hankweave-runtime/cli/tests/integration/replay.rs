//! Recorded executions, played once more (CLI-33, RUN-22).

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use hankweave_testing::{Finished, TestProject};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::real_agents::RealAgent;
use crate::real_money::DEADLINE;
use crate::real_stories::{self, real};
use crate::support::{project, shell_agent};

/// Every file beneath a folder with its content.
fn contents(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => found.extend(contents(&path)),
            false => drop(found.insert(path.clone(), fs::read(path).unwrap())),
        }
    }
    found
}

/// Plays what is recorded, which must not change, and returns what the replay says of itself.
fn replay(project: &TestProject, code: i32) -> (Finished, Value) {
    let recorded = project.directory().join(".hankweave");
    let before = contents(&recorded);
    let directory = project.directory().to_string_lossy().into_owned();
    let finished = project.run(["replay", &directory, "--speed", "max", "--json"]);
    finished.expect_code(code);
    assert!(contents(&recorded) == before, "the record was changed");
    let last = finished.json_lines().pop().unwrap();
    assert_eq!(last["type"], "replay.completed");
    (finished, last["data"].clone())
}

/// Two codons with a rig and a check; the first is killed in its work and goes on in another run.
fn record() -> TestProject {
    let project = project();
    let agent = shell_agent(&project);
    let rig = json!([{"type": "command", "command": {"run": "echo rigged"}}]);
    let codon = |id: &str, prompt: &str| {
        json!({"id": id, "name": id, "agent": agent, "model": "shell", "continuationMode": "fresh", "promptText": prompt,
            "checkpointedFiles": ["*.txt"], "rigSetup": rig})
    };
    let mut checked = codon("b", "on");
    checked["check"] = json!({"run": "[ $(wc -l < done.txt) -ge 3 ]"});
    project.write_hank(&json!({"hank": [codon("a", "wait for go"), checked]}));
    let mut running = project.start(["run", "--headless", "--json"]);
    running.wait_for_line(|line| line.contains("\"working\""));
    running.signal(Signal::KILL);
    running.finish_within(DEADLINE);
    project.write("go", "");
    project.run(["run", "--headless"]).expect_code(0);
    project
}

// covers: CLI-33, RUN-22
#[test]
fn a_whole_thread_comes_out_as_it_is_recorded() {
    let project = record();
    let (finished, outcome) = replay(&project, 0);
    assert_eq!(outcome["difference"], Value::Null);
    assert!(outcome["fromLogs"].as_u64().unwrap() >= 4, "{outcome}");
    assert!(outcome["compared"].as_u64().unwrap() >= 2, "{outcome}");
    // Programs get every event of every run as it was recorded.
    let journal = project.run(["journal"]);
    let lines = finished.json_lines();
    assert_eq!(lines[..lines.len() - 1], journal.json_lines());
    // What came out is an execution directory of its own.
    let place = outcome["execution"].as_str().unwrap();
    let state = |directory: &Path| project.state(directory);
    assert_eq!(state(Path::new(place)), state(&project.directory()));
    let status = project.run(["status", "-e", place]);
    status.expect_code(0);
    // People see sentences.
    let directory = project.directory().to_string_lossy().into_owned();
    let named = project.home().join("named");
    let named = named.to_str().unwrap();
    let told = project.run(["replay", &directory, "--speed", "max", "-e", named]);
    told.expect_code(0);
    assert!(
        told.stderr.contains("everything came out as it is recorded"),
        "{told}"
    );
    assert!(told.stdout.contains("a: working"), "{told}");
    // Nothing is written over.
    project
        .run(["replay", &directory, "-e", &directory])
        .expect_code(65);
    project.run(["replay", &directory, "-e", named]).expect_code(65);
}

// covers: CLI-33, RUN-22
#[test]
fn the_first_difference_is_named() {
    let project = record();
    let logs = contents(&project.directory().join(".hankweave/runs"));
    let log = logs
        .keys()
        .rfind(|path| path.to_string_lossy().contains("b-command"))
        .unwrap();
    let said = fs::read_to_string(log).unwrap();
    // Another word, a cost that nobody recorded, and a line that is gone.
    let without = said.lines().filter(|line| !line.contains("working"));
    for (changed, named) in [
        (
            said.replacen(r#""text":"working""#, r#""text":"idling""#, 1),
            "b (command), what it said 1.",
        ),
        (said.replace("0.25", "0.75"), "b (command), what it used"),
        (
            without.collect::<Vec<_>>().join("\n"),
            "b (command), what it said 1.",
        ),
    ] {
        fs::write(log, changed).unwrap();
        let (_, outcome) = replay(&project, 1);
        assert_eq!(outcome["difference"]["place"], named, "{outcome}");
    }
}

/// What a model says to two codons, the second of which goes on in the session of the first.
fn turns() -> Value {
    json!({"turns": [
        {"text": "I write it.", "tools": [{"op": "write", "path": "${CWD}/a.txt", "content": "x"}], "usage": {"input": 900, "output": 40}},
        {"text": "Done.", "usage": {"input": 1000, "output": 5}},
        {"text": "Again.", "usage": {"input": 700, "output": 9}},
    ]})
}

/// What the real programs said and used, once more without them.
// covers: CLI-33, RUN-22
#[test]
fn executions_of_real_agents_come_out_as_they_are_recorded() {
    let check = |project: &TestProject, codons: [Value; 2]| {
        project.write_hank(&json!({"hank": codons}));
        project.run(["run", "--headless"]).expect_code(0);
        let (_, outcome) = replay(project, 0);
        assert!(outcome["fromLogs"].as_u64().unwrap() >= 4, "{outcome}");
    };
    let modes = [("one", "fresh"), ("two", "continue-previous")];
    if let Some((project, server)) = real_stories::stage("", turns()) {
        let codons = modes.map(|(id, mode)| {
            real(
                &server,
                id,
                mode,
                "TASK",
                &json!({"checkpointedFiles": ["*.txt"]}),
            )
        });
        check(&project, codons);
    }
    for agent in RealAgent::all() {
        let (project, _server) = agent.stage(turns());
        check(&project, modes.map(|(id, mode)| agent.codon(id, mode, "TASK")));
    }
}
