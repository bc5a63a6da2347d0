//! Output of a run: a live view on a terminal, plain lines elsewhere, events as JSON for programs.
//!
//! Reports only listen: they get the published events and never ask for anything.

mod colours;
mod event_text;
mod full_text;
mod live;
mod plain;
mod record_text;
mod summary;
mod words;

use std::sync::Arc;
use std::time::Duration;

use hankweave_core::document::HankweaveState;
use hankweave_core::view::{RunState, RunView};
use hankweave_core::wire::JournalEntry;
use hankweave_runtime::state_manager::Events;
use hankweave_runtime::{RunOutcome, RunResult};

use self::live::LiveView;
use self::plain::Plain;
use crate::terminal::prompt_line::PromptLine;
use crate::terminal::screen::{JsonLines, columns_of_errors, print_stderr};
use crate::terminal::suspended_run::SuspendedRun;
use crate::terminal::wrap::wrap;
pub(crate) use colours::{style_of, style_of_attempt, write_problems};
pub(crate) use event_text::event_text;
pub(crate) use full_text::MarkedText;
pub(crate) use live::{LiveContext, activity_words, restoring};
pub(crate) use record_text::record_text;
pub(crate) use summary::{SummaryContext, headline, write_remarks};
pub(crate) use words::{
    AT_BUDGET, ColumnTime, RunProcess, at_its_budget, attempt_time, budget_note, codon_line, codon_standing,
    codon_time, codon_words, counted, duration, elapsed, id_width, later_attempt_line, loop_check, money,
    progress, run_standing, tokens, tokens_at_least, used, worked,
};

/// Prints a message, on a terminal in lines that are broken between their words; those after the first are indented.
fn print_message(text: &str) {
    let lines = match columns_of_errors() {
        Some(columns) => wrap(text, columns.saturating_sub(2).max(20)).join("\n  "),
        None => text.to_owned(),
    };
    print_stderr(format!("{lines}\n"));
}

/// Shows the events of a run as they come.
#[derive(Debug)]
pub(crate) enum Reporter {
    /// A view that is redrawn, for terminals.
    Live(LiveView),
    /// One line for each thing that happens, for logs and pipes.
    Plain(Plain),
    /// Every event as one line of JSON.
    Json(JsonLines),
    /// Nothing.
    Quiet,
}

impl Reporter {
    pub(crate) fn live(known: LiveContext) -> Self {
        Self::Live(LiveView::show(known))
    }

    /// Reports lines; `how_to_answer` is printed below a question.
    pub(crate) fn plain(how_to_answer: Option<String>) -> Self {
        Self::Plain(Plain::new(how_to_answer))
    }

    pub(crate) fn json() -> Self {
        Self::Json(JsonLines::default())
    }

    /// Whether nothing is to be said.
    pub(crate) fn is_quiet(&self) -> bool {
        matches!(self, Self::Quiet)
    }

    /// Shows events, or buffers them for the next [`flush`](Self::flush). `Err` means that the reader of standard output has gone away.
    pub(crate) fn events(&mut self, events: &Events) -> std::io::Result<()> {
        match self {
            Self::Json(lines) => lines.lines(events.text()),
            Self::Quiet => Ok(()),
            Self::Live(_) | Self::Plain(_) => events.values().try_for_each(|entry| self.event(entry)),
        }
    }

    /// Reports one event.
    pub(crate) fn event(&mut self, entry: &JournalEntry) -> std::io::Result<()> {
        match self {
            Self::Live(view) => {
                view.event(entry);
                Ok(())
            }
            Self::Plain(lines) => lines.print_event(entry),
            Self::Json(lines) => lines.print(entry),
            Self::Quiet => Ok(()),
        }
    }

    /// Reports an event of an unknown kind, which only programs get.
    pub(crate) fn unknown(&mut self, event: &serde_json::Value) -> std::io::Result<()> {
        match self {
            Self::Json(lines) => lines.print(event),
            Self::Live(_) | Self::Plain(_) | Self::Quiet => Ok(()),
        }
    }

    /// Shows the buffered events.
    pub(crate) fn flush(&mut self) -> std::io::Result<()> {
        match self {
            Self::Plain(lines) => lines.flush(),
            Self::Json(lines) => lines.flush(),
            Self::Live(_) | Self::Quiet => Ok(()),
        }
    }

    /// Says something that is no event, before the run begins.
    pub(crate) fn notice(&self, text: &str) {
        if !self.is_quiet() {
            print_message(&format!("note: {text}"));
        }
    }

    /// Prints where the run can be watched. The address has no token, because this output may end in a log; the command `whole` prints it with one.
    pub(crate) fn page(&self, address: &str, whole: &str) {
        if self.is_quiet() {
            return;
        }
        print_message(&format!("page: {address} (`{whole}` prints the whole address)"));
        if let Self::Live(_) = self {
            print_message("keys: t shows the run on the whole screen");
        }
    }

    /// Shows that the run of a server is suspended and how to continue it; `None` means that it has continued. The suspended server cannot report this.
    pub(crate) fn suspended(&self, suspended: Option<SuspendedRun>) {
        if let Self::Live(view) = self {
            view.suspended(suspended);
        }
        if let (Self::Live(_) | Self::Plain(_), Some(suspended)) = (self, suspended) {
            print_message(&format!("the run is suspended: {}", suspended.how_to_continue()));
        }
    }

    /// Prints how a run has ended, for a client that follows it. `status` is the command that shows how to continue.
    pub(crate) fn ended(&self, view: &RunView, status: Option<&str>) {
        let status = status.filter(|_| view.state != RunState::Completed);
        let next = status.map_or_else(String::new, |status| {
            format!("; `{status}` tells how to continue")
        });
        if let Self::Live(_) | Self::Plain(_) = self {
            print_message(&format!("{}{next}", view.headline));
        }
    }

    /// Shows the recorded state from which the run starts or continues.
    pub(crate) fn start(&self, state: &HankweaveState) {
        if let Self::Live(view) = self {
            view.start(state);
        }
    }

    /// Shows the attempts that have ended in the view of a server, and the run from there on.
    pub(crate) fn begin_with(&mut self, run: RunView) -> std::io::Result<()> {
        match self {
            Self::Live(view) => {
                view.begin_with(run);
                Ok(())
            }
            Self::Plain(lines) => lines.begin_with(&run),
            Self::Json(_) | Self::Quiet => Ok(()),
        }
    }

    /// Connects the prompt with the report, whose events open and close the questions of the prompt.
    pub(crate) fn put_questions(&mut self, prompt: &Arc<PromptLine>) {
        match self {
            Self::Live(view) => view.put_questions(Arc::clone(prompt)),
            Self::Plain(lines) => lines.put_questions(Arc::clone(prompt)),
            Self::Json(_) | Self::Quiet => {}
        }
    }

    /// Counts down to the end of a limit that an earlier run has met.
    pub(crate) fn limit_ends_in(&self, left: Duration) {
        if let Self::Live(view) = self {
            view.count_down(left);
        }
    }

    /// Returns the callback for a requested stop, which gets the length of the grace period.
    pub(crate) fn stopper(&self) -> Box<dyn Fn(Duration) + Send + Sync> {
        match self {
            Self::Live(view) => Box::new(view.stopper()),
            Self::Plain(_) | Self::Json(_) | Self::Quiet => Box::new(|_| ()),
        }
    }

    /// Closes the view and prints the summary. The lines that a live view has printed for each codon stay on the terminal and are not repeated.
    pub(crate) fn close(self, outcome: &RunOutcome, ending: &SummaryContext<'_>) {
        let with_codons = match &self {
            Self::Live(_) => false,
            Self::Plain(_) => true,
            // No event says that nothing was left to do.
            Self::Json(_) if matches!(outcome.result, RunResult::NothingToDo) => false,
            // A user who looks into the log of a job for its failure does not read the events.
            Self::Json(_) if !matches!(outcome.result, RunResult::Completed) => true,
            Self::Json(_) | Self::Quiet => return,
        };
        drop(self);
        print_stderr(ending.text(outcome, with_codons));
    }
}
