//! A hank that is written out and read again is the same hank.

use hankweave_core::hank::{ReferenceKind, parse, references, unsupported};

const EVERYTHING: &str = include_str!("everything.json");

#[test]
fn a_hank_with_every_field_is_valid_and_survives_writing_and_reading() {
    let first = parse(EVERYTHING);
    let hank = first
        .hank
        .unwrap_or_else(|| panic!("{}", first.problems.display_in("everything.json")));
    let written = serde_json::to_value(&hank).unwrap();
    let second = parse(&written.to_string()).hank.unwrap();
    assert_eq!(serde_json::to_value(&second).unwrap(), written);
    let original: serde_json::Value = serde_json::from_str(EVERYTHING).unwrap();
    assert_eq!(written["hank"][1]["codons"], original["hank"][1]["codons"]);
    assert_eq!(written["overrides"], original["overrides"]);
    assert_eq!(written["hank"][0]["rigSetup"], original["hank"][0]["rigSetup"]);
}

#[test]
fn references_are_listed_with_their_places_in_order() {
    let hank = parse(EVERYTHING).hank.unwrap();
    let found: Vec<_> = references(&hank)
        .into_iter()
        .map(|r| (r.kind, r.path, r.place))
        .collect();
    let expected = [
        (
            ReferenceKind::SystemPrompt,
            "prompts/global.md",
            "globalSystemPromptFile",
        ),
        (ReferenceKind::Prompt, "prompts/a.md", "hank[0].promptFile[0]"),
        (ReferenceKind::Prompt, "prompts/b.md", "hank[0].promptFile[1]"),
        (ReferenceKind::CopySource, "tpl", "hank[0].rigSetup[0].copy.from"),
        (
            ReferenceKind::Sentinel,
            "sentinels/s.json",
            "hank[0].sentinels[0].sentinelConfig",
        ),
        (
            ReferenceKind::AgentScript,
            "scripts/x.json",
            "hank[1].codons[0].agent.script",
        ),
    ];
    assert_eq!(
        found,
        expected.map(|(kind, path, place)| (kind, path, place.to_owned()))
    );
}

#[test]
fn what_a_run_cannot_do_yet_is_listed_with_places() {
    let hank = parse(EVERYTHING).hank.unwrap();
    let found = unsupported(&hank);
    assert!(
        found
            .iter()
            .all(|problem| problem.message.starts_with("not supported yet: ") && problem.position.is_some())
    );
    let paths: Vec<_> = found.iter().map(|problem| problem.path.as_str()).collect();
    assert_eq!(paths, ["overrides.sentinel"]);
}

#[test]
fn a_hank_of_supported_features_has_nothing_unsupported() {
    let text = r#"{"requirements": {"env": ["A"], "tools": ["git"]}, "globalSystemPromptText": "g", "hank": [
        {"id": "a", "name": "A", "model": "scripted", "continuationMode": "fresh", "promptFile": "a.md", "env": {"B": "c"},
         "appendSystemPromptText": "s", "checkpointedFiles": ["**/*"], "onFailure": "ignore", "outputFiles": [],
         "rigSetup": [{"type": "command", "command": {"run": "true", "workingDirectory": "lastCopied"}, "allowFailure": true}]}]}"#;
    assert!(unsupported(&parse(text).hank.unwrap()).is_empty());
}
