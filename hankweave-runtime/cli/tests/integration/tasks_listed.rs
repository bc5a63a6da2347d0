//! Tasks in the list of `hankweave view --root`, and what they say of work by hand and of limits (WIRE-51, TASK-54).

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use hankweave_testing::TestProject;
use serde_json::{Value, json};

use crate::page::viewing;
use crate::support::project;
use crate::task_project::{create, says, shown, text, turn, work, workspace, write_gate, write_hank};

/// Returns the rows of the list by the ids of their tasks.
fn listed(project: &TestProject, more: &[&str]) -> impl Fn(&str) -> Value + use<> {
    let root = project.home().join(".local/share/hankweave/tasks");
    let root = root.display().to_string();
    let (viewing, address) = viewing(project, &[&["--root", &root][..], more].concat());
    let (address, token) = address.split_once("#token=").unwrap();
    let host = address.trim_start_matches("http://").trim_end_matches('/');
    let mut stream = TcpStream::connect(host).unwrap();
    let head = format!("GET /list HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\n\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    viewing.kill();
    let (_, list) = answer.split_once("\r\n\r\n").unwrap();
    let list: Value = serde_json::from_str(list).unwrap();
    move |id| {
        let mut rows = list["rows"].as_array().unwrap().iter();
        let row = rows.find(|row| row["task"] == id);
        row.unwrap_or_else(|| panic!("{id} is not listed: {list:#}"))
            .clone()
    }
}

/// Returns the words of a row: name, group, state and last word.
fn words(row: &Value) -> [&str; 4] {
    ["name", "group", "state", "last"].map(|name| row[name].as_str().unwrap())
}

/// A task that failed and was completed by hand, and one that waited for an approval and was cancelled, before a third one.
fn ended_by_users(project: &TestProject) {
    let red = json!({"turns": [{"text": "red"}], "exitCode": 3});
    write_hank(project, "red", &[json!({"id": "test", "script": red})]);
    write_gate(project);
    create(project, "two", "Two", "red", &[]);
    create(project, "page-3", "Publish the page", "page", &[]);
    let after = "task create Later --hank page --id later --after page-3";
    says(
        &project.run(after.split(' ')).expect_code(0).stderr,
        &["\"Later\" waits for page-3 (pending), then for a worker; "],
    );
    work(project);
    project.run(["task", "resume", "two", "-a", "ann"]).expect_code(0);
    project
        .run(["task", "complete", "two", "-m", "Finished by ann"])
        .expect_code(0);
    project.run(["task", "cancel", "page-3"]).expect_code(0);
}

// covers: WIRE-51
#[test]
fn the_list_says_how_users_ended_tasks_and_which_wait_in_vain() {
    let mut project = project();
    project.set("LOGNAME", "ann");
    ended_by_users(&project);
    let row = listed(&project, &[]);
    let two = row("two");
    assert_eq!(
        words(&two),
        ["Two", "ended", "completed", "completed by hand: Finished by ann"]
    );
    let cancelled = row("page-3");
    let resumed = "cancelled by ann; once it is resumed, a worker continues it";
    assert_eq!(
        words(&cancelled),
        ["Publish the page", "ended", "stopped", resumed]
    );
    let later = row("later");
    let blocked = "blocked: waits for page-3, which was cancelled; `hankweave task resume page-3`";
    assert_eq!(words(&later), ["Later", "waits", "planned", blocked]);
    assert_eq!(later["word"], "blocked");
    says(&text(&project, &["task", "list"]), &[blocked]);
    // A task that was resumed is no longer what its newest run was.
    project.run(["task", "resume", "page-3"]).expect_code(0);
    let resumed = listed(&project, &[])("page-3");
    assert_eq!(
        (
            resumed["group"].as_str().unwrap(),
            resumed["word"].as_str().unwrap()
        ),
        ("queued", "queued")
    );
    assert!(
        !resumed["last"].as_str().unwrap().contains("approval"),
        "{resumed:#}"
    );
}

/// Tasks of another registry have the names and statuses that their files know.
// covers: WIRE-51
#[test]
fn tasks_of_another_registry_are_listed_as_tasks() {
    let project = project();
    ended_by_users(&project);
    let other = format!("sqlite:{}", project.home().join("other.db").display());
    let row = listed(&project, &["--registry", &other]);
    assert_eq!(words(&row("two")), ["Two", "ended", "completed", "completed"]);
    let resumed = "cancelled; once it is resumed, a worker continues it";
    assert_eq!(
        words(&row("page-3")),
        ["Publish the page", "ended", "stopped", resumed]
    );
}

/// Work by hand is in no checkpoint, and the report says so.
// covers: CLI-44
#[test]
fn the_report_of_a_task_says_that_work_by_hand_is_not_among_its_files() {
    let project = project();
    ended_by_users(&project);
    let place = workspace(&project, "two").display().to_string();
    let by_hand =
        "The task was completed by hand: changes since the last checkpoint are not among the files.";
    says(&text(&project, &["report", &place]), &[by_hand]);
    let other = workspace(&project, "page-3").display().to_string();
    assert!(!text(&project, &["report", &other]).contains("by hand"));
    says(
        &text(&project, &["task", "show", "two"]),
        &[&format!("files        {place}\n")],
    );
}

/// A codon that completed beyond its own limit: every screen of its task says by how much.
// covers: TASK-54, HANK-37
#[test]
fn a_codon_beyond_its_limit_is_told_by_every_screen_of_its_task() {
    let project = project();
    let codon = json!({"id": "draft", "script": turn("Drafted"), "budget": {"maxDollars": 0.1}});
    write_hank(&project, "over", &[codon]);
    create(&project, "over", "Over", "over", &[]);
    work(&project);
    // How much an agent spends before it is stopped differs, and whether all of that is known.
    let over = ["draft: budget reached: used ", " of $0.1000, over its budget by "];
    for screen in ["show", "list", "log"] {
        let id = if screen == "list" { None } else { Some("over") };
        let arguments: Vec<&str> = ["task", screen].into_iter().chain(id).collect();
        says(&text(&project, &arguments), &over);
    }
    let place = workspace(&project, "over").display().to_string();
    says(&text(&project, &["cost", "-e", &place]), &over);
}

/// A hint of a run that its worker quotes can be pasted in any folder.
// covers: CLI-4
#[test]
fn a_hint_that_a_worker_quotes_has_whole_paths() {
    let project = project();
    write_hank(
        &project,
        "odd",
        &[json!({"id": "draft", "script": turn("Drafted")})],
    );
    create(&project, "odd", "Odd", "odd", &[]);
    project.write("odd/hank.json", "{\"hank\": 7}");
    work(&project);
    let lines = shown(&project, "odd")["task"]["failure"]["lastLines"].to_string();
    let place = workspace(&project, "odd").display().to_string();
    says(&lines, &[&format!("-e {place}`")]);
}
