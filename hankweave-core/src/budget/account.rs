//! Usage of money and time up to a moment of a history of runs, computed from the records of their codons (HANK-39).
//!
//! The history is all runs from the newest back to the first one that it continues. The thread is the part that counts: codons that a rollback undid
//! are not in it.

use std::collections::HashMap;
use std::time::Duration;

use crate::codon::CodonExecution;
use crate::cost::Usd;
use crate::document::{HankweaveState, RunRecord, RunStatus};
use crate::hank::LoopConfig;
use crate::id::{CodonId, RunId};
use crate::thread::{ThreadItem, runs_of_history, walk};

/// A document with the thread that ends in its newest run; computes the usage at any moment of the thread.
pub(super) struct ThreadLedger<'a> {
    state: &'a HankweaveState,
    /// The codons of the thread, newest first.
    thread: Vec<ThreadItem<'a>>,
    /// Number of runs, from the newest, that belong to the history.
    run_count: usize,
}

/// Usage up to a moment.
///
/// The totals include codons that a rollback undid: their money and time stay used. The attempts are those of the thread alone, so a codon or loop
/// that runs again after a rollback has its own limits again.
#[derive(Debug, Default)]
pub(super) struct Account {
    /// Attempts of each codon of the thread; inside a loop, of each iteration.
    codons: HashMap<CodonId, Attempts>,
    /// Attempts by the id in hank.json, over all iterations.
    configured: HashMap<Box<str>, Attempts>,
    /// Spending of all runs of the history.
    pub(super) spent: Usd,
    /// Whether more was spent than is known.
    pub(super) is_lower_bound: bool,
    /// Time in which codons were at work (HANK-35).
    pub(super) elapsed: Duration,
}

/// Spending, whether it is a lower bound, and time at work.
type Totals = (Usd, bool, Duration);

/// Usage of all attempts of a codon.
#[derive(Debug, Clone, Copy, Default)]
struct Attempts {
    /// Cost of the agents alone, for the limits of one codon (its own, or its share outside of loops), which sentinels do not use up.
    of_agents: Usd,
    /// Cost of agents and sentinels, for the limits of loops and of the hank.
    spent: Usd,
    /// Time at work.
    time: Duration,
}

impl Attempts {
    fn add(&mut self, record: &ThreadItem<'_>) {
        self.of_agents += record.codon.agent_cost();
        self.spent += record.codon.spend();
        self.time = self.time.saturating_add(time_at_work(record.codon));
    }
}

impl<'a> ThreadLedger<'a> {
    pub(super) fn new(state: &'a HankweaveState) -> Self {
        Self {
            state,
            thread: walk(state, None).collect(),
            run_count: runs_of_history(state),
        }
    }

    /// Returns the usage up to now.
    pub(super) fn now(&self) -> Account {
        let mut account = Account {
            codons: HashMap::with_capacity(self.thread.len()),
            configured: HashMap::with_capacity(self.thread.len()),
            ..Account::default()
        };
        self.thread.iter().for_each(|record| account.count(record));
        // The thread lacks the codons that a rollback undid, so the totals are counted again over all runs.
        account.set_totals((Usd::ZERO, false, Duration::ZERO));
        self.history_runs().for_each(|run| account.add_run(run));
        account
    }

    /// Visits the records of the thread, oldest first, each with the usage before it.
    pub(super) fn each_record(&self, mut visit: impl FnMut(&ThreadItem<'a>, &Account)) {
        let before_runs = self.before_runs();
        let mut account = Account::default();
        for record in self.thread.iter().rev() {
            // A run starts here, as the thread has the codons of each run from the first one on. The totals become those of all earlier runs, with the
            // codons that a rollback undid and that the thread lacks.
            if record.codon_index_in_run == 0 {
                let before = before_runs.get(&record.run.run_id);
                let before = before.copied().unwrap_or_default();
                account.set_totals(before);
            }
            visit(record, &account);
            account.count(record);
        }
    }

    /// Returns the totals before each run of the history.
    fn before_runs(&self) -> HashMap<&RunId, Totals> {
        let mut account = Account::default();
        let mut before = HashMap::with_capacity(self.run_count);
        let runs: Vec<&RunRecord> = self.history_runs().collect();
        for run in runs.into_iter().rev() {
            let totals = (account.spent, account.is_lower_bound, account.elapsed);
            before.insert(&run.run_id, totals);
            account.add_run(run);
        }
        before
    }

    /// Whether a crash interrupted a codon of the history, so that its time at work is not wholly known.
    pub(super) fn has_lost_time(&self) -> bool {
        let mut crashed = self.history_runs().filter(|run| run.status == RunStatus::Crashed);
        crashed.any(|run| run.codons.iter().any(|codon| codon.crashed()))
    }

    fn history_runs(&self) -> impl Iterator<Item = &RunRecord> {
        self.state.runs.iter().take(self.run_count).map(AsRef::as_ref)
    }
}

impl Account {
    /// Adds a record of the thread to the attempts and to the totals.
    pub(super) fn count(&mut self, record: &ThreadItem<'_>) {
        let id = record.codon.codon_id();
        self.codons.entry(id.clone()).or_default().add(record);
        match self.configured.get_mut(id.configured()) {
            Some(attempts) => attempts.add(record),
            None => self
                .configured
                .entry(id.configured().into())
                .or_default()
                .add(record),
        }
        self.add_codon(record.codon);
    }

    fn add_codon(&mut self, codon: &CodonExecution) {
        self.spent += codon.spend();
        self.is_lower_bound |= codon.cost_is_lower_bound();
        self.elapsed = self.elapsed.saturating_add(time_at_work(codon));
    }

    fn add_run(&mut self, run: &RunRecord) {
        run.codons.iter().for_each(|codon| self.add_codon(codon));
    }

    fn set_totals(&mut self, totals: Totals) {
        (self.spent, self.is_lower_bound, self.elapsed) = totals;
    }

    /// Returns the cost of the agents in all attempts at this codon; inside a loop, in its iteration.
    pub(super) fn dollars_of_codon(&self, id: &CodonId) -> Usd {
        self.codons.get(id).copied().unwrap_or_default().of_agents
    }

    /// Returns the cost of a codon of hank.json in all iterations, with its sentinels.
    pub(super) fn dollars_of_configured(&self, id: &str) -> Usd {
        self.configured.get(id).copied().unwrap_or_default().spent
    }

    /// Returns the cost of the codons of this loop, with their sentinels.
    pub(super) fn dollars_of_loop(&self, found: &LoopConfig) -> Usd {
        let ids = found.codons.iter().map(|codon| codon.id.as_str());
        ids.map(|id| self.dollars_of_configured(id)).sum()
    }

    /// Returns how long the attempts at this codon took.
    pub(super) fn time_of_codon(&self, id: &CodonId) -> Duration {
        self.codons.get(id).copied().unwrap_or_default().time
    }

    /// Returns how long the codons of this loop took. Ids are unique in the whole hank.
    pub(super) fn time_of_loop(&self, found: &LoopConfig) -> Duration {
        let ids = found.codons.iter().map(|codon| codon.id.as_str());
        let times = ids.filter_map(|id| self.configured.get(id));
        times.fold(Duration::ZERO, |sum, attempts| sum.saturating_add(attempts.time))
    }
}

/// Returns the time at work of a codon (HANK-35): zero for an open one, the known part for one that a crash interrupted.
#[must_use]
pub fn time_at_work(codon: &CodonExecution) -> Duration {
    codon.duration().unwrap_or_default()
}
