//! The log of operations, and how to undo each (STATE-66, STATE-67, CLI-31, CLI-32).

use std::fs;
use std::path::Path;
use std::time::Duration;

use hankweave_testing::{TestProject, swept};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::{assert_usd, hankweave, project, shell_agent, strace_is_there, traced};
use crate::terminal::Terminal;

/// A project of codons that append their ids to `done.txt`.
fn with_codons(project: TestProject, ids: &[&str]) -> TestProject {
    let agent = shell_agent(&project);
    let codons = ids.iter().map(|id| {
        json!({"id": id, "name": id, "agent": agent, "model": "claude-sonnet-4-5", "continuationMode": "fresh",
            "promptText": id, "checkpointedFiles": ["done.txt"]})
    });
    project.write_hank(&json!({"hank": codons.collect::<Vec<_>>()}));
    project
}

fn done(project: &TestProject) -> String {
    fs::read_to_string(project.directory().join("done.txt")).unwrap_or_default()
}

fn log(project: &TestProject) -> Vec<Value> {
    let log = project
        .run(["op", "log", "--json"])
        .expect_code(0)
        .json_document();
    log.as_array().unwrap().clone()
}

fn kinds(log: &[Value]) -> Vec<&str> {
    log.iter().map(|row| row["kind"].as_str().unwrap()).collect()
}

fn id(row: &Value) -> String {
    row["id"].as_str().unwrap().to_owned()
}

// covers: STATE-66, STATE-67, CLI-31, CLI-32
#[test]
fn the_last_operation_is_taken_back_and_anything_can_be_gone_to() {
    let project = with_codons(project(), &["one", "two"]);
    let nothing = project.run(["run", "--headless"]);
    nothing.expect_code(0);
    let run = &log(&project)[0];
    assert_eq!(
        (&run["kind"], &run["files"], &run["command"]),
        (&json!("run"), &json!(1), &json!("run"))
    );
    assert_usd(&run["cost"], 0.5);
    let text = project.run(["op", "log"]).expect_code(0).stdout.clone();
    assert!(
        text.contains("one completed, two completed") && text.contains("  1 file\n"),
        "{text}"
    );

    // What the user wrote meanwhile is kept in a checkpoint, and the output names it.
    project.write("done.txt", "mine\n");
    let planned = project.run(["undo", "--dry-run"]).expect_code(0).stdout.clone();
    assert!(planned.contains("would delete  done.txt"), "{planned}");
    assert_eq!((log(&project).len(), &*done(&project)), (1, "mine\n"));
    let undone = project.run(["undo"]).expect_code(0).stdout.clone();
    let told = format!("undid operation {}; its cost still counts\n", id(run));
    assert!(
        undone.starts_with(&told) && undone.contains("the replaced files are kept in checkpoint"),
        "{undone}"
    );
    assert_eq!(done(&project), "");
    let kept = &project.run(["op", "log", "--json"]).json_document()[0]["before"]["checkpointSha"];
    let shown = project.checkpoints_git(
        &project.directory(),
        &["show", &format!("{}:done.txt", kept.as_str().unwrap())],
    );
    assert_eq!(shown.expect_code(0).stdout, "mine\n");
    let status = project.run(["status", "--json"]).json_document();
    assert_eq!(status["nextCodonId"], "one");
    assert_usd(&status["totalSpend"], 0.5);
    let rows = log(&project);
    assert_eq!(kinds(&rows), ["undo", "run"]);
    assert_eq!(
        (&rows[1]["undone"], &rows[0]["undoes"]),
        (&json!(true), &rows[1]["id"])
    );
    let nothing = project.run(["undo"]);
    assert!(
        nothing
            .expect_code(1)
            .stderr
            .contains("no operation left to undo"),
        "{nothing}"
    );

    // An undo is an operation, from which one continues or back.
    project.run(["op", "restore", &id(&rows[1])[..6]]).expect_code(0);
    assert_eq!(done(&project), "one\ntwo\n");
    assert_eq!(log(&project)[2]["undone"], false, "the run counts again");
    let report = project.run(["report"]).expect_code(0).stdout.clone();
    assert!(
        report.contains(": completed\n") && !report.contains("rolled back to checkpoint"),
        "{report}"
    );
    let shown = project
        .run(["op", "show", &id(&rows[0])])
        .expect_code(0)
        .stdout
        .clone();
    assert!(
        shown.contains("  undid      ") && shown.contains("hankweave op restore "),
        "{shown}"
    );
    project.run(["undo"]).expect_code(0);
    assert_eq!(
        (done(&project), kinds(&log(&project))),
        (String::new(), vec!["undo", "restore", "undo", "run"])
    );
    project.run(["run", "--headless"]).expect_code(0);
    assert_eq!(
        (done(&project), kinds(&log(&project))[0]),
        ("one\ntwo\n".to_owned(), "run")
    );
    let unknown = project.run(["op", "restore", "ffffffffffffffff"]);
    assert!(
        unknown
            .expect_code(65)
            .stderr
            .contains("`hankweave op log` lists"),
        "{unknown}"
    );
}

// covers: CLI-32
#[test]
fn undo_names_the_files_that_it_changes_and_asks_on_a_terminal() {
    let project = with_codons(project(), &["one", "two"]);
    project.run(["run", "--headless"]).expect_code(0);
    project.run(["rollback", "--codon", "one"]).expect_code(0);
    let ask = "Do that? [y/N] ";
    if let Some(mut terminal) = Terminal::open(&project, "undo") {
        terminal.until("would undo operation ");
        terminal.until("would write   done.txt");
        terminal.until(ask);
        terminal.press("n\n");
        terminal.until("no file was changed");
        assert_eq!(terminal.close(), Some(0));
        assert_eq!(done(&project), "one\n");
        let mut terminal = Terminal::open(&project, "undo").unwrap();
        terminal.until(ask);
        terminal.press("\u{3}");
        terminal.until("no file was changed");
        assert_eq!(terminal.close(), Some(130));
        assert_eq!(done(&project), "one\n");
        let mut terminal = Terminal::open(&project, "undo").unwrap();
        terminal.until(ask);
        terminal.press("y\n");
        terminal.until("  1 file changed: done.txt");
        assert_eq!(terminal.close(), Some(0));
        assert_eq!(done(&project), "one\ntwo\n");
        let mut terminal = Terminal::open(&project, "undo --yes").unwrap();
        terminal.until("  1 file changed: done.txt (deleted)");
        assert_eq!(terminal.close(), Some(0));
    } else {
        project.run(["undo"]).expect_code(0);
        project.run(["undo"]).expect_code(0);
    }
    // Without a terminal no question is asked.
    let restored = project
        .run(["op", "restore", &id(&log(&project)[2])])
        .expect_code(0)
        .stdout
        .clone();
    assert!(restored.contains("  1 file changed: done.txt\n"), "{restored}");
}

/// git holds no empty folders, so a checkpoint does not say that there was one.
// covers: G8
#[test]
fn a_folder_that_was_empty_stays_when_the_files_in_it_are_taken_back() {
    let project = project();
    let agent = shell_agent(&project);
    let text = fs::read_to_string(project.directory().join("agent.sh")).unwrap();
    let writes =
        "say working\n[ \"$prompt\" = two ] && mkdir new && echo x > new/x.txt && echo y > out/y.txt\n";
    project.write("agent.sh", text.replace("say working\n", writes));
    let codon = |id: &str| {
        json!({"id": id, "name": id, "agent": agent, "model": "claude-sonnet-4-5", "continuationMode": "fresh",
            "promptText": id, "checkpointedFiles": ["**/*.txt"]})
    };
    let mut one = codon("one");
    one["rigSetup"] = json!([{"type": "command", "command": {"run": "mkdir out"}}]);
    project.write_hank(&json!({"hank": [one, codon("two")]}));
    project.run(["run", "--headless"]).expect_code(0);
    let exists = |path: &str| project.directory().join(path).exists();
    assert!(exists("out/y.txt") && exists("new/x.txt"));
    project.run(["rollback", "--codon", "one"]).expect_code(0);
    assert!(!exists("out/y.txt") && !exists("new"));
    assert!(exists("out"), "the rig has made it before the checkpoint");
}

/// Every command that changes files back asks the same question.
// covers: CLI-16, CLI-32
#[test]
fn rollback_and_op_restore_name_the_files_that_they_change_and_ask_on_a_terminal() {
    let project = with_codons(project(), &["one", "two"]);
    project.run(["run", "--headless"]).expect_code(0);
    let run = id(&log(&project)[0]);
    let ask = "Do that? [y/N] ";
    let Some(mut terminal) = Terminal::open(&project, "rollback --codon one") else {
        return;
    };
    terminal.until("would roll back to the completed checkpoint ");
    terminal.until("would write   done.txt");
    terminal.until("next: two (");
    terminal.until(ask);
    terminal.press("n\n");
    terminal.until("no file was changed");
    assert_eq!(terminal.close(), Some(0));
    assert_eq!(
        (done(&project), log(&project).len()),
        ("one\ntwo\n".to_owned(), 1)
    );
    let mut terminal = Terminal::open(&project, "rollback --codon one").unwrap();
    terminal.until(ask);
    terminal.press("y\n");
    terminal.until("  1 file changed: done.txt");
    assert_eq!(terminal.close(), Some(0));
    assert_eq!(done(&project), "one\n");
    let mut terminal = Terminal::open(&project, &format!("op restore {run}")).unwrap();
    terminal.until("would write   done.txt");
    terminal.until(ask);
    terminal.press("n\n");
    assert_eq!(terminal.close(), Some(0));
    assert_eq!(done(&project), "one\n");
    let mut terminal = Terminal::open(&project, "rollback --codon one --yes").unwrap();
    terminal.until("no file changed");
    assert_eq!(terminal.close(), Some(0));
}

// covers: STATE-67
#[test]
fn undo_after_undo_takes_back_older_operations() {
    let project = with_codons(project(), &["one", "two", "three"]);
    project.run(["run", "--headless"]).expect_code(0);
    project.run(["rollback", "--codon", "one"]).expect_code(0);
    assert_eq!(done(&project), "one\n");
    project.run(["undo"]).expect_code(0);
    assert_eq!(done(&project), "one\ntwo\nthree\n");
    let thread = project.run(["thread", "--json"]).json_document();
    assert_eq!(thread["codons"].as_array().unwrap().len(), 3);
    project.run(["undo"]).expect_code(0);
    assert_eq!(done(&project), "");
    let rows = log(&project);
    assert_eq!(kinds(&rows), ["undo", "undo", "rollback", "run"]);
    assert_eq!(
        rows.iter().map(|row| row["undone"] == true).collect::<Vec<_>>(),
        [false, false, true, true]
    );
    // Nothing is out of reach: the rollback, after two undos.
    project.run(["op", "restore", &id(&rows[2])]).expect_code(0);
    assert_eq!(done(&project), "one\n");
    project.run(["run", "--headless"]).expect_code(0);
    assert_eq!(done(&project), "one\ntwo\nthree\n");
}

// covers: CLI-32
#[test]
fn while_a_run_lives_nothing_is_undone() {
    let project = with_codons(project(), &["one", "two"]);
    let mut running = project.start(["run", "--headless", "--no-autostart", "--json"]);
    running.wait_for_line(|line| line.contains("\"server.idle\""));
    let refused = project.run(["undo"]);
    assert!(
        refused.expect_code(75).stderr.contains("hankweave stop"),
        "{refused}"
    );
    // A rollback in this run is undone by this run.
    for _ in 0..2 {
        project.run(["next"]).expect_code(0);
        running.wait_for_line(|line| line.contains("\"server.idle\""));
    }
    project.run(["rollback", "--codon", "one"]).expect_code(0);
    assert_eq!(done(&project), "one\n");
    project.run(["undo"]).expect_code(0);
    assert_eq!(done(&project), "one\ntwo\n");
    project.run(["undo"]).expect_code(75);
    running.signal(Signal::TERM);
    running.finish_within(Duration::from_secs(60)).expect_code(143);
}

/// Undoes under strace, which kills it at the `when`th of these calls of a thread; returns whether it was killed.
fn killed(project: &TestProject, call: &str, when: usize) -> bool {
    let injection = format!("inject={call}:signal=SIGKILL:when={when}");
    traced(project, &["-e", &injection], &["undo"]).code != Some(0)
}

/// An undo skips a run that continued and ran nothing: changes since then stay.
// covers: STATE-67
#[test]
fn an_undo_passes_over_a_run_that_ran_nothing() {
    let project = with_codons(project(), &["one", "two"]);
    let mut running = project.start(["run", "--headless", "--no-autostart", "--json"]);
    running.wait_for_line(|line| line.contains("\"server.idle\""));
    project.run(["next"]).expect_code(0);
    running.wait_for_line(|line| line.contains("\"server.idle\""));
    running.signal(Signal::TERM);
    running.finish_within(Duration::from_secs(60)).expect_code(143);
    let mut idle = project.start(["run", "--headless", "--no-autostart", "--json"]);
    idle.wait_for_line(|line| line.contains("\"server.idle\""));
    idle.signal(Signal::TERM);
    idle.finish_within(Duration::from_secs(60)).expect_code(143);
    assert_eq!(log(&project).len(), 2);
    project.write("notes.txt", "mine\n");
    project.run(["undo"]).expect_code(0);
    assert_eq!(done(&project), "");
    assert_eq!(
        fs::read_to_string(project.directory().join("notes.txt")).unwrap(),
        "mine\n"
    );
}

// covers: STATE-67, CLI-14
#[test]
fn a_run_after_a_way_back_that_was_taken_back_says_that_nothing_is_left() {
    let project = with_codons(project(), &["one", "two"]);
    project.run(["run", "--headless"]).expect_code(0);
    project.run(["rollback", "--codon", "one"]).expect_code(0);
    project.run(["undo"]).expect_code(0);
    for _ in 0..2 {
        let said = project.run(["run", "--headless"]).expect_code(0).stderr.clone();
        assert!(
            said.contains("Nothing left to do: every codon of the plan has ended.\n")
                && said.contains("  start over   hankweave run --new\n")
                && !said.contains("this run"),
            "{said}"
        );
    }
}

// covers: STATE-67
#[test]
fn an_undo_that_is_killed_is_done_or_is_not() {
    if !strace_is_there() {
        return;
    }
    let mut hits = 0;
    for call in ["fdatasync", "fsync", "syncfs", "renameat", "unlinkat"] {
        for when in swept(1..=12) {
            let project = with_codons(TestProject::in_memory("env"), &["one", "two"]);
            let hankweave = |arguments: &[&str]| hankweave(&project, arguments);
            hankweave(&["run", "--headless"]).expect_code(0);
            let run = hankweave(&["op", "log", "--json"]).json_document()[0]["id"].clone();
            if !killed(&project, call, when) {
                break;
            }
            hits += 1;
            // The next command finishes the undo.
            hankweave(&["op", "restore", run.as_str().unwrap()]).expect_code(0);
            assert_eq!(done(&project), "one\ntwo\n", "{call} {when}");
            let log = hankweave(&["op", "log", "--json"]).json_document();
            let log = log.as_array().unwrap();
            let was_done = log.iter().any(|row| row["kind"] == "undo");
            hankweave(&["undo"]).expect_code(0);
            let expected = if was_done { "" } else { "one\ntwo\n" };
            assert_eq!(done(&project), expected, "{call} {when}: {log:#?}");
        }
    }
    assert!(hits > 0, "nothing was killed");
}

/// A hank in a file of its own, whose codons append their ids to `done.txt`.
fn write_named(project: &TestProject, name: &str, ids: &[&str]) {
    let agent = shell_agent(project);
    let codons = ids.iter().map(|id| {
        json!({"id": id, "name": id, "agent": agent, "model": "claude-sonnet-4-5", "continuationMode": "fresh",
            "promptText": id, "checkpointedFiles": ["done.txt"]})
    });
    let hank = json!({"hank": codons.collect::<Vec<_>>()});
    project.write(name, hank.to_string());
}

// covers: STATE-31, STATE-66, CLI-31
#[test]
fn a_way_back_to_the_run_before_a_fresh_one_has_the_plan_of_then() {
    let project = project();
    write_named(&project, "first.json", &["one", "two"]);
    write_named(&project, "other.json", &["else"]);
    let run = |hank: &str, more: &[&str]| {
        let dir = project.directory().display().to_string();
        let begun = ["run", hank, "-e", &dir, "--headless"];
        project.run(begun.iter().chain(more).copied())
    };
    let next = || project.run(["status", "--json"]).json_document()["nextCodonId"].clone();
    run("first.json", &[]).expect_code(0);
    project.run(["rollback", "--codon", "one"]).expect_code(0);
    run("other.json", &["--new"]).expect_code(0);
    assert_eq!((done(&project).as_str(), next()), ("one\nelse\n", Value::Null));

    let fresh = id(&log(&project)[0]);
    let is_back = || {
        assert_eq!((done(&project).as_str(), next()), ("one\n", json!("two")));
        let status = project.run(["status"]).expect_code(0).stdout.clone();
        assert!(status.contains("two") && !status.contains("else"), "{status}");
    };
    let undone = project.run(["undo"]).expect_code(0).stdout.clone();
    assert!(undone.contains("two"), "{undone}");
    is_back();
    // A restore after the undo restores the plan as well.
    project.run(["op", "restore", &fresh]).expect_code(0);
    assert_eq!((done(&project).as_str(), next()), ("one\nelse\n", Value::Null));
    project.run(["undo"]).expect_code(0);
    is_back();
    run("first.json", &[]).expect_code(0);
    assert_eq!((done(&project).as_str(), next()), ("one\ntwo\n", Value::Null));
}

// Its conversation may contain what was undone since, so the codon starts anew; every hint on how to continue says so.
// covers: CLI-31, CLI-44
#[test]
fn an_undo_back_to_a_pause_says_that_the_codon_runs_again_from_its_beginning() {
    let project = project();
    let turn = json!({"text": "More", "usage": {"input": 30_000, "output": 1_000}, "delayMs": 300});
    project.write("long.json", json!({"turns": vec![turn; 4]}).to_string());
    project.write_hank(
        &json!({"hank": [{"id": "long", "name": "Long", "agent": {"script": "long.json"}, "model": "sonnet",
        "continuationMode": "fresh", "promptText": "go"}]}),
    );
    project
        .run(["run", "--headless", "--max-cost", "0.1"])
        .expect_code(3);
    let paused = project.run(["status"]).expect_code(0).stdout.clone();
    assert!(
        paused.contains("continues with long in its session, for $0."),
        "{paused}"
    );
    project
        .run(["run", "--headless", "--max-cost", "9"])
        .expect_code(0);
    let undone = project.run(["undo", "--yes"]).expect_code(0).stdout.clone();
    let again = "runs long again from its beginning";
    assert!(
        undone.contains(&format!("next: long (`hankweave run` {again})")),
        "{undone}"
    );
    let status = project.run(["status"]).expect_code(0).stdout.clone();
    assert_eq!(status.matches(again).count(), 2, "{status}");
    let report = project.run(["report"]).expect_code(0).stdout.clone();
    assert!(report.starts_with("# ■ "), "{report}");
    for part in [
        ", then undone: back to checkpoint ",
        "Of the total budget ($9.0000, `--max-cost 9`), ",
    ] {
        assert!(report.contains(part), "{part}: {report}");
    }

    let offered = "  hankweave run --recover session ";
    assert!(
        status.contains(offered),
        "who names the session gets it: {status}"
    );

    let run = project.run(["run", "--headless"]);
    run.expect_code(0);
    let kept = "as in the last run here: --max-cost 9; --forget leaves that out";
    assert!(run.stderr.contains(kept), "{}", run.stderr);
    assert!(!run.stdout.contains("is run again in 0s"), "{}", run.stdout);
}

/// A limit of the command line lasts until another one is given or it is forgotten; then that of the hank counts again.
// covers: RUN-41, HANK-30
#[test]
fn a_limit_lasts_until_another_is_given_or_it_is_forgotten() {
    let project = project();
    let codon = |id: &str| json!({"id": id, "name": id, "agent": shell_agent(&project), "model": "sonnet", "continuationMode": "fresh", "promptText": "go"});
    project.write_hank(
        &json!({"overrides": {"budget": {"maxDollars": 5}}, "hank": [codon("one"), codon("two")]}),
    );
    let limited = ["run", "--headless", "--max-cost", "0.2", "--max-time", "1h"];
    project.run(limited).expect_code(3);
    let status = project.run(["status"]).expect_code(0).stdout.clone();
    let kept = "the next run has --max-cost 0.2 --max-time 1h, as the last one; --forget leaves that out";
    assert!(status.contains(kept), "{status}");
    let status = project.run(["status", "--json"]).json_document();
    assert_eq!(status["options"], json!(["--max-cost 0.2", "--max-time 1h"]));
    let same = project.run(["run", "--headless"]);
    let kept = "as in the last run here: --max-cost 0.2 --max-time 1h; --forget leaves that out";
    assert!(same.expect_code(3).stderr.contains(kept), "{same}");
    let raised = same
        .stderr
        .lines()
        .find(|line| line.contains("  continue     "))
        .unwrap();
    assert!(
        raised.contains("hankweave run --max-cost ") && !raised.contains("--max-time"),
        "{same}"
    );
    let dry = project.run(["run", "--dry-run"]).expect_code(0).stdout.clone();
    assert!(dry.contains("$0.2000"), "{dry}");
    let forgotten = project.run(["run", "--headless", "--forget"]);
    assert!(
        !forgotten.expect_code(0).stderr.contains("as in the last run"),
        "{forgotten}"
    );
    let again = project.run(["run", "--headless", "--new", "--max-cost", "3"]);
    assert!(
        !again.expect_code(0).stderr.contains("as in the last run"),
        "{again}"
    );
    let again = project.run(["run", "--headless", "--new"]);
    let kept = "as in the last run here: --max-cost 3; --forget leaves that out";
    assert!(again.expect_code(0).stderr.contains(kept), "{again}");
}

/// The directory of a run is enough to continue it: its hank and its options are remembered, but not what starts something.
// covers: RUN-41, CLI-4
#[test]
fn the_directory_of_a_run_is_enough_to_continue_it() {
    let project = project();
    let agent = shell_agent(&project);
    let codon = |id: &str| json!({"id": id, "name": id, "agent": agent, "model": "sonnet", "continuationMode": "fresh", "promptText": "go"});
    project.write(
        "hank/hank.json",
        json!({"hank": [codon("one"), codon("two")]}).to_string(),
    );
    let first =
        "run hank -e work --headless --max-cost 0.2 --output out --overwrite-output --port 0 --notify";
    let first = first.split(' ').chain(["cat >>notified"]);
    let paused = project.run(first).expect_code(3).stderr.clone();
    assert!(
        paused.contains("  continue     hankweave run work --port 0 --notify 'cat >>notified' --max-cost "),
        "{paused}"
    );
    let notified = project.directory().join("work/notified");
    fs::remove_file(&notified).unwrap();

    let finished = project.run("run work --headless --max-cost 5".split(' '));
    let kept = "as in the last run here: --output out --overwrite-output; --forget leaves that out";
    assert!(finished.expect_code(0).stderr.contains(kept), "{finished}");
    assert!(
        !notified.exists(),
        "what starts a program is typed each time: {finished}"
    );
    let elsewhere = project.run("run -e work --headless --output other".split(' '));
    assert!(
        !elsewhere.expect_code(0).stderr.contains("overwrite"),
        "{elsewhere}"
    );
    let over = "  start over   hankweave run work --output other --new\n";
    assert!(elsewhere.stderr.contains(over), "{elsewhere}");
    project
        .run("run work --headless --new --forget".split(' '))
        .expect_code(0);

    // The limits last also if the folder in which the run was typed no longer exists.
    let typed_in = project.directory().join("gone");
    fs::create_dir(&typed_in).unwrap();
    let program = env!("CARGO_BIN_EXE_hankweave");
    let line = format!("'{program}' run ../hank -e ../work --headless --new --max-cost 0.2");
    let mut shell = project.command(Path::new("/bin/sh"));
    let ended = shell.args(["-c", &line]).current_dir(&typed_in).status().unwrap();
    assert_eq!(ended.code(), Some(3));
    fs::remove_dir(&typed_in).unwrap();
    let report = project.run(["report", "work"]).expect_code(0).stdout.clone();
    assert!(report.contains("`--max-cost 0.2`"), "{report}");
    let status = project.run(["status", "work"]).expect_code(0).stdout.clone();
    assert!(status.contains("  hankweave run work --max-cost 0."), "{status}");
}

/// A rollback to the end leaves nothing to run: the next run has no limits of its own, and those of the work stay on every screen.
// covers: RUN-2, CLI-31
#[test]
fn a_run_with_nothing_to_do_after_a_way_back_leaves_the_limits_of_the_work() {
    let project = project();
    let codon = |id: &str| json!({"id": id, "name": id, "agent": shell_agent(&project), "model": "sonnet", "continuationMode": "fresh", "promptText": "go"});
    project.write_hank(
        &json!({"overrides": {"budget": {"maxDollars": 5}}, "hank": [codon("one"), codon("two")]}),
    );
    project
        .run(["run", "--headless", "--max-cost", "3"])
        .expect_code(0);
    let all = id(&log(&project)[0]);
    project.run(["undo", "--yes"]).expect_code(0);
    let restored = project.run(["op", "restore", &all]);
    let way_back = "\n`hankweave undo` takes this back\n";
    assert!(restored.expect_code(0).stdout.ends_with(way_back), "{restored}");
    let run = project.run(["run", "--headless"]);
    let printed = format!("{}{}", run.expect_code(0).stdout, run.stderr);
    for word in ["$5.0000", "budget:", "page:"] {
        assert!(!printed.contains(word), "{word}: {printed}");
    }
    let status = project.run(["status"]).expect_code(0).stdout.clone();
    let report = project.run(["report"]).expect_code(0).stdout.clone();
    for screen in [&status, &report] {
        let is_of_work = screen.contains(" of $3.0000, ") && !screen.contains("$5.0000");
        assert!(is_of_work, "{screen}");
    }
    let status = project.run(["status", "--json"]).json_document();
    assert_eq!(status["budget"]["ceiling"]["maxDollars"], 3.0, "{status}");
}

// covers: RUN-2, CLI-31
#[test]
fn who_names_the_session_after_an_undo_of_a_pause_gets_it() {
    let project = project();
    let turn = json!({"text": "More", "usage": {"input": 30_000, "output": 1_000}, "delayMs": 300});
    project.write("long.json", json!({"turns": vec![turn; 4]}).to_string());
    let codon = |id: &str, script: Value| json!({"id": id, "name": id, "agent": script, "model": "sonnet", "continuationMode": "fresh", "promptText": "go"});
    let long = codon("long", json!({"script": "long.json"}));
    project.write_hank(&json!({"hank": [codon("short", shell_agent(&project)), long]}));
    project
        .run(["run", "--headless", "--max-cost", "0.35"])
        .expect_code(3);
    project
        .run(["rollback", "--codon", "short", "--yes"])
        .expect_code(0);
    project.run(["undo", "--yes"]).expect_code(0);
    let on = project.run(["run", "--headless", "--max-cost", "9", "--recover", "session"]);
    let said = &on.expect_code(0).stdout;
    assert!(
        said.contains("long: the agent continues with its session"),
        "{said}"
    );
}
