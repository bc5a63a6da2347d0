//! Attempts of each codon, summed: the rows that status and report show of a codon.

use std::collections::HashMap;
use std::time::Duration;

use hankweave_core::codon::{CodonExecution, CodonStatus};
use hankweave_core::cost::{TokenUsage, Usd};
use hankweave_core::discovery::ServerLockRecord;
use hankweave_core::id::CodonId;
use hankweave_core::thread::ExecutionThread;
use hankweave_core::time::Timestamp;
use hankweave_runtime::CodonSummary;

use super::StatusView;
use crate::report::{ColumnTime, elapsed};

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
        AttemptTotals::of(self.thread, self.process_now())
    }

    /// Returns the figures of one attempt.
    pub(crate) fn totals_of(&self, codon: &CodonExecution) -> AttemptTotals {
        let mut totals = AttemptTotals::default();
        totals.add(codon, self.process_now());
        totals
    }

    fn process_now(&self) -> Option<(Option<&ServerLockRecord>, Timestamp)> {
        self.live.then_some((self.holder.as_ref(), self.now))
    }
}

impl AttemptTotals {
    /// Returns the sums by codon; `live` is the process of the directory with the time now, if there is one.
    pub(crate) fn of<'t>(
        thread: &'t ExecutionThread,
        live: Option<(Option<&ServerLockRecord>, Timestamp)>,
    ) -> HashMap<&'t CodonId, Self> {
        let mut totals: HashMap<&CodonId, Self> = HashMap::new();
        for entry in &thread.codons {
            totals
                .entry(entry.codon.codon_id())
                .or_default()
                .add(&entry.codon, live);
        }
        totals
    }

    fn add(&mut self, codon: &CodonExecution, live: Option<(Option<&ServerLockRecord>, Timestamp)>) {
        let has_crashed = codon.crashed() || (!codon.is_terminal() && live.is_none());
        let worked = match (codon.end_time(), live) {
            _ if has_crashed => Duration::ZERO,
            (None, Some((holder, now))) => elapsed(codon, holder, now),
            _ => codon.duration().unwrap_or_default(),
        };
        self.count += 1;
        self.cost += codon.spend();
        // An agent that works may be in the middle of an answer.
        self.is_lower_bound |= codon.cost_is_lower_bound() || codon.status() == CodonStatus::Running;
        self.tokens += codon.agent_tokens();
        self.worked += worked;
        self.has_lost_time |= has_crashed;
    }

    /// Returns the time at work for a column.
    pub(crate) fn time(&self) -> ColumnTime {
        ColumnTime {
            known: (!self.has_lost_time || !self.worked.is_zero()).then_some(self.worked),
            is_lower_bound: self.has_lost_time,
        }
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
