//! Attempts of each codon, summed: the rows that status and report show of a codon.

use std::collections::HashMap;
use std::time::Duration;

use hankweave_core::budget::time_at_work;
use hankweave_core::codon::CodonExecution;
use hankweave_core::cost::{TokenUsage, Usd};
use hankweave_core::discovery::ServerLockRecord;
use hankweave_core::id::CodonId;
use hankweave_core::thread::ExecutionThread;
use hankweave_runtime::CodonSummary;
use hankweave_runtime::world::clock::{Clock as _, SystemClock};

use super::StatusView;
use crate::terminal::report::{ColumnTime, elapsed};

/// Sum of the attempts of a codon that count.
#[derive(Debug, Default)]
pub(crate) struct AttemptTotals {
    pub(crate) count: usize,
    pub(crate) cost: Usd,
    /// More was spent than `cost`.
    pub(crate) is_lower_bound: bool,
    pub(crate) tokens: TokenUsage,
    /// More tokens were used than are known.
    pub(crate) tokens_are_lower_bound: bool,
    /// Time at work that is known.
    pub(crate) worked: Duration,
    /// A crash took part of the time, so that it is unknown.
    pub(crate) has_lost_time: bool,
}

/// Facts about the open codon of a directory, which has at most one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OpenCodon {
    /// A process works on it.
    pub(crate) is_live: bool,
    /// Its time at work, where known.
    pub(crate) worked: Duration,
}

impl OpenCodon {
    /// Returns the facts, with the time at work that the process of the directory measures; that is zero without an open codon or a process. `live` is
    /// `None` without a process, and `Some(None)` for one whose lock record is not known.
    pub(crate) fn of(thread: &ExecutionThread, live: Option<Option<&ServerLockRecord>>) -> Self {
        let mut codons = thread.codons.iter().map(|entry| &entry.codon);
        let open = codons.find(|codon| !codon.is_terminal()).zip(live);
        Self {
            is_live: live.is_some(),
            worked: open.map_or(Duration::ZERO, |(open, holder)| {
                elapsed(open, holder, SystemClock.now())
            }),
        }
    }
}

impl StatusView<'_> {
    /// Returns the sums by codon.
    pub(crate) fn attempts(&self) -> HashMap<&CodonId, AttemptTotals> {
        AttemptTotals::of(self.thread, self.open_codon())
    }

    /// Returns the figures of one attempt.
    pub(crate) fn totals_of(&self, codon: &CodonExecution) -> AttemptTotals {
        let mut totals = AttemptTotals::default();
        totals.add(codon, self.open_codon());
        totals
    }

    fn open_codon(&self) -> OpenCodon {
        let open = OpenCodon::of(self.thread, self.live.then_some(self.holder.as_ref()));
        OpenCodon {
            worked: self.lived.unwrap_or(open.worked),
            ..open
        }
    }
}

impl AttemptTotals {
    /// Returns the sums by codon.
    pub(crate) fn of(thread: &ExecutionThread, open: OpenCodon) -> HashMap<&CodonId, Self> {
        let mut totals: HashMap<&CodonId, Self> = HashMap::new();
        for entry in &thread.codons {
            totals
                .entry(entry.codon.codon_id())
                .or_default()
                .add(&entry.codon, open);
        }
        totals
    }

    fn add(&mut self, codon: &CodonExecution, open: OpenCodon) {
        let worked = match codon.is_terminal() {
            true => time_at_work(codon),
            false => open.worked,
        };
        self.count += 1;
        self.cost += codon.spend();
        self.is_lower_bound |= codon.spends_at_least();
        self.tokens += codon.agent_tokens();
        self.tokens_are_lower_bound |= codon.uses_at_least();
        self.worked += worked;
        self.has_lost_time |= codon.crashed() || (!codon.is_terminal() && !open.is_live);
    }

    /// Returns the time at work for a column.
    pub(crate) fn time(&self) -> ColumnTime {
        ColumnTime::of(self.worked, self.has_lost_time)
    }

    /// Returns the summary of the newest attempt with the figures of all of them.
    pub(crate) fn over(&self, newest: CodonSummary) -> CodonSummary {
        CodonSummary {
            cost: self.cost,
            cost_is_lower_bound: self.is_lower_bound,
            tokens: self.tokens,
            tokens_are_lower_bound: self.tokens_are_lower_bound,
            duration: self.worked,
            ..newest
        }
    }
}
