//! What a suite has found.

use std::fmt;

use crate::Scene;

/// What a driver keeps of the contract, line by line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    driver: String,
    lines: Vec<Line>,
}

/// A rule of the contract, and whether it was kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Line {
    /// It was.
    Kept(&'static str),
    /// It was not, and how.
    Broken(&'static str, String),
    /// The driver has no such scene.
    NotShown(Scene),
}

impl Report {
    pub(crate) fn new(driver: &str) -> Self {
        let driver = driver.to_owned();
        Self {
            driver,
            lines: Vec::new(),
        }
    }

    pub(crate) fn note(&mut self, rule: &'static str, broken: Option<String>) {
        self.lines.push(match broken {
            None => Line::Kept(rule),
            Some(how) => Line::Broken(rule, how),
        });
    }

    pub(crate) fn not_shown(&mut self, scene: Scene) {
        self.lines.push(Line::NotShown(scene));
    }

    /// All lines, in the order in which they were found.
    #[must_use]
    pub fn lines(&self) -> &[Line] {
        &self.lines
    }

    /// The rules that were broken, and how.
    pub fn broken(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.lines.iter().filter_map(|line| match line {
            Line::Broken(rule, how) => Some((*rule, how.as_str())),
            Line::Kept(_) | Line::NotShown(_) => None,
        })
    }

    /// Asserts that every rule that was looked at is kept.
    ///
    /// # Panics
    ///
    /// Panics with the whole report when one is not.
    #[track_caller]
    pub fn assert_kept(&self) {
        assert!(self.broken().next().is_none(), "{self}");
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "the contract of agent drivers, for `{}`:", self.driver)?;
        for line in &self.lines {
            match line {
                Line::Kept(rule) => writeln!(f, "  kept: {rule}")?,
                Line::Broken(rule, how) => writeln!(f, "  BROKEN: {rule}: {how}")?,
                Line::NotShown(scene) => writeln!(f, "  not shown: an agent that {scene}")?,
            }
        }
        Ok(())
    }
}
