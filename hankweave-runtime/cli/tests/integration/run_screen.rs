//! Contents of the terminal while a run continues, as a terminal shows them.

use std::time::Duration;

use hankweave_testing::TestProject;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::approval::wait_for_question;
use crate::guest::Guest;
use crate::support::{project, shell_agent, until_stopped};
use crate::terminal::Terminal;

/// A codon whose agent says `working` and ends, or waits for a file `go` if the prompt says so.
fn codon(project: &TestProject, id: &str, prompt: &str) -> Value {
    let agent = shell_agent(project);
    json!({"id": id, "name": format!("Name of {id}"), "agent": agent, "model": "claude-sonnet-4-5",
        "continuationMode": "fresh", "promptText": prompt})
}

/// The line with `T` for times, which change from run to run.
fn without_times(line: &str) -> String {
    let is_time = |word: &str| {
        let is_of_digits = word
            .bytes()
            .all(|byte| byte.is_ascii_digit() || matches!(byte, b'.' | b'm' | b's'));
        is_of_digits && word.ends_with('s') && word.len() > 1
    };
    let words = line.split_whitespace();
    let shown = words.map(|word| if is_time(word) { "T" } else { word });
    shown.collect::<Vec<_>>().join(" ")
}

// covers: CLI-24
#[test]
fn what_has_ended_stays_and_below_it_stands_what_runs_what_comes_and_what_it_costs() {
    let project = project();
    let looped = json!({"type": "loop", "id": "rounds", "name": "Rounds", "terminateOn": {"type": "iterationLimit", "limit": 2},
        "codons": [codon(&project, "two", "two, wait for go")]});
    let many = ["three", "four", "five", "six"].map(|id| codon(&project, id, id));
    let mut items = vec![codon(&project, "one", "one"), looped];
    items.extend(many);
    project.write_hank(&json!({"hank": items}));
    let Some(mut terminal) = Terminal::sized(&project, 14, 100, "run --max-cost 5") else {
        return;
    };
    terminal.until_standing(|screen| {
        let wanted = ["✓ Name of one", "│ working", " running", "or Name of three"];
        wanted.iter().all(|wanted| screen.contains(wanted))
    });
    let screen = terminal.standing();
    let lines: Vec<String> = screen.trim_end().lines().skip(2).map(without_times).collect();
    let ended = &lines[0];
    assert!(
        ended.starts_with("✓ Name of one T $0.2500 15 tokens "),
        "{screen}"
    );
    assert!(
        lines[1].contains(" Name of two (1 of at most 2) T ") && lines[1].ends_with(" running"),
        "{screen}"
    );
    assert_eq!(
        lines[2..],
        [
            "│ the agent works",
            "│ working",
            "· Name of three",
            "· Name of four",
            "· Name of five",
            "· and 1 more",
            "1 of 6 · T · at least $0.2500 of $5.0000 · next: Name of two again, or Name of three"
        ],
        "{screen}"
    );
    project.write("go", "");
    terminal.press("\u{3}");
    terminal.until("continue  ");
    let screen = terminal.standing();
    assert!(!screen.contains("next: "), "the moving part is left: {screen}");
    assert_eq!(terminal.close(), Some(130));
}

// covers: CLI-24
#[test]
fn a_run_longer_than_the_terminal_goes_on_and_its_log_tears_nothing() {
    let project = project();
    let codons: Vec<Value> = (10..40)
        .map(|number| codon(&project, &format!("c{number}"), "go"))
        .collect();
    project.write_hank(&json!({"hank": codons}));
    let Some(mut terminal) = Terminal::sized(&project, 8, 40, "-v run") else {
        return;
    };
    terminal.until("Finished: 30 of 30 codons completed.");
    let history = terminal.history();
    for number in 10..40 {
        let ended = format!("✓ Name of c{number} ");
        assert_eq!(history.matches(&ended).count(), 1, "{ended} in {history}");
    }
    let torn = |line: &&str| line.contains("next: ") || line.contains("│ ");
    assert_eq!(history.lines().find(torn), None, "{history}");
    assert_eq!(terminal.close(), Some(0));
}

#[test]
fn a_failure_shows_why_what_was_said_last_and_where_all_of_it_is() {
    let project = project();
    let mut failing = codon(&project, "one", "one");
    failing["rigSetup"] = json!([{"type": "command", "command": {"run": "seq 1 50; exit 7"}}]);
    project.write_hank(&json!({"hank": [failing]}));
    let Some(mut terminal) = Terminal::sized(&project, 20, 100, "run") else {
        return;
    };
    terminal.until("continue  ");
    let history = terminal.history();
    for shown in ["✗ Name of one", "│ | 50", "│ | 40", "hankweave logs one", "7"] {
        assert!(history.contains(shown), "no {shown} in {history}");
    }
    assert!(!history.contains("│ | 30\n"), "{history}");
    assert_eq!(terminal.close(), Some(1));
}

/// Actions of an agent before each check are not printed again at the end.
// covers: CLI-43
#[test]
fn a_failure_after_several_checks_shows_the_last_lines_once() {
    let project = project();
    project.write("play.json", json!({"turns": [{"text": "I try."}]}).to_string());
    project.write_hank(
        &json!({"hank": [{"id": "one", "name": "Name of one", "agent": {"script": "play.json"}, "model": "claude-sonnet-4-5",
        "continuationMode": "fresh", "promptText": "go", "check": {"run": "echo 2 are red; exit 1", "retries": 2}}]}),
    );
    let Some(mut terminal) = Terminal::sized(&project, 40, 100, "run") else {
        return;
    };
    terminal.until("continue  ");
    let history = terminal.history();
    let count = |words: &str| history.matches(words).count();
    assert_eq!(count("    check failed: 2 are red"), 3, "{history}");
    assert_eq!((count("│ I try."), count("│ | 2 are red")), (1, 1), "{history}");
    assert_eq!((count("│ check failed"), count("│ one: ")), (0, 0), "{history}");
    assert_eq!(terminal.close(), Some(1));
}

// covers: CLI-24
#[test]
fn a_terminal_that_cannot_move_up_gets_plain_lines() {
    let project = project();
    project.write_hank(&json!({"hank": [codon(&project, "one", "one")]}));
    let line = format!(
        "TERM=dumb; export TERM; exec '{}' run",
        env!("CARGO_BIN_EXE_hankweave")
    );
    let Some(mut terminal) = Terminal::of(&project, &line) else {
        return;
    };
    terminal.until("one: the agent works");
    terminal.until("Finished: 1 of 1 codon completed.");
    assert!(!terminal.sent().contains("\u{1b}["), "{:?}", terminal.sent());
    assert_eq!(terminal.close(), Some(0));
}

// covers: CLI-24
#[test]
fn who_comes_later_sees_the_plan_and_what_was_gone_back_behind_counts_no_more() {
    let project = project();
    project.write_hank(&json!({"hank": [codon(&project, "one", "one"), codon(&project, "two", "two")]}));
    let running = project.start(["run", "--headless", "--no-autostart"]);
    let mut guest = Guest::enter(&project.directory(), "readandwrite");
    guest.command("1", "codon.next");
    guest.idle("codon-completed");
    let Some(mut terminal) = Terminal::sized(&project, 24, 80, "attach") else {
        return;
    };
    terminal.until_standing(|screen| screen.contains("1 of 2 ") && screen.contains("next: Name of two"));
    guest.command("2", "codon.next");
    guest.idle("all-codons-completed");
    terminal.until_standing(|screen| screen.contains("✓ Name of two") && screen.contains("2 of 2 "));
    project.run(["rollback", "--codon", "one"]).expect_code(0);
    terminal
        .until_standing(|screen| screen.contains("↩ Name of two: taken back") && screen.contains("1 of 2 "));
    project.run(["stop"]).expect_code(0);
    running.finish_within(Duration::from_secs(60)).expect_code(3);
    assert_eq!(terminal.close(), Some(0));
}

// covers: CLI-24
#[test]
fn who_comes_later_sees_which_checks_failed() {
    let project = project();
    let mut ship = codon(&project, "ship", "go");
    ship["approval"] = json!("Ship it?");
    let check = json!({"type": "untilCheckPasses", "run": "echo tried >> tries.log; echo $(wc -l < tries.log) of 2; test $(wc -l < tries.log) -ge 2", "limit": 4});
    project.write_hank(
        &json!({"hank": [{"type": "loop", "id": "until", "name": "Until green", "terminateOn": check,
        "codons": [codon(&project, "mend", "go")]}, ship]}),
    );
    let mut running = project.start(["run", "--headless", "--json", "--no-autostart"]);
    running.wait_for_line(|line| line.contains("\"server.idle\""));
    let mut guest = Guest::enter(&project.directory(), "readandwrite");
    guest.command("1", "codon.next");
    guest.idle("codon-completed");
    guest.command("2", "codon.next");
    wait_for_question(&mut running);
    let Some(mut terminal) = Terminal::sized(&project, 24, 80, "attach") else {
        return;
    };
    terminal.until_standing(|screen| {
        screen.contains("approval")
            && screen.contains("↻ Name of mend (1 of at most 4)")
            && screen.contains("    check failed: 1 of 2")
            && screen.contains("✓ Name of mend (2 of at most 4)")
            && screen.contains("    check passed")
    });
    project.run(["stop"]).expect_code(0);
    running.finish_within(Duration::from_secs(60)).expect_code(3);
}

/// A shell has written on the terminal before a program continues, so what was drawn is not where it was.
// covers: CLI-24
#[test]
fn a_program_that_goes_on_draws_anew() {
    let project = project();
    project.write_hank(
        &json!({"hank": [codon(&project, "one", "one, wait for go"), codon(&project, "two", "two")]}),
    );
    let Some(mut terminal) = Terminal::sized(&project, 24, 80, "run") else {
        return;
    };
    let feet = |screen: &str| screen.matches("next: Name of two").count();
    terminal.until_standing(|screen| feet(screen) == 1 && screen.contains("│ working"));
    let lock = std::fs::read(project.directory().join(".hankweave/server.lock")).unwrap();
    let lock: Value = serde_json::from_slice(&lock).unwrap();
    let pid = lock["pid"]
        .as_i64()
        .and_then(|pid| Pid::from_raw(pid as i32))
        .unwrap();
    kill_process(pid, Signal::CONT).unwrap();
    // The cursor was on the first line, which the shell has left or not; nothing below it remains.
    terminal.until_standing(|screen| feet(screen) == 1 && screen.matches("Name of one").count() == 2);
    terminal.press("\u{3}");
    assert_eq!(terminal.close(), Some(130));
}

// covers: CLI-24
#[test]
fn sentinels_stand_below_what_they_watch_with_what_they_said_last() {
    let project = project();
    let watching = |id: &str, script: &str| {
        json!({"sentinelConfig": {"id": id, "name": id, "command": ["sh", "-c", script], "answer": "json",
            "trigger": {"type": "event", "on": ["assistant.action"]}, "execution": {"strategy": "immediate"}}})
    };
    let mut watched = codon(&project, "one", "one, wait for go");
    watched["sentinels"] = json!([
        watching("silent", "cat > /dev/null"),
        watching(
            "narrator",
            r#"cat > /dev/null; echo '{"text": "it works", "costDollars": 0.125}'"#
        ),
    ]);
    project.write_hank(&json!({"hank": [watched]}));
    let Some(mut terminal) = Terminal::sized(&project, 14, 100, "run") else {
        return;
    };
    // What they cost is a part of what their codon costs.
    terminal.until_standing(|screen| screen.contains("◇ narrator: it works") && screen.contains("$0.1250  "));
    let screen = terminal.standing();
    let lines: Vec<&str> = screen.trim_end().lines().skip(3).map(str::trim).collect();
    assert_eq!(
        lines[..4],
        [
            "│ the agent works",
            "│ working",
            "◇ silent: watches",
            "◇ narrator: it works"
        ],
        "{screen}"
    );
    terminal.press("\u{3}");
    terminal.until("continue  ");
    assert_eq!(terminal.close(), Some(130));
}

/// A shell reads a line while a run is in the background, so only lines that stay are written; in the foreground all is drawn.
// covers: CLI-24
#[test]
fn nothing_is_drawn_anew_in_the_background() {
    let project = project();
    project.write_hank(
        &json!({"hank": [codon(&project, "one", "one"), codon(&project, "two", "two, wait for go"), codon(&project, "three", "three")]}),
    );
    let line = format!(
        "set -m; '{}' run & read -r line; fg",
        env!("CARGO_BIN_EXE_hankweave")
    );
    let Some(mut terminal) = Terminal::of(&project, &line) else {
        return;
    };
    terminal.until("✓ Name of one");
    let sent = terminal.sent();
    assert!(!sent.contains("next: ") && !sent.contains("│ "), "{sent}");
    terminal.press("\n");
    terminal.until("next: Name of three");
    terminal.press("\u{3}");
    terminal.until("continue  ");
    terminal.close();
}

/// A question is not lost while a shell has the terminal.
// covers: CLI-30
#[test]
fn a_question_in_the_background_is_said_once_and_put_in_the_foreground() {
    let project = project();
    let mut asked = codon(&project, "two", "two");
    asked["approval"] = json!("Deploy?");
    project.write_hank(&json!({"hank": [codon(&project, "one", "one"), asked]}));
    let line = format!(
        "set -m; '{}' run & read -r line; fg",
        env!("CARGO_BIN_EXE_hankweave")
    );
    let Some(mut terminal) = Terminal::of(&project, &line) else {
        return;
    };
    terminal.until("Name of two waits for an approval: Deploy?");
    terminal.until("`fg` shows the run, whose keys answer");
    terminal.press("\n");
    terminal.until("y approves, n denies");
    terminal.press("y");
    terminal.until("Finished: 2 of 2 codons completed.");
    let history = terminal.history();
    assert_eq!(history.matches("`fg` shows the run").count(), 1, "{history}");
    terminal.close();
}

/// Keys that command nothing move nothing.
// covers: CLI-24
#[test]
fn a_terminal_does_not_show_keys_to_who_only_watches() {
    let project = project();
    project.write_hank(
        &json!({"hank": [codon(&project, "one", "one, wait for go"), codon(&project, "two", "two")]}),
    );
    let running = project.start(["run", "--headless"]);
    crate::support::port(&project.directory());
    let Some(mut terminal) = Terminal::sized(&project, 24, 80, "attach") else {
        running.kill();
        return;
    };
    terminal.until_standing(|screen| screen.contains("next: Name of two"));
    terminal.press("typed\n");
    project.run(["stop"]).expect_code(0);
    running.finish_within(Duration::from_secs(60)).expect_code(3);
    terminal.until_standing(|screen| screen.contains("■ Name of one"));
    assert!(!terminal.sent().contains("typed"), "{:?}", terminal.sent());
    assert_eq!(terminal.close(), Some(0));
}

/// A shell continues below what has ended, and not over what is drawn again.
// covers: CLI-24
#[test]
fn what_is_drawn_is_taken_away_while_the_program_is_stopped() {
    let project = project();
    project.write_hank(
        &json!({"hank": [codon(&project, "one", "one, wait for go"), codon(&project, "two", "two")]}),
    );
    // What makes the terminal would stop itself with its own child.
    let line = format!("'{}' run; exit $?", env!("CARGO_BIN_EXE_hankweave"));
    let Some(mut terminal) = Terminal::of(&project, &line) else {
        return;
    };
    let feet = |screen: &str| screen.matches("next: Name of two").count();
    terminal.until_standing(|screen| feet(screen) == 1 && screen.contains("│ working"));
    let lock = std::fs::read(project.directory().join(".hankweave/server.lock")).unwrap();
    let lock: Value = serde_json::from_slice(&lock).unwrap();
    let pid = lock["pid"]
        .as_i64()
        .and_then(|pid| Pid::from_raw(pid as i32))
        .unwrap();
    for _ in 0..2 {
        kill_process(pid, Signal::TSTP).unwrap();
        terminal.until_standing(|screen| feet(screen) == 0);
        until_stopped(pid);
        kill_process(pid, Signal::CONT).unwrap();
        terminal.until_standing(|screen| feet(screen) == 1);
    }
    terminal.press("\u{3}");
    terminal.until("continue  ");
    assert_eq!(terminal.close(), Some(130));
}

// covers: CLI-24, HANK-80
#[test]
fn a_fallback_is_said_when_it_takes_over_and_an_ended_loop_counts_at_the_end() {
    let project = project();
    let limit = json!({"turns": [{"text": "Half of it."}], "result": {"message": "Claude AI usage limit reached|4102444800", "status": 429}});
    project.write("limited.json", limit.to_string());
    project.write(
        "relief.json",
        json!({"turns": [{"text": "All of it."}]}).to_string(),
    );
    let build = json!({"id": "build", "name": "Build", "agent": {"script": "limited.json"}, "model": "opus", "continuationMode": "fresh",
        "promptText": "go", "fallback": [{"agent": {"script": "relief.json"}, "model": "sonnet"}]});
    let looped = json!({"type": "loop", "id": "rounds", "name": "Rounds", "terminateOn": {"type": "iterationLimit", "limit": 2},
        "codons": [codon(&project, "round", "round")]});
    let mut ship = codon(&project, "ship", "ship");
    ship["approval"] = json!("Ship it?");
    project.write_hank(&json!({"hank": [build, looped, ship]}));
    let Some(mut terminal) = Terminal::sized(&project, 30, 130, "run") else {
        return;
    };
    terminal.until("Ship it?");
    let screen = terminal.standing();
    let words = "→ Build: falls back to scripted (relief.json) with sonnet instead of scripted (limited.json) with opus";
    assert!(screen.contains(words), "{screen}");
    terminal.press("n\r");
    terminal.until("continue  ");
    let screen = terminal.standing();
    assert!(screen.contains("2 of 3 codons completed"), "{screen}");
    assert!(!screen.contains("T00:00:00.000Z"), "{screen}");
    assert_eq!(terminal.close(), Some(3));
}
