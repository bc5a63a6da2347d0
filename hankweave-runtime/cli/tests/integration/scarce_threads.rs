//! A system that starts no more threads, as while an agent starts processes without end.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use hankweave_testing::TestProject;
use hankweave_testing::processes::Watched;
use rustix::process::geteuid;
use serde_json::json;

use crate::support::{port, project};

/// Far longer than anything here takes; it only turns a hang into a failure.
const DEADLINE: Duration = Duration::from_secs(120);

/// A user without a limit of its own that the kernel would let pass, which root has.
const NOBODY: &str = "65534";

/// A project whose user may have no more processes where that is wanted; `None` where limits cannot be set.
struct Limited {
    project: TestProject,
    program: PathBuf,
}

impl Limited {
    fn new() -> Option<Self> {
        let is_there = |program: &str| Command::new(program).arg("--version").output().is_ok();
        if !is_there("prlimit") || !is_there("setpriv") {
            println!("skipped: limits cannot be set here");
            return None;
        }
        let project = project();
        let waits = json!({"turns": [{"text": "Waiting.", "tools": [{"bash": {"command": "sleep 600"}}]}]});
        project.write("waits.json", waits.to_string());
        project.write_hank(
            &json!({"hank": [{"id": "a", "name": "a", "continuationMode": "fresh", "promptText": "go",
            "agent": {"script": "waits.json"}}]}),
        );
        let program = project.home().join("hankweave");
        // By another process: a descriptor of ours that writes to it would be inherited by programs of other tests, and "text file
        // busy" be the answer.
        let copied = Command::new("cp")
            .arg(env!("CARGO_BIN_EXE_hankweave"))
            .arg(&program)
            .status();
        assert!(copied.unwrap().success());
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        if geteuid().is_root() {
            let folder = project.directory();
            let owner = format!("{NOBODY}:{NOBODY}");
            let done = Command::new("chown")
                .args(["-R", &owner])
                .arg(folder.parent().unwrap())
                .status();
            assert!(done.unwrap().success());
        }
        Some(Self { project, program })
    }

    /// A command of a user whom limits bind.
    fn command(&self, words: &[&str]) -> Command {
        let mut command = self.project.command(Path::new("env"));
        if geteuid().is_root() {
            command.args(["setpriv", "--reuid", NOBODY, "--regid", NOBODY, "--clear-groups"]);
        }
        command.args(words);
        command.stdin(Stdio::null());
        command
    }

    /// The program as a user who may start no more processes and threads.
    fn limited(&self, arguments: &[&str]) -> Output {
        let mut command = self.command(&["prlimit", "--nproc=1"]);
        command.arg(&self.program).args(arguments).output().unwrap()
    }
}

#[track_caller]
fn assert_code(output: &Output, code: i32) -> String {
    let said =
        String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(code), "{said}");
    assert!(!said.contains("bug in hankweave"), "{said}");
    said
}

// covers: F9
#[test]
fn a_start_without_threads_says_so() {
    let Some(limited) = Limited::new() else { return };
    let said = assert_code(&limited.limited(&["run", "--headless"]), 74);
    assert!(
        said.contains("starts no more threads") && said.contains("ulimit -u"),
        "{said}"
    );
    assert_eq!(limited.project.left_behind(), []);
}

/// The run has the threads that its stop needs, and the command that asks for it needs none.
// covers: F9
#[test]
fn a_run_is_stopped_and_seen_while_no_thread_can_be_started() {
    let Some(limited) = Limited::new() else { return };
    let mut running = limited.command(&[limited.program.to_str().unwrap(), "run", "--headless"]);
    let mut running = running
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    // Its agent runs before nothing more can be started.
    let mut lines = BufReader::new(running.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().contains("Waiting.")));
    let set = limited
        .command(&["prlimit", "--nproc=1:1", "--pid", &running.id().to_string()])
        .status();
    assert!(set.unwrap().success());
    assert_code(&limited.limited(&["status"]), 0);
    let watched = Watched::new(running.id()).unwrap();
    assert_code(&limited.limited(&["stop"]), 0);
    assert!(watched.ends_within(DEADLINE), "the run does not end");
    assert_eq!(running.wait().unwrap().code(), Some(3));
    let run = &limited.project.state(&limited.project.directory())["runs"][0];
    assert_eq!(
        run["codons"][0]["failureReason"]["interruptedBy"], "stop",
        "{run:#}"
    );
    for arguments in [
        &["thread"][..],
        &["diff"],
        &["checkpoints", "verify"],
        &["rollback", "--last-success", "--dry-run"],
        &["cleanup", "--keep", "1"],
    ] {
        let said = limited.limited(arguments);
        assert!(
            matches!(said.status.code(), Some(0 | 1 | 65 | 74)),
            "{arguments:?}: {said:?}"
        );
    }
    assert_eq!(limited.project.left_behind(), []);
}

/// A parent that never reaps, such as a container without an init, keeps a killed program as a zombie.
// covers: L2
#[test]
fn a_server_that_was_killed_and_not_reaped_is_gone() {
    let project = project();
    let waits = json!({"turns": [{"text": "Waiting.", "tools": [{"bash": {"command": "sleep 600"}}]}]});
    project.write("waits.json", waits.to_string());
    project.write_hank(
        &json!({"hank": [{"id": "a", "name": "a", "continuationMode": "fresh", "promptText": "go",
        "agent": {"script": "waits.json"}}]}),
    );
    let mut command = project.command(Path::new(env!("CARGO_BIN_EXE_hankweave")));
    command.args(["run", "--headless"]).stdin(Stdio::null());
    let mut zombie = command
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    port(&project.directory());
    let watched = Watched::new(zombie.id()).unwrap();
    zombie.kill().unwrap();
    assert!(watched.ends_within(DEADLINE));

    let status = project.run(["status"]);
    assert!(!status.stdout.contains(": running"), "{status}");
    for arguments in [&["stop"][..], &["page"], &["next"], &["attach"]] {
        let said = project.run(arguments);
        said.expect_code(65);
        assert!(said.stderr.contains("no run is live"), "{said}");
    }
    // The next run takes the directory over while the zombie is still there.
    project.write("waits.json", json!({"turns": [{"text": "Done."}]}).to_string());
    project.run(["run", "--headless"]).expect_code(0);
    zombie.wait().unwrap();
}
