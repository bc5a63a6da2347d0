//! Usage limits in the words of agents.

use std::time::Duration;

use hankweave_testing::TestProject;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::project;

fn limited(result: &str) -> TestProject {
    let project = project();
    let opening = r#"{"type":"system","subtype":"init","session_id":"s-1","model":"none"}"#;
    let line = json!({"type": "result", "subtype": "success", "is_error": true, "result": result});
    project.write(
        "agent.sh",
        format!("cat > /dev/null\necho '{opening}'\ncat result.json\nexit 1\n"),
    );
    project.write("result.json", format!("{line}\n"));
    project.write_hank(&json!({"hank": [{"id": "one", "name": "one", "agent": {"command": ["sh", "agent.sh"], "stream": "claude"},
        "continuationMode": "fresh", "promptText": "x"}]}));
    project
}

/// Every zone is known, even if the machine lacks it, and each wording ends in a pause instead of a failure.
// covers: F10, AGENT-12
#[test]
fn a_limit_in_any_words_pauses_a_run_that_may_not_wait_so_long() {
    for words in [
        "Claude usage limit reached. Your limit will reset at 7pm (Asia/Tokyo).",
        "You've hit your usage limit. Upgrade to Pro or try again in 5 days 22 hours 11 minutes.",
        "Usage limit reached for gemini-3-flash-preview. Access resets at 10:57\u{202f}PM GMT-3.",
        "You have exhausted your capacity on this model. Your quota will reset after 18h20m10s.",
        "Weekly limit reached \u{b7} resets Thu 10:00 AM",
    ] {
        let project = limited(words);
        let ended = project.run(["run", "--headless", "--max-wait", "1"]);
        ended.expect_code(3);
        let state = project.state(&project.directory());
        let failure = &state["runs"][0]["codons"][0]["failureReason"];
        assert_eq!(failure["interruptedBy"], "usage-limit", "{words}: {failure:#}");
        let told: Option<Value> = failure.get("retryAt").cloned();
        let ends = told.as_ref().and_then(Value::as_str).expect("it is told");
        let status = project.run(["status"]).expect_code(0).stdout.clone();
        // Screens have the time of the user's clock, documents that of UTC.
        for screen in [&ended.stdout, &ended.stderr, &status] {
            assert!(!screen.contains(ends), "{screen}");
        }
        let status = project.run(["status", "--json"]).expect_code(0).json_document();
        assert_eq!(status["limitEndsAt"], ends);
    }
}

/// What a person reads has the time of their clock with its zone, because they may be elsewhere; the JSON has that of UTC.
// covers: CLI-27
#[test]
fn the_end_of_a_limit_is_notified_in_local_time_with_its_zone() {
    let project = limited("You've hit your usage limit. Upgrade to Pro or try again in 5 hours 11 minutes.");
    let notify = r#"cat > news; printf '%s' "$HANKWEAVE_REASON" > reason"#;
    project
        .run(["run", "--headless", "--max-wait", "1", "--notify", notify])
        .expect_code(3);
    let read = |name: &str| std::fs::read_to_string(project.directory().join(name)).unwrap();
    let news: Value = serde_json::from_str(&read("news")).unwrap();
    let (reason, told) = (news["reason"].as_str().unwrap().to_owned(), read("reason"));
    let ends = project.run(["status", "--json"]).expect_code(0).json_document()["limitEndsAt"].clone();
    let ends = ends.as_str().unwrap();
    assert!(reason.contains(ends) && !told.contains(ends), "{reason}\n{told}");
    assert!(told.contains(" UTC"), "the tests live in UTC: {told}");
}

// covers: F10
#[test]
fn a_run_waits_for_a_limit_in_other_words() {
    let project = limited("Claude usage limit reached. Your limit will reset at 7pm (Asia/Tokyo).");
    let mut running = project.start(["run", "--headless", "--json", "--max-wait", "2d"]);
    running.wait_for_line(|line| line.contains("usage-limit"));
    running.signal(Signal::TERM);
    running.finish_within(Duration::from_secs(120)).expect_code(143);
}
