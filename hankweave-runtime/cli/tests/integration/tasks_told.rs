//! Status, report, list and show of one task: all agree, with the reason and the command that helps.

use hankweave_testing::TestProject;
use hankweave_testing::postgres::Database;
use serde_json::{Value, json};

use crate::support::project;
use crate::task_project::{
    create, says, shown, text, turn, work, workspace, write_gate, write_hank, write_slow,
};
use crate::terminal::Terminal;

fn place(project: &TestProject, id: &str) -> String {
    workspace(project, id).display().to_string()
}

/// A question that no run waits for any more is not asked.
// covers: TASK-123
#[test]
fn a_task_that_is_cancelled_while_it_asks_waits_for_no_approval() {
    let project = &project();
    write_gate(project);
    create(project, "page-4", "Publish the page", "page", &[]);
    work(project);
    project.run(["task", "cancel", "page-4"]).expect_code(0);
    let status = text(project, &["status", "-e", &place(project, "page-4")]);
    says(
        &status,
        &[": paused (approval needed), ", "the task was cancelled by "],
    );
    assert!(!status.contains("waits for an approval"), "{status}");
}

/// Denies a task, and looks at its workspace; then approves it, and looks again.
fn the_workspace_knows_the_answer(project: &TestProject) {
    write_gate(project);
    create(project, "page-3", "Publish the page", "page", &[]);
    work(project);
    let place = place(project, "page-3");
    let by = ["--by", "ann", "--reason", "not on a Friday"];
    project
        .run([&["task", "deny", "page-3"][..], &by].concat())
        .expect_code(0);
    let status = text(project, &["status", "-e", &place]);
    says(
        &status,
        &[
            ": paused (approval denied), ",
            "  publish: denied by ann at ",
            ": not on a Friday\n",
            "publish was denied, so the task failed; once it is resumed, publish asks again\n",
            "hankweave task resume page-3 ",
        ],
    );
    assert!(
        !status.contains("approval needed")
            && !status.contains("task approve")
            && !status.contains("the task failed:"),
        "{status}"
    );
    let json = project.run(["status", "-e", &place, "--json"]).json_document();
    assert_eq!(json["approval"]["denied"], true, "{json:#}");
    assert_eq!(json["approval"]["answer"]["by"], "ann");
    assert_eq!(json["task"]["status"], "failed");
    for report in [
        text(project, &["report", &place]),
        text(project, &["task", "show", "page-3", "--report"]),
    ] {
        says(
            &report,
            &[
                "paused (approval denied)",
                "publish: denied by ann at ",
                "not on a Friday",
            ],
        );
    }
    // Resumed it asks again, and the answer of before is one of before.
    project.run(["task", "resume", "page-3"]).expect_code(0);
    work(project);
    let show = text(project, &["task", "show", "page-3"]);
    says(&show, &["  earlier      publish denied by ann: not on a Friday"]);
    assert!(!show.contains("answered"), "{show}");
    says(&text(project, &["status", "-e", &place]), &["approval needed"]);
    project
        .run(["task", "approve", "page-3", "--by", "bob"])
        .expect_code(0);
    says(
        &text(project, &["status", "-e", &place]),
        &[
            ": paused (approved since then), ",
            "  publish: approved by bob at ",
            "publish was approved; a worker starts it\n",
        ],
    );
    // The report has it at the time of the answer, not at that of the worker which began with it.
    let given = project.run(["task", "show", "page-3", "--json"]).json_document();
    let given = given["task"]["metadata"]["approval"]["at"].clone();
    work(project);
    let report = project.run(["report", "-e", &place, "--json"]).json_document();
    let occasions = report["occasions"].as_array().unwrap().iter();
    let at: Vec<&Value> = occasions
        .filter(|occasion| occasion["what"].as_str().unwrap().contains("approved by bob"))
        .map(|occasion| &occasion["at"])
        .collect();
    assert!(given.is_string() && at == [&given], "{given} {at:?}");
}

// covers: TASK-123, CLI-14, CLI-44
#[test]
fn the_workspace_of_a_denied_task_says_who_denied_it_and_why() {
    the_workspace_knows_the_answer(&project());
}

// covers: TASK-123, CLI-14
#[test]
fn the_workspace_of_a_denied_task_says_so_over_postgresql() {
    let database = match Database::create() {
        Ok(database) => database,
        Err(skip) => return println!("skipped: {skip}"),
    };
    let mut project = project();
    project.set("HANKWEAVE_REGISTRY", database.url());
    the_workspace_knows_the_answer(&project);
}

/// A task whose budget is spent: one word for its codon, one command that continues it, and no attempt that fails at once.
// covers: TASK-115, TASK-122, TASK-12, TASK-54
#[test]
fn a_spent_budget_has_one_word_and_one_command_everywhere() {
    let project = project();
    let ids = ["c0", "c1", "c2", "c3"];
    let codons: Vec<Value> = ids
        .iter()
        .map(|id| json!({"id": id, "script": turn("Done")}))
        .collect();
    write_hank(&project, "dear", &codons);
    create(&project, "dear", "Dear", "dear", &["--", "--max-cost", "0.55"]);
    work(&project);
    let row = shown(&project, "dear");
    let needed = &row["task"]["failure"]["needed"];
    let most = needed["maxDollars"].as_f64().unwrap();
    let used = needed["usedDollars"].as_f64().unwrap();
    // As much again as before, of what is shown.
    assert!((most - used - 0.55).abs() < 0.011, "{needed}");
    let command = format!("hankweave task resume dear --max-cost {most:.2}");
    let place = place(&project, "dear");
    let (show, status) = (
        text(&project, &["task", "show", "dear"]),
        text(&project, &["status", "-e", &place]),
    );
    for said in [&show, &status] {
        says(
            said,
            &[
                &command,
                "--max-cost is the total, not what is added: ",
                " counts, so ",
            ],
        );
    }
    // An amount that is a lower bound is shown as one everywhere, and the codon that the budget interrupted is paused.
    let amount = match needed["usedIsLowerBound"] == true {
        true => format!("at least ${used:.4}"),
        false => format!("${used:.4}"),
    };
    let error = row["task"]["error"].as_str().unwrap();
    let cause = format!("used {amount} of $0.5500");
    for said in [error, &show, &status, &text(&project, &["report", &place])] {
        says(said, &[&cause]);
    }
    if status.contains("  c1  paused") {
        says(&show, &["codon        c1 paused, at least "]);
        says(&text(&project, &["task", "log", "dear"]), &["Codon c1 paused"]);
        assert!(!show.contains("c1 failed"), "{show}");
    }
    // Without a larger budget nothing changes, and the command is named.
    for more in [&[][..], &["--max-cost", "0.50"]] {
        let resumed = project.run([&["task", "resume", "dear"][..], more].concat());
        let said = &resumed.expect_code(65).stderr;
        says(said, &["(BUDGET_SPENT)", "would fail again at once", &command]);
    }
    assert_eq!(shown(&project, "dear")["task"]["version"], row["task"]["version"]);
    let words: Vec<&str> = command.split(' ').skip(1).collect();
    project.run(words).expect_code(0);
    assert_eq!(shown(&project, "dear")["task"]["status"], "pending");
    work(&project);
    // The codons that are listed are those of all its attempts.
    let show = text(&project, &["task", "show", "dear"]);
    says(
        &show,
        &["  codon        c0 completed, ", "  codon        c1 completed, "],
    );
}

/// A hank that allows more by now needs no option.
// covers: TASK-115
#[test]
fn a_budget_that_was_raised_in_the_hank_lets_a_task_continue() {
    let project = project();
    write_hank(
        &project,
        "dear",
        &[
            json!({"id": "one", "script": turn("Done")}),
            json!({"id": "two", "script": turn("Done")}),
        ],
    );
    let path = project.directory().join("dear/hank.json");
    let hank: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    let limited = |most: f64| {
        let mut hank = hank.clone();
        hank["overrides"] = json!({"budget": {"maxDollars": most}});
        std::fs::write(&path, hank.to_string()).unwrap();
    };
    limited(0.3);
    create(&project, "dear", "Dear", "dear", &[]);
    work(&project);
    assert_eq!(shown(&project, "dear")["task"]["status"], "failed");
    let refused = project.run(["task", "resume", "dear"]);
    says(&refused.expect_code(65).stderr, &["BUDGET_SPENT"]);
    limited(5.0);
    project.run(["task", "resume", "dear"]).expect_code(0);
    work(&project);
    assert_eq!(shown(&project, "dear")["task"]["status"], "completed");
}

/// The worker of a task was killed: its workspace, list and show agree, before its lease ends and after that.
// covers: TASK-52, TASK-24, CLI-14
#[test]
fn a_killed_worker_is_told_before_its_lease_ends() {
    let project = project();
    let hold = write_slow(&project);
    create(&project, "slow", "Slow", "slow", &[]);
    let mut worker = project.start(["worker", "--lease", "10m", "--owner", "w1"]);
    worker.wait_for_line(|line| line.contains("running"));
    let place = place(&project, "slow");
    while shown(&project, "slow")["data"]["running"] != "draft" {
        std::thread::yield_now();
    }
    assert_eq!(shown(&project, "slow")["task"]["leaseMs"], 600_000);
    // The cost of the running codon is unknown.
    let counted = text(&project, &["task", "list", "--count"]);
    says(
        &counted,
        &[
            "1 task, cost unknown",
            "  running         1      unknown\n",
            "  failed          0            -\n",
        ],
    );
    says(&text(&project, &["task", "list"]), &["unknown  Slow"]);
    // A refusal says when the lease ends, and what to type.
    for early in ["detach", "complete"] {
        let refused = project.run(["task", early, "slow"]);
        says(
            &refused.expect_code(75).stderr,
            &[
                "(RESOURCE_LOCKED)\n  hint: its lease ends in ",
                " unless w1 renews it: then `hankweave task detach slow` requeues the task; `hankweave task cancel slow` asks w1 to stop it",
            ],
        );
    }
    worker.kill();
    let crashed = "its run has crashed; the lease of its worker w1 ends in ";
    while !text(&project, &["status", "-e", &place]).contains("crashed") {
        std::thread::yield_now();
    }
    let status = text(&project, &["status", "-e", &place]);
    says(
        &status,
        &[
            ": crashed, started ",
            &format!("  the task is running: {crashed}"),
        ],
    );
    says(&text(&project, &["task", "list"]), &[crashed]);
    let show = text(&project, &["task", "show", "slow"]);
    says(
        &show,
        &[
            crashed,
            "then `hankweave task detach slow` requeues the task; no worker is there to do so: `hankweave worker` starts one, which does so in ",
        ],
    );
    let refused = project.run(["task", "detach", "slow"]);
    says(
        &refused.expect_code(75).stderr,
        &[crashed, "then `hankweave task detach slow` requeues the task"],
    );
    project.run(["lock", "free", "lifecycle:w1"]).expect_code(0);
    let status = text(&project, &["status", "-e", &place]);
    says(
        &status,
        &[
            "the task is running: no worker holds it",
            "hankweave task detach slow ",
            "requeues it now",
        ],
    );
    says(
        &text(&project, &["task", "list"]),
        &[
            "no worker holds it",
            "`hankweave task detach slow` requeues it now",
        ],
    );
    let show = text(&project, &["task", "show", "slow"]);
    says(
        &show,
        &["none holds it; `hankweave task detach slow` requeues it now; "],
    );
    let left = project.run(["worker", "--once"]);
    says(
        &left.expect_code(0).stderr,
        &["  1 running, but no worker holds it: `hankweave task list --status running`"],
    );
    std::fs::remove_file(&hold).unwrap();
}

/// A run that was refused before it recorded anything: the cause, and the task, are where one looks.
// covers: TASK-122, CLI-44
#[test]
fn a_refused_hank_is_told_in_the_list_and_in_the_workspace() {
    let project = project();
    write_hank(&project, "good", &[json!({"id": "one", "script": turn("Done")})]);
    create(&project, "good", "Good", "good", &[]);
    let codons: Vec<Value> = (0..12)
        .map(|number| json!({"id": format!("c{number}")}))
        .collect();
    project.write("good/hank.json", json!({"hank": codons}).to_string());
    work(&project);
    let cause = "the hank cannot be used: hank.json:1:";
    says(&text(&project, &["task", "list"]), &[cause, "is missing"]);
    says(
        &text(&project, &["task", "show", "good"]),
        &["the hank cannot be used: hank.json"],
    );
    let place = place(&project, "good");
    for command in [&["status"][..], &["report"], &["logs", "one"], &["journal"]] {
        let said = project.run([command, &["-e", &place]].concat());
        says(
            &said.expect_code(65).stderr,
            &[
                "task Good [good] has failed and recorded no run: ",
                cause,
                "`hankweave task show good`",
            ],
        );
    }
    let report = project.run(["task", "show", "good", "--report"]);
    says(
        &report.expect_code(65).stderr,
        &["no run of good is recorded", "\"Good\" is failed: ", cause],
    );
}

/// The command at the end of a rehearsal in the workspace of a task can be typed: `run` is refused there.
// covers: CLI-74, TASK-126
#[test]
fn a_rehearsal_for_a_task_names_the_command_that_continues_the_task() {
    let project = project();
    let agent = json!({"command": ["no-such-program"], "stream": "claude"});
    let codon = json!({"id": "one", "name": "One", "agent": agent, "model": "shell", "continuationMode": "fresh", "promptText": "go"});
    project.write_hank(&json!({"hank": [codon]}));
    project
        .run(["task", "create", "One", "--hank", ".", "--id", "one"])
        .expect_code(0);
    work(&project);
    let show = text(&project, &["task", "show", "one"]);
    let hint = show.split('`').find(|hint| hint.ends_with("--rehearse")).unwrap();
    let words = hint.split_whitespace().skip(1).chain(["--headless"]);
    let rehearsed = project.run(words).expect_code(0).stderr.clone();
    says(&rehearsed, &["  run it       hankweave task resume one\n"]);
    project.run(["task", "resume", "one"]).expect_code(0);
}

/// A task that waits in vain says for which one, through those between, and what to type.
// covers: TASK-124
#[test]
fn a_task_after_a_failed_one_is_blocked_and_names_the_command() {
    let project = project();
    let failing = json!({"turns": [{"text": "red"}], "exitCode": 3});
    write_hank(&project, "red", &[json!({"id": "test", "script": failing})]);
    write_hank(&project, "quick", &[json!({"id": "do", "script": turn("Done")})]);
    create(&project, "red", "Red", "red", &[]);
    create(&project, "next", "Next", "quick", &["--after", "red"]);
    create(&project, "last", "Last", "quick", &["--after", "next"]);
    create(&project, "rust", "Rust", "red", &[]);
    let after = ["--after", "last", "--after", "rust"];
    create(&project, "both", "Both", "quick", &after);
    says(&text(&project, &["task", "list"]), &["    after red (pending)\n"]);
    work(&project);
    let next = "blocked: waits for red, which failed; `hankweave task resume red`";
    let last = "blocked: waits for next, which waits for red, which failed; `hankweave task resume red`";
    says(&text(&project, &["task", "list"]), &[next, last]);
    let both = "blocked: waits for rust, which failed, and for last, which waits for next, which waits for red, which failed; \
        `hankweave task resume rust` and `hankweave task resume red`";
    says(&text(&project, &["task", "show", "both"]), &[both]);
    says(
        &text(&project, &["task", "show", "next"]),
        &["  after        red (failed)\n", next],
    );
    says(
        &text(&project, &["task", "show", "last"]),
        &["  after        next (pending)\n", last],
    );
    assert_eq!(shown(&project, "next")["task"]["status"], "pending");
    project.run(["task", "resume", "red"]).expect_code(0);
    project.run(["task", "cancel", "red"]).expect_code(0);
    let list = project.run(["task", "list"]);
    says(
        &list.expect_code(0).stdout,
        &["waits for red, which was cancelled; "],
    );
    says(
        &list.stderr,
        &["failed, cancelled: `hankweave task show ID` says more, "],
    );
}

// covers: TASK-124, CLI-40
#[test]
fn mistakes_in_a_list_of_tasks_are_short_and_whole() {
    let project = project();
    write_hank(&project, "quick", &[json!({"id": "do", "script": turn("Done")})]);
    let lines = |ids: &[&str]| -> String {
        ids.iter()
            .map(|id| format!("{{\"id\": \"{id}\", \"name\": \"{id}\", \"hank\": \"quick\"}}\n"))
            .collect()
    };
    project.write(
        "typo.jsonl",
        "{\"nmae\": \"x\", \"hank\": \"quick\"}\n{\"name\": \"x\"}\n",
    );
    let typo = project.run(["task", "create", "--from", "typo.jsonl"]);
    let said = &typo.expect_code(65).stderr;
    says(
        said,
        &[
            "error: no task was created: 2 of 2 lines of `typo.jsonl` cannot be used (TASK_BULK_INSERT_FAILED)\n",
            "  typo.jsonl:1: `nmae` is no key of a task; did you mean `name`?\n",
            "  typo.jsonl:2: `hank` is missing",
        ],
    );
    project.write("odd.jsonl", "{\"zzz\": 1}\n");
    let odd = project.run(["task", "create", "--from", "odd.jsonl"]);
    let said = &odd.expect_code(65).stderr;
    says(
        said,
        &["`zzz` is no key of a task; `task create --help` lists the keys"],
    );
    assert!(said.lines().all(|line| line.chars().count() < 120), "{said}");
    // An unknown key hides no other mistake.
    project.write(
        "odd.jsonl",
        "{\"nmae\": \"x\", \"zzz\": 1, \"priority\": \"high\", \"hank\": \"quick\"}\n",
    );
    let odd = project.run(["task", "create", "--from", "odd.jsonl"]);
    says(
        &odd.expect_code(65).stderr,
        &[
            "`nmae` is no key of a task; did you mean `name`?",
            "`zzz` is no key of a task; ",
            "`priority`: ",
        ],
    );
    project.write("tasks.jsonl", lines(&["a", "b", "c"]));
    let create = || project.run(["task", "create", "--from", "tasks.jsonl"]);
    create().expect_code(0);
    says(
        &create().expect_code(65).stderr,
        &[
            "all 3 ids are in use or were: `a`, `b`, `c`",
            "TASK_BULK_INSERT_FAILED",
        ],
    );
    project.write("tasks.jsonl", lines(&["a", "new"]));
    says(
        &create().expect_code(65).stderr,
        &["tasks.jsonl:1: `a` is the id of a task in the registry"],
    );
}

/// All lines that cannot be used are named at once, and none of those that can is created.
// covers: TASK-124
#[test]
fn every_bad_line_of_a_list_is_named_with_its_place() {
    let project = project();
    write_hank(&project, "quick", &[json!({"id": "do", "script": turn("Done")})]);
    project.write("broken/hank.json", "{\"hank\": [{\"id\": \"one\"}]}");
    let lines = [
        json!({"id": "good", "name": "good", "hank": "quick"}),
        json!({"id": "bad", "name": "bad", "hank": "broken"}),
        json!({"id": "next", "name": "next", "hank": "quick", "after": ["bad", "good"]}),
        json!({"id": "lost", "name": "lost", "hank": "quick", "after": ["gone"]}),
        json!({"id": "worse", "name": "worse", "hank": "broken"}),
        json!({"id": "good", "name": "again", "hank": "quick"}),
        json!({"id": "up", "name": "up", "hank": "quick", "after": ["down"]}),
        json!({"id": "down", "name": "down", "hank": "quick", "after": ["up"]}),
        json!({"id": "odd", "name": "odd", "hank": "quick", "priority": "high", "owner": 5}),
    ];
    let file: String = lines.iter().map(|line| format!("{line}\n\n")).collect();
    project.write("tasks.jsonl", file);
    let refused = project.run(["task", "create", "--from", "tasks.jsonl"]);
    let said = &refused.expect_code(65).stderr;
    says(
        said,
        &[
            "no task was created: 6 of 9 lines of `tasks.jsonl` cannot be used",
            "\n  tasks.jsonl:3: the hank cannot be used\n    ",
            "\n  tasks.jsonl:7: `after` names `gone`, which is neither in this file nor in the registry\n",
            "\n  tasks.jsonl:9: like line 3\n",
            "\n  tasks.jsonl:11: `good` is the id of line 1\n",
            "\n  tasks.jsonl:13: `after` leads back to the task: `up` after `down` after `up`\n",
            "\n  tasks.jsonl:17: `priority`: must be a whole number, not the text \"high\"; `owner`: must be a text, not 5\n",
        ],
    );
    assert!(!said.contains("jsonl:5:"), "{said}");
    let none = project.run(["task", "list", "--json"]).json_document();
    assert_eq!(none["tasks"], json!([]));
}

// covers: CLI-14, CLI-40
#[test]
fn a_name_that_begins_with_task_is_not_told_twice() {
    let project = project();
    write_gate(&project);
    create(&project, "pub2", "Task pub2", "page", &[]);
    create(&project, "pub3", "pub3", "page", &[]);
    work(&project);
    let status = text(&project, &["status", "-e", &place(&project, "pub2")]);
    assert!(
        status.starts_with("Task pub2 [pub2]: `hankweave task show pub2` shows it\n"),
        "{status}"
    );
    let status = text(&project, &["status", "-e", &place(&project, "pub3")]);
    assert!(
        status.starts_with("task pub3: `hankweave task show pub3` shows it\n"),
        "{status}"
    );
}

/// Messages go to a terminal also where the lines of tasks go into a pipe.
// covers: CLI-40
#[test]
fn the_hints_of_a_worker_break_between_words() {
    let project = project();
    let failing = json!({"turns": [{"text": "red"}], "exitCode": 3});
    write_hank(&project, "red", &[json!({"id": "test", "script": failing})]);
    create(&project, "red", "Red", "red", &[]);
    let program = env!("CARGO_BIN_EXE_hankweave");
    let registry = format!(
        "sqlite:{}",
        project
            .home()
            .join(".local/share/hankweave/registry.db")
            .display()
    );
    let line =
        format!("stty rows 40 columns 60; '{program}' worker --once --registry {registry} | cat; echo done");
    let Some(mut terminal) = Terminal::of_size(&project, &line, (40, 60)) else {
        return;
    };
    // The command is longer than a line, so that it has one of its own.
    terminal.until_standing(|screen| {
        screen.contains("started;\ntask files are in /")
            && screen.contains("  1 failed:\n    `hankweave task list --status failed")
            && screen.contains("done")
    });
    terminal.close();
}

/// Two registries share the default folder of tasks, and each has a task of this id.
fn one_folder_serves_one_registry(project: &TestProject, other: &str) {
    let there = |arguments: &[&str]| project.run([arguments, &["--registry", other]].concat());
    write_hank(project, "quick", &[json!({"id": "do", "script": turn("Done")})]);
    create(project, "report", "Ours", "quick", &[]);
    let folder = workspace(project, "report").parent().unwrap().to_owned();
    // Where a task of this id has files, no other registry creates one.
    let taken = format!(
        "`{}` has the files of another registry's task `report`",
        folder.display()
    );
    let made = ["task", "create", "Theirs", "--hank", "quick", "--id", "report"];
    let refused = there(&made);
    says(
        &refused.expect_code(65).stderr,
        &[&taken, "(FOLDER_TAKEN)", "--tasks DIR"],
    );
    project.write(
        "tasks.jsonl",
        json!({"id": "report", "name": "Theirs", "hank": "quick"}).to_string(),
    );
    let refused = there(&["task", "create", "--from", "tasks.jsonl"]);
    says(
        &refused.expect_code(65).stderr,
        &["  tasks.jsonl:1: ", &taken, "(FOLDER_TAKEN)"],
    );
    // One that was created with another folder, as on another machine, is refused by a worker that uses this one, and the files stay.
    let apart = project.home().join("apart").display().to_string();
    there(&[&made[..], &["--tasks", &apart]].concat()).expect_code(0);
    let before = std::fs::read(folder.join("logs.jsonl")).unwrap();
    let left = there(&["worker", "--once", "--lease", "10m"]);
    says(
        &left.expect_code(0).stderr,
        &[
            &format!("left alone: {taken}; `hankweave worker --registry "),
            "--tasks DIR` takes the task",
        ],
    );
    let shown = there(&["task", "show", "report"]).expect_code(0).stdout.clone();
    says(
        &shown,
        &[
            "report              pending ",
            &taken,
            "  files        ",
            "--tasks DIR",
        ],
    );
    says(
        &there(&["task", "log", "report"]).expect_code(65).stderr,
        &[&taken, "hint: "],
    );
    there(&["task", "cancel", "report"]).expect_code(0);
    let deleted = there(&["task", "delete", "report", "--force"]);
    says(
        &deleted.expect_code(0).stdout,
        &["report is deleted; the files in "],
    );
    assert_eq!(std::fs::read(folder.join("logs.jsonl")).unwrap(), before);
    work(project);
    assert_eq!(self::shown(project, "report")["task"]["status"], "completed");
    let with_folder = there(&["task", "list", "--tasks", &apart]);
    says(&with_folder.expect_code(0).stdout, &["no task yet"]);
}

// covers: TASK-125
#[test]
fn two_registries_do_not_mix_the_files_of_their_tasks() {
    let project = project();
    let other = format!(
        "sqlite:{}",
        project.home().join(".local/share/hankweave/other.db").display()
    );
    one_folder_serves_one_registry(&project, &other);
}

// covers: TASK-125
#[test]
fn a_registry_in_postgresql_does_not_mix_its_files_with_those_of_another() {
    match Database::create() {
        Ok(database) => one_folder_serves_one_registry(&project(), database.url()),
        Err(skip) => println!("skipped: {skip}"),
    }
}

/// Files of a task that is not over are changed by its commands alone.
// covers: TASK-126
#[test]
fn a_command_by_hand_does_not_change_the_files_of_a_task_that_is_not_over() {
    let project = project();
    write_gate(&project);
    create(&project, "page-3", "Publish the page", "page", &[]);
    work(&project);
    let place = place(&project, "page-3");
    let refused = |is: &str, code: i32| {
        for command in [
            &["undo"][..],
            &["rollback", "--last-success"],
            &["rollback", "--codon", "draft"],
        ] {
            let refused = project.run([command, &["-e", &place]].concat());
            let name = command[0];
            says(
                &refused.expect_code(code).stderr,
                &[
                    &format!("`{name}` does not change the files of a task that is not over"),
                    &format!("Publish the page [page-3], which {is}"),
                    &format!(
                        "`hankweave task cancel page-3` ends it; then `{name}` works, and `hankweave task resume page-3` lets a worker continue from there"
                    ),
                ],
            );
        }
    };
    refused("waits for an approval", 1);
    // To look changes nothing.
    project.run(["undo", "--dry-run", "-e", &place]).expect_code(0);
    project.run(["task", "approve", "page-3"]).expect_code(0);
    refused("waits for a worker", 1);
    project
        .run(["task", "resume", "page-3", "-a", "ann"])
        .expect_code(0);
    refused("is running", 75);
    project.run(["task", "cancel", "page-3"]).expect_code(0);
    project.run(["undo", "-e", &place]).expect_code(0);
    project.run(["task", "resume", "page-3"]).expect_code(0);
    work(&project);
    // The codon that was undone ran again.
    let log = text(&project, &["task", "log", "page-3"]);
    assert_eq!(log.matches("Codon draft completed").count(), 2, "{log}");
}

/// An agent that reports its tokens only at its end is stopped too late, and every command says so in one wording.
// covers: TASK-121, HANK-37
#[test]
fn what_was_spent_beyond_a_budget_is_said_everywhere_in_the_same_words() {
    let project = project();
    let script = project.write("late.sh", LATE);
    let agent = json!({"command": ["sh", script], "stream": "claude"});
    let model = "claude-sonnet-4-5";
    let codon = json!({"id": "draft", "name": "draft", "model": model, "agent": agent, "continuationMode": "fresh", "promptText": "x"});
    let hank = json!({"overrides": {"budget": {"maxDollars": 0.5}}, "hank": [codon]});
    project.write("late/hank.json", hank.to_string());
    create(&project, "late", "Late", "late", &[]);
    work(&project);
    let over = "cost $0.9000 of $0.5000, over its budget by $0.4000";
    let place = place(&project, "late");
    let run = project.run(["run", "late", "-e", "alone", "--headless"]);
    for said in [
        text(&project, &["task", "show", "late"]).replace("cost         ", "cost "),
        text(&project, &["task", "list"]),
        text(&project, &["task", "log", "late"]).replace("Cost ", "cost "),
        text(&project, &["report", &place]),
        text(&project, &["status", "-e", &place]),
        run.stderr,
    ] {
        says(&said, &[over]);
    }
    assert_eq!(shown(&project, "late")["task"]["budget"], 0.5);
}

const LATE: &str = r#"cat > /dev/null
printf '%s\n' '{"type":"system","subtype":"init","session_id":"s-1","model":"claude-sonnet-4-5","cwd":"/","tools":[]}'
printf '%s\n' '{"type":"result","subtype":"success","is_error":false,"session_id":"s-1","result":"done","num_turns":1,"total_cost_usd":0.9,"usage":{"input_tokens":10,"output_tokens":5},"model_usage_since_last_result":{"claude-sonnet-4-5":{"inputTokens":10,"outputTokens":5,"cacheReadInputTokens":0,"cacheCreationInputTokens":0,"costUSD":0.9}}}'
"#;

/// An attempt is one start of a worker: attempts are counted, timed and priced one by one, and a task that was requeued has not failed.
// covers: TASK-106, TASK-121
#[test]
fn attempts_are_starts_with_their_cost_and_a_requeued_task_has_not_failed() {
    let project = project();
    write_gate(&project);
    create(&project, "page", "Page", "page", &[]);
    says(
        &text(&project, &["task", "show", "page", "--attempts"]),
        &["no attempt of page has started\n"],
    );
    work(&project);
    project.run(["task", "approve", "page"]).expect_code(0);
    project
        .run(["task", "resume", "page", "-a", "ann"])
        .expect_code(0);
    project.run(["task", "detach", "page"]).expect_code(0);
    let log = text(&project, &["task", "log", "page"]);
    says(
        &log,
        &[
            "warning  Task requeued by ",
            ": DETACHED: no worker held it, and it was requeued by hand\n",
        ],
    );
    assert!(
        !log.contains("Task failed") && !log.contains("Task resumed"),
        "{log}"
    );
    let report = text(&project, &["task", "show", "page", "--report"]);
    says(&report, &["the task was requeued by "]);
    assert!(!report.contains("the task was failed"), "{report}");
    let of_level = |level: &str| text(&project, &["task", "log", "page", "--level", level]);
    assert_eq!(of_level("error"), "");
    says(&of_level("warning"), &["Task requeued by "]);
    work(&project);
    let listed = text(&project, &["task", "executions", "page"]);
    let rows: Vec<Vec<&str>> = listed
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    let begin: Vec<_> = rows.iter().map(|row| (row[0], row[1])).collect();
    assert_eq!(
        begin,
        [("1", "waiting"), ("2", "requeued"), ("3", "completed")],
        "{listed}"
    );
    assert_eq!(listed.matches(" $0.4500").count(), 2, "{listed}");
    // By whom: the person by hand, whose cost nothing counts, and the workers.
    let sums = project
        .run(["task", "list", "--workers", "--json"])
        .json_document();
    let ann = &sums["workers"]["ann"];
    assert_eq!(
        (&ann["outcomes"], &ann["cost"]),
        (&json!({"requeued": 1}), &json!(0)),
        "{sums:#}"
    );
    let by_worker = text(&project, &["task", "list", "--workers"]);
    says(&by_worker, &["$0.4500  1 completed\n", "$0.4500  1 waiting\n"]);
    says(
        &text(&project, &["task", "show", "page"]),
        &["\n  attempt      3\n", "\n  codon        "],
    );
    let json = project
        .run(["task", "executions", "page", "--json"])
        .json_document();
    let numbers = json["executions"].as_array().unwrap().iter();
    let numbers: Vec<_> = numbers
        .map(|execution| (&execution["attempt"], &execution["cost"]))
        .collect();
    assert_eq!(numbers[0], (&json!(1), &json!(0.45)));
    assert_eq!(numbers[2], (&json!(2), &json!(0.45)));
    assert_eq!(shown(&project, "page")["task"]["attempt"], 2);
}
