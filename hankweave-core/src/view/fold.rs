//! Fold of a journal into a view (WIRE-36): [`RunView::take`] applies one entry. It leaves state events to `transition`, events of sentinels to `sentinel`,
//! and the lines of the open attempt to `now`.

use std::time::Duration;

use super::item::CheckView;
use super::now::{ContextUse, CurrentActivity, USAGE_LIMIT};
use super::run_view::{AskedApproval, CommandView, RunState, RunView};
use super::sentinel;
use super::text::{LINE, NAME, REASON, TITLE, excerpt};
use super::wait::{WaitKind, WaitView, add, set_end_of_limit};
use super::words::line_of;
use crate::event::StateEvent;
use crate::id::CodonId;
use crate::time::Timestamp;
use crate::wire::{Event, IdleReason, JournalEntry, ProgressKind};

/// Maximum number of commands that a view lists.
const COMMANDS: usize = 10;

impl RunView {
    /// Applies an entry of the journal. An entry that the view has applied already changes nothing, so a client may read the end of a history again.
    pub fn take(&mut self, entry: &JournalEntry) {
        if entry.seq <= self.seq {
            return;
        }
        (self.seq, self.at) = (entry.seq, Some(entry.timestamp));
        let (event, at, seq) = (&entry.event, entry.timestamp, entry.seq);
        if ends_activity(event) {
            self.end_activity(at);
        }
        match event {
            Event::StateTransition {
                transition,
                resulting_state: figures,
                ..
            } => {
                self.money.spent = figures.total_spend.unwrap_or(figures.total_cost);
                self.transition(transition, figures.run_count, at, seq);
                self.update_lower_bound();
                self.reword();
            }
            Event::TokenUsage { .. } => self.take_usage(event),
            Event::CodonStarted {
                codon_id,
                codon_name,
                agent,
                model,
                ..
            } => {
                if let Some(attempt) = self.attempt_of(codon_id) {
                    attempt.agent = agent.as_deref().map(|agent| excerpt(agent, NAME));
                    attempt.model = model.as_deref().map(|model| excerpt(model, NAME));
                }
                let item = self.items.get_mut(codon_id.configured());
                // An item without a name in the plan is called by its id until its agent starts.
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
                self.update_lower_bound();
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
            Event::Progress { .. } => self.take_progress(event, at, seq),
            Event::ServerIdle { reason, message } => self.take_idle(*reason, message, at, seq),
            // A file that no checkpoint holds has no diff.
            Event::FileUpdated {
                path,
                action,
                size,
                checkpointed: None | Some(true),
                ..
            } => self.files.take(path, *action, *size, seq),
            Event::RollbackStarted {
                codons_to_process, ..
            } => {
                for codon in codons_to_process {
                    self.mark_undone(codon);
                }
            }
            Event::RollbackCompleted { .. } => {
                self.undo_marked(seq);
                self.update_lower_bound();
                self.reword();
            }
            Event::RunDescribed { .. }
            | Event::ApprovalRequested { .. }
            | Event::CheckCompleted { .. }
            | Event::CommandAccepted { .. }
            | Event::RunContinued { .. }
            | Event::RunEnded { .. } => {
                self.take_fact(event, at, seq);
                self.reword();
            }
            other => sentinel::take(&mut self.sentinels, other, seq),
        }
        self.keep_line(event, at, seq);
    }

    /// Applies an event with facts that no state event has: limits, questions, results of checks, commands of clients, suspensions, and causes.
    fn take_fact(&mut self, event: &Event, at: Timestamp, seq: u64) {
        match event {
            Event::RunDescribed { .. } => self.describe(event),
            Event::ApprovalRequested { codon_id, question } => {
                self.wait_for_answer(Some(codon_id), question, at, seq);
            }
            Event::CheckCompleted {
                codon_id,
                loop_id,
                passed,
                why,
                says,
                ..
            } => {
                let item = loop_id.as_ref().map_or(codon_id.configured(), |id| id.as_str());
                let says = says.as_ref().or(why.as_ref()).map(|text| excerpt(text, LINE));
                let check = CheckView {
                    passed: *passed,
                    says,
                };
                if let Some(item) = self.items.get_mut(item) {
                    item.keep_check(codon_id.iteration(), check);
                }
            }
            Event::CommandAccepted {
                command,
                client_id,
                codon_id,
                reason,
                by,
            } => {
                let accepted = CommandView {
                    command: excerpt(command, NAME),
                    client: excerpt(by.as_ref().unwrap_or(client_id), NAME),
                    codon: codon_id.clone(),
                    reason: reason.as_deref().map(|reason| excerpt(reason, TITLE)),
                    at,
                };
                self.note_answering_client(&accepted);
                self.commands.insert(seq, accepted);
                while self.commands.len() > COMMANDS {
                    self.commands.pop_first();
                }
            }
            Event::RunContinued {
                suspended_at,
                suspended_ms,
                ..
            } => self.note_suspension(*suspended_at, *suspended_ms, seq),
            Event::RunEnded { cause, .. } => {
                self.cause = cause.as_deref().map(|cause| excerpt(cause, REASON));
            }
            _ => {}
        }
    }

    /// Notes a suspension, which is no time at work of the open attempt.
    fn note_suspension(&mut self, from: Timestamp, millis: u64, seq: u64) {
        let item = self.now.as_ref().map(|now| (now.item.clone(), now.key()));
        let attempt = item
            .as_ref()
            .and_then(|(item, key)| self.items.get_mut(item)?.attempts.get_mut(key));
        let codon = attempt.and_then(|attempt| {
            attempt.suspended_ms = attempt.suspended_ms.saturating_add(millis);
            attempt.id.clone()
        });
        let wait = WaitView {
            item: item.map(|(item, _)| item),
            codon,
            kind: WaitKind::Suspended,
            from,
            to: Some(from.after(Duration::from_millis(millis))),
            why: None,
            answer: None,
            n: None,
            of: None,
        };
        add(&mut self.waits, seq, wait);
    }

    /// Applies the event to the lines of the open attempt; adds an error to those of the problem.
    fn keep_line(&mut self, event: &Event, at: Timestamp, seq: u64) {
        if let Some(now) = &mut self.now {
            now.take(event, at, seq);
        }
        if let (Event::Error { .. }, Some(problem)) = (event, &mut self.problem)
            && let Some(line) = line_of(event)
        {
            problem.tail.insert(seq, excerpt(&line, LINE));
            // As many lines as the open attempt keeps.
            while problem.tail.len() > 20 {
                problem.tail.pop_first();
            }
        }
    }

    fn take_usage(&mut self, event: &Event) {
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
            attempt.at_least = *cost_is_lower_bound == Some(true) || attempt.sentinels_at_least;
            if let Some(model) = model_id {
                attempt.model = Some(excerpt(model, NAME));
            }
        }
        if let (Some(now), Some((tokens, window))) = (&mut self.now, context_tokens.zip(*context_window)) {
            now.context = Some(ContextUse { tokens, window });
        }
        self.update_lower_bound();
    }

    /// Notes whether something that counts against the limit has cost more than is known.
    fn update_lower_bound(&mut self) {
        let undone = self.undone.sum().is_some_and(|undone| undone.at_least);
        self.money.at_least = undone
            || self.items.values().any(|item| {
                item.earlier.is_some_and(|earlier| earlier.at_least)
                    || item.attempts.values().any(|attempt| attempt.at_least)
            });
    }

    fn take_progress(&mut self, event: &Event, at: Timestamp, seq: u64) {
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
        let kind_of_wait = match kind {
            ProgressKind::Retry | ProgressKind::Wait => Some(WaitKind::Retry),
            ProgressKind::Background => Some(WaitKind::Background),
            ProgressKind::Checkpoint | ProgressKind::Restore | ProgressKind::Rig => None,
        };
        // The end of the codon has listed its wait for a usage limit: the progress only says until when the run waits.
        let is_listed = *kind == ProgressKind::Wait
            && subject.as_deref() == Some(USAGE_LIMIT)
            && set_end_of_limit(&mut self.waits, codon_id.as_ref(), *ends_at);
        if let Some(kind) = kind_of_wait.filter(|_| !is_listed) {
            let wait = WaitView {
                item: codon_id.as_ref().map(|id| id.configured().to_owned()),
                codon: codon_id.clone(),
                kind,
                from: at,
                to: *ends_at,
                why: subject.clone(),
                answer: None,
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

    /// Ends the activity. A wait for background work may end before its limit.
    fn end_activity(&mut self, at: Timestamp) {
        let ended = self.activity.take();
        if ended.is_some_and(|ended| ended.kind == ProgressKind::Background) {
            let newest = self.waits.values_mut().next_back();
            if let Some(wait) = newest.filter(|wait| wait.kind == WaitKind::Background) {
                wait.to = Some(at);
            }
            self.reword();
        }
    }

    fn take_idle(&mut self, reason: IdleReason, message: &str, at: Timestamp, seq: u64) {
        let asks = reason == IdleReason::ApprovalRequired;
        if asks && self.ask.is_none() {
            // Only journals of older versions have no `approval.requested` before it.
            self.wait_for_answer(None, message, at, seq);
        } else if !asks && !self.state.has_ended() {
            self.enter(RunState::Idle, at);
        }
        self.reword();
    }

    /// Adds the wait for an answer of the user, and shows the question.
    fn wait_for_answer(&mut self, codon: Option<&CodonId>, question: &str, at: Timestamp, seq: u64) {
        let wait = WaitView {
            item: codon.map(|id| id.configured().to_owned()),
            codon: codon.cloned(),
            kind: WaitKind::Approval,
            from: at,
            to: None,
            why: Some(excerpt(question, TITLE)),
            answer: None,
            n: None,
            of: None,
        };
        add(&mut self.waits, seq, wait);
        (self.answered, self.approved) = (None, None);
        self.show_question(codon, question);
        self.ask = Some(AskedApproval {
            codon: codon.cloned(),
            question: excerpt(question, LINE),
            since: at,
        });
        if !self.state.has_ended() {
            self.enter(RunState::Asking, at);
        }
    }

    /// Replaces the question in the plan by the one that the run asks.
    pub(super) fn show_question(&mut self, codon: Option<&CodonId>, question: &str) {
        let item = codon.and_then(|id| self.items.get_mut(id.configured()));
        if let Some(item) = item {
            item.asks = Some(excerpt(question, TITLE));
        }
    }

    /// Notes the client that sent the newest answer. Journals of older versions have its name only in this command, which follows the answer.
    fn note_answering_client(&mut self, accepted: &CommandView) {
        let is_answer = matches!(accepted.command.as_str(), "codon.approve" | "codon.deny");
        if let Some(answered) = self.answered.as_mut().filter(|_| is_answer)
            && accepted.codon.as_ref() == Some(&answered.codon)
        {
            answered.client.get_or_insert_with(|| accepted.client.clone());
        }
    }

    /// Marks the attempts that a rollback is about to undo, for [`undo_marked`](Self::undo_marked) at its end.
    fn mark_undone(&mut self, codon: &CodonId) {
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
