//! Problems of a hank with their places, the list of them, and the map from JSON paths to places in the text.

use std::collections::BTreeMap;
use std::fmt;

/// A line and a column, both counted from 1; columns are characters, not bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// Counted from 1.
    pub line: u32,
    /// Counted from 1, in characters.
    pub column: u32,
}

/// Whether a problem stops a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The hank cannot be run.
    Error,
    /// The hank can be run, but probably does not do what its author wants.
    Warning,
}

/// One thing that is wrong with a hank.
///
/// Shown as one line,
/// `5:32: error: hank[1].model (codon "review", "Review everything"): must be a string, not a number`, and
/// the hint on a second one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Whether it stops a run.
    pub level: Severity,
    /// JSON path of the value, such as `hank[1].codons[0].rigSetup[2].copy.to`; empty for the document as a
    /// whole.
    pub path: String,
    /// The codon or loop that the value belongs to, such as `codon "review"`.
    pub item: Option<String>,
    /// Start of the value, or of the object that lacks it; absent for a hank that was not read from text.
    pub position: Option<Position>,
    /// Problem, without a final period.
    pub message: String,
    /// Remedy.
    pub hint: Option<String>,
    /// Place in a file that the hank names, where the problem is in that file.
    pub inside: Option<Box<InnerPlace>>,
}

/// Place of a problem in a file that the hank names, and the problem in words of that file.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct InnerPlace {
    /// Name of the file, as the hank has it.
    pub file: String,
    /// Start of the value.
    pub position: Option<Position>,
    /// JSON path of the value in the file; empty for the file as a whole.
    pub path: String,
    /// Problem, without a final period.
    pub message: String,
}

impl Problem {
    /// An error of the value at `path`, with its position looked up in `places`.
    #[must_use]
    pub fn error(places: &SourceMap, path: impl Into<String>, message: impl Into<String>) -> Self {
        Self::at(places, Severity::Error, path.into(), message.into())
    }

    /// A warning about the value at `path`, with its position looked up in `places`.
    #[must_use]
    pub fn warning(places: &SourceMap, path: impl Into<String>, message: impl Into<String>) -> Self {
        Self::at(places, Severity::Warning, path.into(), message.into())
    }

    fn at(places: &SourceMap, level: Severity, path: String, message: String) -> Self {
        Self {
            level,
            item: places.item(&path),
            position: places.position(&path),
            path,
            message,
            hint: None,
            inside: None,
        }
    }

    /// Adds the place in a file that the hank names; `found` is the problem in that file.
    #[must_use]
    pub fn in_file(self, file: &str, found: &Self) -> Self {
        Self {
            inside: Some(Box::new(InnerPlace {
                file: file.to_owned(),
                position: found.position,
                path: found.path.clone(),
                message: found.message.clone(),
            })),
            ..self
        }
    }

    /// Adds a hint.
    #[must_use]
    pub fn with_hint(self, hint: impl Into<String>) -> Self {
        Self {
            hint: Some(hint.into()),
            ..self
        }
    }

    /// Shows the problem with the name of its file: `hank.json:5:32: error: …`. A problem inside another file is shown with its place in that file only.
    #[must_use]
    pub fn display_in(&self, file: &str) -> String {
        if let Some(inner) = &self.inside {
            let found = Self {
                path: inner.path.clone(),
                item: self.item.clone(),
                position: inner.position,
                message: inner.message.clone(),
                inside: None,
                ..self.clone()
            };
            return found.display_in(&inner.file);
        }
        let gap = if self.position.is_some() { "" } else { " " };
        format!("{file}:{gap}{self}")
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(Position { line, column }) = self.position {
            write!(f, "{line}:{column}: ")?;
        }
        f.write_str(match self.level {
            Severity::Error => "error: ",
            Severity::Warning => "warning: ",
        })?;
        match (self.path.as_str(), &self.item) {
            ("", Some(item)) => write!(f, "{item}: ")?,
            ("", None) => {}
            (path, None) => write!(f, "{path}: ")?,
            (path, Some(item)) => write!(f, "{path} ({item}): ")?,
        }
        f.write_str(&self.message)?;
        match &self.hint {
            Some(hint) => write!(f, "\n  hint: {hint}"),
            None => Ok(()),
        }
    }
}

/// All problems of one hank, errors first, each group in the order of the text.
///
/// A hostile file can have millions: only the first thousand are kept, the others are counted. Shown to people, the list stops after 50 problems or
/// 4 KiB and ends with the total number.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Problems {
    /// The first thousand problems, in order.
    kept: Vec<Problem>,
    /// Number of all errors.
    errors: usize,
    /// Number of all warnings.
    warnings: usize,
}

impl Problems {
    const MAX_KEPT: usize = 1000;
    const MAX_SHOWN: usize = 50;
    /// Leaves room within 4 KiB for the last line, which has the total number.
    const MAX_SHOWN_BYTES: usize = 4096 - 128;

    /// Adds a problem.
    pub fn push(&mut self, problem: Problem) {
        match problem.level {
            Severity::Error => self.errors += 1,
            Severity::Warning => self.warnings += 1,
        }
        let index = self.kept.partition_point(|kept| order(kept) <= order(&problem));
        self.kept.insert(index, problem);
        self.kept.truncate(Self::MAX_KEPT);
    }

    /// The problems that were kept.
    pub fn iter(&self) -> std::slice::Iter<'_, Problem> {
        self.kept.iter()
    }

    /// Whether an error is known of the value at this path, or of something inside it.
    #[must_use]
    pub fn has_error_at(&self, path: &str) -> bool {
        let is_inside = |problem: &Problem| {
            let rest = problem.path.strip_prefix(path);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
        };
        let mut errors = self.kept.iter().filter(|kept| kept.level == Severity::Error);
        errors.any(is_inside)
    }

    /// How many errors there are, kept or not.
    #[must_use]
    pub fn errors(&self) -> usize {
        self.errors
    }

    /// How many warnings there are, kept or not.
    #[must_use]
    pub fn warnings(&self) -> usize {
        self.warnings
    }

    /// Whether anything stops a run.
    #[must_use]
    pub fn has_errors(&self) -> bool {
        self.errors > 0
    }

    /// Whether there are neither errors nor warnings.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.errors + self.warnings == 0
    }

    /// Shows the problems line by line, each with the name of the file, and cuts a long list.
    #[must_use]
    pub fn display_in(&self, file: &str) -> String {
        let (mut text, mut shown) = (String::new(), 0);
        for problem in self.kept.iter().take(Self::MAX_SHOWN) {
            let line = problem.display_in(file);
            if text.len() + line.len() >= Self::MAX_SHOWN_BYTES && shown > 0 {
                break;
            }
            text += &line;
            text.push('\n');
            shown += 1;
        }
        let hidden = self.errors + self.warnings - shown;
        if hidden > 0 {
            text += &format!("… and {hidden} more ({})\n", self.summary());
        }
        text
    }

    /// `2 errors, 1 warning`, for the end of a report.
    #[must_use]
    pub fn summary(&self) -> String {
        let count = |number: usize, noun: &str| match number {
            1 => format!("1 {noun}"),
            _ => format!("{number} {noun}s"),
        };
        let (errors, warnings) = (count(self.errors, "error"), count(self.warnings, "warning"));
        format!("{errors}, {warnings}")
    }
}

fn order(problem: &Problem) -> (Severity, Option<Position>) {
    (problem.level, problem.position)
}

impl Extend<Problem> for Problems {
    fn extend<I: IntoIterator<Item = Problem>>(&mut self, problems: I) {
        problems.into_iter().for_each(|problem| self.push(problem));
    }
}

impl<'p> IntoIterator for &'p Problems {
    type Item = &'p Problem;
    type IntoIter = std::slice::Iter<'p, Problem>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

/// The positions of the values of a hank in its text, by JSON path.
#[derive(Debug, Clone, Default)]
pub struct SourceMap {
    positions: BTreeMap<String, Position>,
    /// Names of codons and loops for people, by JSON path.
    items: BTreeMap<String, String>,
}

impl SourceMap {
    /// Returns the position of the value at `path`, else of the nearest value around it.
    #[must_use]
    pub fn position(&self, path: &str) -> Option<Position> {
        ancestors(path).find_map(|path| self.positions.get(path)).copied()
    }

    /// Returns the name of the codon or loop that holds `path`, such as `codon "review"`.
    #[must_use]
    pub fn item(&self, path: &str) -> Option<String> {
        ancestors(path).find_map(|path| self.items.get(path)).cloned()
    }

    #[cfg(feature = "hanks")]
    pub(super) fn add_position(&mut self, path: &str, position: Position) {
        self.positions.insert(path.to_owned(), position);
    }

    #[cfg(feature = "hanks")]
    pub(super) fn add_item(&mut self, path: &str, item: String) {
        self.items.insert(path.to_owned(), item);
    }
}

/// Returns a JSON path and those of all values around it: `a[0].b`, `a[0]`, `a`.
fn ancestors(path: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(path), |path| path.rfind(['.', '[']).map(|end| &path[..end]))
}

/// Returns untrusted text for a message: in backticks, without control characters, at most 60 characters.
#[cfg(feature = "hanks")]
pub(super) fn quoted(text: &str) -> String {
    const LONGEST: usize = 60;
    let shown: String = text
        .chars()
        .take(LONGEST)
        .map(|c| if c.is_control() { '\u{fffd}' } else { c })
        .collect();
    let is_cut = text.chars().nth(LONGEST).is_some();
    format!("`{shown}{}`", if is_cut { "…" } else { "" })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(level: Severity, line: u32) -> Problem {
        let position = Some(Position { line, column: 2 });
        let message = "is wrong".to_owned();
        Problem {
            level,
            path: "hank".to_owned(),
            item: None,
            position,
            message,
            hint: None,
            inside: None,
        }
    }

    #[test]
    fn a_problem_is_shown_with_file_line_column_and_hint() {
        let problem = Problem {
            item: Some("codon \"a\"".to_owned()),
            ..problem(Severity::Error, 5)
        }
        .with_hint("try again");
        assert_eq!(
            problem.display_in("hank.json"),
            "hank.json:5:2: error: hank (codon \"a\"): is wrong\n  hint: try again"
        );
        let found = Problem {
            path: "turns[0]".to_owned(),
            ..self::problem(Severity::Error, 7)
        };
        let whole = Problem {
            path: String::new(),
            ..found.clone()
        };
        for (found, words) in [
            (
                found,
                "s.json:7:2: error: turns[0] (codon \"a\"): is wrong\n  hint: try again",
            ),
            (
                whole,
                "s.json:7:2: error: codon \"a\": is wrong\n  hint: try again",
            ),
        ] {
            let inside = problem.clone().in_file("s.json", &found);
            assert_eq!(inside.display_in("hank.json"), words, "one place");
        }
    }

    #[test]
    fn errors_come_before_warnings_and_each_group_keeps_the_order_of_the_text() {
        let mut problems = Problems::default();
        problems.extend([
            problem(Severity::Warning, 1),
            problem(Severity::Error, 9),
            problem(Severity::Error, 3),
        ]);
        let lines: Vec<_> = problems
            .iter()
            .map(|problem| problem.position.unwrap().line)
            .collect();
        assert_eq!(
            (lines, problems.summary()),
            (vec![3, 9, 1], "2 errors, 1 warning".to_owned())
        );
    }

    // covers: F18
    #[test]
    fn a_long_list_is_cut_below_4_kib_and_counted() {
        let mut problems = Problems::default();
        problems.extend((0..5000).map(|line| problem(Severity::Error, line)));
        let shown = problems.display_in("hank.json");
        assert!(shown.len() <= 4096, "{}", shown.len());
        assert_eq!(shown.lines().count(), 51);
        assert!(
            shown.ends_with("… and 4950 more (5000 errors, 0 warnings)\n"),
            "{shown}"
        );
        assert_eq!(problems.iter().count(), 1000);
    }

    #[test]
    fn a_value_without_a_place_takes_the_place_around_it() {
        let mut places = SourceMap::default();
        places.add_position("hank[0]", Position { line: 4, column: 7 });
        assert_eq!(places.position("hank[0].rigSetup[1]").unwrap().line, 4);
        assert_eq!(places.position("meta"), None);
    }
}
