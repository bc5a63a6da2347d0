//! Text for people that cannot control the terminal.

use std::fmt::{self, Display, Write};

use anstyle::Style;

use super::harmless::push_printable;
use crate::terminal::wrap::broken;

/// Text for people, harmless from the moment it is written: hidden characters are made visible, and only [`styled`](Self::styled) adds colours.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct SafeText(String);

impl SafeText {
    /// Adds words in a style.
    pub(crate) fn styled(&mut self, style: Style, words: impl Display) -> fmt::Result {
        write!(self.0, "{style}")?;
        write!(self, "{words}")?;
        write!(self.0, "{style:#}")
    }

    /// Breaks lines that are wider than this many columns between their words; without a number they stay.
    pub(crate) fn broken(self, columns: Option<usize>) -> Self {
        match columns {
            Some(columns) => Self(broken(&self.0, columns)),
            None => self,
        }
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl Write for SafeText {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        push_printable(&mut self.0, text);
        Ok(())
    }
}

impl From<&str> for SafeText {
    fn from(text: &str) -> Self {
        let mut safe = Self::default();
        push_printable(&mut safe.0, text);
        safe
    }
}

impl From<String> for SafeText {
    fn from(text: String) -> Self {
        Self::from(text.as_str())
    }
}

impl From<&String> for SafeText {
    fn from(text: &String) -> Self {
        Self::from(text.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // covers: S9
    #[test]
    fn only_our_own_styles_reach_the_screen() {
        let mut text = SafeText::default();
        text.styled(Style::new().bold(), "bold \u{1b}[31m").unwrap();
        write!(text, " \u{1b}[8m").unwrap();
        assert_eq!(text.as_str(), "\u{1b}[1mbold \\u{1b}[31m\u{1b}[0m \\u{1b}[8m");
    }
}
