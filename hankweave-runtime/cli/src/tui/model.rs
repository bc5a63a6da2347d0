//! Model of a run for the screen: the view that every screen draws, and a transcript of what agents say and do. Both are bounded.

use anstyle::{AnsiColor, Style};
use hankweave_core::cost::Usd;
use hankweave_core::event::StateEvent;
use hankweave_core::id::{CheckpointSha, CodonId};
use hankweave_core::time::Timestamp;
use hankweave_core::view::{AttemptKey, AttemptView, ChangedFile, EarlierAttempts, ItemView, RunView};
use hankweave_core::wire::{Event, JournalEntry};

use super::ring::Ring;
use crate::terminal::report::{MarkedText, attempt_time, event_text, money};
use crate::terminal::screen::SafeText;
use crate::terminal::screen::{local_time, with_local_times};

/// Everything that is shown of a run.
#[derive(Debug, Default)]
pub(super) struct RunModel {
    pub(super) view: RunView,
    pub(super) transcript: Ring,
    /// Codon of the last lines in the transcript; another codon gets a head line.
    speaker: Option<CodonId>,
}

/// Row of a codon of the plan with one of its attempts.
#[derive(Debug)]
pub(super) struct CodonRow<'v> {
    pub(super) id: &'v str,
    pub(super) title: String,
    /// `None` before the codon has started.
    pub(super) attempt: Option<(AttemptKey, &'v AttemptView)>,
    /// Whether the agent works on this attempt.
    is_working: bool,
}

impl RunModel {
    /// Shows the run from `view` on.
    pub(super) fn new(view: RunView) -> Self {
        Self {
            view,
            ..Self::default()
        }
    }

    /// Takes an event in.
    pub(super) fn take(&mut self, entry: &JournalEntry) {
        self.view.take(entry);
        self.add_transcript(&entry.event, entry.timestamp);
    }

    /// Returns the codons of the plan in order, each with its newest attempt.
    pub(super) fn rows(&self) -> impl Iterator<Item = CodonRow<'_>> {
        let items = self
            .view
            .codons()
            .filter_map(|id| Some((id, self.view.items.get(id)?)));
        items.map(|(id, item)| {
            let newest = item
                .attempts
                .last_key_value()
                .map(|(key, attempt)| (*key, attempt));
            self.row(id, item, newest)
        })
    }

    /// Returns all attempts of all codons, in the order of the plan.
    pub(super) fn attempts(&self) -> impl Iterator<Item = CodonRow<'_>> {
        let items = self
            .view
            .codons()
            .filter_map(|id| Some((id, self.view.items.get(id)?)));
        items.flat_map(move |(id, item)| {
            let attempts = item.attempts.iter();
            attempts.map(move |(key, attempt)| self.row(id, item, Some((*key, attempt))))
        })
    }

    /// Returns the sum of the attempts that no longer count, if there are any.
    pub(super) fn undone(&self) -> Option<EarlierAttempts> {
        self.view.undone.sum()
    }

    /// Whether money was spent before the run started over.
    pub(super) fn has_earlier_cost(&self) -> bool {
        self.view.money.before > Usd::ZERO
    }

    /// Returns the number of rows of the costs: all runs, undone attempts and earlier costs where there are any, and all attempts.
    pub(super) fn cost_rows(&self) -> usize {
        let sums = [true, self.undone().is_some(), self.has_earlier_cost()];
        sums.into_iter().filter(|is_shown| *is_shown).count() + self.attempts().count()
    }

    fn row<'v>(
        &'v self,
        id: &'v str,
        item: &ItemView,
        attempt: Option<(AttemptKey, &'v AttemptView)>,
    ) -> CodonRow<'v> {
        let of = item.within.as_ref().and_then(|of| self.view.items.get(of));
        let iteration = attempt.map_or_else(|| of?.iteration, |(key, _)| Some(key.iteration));
        let mut title = self.view.title(id, iteration.unwrap_or(1));
        if let Some((key, _)) = attempt.filter(|(key, _)| key.attempt > 1) {
            title += &format!(" (attempt {})", key.attempt);
        }
        let open = self.view.now.as_ref().filter(|_| self.view.is_working());
        let key = attempt.map(|(key, _)| key);
        CodonRow {
            id,
            title,
            attempt,
            is_working: open.is_some_and(|open| open.item == id && Some(open.key()) == key),
        }
    }

    /// Returns the attempt that runs.
    pub(super) fn running(&self) -> Option<CodonRow<'_>> {
        let (now, attempt) = self.view.current()?;
        let (id, item) = self.view.items.get_key_value(&now.item)?;
        Some(self.row(id, item, Some((now.key(), attempt))))
    }

    /// Returns the attempt that started last.
    pub(super) fn newest(&self) -> Option<CodonRow<'_>> {
        self.attempts().max_by_key(CodonRow::started)
    }

    /// Returns the files that have changed since the newest attempt started, by path.
    pub(super) fn files(&self) -> impl Iterator<Item = (&String, &ChangedFile)> {
        let start_seq = self.newest().and_then(|row| row.started().0).unwrap_or_default();
        let files = self.view.files.newest.iter();
        files.filter(move |(_, file)| file.seq > start_seq)
    }

    /// Returns the checkpoint of the files at the start of the newest attempt.
    pub(super) fn base(&self) -> Option<&CheckpointSha> {
        let newest = self.newest().map(|row| row.started());
        let earlier = self.attempts().filter(|row| Some(row.started()) < newest);
        let before = earlier.max_by_key(CodonRow::started);
        let checkpoint = before.and_then(|row| row.attempt?.1.checkpoint.as_ref());
        checkpoint.or(self.view.files.base.as_ref())
    }

    /// Adds the lines of an event to the transcript.
    fn add_transcript(&mut self, event: &Event, at: Timestamp) {
        let Some(codon) = codon_of(event) else {
            let words = match event {
                Event::Info { message } | Event::Error { message, .. } => Some(with_local_times(message)),
                Event::RunContinued { .. } => event_text(event),
                _ => None,
            };
            if let Some(words) = words {
                self.add("— ", &words, Style::new().dimmed());
            }
            return;
        };
        if self.speaker.as_ref() != Some(&codon) || is_start(event) {
            let title = self.view.title(codon.configured(), codon.iteration());
            let head = format!("{title}  {}", local_time(at));
            self.add("", &head, AnsiColor::Cyan.on_default());
            self.speaker = Some(codon.clone());
        }
        if let Some(said) = MarkedText::of(event, &codon, true).filter(|_| !is_start(event)) {
            self.add(said.mark, &said.words, said.style);
        }
    }

    fn add(&mut self, mark: &str, words: &str, style: Style) {
        for line in words.trim_end().lines() {
            let line = format!("{mark}{}", line.replace('\t', "    "));
            let harmless = SafeText::from(line);
            self.transcript.push(harmless.as_str().to_owned(), style);
        }
    }
}

impl CodonRow<'_> {
    /// Returns the number and time of the event that started the attempt, to order attempts. Those that came from a state document have no number.
    pub(super) fn started(&self) -> (Option<u64>, Option<Timestamp>) {
        self.attempt
            .map_or((None, None), |(_, attempt)| (attempt.seq, attempt.began))
    }

    /// Returns the time at work of the attempt until `now`; empty before it has started.
    pub(super) fn time(&self, now: Timestamp) -> String {
        self.attempt
            .map_or_else(String::new, |(_, attempt)| attempt_time(attempt, now))
    }

    /// Returns the cost of the attempt with its sentinels.
    pub(super) fn cost(&self) -> String {
        let attempt = self.attempt.map(|(_, attempt)| attempt);
        attempt.map_or_else(String::new, |attempt| {
            money(attempt.spent(), attempt.at_least || self.is_working)
        })
    }
}

fn is_start(event: &Event) -> bool {
    matches!(event, Event::StateTransition { transition, .. } if matches!(**transition, StateEvent::CodonStarted { .. }))
}

/// Returns the codon of an event, if that event has a line in the transcript.
fn codon_of(event: &Event) -> Option<CodonId> {
    match event {
        Event::StateTransition { transition, .. } => match &**transition {
            StateEvent::CodonStarted { codon_id, .. } => Some(codon_id.clone()),
            StateEvent::ApprovalSet { approval } => Some(approval.as_ref()?.codon_id.clone()),
            _ => None,
        },
        Event::CodonStarted { codon_id, .. }
        | Event::CodonCompleted { codon_id, .. }
        | Event::CodonFallback { codon_id, .. }
        | Event::CodonExtended { codon_id, .. }
        | Event::AssistantAction { codon_id, .. }
        | Event::ToolResult { codon_id, .. }
        | Event::OutputTruncated { codon_id, .. }
        | Event::RigOutput { codon_id, .. }
        | Event::RigSetupFailed { codon_id, .. }
        | Event::SentinelOutput { codon_id, .. }
        | Event::SentinelError { codon_id, .. } => Some(codon_id.clone()),
        _ => None,
    }
}
