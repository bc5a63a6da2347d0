//! A run as the screen draws it: its view, and what stays on the terminal.

use std::fmt::{self, Write};

use hankweave_core::document::HankweaveState;
use hankweave_core::event::StateEvent;
use hankweave_core::id::CodonId;
use hankweave_core::thread;
use hankweave_core::time::Timestamp;
use hankweave_core::view::RunView;
use hankweave_core::wire::{Event, JournalEntry};

use super::{LiveContext, ended};
use crate::report::words::budget;
use crate::screen::SafeText;

#[derive(Debug, Default)]
pub(super) struct LiveProgress {
    pub(super) view: RunView,
    /// Description of the run, for those of older versions that do not tell it.
    known: LiveContext,
    /// The codons that a rollback is about to undo, newest first.
    leaving: Vec<CodonId>,
    /// End of the grace period after a stop was requested.
    pub(super) stops_at: Option<Timestamp>,
}

impl LiveProgress {
    pub(super) fn new(known: LiveContext) -> Self {
        Self {
            known,
            ..Self::default()
        }
    }

    /// Sets the start of the run, or its current state for a client that connects later.
    pub(super) fn begin(&mut self, state: &HankweaveState) {
        let view = RunView::of_state(state, &thread::build(state, None, None), 0);
        self.view = match &self.known.description {
            Some(description) => view.with_description(description),
            None => view,
        };
    }

    /// Takes an event in; returns what stays on the terminal because of it.
    pub(super) fn event(&mut self, entry: &JournalEntry) -> SafeText {
        let mut said = SafeText::default();
        // Writing to a text cannot fail.
        let _ = self.take(entry, &mut said);
        said
    }

    fn take(&mut self, entry: &JournalEntry, said: &mut SafeText) -> fmt::Result {
        self.view.take(entry);
        match &entry.event {
            Event::StateTransition { transition, .. } => match &**transition {
                StateEvent::CodonTransitioned { codon_id, to, .. } if to.is_terminal() => {
                    ended::write(&self.view, codon_id, said)
                }
                _ => Ok(()),
            },
            Event::RollbackStarted {
                codons_to_process, ..
            } => {
                self.leaving.clone_from(codons_to_process);
                Ok(())
            }
            Event::RollbackCompleted { .. } => {
                let mut left = std::mem::take(&mut self.leaving).into_iter().rev();
                left.try_for_each(|codon| {
                    let title = self.view.title(codon.configured(), codon.iteration());
                    writeln!(said, "↩ {title}: taken back")
                })
            }
            Event::BudgetSummary { ceiling, totals, .. } => writeln!(said, "{}", budget(ceiling, totals)),
            Event::Info { message } => writeln!(said, "{message}"),
            Event::Error { message, .. } => writeln!(said, "error: {message}"),
            _ => Ok(()),
        }
    }
}
