//! Hooks of workers that are switched on, with the real program and a real repository.

use std::path::{Path, PathBuf};
use std::process::Command;

use hankweave_testing::TestProject;
use serde_json::{Value, json};

use crate::support::project;
use crate::task_project::{work, workspace, write_gate};

const TASK: &str = "report-7";

/// A project with one task, whose agent writes `done.txt`.
fn with_task() -> TestProject {
    let project = project();
    create(&project, "echo well > done.txt");
    project
}

/// Creates a task whose agent does this.
fn create(project: &TestProject, command: &str) {
    let script = json!({"turns": [{"text": "done", "tools": [{"bash": {"command": command}}]}]});
    project.write("script.json", script.to_string());
    let codon = json!({"id": "draft", "name": "draft", "agent": {"script": "script.json"}, "continuationMode": "fresh",
        "promptText": "write", "checkpointedFiles": ["*.txt"]});
    project.write_hank(&json!({"hank": [codon]}));
    let create = ["task", "create", "Write the report", "--hank", ".", "--id", TASK];
    project.run(create).expect_code(0);
}

fn shown(project: &TestProject) -> Value {
    project
        .run(["task", "show", TASK, "--json"])
        .expect_code(0)
        .json_document()
}

fn git(folder: &Path, arguments: &[&str]) -> String {
    let mut git = Command::new("git");
    git.arg("-C")
        .arg(folder)
        .args(["-c", "user.name=ann", "-c", "user.email=ann@localhost"]);
    let ran = git
        .args(arguments)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .output()
        .unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    String::from_utf8(ran.stdout).unwrap().trim().to_owned()
}

/// A repository of the user's with one commit on `main`.
fn repository(project: &TestProject) -> PathBuf {
    let folder = project.home().join("product");
    std::fs::create_dir(&folder).unwrap();
    git(&folder, &["init", "-q"]);
    git(&folder, &["checkout", "-q", "-b", "main"]);
    git(&folder, &["commit", "-q", "--allow-empty", "-m", "one"]);
    folder
}

// covers: TASK-108, TASK-109
#[test]
fn what_a_task_has_made_is_on_its_branch_and_told_in_its_plan() {
    let project = with_task();
    let repository = repository(&project);
    let branch = repository.to_str().unwrap();
    let nothing = project.run(["worker", "--once", "--branch", project.home().to_str().unwrap()]);
    nothing.expect_code(65);
    assert!(
        nothing.stderr.contains("cannot be used as a git repository"),
        "{}",
        nothing.stderr
    );
    project
        .run(["worker", "--once", "--plan", "--branch", branch])
        .expect_code(0);
    assert_eq!(shown(&project)["task"]["status"], "completed");
    let changed = git(&repository, &["diff", "--name-status", "main...task/report-7"]);
    assert_eq!(changed, "A\t.task-memory/report-7/done.txt");
    let told = git(&repository, &["log", "-1", "--format=%s", "task/report-7"]);
    assert_eq!(told, "task report-7: Write the report");
    assert_eq!(git(&repository, &["status", "--porcelain"]), "");
    let plan = shown(&project)["folder"]
        .as_str()
        .map(|folder| Path::new(folder).join("Plan.md"));
    let plan = std::fs::read_to_string(plan.unwrap()).unwrap();
    assert!(
        plan.contains("## Attempt 1: completed\n") && plan.contains("## Outcome: completed\n"),
        "{plan}"
    );
}

/// Another worker finishes the task, and was not asked for a plan.
// covers: TASK-108
#[test]
fn a_plan_stays_true_whichever_worker_has_the_task() {
    let project = project();
    write_gate(&project);
    crate::task_project::create(&project, "page-3", "Publish the page", "page", &[]);
    project.run(["worker", "--once", "--plan"]).expect_code(0);
    let plan = workspace(&project, "page-3").parent().unwrap().join("Plan.md");
    let plan = || std::fs::read_to_string(&plan).unwrap();
    assert!(plan().contains("## Attempt 1: running\n"), "{}", plan());
    project.run(["task", "approve", "page-3"]).expect_code(0);
    work(&project);
    let plan = plan();
    assert!(
        plan.contains("## Outcome: completed\n") && !plan.contains("running"),
        "{plan}"
    );
}

// covers: TASK-109
#[test]
fn a_task_that_cannot_have_a_branch_does_not_start_and_says_why() {
    let project = with_task();
    let repository = repository(&project);
    git(&repository, &["branch", "task"]);
    project
        .run(["worker", "--once", "--branch", repository.to_str().unwrap()])
        .expect_code(0);
    let task = shown(&project);
    assert_eq!(task["task"]["status"], "cancelled");
    let why = task["data"]["result"]["error"].as_str().unwrap();
    assert!(why.contains("rename it with `git branch -m task OTHER`"), "{why}");
    let told = project.run(["task", "show", TASK]).expect_code(0).stdout.clone();
    assert!(
        told.contains("rename it with `git branch -m task OTHER`"),
        "{told}"
    );
    // Once it is out of the way the task can continue.
    git(&repository, &["branch", "-m", "task", "other"]);
    project.run(["task", "resume", TASK]).expect_code(0);
    project
        .run(["worker", "--once", "--branch", repository.to_str().unwrap()])
        .expect_code(0);
    assert_eq!(shown(&project)["task"]["status"], "completed");
    git(&repository, &["rev-parse", "task/report-7"]);
}

// covers: TASK-109
#[test]
fn a_commit_that_waits_because_the_branch_is_checked_out_is_told_in_the_log_of_the_task() {
    let project = project();
    let repository = repository(&project);
    let place = repository.display();
    let command = format!("echo well > done.txt; git -C '{place}' checkout -q task/report-7");
    create(&project, &command);
    project
        .run(["worker", "--once", "--branch", repository.to_str().unwrap()])
        .expect_code(0);
    assert_eq!(shown(&project)["task"]["status"], "completed");
    let told = project.run(["task", "history", TASK, "--level", "warning"]);
    let line = told.expect_code(0).stdout.clone();
    assert!(
        line.contains("Its branch lacks something: the commit waits at `refs/hankweave/task/report-7-"),
        "{line}"
    );
    let head = git(&repository, &["rev-parse", "main"]);
    assert_eq!(git(&repository, &["rev-parse", "task/report-7"]), head);
    let waiting = git(
        &repository,
        &["for-each-ref", "--format=%(refname)", "refs/hankweave"],
    );
    git(&repository, &["merge", "-q", "--ff-only", &waiting]);
    assert!(repository.join(".task-memory/report-7/done.txt").exists());
}

// covers: TASK-111
#[test]
fn a_worker_that_must_be_in_a_container_works_only_there() {
    let mut project = with_task();
    let worked = project.run(["worker", "--once", "--contained"]);
    // These tests may themselves run in a container, or not.
    if worked.code == Some(65) {
        assert!(
            worked.stderr.contains("does not run in a container"),
            "{}",
            worked.stderr
        );
        assert_eq!(shown(&project)["task"]["status"], "pending");
    } else {
        worked.expect_code(0);
    }
    project.set("container", "podman");
    project
        .run(["worker", "--once", "--contained", "--watch"])
        .expect_code(0);
    assert_eq!(shown(&project)["task"]["status"], "completed");
}
