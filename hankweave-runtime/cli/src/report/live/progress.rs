//! How far a run has come, as its events tell it.

use std::fmt::{self, Write};
use std::time::Duration;

use hankweave_core::budget::{Ceiling, CeilingUse};
use hankweave_core::codon::{CheckpointType, CodonStatus};
use hankweave_core::cost::Usd;
use hankweave_core::document::{HankweaveState, PlanEntry, PlanExtension, StartingConditions};
use hankweave_core::event::StateEvent;
use hankweave_core::id::CodonId;
use hankweave_core::thread::{self, ThreadCodon};
use hankweave_core::time::Timestamp;
use hankweave_core::wire::{Event, JournalEntry};
use hankweave_runtime::CodonSummary;

use super::LiveContext;
use super::current::{Current, EndMetadata};
use super::doing::LongOperation;
use crate::report::title::title;
use crate::report::words::budget;
use crate::screen::SafeText;

#[derive(Debug, Default)]
pub(super) struct LiveProgress {
    pub(super) known: LiveContext,
    /// When the run began.
    pub(super) began: Option<Timestamp>,
    pub(super) plan: Vec<Planned>,
    /// Plan with its configurations, to which those of later iterations refer.
    entries: Vec<PlanEntry>,
    /// How many entries of the plan are done; the current one is behind them.
    pub(super) done: usize,
    pub(super) current: Option<Current>,
    /// Cost of all runs so far, and the part of runs that are not continued.
    spent: Usd,
    uncounted: Usd,
    /// Something has cost more than is known.
    pub(super) is_lower_bound: bool,
    /// The codons that a rollback is about to take back, newest first.
    leaving: Vec<CodonId>,
    /// Current lengthy activity.
    pub(super) doing: Option<LongOperation>,
    /// End of the grace period after a stop was requested.
    pub(super) stops_at: Option<Timestamp>,
}

/// A codon that comes or has come.
#[derive(Debug)]
pub(super) struct Planned {
    pub(super) id: CodonId,
    pub(super) title: String,
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
        self.spent = state.total_spend();
        self.uncounted = self
            .spent
            .saturating_sub(CeilingUse::of(Duration::ZERO, Ceiling::default(), state).spent());
        self.replace_plan(&state.execution_plan);
        let thread = thread::build(state, None, None);
        if let Some(newest) = thread.codons.first() {
            self.go_on_from(newest);
        }
    }

    fn go_on_from(&mut self, newest: &ThreadCodon) {
        let found = CodonSummary::of(&newest.codon);
        if found.status.is_terminal() {
            self.stand_behind(&found.codon_id, found.status != CodonStatus::Failed);
            return;
        }
        self.began = Some(newest.run_start_time);
        self.start(&found.codon_id, *newest.codon.start_time());
        if let Some(current) = &mut self.current {
            (current.status, current.cost, current.usage) = (found.status, found.cost, found.tokens);
            current.of_sentinels = newest.codon.sentinel_cost();
        }
    }

    fn stand_behind(&mut self, id: &CodonId, is_done: bool) {
        self.done = self.place(id).map_or(0, |place| place + usize::from(is_done));
    }

    fn place(&self, id: &CodonId) -> Option<usize> {
        self.plan.iter().position(|planned| planned.id == *id)
    }

    /// Returns the title of a codon.
    fn title<'a>(&'a self, id: &'a CodonId) -> &'a str {
        self.place(id)
            .map_or(id.as_str(), |place| &self.plan[place].title)
    }

    /// Returns the spending that counts against the total budget.
    pub(super) fn counted(&self) -> Usd {
        self.spent.saturating_sub(self.uncounted)
    }

    /// The entries of the plan behind the current one.
    pub(super) fn coming(&self) -> &[Planned] {
        let first = self.done + usize::from(self.current.is_some());
        self.plan.get(first..).unwrap_or_default()
    }

    /// Takes an event in; returns what stays on the terminal because of it.
    pub(super) fn event(&mut self, entry: &JournalEntry) -> SafeText {
        let mut said = SafeText::default();
        // Writing to a text cannot fail.
        let _ = self.take(entry, &mut said);
        said
    }

    fn take(&mut self, entry: &JournalEntry, said: &mut SafeText) -> fmt::Result {
        if ends_what_is_done(&entry.event) {
            self.doing = None;
        }
        match &entry.event {
            Event::StateTransition {
                transition,
                resulting_state,
                ..
            } => {
                self.spent = resulting_state.total_spend.unwrap_or(resulting_state.total_cost);
                self.transition(transition, entry.timestamp, said)
            }
            Event::TokenUsage {
                total_cost,
                cost_is_lower_bound,
                context_tokens,
                context_window,
                ..
            } => {
                if let Some(current) = &mut self.current {
                    (current.cost, current.is_lower_bound) =
                        (*total_cost, *cost_is_lower_bound == Some(true));
                    current.context = context_tokens.zip(*context_window).or(current.context);
                }
                Ok(())
            }
            Event::Progress {
                kind,
                subject,
                done,
                total,
                ends_at,
                ..
            } => {
                self.doing = Some(LongOperation {
                    kind: *kind,
                    subject: subject.clone(),
                    done: *done,
                    total: *total,
                    since: entry.timestamp,
                    until: *ends_at,
                });
                Ok(())
            }
            Event::CodonCompleted {
                cost_is_lower_bound, ..
            } => {
                self.is_lower_bound |= *cost_is_lower_bound == Some(true);
                Ok(())
            }
            Event::RollbackStarted {
                codons_to_process, ..
            } => {
                self.leaving.clone_from(codons_to_process);
                Ok(())
            }
            Event::RollbackCompleted {
                codon_id,
                checkpoint_type,
                ..
            } => {
                let is_done = *checkpoint_type == Some(CheckpointType::Completed);
                match codon_id {
                    Some(kept) => self.stand_behind(kept, is_done),
                    None => self.done = 0,
                }
                let mut left = std::mem::take(&mut self.leaving).into_iter().rev();
                left.try_for_each(|codon| writeln!(said, "↩ {}: taken back", self.title(&codon)))
            }
            Event::BudgetSummary { ceiling, totals, .. } => writeln!(said, "{}", budget(ceiling, totals)),
            Event::Info { message } => writeln!(said, "{message}"),
            Event::Error { message, .. } => writeln!(said, "error: {message}"),
            other => {
                if let Some(current) = &mut self.current {
                    current.keep(other);
                }
                Ok(())
            }
        }
    }

    fn transition(&mut self, event: &StateEvent, at: Timestamp, said: &mut SafeText) -> fmt::Result {
        match event {
            StateEvent::RunStarted {
                starting_conditions, ..
            } => {
                self.began = Some(at);
                if let StartingConditions::Fresh { .. } = starting_conditions {
                    self.uncounted = self.spent;
                }
            }
            StateEvent::PlanReplaced { execution_plan } => self.replace_plan(execution_plan),
            StateEvent::PlanExtended { extension } => self.extend_plan(extension),
            StateEvent::CodonStarted { codon_id, .. } => self.start(codon_id, at),
            StateEvent::CodonTransitioned { to, metadata, .. } if to.is_terminal() => {
                return self.end(*to, &EndMetadata::of(metadata.as_ref()), at, said);
            }
            other => {
                if let Some(current) = &mut self.current {
                    current.transition(other);
                }
            }
        }
        Ok(())
    }

    fn replace_plan(&mut self, plan: &[PlanEntry]) {
        self.entries = plan.to_vec();
        self.plan = plan.iter().map(|entry| self.planned(entry)).collect();
    }

    fn extend_plan(&mut self, extension: &PlanExtension) {
        // Somebody who came later may not know the plan.
        let Ok(begin) = extension.extend(&mut self.entries) else {
            return;
        };
        let added = &self.entries[begin..begin + extension.entries.len()];
        let added: Vec<Planned> = added.iter().map(|entry| self.planned(entry)).collect();
        self.plan.splice(begin..begin + extension.dropped as usize, added);
    }

    fn planned(&self, entry: &PlanEntry) -> Planned {
        Planned {
            id: entry.codon_id.clone(),
            title: title(entry, &self.known.loops),
        }
    }

    fn start(&mut self, id: &CodonId, at: Timestamp) {
        self.done = self.place(id).unwrap_or(self.done);
        let title = self.title(id).to_owned();
        self.current = Some(Current::new(id.clone(), title, at));
    }

    fn end(
        &mut self,
        status: CodonStatus,
        end: &EndMetadata,
        at: Timestamp,
        said: &mut SafeText,
    ) -> fmt::Result {
        let Some(current) = self.current.take() else {
            return Ok(());
        };
        if status != CodonStatus::Failed {
            self.done += 1;
        }
        let limit = end.failure_reason.as_ref().and_then(|reason| reason.retry_at);
        let limit = limit.filter(|limit| *limit > at);
        self.doing = limit.map(|limit| LongOperation::limit(at, limit));
        current.say_end(status, end, at, said)
    }
}

/// Whether what took its time has come to its end with this.
fn ends_what_is_done(event: &Event) -> bool {
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
