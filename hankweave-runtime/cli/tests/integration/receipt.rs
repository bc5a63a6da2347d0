//! The report of a run: what it says, after each end, and to whom it is offered.

use std::time::{Duration, Instant};

use hankweave_testing::TestProject;
use hankweave_testing::processes::Watched;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::guest::Guest;
use crate::support::{assert_usd, port, project, shell_agent, wait_for, writing_agent};

fn codon(agent: &Value, id: &str, prompt: &str) -> Value {
    json!({"id": id, "name": id, "agent": agent, "model": "shell", "continuationMode": "fresh", "promptText": prompt,
        "checkpointedFiles": ["*.txt"]})
}

fn report(project: &TestProject) -> String {
    project.run(["report"]).expect_code(0).stdout.clone()
}

fn read(project: &TestProject, path: &str) -> String {
    std::fs::read_to_string(project.directory().join(path)).unwrap()
}

#[track_caller]
fn assert_has(report: &str, lines: &[&str]) {
    for line in lines {
        assert!(report.contains(line), "`{line}` is not in\n{report}");
    }
}

// covers: CLI-44
#[test]
fn a_report_says_what_was_asked_done_checked_changed_paid_and_approved() {
    let project = project();
    let agent = shell_agent(&project);
    let mut build = codon(&agent, "build", "Build <b>it</b>\nand more");
    build["sentinels"] = json!([{"sentinelConfig": {"id": "watch", "name": "Watch", "command": ["sh", "-c", "cat > /dev/null; echo 'be | careful'"],
        "trigger": {"type": "event", "on": ["codon.completed"]}, "execution": {"strategy": "immediate"}}}]);
    build["check"] = json!({"run": "echo all 3 tests pass"});
    let mut ship = codon(&agent, "ship", "Ship it");
    ship["approval"] = json!("Ship it?");
    let meta = json!({"name": "Release", "version": "1", "description": "Makes a release"});
    project.write_hank(&json!({"meta": meta, "hank": [build, ship]}));
    let notify = r#"cat > news; cp "$HANKWEAVE_REPORT" sent.md"#;
    project
        .run(["run", "--headless", "--notify", notify])
        .expect_code(3);
    let asking = report(&project);
    assert_has(
        &asking,
        &[
            "# ‖ Release: paused (approval needed)",
            "Makes a release",
            "1 of 2 codons, 1 file changed, $0.2500, ",
            "| build (`build`) | completed |",
            "| 1 file changed, +2 −0 | working |",
            "| ship (`ship`) | waits for an approval | - |",
            "- build: Build \\<b\\>it\\</b\\>",
            "- `build`: `echo all 3 tests pass` passed at once: `all 3 tests pass`",
            "Worked on by: command with shell.",
            "> `build`: sentinel watch: be \\| careful",
            "- `watch` (1 answer, ",
            "): be \\| careful",
            "1 file changed since the start, +2 −0",
            "- `done.txt` new, +2 −0",
            "| shell | $0.2500 |",
            "ship waits for an approval",
            "hankweave approve ship",
            "> Ship it? (asked ",
        ],
    );
    // What is next is data as well, and its commands can be typed in any folder.
    let next = project.run(["report", "--json"]).expect_code(0).json_document()["next"].clone();
    let directory = project.directory().canonicalize().unwrap();
    let directory = directory.display();
    assert_eq!(next["outlook"], "ship waits for an approval");
    assert_eq!(
        (&next["question"]["codonId"], &next["question"]["question"]),
        (&json!("ship"), &json!("Ship it?"))
    );
    let commands = next["commands"].as_array().unwrap();
    let onward = format!("hankweave approve ship -e {directory} && hankweave run {directory}");
    assert!(
        commands[0]["command"].as_str().unwrap().starts_with(&onward),
        "{next:#}"
    );
    assert_eq!(commands[0]["effect"], "lets ship begin");
    for next in commands {
        let command = next["command"].as_str().unwrap();
        assert!(command.contains(&directory.to_string()), "{command}");
        assert!(asking.contains(&format!("`{command}`: ")), "{command}\n{asking}");
    }
    // The run writes the report, and its notification names it; the commands in it name the directory.
    let until_next = |text: &str| text.split("## What is next").next().unwrap().to_owned();
    let written = read(&project, ".hankweave/report.md");
    assert_eq!(until_next(&written), until_next(&asking));
    assert_eq!(read(&project, "sent.md"), written);
    let news: Value = serde_json::from_str(&read(&project, "news")).unwrap();
    assert!(
        news["report"].as_str().unwrap().ends_with(".hankweave/report.md"),
        "{news}"
    );

    project
        .run(["approve", "ship", "--reason", "looks | *good*"])
        .expect_code(0);
    let second = project.run(["run", "--headless"]);
    second.expect_code(0);
    assert!(
        !second.stdout.contains("has been put back"),
        "the old report was removed by the run itself: {second}"
    );
    let done = report(&project);
    assert_has(
        &done,
        &[
            "# ✓ Release: completed",
            "2 of 2 codons",
            "$0.5000",
            "2 runs",
            "ship: approved by ",
            ": looks \\| \\*good\\*",
            "Nothing is left to do",
            "| Waits, pauses and time between codons | | ",
            "| From start to end | | ",
        ],
    );
    // A run that finds nothing to do leaves the report of the one before.
    let written = read(&project, ".hankweave/report.md");
    project.run(["run", "--headless"]).expect_code(0);
    assert_eq!(read(&project, ".hankweave/report.md"), written);
    let json = project.run(["report", "--json"]).expect_code(0).json_document();
    assert_eq!((&json["state"], &json["runs"]), (&json!("completed"), &json!(2)));
    assert_eq!(json["sentinels"]["watch"]["says"], "be | careful");
    assert_eq!(json["files"]["lines"], json!({"added": 3, "removed": 0}));
    assert_eq!(json["codons"][0]["checks"][0]["passed"], true);
    project.run(["undo"]).expect_code(0);
    let undone = read(&project, ".hankweave/report.md");
    assert_has(
        &undone,
        &[
            "completed, then undone: back to checkpoint ",
            "the files went back to checkpoint ",
        ],
    );
    let html = project.run(["report", "--html"]).expect_code(0).stdout.clone();
    assert!(
        html.starts_with("<!doctype html>") && html.contains("Build &lt;b&gt;it"),
        "{html}"
    );
    assert!(
        html.contains("<table>") && !html.contains("<b>") && !html.contains("<script"),
        "{html}"
    );
}

/// Files that a stopped attempt has left are in a checkpoint, also while the next one continues with them; those of a later attempt are those of all.
// covers: CLI-44, HANK-66
#[test]
fn what_an_earlier_attempt_left_in_a_checkpoint_is_not_without_one() {
    let project = project();
    let agent = writing_agent(
        &project,
        "test -e half.txt || echo half > half.txt; exec sleep 600",
    );
    project.write_hank(&json!({"hank": [codon(&agent, "a", "go")]}));
    let mut first = project.start(["run", "--headless"]);
    first.wait_for_line(|line| line.contains("so far"));
    wait_for(&project.directory().join("half.txt"));
    first.signal(Signal::INT);
    first.finish_within(Duration::from_secs(60)).expect_code(130);
    assert_has(&report(&project), &[" 1 file changed, "]);
    let mut again = project.start(["run", "--headless", "--recover", "session"]);
    again.wait_for_line(|line| line.contains("so far"));
    let at_work = report(&project);
    assert_has(
        &at_work,
        &[" 1 file changed, ", "> `a`: 1 file changed so far, `half.txt`, "],
    );
    assert!(
        !at_work.contains("without a checkpoint") && !at_work.contains("no checkpoint has"),
        "{at_work}"
    );
    again.signal(Signal::INT);
    let stopped = again.finish_within(Duration::from_secs(60));
    assert_has(&stopped.expect_code(130).stderr, &[" 1 file in all "]);
    assert_has(&stopped.stdout, &["changed 1 file in all"]);
    let all = project.run(["history", "--all"]).expect_code(0).stdout.clone();
    let rows: Vec<&str> = all.lines().filter(|line| line.contains("1 file")).collect();
    assert_eq!(
        rows.iter()
            .map(|row| row.contains("1 file in all"))
            .collect::<Vec<_>>(),
        [true, false],
        "{all}"
    );
}

// covers: CLI-44
#[test]
fn a_report_is_true_after_a_kill_and_before_the_first_run() {
    let project = project();
    project.run(["report"]).expect_code(65);
    project.write("kept.txt", "mine\n");
    let agent = writing_agent(
        &project,
        "echo half > half.txt; echo more >> kept.txt; exec sleep 600",
    );
    project.write_hank(&json!({"hank": [codon(&agent, "a", "go"), codon(&agent, "b", "later")]}));
    let mut running = project.start(["run", "--headless"]);
    running.wait_for_line(|line| line.contains("so far"));
    until_changed(&project, "kept.txt", "mine\n");
    running.kill();
    let written = project.directory().join(".hankweave/report.md");
    assert!(!written.exists(), "it says nothing of the run that works");
    let report = report(&project);
    assert_has(
        &report,
        &[
            ": crashed",
            "0 of 2 codons",
            "at least $0.3",
            "| a (`a`) | crashed",
            "| so far |",
            "a crashed",
            "hankweave run",
            "**The run crashed: its process ended without recording why while a was at work, at ",
            "0 of 2 codons, 2 files changed without a checkpoint, ",
            "> `a`: left 2 files changed, `half.txt`, `kept.txt`, what you have changed since included, which `hankweave diff a -e ",
            "; asks first on a terminal; takes back what you have changed since as well, into a checkpoint\n",
            "a crashed; the next run continues there. After that: `b`.\n",
        ],
    );
    let json = project.run(["report", "--json"]).expect_code(0).json_document();
    let (codon, attempt) = (&json["codons"][0], &json["attempts"][0]);
    for key in [
        "state",
        "why",
        "cost",
        "costIsLowerBound",
        "workedMs",
        "timeIsUnknown",
    ] {
        assert_eq!(attempt[key], codon[key], "{key}: {json:#}");
    }
    assert_eq!(attempt["costIsLowerBound"], true);
    let lived = attempt["workedMs"].as_u64().unwrap();
    assert!(
        lived > 0 && json["workedMs"].as_u64().unwrap() >= lived,
        "{json:#}"
    );
    let status = project.run(["status", "--json"]).expect_code(0).json_document();
    assert_eq!(
        status["run"]["workedMs"], lived,
        "status and report tell one time"
    );
    assert_eq!(json["money"]["byModel"]["claude-sonnet-4-5"]["atLeast"], true);
    let shown: Vec<&str> = codon["unsaved"]["command"]
        .as_str()
        .unwrap()
        .split(' ')
        .skip(1)
        .collect();
    let shown = project.run(shown).expect_code(0).stdout.clone();
    assert!(shown.contains("+half") && shown.contains("+more"), "{shown}");
    let last = project.run(["journal", "--json"]);
    let last = last.json_lines().pop().unwrap()["timestamp"].clone();
    let crash = json["occasions"].as_array().unwrap().last().unwrap().clone();
    assert_eq!(crash["at"], last, "the run lived then at least");

    // The next start does not change when that was.
    project.run(["run", "--headless", "--max-time", "1", "--recover", "crash-point"]);
    let later = project.run(["report", "--json"]).expect_code(0).json_document();
    let occasions = later["occasions"].as_array().unwrap();
    let recorded = occasions.iter().find(|occasion| {
        occasion["what"]
            .as_str()
            .unwrap()
            .starts_with("the run crashed: ")
    });
    let recorded = recorded.unwrap_or_else(|| panic!("{later:#}"));
    assert_eq!(recorded["at"], last);
    let words = recorded["what"].as_str().unwrap();
    assert!(
        words.contains("while a was at work") && words.contains("that was found at "),
        "{words}"
    );
    let attempts = later["attempts"].as_array().unwrap();
    assert_eq!(
        (
            &attempts[0]["state"],
            &attempts[0]["timeIsUnknown"],
            &attempts[1]["number"]
        ),
        (&json!("crashed"), &json!(true), &json!(1))
    );
    assert_eq!(attempts[0]["workedMs"], lived);
    let state = project
        .run(["state", "show", "--json"])
        .expect_code(0)
        .json_document();
    assert_eq!(state["runs"][1]["codons"][0]["durationMs"], lived, "{state:#}");
    let status = project.run(["status", "--json"]).expect_code(0).json_document();
    let own = status["run"]["workedMs"].as_u64().unwrap();
    assert_eq!(later["workedMs"], own + lived);
    // What was undone is the money of its model as well.
    let models = later["money"]["byModel"].as_object().unwrap();
    assert_eq!(models.keys().collect::<Vec<_>>(), ["claude-sonnet-4-5"]);
    assert_usd(&models["claude-sonnet-4-5"]["cost"], 0.6);
}

/// Waits until a file no longer holds this text.
fn until_changed(project: &TestProject, path: &str, before: &str) {
    while read(project, path) == before {
        std::thread::yield_now();
    }
}

// covers: CLI-44
#[test]
fn a_run_that_was_killed_at_a_question_ended_then_whenever_that_is_answered() {
    let project = project();
    let agent = shell_agent(&project);
    let mut ship = codon(&agent, "ship", "Ship it");
    ship["approval"] = json!("Ship it?");
    project.write_hank(&json!({"hank": [codon(&agent, "build", "go"), ship, codon(&agent, "tell", "go")]}));
    let begun = project
        .run(["run", "--detach", "--json"])
        .expect_code(0)
        .json_document();
    let mut follower = project.start(["attach", "--json", "--after", "0"]);
    follower.wait_for_line(|line| line.contains("approval.requested"));
    let watching = project.start(["attach"]);
    watching.wait_for_word(|line| line.contains("attached"));
    let run = Watched::new(u32::try_from(begun["pid"].as_u64().unwrap()).unwrap()).unwrap();
    let pid = Pid::from_raw(i32::try_from(begun["pid"].as_i64().unwrap()).unwrap()).unwrap();
    kill_process(pid, Signal::KILL).unwrap();
    assert!(run.ends_within(Duration::from_secs(60)));
    follower.kill();
    let watched = watching.finish_within(Duration::from_secs(60));
    let crashed = "the run has ended: crashed; `hankweave status` tells how to continue";
    assert!(
        format!("{}", watched.expect_code(0)).contains(crashed),
        "{watched}"
    );
    let since = || {
        let status = project.run(["status", "--json"]).expect_code(0).json_document();
        status["approval"]["since"].as_str().unwrap().to_owned()
    };
    let first = since();
    let cause =
        "**The run crashed: its process ended without recording why while ship waited for an approval, at ";
    let before = project.run(["report", "--json"]).expect_code(0).json_document();
    assert_has(
        &report(&project),
        &[
            cause,
            " at the earliest.\n",
            "ship waits for an approval. After that: `tell`.\n",
            &format!(
                "&& hankweave run {} --detach`: lets ship begin",
                project.directory().canonicalize().unwrap().display()
            ),
        ],
    );
    project.run(["approve", "ship"]).expect_code(0);
    assert_has(&report(&project), &[cause, ": crashed\n", " at the earliest.\n"]);
    let after = project.run(["report", "--json"]).expect_code(0).json_document();
    assert!(before["ended"].is_string(), "{before:#}");
    for key in ["ended", "endedIsLowerBound", "cause"] {
        assert_eq!(after[key], before[key], "{key}");
    }
    let answer = after["occasions"].as_array().unwrap().last().unwrap();
    assert!(answer["waitedMs"].is_u64(), "{answer}");
    // After a rollback the question is another one, with a time of its own.
    project
        .run(["rollback", "--codon", "build", "--yes"])
        .expect_code(0);
    project.run(["run", "--headless"]).expect_code(3);
    assert_ne!(since(), first);
    assert_eq!(project.left_behind(), []);
}

// covers: CLI-44
#[test]
fn a_run_that_waits_for_a_person_has_left_its_report() {
    let project = project();
    let agent = shell_agent(&project);
    let mut ship = codon(&agent, "ship", "Ship it");
    ship["approval"] = json!("Ship it?");
    project.write_hank(&json!({"hank": [codon(&agent, "build", "go"), ship]}));
    let mut run = project.start(["run", "--headless", "--json", "--no-autostart"]);
    let written = project.directory().join(".hankweave/report.md");
    run.wait_for_line(|line| line.contains("\"server.idle\""));
    while !written.exists() {
        std::thread::yield_now();
    }
    project.run(["next"]).expect_code(0);
    run.wait_for_line(|line| line.contains("\"approval.requested\""));
    while !std::fs::read_to_string(&written).is_ok_and(|text| text.contains("> Ship it? (asked ")) {
        std::thread::yield_now();
    }
    assert_has(
        &read(&project, ".hankweave/report.md"),
        &[
            "waiting for an approval",
            "1 of 2 codons",
            "hankweave approve ship",
        ],
    );
    run.kill();
}

// covers: CLI-44
#[test]
fn the_report_of_a_run_that_waits_follows_a_rollback() {
    let project = project();
    let agent = shell_agent(&project);
    let codons = ["a", "b", "c"].map(|id| codon(&agent, id, "go"));
    project.write_hank(&json!({"hank": codons}));
    let mut run = project.start(["run", "--headless", "--json", "--no-autostart"]);
    run.wait_for_line(|line| line.contains("\"server.idle\""));
    let written = project.directory().join(".hankweave/report.md");
    let says = |progress: &str| {
        let end = Instant::now() + Duration::from_secs(60);
        while !std::fs::read_to_string(&written).is_ok_and(|text| text.contains(progress)) {
            assert!(Instant::now() < end, "no report with {progress}");
            std::thread::yield_now();
        }
    };
    for progress in ["1 of 3 codons", "2 of 3 codons"] {
        project.run(["next"]).expect_code(0);
        says(progress);
    }
    project.run(["rollback", "--codon", "a", "--yes"]).expect_code(0);
    says("1 of 3 codons");
    run.kill();
}

// covers: CLI-44
#[test]
fn a_report_names_files_of_each_codon_and_commands_of_clients_in_plain_words() {
    let mut project = project();
    project.set("LOGNAME", "ada");
    let many = writing_agent(
        &project,
        r#"for n in 1 2 3 4 5 6 7; do echo $n > f$n.txt; done
echo '{"type":"result","subtype":"success","is_error":false,"session_id":"s-1","result":"done","total_cost_usd":0.3,"usage":{"input_tokens":1,"output_tokens":1}}'"#,
    );
    let few = shell_agent(&project);
    project.write_hank(&json!({"hank": [codon(&many, "many", "go"), codon(&few, "few", "go")]}));
    let running = project.start(["run", "--headless", "--no-autostart"]);
    port(&project.directory());
    let mut guest = Guest::enter(&project.directory(), "readandwrite");
    guest.idle("startup");
    for id in ["1", "2"] {
        assert_eq!(guest.command(id, "codon.next")["type"], "command.ack");
        guest.until(|message| message["type"] == "codon.completed");
        guest.until(|message| message["type"] == "server.idle");
    }
    project.run(["stop", "--reason", "it is late"]).expect_code(0);
    running.finish_within(Duration::from_secs(60)).expect_code(0);
    let report = report(&project);
    let directory = project.directory().canonicalize().unwrap();
    assert_has(
        &report,
        &[
            "Files that each changed:\n",
            &format!(
                "- `many`: `f1.txt` new, `f2.txt` new, `f3.txt` new, `f4.txt` new, `f5.txt` new and 2 more: `hankweave diff many -e {}`\n",
                directory.display()
            ),
            "- `few`: `done.txt` new\n",
            ": next codon many started by client ",
            ": stopped by ada: it is late\n",
        ],
    );
    assert!(
        !report.contains("codon.next") && !report.contains("server.shutdown"),
        "{report}"
    );
    let json = project.run(["report", "--json"]).expect_code(0).json_document();
    assert_eq!(json["codons"][0]["changes"].as_array().unwrap().len(), 7);
    assert_eq!(
        json["codons"][1]["changes"],
        json!([{"path": "done.txt", "kind": "added"}])
    );
    let occasions = json["occasions"].as_array().unwrap().iter();
    let commands: Vec<&Value> = occasions
        .map(|occasion| &occasion["command"])
        .filter(|name| name.is_string())
        .collect();
    assert_eq!(commands, ["codon.next", "codon.next", "server.shutdown"]);
}

// covers: CLI-44
#[test]
fn a_report_says_whether_work_passed_at_once() {
    let project = project();
    let script = |first: &str, later: &str| {
        let command = format!("if [ ${{SESSION_TURN}} = 1 ]; then {first}; else {later}; fi");
        json!({"turns": [{"text": "Done.", "tools": [{"bash": {"command": command}}]}]}).to_string()
    };
    project.write("late.json", script("true", "touch late.txt"));
    let late = json!({"script": "late.json"});
    let mut checked = codon(&late, "checked", "go");
    checked["check"] = json!({"run": "test -e late.txt", "retries": 2});
    project.write("needed.json", script("true", "touch needed.txt"));
    let mut required = codon(&json!({"script": "needed.json"}), "required", "go");
    required["requires"] = json!(["needed.txt"]);
    for codon in [&mut checked, &mut required] {
        codon["model"] = json!("claude-sonnet-4-5");
    }
    project.write_hank(&json!({"hank": [checked, required]}));
    project.run(["run", "--headless"]).expect_code(0);
    assert_has(
        &report(&project),
        &[
            "- `checked`: `test -e late.txt` passed at try 2; it failed once before",
            "- `required`: requires changes of needed.txt (met at try 2)\n",
        ],
    );
}

// covers: CLI-14, CLI-44
#[test]
fn processes_that_a_crash_has_left_are_named_with_what_ends_them() {
    let project = project();
    // In a session of its own it outlives its agent.
    let agent = writing_agent(&project, "setsid sleep 600 & echo $! > pid; exec sleep 600");
    project.write_hank(&json!({"hank": [codon(&agent, "a", "go")]}));
    let mut running = project.start(["run", "--headless"]);
    running.wait_for_line(|line| line.contains("so far"));
    let pid = || std::fs::read_to_string(project.directory().join("pid")).unwrap_or_default();
    while pid().trim().is_empty() {
        std::thread::yield_now();
    }
    running.kill();
    let pid = pid().trim().to_owned();
    let status = project.run(["status"]).expect_code(0).stdout.clone();
    assert_has(
        &status,
        &[
            "its process ended without recording why while a was at work, at ",
            &format!("{pid}; the next run ends what it left, `kill "),
        ],
    );
    let kill = format!("{pid}; the next run ends what it left, `kill ");
    assert_has(&report(&project), &["## Remarks", &kill]);
    let html = project.run(["report", "--html"]).expect_code(0).stdout.clone();
    assert!(html.contains("<code>kill ") && !html.contains('`'), "{html}");
    let json = project.run(["status", "--json"]).expect_code(0).json_document();
    let left = json["crash"]["leftRunning"].as_array().unwrap();
    assert!(left.contains(&json!(pid.parse::<i32>().unwrap())), "{left:?}");
    project.run(["run", "--headless", "--max-time", "1", "--recover", "crash-point"]);
    let status = project.run(["status", "--json"]).expect_code(0).json_document();
    assert_eq!(status["crash"], Value::Null);
    assert_has(&report(&project), &["that a crashed run had left behind w"]);
}

// covers: CLI-44
#[test]
fn a_report_names_run_directory_date_requirements_forks_and_undone_codons() {
    let project = project();
    let agent = shell_agent(&project);
    let mut plan = codon(&agent, "plan", "plan");
    plan["requires"] = json!(["done.txt"]);
    let mut idle = codon(&agent, "idle", "plan");
    idle["requires"] = json!(["other.md"]);
    project.write_hank(&json!({"hank": [plan, idle]}));
    project.run(["run", "--headless"]).expect_code(1);
    let json = project.run(["report", "--json"]).expect_code(0).json_document();
    let (run, directory) = (
        json["runId"].as_str().unwrap(),
        project.directory().canonicalize().unwrap(),
    );
    let year = &json["began"].as_str().unwrap()[..2];
    assert_has(
        &report(&project),
        &[
            &format!("Run `{run}` in `{}`, started {year}", directory.display()),
            ", ended 2",
            "What the hank says besides:\n\n- `plan`: requires changes of done.txt (met at once)\n- `idle`: requires changes of other.md (not met, after 1 reminder)\n",
        ],
    );
    project
        .run(["run", "--headless", "--recover", "last-success"])
        .expect_code(1);
    assert_has(
        &report(&project),
        &[
            "Run 2, `",
            "| Undone or run again: `idle` | 1 attempt |",
            "- `idle`, an earlier attempt: ",
            ", failed, undone or run again: ",
            "- `idle`, attempt 1: ",
        ],
    );
}

// covers: CLI-44
#[test]
fn the_money_of_a_report_adds_up_over_failed_runs_and_new_plans() {
    let project = project();
    let agent = writing_agent(&project, "exit 3");
    project.write_hank(&json!({"hank": [codon(&agent, "a", "go")]}));
    project.run(["run", "--headless"]).expect_code(1);
    project
        .run(["run", "--headless", "--recover", "crash-point"])
        .expect_code(1);
    project.run(["run", "--headless", "--new"]).expect_code(1);
    let money = project.run(["report", "--json"]).expect_code(0).json_document()["money"].clone();
    let rows = money["byModel"].as_object().unwrap().values();
    let sum: f64 = rows.map(|row| row["cost"].as_f64().unwrap()).sum();
    assert_usd(&money["spent"], 0.9);
    assert_usd(&money["spent"], sum);
    assert_has(
        &report(&project),
        &[
            "| Before the run that started over | - | ",
            "s | at least $0.6000 |",
        ],
    );
}

// covers: CLI-44
#[test]
fn a_failure_is_reported_with_its_cause() {
    let project = project();
    let agent =
        json!({"command": ["sh", "-c", "cat > /dev/null; echo broken >&2; exit 7"], "stream": "claude"});
    project.write_hank(&json!({"hank": [codon(&agent, "a", "go")]}));
    project.run(["run", "--headless"]).expect_code(1);
    assert_has(
        &report(&project),
        &["# ✗ ", ": failed", "> `a`: ", "broken", "## What is next"],
    );
}

// covers: CLI-44
#[test]
fn a_report_names_the_files_of_each_rollback_and_the_command_that_brings_them_back() {
    let project = project();
    let agent = shell_agent(&project);
    project.write_hank(&json!({"hank": [codon(&agent, "a", "go")]}));
    project.write("mine.txt", "mine\n");
    project.run(["run", "--headless"]).expect_code(0);
    project.write("mine.txt", "other\n");
    project.run(["undo"]).expect_code(0);
    let json = project.run(["report", "--json"]).expect_code(0).json_document();
    let back = &json["rollbacks"][0];
    let safety = back["safety"].as_str().unwrap();
    let directory = project.directory().canonicalize().unwrap();
    let brings_back = format!(
        "hankweave rollback --to {} -e {}",
        &safety[..12],
        directory.display()
    );
    assert_eq!(
        (&back["command"], &back["count"], &back["bringsBack"]),
        (&json!("undo"), &json!(2), &json!(brings_back))
    );
    assert_eq!(
        back["changes"],
        json!([{"path": "done.txt", "kind": "deleted"}, {"path": "mine.txt", "kind": "modified"}])
    );
    assert_has(
        &report(&project),
        &[
            "## Rollbacks",
            "`undo` went back to checkpoint ",
            " before the first codon, 2 files changed. Checkpoint ",
            " holds what it replaced; `git --git-dir=",
            ":FILE` prints a file of it; `hankweave rollback --to ",
            "` brings all of it back",
            "  - `done.txt` deleted\n  - `mine.txt` changed\n",
        ],
    );
    // What was put aside differs from what came in its place.
    let aside = project.run(["diff", safety]);
    assert_has(&aside.stdout, &["+other", "done.txt"]);
    let shown = project.run(["checkpoints", "show", safety]);
    assert_has(&shown.stdout, &["mine.txt", "done.txt"]);
    let html = project.run(["report", "--html"]).expect_code(0).stdout.clone();
    assert_has(
        &html,
        &[
            "<h2>Rollbacks</h2>",
            "<code>done.txt</code> deleted",
            &brings_back,
        ],
    );
    let command: Vec<&str> = brings_back.split(' ').skip(1).collect();
    project.run(command).expect_code(0);
    assert_eq!(
        (read(&project, "mine.txt"), read(&project, "done.txt")),
        ("other\n".to_owned(), "go\n".to_owned())
    );

    // Once codons have started since, the command undoes their work, and the report says so.
    project.run(["undo"]).expect_code(0);
    project.run(["run", "--headless", "--new"]).expect_code(0);
    let json = project.run(["report", "--json"]).expect_code(0).json_document();
    for back in json["rollbacks"].as_array().unwrap() {
        assert_eq!(back["takesBack"], json!(["a"]), "{json:#}");
    }
    let lines = report(&project);
    assert_has(
        &lines,
        &[
            "` brings all of it back, but also undoes `a`, which came after it, with every file that a checkpoint has saved since, yours too\n",
        ],
    );
    assert!(!lines.contains("` brings all of it back\n"), "{lines}");
}

/// A report of a failure shows at its top the cause, the used part of every limit, the work that is left, and how to see all changes. A rollback to
/// its end does not run its set-up again.
// covers: CLI-44, CLI-4, STATE-57
#[test]
fn a_report_of_a_failure_says_why_at_its_top_and_what_is_still_to_do() {
    let project = project();
    let agent = shell_agent(&project);
    let mut build = codon(&agent, "build", "go");
    build["check"] = json!({"run": "echo still red; false", "retries": 0});
    build["rigSetup"] = json!([{"type": "command", "command": {"run": "echo ready > rig.txt"}}]);
    let mut notes = codon(&agent, "notes", "Write the notes");
    notes["requires"] = json!("changes");
    notes["approval"] = json!("Write them?");
    project.write_hank(&json!({"overrides": {"budget": {"maxTimeSeconds": 3600}}, "hank": [build, notes]}));
    project.run(["run", "--headless"]).expect_code(1);
    let failed = report(&project);
    assert_has(
        &failed,
        &[
            "\n**build failed: the check `echo still red; false` has not passed",
            " of 1h0m at work",
            "| notes (`notes`) | planned, asks first | - | - | - | is to do: Write the notes; requires a changed file |",
            "since the start, +",
            ": `hankweave diff ",
            "rolls back to the end of the set-up of build, which is not run again, for nothing has completed",
            "keeps the files and runs build again, with its set-up",
        ],
    );
    let (_, command) = failed.split_once("`hankweave diff ").unwrap();
    let range = command.split('`').next().unwrap();
    let diff = project.run(["diff", range.split(' ').next().unwrap()]);
    assert_has(&diff.expect_code(0).stdout, &["done.txt"]);
    let happened = failed.split_once("## What happened").unwrap().1;
    let first = happened.lines().find(|line| line.starts_with("- ")).unwrap();
    assert!(first.split(':').count() > 4, "with seconds: {first}");
    // What is said holds: the first way leaves the rig out, the second one runs it.
    std::fs::remove_file(project.directory().join("rig.txt")).unwrap();
    project
        .run(["run", "--headless", "--recover", "crash-point"])
        .expect_code(1);
    assert!(project.directory().join("rig.txt").exists());
}

// covers: CLI-44
#[test]
fn a_report_after_an_undo_of_everything_has_what_was_spent_and_no_cause() {
    let project = project();
    let agent = shell_agent(&project);
    let mut ship = codon(&agent, "ship", "Ship it");
    ship["approval"] = json!("Ship it?");
    project.write_hank(&json!({"hank": [codon(&agent, "build", "go"), ship]}));
    project.run(["run", "--headless"]).expect_code(3);
    assert_has(
        &report(&project),
        &["\n**ship: it waits for an approval: Ship it?**\n", "| working |"],
    );
    project.run(["undo", "--yes"]).expect_code(0);
    let undone = report(&project);
    assert_has(
        &undone,
        &[
            "| build (`build`) | planned | - | - | - | is to do: go |",
            "| ship (`ship`) | planned, asks first | - | - | - | is to do: Ship it |",
            "| Undone or run again: `build` | 1 attempt | ",
            "| All | | ",
            "- `build`, an earlier attempt: ",
        ],
    );
    assert!(
        !undone.contains("None has started") && !undone.contains("**ship"),
        "{undone}"
    );
    let cost = project.run(["cost"]).expect_code(0).stdout.clone();
    let row = cost.lines().find(|line| line.trim_start().starts_with("build "));
    assert!(
        row.is_some_and(|row| row.ends_with("  undone or run again")),
        "{cost}"
    );
}

// covers: CLI-44
#[test]
fn words_of_an_attempt_that_was_undone_are_none_of_the_next_one() {
    let project = project();
    let said = json!({"script": "said.json"});
    project.write(
        "said.json",
        json!({"turns": [{"text": "The old words."}]}).to_string(),
    );
    project.write_hank(&json!({"hank": [codon(&said, "a", "go")]}));
    project.run(["run", "--headless"]).expect_code(0);
    project.run(["undo", "--yes"]).expect_code(0);
    project.write(
        "said.json",
        json!({"turns": [], "result": {"message": "Refused"}}).to_string(),
    );
    project.run(["run", "--headless"]).expect_code(1);
    let json = project.run(["report", "--json"]).expect_code(0).json_document();
    assert_eq!(json["codons"][0]["did"], Value::Null, "{json:#}");
}

// covers: CLI-44
#[test]
fn a_report_says_who_approved_after_all_when_that_counts_no_longer_and_that_a_budget_was_raised() {
    let project = project();
    let agent = shell_agent(&project);
    let mut ship = codon(&agent, "ship", "Ship it");
    ship["approval"] = json!("Ship it?");
    let mut hank = json!({"hank": [codon(&agent, "build", "go"), ship]});
    for codon in hank["hank"].as_array_mut().unwrap() {
        codon["model"] = json!("claude-sonnet-4-5");
    }
    project.write_hank(&hank);
    project
        .run(["run", "--headless", "--max-cost", "2"])
        .expect_code(3);
    project
        .run(["approve", "--deny", "--reason", "not on a Friday"])
        .expect_code(0);
    project
        .run(["run", "--headless", "--max-cost", "3"])
        .expect_code(3);
    assert_has(&report(&project), &["**ship: denied by "]);
    project
        .run(["approve", "ship", "--reason", "it is Monday"])
        .expect_code(0);
    let user = project.run(["status", "--json"]).expect_code(0).json_document();
    let user = user["view"]["cause"].as_str().unwrap().to_owned();
    assert!(
        user.starts_with("ship: approved by ") && user.ends_with(": it is Monday"),
        "{user}"
    );
    let approved = report(&project);
    assert_has(
        &approved,
        &[
            "| ship (`ship`) | planned, approved | ",
            ": paused (approved since then)\n",
            &format!("**{user}**"),
            ": the total budget is $3.0000, and was $2.0000 before\n",
        ],
    );
    project
        .run(["rollback", "--codon", "build", "--yes"])
        .expect_code(0);
    assert_has(
        &report(&project),
        &[": the answer to the approval counts no longer\n"],
    );
    project
        .run(["run", "--headless", "--max-cost", "3"])
        .expect_code(3);
    project.run(["approve", "ship"]).expect_code(0);
    project
        .run(["run", "--headless", "--max-cost", "3"])
        .expect_code(0);
    assert_has(&report(&project), &["- `ship`: asks first: approved by "]);
}

// covers: CLI-44
#[test]
fn a_report_says_what_an_approval_lets_begin_what_failed_before_and_why_a_sum_is_a_lower_bound() {
    let project = project();
    let agent = shell_agent(&project);
    let mut build = codon(&agent, "build", "Build the page");
    build["check"] = json!({"run": "echo tried >> tries; echo \"$(wc -l < tries) of 3\"; test $(wc -l < tries) -ge 3", "retries": 2});
    let mut ship = codon(&agent, "ship", "Ship <%AGENT_ROOT%>/page");
    ship["approval"] = json!("Ship it?");
    ship["requires"] = json!(["out.md"]);
    project.write_hank(&json!({"hank": [build, ship]}));
    project.run(["run", "--headless"]).expect_code(3);
    let root = project.directory().canonicalize().unwrap();
    let root = root.to_string_lossy().replace('_', "\\_");
    assert_has(
        &report(&project),
        &[
            "passed at try 3: `3 of 3`; it failed 2 times before, the last time with `2 of 3`\n",
            "| ship (`ship`) | waits for an approval | - | - | - | - |",
            &format!("`ship` is to do: Ship {root}/page; requires changes of out.md; on "),
        ],
    );
    let status = project.run(["status"]).expect_code(0).stdout.clone();
    assert!(status.contains("\n  ship   waits for an approval\n"), "{status}");
    assert!(status.contains("asks about ship again"), "{status}");
    project.run(["approve", "--deny"]).expect_code(0);
    let denied = report(&project);
    assert!(
        denied.contains("| ship (`ship`) | denied | ") && denied.contains("**ship: denied by "),
        "{denied}"
    );

    project.run(["undo", "--yes"]).expect_code(0);
    let cut_off = writing_agent(&project, "exec sleep 600");
    project.write_hank(&json!({"hank": [codon(&cut_off, "build", "go")]}));
    let mut running = project.start(["run", "--headless", "--new"]);
    running.wait_for_line(|line| line.contains("so far"));
    running.kill();
    assert_has(
        &report(&project),
        &["What was used last in these is not known: `build`, attempt "],
    );
}

// covers: CLI-44
#[test]
fn a_check_names_the_attempt_by_the_number_that_the_list_of_attempts_has() {
    let project = project();
    let agent = shell_agent(&project);
    let mut build = codon(&agent, "build", "go");
    build["check"] = json!({"run": "false", "retries": 1});
    project.write_hank(&json!({"hank": [build.clone()]}));
    project.run(["run", "--headless"]).expect_code(1);
    // An attempt that counts no longer has no number, as on the screen, and its failures are none of the next one.
    project
        .run(["run", "--headless", "--recover", "last-success"])
        .expect_code(1);
    let once = report(&project);
    assert_has(
        &once,
        &[
            "- `build`, attempt 1: ",
            "failed at try 2 (the command exited with code 1); it failed once before",
        ],
    );
    let mut hank = json!({"hank": [build]});
    hank["hank"][0]["onFailure"] = json!("retry");
    hank["hank"][0]["retryConfig"] = json!({"maxAttempts": 1, "delayMs": 0});
    project.write_hank(&hank);
    project.run(["run", "--headless", "--new"]).expect_code(1);
    let twice = report(&project);
    let failed = "failed at try 2 of attempt 2 (the command exited with code 1); it failed 3 times before";
    assert_has(&twice, &["- `build`, attempt 2: ", failed]);
}

// covers: CLI-5
#[test]
fn a_run_whose_output_is_a_file_of_its_workspace_says_so() {
    let project = project();
    let agent = shell_agent(&project);
    project.write_hank(&json!({"hank": [codon(&agent, "build", "go")]}));
    let shell = format!(
        "'{}' run --headless > run.log 2>&1",
        env!("CARGO_BIN_EXE_hankweave")
    );
    let ran = std::process::Command::new("sh")
        .args(["-c", &shell])
        .current_dir(project.directory())
        .env("HOME", project.home())
        .status();
    assert!(ran.unwrap().success());
    let said = read(&project, "run.log");
    assert!(
        said.contains("run.log takes the output of this run and is in its workspace"),
        "{said}"
    );
}

// covers: CLI-44
#[test]
fn a_rollback_that_was_undone_takes_nothing_from_a_finished_run() {
    let project = project();
    let agent = shell_agent(&project);
    project.write_hank(&json!({"hank": [codon(&agent, "build", "go"), codon(&agent, "ship", "go")]}));
    project.run(["run", "--headless"]).expect_code(0);
    project
        .run(["rollback", "--codon", "build", "--yes"])
        .expect_code(0);
    assert_has(
        &report(&project),
        &["# ■ ", ": completed, then rolled back to checkpoint "],
    );
    project.run(["undo", "--yes"]).expect_code(0);
    let back = report(&project);
    assert_has(&back, &["# ✓ ", ": completed\n", "Nothing is left to do."]);
}

/// An agent that does nothing at its first prompt, writes `a.md` at the second and `b.md` at the third.
fn slow_agent(project: &TestProject) -> Value {
    let script = r#"cat > /dev/null
n=$(($(cat prompts.log 2>/dev/null || echo 0) + 1)); echo $n > prompts.log
if [ $n = 2 ]; then echo a > a.md; echo b > b.md; fi
if [ $n = 3 ]; then echo mended >> b.md; fi
printf '%s\n' '{"type":"system","subtype":"init","session_id":"s-1","model":"claude-haiku-4-5","cwd":"/","tools":[]}'
printf '{"type":"assistant","session_id":"s-1","message":{"id":"m-%s","role":"assistant","model":"claude-haiku-4-5","content":[{"type":"text","text":"working"}],"usage":{"input_tokens":10,"output_tokens":1}}}\n' $n
printf '%s\n' '{"type":"result","subtype":"success","is_error":false,"session_id":"s-1","result":"done","usage":{"input_tokens":10,"output_tokens":1}}'
"#;
    json!({"command": ["sh", project.write("slow.sh", script)], "stream": "claude"})
}

// covers: CLI-44, HANK-66
#[test]
fn a_report_counts_prompts_and_names_limits_ignored_failures_and_checks_that_did_not_run() {
    let project = project();
    let mut build = codon(&slow_agent(&project), "build", "Build it");
    build["checkpointedFiles"] = json!(["*.md"]);
    build["requires"] = json!(["a.md", "b.md"]);
    build["check"] = json!({"run": "grep mended b.md && echo 'all good' && echo ====", "retries": 4});
    build["budget"] = json!({"maxDollars": 2.5});
    build["rigSetup"] = json!([{"type": "command", "command": {"run": "false"}, "allowFailure": true}]);
    let mut idle = codon(&shell_agent(&project), "idle", "Do it");
    idle["requires"] = json!(["src/**", "docs/**"]);
    idle["check"] = json!({"run": "true", "retries": 0});
    idle["onFailure"] = json!("ignore");
    for codon in [&mut build, &mut idle] {
        codon["model"] = json!("claude-haiku-4-5");
    }
    let looped = json!({"type": "loop", "id": "rounds", "name": "Rounds", "terminateOn": {"type": "iterationLimit", "limit": 1},
        "budget": {"maxDollars": 4}, "codons": [idle]});
    let mut ship = codon(&shell_agent(&project), "ship", "Ship it");
    ship["approval"] = json!("Ship it?");
    project.write_hank(&json!({"hank": [build, looped, ship]}));
    project.run(["run", "--headless"]).expect_code(3);
    let done = report(&project);
    assert_has(
        &done,
        &[
            "requires changes of a.md, b.md (met at try 2); may use $2.5000",
            "passed at try 3: `all good`; it failed once before, with ",
            "; its failure does not stop the run (`onFailure`: ignore)",
            "- Rounds (`rounds`): once; may use $4.0000",
            "- `idle#0`: `true` has not run",
            "it changed no checkpointed file that matches `src/**` or `docs/**`, and it has to",
            "build: step 1 of its set-up failed, which was ignored",
        ],
    );

    // After a denial there was no wait for an answer.
    project.run(["approve", "--deny"]).expect_code(0);
    project.run(["approve", "ship"]).expect_code(0);
    let answered = report(&project);
    let written = read(&project, ".hankweave/report.md");
    assert!(written.contains("ship: approved by "), "{written}");
    let line = answered.lines().find(|line| line.contains("ship: approved by "));
    assert!(line.is_some_and(|line| !line.contains(", after ")), "{answered}");
}

/// The first attempt of a codon is no part of the history any more, but its files stay: they are those of the codon.
// covers: CLI-44, HANK-66
#[test]
fn files_of_an_attempt_that_was_kept_are_those_of_its_codon_and_others_are_counted() {
    let project = project();
    let agent = shell_agent(&project);
    let mut work = codon(&agent, "work", "make");
    work["checkpointedFiles"] = json!(["*.made"]);
    work["rigSetup"] = json!([{"type": "command", "command": {"run": "touch ready.made"}}]);
    work["requires"] = json!(["one.made"]);
    work["check"] = json!({"run": "test -e ok", "retries": 0});
    let script = std::fs::read_to_string(project.directory().join("agent.sh")).unwrap();
    let making = "[ \"$prompt\" != make ] || [ -e one.made ] || touch one.made two.made\nsay working\n";
    project.write("agent.sh", script.replace("say working\n", making));
    project.write_hank(&json!({"hank": [codon(&agent, "pre", "go"), work]}));
    project.run(["run", "--headless"]).expect_code(1);
    project.write("ok", "");
    project
        .run(["run", "--headless", "--recover", "crash-point"])
        .expect_code(0);
    let done = report(&project);
    assert_has(
        &done,
        &[
            "requires changes of one.made (met ",
            "- `work`: `done.txt` changed, `one.made` new, `two.made` new",
            " No codon above changed 1 of them; a setup or an attempt that no longer counts or a user did.",
        ],
    );
}
