//! Pages and help name all five agents, or belong to the lists that are about some of them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::support::project;

const AGENTS: [&str; 5] = ["claude", "codex", "gemini", "opencode", "pi"];

/// Lists of some agents, each of which says something that is not so for the others.
const SOME: [(&str, &str); 16] = [
    ("docs/agents.md", "claude codex pi"),
    ("docs/agents.md", "codex gemini opencode pi"),
    ("docs/agents.md", "gemini opencode pi"),
    ("docs/hank.md", "claude codex opencode pi"),
    ("docs/hank.md", "codex gemini opencode pi"),
    ("docs/recipes/container.md", "codex gemini opencode pi"),
    ("docs/rules/README.md", "claude codex pi"),
    ("docs/rules/agents.md", "claude codex opencode pi"),
    ("docs/rules/agents.md", "claude pi opencode"),
    ("docs/rules/hank.md", "claude opencode pi"),
    ("docs/steering.md", "claude codex gemini"),
    ("docs/steering.md", "codex gemini claude"),
    ("docs/testing.md", "claude codex pi opencode"),
    ("docs/testing.md", "codex pi opencode"),
    ("docs/testing.md", "pi opencode claude"),
    ("docs/what-agents-see.md", "codex gemini opencode"),
];

/// Pages that introduce agents.
const ALL: [&str; 6] = [
    "README.md",
    "docs/agents.md",
    "docs/concepts.md",
    "docs/first-ten-minutes.md",
    "docs/hank.md",
    "docs/what-agents-see.md",
];

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
        .unwrap()
}

fn pages(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => pages(&path, found),
            false if path.extension().is_some_and(|kind| kind == "md") => found.push(path),
            false => {}
        }
    }
}

/// Names that follow one another with nothing but commas, `and` and `or` in between.
fn lists(text: &str) -> Vec<Vec<String>> {
    let (mut lists, mut list) = (Vec::new(), Vec::new());
    for word in text.to_lowercase().split_whitespace() {
        let bare: String = word.chars().filter(|sign| !"`\"*,(".contains(*sign)).collect();
        let ends = bare.ends_with(['.', ':', ';', ')']);
        let name = bare.trim_end_matches(['.', ':', ';', ')']);
        match name {
            _ if AGENTS.contains(&name) => list.push(name.to_owned()),
            "and" | "or" | "code" | "cli" if !list.is_empty() => {}
            _ => lists.push(std::mem::take(&mut list)),
        }
        if ends {
            lists.push(std::mem::take(&mut list));
        }
    }
    lists.push(list);
    lists
}

fn names_all(text: &str) -> bool {
    let words: BTreeSet<String> = lists(text).into_iter().flatten().collect();
    AGENTS.iter().all(|agent| words.contains(*agent))
}

#[test]
fn a_list_of_agents_is_whole_or_about_some_of_them() {
    let root = repository();
    let mut files = vec![root.join("README.md"), root.join("CONTRIBUTING.md")];
    for folder in ["docs", "examples"] {
        pages(&root.join(folder), &mut files);
    }
    let mut found = BTreeSet::new();
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        let page = file.strip_prefix(&root).unwrap().display().to_string();
        for list in lists(&text) {
            let names: BTreeSet<&String> = list.iter().collect();
            if (3..AGENTS.len()).contains(&names.len()) {
                found.insert((page.clone(), list.join(" ")));
            }
        }
    }
    let some: BTreeSet<_> = SOME.map(|(page, list)| (page.to_owned(), list.to_owned())).into();
    assert_eq!(found, some);
    for page in ALL {
        let text = std::fs::read_to_string(root.join(page)).unwrap();
        assert!(names_all(&text), "{page} does not name all agents");
    }
}

#[test]
fn help_and_doctor_name_all_agents() {
    let project = project();
    for command in [&["run", "--help"][..], &["doctor"][..]] {
        let printed = project.run(command);
        assert!(names_all(&printed.stdout), "{command:?}: {}", printed.stdout);
    }
}
