//! Tasks at the usage limit of a provider: what continues them, and what they wait for.

use serde_json::json;

use crate::support::{SOON, project};
use crate::task_project::{create, says, text, work, workspace, write_hank};

// covers: HANK-46, TASK-52
#[test]
fn a_task_at_a_usage_limit_says_what_waits_for_it_and_that_it_waits() {
    let project = project();
    let limit = json!({"message": "Claude AI usage limit reached|4102444800", "status": 429});
    let script =
        json!({"turns": [{"text": "Half done", "usage": {"input": 100, "output": 10}}], "result": limit});
    write_hank(&project, "limited", &[json!({"id": "build", "script": script})]);
    create(&project, "limited", "Limited", "limited", &[]);
    work(&project);
    let shown = text(&project, &["task", "show", "limited"]);
    let (_, onward) = shown
        .split_once("hankweave task resume limited --max-wait ")
        .unwrap();
    let patience = onward.split_whitespace().next().unwrap();
    assert!(patience.ends_with('h') && patience.contains('d'), "{shown}");

    let refused = project
        .run(["task", "resume", "limited"])
        .expect_code(65)
        .stderr
        .clone();
    assert!(
        refused.contains("limited would pause at its usage limit again, which ends in ")
            && refused.contains("hint: `hankweave task resume limited --max-wait "),
        "{refused}"
    );
    project
        .run(["task", "resume", "limited", "--max-wait", patience])
        .expect_code(0);
    let worker = project.start(["worker", "--once"]);
    let place = workspace(&project, "limited");
    let waits = "build waits for the end of a usage limit, and is run again in ";
    let status = ["status", "-e", place.to_str().unwrap()];
    while !text(&project, &status).contains(waits) {
        std::thread::yield_now();
    }
    says(
        &text(&project, &["task", "show", "limited"]),
        &[&format!("waits        {waits}")],
    );
    says(&text(&project, &["task", "list"]), &[waits]);
    project.run(["task", "cancel", "limited"]).expect_code(0);
    worker.finish_within(SOON).expect_code(0);
    let status = text(&project, &status);
    // The task already has its longest wait, so the hint does not repeat `--max-wait`.
    says(&status, &["; `hankweave task resume limited` waits for that"]);
    assert!(!status.contains("hankweave run"), "{status}");
}
