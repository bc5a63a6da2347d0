//! Runs the commands of the book as written, and compares their output with what it shows.
//!
//! The comment in front of a block names its kind. `console` has commands that begin with `$ ` and end with 0 (`console: exits 3` for the last one).
//! `file: PATH` is a file. `shown` is for what needs another machine, an agent or a service. In shown output `…` matches any text, and lines may be
//! missing between two that are there. No model is asked: the scripted agent runs every codon. Names of checkpoints and operations, and times of day,
//! are those of the book: a command gets the name that was printed in place of the one that the book shows. A file comes from the agent where
//! `the agent writes PATH: CONTENT` puts the content that a real agent would have written.

use std::collections::BTreeMap;
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
    let (mut commands, mut names) = (0, Names::new());
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
            commands += console(page, &project, &text, code, &mut names);
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
fn console(page: &str, project: &TestProject, block: &str, code: i32, names: &mut Names) -> usize {
    let mut calls: Vec<(&str, Vec<&str>)> = Vec::new();
    for line in block.lines() {
        match (line.strip_prefix("$ "), calls.last_mut()) {
            (Some(command), _) => calls.push((command, Vec::new())),
            (None, Some((_, expected))) => expected.push(line),
            (None, None) => panic!("{page}: output without a command: {line}"),
        }
    }
    for (index, (command, expected)) in calls.iter().enumerate() {
        let typed = with_real_names(command, names);
        let ended = project.run(["-c", &format!("{{ {typed}\n}} 2>&1")]);
        ended.expect_code(if index + 1 == calls.len() { code } else { 0 });
        let mut printed = ended.stdout.lines();
        for line in expected.iter().filter(|line| **line != "…") {
            let is_it = |printed: &str| fits(line, printed.trim_end()) || fits_by_name(line, printed, names);
            let is_there = printed.by_ref().any(is_it);
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

/// The printed name of a checkpoint or an operation for each one of the book.
type Names = BTreeMap<String, String>;

/// Length of a name as it is printed.
const NAME: usize = 12;

/// Splits a text into words of letters and digits, and the parts between these words.
fn pieces(text: &str) -> Vec<&str> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let is_word = first.is_ascii_alphanumeric();
        let end = rest.find(|c: char| c.is_ascii_alphanumeric() != is_word);
        let (piece, after) = rest.split_at(end.unwrap_or(rest.len()));
        pieces.push(piece);
        rest = after;
    }
    pieces
}

fn is_name(piece: &str) -> bool {
    piece.len() == NAME
        && piece
            .bytes()
            .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Whether a line is as the book shows it, but for names and times of day; the names are noted.
fn fits_by_name(shown: &str, printed: &str, names: &mut Names) -> bool {
    let lasting = |text: &str| -> Vec<String> {
        let words = text.split_whitespace();
        let of_word = |word: &str| -> String {
            let is_time = word.len() == 5 && word.bytes().all(|byte| byte.is_ascii_digit() || byte == b':');
            let piece = |piece| if is_name(piece) { "#" } else { piece };
            if is_time {
                "#:#".to_owned()
            } else {
                pieces(word).into_iter().map(piece).collect()
            }
        };
        words.map(of_word).collect()
    };
    let fits = lasting(shown) == lasting(printed);
    if fits {
        let named = |text| {
            pieces(text)
                .into_iter()
                .filter(|piece| is_name(piece))
                .map(str::to_owned)
        };
        names.extend(named(shown).zip(named(printed)));
    }
    fits
}

/// Returns a command of the book with the names that were printed, also where it shows only their beginning.
fn with_real_names(command: &str, names: &Names) -> String {
    let real = |piece: &str| {
        let is_part = piece.len() >= 4 && piece.bytes().any(|byte| byte.is_ascii_digit());
        let known = names
            .iter()
            .find(|(shown, _)| is_part && shown.starts_with(piece));
        known
            .map_or(piece, |(_, printed)| &printed[..piece.len()])
            .to_owned()
    };
    pieces(command).into_iter().map(real).collect()
}

#[test]
fn undo_is_as_in_the_book() {
    play("undo.md");
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
