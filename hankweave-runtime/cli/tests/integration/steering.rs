//! Runs that continue, wait and obey commands (RUN-2, RUN-9).

use hankweave_testing::TestProject;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::{SOON, codon, project, shell_agent, writing_agent};

/// Two codons that append their prompts to `done.txt`; the second one fails while a file `broken` is there.
fn write_hank(project: &TestProject) {
    let agent = shell_agent(project);
    let script = project.directory().join("agent.sh");
    let text = std::fs::read_to_string(&script).unwrap();
    let fails = "say working\n[ \"$prompt\" = two ] && [ -e broken ] && echo half >> done.txt && exit 3\n";
    project.write("agent.sh", text.replace("say working\n", fails));
    let codon = |id: &str| {
        json!({"id": id, "name": id, "agent": agent, "model": "shell", "continuationMode": "fresh",
            "promptText": id, "checkpointedFiles": ["*.txt"]})
    };
    project.write_hank(&json!({"hank": [codon("one"), codon("two")]}));
}

fn broken() -> TestProject {
    let project = project();
    write_hank(&project);
    project.write("broken", "");
    project.run(["run", "--headless"]).expect_code(1);
    std::fs::remove_file(project.directory().join("broken")).unwrap();
    project
}

fn done(project: &TestProject) -> String {
    std::fs::read_to_string(project.directory().join("done.txt")).unwrap()
}

// covers: CLI-17, RUN-2
#[test]
fn after_a_failure_the_flag_decides_where_nobody_can_be_asked() {
    for (flag, expected, reason) in [
        (None, "one\ntwo\n", "rollback"),
        (Some("last-success"), "one\ntwo\n", "rollback"),
        (Some("crash-point"), "one\nhalf\ntwo\n", "retry"),
    ] {
        let project = broken();
        let flags = flag.iter().flat_map(|flag| ["--recover", *flag]);
        project.run(["run"].into_iter().chain(flags)).expect_code(0);
        assert_eq!(done(&project), expected);
        let state = project.state(&project.directory());
        assert_eq!(state["runs"][0]["startingConditions"]["reason"], reason);
        assert_eq!(codon(&state["runs"][0], "two")["status"], "completed");
        assert_eq!(state["runs"][0]["codons"].as_array().unwrap().len(), 1);
    }
}

// covers: RUN-4
#[test]
fn what_an_earlier_run_left_is_saved_before_everything_starts_over() {
    let project = broken();
    let begun = project.state(&project.directory())["initialCheckpoint"].clone();
    project.run(["run", "--headless", "--new"]).expect_code(0);
    let events = project.directory().join(".hankweave/events/000001.jsonl");
    let events = std::fs::read_to_string(events).unwrap();
    assert!(
        events.contains("the hank starts over at its first codon"),
        "{events}"
    );
    let state = project.state(&project.directory());
    let saved = state["runs"][0]["startingConditions"]["initialCheckpointSha"]
        .as_str()
        .unwrap();
    let shown = project.checkpoints_git(&project.directory(), &["show", &format!("{saved}:done.txt")]);
    assert_eq!(shown.expect_code(0).stdout, "one\nhalf\n");
    assert_eq!(state["initialCheckpoint"], begun);
}

/// Status, and the commands that it lists.
fn said(project: &TestProject) -> (String, Vec<String>) {
    let text = project.run(["status"]).expect_code(0).stdout.clone();
    let document = project.run(["status", "--json"]).json_document();
    let commands: Vec<String> = serde_json::from_value(document["commands"].clone()).unwrap();
    assert!(commands.iter().all(|command| text.contains(command)), "{text}");
    (text, commands)
}

// covers: CLI-14
#[test]
fn status_says_where_one_is_and_what_one_can_type() {
    let project = broken();
    let (text, commands) = said(&project);
    assert!(text.contains("blocked: two failed"), "{text}");
    assert!(
        commands.contains(&"hankweave run --recover crash-point".to_owned()),
        "{commands:?}"
    );

    project.run(["rollback", "--codon", "one"]).expect_code(0);
    let (text, commands) = said(&project);
    assert!(
        text.contains("of one, and nothing has run since") && text.contains("next: two"),
        "{text}"
    );
    assert_eq!(commands[0], "hankweave run");
    let thread = project.run(["thread"]).stdout;
    assert!(thread.contains("of one, and nothing has run since\n"), "{thread}");

    project.run(["run", "--headless"]).expect_code(0);
    let (_, commands) = said(&project);
    assert!(!commands.contains(&"hankweave run".to_owned()), "{commands:?}");
}

// covers: CLI-6, WIRE-12
#[test]
fn a_codon_that_failed_in_a_run_that_waits_for_commands_is_run_again_by_redo() {
    let project = project();
    write_hank(&project);
    project.write("broken", "");
    let mut run = project.start(["run", "--headless", "--json", "--no-autostart"]);
    run.wait_for_line(|line| line.contains("\"server.idle\""));
    for ended in ["codon-completed", "two failed"] {
        project.run(["next"]).expect_code(0);
        run.wait_for_line(|line| line.contains("\"server.idle\"") && line.contains(ended));
    }
    let (status, commands) = said(&project);
    assert!(
        status.contains("two failed; the run waits for somebody to say what is to be done"),
        "{status}"
    );
    assert!(commands.contains(&"hankweave redo".to_owned()), "{commands:?}");
    std::fs::remove_file(project.directory().join("broken")).unwrap();
    project.run(["redo"]).expect_code(0);
    run.wait_for_line(|line| line.contains("\"server.idle\"") && line.contains("all-codons-completed"));
    project.run(["stop"]).expect_code(0);
    run.finish_within(SOON).expect_code(0);
}

#[test]
fn without_autostart_nothing_starts_and_commands_are_read_from_the_terminal() {
    let project = TestProject::new("/bin/sh");
    write_hank(&project);
    let line = format!(
        "printf 'help\\nredo\\nskip\\nrollback last-success\\nquit\\n' | '{}' run --no-autostart --headless",
        env!("CARGO_BIN_EXE_hankweave")
    );
    let finished = project.run(["-c", &line]);
    finished.expect_code(3);
    for words in [
        "commands: next | approve | deny [REASON] | redo",
        "refused: no codon has been run yet to redo",
        "refused: no codon is currently running",
        "refused: rollback failed: no codon has a checkpoint",
        "hint: ",
    ] {
        assert!(finished.stderr.contains(words), "{words}\n{finished}");
    }
    let state = project.state(&project.directory());
    assert_eq!(
        (&state["runs"][0]["codons"], &state["currentRunId"]),
        (&json!([]), &Value::Null)
    );
}

// covers: CLI-14, L2
#[test]
fn a_run_whose_agent_does_not_end_is_called_stopping_until_it_is_ended() {
    let project = project();
    let agent = writing_agent(&project, "trap '' TERM\nwhile :; do sleep 600; done");
    let one =
        json!({"id": "one", "name": "one", "agent": agent, "continuationMode": "fresh", "promptText": "go"});
    project.write_hank(&json!({"hank": [one]}));
    let mut run = project.start(["run", "--headless"]);
    run.wait_for_line(|line| line.contains("so far"));
    run.signal(Signal::INT);
    while !said(&project).0.contains(": stopping, since ") {
        std::thread::yield_now();
    }
    let (status, commands) = said(&project);
    assert!(status.contains("one is being stopped with its run\n"), "{status}");
    assert_eq!(commands, ["hankweave attach", "hankweave stop --force"]);
    project.run(["stop", "--force"]).expect_code(0);
    run.finish_within(SOON).expect_code(3);
    let status = said(&project).0;
    assert!(!status.contains("stopping"), "{status}");
}
