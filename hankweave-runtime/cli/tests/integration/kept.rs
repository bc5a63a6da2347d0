//! Files after a run was killed: what the user had changed before stays, what the dead codon did goes (RUN-2).

use std::fs;

use hankweave_testing::TestProject;
use serde_json::{Value, json};

use crate::support::{project, shell_agent};

/// The second codon asks for an approval; while there is a file `broken` it makes and changes files, ignored ones and others that no pattern covers among them, and
/// works without end.
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
    let diff = project.run(["diff", "--stat"]).expect_code(0).stdout.clone();
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
            && said.contains("changed before two began, so kept: deep/mine.txt, notes.txt, prices.txt\n"),
        "{finished}"
    );

    // What the dead codon did is kept, and comes back.
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
            .contains("in no checkpoint before two began, so kept: "),
        "{finished}"
    );
    // Nobody knows which of the new ones are the codon's, so all stay; those that it changed go back.
    assert_eq!(
        (read(&project, "made.txt"), read(&project, "done.txt")),
        ("half\n".to_owned(), "one\ntwo\n".to_owned())
    );
}

/// What the user mends before a run that fails again is not taken back with that run.
// covers: RUN-2
#[test]
fn what_was_changed_before_a_run_that_failed_stays_after_the_next_failure() {
    let project = project();
    let agent = shell_agent(&project);
    let text = fs::read_to_string(project.directory().join("agent.sh")).unwrap();
    let fails = "say working\n[ \"$prompt\" = two ] && [ -e broken ] && echo half >> done.txt && exit 3\n";
    project.write("agent.sh", text.replace("say working\n", fails));
    let codon = |id: &str| {
        json!({"id": id, "name": id, "agent": agent, "model": "claude-sonnet-4-5", "continuationMode": "fresh",
            "promptText": id, "checkpointedFiles": ["*.txt"]})
    };
    project.write_hank(&json!({"hank": [codon("one"), codon("two")]}));
    project.write("prices.txt", "pear 1\n");
    project.write("broken", "");
    project.run(["run", "--headless"]).expect_code(1);
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
