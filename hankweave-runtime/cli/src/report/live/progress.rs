//! How far a run has come, as its events tell it.

use std::collections::VecDeque;
use std::fmt::{self, Write};
use std::time::Duration;

use anstyle::Style;
use hankweave_core::agent::{FailureReason, InterruptedBy};
use hankweave_core::budget::{Ceiling, CeilingUse};
use hankweave_core::codon::{BudgetExceeded, CheckpointType, CodonStatus, LoopContext};
use hankweave_core::cost::{TokenUsage, Usd};
use hankweave_core::document::{HankweaveState, PlanEntry, StartingConditions};
use hankweave_core::event::StateEvent;
use hankweave_core::id::{CheckpointSha, CodonId, SentinelId};
use hankweave_core::thread::{self, ThreadCodon};
use hankweave_core::time::Timestamp;
use hankweave_core::wire::{AgentAction, Event, FileAction, JournalEntry};
use hankweave_runtime::CodonSummary;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::Known;
use crate::report::colours::style_of;
use crate::report::words::{at_its_budget, budget, duration, excerpt, say, standing, tokens};
use crate::screen::Text;

/// How many lines of what runs are kept, to be said when it fails.
const KEPT: usize = 20;

#[derive(Debug, Default)]
pub(super) struct Progress {
    pub(super) known: Known,
    /// When the run began.
    pub(super) began: Option<Timestamp>,
    pub(super) plan: Vec<Planned>,
    /// How many entries of the plan are done; the current one is behind them.
    pub(super) done: usize,
    pub(super) current: Option<Current>,
    /// What all runs have cost so far, and what of that belongs to runs that are not continued.
    spent: Usd,
    uncounted: Usd,
    /// Something has cost more than is known.
    pub(super) is_lower_bound: bool,
    /// The codons that a rollback is about to take back, newest first.
    leaving: Vec<CodonId>,
    /// The end of a usage limit that the run waits for.
    pub(super) limited_until: Option<Timestamp>,
}

/// A codon that comes or has come.
#[derive(Debug)]
pub(super) struct Planned {
    pub(super) id: CodonId,
    pub(super) title: String,
}

/// The codon that has begun last and has not ended.
#[derive(Debug)]
pub(super) struct Current {
    id: CodonId,
    pub(super) title: String,
    pub(super) began: Timestamp,
    pub(super) status: CodonStatus,
    cost: Usd,
    /// What its sentinels have cost besides.
    of_sentinels: Usd,
    /// It has cost more than is known.
    pub(super) is_lower_bound: bool,
    pub(super) usage: TokenUsage,
    checkpoint: Option<CheckpointSha>,
    /// What it said and did last, newest last.
    pub(super) lines: VecDeque<String>,
    /// What each of its sentinels said last, the one that spoke last at the end.
    pub(super) sentinels: Vec<(SentinelId, String)>,
}

/// What the metadata of an end may tell.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct EndMetadata {
    failure_reason: Option<FailureReason>,
    budget_exceeded: Option<BudgetExceeded>,
}

impl EndMetadata {
    fn of(metadata: Option<&Map<String, Value>>) -> Self {
        let end = metadata.map(Self::deserialize);
        end.and_then(Result::ok).unwrap_or_default()
    }

    fn interrupted_by(&self) -> Option<InterruptedBy> {
        self.failure_reason.as_ref()?.interruption()
    }
}

impl Progress {
    pub(super) fn new(known: Known) -> Self {
        Self {
            known,
            ..Self::default()
        }
    }

    /// Where the run begins, or where it stands when somebody comes to look.
    pub(super) fn begin(&mut self, state: &HankweaveState) {
        self.spent = state.total_spend();
        self.uncounted = self
            .spent
            .saturating_sub(CeilingUse::of(Duration::ZERO, Ceiling::default(), state).spent());
        self.plan = state
            .execution_plan
            .iter()
            .map(|entry| self.planned(entry))
            .collect();
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

    /// What people call a codon.
    fn title<'a>(&'a self, id: &'a CodonId) -> &'a str {
        self.place(id)
            .map_or(id.as_str(), |place| &self.plan[place].title)
    }

    /// What counts against the ceiling.
    pub(super) fn counted(&self) -> Usd {
        self.spent.saturating_sub(self.uncounted)
    }

    /// The entries of the plan behind the current one.
    pub(super) fn coming(&self) -> &[Planned] {
        let first = self.done + usize::from(self.current.is_some());
        self.plan.get(first..).unwrap_or_default()
    }

    /// Takes an event in; returns what stays on the terminal because of it.
    pub(super) fn event(&mut self, entry: &JournalEntry) -> Text {
        let mut said = Text::default();
        // Writing to a text cannot fail.
        let _ = self.take(entry, &mut said);
        said
    }

    fn take(&mut self, entry: &JournalEntry, said: &mut Text) -> fmt::Result {
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
                ..
            } => {
                if let Some(current) = &mut self.current {
                    (current.cost, current.is_lower_bound) =
                        (*total_cost, *cost_is_lower_bound == Some(true));
                }
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
                self.keep(other);
                Ok(())
            }
        }
    }

    fn transition(&mut self, event: &StateEvent, at: Timestamp, said: &mut Text) -> fmt::Result {
        match event {
            StateEvent::RunStarted {
                starting_conditions, ..
            } => {
                self.began = Some(at);
                if let StartingConditions::Fresh { .. } = starting_conditions {
                    self.uncounted = self.spent;
                }
            }
            StateEvent::PlanReplaced { execution_plan } => {
                self.plan = execution_plan.iter().map(|entry| self.planned(entry)).collect();
            }
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

    fn planned(&self, entry: &PlanEntry) -> Planned {
        let name = entry.codon.name().unwrap_or(entry.codon_id.as_str());
        Planned {
            id: entry.codon_id.clone(),
            title: match &entry.loop_context {
                Some(place) => format!("{name}, {}", self.turn(place)),
                None => name.to_owned(),
            },
        }
    }

    /// `3 of at most 10`
    fn turn(&self, place: &LoopContext) -> String {
        let turn = place.iteration + 1;
        match self.known.loops.get(&place.loop_id) {
            Some(most) => format!("{turn} of at most {most}"),
            None => format!("iteration {turn}"),
        }
    }

    fn start(&mut self, id: &CodonId, at: Timestamp) {
        self.done = self.place(id).unwrap_or(self.done);
        let title = self.title(id).to_owned();
        self.limited_until = None;
        self.current = Some(Current {
            id: id.clone(),
            title,
            began: at,
            status: CodonStatus::Preparing,
            cost: Usd::ZERO,
            of_sentinels: Usd::ZERO,
            is_lower_bound: false,
            usage: TokenUsage::ZERO,
            checkpoint: None,
            lines: VecDeque::new(),
            sentinels: Vec::new(),
        });
    }

    fn end(&mut self, status: CodonStatus, end: &EndMetadata, at: Timestamp, said: &mut Text) -> fmt::Result {
        let Some(current) = self.current.take() else {
            return Ok(());
        };
        if status != CodonStatus::Failed {
            self.done += 1;
        }
        let limit = end.failure_reason.as_ref().and_then(|reason| reason.retry_at);
        self.limited_until = limit.filter(|limit| *limit > at);
        current.say_end(status, end, at, said)
    }

    /// Keeps what the codon that runs said or did.
    fn keep(&mut self, event: &Event) {
        let Some(current) = &mut self.current else { return };
        if let Some((sentinel, words)) = words_of_sentinel(event) {
            current.sentinels.retain(|(known, _)| known != sentinel);
            current.sentinels.push((sentinel.clone(), words));
        } else if let Some(line) = line_of(event) {
            let own = format!("{}: ", current.id);
            current
                .lines
                .push_back(line.strip_prefix(&own).unwrap_or(&line).to_owned());
            if current.lines.len() > KEPT {
                current.lines.pop_front();
            }
        }
    }
}

impl Current {
    fn transition(&mut self, event: &StateEvent) {
        match event {
            StateEvent::CodonTransitioned { to, .. } => self.status = *to,
            StateEvent::CostsIncremented { tokens_delta, .. } => self.usage += *tokens_delta,
            StateEvent::CodonFinalCostSet {
                final_cost,
                final_tokens,
                ..
            } => (self.cost, self.usage) = (*final_cost, *final_tokens),
            StateEvent::SentinelStatesUpdated { total_cost, .. } => self.of_sentinels = *total_cost,
            StateEvent::CheckpointCreated {
                sha, checkpoint_type, ..
            } if *checkpoint_type != CheckpointType::RigSetup => self.checkpoint = Some(sha.clone()),
            _ => {}
        }
    }

    /// What the codon has cost so far, with its sentinels.
    pub(super) fn told_cost(&self) -> String {
        (self.cost + self.of_sentinels).told(self.is_lower_bound)
    }

    fn say_end(&self, status: CodonStatus, end: &EndMetadata, at: Timestamp, said: &mut Text) -> fmt::Result {
        let interrupted = end.interrupted_by();
        let mark = match status {
            CodonStatus::Completed => "✓",
            CodonStatus::Failed if interrupted.is_none() => "✗",
            _ => "■",
        };
        let outcome = match status {
            CodonStatus::Completed => String::new(),
            other => format!("{}, ", standing(other, interrupted)),
        };
        let time = format!("{outcome}{}", duration(at.since(self.began)));
        let (cost, used) = (self.told_cost(), tokens(self.usage.total()));
        let checkpoint = self.checkpoint.as_ref().map_or("", |sha| sha.short());
        said.styled(style_of(status, interrupted), mark)?;
        writeln!(
            said,
            " {:<24} {time:>11} {cost:>9} {used:>8} tokens  {checkpoint}",
            self.title
        )?;
        if let Some(exceeded) = end.budget_exceeded {
            writeln!(said, "    {}", at_its_budget(status, exceeded))?;
        }
        let message = end
            .failure_reason
            .as_ref()
            .and_then(|reason| reason.message.as_deref());
        if let Some(message) = message {
            writeln!(said, "    {message}")?;
        }
        if status == CodonStatus::Failed && interrupted.is_none() {
            for line in &self.lines {
                said.styled(Style::new().dimmed(), format_args!("    │ {line}"))?;
                writeln!(said)?;
            }
        }
        Ok(())
    }
}

/// What stands beside a sentinel, which is there from the moment it watches.
fn words_of_sentinel(event: &Event) -> Option<(&SentinelId, String)> {
    Some(match event {
        Event::SentinelLoaded { sentinel_id, .. } => (sentinel_id, "watches".to_owned()),
        Event::SentinelOutput {
            sentinel_id, content, ..
        } => {
            let said = content
                .as_str()
                .map_or_else(|| content.to_string(), str::to_owned);
            (sentinel_id, excerpt(&said))
        }
        Event::SentinelError {
            sentinel_id, message, ..
        } => (sentinel_id, format!("failed: {}", excerpt(message))),
        _ => return None,
    })
}

/// What stands on the screen while a codon runs.
fn line_of(event: &Event) -> Option<String> {
    match event {
        Event::AssistantAction {
            action: AgentAction::Thinking,
            content,
            ..
        } => Some(format!("thinks: {}", excerpt(content))),
        Event::FileUpdated { path, action, .. } => Some(match action {
            FileAction::Created => format!("+ {path}"),
            FileAction::Modified => format!("~ {path}"),
            FileAction::Deleted => format!("- {path}"),
        }),
        Event::RollbackProgress {
            current_step,
            total_steps,
            message,
        } => Some(format!("{current_step} of {total_steps}: {message}")),
        Event::CodonCompleted { .. } => None,
        other => say(other),
    }
}
