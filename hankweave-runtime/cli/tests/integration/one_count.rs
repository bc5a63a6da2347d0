//! One count of codons and one clock on every screen, also for long names and long times.

use hankweave_testing::TestProject;
use serde_json::{Value, json};

use crate::support::{project, shell_agent};
use crate::terminal::Terminal;

/// Writes a hank of three codons, of which the second is in a loop of two iterations and the third fails.
fn failing(project: &TestProject) {
    let works = shell_agent(project);
    let fails = json!({"command": ["sh", project.write("fails.sh", "cat > /dev/null; exit 1\n")], "stream": "claude"});
    let codon = |id: &str, agent: &Value| {
        json!({"id": id, "name": format!("Name of {id}"), "agent": agent, "model": "claude-sonnet-4-5",
            "continuationMode": "fresh", "promptText": id})
    };
    let looped = json!({"type": "loop", "id": "rounds", "name": "Rounds", "terminateOn": {"type": "iterationLimit", "limit": 2},
        "codons": [codon("two", &works)]});
    project.write_hank(&json!({"hank": [codon("one", &works), looped, codon("three", &fails)]}));
}

// covers: CLI-24
#[test]
fn codons_count_once_over_all_runs_and_on_every_screen() {
    let project = project();
    failing(&project);
    for run in 0..2 {
        let Some(mut terminal) = Terminal::sized(&project, 24, 80, "run --recover crash-point") else {
            return;
        };
        terminal.until("Failed at three; 2 of 3 codons completed.");
        assert_eq!(terminal.close(), Some(1), "run {run}");
    }
    let again = project.run(["run", "--headless"]);
    let said = &again.expect_code(1).stderr;
    assert!(
        said.contains("Failed at three; 2 of 3 codons completed."),
        "{said}"
    );
}

/// A command that is longer than its column has a line of its own, and its purpose follows below.
// covers: CLI-14
#[test]
fn a_long_command_does_not_run_into_its_purpose() {
    let project = project();
    failing(&project);
    let execution = format!("a-directory-with-a-long-name-{}", "x".repeat(40));
    project
        .run(["run", "--headless", "-e", &execution])
        .expect_code(1);
    let status = project.run(["status", "-e", &execution]);
    let status = &status.expect_code(0).stdout;
    let lines: Vec<&str> = status.lines().collect();
    let command = lines
        .iter()
        .position(|line| line.starts_with("  hankweave history") && line.ends_with(&execution));
    let purpose = command.and_then(|command| lines.get(command + 1));
    assert!(
        purpose.is_some_and(|line| line.starts_with("    lists the checkpoints")),
        "{status}"
    );
}

/// All output for people has its usual words on a narrow terminal, and breaks none of them.
// covers: CLI-24
#[test]
fn no_command_breaks_a_word_on_a_narrow_terminal() {
    let project = project();
    failing(&project);
    project
        .run(["run", "--headless", "--max-cost", "0.4"])
        .expect_code(3);
    project.run(["run", "--headless", "--forget"]).expect_code(1);
    let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    for command in [
        "status",
        "history",
        "history --all",
        "cost",
        "op log",
        "rollback --codon one --dry-run",
        "config",
    ] {
        let whole = project.run(command.split(' ')).expect_code(0).stdout.clone();
        for columns in [40, 80] {
            let Some(mut terminal) = Terminal::sized(&project, 200, columns, command) else {
                return;
            };
            terminal.until_ended();
            let shown = terminal.history();
            assert_eq!(words(&shown), words(&whole), "{command}:\n{shown}");
        }
    }
    let Some(mut terminal) = Terminal::sized(&project, 40, 40, "run") else {
        return;
    };
    terminal.until("Where shall it continue?");
    let shown = words(&terminal.history()).join(" ");
    for offer in [
        "roll back to the last success, two#1; what it replaces, also what you have changed while three ran, is kept in a checkpoint, and what you have changed since its end stays",
        "keep the files as they are and run three again from its beginning",
    ] {
        assert!(shown.contains(offer), "{offer}: {shown}");
    }
    terminal.press("q\n");
    assert_eq!(terminal.close(), Some(1));
}

/// Runs of one list share their columns, the report counts codons as every screen does, and a limit that held for an earlier run is not
/// said of the newest.
// covers: CLI-14
#[test]
fn lists_have_columns_and_one_count() {
    let project = project();
    failing(&project);
    project
        .run(["run", "--headless", "--max-cost", "0.4"])
        .expect_code(3);
    let paused = project.run(["status"]).expect_code(0).stdout.clone();
    assert!(
        paused.contains("  budget: cost $0.5000 of $0.4000, over its budget by $0.1000, "),
        "{paused}"
    );
    project.run(["run", "--headless", "--forget"]).expect_code(1);
    let failed = project.run(["status"]).expect_code(0).stdout.clone();
    assert!(!failed.contains("budget: "), "{failed}");
    let report = project.run(["report"]).expect_code(0).stdout.clone();
    assert!(report.contains("\n2 of 3 codons, "), "{report}");

    let column = |text: &str, wanted: &str| -> Vec<usize> {
        let lines = text.lines().filter_map(|line| line.find(wanted));
        lines.collect()
    };
    let is_one = |places: &[usize]| places.len() > 1 && places.iter().all(|place| *place == places[0]);
    let history = project.run(["history", "--all"]).expect_code(0).stdout.clone();
    assert!(is_one(&column(&history, " tokens")), "{history}");
    let log = project.run(["op", "log"]).expect_code(0).stdout.clone();
    assert!(is_one(&column(&log, " file")), "{log}");
    // Without sentinels nothing else was spent, and one column says so.
    let cost = project.run(["cost"]).expect_code(0).stdout.clone();
    let head = cost.lines().next().unwrap();
    assert_eq!(words_of(head), ["status", "spent", "tokens"], "{cost}");
}

fn words_of(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

/// Where nothing is printed one does not know whether anything went wrong; and a run that has ended has a page as well.
// covers: CLI-23
#[test]
fn what_did_not_change_is_said_and_an_ended_run_is_not_the_end() {
    let project = project();
    failing(&project);
    project.run(["run", "--headless"]).expect_code(1);
    let diff = project.run(["diff", "three"]);
    diff.expect_code(0);
    assert_eq!(
        (diff.stdout.as_str(), diff.stderr.as_str()),
        ("", "three changed nothing\n")
    );
    let page = project.run(["page"]);
    assert!(
        page.expect_code(65).stderr.contains(
            "the last run failed; `hankweave run` rolls back to the last success, two#1, and runs three again; `hankweave status` tells more, `hankweave view` serves its page"
        ),
        "{page}"
    );
}

/// A terminal of 80 columns breaks no word.
// covers: CLI-24
#[test]
fn messages_are_broken_between_their_words() {
    let project = project();
    failing(&project);
    let execution = format!("a-directory-{}", "x".repeat(20));
    let Some(mut terminal) = Terminal::sized(&project, 24, 80, &format!("run -e {execution}")) else {
        return;
    };
    terminal.until("Failed at three");
    let screen = terminal.history();
    let whole = format!("(`hankweave page -e {execution}`");
    assert!(
        screen.contains(&format!("/\n  {whole} prints the whole\n  address)"))
            || screen.contains(&format!("{whole} prints the whole address)")),
        "{screen}"
    );
    assert_eq!(terminal.close(), Some(1));
}

/// A budget that leaves nothing for any answer ends the run before its question.
// covers: CLI-17, HANK-30
#[test]
fn a_spent_budget_is_said_before_a_question_where_to_continue() {
    let project = project();
    failing(&project);
    project.run(["run", "--headless"]).expect_code(1);
    let before = project.state(&project.directory());
    let Some(mut terminal) = Terminal::sized(&project, 40, 200, "run --max-cost 0.5") else {
        return;
    };
    terminal.until("`hankweave run --max-cost 1.25` continues");
    let shown = terminal.history();
    assert!(!shown.contains("Where shall it continue?"), "{shown}");
    assert_eq!(terminal.close(), Some(3));
    assert_eq!(project.state(&project.directory()), before, "nothing was begun");
}

/// A codon of a loop without its iteration is the newest one of it.
// covers: STATE-58
#[test]
fn a_codon_of_a_loop_is_gone_back_to_by_its_name() {
    let project = project();
    failing(&project);
    project.run(["run", "--headless"]).expect_code(1);
    let to = |codon: &str| {
        let back = project.run(["rollback", "--codon", codon, "--dry-run", "--json"]);
        back.expect_code(0).json_document()["nextCodonId"].clone()
    };
    assert_eq!((to("two"), to("two#0")), (json!("three"), json!("two#1")));
}
