//! Summary, `status`, report and `validate` for a user who was away: sentinels, questions, budgets, checks, crashes.

use std::fs;
use std::time::Duration;

use hankweave_testing::TestProject;
use serde_json::{Value, json};

use crate::approval::{asking, wait_for_question};
use crate::support::{project, shell_agent};
use crate::terminal::Terminal;

const SOON: Duration = Duration::from_secs(60);

fn codon(project: &TestProject, id: &str, more: Value) -> Value {
    let mut codon = json!({"id": id, "name": id, "agent": shell_agent(project), "model": "claude-sonnet-4-5",
        "continuationMode": "fresh", "promptText": id, "checkpointedFiles": ["done.txt"]});
    codon
        .as_object_mut()
        .unwrap()
        .extend(more.as_object().cloned().unwrap_or_default());
    codon
}

fn sentinel(id: &str, script: &str, more: Value) -> Value {
    let mut config = json!({"id": id, "name": id, "command": ["sh", "-c", script],
        "trigger": {"type": "event", "on": ["assistant.action"]}, "execution": {"strategy": "immediate"}});
    config
        .as_object_mut()
        .unwrap()
        .extend(more.as_object().cloned().unwrap_or_default());
    json!({ "sentinelConfig": config })
}

fn printed(project: &TestProject, command: &str) -> String {
    project.run([command]).expect_code(0).stdout.clone()
}

#[track_caller]
fn assert_has(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "`{part}` is not in\n{text}");
    }
}

// covers: SENT-25, CLI-14, CLI-44
#[test]
fn what_sentinels_said_last_is_in_the_summary_in_status_and_in_the_report() {
    let project = project();
    let asks = r#"cat > /dev/null; echo '{"text": "", "ask": "stop", "reason": "a secret"}'"#;
    let quiet = json!({"reportToWebsocket": {"outputs": false}});
    let sentinels = json!([
        sentinel("guard", "cat > /dev/null; echo '.env was written'", json!({})),
        sentinel("broken", "cat > /dev/null; echo no >&2; exit 3", json!({})),
        sentinel("asks", asks, json!({"answer": "json"})),
        sentinel("quiet", "cat > /dev/null; echo whispered", quiet),
        sentinel(
            "ends",
            "cat > /dev/null; echo the last word",
            json!({"trigger": {"type": "event", "on": ["codon.completed"]}})
        ),
    ]);
    project.write_hank(&json!({"hank": [codon(&project, "build", json!({ "sentinels": sentinels }))]}));
    let finished = project.run(["run", "--headless"]);
    let told = [
        "sentinel guard: .env was written",
        "sentinel broken failed: ",
        "sentinel asks asks for `stop`, which the hank does not allow (mayAsk): a secret",
        "sentinel ends: the last word",
    ];
    let summary = finished
        .expect_code(0)
        .stderr
        .split("Finished: ")
        .nth(1)
        .unwrap()
        .to_owned();
    assert_has(
        &summary,
        &["1 of 1 codon completed, 1 with a sentinel that failed."],
    );
    let (status, report) = (printed(&project, "status"), printed(&project, "report"));
    for text in [&summary, &status, &report.replace('\\', "")] {
        assert_has(text, &told);
        assert!(!text.contains("whispered"), "{text}");
    }
    let document = project.run(["status", "--json"]).json_document();
    let remarks = document["run"]["codons"][0]["remarks"].to_string();
    assert_has(&remarks, &told);
    let written = fs::read_to_string(project.directory().join(".hankweave/report.md")).unwrap();
    assert_has(&written.replace('\\', ""), &told);
    // A screen that already shows the lines of codons has the remarks below them.
    let Some(mut terminal) = Terminal::sized(&project, 40, 120, "run --new") else {
        return;
    };
    terminal.until_standing(|screen| {
        let end = screen.split("Finished: ").nth(1).unwrap_or_default();
        end.contains("remark       build: sentinel guard: .env was written") && end.contains("checkpoints ")
    });
    assert_eq!(terminal.close(), Some(0));
}

// covers: CLI-14, CLI-30
#[test]
fn a_question_is_in_status_with_its_time_and_the_commands_that_answer_it() {
    let project = asking("two");
    let mut run = project.start(["run", "--headless", "--json", "--no-autostart"]);
    run.wait_for_line(|line| line.contains("\"server.idle\""));
    project.run(["next"]).expect_code(0);
    wait_for_question(&mut run);
    let asked = [
        "deploy waits for an approval\n  Deploy to production? (asked ",
        "hankweave approve deploy ",
        "hankweave approve deploy --deny",
    ];
    let status = printed(&project, "status");
    assert_has(&status, &asked);
    assert_has(&status, &[": waiting for an approval, started "]);
    let document = project.run(["status", "--json"]).json_document();
    assert_eq!(document["approval"]["question"], "Deploy to production?");
    assert!(
        document["approval"]["since"].as_str().unwrap().ends_with('Z'),
        "{document}"
    );
    assert_eq!(document["view"]["state"], "asking");
    project
        .run(["approve", "--deny", "--reason", "not on a Friday"])
        .expect_code(0);
    run.finish_within(SOON).expect_code(3);
    let status = printed(&project, "status");
    assert_has(
        &status,
        &[": paused (approval denied), ", "deploy was denied by "],
    );
    let report = printed(&project, "report");
    assert_has(&report, &["deploy: denied by ", ": not on a Friday"]);
    assert!(
        !report.contains("client-") && !report.contains("codon.deny"),
        "{report}"
    );
    project.run(["approve"]).expect_code(0);
    assert_has(
        &printed(&project, "status"),
        &[": paused (approved since then), "],
    );

    // No user can be asked: the run pauses with the question.
    let project = asking("two");
    project.run(["run", "--headless"]).expect_code(3);
    let status = printed(&project, "status");
    assert_has(&status, &asked[..2]);
    assert_has(&status, &[": paused (approval needed), "]);
}

// covers: STATE-65, CLI-44
#[test]
fn an_answer_has_the_name_of_the_user_who_gave_it() {
    let mut project = asking("two");
    project.set("LOGNAME", "ada");
    project.run(["run", "--headless"]).expect_code(3);
    project.run(["approve", "--reason", "looks good"]).expect_code(0);
    assert_eq!(project.state(&project.directory())["approval"]["by"], "ada");
    project.run(["run", "--headless"]).expect_code(0);
    let report = printed(&project, "report");
    assert_has(&report, &["deploy: approved by ada: looks good"]);
    let mut project = asking("two");
    project.set("LOGNAME", "ada");
    let Some(mut terminal) = Terminal::sized(&project, 30, 100, "run") else {
        return;
    };
    terminal.until("y approves");
    terminal.press("y");
    terminal.until("deploy: approved by ada at ");
    terminal.until("Finished: ");
    assert_eq!(terminal.close(), Some(0));
}

// covers: STATE-65, HANK-40
#[test]
fn a_budget_that_is_used_up_is_told_before_anybody_is_asked() {
    let project = asking("two");
    let paused = project.run(["run", "--headless", "--max-cost", "0.2"]);
    assert_has(
        &paused.expect_code(3).stderr,
        &["Paused before deploy: the total budget is used up: used $0.2500 of $0.2000"],
    );
    let status = printed(&project, "status");
    assert_has(
        &status,
        &[
            ": paused (total budget of $0.2000 spent), ",
            "next: deploy",
            " --max-cost 0.45 ",
        ],
    );
    assert!(!status.contains("waits for an approval"), "{status}");
    let asked = project.run(["run", "--headless", "--max-cost", "9"]);
    assert_has(
        &asked.expect_code(3).stderr,
        &["waits for an approval: Deploy to production?"],
    );
    // What ends for want of its own budget is not asked about either.
    let project = project_with_spent_loop();
    let skipped = project.run(["run", "--headless"]);
    let lines = skipped.expect_code(0).stdout.clone();
    assert!(!lines.contains("waits for an approval"), "{skipped}");
}

/// A loop whose first codon uses up what the second one, which asks, would need.
fn project_with_spent_loop() -> TestProject {
    let project = project();
    let asks = codon(&project, "deploy", json!({"approval": true}));
    let inner = [codon(&project, "one", json!({})), asks];
    project.write_hank(
        &json!({"hank": [{"type": "loop", "id": "l", "name": "L", "codons": inner,
        "terminateOn": {"type": "iterationLimit", "limit": 1}, "budget": {"maxDollars": 0.1}}]}),
    );
    project
}

// covers: HANK-62, CLI-14
#[test]
fn a_failed_check_is_told_with_its_last_line_and_a_loop_with_the_key_of_its_limit() {
    let project = project();
    let fails = json!({"run": "echo 3 of 148 fail; echo; exit 1", "retries": 0});
    project.write_hank(&json!({"hank": [codon(&project, "build", json!({"check": fails}))]}));
    project.run(["run", "--headless"]).expect_code(1);
    let status = printed(&project, "status");
    assert_has(&status, &["│ 3 of 148 fail", "hankweave logs build "]);

    let until = json!({"type": "untilCheckPasses", "run": "echo still red; exit 1", "limit": 2});
    let inner = [codon(&project, "fix", json!({}))];
    let hank = json!({"hank": [codon(&project, "one", json!({})),
        {"type": "loop", "id": "l", "name": "L", "codons": inner, "terminateOn": until, "stalledAfter": 0}]});
    project.write_hank(&hank);
    let failed = project.run(["run", "--headless", "--new"]);
    let raise = "no iteration is left after all 2 iterations: raise `hank[1].terminateOn.limit` in hank.json for more";
    assert_has(&failed.expect_code(1).stderr, &[raise]);
    let status = printed(&project, "status");
    assert_has(&status, &[raise, "│ still red", "hankweave logs fix#1 "]);
    let report = printed(&project, "report");
    let until = "- L (`l`): until `echo still red; exit 1` passes, at most 2 times";
    assert_has(
        &report,
        &[
            until,
            "a run started over at the first codon, with the files as they were",
        ],
    );
}

// covers: CLI-14, CLI-44
#[test]
fn a_run_of_a_minute_has_a_length_and_a_crash_marks_the_time_that_it_took() {
    let project = project();
    let waits = codon(&project, "two", json!({"promptText": "wait for go"}));
    project.write_hank(&json!({"hank": [codon(&project, "one", json!({})), waits]}));
    let mut run = project.start(["run", "--headless", "--json"]);
    run.wait_for_line(|line| line.contains("\"assistant.action\"") && line.contains("\"two\""));
    run.kill();
    let lost = |text: &str| {
        assert!(
            text.contains(" in at least ") || text.contains("an unknown time"),
            "{text}"
        )
    };
    lost(&printed(&project, "status"));
    let document = project.run(["status", "--json"]).json_document();
    assert_eq!(document["run"]["workedIsLowerBound"], true);
    let report = printed(&project, "report");
    assert!(
        report.contains("at work")
            && ["at least ", "an unknown time"]
                .iter()
                .any(|time| report.contains(&format!("| crashed | {time}"))),
        "{report}"
    );
    assert!(
        report.contains("at least ") || report.contains("an unknown time"),
        "{report}"
    );

    project.write("go", "");
    project.run(["run", "--headless"]).expect_code(0);
    let status = printed(&project, "status");
    let first = status.lines().next().unwrap();
    let times: Vec<&str> = first.split_whitespace().rev().take(3).collect();
    assert!(
        times[1] == "at" || (times[1] == "to" && times[0] != times[2]),
        "the same time twice: {status}"
    );
    let history = project.run(["history", "--all"]).expect_code(0).stdout.clone();
    let crashed = |line: &&str| line.starts_with("  two ") && line.contains(" crashed ");
    let crashed = history
        .lines()
        .find(crashed)
        .unwrap_or_else(|| panic!("{history}"));
    assert!(
        crashed.contains(" unknown ") || crashed.contains(" ≥ "),
        "{history}"
    );
    assert_has(&printed(&project, "report"), &["the run crashed", "at least "]);
}

// covers: CLI-7
#[test]
fn validate_shows_what_codons_and_loops_ask_for() {
    let project = project();
    let asks = json!({"requires": ["plan.md"], "check": {"run": "true", "retries": 5}, "onFailure": "retry",
        "retryConfig": {"maxAttempts": 2, "delayMs": 3000}, "env": {"MODE": "fast"}, "exhaustWithPrompt": "go on", "maxExtensions": 4,
        "shimIdleTimeout": 300, "settleSeconds": 60, "outputFiles": [{"copy": ["plan.md"]}], "archiveOnSuccess": ["tmp/**"],
        "autoCompact": true, "appendSystemPromptText": "Be brief.", "checkpointedFiles": ["plan.md"]});
    let until = json!({"type": "untilCheckPasses", "run": "true"});
    let hank = json!({"overrides": {"requires": "changes"}, "hank": [codon(&project, "build", asks),
        {"type": "loop", "id": "l", "name": "L", "codons": [codon(&project, "fix", json!({}))], "terminateOn": until, "stalledAfter": 3}]});
    project.write_hank(&hank);
    let shown = printed(&project, "validate");
    assert_has(
        &shown,
        &[
            "has to leave changes of plan.md (requires)",
            "continues when its check does not pass, 5 times at most (retries)",
            "runs again when it fails, 2 times at most, the first time after 3s (onFailure)",
            "continues with exhaustWithPrompt, 4 times at most",
            "adds 9 B to the system prompt",
            "sets MODE",
            "may compact its context (autoCompact)",
            "may be silent for 5m0s (shimIdleTimeout)",
            "what it left running is ended 1m0s after the answer (settleSeconds)",
            "copies as results plan.md",
            "archives after success tmp/**",
            "pauses after 3 iterations in a row without a change (stalledAfter)",
            "has to leave a changed file (requires)",
        ],
    );
    let document = project.run(["validate", "--json"]).json_document();
    assert_eq!(document["loops"][0]["stalledAfter"], 3);
    assert!(
        document["codons"][0]["asks"].as_array().unwrap().len() > 8,
        "{document}"
    );
}

/// The list of mistakes on a terminal breaks between words, and commands in hints stay whole.
// covers: CLI-7
#[test]
fn a_list_of_mistakes_breaks_between_words() {
    let project = project();
    let codons: Vec<Value> = (0..3)
        .map(|number| json!({"id": format!("c{number}"), "name": "N", "model": "scripted", "continuationMode": "sideways", "promptText": "go",
            "checkpointedFilez": []}))
        .collect();
    project.write_hank(&json!({ "hank": codons }));
    for arguments in ["validate", "run --headless"] {
        let Some(mut terminal) = Terminal::sized(&project, 40, 80, arguments) else {
            return;
        };
        terminal.until_standing(|screen| screen.matches("checkpointedFilez").count() >= 3);
        let screen = terminal.standing();
        terminal.close();
        for word in ["continue-previous", "checkpointedFiles`?"] {
            assert!(screen.contains(word), "`{word}` is torn:\n{screen}");
        }
    }
}

// covers: HANK-74
#[test]
fn scripts_of_fallbacks_are_read_and_must_be_there() {
    let project = project();
    project.write("bad.json", "{\"turnz\": 1}\n");
    let own = json!({"fallback": [{"agent": {"script": "gone.json"}}]});
    let everywhere = json!({"fallback": ["wait", {"agent": {"script": "bad.json"}}]});
    project.write_hank(&json!({"overrides": everywhere, "hank": [codon(&project, "play", own)]}));
    let validated = project.run(["validate"]).expect_code(1).stdout.clone();
    assert_has(&validated, &["bad.json:1:2: error: ", "turnz", "gone.json"]);
}

// covers: HANK-74, SENT-8, CLI-10
#[test]
fn bad_lines_of_json_are_told_with_one_place_in_plain_words() {
    let project = project();
    project.write("bad.jsonl", "{\"turns\": []}\n{\"turns\": 1}\n");
    project.write("events.jsonl", "{}\nx\n");
    project.write("tasks.jsonl", "{\"name\": 5, \"hank\": \".\"}\n");
    let script = json!({"agent": {"script": "bad.jsonl"}});
    project.write_hank(&json!({"hank": [codon(&project, "play", script)]}));
    let validated = project.run(["validate"]).expect_code(1).stdout.clone();
    let applied = project.run(["state", "apply", "--events", "events.jsonl"]);
    let created = project.run(["task", "create", "--from", "tasks.jsonl"]);
    for (text, words) in [
        (
            &validated,
            "\nbad.jsonl:2:1: error: codon \"play\": not JSON: text cannot contain more than one JSON value\n",
        ),
        (
            &applied.expect_code(65).stderr,
            "`events.jsonl` is no list of events, line 2, column 1: there is no JSON value here\n",
        ),
        (
            &created.expect_code(65).stderr,
            "  tasks.jsonl:1: `name`: must be a text, not 5; the hank cannot be used\n",
        ),
    ] {
        assert_has(text, &[words]);
        assert!(
            !text.contains(" at line ") && !text.contains("invalid type"),
            "{text}"
        );
    }
    let answers = sentinel(
        "speaks",
        r#"cat > /dev/null; echo '{"text": 5}'"#,
        json!({"answer": "json"}),
    );
    project.write_hank(&json!({"hank": [codon(&project, "build", json!({"sentinels": [answers]}))]}));
    project.run(["run", "--headless"]).expect_code(0);
    let status = printed(&project, "status");
    assert_has(
        &status,
        &["the command printed no object as it should, line 1, column 10: must be a text, not 5"],
    );
}
