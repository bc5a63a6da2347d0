//! One bad hank after another, with the exact place and words of the answer.

use super::{fresh, hank, problems};
use hankweave_core::hank::parse;

#[track_caller]
fn check(text: &str, expected: &[&str]) {
    assert_eq!(problems(text), expected, "in {text}");
    assert_eq!(
        parse(text).hank.is_none(),
        expected.iter().any(|line| line.contains("error: ")),
        "in {text}"
    );
}

/// A hank of one valid codon with `more` at its end; `more` begins at column 103.
#[track_caller]
fn check_codon(more: &str, expected: &[&str]) {
    let text = hank(&[fresh("a", more)]);
    assert_eq!(text.find(more), Some(102), "the expected columns count from here");
    check(&text, expected);
}

#[test]
fn text_that_is_not_json_is_reported_where_it_stops_being_json() {
    check("", &["1:1: error: the file is empty"]);
    check(
        "{\n  \"hank\": [\n",
        &["2:11: error: not JSON: unterminated array"],
    );
    check(
        "{'hank': []}",
        &["1:2: error: not JSON: single-quoted strings are not allowed"],
    );
    check(
        "{\"hank\": [] \"x\": 1}",
        &["1:12: error: not JSON: expected comma"],
    );
    check("nonsense", &["1:1: error: not JSON: unexpected word"]);
}

// covers: HANK-1
#[test]
fn comments_trailing_commas_and_a_byte_order_mark_are_allowed() {
    let text = format!(
        "\u{feff}// a hank\n{{\"hank\": [/* one */ {},],}}",
        fresh("a", "")
    );
    check(&text, &[]);
}

#[test]
fn the_document_must_be_an_object_with_a_list_of_items() {
    check(
        "[]",
        &[
            "1:1: error: must be an object, not a list: this is an older format",
            "1:1: error: hank: must not be empty",
        ],
    );
    check("7", &["1:1: error: must be an object, not a number"]);
    check("{}", &["1:1: error: hank: is missing"]);
    check(
        r#"{"hank": {}}"#,
        &["1:10: error: hank: must be a list, not an object"],
    );
    check(r#"{"hank": []}"#, &["1:10: error: hank: must not be empty"]);
    check(
        r#"{"hank": [null]}"#,
        &["1:11: error: hank[0]: must be an object, not null"],
    );
}

// covers: HANK-5
#[test]
fn every_missing_field_of_a_codon_is_named() {
    check(
        r#"{"hank": [{}]}"#,
        &[
            "1:11: error: hank[0].id: is missing",
            "1:11: error: hank[0].continuationMode: is missing",
            "1:11: error: hank[0].name: is missing",
            "1:11: error: hank[0].model: is missing",
            "1:11: error: hank[0].promptFile: is missing",
        ],
    );
}

#[test]
fn a_wrong_type_is_found_three_levels_deep_and_names_its_codon() {
    check_codon(
        r#""rigSetup": [{"type": "copy", "copy": {"from": "a", "to": 7}}]"#,
        &["1:161: error: hank[0].rigSetup[0].copy.to (codon \"a\"): must be a string, not a number"],
    );
    check_codon(
        r#""budget": {"maxDollars": "1"}"#,
        &["1:128: error: hank[0].budget.maxDollars (codon \"a\"): must be a number above 0, not a string"],
    );
}

// covers: HANK-1
#[test]
fn all_problems_are_reported_together() {
    check(
        "{\n  \"meta\": {\"name\": \"\"},\n  \"hank\": [\n    {\"id\": \"a#1\", \"name\": \"A\", \"promptfile\": \"x\",\n     \"model\": 5, \"continuationMode\": \"new\"}\n  ]\n}",
        &[
            "2:11: error: meta.version: is missing",
            "2:20: error: meta.name: must not be empty",
            "4:5: error: hank[0].promptFile (codon \"a#1\", \"A\"): is missing",
            "4:12: error: hank[0].id (codon \"a#1\", \"A\"): `#` is reserved for loop iterations",
            "4:32: error: hank[0].promptfile (codon \"a#1\", \"A\"): `promptfile` is not a key of a codon",
            "5:15: error: hank[0].model (codon \"a#1\", \"A\"): must be a string, not a number",
            "5:38: error: hank[0].continuationMode (codon \"a#1\", \"A\"): must be one of fresh, continue-previous, not `new`",
        ],
    );
}

#[test]
fn a_repeated_key_is_an_error_at_its_second_place() {
    check(
        r#"{"hank": [], "hank": []}"#,
        &[
            "1:10: error: hank: must not be empty",
            "1:14: error: hank: `hank` stands twice in this object",
        ],
    );
}

// covers: HANK-2
#[test]
fn unknown_keys_come_with_advice() {
    let hint = |text: &str| {
        parse(text)
            .problems
            .iter()
            .next()
            .and_then(|problem| problem.hint.clone())
            .unwrap()
    };
    let with = |more: &str| hank(&[fresh("a", more)]);
    assert_eq!(hint(&with(r#""trackedFiles": []"#)), "write `checkpointedFiles`");
    assert_eq!(hint(&with(r#""maxCost": 1"#)), "write `budget.maxDollars`");
    assert_eq!(
        hint(&with(
            r#""rigSetup": [{"type": "command", "command": {"run": "x", "cwd": "."}}]"#
        )),
        "write `workingDirectory`"
    );
    assert_eq!(
        hint(r#"{"model": "x", "hank": []}"#),
        "write `overrides.model` for the whole hank, or write it inside a codon of the list `hank`"
    );
    assert_eq!(
        hint(r#"{"budget": {}, "hank": []}"#),
        "write `overrides.budget` for the whole hank, or write it inside a codon of the list `hank`"
    );
    assert_eq!(
        hint(r#"{"rigSetup": [], "hank": []}"#),
        "`rigSetup` belongs inside a codon of the list `hank`"
    );
    assert!(hint(&with(r#""qqq": 1"#)).starts_with("valid keys are type, id, name"));
}

// covers: X1
#[test]
fn ids_become_file_names_and_are_checked_as_such() {
    for (id, rule) in [
        ("a/b", "it must not contain a path separator"),
        ("x#0", "`#` is reserved for loop iterations"),
        ("", "it is empty"),
        ("..", "it must begin with a letter or a digit"),
        ("nul", "it is a device name on Windows"),
    ] {
        let found = problems(&hank(&[fresh("a", "").replacen(
            "\"a\"",
            &format!("\"{id}\""),
            1,
        )]));
        assert!(
            found.len() == 1 && found[0].starts_with("1:18: error: hank[0].id") && found[0].ends_with(rule),
            "{found:?}"
        );
    }
}

#[test]
fn references_targets_and_globs_are_checked_by_their_spelling() {
    check_codon(
        r#""appendSystemPromptFile": ["a.md", "../b.md"]"#,
        &[
            "1:138: error: hank[0].appendSystemPromptFile[1] (codon \"a\"): `../b.md` must not lead out of the folder of the hank",
        ],
    );
    check_codon(
        r#""rigSetup": [{"type": "copy", "copy": {"from": "/etc", "to": ".git/hooks"}}]"#,
        &[
            "1:150: error: hank[0].rigSetup[0].copy.from (codon \"a\"): `/etc` must be relative",
            "1:164: error: hank[0].rigSetup[0].copy.to (codon \"a\"): must not name or pass through `.git`",
        ],
    );
    check_codon(
        r#""checkpointedFiles": ["", "/a", "../x", "[z"]"#,
        &[
            "1:125: error: hank[0].checkpointedFiles[0] (codon \"a\"): must not be empty",
            "1:129: error: hank[0].checkpointedFiles[1] (codon \"a\"): must be relative",
            "1:135: error: hank[0].checkpointedFiles[2] (codon \"a\"): must not contain `..`",
            "1:143: error: hank[0].checkpointedFiles[3] (codon \"a\"): is not a glob: unclosed character class; missing ']'",
        ],
    );
    let many = format!(r#""checkpointedFiles": [{}"x"]"#, r#""x","#.repeat(256));
    check_codon(
        &many,
        &["1:124: error: hank[0].checkpointedFiles (codon \"a\"): must not have more than 256 patterns"],
    );
}

#[test]
fn numbers_have_ranges() {
    check_codon(
        r#""shimIdleTimeout": 0"#,
        &[
            "1:122: error: hank[0].shimIdleTimeout (codon \"a\"): must be a whole number from 1 to 1800, not `0`",
        ],
    );
    check_codon(
        r#""maxExtensions": 1.5"#,
        &["1:120: error: hank[0].maxExtensions (codon \"a\"): must be a whole number, at least 1, not `1.5`"],
    );
    check_codon(
        r#""budget": {"maxTimeSeconds": 1e999}"#,
        &["1:132: error: hank[0].budget.maxTimeSeconds (codon \"a\"): must be a number above 0, not `1e999`"],
    );
    check_codon(
        r#""onFailure": "retry", "retryConfig": {"maxAttempts": 3.0, "delayMs": 5e2}"#,
        &[],
    );
}

// covers: HANK-5
#[test]
fn fields_that_exclude_each_other_are_reported() {
    check_codon(
        r#""promptFile": "a.md""#,
        &["1:69: error: hank[0].promptText (codon \"a\"): must not stand beside `promptFile`"],
    );
    check_codon(
        r#""retryConfig": {}"#,
        &["1:118: error: hank[0].retryConfig (codon \"a\"): needs `onFailure` to be retry"],
    );
}

#[test]
fn a_model_is_needed_unless_the_agent_does_without() {
    let without = |agent: &str| {
        hank(&[format!(
            r#"{{"id": "a", "name": "A", "continuationMode": "fresh", "promptText": "x", "agent": {agent}}}"#
        )])
    };
    for agent in [
        r#""scripted""#,
        r#"{"script": "s.json"}"#,
        r#"{"command": ["my-agent", ""], "stream": "claude"}"#,
    ] {
        check(&without(agent), &[]);
    }
    check(
        &without(r#""claude""#),
        &["1:11: error: hank[0].model (codon \"a\"): is missing"],
    );
    check(
        &without(r#"{"command": [], "stream": "claude"}"#),
        &["1:105: error: hank[0].agent.command (codon \"a\"): must not be empty"],
    );
    check(
        &without("5"),
        &["1:93: error: hank[0].agent (codon \"a\"): must be the name of an agent or an object"],
    );
}

#[test]
fn a_model_that_could_be_an_option_is_refused() {
    let text = hank(&[fresh("a", "")]).replace("sonnet", "--yolo");
    assert!(
        problems(&text)[0].contains("is no model name"),
        "{:?}",
        problems(&text)
    );
}

#[test]
fn environment_and_requirements_have_usable_names_and_values_stay_secret() {
    let found = problems(&hank(&[fresh(
        "a",
        r#""env": {"A=B": "sesame", "C": 1, "D": "sesame\u0000"}"#,
    )]));
    assert_eq!(found.len(), 3, "{found:?}");
    assert!(!found.concat().contains("sesame"), "{found:?}");
    let text = format!(
        r#"{{"requirements": {{"env": ["", " A "], "tools": ["bin/x", "a b", "git"]}}, "hank": [{}]}}"#,
        fresh("a", "")
    );
    let found = problems(&text);
    assert_eq!(found.len(), 3, "{found:?}");
    let fixed = text.replace("\"\", ", "").replace("\"bin/x\", \"a b\", ", "");
    let hank = parse(&fixed).hank.unwrap();
    assert_eq!(
        (hank.requirements.env, hank.requirements.tools),
        (vec!["A".to_owned()], vec!["git".to_owned()])
    );
}

#[test]
fn doubtful_values_are_only_warnings() {
    check_codon(
        r#""rigSetup": [{"type": "command", "command": {"run": "rm -rf /"}}]"#,
        &[
            "1:155: warning: hank[0].rigSetup[0].command.run (codon \"a\"): removes everything below the root or the home folder; is that meant?",
        ],
    );
    let text = hank(&[fresh("a", "")]).replace("\"x\"", "\" \"");
    check(
        &text,
        &["1:69: warning: hank[0].promptText (codon \"a\"): is empty"],
    );
}
