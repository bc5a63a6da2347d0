//! Work on tasks by hand, next to workers.

use hankweave_testing::{Running, TestProject};
use serde_json::{Value, json};

use crate::support::project;

/// A hank whose one codon works for this long.
fn write_hank(project: &TestProject, seconds: &str) {
    // The kernel ends the agent itself with a run that is killed, and nothing after it.
    let script = format!("cat > prompt.txt\nexec sleep {seconds}\n");
    let agent = json!({"command": ["sh", project.write("agent.sh", script)], "stream": "claude"});
    let codon = json!({
        "id": "draft", "name": "draft", "model": "shell", "agent": agent, "continuationMode": "fresh", "promptText": "write",
    });
    project.write_hank(&json!({"hank": [codon]}));
}

fn create(project: &TestProject, id: &str, more: &[&str]) {
    let arguments = ["task", "create", "Write it", "--hank", ".", "--id", id];
    project.run([&arguments[..], more].concat()).expect_code(0);
}

fn told(project: &TestProject, arguments: &[&str]) -> Value {
    let arguments = [arguments, &["--json"]].concat();
    project.run(arguments).expect_code(0).json_document()
}

/// A worker that has begun with the task, and keeps it for as long as the test says.
fn begin(project: &TestProject, name: &str) -> Running {
    let mut worker = project.start(["worker", "--json", "--owner", name, "--lease", "1h"]);
    worker.wait_for_line(|line| line.contains("\"status\":\"running\""));
    worker
}

/// Ends the lease of a worker that no longer exists, and runs the command after that.
fn once_free(project: &TestProject, arguments: &[&str]) -> Value {
    registry(project)
        .execute_batch("UPDATE locks SET expires_at = 0")
        .unwrap();
    told(project, arguments)
}

// covers: TASK-105, TASK-106
#[test]
fn a_task_is_let_go_or_completed_by_hand_once_nobody_works_on_it() {
    let project = project();
    write_hank(&project, "600");
    create(&project, "report-7", &[]);
    let early = project.run(["task", "complete", "report-7"]);
    early.expect_code(65);
    assert!(early.stderr.contains("INVALID_TRANSITION"), "{}", early.stderr);
    let worker = begin(&project, "w1");
    for what in ["complete", "detach"] {
        project.run(["task", what, "report-7"]).expect_code(75);
    }
    worker.kill();
    let other = project.run(["task", "detach", "report-7", "-a", "w9"]);
    other.expect_code(65);
    assert!(
        other.stderr.contains("a task of w1, not of w9"),
        "{}",
        other.stderr
    );
    let row = once_free(&project, &["task", "detach", "report-7", "-a", "w1"]);
    assert_eq!((&row["status"], &row["attempt"]), (&json!("pending"), &json!(2)));
    begin(&project, "w2").kill();
    let result = ["-r", "{\"pages\": 3}", "-m", "by hand"];
    let row = once_free(
        &project,
        &[&["task", "complete", "report-7"][..], &result].concat(),
    );
    assert_eq!(
        row["result"],
        json!({"success": true, "status": "completed", "data": {"pages": 3}, "message": "by hand", "byHand": true})
    );
    let tries = told(&project, &["task", "executions", "report-7"]);
    let tries: Vec<_> = tries["executions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|execution| {
            assert!(execution["startedAt"].as_str() < execution["endedAt"].as_str());
            ["attempt", "agentId", "status", "error"].map(|name| execution[name].clone())
        })
        .collect();
    assert_eq!(
        tries,
        [
            [json!(1), json!("w1"), json!("failed"), json!("DETACHED")],
            [json!(2), json!("w2"), json!("completed"), Value::Null],
        ]
    );
    project
        .run(["task", "complete", "report-7", "-r", "{"])
        .expect_code(2);
    assert_eq!(project.left_behind(), []);
}

/// Several tasks are resumed or cancelled at once: a refused task does not keep the others from it, and the log names the user.
// covers: TASK-129
#[test]
fn several_tasks_take_a_step_at_once() {
    let project = project();
    write_hank(&project, "0");
    for id in ["a", "b", "c"] {
        create(&project, id, &[]);
    }
    let rows = told(&project, &["task", "cancel", "a", "b", "a"]);
    assert_eq!(rows["tasks"].as_array().map(Vec::len), Some(2), "{rows}");
    let refused = project.run(["task", "resume", "a", "c", "b", "d"]);
    let said = &refused.expect_code(65).stderr;
    assert!(
        said.contains("2 of 4 tasks were refused\n  ") && said.contains("`c`") && said.contains("`d`"),
        "{said}"
    );
    assert_eq!(refused.stdout.matches("pending").count(), 2, "{refused}");
    project.run(["task", "cancel", "c"]).expect_code(0);
    let by = told(&project, &["task", "show", "c"])["task"]["cancelledBy"].clone();
    let by = by.as_str().unwrap();
    let show = project.run(["task", "show", "c"]).stdout;
    assert!(show.contains(&format!("  cancelled    by {by}\n")), "{show}");
    let list = project.run(["task", "list"]).stdout;
    assert!(list.contains(&format!("    by {by}\n")), "{list}");
    let log = project.run(["task", "log", "c"]).stdout;
    assert!(log.contains(&format!("Task cancelled by {by}\n")), "{log}");
}

// covers: TASK-107
#[test]
fn tasks_are_listed_cut_filtered_and_counted_as_is_asked() {
    let project = project();
    write_hank(&project, "0");
    for (id, owner) in [("a", "ann"), ("b", "ben"), ("c", "ann"), ("d", "ann")] {
        create(
            &project,
            id,
            &["-o", owner, "-d", "about it", "-m", "{\"colour\": \"Blue\"}"],
        );
    }
    project.run(["task", "cancel", "d"]).expect_code(0);
    let ids = |arguments: &[&str]| -> Vec<String> {
        let rows = told(&project, arguments);
        let rows = rows["tasks"].as_array().unwrap().iter();
        rows.map(|row| row["id"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(ids(&["task", "list"]), ["d", "c", "b", "a"]);
    assert_eq!(ids(&["task", "list", "-l", "2", "--offset", "1"]), ["c", "b"]);
    assert_eq!(ids(&["task", "list", "-s", "pending", "-o", "ann"]), ["c", "a"]);
    assert_eq!(ids(&["task", "find", "BLUE"]).len(), 0);
    assert_eq!(ids(&["task", "find", "BLUE", "-m", "-o", "ben"]), ["b"]);
    assert_eq!(ids(&["task", "find", "ABOUT", "-s", "cancelled"]), ["d"]);
    let short = project.run(["task", "list"]).stdout;
    let long = project.run(["task", "list", "-v"]).stdout;
    // The cancelled one has a line that says by whom.
    assert_eq!((short.lines().count(), long.lines().count()), (4 + 1, 4 * 4 + 1));
    assert!(long.contains("description: about it"), "{long}");
    let messages = |more: &[&str]| -> Vec<String> {
        let history = told(&project, &[&["task", "history", "d"][..], more].concat());
        let entries = history["entries"].as_array().unwrap().iter();
        entries
            .map(|entry| entry["message"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(messages(&[]), ["Task created", "Task cancelled"]);
    assert_eq!(messages(&["--level", "warning"]), ["Task cancelled"]);
    assert_eq!(messages(&["--limit", "1"]), ["Task cancelled"]);
    assert!(messages(&["--start", "2999-01-01T00:00:00Z"]).is_empty());
    assert!(messages(&["--end", "1999-01-01T00:00:00Z"]).is_empty());
    assert_eq!(
        told(&project, &["task", "executions", "d"])["executions"],
        json!([])
    );

    project
        .run(["lock", "acquire", "deploy", "--owner", "a,b", "--lease", "10m"])
        .expect_code(0);
    let figures = told(&project, &["task", "metrics"]);
    let figures = &figures["metrics"];
    for (name, value) in [
        ("tasks_total", 4),
        ("tasks_pending", 3),
        ("tasks_cancelled", 1),
        ("tasks_orphaned", 0),
        ("locks_active", 1),
        ("locks_held{a,b}", 1),
    ] {
        assert_eq!(figures[name], json!(value), "{name}: {figures}");
    }
    let short = project.run(["task", "metrics", "-j"]);
    assert_eq!(short.expect_code(0).json_document()["metrics"]["tasks_total"], 4);
    let csv = project.run(["task", "metrics", "--csv"]).stdout;
    assert!(csv.starts_with("name,value\ntasks_total,4\n"), "{csv}");
    assert!(csv.contains("\n\"locks_held{a,b}\",1\n"), "{csv}");
    let health = told(&project, &["task", "health", "-d"]);
    assert_eq!(
        (&health["leftBehind"], &health["held"][0]["resource"]),
        (&json!([]), &json!("deploy"))
    );
    let health = project.run(["task", "health", "--details"]).stdout;
    assert!(health.contains("deploy is held by a,b"), "{health}");
}

/// The database of the registry.
fn registry(project: &TestProject) -> rusqlite::Connection {
    rusqlite::Connection::open(project.home().join(".local/share/hankweave/registry.db")).unwrap()
}

// covers: TASK-115
#[test]
fn a_task_is_given_to_an_agent_at_once_and_behind_a_checkpoint_if_one_is_named() {
    let project = project();
    write_hank(&project, "0");
    create(&project, "report-7", &[]);
    project.run(["task", "resume", "report-7"]).expect_code(65);
    project
        .run(["task", "resume", "report-7", "-a", ""])
        .expect_code(2);
    let given = project.run(["task", "resume", "report-7", "-a", "critic"]);
    given.expect_code(0);
    let workspace = project
        .home()
        .join(".local/share/hankweave/tasks/report-7/workspace");
    assert!(workspace.is_dir());
    let told_where = format!("critic works on it in {}", workspace.display());
    assert!(given.stderr.contains(&told_where), "{given}");
    let idle = project.run(["worker", "--once"]);
    assert!(idle.expect_code(0).stderr.contains("0 completed"), "{idle}");
    let checkpoint = project.run(["task", "checkpoint", "report-7"]);
    let checkpoint = checkpoint.expect_code(0).stdout.trim().to_owned();
    let row = told(&project, &["task", "detach", "report-7", "-a", "critic"]);
    assert_eq!((&row["status"], &row["attempt"]), (&json!("pending"), &json!(2)));
    project.run(["task", "cancel", "report-7"]).expect_code(0);
    let row = told(
        &project,
        &["task", "resume", "report-7", "-c", &checkpoint, "-a", "coder"],
    );
    assert_eq!(
        (&row["status"], &row["attempt"], &row["agentId"]),
        (&json!("running"), &json!(3), &json!("coder"))
    );
    let history = project.run(["task", "history", "report-7"]).stdout;
    assert!(history.contains("Checkpoint restored"), "{history}");
    let twice = project.run(["task", "resume", "report-7", "--agent", "critic"]);
    assert!(
        twice.expect_code(65).stderr.contains("INVALID_TRANSITION"),
        "{twice}"
    );
    let row = told(&project, &["task", "complete", "report-7"]);
    assert_eq!(row["status"], "completed");
    let nobody = project.run(["task", "resume", "nobody", "-a", "critic"]);
    nobody.expect_code(65);
    assert!(!workspace.join("../../nobody").exists());
}

// covers: TASK-116
#[test]
fn a_check_that_fails_is_told_and_ends_health_with_an_error_when_that_is_asked_for() {
    let project = project();
    write_hank(&project, "0");
    create(&project, "report-7", &[]);
    let checks = |document: &Value| -> Vec<(String, bool)> {
        let checks = document["checks"].as_array().unwrap().iter();
        let check = |check: &Value| (check["name"].as_str().unwrap().to_owned(), check["ok"] == true);
        checks.map(check).collect()
    };
    let check = |name: &str, ok| (name.to_owned(), ok);
    let well = told(&project, &["task", "health", "-f"]);
    assert_eq!(
        checks(&well),
        [
            check("registry", true),
            check("files", true),
            check("orphans", true)
        ]
    );
    assert_eq!((&well["orphans"], &well["locks"]), (&json!(0), &json!(0)));

    project
        .run(["task", "resume", "report-7", "-a", "critic"])
        .expect_code(0);
    let old = "UPDATE tasks SET changed_at = 0";
    registry(&project).execute_batch(old).unwrap();
    let left = project.run(["task", "health"]);
    assert!(
        left.expect_code(0).stdout.contains("orphans: 1 orphaned task"),
        "{left}"
    );
    let left = project.run(["task", "health", "--fail-fast", "-d", "--json"]);
    left.expect_code(1);
    assert!(left.stderr.contains("the check `orphans` failed"), "{left}");
    let document = left.json_document();
    assert_eq!(document["leftBehind"], json!(["report-7"]));
    assert_eq!(checks(&document).last(), Some(&check("orphans", false)));

    // With it nothing is looked at after the first that fails.
    let tasks = project.home().join(".local/share/hankweave/tasks");
    std::fs::rename(&tasks, tasks.with_extension("aside")).unwrap();
    std::fs::write(&tasks, "").unwrap();
    let all = told(&project, &["task", "health"]);
    assert_eq!(
        checks(&all),
        [
            check("registry", true),
            check("files", false),
            check("orphans", false)
        ]
    );
    let first = project.run(["task", "health", "-f", "--json"]);
    let document = first.expect_code(1).json_document();
    assert_eq!(
        checks(&document),
        [check("registry", true), check("files", false)]
    );
    assert!(document.get("orphans").is_none(), "{document}");

    // It answers, and takes nothing.
    let refuses = "CREATE TRIGGER full BEFORE INSERT ON locks BEGIN SELECT RAISE(ABORT, 'no room'); END";
    registry(&project).execute_batch(refuses).unwrap();
    let busy = project.run(["task", "health", "-f", "--json"]);
    let document = busy.expect_code(1).json_document();
    assert_eq!(checks(&document), [check("registry", false)]);
    assert!(
        document.to_string().contains("REGISTRY_NOT_INITIALIZED"),
        "{document}"
    );
}

// covers: TASK-90
#[test]
fn no_command_takes_a_path_for_an_id() {
    let project = project();
    write_hank(&project, "0");
    let commands = [
        "show",
        "history",
        "decisions",
        "checkpoint",
        "restore",
        "recover",
        "cancel",
        "resume",
        "complete",
        "detach",
        "executions",
        "delete",
    ];
    let paths = ["../x", "a/b", ".", "/etc/passwd", ""];
    let refused = |arguments: &[&str]| {
        let refused = project.run(arguments);
        refused.expect_code(2);
        assert!(refused.stderr.contains("INVALID_TASK_ID"), "{}", refused.stderr);
    };
    for path in paths {
        for command in commands {
            refused(&["task", command, path]);
        }
        refused(&["task", "create", "x", "--hank", ".", "--id", path]);
    }
    assert!(
        !project.home().join(".local/share/hankweave").exists(),
        "it was refused before anything was touched"
    );
    create(&project, "report-7", &[]);
    project.run(["task", "cancel", "report-7"]).expect_code(0);
    for path in ["../../x", "checkpoint_1/../..", "checkpoint_01", ""] {
        for command in ["restore", "resume"] {
            let refused = project.run(["task", command, "report-7", "-c", path]);
            refused.expect_code(65);
            assert!(
                refused.stderr.contains("INVALID_CHECKPOINT_ID"),
                "{}",
                refused.stderr
            );
        }
    }
}
