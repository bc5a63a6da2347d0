//! Fold of a journal into a view (WIRE-36).

use super::now::{ContextUse, CurrentActivity};
use super::run_view::{AskedApproval, RunState, RunView};
use super::sentinel;
use super::text::{LINE, NAME, TITLE, excerpt};
use super::wait::{WaitKind, WaitView, add};
use super::words::line_of;
use crate::event::StateEvent;
use crate::time::Timestamp;
use crate::wire::{Event, IdleReason, JournalEntry, ProgressKind};

impl RunView {
    /// Takes an entry of the journal in. One that the view has taken already changes nothing, so a client may read the end of a history again.
    pub fn take(&mut self, entry: &JournalEntry) {
        if entry.seq <= self.seq {
            return;
        }
        (self.seq, self.at) = (entry.seq, Some(entry.timestamp));
        let (event, at, seq) = (&entry.event, entry.timestamp, entry.seq);
        if ends_activity(event) {
            self.activity = None;
        }
        match event {
            Event::StateTransition {
                transition,
                resulting_state: figures,
                ..
            } => {
                self.money.spent = figures.total_spend.unwrap_or(figures.total_cost);
                self.transition(transition, figures.run_count, at, seq);
                self.reckon();
                self.reword();
            }
            Event::TokenUsage { .. } => self.usage(event),
            Event::CodonStarted {
                codon_id, codon_name, ..
            } => {
                let item = self.items.get_mut(codon_id.configured());
                if let Some(item) = item.filter(|item| item.name == codon_id.configured()) {
                    item.name = excerpt(codon_name, NAME);
                    self.reword();
                }
            }
            Event::CodonCompleted {
                codon_id,
                cost,
                sentinel_cost,
                cost_is_lower_bound,
                duration,
                ..
            } => {
                if let Some(attempt) = self.attempt_of(codon_id) {
                    attempt.cost = *cost;
                    attempt.sentinels = sentinel_cost.unwrap_or_default();
                    attempt.at_least = *cost_is_lower_bound == Some(true);
                    attempt.duration_ms = Some(*duration);
                }
                self.reckon();
            }
            Event::RigSetupCompleted {
                codon_id,
                duration_ms,
                ..
            } => {
                if let Some(attempt) = self.attempt_of(codon_id) {
                    attempt.rig_ms = Some(*duration_ms);
                }
            }
            Event::Progress { .. } => self.progress(event, at, seq),
            Event::ServerIdle { reason, message } => self.idle(*reason, message, at, seq),
            Event::FileUpdated {
                path, action, size, ..
            } => self.files.take(path, *action, *size, seq),
            Event::RollbackStarted {
                codons_to_process, ..
            } => {
                for codon in codons_to_process {
                    self.mark_undone(codon);
                }
            }
            Event::RollbackCompleted { .. } => {
                for item in self.items.values_mut() {
                    item.attempts.retain(|_, attempt| !attempt.undone);
                }
                self.reword();
            }
            other => sentinel::take(&mut self.sentinels, other, seq),
        }
        self.keep_line(event, at, seq);
    }

    fn keep_line(&mut self, event: &Event, at: Timestamp, seq: u64) {
        match &mut self.now {
            Some(now) => now.take(event, at, seq),
            None => {}
        }
        if let (Event::Error { .. }, Some(problem)) = (event, &mut self.problem)
            && let Some(line) = line_of(event)
        {
            problem.tail.insert(seq, excerpt(&line, LINE));
            while problem.tail.len() > 20 {
                problem.tail.pop_first();
            }
        }
    }

    fn usage(&mut self, event: &Event) {
        let Event::TokenUsage {
            codon_id,
            total_cost,
            cost_is_lower_bound,
            model_id,
            context_tokens,
            context_window,
            ..
        } = event
        else {
            return;
        };
        if let Some(attempt) = self.attempt_of(codon_id) {
            attempt.cost = *total_cost;
            attempt.at_least = *cost_is_lower_bound == Some(true);
            if let Some(model) = model_id {
                attempt.model = Some(excerpt(model, NAME));
            }
        }
        if let (Some(now), Some((tokens, window))) = (&mut self.now, context_tokens.zip(*context_window)) {
            now.context = Some(ContextUse { tokens, window });
        }
        self.reckon();
    }

    /// Whether something has cost more than is known.
    fn reckon(&mut self) {
        self.money.at_least = self.items.values().any(|item| {
            item.earlier.is_some_and(|earlier| earlier.at_least)
                || item.attempts.values().any(|attempt| attempt.at_least)
        });
    }

    fn progress(&mut self, event: &Event, at: Timestamp, seq: u64) {
        let Event::Progress {
            codon_id,
            kind,
            subject,
            done,
            total,
            ends_at,
        } = event
        else {
            return;
        };
        let subject = subject.as_deref().map(|text| excerpt(text, TITLE));
        if let ProgressKind::Retry | ProgressKind::Wait = kind {
            let wait = WaitView {
                item: codon_id.as_ref().map(|id| id.configured().to_owned()),
                kind: WaitKind::Retry,
                from: at,
                to: *ends_at,
                why: subject.clone(),
                n: *done,
                of: *total,
            };
            add(&mut self.waits, seq, wait);
        }
        self.activity = Some(CurrentActivity {
            kind: *kind,
            subject,
            done: *done,
            total: *total,
            since: at,
            to: *ends_at,
        });
        self.reword();
    }

    fn idle(&mut self, reason: IdleReason, message: &str, at: Timestamp, seq: u64) {
        let asks = reason == IdleReason::ApprovalRequired;
        if asks && self.ask.is_none() {
            let question = excerpt(message, LINE);
            let wait = WaitView {
                item: None,
                kind: WaitKind::Approval,
                from: at,
                to: None,
                why: Some(excerpt(message, TITLE)),
                n: None,
                of: None,
            };
            add(&mut self.waits, seq, wait);
            self.ask = Some(AskedApproval {
                codon: None,
                question,
                since: at,
            });
        }
        if !self.state.has_ended() {
            self.enter(if asks { RunState::Asking } else { RunState::Idle }, at);
        }
        self.reword();
    }

    fn mark_undone(&mut self, codon: &crate::id::CodonId) {
        if let Some(item) = self.items.get_mut(codon.configured()) {
            let iteration = codon.iteration();
            let undone = item
                .attempts
                .iter_mut()
                .filter(|(key, _)| key.iteration == iteration);
            undone.for_each(|(_, attempt)| attempt.undone = true);
        }
    }
}

/// Whether a lengthy activity has ended with this event.
fn ends_activity(event: &Event) -> bool {
    match event {
        Event::StateTransition { transition, .. } => !matches!(
            **transition,
            StateEvent::CostsIncremented { .. } | StateEvent::AssistantMessageCountUpdated { .. }
        ),
        Event::AssistantAction { .. }
        | Event::ToolResult { .. }
        | Event::TokenUsage { .. }
        | Event::RollbackCompleted { .. } => true,
        _ => false,
    }
}
