//! A hank that is written and read again stays equal.

use hankweave_core::hank::{ReferenceKind, parse, references};

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

// covers: HANK-74
#[test]
fn scripts_of_fallbacks_are_files_of_the_hank() {
    let text = r#"{"overrides": {"fallback": [{"agent": {"script": "all.json"}}]}, "hank": [
        {"id": "a", "name": "A", "model": "sonnet", "continuationMode": "fresh", "promptText": "go",
        "fallback": ["wait", {"agent": {"script": "own.json"}}]}]}"#;
    let hank = parse(text).hank.unwrap();
    let found: Vec<_> = references(&hank)
        .into_iter()
        .map(|r| (r.kind, r.path, r.place))
        .collect();
    let expected = [
        ("all.json", "overrides.fallback[0].agent.script"),
        ("own.json", "hank[0].fallback[1].agent.script"),
    ];
    assert_eq!(
        found,
        expected.map(|(path, place)| (ReferenceKind::AgentScript, path, place.to_owned()))
    );
}

#[test]
fn settings_without_an_effect_are_told() {
    let parsed = parse(EVERYTHING);
    let told = parsed
        .problems
        .iter()
        .find(|problem| problem.path == "overrides.sentinel");
    assert!(told.is_some_and(|problem| problem.message.starts_with("has no effect: ")));
}
