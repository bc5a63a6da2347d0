//! Files after a run was killed: what the user had changed before stays, what the dead codon did goes (RUN-2).

use std::fs;
use std::time::{Duration, SystemTime};

use hankweave_testing::TestProject;
use serde_json::{Value, json};

use crate::support::{project, shell_agent};
use crate::terminal::Terminal;

/// The second codon asks for an approval; while there is a file `broken` it makes and changes files, ignored ones and others that no pattern covers
/// among them, and works without end.
fn dying() -> TestProject {
    let project = project();
    let agent = shell_agent(&project);
    let text = fs::read_to_string(project.directory().join("agent.sh")).unwrap();
    let dies = "say working\nif [ \"$prompt\" = two ] && [ -e broken ]; then\n\
        for file in done prices notes made ignored; do echo half >> $file.txt; done\n\
        mkdir -p deep/er && echo half > deep/er/made.txt && echo half > log.bin && rm old.txt\n\
        say half-done; exec sleep 600\nfi\n";
    project.write("agent.sh", text.replace("say working\n", dies));
    let codon = |id: &str| {
        json!({"id": id, "name": id, "agent": agent, "model": "claude-sonnet-4-5", "continuationMode": "fresh",
            "promptText": id, "checkpointedFiles": ["**/*.txt"]})
    };
    let mut two = codon("two");
    two["approval"] = true.into();
    project.write_hank(&json!({"hank": [codon("one"), two]}));
    project.write(".gitignore", "ignored.txt\nlocal/\n");
    project.write("local/secret.txt", "mine\n");
    project.write("prices.txt", "pear 1\n");
    project.write("old.txt", "old\n");
    project.run(["run", "--headless"]).expect_code(3);
    project.run(["approve"]).expect_code(0);
    project.write("broken", "");
    project
}

/// Runs until the second codon has done its half, and kills the program.
fn kill_half_done(project: &TestProject) {
    let mut run = project.start(["run", "--headless", "--json"]);
    run.wait_for_line(|line| line.contains("half-done"));
    run.kill();
}

fn read(project: &TestProject, name: &str) -> String {
    fs::read_to_string(project.directory().join(name)).unwrap_or_default()
}

fn exists(project: &TestProject, name: &str) -> bool {
    project.directory().join(name).exists()
}

fn operations(project: &TestProject) -> Vec<Value> {
    let log = project
        .run(["op", "log", "--json"])
        .expect_code(0)
        .json_document();
    log.as_array().unwrap().clone()
}

// covers: RUN-2, STATE-71, G8
#[test]
fn what_was_changed_before_a_killed_run_stays_and_what_its_codon_did_goes() {
    let project = dying();
    project.write("prices.txt", "pear 2\n");
    project.write("notes.txt", "mine\n");
    project.write("deep/mine.txt", "mine\n");
    kill_half_done(&project);
    // The checkpoint of that moment is none of a success, nor of the work of its codon.
    let diff = project
        .run(["diff", "one", "--stat"])
        .expect_code(0)
        .stdout
        .clone();
    assert!(!diff.contains("prices.txt"), "{diff}");
    let status = project.run(["status"]).expect_code(0).stdout.clone();
    assert!(
        status.contains("rolls back to the last success, one, and runs two again"),
        "{status}"
    );
    fs::remove_file(project.directory().join("broken")).unwrap();
    let finished = project.run(["run", "--headless"]);
    let said = &finished.expect_code(0).stdout;
    for (name, expected) in [
        ("done.txt", "one\ntwo\n"),
        ("prices.txt", "pear 2\n"),
        ("notes.txt", "mine\n"),
        ("deep/mine.txt", "mine\n"),
        ("old.txt", "old\n"),
        // What no checkpoint covers is not touched.
        ("ignored.txt", "half\n"),
        ("log.bin", "half\n"),
    ] {
        assert_eq!(read(&project, name), expected, "{name}: {finished}");
    }
    assert!(
        !exists(&project, "made.txt") && !exists(&project, "deep/er"),
        "{finished}"
    );
    assert!(
        said.contains(" of one (6 files changed: ")
            && said.contains(
                "taken back to what they were when two began, with what was changed before: notes.txt, prices.txt\n"
            )
            && said.contains("changed before two began, so kept: deep/mine.txt\n"),
        "{finished}"
    );

    // The work of the dead codon is kept, and can be restored.
    let rows = operations(&project);
    let back = rows.iter().find(|row| row["kind"] == "rollback").unwrap();
    let safety = back["before"]["checkpointSha"].as_str().unwrap();
    project.run(["rollback", "--to", safety]).expect_code(0);
    assert_eq!(
        (read(&project, "made.txt"), read(&project, "prices.txt")),
        ("half\n".to_owned(), "pear 2\nhalf\n".to_owned())
    );
}

/// Two of them kill one run after the other.
// covers: RUN-2, STATE-66, STATE-67
#[test]
fn a_run_that_is_killed_twice_keeps_what_was_changed_in_between_and_all_of_it_can_be_undone() {
    let project = dying();
    project.write("notes.txt", "first\n");
    kill_half_done(&project);
    let killed = read(&project, "notes.txt");
    assert_eq!(killed, "first\nhalf\n");
    kill_half_done(&project);
    assert_eq!(
        read(&project, "notes.txt"),
        killed,
        "the second one began with the user's notes"
    );
    project.run(["undo"]).expect_code(0);
    assert_eq!(read(&project, "notes.txt"), "first\n");
    project.run(["undo"]).expect_code(0);
    assert_eq!(
        (read(&project, "notes.txt"), read(&project, "made.txt")),
        (killed, "half\n".to_owned())
    );
}

/// A file that no checkpoint covered before is not taken for one that the dead codon made.
// covers: RUN-2, G4
#[test]
fn files_that_were_ignored_before_the_killed_run_stay_when_they_are_not_ignored_any_more() {
    let project = dying();
    kill_half_done(&project);
    project.write(".gitignore", "ignored.txt\n");
    fs::remove_file(project.directory().join("broken")).unwrap();
    let finished = project.run(["run", "--headless"]);
    finished.expect_code(0);
    assert_eq!(read(&project, "local/secret.txt"), "mine\n", "{finished}");
    assert!(
        finished
            .stdout
            .contains("in no checkpoint before two began, and perhaps yours, so kept: "),
        "{finished}"
    );
    // It is unknown which of the new files are the codon's, so all stay; the files that it changed are rolled back.
    assert_eq!(
        (read(&project, "made.txt"), read(&project, "done.txt")),
        ("half\n".to_owned(), "one\ntwo\n".to_owned())
    );
}

/// Repairs of the user before a run that fails again are not rolled back with that run.
// covers: RUN-2
#[test]
fn what_was_changed_before_a_run_that_failed_stays_after_the_next_failure() {
    let project = failing();
    project.write("prices.txt", "pear 2\n");
    project.run(["run", "--headless"]).expect_code(1);
    fs::remove_file(project.directory().join("broken")).unwrap();
    let finished = project.run(["run", "--headless"]);
    finished.expect_code(0);
    assert_eq!(
        (read(&project, "prices.txt"), read(&project, "done.txt")),
        ("pear 2\n".to_owned(), "one\ntwo\n".to_owned()),
        "{finished}"
    );
}

/// The second codon adds to two files, and fails while there is a file `broken`.
fn failing() -> TestProject {
    let project = project();
    let agent = shell_agent(&project);
    let text = fs::read_to_string(project.directory().join("agent.sh")).unwrap();
    let fails = "say working\n[ \"$prompt\" = two ] && [ -e broken ] && for file in done notes; do echo half >> $file.txt; done && exit 3\n";
    project.write("agent.sh", text.replace("say working\n", fails));
    let codon = |id: &str| {
        json!({"id": id, "name": id, "agent": agent, "model": "claude-sonnet-4-5", "continuationMode": "fresh",
            "promptText": id, "checkpointedFiles": ["*.txt"]})
    };
    project.write_hank(&json!({"hank": [codon("one"), codon("two")]}));
    project.write("prices.txt", "pear 1\n");
    project.write("broken", "");
    project.run(["run", "--headless"]).expect_code(1);
    project
}

/// A file that the user changed both before a run and after it is named once, and so is one that the codon has changed as well.
// covers: RUN-2
#[test]
fn each_file_that_stays_is_named_once_and_new_ones_are_named_too() {
    let project = failing();
    project.write("prices.txt", "pear 2\n");
    project.write("notes.txt", "mine\n");
    // A user who reads the log of a job reads no events.
    let failed = project.run(["run", "--headless", "--json"]);
    let began = "it began by rolling back 1 file; checkpoint ";
    let stderr = &failed.expect_code(1).stderr;
    assert!(
        stderr.contains("\nFailed at two") && stderr.contains(&format!("  went back    {began}")),
        "{stderr}"
    );
    let status = project.run(["status"]).expect_code(0).stdout.clone();
    assert!(status.contains(began), "{status}");
    project.write("prices.txt", "pear 3\n");
    project.write("late.txt", "mine\n");
    fs::remove_file(project.directory().join("broken")).unwrap();
    fs::remove_file(project.directory().join("done.txt")).unwrap();
    let finished = project.run(["run", "--headless"]);
    let said = &finished.expect_code(0).stdout;
    for line in [
        " of one (1 file changed: notes.txt)\n",
        "deleted since the run ended, so not brought back: done.txt\n",
        "taken back to what they were when two began, with what was changed before: notes.txt\n",
        "changed since the run ended, so kept: late.txt, prices.txt\n",
    ] {
        assert!(said.contains(line), "{line}{finished}");
    }
    assert_eq!(said.matches("prices.txt").count(), 1, "{finished}");
    let files = ["done.txt", "notes.txt", "prices.txt", "late.txt"].map(|name| read(&project, name));
    assert_eq!(files, ["two\n", "mine\n", "pear 3\n", "mine\n"]);
    // Its newest attempt has completed; those before it have failed.
    let refused = project.run(["rollback", "--codon", "two", "--at", "error"]);
    let said = &refused.expect_code(65).stderr;
    let earlier = "attempts that are undone or were run again: error `hankweave rollback --to ";
    assert!(
        said.contains("the newest attempt of `two` has no such checkpoint") && said.contains(earlier),
        "{said}"
    );
}

/// An undo goes to the files with which the run began, not to an older checkpoint, and the next run leaves what the user had changed by then.
// covers: RUN-2, STATE-67, STATE-71
#[test]
fn an_undone_run_leaves_what_was_changed_before_it() {
    let project = failing();
    project.write("prices.txt", "pear 2\n");
    project.write("mine.txt", "mine\n");
    fs::remove_file(project.directory().join("broken")).unwrap();
    project
        .run(["run", "--headless", "--recover", "crash-point"])
        .expect_code(0);
    let rows = operations(&project);
    assert_eq!((&rows[0]["kind"], &rows[0]["files"]), (&json!("run"), &json!(1)));

    let undone = project.run(["undo"]).expect_code(0).stdout.clone();
    let files = || ["done.txt", "prices.txt", "mine.txt"].map(|name| read(&project, name));
    assert_eq!(files(), ["one\nhalf\n", "pear 2\n", "mine\n"], "{undone}");

    assert!(
        undone.contains(
            "
blocked: two failed ("
        ),
        "{undone}"
    );
    let finished = project.run(["run", "--headless"]);
    finished.expect_code(0);
    assert_eq!(files(), ["one\ntwo\n", "pear 2\n", "mine\n"], "{finished}");
}

/// After an undo, every command names the next step in one wording, also if there is none. The next run leaves what the user had changed by then.
// covers: RUN-2, STATE-67, CLI-32
#[test]
fn an_undo_to_a_codon_that_failed_says_what_the_next_run_does_and_it_does_that() {
    let project = failing();
    project.write("prices.txt", "pear 2\n");
    project.write("mine.txt", "mine\n");
    fs::remove_file(project.directory().join("broken")).unwrap();
    project.run(["run", "--headless"]).expect_code(0);
    project.run(["undo"]).expect_code(0);
    let onward =
        "blocked: two failed (`hankweave run` rolls back to the last success, one, and runs two again)\n";
    let planned = project.run(["undo", "--dry-run"]).expect_code(0).stdout.clone();
    assert!(planned.ends_with(onward), "{planned}");
    // The run started with a rollback, which is an operation of its own.
    let undone = project.run(["undo"]).expect_code(0).stdout.clone();
    let files = || ["done.txt", "prices.txt", "mine.txt"].map(|name| read(&project, name));
    assert_eq!(files(), ["one\nhalf\n", "pear 2\n", "mine\n"], "{undone}");
    assert!(undone.contains(onward), "{undone}");
    // On a terminal it asks before it takes anything back.
    if let Some(mut terminal) = Terminal::open(&project, "run") {
        terminal.until("Where shall it continue?");
        terminal.press("q\n");
        assert_eq!(terminal.close(), Some(1));
    }
    let status = project.run(["status"]).expect_code(0).stdout.clone();
    assert!(
        status.contains("\nblocked: two failed\n")
            && status.contains(" rolls back to the last success, one, and runs two again\n"),
        "{status}"
    );
    let history = project.run(["history"]).expect_code(0).stdout.clone();
    assert!(
        history.ends_with(&format!("\n{onward}")) && !history.contains("continues from there"),
        "{history}"
    );
    let finished = project.run(["run", "--headless"]);
    finished.expect_code(0);
    assert_eq!(files(), ["one\ntwo\n", "pear 2\n", "mine\n"], "{finished}");
}

/// The codon after the undo of a run that continued one that was stopped runs with the files as they were then, and every screen says so.
// covers: RUN-2, STATE-67
#[test]
fn an_undo_to_a_stopped_codon_is_followed_by_that_codon_with_the_files_of_then() {
    let project = project();
    let agent = shell_agent(&project);
    let codon = |id: &str, prompt: &str| {
        json!({"id": id, "name": id, "agent": agent, "model": "claude-sonnet-4-5", "continuationMode": "fresh",
            "promptText": prompt, "checkpointedFiles": ["*.txt"]})
    };
    project.write_hank(&json!({"hank": [codon("one", "one"), codon("two", "wait for go")]}));
    let mut run = project.start(["run", "--headless", "--json"]);
    run.wait_for_line(|line| line.contains("\"codonId\":\"two\"") && line.contains("\"working\""));
    run.signal(rustix::process::Signal::INT);
    run.finish_within(Duration::from_secs(100)).expect_code(130);
    project.write("go", "");
    project.write("prices.txt", "pear 2\n");
    project
        .run(["run", "--headless", "--recover", "session"])
        .expect_code(0);
    let undone = project.run(["undo"]).expect_code(0).stdout.clone();
    assert_eq!(read(&project, "prices.txt"), "pear 2\n", "{undone}");
    let onward = "next: two (`hankweave run` keeps the files and runs two again from its beginning)\n";
    assert!(undone.contains(onward), "{undone}");
    let status = project.run(["status"]).expect_code(0).stdout.clone();
    let row = status.lines().find(|line| line.starts_with("  hankweave run  "));
    assert!(
        row.is_some_and(|row| row.ends_with(" keeps the files and runs two again from its beginning"))
            && status.contains("\nnext: two\n"),
        "{status}"
    );
    let history = project.run(["history"]).expect_code(0).stdout.clone();
    assert!(history.ends_with(&format!("\n{onward}")), "{history}");
    project.run(["run", "--headless"]).expect_code(0);
    assert_eq!(read(&project, "prices.txt"), "pear 2\n");
}

/// After a crash no checkpoint separates the agent's work from what the user changed: the differences have both, and say so.
// covers: CLI-23, HANK-66
#[test]
fn a_diff_after_a_crash_says_that_changes_of_the_user_are_in_it() {
    let project = project();
    let agent = shell_agent(&project);
    let text = fs::read_to_string(project.directory().join("agent.sh")).unwrap();
    let half = "say working\n[ -e go ] || { echo half >> notes.txt; say half-done; }\n";
    project.write("agent.sh", text.replace("say working\n", half));
    project.write_hank(
        &json!({"hank": [{"id": "one", "name": "one", "agent": agent, "model": "claude-sonnet-4-5",
        "continuationMode": "fresh", "promptText": "wait for go", "checkpointedFiles": ["*.txt"]}]}),
    );
    let mut run = project.start(["run", "--headless", "--json"]);
    run.wait_for_line(|line| line.contains("half-done"));
    let diff = || project.run(["diff", "one"]);
    assert_eq!(diff().expect_code(0).stderr, "", "it works");
    run.kill();
    project.write("go", "");
    project.write("mine.txt", "mine\n");
    let since = "note: one crashed: what has changed since is shown as its own, your changes included\n";
    assert_eq!(diff().expect_code(0).stderr, since);
    project
        .run(["run", "--headless", "--recover", "session"])
        .expect_code(0);
    let note =
        "note: one crashed: what changed until its next attempt is shown as its own, your changes included\n";
    let after = diff();
    assert_eq!(after.expect_code(0).stderr, note);
    assert!(after.stdout.contains("+mine"), "{}", after.stdout);
    let json = project
        .run(["diff", "one", "--json"])
        .expect_code(0)
        .json_document();
    assert_eq!(json["crashed"], true);
    let report = project.run(["report"]).expect_code(0).stdout.clone();
    assert!(
        report.contains("an attempt crashed: what changed until the next one is counted as the codon's own"),
        "{report}"
    );
    project.run(["run", "--headless", "--new"]).expect_code(0);
    assert_eq!(diff().expect_code(0).stderr.matches("crashed").count(), 0);
}

/// The number of changed files and the differences are one answer: what the codon did in all attempts, without what the user changed between them.
// covers: CLI-23, HANK-66, WIRE-45
#[test]
fn what_a_codon_changed_is_the_same_in_its_number_and_in_its_differences() {
    let project = project();
    let agent = shell_agent(&project);
    let text = fs::read_to_string(project.directory().join("agent.sh")).unwrap();
    let half = "say working\n[ -e go ] || { echo half >> notes.txt; say half-done; }\n";
    project.write("agent.sh", text.replace("say working\n", half));
    project.write_hank(
        &json!({"hank": [{"id": "one", "name": "one", "agent": agent, "model": "claude-sonnet-4-5",
        "continuationMode": "fresh", "promptText": "wait for go", "checkpointedFiles": ["*.txt"]}]}),
    );
    project.write("prices.txt", "pear 1\n");
    let mut run = project.start(["run", "--headless", "--json"]);
    run.wait_for_line(|line| line.contains("half-done"));
    run.signal(rustix::process::Signal::INT);
    run.finish_within(Duration::from_secs(100)).expect_code(130);
    project.write("go", "");
    project.write("prices.txt", "pear 2\n");
    project.write("mine.txt", "mine\n");
    project
        .run(["run", "--headless", "--recover", "session"])
        .expect_code(0);

    let state = project.state(&project.directory());
    let newest = state["runs"][0]["codons"].as_array().unwrap().last().unwrap();
    assert_eq!(newest["filesChanged"], 2, "{newest:#}");
    let names = |document: &Value| {
        let changes = document["changes"].as_array().unwrap().iter();
        let names = changes.map(|change| change["path"].as_str().unwrap().to_owned());
        names.collect::<Vec<_>>()
    };
    let of_one = project
        .run(["diff", "one", "--json"])
        .expect_code(0)
        .json_document();
    assert_eq!(names(&of_one), ["done.txt", "notes.txt"]);
    let stat = project.run(["diff", "--stat"]).expect_code(0).stdout.clone();
    assert!(
        stat.contains("2 files changed") && !stat.contains("mine.txt") && !stat.contains("prices.txt"),
        "{stat}"
    );
    let status = project.run(["status"]).expect_code(0).stdout.clone();
    let row = status.lines().find(|line| line.trim_start().starts_with("one "));
    assert!(row.is_some_and(|row| row.contains("2 files")), "{status}");
    let report = project.run(["report", "--json"]).expect_code(0).json_document();
    assert_eq!(report["codons"][0]["filesChanged"], 2, "{report:#}");
}

/// A rig that is killed leaves no checkpoint of what its commands made.
// covers: RUN-2, RUN-20
#[test]
fn a_run_that_is_killed_in_a_rig_says_so_and_names_what_the_rig_did_not_copy() {
    let project = project();
    let agent = shell_agent(&project);
    project.write("template/a.txt", "a\n");
    let codon = |id: &str| {
        json!({"id": id, "name": id, "agent": agent, "model": "shell", "continuationMode": "fresh", "promptText": id,
            "checkpointedFiles": ["**/*.txt"]})
    };
    let mut two = codon("two");
    let rig = "echo x > made.txt; rm .again && exit 0; touch .again; echo half-'done'; exec sleep 600";
    two["rigSetup"] = json!([
        {"type": "copy", "copy": {"from": "template", "to": "copied"}},
        {"type": "command", "command": {"run": rig}},
    ]);
    project.write_hank(&json!({"hank": [codon("one"), two]}));
    kill_half_done(&project);
    let words = "its process ended without recording why in the set-up of two, at ";
    let status = project.run(["status"]).expect_code(0).stdout.clone();
    assert!(status.contains(words), "{status}");
    let report = project.run(["report"]).expect_code(0).stdout.clone();
    assert!(report.contains(words), "{report}");

    let finished = project.run(["run", "--headless"]);
    let said = &finished.expect_code(0).stdout;
    assert!(
        said.contains("in no checkpoint before two began, and perhaps yours, so kept: made.txt\n")
            && said.contains("two: of what its rig copied, 1 copy removed, 0 copies kept\n"),
        "{said}"
    );
    let report = project.run(["report"]).expect_code(0).stdout.clone();
    assert!(report.contains("in the set-up of two, at "), "{report}");
    assert_eq!(read(&project, "copied/a.txt"), "a\n");
}

/// A tool that says nothing for long may write after the last line of its agent.
// covers: RUN-2
#[test]
fn a_new_file_that_may_be_the_user_s_stays_and_the_agent_s_others_go() {
    let project = project();
    let agent = shell_agent(&project);
    let text = fs::read_to_string(project.directory().join("agent.sh")).unwrap();
    let dies = "echo half >> early.txt\nsay working\nif [ \"$prompt\" = two ] && [ -e \"$HOME/broken\" ]; then\n\
        say half-done; sleep 0.2; echo late > late.txt; exec sleep 600\nfi\n";
    project.write("agent.sh", text.replace("say working\n", dies));
    let codon = |id: &str, patterns: &[&str]| {
        json!({"id": id, "name": id, "agent": agent, "model": "shell", "continuationMode": "fresh", "promptText": id,
            "checkpointedFiles": patterns})
    };
    for patterns in [&["*.txt"][..], &[]] {
        for file in ["early.txt", "late.txt", "done.txt"] {
            let _ = fs::remove_file(project.directory().join(file));
        }
        let broken = project.home().join("broken");
        let one = json!({"id": "one", "name": "one", "agent": agent, "model": "shell", "continuationMode": "fresh", "promptText": "one"});
        let mut two = codon("two", patterns);
        if patterns.is_empty() {
            two.as_object_mut().unwrap().remove("checkpointedFiles");
        }
        project.write_hank(&json!({"hank": [one, two]}));
        fs::write(&broken, "").unwrap();
        let mut run = project.start(["run", "--new", "--headless", "--json"]);
        run.wait_for_line(|line| line.contains("half-done"));
        run.wait_for_line(|line| line.contains("late.txt"));
        run.kill();
        fs::remove_file(&broken).unwrap();
        let finished = project.run(["run", "--headless"]);
        let said = &finished.expect_code(0).stdout;
        assert!(
            said.contains("perhaps yours, so kept: ") && said.contains("late.txt"),
            "{said}"
        );
        assert_eq!(
            read(&project, "early.txt"),
            "half\nhalf\n",
            "{patterns:?}: {said}"
        );
        assert_eq!(read(&project, "late.txt"), "late\n");
    }
}

/// A checkpoint of an earlier attempt has the file of the agent that the user edited after the crash.
// covers: RUN-2
#[test]
fn an_edit_after_a_crash_stays_also_in_a_file_that_an_earlier_attempt_has_saved() {
    let project = project();
    let script = |first: Value| json!({"turns": [first, {"text": "wait", "delayMs": 600_000}]}).to_string();
    let appends =
        json!({"text": "begun", "tools": [{"append": {"path": "src/notes.txt", "content": "agent\n"}}]});
    project.write("plan.json", json!({"turns": [{"text": "planned"}]}).to_string());
    project.write("fix.json", script(appends));
    let codon = |id: &str| {
        json!({"id": id, "name": id, "agent": {"script": format!("{id}.json")}, "model": "sonnet", "continuationMode": "fresh",
            "promptText": id, "checkpointedFiles": ["src/**"]})
    };
    project.write_hank(&json!({"hank": [codon("plan"), codon("fix")]}));
    let started = |arguments: &[&str]| {
        let mut run = project.start([&["run", "--headless", "--json"], arguments].concat());
        run.wait_for_line(|line| line.contains("\"tool.result\"") && line.contains("fix"));
        run
    };
    let run = started(&[]);
    project.run(["stop"]).expect_code(0);
    run.finish_within(Duration::from_secs(60)).expect_code(3);
    started(&["--recover", "session"]).kill();
    let (notes, killed) = (read(&project, "src/notes.txt"), SystemTime::now());
    // What is as old as the last line of the agent may be its own: the clock of a file system is coarse.
    let is_later = |file: &str| {
        let metadata = fs::metadata(project.directory().join(file)).unwrap();
        metadata.modified().unwrap() > killed + Duration::from_millis(20)
    };
    while !(project.directory().join("src/own.txt").exists()
        && is_later("src/notes.txt")
        && is_later("src/own.txt"))
    {
        project.write("src/notes.txt", format!("{notes}mine\n"));
        project.write("src/own.txt", "mine\n");
    }
    let mut run = project.start(["run", "--headless"]);
    run.wait_for_line(|line| line.starts_with("fix: Append"));
    project.run(["stop"]).expect_code(0);
    let run = run.finish_within(Duration::from_secs(60));
    assert!(
        run.stdout.contains(
            "in no checkpoint before fix began, and perhaps yours, so kept: src/notes.txt, src/own.txt\n"
        ),
        "{run}"
    );
    assert_eq!(read(&project, "src/own.txt"), "mine\n");
    assert_eq!(read(&project, "src/notes.txt"), format!("{notes}mine\nagent\n"));
}

/// A codon that ran again with its files and crashed again has only unfinished work, which the rollback to the last success undoes.
// covers: RUN-2, STATE-71
#[test]
fn what_two_crashed_attempts_left_goes_back_to_the_last_success() {
    let project = project();
    let agent = shell_agent(&project);
    let text = fs::read_to_string(project.directory().join("agent.sh")).unwrap();
    let half = "say working\n[ -e go ] || [ ! -e one.txt ] || { echo half > half.txt; say half-done; sleep 60; }\n[ -e one.txt ] || echo one > one.txt\n";
    project.write("agent.sh", text.replace("say working\n", half));
    let codon = |id: &str| {
        json!({"id": id, "name": id, "agent": agent, "model": "claude-sonnet-4-5",
        "continuationMode": "fresh", "promptText": "go", "checkpointedFiles": ["*.txt"]})
    };
    project.write_hank(&json!({"hank": [codon("one"), codon("two")]}));
    for recovery in [&[][..], &["--recover", "crash-point"]] {
        let command = [&["run", "--headless", "--json"][..], recovery].concat();
        let mut run = project.start(command);
        run.wait_for_line(|line| line.contains("half-done"));
        run.kill();
        assert!(project.directory().join("half.txt").exists());
    }
    project.write("go", "");
    let run = project.run(["run", "--headless", "--recover", "last-success"]);
    run.expect_code(0);
    assert!(!project.directory().join("half.txt").exists(), "{}", run.stderr);
    assert_eq!(read(&project, "one.txt"), "one\n");
}
