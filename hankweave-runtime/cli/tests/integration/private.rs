//! Files that no other user may read, and files that hankweave does not touch.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use hankweave_testing::TestProject;
use serde_json::{Value, json};

use crate::support::{project, shell_agent};

fn hank(agent: &Value, prompt: &str) -> Value {
    json!({"hank": [{
        "id": "a", "name": "A", "model": "m", "continuationMode": "fresh", "promptText": prompt, "agent": agent,
    }]})
}

fn all_below(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap().flatten() {
        if entry.file_type().unwrap().is_dir() {
            all_below(&entry.path(), found);
        }
        found.push(entry.path());
    }
}

/// Whatever the umask, nothing below `.hankweave` is open to others.
// covers: X5, S10, CLI-19
#[test]
fn everything_of_ours_belongs_to_this_user_alone() {
    for umask in ["000", "022", "777"] {
        let project = TestProject::new("/bin/sh");
        let agent = shell_agent(&project);
        project.write_hank(&hank(&agent, "hello"));
        let line = format!(
            "umask {umask}; exec '{}' run . --headless",
            env!("CARGO_BIN_EXE_hankweave")
        );
        project.run(["-c", &line]).expect_code(0);
        let state_dir = project.directory().join(".hankweave");
        let mut found = vec![state_dir.clone()];
        all_below(&state_dir, &mut found);
        for path in found {
            let metadata = fs::symlink_metadata(&path).unwrap();
            let mode = metadata.permissions().mode();
            assert_eq!(mode & 0o077, 0, "umask {umask}: {mode:o} {}", path.display());
            if metadata.is_dir() {
                assert_eq!(mode & 0o700, 0o700, "umask {umask}: {mode:o} {}", path.display());
            }
        }
        let log = fs::read_dir(state_dir.join("runs"))
            .unwrap()
            .flatten()
            .find(|entry| entry.file_name() != ".git")
            .unwrap();
        let logs = fs::read_dir(log.path())
            .unwrap()
            .flatten()
            .map(|entry| entry.file_name())
            .filter(|name| name != "counting.json");
        assert_eq!(logs.collect::<Vec<_>>(), ["a-command.log"]);
    }
}

/// A state file that was moved or crafted directs no write elsewhere.
// covers: X6
#[test]
fn a_recorded_run_folder_is_not_written_to() {
    let project = project();
    let agent = shell_agent(&project);
    project.write_hank(&hank(&agent, "wait for go"));
    let mut running = project.start(["run", "--headless", "--json"]);
    running.wait_for_line(|line| line.contains("\"codon.started\""));
    running.kill();
    let elsewhere = project.home().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    // The file may be older than the log, which `state show` reads as well.
    let mut state = project.run(["state", "show", "--json"]).json_document();
    state["runs"][0]["runFolder"] = json!(elsewhere);
    state["runs"][0]["codons"][0]["claudeLogPath"] = json!(elsewhere.join("a.log"));
    let state_dir = project.directory().join(".hankweave");
    fs::write(state_dir.join("state.json"), state.to_string()).unwrap();
    fs::write(state_dir.join("state.log"), "").unwrap();
    project.write("go", "");
    project.run(["run", "--headless"]).expect_code(0);
    assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 0);
}

/// Every file with its size and the times of its content and of its description.
fn traces(folder: &Path) -> BTreeMap<PathBuf, (u64, i64, i64, i64)> {
    let mut found = vec![folder.to_owned()];
    all_below(folder, &mut found);
    let trace = |path: PathBuf| {
        let metadata = fs::symlink_metadata(&path).unwrap();
        let times = (
            metadata.len(),
            metadata.mtime(),
            metadata.mtime_nsec(),
            metadata.ctime_nsec(),
        );
        (path, times)
    };
    found.into_iter().map(trace).collect()
}

// covers: X8
#[test]
fn commands_that_look_write_and_start_nothing() {
    let project = project();
    let agent = shell_agent(&project);
    project.write_hank(&hank(&agent, "hello"));
    let looks: [&[&str]; 8] = [
        &["validate", "."],
        &["validate", ".", "--json"],
        &["status"],
        &["thread"],
        &["state", "show"],
        &["state", "validate"],
        &["state", "cost"],
        &["state", "history"],
    ];
    for has_run in [false, true] {
        if has_run {
            project.run(["run", "--headless"]).expect_code(0);
        }
        let before = traces(&project.directory());
        for look in looks {
            project.run(look);
            assert_eq!(traces(&project.directory()), before, "{look:?}");
        }
    }
}

// covers: S8
#[test]
fn a_run_says_which_variables_of_the_hank_redirect_programs_or_traffic() {
    let project = project();
    let agent = shell_agent(&project);
    let mut hank = hank(&agent, "hello");
    hank["hank"][0]["env"] = json!({"ANTHROPIC_BASE_URL": "http://elsewhere", "GREETING": "hello"});
    project.write_hank(&hank);
    let finished = project.run(["run", "--headless"]);
    finished.expect_code(0);
    let said = "codon a sets ANTHROPIC_BASE_URL, which redirects programs or traffic";
    assert!(finished.stderr.contains(said), "{finished}");
}

/// What an agent says when it fails becomes an error text, and must not hold a secret.
// covers: X9
#[test]
fn secrets_of_the_environment_stand_in_no_error() {
    let mut project = project();
    let script = project.write(
        "agent.sh",
        "cat > /dev/null; echo \"no access with $SOME_API_KEY or $OWN_TOKEN\" >&2; exit 1\n",
    );
    let mut hank = hank(
        &json!({"command": ["sh", script], "stream": "claude"}),
        "a very private prompt",
    );
    hank["hank"][0]["env"] = json!({"OWN_TOKEN": "token-of-the-hank"});
    project.write_hank(&hank);
    project.set("SOME_API_KEY", "sk-of-the-user");
    let finished = project.run(["run", "--headless", "-vv"]);
    finished.expect_code(1);
    let message =
        project.state(&project.directory())["runs"][0]["codons"][0]["failureReason"]["message"].clone();
    assert!(
        message
            .as_str()
            .unwrap()
            .contains("no access with [redacted] or [redacted]"),
        "{message}"
    );
    for secret in ["sk-of-the-user", "token-of-the-hank", "a very private prompt"] {
        assert!(!finished.stderr.contains(secret), "{secret} in {finished}");
    }
    let state_dir = project.directory().join(".hankweave");
    let mut found = Vec::new();
    all_below(&state_dir, &mut found);
    // The agent's own log has what it printed.
    let ours = |path: &&PathBuf| path.is_file() && !path.to_string_lossy().contains("/runs/");
    for path in found.iter().filter(ours) {
        let text = String::from_utf8_lossy(&fs::read(path).unwrap()).into_owned();
        for secret in ["sk-of-the-user", "token-of-the-hank"] {
            assert!(!text.contains(secret), "{secret} in {}", path.display());
        }
    }
    let plan = |state: &Value| state["executionPlan"][0]["codon"]["env"].clone();
    let mut state = project.state(&project.directory());
    assert_eq!(plan(&state), json!({"OWN_TOKEN": "[not recorded]"}));
    // A document of an earlier version has the values.
    state["executionPlan"][0]["codon"]["env"]["OWN_TOKEN"] = json!("token-of-the-hank");
    let older = project.write("older.json", state.to_string());
    let shown = project.run(["state", "show", "--state", &older.to_string_lossy()]);
    assert_eq!(
        plan(&shown.expect_code(0).json_document()),
        json!({"OWN_TOKEN": "[not recorded]"})
    );
}

// covers: CLI-20
#[test]
fn our_own_log_tells_where_a_run_was_and_no_secret() {
    let project = TestProject::new("/bin/sh");
    let agent = shell_agent(&project);
    project.write_hank(&hank(&agent, "a prompt of mine"));
    let program = env!("CARGO_BIN_EXE_hankweave");
    // The name of a file that cannot be part of a checkpoint is logged.
    let line = format!("mkfifo hush-hush; MY_API_KEY=hush-hush exec '{program}' run . --headless");
    project.run(["-c", &line]).expect_code(0);
    let log = fs::read_to_string(project.directory().join(".hankweave/logs/server.log")).unwrap();
    for told in [
        "the directory is ours",
        "RunStarted",
        "CodonTransitioned",
        "codon=\"a\" to=completed",
        "left out of the checkpoint",
    ] {
        assert!(log.contains(told), "{told}: {log}");
    }
    for untold in ["hush-hush", "a prompt of mine", "\u{1b}"] {
        assert!(!log.contains(untold), "{untold:?}: {log}");
    }
    assert!(log.contains("[redacted]"), "{log}");
    project
        .run(["-c", &format!("exec '{program}' rollback --codon a -e .")])
        .expect_code(0);
    let longer = fs::read_to_string(project.directory().join(".hankweave/logs/server.log")).unwrap();
    assert!(
        longer.starts_with(&log) && longer.contains("rolled back to checkpoint"),
        "{longer}"
    );
}
