//! Rules of `docs/rules`: each cited one exists, each has code and tests, and each is found by a question.

#![expect(clippy::disallowed_methods, reason = "reads the repository")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Ids of this form are `STATE-12`.
const LONG: [&str; 8] = ["STATE", "HANK", "RUN", "AGENT", "WIRE", "CLI", "SENT", "TASK"];

/// Ids of this form are `P1`.
const SHORT: [char; 7] = ['P', 'D', 'L', 'S', 'G', 'X', 'F'];

/// Code that cites a rule, and tests that cover it.
#[derive(Default)]
struct Trace {
    code: BTreeSet<String>,
    tests: BTreeSet<String>,
}

/// Writes the trace of every rule to `target/rules.md`, for readers.
#[test]
fn every_rule_has_code_that_cites_it_and_a_test_that_covers_it() {
    let traces = traces();
    let (mut wrong, mut page) = (Vec::new(), String::new());
    let mut seen = BTreeSet::new();
    for id in rules() {
        let trace = traces.get(&id);
        if !seen.insert(id.clone()) {
            wrong.push(format!("{id} is the id of two rules"));
        }
        if trace.is_none_or(|trace| trace.tests.is_empty()) {
            wrong.push(format!("no test says `// covers: {id}`"));
        }
        // A fault refers to the rules that hold in it.
        if trace.is_none_or(|trace| trace.code.is_empty()) && !id.starts_with('F') {
            wrong.push(format!("no code cites {id}"));
        }
        if let Some(Trace { code, tests }) = trace {
            let list =
                |lines: &BTreeSet<String>| lines.iter().map(|line| format!("- {line}\n")).collect::<String>();
            page += &format!("## {id}\n\nCode:\n\n{}\nTests:\n\n{}\n", list(code), list(tests));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(seen.len() > 200, "{} rules are read", seen.len());
    fs::create_dir_all(root().join("target")).expect("target is writable");
    fs::write(root().join("target/rules.md"), page).expect("target is writable");
}

/// Reads comments: an id in `// covers:` belongs to the test after it, any other one to the code of its file.
fn traces() -> BTreeMap<String, Trace> {
    let mut traces: BTreeMap<String, Trace> = BTreeMap::new();
    for (path, text) in files(&["rs"]) {
        let is_code = !["tests", "testing", "ui-tests", "benches", "examples"]
            .iter()
            .any(|name| path.split('/').any(|part| part == *name));
        let mut covered: Vec<&str> = Vec::new();
        for line in text.lines() {
            let comment = line.split_once("//").map_or("", |(_, comment)| comment);
            if let Some((_, list)) = comment.split_once("covers:") {
                covered.extend(words(list).filter(|word| is_id(word)));
            } else if let Some(test) = declared_function(line) {
                for id in covered.drain(..) {
                    traces
                        .entry(id.to_owned())
                        .or_default()
                        .tests
                        .insert(format!("`{test}` ({path})"));
                }
            } else if is_code {
                for id in words(comment).filter(|word| is_id(word)) {
                    traces.entry(id.to_owned()).or_default().code.insert(path.clone());
                }
            }
        }
    }
    traces
}

/// Name of the function that a line declares.
fn declared_function(line: &str) -> Option<&str> {
    let (before, declared) = line.split_once("fn ")?;
    let (name, _) = declared.split_once('(')?;
    let is_declaration = before
        .chars()
        .all(|c| c.is_ascii_lowercase() || "() ".contains(c));
    is_declaration.then_some(name)
}

#[test]
fn every_rule_that_is_cited_is_there() {
    let rules: BTreeSet<String> = rules().into_iter().collect();
    let mut wrong = Vec::new();
    for (place, text) in files(&["rs", "md", "json", "py", "html", "toml"]) {
        for (number, line) in (1..).zip(text.lines()) {
            let unknown = words(line).filter(|word| is_id(word) && !rules.contains(*word));
            wrong.extend(unknown.map(|id| format!("{place}:{number}: there is no rule {id}")));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Checks headings as well: a heading that gets another name would break the links to it.
#[test]
fn every_link_of_the_pages_leads_to_a_file_and_a_heading() {
    let mut wrong = Vec::new();
    let mut count = 0;
    for (place, text) in files(&["md"]) {
        let links = outside_examples(&text).flat_map(links);
        for Link { path, .. } in links.filter(|link| !link.path.contains(':')) {
            count += 1;
            let (file, heading) = path.split_once('#').unwrap_or((&path, ""));
            let page = root().join(&place);
            let target = match file {
                "" => page,
                file => page.with_file_name("").join(file),
            };
            let is_there = match heading {
                "" => target.exists(),
                heading => fs::read_to_string(&target).is_ok_and(|text| has_heading(&text, heading)),
            };
            if !is_there {
                wrong.push(format!("{place}: {path} leads nowhere"));
            }
        }
    }
    assert!(wrong.is_empty() && count > 300, "{}", wrong.join("\n"));
}

/// Checks the table of pages: a page has the ids in its row.
#[test]
fn the_table_of_pages_says_where_each_rule_stands() {
    let readme = fs::read_to_string(root().join("docs/rules/README.md")).expect("the page exists");
    let mut wrong = Vec::new();
    for (place, text) in pages() {
        let rows: Vec<&str> = readme
            .lines()
            .filter(|row| {
                links(row)
                    .first()
                    .is_some_and(|link| place.ends_with(&format!("rules/{}", link.path)))
            })
            .collect();
        let told = rows
            .first()
            .map_or("", |row| row.split('|').nth(1).unwrap_or_default());
        wrong.extend(
            ids(&text)
                .filter(|id| !is_told(told, id))
                .map(|id| format!("{place} has {id}, and the table does not say so")),
        );
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Whether a cell such as "`TASK-1` to `7`, `13`" has an id; one with `…`, or with the letter alone, has the whole family.
fn is_told(cell: &str, id: &str) -> bool {
    let (family, number) = id.split_at(id.find(|c: char| c.is_ascii_digit()).unwrap_or(id.len()));
    let number = number.parse::<u32>().ok();
    cell.split(", ").any(|part| {
        let plain = part.replace(['`', ' '], "");
        let of_family = plain.strip_prefix(family).unwrap_or(&plain);
        let (from, to) = of_family.split_once("to").unwrap_or((of_family, of_family));
        let is_within = match (from.parse::<u32>(), to.parse::<u32>()) {
            (Ok(from), Ok(to)) => number.is_some_and(|number| (from..=to).contains(&number)),
            _ => plain.trim_end_matches('…') == family,
        };
        cell.contains(family) && is_within
    })
}

/// Lines of a page that are not in a block of code.
fn outside_examples(text: &str) -> impl Iterator<Item = &str> {
    let mut is_inside = false;
    text.lines().filter(move |line| {
        let is_fence = line.trim_start().starts_with("```");
        is_inside ^= is_fence;
        !is_inside && !is_fence
    })
}

/// Whether a page has a heading that links call so.
fn has_heading(text: &str, anchor: &str) -> bool {
    let headings = outside_examples(text).filter(|line| line.starts_with('#'));
    let mut anchors = headings.map(|heading| {
        let words = heading.trim_start_matches('#').trim().to_lowercase();
        let kept = words
            .chars()
            .filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        kept.collect::<String>().replace(' ', "-")
    });
    anchors.any(|found| found == anchor)
}

/// The table of agents by what they do: each cell names its test, and the versions are those that the tests install.
#[test]
fn every_cell_of_the_tables_of_agents_names_a_test_that_exists() {
    let page = fs::read_to_string(root().join("docs/agents.md")).expect("the page exists");
    let installed = fs::read_to_string(root().join("hankweave-runtime/testing/src/agents.rs"));
    let installed = installed.expect("the file exists");
    let tables: Vec<&str> = page.split("<!-- tests -->\n").skip(1).collect();
    let wrong: Vec<String> = tables
        .iter()
        .flat_map(|table| wrong_cells(table, &installed))
        .collect();
    assert!(wrong.is_empty() && tables.len() == 2, "{}", wrong.join("\n"));
}

/// Mistakes of a table of tests, given the versions that the tests install.
fn wrong_cells(table: &str, installed: &str) -> Vec<String> {
    let mut rows = table.lines().take_while(|line| line.starts_with('|'));
    let head = rows.next().expect("the table has a head");
    let versions = head
        .split([' ', '|'])
        .filter(|word| word.starts_with(|c: char| c.is_ascii_digit()));
    let mut wrong: Vec<String> = versions
        .filter(|version| !installed.contains(&format!("\"{version}\"")))
        .map(|version| format!("version {version} is not what the tests install"))
        .collect();
    let agents = head.matches('`').count() / 2;
    for row in rows.skip(1) {
        let links = links(row);
        if links.len() != agents || !links.iter().all(|link| link.is_test) {
            wrong.push(format!("a cell names no test: {row}"));
        }
        for Link { name, path, .. } in links {
            let text = fs::read_to_string(root().join("docs").join(&path)).unwrap_or_default();
            if !defines(&text, &name) {
                wrong.push(format!("{path} has no test {name}"));
            }
        }
    }
    wrong
}

/// Ids of the rules, in the order of the pages.
fn rules() -> Vec<String> {
    pages()
        .iter()
        .flat_map(|(_, text)| ids(text))
        .map(str::to_owned)
        .collect()
}

/// The pages of the rules, by their places.
fn pages() -> Vec<(String, String)> {
    let mut pages = files(&["md"]);
    pages.retain(|(place, _)| place.starts_with("docs/rules/"));
    pages
}

/// The ids of the rules that a text holds.
fn ids(text: &str) -> impl Iterator<Item = &str> {
    let found = |line| Some(str::strip_prefix(line, "- **")?.split_once("**")?.0);
    text.lines().filter_map(found).filter(|id| is_id(id))
}

/// A link of a rule; those to tests have the name of the test in backticks.
struct Link {
    is_test: bool,
    name: String,
    path: String,
}

fn links(line: &str) -> Vec<Link> {
    let link = |part: &str| {
        let (name, rest) = part.split_once("](")?;
        Some(Link {
            is_test: name.starts_with('`'),
            name: name.trim_matches('`').to_owned(),
            path: rest.split_once(')')?.0.to_owned(),
        })
    };
    line.split('[').skip(1).filter_map(link).collect()
}

fn defines(text: &str, test: &str) -> bool {
    text.contains(&format!("fn {test}("))
}

/// Words of a text, any of which may be an id.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '-')
}

fn is_id(word: &str) -> bool {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    match word.split_once('-') {
        Some((page, number)) => LONG.contains(&page) && is_number(number),
        None => word.len() <= 3 && word.strip_prefix(SHORT).is_some_and(is_number),
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The files of the repository that end so, by their places in it. Recorded data is left out.
fn files(endings: &[&str]) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut folders = vec![root()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("folders are readable") {
            let path = entry.expect("folders are readable").path();
            let name = path
                .file_name()
                .expect("an entry has a name")
                .to_string_lossy()
                .into_owned();
            if path.is_dir() {
                let is_left_out = ["target", "fixtures", "corpus", "node_modules"].contains(&name.as_str());
                if !is_left_out && !name.starts_with('.') {
                    folders.push(path);
                }
            } else if endings.iter().any(|ending| name.ends_with(&format!(".{ending}"))) {
                let place = path.strip_prefix(root()).expect("it was found there");
                let text = fs::read(&path).expect("files are readable");
                found.push((
                    place.display().to_string(),
                    String::from_utf8_lossy(&text).into_owned(),
                ));
            }
        }
    }
    found
}
