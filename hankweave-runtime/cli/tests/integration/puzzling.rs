//! Commands in a directory in every state of its run, for a user who has not seen the program before: none contradicts another one.

use std::cell::Cell;
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use hankweave_testing::{Running, TestProject};
use rustix::process::{Pid, Signal};
use serde_json::{Value, json};

use crate::approval::{asking, done};
use crate::support::{project, shell_agent, until_stopped};
use crate::terminal::Terminal;

const SOON: Duration = Duration::from_secs(180);

/// `one`, which completes, and `two`, which works until the run ends.
fn working() -> (TestProject, Running) {
    let project = project();
    let agent = shell_agent(&project);
    let codon = |id: &str, prompt: &str| {
        json!({"id": id, "name": id, "agent": agent, "model": "claude-sonnet-4-5",
            "continuationMode": "fresh", "promptText": prompt, "checkpointedFiles": ["done.txt"]})
    };
    project.write_hank(&json!({"hank": [codon("one", "one"), codon("two", "wait for go")]}));
    let mut run = project.start(["run", "--headless", "--json"]);
    run.wait_for_line(|line| line.contains("\"assistant.action\"") && line.contains("\"two\""));
    (project, run)
}

/// The project of `working`, with the process of its run suspended.
fn suspended() -> (TestProject, Running) {
    let (project, run) = working();
    let pid = Pid::from_raw(i32::try_from(run.pid()).unwrap()).unwrap();
    run.signal(Signal::STOP);
    until_stopped(pid);
    (project, run)
}

fn killed() -> TestProject {
    let (project, run) = working();
    run.kill();
    project
}

fn printed(project: &TestProject, command: &str) -> String {
    project.run(command.split(' ')).expect_code(0).stdout.clone()
}

#[track_caller]
fn assert_has(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "`{part}` is not in\n{text}");
    }
}

/// The row of a codon, without its figures.
#[track_caller]
fn state_of(text: &str, codon: &str) -> String {
    let row = text.lines().find(|line| line.starts_with(&format!("  {codon} ")));
    let row = row.unwrap_or_else(|| panic!("no row of {codon} in\n{text}"));
    row.split_whitespace().nth(1).unwrap().to_owned()
}

// covers: CLI-22
#[test]
fn the_log_of_a_killed_attempt_says_how_it_ended() {
    let project = killed();
    for command in ["logs", "logs two"] {
        let log = printed(&project, command);
        assert!(
            log.ends_with("\n  working\n  — crashed: its process no longer exists\n"),
            "{command}: {log}"
        );
    }
    assert!(!printed(&project, "logs one").contains("crashed"));
    assert!(!printed(&project, "logs --agent").contains("crashed"));
    // The next run notices the crash, and it is said once.
    project.write("go", "");
    project.run(["run", "--headless"]).expect_code(0);
    let log = printed(&project, "logs two");
    assert_eq!(log.matches("crashed").count(), 1, "{log}");
}

// covers: CLI-22
#[test]
fn a_log_that_is_followed_ends_with_its_run() {
    let follow = |project: &TestProject| {
        let mut follow = project.start(["logs", "--follow"]);
        follow.wait_for_line(|line| line == "two  " || line.starts_with("two  "));
        follow
    };
    let (project, run) = working();
    let followed = follow(&project);
    project.run(["stop"]).expect_code(0);
    run.finish_within(SOON).expect_code(3);
    let followed = followed.finish_within(SOON);
    followed.expect_code(0);
    assert_has(&followed.stdout, &["— stopped after "]);
    assert!(
        followed.stderr.ends_with("the run has ended: stopped\n"),
        "{followed}"
    );

    let (project, run) = working();
    let followed = follow(&project);
    run.kill();
    let followed = followed.finish_within(SOON);
    followed.expect_code(0);
    assert!(
        followed
            .stdout
            .ends_with("  — crashed: its process no longer exists\n")
            && followed.stderr.ends_with("the run has ended: crashed\n"),
        "{followed}"
    );
}

// covers: CLI-11, CLI-31
#[test]
fn a_killed_run_is_crashed_in_every_list() {
    let project = killed();
    let crashed = "one completed, two crashed";
    assert_has(&printed(&project, "op log"), &[crashed]);
    for command in ["status", "history", "history --all"] {
        let text = printed(&project, command);
        assert_eq!(state_of(&text, "two"), "crashed", "{text}");
        assert!(text.contains(" unknown "), "its time is not known: {text}");
    }
    let outlook = "two crashed; the next run continues there";
    for command in ["status", "history"] {
        assert_has(&printed(&project, command), &[outlook]);
    }
    project.write("go", "");
    let next = project.run(["run", "--headless"]);
    assert_has(
        &next.expect_code(0).stderr,
        &["had crashed; its open codon is closed as crashed"],
    );
    let log = printed(&project, "op log");
    assert!(log.contains(crashed) && !log.contains("failed"), "{log}");
    assert_eq!(state_of(&printed(&project, "history --all"), "two"), "completed");
}

// covers: CLI-11, CLI-14, CLI-15
#[test]
fn a_suspended_run_is_suspended_in_every_command() {
    let (project, run) = suspended();
    let pid = run.pid();
    for command in ["status", "history"] {
        let text = printed(&project, command);
        assert_has(
            &text,
            &[
                &format!(" suspended (process {pid})"),
                "two is suspended with its run",
            ],
        );
        assert_eq!(state_of(&text, "two"), "suspended", "{text}");
    }
    assert_has(&printed(&project, "op log"), &["two is suspended"]);
    let continues = format!("`kill -CONT {pid}` anywhere");
    for command in ["page", "page --control", "next", "approve", "attach"] {
        let refused = project.run(command.split(' '));
        let told = &refused.expect_code(75).stderr;
        assert_has(told, &[&format!("is suspended (process {pid})"), &continues]);
    }
    run.signal(Signal::CONT);
    run.kill();
}

// covers: CLI-17, CLI-41
#[test]
fn what_is_typed_before_a_question_answers_none() {
    let project = killed();
    project.write("go", "");
    let program = env!("CARGO_BIN_EXE_hankweave");
    let line = format!("until [ -e asks ]; do sleep 0.02; done; exec '{program}' run");
    let Some(mut terminal) = Terminal::of(&project, &line) else {
        return;
    };
    terminal.press("1\n");
    // The terminal shows typed text once it keeps it for the next reader.
    terminal.until("1");
    project.write("asks", "");
    terminal.until("Where shall it continue?");
    terminal.press("q\n");
    assert_eq!(terminal.close(), Some(1), "nothing was chosen but to do nothing");
    assert_eq!(done(&project), "one\n");
}

/// The question names the files that going back takes with it, with those of the user, and a client that comes meanwhile waits for the run.
// covers: CLI-15, CLI-17, RUN-2
#[test]
fn the_question_names_the_files_that_are_taken_back() {
    let project = killed();
    project.write("done.txt", "one\nmine\n");
    let Some(mut terminal) = Terminal::sized(&project, 40, 200, "run") else {
        return;
    };
    terminal.until("takes back 1 file: done.txt");
    assert_eq!(done(&project), "one\nmine\n", "to ask changes nothing");
    // From the first event on, so that it does not matter how soon it finds the run: the attempt that was killed has said something as well.
    let mut attached = project.start(["attach", "--json", "--after", "0"]);
    terminal.press("last-success\n");
    terminal.until("of one (1 file changed: done.txt)");
    let said = Cell::new(0);
    attached.wait_for_line(|line| {
        let is_said = line.contains("\"assistant.action\"") && line.contains("\"two\"");
        said.set(said.get() + usize::from(is_said));
        said.get() == 2
    });
    terminal.press("\u{3}");
    assert_eq!(terminal.close(), Some(130));
    assert_eq!(attached.finish_within(SOON).code, Some(0));
}

/// A run that asks in one terminal is known as that in every other one.
// covers: CLI-14, CLI-17
#[test]
fn a_question_that_waits_in_another_terminal_is_told() {
    let project = killed();
    let Some(mut terminal) = Terminal::sized(&project, 40, 200, "run") else {
        return;
    };
    terminal.until("Where shall it continue?");
    let advice = "it asks a question in its terminal: answer there, or end it with `kill ";
    let printed = || project.run(["status"]).expect_code(0).stdout.clone();
    // The lock file is written after the question is printed.
    let deadline = Instant::now() + SOON;
    let mut status = printed();
    while !status.contains(advice) && Instant::now() < deadline {
        status = printed();
    }
    assert!(status.contains(advice), "{status}");
    assert!(
        !status.contains("  hankweave run"),
        "it would be refused: {status}"
    );
    let attached = project.start(["attach"]);
    attached.wait_for_word(|line| line.contains(&format!("waits: {advice}")));
    for command in ["run", "stop"] {
        let refused = project.run([command]).expect_code(75).stderr.replace("\n  ", " ");
        assert!(refused.contains(advice), "{refused}");
    }
    terminal.press("q\n");
    assert_eq!(terminal.close(), Some(1));
    let after = project.run(["status"]).expect_code(0).stdout.clone();
    assert!(!after.contains(advice), "{after}");
}

/// The question of a rollback holds the directory as well.
// covers: CLI-14, CLI-17
#[test]
fn the_question_of_a_rollback_in_another_terminal_is_told() {
    let project = asking("two");
    project.run(["run", "--headless"]).expect_code(3);
    project.write("done.txt", "one\nmine\n");
    let Some(mut terminal) = Terminal::sized(&project, 40, 200, "rollback --codon one") else {
        return;
    };
    terminal.until("Do that? [y/N]");
    let advice = "it asks a question in its terminal: answer there, or end it with `kill ";
    let deadline = Instant::now() + SOON;
    let mut status = printed(&project, "status");
    while !status.contains(advice) && Instant::now() < deadline {
        status = printed(&project, "status");
    }
    assert!(
        status.contains("a command waits here (process ") && !status.contains("  hankweave run"),
        "{status}"
    );
    for command in [&["run", "--headless"][..], &["undo", "--yes"], &["stop"]] {
        let refused = project
            .run(command)
            .expect_code(75)
            .stderr
            .replace("\n        ", " ");
        assert!(refused.contains(advice), "{refused}");
    }
    let plan = project
        .run(["run", "--dry-run"])
        .expect_code(0)
        .stdout
        .replace("\n  ", " ");
    assert!(
        plan.contains("a run is refused while process ") && plan.contains(advice),
        "{plan}"
    );
    terminal.press("n\n");
    assert_eq!(terminal.close(), Some(0));
    assert!(!printed(&project, "status").contains(advice));
    assert_eq!(done(&project), "one\nmine\n");
}

/// Another run is refused next to a live one, and an open answer costs at least what is known.
// covers: CLI-29
#[test]
fn a_dry_run_beside_a_live_run_says_that_it_would_be_refused() {
    let (project, run) = working();
    let plan = printed(&project, "run --dry-run --max-cost 5");
    assert_has(
        &plan,
        &[
            &format!(
                "two is running; a run is refused while process {} works there\n",
                run.pid()
            ),
            "limits: $5.0000, of which at least $",
        ],
    );
    run.kill();
}

/// A live run that was rolled back starts nothing by itself, and every screen says so.
// covers: CLI-14, CLI-15
#[test]
fn a_live_run_that_was_rolled_back_says_that_it_waits() {
    let project = asking("two");
    let hank = project.directory().join("hank.json");
    let mut hank: Value = serde_json::from_str(&fs::read_to_string(hank).unwrap()).unwrap();
    let mut middle = hank["hank"][0].clone();
    (middle["id"], middle["name"]) = (json!("middle"), json!("middle"));
    hank["hank"].as_array_mut().unwrap().insert(1, middle);
    project.write_hank(&hank);
    let Some(mut terminal) = Terminal::sized(&project, 40, 120, "run") else {
        return;
    };
    terminal.until("deploy waits for an approval");
    let back = printed(&project, "rollback --codon one");
    assert!(
        back.contains("; the run waits, and `next` starts middle, where it needs an approval after that"),
        "{back}"
    );
    terminal.until("next: middle · waits for `next`");
    let status = printed(&project, "status");
    assert_has(
        &status,
        &["the run waits for a command; next: middle", "starts middle\n"],
    );
    project.run(["next"]).expect_code(0);
    terminal.until_standing(|screen| {
        screen.contains("2 of 3") && screen.contains("deploy waits for an approval")
    });
    terminal.press("n");
    terminal.until("Denied because");
    terminal.press("\n");
    assert_eq!(terminal.close(), Some(3));
    let history = printed(&project, "history");
    assert_has(&history, &[" left by a rollback\n"]);
    let report = printed(&project, "report");
    assert_has(&report, &["the run ended: left by a rollback"]);
    assert!(!report.contains("the run completed"), "{report}");
}

/// Copies the directory of a project, with all that is in it.
fn copy_of(project: &TestProject) -> PathBuf {
    let copy = project.home().join("copy");
    let copied = std::process::Command::new("cp")
        .arg("-a")
        .args([&project.directory(), &copy])
        .status();
    copied.unwrap();
    // A file of a run at work that lives for a moment only may be gone before it is copied, which `cp` calls a failure.
    assert!(copy.join(".hankweave/state.json").exists());
    copy
}

/// In a copy of a project the commands are about the copy, its hank as well.
// covers: CLI-4
#[test]
fn commands_in_a_copy_of_a_project_name_the_hank_of_the_copy() {
    let project = asking("two");
    project.run(["run", ".", "--headless"]).expect_code(3);
    let copy = copy_of(&project);
    let status = project
        .run(["status", "-e", copy.to_str().unwrap(), "--json"])
        .json_document();
    let commands = status["commands"].to_string();
    let original = project.directory().display().to_string();
    assert!(
        commands.contains("copy") && !commands.contains(&original),
        "{commands}"
    );
    assert!(!commands.contains("hankweave run . "), "{commands}");
}

/// A copy that is made while its run works is none of that run: it says that it is a copy, and `stop` there ends nothing.
// covers: L2, L4
#[test]
fn a_copy_of_a_run_at_work_does_not_take_itself_for_the_run() {
    let (project, run) = working();
    let copy = copy_of(&project);
    let in_copy = |command: &str| project.run([command, "-e", copy.to_str().unwrap()]);
    let copied = in_copy("status");
    assert_has(
        &copied.stdout,
        &["  its record was copied while two was at work, and this copy of "],
    );
    in_copy("stop").expect_code(65);
    assert_has(&printed(&project, "status"), &["two is running"]);
    run.kill();
}

/// A limit that was typed stays one wherever the project is moved or copied to, and in a copy whose run finds nothing to do.
// covers: CLI-4, CLI-31
#[test]
fn a_limit_of_the_command_line_moves_with_its_project() {
    let project = asking("two");
    project
        .run(["run", "--headless", "--max-cost", "5"])
        .expect_code(3);
    let copy = copy_of(&project);
    let moved = project.home().join("moved");
    let whose = "($5.0000, `--max-cost 5`)";
    let in_copy = |command: &[&str]| {
        let words = command.iter().copied().chain(["-e", copy.to_str().unwrap()]);
        project.run(words)
    };
    assert_has(&in_copy(&["report"]).stdout, &[whose]);
    fs::rename(project.directory(), &moved).unwrap();
    fs::create_dir(project.directory()).unwrap();
    for name in ["copy", "moved"] {
        let place = project.home().join(name);
        let place = place.to_str().unwrap();
        let report = project.run(["report", "-e", place]).expect_code(0).stdout.clone();
        assert_has(&report, &[whose]);
        let status = project.run(["status", "-e", place]).expect_code(0).stdout.clone();
        let onward = format!("hankweave run ../home/{name} ");
        assert_has(&status, &[onward.as_str()]);
    }
    // The script of its agents is in the first folder.
    fs::remove_dir(project.directory()).unwrap();
    fs::rename(&moved, project.directory()).unwrap();
    in_copy(&["approve"]).expect_code(0);
    let run = ["run", copy.to_str().unwrap(), "--headless"];
    let kept = "as in the last run here: --max-cost 5;";
    assert_has(&project.run(run).expect_code(0).stderr, &[kept]);
    project.run(run).expect_code(0);
    assert_has(&in_copy(&["report"]).stdout, &[whose]);
}

/// An approval names the command that really continues, also where no budget is left.
// covers: CLI-30, CLI-4
#[test]
fn an_approval_without_budget_names_the_larger_one() {
    let project = asking("two");
    project.write(
        "hankweave.json",
        json!({"budget": {"maxDollars": 0.2}}).to_string(),
    );
    project
        .run(["run", "--headless", "--max-cost", "5"])
        .expect_code(3);
    let _ = project.run(["run", "--headless", "--forget"]);
    let status: Value = project.run(["status", "--json"]).json_document();
    let offered = status["commands"].to_string();
    let approved = printed(&project, "approve");
    let named = approved.split('`').nth(1).unwrap();
    assert!(
        named.starts_with("hankweave run --max-cost 0.") && offered.contains(named),
        "{approved}: {offered}"
    );
    let words = named.split_whitespace().skip(1).chain(["--headless"]);
    project.run(words).expect_code(0);
}

/// After `fg` the question is printed below the output of the shell.
// covers: CLI-17, CLI-24
#[test]
fn the_question_where_to_continue_is_put_again_after_ctrl_z() {
    let project = killed();
    project.write("go", "");
    let program = env!("CARGO_BIN_EXE_hankweave");
    let line = format!("set -m; '{program}' run; until [ -e continue ]; do sleep 0.02; done; fg");
    let Some(mut terminal) = Terminal::of(&project, &line) else {
        return;
    };
    terminal.until("Where shall it continue?");
    terminal.press("\u{1a}");
    project.write("continue", "");
    terminal.until("Where shall it continue?");
    terminal.press("q\n");
    assert_eq!(terminal.close(), Some(1));
}

/// A run after an undo back to a crash rolls nothing back, and what a user has changed stays.
// covers: STATE-66, RUN-20
#[test]
fn a_run_after_an_undo_back_to_a_crash_keeps_the_files() {
    let project = killed();
    project.write("go", "");
    project.write("mine.txt", "mine\n");
    project
        .run(["run", "--headless", "--recover", "crash-point"])
        .expect_code(0);
    let undone = project.run(["undo"]);
    let keeps = "(`hankweave run` keeps the files and runs ";
    assert!(undone.expect_code(0).stdout.contains(keeps), "{undone}");
    let run = project.run(["run", "--headless"]);
    assert!(!run.expect_code(0).stdout.contains("rolled back"), "{run}");
    assert_eq!(
        fs::read_to_string(project.directory().join("mine.txt")).unwrap(),
        "mine\n"
    );
}

/// A question that is suspended is named alike everywhere, and one command of another terminal frees the project.
// covers: CLI-14, CLI-17, CLI-24
#[test]
fn a_suspended_question_is_ended_from_another_terminal() {
    let project = killed();
    let program = env!("CARGO_BIN_EXE_hankweave");
    let line = format!("set -m; '{program}' run; until [ -e continue ]; do sleep 0.02; done");
    let Some(mut terminal) = Terminal::of(&project, &line) else {
        return;
    };
    terminal.until("Where shall it continue?");
    terminal.press("\u{1a}");
    let advice = "and is suspended: `fg` there asks again, `kill -KILL ";
    let printed = || project.run(["status"]).expect_code(0).stdout.replace("\n  ", " ");
    let deadline = Instant::now() + SOON;
    let mut status = printed();
    while !status.contains(advice) && Instant::now() < deadline {
        status = printed();
    }
    assert!(status.contains(advice), "{status}");
    for command in ["run", "stop", "undo"] {
        let refused = project.run([command]).expect_code(75).stderr.replace("\n  ", " ");
        assert!(
            refused.contains(advice) && !refused.contains("in order to stop"),
            "{refused}"
        );
    }
    let document: Value = project.run(["status", "--json"]).json_document();
    let command = document["commands"][0].as_str().unwrap();
    let killed = std::process::Command::new("sh").args(["-c", command]).status();
    assert!(killed.unwrap().success(), "{command}");
    project.write("continue", "");
    terminal.until_ended();
    project.write("go", "");
    project.run(["run", "--headless"]).expect_code(0);
}

// covers: CLI-30, CLI-41
#[test]
fn a_letter_in_stray_text_is_no_answer_to_an_approval() {
    let program = env!("CARGO_BIN_EXE_hankweave");
    for kind in ["dumb", "xterm"] {
        let project = asking("two");
        project.run(["run", "--headless"]).expect_code(3);
        let line = format!("until [ -e asks ]; do sleep 0.02; done; TERM={kind} exec '{program}' run");
        let Some(mut terminal) = Terminal::of(&project, &line) else {
            return;
        };
        terminal.press("early y");
        terminal.until("early y");
        project.write("asks", "");
        terminal.until_standing(|screen| screen.contains("y approves"));
        // A sentence has letters of answers in it.
        terminal.press("why only now?\n");
        terminal.press("n");
        terminal.until_standing(|screen| {
            screen.contains("type a reason or none") || screen.contains("Denied because: █")
        });
        terminal.press("\r");
        assert_eq!(terminal.close(), Some(3), "{kind}");
        assert_eq!(done(&project), "one\n", "{kind}");
        let status = printed(&project, "status");
        assert_has(
            &status,
            &[": paused (approval denied), ", "deploy was denied by "],
        );
        assert!(!status.contains("it waits for an approval"), "{status}");
    }
}

// covers: CLI-14
#[test]
fn after_an_undo_the_first_line_says_what_is_the_case_now() {
    let project = asking("two");
    project.run(["run", "--headless"]).expect_code(3);
    let first = |project: &TestProject| printed(project, "status").lines().next().unwrap().to_owned();
    let paused = first(&project);
    assert!(
        paused.contains(": paused (approval needed), ") && !paused.contains("since"),
        "{paused}"
    );
    project.run(["undo"]).expect_code(0);
    let status = printed(&project, "status");
    assert!(!status.contains("it waits for an approval"), "{status}");
    let undone = first(&project);
    assert!(
        undone.starts_with("rolled back to checkpoint ")
            && undone
                .ends_with(" of the beginning, and nothing has run since; the next run continues with one"),
        "{undone}"
    );
    assert_has(&printed(&project, "status"), &["\nlast run "]);
    project.run(["run", "--headless"]).expect_code(3);
    assert!(first(&project).starts_with("run "));
}

/// The result states more than the answers before it did.
// covers: CLI-14, CLI-11
#[test]
fn what_passes_a_budget_is_told_as_that() {
    let project = project();
    let agent = shell_agent(&project);
    project.write_hank(
        &json!({"hank": [{"id": "one", "name": "one", "agent": agent, "model": "claude-sonnet-4-5",
        "continuationMode": "fresh", "promptText": "one", "checkpointedFiles": ["done.txt"]}]}),
    );
    let finished = project.run(["run", "--headless", "--max-cost", "0.2"]);
    let over = "over its budget by $0.0500";
    assert_has(&finished.expect_code(0).stderr, &[over]);
    for command in ["status", "cost"] {
        assert_has(&printed(&project, command), &[over]);
    }
    let enough = project.run(["run", "--headless", "--new", "--max-cost", "0.3"]);
    assert!(
        !enough.expect_code(0).stderr.contains("over its budget"),
        "{enough}"
    );
    for command in ["status", "cost"] {
        let text = printed(&project, command);
        assert!(!text.contains("over its budget"), "{command}: {text}");
    }
}

/// The hint of a refusal.
#[track_caller]
fn hint(project: &TestProject, command: &str, code: i32) -> String {
    let refused = project.run(command.split(' '));
    let text = &refused.expect_code(code).stderr;
    let hint = text.split_once("  hint: ");
    hint.unwrap_or_else(|| panic!("no hint in {text}"))
        .1
        .trim_end()
        .to_owned()
}

// covers: CLI-4, CLI-15
#[test]
fn a_command_to_a_run_that_is_not_live_says_how_the_last_one_ended_and_continues() {
    let tells = "; `hankweave status` tells more, `hankweave view` serves its page";
    let says = |project: &TestProject, last: &str| {
        for command in ["stop", "next", "skip", "attach", "page"] {
            assert_eq!(hint(project, command, 65), format!("{last}{tells}"), "{command}");
        }
    };
    let asked = asking("two");
    for command in ["stop", "page", "status"] {
        let hint = hint(&asked, command, 65);
        assert!(
            hint.starts_with("`hankweave run` starts the first run there"),
            "{command}: {hint}"
        );
    }
    asked.run(["run", "--headless"]).expect_code(3);
    says(
        &asked,
        "the last run is paused (approval needed); `hankweave approve deploy && hankweave run` lets deploy begin",
    );
    asked.run(["approve"]).expect_code(0);
    says(
        &asked,
        "the last run is paused (approved since then); `hankweave run` continues with deploy",
    );
    // A second approval learns that the codon was approved.
    for command in ["approve", "approve deploy"] {
        let again = asked.run(command.split(' '));
        let text = &again.expect_code(1).stderr;
        assert_has(
            text,
            &[
                "deploy is approved by ",
                " already",
                "`hankweave run` continues with it",
            ],
        );
    }
    asked.run(["run", "--headless"]).expect_code(0);
    says(
        &asked,
        "the last run completed; `hankweave run --new` starts from the first codon with the files as they are",
    );
    let again = "`hankweave run --recover session` keeps the files and lets two continue in its session";
    says(&killed(), &format!("the last run crashed; {again}"));
    let unknown = hint(&asked, "rollback --codon nine", 65);
    assert_eq!(
        unknown,
        "codons that have run: one, deploy; `hankweave history` lists all with their checkpoints"
    );
}

// covers: CLI-4
#[test]
fn a_run_whose_hank_was_moved_says_so() {
    let project = asking("two");
    project.run(["run", "--headless"]).expect_code(3);
    let directory = project.directory();
    fs::rename(directory.join("hank.json"), directory.join("moved.json")).unwrap();
    let continues = "hankweave run HANK -e .";
    let hint = hint(&project, "run --headless", 65);
    assert_has(&hint, &["whose hank is not where it was", continues]);
    let status = printed(&project, "status");
    assert_has(
        &status,
        &["its hank was not found; HANK stands for its path", continues],
    );
    let document: Value = project.run(["status", "--json"]).json_document();
    assert_eq!(document["commands"][0], continues);
    project.run(["approve"]).expect_code(1);
    project
        .run(["run", "--headless", "moved.json", "-e", "."])
        .expect_code(3);
    assert!(!printed(&project, "status").contains("HANK"));
}
