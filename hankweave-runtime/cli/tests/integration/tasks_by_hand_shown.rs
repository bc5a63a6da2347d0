//! Attempts by hand, workers that no longer exist, and limits of a task: every screen agrees on them and names what to type.

use std::time::Duration;

use hankweave_core::time::{Timestamp, short_duration};
use hankweave_testing::TestProject;
use hankweave_testing::postgres::Database;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::support::{project, until_stopped};
use crate::task_project::{
    create, says, shown, text, turn, work, workspace, write_gate, write_hank, write_slow,
};
use crate::terminal::Terminal;

const SOON: Duration = Duration::from_secs(60);

fn place(project: &TestProject, id: &str) -> String {
    workspace(project, id).display().to_string()
}

fn lacks(text: &str, part: &str) {
    assert!(!text.contains(part), "{part}: {text}");
}

/// Ends the lease on a task, as time does.
fn end_lease(project: &TestProject) {
    let file = project.home().join(".local/share/hankweave/registry.db");
    let registry = rusqlite::Connection::open(file).unwrap();
    registry.execute_batch("UPDATE locks SET expires_at = 0").unwrap();
}

/// A task whose first codon is paid, and whose second one failed.
fn failed_task(project: &TestProject) {
    let red = json!({"turns": [{"text": "red"}], "exitCode": 3});
    let codons = [
        json!({"id": "draft", "script": turn("Drafted")}),
        json!({"id": "test", "script": red}),
    ];
    write_hank(project, "two", &codons);
    create(project, "two", "Two", "two", &[]);
    project.run(["worker", "--once", "--plan"]).expect_code(0);
}

/// Costs of the attempts as `task show --attempts` prints them.
fn costs_of_attempts(project: &TestProject, id: &str) -> Vec<String> {
    let listed = text(project, &["task", "show", id, "--attempts"]);
    let cost = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let at = words
            .iter()
            .position(|word| *word == "-" && words[0] != "-" || word.starts_with('$') || *word == "unknown");
        words[at.unwrap()].to_owned()
    };
    listed.lines().map(cost).collect()
}

/// Codons belong to the attempt in which they ended, and an attempt by hand costs nothing that is counted, on every screen.
fn an_attempt_by_hand_costs_nothing_that_is_counted(project: &TestProject) {
    failed_task(project);
    project.run(["task", "resume", "two", "-a", "ann"]).expect_code(0);
    let row = &shown(project, "two")["task"];
    assert_eq!((&row["agentId"], &row["byHand"]), (&json!("ann"), &json!(true)));
    says(
        &text(project, &["task", "show", "two"]),
        &[
            "  cost         $0.4500; the last attempt was by hand, and is not counted\n",
            "  codon        draft completed, $0.4500",
            "  codon        test failed, $0.0000",
        ],
    );
    says(&text(project, &["task", "list"]), &["    $0.4500  Two"]);
    project.run(["task", "detach", "two"]).expect_code(0);
    project.run(["worker", "--once", "--plan"]).expect_code(0);
    let json = project
        .run(["task", "show", "two", "--attempts", "--json"])
        .json_document();
    let attempts = json["executions"].as_array().unwrap();
    let told: Vec<Value> = attempts
        .iter()
        .map(|attempt| json!([attempt["byHand"], attempt["cost"], attempt["codons"][0]["id"]]))
        .collect();
    assert_eq!(
        told,
        [
            json!([null, 0.45, "draft"]),
            json!([true, null, null]),
            json!([null, 0, "test"])
        ]
    );
    let costs = costs_of_attempts(project, "two");
    assert_eq!(costs, ["$0.4500", "-", "$0.0000"]);
    // The page for people has these costs as well, attempt for attempt.
    let plan = workspace(project, "two").with_file_name("Plan.md");
    let plan = std::fs::read_to_string(plan).unwrap();
    let of_plan = plan.lines().filter_map(|line| line.strip_prefix("- **Cost**: "));
    let of_plan: Vec<&str> = of_plan.collect();
    assert_eq!(of_plan, ["$0.4500", "-", "$0.0000", "$0.4500"], "{plan}");
    says(
        &plan,
        &["## Attempt 2: requeued\n\n- **Agent**: ann\n- **By hand**: no worker ran it\n"],
    );
    says(
        &text(project, &["task", "show", "two"]),
        &[
            "  codon        draft completed, $0.4500",
            "  codon        test failed, $0.0000",
        ],
    );
}

// covers: TASK-106, TASK-108, TASK-121
#[test]
fn an_attempt_by_hand_has_one_cost_and_no_codon_of_another_one() {
    an_attempt_by_hand_costs_nothing_that_is_counted(&project());
}

// covers: TASK-106, TASK-121
#[test]
fn an_attempt_by_hand_has_one_cost_over_postgresql() {
    let database = match Database::create() {
        Ok(database) => database,
        Err(skip) => return println!("skipped: {skip}"),
    };
    let mut project = project();
    project.set("HANKWEAVE_REGISTRY", database.url());
    an_attempt_by_hand_costs_nothing_that_is_counted(&project);
}

/// A worker that was killed while no agent worked has spent what is known, and its task costs no more anywhere.
// covers: TASK-121, CLI-14
#[test]
fn a_worker_that_was_killed_between_agents_leaves_an_exact_cost() {
    let project = project();
    write_slow(&project);
    write_hank(
        &project,
        "paid",
        &[
            json!({"id": "draft", "script": turn("Drafted")}),
            json!({"id": "wait", "script": turn("Waited")}),
        ],
    );
    let path = project.directory().join("paid/hank.json");
    let mut hank: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    let wait = format!(
        "while [ -e '{}' ]; do sleep 0.05; done",
        project.home().join("hold").display()
    );
    hank["hank"][1]["rigSetup"] = json!([{"type": "command", "command": {"run": wait}}]);
    std::fs::write(&path, hank.to_string()).unwrap();
    create(&project, "paid", "Paid", "paid", &[]);
    let worker = project.start(["worker", "--lease", "1h", "--owner", "w1"]);
    let place = place(&project, "paid");
    let started = || {
        let status = project.run(["status", "-e", &place, "--json"]);
        let codons = (status.code == Some(0)).then(|| status.json_document()["run"]["codons"].clone());
        codons.is_some_and(|codons| codons.as_array().is_some_and(|codons| codons.len() == 2))
    };
    while !started() {
        std::thread::yield_now();
    }
    worker.kill();
    while !text(&project, &["status", "-e", &place]).contains("crashed") {
        std::thread::yield_now();
    }
    let exact = |project: &TestProject| {
        for command in [
            &["status", "-e", &place][..],
            &["task", "show", "paid"],
            &["task", "show", "paid", "--attempts"],
            &["task", "list"],
        ] {
            let said = text(project, command);
            says(&said, &["$0.4500"]);
            lacks(&said, "≥ $");
            lacks(&said, "at least $");
        }
    };
    exact(&project);
    end_lease(&project);
    project.run(["task", "detach", "paid"]).expect_code(0);
    exact(&project);
    assert_eq!(shown(&project, "paid")["task"]["costIsLowerBound"], Value::Null);
}

/// A task that a user completed after its worker was killed is no crash in its workspace.
// covers: TASK-105, CLI-14, CLI-44
#[test]
fn a_task_completed_by_hand_says_so_in_its_workspace_and_in_its_log() {
    let project = project();
    let hold = write_slow(&project);
    create(&project, "slow", "Slow", "slow", &[]);
    let worker = project.start(["worker", "--lease", "1h", "--owner", "w1"]);
    while shown(&project, "slow")["data"]["running"] != "draft" {
        std::thread::yield_now();
    }
    let early = project.run(["task", "approve", "slow"]);
    says(
        &early.expect_code(75).stderr,
        &["hint: the task is running and asks nothing now"],
    );
    worker.kill();
    end_lease(&project);
    project
        .run(["task", "complete", "slow", "-m", "Finished by ann"])
        .expect_code(0);
    let place = place(&project, "slow");
    let status = text(&project, &["status", "-e", &place]);
    let ended = "the task was completed by hand: Finished by ann\n";
    says(
        &status,
        &[
            &format!("  {ended}"),
            &format!("\nnothing is left to do: {ended}"),
        ],
    );
    lacks(&status, "next worker");
    let json = project.run(["status", "-e", &place, "--json"]).json_document();
    assert_eq!(json["task"]["ended"], "completed by hand: Finished by ann");
    says(
        &text(&project, &["report", &place]),
        &["# ✓ Slow: completed by hand: Finished by ann (its run: crashed)\n"],
    );
    says(
        &text(&project, &["task", "log", "slow"]),
        &["info     Task completed by hand\n    Finished by ann\n"],
    );
    let run = project.run(["run", "slow", "-e", &place, "--headless", "--dry-run"]);
    lacks(&run.stderr, "task resume");
    std::fs::remove_file(&hold).unwrap();
}

/// A refused completion leaves the files of the task as they were.
// covers: TASK-105, TASK-32
#[test]
fn a_refused_completion_makes_no_checkpoint() {
    let project = project();
    let hold = write_slow(&project);
    create(&project, "slow", "Slow", "slow", &[]);
    let refused = |code: i32| {
        let before = shown(&project, "slow")["checkpoints"].clone();
        let refused = project.run(["task", "complete", "slow"]);
        refused.expect_code(code);
        assert_eq!(shown(&project, "slow")["checkpoints"], before);
    };
    refused(65);
    let worker = project.start(["worker", "--lease", "1h", "--owner", "w1"]);
    while shown(&project, "slow")["data"]["running"] != "draft" {
        std::thread::yield_now();
    }
    refused(75);
    let waits = project.run(["task", "create", "Next", "--hank", "slow"]);
    says(&waits.expect_code(0).stderr, &["w1 takes it once it has room"]);
    worker.kill();
    std::fs::remove_file(&hold).unwrap();
}

/// A cancelled, a resumed and an undone task: `status`, `approve` and `task show` say what is so, and what to type.
// covers: TASK-123, TASK-126, CLI-14, CLI-30
#[test]
fn the_workspace_of_a_task_says_what_became_of_it() {
    let mut project = project();
    project.set("LOGNAME", "ann");
    write_gate(&project);
    create(&project, "page-3", "Publish the page", "page", &[]);
    work(&project);
    let place = place(&project, "page-3");
    let refused = |hint: &str| {
        let approve = project.run(["approve", "-e", &place]);
        says(&approve.expect_code(1).stderr, &[hint]);
    };
    refused("hint: `hankweave task approve page-3` does\n");
    project.run(["task", "cancel", "page-3"]).expect_code(0);
    let status = text(&project, &["status", "-e", &place]);
    says(
        &status,
        &[
            "  the task was cancelled by ann\n",
            "\nthe task was cancelled by ann; once it is resumed, a worker continues it\n",
            "hankweave task resume page-3 ",
        ],
    );
    lacks(&status, "publish waits for an approval\n");
    refused(
        "the task is cancelled: `hankweave task resume page-3` lets a worker ask again, then `hankweave task approve page-3` answers",
    );
    project.run(["task", "resume", "page-3"]).expect_code(0);
    says(
        &text(&project, &["report", "-e", &place]),
        &["the task was cancelled by ann", "the task was resumed by ann"],
    );
    says(
        &text(&project, &["status", "-e", &place]),
        &["publish needs an approval; the next worker asks for it\n"],
    );
    refused(
        "the task is pending and asks nothing now; once it waits, `hankweave task approve page-3` answers; `hankweave worker` continues it",
    );
    project
        .run(["task", "resume", "page-3", "-a", "ann"])
        .expect_code(0);
    let by_hand = "no worker holds it: ann works on it by hand (task resume -a)";
    let status = text(&project, &["status", "-e", &place]);
    says(
        &status,
        &[
            by_hand,
            "\nann works on the task by hand\n",
            "hankweave task complete page-3 ",
            "hankweave task detach page-3 ",
        ],
    );
    says(
        &text(&project, &["task", "list"]),
        &["ann works on it by hand; `hankweave task detach page-3` requeues it"],
    );
    refused("ann works on it by hand, `hankweave task complete page-3` completes it");
    project.run(["task", "complete", "page-3"]).expect_code(0);
    // What runs from now on is no part of it.
    let approved = project.run(["approve", "-e", &place]);
    says(&approved.expect_code(0).stdout, &["publish may begin; "]);
    project.run(["undo", "-e", &place]).expect_code(0);
    let show = text(&project, &["task", "show", "page-3"]);
    says(
        &show,
        &[
            "  rollback     rolled back to checkpoint ",
            "  in all       0 of 2 codons, ",
        ],
    );
    lacks(&show, "draft completed");
    let status = text(&project, &["status", "-e", &place]);
    says(
        &status,
        &[
            "the task was completed by hand; `hankweave run ",
            " would run draft, in a run that is no part of it\n",
        ],
    );
    lacks(&status, "the next run continues");
}

/// The worker was killed: health and the lists of programs say so before its lease ends.
// covers: TASK-52, TASK-116
#[test]
fn a_killed_worker_is_told_by_health_and_to_programs() {
    let project = project();
    let hold = write_slow(&project);
    create(&project, "slow", "Slow", "slow", &[]);
    let worker = project.start(["worker", "--lease", "10m", "--owner", "w1"]);
    while shown(&project, "slow")["data"]["running"] != "draft" {
        std::thread::yield_now();
    }
    let health = text(&project, &["task", "health"]);
    says(
        &health,
        &["running: 1, locks held: 1\nno orphaned task: none has been without a worker for 5m0s\n"],
    );
    worker.kill();
    let crashed = "its run has crashed; the lease of its worker w1 ends in ";
    while !text(&project, &["task", "list"]).contains(crashed) {
        std::thread::yield_now();
    }
    says(
        &text(&project, &["task", "health"]),
        &[&format!("\n  slow: {crashed}")],
    );
    let health = project.run(["task", "health", "--json"]).json_document();
    assert_eq!(health["absent"][0]["task"], "slow");
    let list = project.run(["task", "list", "--json"]).json_document();
    let worker = list["tasks"][0]["worker"].as_str().unwrap();
    assert!(worker.starts_with(crashed), "{worker}");
    end_lease(&project);
    says(
        &text(&project, &["task", "show", "slow"]),
        &[
            "none holds it; `hankweave task detach slow` requeues it now; no worker is there to do so: `hankweave worker` starts one, which does so in ",
        ],
    );
    std::fs::remove_file(&hold).unwrap();
}

/// The time of an attempt does not grow while its worker is suspended.
// covers: S12, TASK-106
#[test]
fn the_time_of_an_attempt_stops_with_its_worker() {
    let project = project();
    let hold = write_slow(&project);
    create(&project, "slow", "Slow", "slow", &[]);
    let worker = project.start(["worker", "--once", "--lease", "1h", "--owner", "w1"]);
    while shown(&project, "slow")["data"]["running"] != "draft" {
        std::thread::yield_now();
    }
    let own = Pid::from_raw(i32::try_from(worker.pid()).unwrap()).unwrap();
    kill_process(own, Signal::TSTP).unwrap();
    until_stopped(own);
    let suspended = text(&project, &["task", "show", "slow", "--attempts"]);
    says(&suspended, &["  1  suspended  w1 "]);
    let looked = std::time::Instant::now();
    while looked.elapsed() < Duration::from_millis(1_100) {
        assert_eq!(text(&project, &["task", "show", "slow", "--attempts"]), suspended);
    }
    kill_process(own, Signal::CONT).unwrap();
    // The end of the suspension is noted before that of the codon.
    while !text(&project, &["task", "log", "slow"]).contains("Suspended for ") {
        std::thread::yield_now();
    }
    std::fs::remove_file(&hold).unwrap();
    worker.finish_within(SOON).expect_code(0);
    let attempts = project.run(["task", "show", "slow", "--attempts", "--json"]);
    let attempt = &attempts.expect_code(0).json_document()["executions"][0];
    let at = |key: &str| Timestamp::parse(attempt[key].as_str().unwrap()).unwrap();
    let suspended = attempt["suspendedMs"].as_u64().unwrap();
    assert!(suspended >= 1_100, "{attempt}");
    let worked = at("endedAt")
        .since(at("startedAt"))
        .saturating_sub(Duration::from_millis(suspended));
    says(
        &text(&project, &["task", "show", "slow", "--attempts"]),
        &[&format!("  {:>7}  ", short_duration(worked))],
    );
}

/// The limits of a task are shown before it runs, with the source of each.
// covers: TASK-115, HANK-38
#[test]
fn the_limits_of_a_hank_are_told_before_its_task_runs() {
    let project = project();
    let codon = json!({"id": "draft", "script": turn("Drafted"), "budget": {"maxDollars": 0.5}});
    write_hank(&project, "lim", &[codon]);
    let path = project.directory().join("lim/hank.json");
    let mut hank: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    hank["overrides"] = json!({"budget": {"maxDollars": 0.8, "maxTimeSeconds": 600}});
    std::fs::write(&path, hank.to_string()).unwrap();
    let created = project.run(["task", "create", "Lim", "--hank", "lim", "--id", "lim"]);
    let total = "$0.8000 and 10m0s at work, all attempts together, from hank.json\n";
    says(
        &created.expect_code(0).stderr,
        &[&format!("budget: {total}"), "draft may use $0.5000\n"],
    );
    says(
        &text(&project, &["task", "show", "lim"]),
        &[
            &format!("  budget       {total}"),
            "  limit        draft may use $0.5000\n",
        ],
    );
    // Tasks with equal limits are named together.
    let line = |id: &str, hank: &str| json!({"id": id, "name": id, "hank": hank}).to_string() + "\n";
    write_hank(&project, "free", &[json!({"id": "do", "script": turn("Done")})]);
    project.write("all.jsonl", [line("a", "lim"), line("b", "lim")].concat());
    let created = project.run(["task", "create", "--from", "all.jsonl"]);
    says(
        &created.expect_code(0).stderr,
        &[
            &format!("each task: budget: {total}"),
            "each task: draft may use $0.5000\n",
        ],
    );
    let some = [
        line("c", "lim"),
        line("d", "free"),
        line("e", "lim"),
        line("f", "lim"),
        line("g", "lim"),
    ];
    project.write("some.jsonl", some.concat());
    let created = project.run(["task", "create", "--from", "some.jsonl"]);
    says(
        &created.expect_code(0).stderr,
        &[&format!("c, e, f and 1 more: budget: {total}")],
    );
    let more = ["--after", "lim", "--", "--max-cost", "3"];
    create(&project, "later", "Later", "lim", &more);
    says(
        &text(&project, &["task", "show", "later"]),
        &["  budget       $3.0000 and 10m0s at work, all attempts together, from --max-cost and hank.json\n"],
    );
    says(
        &text(&project, &["task", "list"]),
        &["    after lim (pending); budget $3.0000\n"],
    );
}

/// Two registries share a folder: what helps one task helps all, and is said once.
// covers: TASK-125
#[test]
fn advice_about_folders_of_other_registries_is_said_once() {
    let project = project();
    write_hank(&project, "quick", &[json!({"id": "do", "script": turn("Done")})]);
    let ids = ["a", "b", "c"];
    ids.iter().for_each(|id| create(&project, id, id, "quick", &[]));
    let other = format!(
        "sqlite:{}",
        project.home().join(".local/share/hankweave/other.db").display()
    );
    let there = |arguments: &[&str]| project.run([arguments, &["--registry", &other]].concat());
    let lines = ids.map(|id| json!({"id": id, "name": id, "hank": "quick"}).to_string() + "\n");
    project.write("tasks.jsonl", lines.concat());
    let refused = there(&["task", "create", "--from", "tasks.jsonl"]);
    let said = &refused.expect_code(65).stderr;
    assert_eq!(said.matches("(FOLDER_TAKEN)").count(), 3, "{said}");
    assert_eq!(said.matches("HANKWEAVE_TASKS").count(), 1, "{said}");
    let apart = project.home().join("apart").display().to_string();
    for id in ids {
        there(&[
            "task", "create", id, "--hank", "quick", "--id", id, "--tasks", &apart,
        ])
        .expect_code(0);
    }
    let left = there(&["worker", "--once", "--lease", "10m"]);
    let said = &left.expect_code(0).stderr;
    assert_eq!(said.matches("left alone: ").count(), 3, "{said}");
    assert_eq!(said.matches("where DIR is").count(), 1, "{said}");
}

/// Text after a `^C` that the terminal shows begins a line of its own.
// covers: CLI-40
#[test]
fn what_a_worker_says_after_ctrl_c_begins_a_line() {
    let project = project();
    let Some(mut terminal) = Terminal::sized(&project, 30, 80, "worker") else {
        return;
    };
    terminal.until("task files are in /");
    terminal.press("\u{3}");
    terminal.until_standing(|screen| screen.contains("0 requeued, 0 lost"));
    let screen = terminal.standing();
    let line = screen.lines().find(|line| line.contains("attempts: 0 completed"));
    assert!(
        line.is_some_and(|line| line.starts_with("attempts: 0 completed")),
        "{screen}"
    );
    terminal.close();
}

/// Ctrl+C while a worker waits for its registry leaves nothing claimed.
// covers: TASK-57, TASK-101
#[test]
fn ctrl_c_while_a_worker_starts_claims_nothing() {
    let project = project();
    write_hank(&project, "quick", &[json!({"id": "do", "script": turn("Done")})]);
    create(&project, "quick", "Quick", "quick", &[]);
    let file = project.home().join(".local/share/hankweave/registry.db");
    let registry = rusqlite::Connection::open(&file).unwrap();
    registry.execute_batch("BEGIN EXCLUSIVE").unwrap();
    let worker = project.start(["worker", "--once"]);
    let open = format!("/proc/{}/fd", worker.pid());
    let has_opened = || {
        let files = std::fs::read_dir(&open).into_iter().flatten().flatten();
        let mut links = files.filter_map(|entry| std::fs::read_link(entry.path()).ok());
        links.any(|link| link == file)
    };
    while !has_opened() {
        std::thread::yield_now();
    }
    worker.signal(Signal::INT);
    let ended = worker.finish_within(SOON);
    assert_ne!(ended.code, Some(0), "{ended}");
    registry.execute_batch("ROLLBACK").unwrap();
    let row = &shown(&project, "quick")["task"];
    assert_eq!((&row["status"], &row["version"]), (&json!("pending"), &json!(1)));
    assert_eq!(project.left_behind(), []);
    work(&project);
    assert_eq!(shown(&project, "quick")["task"]["status"], "completed");
}

/// A codon to which an undo in a completed task leads is no part of the task, also if the codon had failed before.
// covers: CLI-14, RUN-20
#[test]
fn a_failure_that_an_undo_comes_back_to_is_no_end_of_a_completed_task() {
    let project = project();
    failed_task(&project);
    let codons = ["draft", "test"].map(|id| json!({"id": id, "script": turn("Done")}));
    write_hank(&project, "two", &codons);
    let resumed = project.run(["task", "resume", "two"]);
    let printed = format!("{}{}", resumed.expect_code(0).stdout, resumed.stderr);
    says(
        &printed,
        &["its run rolls back to the last success, draft, and runs test again"],
    );
    project.run(["worker", "--once", "--plan"]).expect_code(0);
    assert_eq!(shown(&project, "two")["task"]["status"], "completed");
    let place = place(&project, "two");
    let shown_whole = text(&project, &["task", "show", "two"]);
    says(&shown_whole, &["undone or run again: 1 attempt, $"]);
    project.run(["undo", "-e", &place]).expect_code(0);
    let status = text(&project, &["status", "-e", &place]);
    lacks(&status, "nothing is left to do");
    let undone = project.run(["undo", "-e", &place]).expect_code(0).stdout.clone();
    let status = text(&project, &["status", "-e", &place]);
    // The attempt that failed was one of the task.
    let blocked =
        "the task was completed, and its files were taken back since; blocked: test failed; `hankweave run ";
    let again = "` would run it again, in a run that is no part of the task\n";
    says(&status, &[blocked, again, "  hankweave op log -e "]);
    says(&undone, &[blocked]);
    lacks(&status, "by hand");
    let restore = undone.lines().last().unwrap().split('`').nth(1).unwrap();
    let words: Vec<&str> = restore.split_whitespace().skip(1).collect();
    project.run(&words).expect_code(0);
    assert_eq!(shown(&project, "two")["task"]["status"], "completed");
}

/// A run of a user in the workspace of a completed task asks as any other; and what a deleted task has left says so.
// covers: TASK-123, CLI-30, TASK-120
#[test]
fn a_run_after_the_end_of_a_task_is_approved_where_it_asks() {
    let project = project();
    write_gate(&project);
    create(&project, "gate", "Gate", "page", &[]);
    work(&project);
    project
        .run(["task", "deny", "gate", "--by", "bob", "-r", "no"])
        .expect_code(0);
    project
        .run(["task", "resume", "gate", "-a", "ann"])
        .expect_code(0);
    let place = place(&project, "gate");
    let by_hand = text(&project, &["status", "-e", &place]);
    says(&by_hand, &[" denied by bob at ", ": no"]);
    lacks(&by_hand, "it waits for an approval");
    project.run(["task", "complete", "gate"]).expect_code(0);
    let paused = project.run(["run", "page", "-e", &place, "--headless"]);
    let printed = format!("{}{}", paused.expect_code(3).stdout, paused.stderr);
    lacks(&printed, "task approve");
    says(&printed, &["hankweave approve "]);
    project.run(["approve", "-e", &place]).expect_code(0);
    project
        .run(["run", "page", "-e", &place, "--headless"])
        .expect_code(0);
    let kept = project.home().join("kept");
    std::fs::create_dir(&kept).unwrap();
    let tasks = workspace(&project, "gate").parent().unwrap().to_owned();
    let copied = std::process::Command::new("cp")
        .arg("-a")
        .args([&tasks, &kept])
        .status();
    assert!(copied.unwrap().success());
    project.run(["task", "delete", "gate", "--force"]).expect_code(0);
    std::fs::rename(kept.join("gate"), &tasks).unwrap();
    let status = text(&project, &["status", "-e", &place]);
    says(&status, &["the task was deleted"]);
    lacks(&status, "does not answer");
}

/// A task that a user completed after its run had failed was not rolled back.
// covers: CLI-14, TASK-105
#[test]
fn a_completion_by_hand_after_a_failure_leaves_nothing_to_do() {
    let project = project();
    failed_task(&project);
    project.run(["task", "resume", "two", "-a", "ann"]).expect_code(0);
    project
        .run(["task", "complete", "two", "-m", "Finished by ann"])
        .expect_code(0);
    let place = place(&project, "two");
    let status = text(&project, &["status", "-e", &place]);
    let ended = "\nnothing is left to do: the task was completed by hand: Finished by ann\n";
    says(&status, &[ended]);
    lacks(&status, "taken back");
    let report = text(&project, &["report", "-e", &place]);
    says(&report, &["the task was completed by hand"]);
}

/// A task whose folder is not there yet is known by its registry: no run starts in its place, and what is asked of it names it.
// covers: TASK-126, CLI-40
#[test]
fn a_task_that_no_worker_has_begun_is_known_by_where_its_workspace_will_be() {
    let project = project();
    write_hank(
        &project,
        "two",
        &[json!({"id": "draft", "script": turn("Drafted")})],
    );
    create(&project, "two", "Two", "two", &[]);
    let place = place(&project, "two");
    let refused = project.run(["run", "two", "-e", &place, "--headless"]);
    assert_ne!(refused.code, Some(0), "{refused}");
    says(
        &refused.stderr,
        &[
            "this is the workspace of task Two [two]",
            "`hankweave worker` continues it",
        ],
    );
    for command in ["status", "logs", "report"] {
        let looked = project.run([command, "-e", &place]);
        says(&looked.stderr, &["task Two [two] has recorded no run in "]);
        lacks(&looked.stderr, "makes one");
    }
    let elsewhere = project.directory().join("two/workspace").display().to_string();
    let other = project.run(["status", "-e", &elsewhere]);
    says(&other.stderr, &["is no execution directory"]);
    let early = project.run(["task", "delete", "two", "--force"]);
    says(&early.stderr, &["`hankweave task cancel two` ends it"]);
    work(&project);
    assert_eq!(shown(&project, "two")["task"]["status"], "completed");
}

/// That a task has started anew is on record from its start, also where that attempt is lost as well.
// covers: TASK-127, TASK-121
#[test]
fn a_start_anew_is_known_from_its_start() {
    let project = project();
    let hold = write_slow(&project);
    create(&project, "slow", "Slow", "slow", &[]);
    let other = project.home().join("other").display().to_string();
    let lose = |arguments: &[&str]| {
        let worker = project.start(["worker", "--lease", "1h"].iter().chain(arguments));
        let shown = || {
            let words = ["task", "show", "slow", "--json"];
            let shown = project.run(words.iter().chain(arguments));
            shown.expect_code(0).json_document()["data"]["running"].clone()
        };
        while shown() != "draft" {
            std::thread::yield_now();
        }
        worker.kill();
        end_lease(&project);
        project.run(["task", "detach", "slow"]).expect_code(0);
    };
    lose(&[]);
    let there = ["--tasks", &other];
    let anew = ["task", "resume", "slow", "--anew"];
    project.run(anew.iter().chain(&there)).expect_code(0);
    // Asked for twice is asked for.
    project.run(anew.iter().chain(&there)).expect_code(0);
    lose(&there);
    let shown = text(&project, &[&["task", "show", "slow"][..], &there].concat());
    let started =
        "it started anew, after attempts whose cost is not known here, and its budget counts from there";
    assert!(
        shown
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ")
            .contains(started),
        "{shown}"
    );
    std::fs::remove_file(hold).unwrap();
    let done = project.run(["worker", "--once"].iter().chain(&there));
    done.expect_code(0);
    assert_eq!(
        project
            .run(["task", "show", "slow", "--json"].iter().chain(&there))
            .json_document()["task"]["status"],
        "completed"
    );
    // Each machine names the runs that it has not.
    let workspace = format!("{other}/slow/workspace");
    let missing = |place: &str, which: &str| {
        let report = text(&project, &["report", "-e", place]);
        says(
            &report,
            &[&format!("the runs {which} it started anew are not recorded here")],
        );
    };
    missing(&place(&project, "slow"), "since");
    missing(&workspace, "before");
    let cost = text(&project, &["cost", "-e", &workspace]);
    let total = cost.lines().find(|line| line.starts_with("total")).unwrap();
    assert!(total.contains("unknown") || total.contains('≥'), "{cost}");
}
