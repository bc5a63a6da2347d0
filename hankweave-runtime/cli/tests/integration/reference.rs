//! Every example of the pages about hanks and scripts: it is valid without a warning about itself, and those that need no real agent run.

use std::collections::BTreeMap;
use std::path::Path;

use hankweave_testing::TestProject;
use serde_json::Value;

use crate::support::project;

/// The pages, in `docs`, and how many examples each has at least.
const PAGES: [(&str, usize); 3] = [("hank.md", 13), ("sentinels.md", 6), ("scripted-agent.md", 4)];

/// A block of a page, and what the comment before it says.
pub(crate) struct Block {
    pub(crate) kind: String,
    pub(crate) text: String,
}

/// Returns the blocks of a page in `docs`, and comments without a block as blocks without a text. A block without a comment is an error.
pub(crate) fn blocks(page: &str) -> Vec<Block> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../docs")
        .join(page);
    let page = std::fs::read_to_string(path).expect("the page is there");
    let fences = page.matches("```").count() / 2;
    let mut blocks = Vec::new();
    for part in page.split("\n<!-- ").skip(1) {
        let (kind, rest) = part.split_once(" -->\n").expect("a comment ends its line");
        let kind = kind.to_owned();
        let text = match rest.strip_prefix("```") {
            None => String::new(),
            Some(block) => {
                let (_, block) = block.split_once('\n').expect("a fence ends its line");
                let (text, _) = block.split_once("```").expect("a block ends");
                text.to_owned()
            }
        };
        blocks.push(Block { kind, text });
    }
    assert_eq!(
        blocks.iter().filter(|block| !block.text.is_empty()).count(),
        fences,
        "every block of the page has a comment that says what it is"
    );
    blocks
}

/// A project with the files that the page shows, and with those that only a real workspace has.
fn stage(files: &BTreeMap<String, String>) -> TestProject {
    let mut project = project();
    // Examples that are only validated name models, none of which is asked.
    project.set("ANTHROPIC_API_KEY", "any");
    for (path, text) in files {
        project.write(&format!("hank/{path}"), text);
    }
    let agent = files.get("agent.sh").expect("the page shows one");
    project.write("work/agent.sh", agent);
    project
}

fn validate(project: &TestProject, text: &str) {
    project.write("hank/hank.json", text);
    let validated = project.run(["validate", "hank", "--agent", "scripted", "--json"]);
    let document = validated.expect_code(0).json_document();
    assert_eq!(document["valid"], true, "{validated}\n{text}");
    validate_as_it_is(project, text);
}

/// A scripted agent is not what every hank asks for.
fn validate_as_it_is(project: &TestProject, text: &str) {
    project.write("hank/hank.json", text);
    let as_it_is = project.run(["validate", "hank", "--json"]);
    let document = as_it_is.expect_code(0).json_document();
    let warnings = document["warnings"].as_array().expect("a list");
    for warning in warnings {
        let message = warning["message"].as_str().expect("a text");
        // This machine may lack the program.
        assert!(message.contains("` was not found in PATH"), "{message}\n{text}");
    }
}

fn run(project: &TestProject, kind: &str) {
    let (how, leaves) = kind.split_once(", leaves ").unwrap_or((kind, ""));
    let mut arguments = vec!["run", "hank", "--headless", "-e", "work"];
    match how {
        "example: run" => arguments.extend(["--agent", "scripted"]),
        "example: run with --output" => arguments.extend(["--agent", "scripted", "--output", "results"]),
        "example: run as it is" | "example: pause as it is" => {}
        _ => panic!("{how}"),
    }
    let code = if how == "example: pause as it is" { 3 } else { 0 };
    project.run(arguments).expect_code(code);
    for file in leaves.split(" and ").filter(|file| !file.is_empty()) {
        let found = [
            project.directory().join("work").join(file),
            project.directory().join(file),
        ];
        assert!(found.iter().any(|path| path.is_file()), "{kind} leaves no {file}");
    }
}

#[test]
fn every_example_of_the_pages_is_valid_and_runs() {
    for (page, least) in PAGES {
        let examples = try_examples(page);
        assert!(examples >= least, "{examples} examples in {page}");
    }
}

/// Tries those of one page; returns how many there are.
fn try_examples(page: &str) -> usize {
    let mut files = BTreeMap::new();
    let mut examples = 0;
    for Block { kind, text } in blocks(page) {
        // What is printed or given to a program, for the reader alone, and comments for other tests.
        if kind == "shown" || text.is_empty() {
            continue;
        }
        if let Some(path) = kind.strip_prefix("file: ") {
            files.insert(path.to_owned(), text);
            continue;
        }
        examples += 1;
        // Files of later examples are not needed. A file that the page shows exists already.
        let files = match files.contains_key("agent.sh") {
            true => files.clone(),
            false => files
                .clone()
                .into_iter()
                .chain([("agent.sh".to_owned(), String::new())])
                .collect(),
        };
        let project = stage(&files);
        match kind.as_str() {
            "example: validate" => validate(&project, &text),
            "example: validate as it is" => validate_as_it_is(&project, &text),
            "example: config" => {
                project.write("hankweave.json", &text);
                let settings = project.run(["config", "--json"]).expect_code(0).json_document();
                assert_eq!(settings["warnings"], Value::Array(Vec::new()), "{text}");
            }
            "example: prices" => {
                project.write("mine.json", &text);
                project
                    .run(["prices", "house-model", "--prices", "mine.json"])
                    .expect_code(0);
            }
            kind => {
                validate(&project, &text);
                run(&project, kind);
            }
        }
    }
    examples
}
