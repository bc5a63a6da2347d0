//! Money of tasks: one account on every screen, and budgets that hold (TASK-115, TASK-121, TASK-126).

use hankweave_testing::{Running, TestProject};
use serde_json::{Value, json};

use crate::support::project;
use crate::task_project::{create, paste, says, shown, text, turn, work, workspace, write_hank};

/// Writes a hank whose second codon works until the returned file is removed.
fn write_paid_and_slow(project: &TestProject) -> std::path::PathBuf {
    let hold = project.home().join("hold");
    std::fs::write(&hold, "").unwrap();
    let wait = format!("while [ -e '{}' ]; do sleep 0.05; done", hold.display());
    let usage = json!({"input": 100_000, "output": 10_000});
    let slow =
        json!({"turns": [{"text": "Working", "tools": [{"bash": {"command": wait}}], "usage": usage}]});
    let codons = [
        json!({"id": "draft", "script": turn("Drafted")}),
        json!({"id": "slow", "script": slow}),
    ];
    write_hank(project, "paid", &codons);
    hold
}

/// Ends the lease on a task, as time does.
fn end_lease(project: &TestProject) {
    let file = project.home().join(".local/share/hankweave/registry.db");
    let registry = rusqlite::Connection::open(file).unwrap();
    registry.execute_batch("UPDATE locks SET expires_at = 0").unwrap();
}

/// Starts a worker, and waits until its second codon has spent something.
fn start_paid(project: &TestProject) -> Running {
    let worker = project.start(["worker", "--lease", "1h", "--owner", "w1"]);
    while shown(project, "paid")["data"]["running"] != "slow" || spend(project) <= 0.5 {
        std::thread::yield_now();
    }
    worker
}

/// Money in the record of the runs.
fn spend(project: &TestProject) -> f64 {
    let place = workspace(project, "paid").display().to_string();
    let status = project.run(["status", "-e", &place, "--json"]).json_document();
    status["totalSpend"].as_f64().unwrap()
}

fn account(project: &TestProject) -> [Value; 2] {
    let stats = project.run(["task", "stats", "--json"]).json_document();
    let metrics = project.run(["task", "metrics", "--json"]).json_document();
    [
        stats["cost"].clone(),
        metrics["metrics"]["tasks_cost_usd"].clone(),
    ]
}

// covers: TASK-121
#[test]
fn a_running_and_a_lost_attempt_cost_the_same_on_every_screen() {
    let project = project();
    let hold = write_paid_and_slow(&project);
    create(&project, "paid", "Paid", "paid", &[]);
    let worker = start_paid(&project);
    let cost = spend(&project);
    let (table, words) = (format!("≥ ${cost:.4}"), format!("at least ${cost:.4}"));
    let same_everywhere = || {
        assert_eq!(account(&project), [json!(cost), json!(cost)]);
        says(&text(&project, &["task", "list"]), &[&table]);
        let show = text(&project, &["task", "show", "paid"]);
        says(
            &show,
            &[
                &table,
                &format!("cost         {words}"),
                "in all       1 of 2 codons",
            ],
        );
        let stats = project.run(["task", "stats", "--json"]).json_document();
        assert_eq!(stats["costIsLowerBound"], true);
    };
    same_everywhere();
    let attempts = text(&project, &["task", "show", "paid", "--attempts"]);
    says(&attempts, &[&table]);
    worker.kill();
    same_everywhere();
    end_lease(&project);
    same_everywhere();
    project.run(["task", "detach", "paid"]).expect_code(0);
    same_everywhere();
    std::fs::remove_file(&hold).unwrap();
    work(&project);
    // Each attempt has what it has cost itself.
    let attempts = project
        .run(["task", "show", "paid", "--attempts", "--json"])
        .json_document();
    let attempts = attempts["executions"].as_array().unwrap().iter();
    let costs: Vec<f64> = attempts.map(|one| one["cost"].as_f64().unwrap()).collect();
    assert_eq!((costs.len(), costs[0]), (2, cost));
    let sum = shown(&project, "paid")["task"]["cost"].as_f64().unwrap();
    assert!((sum - costs[0] - costs[1]).abs() < 1e-6, "{sum} {costs:?}");
}

/// Money that only the record of the runs knows belongs to the attempt that spent it.
// covers: TASK-121
#[test]
fn money_of_a_lost_attempt_is_its_own_before_the_next_one_ends() {
    let project = project();
    let _hold = write_paid_and_slow(&project);
    create(&project, "paid", "Paid", "paid", &[]);
    start_paid(&project).kill();
    let cost = spend(&project);
    end_lease(&project);
    // Another folder is named, and the files are found where they are.
    let other = project.home().join("other");
    let detach = ["task", "detach", "paid", "--tasks", other.to_str().unwrap()];
    project.run(detach).expect_code(0);
    let row = shown(&project, "paid")["task"].clone();
    assert_eq!(
        (&row["cost"], &row["lastAttemptCost"], &row["costIsLowerBound"]),
        (&json!(cost), &json!(cost), &json!(true))
    );
    assert_eq!(account(&project), [json!(cost), json!(cost)]);
}

fn failed_task(project: &TestProject, more: &[&str]) {
    let red = json!({"turns": [{"text": "red"}], "exitCode": 3});
    let codons = [
        json!({"id": "draft", "script": turn("Drafted")}),
        json!({"id": "test", "script": red}),
    ];
    write_hank(project, "two", &codons);
    create(project, "two", "Two", "two", more);
    work(project);
}

// covers: TASK-115
#[test]
fn a_new_budget_below_what_is_spent_is_refused_and_one_above_it_is_shown() {
    let project = project();
    failed_task(&project, &[]);
    let refused = project.run(["task", "resume", "two", "--max-cost", "0.10"]);
    says(
        &refused.expect_code(65).stderr,
        &[
            "BUDGET_SPENT",
            "has used $0.4500 of its total budget of $0.1000",
            "hankweave task resume two --max-cost 0.55",
        ],
    );
    assert_eq!(shown(&project, "two")["task"]["status"], "failed");
    paste(&project, "hankweave task resume two --max-cost 5");
    says(&text(&project, &["task", "list"]), &["budget $5.0000"]);
    says(
        &text(&project, &["task", "show", "two"]),
        &["budget       $5.0000, all attempts together"],
    );
    let worked = project.run(["worker", "--once"]).expect_code(0).stdout.clone();
    says(&worked, &["budget $5.0000"]);
}

/// While the task waits for a worker, its cost is compared with its new budget.
// covers: TASK-115, TASK-121
#[test]
fn a_raised_budget_counts_before_a_worker_has_started() {
    let project = project();
    failed_task(&project, &["--", "--max-cost", "0.4"]);
    let over = "over its budget by $0.0500";
    says(&text(&project, &["task", "show", "two"]), &[over]);
    project
        .run(["task", "resume", "two", "--max-cost", "5"])
        .expect_code(0);
    let shown = text(&project, &["task", "show", "two"]);
    says(&shown, &["cost         $0.4500\n", " $0.4500 of $5.0000, "]);
    assert!(!shown.contains("over its budget"), "{shown}");
}

// covers: TASK-115, AGENT-24
#[test]
fn a_new_budget_in_dollars_that_nobody_can_count_is_refused() {
    let project = project();
    let codon = json!({"id": "draft", "name": "Draft", "agent": {"acp": ["false"]}, "continuationMode": "fresh", "promptText": "go", "check": {"run": "true"}});
    project.write_hank(&json!({"hank": [codon]}));
    project
        .run(["task", "create", "Draft", "--hank", ".", "--id", "draft"])
        .expect_code(0);
    project.run(["task", "cancel", "draft"]).expect_code(0);
    let refused = project.run(["task", "resume", "draft", "--max-cost", "5"]);
    says(
        &refused.expect_code(65).stderr,
        &["the limit of the run in dollars cannot be held: agent `acp` does not tell what it uses"],
    );
    assert_eq!(shown(&project, "draft")["task"]["status"], "cancelled");
    project
        .run(["task", "resume", "draft", "--max-time", "60"])
        .expect_code(0);
}

// covers: TASK-126
#[test]
fn a_run_by_hand_does_not_spend_beyond_the_budget_of_a_task() {
    let project = project();
    failed_task(&project, &["--", "--max-cost", "5"]);
    let (place, hank) = (
        workspace(&project, "two").display().to_string(),
        project.directory().join("two").display().to_string(),
    );
    let refused = |code: i32, hint: &str| {
        let run = project.run(["run", &hank, "-e", &place, "--headless"]);
        says(
            &run.expect_code(code).stderr,
            &["`run` does not work for a task", hint],
        );
    };
    refused(1, "`hankweave task resume two` lets a worker continue it");
    project.run(["task", "resume", "two"]).expect_code(0);
    refused(1, "`hankweave worker` continues it");
    project.run(["task", "resume", "two", "-a", "ann"]).expect_code(0);
    refused(
        75,
        "ann works on it by hand, `hankweave task complete two` completes it",
    );
    project
        .run(["task", "complete", "two", "-m", "by hand"])
        .expect_code(0);
    assert_eq!(shown(&project, "two")["task"]["cost"], 0.45);
}

/// A task whose record is full fails again at once; the commands that show or resume it name what makes room.
// covers: TASK-115, RUN-40
#[test]
fn a_task_that_paused_at_the_limit_of_its_record_names_what_makes_room() {
    let project = project();
    // 100 MiB; the file takes no room on the disk.
    failed_task(&project, &["--", "--max-disk", "0.09765625"]);
    let ballast = workspace(&project, "two").join(".hankweave/ballast");
    let file = std::fs::File::create(&ballast).unwrap();
    file.set_len(101 << 20).unwrap();
    project.run(["task", "resume", "two"]).expect_code(0);
    work(&project);
    let cleanup = [
        "first `hankweave cleanup --keep 1 -e ",
        "/two/workspace`, or a larger maxDiskGb in its hank",
    ];
    for command in [&["task", "show", "two"][..], &["task", "list"]] {
        says(&text(&project, command), &cleanup);
    }
    let resumed = project.run(["task", "resume", "two"]);
    says(&resumed.expect_code(0).stderr, &cleanup);
    work(&project);
    std::fs::remove_file(&ballast).unwrap();
    let show = text(&project, &["task", "show", "two"]);
    assert!(!show.contains("larger maxDiskGb"), "{show}");
}

/// Hints about a task name what applies to its status.
// covers: TASK-105, TASK-123
#[test]
fn a_refused_step_names_what_applies() {
    let project = project();
    crate::task_project::write_gate(&project);
    create(&project, "page", "Page", "page", &[]);
    work(&project);
    project.run(["task", "deny", "page"]).expect_code(0);
    let approved = project.run(["task", "approve", "page"]);
    says(
        &approved.expect_code(65).stderr,
        &[
            "it does not wait for an approval; `hankweave task resume page` lets a worker continue it, up to its next approval",
        ],
    );
    let hold = write_paid_and_slow(&project);
    create(&project, "paid", "Paid", "paid", &[]);
    let mut worker = project.start(["worker", "--json", "--lease", "1h", "--owner", "w4"]);
    worker.wait_for_line(|line| line.contains("\"status\":\"running\""));
    for (code, more) in [(75, &[][..]), (65, &["--max-cost", "5"])] {
        let resumed = project.run([&["task", "resume", "paid"][..], more].concat());
        says(
            &resumed.expect_code(code).stderr,
            &[
                "unless w4 renews it: then `hankweave task detach paid` requeues the task; `hankweave task cancel paid`",
            ],
        );
    }
    let held = project.run(["task", "detach", "paid"]);
    says(
        &held.expect_code(75).stderr,
        &["`task:paid` is held by w4 (RESOURCE_LOCKED)"],
    );
    drop(hold);
    worker.kill();
    end_lease(&project);
    let health = text(&project, &["task", "health"]);
    says(&health, &["running: 1 (1 without a worker), locks held: 0\n"]);
    project
        .run(["task", "complete", "paid", "-m", "Finished by hand"])
        .expect_code(0);
    for command in [&["task", "show", "paid"][..], &["task", "list"]] {
        says(&text(&project, command), &["Finished by hand"]);
    }
}

/// Tasks of a file run in its order, whatever they are called.
// covers: TASK-124, TASK-25
#[test]
fn tasks_of_a_file_run_in_its_order() {
    let project = project();
    write_hank(
        &project,
        "quick",
        &[json!({"id": "do", "script": {"turns": [{"text": "Done"}]}})],
    );
    let ids = ["zebra", "mole", "ant", "yak", "bee"];
    let lines = ids.map(|id| json!({"id": id, "name": id, "hank": "quick"}).to_string() + "\n");
    project.write("tasks.jsonl", lines.concat());
    project
        .run(["task", "create", "--from", "tasks.jsonl"])
        .expect_code(0);
    let worked = project.run(["worker", "--once", "--json"]);
    let rows = worked.expect_code(0).json_lines();
    let started = rows.iter().filter(|row| row["status"] == "running");
    let started: Vec<_> = started.map(|row| row["id"].as_str().unwrap()).collect();
    assert_eq!(started, ids);
}
