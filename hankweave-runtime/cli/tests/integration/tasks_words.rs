//! Texts about a task for people: in its workspace, when its budget is spent, its hank is refused or its worker was killed, and on a narrow terminal.

use serde_json::{Value, json};

use crate::support::project;
use crate::task_project::{
    create, paste, shown, text, turn, work, workspace, write_gate, write_hank, write_slow,
};
use crate::terminal::Terminal;

// covers: CLI-14, CLI-44, TASK-123
#[test]
fn a_workspace_says_whose_task_it_is() {
    let project = project();
    write_gate(&project);
    create(&project, "page-3", "Publish the page", "page", &[]);
    work(&project);
    let place = workspace(&project, "page-3").display().to_string();
    let status = text(&project, &["status", "-e", &place]);
    for part in [
        "task Publish the page [page-3]: `hankweave task show page-3` shows it",
        "hankweave task approve page-3",
        "hankweave task deny page-3",
    ] {
        assert!(status.contains(part), "{part}: {status}");
    }
    assert!(!status.contains("hankweave run"), "{status}");
    let json = project
        .run(["status", "-e", &place, "--json"])
        .expect_code(0)
        .json_document();
    let task = json!({"id": "page-3", "name": "Publish the page", "status": "waiting"});
    assert_eq!(json["task"], task);
    let report = text(&project, &["report", &place]);
    assert!(report.starts_with("# ‖ Publish the page: paused"), "{report}");
    assert!(report.contains("Task `page-3`."), "{report}");
    let kept = std::fs::read_to_string(workspace(&project, "page-3").join(".hankweave/report.md"));
    assert!(kept.unwrap().starts_with("# ‖ Publish the page: "));
    assert_eq!(report, text(&project, &["task", "show", "page-3", "--report"]));
    // The report's essence is where the task is shown, with the command for the whole of it.
    let show = text(&project, &["task", "show", "page-3"]);
    for part in [
        "in all       1 of 2 codons, ",
        "report       hankweave task show page-3 --report",
    ] {
        assert!(show.contains(part), "{part}: {show}");
    }
    let hank = project.directory().join("page").display().to_string();
    let run = project.run(["run", &hank, "-e", &place, "--headless"]);
    assert!(
        run.expect_code(1).stderr.contains(
            "this is the workspace of task Publish the page [page-3]\n  hint: `hankweave task approve page-3` or `hankweave task deny page-3` answers its question, "
        ),
        "{}",
        run.stderr
    );
    let without = project.run(["run", &place, "--headless"]);
    assert!(
        without
            .expect_code(1)
            .stderr
            .contains("the workspace of task Publish the page [page-3]"),
        "{}",
        without.stderr
    );
    // A plain directory belongs to no task.
    let json = project.run(["run", "page", "--headless", "--agent", "scripted"]);
    assert!(!json.stderr.contains("task"), "{}", json.stderr);
    let unrun = project.run(["task", "create", "New", "--hank", "page", "--id", "new"]);
    unrun.expect_code(0);
    let none = project.run(["task", "show", "new", "--report"]);
    assert!(
        none.expect_code(65).stderr.contains("no run of new is recorded"),
        "{}",
        none.stderr
    );
    // If no run will ever be recorded, the hint on how to continue is that of the task.
    let by_hand = project.run(["task", "resume", "new", "-a", "ann"]);
    assert!(
        by_hand
            .expect_code(0)
            .stderr
            .contains("nothing runs its hank there"),
        "{}",
        by_hand.stderr
    );
    let place = workspace(&project, "new").display().to_string();
    let status = || {
        project
            .run(["status", "-e", &place])
            .expect_code(65)
            .stderr
            .clone()
    };
    let told = status();
    assert!(
        told.contains("ann works on it by hand, `hankweave task complete new` completes it"),
        "{told}"
    );
    text(&project, &["task", "complete", "new", "-m", "typed it"]);
    let told = status();
    assert!(
        told.contains("has recorded no run, and was completed by hand: typed it"),
        "{told}"
    );
}

// covers: TASK-115, TASK-122, HANK-39
#[test]
fn a_task_whose_budget_is_spent_names_the_command_that_allows_more() {
    let project = project();
    let codon = |id: &str| json!({"id": id, "script": turn("Done")});
    write_hank(&project, "dear", &[codon("one"), codon("two")]);
    create(&project, "dear", "Dear", "dear", &["--", "--max-cost", "0.10"]);
    work(&project);
    let row = shown(&project, "dear")["task"].clone();
    let error = row["error"].as_str().unwrap();
    // The agent is stopped in its answer, or has ended before that.
    assert!(
        error.starts_with("paused: ") && error.contains(" of $0.1000"),
        "{error}"
    );
    let needed = row["failure"]["needed"]["maxDollars"].as_f64().unwrap();
    let show = text(&project, &["task", "show", "dear"]);
    let line = show.lines().find(|line| line.starts_with("  continue ")).unwrap();
    let command = line.trim_start_matches("  continue").trim();
    assert_eq!(
        command,
        format!("hankweave task resume dear --max-cost {needed:.2}")
    );
    assert!(!show.contains("hankweave run"), "{show}");
    // Without it the budget would be spent at once, again.
    project.run(["task", "resume", "dear"]).expect_code(65);
    assert_eq!(shown(&project, "dear")["task"]["status"], "failed");
    paste(&project, command);
    work(&project);
    let row = shown(&project, "dear")["task"].clone();
    let arguments = json!(["--max-cost", format!("{needed}")]);
    assert_eq!(row["metadata"]["run"]["arguments"], arguments, "{row:#}");
    if row["status"] != "completed" {
        project
            .run(["task", "resume", "dear", "--max-cost", "50"])
            .expect_code(0);
        work(&project);
    }
    assert_eq!(shown(&project, "dear")["task"]["status"], "completed");
    let done = project.run(["task", "resume", "dear", "--max-cost", "60"]);
    assert!(
        done.expect_code(65).stderr.contains("INVALID_TRANSITION"),
        "{}",
        done.stderr
    );
    // The limit of a codon is one of its hank: raised there, the next attempt goes by it.
    let limited = |most: f64| {
        let budget = json!({"maxDollars": most, "onExceeded": "fail"});
        write_hank(
            &project,
            "limited",
            &[json!({"id": "one", "script": turn("Done"), "budget": budget})],
        );
    };
    limited(0.01);
    create(&project, "limited", "Limited", "limited", &[]);
    work(&project);
    assert_eq!(shown(&project, "limited")["task"]["status"], "failed");
    limited(5.0);
    project.run(["task", "resume", "limited"]).expect_code(0);
    work(&project);
    let row = shown(&project, "limited")["task"].clone();
    assert_eq!(row["status"], "completed", "{row:#}");
}

// covers: CLI-40, TASK-122
#[test]
fn a_hank_that_would_be_refused_makes_no_task_and_one_that_is_refused_later_names_validate() {
    let project = project();
    write_hank(&project, "good", &[json!({"id": "one", "script": turn("Done")})]);
    let good = std::fs::read_to_string(project.directory().join("good/hank.json")).unwrap();
    // Sound by its own, and yet no run would take it: a budget in dollars for a model without a price.
    let unpriced = good.replace("claude-sonnet-4-5", "no-such-model");
    project.write("good/hank.json", &unpriced);
    let refused = project.run(["validate", "good", "--max-cost", "1"]);
    refused.expect_code(1);
    let create = |more: &[&str]| {
        let mut create = vec!["task", "create", "Good", "--hank", "good"];
        create.extend(more);
        project.run(create)
    };
    let refused = create(&["--", "--max-cost", "1"]);
    assert!(
        refused.expect_code(65).stderr.contains("hank.json:"),
        "{}",
        refused.stderr
    );
    let refused = create(&["--", "--max-csot", "1"]);
    assert!(
        refused
            .expect_code(65)
            .stderr
            .contains("`run` refuses the arguments of the task: unexpected argument '--max-csot'"),
        "{}",
        refused.stderr
    );
    assert_eq!(
        project.run(["task", "list", "--json"]).json_document()["tasks"],
        json!([])
    );
    project.write("good/hank.json", &good);
    create(&["--id", "good"]).expect_code(0);
    project.write("good/hank.json", "{\"hank\": [{\"id\": \"one\"}]}");
    work(&project);
    let row = shown(&project, "good")["task"].clone();
    assert_eq!(row["status"], "failed");
    let command = row["failure"]["command"].as_str().unwrap();
    let file = project.directory().join("good").canonicalize().unwrap();
    assert_eq!(command, format!("hankweave validate {}", file.display()));
    let words: Vec<&str> = command.split(' ').skip(1).collect();
    let validated = project.run(words);
    assert!(
        validated.expect_code(1).stdout.contains("hank.json"),
        "{}",
        validated.stdout
    );
}

// covers: TASK-122
#[test]
fn a_failed_check_and_an_agent_that_exited_show_what_they_printed() {
    let project = project();
    let check = json!({"run": "echo '2 of 7 tests failed'; exit 4"});
    write_hank(
        &project,
        "red",
        &[json!({"id": "test", "script": turn("All green"), "check": check})],
    );
    create(&project, "red", "Red", "red", &[]);
    let script = project.write(
        "agent.sh",
        "cat > /dev/null; echo 'no licence' >&2; echo 'ask your admin' >&2; exit 9",
    );
    let agent = json!({"command": ["sh", script], "stream": "claude"});
    let codon = json!({"id": "gone", "name": "gone", "model": "m", "agent": agent, "continuationMode": "fresh", "promptText": "x"});
    project.write("gone/hank.json", json!({"hank": [codon]}).to_string());
    create(&project, "gone", "Gone", "gone", &[]);
    work(&project);
    let red = text(&project, &["task", "show", "red"]);
    for part in [
        "exit 4` has not passed: ",
        "\n               2 of 7 tests failed\n",
    ] {
        assert!(red.contains(part), "{part}: {red}");
    }
    let gone = text(&project, &["task", "show", "gone"]);
    for part in [
        "  error        gone: the agent exited with code 9: ask your admin\n",
        "               no licence\n               ask your admin\n",
    ] {
        assert!(gone.contains(part), "{part}: {gone}");
    }
    let later = project.run(["task", "create", "Later", "--hank", "gone", "--after", "gone"]);
    let blocked = "\"Later\" blocked: waits for gone, which failed; `hankweave task resume gone`";
    assert!(later.expect_code(0).stderr.contains(blocked), "{}", later.stderr);
}

/// The cost of an attempt whose worker was killed is unknown, and none of its codons runs any more.
// covers: TASK-121, TASK-56
#[test]
fn a_killed_attempt_costs_what_nobody_knows_and_its_codon_runs_no_more() {
    let project = project();
    let hold = write_slow(&project);
    create(&project, "slow", "Slow", "slow", &[]);
    let worker = project.start(["worker", "--lease", "1s", "--owner", "w1"]);
    while shown(&project, "slow")["data"]["running"] != "draft" {
        std::thread::yield_now();
    }
    let live = text(&project, &["task", "show", "slow"]);
    assert!(
        live.contains("running      draft") && !live.contains("$0.0000"),
        "{live}"
    );
    // The task would fail of a stopped run; another command cancels it.
    let place = workspace(&project, "slow").display().to_string();
    let refused = project.run(["stop", "-e", &place]);
    let refused = &refused.expect_code(75).stderr;
    assert!(
        refused.contains("`stop` does not work for a task, which would fail of it")
            && refused.contains("`hankweave task cancel slow` stops it"),
        "{refused}"
    );
    // So are the keys of a client.
    if let Some(mut terminal) = Terminal::sized(&project, 40, 200, &format!("attach --control -e {place}")) {
        for keys in ["x", "qy"] {
            terminal.until("draft");
            terminal.press(keys);
            terminal.until("refused: `stop` does not work for a task, which would fail of it");
            terminal.until("`hankweave task cancel slow` stops it");
        }
        terminal.press("d");
        assert_eq!(terminal.close(), Some(0));
    }
    assert_eq!(shown(&project, "slow")["data"]["running"], "draft");
    worker.kill();
    while !text(&project, &["task", "show", "slow"]).contains("none holds it") {
        std::thread::yield_now();
    }
    let lost = text(&project, &["task", "show", "slow"]);
    assert!(lost.contains("cost         unknown"), "{lost}");
    project.run(["task", "detach", "slow"]).expect_code(0);
    let pending = text(&project, &["task", "show", "slow"]);
    assert!(pending.contains("cost         unknown"), "{pending}");
    assert!(!pending.contains("running  "), "{pending}");
    assert_eq!(shown(&project, "slow")["data"]["running"], Value::Null);
    let listed = text(&project, &["task", "list"]);
    assert!(
        listed.contains("unknown  Slow") && listed.contains("it was requeued by hand"),
        "{listed}"
    );
    // What the next attempt pays for again is shown before the user resumes the task.
    project.run(["task", "cancel", "slow"]).expect_code(0);
    let again = "rolls back to where the work began, for nothing has completed";
    let show = text(&project, &["task", "show", "slow"]);
    assert!(show.contains(&format!("next         {again}")), "{show}");
    let status = text(&project, &["status", "-e", &place]);
    assert!(
        status.contains(&format!("lets a worker continue it; its run {again}")),
        "{status}"
    );
    project.run(["task", "resume", "slow"]).expect_code(0);
    std::fs::remove_file(&hold).unwrap();
    work(&project);
    assert_eq!(shown(&project, "slow")["task"]["status"], "completed");
}

/// An orphan is reported as a line of the task, without the words of a log.
// covers: TASK-56, CLI-40
#[test]
fn a_worker_tells_of_an_orphan_in_a_line_and_of_trouble_in_sentences() {
    let project = project();
    let hold = write_slow(&project);
    create(&project, "slow", "Slow", "slow", &[]);
    let mut worker = project.start(["worker", "--lease", "1s", "--owner", "w1"]);
    worker.wait_for_line(|line| line.contains("running"));
    while !text(&project, &["task", "show", "slow"]).contains("\n  running      ") {
        std::thread::yield_now();
    }
    worker.kill();
    std::fs::remove_file(&hold).unwrap();
    let mut said = String::new();
    while shown(&project, "slow")["task"]["status"] != "completed" {
        let again = project.run(["worker", "--once", "--orphan-after", "1s", "--lease", "5s"]);
        again.expect_code(0);
        said.push_str(&again.stdout);
        said.push_str(&again.stderr);
    }
    assert!(
        said.contains(
            "ORPHANED: its worker did not renew its lease (killed, suspended or without its registry), and recorded no result"
        ),
        "{said}"
    );
    assert!(!said.contains("WARN"), "{said}");
    // The time that its run has recorded is known, whenever the loss was noticed.
    let attempts = text(&project, &["task", "show", "slow", "--attempts"]);
    let lost = attempts.lines().find(|line| line.contains(" requeued ")).unwrap();
    assert!(lost.contains(" ≥ ") && !lost.contains('≤'), "{attempts}");
}

/// A task that is to be cancelled costs no other attempt, whether another worker finds it or a user lets it go.
// covers: TASK-56, TASK-57
#[test]
fn a_task_that_is_to_be_cancelled_is_so_without_its_worker() {
    for by_hand in [false, true] {
        let project = project();
        let hold = write_slow(&project);
        create(&project, "slow", "Slow", "slow", &[]);
        let mut worker = project.start(["worker", "--lease", "2s", "--owner", "w1"]);
        worker.wait_for_line(|line| line.contains("running"));
        worker.kill();
        let asked = project.run(["task", "cancel", "slow"]);
        let said = asked.expect_code(0).stderr.replace("\n  ", " ");
        std::fs::remove_file(&hold).unwrap();
        if said.contains("the lease ends in") || said.contains("its run has crashed") {
            assert!(
                said.contains("then `hankweave task detach slow` cancels the task"),
                "{said}"
            );
        }
        if by_hand {
            while !text(&project, &["task", "show", "slow"]).contains("none holds it") {
                std::thread::yield_now();
            }
            let shown = text(&project, &["task", "show", "slow"]);
            assert!(
                shown.contains("`hankweave task detach slow` cancels it now"),
                "{shown}"
            );
            project.run(["task", "detach", "slow"]).expect_code(0);
        } else {
            let mut other = Value::Null;
            while other != "cancelled" {
                let looks = ["worker", "--once", "--lease", "5s"];
                project.run(looks).expect_code(0);
                other = shown(&project, "slow")["task"]["status"].clone();
                assert!(other == "running" || other == "cancelled", "{other}");
            }
        }
        let task = shown(&project, "slow");
        assert_eq!(task["task"]["status"], "cancelled", "{task:#}");
        let log = text(&project, &["task", "log", "slow"]);
        assert!(log.contains("cancelled") && !log.contains("requeued"), "{log}");
    }
}

// covers: CLI-40
#[test]
fn lines_about_tasks_fit_a_narrow_terminal() {
    let project = project();
    let failing = json!({"turns": [{"text": "the second part of the tests of the first chapter is red"}], "exitCode": 3});
    write_hank(&project, "red", &[json!({"id": "test", "script": failing})]);
    let name = "Write the second chapter of the report about the figures of the third quarter";
    create(&project, "red", name, "red", &[]);
    let long = "a-rather-long-id-of-a-task-with-a-date-2026-11-27";
    create(&project, long, name, "red", &[]);
    let fits_in = |columns: u16, line: &str, parts: &[&str]| {
        let Some(mut terminal) = Terminal::sized(&project, 60, columns, line) else {
            return;
        };
        terminal.until_standing(|screen| parts.iter().all(|part| screen.contains(part)));
        terminal.close();
    };
    let fits = |line: &str, parts: &[&str]| fits_in(80, line, parts);
    // A name that is long is cut, and an id that leaves no room for it has a line of its own.
    let (cut, own) = ("Write the second cha…\n", format!("{long}\n"));
    let reason = "    test: the agent reported success but exited with code 3\n";
    fits(
        "worker --once",
        &[
            cut,
            &own,
            reason,
            "started;\ntask files are in /",
            "0 requeued, 0 lost\n",
        ],
    );
    fits("task list", &["Write the s…\n", &own, reason]);
    // On a narrower one owner and time go first.
    fits_in(
        40,
        "task list",
        &["red\n    failed        $0.0000  Write the s…\n"],
    );
    let last = "               the second part of the tests of the first chapter is red\n";
    fits(
        "task show red",
        &[
            "  error        test: the agent reported success but exited with code 3\n",
            last,
        ],
    );
    fits("task log red", &["Task failed\n", reason]);
}

/// If no variable names the user, the system does.
// covers: TASK-123
#[test]
fn an_answer_names_its_user_without_a_variable() {
    let project = project();
    write_hank(
        &project,
        "page",
        &[json!({"id": "publish", "script": turn("Out"), "approval": "Publish it?"})],
    );
    create(&project, "page", "Page", "page", &[]);
    work(&project);
    let mut command = project.command(std::path::Path::new(env!("CARGO_BIN_EXE_hankweave")));
    command.env_remove("USER").env_remove("LOGNAME");
    let output = command.args(["task", "approve", "page"]).output().unwrap();
    assert!(output.status.success());
    let by = shown(&project, "page")["task"]["metadata"]["approval"]["by"].clone();
    assert_ne!(by, "a user");
    let whoami = std::process::Command::new("id").arg("-un").output().unwrap();
    assert_eq!(
        by.as_str().unwrap(),
        String::from_utf8_lossy(&whoami.stdout).trim()
    );
}
