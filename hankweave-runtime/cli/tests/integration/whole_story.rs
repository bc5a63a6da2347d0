//! One project from its first failure to its completion, steered in every way: after each step the thread, the files, the journal, the
//! document and the costs agree.

use std::fs;
use std::time::Duration;

use hankweave_core::document::parse;
use hankweave_core::event::Recorded;
use hankweave_core::state::LiveState;
use hankweave_core::wire::{Event, JournalEntry};
use hankweave_testing::{Finished, TestProject};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::{assert_usd, codon};

const HANKWEAVE: &str = env!("CARGO_BIN_EXE_hankweave");

const DEADLINE: Duration = Duration::from_secs(60);

/// The arguments with which a shell becomes our program.
fn ours<'a>(arguments: &[&'a str]) -> Vec<&'a str> {
    let become_ours = ["-c", "exec \"$0\" \"$@\"", HANKWEAVE];
    become_ours.into_iter().chain(arguments.iter().copied()).collect()
}

#[track_caller]
fn hankweave(project: &TestProject, arguments: &[&str]) -> Finished {
    project.run(ours(arguments))
}

/// Does what the first word of its prompt says, and notes the others. Work costs 0.25 dollars, a failure 0.1; what only began costs what its
/// one message costs.
const AGENT: &str = r#"
read -r what name
name=$name${HANKWEAVE_ITERATION:+ $HANKWEAVE_ITERATION}
say() { printf '%s\n' "$1"; }
message() {
  say '{"type":"assistant","session_id":"s-'$$'","parent_tool_use_id":null,"message":{"id":"m-'$$'","role":"assistant","model":"'$1'","content":[{"type":"text","text":"working"}],"usage":{"input_tokens":'$2',"output_tokens":0}}}'
}
result() {
  say '{"type":"result","subtype":"success","is_error":'$1',"session_id":"s-'$$'","result":"'"$2"'","model_usage_since_last_result":{"shell":{"inputTokens":10,"outputTokens":5,"costUSD":'$3'}}}'
}
say '{"type":"system","subtype":"init","session_id":"s-'$$'","model":"shell","cwd":"/","tools":[]}'
[ "$name" = "turn 2" ] && what=fail
case $what in
work) echo "$name" >> done.txt; message shell 10; result false done 0.25 ;;
fail) echo "half of $name" >> done.txt; message shell 10; result true 'invalid request' 0.1; exit 1 ;;
hold) echo "began $name" >> done.txt; message shell 10; touch held; exec sleep 600 ;;
spend) echo "$name" >> done.txt; message claude-sonnet-4-5 100000; exec sleep 600 ;;
esac
"#;

/// Three codons, a loop of four turns of which the third fails, a codon that is held, one that spends too much, and a last one.
fn write_hank(project: &TestProject, second: &str) {
    let script = project.home().join("agent.sh");
    fs::write(&script, AGENT).unwrap();
    let codon = |id: &str, prompt: &str, more: Value| {
        let mut codon = json!({"id": id, "name": id, "model": "shell", "continuationMode": "fresh", "promptText": prompt,
            "agent": {"command": ["sh", script], "stream": "claude"}, "checkpointedFiles": ["*.txt"]});
        codon
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        codon
    };
    let turn = codon("turn", "work turn", json!({"onFailure": "ignore"}));
    project.write_hank(&json!({"hank": [
        codon("one", "work one", json!({})),
        codon("two", second, json!({})),
        codon("three", "work three", json!({})),
        {"type": "loop", "id": "l", "name": "L", "terminateOn": {"type": "iterationLimit", "limit": 4}, "codons": [turn]},
        codon("held", "hold held", json!({})),
        codon("spender", "spend spender", json!({"model": "claude-sonnet-4-5", "budget": {"maxDollars": 0.25}})),
        codon("last", "work last", json!({}))]}));
}

/// What must be true after a step.
struct Step<'a> {
    /// Codons with their states, oldest first.
    thread: &'a [(&'a str, &'a str)],
    next: Option<&'a str>,
    /// Lines of the file that every codon writes to.
    done: &'a [&'a str],
    /// What all codons of all runs cost.
    cost: f64,
    /// What the newest run is.
    run: &'a str,
}

impl Step<'_> {
    #[track_caller]
    fn check(&self, project: &TestProject) {
        self.check_thread(project);
        let done = fs::read_to_string(project.directory().join("done.txt")).unwrap();
        assert_eq!(done.lines().collect::<Vec<_>>(), self.done);
        let validated = hankweave(project, &["state", "validate", "--json"]).json_document();
        assert_eq!(
            (&validated["errors"], &validated["warnings"]),
            (&json!([]), &json!([]))
        );
        let cost = hankweave(project, &["state", "cost", "--json"]).json_document();
        assert_usd(&cost["total"]["codonCost"], self.cost);
        check_journal(project, self.cost);
    }

    #[track_caller]
    fn check_thread(&self, project: &TestProject) {
        let thread = hankweave(project, &["thread", "--json"]).json_document();
        let codons = thread["codons"].as_array().unwrap().iter().rev();
        let told: Vec<(&str, &str)> = codons
            .map(|entry| {
                let record = &entry["codon"];
                (
                    record["codonId"].as_str().unwrap(),
                    record["status"].as_str().unwrap(),
                )
            })
            .collect();
        assert_eq!(told, self.thread);
        assert_eq!(thread["nextCodonId"], json!(self.next));
        let status = hankweave(project, &["status", "--json"]).json_document();
        assert_eq!(
            (&status["nextCodonId"], &status["run"]["status"]),
            (&json!(self.next), &json!(self.run))
        );
    }
}

/// The journal is in order, and its events make the document in state.json, with the costs that it reported.
#[track_caller]
fn check_journal(project: &TestProject, cost: f64) {
    let directory = project.directory().join(".hankweave");
    let mut files: Vec<_> = fs::read_dir(directory.join("events"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "jsonl"))
        .collect();
    files.sort();
    let (mut live, mut last, mut told) = (LiveState::default(), 0, 0.0);
    for line in files
        .iter()
        .flat_map(|file| lines(&fs::read_to_string(file).unwrap()))
    {
        let entry: JournalEntry = serde_json::from_str(&line).unwrap();
        assert!(entry.seq > last, "{} after {last}", entry.seq);
        last = entry.seq;
        if let Event::StateTransition {
            transition,
            resulting_state,
            ..
        } = &entry.event
        {
            let recorded = Recorded {
                seq: entry.seq,
                at: entry.timestamp,
                event: (**transition).clone(),
            };
            live.apply(&recorded).unwrap();
            told = resulting_state.total_cost.as_dollars();
        }
    }
    let stored = parse(&fs::read(directory.join("state.json")).unwrap()).unwrap();
    assert_eq!(
        *live.document(),
        stored,
        "the journal tells what is in state.json"
    );
    assert!((told - cost).abs() < 1e-6, "{told} was told, {cost} is right");
}

fn lines(text: &str) -> Vec<String> {
    text.lines().map(str::to_owned).collect()
}

/// Runs until this codon has said something, sends the signal, and waits for the end.
#[track_caller]
fn run_until(project: &TestProject, id: &str, signal: Signal) -> Option<i32> {
    let mut running = project.start(ours(&["run", "--headless", "--json"]));
    running
        .wait_for_line(|line| line.contains("\"assistant.action\"") && line.contains(&format!("\"{id}\"")));
    running.signal(signal);
    running.finish_within(DEADLINE).code
}

#[test]
fn a_project_is_steered_from_its_first_failure_to_its_completion() {
    let project = TestProject::new("/bin/sh");
    write_hank(&project, "fail two");
    hankweave(&project, &["run", "--headless"]).expect_code(1);
    let first_try = Step {
        thread: &[("one", "completed"), ("two", "failed")],
        next: None,
        done: &["one", "half of two"],
        cost: 0.35,
        run: "failed",
    };
    first_try.check(&project);

    hankweave(&project, &["rollback", "--codon", "one"]).expect_code(0);
    let back = Step {
        thread: &[("one", "completed")],
        next: Some("two"),
        done: &["one"],
        ..first_try
    };
    back.check(&project);

    write_hank(&project, "hold two");
    assert_eq!(run_until(&project, "two", Signal::KILL), None);
    let killed = Step {
        thread: &[("one", "completed"), ("two", "running")],
        next: None,
        run: "running",
        ..back
    };
    killed.check_thread(&project);

    write_hank(&project, "work two");
    assert_eq!(run_until(&project, "held", Signal::TERM), Some(143));
    assert_eq!(project.left_behind(), []);
    let ran = [
        ("one", "completed"),
        ("two", "completed"),
        ("three", "completed"),
        ("turn#0", "completed"),
        ("turn#1", "completed"),
        ("turn#2", "failed"),
        ("turn#3", "completed"),
        ("held", "failed"),
        ("spender", "completed"),
        ("last", "completed"),
    ];
    let done = [
        "one",
        "two",
        "three",
        "turn 0",
        "turn 1",
        "half of turn 2",
        "turn 3",
        "began held",
        "spender",
        "last",
    ];
    let recovered = Step {
        thread: &ran[..8],
        // It was stopped, so it has neither completed nor failed.
        next: Some("held"),
        done: &done[..8],
        cost: 1.7,
        run: "failed",
    };
    recovered.check(&project);
    let state = project.state(&project.directory());
    assert_eq!(state["runs"][1]["status"], "crashed");
    assert_eq!(
        codon(&state["runs"][1], "two")["failureReason"]["message"],
        "Server crashed"
    );

    fs::remove_file(project.directory().join("held")).unwrap();
    steer_to_the_end(&project);
    assert_eq!(project.left_behind(), []);
    let mut skipped = ran;
    skipped[7].1 = "skipped";
    let completed = Step {
        thread: &skipped,
        next: None,
        done: &done,
        cost: 2.25,
        run: "completed",
    };
    completed.check(&project);
    let state = project.state(&project.directory());
    let spender = codon(&state["runs"][0], "spender");
    assert_eq!(
        spender["budgetExceeded"],
        json!({"currency": "cost", "limit": 0.25, "used": 0.3})
    );
    let again = hankweave(&project, &["run", "--headless"]);
    assert!(
        again.expect_code(0).stderr.contains("Nothing left to do"),
        "{again}"
    );
    // A job that reads events gets none, and standard error gives the reason.
    let again = hankweave(&project, &["run", "--headless", "--json"]);
    assert!(
        again.stdout.is_empty() && again.stderr.contains("Nothing left to do"),
        "{again}"
    );
    completed.check(&project);
}

/// The codon that holds is skipped, and the others are started one by one.
#[track_caller]
fn steer_to_the_end(project: &TestProject) {
    let seen =
        "seen() { until [ $(cat .hankweave/events/*.jsonl | grep -c \"$1\") -ge $2 ]; do sleep 0.02; done; }";
    let steps = [
        "seen startup 1; echo next",
        "until [ -e held ]; do sleep 0.02; done; echo skip",
        "seen '\"codon-completed\"' 1; echo next",
        "seen '\"codon-completed\"' 2; echo next",
        "seen all-codons-completed 1; echo quit",
    ];
    let line = format!(
        "{seen}; {{ {}; }} | \"$0\" run --no-autostart --headless",
        steps.join("; ")
    );
    project.run(["-c", &line, HANKWEAVE]).expect_code(0);
}
