//! `#[derive(Shape)]` accepts what serde reads, and refuses everything else with its path. `#[derive(Named)]` gives the names.

use hankweave_core::shape::{Checker, Named, Shape, Value};
use serde::Deserialize;
use serde_json::{Map, json};

#[derive(Debug, Deserialize, Shape)]
#[serde(rename_all = "camelCase")]
#[expect(dead_code, reason = "only whether it can be read is asked")]
struct Record {
    first_name: String,
    #[serde(rename = "type")]
    kind: Kind,
    note: Option<String>,
    #[serde(default)]
    retries: u64,
    #[serde(deserialize_with = "Option::deserialize")]
    parent: Option<String>,
    #[serde(default)]
    steps: Vec<Step>,
    #[serde(default)]
    #[shape(with = even)]
    pair: Value,
    r#match: Option<bool>,
    #[serde(skip)]
    seen: bool,
    #[serde(flatten)]
    rest: Map<String, Value>,
}

#[derive(Debug, Clone, Copy, PartialEq, Deserialize, Named, Shape)]
#[serde(rename_all = "kebab-case")]
enum Kind {
    Plain,
    VerySpecial,
    #[serde(rename = "2nd")]
    Second,
}

#[derive(Debug, Deserialize, Named, Shape)]
#[serde(tag = "do", rename_all = "snake_case", rename_all_fields = "camelCase")]
#[expect(dead_code, reason = "only whether it can be read is asked")]
enum Step {
    Wait,
    GoBack { how_far: u32, inner: Option<Box<Inner>> },
}

#[derive(Debug, Deserialize)]
#[expect(dead_code, reason = "only whether it can be read is asked")]
struct Inner {
    steps: Vec<Step>,
}

impl Shape for Box<Inner> {
    fn check(checker: &mut Checker, value: &mut Value) {
        checker.object(
            value,
            &[hankweave_core::shape::required("steps", Vec::<Step>::check)],
        );
    }
}

fn even(checker: &mut Checker, value: &mut Value) {
    if value.as_u64().is_none_or(|number| number % 2 == 1) {
        checker.report("must be even");
    }
}

fn record(changes: Value) -> Value {
    let mut value = json!({"firstName": "Ada", "type": "plain", "parent": null});
    for (name, change) in changes.as_object().unwrap() {
        value[name] = change.clone();
    }
    value
}

/// Each finding as `path: message`.
fn findings(value: &mut Value) -> Vec<String> {
    let mut checker = Checker::default();
    Record::check(&mut checker, value);
    let findings = checker.into_findings().into_iter();
    findings
        .map(|finding| format!("{}: {}", finding.path, finding.message))
        .collect()
}

#[track_caller]
fn accepted(changes: Value) {
    let mut value = record(changes);
    assert_eq!(findings(&mut value), [""; 0]);
    let read = Record::deserialize(&value);
    assert!(read.is_ok(), "{read:?}");
}

#[track_caller]
fn refused(changes: Value, expected: &[&str]) {
    let mut value = record(changes);
    assert_eq!(findings(&mut value), expected);
}

#[test]
fn what_serde_reads_is_accepted() {
    accepted(json!({}));
    accepted(
        json!({"type": "very-special", "note": "n", "retries": 3, "parent": "p", "match": true, "pair": 4}),
    );
    accepted(json!({"type": "2nd", "steps": [{"do": "wait"}, {"do": "go_back", "howFar": 1}]}));
    // A name that may be absent may be null, and an unknown name may have any value.
    accepted(
        json!({"note": null, "retries": null, "steps": null, "match": null, "seen": "?", "else": [null]}),
    );
    let inner = json!({"steps": [{"do": "wait", "more": 1}]});
    accepted(json!({"steps": [{"do": "go_back", "howFar": 0, "inner": inner}]}));
}

#[test]
fn what_is_missing_is_named_where_it_belongs() {
    let mut value = json!({});
    assert_eq!(
        findings(&mut value),
        ["firstName: is missing", "type: is missing", "parent: is missing"]
    );
    refused(json!({"firstName": null}), &["firstName: must not be null"]);
    refused(
        json!({"steps": [{"do": "go_back"}]}),
        &["steps[0].howFar: is missing"],
    );
    assert_eq!(findings(&mut json!([])), [": must be an object, not a list"]);
}

#[test]
fn what_is_wrong_is_named_with_its_whole_path() {
    refused(
        json!({"firstName": 1, "retries": -1, "match": "yes", "pair": 3, "r#match": 1}),
        &[
            "firstName: must be a string, not 1",
            "retries: must be a whole number from 0 on, not -1",
            "pair: must be even",
            "match: must be true or false, not `yes`",
        ],
    );
    refused(
        json!({"type": "VerySpecial"}),
        &["type: must be one of `plain`, `very-special`, `2nd`, not `VerySpecial`"],
    );
    let inner = json!({"steps": [{"do": "wait"}, {"do": "run"}, 5, {}]});
    refused(
        json!({"steps": [{"do": "wait"}, {"do": "go_back", "howFar": "far", "inner": inner}]}),
        &[
            "steps[1].howFar: must be a whole number from 0 to 4294967295, not `far`",
            "steps[1].inner.steps[1].do: must be `wait` or `go_back`, not `run`",
            "steps[1].inner.steps[2]: must be an object, not a number",
            "steps[1].inner.steps[3].do: must be `wait` or `go_back`",
        ],
    );
}

/// The names are those that serde reads.
#[test]
fn names_are_spelled_as_serde_spells_them() {
    assert_eq!(
        Kind::ALL.map(|kind| kind.name()),
        ["plain", "very-special", "2nd"]
    );
    for kind in Kind::ALL {
        assert_eq!(Kind::deserialize(json!(kind.name())).unwrap(), kind);
    }
    let back = Step::deserialize(json!({"do": "go_back", "howFar": 2})).unwrap();
    assert_eq!((back.name(), Step::Wait.name()), ("go_back", "wait"));
}
