//! Events of a run as lines for people on standard output, for logs and pipes.

use std::fmt::Write;
use std::io;
use std::sync::Arc;

use hankweave_core::view::RunView;
use hankweave_core::wire::{Event, IdleReason, JournalEntry};
use hankweave_runtime::world::clock::{Clock as _, SystemClock};

use super::event_text::event_text;
use super::words::{ended, ended_line};
use crate::terminal::prompt_line::PromptLine;
use crate::terminal::screen::{SafeText, print};

/// Number of buffered bytes at which the lines are written out.
const KEPT_BYTES: usize = 64 << 10;

/// Writes lines to standard output, many at a time while they come quickly.
#[derive(Debug)]
pub(crate) struct Plain {
    /// Lines that are not written yet.
    kept: SafeText,
    /// Line below a question that says how to answer.
    how_to_answer: Option<String>,
    /// Prompt whose keys answer questions.
    prompt: Option<Arc<PromptLine>>,
}

impl Plain {
    pub(super) fn new(how_to_answer: Option<String>) -> Self {
        let kept = SafeText::default();
        Self {
            kept,
            how_to_answer,
            prompt: None,
        }
    }

    /// Passes later events on to the prompt, so that it opens and closes questions.
    pub(super) fn put_questions(&mut self, prompt: Arc<PromptLine>) {
        self.prompt = Some(prompt);
    }

    /// Prints a line for an event that people want to know of.
    pub(super) fn print_event(&mut self, entry: &JournalEntry) -> io::Result<()> {
        // The prompt opens the question before the line is printed: a user who has read the line may answer at once.
        if let Some(prompt) = &self.prompt {
            prompt.take(entry);
        }
        let Some(line) = event_text(&entry.event) else {
            return Ok(());
        };
        // Writing to a text cannot fail.
        let _ = writeln!(self.kept, "{line}");
        let how_to_answer = self.how_to_answer.as_ref();
        if let Some(words) = how_to_answer.filter(|_| is_question(&entry.event)) {
            let _ = writeln!(self.kept, "  {words}");
        }
        match self.kept.as_str().len() < KEPT_BYTES {
            true => Ok(()),
            false => self.flush(),
        }
    }

    /// Prints a line for each attempt that had ended when the client connected.
    pub(super) fn begin_with(&mut self, view: &RunView) -> io::Result<()> {
        let now = SystemClock.now();
        for line in ended(view)
            .into_iter()
            .filter_map(|(.., attempt)| ended_line(attempt, now))
        {
            // Writing to a text cannot fail.
            let _ = writeln!(self.kept, "{line}");
        }
        self.flush()
    }

    pub(super) fn flush(&mut self) -> io::Result<()> {
        print(std::mem::take(&mut self.kept))
    }
}

fn is_question(event: &Event) -> bool {
    matches!(
        event,
        Event::ServerIdle {
            reason: IdleReason::ApprovalRequired,
            ..
        }
    )
}
