//! Old runs are removed, and what stays can be undone as before (RUN-23, CLI-42).

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hankweave_testing::{TestProject, swept};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::{assert_usd, hankweave, project, shell_agent, strace_is_there, traced};
use crate::terminal::Terminal;

/// A project whose only codon appends its prompt to `done.txt`.
fn with_codon(project: TestProject) -> TestProject {
    let agent = shell_agent(&project);
    project.write_hank(
        &json!({"hank": [{"id": "one", "name": "one", "agent": agent, "model": "claude-sonnet-4-5",
        "continuationMode": "fresh", "promptText": "one", "checkpointedFiles": ["done.txt"]}]}),
    );
    project
}

/// What happens in these tests before anything is old: three runs that have nothing to do with one another, so each adds a line.
fn three_runs(project: &TestProject, hankweave: &dyn Fn(&[&str]) -> hankweave_testing::Finished) -> Vec<Run> {
    for _ in 0..3 {
        hankweave(&["run", "--new", "--headless"]).expect_code(0);
    }
    assert_eq!(done(project), "one\none\none\n");
    let runs = project.state(&project.directory())["runs"].clone();
    let run = |run: &Value| {
        let id = run["runId"].as_str().unwrap();
        Run {
            folder: project.directory().join(".hankweave/runs").join(id),
            id: id.to_owned(),
            end: run["codons"][0]["completionCheckpoint"]
                .as_str()
                .unwrap()
                .to_owned(),
        }
    };
    runs.as_array().unwrap().iter().map(run).collect()
}

struct Run {
    id: String,
    folder: PathBuf,
    /// The checkpoint after its codon.
    end: String,
}

fn done(project: &TestProject) -> String {
    fs::read_to_string(project.directory().join("done.txt")).unwrap_or_default()
}

fn op_log(project: &TestProject) -> Vec<Value> {
    let log = project
        .run(["op", "log", "--json"])
        .expect_code(0)
        .json_document();
    log.as_array().unwrap().clone()
}

/// Whether the repository has this object.
fn exists(project: &TestProject, sha: &str) -> bool {
    let found = project.checkpoints_git(&project.directory(), &["cat-file", "-e", sha]);
    found.code == Some(0)
}

// covers: RUN-23, CLI-42
#[test]
fn what_old_runs_left_goes_and_what_stays_can_be_undone() {
    let project = with_codon(project());
    let runs = three_runs(&project, &|arguments| project.run(arguments));
    let (newest, older, oldest) = (&runs[0], &runs[1], &runs[2]);

    let shown = project.run(["cleanup", "--keep", "1", "--dry-run"]);
    let text = &shown.expect_code(0).stdout;
    assert!(text.starts_with("the logs of 2 runs:\n"), "{text}");
    for run in [older, oldest] {
        assert!(text.contains(&run.id), "{text}");
    }
    // What the newest run began with is the end of the one before it, so that stays.
    assert!(
        text.contains(&oldest.end[..12]) && !text.contains(&older.end[..12]),
        "{text}"
    );
    let unasked = project.run(["cleanup", "--keep", "1"]);
    assert!(
        unasked.expect_code(2).stderr.contains("cleanup --yes"),
        "{unasked}"
    );
    let nothing = project.run(["cleanup", "--yes"]);
    assert_eq!(
        nothing.expect_code(0).stdout,
        "nothing is old enough to be removed\n"
    );
    let nothing = project.run(["cleanup", "--keep", "1", "--older-than", "1d", "--yes", "--json"]);
    assert_eq!(nothing.expect_code(0).json_document()["runs"], json!([]));
    assert!(older.folder.exists() && exists(&project, &oldest.end));
    assert_eq!(op_log(&project).len(), 3);

    let cleaned = project.run(["cleanup", "--keep", "1", "--yes", "--json"]);
    let cleaned = cleaned.expect_code(0).json_document();
    let ids: Vec<&str> = [older, oldest].iter().map(|run| &*run.id).collect();
    let told: Vec<&Value> = cleaned["runs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|run| &run["runId"])
        .collect();
    assert_eq!(told, ids);
    assert!(
        cleaned["logBytes"].as_u64() > Some(0) && cleaned["checkpointBytes"].as_u64() > Some(0),
        "{cleaned}"
    );
    assert!(!older.folder.exists() && !oldest.folder.exists() && newest.folder.exists());
    let there: Vec<bool> = runs.iter().map(|run| exists(&project, &run.end)).collect();
    assert_eq!(there, [true, true, false]);

    // It is an operation, and nothing is lost that it did not name.
    let log = op_log(&project);
    assert_eq!(
        (&log[0]["kind"], &log[0]["command"]),
        (&json!("cleanup"), &json!("cleanup --keep 1"))
    );
    assert_eq!(log[0]["removed"]["runs"], json!(ids));
    let marks = |row: &Value| (row["restorable"] == true, row["cleaned"] == true);
    assert_eq!(
        log.iter().skip(1).map(marks).collect::<Vec<_>>(),
        [(true, false), (true, true), (false, true)]
    );
    let text = project.run(["op", "log"]).expect_code(0).stdout.clone();
    assert!(
        text.contains("(without its logs)") && text.contains("(cleaned up)"),
        "{text}"
    );
    let gone = log[3]["id"].as_str().unwrap();
    for wanted in [
        &["op", "restore", gone][..],
        &["rollback", "--to", &oldest.end[..12]],
    ] {
        let refused = project.run(wanted);
        assert!(
            refused
                .expect_code(1)
                .stderr
                .contains("was removed by a cleanup (operation "),
            "{refused}"
        );
    }
    let shown = project.run(["op", "show", gone]).expect_code(0).stdout.clone();
    assert!(shown.contains("there is no way back to it"), "{shown}");
    let checked = project
        .run(["state", "validate", "--json"])
        .expect_code(0)
        .json_document();
    assert_eq!(checked["warnings"], json!([]));

    // An undo passes it over.
    let undone = project.run(["undo"]);
    assert!(
        undone.expect_code(0).stdout.contains("undid operation "),
        "{undone}"
    );
    assert!(!undone.stderr.contains("damaged or gone"), "{undone}");
    assert_eq!(done(&project), "one\none\n");
    project
        .run(["op", "restore", log[1]["id"].as_str().unwrap()])
        .expect_code(0);
    assert_eq!(done(&project), "one\none\none\n");
    let status = project.run(["status", "--json"]).json_document();
    assert_usd(&status["totalSpend"], 0.75);
    project.run(["run", "--new", "--headless"]).expect_code(0);
    assert_eq!(done(&project), "one\none\none\none\n");
}

/// Returns the number of bytes of all files inside a folder.
fn bytes_beneath(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let bytes = entries.map(|path| match path.is_dir() {
        true => bytes_beneath(&path),
        false => path.metadata().unwrap().len(),
    });
    bytes.sum()
}

/// Six runs that have nothing to do with one another, each of which writes a large file of its own.
// covers: RUN-18, RUN-23, CLI-42
#[test]
fn it_frees_what_it_says_and_what_removed_runs_began_with_goes_too() {
    const LARGE: u64 = 300_000;
    let project = project();
    let big = r#"{"turns": [{"tools": [{"bash": {"command": "head -c 300000 /dev/urandom > big.bin"}}]}]}"#;
    project.write("big.json", big);
    project.write_hank(
        &json!({"hank": [{"id": "one", "name": "one", "agent": {"script": "big.json"}, "model": "opus",
        "continuationMode": "fresh", "promptText": "go", "checkpointedFiles": ["*.bin"]}]}),
    );
    for _ in 0..6 {
        project.run(["run", "--new", "--headless"]).expect_code(0);
    }
    let newest = fs::read(project.directory().join("big.bin")).unwrap();
    let objects = project.directory().join(".hankweave/checkpoints/objects");
    let runs = project.directory().join(".hankweave/runs");
    let before = (bytes_beneath(&objects), bytes_beneath(&runs));
    assert!(before.0 > 6 * LARGE, "{before:?}");

    let promised = project.run(["cleanup", "--keep", "1", "--dry-run", "--json"]);
    let promised = promised.expect_code(0).json_document();
    let shown = project.run(["cleanup", "--keep", "1", "--dry-run"]);
    assert!(
        shown
            .expect_code(0)
            .stdout
            .contains(" that nothing else needs:\n"),
        "{shown}"
    );
    assert_eq!((bytes_beneath(&objects), bytes_beneath(&runs)), before);
    let cleaned = project.run(["cleanup", "--keep", "1", "--yes", "--json"]);
    let cleaned = cleaned.expect_code(0).json_document();
    for bytes in ["checkpointBytes", "logBytes"] {
        assert_eq!(promised[bytes], cleaned[bytes], "{bytes}");
    }
    let after = (bytes_beneath(&objects), bytes_beneath(&runs));
    assert_eq!(json!(before.0 - after.0), cleaned["checkpointBytes"]);
    assert_eq!(json!(before.1 - after.1), cleaned["logBytes"]);
    // What the last run began with, and what it left.
    assert!(after.0 < 2 * LARGE + LARGE / 2, "{after:?} of {before:?}");
    project.run(["checkpoints", "verify"]).expect_code(0);

    // All that is kept can be rolled back to, and forward again.
    let status = project
        .run(["op", "log", "--json"])
        .expect_code(0)
        .json_document();
    project.run(["undo"]).expect_code(0);
    let older = fs::read(project.directory().join("big.bin")).unwrap();
    assert_ne!(older, newest);
    project.run(["rollback", "--codon", "one"]).expect_code(0);
    assert_eq!(fs::read(project.directory().join("big.bin")).unwrap(), older);
    let newest_run = status[1]["id"].as_str().unwrap();
    project.run(["op", "restore", newest_run]).expect_code(0);
    assert_eq!(fs::read(project.directory().join("big.bin")).unwrap(), newest);
    for row in ["checkpoints", "op log", "status"] {
        project.run(row.split(' ')).expect_code(0);
    }
    let rows = project
        .run(["checkpoints", "--json"])
        .expect_code(0)
        .json_document();
    for row in rows["checkpoints"].as_array().unwrap() {
        project
            .run(["checkpoints", "show", row["sha"].as_str().unwrap()])
            .expect_code(0);
    }
    project.run(["run", "--new", "--headless"]).expect_code(0);
}

// covers: CLI-42
#[test]
fn on_a_terminal_one_is_asked_and_while_a_run_lives_nothing_is_removed() {
    let project = with_codon(project());
    let runs = three_runs(&project, &|arguments| project.run(arguments));
    for (answer, is_there) in [("n\n", true), ("\n", true), ("y\n", false)] {
        let Some(mut terminal) = Terminal::open(&project, "cleanup --keep 2") else {
            return;
        };
        terminal.until("Remove all of that for good? [y/N] ");
        terminal.press(answer);
        terminal.until(if is_there {
            "nothing was removed"
        } else {
            "are free again (operation "
        });
        assert_eq!(terminal.close(), Some(0));
        assert_eq!(runs[2].folder.exists(), is_there, "{answer:?}");
    }
    let mut running = project.start(["run", "--new", "--headless", "--no-autostart", "--json"]);
    running.wait_for_line(|line| line.contains("\"server.idle\""));
    let refused = project.run(["cleanup", "--keep", "1", "--yes"]);
    assert!(
        refused.expect_code(75).stderr.contains("hankweave stop"),
        "{refused}"
    );
    assert!(runs[1].folder.exists());
    running.signal(Signal::TERM);
    running.finish_within(Duration::from_secs(60)).expect_code(143);
}

// covers: RUN-23
#[test]
fn a_cleanup_that_is_killed_is_done_or_is_not_and_the_next_one_finishes_it() {
    if !strace_is_there() {
        return;
    }
    let mut hits = 0;
    for call in ["fdatasync", "fsync", "syncfs", "renameat", "unlinkat", "unlink"] {
        for when in swept(1..=12) {
            let project = with_codon(TestProject::in_memory("env"));
            let hankweave = |arguments: &[&str]| hankweave(&project, arguments);
            let runs = three_runs(&project, &hankweave);
            let kill = format!("inject={call}:signal=SIGKILL:when={when}");
            if traced(&project, &["-e", &kill], &["cleanup", "--keep", "1", "--yes"]).code == Some(0) {
                break;
            }
            hits += 1;
            let log = |place: &str| {
                let log = hankweave(&["op", "log", "--json"]);
                assert_eq!(log.code, Some(0), "{place}: {log}");
                log.json_document().as_array().unwrap().clone()
            };
            let place = format!("{call} {when}");
            let was_done = log(&place)[0]["kind"] == "cleanup";
            let restored = hankweave(&[
                "op",
                "restore",
                log(&place).last().unwrap()["id"].as_str().unwrap(),
            ]);
            assert_eq!(restored.code == Some(0), !was_done, "{place}: {restored}");
            hankweave(&["cleanup", "--keep", "1", "--yes"]).expect_code(0);
            assert_eq!(
                log(&place).iter().filter(|row| row["kind"] == "cleanup").count(),
                1,
                "{place}"
            );
            assert!(!runs[1].folder.exists() && !runs[2].folder.exists(), "{place}");
            if was_done {
                assert!(!exists(&project, &runs[2].end), "{place}");
                hankweave(&["undo"]).expect_code(0);
                assert_eq!(done(&project), "one\none\n", "{place}");
            }
        }
    }
    assert!(hits > 0, "nothing was killed");
}
