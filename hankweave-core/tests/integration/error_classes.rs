//! The table of failures: every row has examples, from recordings of real programs where there are some, and docs/agents.md shows it.

use std::path::Path;

use hankweave_core::agent::classify::{classify, is_context_exceeded};
use hankweave_core::agent::{CLASSES, ErrorClass, FailureKind, WAIT_HINTS};
use serde::Deserialize;
use serde_json::Value;

/// A text that a program printed, and its expected meaning.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Example {
    class: String,
    by: String,
    said: String,
    /// The recording of a real program that contains it.
    recording: Option<String>,
    wait_ms: Option<u128>,
}

fn fixtures() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures"))
}

fn examples() -> Vec<Example> {
    let lines = std::fs::read_to_string(fixtures().join("failures.jsonl")).unwrap();
    let examples = lines.lines().map(|line| serde_json::from_str(line).unwrap());
    examples.collect()
}

/// Returns whether a text occurs anywhere in a JSON value.
fn says(value: &Value, text: &str) -> bool {
    match value {
        Value::String(said) => said.contains(text),
        Value::Array(items) => items.iter().any(|item| says(item, text)),
        Value::Object(fields) => fields.values().any(|field| says(field, text)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

// covers: AGENT-9, AGENT-30
#[test]
fn every_example_belongs_to_its_class_and_tells_its_time_to_wait() {
    for example in examples() {
        let Example { class, by, said, .. } = &example;
        let found = ErrorClass::of(said).map(|class| class.id);
        assert_eq!(found, Some(class.as_str()), "{by}: {said}");
        let meaning = classify(said, true);
        let wait = meaning.retry_after.map(|wait| wait.as_millis());
        assert_eq!(wait, example.wait_ms, "{by}: {said}");
        assert_eq!(is_context_exceeded(said), class == "context", "{by}: {said}");
        if let Some(recording) = &example.recording {
            let path = fixtures().join(format!("agent-streams/{recording}.jsonl"));
            let lines = std::fs::read_to_string(path).unwrap();
            let mut lines = lines.lines().filter_map(|line| serde_json::from_str(line).ok());
            assert!(
                lines.any(|line: Value| says(&line, said)),
                "{recording} does not say {said}"
            );
        }
    }
}

// covers: AGENT-30
#[test]
fn no_row_is_without_an_example_and_no_id_stands_twice() {
    let examples = examples();
    for (index, class) in CLASSES.iter().enumerate() {
        assert!(
            examples.iter().any(|example| example.class == class.id),
            "{} has no example",
            class.id
        );
        assert!(
            !CLASSES[..index].iter().any(|other| other.id == class.id),
            "{} twice",
            class.id
        );
        // Each of its texts is its own, unless a row before has it on purpose.
        for text in class.phrases.iter().chain(class.codes) {
            let found = ErrorClass::of(text).map(|found| found.id);
            assert_eq!(found, Some(class.id), "{text}");
        }
    }
    for hint in WAIT_HINTS {
        let told = |example: &&Example| {
            example.said.to_lowercase().contains(hint.before) && example.wait_ms.is_some()
        };
        assert!(
            examples.iter().any(|example| told(&example)),
            "{} has no example",
            hint.before
        );
    }
}

fn in_code(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| format!("`{text}`")).collect()
}

/// The table as the page shows it.
fn shown(class: &ErrorClass) -> String {
    let again = if class.retriable { "yes" } else { "no" };
    let record = match class.kind {
        FailureKind::RateLimit => "rate-limit",
        FailureKind::Timeout => "timeout",
        _ => "api-error",
    };
    let texts = [in_code(class.phrases), in_code(class.codes)].concat().join(", ");
    let (id, by, words, hint) = (class.id, class.said_by, class.words, class.hint);
    format!("| {id} | {by} | {texts} | `{record}` | {again} | {words} | `{hint}` |")
}

// covers: AGENT-30
#[test]
fn the_page_shows_the_table_as_it_is() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/agents.md");
    let page = std::fs::read_to_string(page).unwrap();
    let classes = CLASSES.iter().map(shown);
    let hints = WAIT_HINTS.iter().map(|hint| {
        let unit = if hint.bare_ms == 1 {
            "milliseconds"
        } else {
            "seconds"
        };
        format!("| `{}` | {} | {unit} |", hint.before, hint.said_by)
    });
    for table in [classes.collect::<Vec<_>>(), hints.collect()] {
        let table = table.join("\n");
        assert!(
            page.contains(&table),
            "docs/agents.md must have these rows:\n{table}"
        );
    }
}
