//! Tasks that were begun in another folder of tasks, or whose files are missing (TASK-127).

use std::path::{Path, PathBuf};

use hankweave_testing::TestProject;
use hankweave_testing::postgres::Database;
use serde_json::{Value, json};

use crate::support::project;
use crate::task_project::{create, paste, says, shown, text, turn, work, write_hank};

/// Creates a task whose first codon has been paid, and whose second one failed; it is pending again.
fn begin(project: &TestProject) {
    let red = json!({"turns": [{"text": "2 of 7 tests failed"}], "exitCode": 3});
    let codons = [
        json!({"id": "draft", "script": turn("Drafted")}),
        json!({"id": "test", "script": red}),
    ];
    write_hank(project, "two", &codons);
    create(project, "two", "Two", "two", &[]);
    work(project);
    paste(project, "hankweave task resume two");
}

fn tasks(project: &TestProject) -> PathBuf {
    project.home().join(".local/share/hankweave/tasks")
}

fn work_in(project: &TestProject, folder: &Path) -> String {
    let worked = project.run(["worker", "--once", "--tasks", folder.to_str().unwrap()]);
    worked.expect_code(0).stderr.clone()
}

/// Number of times that the first codon was paid.
fn drafts(project: &TestProject) -> usize {
    let cost = shown(project, "two")["task"]["cost"].as_f64().unwrap();
    (cost / 0.45).round() as usize
}

fn a_begun_task_stays_with_its_folder(project: &TestProject) {
    begin(project);
    let (own, other) = (tasks(project), project.home().join("other"));
    let (own_word, other_word) = (own.display().to_string(), other.display().to_string());
    let left = work_in(project, &other);
    let anew = format!("task resume two --anew --tasks {other_word}");
    let there = format!(
        "begun in {own_word}: `hankweave worker --tasks {own_word}` continues it; `hankweave {anew}`"
    );
    says(
        &left,
        &[
            &format!("left alone: two was {there}"),
            "1 begun in another folder of tasks or on another machine: `hankweave task list --status pending",
        ],
    );
    let row = shown(project, "two")["task"].clone();
    assert_eq!((&row["status"], drafts(project)), (&json!("pending"), 1));
    assert_eq!(row["filesLocation"]["folder"], own_word);
    assert!(!other.join("two").exists(), "nothing was begun there");
    // A user who names the other folder gets this message as well, and sees the files where they are.
    let elsewhere = ["--tasks", &other_word];
    let list = text(project, &[&["task", "list"][..], &elsewhere].concat());
    says(&list, &[&there]);
    let show = text(project, &[&["task", "show", "two"][..], &elsewhere].concat());
    says(
        &show,
        &[
            &there,
            "draft completed, $0.4500",
            &format!("files        {own_word}/two"),
        ],
    );
    // No agent starts it anew by hand either.
    let by_hand = project.run([&["task", "resume", "two", "-a", "ann"][..], &elsewhere].concat());
    says(
        &by_hand.expect_code(65).stderr,
        &["FILES_ELSEWHERE", &own_word, "--anew"],
    );
    assert!(!other.join("two").exists());
    let here = project.run(["task", "resume", "two", "--anew"]);
    says(
        &here.expect_code(65).stderr,
        &["the files of two are in", "it continues there"],
    );
    // The workers of its folder continue it.
    work(project);
    assert_eq!(
        (drafts(project), &shown(project, "two")["task"]["status"]),
        (1, &json!("failed"))
    );
    // It starts anew only when that is asked for, which stays on record.
    paste(project, &format!("hankweave {anew}"));
    let show = text(project, &[&["task", "show", "two"][..], &elsewhere].concat());
    says(
        &show,
        &["anew         asked for by ", "from a remote starts it anew"],
    );
    work_in(project, &other);
    let row = shown(project, "two")["task"].clone();
    assert_eq!(
        (drafts(project), &row["filesLocation"]["folder"]),
        (2, &json!(other_word))
    );
    let show = text(project, &[&["task", "show", "two"][..], &elsewhere].concat());
    says(
        &show,
        &["it started anew after $0.4500, and its budget counts from there"],
    );
    let log = text(project, &[&["task", "log", "two"][..], &elsewhere].concat());
    says(&log, &["Asked to start anew by ", "Started anew, for which "]);
}

// covers: TASK-127
#[test]
fn a_begun_task_is_left_to_the_workers_of_its_folder() {
    a_begun_task_stays_with_its_folder(&project());
}

// covers: TASK-127
#[test]
fn a_begun_task_is_left_to_the_workers_of_its_folder_over_postgresql() {
    let database = match Database::create() {
        Ok(database) => database,
        Err(skip) => return println!("skipped: {skip}"),
    };
    let mut project = project();
    project.set("HANKWEAVE_REGISTRY", database.url());
    a_begun_task_stays_with_its_folder(&project);
}

/// A missing folder makes no task pay twice by itself, and a folder that was moved has the files.
// covers: TASK-127
#[test]
fn a_task_whose_files_are_gone_starts_anew_only_when_that_is_asked_for() {
    let project = project();
    begin(&project);
    let (own, moved) = (tasks(&project), project.home().join("moved"));
    std::fs::rename(&own, &moved).unwrap();
    let left = project.run(["worker", "--once"]);
    says(
        &left.expect_code(0).stderr,
        &[
            "left alone: two was begun in",
            "its files are not there any more",
            "task resume two --anew",
        ],
    );
    assert_eq!(drafts(&project), 1);
    work_in(&project, &moved);
    let row = shown(&project, "two")["task"].clone();
    assert_eq!((drafts(&project), &row["status"]), (1, &json!("failed")));
    std::fs::remove_dir_all(&moved).unwrap();
    project.run(["task", "resume", "two"]).expect_code(0);
    work(&project);
    assert_eq!(drafts(&project), 1);
    paste(&project, "hankweave task resume two --anew");
    work(&project);
    assert_eq!(drafts(&project), 2);
    let report = text(&project, &["task", "show", "two", "--report"]);
    says(
        &report,
        &["The task cost $0.9000 in all: runs of some attempts are not recorded here."],
    );
}

/// A worker that has the files continues a task that may start anew. A deletion from another folder of this machine deletes these files as well.
// covers: TASK-127
#[test]
fn a_request_to_start_anew_is_done_with_once_a_worker_has_the_files() {
    let project = project();
    begin(&project);
    let other = project.home().join("other").display().to_string();
    let from_other = |command: &[&str]| text(&project, &[command, &["--tasks", &other]].concat());
    let resume = ["task", "resume", "two", "--anew", "--tasks", &other];
    says(
        &project.run(resume).expect_code(0).stderr,
        &[
            "it waits for a worker; ",
            "starts it anew and pays for its codons again; one with either continues it",
        ],
    );
    work(&project);
    assert_eq!(drafts(&project), 1);
    let show = text(&project, &["task", "show", "two"]);
    says(
        &show,
        &["a worker that had its files, or its run from a remote, has continued it"],
    );
    says(
        &from_other(&["task", "delete", "two", "--force"]),
        &["two is deleted, with its files"],
    );
    assert!(!tasks(&project).join("two").exists());
}

/// With a remote that has the run, the folder does not matter.
// covers: TASK-127, TASK-61
#[test]
fn a_begun_task_continues_in_another_folder_from_its_remote() {
    let project = project();
    let remote = project.home().join("runs.git");
    let made = std::process::Command::new("git")
        .args(["init", "--bare", "-q"])
        .arg(&remote)
        .status();
    assert!(made.unwrap().success());
    let red = json!({"turns": [{"text": "red"}], "exitCode": 3});
    let codons = [
        json!({"id": "draft", "script": turn("Drafted")}),
        json!({"id": "test", "script": red}),
    ];
    write_hank(&project, "two", &codons);
    create(&project, "two", "Two", "two", &[]);
    let remote = remote.to_str().unwrap();
    project
        .run(["worker", "--once", "--remote", remote])
        .expect_code(0);
    project.run(["task", "resume", "two"]).expect_code(0);
    let other = project.home().join("other");
    let other = other.to_str().unwrap();
    let worked = project.run(["worker", "--once", "--remote", remote, "--tasks", other]);
    assert!(
        !worked.expect_code(0).stderr.contains("left alone"),
        "{}",
        worked.stderr
    );
    let row = shown(&project, "two")["task"].clone();
    assert_eq!((drafts(&project), &row["status"]), (1, &json!("failed")));
    assert_eq!(row["filesLocation"]["folder"], other);
}

/// The workspace of a task says which registry it is of, also where no variable names it.
// covers: TASK-126
#[test]
fn a_workspace_names_its_registry_in_postgresql_without_the_variable() {
    let database = match Database::create() {
        Ok(database) => database,
        Err(skip) => return println!("skipped: {skip}"),
    };
    let project = project();
    crate::task_project::write_gate(&project);
    let registry = ["--registry", database.url()];
    let create = ["task", "create", "Page", "--hank", "page", "--id", "page-3"];
    project.run([&create[..], &registry].concat()).expect_code(0);
    project
        .run([&["worker", "--once"][..], &registry].concat())
        .expect_code(0);
    let place = tasks(&project).join("page-3/workspace").display().to_string();
    let status = text(&project, &["status", "-e", &place]);
    says(&status, &["hankweave task approve page-3 --registry "]);
    let json: Value = project
        .run(["status", "-e", &place, "--json"])
        .expect_code(0)
        .json_document();
    assert_eq!(json["task"]["status"], "waiting");
}
