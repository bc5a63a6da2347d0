//! One account of a night on every screen: codons, money and time of `status`, report, history, logs and page agree, also after a denial, a rollback
//! and runs that repeat what was undone.

use hankweave_testing::TestProject;
use serde_json::{Value, json};

use crate::support::{assert_usd, project, shell_agent, writing_agent};

/// A hank that builds, mends until a check passes, and asks before it releases.
fn night(project: &TestProject) {
    let agent = shell_agent(project);
    let codon = |id: &str| {
        json!({"id": id, "name": format!("Name of {id}"), "agent": agent, "model": "claude-sonnet-4-5", "continuationMode": "fresh",
            "promptText": id, "checkpointedFiles": ["*.txt"]})
    };
    let check = "n=$(grep -c mend done.txt); echo $n of 2 fixed; test $n -ge 2";
    let looped = json!({"type": "loop", "id": "fix", "name": "Fix it", "codons": [codon("mend")],
        "terminateOn": {"type": "untilCheckPasses", "run": check, "limit": 5}});
    let mut release = codon("release");
    release["approval"] = json!("Release it?");
    project.write_hank(&json!({"hank": [codon("build"), looped, release]}));
}

fn text(project: &TestProject, command: &[&str]) -> String {
    project.run(command).expect_code(0).stdout.clone()
}

fn document(project: &TestProject, command: &str) -> Value {
    project.run([command, "--json"]).expect_code(0).json_document()
}

/// Returns the view of the exported page.
fn of_page(project: &TestProject) -> Value {
    let file = project.home().join("night.html");
    project
        .run(["view", "--export", file.to_str().unwrap()])
        .expect_code(0);
    let html = std::fs::read_to_string(file).unwrap();
    let (head, _) = html.split_once("\"events\":[").unwrap();
    let head = &head[head.find("{\"at\":\"").unwrap()..];
    let record: Value = serde_json::from_str(&format!("{head}\"events\":[]}}")).unwrap();
    record["view"].clone()
}

/// What a view says of codons and money.
fn account(view: &Value) -> Value {
    let undone = view["undone"]["newest"].as_object();
    let mut count = view["undone"]["earlier"]["count"].as_u64().unwrap_or(0);
    let mut cost = view["undone"]["earlier"]["cost"].as_f64().unwrap_or(0.0);
    for attempt in undone.into_iter().flat_map(serde_json::Map::values) {
        count += 1;
        cost += attempt["attempt"]["cost"].as_f64().unwrap();
    }
    let attempts = view["items"].as_object().unwrap().iter().flat_map(|(id, item)| {
        let attempts = item["attempts"].as_object();
        let attempts = attempts.into_iter().flatten();
        attempts.map(move |(key, attempt)| format!("{id} {key} {}", attempt["state"]))
    });
    json!({
        "codons": view["codons"],
        "money": [view["money"]["spent"], view["money"]["atLeast"], view["money"]["beforeRun"], view["money"]["limit"]],
        "undone": [json!(count), json!((cost * 1e4).round())],
        "attempts": attempts.collect::<Vec<_>>(),
        "rollback": view["rollback"]["checkpoint"],
    })
}

/// Asserts that the page and `status` agree, and that every table of the report adds up.
#[track_caller]
pub(crate) fn assert_one_account(project: &TestProject) -> Value {
    let (page, status) = (of_page(project), document(project, "status"));
    assert_eq!(account(&page), account(&status["view"]), "page and status");
    let report = document(project, "report");
    let sum = |rows: &Value| -> f64 {
        let rows = rows.as_array().map(|rows| rows.iter().collect());
        let rows: Vec<&Value> = rows.unwrap_or_default();
        rows.iter().map(|row| row["cost"].as_f64().unwrap()).sum()
    };
    let undone = report["undone"]["cost"].as_f64().unwrap_or(0.0);
    let before = report["money"]["before"].as_f64().unwrap_or(0.0);
    assert_usd(
        &report["money"]["spent"],
        sum(&report["codons"]) + undone + before,
    );
    let models = report["money"]["byModel"].as_object().unwrap().values();
    assert_usd(
        &report["money"]["spent"],
        models.map(|row| row["cost"].as_f64().unwrap()).sum(),
    );
    assert_eq!(report["count"], page["codons"]);
    page
}

#[track_caller]
fn assert_has(text: &str, words: &[&str]) {
    for each in words {
        assert!(text.contains(each), "`{each}` is not in\n{text}");
    }
}

// covers: WIRE-48, CLI-14, CLI-44
#[test]
fn every_screen_has_one_account_of_a_night_with_a_denial_and_a_rollback() {
    let project = project();
    night(&project);
    let first = project.run(["run", "--headless", "--max-cost", "5"]);
    assert_has(
        &first.expect_code(3).stderr,
        &[
            "Paused before release",
            "; 2 of 3 codons completed.",
            "check failed: 1 of 2 fixed; the loop continues",
            "check passed",
        ],
    );
    let status = text(&project, &["status"]);
    assert_has(
        &status,
        &[
            "check failed: 1 of 2 fixed; the loop continues",
            "check passed; the loop ends",
            "budget: $0.7500 of $5.0000, ",
            " at work",
        ],
    );
    assert_has(
        &text(&project, &["history"]),
        &[
            "2 codons, 3 attempts in 1 run, newest first",
            "check failed: 1 of 2 fixed",
        ],
    );
    // A codon of a loop is shown as its newest iteration was, which a note says.
    let newest = project.run(["diff", "mend", "--stat"]);
    assert_has(
        &newest.expect_code(0).stderr,
        &["note: mend#1 is shown, the newest iteration; `hankweave diff 'mend#0'` shows the one before\n"],
    );
    assert!(!project.run(["diff", "mend#1"]).stderr.contains("note: "));
    let page = assert_one_account(&project);
    assert_eq!(page["codons"], json!({"completed": 2, "planned": 3}));
    assert_eq!(page["interruptedBy"], "approval");

    project
        .run(["approve", "release", "--deny", "--reason", "not on a Friday"])
        .expect_code(0);
    let page = assert_one_account(&project);
    assert_eq!(
        (&page["answered"]["granted"], &page["answered"]["reason"]),
        (&json!(false), &json!("not on a Friday"))
    );
    assert!(
        page["answered"]["client"].is_string(),
        "the user is named: {page}"
    );

    project.run(["rollback", "--codon", "mend#0"]).expect_code(0);
    let page = assert_one_account(&project);
    assert_eq!(
        page["codons"],
        json!({"completed": 1, "planned": 3}),
        "the loop goes on"
    );
    assert!(
        page["headline"]
            .as_str()
            .unwrap()
            .starts_with("Rolled back to checkpoint "),
        "{page}"
    );
    assert_eq!(page.get("ask"), None, "what comes first is mended");
    assert_has(
        &text(&project, &["status"]),
        &[
            "undone or run again: 1 attempt, $0.2500, ",
            "budget: $0.7500 of $5.0000, ",
        ],
    );

    project
        .run(["run", "--headless", "--max-cost", "5"])
        .expect_code(3);
    let page = assert_one_account(&project);
    assert_eq!(page["codons"], json!({"completed": 2, "planned": 3}));
    assert_usd(&page["money"]["spent"], 1.0);
    let report = text(&project, &["report"]);
    assert_has(
        &report,
        &[
            "2 of 3 codons, ",
            "$1.0000 of $5.0000",
            "| Undone or run again: `mend#1` | 1 attempt | ",
            "rollback --codon `mend#0`: the files went back to checkpoint ",
            "a run continued with `mend#1`",
            "release: denied by ",
        ],
    );
    assert_has(&text(&project, &["logs", "mend"]), &["(undone or run again)"]);
    let history = text(&project, &["history", "--all"]);
    let lines = history.lines();
    let undone: Vec<&str> = lines
        .filter(|line| line.ends_with("  undone or run again"))
        .collect();
    assert!(undone.len() == 1 && undone[0].contains("mend#1"), "{history}");
    assert_has(
        &text(&project, &["logs", "release"]),
        &["denied by ", ": not on a Friday"],
    );
    assert_has(
        &text(&project, &["op", "log"]),
        &["run (continued after a rollback)"],
    );
    assert_has(&text(&project, &["cost"]), &["status           spent   tokens\n"]);
}

// covers: WIRE-48, CLI-14
#[test]
fn what_a_crash_took_is_marked_on_every_screen_after_it_was_undone() {
    let project = project();
    let agent = writing_agent(&project, "exec sleep 600");
    let codon = json!({"id": "a", "name": "a", "agent": agent, "model": "claude-sonnet-4-5", "continuationMode": "fresh", "promptText": "go"});
    project.write_hank(&json!({"overrides": {"budget": {"maxDollars": 5}}, "hank": [codon]}));
    let mut running = project.start(["run", "--headless"]);
    running.wait_for_line(|line| line.contains("so far"));
    running.kill();
    assert_has(
        &text(&project, &["status"]),
        &["budget: at least $0.3", " of $5.0000, ", " at work"],
    );
    let again = writing_agent(&project, "exit 3");
    let codon = json!({"id": "a", "name": "a", "agent": again, "model": "claude-sonnet-4-5", "continuationMode": "fresh", "promptText": "go"});
    project.write_hank(&json!({"overrides": {"budget": {"maxDollars": 5}}, "hank": [codon]}));
    let again = project.run(["run", "--headless", "--recover", "crash-point"]);
    let again = &again.expect_code(1).stdout;
    let is_marked = |time| again.contains(&format!(" of $5.0000, {time}"));
    assert!(is_marked("at least ") || is_marked("an unknown time"), "{again}");
    let page = assert_one_account(&project);
    assert_eq!(
        page["money"]["atLeast"], true,
        "what the crash cost is still unknown: {page}"
    );
    let dry = text(&project, &["run", "--dry-run"]);
    assert_has(&dry, &["$5.0000, of which at least $0.6"]);
    let status = text(&project, &["status"]);
    assert_has(
        &status,
        &[
            "undone or run again: 1 attempt, at least $0.3",
            " at work",
            "budget: at least $0.6",
        ],
    );
    assert_has(
        &text(&project, &["logs", "a"]),
        &["the run crashed here (noticed at "],
    );
}

// covers: CLI-44
#[test]
fn what_a_user_changed_between_two_codons_is_none_of_the_next_one() {
    let project = project();
    let agent = shell_agent(&project);
    let codon = |id: &str| {
        json!({"id": id, "name": id, "agent": agent, "model": "claude-sonnet-4-5", "continuationMode": "fresh", "promptText": id,
            "checkpointedFiles": ["*.txt"]})
    };
    let mut ship = codon("ship");
    ship["approval"] = json!("Ship it?");
    project.write_hank(&json!({"hank": [codon("build"), ship]}));
    project.run(["run", "--headless"]).expect_code(3);
    project.write("own.txt", "one\ntwo\nthree\nfour\n");
    project.run(["approve", "ship"]).expect_code(0);
    project.run(["run", "--headless"]).expect_code(0);
    let report = document(&project, "report");
    assert_eq!(report["codons"][0]["lines"], json!({"added": 1, "removed": 0}));
    assert_eq!(report["codons"][1]["filesChanged"], 1);
    assert_eq!(
        report["codons"][1]["lines"],
        json!({"added": 1, "removed": 0}),
        "{report:#}"
    );
}
