//! Old runs are removed on one machine while a remote and another machine have them.

use serde_json::{Value, json};

use crate::machines::{Between, clone, done, push};
use crate::support::{project, shell_agent};

/// The last checkpoint of each run, the newest first.
fn ends(state: &Value) -> Vec<String> {
    let runs = state["runs"].as_array().unwrap().iter();
    let ends = runs.map(|run| run["codons"][0]["completionCheckpoint"].as_str().unwrap());
    ends.map(str::to_owned).collect()
}

// covers: RUN-31
#[test]
fn what_is_removed_here_stays_on_the_remote_and_runs_move_on() {
    let (between, laptop, server) = (Between::new(), project(), project());
    let agent = shell_agent(&laptop);
    laptop.write_hank(
        &json!({"hank": [{"id": "one", "name": "one", "agent": agent, "model": "shell", "continuationMode": "fresh",
        "promptText": "one", "checkpointedFiles": ["done.txt"]}]}),
    );
    let run = ["run", "--new", "--headless"];
    for _ in 0..3 {
        laptop.run(run).expect_code(0);
    }
    let checkpoints = ends(&laptop.state(&laptop.directory()));
    assert_eq!(push(&laptop, &["--remote", &between.url()])["outcome"], "pushed");
    clone(&server, &between.url());
    let work = server.directory().join("work");

    let cleaned = laptop.run(["cleanup", "--keep", "1", "--yes", "--json"]);
    let cleaned = cleaned.expect_code(0).json_document();
    assert_eq!(cleaned["runs"].as_array().unwrap().len(), 2, "{cleaned}");
    laptop.run(["checkpoints", "verify"]).expect_code(0);
    assert_eq!(push(&laptop, &[])["outcome"], "pushed");
    assert_eq!(push(&laptop, &[])["outcome"], "up-to-date");
    let all_are_on_the_remote = || {
        for checkpoint in &checkpoints {
            between.git(&["cat-file", "-e", &format!("{checkpoint}:done.txt")]);
        }
        between.git(&["fsck", "--strict", "--no-dangling"]);
        let record = between.references("/record").remove(0);
        for checkpoint in &checkpoints {
            between.git(&["merge-base", "--is-ancestor", checkpoint, &record]);
        }
    };
    all_are_on_the_remote();

    // The other machine takes that over, and continues.
    let pulled = server.run(["pull", "-e", "work", "--json"]);
    assert_eq!(pulled.expect_code(0).json_document()["outcome"], "arrived");
    server.run(["checkpoints", "verify", "-e", "work"]).expect_code(0);
    server.run(["run", "work", "--new", "--headless"]).expect_code(0);
    assert_eq!(push(&server, &["-e", "work"])["outcome"], "pushed");
    laptop.run(["pull"]).expect_code(0);
    for directory in [&work, &laptop.directory()] {
        assert_eq!(done(directory), "one\none\none\none\n");
    }
    laptop.run(["checkpoints", "verify"]).expect_code(0);
    laptop.run(["cleanup", "--keep", "1", "--yes"]).expect_code(0);
    laptop.run(run).expect_code(0);
    assert_eq!(push(&laptop, &[])["outcome"], "pushed");
    all_are_on_the_remote();
    // A new clone gets everything that is kept.
    let fresh = project();
    clone(&fresh, &between.url());
    fresh.run(["checkpoints", "verify", "-e", "work"]).expect_code(0);
    assert_eq!(done(&fresh.directory().join("work")), done(&laptop.directory()));
}

/// A directory that never had a remote is pushed after a cleanup, with all that is left of it.
// covers: RUN-23, RUN-31
#[test]
fn what_is_left_after_a_cleanup_can_be_pushed_to_a_new_remote() {
    let (between, laptop, server) = (Between::new(), project(), project());
    let agent = shell_agent(&laptop);
    laptop.write_hank(
        &json!({"hank": [{"id": "one", "name": "one", "agent": agent, "model": "shell", "continuationMode": "fresh",
        "promptText": "one", "checkpointedFiles": ["done.txt"]}]}),
    );
    for _ in 0..4 {
        laptop.run(["run", "--new", "--headless"]).expect_code(0);
    }
    laptop.run(["cleanup", "--keep", "2", "--yes"]).expect_code(0);
    assert_eq!(push(&laptop, &["--remote", &between.url()])["outcome"], "pushed");
    between.git(&["fsck", "--strict", "--no-dangling"]);
    clone(&server, &between.url());
    let work = server.directory().join("work");
    assert_eq!(done(&work), done(&laptop.directory()));
    server.run(["checkpoints", "verify", "-e", "work"]).expect_code(0);
    server.run(["undo", "-e", "work"]).expect_code(0);
    assert_eq!(done(&work), "one\none\none\n");
    server.run(["run", "work", "--headless"]).expect_code(0);
    assert_eq!(push(&server, &["-e", "work"])["outcome"], "pushed");
    laptop.run(["pull"]).expect_code(0);
    laptop.run(["checkpoints", "verify"]).expect_code(0);
    assert_eq!(done(&work), done(&laptop.directory()));
}
