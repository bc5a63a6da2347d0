//! Approvals on the whole screen and in `attach` (CLI-30, CLI-35).

use std::fs;
use std::process::Command;
use std::time::Duration;

use hankweave_testing::{Running, TestProject};

use crate::approval::{asking, done, wait_for_question};
use crate::terminal::Terminal;

const SOON: Duration = Duration::from_secs(60);
const QUESTION: &str = "deploy waits for an approval: Deploy to production? (since ";
const KEYS: &str = "y approves, n denies and ends the run";

/// Starts a run that waits for the approval of `deploy`, with or without a client.
fn waiting(project: &TestProject) -> Running {
    let mut run = project.start(["run", "--headless", "--json", "--no-autostart"]);
    run.wait_for_line(|line| line.contains("\"server.idle\""));
    project.run(["next"]).expect_code(0);
    wait_for_question(&mut run);
    run
}

/// Stops a run after its last codon.
fn stop(project: &TestProject, mut run: Running) {
    run.wait_for_line(|line| line.contains("all-codons-completed"));
    project.run(["stop"]).expect_code(0);
    run.finish_within(SOON).expect_code(0);
}

/// A question that is older than the screens is on them, and each names the user who answered.
// covers: CLI-30, CLI-35
#[test]
fn a_key_on_the_whole_screen_approves_and_another_client_sees_the_answer() {
    for (lines, columns) in [(24, 80), (60, 200)] {
        let project = asking("wait for go");
        let run = waiting(&project);
        let open = || Terminal::sized(&project, lines, columns, "attach --tui");
        let (Some(mut first), Some(mut second)) = (open(), open()) else {
            run.kill();
            return;
        };
        for terminal in [&mut first, &mut second] {
            terminal.until_standing(|screen| {
                screen.contains(QUESTION) && screen.contains(KEYS) && screen.contains("? deploy")
            });
        }
        first.press("y");
        first.until_standing(|screen| screen.contains("deploy: approved by ") && !screen.contains(KEYS));
        second
            .until_standing(|screen| screen.contains("deploy: approved by ") && screen.contains("▸ deploy"));
        for mut terminal in [first, second] {
            terminal.press("q");
            assert_eq!(terminal.close(), Some(0));
        }
        project.run(["stop"]).expect_code(0);
        run.finish_within(SOON).expect_code(3);
    }
}

// covers: CLI-30, CLI-35
#[test]
fn a_denial_on_the_whole_screen_has_a_reason_and_says_how_the_run_ended() {
    let project = asking("two");
    let run = waiting(&project);
    let Some(mut terminal) = Terminal::sized(&project, 24, 80, "attach --tui") else {
        run.kill();
        return;
    };
    terminal.until_standing(|screen| screen.contains(KEYS));
    terminal.press("nno");
    terminal.until_standing(|screen| screen.contains("Denied because: no█ (Enter denies, Esc goes back)"));
    terminal.press("\u{1b}");
    terminal.until_standing(|screen| screen.contains(KEYS));
    terminal.press("nnot on a Friday\r");
    terminal.until_standing(|screen| {
        screen.contains("— denied by ")
            && screen.contains(": not on a Friday")
            && screen.contains("Paused (approval denied)")
    });
    run.finish_within(SOON).expect_code(3);
    terminal.until_standing(|screen| screen.contains("`hankweave status` tells how to continue; q leaves"));
    terminal.press("q");
    assert_eq!(terminal.close(), Some(0));
    let status = project.run(["status"]).expect_code(0).stdout.clone();
    assert!(
        status.contains("deploy was denied by ") && status.contains(": not on a Friday"),
        "{status}"
    );
    assert_eq!(done(&project), "one\n");
}

// covers: CLI-30, CLI-15
#[test]
fn keys_of_attach_answer_and_a_reader_is_told_where_one_answers() {
    let project = asking("two");
    let run = waiting(&project);
    let open = |arguments: &str| Terminal::sized(&project, 24, 80, arguments);
    let (Some(mut control), Some(mut reader)) = (open("attach --control"), open("attach")) else {
        run.kill();
        return;
    };
    control.until_standing(|screen| screen.contains(QUESTION) && screen.contains(KEYS));
    reader.until_standing(|screen| {
        screen.contains(QUESTION) && screen.contains("`hankweave approve` answers") && !screen.contains(KEYS)
    });
    control.press("n");
    control.until_standing(|screen| screen.contains("Denied because: █"));
    control.press("not yet\r");
    for terminal in [&mut control, &mut reader] {
        terminal
            .until_standing(|screen| screen.contains("deploy: denied by ") && screen.contains(": not yet"));
    }
    let report = project.run(["report"]);
    let report = &report.expect_code(0).stdout;
    assert!(
        report.contains("deploy: denied by ") && !report.contains("client-"),
        "{report}"
    );
    assert_eq!(control.close(), Some(0));
    assert_eq!(reader.close(), Some(0));
    run.finish_within(SOON).expect_code(3);
}

// covers: CLI-30, CLI-35
#[test]
fn a_token_for_reading_shows_the_question_and_no_keys() {
    let project = asking("two");
    let run = waiting(&project);
    let address = project.run(["page"]).expect_code(0).stdout.clone();
    let arguments = format!("attach --tui --url '{}'", address.trim_end());
    let Some(mut terminal) = Terminal::sized(&project, 24, 80, &arguments) else {
        run.kill();
        return;
    };
    let told = "this token may only read: no key commands the run";
    terminal.until_standing(|screen| {
        screen.contains(QUESTION) && screen.contains(told) && !screen.contains(KEYS)
    });
    // The message is shown once, and again after an attempt.
    terminal.press("j");
    terminal.until_standing(|screen| !screen.contains(told) && !screen.contains("s skip"));
    terminal.press("yc");
    terminal.until_standing(|screen| screen.contains(told));
    assert_eq!(done(&project), "one\n");
    terminal.press("q");
    assert_eq!(terminal.close(), Some(0));
    project.run(["approve"]).expect_code(0);
    stop(&project, run);
}

// covers: CLI-30, STATE-65
#[test]
fn a_question_of_a_killed_server_is_taken_back_and_put_again_by_the_next_run() {
    let project = asking("two");
    let run = waiting(&project);
    let open = |arguments: &str| Terminal::sized(&project, 24, 80, arguments);
    let (Some(mut whole), Some(mut control)) = (open("attach --tui"), open("attach --control")) else {
        run.kill();
        return;
    };
    whole.until_standing(|screen| screen.contains(KEYS));
    control.until_standing(|screen| screen.contains(KEYS));
    run.kill();
    whole.until_standing(|screen| !screen.contains(QUESTION) && !screen.contains(KEYS));
    whole.press("yq");
    whole.close();
    control.close();
    let mut run = project.start(["run", "--headless", "--json", "--no-autostart"]);
    wait_for_question(&mut run);
    let Some(mut terminal) = open("attach --control") else {
        return;
    };
    terminal.until_standing(|screen| screen.contains(QUESTION) && screen.contains(KEYS));
    terminal.press("y");
    terminal.until_standing(|screen| screen.contains("deploy: approved by "));
    stop(&project, run);
    assert_eq!(terminal.close(), Some(0));
    assert_eq!(done(&project), "one\ntwo\n");
}

// covers: CLI-30, CLI-35
#[test]
fn a_question_fits_a_terminal_that_becomes_narrow() {
    let project = asking("two");
    let mut run = waiting(&project);
    let program = env!("CARGO_BIN_EXE_hankweave");
    let line = format!("stty rows 24 columns 80; tty > tty; exec {program} attach --tui");
    let Some(mut terminal) = Terminal::of(&project, &line) else {
        run.kill();
        return;
    };
    terminal.until_standing(|screen| screen.contains(QUESTION) && screen.contains(KEYS));
    let tty = fs::read_to_string(project.directory().join("tty")).unwrap();
    for (rows, columns) in [("16", "40"), ("24", "80"), ("16", "40")] {
        let size = ["-F", tty.trim(), "rows", rows, "columns", columns];
        assert!(Command::new("stty").args(size).status().unwrap().success());
        terminal.until_standing(|screen| {
            let mut lines = screen.lines();
            let is_narrow = lines.next() == Some("deploy waits for an approval: Deploy to");
            is_narrow == (columns == "40") && screen.matches(KEYS).count() == 1
        });
    }
    terminal.press("y");
    run.wait_for_line(|line| line.contains("\"ApprovalSet\""));
    terminal.press("q");
    assert_eq!(terminal.close(), Some(0));
    stop(&project, run);
    assert_eq!(done(&project), "one\ntwo\n");
}
