//! Hostile hands and bad disks in the state directory: what cannot be ours is set aside, nothing leads elsewhere, nothing keeps anybody waiting.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use hankweave_testing::{Finished, TestProject};
use serde_json::json;

use crate::support::project;

/// A project in which one codon of the scripted agent has run and left a file.
fn finished_project() -> TestProject {
    let project = project();
    project.write(
        "script.json",
        json!({"turns": [{"tools": [{"append": {"path": "work.txt", "content": "done\n"}}]}]}).to_string(),
    );
    project.write_hank(
        &json!({"hank": [{"id": "one", "name": "One", "model": "claude-sonnet-4-5",
        "continuationMode": "fresh", "promptText": "go", "agent": {"script": "script.json"}}]}),
    );
    project.run(["run", "--headless"]).expect_code(0);
    project
}

fn make_pipe(path: &Path) {
    let made = std::process::Command::new("mkfifo").arg(path).status().unwrap();
    assert!(made.success());
}

/// Puts a pipe in the place of a file.
fn become_pipe(path: &Path) {
    let _ = fs::remove_file(path);
    make_pipe(path);
}

/// Moves what is at `path` away and puts a link to it in its place.
fn become_link(path: &Path, elsewhere: &Path) {
    fs::rename(path, elsewhere).unwrap();
    symlink(elsewhere, path).unwrap();
}

/// Every file and folder beneath a folder, with what the files hold.
fn contents(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let kind = fs::symlink_metadata(&path).unwrap();
            let content = kind.is_file().then(|| fs::read(&path).unwrap());
            if kind.is_dir() {
                folders.push(path.clone());
            }
            found.push((path, content.unwrap_or_default()));
        }
    }
    found.sort();
    found
}

/// The next start, and the one after it, go on; the first one says what was set aside.
fn assert_goes_on(project: &TestProject, what: &str) -> Finished {
    let next = project.run(["run", "--headless", "--new"]);
    assert_eq!(next.code, Some(0), "{what}: {next}");
    assert!(next.stderr.contains(" is kept as "), "{what}: {next}");
    project.run(["state", "validate"]).expect_code(0);
    let after = project.run(["run", "--headless", "--new"]);
    assert_eq!(after.code, Some(0), "{what}: {after}");
    assert!(!after.stderr.contains(" is kept as "), "{what}: {after}");
    next
}

// covers: X5, F21
#[test]
fn damage_in_our_own_folder_is_set_aside_and_blocks_no_run() {
    type Damage = fn(&Path);
    let damages: [(&str, Damage); 7] = [
        ("state.log", |path| become_pipe(path)),
        ("state.json.tmp", |path| fs::create_dir(path).unwrap()),
        ("server.lock", |path| fs::create_dir(path).unwrap()),
        ("server.lock.tmp", |path| make_pipe(path)),
        ("token", |path| become_pipe(path)),
        ("events/000001.jsonl.tmp", |path| fs::create_dir(path).unwrap()),
        ("aftermath.json", |path| make_pipe(path)),
    ];
    for (name, damage) in damages {
        let project = finished_project();
        let path = project.directory().join(".hankweave").join(name);
        damage(&path);
        let next = assert_goes_on(&project, name);
        let kept = format!("{}.damaged-", path.file_name().unwrap().to_string_lossy());
        assert!(next.stderr.contains(&kept), "{name}: {next}");
        if name == "state.log" {
            assert!(next.stderr.contains("cannot be rebuilt"), "{next}");
        }
    }
}

// covers: X5
#[test]
fn a_link_in_the_place_of_a_folder_of_ours_is_not_followed() {
    for name in ["", "events", "events/000001.jsonl", "runs", "logs", "tmp"] {
        let project = finished_project();
        let elsewhere = project.home().join("elsewhere");
        let state_dir = project.directory().join(".hankweave");
        let path = if name.is_empty() {
            state_dir
        } else {
            state_dir.join(name)
        };
        become_link(&path, &elsewhere);
        let read = || match elsewhere.is_dir() {
            true => contents(&elsewhere),
            false => vec![(elsewhere.clone(), fs::read(&elsewhere).unwrap())],
        };
        let before = read();
        let next = assert_goes_on(&project, name);
        assert!(next.stderr.contains(" was a link and is kept as "), "{next}");
        assert_eq!(read(), before, "{name}");
    }
}
