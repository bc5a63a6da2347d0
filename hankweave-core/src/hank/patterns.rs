//! The patterns of `checkpointedFiles`, `archiveOnSuccess` and `outputFiles`.

use globset::{Candidate, Glob, GlobBuilder, GlobSet, GlobSetBuilder};

/// Patterns that say which files are meant, in the dialect of the hank configuration, section 5.
///
/// `*` and `?` stay within one name, `**` crosses folders, `[…]` and `{a,b}` are known, and of the extended globs `@(a|b)`, `?(a|b)` and one
/// `!(a|b)`; names with a leading dot match like others; letter case counts. A pattern without `/` means the root of the workspace. A pattern
/// without wildcards, or one that ends in `/`, also means everything beneath the folder of that name. A leading `!` subtracts from the whole list,
/// wherever it stands.
///
/// Matching takes time proportional to the length of the path ("reliability and security", rule X4).
#[derive(Debug, Clone)]
pub struct Patterns {
    wanted: Globs,
    unwanted: Globs,
    everything: bool,
}

/// Only a pattern of more bytes than these can be too large for a matcher.
const ALWAYS_BUILT: usize = 1_024;

/// Compiled patterns of one sign.
#[derive(Debug, Clone, Default)]
struct Globs {
    plain: GlobSet,
    /// What the first set matches and the second one does not; one pair for each `!(…)`.
    with_exceptions: Vec<(GlobSet, GlobSet)>,
}

impl Globs {
    fn matches(&self, path: &Candidate<'_>) -> bool {
        let excepted = |(wanted, but): &(GlobSet, GlobSet)| {
            wanted.is_match_candidate(path) && !but.is_match_candidate(path)
        };
        self.plain.is_match_candidate(path) || self.with_exceptions.iter().any(excepted)
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
    /// The pattern leads out of the workspace ("reliability and security", rule X4).
    #[error("the pattern `{pattern}` leads out of the workspace")]
    Outside {
        /// The pattern as it was written.
        pattern: String,
    },
    /// The pattern uses an extended glob in a way that is not known.
    #[error("the pattern `{pattern}` {reason}")]
    Extended {
        /// The pattern as it was written.
        pattern: String,
        /// What is wrong, as a phrase behind the pattern.
        reason: &'static str,
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
        let (mut wanted, mut unwanted) = (Collected::default(), Collected::default());
        for pattern in patterns {
            let pattern = Pattern::parse(pattern.as_ref())?;
            let collected = if pattern.negated {
                &mut unwanted
            } else {
                &mut wanted
            };
            pattern.add_to(collected)?;
        }
        Ok(Self {
            wanted: wanted.build()?,
            unwanted: unwanted.build()?,
            everything: patterns.is_empty(),
        })
    }

    /// Whether [`parse`](Self::parse) would take this pattern, without the cost of a matcher.
    ///
    /// # Errors
    ///
    /// Returns why it cannot be used.
    pub fn check(pattern: &str) -> Result<(), PatternError> {
        if pattern.len() > ALWAYS_BUILT {
            return Self::parse(&[pattern]).map(drop);
        }
        Pattern::parse(pattern)?.add_to(&mut Collected::default())
    }

    /// The list that matches nothing.
    #[must_use]
    pub fn nothing() -> Self {
        Self {
            wanted: Globs::default(),
            unwanted: Globs::default(),
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
        self.wanted.matches(&candidate) && !self.unwanted.matches(&candidate)
    }
}

/// Patterns of one sign before they are compiled.
#[derive(Default)]
struct Collected {
    plain: Vec<Glob>,
    with_exceptions: Vec<(Vec<Glob>, Vec<Glob>)>,
}

impl Collected {
    fn build(self) -> Result<Globs, PatternError> {
        let pairs = self.with_exceptions.into_iter();
        Ok(Globs {
            plain: build(self.plain)?,
            with_exceptions: pairs
                .map(|(wanted, but)| Ok((build(wanted)?, build(but)?)))
                .collect::<Result<_, _>>()?,
        })
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
        let parts: Vec<&str> = rest
            .split('/')
            .filter(|part| !part.is_empty() && *part != ".")
            .collect();
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

    fn add_to(&self, collected: &mut Collected) -> Result<(), PatternError> {
        let extended = |reason| PatternError::Extended {
            pattern: self.written.to_owned(),
            reason,
        };
        let Expanded { glob, but } = expand(&self.glob).map_err(extended)?;
        match but {
            None => self.add(&glob, &mut collected.plain),
            Some(but) => {
                let mut pair = (Vec::new(), Vec::new());
                self.add(&glob, &mut pair.0)?;
                self.add(&but, &mut pair.1)?;
                collected.with_exceptions.push(pair);
                Ok(())
            }
        }
    }

    fn add(&self, glob: &str, set: &mut Vec<Glob>) -> Result<(), PatternError> {
        set.push(self.compile(glob)?);
        if self.folder {
            set.push(self.compile(&format!("{glob}/**"))?);
        }
        Ok(())
    }

    fn compile(&self, glob: &str) -> Result<Glob, PatternError> {
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

/// A pattern without extended globs.
struct Expanded {
    glob: String,
    /// What does not count although `glob` matches it.
    but: Option<String>,
}

/// Writes extended globs with `{…}`: `@(a|b)` is `{a,b}`, `?(a|b)` is `{,a,b}`, and `!(a|b)` is `*` but not `{a,b}`.
fn expand(pattern: &str) -> Result<Expanded, &'static str> {
    let (mut glob, mut but, mut rest) = (String::new(), None::<String>, pattern);
    while let Some((before, kind, inner, behind)) = next_group(rest)? {
        glob.push_str(before);
        if let Some(but) = &mut but {
            but.push_str(before);
        }
        let alternatives = alternatives(inner)?;
        let (plain, excepted) = match kind {
            '@' => (format!("{{{alternatives}}}"), None),
            '?' => (format!("{{,{alternatives}}}"), None),
            '!' if but.is_none() => ("*".to_owned(), Some(format!("{{{alternatives}}}"))),
            '!' => return Err("has more than one `!(…)`"),
            _ => return Err("repeats a group with `*(…)` or `+(…)`, which is not known"),
        };
        if let Some(excepted) = excepted {
            but = Some(format!("{glob}{excepted}"));
        } else if let Some(but) = &mut but {
            but.push_str(&plain);
        }
        glob.push_str(&plain);
        rest = behind;
    }
    glob.push_str(rest);
    if let Some(but) = &mut but {
        but.push_str(rest);
    }
    Ok(Expanded { glob, but })
}

/// What stands before the first group, its sign, what it holds, and what stands behind it.
type Group<'p> = (&'p str, char, &'p str, &'p str);

fn next_group(pattern: &str) -> Result<Option<Group<'_>>, &'static str> {
    let Some((open, kind)) = pattern
        .match_indices('(')
        .filter_map(|(open, _)| Some((open, pattern[..open].chars().next_back()?)))
        .find(|(_, kind)| "!@?+*".contains(*kind))
    else {
        return Ok(None);
    };
    let inside = &pattern[open + 1..];
    let mut depth = 1_u32;
    let close = inside.char_indices().find_map(|(at, character)| {
        match character {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        (depth == 0).then_some(at)
    });
    let close = close.ok_or("has a group that is not closed")?;
    let before = &pattern[..open - kind.len_utf8()];
    Ok(Some((before, kind, &inside[..close], &inside[close + 1..])))
}

/// The alternatives of a group with commas between them.
fn alternatives(inner: &str) -> Result<String, &'static str> {
    match inner.contains(['(', '/', ',', '{']) {
        true => Err("has a group with more than names and wildcards in it"),
        false => Ok(inner.replace('|', ",")),
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
    fn extended_globs_name_alternatives_and_exceptions() {
        check(&["@(a|b).md"], &["a.md", "b.md"], &["c.md", "ab.md"]);
        check(&["a?(.min).js"], &["a.js", "a.min.js"], &["a.max.js"]);
        check(
            &["src/!(*.test).ts"],
            &["src/a.ts", "src/.ts"],
            &["src/a.test.ts", "src/x/a.ts"],
        );
        check(&["!(a|b)/"], &["c/x", "c/x/y"], &["a/x", "b/x/y"]);
        check(&["**", "!!(a)"], &["a", "b/c"], &["b"]);
        check(&["a(1).@(txt|md)"], &["a(1).txt"], &["a1.txt"]);
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
            "+(a|b)/x",
            "src/*(a|b)",
            "!(a)!(b)",
            "@(a",
            "@(a/b)",
            "[a",
        ] {
            let error = Patterns::parse(&[bad]).unwrap_err();
            assert!(error.to_string().contains(&format!("`{bad}`")), "{error}");
        }
    }
}
