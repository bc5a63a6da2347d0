//! `hankweave doctor`: what is looked at before there is a run.

use std::os::unix::fs::PermissionsExt;
use std::{env, fs};

use hankweave_testing::TestProject;
use serde_json::{Value, json};

use crate::support::project;

const SECRET: &str = "sk-very-secret";

/// A project whose `PATH` begins with these programs, each with the line that it prints.
fn with_programs(programs: &[(&str, &str)]) -> TestProject {
    let mut project = project();
    for (name, line) in programs {
        let program = project.write(&format!("bin/{name}"), format!("#!/bin/sh\necho '{line}'\n"));
        fs::set_permissions(program, PermissionsExt::from_mode(0o755)).unwrap();
    }
    let path = env::var_os("PATH").unwrap();
    let folders = std::iter::once(project.directory().join("bin")).chain(env::split_paths(&path));
    project.set("PATH", env::join_paths(folders).unwrap());
    project
}

fn finding<'f>(document: &'f Value, name: &str) -> &'f Value {
    let findings = document["findings"].as_array().unwrap();
    let found = findings.iter().find(|finding| finding["name"] == name);
    found.unwrap_or_else(|| panic!("no {name} in {document:#}"))
}

// covers: CLI-26
#[test]
fn what_is_here_is_told_and_no_key_is_shown() {
    let mut project = with_programs(&[
        ("claude", "2.0.1 (Claude Code)"),
        ("codex", "codex-cli 0.169.0"),
        ("pi", "hello"),
    ]);
    project.set("ANTHROPIC_API_KEY", SECRET);
    let before = project.files();
    let found = project.run(["doctor", "--json"]);
    let document = found.expect_code(0).json_document();
    let level = |name: &str| finding(&document, name)["level"].as_str().unwrap().to_owned();
    assert_eq!(
        [
            "claude",
            "codex",
            "pi",
            "scripted",
            "claude keys",
            "codex keys",
            "locks",
            "writable"
        ]
        .map(level),
        ["warning", "ok", "warning", "ok", "ok", "note", "ok", "ok"]
    );
    let claude = finding(&document, "claude")["found"].as_str().unwrap();
    assert!(
        claude.starts_with("2.0.1 at ") && claude.contains("older"),
        "{claude}"
    );
    assert_eq!(
        finding(&document, "claude keys")["found"],
        "ANTHROPIC_API_KEY set"
    );
    assert_eq!(document["ready"], true);
    let human = project.run(["doctor"]);
    assert!(
        human.expect_code(0).stdout.contains("  warning  claude "),
        "{human}"
    );
    assert!(!format!("{found}{human}").contains(SECRET));
    assert_eq!(project.files(), before);
    assert_eq!(project.left_behind(), []);
}

// covers: S13
#[test]
fn what_the_system_cannot_do_is_told_and_linux_can_all_of_it() {
    let document = project().run(["doctor", "--json"]).json_document();
    let findings = document["findings"].as_array().unwrap();
    let weaker = findings.iter().filter(|finding| finding["area"] == "system");
    let expected = if cfg!(feature = "portable") { 3 } else { 0 };
    assert_eq!(weaker.count(), expected, "{document}");
}

// covers: CLI-26
#[test]
fn what_a_hank_needs_and_is_not_here_is_an_error() {
    let mut project = project();
    project.set("HANKWEAVE_PI_PATH", "/nowhere/pi");
    let codon = |model: &str| {
        json!({"hank": [{"id": "a", "name": "A", "continuationMode": "fresh", "promptText": "go", "model": model}],
        "requirements": {"env": ["DATABASE_URL"]}})
    };
    project.write_hank(&codon("google/gemini-2.5-pro"));
    let document = project.run(["doctor", "--json"]).expect_code(1).json_document();
    assert_eq!(document["ready"], false);
    let needs: Vec<&str> = document["findings"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|finding| finding["area"] == "hank")
        .map(|finding| finding["found"].as_str().unwrap())
        .collect();
    assert_eq!(needs.len(), 2, "{needs:?}");
    assert!(
        needs[0].contains("`pi`") && needs[1].contains("DATABASE_URL"),
        "{needs:?}"
    );

    let runs = json!({"hank": [{"id": "a", "name": "A", "continuationMode": "fresh", "promptText": "go", "agent": "scripted",
        "rigSetup": [{"type": "command", "command": {"run": "frobnicate --all"}}], "check": {"run": "frobnicate --test"}}]});
    project.write_hank(&runs);
    let said = project.run(["doctor"]).expect_code(0).stdout.clone();
    let validated = project.run(["validate"]).expect_code(0).stdout.clone();
    for place in ["hank[0].rigSetup[0].command.run", "hank[0].check"] {
        let words = format!("the program frobnicate is missing (`{place}`)");
        assert!(said.contains(&words), "{said}");
    }
    let words = "the program frobnicate is missing here, and this command would fail";
    assert_eq!(validated.matches(words).count(), 2, "{validated}");

    project.write("hank.json", "{");
    project.run(["doctor"]).expect_code(65);
    project.run(["doctor", "nowhere"]).expect_code(65);
}
