//! Files of released versions, which `tests/formats/record` has recorded, are read by the program of today (D4, P6).

use std::fs;
use std::path::{Path, PathBuf};

use hankweave_testing::TestProject;
use serde_json::Value;

use crate::support::project;

/// The folders of all recorded versions.
fn versions() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/formats");
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.filter(|path| path.is_dir()).collect()
}

/// A project with the hank of a version and its record.
fn restored(version: &Path) -> TestProject {
    let project = project();
    for folder in ["", "prompts/", "scripts/", "events/"] {
        for entry in fs::read_dir(version.join(folder)).unwrap() {
            let path = entry.unwrap().path();
            if path.is_file() {
                let name = path.file_name().unwrap().to_str().unwrap();
                let is_record = folder == "events/" || name.starts_with("state.");
                let place = if is_record { ".hankweave/" } else { "" };
                project.write(&format!("{place}{folder}{name}"), fs::read(&path).unwrap());
            }
        }
    }
    project
}

#[test]
fn the_version_of_today_is_recorded_when_it_is_released() {
    let known: Vec<_> = versions()
        .iter()
        .map(|path| path.file_name().unwrap().to_owned())
        .collect();
    assert!(known.iter().any(|name| name == "0.1.0"), "{known:?}");
}

// covers: D4
#[test]
fn the_state_and_the_journal_of_every_version_are_read() {
    for version in versions() {
        let project = restored(&version);
        project.run(["state", "validate"]).expect_code(0);
        let events: String = {
            let mut files: Vec<_> = fs::read_dir(version.join("events"))
                .unwrap()
                .map(|entry| entry.unwrap().path())
                .collect();
            files.sort();
            files
                .iter()
                .map(|path| fs::read_to_string(path).unwrap())
                .collect()
        };
        let journal = project.run(["journal", "--json"]).expect_code(0).json_lines();
        assert_eq!(journal.len(), events.lines().count(), "{}", version.display());

        let history = project
            .run(["history", "--all", "--json"])
            .expect_code(0)
            .json_document();
        assert_eq!(history["runs"].as_array().map(Vec::len), Some(2), "{history:#}");
        let codons: Vec<&Value> = history["runs"]
            .as_array()
            .unwrap()
            .iter()
            .flat_map(|run| run["codons"].as_array().unwrap())
            .collect();
        assert!(
            codons.iter().all(|codon| codon["status"] == "completed"),
            "{history:#}"
        );
        let cost = project.run(["cost", "--json"]).expect_code(0).json_document();
        assert!(cost["total"]["spend"].as_f64() > Some(0.0), "{cost:#}");

        // A run of today continues the thread, in which nothing is left to do.
        let again = project.run(["run", "--headless"]);
        assert!(format!("{again}").contains("left to do"), "{again}");
        again.expect_code(0);
    }
}

// covers: TASK-26
#[test]
fn the_registry_of_every_version_is_read_and_written() {
    for version in versions() {
        let project = restored(&version);
        let registry = project.directory().join("registry.sqlite");
        let text = fs::read_to_string(version.join("registry.sql")).unwrap();
        rusqlite::Connection::open(&registry)
            .unwrap()
            .execute_batch(&text)
            .unwrap();
        let url = format!("sqlite:{}", registry.display());
        let statuses = || {
            let listed = project.run(["task", "list", "--json", "--registry", &url]);
            let document = listed.expect_code(0).json_document();
            let tasks = document["tasks"].as_array().unwrap().iter();
            let mut statuses: Vec<String> = tasks
                .map(|task| task["status"].as_str().unwrap().to_owned())
                .collect();
            statuses.sort();
            statuses
        };
        assert_eq!(statuses(), ["cancelled", "pending"]);
        project
            .run(["task", "create", "third", "--hank", ".", "--registry", &url])
            .expect_code(0);
        assert_eq!(statuses(), ["cancelled", "pending", "pending"]);
    }
}
