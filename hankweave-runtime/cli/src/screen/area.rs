//! Lines at the foot of a terminal that are drawn anew.

use std::fmt;
use std::io;
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressState, ProgressStyle};

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

    /// Shows it as the template says, with how much is left of a time that begins now at `{left}`, in these words.
    pub(crate) fn count_down(&self, template: &str, total: Duration, words: fn(Duration) -> String) {
        let left = move |state: &ProgressState, out: &mut dyn fmt::Write| {
            // A line that cannot be drawn is drawn anew soon.
            let _ = out.write_str(&words(total.saturating_sub(state.elapsed())));
        };
        self.0.set_style(style(template).with_key("left", left));
        self.0.reset_elapsed();
    }

    pub(crate) fn stop_ticking(&self) {
        self.0.disable_steady_tick();
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
