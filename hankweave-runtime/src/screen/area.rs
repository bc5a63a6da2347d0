//! Lines at the foot of a terminal that are drawn anew.

use std::io;
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

use super::Text;
use super::harmless::printable;

/// The moving lines, with what was said above them; every clone is the same area.
#[derive(Debug, Default, Clone)]
pub(crate) struct Area(MultiProgress);

/// One moving line.
#[derive(Debug)]
pub(crate) struct Bar(ProgressBar);

impl Area {
    /// Says a line above the moving ones.
    pub(crate) fn say(&self, line: impl Into<Text>) -> io::Result<()> {
        self.0.println(line.into().as_str())
    }

    /// One more line below all others.
    pub(crate) fn add(&self, template: &str) -> Bar {
        Bar(self.0.add(ProgressBar::new_spinner().with_style(style(template))))
    }

    /// One more line above another.
    pub(crate) fn insert_before(&self, below: &Bar, template: &str) -> Bar {
        let bar = ProgressBar::new_spinner().with_style(style(template));
        Bar(self.0.insert_before(&below.0, bar))
    }
}

impl Bar {
    /// Shows it as the template says from now on.
    pub(crate) fn set_template(&self, template: &str) {
        self.0.set_style(style(template));
    }

    /// What stands at `{msg}`; one line.
    pub(crate) fn set_message(&self, message: impl Into<Text>) {
        self.0
            .set_message(message.into().as_str().replace(['\n', '\t'], " "));
    }

    /// What stands at `{prefix}`.
    pub(crate) fn set_prefix(&self, prefix: &'static str) {
        self.0.set_prefix(prefix);
    }

    pub(crate) fn tick_every(&self, interval: Duration) {
        self.0.enable_steady_tick(interval);
    }

    /// Leaves the line as it is now.
    pub(crate) fn leave(&self) {
        self.0.abandon();
    }

    pub(crate) fn clear(&self) {
        self.0.finish_and_clear();
    }
}

/// Templates are made of constants and of ids, which are letters, digits, `.`, `_`, `-` and `#`, so none can break one.
fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(&printable(template)).unwrap_or_else(|_| ProgressStyle::default_spinner())
}
