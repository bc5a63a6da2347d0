//! The patterns of `checkpointedFiles`, `archiveOnSuccess` and `outputFiles`.

use globset::{Candidate, Glob, GlobBuilder, GlobSet, GlobSetBuilder};

/// Patterns that select files (HANK-16, HANK-17, HANK-18).
///
/// `*` and `?` stay within one name, `**` crosses folders, `[…]` and `{a,b}` are known; the extended globs of shells are refused.
/// Names with a leading dot match like others; letter case counts. Matching takes linear time (X4).
#[derive(Debug, Clone, Default)]
pub struct Patterns {
    /// Globs of files that match.
    wanted: GlobSet,
    /// Globs after `!`; their files do not match even if they are wanted.
    unwanted: GlobSet,
    /// The list was empty, so every file matches.
    everything: bool,
}

/// A matcher can always be built for a pattern of up to this many bytes.
const ALWAYS_BUILT: usize = 1_024;

/// Why a pattern cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
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
    /// The pattern has an extended glob of shells, such as `!(a|b)`.
    #[error("the pattern `{pattern}` has an extended glob, `{sign}(`: {instead}")]
    Extended {
        /// The pattern as it was written.
        pattern: String,
        /// Sign before the parenthesis.
        sign: char,
        /// Replacement to write, as a sentence.
        instead: &'static str,
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
        let (mut wanted, mut unwanted) = (Vec::new(), Vec::new());
        for pattern in patterns {
            let pattern = Pattern::parse(pattern.as_ref())?;
            let globs = match pattern.negated {
                true => &mut unwanted,
                false => &mut wanted,
            };
            globs.extend(pattern.globs()?);
        }
        Ok(Self {
            wanted: build(wanted)?,
            unwanted: build(unwanted)?,
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
        Pattern::parse(pattern)?.globs().map(drop)
    }

    /// The list that matches nothing.
    #[must_use]
    pub fn nothing() -> Self {
        Self::default()
    }

    /// Whether the file at `path`, relative to the workspace, matches.
    #[must_use]
    pub fn matches(&self, path: &[u8]) -> bool {
        if self.everything {
            return true;
        }
        let path = Candidate::from_bytes(path);
        self.wanted.is_match_candidate(&path) && !self.unwanted.is_match_candidate(&path)
    }
}

fn build(globs: Vec<Glob>) -> Result<GlobSet, PatternError> {
    let mut set = GlobSetBuilder::new();
    for glob in globs {
        set.add(glob);
    }
    set.build().map_err(|source| PatternError::Syntax {
        pattern: source.glob().unwrap_or("").to_owned(),
        source,
    })
}

/// One pattern, split into its parts.
struct Pattern<'a> {
    /// The pattern as it was written.
    written: &'a str,
    /// It begins with `!`.
    negated: bool,
    /// The pattern without `!`, and without parts that are empty or `.`.
    glob: String,
    /// It may name a folder, and then matches everything inside the folder.
    folder: bool,
}

impl<'a> Pattern<'a> {
    fn parse(written: &'a str) -> Result<Self, PatternError> {
        let rest = without_dot_slash(written);
        // A `!(` does not negate: it is an extended glob, which is refused below.
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
        if let Some(sign) = extended_glob(rest) {
            return Err(PatternError::Extended {
                pattern: pattern(),
                sign,
                instead: instead_of(sign),
            });
        }
        let folder = rest.ends_with('/') || !rest.contains(['*', '?', '[', '{', '\\']);
        Ok(Self {
            written,
            negated,
            glob: parts.join("/"),
            folder,
        })
    }

    /// Returns the glob of the pattern and, if it may name a folder, a second one for everything inside the folder.
    fn globs(&self) -> Result<Vec<Glob>, PatternError> {
        let mut globs = vec![self.compile(&self.glob)?];
        if self.folder {
            globs.push(self.compile(&format!("{}/**", self.glob))?);
        }
        Ok(globs)
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

/// Finds the sign of the first extended glob, such as `!` of `!(a|b)`; a parenthesis alone is an ordinary character.
fn extended_glob(pattern: &str) -> Option<char> {
    let mut characters = pattern.chars();
    let (mut before, mut in_class) = (None, false);
    while let Some(next) = characters.next() {
        match next {
            '(' if before.is_some() => return before,
            '\\' => drop(characters.next()),
            '[' => in_class = true,
            ']' => in_class = false,
            _ => {}
        }
        before = Some(next).filter(|next| !in_class && "!@?*+".contains(*next));
    }
    None
}

fn instead_of(sign: char) -> &'static str {
    match sign {
        '!' => {
            "write what is meant, and in a second pattern that begins with `!` what is not: `*.ts`, `!*.test.ts` for `!(*.test).ts`"
        }
        '@' => "write `{a,b}` for `@(a|b)`",
        '?' => "write `{,a,b}` for `?(a|b)`",
        _ => "write `*` for what may repeat, or each of the names; `[(]` is a parenthesis",
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

    // covers: HANK-18
    #[test]
    fn an_extended_glob_is_refused_with_what_to_write_instead() {
        for (pattern, sign, instead) in [
            ("!(*.test).ts", '!', "`*.ts`, `!*.test.ts`"),
            ("!!(a|b)", '!', "begins with `!`"),
            ("src/@(a|b).md", '@', "`{a,b}`"),
            ("a?(.min|.max).js", '?', "`{,a,b}`"),
            ("*(ab|c)", '*', "`*`"),
            ("v+([0-9])/*", '+', "`*`"),
        ] {
            let error = Patterns::check(pattern).unwrap_err().to_string();
            assert!(error.contains(&format!("`{sign}(`")), "{error}");
            assert!(error.contains(instead), "{error}");
            assert_eq!(Patterns::parse(&[pattern]).unwrap_err().to_string(), error);
        }
    }

    // covers: HANK-18
    #[test]
    fn the_patterns_to_write_instead_mean_it() {
        check(&["*.ts", "!*.test.ts"], &["a.ts"], &["a.test.ts"]);
        check(&["{a,b}.md"], &["a.md", "b.md"], &["c.md", ".md"]);
        check(&["a{,.min,.max}.js"], &["a.js", "a.min.js"], &["a.min.max.js"]);
        check(
            &["a(1)/", "b*[(]2)", "[!(]x"],
            &["a(1)/b", "b@(2)", "ax"],
            &["a1/b", "(x"],
        );
    }

    #[test]
    fn a_pattern_that_cannot_be_used_is_named() {
        for bad in ["", "!", "./", "../a", "a/../b", "/etc/*", "@(a", "[a"] {
            let error = Patterns::parse(&[bad]).unwrap_err();
            assert!(error.to_string().contains(&format!("`{bad}`")), "{error}");
        }
    }
}
