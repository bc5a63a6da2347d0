//! The commands of the book are run as they stand there, and print what it shows.
//!
//! The comment before a block says what it is: `console`, whose commands begin with `$ ` and end with 0 (`console: exits 3` for the last one), `file: PATH`, or
//! `shown`, for what needs another machine, an agent or a service. In shown output `…` stands for anything, and lines may be missing between two that are there. No model is
//! asked: the scripted agent runs every codon, and `the agent writes PATH: CONTENT` puts what a real one would have written.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use hankweave_testing::TestProject;

use crate::reference::{Block, blocks};

/// A project with `hankweave`, and a `make` whose tests pass, on its `PATH`.
fn stage() -> TestProject {
    let mut project = TestProject::new("/bin/sh");
    let tools = project.home().join("bin");
    fs::create_dir_all(&tools).unwrap();
    symlink(env!("CARGO_BIN_EXE_hankweave"), tools.join("hankweave")).unwrap();
    fs::write(tools.join("make"), "#!/bin/sh\nexit 0\n").unwrap();
    fs::set_permissions(tools.join("make"), PermissionsExt::from_mode(0o755)).unwrap();
    let path = std::env::var("PATH").unwrap();
    project
        .set("PATH", format!("{}:{path}", tools.display()))
        .set("HANKWEAVE_RUNTIME_AGENT", "scripted");
    project
}

/// Plays a page from its first block to its last.
fn play(page: &str) {
    let project = stage();
    let mut commands = 0;
    for Block { kind, text } in blocks(page) {
        if let Some(file) = kind.strip_prefix("the agent writes ") {
            let (path, content) = file.split_once(": ").unwrap();
            project.write(path, content.replace("\\n", "\n"));
        } else if let Some(path) = kind.strip_prefix("file: ") {
            project.write(path, text);
        } else if let Some(ends) = kind.strip_prefix("console") {
            let code = ends
                .strip_prefix(": exits ")
                .map_or(0, |code| code.parse().unwrap());
            commands += console(page, &project, &text, code);
        } else {
            assert!(kind == "shown", "{page}: {kind}");
        }
    }
    assert!(
        commands > 0 || page == "recipes/container.md",
        "{page} has no command that is run"
    );
}

/// Runs the commands of a block, the last of which ends with `code`; returns how many there are.
fn console(page: &str, project: &TestProject, block: &str, code: i32) -> usize {
    let mut calls: Vec<(&str, Vec<&str>)> = Vec::new();
    for line in block.lines() {
        match (line.strip_prefix("$ "), calls.last_mut()) {
            (Some(command), _) => calls.push((command, Vec::new())),
            (None, Some((_, expected))) => expected.push(line),
            (None, None) => panic!("{page}: output without a command: {line}"),
        }
    }
    for (index, (command, expected)) in calls.iter().enumerate() {
        let ended = project.run(["-c", &format!("{{ {command}\n}} 2>&1")]);
        ended.expect_code(if index + 1 == calls.len() { code } else { 0 });
        let mut printed = ended.stdout.lines();
        for line in expected.iter().filter(|line| **line != "…") {
            let is_there = printed.by_ref().any(|printed| fits(line, printed.trim_end()));
            assert!(
                is_there,
                "{page}: `{command}` does not print\n{line}\nbut\n{ended}"
            );
        }
    }
    calls.len()
}

/// Whether a line is as the book shows it.
fn fits(shown: &str, printed: &str) -> bool {
    let Some((start, rest)) = shown.split_once('…') else {
        return shown == printed;
    };
    let Some(mut left) = printed.strip_prefix(start) else {
        return false;
    };
    let mut parts: Vec<&str> = rest.split('…').collect();
    let end = parts.pop().unwrap_or_default();
    for part in parts {
        match left.split_once(part) {
            Some((_, behind)) => left = behind,
            None => return false,
        }
    }
    left.ends_with(end)
}

// covers: CLI-18
#[test]
fn the_first_ten_minutes_are_as_in_the_book() {
    play("first-ten-minutes.md");
}

#[test]
fn the_concepts_are_as_in_the_book() {
    play("concepts.md");
}

// covers: CLI-1
#[test]
fn the_recipes_are_as_in_the_book() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/recipes");
    let entries = fs::read_dir(folder).unwrap();
    let mut pages: Vec<String> = entries
        .map(|entry| format!("recipes/{}", entry.unwrap().file_name().to_str().unwrap()))
        .collect();
    pages.sort();
    assert!(pages.len() >= 8, "{pages:?}");
    for page in pages {
        play(&page);
    }
}

/// The pictures of the machines have the states and steps of the code; `docs/screens/draw-machines` draws them again.
#[test]
fn the_diagrams_of_the_book_are_those_of_the_code() {
    let project = crate::support::project();
    for machine in ["codon", "run", "task"] {
        let picture = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../docs/{machine}.svg"));
        let picture = fs::read_to_string(picture).unwrap();
        let titles = picture
            .split("<title>")
            .skip(1)
            .map(|title| title.split_once("</title>").unwrap().0);
        let mut drawn: Vec<String> = titles
            .skip(1)
            .map(|title| title.replace("&#45;&gt;", " -> "))
            .collect();
        let dot = project.run(["diagram", machine, "--as", "dot"]);
        let lines = dot.expect_code(0).stdout.lines();
        let mut known: Vec<String> = lines
            .filter_map(|line| Some(line.split_once(" [")?.0.trim().to_owned()))
            .collect();
        drawn.sort();
        known.sort();
        known.dedup();
        drawn.dedup();
        assert_eq!(drawn, known, "docs/{machine}.svg; run docs/screens/draw-machines");
    }
}

#[test]
fn a_line_of_the_book_fits_with_gaps() {
    for (shown, printed) in [
        ("a", "a"),
        ("a…", "a b"),
        ("…b", "a b"),
        ("a … c", "a b c"),
        ("a…c…e", "abcde"),
    ] {
        assert!(fits(shown, printed), "{shown}");
    }
    for (shown, printed) in [("a", "ab"), ("a…d", "abc"), ("b…", "ab"), ("a…x…e", "abcde")] {
        assert!(!fits(shown, printed), "{shown}");
    }
}
