//! Required changes of files that no checkpoint of their codon holds (HANK-66).

use crate::hank::document::{CodonConfig, Hank, Requires};
use crate::hank::problem::{Problem, quoted};

/// Checks the patterns of every codon that requires changed files.
pub(super) fn check(hank: &Hank) -> Vec<Problem> {
    let mut problems = Vec::new();
    // Checkpoints hold the sum of the patterns up to their codon; none so far means all files.
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

/// Returns the required patterns that share no file with any of `held`, as their beginnings show.
fn unheld<'h>(hank: &'h Hank, codon: &'h CodonConfig, held: &[&str]) -> Vec<&'h str> {
    let Some(Requires::Patterns(patterns)) = hank.required_of(codon) else {
        return Vec::new();
    };
    let held: Vec<&str> = held
        .iter()
        .copied()
        .filter(|pattern| !pattern.starts_with('!'))
        .collect();
    let wanted = patterns.iter().map(String::as_str);
    let wanted = wanted.filter(|pattern| !pattern.starts_with('!') && !held.is_empty());
    wanted
        .filter(|pattern| held.iter().all(|other| are_apart(pattern, other)))
        .collect()
}

/// Whether no path begins as both patterns do.
fn are_apart(one: &str, other: &str) -> bool {
    let (one, other) = (fixed(one), fixed(other));
    !one.starts_with(other) && !other.starts_with(one)
}

/// Returns the part of a pattern before its first wildcard.
fn fixed(pattern: &str) -> &str {
    let pattern = pattern.strip_prefix("./").unwrap_or(pattern);
    let end = pattern.find(['*', '?', '[', '{']).unwrap_or(pattern.len());
    &pattern[..end]
}

#[cfg(test)]
mod tests {
    use super::are_apart;

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
