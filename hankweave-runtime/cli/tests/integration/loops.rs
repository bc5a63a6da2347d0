//! Loops to their end (STATE-38 to STATE-46).

use hankweave_testing::TestProject;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::{codon, project, shell_agent};

/// An agent that keeps its session when it is asked to, notes the iteration and the session in `done.txt`, and in iteration 1 does what its
/// prompt says: `wait` as good as for ever unless there is a file `go`, or run out of context in one of the ways of real agents.
const AGENT: &str = r#"
prompt=$(cat)
session=${HANKWEAVE_RESUME_SESSION:-session-$$}
say() { printf '%s\n' "$1"; }
result() {
  say '{"type":"result","subtype":"success","is_error":'$1',"session_id":"'$session'","result":"'"$2"'","terminal_reason":"'$3'","usage":{"input_tokens":10,"output_tokens":5}}'
}
say '{"type":"system","subtype":"init","session_id":"'$session'","model":"shell","cwd":"/","tools":[]}'
say '{"type":"assistant","session_id":"'$session'","parent_tool_use_id":null,"message":{"id":"m-'$$'","role":"assistant","model":"shell","content":[{"type":"text","text":"working"}],"usage":{"input_tokens":10,"output_tokens":1}}}'
if [ "$HANKWEAVE_ITERATION" = 1 ] && [ "${prompt%% *}" != work ] && [ ! -e again ]; then
  case "$prompt" in
  wait) [ -e go ] || exec sleep 600 ;;
  "too long") result true 'Prompt is too long' prompt_too_long; exit 1 ;;
  "length exceeded") result true 'API Error: 400 context_length_exceeded' api_error; exit 1 ;;
  "output limit") result true "API Error: Claude's response exceeded the 32000 output token maximum" api_error; exit 1 ;;
  compacted) say '{"type":"system","subtype":"compact_boundary","session_id":"'$session'","compact_metadata":{"trigger":"auto"}}' ;;
  esac
fi
echo "$HANKWEAVE_ITERATION $session" >> done.txt
result false done completed
"#;

/// `begin`, then a loop of `b` and `c` which continue with its session, then `end`.
fn write_hank(project: &TestProject, terminate_on: &Value, prompt: &str, policy: &str) {
    let script = project.home().join("agent.sh");
    std::fs::write(&script, AGENT).unwrap();
    let agent = json!({"command": ["sh", script], "stream": "claude"});
    let codon = |id: &str, mode: &str, prompt: &str, policy: &str| {
        json!({"id": id, "name": id, "agent": agent, "model": "shell", "continuationMode": mode, "promptText": prompt,
            "checkpointedFiles": ["*.txt"], "onFailure": policy})
    };
    let inner = [
        codon("b", "continue-previous", prompt, policy),
        codon("c", "continue-previous", "work", policy),
    ];
    let found = json!({"type": "loop", "id": "l", "name": "L", "terminateOn": terminate_on, "codons": inner});
    let items = [
        codon("begin", "fresh", "work", "abort"),
        found,
        codon("end", "fresh", "work", "abort"),
    ];
    project.write_hank(&json!({"hank": items}));
}

fn three_times() -> Value {
    json!({"type": "iterationLimit", "limit": 3})
}

fn until_full() -> Value {
    json!({"type": "contextExceeded"})
}

fn state(project: &TestProject) -> Value {
    project.state(&project.directory())
}

/// Ids of all codons of all runs that ended so, oldest first.
fn ended(state: &Value, status: &str) -> Vec<String> {
    let runs = state["runs"].as_array().unwrap().iter().rev();
    let records = runs.flat_map(|run| run["codons"].as_array().unwrap());
    records
        .filter(|record| record["status"] == status)
        .map(|record| record["codonId"].as_str().unwrap().to_owned())
        .collect()
}

fn planned(state: &Value) -> Vec<&str> {
    let plan = state["executionPlan"].as_array().unwrap().iter();
    plan.map(|entry| entry["codonId"].as_str().unwrap()).collect()
}

/// Iteration, whether it was the last one, and why, of every `loop.iteration.completed`.
fn iterations(lines: &[Value]) -> Vec<(Value, Value, Value)> {
    let told = lines
        .iter()
        .filter(|event| event["type"] == "loop.iteration.completed");
    let told = told.map(|event| &event["data"]);
    told.map(|data| {
        assert_eq!(data["loopId"], "l");
        assert!(
            data["durationMs"].is_u64() && data["costUsd"].is_number(),
            "{data}"
        );
        (
            data["iteration"].clone(),
            data["isFinal"].clone(),
            data["terminationReason"].clone(),
        )
    })
    .collect()
}

const ALL: [&str; 8] = ["begin", "b#0", "c#0", "b#1", "c#1", "b#2", "c#2", "end"];

// covers: STATE-46
#[test]
fn a_loop_runs_as_often_as_its_limit_says_in_one_conversation() {
    let project = project();
    write_hank(&project, &three_times(), "work", "abort");
    let finished = project.run(["run", "--headless", "--json"]);
    finished.expect_code(0);
    let state = state(&project);
    assert_eq!(
        (ended(&state, "completed"), planned(&state)),
        (ALL.map(str::to_owned).to_vec(), ALL.to_vec())
    );
    let run = &state["runs"][0];
    for id in &ALL[1..7] {
        assert_eq!(
            codon(run, id)["previousSessionId"],
            codon(run, "begin")["claudeSessionId"]
        );
    }
    let (more, none) = (json!(false), Value::Null);
    let limit = (json!(2), json!(true), json!("iteration_limit"));
    assert_eq!(
        iterations(&finished.json_lines()),
        [
            (json!(0), more.clone(), none.clone()),
            (json!(1), more, none),
            limit
        ]
    );
    let tokens = finished.json_lines();
    let first = tokens
        .iter()
        .find(|event| event["type"] == "loop.iteration.completed");
    assert_eq!(first.unwrap()["data"]["tokensUsed"], 30);
    // After a rollback the iterations run again, and each is reported again.
    project.run(["undo", "--yes"]).expect_code(0);
    let again = project.run(["run", "--headless", "--json"]);
    again.expect_code(0);
    assert_eq!(
        iterations(&again.json_lines()),
        iterations(&finished.json_lines())
    );
}

/// Stopped in order or killed, under every policy: the codon that crashed runs again in its conversation, and no iteration is lost.
#[test]
fn a_stop_in_the_middle_of_an_iteration_loses_no_iteration() {
    for signal in [Signal::TERM, Signal::KILL] {
        for policy in ["abort", "ignore", "retry"] {
            let project = project();
            write_hank(&project, &three_times(), "wait", policy);
            let mut running = project.start(["run", "--headless", "--json"]);
            running.wait_for_line(|line| line.contains("\"codon.started\"") && line.contains("b#1"));
            running.signal(signal);
            let finished = running.finish_within(std::time::Duration::from_secs(60));
            assert_eq!(
                (finished.code, finished.signal),
                if signal == Signal::TERM {
                    (Some(143), None)
                } else {
                    (None, Some(9))
                },
                "{policy}"
            );
            let told = iterations(&finished.json_lines());
            assert!(told.iter().all(|(iteration, ..)| *iteration == 0), "{told:?}");
            project.write("go", "");

            let finished = project.run(["run", "--headless", "--json"]);
            finished.expect_code(0);
            let state = state(&project);
            assert_eq!(ended(&state, "completed"), ALL, "{policy}");
            assert_eq!(ended(&state, "failed"), ["b#1"], "{policy}");
            let session = &codon(&state["runs"][1], "begin")["claudeSessionId"];
            assert_eq!(codon(&state["runs"][0], "c#2")["claudeSessionId"], *session);
            let told: Vec<Value> = iterations(&finished.json_lines())
                .into_iter()
                .map(|(iteration, ..)| iteration)
                .collect();
            assert_eq!(told, [json!(1), json!(2)]);
            let done = std::fs::read_to_string(project.directory().join("done.txt")).unwrap();
            assert_eq!(
                done.lines().count(),
                ALL.len(),
                "{policy}: nothing is done twice\n{done}"
            );
        }
    }
}

// covers: STATE-40, AGENT-11
#[test]
fn a_loop_ends_when_its_agent_runs_out_of_context_however_it_says_so() {
    for shape in ["too long", "length exceeded", "output limit", "compacted"] {
        let project = project();
        write_hank(&project, &until_full(), shape, "abort");
        let finished = project.run(["run", "--headless", "--json"]);
        finished.expect_code(0);
        let state = state(&project);
        let expected = ["begin", "b#0", "c#0", "b#1", "end"];
        assert_eq!(ended(&state, "completed"), expected, "{shape}");
        assert_eq!(
            planned(&state),
            expected,
            "{shape}: the rest of the iteration is dropped"
        );
        let full = codon(&state["runs"][0], "b#1");
        assert_eq!(
            (&full["contextExceeded"], &full["exitCode"]),
            (&json!(true), &json!(0)),
            "{shape}"
        );
        assert_eq!(
            iterations(&finished.json_lines())[1..],
            [(json!(1), json!(true), json!("context_exceeded"))],
            "{shape}"
        );
    }
}

// A shortened conversation is no failure.
// covers: RUN-10
#[test]
fn in_a_loop_with_a_limit_a_full_context_is_a_permanent_failure() {
    let project = project();
    write_hank(&project, &three_times(), "too long", "retry");
    let finished = project.run(["run", "--headless", "--json"]);
    finished.expect_code(1);
    let state = state(&project);
    assert_eq!(ended(&state, "failed"), ["b#1"]);
    assert_eq!(
        codon(&state["runs"][0], "b#1")["failureReason"]["retriable"],
        false
    );
    assert_eq!(
        iterations(&finished.json_lines())[1..],
        [(json!(1), json!(true), json!("failure"))]
    );

    let project = project_of_compaction();
    project.run(["run", "--headless"]).expect_code(0);
    assert_eq!(ended(&self::state(&project), "completed"), ALL);
}

fn project_of_compaction() -> TestProject {
    let project = project();
    write_hank(&project, &three_times(), "compacted", "abort");
    project
}

// covers: STATE-42
#[test]
fn an_ignored_failure_advances_the_loop() {
    let project = project();
    write_hank(&project, &three_times(), "too long", "ignore");
    project.run(["run", "--headless"]).expect_code(0);
    let state = state(&project);
    assert_eq!(ended(&state, "failed")[0], "b#1");
    assert_eq!(planned(&state), ALL);
    assert_eq!(codon(&state["runs"][0], "end")["status"], "completed");
}

#[test]
fn after_going_back_into_a_loop_its_rest_is_planned_again() {
    let project = project();
    write_hank(&project, &until_full(), "too long", "abort");
    project.run(["run", "--headless"]).expect_code(0);
    assert_eq!(planned(&state(&project)), ["begin", "b#0", "c#0", "b#1", "end"]);
    project.run(["rollback", "--codon", "c#0"]).expect_code(0);
    project.write("again", "");
    let mut running = project.start(["run", "--headless", "--json"]);
    running.wait_for_line(|line| line.contains("\"codon.started\"") && line.contains("c#2"));
    running.signal(Signal::TERM);
    running.finish_within(std::time::Duration::from_secs(60));
    let state = state(&project);
    assert_eq!(planned(&state)[3..7], ["b#1", "c#1", "b#2", "c#2"]);
    assert_eq!(
        ended(&json!({"runs": [state["runs"][0]]}), "completed")[..3],
        ["b#1", "c#1", "b#2"]
    );
}

/// In names of files, iteration 1 of `b` and the codon `b-1` are both `b-1`.
// covers: STATE-4, S10
#[test]
fn codons_whose_files_have_the_same_name_share_none() {
    let project = project();
    let agent = shell_agent(&project);
    let codon = |id: &str, work: &str| {
        json!({"id": id, "name": id, "agent": agent, "model": "shell", "continuationMode": "fresh", "promptText": work,
            "checkpointedFiles": ["*.txt"], "archiveOnSuccess": ["done.txt"]})
    };
    let iterations = json!({"type": "iterationLimit", "limit": 2});
    project.write_hank(&json!({"hank": [
        {"type": "loop", "id": "l", "name": "L", "terminateOn": iterations, "codons": [codon("b", "of the loop")]},
        codon("b-1", "of its own"),
    ]}));
    project.run(["run", "--headless"]).expect_code(0);
    let state = state(&project);
    let logs = state["runs"][0]["codons"].as_array().unwrap().iter();
    let mut logs: Vec<&str> = logs
        .map(|record| record["claudeLogPath"].as_str().unwrap())
        .collect();
    assert!(logs[1].ends_with("/b-1-command.log"), "{logs:?}");
    logs.sort_unstable();
    logs.dedup();
    assert_eq!(logs.len(), 3);
    let text =
        |file: std::io::Result<std::fs::DirEntry>| std::fs::read_to_string(file.unwrap().path()).unwrap();
    let archive = std::fs::read_dir(project.directory().join("rigArchive/b-1")).unwrap();
    let mut archived: Vec<String> = archive.map(text).collect();
    archived.sort_unstable();
    assert_eq!(archived, ["of its own\n", "of the loop\n"]);
}

// covers: HANK-22
#[test]
fn the_commands_of_a_codon_know_its_iteration_as_its_agent_does() {
    let project = project();
    let note = |what: &str| format!("echo {what} $HANKWEAVE_ITERATION $OWN >> noted.txt");
    let inner = json!({"id": "a", "name": "a", "agent": shell_agent(&project), "model": "shell", "continuationMode": "fresh",
        "promptText": "a", "env": {"OWN": "own"}, "rigSetup": [{"type": "command", "command": {"run": note("rig")}}],
        "check": {"run": note("check")}});
    let until = json!({"type": "untilCheckPasses", "run": note("loop") + "; [ $HANKWEAVE_ITERATION = 1 ]", "limit": 3});
    project.write_hank(
        &json!({"hank": [{"type": "loop", "id": "l", "name": "l", "terminateOn": until, "codons": [inner]}]}),
    );
    project.run(["run", "--headless"]).expect_code(0);
    let noted = std::fs::read_to_string(project.directory().join("noted.txt")).unwrap();
    let expected = [
        "rig 0 own",
        "check 0 own",
        "loop 0 own",
        "rig 1 own",
        "check 1 own",
        "loop 1 own",
    ];
    assert_eq!(noted.lines().collect::<Vec<_>>(), expected);
}
