//! Project with tasks of the scripted agent, and how its commands are typed.

use std::path::PathBuf;

use hankweave_testing::TestProject;
use serde_json::{Value, json};

/// A script with one answer, which costs $0.45.
pub(crate) fn turn(text: &str) -> Value {
    json!({"turns": [{"text": text, "usage": {"input": 100_000, "output": 10_000}}]})
}

/// Writes a folder with a hank of these codons, each of which plays its `script`.
pub(crate) fn write_hank(project: &TestProject, folder: &str, codons: &[Value]) {
    let mut hank = Vec::new();
    for codon in codons {
        let id = codon["id"].as_str().unwrap();
        project.write(&format!("{folder}/{id}.json"), codon["script"].to_string());
        let mut written = json!({
            "id": id, "name": id, "model": "claude-sonnet-4-5", "agent": {"script": format!("{id}.json")},
            "continuationMode": "fresh", "promptText": "work",
        });
        for name in ["approval", "check", "budget", "onFailure"] {
            if let Some(value) = codon.get(name) {
                written[name] = value.clone();
            }
        }
        hank.push(written);
    }
    project.write(&format!("{folder}/hank.json"), json!({"hank": hank}).to_string());
}

/// Writes a hank whose second codon asks before it starts.
pub(crate) fn write_gate(project: &TestProject) {
    let gate = json!({"id": "publish", "script": turn("Out"), "approval": "Publish it?"});
    write_hank(
        project,
        "page",
        &[json!({"id": "draft", "script": turn("Drafted")}), gate],
    );
}

/// Writes a hank that works until the returned file is removed.
pub(crate) fn write_slow(project: &TestProject) -> PathBuf {
    let hold = project.home().join("hold");
    std::fs::write(&hold, "").unwrap();
    let wait = format!("while [ -e '{}' ]; do sleep 0.05; done", hold.display());
    let script = json!({"turns": [{"text": "Working", "tools": [{"bash": {"command": wait}}]}]});
    write_hank(project, "slow", &[json!({"id": "draft", "script": script})]);
    hold
}

pub(crate) fn create(project: &TestProject, id: &str, name: &str, hank: &str, more: &[&str]) {
    let mut create = vec!["task", "create", name, "--hank", hank, "--id", id];
    create.extend(more);
    project.run(create).expect_code(0);
}

pub(crate) fn work(project: &TestProject) {
    project.run(["worker", "--once"]).expect_code(0);
}

pub(crate) fn shown(project: &TestProject, id: &str) -> Value {
    let shown = project.run(["task", "show", id, "--json"]);
    shown.expect_code(0).json_document()
}

pub(crate) fn text(project: &TestProject, arguments: &[&str]) -> String {
    project.run(arguments).expect_code(0).stdout.clone()
}

pub(crate) fn workspace(project: &TestProject, id: &str) -> PathBuf {
    let tasks = project.home().join(".local/share/hankweave/tasks");
    tasks.join(id).join("workspace")
}

#[track_caller]
pub(crate) fn says(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{part}: {text}");
    }
}

/// Runs a command as it is printed.
pub(crate) fn paste(project: &TestProject, command: &str) {
    let words: Vec<&str> = command.split(' ').skip(1).collect();
    project.run(words).expect_code(0);
}
