//! A limit for the room of the record, and cleanup that frees what it says (RUN-40, CLI-42).

use std::fs;
use std::path::Path;
use std::process::Command;

use hankweave_testing::TestProject;
use serde_json::{Value, json};

use crate::support::{project, shell_agent};

const MIB: u64 = 1 << 20;

/// A limit of 100 MiB, in GiB.
const LIMIT: &str = "0.09765625";

fn write_codons(project: &TestProject, count: usize) {
    let agent = shell_agent(project);
    let codons = (0..count).map(|number| {
        json!({"id": format!("c{number}"), "name": "C", "agent": agent, "model": "claude-sonnet-4-5",
               "continuationMode": "fresh", "promptText": format!("prompt {number}"), "checkpointedFiles": ["*.txt"]})
    });
    project.write_hank(&json!({"hank": codons.collect::<Vec<_>>()}));
}

/// Lets the record hold a file of this length, which takes no room on the disk.
fn fill(project: &TestProject, length: u64) {
    let path = project.directory().join(".hankweave/ballast");
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::File::create(path).unwrap().set_len(length).unwrap();
}

/// Objects of checkpoints that have a file each.
fn loose(project: &TestProject) -> usize {
    let objects = project.directory().join(".hankweave/checkpoints/objects");
    let folders = fs::read_dir(objects).unwrap().flatten();
    let folders = folders.filter(|folder| folder.file_name().len() == 2);
    folders
        .map(|folder| fs::read_dir(folder.path()).unwrap().count())
        .sum()
}

fn told(project: &TestProject) -> Vec<Value> {
    let text = fs::read_to_string(project.directory().join("told")).unwrap_or_default();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

// covers: RUN-40, CLI-14, CLI-26, CLI-27
#[test]
fn from_four_fifths_on_what_nothing_needs_goes_and_a_warning_is_shown_everywhere() {
    let project = project();
    write_codons(&project, 1);
    project.run(["run", "--headless"]).expect_code(0);
    let small = project.run(["status", "--json"]).expect_code(0).json_document();
    assert_eq!(small["disk"], Value::Null);
    let before = loose(&project);
    assert!(before > 1, "{before}");

    fill(&project, 90 * MIB);
    project.write(".hankweave/logs/server.log.1", "old\n");
    project.write("hankweave.json", json!({"maxDiskGb": 100.0 / 1024.0}).to_string());
    let tell = "cat >> told";
    let run = project.run(["run", "--new", "--headless", "--notify", tell]);
    let shown = &run.expect_code(0).stdout;
    let line = "the record in .hankweave takes 90 % of the room that it may (maxDiskGb)";
    assert!(shown.contains(line), "{shown}");
    assert!(!project.directory().join(".hankweave/logs/server.log.1").exists());
    // What the codon itself has added since is not packed yet.
    assert!(loose(&project) < before, "{} of {before}", loose(&project));
    let news = told(&project);
    assert_eq!(
        (&news[0]["event"], &news[1]["event"]),
        (&json!("disk"), &json!("completed"))
    );
    assert_eq!(news[0]["next"], "hankweave cleanup --keep 1");

    let status = project.run(["status"]);
    let status = &status.expect_code(0).stdout;
    assert!(
        status.contains("takes 90 % of the room")
            && status.contains("`hankweave cleanup` removes what old runs left"),
        "{status}"
    );
    let disk = project.run(["status", "--json"]).expect_code(0).json_document()["disk"].clone();
    assert_eq!(disk["limitBytes"], 100 * MIB);
    assert!(disk["usedBytes"].as_u64() >= Some(90 * MIB), "{disk}");
    let doctor = project.run(["doctor", "--json"]).json_document();
    let findings = doctor["findings"].as_array().unwrap();
    let record = findings
        .iter()
        .find(|finding| finding["name"] == "record")
        .unwrap();
    assert_eq!(record["level"], "warning", "{record}");
    let events = project.run(["journal", "--json", "--type", "disk.usage"]);
    assert_eq!(events.expect_code(0).json_lines().len(), 1);

    project.run(["checkpoints", "verify"]).expect_code(0);
    project.run(["undo", "--dry-run"]).expect_code(0);
    project.run(["replay", ".", "--speed", "max"]).expect_code(0);
}

// covers: RUN-40, CLI-1, CLI-27
#[test]
fn at_the_limit_the_run_pauses_between_codons_and_says_what_to_type() {
    let project = project();
    write_codons(&project, 2);
    fill(&project, 100 * MIB);
    let arguments = ["run", "--headless", "--max-disk", LIMIT];
    let paused = project.run(arguments);
    let said = &paused.expect_code(3).stderr;
    assert!(
        said.contains("the record in .hankweave takes 100 % of the room"),
        "{said}"
    );
    let next = "hankweave cleanup --keep 1 && hankweave run";
    assert!(said.contains(next), "{said}");
    assert!(!project.directory().join("done.txt").exists());
    let state = project.state(&project.directory());
    assert_eq!(state["runs"][0]["interruptedBy"], "disk", "{state:#}");
    assert_eq!(state["runs"][0]["codons"], json!([]));
    let status = project.run(["status"]);
    let status = &status.expect_code(0).stdout;
    assert!(
        status.contains("paused (no room left for the record)"),
        "{status}"
    );
    let report = project.run(["report"]);
    assert!(
        report
            .expect_code(0)
            .stdout
            .contains("no room left for the record"),
        "{report}"
    );

    // A detached run pauses as well, and its notification says so.
    let tell = "cat >> told";
    let detached = ["run", "--detach", "--max-disk", LIMIT, "--notify", tell];
    let paused = project.run(detached);
    let said = &paused.expect_code(3).stderr;
    assert!(said.contains("takes 100 % of the room"), "{said}");
    let news = told(&project);
    assert_eq!(news.last().unwrap()["event"], "paused", "{news:?}");
    assert!(
        news.last().unwrap()["next"].as_str().unwrap().starts_with(next),
        "{news:?}"
    );

    fs::remove_file(project.directory().join(".hankweave/ballast")).unwrap();
    let done = project.run(arguments);
    assert!(
        done.expect_code(0)
            .stderr
            .contains("Finished: 2 of 2 codons completed."),
        "{done}"
    );
    for wrong in ["0", "-1", "much", "inf"] {
        project
            .run(["run", &format!("--max-disk={wrong}")])
            .expect_code(2);
    }
}

/// Returns the length of all files inside a folder, as `du` counts them.
fn du(folder: &Path) -> u64 {
    let listed = Command::new("du").arg("-ab").arg(folder).output().unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    let files = listed.lines().filter_map(|line| {
        let (length, path) = line.split_once('\t')?;
        Path::new(path).is_file().then(|| length.parse::<u64>().unwrap())
    });
    files.sum()
}

// covers: CLI-42, RUN-23
#[test]
fn cleanup_frees_what_it_says_as_du_counts_it() {
    let project = project();
    write_codons(&project, 2);
    for round in 0..3 {
        project.write("big.txt", format!("{round}").repeat(200_000));
        project.run(["run", "--new", "--headless"]).expect_code(0);
    }
    let record = project.directory().join(".hankweave");
    let taken = || du(&record.join("runs")) + du(&record.join("checkpoints/objects"));
    let before = taken();
    let shown = project.run(["cleanup", "--keep", "1", "--dry-run", "--json"]);
    let shown = shown.expect_code(0).json_document();
    assert_eq!(taken(), before, "a look frees nothing");
    let cleaned = project.run(["cleanup", "--keep", "1", "--yes", "--json"]);
    let cleaned = cleaned.expect_code(0).json_document();
    let said = |document: &Value| {
        document["logBytes"].as_u64().unwrap() + document["checkpointBytes"].as_u64().unwrap()
    };
    assert!(said(&cleaned) > 0, "{cleaned}");
    assert_eq!(said(&shown), said(&cleaned));
    assert_eq!(before - taken(), said(&cleaned));
}
