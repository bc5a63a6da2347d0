//! Codons that the user has to approve before they start (STATE-65, CLI-30).

use std::ffi::OsStr;
use std::fs;
use std::time::Duration;

use hankweave_testing::{Running, TestProject};
use serde_json::{Value, json};

use crate::support::{project, shell_agent};
use crate::terminal::Terminal;

const SOON: Duration = Duration::from_secs(60);

/// A codon that appends its prompt to `done.txt`.
fn codon(project: &TestProject, id: &str, prompt: &str) -> Value {
    json!({"id": id, "name": id, "agent": shell_agent(project), "model": "claude-sonnet-4-5", "continuationMode": "fresh",
        "promptText": prompt, "checkpointedFiles": ["done.txt"]})
}

/// `one`, and `deploy`, which has to be approved.
pub(crate) fn asking(prompt: &str) -> TestProject {
    let project = project();
    let mut deploy = codon(&project, "deploy", prompt);
    deploy["approval"] = json!("Deploy to production?");
    project.write_hank(&json!({"hank": [codon(&project, "one", "one"), deploy]}));
    project
}

pub(crate) fn done(project: &TestProject) -> String {
    fs::read_to_string(project.directory().join("done.txt")).unwrap_or_default()
}

pub(crate) fn wait_for_question(run: &mut Running) {
    run.wait_for_line(|line| line.contains("\"server.idle\"") && line.contains("\"approval-required\""));
}

// covers: STATE-65, CLI-1, CLI-30
#[test]
fn a_run_pauses_before_a_codon_until_it_is_approved_and_asks_again_behind_a_rollback() {
    let project = asking("two");
    let shown = project.run(["validate"]).expect_code(0).stdout.clone();
    assert!(
        shown.contains("waits for an approval: Deploy to production?"),
        "{shown}"
    );
    for _ in 0..2 {
        let paused = project.run(["run", "--headless"]);
        let text = &paused.expect_code(3).stderr;
        assert!(
            text.contains("Paused before deploy: it waits for an approval: Deploy to production?")
                && text.contains("continue     hankweave approve deploy && hankweave run\n"),
            "{paused}"
        );
    }
    assert_eq!(done(&project), "one\n");
    let status = project.run(["status"]).expect_code(0).stdout.clone();
    assert!(
        status.contains(": paused (approval needed)") && status.contains("deploy waits for an approval"),
        "{status}"
    );
    let status = project.run(["status", "--json"]).json_document();
    let asked = &status["approval"];
    assert_eq!(
        (&asked["codonId"], &asked["denied"], &asked["question"]),
        (&json!("deploy"), &json!(false), &json!("Deploy to production?"))
    );
    assert_eq!(status["commands"][0], "hankweave approve deploy && hankweave run");
    let plan = project.run(["run", "--dry-run"]).expect_code(0).stdout.clone();
    assert!(plan.contains("\ndeploy waits for an approval\n"), "{plan}");

    let refused = project.run(["approve", "one"]);
    assert!(refused.expect_code(1).stderr.contains("deploy does"), "{refused}");
    let approved = project.run(["approve", "--json", "--reason", "looked at it"]);
    let answer = json!({"codonId": "deploy", "granted": true, "reason": "looked at it"});
    assert_eq!(approved.expect_code(0).json_document(), answer);
    project.run(["run", "--headless"]).expect_code(0);
    assert_eq!(done(&project), "one\ntwo\n");
    let late = project.run(["approve"]);
    assert!(
        late.expect_code(1)
            .stderr
            .contains("no codon waits for an approval"),
        "{late}"
    );

    project.run(["rollback", "--codon", "one"]).expect_code(0);
    project.run(["run", "--headless"]).expect_code(3);
    assert_eq!(done(&project), "one\n");
    let approved = project.run(["approve", "deploy"]);
    let words = "deploy may begin; `hankweave run` continues with it\n";
    assert_eq!(approved.expect_code(0).stdout, words);
    let late = project.run(["approve", "--deny"]);
    let hint = "`hankweave rollback --to SHA` to the checkpoint before it takes the approval back";
    assert!(
        late.expect_code(1)
            .stderr
            .replace("\n        ", " ")
            .contains(hint),
        "{late}"
    );
    // A run that starts again asks again.
    project.run(["run", "--headless", "--new"]).expect_code(3);
}

// covers: CLI-14
#[test]
fn an_undo_leads_back_to_the_question_with_the_time_at_which_it_was_asked() {
    let project = asking("two");
    project.run(["run", "--headless"]).expect_code(3);
    let since = |status: &Value| status["approval"]["since"].clone();
    let asked = project.run(["status", "--json"]).json_document();
    project.run(["approve"]).expect_code(0);
    project.run(["run", "--headless"]).expect_code(0);
    let undone = project.run(["undo"]);
    let undone = &undone.expect_code(0).stdout;
    assert!(
        undone.contains(
            "deploy waits for an approval (`hankweave approve deploy && hankweave run` lets deploy begin)"
        ),
        "{undone}"
    );
    let status = project.run(["status", "--json"]).json_document();
    assert_eq!(
        (since(&status), status["view"]["state"].as_str()),
        (since(&asked), Some("completed"))
    );
    assert_ne!(since(&status), Value::Null);
}

// covers: CLI-30
#[test]
fn what_was_denied_stays_so_until_somebody_approves_it_after_all() {
    let project = asking("two");
    project.run(["run", "--headless"]).expect_code(3);
    let denied = project.run(["approve", "--deny", "--reason", "not on a Friday"]);
    let after_all = "deploy may not begin; `hankweave approve deploy` allows it after all\n";
    assert_eq!(denied.expect_code(0).stdout, after_all);
    let paused = project.run(["run", "--headless"]);
    let words = "Paused before deploy: it was denied: not on a Friday";
    assert!(paused.expect_code(3).stderr.contains(words), "{paused}");
    let status = project.run(["status"]).expect_code(0).stdout.clone();
    assert!(
        status.contains("deploy was denied by ") && status.contains(": not on a Friday"),
        "{status}"
    );
    project.run(["approve", "deploy"]).expect_code(0);
    project.run(["run", "--headless"]).expect_code(0);
    assert_eq!(done(&project), "one\ntwo\n");
}

/// Work that is done before the question stays done.
// covers: STATE-65, CLI-30
#[test]
fn after_a_denial_the_smallest_way_back_is_offered_after_which_the_question_is_put_again() {
    let project = project();
    let [zero, one, mut deploy] = ["zero", "one", "deploy"].map(|id| codon(&project, id, id));
    deploy["approval"] = json!("Deploy to production?");
    project.write_hank(&json!({"hank": [zero, one, deploy]}));
    project.run(["run", "--headless"]).expect_code(3);
    project.run(["approve", "--deny"]).expect_code(0);
    let back = "rollback --codon one";
    for command in ["status", "report"] {
        let shown = project.run([command]).expect_code(0).stdout.clone();
        let offered = format!("hankweave {back}");
        assert!(
            shown.contains(&offered) && !shown.contains("rollback --codon zero"),
            "{shown}"
        );
        assert!(shown.contains("asks about deploy again"), "{shown}");
    }
    project.run(back.split(' ')).expect_code(0);
    let asked = project.run(["run", "--headless"]);
    let words = "Paused before deploy: it waits for an approval: Deploy to production?";
    assert!(asked.expect_code(3).stderr.contains(words), "{asked}");
    project.run(["approve"]).expect_code(0);
    project.run(["run", "--headless"]).expect_code(0);
    assert_eq!(done(&project), "zero\none\ndeploy\n");
}

// covers: RUN-6, CLI-30
#[test]
fn a_run_is_approved_after_its_project_was_moved() {
    let project = asking("two");
    project.run(["run", "--headless"]).expect_code(3);
    let moved = project.home().join("moved");
    fs::rename(project.directory(), &moved).unwrap();
    fs::create_dir(project.directory()).unwrap();
    let approved = project.run([OsStr::new("approve"), OsStr::new("-e"), moved.as_os_str()]);
    assert!(
        approved.expect_code(0).stdout.starts_with("deploy may begin"),
        "{approved}"
    );
}

// covers: STATE-65
#[test]
fn an_answer_survives_whatever_kills_the_run() {
    let project = asking("wait for go");
    let mut run = project.start(["run", "--headless", "--no-autostart", "--json"]);
    run.wait_for_line(|line| line.contains("\"server.idle\""));
    project.run(["next"]).expect_code(0);
    wait_for_question(&mut run);
    let refused = project.run(["next"]);
    assert!(
        refused.expect_code(1).stderr.contains("`hankweave approve`"),
        "{refused}"
    );
    run.kill();
    project.run(["run", "--headless"]).expect_code(3);
    project.run(["approve"]).expect_code(0);
    let mut run = project.start(["run", "--headless", "--json"]);
    run.wait_for_line(|line| line.contains("\"codon.started\"") && line.contains("deploy"));
    run.kill();
    project.write("go", "");
    project.run(["run", "--headless"]).expect_code(0);
    assert_eq!(done(&project), "one\nwait for go\n");
}

/// A run that waited, and was killed, crashed when its process was there last, also after an answer from elsewhere has recorded that; and the first
/// codon that starts after it starts nothing over.
// covers: STATE-65, CLI-44
#[test]
fn a_crash_while_a_question_waits_keeps_its_time() {
    let project = project();
    let mut first = codon(&project, "deploy", "two");
    first["approval"] = json!("Deploy?");
    project.write_hank(&json!({"hank": [first]}));
    let mut run = project.start(["run", "--headless", "--no-autostart", "--json"]);
    run.wait_for_line(|line| line.contains("\"server.idle\""));
    let lock = project.directory().join(".hankweave/server.lock");
    let heartbeat = || {
        let record: Value = serde_json::from_slice(&fs::read(&lock).unwrap()).unwrap();
        record["lastHeartbeat"].as_str().unwrap().to_owned()
    };
    let began = heartbeat();
    while heartbeat() == began {
        std::thread::yield_now();
    }
    run.kill();
    let crash = || {
        let report = project.run(["report", "--json"]).expect_code(0).json_document();
        let happened = report["occasions"].as_array().unwrap().clone();
        let crash = happened
            .into_iter()
            .find(|one| one["what"].as_str().unwrap().contains("crashed"));
        crash.unwrap()["at"].clone()
    };
    let before = crash();
    project.run(["approve"]).expect_code(0);
    assert_eq!(crash(), before, "who found it does not move it");
    let history = project.run(["history", "--all"]).expect_code(0).stdout.clone();
    assert!(
        history.contains(" crashed (started ") && history.contains(", found at "),
        "{history}"
    );
    project.run(["run", "--headless"]).expect_code(0);
    let report = project.run(["report"]).expect_code(0).stdout.clone();
    assert!(
        report.contains("; that was found at ") && !report.contains("started over"),
        "{report}"
    );
}

// covers: CLI-27
#[test]
fn a_live_run_waits_until_somebody_answers() {
    let project = project();
    let mut looped = codon(&project, "deploy", "two");
    looped["approval"] = json!(true);
    let until = json!({"type": "iterationLimit", "limit": 3});
    let rounds =
        json!({"type": "loop", "id": "rounds", "name": "Rounds", "terminateOn": until, "codons": [looped]});
    project.write_hank(&json!({"hank": [rounds]}));
    let tell = "cat >> told";
    let mut run = project.start(["run", "--headless", "--no-autostart", "--json", "--notify", tell]);
    wait_for_question(&mut run);
    let live = project.run(["status"]).expect_code(0).stdout.clone();
    assert!(
        live.contains("deploy#0 waits for an approval") && live.contains("hankweave approve deploy#0"),
        "{live}"
    );
    assert_eq!(
        project.run(["approve"]).expect_code(0).stdout,
        "starting deploy#0\n"
    );
    wait_for_question(&mut run);
    for command in ["status", "cost", "history"] {
        let shown = project.run([command]).expect_code(0).stdout.clone();
        let is_named = |line: &str| line.starts_with("run ") && line.contains("waiting for an approval");
        assert!(shown.lines().any(is_named), "{command}: {shown}");
    }
    project.run(["approve", "deploy#0"]).expect_code(1);
    assert_eq!(
        project.run(["approve", "deploy#1"]).expect_code(0).stdout,
        "starting deploy#1\n"
    );
    wait_for_question(&mut run);
    let denied = project.run(["approve", "--deny", "--reason", "enough"]);
    assert_eq!(
        denied.expect_code(0).stdout,
        "deploy#2 may not begin, and the run ends\n"
    );
    run.finish_within(SOON).expect_code(3);
    assert_eq!(done(&project), "two\ntwo\n");
    let told = fs::read_to_string(project.directory().join("told")).unwrap();
    let news: Vec<Value> = told
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(news.len(), 4, "{told}");
    let first = json!({"event": "waiting", "reason": "deploy#0 waits for an approval: may deploy#0 begin?", "next": "hankweave approve"});
    assert_eq!(news[0], first);
    assert_eq!(news[3]["event"], "paused");
}

// covers: CLI-30
#[test]
fn a_key_on_the_terminal_approves() {
    // `t` is a letter of the reason, not the key of the whole screen.
    for (key, answer, code, files) in [
        ("xy\ny", "deploy: approved by ", 0, "one\ntwo\n"),
        ("nnot yet\r", ": not yet", 3, "one\n"),
    ] {
        let project = asking("two");
        let Some(mut terminal) = Terminal::open(&project, "run") else {
            return;
        };
        terminal.until_standing(|screen| {
            screen.contains("deploy waits for an approval: Deploy to production?")
                && screen.contains("y approves")
        });
        terminal.press(key);
        terminal.until(answer);
        assert_eq!(terminal.close(), Some(code));
        assert_eq!(done(&project), files);
    }
}

// covers: CLI-30
#[test]
fn a_terminal_with_plain_lines_is_asked_once() {
    let project = asking("two");
    let line = format!("TERM=dumb exec '{}' run", env!("CARGO_BIN_EXE_hankweave"));
    let Some(mut terminal) = Terminal::of(&project, &line) else {
        return;
    };
    terminal
        .until_standing(|screen| screen.contains("y approves") && screen.contains("Deploy to production?"));
    assert_eq!(
        terminal.sent().matches("Deploy to production?").count(),
        1,
        "{}",
        terminal.sent()
    );
    terminal.press("y");
    assert_eq!(terminal.close(), Some(0));
    assert_eq!(done(&project), "one\ntwo\n");
}
