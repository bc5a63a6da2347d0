//! Sentinels next to real agents.

use std::cell::Cell;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hankweave_testing::{Finished, TestProject};
use serde_json::{Value, json};

use crate::support::{assert_usd, codon, project, shell_agent};

/// A sentinel that acts at once on what the agent says, and `more`.
fn sentinel(id: &str, script: &str, more: Value) -> Value {
    let mut config = json!({"id": id, "name": id, "command": ["sh", "-c", script],
        "trigger": {"type": "event", "on": ["assistant.action"]}, "execution": {"strategy": "immediate"}});
    config
        .as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    config
}

/// One codon, watched by these.
fn write_hank(project: &TestProject, prompt: &str, sentinels: Value) {
    let agent = shell_agent(project);
    project.write_hank(
        &json!({"hank": [{"id": "a", "name": "A", "agent": agent, "model": "shell",
        "continuationMode": "fresh", "promptText": prompt, "checkpointedFiles": ["done.txt"], "sentinels": sentinels}]}),
    );
}

fn of<'e>(lines: &'e [Value], kind: &str) -> Vec<&'e Value> {
    let lines = lines.iter().filter(|line| line["type"] == kind);
    lines.map(|line| &line["data"]).collect()
}

fn run(project: &TestProject, code: i32) -> (Finished, Value) {
    let finished = project.run(["run", "--headless", "--json"]);
    finished.expect_code(code);
    let state = project.state(&project.directory());
    (finished, state)
}

// covers: SENT-9
#[test]
fn the_command_of_a_sentinel_may_write_wherever_its_user_may() {
    let project = project();
    let outside = project.home().join("noted");
    let note = format!("cat > '{}'", outside.display());
    write_hank(
        &project,
        "go",
        json!([{"sentinelConfig": sentinel("noter", &note, json!({}))}]),
    );
    run(&project, 0);
    let noted: Value = serde_json::from_slice(&fs::read(&outside).unwrap()).unwrap();
    assert_eq!(
        (&noted["sentinelId"], &noted["codonId"]),
        (&json!("noter"), &json!("a"))
    );
}

// covers: SENT-9, SENT-10, SENT-12, STATE-12
#[test]
fn sentinels_see_what_happens_and_are_drained_before_their_codon_ends() {
    let project = project();
    let narrator =
        r#"input=$(cat); case "$input" in *'"events":['*'"content":"working"'*) echo "it works" ;; esac"#;
    let coster = r#"cat > /dev/null; echo '{"text": "dear", "costDollars": 0.125, "inputTokens": 7}'"#;
    let waits_for_the_end = json!({"execution": {"strategy": "count", "threshold": 900}, "answer": "json"});
    project.write(
        "sentinels/narrator.json",
        sentinel("narrator", narrator, json!({})).to_string(),
    );
    write_hank(
        &project,
        "go",
        json!([
            {"sentinelConfig": "sentinels/narrator.json", "settings": {"reportToWebsocket": {"triggers": true}}},
            {"sentinelConfig": sentinel("coster", coster, waits_for_the_end)},
            {"sentinelConfig": sentinel("broken", "cat > /dev/null; echo no >&2; exit 3", json!({}))},
        ]),
    );
    let (finished, state) = run(&project, 0);
    let lines = finished.json_lines();
    let record = codon(&state["runs"][0], "a");
    let states: Vec<&Value> = of(&lines, "state.transition")
        .into_iter()
        .filter(|data| data["transitionType"] == "CodonTransitioned")
        .map(|data| &data["transition"]["data"]["to"])
        .collect();
    assert_eq!(states[states.len() - 2..], ["completing-sentinels", "completed"]);

    let executed = record["sentinels"]["executed"].as_array().unwrap();
    let figures: Vec<Value> = executed
        .iter()
        .map(|one| {
            json!([
                one["id"],
                one["llmCallCount"],
                one["failedLLMCalls"],
                one["totalTriggers"],
                one["status"],
                one["unloadReason"]
            ])
        })
        .collect();
    assert_eq!(
        figures,
        [
            json!(["narrator", 1, 0, 1, "unloaded", "codon-complete"]),
            json!(["coster", 1, 0, 1, "unloaded", "codon-complete"]),
            json!(["broken", 1, 1, 1, "unloaded", "codon-complete"]),
        ],
        "{:?}",
        of(&lines, "sentinel.error")
    );
    assert_usd(&record["sentinels"]["totalCost"], 0.125);
    let loaded: Vec<&Value> = of(&lines, "sentinel.loaded")
        .iter()
        .map(|data| &data["sentinelId"])
        .collect();
    assert_eq!(loaded, ["narrator", "coster", "broken"]);
    let said: Vec<&Value> = of(&lines, "sentinel.output")
        .iter()
        .map(|data| &data["content"])
        .collect();
    assert_eq!(
        (
            said.len(),
            said.contains(&&json!("it works")),
            said.contains(&&json!("dear"))
        ),
        (2, true, true)
    );
    assert_eq!(of(&lines, "sentinel.triggered").len(), 1);
    assert_eq!(
        of(&lines, "sentinel.error")[0]["message"],
        "the command exited with code 3: no"
    );
    assert_eq!(of(&lines, "sentinel.unloaded").len(), 3);
    let log = project
        .directory()
        .join(".hankweave/outputs/narrator/narrator-a.md");
    assert_eq!(fs::read_to_string(log).unwrap(), "it works");
    assert_eq!(project.left_behind(), []);
}

// covers: SENT-13
#[test]
fn a_sentinel_may_ask_for_what_the_hank_allows_and_nothing_else() {
    let asks = r#"cat > /dev/null; echo '{"ask": "skip", "reason": "enough"}'"#;
    let guard = sentinel("guard", asks, json!({"answer": "json"}));
    // What another one has collected by then, or is at, is dropped, and that is said.
    let busy = sentinel("busy", "cat > /dev/null; exec sleep 600", json!({}));
    let many = json!({"execution": {"strategy": "count", "threshold": 900}});
    let collector = sentinel("collector", "cat > /dev/null; echo seen", many);
    let project = project();
    // Without the skip this agent would wait as good as for ever.
    write_hank(
        &project,
        "wait for go",
        json!([{"sentinelConfig": guard, "settings": {"mayAsk": ["skip"]}}, {"sentinelConfig": collector}, {"sentinelConfig": busy}]),
    );
    let (finished, state) = run(&project, 0);
    assert_eq!(codon(&state["runs"][0], "a")["status"], "skipped");
    let lines = finished.json_lines();
    let told = of(&lines, "info");
    for id in ["collector", "busy"] {
        let dropped =
            format!("sentinel {id}: it did not act once more, because its codon did not wait for it");
        assert!(
            told.iter().any(|data| data["message"] == *dropped),
            "{dropped}: {told:?}"
        );
    }
    // What it asks for is an answer as well, which is kept with its reason.
    assert_eq!(
        of(&finished.json_lines(), "sentinel.output")[0]["content"],
        "enough"
    );
    let said = project.run(["logs", "--sentinel"]).expect_code(0).stdout.clone();
    assert!(said.contains("enough"), "{said}");
    let report = project.run(["report"]).expect_code(0).stdout.clone();
    assert!(report.contains("- `guard` (1 answer, "), "{report}");

    let project = crate::support::project();
    write_hank(&project, "go", json!([{"sentinelConfig": guard}]));
    let (finished, state) = run(&project, 0);
    assert_eq!(codon(&state["runs"][0], "a")["status"], "completed");
    let lines = finished.json_lines();
    let told = of(&lines, "info");
    let refused = "sentinel guard asks for `skip`, which the hank does not allow (mayAsk): enough";
    assert!(told.iter().any(|data| data["message"] == refused), "{told:?}");
}

// covers: SENT-11, SENT-13
#[test]
fn what_a_sentinel_says_is_kept_before_what_it_asks_for_ends_it() {
    let asks = r#"cat > /dev/null; echo '{"text": "enough", "ask": "pause"}'"#;
    let at_the_end = json!({"execution": {"strategy": "count", "threshold": 900}, "answer": "json"});
    let project = project();
    write_hank(
        &project,
        "go",
        json!([{"sentinelConfig": sentinel("s", asks, at_the_end), "settings": {"mayAsk": ["pause"]}}]),
    );
    // Nothing is left to continue, and the exit code alone shows that the sentinel asked.
    let (finished, state) = run(&project, 3);
    assert_eq!(
        of(&finished.json_lines(), "sentinel.output")[0]["content"],
        "enough"
    );
    let end = "Finished: 1 of 1 codon completed; at its end: paused by a sentinel: sentinel s.";
    assert!(finished.stderr.contains(end), "{finished}");
    assert_eq!(state["runs"][0]["status"], "completed");
    let log = project.directory().join(".hankweave/outputs/s/s-a.md");
    assert_eq!(fs::read_to_string(log).unwrap(), "enough");
    let record = &codon(&state["runs"][0], "a")["sentinels"]["executed"][0];
    assert_eq!(
        (&record["failedLLMCalls"], &record["unloadReason"]),
        (&json!(0), &json!("codon-complete"))
    );
}

/// Also of a codon whose work does not pass: what was said until then is what explains it.
// covers: SENT-13
#[test]
fn what_is_left_is_acted_on_when_the_work_of_the_codon_does_not_pass() {
    let project = project();
    let at_the_end = json!({"execution": {"strategy": "count", "threshold": 900}});
    let watched = json!([{"sentinelConfig": sentinel("sum", "cat > /dev/null; echo seen", at_the_end)}]);
    write_hank(&project, "go", watched);
    let mut hank: Value =
        serde_json::from_slice(&fs::read(project.directory().join("hank.json")).unwrap()).unwrap();
    hank["hank"][0]["check"] = json!({"run": "false", "retries": 0});
    project.write_hank(&hank);
    let (finished, state) = run(&project, 1);
    let lines = finished.json_lines();
    assert_eq!(of(&lines, "sentinel.output")[0]["content"], "seen", "{finished}");
    assert!(!finished.stdout.contains("did not act"), "{finished}");
    let record = codon(&state["runs"][0], "a");
    assert_eq!(
        (&record["status"], &record["failedDuring"]),
        (&json!("failed"), &json!("completing-sentinels"))
    );
}

// covers: SENT-13, CLI-14
#[test]
fn a_sentinel_pauses_the_run_with_its_reason_and_the_next_one_continues() {
    let asks = r#"cat > /dev/null; echo '{"ask": "pause", "reason": "it costs too much"}'"#;
    let guard = sentinel("guard", asks, json!({"answer": "json"}));
    let project = project();
    let may = json!([{"sentinelConfig": guard, "settings": {"mayAsk": ["pause"]}}]);
    write_hank(&project, "wait for go", may);
    let paused = project.run(["run", "--headless"]);
    let words = "Paused in a: paused by sentinel guard: it costs too much; 0 of 1 codon completed.";
    assert!(paused.expect_code(3).stderr.contains(words), "{paused}");
    let state = project.state(&project.directory());
    let (run, record) = (&state["runs"][0], codon(&state["runs"][0], "a"));
    let cause = "a: paused by sentinel guard: it costs too much";
    assert_eq!(
        (
            &run["interruptedBy"],
            &run["cause"],
            &record["failureReason"]["interruptedBy"]
        ),
        (&json!("sentinel"), &json!(cause), &json!("sentinel"))
    );
    let status = project.run(["status"]).expect_code(0).stdout.clone();
    let (first, rest) = status.split_once('\n').unwrap();
    assert!(
        first.contains(": paused (asked for by a sentinel), ")
            && (first.contains(", at ") || first.contains(" to "))
            && !first.contains("since")
            && rest.starts_with(&format!("  {cause}\n")),
        "{status}"
    );
    write_hank(&project, "wait for go", json!([]));
    fs::write(project.directory().join("go"), "").unwrap();
    let (_, state) = self::run(&project, 0);
    let (run, session) = (&state["runs"][0], &record["claudeSessionId"]);
    assert_eq!(&run["startingConditions"]["resumedSession"], session);
    assert_eq!(run["status"], "completed");
}

// covers: SENT-7, SENT-13
#[test]
fn a_sentinel_harms_its_codon_only_where_it_is_told_to() {
    let missing = |settings: Value| {
        json!([{"sentinelConfig": {"id": "s", "name": "S", "command": ["no-such-program"],
        "trigger": {"type": "event", "on": ["*"]}, "execution": {"strategy": "immediate"}}, "settings": settings}])
    };
    let project = project();
    write_hank(&project, "go", missing(json!({})));
    let (_, state) = run(&project, 0);
    assert_eq!(codon(&state["runs"][0], "a")["sentinels"], Value::Null);

    let project = crate::support::project();
    write_hank(&project, "go", missing(json!({"failCodonIfNotLoaded": true})));
    let (_, state) = run(&project, 1);
    let reason = &codon(&state["runs"][0], "a")["failureReason"];
    assert_eq!(
        (&reason["type"], &reason["sentinelRefs"]),
        (&json!("sentinel-load-failure"), &json!(["s"]))
    );
    assert!(
        !project.directory().join("done.txt").exists(),
        "no agent has worked"
    );

    let project = crate::support::project();
    let fails = json!({"errorHandling": {"maxConsecutiveFailures": 1, "onError": "failCodon"}});
    write_hank(
        &project,
        "wait for go",
        json!([{"sentinelConfig": sentinel("s", "exit 1", fails)}]),
    );
    let (_, state) = run(&project, 1);
    let record = codon(&state["runs"][0], "a");
    assert_eq!(
        record["failureReason"]["message"],
        "sentinel s failed: the command exited with code 1"
    );
    assert_eq!(
        record["sentinels"]["executed"][0]["unloadReason"],
        "consecutive-failures"
    );
}

// covers: SENT-10, P9
#[test]
fn a_server_killed_while_sentinels_drain_loses_no_figure_and_leaves_no_command() {
    let project = project();
    let waits = "cat > /dev/null; [ -e go ] || exec sleep 600; echo done";
    write_hank(
        &project,
        "work",
        json!([{"sentinelConfig": sentinel("slow", waits, json!({}))}]),
    );
    let mut running = project.start(["run", "--headless", "--json"]);
    let (drains, called) = (Cell::new(false), Cell::new(false));
    running.wait_for_line(|line| {
        drains.set(drains.get() || line.contains(r#""to":"completing-sentinels""#));
        called.set(called.get() || line.contains(r#""llmCallCount":1"#));
        drains.get() && called.get()
    });
    assert_eq!(running.kill().signal, Some(9));
    project.write("go", "");
    project.run(["run", "--headless"]).expect_code(0);
    let state = project.state(&project.directory());
    let crashed = codon(&state["runs"][1], "a");
    assert_eq!(crashed["failedDuring"], "completing-sentinels");
    assert_eq!(crashed["sentinels"]["executed"][0]["llmCallCount"], 1);
    assert_eq!(project.left_behind(), []);
}

/// Runs the example of this name, which `validate` has nothing against, and returns the execution directory.
fn run_example(project: &TestProject, name: &str, code: i32) -> PathBuf {
    let example = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../examples/sentinels")
        .join(name);
    let checked = project.run([Path::new("validate"), &example]);
    assert!(
        checked.expect_code(0).stdout.contains("valid (0 warnings)"),
        "{checked}"
    );
    let execution = project.directory();
    let arguments = [Path::new("run"), &example, Path::new("-e"), &execution];
    project.run(arguments).expect_code(code);
    execution
}

// covers: SENT-9, SENT-11
#[test]
fn the_narrator_of_the_examples_keeps_a_log_in_plain_words() {
    let project = project();
    let execution = run_example(&project, "narrator", 0);
    let log = fs::read_to_string(execution.join(".hankweave/outputs/narrator/narrator-write.md")).unwrap();
    for line in [
        "- it said: I will write the page.",
        "- it used Write",
        "- it said: The page is written.",
    ] {
        assert!(log.lines().any(|said| said == line), "{line} in {log}");
    }
}

// covers: SENT-8, SENT-13
#[test]
fn the_guard_of_the_examples_stops_what_touches_secrets() {
    let project = project();
    let execution = run_example(&project, "guard", 1);
    let state = project.state(&execution);
    assert_eq!(
        codon(&state["runs"][0], "configure")["failureReason"]["message"],
        "stopped by sentinel guard: it touches secrets"
    );
}

// covers: SENT-8, SENT-11, SENT-13
#[test]
fn the_cost_watcher_of_the_examples_tells_costs_and_pauses_the_run() {
    let execution_of = |most: Option<&str>, code| {
        let mut project = project();
        if let Some(most) = most {
            project.set("MOST_DOLLARS", most);
        }
        let execution = run_example(&project, "cost-watcher", code);
        (project, execution)
    };
    let (_project, execution) = execution_of(None, 0);
    assert_eq!(
        fs::read_to_string(execution.join("spent.txt")).unwrap(),
        "$0.0140 of $0.50"
    );
    execution_of(Some("0.001"), 3);
}

/// It keeps what it was given.
const NARRATE: &str = "cat > given.json; echo first; echo second";

/// A project that has run under a narrator, and under a sentinel that always fails.
fn narrated() -> TestProject {
    let project = project();
    let narrator = sentinel("narrator", NARRATE, json!({}));
    let broken = sentinel("broken", "cat > /dev/null; echo no >&2; exit 3", json!({}));
    write_hank(
        &project,
        "go",
        json!([{"sentinelConfig": narrator}, {"sentinelConfig": broken}]),
    );
    run(&project, 0);
    project
}

// covers: CLI-22
#[test]
fn the_log_of_sentinels_is_whole_and_by_sentinel() {
    let project = narrated();
    let logs = |arguments: &[&str]| {
        let finished = project.run([&["logs"], arguments].concat());
        finished.expect_code(0).stdout.clone()
    };
    let narrator = "  ◇ narrator: first\n  ◇ second\n";
    let broken = "  ! broken: the command exited with code 3: no\n";
    for (arguments, has) in [
        (&[][..], [true, true, true]),
        (&["--sentinel"], [true, true, false]),
        (&["a", "--sentinel=narrator"], [true, false, false]),
        (&["--sentinel=broken"], [false, true, false]),
        (&["--agent"], [false, false, true]),
    ] {
        let text = logs(arguments);
        let found = [narrator, broken, "  working\n"].map(|part| text.contains(part));
        assert_eq!(found, has, "{arguments:?}\n{text}");
    }
    let both = project.run(["logs", "--sentinel", "--rig"]);
    both.expect_code(2);
}

// covers: CLI-25, SENT-12
#[test]
fn a_sentinel_is_tried_over_a_recorded_journal_and_nobody_is_asked() {
    let project = narrated();
    let state = || {
        let files = project.files().into_iter();
        files
            .filter(|path| path.iter().any(|name| name == ".hankweave"))
            .collect::<Vec<_>>()
    };
    let before = state();
    let test = |file: &str, code: i32| {
        let tried = project.run(["sentinel", "test", file, "--journal", ".", "--json"]);
        tried.expect_code(code);
        tried
    };

    // What it would be given is what it was given.
    let given = fs::read_to_string(project.directory().join("given.json")).unwrap();
    let given: Value = serde_json::from_str(&given).unwrap();
    project.write(
        "narrator.json",
        sentinel("narrator", NARRATE, json!({})).to_string(),
    );
    let mut tried = test("narrator.json", 0).json_lines();
    assert!(tried[0].as_object_mut().unwrap().remove("at").is_some());
    assert_eq!(tried, [given]);

    // A model is shown what it would read; what is collected is acted on at the end, the last file with it.
    project.write("asks/rules.md", "Rules of {{ codonId }}.");
    let asks = json!({"id": "asks", "name": "Asks", "model": "anthropic/claude-haiku-4-5",
        "userPromptFile": "rules.md", "userPromptText": "{% for event in events %}{{ event.type }} {% endfor %}",
        "trigger": {"type": "event", "on": ["assistant.action", "file.updated"]},
        "execution": {"strategy": "count", "threshold": 900}});
    project.write("asks/asks.json", asks.to_string());
    let tried = test("asks/asks.json", 0).json_lines();
    assert_eq!(
        tried.iter().map(|line| &line["prompt"]).collect::<Vec<_>>(),
        ["Rules of a.\n\nassistant.action file.updated "]
    );
    let human = project.run(["sentinel", "test", "asks/asks.json"]);
    let human = human.expect_code(0);
    assert!(human.stdout.contains("\n  Rules of a.\n"), "{human}");
    assert_eq!(human.stderr, "asks would have acted 1 time in 1 codon\n");

    // Files that the sentinel names may lie anywhere in the hank, and must exist.
    project.write("above.md", "Above {{ codonId }}.");
    let named = |key: &str, file: &str| {
        let mut named = asks.clone();
        named[key] = json!(file);
        project.write("asks/named.json", named.to_string());
    };
    named("userPromptFile", "../above.md");
    let tried = test("asks/named.json", 0).json_lines();
    let prompt = tried[0]["prompt"].as_str().unwrap();
    assert!(prompt.starts_with("Above a."), "{prompt}");
    named("systemPromptFile", "gone.md");
    let missing = test("asks/named.json", 65);
    assert!(missing.stderr.contains("gone.md"), "{missing}");
    let twice = project.run(["sentinel", "test", "asks/asks.json", ".", "-e", "."]);
    assert!(
        twice.expect_code(2).stderr.contains("'--execution <DIR>'"),
        "{twice}"
    );

    // One that nothing makes act says what there was.
    let idle = sentinel(
        "idle",
        "true",
        json!({"trigger": {"type": "event", "on": ["archive.completed"]}}),
    );
    project.write("idle.json", idle.to_string());
    let idle = test("idle.json", 0);
    assert_eq!(idle.stdout, "");
    assert!(
        idle.stderr.contains("never") && idle.stderr.contains("assistant.action"),
        "{idle}"
    );

    project.write("asks/rules.md", "{{ nobody }}");
    assert!(
        test("asks/asks.json", 65)
            .stderr
            .contains("`rules.md` speaks of `nobody`")
    );
    project.write("bad.json", r#"{"id": "Bad", "trigger": {}}"#);
    let bad = test("bad.json", 65).stderr.clone();
    for wrong in [
        "bad.json:1:1: error: name",
        "execution",
        "hankweave schema sentinel",
    ] {
        assert!(bad.contains(wrong), "{wrong}\n{bad}");
    }
    test("missing.json", 65);
    let nobody = project.run(["sentinel", "test", "narrator.json", "--codon", "nobody"]);
    assert!(
        nobody
            .expect_code(65)
            .stderr
            .contains("there is something of: a\n"),
        "{nobody}"
    );

    assert_eq!(state(), before);
}

/// Writes a file, waits for another one, and ends.
const WRITER: &str = r#"cat > /dev/null
printf '{"type":"system","subtype":"init","session_id":"s-1","model":"shell","cwd":"/","tools":[]}\n'
echo one > begun && mv begun one.txt
while [ ! -e go ]; do sleep 0.05; done
printf '{"type":"result","subtype":"success","is_error":false,"session_id":"s-1","result":"done","num_turns":1,"total_cost_usd":0,"usage":{"input_tokens":1,"output_tokens":1}}\n'
"#;

// covers: SENT-9
#[test]
fn what_sentinels_write_themselves_makes_none_of_them_act() {
    let project = project();
    let files = json!({"trigger": {"type": "event", "on": ["file.updated", "filetree.updated"]}, "output": {"file": "notes/log.md"}});
    let notes = sentinel("notes", "cat > /dev/null; echo noted", files);
    let agent = json!({"command": ["sh", project.write("writer.sh", WRITER)], "stream": "claude"});
    project.write_hank(
        &json!({"hank": [{"id": "a", "name": "A", "agent": agent, "model": "shell", "continuationMode": "fresh",
        "promptText": "go", "checkpointedFiles": ["one.txt", "notes/*"], "sentinels": [{"sentinelConfig": notes}]}]}),
    );
    let mut running = project.start(["run", "--headless", "--json"]);
    // The event of the tree with the sentinel's own file comes after the event of that file.
    running.wait_for_line(|line| line.contains("filetree.updated") && line.contains("log.md"));
    project.write("go", "");
    let finished = running.finish_within(Duration::from_secs(60));
    finished.expect_code(0);
    let lines = finished.json_lines();
    let told: Vec<&str> = lines
        .iter()
        .filter(|line| line["type"] == "file.updated")
        .map(|line| line["data"]["path"].as_str().unwrap())
        .collect();
    assert!(told.contains(&"notes/log.md"), "{told:?}");
    // On the file of the agent and on the tree that came with it.
    assert_eq!(of(&lines, "sentinel.output").len(), 2);
}

// covers: SENT-11
#[test]
fn a_program_or_a_file_that_cannot_be_used_is_told_before_the_start() {
    let project = project();
    let missing = sentinel("missing", "", json!({"command": ["no-such-program"]}));
    let outside = sentinel("outside", "true", json!({"output": {"file": "../said.md"}}));
    let settings = json!({"failCodonIfNotLoaded": true});
    let told = [
        "sentinel missing will be left out: the program `no-such-program` was not found",
        "sentinel outside will be left out: `../said.md` leads out of its folder",
    ];
    write_hank(
        &project,
        "go",
        json!([{"sentinelConfig": missing}, {"sentinelConfig": outside}]),
    );
    for command in ["validate", "doctor"] {
        let shown = project.run([command]);
        shown.expect_code(0);
        assert!(told.iter().all(|told| shown.stdout.contains(told)), "{shown}");
    }
    run(&project, 0);

    // A rig may still install a program, but nothing repairs a path.
    write_hank(
        &project,
        "go",
        json!([{"sentinelConfig": missing, "settings": settings}]),
    );
    let shown = project.run(["validate"]).expect_code(0).stdout.clone();
    assert!(
        shown.contains("sentinel missing cannot be loaded: the program"),
        "{shown}"
    );
    project.run(["run", "--headless", "--new"]).expect_code(1);
    write_hank(
        &project,
        "go",
        json!([{"sentinelConfig": outside, "settings": settings}]),
    );
    let refused = project.run(["run", "--headless"]);
    let why = "sentinel outside cannot be loaded: `../said.md` leads out of its folder";
    assert!(refused.expect_code(65).stderr.contains(why), "{refused}");
}

/// An agent that says something 400 times, at most 20 a second.
const TALKATIVE: &str = r#"
printf '{"type":"system","subtype":"init","session_id":"s","model":"claude-sonnet-4-5","cwd":"/","tools":[]}\n'
for number in $(seq 400); do
  printf '{"type":"assistant","session_id":"s","parent_tool_use_id":null,"message":{"id":"m-%s","role":"assistant",' "$number"
  printf '"model":"claude-sonnet-4-5","content":[{"type":"text","text":"on"}],"usage":{"input_tokens":10,"output_tokens":1}}}\n'
  sleep 0.05
done
printf '{"type":"result","subtype":"success","is_error":false,"session_id":"s","result":"done","num_turns":1}\n'
"#;

/// The agent has hardly cost anything; what its sentinel cost has used up the budget of the hank, and not that of the codon.
// covers: SENT-10
#[test]
fn sentinels_that_use_up_the_budget_of_the_hank_pause_the_run() {
    let project = project();
    let agent = project.write("talkative.sh", TALKATIVE);
    let dear = sentinel(
        "dear",
        "cat > /dev/null; echo '{\"text\": \"t\", \"costDollars\": 0.5}'",
        json!({"answer": "json"}),
    );
    project.write_hank(&json!({"overrides": {"budget": {"maxDollars": 1.0}}, "hank": [{"id": "a", "name": "A",
        "agent": {"command": ["sh", agent], "stream": "claude"}, "model": "claude-sonnet-4-5", "continuationMode": "fresh",
        "promptText": "go", "budget": {"maxDollars": 0.4}, "sentinels": [{"sentinelConfig": dear}]}]}));
    let finished = project.run(["run", "--headless"]);
    let stderr = finished.expect_code(3).stderr.clone();
    assert!(stderr.contains("the total budget is used up"), "{finished}");
    let state = project.state(&project.directory());
    let record = codon(&state["runs"][0], "a");
    assert_eq!(record["failureReason"]["interrupted"], true, "{record:#}");
    let told = record["partialTokens"]["outputTokens"].as_u64().unwrap();
    assert!(told < 400, "it was stopped");
}
