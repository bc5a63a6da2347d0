//! What a person sees of a run: a live view on a terminal, plain lines elsewhere, events as JSON for programs.
//!
//! Reports only listen: they get the published events and never ask for anything.

mod live;
mod plain;
mod summary;
mod words;

use std::time::Duration;

use hankweave_core::wire::JournalEntry;
use hankweave_runtime::RunOutcome;
use hankweave_runtime::state_manager::Events;

use self::plain::Plain;
use crate::screen::{Area, JsonLines, tell};
pub(crate) use summary::Ending;
pub(crate) use words::{at_its_budget, budget, codon_line, counted, duration, say, standing, subject};

/// Shows the events of a run as they come.
#[derive(Debug)]
pub(crate) enum Report {
    /// A view that is redrawn, for terminals.
    Live(live::LiveView),
    /// One line for each thing that happens, for logs and pipes.
    Plain(Plain),
    /// Every event as one line of JSON.
    Json(JsonLines),
    /// Nothing.
    Quiet,
}

impl Report {
    pub(crate) fn live() -> Self {
        Self::Live(live::LiveView::new())
    }

    pub(crate) fn plain() -> Self {
        Self::Plain(Plain::default())
    }

    pub(crate) fn json() -> Self {
        Self::Json(JsonLines::default())
    }

    /// Prints beside the report what must be seen at once.
    pub(crate) fn aside(&self) -> Aside {
        match self {
            Self::Live(view) => Aside::Live(view.area()),
            Self::Plain(_) | Self::Json(_) => Aside::Plain,
            Self::Quiet => Aside::Quiet,
        }
    }

    /// Shows events, or keeps them for the next [`flush`](Self::flush). `Err` means that the reader of standard output has gone away.
    pub(crate) fn events(&mut self, events: &Events) -> std::io::Result<()> {
        match self {
            Self::Json(lines) => lines.lines(events.text()),
            _ => events.entries().try_for_each(|entry| self.event(&entry)),
        }
    }

    /// The same for one event.
    pub(crate) fn event(&mut self, entry: &JournalEntry) -> std::io::Result<()> {
        match self {
            Self::Live(view) => view.event(entry),
            Self::Plain(lines) => lines.say(entry),
            Self::Json(lines) => lines.print(entry),
            Self::Quiet => Ok(()),
        }
    }

    /// The same for an event of a kind that we do not know, which only a program can.
    pub(crate) fn unknown(&mut self, event: &serde_json::Value) -> std::io::Result<()> {
        match self {
            Self::Json(lines) => lines.print(event),
            Self::Live(_) | Self::Plain(_) | Self::Quiet => Ok(()),
        }
    }

    /// Shows what was kept.
    pub(crate) fn flush(&mut self) -> std::io::Result<()> {
        match self {
            Self::Plain(lines) => lines.flush(),
            Self::Json(lines) => lines.flush(),
            Self::Live(_) | Self::Quiet => Ok(()),
        }
    }

    /// Says something that is no event, before the run begins.
    pub(crate) fn notice(&self, text: &str) {
        if !matches!(self, Self::Quiet) {
            tell(format!("note: {text}\n"));
        }
    }

    /// Says where the run can be watched, and the command that prints the address with its token: what is printed here is kept in logs.
    pub(crate) fn page(&self, address: &str, whole: &str) {
        if !matches!(self, Self::Quiet) {
            tell(format!(
                "page: {address} (`{whole}` prints the address that opens it)\n"
            ));
        }
    }

    /// Counts down to the end of a limit that an earlier run has met.
    pub(crate) fn limit_ends_in(&mut self, left: Duration) {
        if let Self::Live(view) = self {
            view.count_down(left);
        }
    }

    /// Takes the view off the terminal.
    pub(crate) fn clear(&mut self) {
        if let Self::Live(view) = self {
            view.clear();
        }
    }

    /// Closes the view and sums up.
    pub(crate) fn close(&mut self, outcome: &RunOutcome, ending: &Ending<'_>) {
        self.clear();
        if matches!(self, Self::Live(_) | Self::Plain(_)) {
            tell(ending.text(outcome));
        }
    }
}

/// Prints what does not wait for its turn among the events. Blocks as long as it is not read.
#[derive(Debug, Clone)]
pub(crate) enum Aside {
    /// Above the moving lines of a live view.
    Live(Area),
    /// On standard error.
    Plain,
    /// Nowhere.
    Quiet,
}

impl Aside {
    pub(crate) fn say(&self, text: &str) {
        match self {
            // That nobody can read it is no reason to fail.
            Self::Live(area) => drop(area.say(format!("  {text}"))),
            Self::Plain => tell(format!("{text}\n")),
            Self::Quiet => {}
        }
    }
}
