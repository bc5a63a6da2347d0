//! Attempts of each codon, summed: the rows that status and report show of a codon.

use std::collections::HashMap;
use std::time::Duration;

use hankweave_core::codon::CodonStatus;
use hankweave_core::cost::{TokenUsage, Usd};
use hankweave_core::id::CodonId;
use hankweave_core::thread::ThreadCodon;
use hankweave_runtime::CodonSummary;

use super::StatusView;

/// Sum of the attempts of a codon that count.
#[derive(Debug, Default)]
pub(crate) struct AttemptTotals {
    pub(crate) count: usize,
    pub(crate) cost: Usd,
    pub(crate) is_lower_bound: bool,
    pub(crate) tokens: TokenUsage,
    /// Time at work that is known.
    pub(crate) worked: Duration,
    /// A crash took part of the time, so that it is unknown.
    pub(crate) has_lost_time: bool,
}

impl StatusView<'_> {
    /// Returns the sums by codon.
    pub(crate) fn attempts(&self) -> HashMap<&CodonId, AttemptTotals> {
        let mut totals: HashMap<&CodonId, AttemptTotals> = HashMap::new();
        for entry in &self.thread.codons {
            let sum = totals.entry(entry.codon.codon_id()).or_default();
            self.add(sum, entry);
        }
        totals
    }

    fn add(&self, sum: &mut AttemptTotals, entry: &ThreadCodon) {
        let codon = &*entry.codon;
        let has_crashed = codon.crashed() || (!codon.is_terminal() && !self.live);
        let worked = match codon.end_time() {
            _ if has_crashed => Duration::ZERO,
            Some(_) => codon.duration().unwrap_or_default(),
            None => self.elapsed(codon),
        };
        sum.count += 1;
        sum.cost += codon.spend();
        // An agent that works may be in the middle of an answer.
        sum.is_lower_bound |= codon.cost_is_lower_bound() || codon.status() == CodonStatus::Running;
        sum.tokens += codon.agent_tokens();
        sum.worked += worked;
        sum.has_lost_time |= has_crashed;
    }
}

impl AttemptTotals {
    /// Returns the time at work; `None` where nothing of it is known.
    pub(crate) fn known_time(&self) -> Option<Duration> {
        (!self.has_lost_time || !self.worked.is_zero()).then_some(self.worked)
    }

    /// Returns the summary of the newest attempt with the figures of all of them.
    pub(crate) fn over(&self, newest: CodonSummary) -> CodonSummary {
        CodonSummary {
            cost: self.cost,
            cost_is_lower_bound: self.is_lower_bound,
            tokens: self.tokens,
            duration: self.worked,
            ..newest
        }
    }
}
