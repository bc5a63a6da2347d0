//! The patterns of `checkpointedFiles`, `archiveOnSuccess` and `outputFiles`.

use globset::{Candidate, Glob, GlobBuilder, GlobSet, GlobSetBuilder};

use super::extended;
use super::language::Automaton;

/// Patterns that say which files are meant (HANK-16, HANK-17, HANK-18).
///
/// `*` and `?` stay within one name, `**` crosses folders, `[…]` and `{a,b}` are known.
/// Names with a leading dot match like others; letter case counts. Matching takes linear time (X4).
#[derive(Debug, Clone, Default)]
pub struct Patterns {
    wanted: Globs,
    unwanted: Globs,
    everything: bool,
}

/// Only a pattern of more bytes than these can be too large for a matcher.
const ALWAYS_BUILT: usize = 1_024;

/// Compiled patterns, either all negated or none.
#[derive(Debug, Clone, Default)]
struct Globs {
    plain: GlobSet,
    extended: Vec<Automaton>,
}

impl Globs {
    fn matches(&self, path: &[u8]) -> bool {
        self.plain.is_match_candidate(&Candidate::from_bytes(path))
            || self.extended.iter().any(|pattern| pattern.matches(path))
    }
}

/// Why a pattern cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PatternError {
    /// The pattern names nothing.
    #[error("the pattern `{pattern}` is empty")]
    Empty {
        /// The pattern as it was written.
        pattern: String,
    },
    /// The pattern leads out of the workspace (X4).
    #[error("the pattern `{pattern}` leads out of the workspace")]
    Outside {
        /// The pattern as it was written.
        pattern: String,
    },
    /// The pattern uses an extended glob in a way that cannot be followed.
    #[error("the pattern `{pattern}` {reason}")]
    Extended {
        /// The pattern as it was written.
        pattern: String,
        /// Problem, as a phrase that follows the pattern.
        reason: &'static str,
    },
    /// The pattern is not a glob.
    #[error("the pattern `{pattern}` is not a glob")]
    Syntax {
        /// The pattern as it was written.
        pattern: String,
        /// Cause.
        #[source]
        source: globset::Error,
    },
}

impl Patterns {
    /// Reads a list of patterns. An empty list matches everything; a list with nothing but `!` patterns
    /// matches nothing.
    ///
    /// # Errors
    ///
    /// Returns the first pattern that cannot be used.
    pub fn parse<S: AsRef<str>>(patterns: &[S]) -> Result<Self, PatternError> {
        let (mut wanted, mut unwanted) = (PatternGroup::default(), PatternGroup::default());
        for pattern in patterns {
            let pattern = Pattern::parse(pattern.as_ref())?;
            pattern.add_to(match pattern.negated {
                true => &mut unwanted,
                false => &mut wanted,
            })?;
        }
        Ok(Self {
            wanted: wanted.build()?,
            unwanted: unwanted.build()?,
            everything: patterns.is_empty(),
        })
    }

    /// Whether [`parse`](Self::parse) would accept this pattern, without the cost of a matcher.
    ///
    /// # Errors
    ///
    /// Returns why it cannot be used.
    pub fn check(pattern: &str) -> Result<(), PatternError> {
        if pattern.len() > ALWAYS_BUILT {
            return Self::parse(&[pattern]).map(drop);
        }
        Pattern::parse(pattern)?.add_to(&mut PatternGroup::default())
    }

    /// The list that matches nothing.
    #[must_use]
    pub fn nothing() -> Self {
        Self::default()
    }

    /// Whether the file at `path`, relative to the workspace, is meant.
    #[must_use]
    pub fn matches(&self, path: &[u8]) -> bool {
        if self.everything {
            return true;
        }
        self.wanted.matches(path) && !self.unwanted.matches(path)
    }
}

/// Patterns before they are compiled, either all negated or none.
#[derive(Default)]
struct PatternGroup {
    plain: Vec<Glob>,
    extended: Vec<Automaton>,
}

impl PatternGroup {
    fn build(self) -> Result<Globs, PatternError> {
        let mut plain = GlobSetBuilder::new();
        for glob in self.plain {
            plain.add(glob);
        }
        let plain = plain.build().map_err(|source| PatternError::Syntax {
            pattern: source.glob().unwrap_or("").to_owned(),
            source,
        })?;
        let extended = self.extended;
        Ok(Globs { plain, extended })
    }
}

/// One pattern, split into its parts.
struct Pattern<'a> {
    written: &'a str,
    negated: bool,
    glob: String,
    folder: bool,
}

impl<'a> Pattern<'a> {
    fn parse(written: &'a str) -> Result<Self, PatternError> {
        let rest = without_dot_slash(written);
        let (negated, rest) = match rest.strip_prefix('!') {
            Some(positive) if !positive.starts_with('(') => (true, without_dot_slash(positive)),
            _ => (false, rest),
        };
        let pattern = || written.to_owned();
        if rest.starts_with('/') || rest.split('/').any(|part| part == "..") {
            return Err(PatternError::Outside { pattern: pattern() });
        }
        let parts = rest.split('/').filter(|part| !matches!(*part, "" | "."));
        let parts: Vec<&str> = parts.collect();
        if parts.is_empty() {
            return Err(PatternError::Empty { pattern: pattern() });
        }
        let folder = rest.ends_with('/') || !rest.contains(['*', '?', '[', '{', '\\', '(']);
        Ok(Self {
            written,
            negated,
            glob: parts.join("/"),
            folder,
        })
    }

    fn add_to(&self, collected: &mut PatternGroup) -> Result<(), PatternError> {
        if extended::is_extended(&self.glob) {
            let pattern = self.written.to_owned();
            let automaton = extended::compile(&self.glob, self.folder);
            let automaton = automaton.map_err(|reason| PatternError::Extended { pattern, reason })?;
            collected.extended.push(automaton);
            return Ok(());
        }
        collected.plain.push(self.compile(&self.glob)?);
        if self.folder {
            let beneath = format!("{}/**", self.glob);
            collected.plain.push(self.compile(&beneath)?);
        }
        Ok(())
    }

    fn compile(&self, glob: &str) -> Result<Glob, PatternError> {
        let glob = GlobBuilder::new(glob)
            .literal_separator(true)
            .backslash_escape(true)
            .empty_alternates(true)
            .build();
        let pattern = self.written.to_owned();
        glob.map_err(|source| PatternError::Syntax { pattern, source })
    }
}

fn without_dot_slash(text: &str) -> &str {
    let rest = text.strip_prefix("./");
    rest.map_or(text, |rest| rest.trim_start_matches('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(patterns: &[&str], matching: &[&str], others: &[&str]) {
        let patterns = Patterns::parse(patterns).unwrap();
        for path in matching {
            assert!(patterns.matches(path.as_bytes()), "{path:?} should match");
        }
        for path in others {
            assert!(!patterns.matches(path.as_bytes()), "{path:?} should not match");
        }
    }

    // covers: HANK-16
    #[test]
    fn a_pattern_without_a_slash_means_the_root_only() {
        check(&["*.md"], &["a.md", ".md"], &["docs/a.md", "a.MD"]);
        check(&["**/*.md"], &["a.md", "docs/a.md", "docs/.x/.a.md"], &["a.txt"]);
    }

    // covers: HANK-16
    #[test]
    fn a_folder_means_everything_beneath_it() {
        check(&["src"], &["src", "src/a", "src/b/.c"], &["src2/a", "x/src/a"]);
        check(&["build*/"], &["build1/a/b"], &["other/a"]);
    }

    // covers: HANK-16
    #[test]
    fn a_negated_pattern_is_subtracted_wherever_it_stands() {
        check(
            &["!src/secret.txt", "src/**", "!**/*.log"],
            &["src/a"],
            &["src/secret.txt", "src/x/y.log"],
        );
        check(&["!./src/a", "./src//**"], &["src/b"], &["src/a"]);
    }

    // covers: HANK-17
    #[test]
    fn a_list_without_a_positive_pattern_matches_nothing_and_no_list_matches_everything() {
        check(&["!a"], &[], &["a", "b"]);
        check(&[], &["a", ".b/c"], &[]);
    }

    #[test]
    fn wildcards_stay_within_a_name() {
        check(
            &["src/*.rs", "{a,b}/?"],
            &["src/x.rs", "a/x", "b/y"],
            &["src/x/y.rs", "a/xx"],
        );
    }

    #[test]
    fn names_that_are_not_text_can_match() {
        let patterns = Patterns::parse(&["out/*"]).unwrap();
        assert!(patterns.matches(b"out/\xff\n"));
    }

    #[test]
    fn extended_globs_stand_in_lists_like_other_patterns() {
        check(&["!(a|b)/"], &["c/x", "c/x/y"], &["a/x", "b/x/y"]);
        check(&["**", "!!(a)"], &["a", "b/c"], &["b"]);
        check(
            &["./src//+(x|y)", "*.md", "!@(a|b).md"],
            &["src/xy", "c.md"],
            &["a.md", "src/z"],
        );
    }

    #[test]
    fn a_pattern_that_cannot_be_used_is_named() {
        for bad in ["", "!", "./", "../a", "a/../b", "/etc/*", "@(a", "@(a/b)", "[a"] {
            let error = Patterns::parse(&[bad]).unwrap_err();
            assert!(error.to_string().contains(&format!("`{bad}`")), "{error}");
        }
    }
}
