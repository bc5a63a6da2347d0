//! Only the answer in the registry counts: a codon of a task starts when `task approve` has said so, whatever its workspace contains.

use std::path::PathBuf;

use hankweave_testing::TestProject;
use hankweave_testing::postgres::Database;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::project;
use crate::terminal::Terminal;

/// A hank whose codon `publish` asks first, and says in a file of the project that it ran.
fn write_hank(project: &TestProject) {
    let ran = project.home().join("published");
    let publish = format!("echo x >> '{}'", ran.display());
    let script = |turn: Value| json!({"turns": [turn]}).to_string();
    project.write("page/draft.json", script(json!({"text": "Done"})));
    let tools = json!([{"bash": {"command": publish}}]);
    project.write(
        "page/publish.json",
        script(json!({"text": "Out", "tools": tools})),
    );
    let codon = |id: &str, more: Value| {
        let mut codon = json!({
            "id": id, "name": id, "model": "claude-sonnet-4-5", "agent": {"script": format!("{id}.json")},
            "continuationMode": "fresh", "promptText": "work",
        });
        codon
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        codon
    };
    let publish = codon("publish", json!({"approval": "Publish it?"}));
    let hank = json!({"hank": [codon("draft", json!({})), publish]});
    project.write("page/hank.json", hank.to_string());
}

fn published(project: &TestProject) -> usize {
    let ran = std::fs::read_to_string(project.home().join("published"));
    ran.unwrap_or_default().lines().count()
}

fn status(project: &TestProject, id: &str) -> Value {
    let shown = project.run(["task", "show", id, "--json"]);
    shown.expect_code(0).json_document()["task"]["status"].clone()
}

fn work(project: &TestProject) {
    project.run(["worker", "--once"]).expect_code(0);
}

fn step(project: &TestProject, step: &str, id: &str) {
    project.run(["task", step, id]).expect_code(0);
}

fn workspace(project: &TestProject, id: &str) -> PathBuf {
    let tasks = project.home().join(".local/share/hankweave/tasks");
    tasks.join(id).join("workspace")
}

/// A waiting task of this name.
fn waiting(project: &TestProject, id: &str) {
    let create = ["task", "create", "Publish the page", "--hank", "page", "--id", id];
    project.run(create).expect_code(0);
    work(project);
    assert_eq!(status(project, id), "waiting");
}

/// Puts an answer into the workspace past the registry, as older versions did: `approve` takes it in a folder that is not the workspace of a task.
fn plant(project: &TestProject, id: &str, answer: &[&str]) {
    let (workspace, elsewhere) = (workspace(project, id), project.home().join("elsewhere"));
    std::fs::rename(&workspace, &elsewhere).unwrap();
    let mut approve = vec!["approve", "-e", elsewhere.to_str().unwrap()];
    approve.extend(answer);
    project.run(approve).expect_code(0);
    std::fs::rename(&elsewhere, &workspace).unwrap();
}

// covers: TASK-123, CLI-30
#[test]
fn a_run_by_hand_in_a_workspace_asks_nobody_and_begins_nothing_that_was_not_approved() {
    let project = project();
    write_hank(&project);
    waiting(&project, "page-3");
    let place = workspace(&project, "page-3").display().to_string();
    for command in ["task approve page-3", "task resume page-3"] {
        let Some(mut terminal) = Terminal::sized(&project, 40, 120, &format!("run page -e {place}")) else {
            return;
        };
        terminal.until_ended();
        let shown = terminal.history();
        assert!(!shown.contains("y approves"), "{shown}");
        assert!(shown.contains(&format!("hankweave {command}")), "{shown}");
        assert_eq!(published(&project), 0);
        if command == "task approve page-3" {
            step(&project, "deny", "page-3");
        }
    }
}

// covers: TASK-123
#[test]
fn a_workspace_takes_no_answer_and_names_the_command_that_does() {
    let project = project();
    write_hank(&project);
    waiting(&project, "page-3");
    let place = workspace(&project, "page-3").display().to_string();
    let refused = project.run(["approve", "-e", &place, "--reason", "it is fine"]);
    let hint = "`hankweave task approve page-3 --reason 'it is fine'` does";
    for part in ["the workspace of task Publish the page [page-3]", hint] {
        assert!(refused.expect_code(1).stderr.contains(part), "{}", refused.stderr);
    }
    let refused = project.run(["approve", "-e", &place, "--deny"]);
    assert!(
        refused
            .expect_code(1)
            .stderr
            .contains("`hankweave task deny page-3` does"),
        "{}",
        refused.stderr
    );
    work(&project);
    assert_eq!(
        (status(&project, "page-3"), published(&project)),
        (json!("waiting"), 0)
    );
    // A task that was denied has no question until it is resumed.
    step(&project, "deny", "page-3");
    // Its report has the denial, which no run saw.
    let report = project.run(["task", "show", "page-3", "--report"]);
    let happened = &report.expect_code(0).stdout;
    let happened = happened.split_once("## What happened").unwrap().1;
    assert_eq!(happened.matches(": denied by ").count(), 1, "{happened}");
    let twice = project.run(["task", "approve", "page-3"]);
    let said = &twice.expect_code(65).stderr;
    assert!(
        said.contains("the last answer to a question of it: ") && said.contains(" denied by "),
        "{said}"
    );
    let refused = project.run(["approve", "-e", &place]);
    let hint = "`hankweave task resume page-3` lets a worker ask again";
    assert!(refused.expect_code(1).stderr.contains(hint), "{}", refused.stderr);
    // Where the registry is another one than usual, the command names it.
    let url = format!("sqlite:{}", project.home().join("other.db").display());
    let create = [
        "task",
        "create",
        "x",
        "--hank",
        "page",
        "--id",
        "page-4",
        "--registry",
        &url,
    ];
    project.run(create).expect_code(0);
    project
        .run(["worker", "--once", "--registry", &url])
        .expect_code(0);
    let place = project.home().join("tasks/page-4/workspace");
    let refused = project.run(["approve", "-e", place.to_str().unwrap()]);
    let hint = format!("`hankweave task approve page-4 --registry {url}` does");
    assert!(
        refused.expect_code(1).stderr.contains(&hint),
        "{hint}: {}",
        refused.stderr
    );
    project
        .run(["task", "approve", "page-4", "--registry", &url])
        .expect_code(0);
}

/// Plays each order of answers in the registry and in the workspace.
fn the_registry_decides(project: &TestProject) {
    write_hank(project);
    // An approval in the workspace, before and after a denial of the task.
    waiting(project, "before");
    plant(project, "before", &[]);
    step(project, "deny", "before");
    step(project, "resume", "before");
    work(project);
    assert_eq!(
        (status(project, "before"), published(project)),
        (json!("waiting"), 0)
    );
    waiting(project, "after");
    step(project, "deny", "after");
    plant(project, "after", &[]);
    step(project, "resume", "after");
    work(project);
    assert_eq!(
        (status(project, "after"), published(project)),
        (json!("waiting"), 0)
    );
    // A denial in the workspace says nothing against an approval of the task, and is none of its own.
    waiting(project, "granted");
    plant(project, "granted", &["--deny"]);
    step(project, "approve", "granted");
    work(project);
    assert_eq!(
        (status(project, "granted"), published(project)),
        (json!("completed"), 1)
    );
    waiting(project, "resumed");
    plant(project, "resumed", &["--deny", "--reason", "no"]);
    step(project, "cancel", "resumed");
    step(project, "resume", "resumed");
    work(project);
    assert_eq!(
        (status(project, "resumed"), published(project)),
        (json!("waiting"), 1)
    );
    // An approval of the task after a denial counts, and holds for the attempt after it.
    step(project, "approve", "before");
    work(project);
    assert_eq!(
        (status(project, "before"), published(project)),
        (json!("completed"), 2)
    );
    // A worker that keeps running handles this as well.
    let worker = project.start(["worker", "--owner", "w1"]);
    plant(project, "after", &[]);
    step(project, "deny", "after");
    step(project, "resume", "after");
    while status(project, "after") != "waiting" {
        std::thread::yield_now();
    }
    assert_eq!(published(project), 2);
    step(project, "approve", "after");
    while status(project, "after") != "completed" {
        std::thread::yield_now();
    }
    worker.signal(Signal::INT);
    worker
        .finish_within(std::time::Duration::from_secs(60))
        .expect_code(130);
    assert_eq!(published(project), 3);
}

// covers: TASK-123
#[test]
fn a_denied_codon_never_runs_whatever_its_workspace_holds() {
    the_registry_decides(&project());
}

// covers: TASK-123
#[test]
fn a_denied_codon_never_runs_over_postgresql() {
    let database = match Database::create() {
        Ok(database) => database,
        Err(skip) => return println!("skipped: {skip}"),
    };
    let mut project = project();
    project.set("HANKWEAVE_REGISTRY", database.url());
    the_registry_decides(&project);
}

#[track_caller]
fn says(project: &TestProject, command: &[&str], words: &[&str], not: &[&str]) {
    let said = project.run(command).expect_code(0).stdout.replace("\n  ", " ");
    for each in words {
        assert!(said.contains(each), "`{each}` is not in\n{said}");
    }
    for each in not {
        assert!(!said.contains(each), "`{each}` is in\n{said}");
    }
}

// covers: TASK-123, CLI-44
#[test]
fn an_answer_and_an_end_by_hand_end_the_question_on_every_screen() {
    let project = project();
    write_hank(&project);
    waiting(&project, "page");
    let place = workspace(&project, "page").display().to_string();
    step(&project, "approve", "page");
    says(
        &project,
        &["task", "show", "page"],
        &["answered", "continues with publish"],
        &["asks first", "asks again"],
    );
    says(
        &project,
        &["report", "-e", &place],
        &["planned, approved"],
        &["asks first"],
    );
    // A user does it in the place of a worker.
    project
        .run(["task", "resume", "page", "-a", "ann"])
        .expect_code(0);
    project
        .run(["task", "complete", "page", "-m", "published by hand"])
        .expect_code(0);
    says(
        &project,
        &["status", "-e", &place],
        &["publish  planned", "published by hand"],
        &["waits for an approval", "Publish it?"],
    );
    let report = project
        .run(["report", "-e", &place])
        .expect_code(0)
        .stdout
        .clone();
    let (head, _) = report.split_once("## Codons").unwrap();
    assert!(!head.contains("it waits for an approval"), "{report}");
}

/// A task stays with the folder in which it was begun. The output says so if the user answers elsewhere, or if that folder has no worker.
// covers: TASK-125, TASK-128
#[test]
fn who_is_to_continue_an_approved_task_is_said_where_it_was_begun_and_elsewhere() {
    let project = project();
    write_hank(&project);
    waiting(&project, "page");
    let other = project.home().join("other").display().to_string();
    let worker = project.start(["worker", "--owner", "w2", "--tasks", &other]);
    let approved = project.run(["task", "approve", "page", "--tasks", &other]);
    let said = format!("{}", approved.expect_code(0));
    assert!(
        said.contains("approved; the task was begun in ") && !said.contains("the next worker"),
        "{said}"
    );
    worker.wait_for_word(|word| word.contains("left alone: page was begun in "));
    let words = "begun here, and no worker of this folder is there: `hankweave worker` continues it";
    says(&project, &["task", "list"], &[words], &[]);
    says(&project, &["task", "show", "page"], &[words], &[]);
    work(&project);
    assert_eq!(status(&project, "page"), "completed");
    says(&project, &["task", "list"], &[], &["begun here"]);
    worker.signal(Signal::TERM);
    worker.finish_within(std::time::Duration::from_secs(60));
}

// covers: TASK-123, CLI-22
#[test]
fn the_log_of_a_run_names_who_approved_its_task() {
    let project = project();
    write_hank(&project);
    waiting(&project, "page");
    let approve = [
        "task", "approve", "page", "--by", "ann", "--reason", "checked", "--json",
    ];
    project.run(approve).expect_code(0);
    work(&project);
    let place = workspace(&project, "page").display().to_string();
    says(
        &project,
        &["logs", "-e", &place],
        &["— approved by ann at ", ": checked\n"],
        &["approved by root"],
    );
}

/// A user who corrects the data of a failed task and resumes it wants the corrected data.
// covers: TASK-52
#[test]
fn a_resumed_task_continues_with_its_data_as_they_are_now() {
    let project = project();
    let reads = json!({"turns": [{"text": "Read"}]}).to_string();
    project.write("page/draft.json", reads);
    let codon = json!({"id": "draft", "name": "draft", "model": "claude-sonnet-4-5", "agent": {"script": "draft.json"},
        "continuationMode": "fresh", "promptText": "work", "check": {"run": "grep -q good read_only_data_source/words.txt", "retries": 0}});
    project.write("page/hank.json", json!({"hank": [codon]}).to_string());
    project.write("topic/words.txt", "bad\n");
    let create = [
        "task", "create", "Read it", "--hank", "page", "--data", "topic", "--id", "page",
    ];
    project.run(create).expect_code(0);
    work(&project);
    assert_eq!(status(&project, "page"), "failed");
    let said = "have changed since the task was begun: a later attempt reads them as they are then.";
    let report = ["task", "show", "page", "--report"];
    says(&project, &report, &[], &[said]);
    project.write("topic/words.txt", "good\n");
    step(&project, "resume", "page");
    work(&project);
    assert_eq!(status(&project, "page"), "completed");
    says(&project, &report, &[said], &[]);
}
