//! Patterns with extended globs (HANK-18).
//!
//! `@(a|b)` is one of them, `?(a|b)` at most one, `*(a|b)` any number, `+(a|b)` at least one, and `!(a|b)`
//! any name, or part of a name, that none of them matches.

use regex_syntax::utf8::Utf8Sequences;

use super::language::{Automaton, Bytes, Language};

/// Groups may be nested this deep.
const MAX_DEPTH: usize = 8;

/// Whether the pattern opens an extended glob.
pub(super) fn is_extended(pattern: &str) -> bool {
    let opens = |(at, _): (usize, &str)| pattern[..at].ends_with(SIGNS);
    pattern.match_indices('(').any(opens)
}

const SIGNS: [char; 5] = ['!', '@', '?', '*', '+'];

/// Compiles a pattern; with `folder`, everything beneath what it matches is meant as well.
///
/// # Errors
///
/// Returns the broken rule as a phrase that follows the pattern.
pub(super) fn compile(pattern: &str, folder: bool) -> Result<Automaton, &'static str> {
    let mut parser = Parser {
        rest: pattern,
        at_name: true,
        depth: 0,
    };
    let language = parser.sequence(GroupKind::Whole)?;
    let beneath = || optional(Language::text("/").then(at_least_once(any())));
    let language = match folder {
        true => language.then(beneath()),
        false => language,
    };
    Automaton::of(&language).ok_or("is too complicated")
}

/// Any byte.
fn any() -> Language {
    Language::one(Bytes::ALL)
}

/// Any byte of a name.
fn in_name() -> Language {
    Language::one(Bytes::ALL.without(b'/'))
}

fn at_least_once(language: Language) -> Language {
    language.clone().then(language.repeated())
}

fn optional(language: Language) -> Language {
    Language::either([Language::empty(), language])
}

/// Kind of sequence, which tells what ends it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum GroupKind {
    Whole,
    /// `{a,b}`
    Braces,
    /// `@(a|b)`
    Group,
}

struct Parser<'p> {
    rest: &'p str,
    /// Whether a name begins here.
    at_name: bool,
    depth: usize,
}

impl Parser<'_> {
    fn next(&mut self) -> Option<char> {
        let mut characters = self.rest.chars();
        let next = characters.next();
        self.rest = characters.as_str();
        next
    }

    fn take(&mut self, text: &str) -> bool {
        let rest = self.rest.strip_prefix(text);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    /// Parses up to the end of the pattern, or up to what ends a part of this level, which is not consumed.
    fn sequence(&mut self, level: GroupKind) -> Result<Language, &'static str> {
        let mut parts = Vec::new();
        // Parentheses without a sign are ordinary characters, in pairs.
        let mut open = 0_usize;
        loop {
            match self.rest.chars().next() {
                None => break,
                Some(',' | '}') if level == GroupKind::Braces => break,
                Some('|' | ')') if level == GroupKind::Group && open == 0 => break,
                Some('(') => open += 1,
                Some(')') => open = open.saturating_sub(1),
                Some(_) => {}
            }
            parts.push(self.part(level)?);
        }
        let parts = parts.into_iter().rev();
        Ok(parts.fold(Language::empty(), |rest, part| part.then(rest)))
    }

    fn part(&mut self, level: GroupKind) -> Result<Language, &'static str> {
        let at_name = std::mem::replace(&mut self.at_name, false);
        if at_name && self.take("**/") {
            self.at_name = true;
            return Ok(optional(any().repeated().then(Language::text("/"))));
        }
        if at_name && self.rest == "**" {
            self.rest = "";
            return Ok(at_least_once(any()));
        }
        let Some(next) = self.next() else {
            return Ok(Language::empty());
        };
        if SIGNS.contains(&next) && self.take("(") {
            let choices = self.choices(GroupKind::Group, '|', ')')?;
            return Ok(group(next, choices));
        }
        match next {
            '*' => Ok(in_name().repeated()),
            '?' => Ok(in_name()),
            '[' => self.class(),
            '{' => {
                self.at_name = at_name;
                self.choices(GroupKind::Braces, ',', '}')
            }
            '/' if level == GroupKind::Group => Err("has a group with a `/` in it"),
            '/' => {
                self.at_name = true;
                Ok(Language::text("/"))
            }
            '\\' => {
                let escaped = self.next().ok_or("ends with a backslash")?;
                Ok(Language::text(escaped.encode_utf8(&mut [0; 4])))
            }
            other => Ok(Language::text(other.encode_utf8(&mut [0; 4]))),
        }
    }

    fn choices(&mut self, level: GroupKind, separator: char, end: char) -> Result<Language, &'static str> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err("has groups too deep in one another");
        }
        let at_name = self.at_name && level == GroupKind::Braces;
        let mut choices = Vec::new();
        loop {
            self.at_name = at_name;
            choices.push(self.sequence(level)?);
            match self.next() {
                Some(next) if next == separator => {}
                Some(next) if next == end => break,
                _ => return Err("has a group that is not closed"),
            }
        }
        self.depth -= 1;
        self.at_name = false;
        Ok(Language::either(choices))
    }

    /// A character class after its `[`: characters and ranges up to `]`, which may be the first character.
    fn class(&mut self) -> Result<Language, &'static str> {
        const OPEN: &str = "has a character class that is not closed";
        let negated = self.take("!") || self.take("^");
        let mut choices = Vec::new();
        loop {
            let first = self.next().ok_or(OPEN)?;
            if first == ']' && !choices.is_empty() {
                break;
            }
            let mut last = first;
            if self.rest.starts_with('-') && !self.rest.starts_with("-]") {
                self.next();
                last = self.next().ok_or(OPEN)?;
            }
            if last < first {
                return Err("has a range whose end comes before its beginning");
            }
            choices.push(characters(first, last));
        }
        let listed = Language::either(choices);
        let character = characters('\0', char::MAX).both(Language::text("/").not());
        Ok(match negated {
            true => character.both(listed.not()),
            false => character.both(listed),
        })
    }
}

/// One character of a range, in UTF-8.
fn characters(first: char, last: char) -> Language {
    let sequences = Utf8Sequences::new(first, last).map(|sequence| {
        let ranges = sequence.as_slice().iter().rev();
        ranges.fold(Language::empty(), |rest, range| {
            Language::one(Bytes::range(range.start, range.end)).then(rest)
        })
    });
    Language::either(sequences)
}

fn group(sign: char, choices: Language) -> Language {
    match sign {
        '@' => choices,
        '?' => optional(choices),
        '*' => choices.repeated(),
        '+' => at_least_once(choices),
        _ => in_name().repeated().both(choices.not()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(pattern: &str, matching: &[&str], others: &[&str]) {
        assert!(is_extended(pattern));
        let automaton = compile(pattern, false).unwrap();
        for path in matching {
            assert!(
                automaton.matches(path.as_bytes()),
                "{pattern} should match {path:?}"
            );
        }
        for path in others {
            assert!(
                !automaton.matches(path.as_bytes()),
                "{pattern} should not match {path:?}"
            );
        }
    }

    // covers: HANK-18
    #[test]
    fn groups_mean_what_they_mean_in_shells() {
        check("@(a|b).md", &["a.md", "b.md"], &["c.md", "ab.md", ".md"]);
        check("a?(.min|.max).js", &["a.js", "a.min.js"], &["a.min.max.js"]);
        check("*(ab|c)", &["", "ab", "cab", "abab"], &["a", "abx"]);
        check("v+([0-9])/*", &["v1/a", "v12/b"], &["v/a", "vx/a", "v1/a/b"]);
        check("!(a|b)", &["c", "ab", ".c"], &["a", "b", "c/d"]);
        check("!(*.test).ts", &["a.ts", ".ts", "a.test.x.ts"], &["a.test.ts"]);
    }

    #[test]
    fn several_exceptions_each_except_their_own_part() {
        check("!(a)/!(b)", &["x/y", "b/a"], &["a/y", "x/b", "x"]);
        check("!(a)-!(b)", &["x-y", "-", "a-b-c"], &["a-y", "x-b"]);
        check("*!(b)", &["b", "ab"], &["a/b"]);
    }

    #[test]
    fn groups_stand_in_one_another_and_beside_other_wildcards() {
        check("@(a|!(*x)).@(m?|t*)", &["a.md", "b.t", "y.txt"], &["x.md", "a.m"]);
        check("**/+(a|@(b|c)d)", &["a", "x/y/abdcd"], &["x/b"]);
        check("src/**/@(a|b)", &["src/a", "src/x/y/b"], &["a", "src/x/c"]);
        check("@(a)/**", &["a/b", "a/b/c"], &["a", "a/"]);
        check("{x/@(a|b),c}/d", &["x/a/d", "c/d"], &["x/c/d", "c/a/d"]);
        check("{**/,y}@(a)", &["a", "x/a", "ya"], &["y/b"]);
        check("a(1).@(txt|x(2))", &["a(1).txt", "a(1).x(2)"], &["a1.txt"]);
        check("\\@(a).+(b)", &["@(a).b"], &["a.b"]);
    }

    #[test]
    fn classes_hold_characters_of_every_length() {
        check("+([a-cü])", &["a", "bü"], &["d", "\u{fc}d"]);
        check("@([!a€])", &["b", "ü", "\u{10348}"], &["a", "€", "/", "bb"]);
        check("@([]-])", &["]", "-"], &["["]);
    }

    #[test]
    fn what_cannot_be_read_is_refused_with_the_reason() {
        for (pattern, reason) in [
            ("@(a", "has a group that is not closed"),
            ("{a,@(b)", "has a group that is not closed"),
            ("@([a)", "has a character class that is not closed"),
            ("@([b-a])", "has a range whose end comes before its beginning"),
            ("!(a/b)", "has a group with a `/` in it"),
            ("@(a)\\", "ends with a backslash"),
            (
                "@(@(@(@(@(@(@(@(@(a)))))))))",
                "has groups too deep in one another",
            ),
        ] {
            assert_eq!(compile(pattern, false).unwrap_err(), reason, "{pattern}");
        }
    }

    // covers: X4
    #[test]
    fn a_pattern_whose_table_would_be_huge_is_refused_instead_of_built() {
        for pattern in [
            format!("@(*a{})", "?".repeat(40)),
            format!("*{}", "!(*a*b*c)".repeat(60)),
            format!("!(!(!(*a{})*b)*c)", "?".repeat(12)),
        ] {
            assert_eq!(
                compile(&pattern, true).unwrap_err(),
                "is too complicated",
                "{pattern}"
            );
        }
    }
}
