//! Hostile changes and bad disks in the state directory. Files that cannot be ours are moved aside, no link leads elsewhere, and nothing blocks.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use hankweave_testing::{Finished, TestProject};
use serde_json::json;

use crate::hard_times::memory;
use crate::support::{assert_checkpoint, project};

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

/// Returns every file and folder inside a folder, with the contents of the files.
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

/// The next start, and the one after it, continue; the first one says what was moved aside.
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

// covers: X5, F21, F4
#[test]
fn damage_in_our_own_folder_is_set_aside_and_blocks_no_run() {
    type Damage = fn(&Path);
    let damages: [(&str, Damage); 8] = [
        ("state.log", |path| become_pipe(path)),
        ("state.json.bak", |path| {
            let _ = fs::remove_file(path);
            fs::create_dir(path).unwrap();
        }),
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

// covers: X5, F14
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

/// For every command that reads or uses the checkpoints: nothing in their repository blocks it, leads it elsewhere or shows what others wrote.
// covers: G2, G10, X5, F21
#[test]
fn nothing_in_the_checkpoint_repository_keeps_a_command_waiting() {
    type Damage = fn(&Path);
    let damages: [(&str, Damage); 9] = [
        ("config", |path| become_pipe(path)),
        ("config", |path| {
            fs::write(path.with_file_name("other"), "[a]\n\tsecret-of-others\n\t=\n").unwrap();
            let text = fs::read_to_string(path).unwrap() + "[include]\n\tpath = other\n";
            fs::write(path, text).unwrap();
        }),
        ("HEAD", |path| become_pipe(path)),
        ("packed-refs", |path| become_pipe(path)),
        ("packed-refs", |path| fs::write(path, [0; 4096]).unwrap()),
        ("packed-refs", |path| symlink("/dev/zero", path).unwrap()),
        ("objects/info/alternates", |path| become_pipe(path)),
        ("stat-cache", |path| {
            let _ = fs::remove_file(path);
            symlink("/dev/zero", path).unwrap();
        }),
        ("info", |path| {
            fs::remove_dir_all(path).unwrap();
            symlink("/tmp", path).unwrap();
        }),
    ];
    for (name, damage) in damages {
        let project = finished_project();
        let path = project.directory().join(".hankweave/checkpoints").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        damage(&path);
        // They change nothing, so they may only refuse.
        for command in [
            &["thread"][..],
            &["checkpoints", "list"],
            &["checkpoints", "verify"],
            &["status"],
        ] {
            let looked = project.run(command);
            assert!(matches!(looked.code, Some(0 | 1 | 65 | 74)), "{name}: {looked}");
            assert!(!looked.stderr.contains("secret-of-others"), "{name}: {looked}");
        }
        let next = assert_goes_on(&project, name);
        assert!(!next.stderr.contains("out of reach"), "{name}: {next}");
        // What was recorded before is still there.
        let state = project.state(&project.directory());
        let runs = state["runs"].as_array().unwrap();
        assert_eq!(runs.len(), 3, "{name}");
        for run in runs {
            let sha = &run["codons"][0]["completionCheckpoint"];
            assert_checkpoint(&project, &project.directory(), sha);
        }
        project.run(["rollback", "--codon", "one"]).expect_code(0);
    }
}

/// An object that is a pipe is damage like any other: it is reported, and blocks no command.
// covers: G10, F21
#[test]
fn an_object_that_is_a_pipe_is_a_damaged_one() {
    let project = finished_project();
    project.damages_checkpoints();
    let state = project.state(&project.directory());
    let sha = state["runs"][0]["codons"][0]["completionCheckpoint"]
        .as_str()
        .unwrap();
    let objects = project.directory().join(".hankweave/checkpoints/objects");
    become_pipe(&objects.join(&sha[..2]).join(&sha[2..]));
    project.run(["checkpoints", "verify"]).expect_code(1);
    project.run(["run", "--headless", "--new"]).expect_code(0);
}

/// A pack in which nothing is an object of an existing kind is damage, too: it is reported, and blocks no command.
// covers: G10, F21
#[test]
fn a_pack_full_of_zeros_holds_damaged_objects() {
    let project = project();
    project.damages_checkpoints();
    let many = json!({"bash": {"command": "for number in $(seq 600); do echo $number > file-$number; done"}});
    project.write("script.json", json!({"turns": [{"tools": [many]}]}).to_string());
    project.write_hank(
        &json!({"hank": [{"id": "one", "name": "One", "model": "claude-sonnet-4-5",
        "continuationMode": "fresh", "promptText": "go", "agent": {"script": "script.json"}}]}),
    );
    project.run(["run", "--headless"]).expect_code(0);
    let packs = project.directory().join(".hankweave/checkpoints/objects/pack");
    let mut zeroed = 0;
    for path in fs::read_dir(packs).unwrap().map(|entry| entry.unwrap().path()) {
        if path.extension().is_some_and(|extension| extension == "pack") {
            let mut bytes = fs::read(&path).unwrap();
            let body = 12..bytes.len() - 20;
            bytes[body].fill(0);
            fs::remove_file(&path).unwrap();
            fs::write(&path, bytes).unwrap();
            zeroed += 1;
        }
    }
    assert_eq!(zeroed, 1);
    for (command, code) in [
        (&["thread"][..], 0),
        (&["checkpoints", "list"], 0),
        (&["checkpoints", "verify"], 1),
    ] {
        project.run(command).expect_code(code);
    }
    project.run(["run", "--headless", "--new"]).expect_code(0);
}

/// The memory of a checkpoint and of a restore does not depend on how large a file is.
// covers: G3, F21
#[test]
fn a_large_file_costs_no_memory() {
    // Most of each figure is the program itself, where the system has it in memory.
    let (small, large) = (peaks(1 << 10), peaks(LARGE));
    for (step, small, large) in [("checkpoint", small.0, large.0), ("restore", small.1, large.1)] {
        let more = large.saturating_sub(small) << 10;
        assert!(
            more < LARGE / 4,
            "a {step} of {LARGE} bytes takes {more} bytes more than one of 1024"
        );
    }
}

const LARGE: u64 = 64 << 20;

/// KiB that a run has had at most after a checkpoint of a file of `bytes`, and another run after it has restored the file.
fn peaks(bytes: u64) -> (u64, u64) {
    let project = TestProject::in_memory(env!("CARGO_BIN_EXE_hankweave"));
    let make = format!("head -c {bytes} /dev/urandom > large.bin");
    let codon = |id: &str, turns: serde_json::Value| {
        project.write(&format!("{id}.json"), json!({ "turns": turns }).to_string());
        json!({"id": id, "name": id, "model": "claude-sonnet-4-5", "continuationMode": "fresh", "promptText": "go",
            "agent": {"script": format!("{id}.json")}})
    };
    let bash = |command: &str| json!({"tools": [{"bash": {"command": command}}]});
    let wait = "[ -e go ] || { touch spoilt; sleep 600; }";
    let made = codon("made", json!([bash(&make)]));
    let spoilt = codon("spoilt", json!([bash(&make), bash(wait), {"text": "and on"}]));
    project.write_hank(&json!({"hank": [made, spoilt]}));
    let spoilt = project.directory().join("spoilt");
    let peak = |arguments: &[&str]| {
        let running = project.start(arguments);
        while !spoilt.exists() {
            std::thread::yield_now();
        }
        let peak = memory(running.pid(), "VmHWM:");
        running.kill();
        fs::remove_file(&spoilt).unwrap();
        peak
    };
    let for_checkpoint = peak(&["run", "--headless"]);
    // Rolls back to the checkpoint of the first codon: the present file is saved, and the other one restored.
    let for_restore = peak(&["run", "--headless", "--recover", "last-success"]);
    (for_checkpoint, for_restore)
}
