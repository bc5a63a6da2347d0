//! Attempts of a report: each start of a codon, those that count no longer included.

use std::collections::BTreeMap;

use hankweave_core::cost::Usd;
use hankweave_core::hank::agent_words;
use hankweave_core::id::{CodonId, RunId};
use hankweave_core::thread::ThreadCodon;
use hankweave_core::time::Timestamp;
use hankweave_core::view::{AttemptState, AttemptView, RunView};
use serde::Serialize;

use crate::report::codon_standing;
use crate::status::StatusView;

/// One start of a codon.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct AttemptReport {
    pub(super) codon: CodonId,
    /// Number of the start of the codon, from 1.
    pub(super) number: usize,
    /// Run that made it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) run: Option<RunId>,
    pub(super) began: Timestamp,
    /// State in one word.
    pub(super) state: String,
    /// A rollback undid it, or a later run repeats it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) undone: bool,
    /// Agent with script and model, where the codon has a choice of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) agent: Option<String>,
    /// Why it did not succeed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) why: Option<String>,
    pub(super) worked_ms: u64,
    /// A crash interrupted it, and nobody knows when.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) time_is_unknown: bool,
    pub(super) cost: Usd,
    pub(super) cost_is_lower_bound: bool,
}

/// Returns the newest `most` attempts in their order: those that count by the document, and those that the events have undone.
pub(super) fn attempts(status: &StatusView<'_>, heard: &RunView, most: usize) -> Vec<AttemptReport> {
    let counting = status.thread.codons.iter();
    let counting = counting.map(|entry| AttemptReport::of_record(status, entry));
    let undone = heard.undone.newest.values();
    let undone = undone.filter_map(|undone| AttemptReport::of_undone(&undone.attempt));
    let mut attempts: Vec<AttemptReport> = counting.chain(undone).collect();
    attempts.sort_by_key(|attempt| attempt.began);
    let mut numbers: BTreeMap<CodonId, usize> = BTreeMap::new();
    for attempt in &mut attempts {
        let number = numbers.entry(attempt.codon.clone()).or_default();
        *number += 1;
        attempt.number = *number;
    }
    attempts.split_off(attempts.len().saturating_sub(most))
}

impl AttemptReport {
    fn of_record(status: &StatusView<'_>, entry: &ThreadCodon) -> Self {
        let codon = &*entry.codon;
        let is_open = !codon.is_terminal();
        let time_is_unknown = codon.crashed() || (is_open && !status.live);
        let worked = match is_open {
            _ if time_is_unknown => None,
            true => Some(status.elapsed(codon)),
            false => codon.duration(),
        };
        let reason = codon.failure_reason();
        Self {
            codon: codon.codon_id().clone(),
            number: 0,
            run: Some(entry.run_id.clone()),
            began: *codon.start_time(),
            state: codon_standing(codon, status.process()).to_owned(),
            undone: false,
            agent: codon.chosen_agent().map(|chosen| chosen.words()),
            why: reason.and_then(|reason| reason.words()).map(str::to_owned),
            worked_ms: worked.map_or(0, |worked| u64::try_from(worked.as_millis()).unwrap_or(u64::MAX)),
            time_is_unknown,
            cost: codon.spend(),
            cost_is_lower_bound: codon.cost_is_lower_bound(),
        }
    }

    fn of_undone(attempt: &AttemptView) -> Option<Self> {
        let began = attempt.began?;
        let worked = attempt.worked(attempt.ended.unwrap_or(began));
        let has_choice = attempt.instead.is_some() || attempt.replaced_by.is_some();
        let agent = attempt.agent.as_deref().filter(|_| has_choice);
        Some(Self {
            codon: attempt.id.clone()?,
            number: 0,
            run: attempt.run.clone(),
            began,
            state: attempt.state.as_str().to_owned(),
            undone: true,
            agent: agent.map(|agent| agent_words(agent, None, attempt.model.as_deref())),
            why: attempt.why.as_ref().and_then(|why| why.message.clone()),
            worked_ms: u64::try_from(worked.as_millis()).unwrap_or(u64::MAX),
            time_is_unknown: attempt.state == AttemptState::Crashed,
            cost: attempt.spent(),
            cost_is_lower_bound: attempt.at_least,
        })
    }
}
