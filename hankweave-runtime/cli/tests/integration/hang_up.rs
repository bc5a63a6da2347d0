//! Terminals that are closed while a program uses them.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use hankweave_testing::processes::Watched;
use hankweave_testing::pty::OnTerminal;
use hankweave_testing::{TestProject, swept};
use serde_json::{Value, json};

use crate::support::{codon, port, project};

/// Far longer than anything here takes; it only turns a hang into a failure.
const DEADLINE: Duration = Duration::from_secs(120);

/// How often a terminal is closed, each time a little later.
const MOMENTS: usize = 20;

fn program() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_hankweave"))
}

/// A hank of two codons. The agent of the first one speaks until a file `go` is there, so that lines are drawn all the time.
fn talkative(project: &TestProject) {
    let opening = r#"{"type":"system","subtype":"init","session_id":"s-1","model":"m","cwd":"/","tools":[]}"#;
    let closing =
        r#"{"type":"result","subtype":"success","is_error":false,"session_id":"s-1","result":"done"}"#;
    let said = r#"{"type":"assistant","session_id":"s-1","message":{"id":"m-%s","role":"assistant","model":"m","content":[{"type":"tool_use","id":"t-%s","name":"Bash","input":{"command":"word %s"}}],"usage":{"input_tokens":1,"output_tokens":1}}}\n"#;
    let script = format!(
        "cat > /dev/null\necho '{opening}'\nn=0\nwhile :; do n=$((n + 1)); printf '{said}' $n $n $n\n[ -e go ] && break; sleep 0.02; done\necho '{closing}'\n"
    );
    let agent = json!({"command": ["sh", project.write("talk.sh", script)], "stream": "claude"});
    let codon = |id: &str| json!({"id": id, "name": id, "model": "m", "continuationMode": "fresh", "promptText": "go", "agent": agent});
    project.write_hank(&json!({"hank": [codon("one"), codon("two")]}));
}

fn run(project: &TestProject) -> Value {
    project.state(&project.directory())["runs"][0].clone()
}

/// Record of a run that its terminal has ended.
#[track_caller]
fn assert_hung_up(project: &TestProject) {
    let run = run(project);
    let failure = &codon(&run, "one")["failureReason"];
    assert_eq!(failure["interruptedBy"], "stop", "{run:#}");
    assert!(
        failure["message"]
            .as_str()
            .unwrap()
            .contains("its terminal was closed (SIGHUP)"),
        "{run:#}"
    );
    assert_eq!(project.left_behind(), []);
    let report = project.run(["report"]);
    assert!(
        report
            .stdout
            .contains("the run ended: its terminal was closed (SIGHUP)"),
        "{report}"
    );
}

/// Whatever is drawn at the moment, the run is stopped in order, and the cause is a hang-up.
// covers: F19
#[test]
fn a_terminal_that_is_closed_at_any_moment_stops_the_run_in_order() {
    for moment in swept(0..MOMENTS) {
        let project = TestProject::in_memory(program());
        talkative(&project);
        let Some(mut running) = OnTerminal::start(&project, program(), &["run"]) else {
            return;
        };
        running.until("word 1");
        for _ in 0..moment {
            running.read();
        }
        running.hang_up();
        assert_eq!(running.code_within(DEADLINE), 143, "at moment {moment}");
        assert_hung_up(&project);
    }
}

// covers: F19
#[test]
fn a_run_goes_on_without_its_terminal_where_that_was_asked() {
    for (arguments, word) in [
        (&["run", "--on-hangup", "continue"][..], "word 1"),
        (&["run", "--on-hangup=continue", "--headless", "-v"], "working"),
        (&["run", "--on-hangup=continue", "--json"], "working"),
    ] {
        let project = project();
        talkative(&project);
        let Some(mut running) = OnTerminal::start(&project, program(), arguments) else {
            return;
        };
        let word = if arguments.len() == 3 && arguments[1] == "--on-hangup" {
            word
        } else {
            "one"
        };
        running.until(word);
        port(&project.directory());
        running.hang_up();
        project.write("go", "");
        assert_eq!(running.code_within(DEADLINE), 0, "{arguments:?}");
        let run = run(&project);
        assert_eq!(run["status"], "completed", "{run:#}");
        assert_eq!(codon(&run, "two")["status"], "completed", "{run:#}");
        let report = project.run(["report"]);
        assert!(
            report
                .stdout
                .contains(": its terminal was closed (SIGHUP); the run continues\n"),
            "{arguments:?}: {report}"
        );
    }
}

/// A shell learns of the closed terminal first, so there is a time in which every write fails and no signal has come.
// covers: F19
#[test]
fn a_terminal_of_an_interactive_shell_is_closed_as_any_other() {
    let Some(bash) = bash() else {
        println!("skipped: there is no bash");
        return;
    };
    for moment in 0..3 {
        let project = project();
        talkative(&project);
        let Some(mut shell) = OnTerminal::start(&project, &bash, &["--norc", "--noprofile", "-i"]) else {
            return;
        };
        shell.press(&format!("'{}' run\n", program().display()));
        shell.until("word 1");
        for _ in 0..moment {
            shell.read();
        }
        let lock = fs::read_to_string(project.directory().join(".hankweave/server.lock")).unwrap();
        let lock: Value = serde_json::from_str(&lock).unwrap();
        let pid = u32::try_from(lock["pid"].as_u64().unwrap()).unwrap();
        let watched = Watched::new(pid).unwrap();
        shell.hang_up();
        assert!(watched.ends_within(DEADLINE), "the run does not end");
        // Whether its shell was well is none of our business.
        let _ = shell.finish_within(DEADLINE);
        assert_hung_up(&project);
    }
}

fn bash() -> Option<std::path::PathBuf> {
    let found = Command::new("sh").args(["-c", "command -v bash"]).output().ok()?;
    let path = String::from_utf8(found.stdout).ok()?;
    found.status.success().then(|| path.trim().into())
}

/// `nohup` alone leaves the terminal to the run, which must continue when the terminal no longer exists.
// covers: F19
#[test]
fn a_run_that_ignores_the_hang_up_draws_on_nothing() {
    let project = project();
    talkative(&project);
    let line = format!("trap '' HUP; exec '{}' run", program().display());
    let Some(mut running) = OnTerminal::start(&project, Path::new("/bin/sh"), &["-c", &line]) else {
        return;
    };
    running.until("word 1");
    running.hang_up();
    project.write("go", "");
    assert_eq!(running.code_within(DEADLINE), 0);
    assert_eq!(run(&project)["status"], "completed");
}

/// The whole screen is a reader like any other; ratatui would panic where it cannot show the cursor again.
// covers: F19
#[test]
fn a_whole_screen_that_is_closed_ends_the_client_alone() {
    let project = project();
    talkative(&project);
    let running = project.start(["run", "--headless"]);
    port(&project.directory());
    let Some(mut screen) = OnTerminal::start(&project, program(), &["attach", "--tui"]) else {
        running.kill();
        return;
    };
    screen.until("word 1");
    screen.hang_up();
    assert_eq!(screen.code_within(DEADLINE), 143);

    // The whole screen of a run, opened with its key, is closed like this as well; the run continues.
    project.write("go", "");
    running.finish_within(DEADLINE).expect_code(0);
    let project = self::project();
    talkative(&project);
    let arguments = ["run", "--on-hangup", "continue"];
    let Some(mut running) = OnTerminal::start(&project, program(), &arguments) else {
        return;
    };
    running.until("word 1");
    running.press("t");
    running.until("transcript");
    running.hang_up();
    project.write("go", "");
    assert_eq!(running.code_within(DEADLINE), 0);
}

/// The run waits where it is, `status` says for what, and the answer comes from elsewhere.
// covers: F19, CLI-30, STATE-65
#[test]
fn an_approval_after_the_hang_up_waits_for_the_command() {
    let project = project();
    talkative(&project);
    let mut hank: Value =
        serde_json::from_slice(&fs::read(project.directory().join("hank.json")).unwrap()).unwrap();
    hank["hank"][1]["approval"] = json!("Is it right?");
    project.write_hank(&hank);
    let arguments = ["run", "--on-hangup", "continue"];
    let Some(mut running) = OnTerminal::start(&project, program(), &arguments) else {
        return;
    };
    running.until("word 1");
    running.hang_up();
    project.write("go", "");
    let status = || {
        let status = project.run(["status"]);
        status.expect_code(0);
        status.stdout
    };
    let mut told = status();
    while !told.contains("two waits for an approval") {
        told = status();
    }
    assert!(told.contains("hankweave approve two"), "{told}");
    project.run(["approve"]).expect_code(0);
    assert_eq!(running.code_within(DEADLINE), 0);
    assert_eq!(codon(&run(&project), "two")["status"], "completed");
}

/// A client that shows lines ends in order, and the run continues.
// covers: F19
#[test]
fn a_client_whose_terminal_is_closed_ends_in_order() {
    for arguments in [&["attach"][..], &["attach", "--control"], &["attach", "--json"]] {
        let project = project();
        talkative(&project);
        let running = project.start(["run", "--headless"]);
        port(&project.directory());
        let Some(mut client) = OnTerminal::start(&project, program(), arguments) else {
            running.kill();
            return;
        };
        client.until("word");
        client.hang_up();
        // Without a terminal a write may fail before the signal arrives.
        let code = client.code_within(DEADLINE);
        assert!(matches!(code, 0 | 143), "{arguments:?}: {code}");
        project.write("go", "");
        running.finish_within(DEADLINE).expect_code(0);
    }
}

/// A question on a terminal that no longer exists gets no answer, so nothing starts.
// covers: F19
#[test]
fn a_question_whose_terminal_is_closed_starts_nothing() {
    let project = project();
    talkative(&project);
    project.write("go", "");
    let mut hank: Value =
        serde_json::from_slice(&fs::read(project.directory().join("hank.json")).unwrap()).unwrap();
    hank["hank"][1]["agent"]["command"] = json!(["false"]);
    project.write_hank(&hank);
    project.run(["run", "--headless"]).expect_code(1);
    let runs = |project: &TestProject| {
        project.state(&project.directory())["runs"]
            .as_array()
            .unwrap()
            .len()
    };
    let before = runs(&project);
    let Some(mut running) = OnTerminal::start(&project, program(), &["run"]) else {
        return;
    };
    running.until("continue?");
    running.hang_up();
    let status = running.finish_within(DEADLINE);
    assert!(matches!(status.code(), Some(1 | 143)), "{status:?}");
    assert_eq!(runs(&project), before);
}
