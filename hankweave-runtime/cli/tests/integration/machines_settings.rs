//! The remote is set in the user's own hankweave.json or in a variable.

use serde_json::{Value, json};

use crate::machines::{Between, done, free, run_half, write_hank};
use crate::support::project;

// covers: CLI-61
#[test]
fn the_remote_of_the_settings_serves_push_pull_clone_and_workers() {
    let (between, other) = (Between::new(), Between::new());
    let (laptop, mut server) = (project(), project());
    write_hank(&laptop);
    let own = laptop.home().join(".config/hankweave/hankweave.json");
    std::fs::create_dir_all(own.parent().unwrap()).unwrap();
    std::fs::write(own, json!({"remote": between.url()}).to_string()).unwrap();
    run_half(&laptop);
    let pushed = laptop.run(["push", "--json"]).expect_code(0).json_document();
    assert_eq!(
        (&pushed["remote"], &pushed["outcome"]),
        (&json!(between.url()), &json!("pushed"))
    );

    let nobody_says = server.run(["clone"]);
    nobody_says.expect_code(2);
    assert!(
        nobody_says.stderr.contains("hankweave clone URL"),
        "{nobody_says}"
    );
    server.set("HANKWEAVE_REMOTE", between.url());
    server.run(["clone"]).expect_code(0);
    let work = server.directory().join("runs");
    free(&work);
    server.run(["run", "runs", "--headless"]).expect_code(0);
    // A run that knows its remote keeps it, even if the settings name another one.
    server.set("HANKWEAVE_REMOTE", other.url());
    server.run(["push", "-e", "runs"]).expect_code(0);
    assert_eq!(other.references("/record"), Vec::<String>::new());
    laptop.run(["pull"]).expect_code(0);
    assert_eq!(done(&laptop.directory()), "one\ntwo\n");

    let shown = |project: &hankweave_testing::TestProject| -> Value {
        let shown = project.run(["config", "--json"]).expect_code(0).json_document();
        shown["settings"]["remote"].clone()
    };
    assert_eq!(
        (&shown(&laptop)["value"], &shown(&laptop)["source"]),
        (&json!(between.url()), &json!("user"))
    );
    server.set("HANKWEAVE_REMOTE", "https://ann:secret@example.org/runs.git");
    let secret = shown(&server);
    assert_eq!(
        (&secret["value"], &secret["variable"]),
        (
            &json!("https://ann:***@example.org/runs.git"),
            &json!("HANKWEAVE_REMOTE")
        )
    );
    assert!(!server.run(["config"]).stdout.contains("secret"));

    // A worker takes it as well.
    let hank = laptop.directory().display().to_string();
    free(&laptop.directory());
    laptop
        .run(["task", "create", "Report", "--hank", &hank, "--id", "report-7"])
        .expect_code(0);
    laptop.run(["worker", "--once"]).expect_code(0);
    assert!(
        between
            .references("/record")
            .iter()
            .any(|name| name.contains("tasks/report-7"))
    );
}
