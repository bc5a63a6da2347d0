//! Tasks of a team: many at once, in an order, with failures and approvals among them.

use hankweave_testing::TestProject;
use serde_json::{Value, json};

use crate::support::project;
use crate::task_project::says;

/// A folder with a hank whose codons play these scripts.
fn write_hank(project: &TestProject, folder: &str, codons: &[Value]) {
    let mut hank = Vec::new();
    for (number, codon) in codons.iter().enumerate() {
        let script = format!("{number}.json");
        project.write(&format!("{folder}/{script}"), codon["script"].to_string());
        let mut written = json!({
            "id": codon["id"], "name": codon["id"], "model": "claude-sonnet-4-5", "agent": {"script": script},
            "continuationMode": "fresh", "promptText": "work",
        });
        if let Some(question) = codon.get("approval") {
            written["approval"] = question.clone();
        }
        hank.push(written);
    }
    project.write(&format!("{folder}/hank.json"), json!({"hank": hank}).to_string());
}

fn shown(project: &TestProject, id: &str) -> Value {
    let shown = project.run(["task", "show", id, "--json"]);
    shown.expect_code(0).json_document()["task"].clone()
}

fn create(project: &TestProject, id: &str, hank: &str) {
    let created = project.run(["task", "create", id, "--hank", hank, "--id", id]);
    created.expect_code(0);
}

fn work(project: &TestProject) -> String {
    let worked = project.run(["worker", "--once"]);
    worked.expect_code(0);
    worked.stderr
}

// covers: TASK-122
#[test]
fn a_failed_task_says_why_wherever_it_is_shown() {
    let project = project();
    let script = json!({"turns": [{"text": "2 of 7 tests failed"}], "exitCode": 3});
    write_hank(&project, "red", &[json!({"id": "test", "script": script})]);
    create(&project, "red", "red");
    work(&project);
    let cause = "test: the agent reported success but exited with code 3";
    assert_eq!(shown(&project, "red")["error"], cause);
    let text = project.run(["task", "show", "red"]).expect_code(0).stdout.clone();
    for part in [cause, "2 of 7 tests failed", "hankweave logs test -e "] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let more = shown(&project, "red")["failure"]["command"]
        .as_str()
        .unwrap()
        .to_owned();
    let arguments: Vec<&str> = more.split(' ').skip(1).collect();
    let logs = project.run(&arguments);
    assert!(
        logs.expect_code(0).stdout.contains("2 of 7 tests failed"),
        "{}",
        logs.stdout
    );
    for command in [["task", "list"], ["task", "log"]] {
        let mut command = command.to_vec();
        command.extend((command[1] == "log").then_some("red"));
        let printed = project.run(&command);
        assert!(
            printed.expect_code(0).stdout.contains(cause),
            "{}",
            printed.stdout
        );
    }
}

// covers: TASK-123
#[test]
fn a_task_that_needs_an_approval_asks_waits_and_continues_or_fails() {
    let project = project();
    let script = || json!({"turns": [{"text": "Done"}]});
    let codons = [
        json!({"id": "draft", "script": script()}),
        json!({"id": "publish", "script": script(), "approval": "Publish it?"}),
    ];
    write_hank(&project, "page", &codons);
    for id in ["good", "bad"] {
        create(&project, id, "page");
    }
    let summary = work(&project);
    assert!(summary.contains("2 waiting"), "{summary}");
    let listed = project
        .run(["task", "list", "-s", "waiting"])
        .expect_code(0)
        .stdout
        .clone();
    assert_eq!(listed.matches("publish: Publish it?").count(), 2, "{listed}");
    let text = project
        .run(["task", "show", "good"])
        .expect_code(0)
        .stdout
        .clone();
    assert!(text.contains("hankweave task approve good"), "{text}");
    let stats = project.run(["task", "stats", "--json"]).json_document();
    assert_eq!(stats["byStatus"]["waiting"], 2);
    let metrics = project.run(["task", "metrics", "--json"]).json_document();
    assert_eq!(metrics["metrics"]["tasks_waiting"], 2);
    let resumed = project.run(["task", "resume", "good"]);
    resumed.expect_code(65);
    let by = ["--by", "ann", "--reason", "checked"];
    project
        .run([&["task", "approve", "good"][..], &by].concat())
        .expect_code(0);
    project
        .run([&["task", "deny", "bad"][..], &by].concat())
        .expect_code(0);
    work(&project);
    let good = shown(&project, "good");
    assert_eq!(
        (&good["status"], &good["attempt"]),
        (&json!("completed"), &json!(1))
    );
    let bad = shown(&project, "bad");
    assert_eq!(bad["error"], "publish: denied by ann: checked");
    let history = project.run(["task", "log", "good"]).expect_code(0).stdout.clone();
    assert_eq!(history.matches("Codon draft completed").count(), 1, "{history}");
    assert!(history.contains("publish approved by ann: checked"), "{history}");
    // A denied task that is resumed asks again.
    let resumed = project.run(["task", "resume", "bad"]);
    let next = "it waits for a worker; `hankweave worker --once` runs it here";
    assert!(resumed.expect_code(0).stderr.contains(next), "{resumed}");
    work(&project);
    assert_eq!(shown(&project, "bad")["status"], "waiting");
    // Several are answered at once, and one that is refused keeps none of the others from it.
    let both = project.run(["task", "approve", "good", "bad"]);
    assert!(both.expect_code(65).stderr.contains("good"), "{both}");
    assert_eq!(shown(&project, "bad")["status"], "pending");
}

// covers: TASK-124
#[test]
fn many_tasks_come_from_a_file_and_run_in_their_order() {
    let project = project();
    write_hank(
        &project,
        "quick",
        &[json!({"id": "do", "script": {"turns": [{"text": "Done"}]}})],
    );
    let line = |id: &str, more: Value| {
        let mut task = json!({"id": id, "name": id, "hank": "quick"});
        task.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        format!("{task}\n")
    };
    let good = line("usual", json!({})) + &line("first", json!({"priority": 5}));
    project.write("bad.jsonl", good.clone() + "{\"name\": \"x\"}\n");
    let refused = project.run(["task", "create", "--from", "bad.jsonl"]);
    refused.expect_code(65);
    assert!(
        refused.stderr.contains("bad.jsonl:3: `hank` is missing"),
        "{}",
        refused.stderr
    );
    let none = project.run(["task", "list", "--json"]).json_document();
    assert_eq!(none["tasks"], json!([]));
    project.write(
        "good.jsonl",
        line("last", json!({"after": ["usual"], "priority": 9})) + &good,
    );
    // A task may come after one of a later line.
    let created = project.run(["task", "create", "--from", "good.jsonl"]);
    assert_eq!(created.expect_code(0).stdout, "last\nusual\nfirst\n");
    let text = project
        .run(["task", "show", "last"])
        .expect_code(0)
        .stdout
        .clone();
    assert!(text.contains("usual (pending)"), "{text}");
    let worked = project
        .run(["worker", "--once", "--json"])
        .expect_code(0)
        .stdout
        .clone();
    let started = worked
        .lines()
        .filter(|line| line.contains("\"status\":\"running\""));
    let started: Vec<String> = started
        .map(|line| {
            serde_json::from_str::<Value>(line).unwrap()["id"]
                .as_str()
                .unwrap()
                .to_owned()
        })
        .collect();
    assert_eq!(started, ["first", "usual", "last"]);
    let detached = project.run(["task", "detach", "last"]);
    let sentence =
        "task `last` is completed; only a task that is running can be requeued (INVALID_TRANSITION)";
    assert!(
        detached.expect_code(65).stderr.contains(sentence),
        "{}",
        detached.stderr
    );
}

/// A list of many tasks shows what to type next, why a task does not start, what is left, and no amount that is unknown.
// covers: TASK-122, TASK-123, TASK-124
#[test]
fn a_list_says_why_each_task_does_not_continue_and_what_to_type() {
    let project = project();
    let failing = json!({"turns": [{"text": "2 of 7 tests failed", "usage": {"input": 10, "output": 5}}], "exitCode": 3});
    write_hank(&project, "red", &[json!({"id": "test", "script": failing})]);
    let unpriced = project.directory().join("red/hank.json");
    let text = std::fs::read_to_string(&unpriced).unwrap();
    std::fs::write(unpriced, text.replace("claude-sonnet-4-5", "no-such-model")).unwrap();
    write_hank(
        &project,
        "quick",
        &[json!({"id": "do", "script": {"turns": [{"text": "Done"}]}})],
    );
    let none = project.run(["task", "list"]).expect_code(0).stdout.clone();
    assert!(none.contains("no task yet"), "{none}");
    project.write(
        "tasks.jsonl",
        "{\"id\": \"red\", \"name\": \"red\", \"hank\": \"red\"}\n{\"id\": \"later\", \"name\": \"later\", \"hank\": \"quick\", \"after\": [\"red\"]}\n{\"id\": \"mine\", \"name\": \"mine\", \"hank\": \"quick\"}\n",
    );
    let created = project.run(["task", "create", "--from", "tasks.jsonl"]);
    let next =
        "3 tasks wait for a worker, 1 of them after other tasks; `hankweave worker --once` runs them here";
    assert!(created.expect_code(0).stderr.contains(next), "{}", created.stderr);
    project
        .run(["task", "resume", "mine", "-a", "ann"])
        .expect_code(0);
    let worked = work(&project);
    for left in [
        "1 failed: `hankweave task list --status failed`",
        "1 running",
        "1 pending",
    ] {
        assert!(worked.contains(left), "{left}: {worked}");
    }
    let listed = project.run(["task", "list"]).expect_code(0).stdout.clone();
    assert!(listed.lines().all(|line| line.chars().count() <= 80), "{listed}");
    for line in [
        "blocked: waits for red, which failed; `hankweave task resume red`",
        "ann works on it by hand; `hankweave task detach mine` requeues it",
        " unknown  red",
    ] {
        assert!(listed.contains(line), "{line}: {listed}");
    }
    assert!(!listed.contains("$0.0000"), "{listed}");
    let none = project.run(["task", "list", "--status", "waiting"]);
    assert_eq!(none.expect_code(0).stdout, "none of 3 tasks is waiting\n");
    let counted = project.run(["task", "list", "--count"]);
    assert!(
        counted.expect_code(0).stdout.contains("3 tasks, cost unknown"),
        "{}",
        counted.stdout
    );
    let red = project.run(["task", "show", "red"]).expect_code(0).stdout.clone();
    assert!(red.contains("test failed, unknown"), "{red}");
    let mine = project
        .run(["task", "show", "mine"])
        .expect_code(0)
        .stdout
        .clone();
    assert!(
        mine.contains("`hankweave task detach mine` requeues it now"),
        "{mine}"
    );
    // What was deleted before it had completed would never let the other one start.
    let delete = ["task", "delete", "red", "--force"];
    let refused = project.run(delete);
    says(
        &refused.expect_code(65).stderr,
        &["`later` waits for it, and could never start; cancel that one first"],
    );
    project.run(["task", "cancel", "later"]).expect_code(0);
    project.run(delete).expect_code(0);
    project.write(
        "late.jsonl",
        "{\"name\": \"late\", \"hank\": \"quick\", \"after\": [\"red\"]}\n",
    );
    let late = project.run(["task", "create", "--from", "late.jsonl"]);
    says(
        &late.expect_code(65).stderr,
        &["`red`, which it would come after, was deleted before it had completed"],
    );
    project.write("wrong.jsonl", "\n{\"name\": \"x\", \"hank\": \"nowhere\"}\n");
    let wrong = project.run(["task", "create", "--from", "wrong.jsonl"]);
    assert!(
        wrong
            .expect_code(65)
            .stderr
            .contains("wrong.jsonl:2: there is no `nowhere`"),
        "{}",
        wrong.stderr
    );
}

/// Times on screens are those of the user's clock, in JSON those of UTC.
// covers: TASK-122
#[test]
fn times_of_tasks_and_locks_are_local_on_screens() {
    let project = project();
    write_hank(
        &project,
        "quick",
        &[json!({"id": "do", "script": {"turns": [{"text": "Done"}]}, "approval": "Do it?"})],
    );
    create(&project, "one", "quick");
    work(&project);
    project
        .run(["task", "approve", "one", "--by", "ann"])
        .expect_code(0);
    let text = project.run(["task", "show", "one"]).expect_code(0).stdout.clone();
    let row = shown(&project, "one");
    let year = &row["updatedAt"].as_str().unwrap()[..5];
    assert!(
        text.contains("do approved by ann, at ") && !text.contains(year),
        "{text}"
    );
    let taken = project.run(["lock", "acquire", "mine", "--owner", "ann", "--lease", "1h"]);
    assert!(!taken.expect_code(0).stdout.contains(year), "{}", taken.stdout);
    let listed = project.run(["lock", "list"]).expect_code(0).stdout.clone();
    assert!(
        listed.contains("59m") && listed.contains(" left") && !listed.contains(year),
        "{listed}"
    );
}
