//! Hanks of older formats, which are refused with the new names (HANK-2).

use hankweave_core::hank::parse;

/// A loop and two codons in the spelling of older versions.
const OLDER: &str = r#"{
  "strand": [
    {"id": "write", "name": "Write", "model": "sonnet", "continuationMode": "fresh", "promptText": "x",
     "trackedFiles": ["notes/**"], "workspaceSetup": []},
    {"type": "loop", "id": "again", "name": "Again", "terminateOn": {"type": "iterationLimit", "limit": 2},
     "codons": [
       {"id": "review", "name": "Review", "model": "sonnet", "continuationMode": "continue-previous",
        "promptText": "x", "trackedFiles": ["notes/**"], "onFailure": "ignore"}
     ]}
  ],
  "recommendations": {}
}"#;

// covers: HANK-2
#[test]
fn every_older_name_is_answered_with_the_new_one() {
    let parsed = parse(OLDER);
    assert!(parsed.hank.is_none());
    let errors = parsed.problems.iter().take(parsed.problems.errors());
    let told: Vec<_> = errors
        .map(|problem| {
            let position = problem.position.unwrap();
            format!(
                "{}:{} {}",
                position.line,
                position.column,
                problem.hint.as_deref().unwrap_or("no hint")
            )
        })
        .collect();
    let expected = [
        "2:3 write `hank`",
        "4:6 write `checkpointedFiles`",
        "4:36 write `rigSetup`",
        "8:28 write `checkpointedFiles`",
        "11:3 write `overrides`",
    ];
    assert_eq!(told, expected);
}
