//! Sentinels of the older system: each is refused with the command that converts it, and that command prints its changes.

use std::fs;

use hankweave_testing::TestProject;
use serde_json::{Value, json};

use crate::support::project;

/// All that an old file may say, with a comment, in its own order.
const OLD: &str = r#"{
  // watches what is written
  "id": "reviewer",
  "name": "Reviewer",
  "model": "claude-haiku-4-5",
  "enabled": true,
  "trigger": { "type": "event", "on": ["file.updated", "codon.completed"] },
  "execution": { "strategy": "debounce", "milliseconds": 1000 },
  "systemPrompt": "You review.",
  "userPromptText": "In <%= it.codon.name %>:\n<% it.events.forEach((event) => { %>- <%= event.type %>\n<% }) %>",
  "output": { "format": "json", "file": "reviews.jsonl" }
}
"#;

const NEW: &str = r#"{
  // watches what is written
  "id": "reviewer",
  "name": "Reviewer",
  "model": "anthropic/claude-haiku-4-5",
  "trigger": { "type": "event", "on": ["file.updated", "codon.completed"] },
  "execution": { "strategy": "debounce", "milliseconds": 1000 },
  "systemPromptText": "You review.",
  "userPromptText": "In {{ codonId }}:\n{% for event in events %}- {{ event.type }}\n{% endfor %}",
  "output": { "format": "jsonl", "file": "reviews.jsonl" }
}
"#;

fn watched(project: &TestProject, file: &str) {
    project.write_hank(
        &json!({"hank": [{"id": "a", "name": "A", "agent": "scripted", "continuationMode": "fresh",
        "promptText": "x", "sentinels": [{"sentinelConfig": file}]}]}),
    );
}

fn keyed() -> TestProject {
    let mut project = project();
    project.set("ANTHROPIC_API_KEY", "any");
    project
}

// covers: SENT-24
#[test]
fn an_old_sentinel_is_refused_with_a_command_that_makes_it_a_new_one() {
    let project = keyed();
    project.write("sentinels/old one.json", OLD);
    watched(&project, "sentinels/old one.json");
    let command = "hankweave sentinel convert --write 'sentinels/old one.json'";
    for arguments in [vec!["validate"], vec!["run", "--headless"], vec!["doctor"]] {
        let refused = project.run(arguments);
        let told = format!("{}{}", refused.stdout, refused.stderr);
        assert!(told.contains(command), "{told}");
    }
    let tested = project.run(["sentinel", "test", "sentinels/old one.json"]);
    assert!(tested.expect_code(65).stderr.contains(command), "{tested}");

    let shown = project.run(["sentinel", "convert", "sentinels/old one.json"]);
    assert_eq!(shown.expect_code(0).stdout, NEW);
    let file = project.directory().join("sentinels/old one.json");
    assert_eq!(
        fs::read_to_string(&file).unwrap(),
        OLD,
        "nothing is written without --write"
    );
    let lines: Vec<&str> = shown.stderr.lines().collect();
    assert_eq!(
        lines,
        [
            "sentinels/old one.json:5:12: changed: model: written with its provider: `anthropic/claude-haiku-4-5`",
            "sentinels/old one.json:9:3: changed: systemPrompt: the key is called `systemPromptText` now",
            "sentinels/old one.json:10:21: changed: userPromptText: the template is written in the language of Jinja now",
            "sentinels/old one.json:11:25: changed: output.format: `json` is called `jsonl` now",
            "sentinels/old one.json:6:3: not carried over: enabled: a sentinel has no such key; it was removed",
            "sentinels/old one.json:10:21: not carried over: userPromptText: the name of the codon is not known to prompts; its id stands there",
        ]
    );
    project
        .run(["sentinel", "convert", "--write", "sentinels/old one.json"])
        .expect_code(0);
    assert_eq!(fs::read_to_string(&file).unwrap(), NEW);
    project.run(["validate"]).expect_code(0);
    let again = project.run([
        "sentinel",
        "convert",
        "--write",
        "sentinels/old one.json",
        "--json",
    ]);
    let document: Value = again.expect_code(0).json_document();
    assert_eq!(
        (&document["files"][0]["changed"], &document["files"][0]["written"]),
        (&json!([]), &json!(false))
    );
}

// covers: SENT-24
#[test]
fn prompt_files_are_converted_with_the_sentinel_that_names_them() {
    let project = keyed();
    let config = |prompt: &str| {
        json!({"id": "s", "name": "S", "model": "anthropic/claude-haiku-4-5", "userPromptFile": prompt,
        "trigger": {"type": "event", "on": ["tool.result"]}, "execution": {"strategy": "immediate"}})
        .to_string()
    };
    project.write("sentinels/s.json", config("ask.md"));
    project.write("sentinels/ask.md", "Failed: <%= it.events[0].data.isError %>\n");
    watched(&project, "sentinels/s.json");
    let refused = project.run(["validate"]);
    assert!(
        refused
            .expect_code(1)
            .stdout
            .contains("hankweave sentinel convert --write sentinels/s.json"),
        "{refused}"
    );
    let shown = project.run(["sentinel", "convert", "sentinels/s.json"]);
    assert!(
        shown
            .expect_code(0)
            .stderr
            .contains("sentinels/ask.md: an old template, which --write replaces"),
        "{shown}"
    );
    project
        .run(["sentinel", "convert", "-w", "sentinels/s.json"])
        .expect_code(0);
    let prompt = fs::read_to_string(project.directory().join("sentinels/ask.md")).unwrap();
    assert_eq!(prompt, "Failed: {{ events[0].data.isError }}\n");
    project.run(["validate"]).expect_code(0);

    // A program is not guessed at.
    project.write("sentinels/ask.md", "<% let x = 1 %>");
    let beyond = project.run(["sentinel", "convert", "--write", "sentinels/s.json"]);
    assert!(
        beyond
            .expect_code(0)
            .stderr
            .contains("sentinels/ask.md: not carried over: the program"),
        "{beyond}"
    );
    let arguments = ["sentinel", "convert", "--write", "sentinels/s.json", "--json"];
    let document: Value = project.run(arguments).expect_code(0).json_document();
    let file = &document["files"][0];
    assert_eq!(
        (
            file["promptsNotCarriedOver"].as_array().map(Vec::len),
            &file["written"]
        ),
        (Some(1), &json!(false)),
        "no file was replaced"
    );

    // What is wrong with the sentinel is another matter.
    project.write("sentinels/ask.md", "Failed: <%= it.events[0].data.isError %>\n");
    project.write(
        "sentinels/s.json",
        config("ask.md").replace("\"name\":\"S\",", ""),
    );
    let wrong = project.run(["sentinel", "convert", "--write", "sentinels/s.json"]);
    assert!(wrong.expect_code(1).stderr.contains("error: name"), "{wrong}");
    let prompt = fs::read_to_string(project.directory().join("sentinels/ask.md")).unwrap();
    assert_eq!(prompt, "Failed: {{ events[0].data.isError }}\n");
}

// covers: SENT-24
#[test]
fn what_is_no_sentinel_is_refused_with_its_place_and_what_is_left_to_do_is_told() {
    let project = keyed();
    for (text, place) in [
        ("{\"id\": }", ":1:8: error:"),
        ("[1]", ":1:1: error:"),
        ("", "the file is empty"),
    ] {
        project.write("s.json", text);
        let refused = project.run(["sentinel", "convert", "--write", "s.json"]);
        refused.expect_code(65);
        assert!(
            refused.stderr.contains(place) && refused.stderr.contains("hint:"),
            "{refused}"
        );
    }
    let missing = project.run(["sentinel", "convert", "none.json"]);
    assert!(missing.expect_code(65).stderr.contains("none.json"), "{missing}");
    // One that cannot be read keeps the others from being written.
    project.write("old.json", OLD);
    project
        .run(["sentinel", "convert", "--write", "old.json", "none.json"])
        .expect_code(65);
    assert_eq!(
        fs::read_to_string(project.directory().join("old.json")).unwrap(),
        OLD
    );

    let without_name = OLD.replace("  \"name\": \"Reviewer\",\n", "");
    project.write("old.json", without_name);
    let left = project.run(["sentinel", "convert", "--write", "old.json"]);
    left.expect_code(1);
    assert!(
        left.stderr
            .contains("what is left to do in the new form of old.json:\nold.json:1:1: error: name"),
        "{left}"
    );
    let again = project.run(["sentinel", "convert", "old.json"]);
    let told = "old.json: nothing to convert\nwhat is left to do in the new form of old.json:\nold.json:1:1: error: name";
    assert!(again.expect_code(1).stderr.contains(told), "{again}");
}

// covers: SENT-24
#[test]
fn a_file_that_cannot_be_written_is_reported_with_those_that_were_written_before() {
    let project = keyed();
    project.write("first.json", OLD);
    project.write("second.json", OLD);
    // The name of the temporary file is taken.
    project.write("second.json.new/in-the-way", "");
    let refused = project.run(["sentinel", "convert", "--write", "first.json", "second.json"]);
    refused.expect_code(74);
    assert!(
        refused.stderr.contains("already converted: first.json"),
        "{refused}"
    );
    assert_eq!(
        fs::read_to_string(project.directory().join("first.json")).unwrap(),
        NEW
    );
}
