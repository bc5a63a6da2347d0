//! `attach --tui`: a run on the whole screen, as a terminal shows it.

use std::process::Command;
use std::time::{Duration, Instant};

use hankweave_testing::{ModelServer, Running, Scenario, TestProject, agents};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use crate::support::{port, project, until_stopped};
use crate::terminal::Terminal;

/// A codon that ends and one that waits, which both write files, and one that comes.
fn written() -> TestProject {
    let project = project();
    let write = |content: &str| json!({"write": {"path": "notes.txt", "content": content}});
    let first = json!({"turns": [{"text": "A first word.", "tools": [write("one\n")]}]});
    let second = json!({"turns": [{"text": "A second word.", "tools": [write("one\ntwo\n"), {"write": {"path": "new.txt", "content": "n\n"}}]},
        {"text": "Waiting.", "tools": [{"bash": {"command": "sleep 600"}}]}]});
    project.write("first.json", first.to_string());
    project.write("second.json", second.to_string());
    let codon = |id: &str| {
        json!({"id": id, "name": format!("Name of {id}"), "continuationMode": "fresh", "promptText": "go",
        "agent": {"script": format!("{id}.json")}, "checkpointedFiles": ["*.txt"]})
    };
    project.write_hank(&json!({"hank": [codon("first"), codon("second"), {"id": "third", "name": "Name of third", "continuationMode": "fresh",
        "promptText": "go", "agent": {"script": "first.json"}}]}));
    project
}

/// A run of that in which the second codon waits.
fn story() -> (TestProject, Running) {
    let project = written();
    let running = project.start(["run", "--headless", "--json"]);
    port(&project.directory());
    (project, running)
}

fn open(project: &TestProject) -> Option<Terminal> {
    let mut terminal = Terminal::sized(project, 24, 100, "attach --tui")?;
    terminal.until_standing(|screen| screen.contains("Waiting.") && screen.contains("1 of 3"));
    Some(terminal)
}

fn stop(project: &TestProject, running: Running) {
    project.run(["stop"]).expect_code(0);
    running.finish_within(Duration::from_secs(60)).expect_code(3);
}

// covers: CLI-35
#[test]
fn a_run_is_seen_whole_with_its_files_and_costs_and_the_terminal_is_given_back() {
    let (project, running) = story();
    let Some(mut terminal) = open(&project) else {
        running.kill();
        return;
    };
    let screen = terminal.standing();
    for shown in [
        "✓ Name of first",
        "▸ Name of second",
        "· Name of third",
        "A first word.",
        "A second word.",
        "› Write notes.txt",
    ] {
        assert!(screen.contains(shown), "no {shown} in {screen}");
    }
    terminal.press("/first word\r");
    terminal.until_standing(|screen| screen.contains("A first word."));
    terminal.press("2");
    terminal.until_standing(|screen| screen.contains("+ notes.txt") && screen.contains("+ new.txt"));
    terminal.press("j\r");
    terminal.until_standing(|screen| {
        screen.contains("+two") && screen.contains(" notes.txt ") && !screen.contains("+one")
    });
    terminal.press("q");
    terminal.until_standing(|screen| !screen.contains("+two"));
    terminal.press("k\r");
    terminal.until_standing(|screen| screen.contains("+n") && screen.contains("/dev/null"));
    terminal.press("q3");
    terminal.until_standing(|screen| screen.contains("all runs ") && screen.contains("Name of third"));
    terminal.press("4");
    terminal.until_standing(|screen| screen.contains("no sentinel watches"));
    terminal.press("?");
    terminal.until_standing(|screen| screen.contains("roll back to a checkpoint"));
    terminal.press("qq");
    terminal.until("\u{1b}[?1049l");
    assert_eq!(terminal.close(), Some(0));
    stop(&project, running);
}

// covers: CLI-35
#[test]
fn keys_skip_and_go_back_once_the_question_is_answered() {
    let (project, running) = story();
    let Some(mut terminal) = open(&project) else {
        running.kill();
        return;
    };
    terminal.press("s");
    terminal.until_standing(|screen| screen.contains("Skip Name of second?"));
    terminal.press("n");
    terminal.until_standing(|screen| screen.contains("nothing was changed"));
    terminal.press("s");
    terminal.until_standing(|screen| screen.contains("Skip Name of second?"));
    terminal.press("y");
    terminal
        .until_standing(|screen| screen.contains("■ Name of second") && screen.contains("✓ Name of third"));
    terminal.until_standing(|screen| screen.contains("the run has ended; q leaves"));
    terminal.press("q");
    terminal.until("the run has ended");
    assert_eq!(terminal.close(), Some(0));
    running.finish_within(Duration::from_secs(60)).expect_code(0);
}

/// However it ends, the terminal is as it was.
// covers: CLI-35
#[test]
fn signals_and_a_stop_leave_the_terminal_as_it_was() {
    let (project, running) = story();
    let program = env!("CARGO_BIN_EXE_hankweave");
    for (signal, code) in [(Signal::TERM, 143), (Signal::INT, 0)] {
        let line = format!(
            "stty rows 24 columns 80; stty -a > before; tty > tty; sh -c 'echo $$ > pid; exec {program} attach --tui'; code=$?; stty -a > after; exit $code"
        );
        let Some(mut terminal) = Terminal::of(&project, &line) else {
            running.kill();
            return;
        };
        terminal.until_standing(|screen| screen.contains("1 of 3"));
        let read = |name: &str| std::fs::read_to_string(project.directory().join(name)).unwrap();
        let pid = Pid::from_raw(read("pid").trim().parse().unwrap()).unwrap();
        // Stopped as by Ctrl+Z it lends the screen, and takes it again when it continues.
        kill_process(pid, Signal::TSTP).unwrap();
        terminal.until("\u{1b}[?1049l");
        until_stopped(pid);
        kill_process(pid, Signal::CONT).unwrap();
        terminal.until("\u{1b}[?1049h");
        terminal.until_standing(|screen| screen.contains("1 of 3"));
        // A smaller terminal is drawn again.
        let smaller = ["-F", read("tty").trim(), "rows", "16", "columns", "60"].map(str::to_owned);
        assert!(Command::new("stty").args(smaller).status().unwrap().success());
        terminal.until_standing(|screen| {
            screen
                .lines()
                .nth(15)
                .is_some_and(|line| line.starts_with("/ search"))
        });
        kill_process(pid, signal).unwrap();
        terminal.until("\u{1b}[?1049l");
        assert!(
            terminal.sent().contains("\u{1b}[?25h"),
            "the cursor is shown again"
        );
        assert_eq!(terminal.close(), Some(code));
        let modes = |name: &str| read(name).lines().skip(1).map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(modes("before"), modes("after"));
    }
    stop(&project, running);
}

#[test]
fn without_a_terminal_it_says_so() {
    let project = project();
    project.write_hank(&json!({"hank": []}));
    let refused = project.run(["attach", "--tui"]);
    refused.expect_code(2);
    assert!(
        refused.stderr.contains("--tui needs a terminal"),
        "{}",
        refused.stderr
    );
}

// covers: CLI-35, CLI-41
#[test]
fn a_key_takes_the_run_screen_to_the_whole_screen_and_back() {
    let project = written();
    let line = "stty rows 24 columns 80; stty -a > before; trap : INT; '{program}' run; code=$?; stty -a > after; exit $code";
    let line = line.replace("{program}", env!("CARGO_BIN_EXE_hankweave"));
    let Some(mut terminal) = Terminal::of(&project, &line) else {
        return;
    };
    terminal.until("t shows the run on the whole screen");
    terminal.until_standing(|screen| screen.contains("next: Name of third"));
    terminal.press("t");
    terminal.until("\u{1b}[?1049h");
    terminal.until_standing(|screen| screen.contains("1 transcript") && screen.contains("Waiting."));
    // What is pressed after the key that leaves reaches the run screen, at once and a moment later.
    for behind in ["qt", "q"] {
        terminal.press(behind);
        terminal.until("\u{1b}[?1049l");
        if behind == "q" {
            terminal.press("t");
        }
        terminal.until("\u{1b}[?1049h");
        terminal.until_standing(|screen| screen.contains("1 transcript") && screen.contains("Waiting."));
    }
    terminal.press("q");
    terminal.until("\u{1b}[?1049l");
    terminal.until_standing(|screen| {
        screen.contains("✓ Name of first") && screen.matches("next: Name of third").count() == 1
    });
    terminal.press("\u{3}");
    terminal.until("continue  ");
    assert_eq!(terminal.close(), Some(130));
    let read = |name: &str| std::fs::read_to_string(project.directory().join(name)).unwrap();
    assert_eq!(read("before"), read("after"));
}

/// A run that ends while the user watches it keeps its screen until a key.
// covers: CLI-35
#[test]
fn the_whole_screen_of_a_run_stays_after_its_end_until_a_key() {
    let project = written();
    let line = format!(
        "stty rows 24 columns 80; '{}' run; touch ended; exit 0",
        env!("CARGO_BIN_EXE_hankweave")
    );
    let Some(mut terminal) = Terminal::of(&project, &line) else {
        return;
    };
    terminal.until_standing(|screen| screen.contains("next: Name of third"));
    terminal.press("t");
    terminal.until_standing(|screen| screen.contains("Waiting."));
    project.run(["skip"]).expect_code(0);
    terminal.until_standing(|screen| screen.contains("the run has ended; q leaves"));
    let report = project.directory().join(".hankweave/report.md");
    let end = Instant::now() + Duration::from_secs(60);
    while !report.exists() {
        assert!(Instant::now() < end, "no report");
        std::thread::yield_now();
    }
    // Everything else is done; as long as one looks, nothing ends.
    let end = Instant::now() + Duration::from_secs(3);
    while Instant::now() < end {
        assert!(!project.directory().join("ended").exists(), "it was closed");
        std::thread::yield_now();
    }
    terminal.press("q");
    terminal.until("\u{1b}[?1049l");
    terminal.until("Finished: 2 of 3 codons completed.");
    assert_eq!(terminal.close(), Some(0));
}

/// What a person sees of the real claude: its text, its tools, the file and how full its context is, in both views.
// covers: CLI-24, CLI-35
#[test]
fn the_real_claude_is_seen_at_work() {
    let claude = match agents::claude() {
        Ok(claude) => claude,
        Err(skip) => return println!("{skip}"),
    };
    let turns = json!([
        {"text": "I write the plan.", "tools": [{"op": "write", "path": "${CWD}/plan.md", "content": "# Plan\n"}], "usage": {"input": 40_000, "output": 60}},
        {"text": "I wait.", "tools": [{"op": "bash", "command": "until [ -e go ]; do sleep 1; done", "description": "Wait"}],
            "usage": {"input": 122_000, "output": 60}}]);
    // If a reply comes too early, the model says nothing more, so nothing more is paid for.
    let after = json!({"hang": true, "usage": {"input": 122_000, "output": 60}});
    let scenario = Scenario::try_from(json!({"turns": turns, "after": after})).unwrap();
    let server = ModelServer::start(scenario).unwrap();
    let mut project = project();
    project.set("HANKWEAVE_CLAUDE_PATH", claude);
    project.write_hank(&json!({"hank": [{"id": "plan", "name": "Make a plan", "agent": "claude", "model": "claude-sonnet-4-5",
        "continuationMode": "fresh", "promptText": "Make a plan", "checkpointedFiles": ["*.md"],
        "env": {"ANTHROPIC_BASE_URL": server.url(), "ANTHROPIC_API_KEY": "any"}}]}));
    let Some(mut terminal) = Terminal::sized(&project, 24, 100, "run --max-cost 5") else {
        return;
    };
    let wanted = [
        " Make a plan ",
        "│ I write the plan.",
        "│ Write plan.md",
        "│ + plan.md",
        "│ I wait.",
        "│ Bash until [ -e go ]",
        " of $5.0000 · ctx 61 %",
    ];
    terminal.until_standing(|screen| {
        // What is long ago is not on the small screen any more.
        wanted.iter().filter(|wanted| screen.contains(**wanted)).count() >= 5 && screen.contains(wanted[6])
    });
    terminal.press("t");
    terminal.until_standing(|screen| {
        let wanted = [
            "▸ Make a plan",
            "I write the plan.",
            "› Write ",
            "I wait.",
            "ctx 61 %",
        ];
        wanted.iter().all(|wanted| screen.contains(wanted))
    });
    terminal.press("2");
    terminal.until_standing(|screen| screen.contains("+ plan.md"));
    terminal.press("\r");
    terminal.until_standing(|screen| screen.contains("+# Plan"));
    terminal.press("\u{3}");
    terminal.until("continue  ");
    assert_eq!(terminal.close(), Some(130));
    assert_eq!(project.left_behind(), []);
}
