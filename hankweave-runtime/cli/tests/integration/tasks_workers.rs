//! Present workers, whether they hold a task or not.

use hankweave_testing::TestProject;
use serde_json::{Value, json};

use crate::support::project;
use crate::task_project::{create, says, shown, text, turn, write_gate, write_hank, write_slow};

/// Returns what `task list` says below the list.
fn below(project: &TestProject) -> String {
    project.run(["task", "list"]).expect_code(0).stderr.clone()
}

/// Lets all leases of the registry end.
fn end_leases(project: &TestProject) {
    let file = project.home().join(".local/share/hankweave/registry.db");
    let registry = rusqlite::Connection::open(file).unwrap();
    registry.execute_batch("UPDATE locks SET expires_at = 0").unwrap();
}

/// A user who creates tasks sees the present workers, or that there are none. After one was killed, the user sees which other worker takes its task
/// over, and when.
// covers: TASK-128, TASK-24
#[test]
fn tasks_say_which_workers_are_there_and_which_one_takes_over() {
    let project = project();
    let hold = write_slow(&project);
    create(&project, "slow", "Slow", "slow", &[]);
    create(&project, "later", "Later", "slow", &["--after", "slow"]);
    let none = "none is there; `hankweave worker` starts one";
    says(&below(&project), &[&format!("workers: {none}\n")]);
    says(
        &text(&project, &["task", "show", "slow"]),
        &[&format!("  workers      {none}\n")],
    );
    says(
        &text(&project, &["task", "health"]),
        &[&format!("\nworkers: {none}\n")],
    );

    let first = project.start(["worker", "--owner", "w1", "--lease", "1h"]);
    while shown(&project, "slow")["data"]["running"] != "draft" {
        std::thread::yield_now();
    }
    let second = project.start([
        "worker",
        "--owner",
        "w2",
        "--lease",
        "1h",
        "--orphan-after",
        "2h",
        "--jobs",
        "2",
    ]);
    while !below(&project).contains("w2 (idle, there since ") {
        std::thread::yield_now();
    }
    // A second worker of this name could not be distinguished from the first.
    let namesake = project.run(["worker", "--once", "--owner", "w2"]);
    says(
        &namesake.expect_code(0).stderr,
        &["another worker w2 is there, since "],
    );
    says(
        &below(&project),
        &["workers: w1 (1 of 1 task), w2 (idle, there since "],
    );
    says(
        &text(&project, &["task", "show", "later"]),
        &["  workers      w1 (1 of 1 task), w2 (idle, "],
    );
    let metrics = project
        .run(["task", "metrics", "--json"])
        .expect_code(0)
        .json_document();
    let figure = |name: &str| metrics["metrics"][name].clone();
    assert_eq!(
        ["workers", "workers_idle", "workers_slots"].map(figure),
        [json!(2), json!(1), json!(3)]
    );
    let health = project
        .run(["task", "health", "--json"])
        .expect_code(0)
        .json_document();
    assert_eq!(health["workers"][1]["orphanAfterMs"], 7_200_000);
    assert_eq!(health["locks"], 1, "a presence is no lock of a task");
    assert!(!text(&project, &["lock", "list"]).contains("worker:"));

    first.kill();
    let show = || {
        text(&project, &["task", "show", "slow"])
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ")
    };
    while !show().contains("its run has crashed") {
        std::thread::yield_now();
    }
    says(
        &show(),
        &["then `hankweave task detach slow` requeues the task; w2 does so in 1h59m"],
    );
    second.kill();
    end_leases(&project);
    says(&below(&project), &[&format!("workers: {none}\n")]);
    says(
        &show(),
        &[
            "none holds it; `hankweave task detach slow` requeues it now; no worker is there to do so: `hankweave worker` starts one, which does so in 4m",
        ],
    );
    std::fs::remove_file(hold).unwrap();
}

/// Below a list are the commands for the tasks in it that need their user.
// covers: TASK-105, TASK-123
#[test]
fn a_list_names_the_commands_that_its_tasks_need() {
    let project = project();
    write_gate(&project);
    let red = json!({"turns": [{"text": "red"}], "exitCode": 3});
    write_hank(&project, "red", &[json!({"id": "test", "script": red})]);
    write_hank(&project, "quick", &[json!({"id": "do", "script": turn("Done")})]);
    for (id, hank) in [("page", "page"), ("red", "red"), ("quick", "quick")] {
        create(&project, id, id, hank, &[]);
    }
    project.run(["worker", "--once"]).expect_code(0);
    let said = below(&project);
    says(
        &said,
        &[
            "waiting: `hankweave task approve ID` or `hankweave task deny ID` answers\n",
            "failed: `hankweave task show ID` says more, `hankweave task resume ID` lets a worker continue the task\n",
        ],
    );
    assert!(!said.contains("workers: "), "nothing waits for one: {said}");
    let quiet = project.run(["task", "list", "--quiet"]);
    assert_eq!(quiet.expect_code(0).stderr, "");
    let rows = project.run(["task", "list", "--json"]);
    assert_eq!(rows.expect_code(0).stderr, "");
    let _: Value = rows.json_document();
}
