//! The patterns of `checkpointedFiles`.

use globset::{Candidate, GlobBuilder, GlobSet, GlobSetBuilder};

/// Patterns that say which files belong to a checkpoint, in the dialect of the hank configuration, section 5.
///
/// `*` and `?` stay within one name, `**` crosses folders, `[…]` and `{a,b}` are known; names with a leading dot match
/// like others; letter case counts. A pattern without `/` means the root of the workspace. A pattern without wildcards,
/// or one that ends in `/`, also means everything beneath the folder of that name. A leading `!` subtracts from the
/// whole list, wherever it stands.
#[derive(Debug, Clone)]
pub struct Patterns {
    wanted: GlobSet,
    unwanted: GlobSet,
    everything: bool,
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
    /// The pattern leads out of the workspace ("reliability and security", rule X4).
    #[error("the pattern `{pattern}` leads out of the workspace")]
    Outside {
        /// The pattern as it was written.
        pattern: String,
    },
    /// The pattern uses an extended glob such as `!(a|b)`.
    #[error(
        "the pattern `{pattern}` uses an extended glob, which is not supported; use `{{a,b}}` or a pattern with `!`"
    )]
    Extended {
        /// The pattern as it was written.
        pattern: String,
    },
    /// The pattern is not a glob.
    #[error("the pattern `{pattern}` is not a glob")]
    Syntax {
        /// The pattern as it was written.
        pattern: String,
        /// What is wrong with it.
        #[source]
        source: globset::Error,
    },
}

impl Patterns {
    /// Reads a list of patterns. An empty list matches everything; a list with nothing but `!` patterns matches nothing.
    ///
    /// # Errors
    ///
    /// Returns the first pattern that cannot be used.
    pub fn parse<S: AsRef<str>>(patterns: &[S]) -> Result<Self, PatternError> {
        let (mut wanted, mut unwanted) = (GlobSetBuilder::new(), GlobSetBuilder::new());
        for pattern in patterns {
            let pattern = Pattern::parse(pattern.as_ref())?;
            let set = if pattern.negated {
                &mut unwanted
            } else {
                &mut wanted
            };
            pattern.add_to(set)?;
        }
        let build = |set: GlobSetBuilder| {
            set.build().map_err(|source| PatternError::Syntax {
                pattern: source.glob().unwrap_or("").to_owned(),
                source,
            })
        };
        Ok(Self {
            wanted: build(wanted)?,
            unwanted: build(unwanted)?,
            everything: patterns.is_empty(),
        })
    }

    /// The list that matches nothing.
    #[must_use]
    pub fn nothing() -> Self {
        Self {
            wanted: GlobSet::empty(),
            unwanted: GlobSet::empty(),
            everything: false,
        }
    }

    /// Whether the file at `path`, relative to the workspace, is meant.
    #[must_use]
    pub fn matches(&self, path: &[u8]) -> bool {
        if self.everything {
            return true;
        }
        let candidate = Candidate::from_bytes(path);
        self.wanted.is_match_candidate(&candidate) && !self.unwanted.is_match_candidate(&candidate)
    }
}

/// One pattern, taken apart.
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
        if ["!(", "@(", "+(", "*(", "?("]
            .iter()
            .any(|opening| rest.contains(opening))
        {
            return Err(PatternError::Extended { pattern: pattern() });
        }
        let parts: Vec<&str> = rest
            .split('/')
            .filter(|part| !part.is_empty() && *part != ".")
            .collect();
        if parts.is_empty() {
            return Err(PatternError::Empty { pattern: pattern() });
        }
        let folder = rest.ends_with('/') || !rest.contains(['*', '?', '[', '{', '\\']);
        Ok(Self {
            written,
            negated,
            glob: parts.join("/"),
            folder,
        })
    }

    fn add_to(&self, set: &mut GlobSetBuilder) -> Result<(), PatternError> {
        set.add(self.compile(&self.glob)?);
        if self.folder {
            set.add(self.compile(&format!("{}/**", self.glob))?);
        }
        Ok(())
    }

    fn compile(&self, glob: &str) -> Result<globset::Glob, PatternError> {
        let glob = GlobBuilder::new(glob)
            .literal_separator(true)
            .backslash_escape(true)
            .empty_alternates(true)
            .build();
        glob.map_err(|source| PatternError::Syntax {
            pattern: self.written.to_owned(),
            source,
        })
    }
}

fn without_dot_slash(text: &str) -> &str {
    text.strip_prefix("./")
        .map_or(text, |rest| rest.trim_start_matches('/'))
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

    #[test]
    fn a_pattern_without_a_slash_means_the_root_only() {
        check(&["*.md"], &["a.md", ".md"], &["docs/a.md", "a.MD"]);
        check(&["**/*.md"], &["a.md", "docs/a.md", "docs/.x/.a.md"], &["a.txt"]);
    }

    #[test]
    fn a_folder_means_everything_beneath_it() {
        check(&["src"], &["src", "src/a", "src/b/.c"], &["src2/a", "x/src/a"]);
        check(&["build*/"], &["build1/a/b"], &["other/a"]);
    }

    #[test]
    fn a_negated_pattern_is_subtracted_wherever_it_stands() {
        check(
            &["!src/secret.txt", "src/**", "!**/*.log"],
            &["src/a"],
            &["src/secret.txt", "src/x/y.log"],
        );
        check(&["!./src/a", "./src//**"], &["src/b"], &["src/a"]);
    }

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
    fn a_pattern_that_cannot_be_used_is_named() {
        for bad in [
            "",
            "!",
            "./",
            "../a",
            "a/../b",
            "/etc/*",
            "!(a|b)/x",
            "src/@(a|b)",
            "[a",
        ] {
            let error = Patterns::parse(&[bad]).unwrap_err();
            assert!(error.to_string().contains(&format!("`{bad}`")), "{error}");
        }
    }
}
