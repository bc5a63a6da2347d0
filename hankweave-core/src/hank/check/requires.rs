//! Warns of a codon that must change files (`requires`) which no checkpoint holds: such a change could never be seen (HANK-66).

use crate::hank::document::{CodonConfig, Hank, Requires};
use crate::hank::problem::{Problem, quoted};

/// Checks the patterns of every codon that requires changed files.
pub(super) fn check(hank: &Hank) -> Vec<Problem> {
    let mut problems = Vec::new();
    // Patterns of all codons so far: these are the files that a checkpoint holds. No pattern at all means all files.
    let mut held: Vec<&str> = Vec::new();
    for (path, codon) in hank.located_codons() {
        held.extend(codon.checkpointed_files.iter().map(String::as_str));
        let place = match codon.requires {
            Some(_) => format!("{path}.requires"),
            None => "overrides.requires".to_owned(),
        };
        for pattern in unheld(hank, codon, &held) {
            let message = format!(
                "no pattern of checkpointedFiles covers {}, so {} could never be a success",
                quoted(pattern),
                quoted(codon.id.as_str())
            );
            let hint = "add it to `checkpointedFiles`; only files that checkpoints hold count";
            problems.push(Problem::warning(&hank.places, &place, message).with_hint(hint));
        }
    }
    problems
}

/// Returns the required patterns that share no file with any pattern of `held`, judged by the parts before the first wildcards.
fn unheld<'h>(hank: &'h Hank, codon: &'h CodonConfig, held: &[&str]) -> Vec<&'h str> {
    let Some(Requires::Patterns(patterns)) = hank.required_of(codon) else {
        return Vec::new();
    };
    // Without any pattern checkpoints hold every file; with only `!` patterns they take none (HANK-17).
    if held.is_empty() {
        return Vec::new();
    }
    let held: Vec<&str> = held
        .iter()
        .copied()
        .filter(|pattern| !pattern.starts_with('!'))
        .collect();
    let wanted = patterns.iter().map(String::as_str);
    let wanted = wanted.filter(|pattern| !pattern.starts_with('!'));
    wanted
        .filter(|pattern| held.iter().all(|other| are_apart(pattern, other)))
        .collect()
}

/// Whether no path can match both patterns, judged by the parts before their first wildcards.
fn are_apart(one: &str, other: &str) -> bool {
    let (one, other) = (fixed_start(one), fixed_start(other));
    !one.starts_with(other) && !other.starts_with(one)
}

/// Returns the part of a pattern before its first wildcard.
fn fixed_start(pattern: &str) -> &str {
    let pattern = pattern.strip_prefix("./").unwrap_or(pattern);
    let end = pattern.find(['*', '?', '[', '{']).unwrap_or(pattern.len());
    &pattern[..end]
}

#[cfg(test)]
mod tests {
    use super::are_apart;
    use crate::hank::parse;

    // covers: HANK-17, HANK-66
    #[test]
    fn checkpoints_that_only_exclude_files_hold_none_that_is_required() {
        let warned = |checkpointed: &str| {
            let codon = r#"{"id": "a", "name": "A", "model": "sonnet", "promptText": "x", "continuationMode": "fresh", "requires": ["src/**"]"#;
            let found = parse(&format!(
                r#"{{"hank": [{codon}, "checkpointedFiles": {checkpointed}}}]}}"#
            ));
            found.problems.iter().map(ToString::to_string).collect::<String>()
        };
        let message = "no pattern of checkpointedFiles covers `src/**`";
        for checkpointed in [r#"["!tmp/**"]"#, r#"["docs/**"]"#] {
            assert!(
                warned(checkpointed).contains(message),
                "{checkpointed}: {}",
                warned(checkpointed)
            );
        }
        for checkpointed in ["[]", r#"["src/**", "!tmp/**"]"#] {
            assert_eq!(warned(checkpointed), "", "{checkpointed}");
        }
    }

    // covers: HANK-66
    #[test]
    fn patterns_are_apart_when_their_beginnings_are() {
        for (one, other) in [("src/**", "docs/**"), ("a.md", "b.md"), ("src/a.rs", "x")] {
            assert!(are_apart(one, other), "{one} {other}");
        }
        for (one, other) in [
            ("src/**", "src/*.rs"),
            ("src/a.rs", "**/*.rs"),
            ("src/a.rs", "src"),
            ("./a.md", "a.md"),
        ] {
            assert!(!are_apart(one, other), "{one} {other}");
        }
    }
}
