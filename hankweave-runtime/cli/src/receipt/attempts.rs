//! Attempts of a report: each start of a codon, also those that no longer count because they were undone or run again.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use hankweave_core::agent::FailureReason;
use hankweave_core::codon::{BudgetExceeded, CodonExecution, CodonStatus};
use hankweave_core::cost::Usd;
use hankweave_core::hank::agent_words;
use hankweave_core::id::{CodonId, RunId};
use hankweave_core::thread::ThreadCodon;
use hankweave_core::time::Timestamp;
use hankweave_core::view::{AttemptState, AttemptView};
use serde::Serialize;

use super::from_journal::{JournalFacts, millis};
use crate::status::{AttemptTotals, StatusView};
use crate::terminal::report::{AT_BUDGET, codon_standing, worked};
use crate::terminal::screen::offset_second;

/// State, time and cost of a codon, or of one attempt.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Outcome {
    /// State in one word.
    pub(super) state: String,
    /// Limit of its budget that it reached.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) budget_exceeded: Option<BudgetExceeded>,
    /// Why it did not succeed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) why: Option<String>,
    /// Time at work in milliseconds, as far as known.
    pub(super) worked_ms: u64,
    /// A crash interrupted it at an unknown time, so that it may have worked longer.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) time_is_unknown: bool,
    pub(super) cost: Usd,
    /// More was spent than is known.
    pub(super) cost_is_lower_bound: bool,
}

/// One start of a codon.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct AttemptReport {
    pub(super) codon: CodonId,
    /// Number among the attempts of the codon that count, from 1, as on the screen of the run; `None` for an attempt that no longer counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) number: Option<usize>,
    /// Run that made the attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) run: Option<RunId>,
    pub(super) began: Timestamp,
    /// A rollback undid the attempt, or a later run repeats it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) undone: bool,
    /// Agent with script and model; `None` if all attempts of the codon had one agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) agent: Option<String>,
    /// Name of the agent alone, by which its permissions are found.
    #[serde(skip)]
    pub(super) agent_name: Option<String>,
    /// Permissions of the agent in words, which `Receipt::new` adds if there is an `agent`; `None` if it may do everything.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) permissions: Option<String>,
    #[serde(flatten)]
    pub(super) outcome: Outcome,
}

/// Returns the newest `most` attempts in their order: from the document those that count, from the journal those that were undone.
pub(super) fn attempts(status: &StatusView<'_>, facts: &JournalFacts, most: usize) -> Vec<AttemptReport> {
    let counting = status.thread.codons.iter();
    let counting = counting.map(|entry| AttemptReport::of_record(status, entry));
    let undone = facts.view.undone.newest.values();
    let undone = undone.filter_map(|undone| AttemptReport::of_undone(&undone.attempt));
    let mut attempts: Vec<AttemptReport> = counting.chain(undone).collect();
    attempts.sort_by_key(|attempt| attempt.began);
    remove_common_agents(&mut attempts);
    let mut numbers: BTreeMap<CodonId, usize> = BTreeMap::new();
    for attempt in attempts.iter_mut().filter(|attempt| !attempt.undone) {
        let number = numbers.entry(attempt.codon.clone()).or_default();
        *number += 1;
        attempt.number = Some(*number);
    }
    attempts.split_off(attempts.len().saturating_sub(most))
}

impl AttemptReport {
    /// Returns `attempt 2`, or for one that no longer counts `an earlier attempt of 23:01:07 +01:00`.
    pub(super) fn name(&self) -> String {
        match self.number {
            Some(number) => format!("attempt {number}"),
            None => format!("an earlier attempt of {}", offset_second(self.began)),
        }
    }
}

/// Removes the agent from the attempts of each codon whose attempts all had one agent.
fn remove_common_agents(attempts: &mut [AttemptReport]) {
    let mut agents: BTreeMap<CodonId, BTreeSet<String>> = BTreeMap::new();
    for attempt in &*attempts {
        let known = agents.entry(attempt.codon.clone()).or_default();
        known.extend(attempt.agent.clone());
    }
    for attempt in attempts {
        attempt.agent = attempt.agent.take().filter(|_| agents[&attempt.codon].len() > 1);
    }
}

/// Whether this attempt crashed or is open, which is a crash as well if no process is at work.
pub(super) fn is_cut_off(codon: &CodonExecution) -> bool {
    codon.crashed() || !codon.is_terminal()
}

/// Returns why an attempt failed, with the end of the usage limit if it met one.
fn why(reason: &FailureReason) -> Option<String> {
    let words = reason.words()?;
    Some(match reason.retry_at {
        Some(ends_at) => format!("{words}, until {ends_at}"),
        None => words.to_owned(),
    })
}

impl Outcome {
    /// Returns the outcome of a recorded attempt, or of a codon with the `totals` of its attempts.
    pub(super) fn of(status: &StatusView<'_>, codon: &CodonExecution, totals: &AttemptTotals) -> Self {
        let reason = codon.failure_reason();
        Self {
            state: codon_standing(codon, status.process()).to_owned(),
            budget_exceeded: codon.budget_exceeded(),
            why: reason.and_then(why),
            worked_ms: millis(totals.worked),
            time_is_unknown: totals.has_lost_time,
            cost: totals.cost,
            cost_is_lower_bound: totals.is_lower_bound,
        }
    }

    /// Returns the state in words: `completed (budget reached)`.
    pub(super) fn words(&self) -> &str {
        match self.budget_exceeded {
            Some(_) if self.state == CodonStatus::Completed.as_str() => AT_BUDGET,
            _ => &self.state,
        }
    }

    /// Returns the time at work in words, where known.
    pub(super) fn time(&self) -> String {
        worked(Duration::from_millis(self.worked_ms), self.time_is_unknown)
    }
}

impl AttemptReport {
    /// Returns the agent with its permissions; `None` if all attempts of the codon had one agent.
    pub(super) fn agent_words(&self) -> Option<String> {
        let agent = self.agent.as_ref()?;
        Some(match &self.permissions {
            Some(permissions) => format!("{agent}, {permissions}"),
            None => agent.clone(),
        })
    }

    /// Returns an attempt that counts.
    fn of_record(status: &StatusView<'_>, entry: &ThreadCodon) -> Self {
        let codon = &*entry.codon;
        let totals = status.totals_of(codon);
        Self {
            codon: codon.codon_id().clone(),
            number: None,
            run: Some(entry.run_id.clone()),
            began: *codon.start_time(),
            undone: false,
            agent: codon.chosen_agent().map(|chosen| chosen.words()),
            agent_name: codon.chosen_agent().map(|chosen| chosen.agent.clone()),
            permissions: None,
            outcome: Outcome::of(status, codon, &totals),
        }
    }

    /// Returns an attempt that no longer counts; `None` if the journal lacks its start.
    fn of_undone(attempt: &AttemptView) -> Option<Self> {
        let began = attempt.began?;
        let crashed = attempt.state == AttemptState::Crashed;
        let worked = attempt.worked(attempt.ended.unwrap_or(began));
        let agent = attempt.agent.as_deref();
        Some(Self {
            codon: attempt.id.clone()?,
            number: None,
            run: attempt.run.clone(),
            began,
            undone: true,
            agent: agent.map(|agent| agent_words(agent, None, attempt.model.as_deref())),
            agent_name: attempt.agent.clone(),
            permissions: None,
            outcome: Outcome {
                state: attempt.state.as_str().to_owned(),
                budget_exceeded: None,
                why: attempt.why.as_ref().and_then(|why| why.message.clone()),
                worked_ms: millis(worked),
                time_is_unknown: crashed,
                cost: attempt.spent(),
                cost_is_lower_bound: attempt.at_least,
            },
        })
    }
}
