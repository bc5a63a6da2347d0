//! Usage before a moment of a history (HANK-39).

use std::collections::HashMap;
use std::time::Duration;

use crate::codon::CodonExecution;
use crate::cost::Usd;
use crate::document::{HankweaveState, RunRecord, RunStatus};
use crate::hank::LoopConfig;
use crate::id::{CodonId, RunId};
use crate::thread::{ThreadItem, walk};
use crate::time::Timestamp;

/// A document with the thread that ends in its newest run, and what was used at each of its moments.
pub(super) struct ThreadLedger<'a> {
    state: &'a HankweaveState,
    /// Newest first.
    thread: Vec<ThreadItem<'a>>,
    /// How many runs, from the newest, belong to this history: back to the first one of the thread.
    runs: usize,
    /// How long the newest run has lasted, if it is not over.
    lived: Duration,
}

/// Usage up to a moment.
///
/// Money and time stay used, also those of runs that a rollback left. A codon or a loop that runs again has
/// its own limits again: against those counts what is in the thread.
#[derive(Debug, Default)]
pub(super) struct Account {
    /// Attempts of each codon of the thread; inside a loop, of each iteration.
    codons: HashMap<CodonId, Attempts>,
    /// Attempts by the id in hank.json, over all iterations.
    configured: HashMap<Box<str>, Attempts>,
    pub(super) spent: Usd,
    /// Whether more was spent than is known.
    pub(super) is_lower_bound: bool,
    pub(super) elapsed: Duration,
}

/// Usage of all attempts of a codon.
#[derive(Debug, Clone, Copy, Default)]
struct Attempts {
    /// Cost of the agents alone.
    of_agents: Usd,
    spent: Usd,
    time: Duration,
}

impl Attempts {
    fn add(&mut self, record: &ThreadItem<'_>) {
        self.of_agents += record.codon.agent_cost();
        self.spent += record.codon.spend();
        self.time = self.time.saturating_add(took(record));
    }
}

impl<'a> ThreadLedger<'a> {
    pub(super) fn new(state: &'a HankweaveState, lived: Duration) -> Self {
        Self {
            state,
            thread: walk(state, None).collect(),
            runs: runs_of_history(state),
            lived,
        }
    }

    /// Everything up to now.
    pub(super) fn now(&self) -> Account {
        let mut account = Account::default();
        self.thread.iter().for_each(|record| account.count(record));
        // Runs that a rollback left are not in the thread.
        account.spent = Usd::ZERO;
        account.is_lower_bound = false;
        self.runs().for_each(|run| account.add_run(run, self.lived(run)));
        account
    }

    /// Visits the records of the thread, oldest first, each with everything before it.
    pub(super) fn each_record(&self, mut visit: impl FnMut(&ThreadItem<'a>, &Account)) {
        let before_runs = self.before_runs();
        let mut account = Account::default();
        let mut older = Duration::ZERO;
        for record in self.thread.iter().rev() {
            // The thread has the codons of a run from its first one on.
            if record.codon_index_in_run == 0 {
                let before = before_runs.get(&record.run.run_id);
                let before = before.copied().unwrap_or_default();
                (account.spent, account.is_lower_bound, older) = before;
            }
            account.elapsed = older.saturating_add(begun(record));
            visit(record, &account);
            account.count(record);
        }
    }

    /// Spending, whether it is a lower bound, and the time of the runs before each run of the history.
    fn before_runs(&self) -> HashMap<&RunId, (Usd, bool, Duration)> {
        let mut account = Account::default();
        let mut before = HashMap::with_capacity(self.runs);
        let runs: Vec<&RunRecord> = self.runs().collect();
        for run in runs.into_iter().rev() {
            before.insert(
                &run.run_id,
                (account.spent, account.is_lower_bound, account.elapsed),
            );
            account.add_run(run, self.lived(run));
        }
        before
    }

    fn runs(&self) -> impl Iterator<Item = &RunRecord> {
        self.state.runs.iter().take(self.runs).map(AsRef::as_ref)
    }

    /// How long a run lasted. Measured time comes first: a clock that was set makes the recorded times wrong.
    ///
    /// The time at which a crash was noticed means nothing, so a crashed run lasted until its last record.
    fn lived(&self, run: &RunRecord) -> Duration {
        let measured = || codons(run).filter_map(CodonExecution::run_time).max();
        let by_times = |end: Timestamp| measured().unwrap_or_else(|| end.since(run.start_time));
        match run.status {
            RunStatus::Running => self.lived,
            RunStatus::Completed | RunStatus::Failed => {
                by_times(run.end_time.unwrap_or_else(|| last_sign(run)))
            }
            RunStatus::Crashed => by_times(last_sign(run)),
        }
    }
}

impl Account {
    /// Adds a record of the thread.
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
    }

    fn add_run(&mut self, run: &RunRecord, lived: Duration) {
        codons(run).for_each(|codon| self.add_codon(codon));
        self.elapsed = self.elapsed.saturating_add(lived);
    }

    /// The cost of the tries of this codon; inside a loop, in its iteration.
    pub(super) fn dollars_of_codon(&self, id: &CodonId) -> Usd {
        self.codons.get(id).copied().unwrap_or_default().of_agents
    }

    /// The cost of a codon of hank.json, in all iterations.
    pub(super) fn dollars_of_configured(&self, id: &str) -> Usd {
        self.configured.get(id).copied().unwrap_or_default().spent
    }

    /// The cost of the codons of this loop.
    pub(super) fn dollars_of_loop(&self, found: &LoopConfig) -> Usd {
        let ids = found.codons.iter().map(|codon| codon.id.as_str());
        ids.map(|id| self.dollars_of_configured(id)).sum()
    }

    /// How long the tries of this codon took.
    pub(super) fn time_of_codon(&self, id: &CodonId) -> Duration {
        self.codons.get(id).copied().unwrap_or_default().time
    }

    /// How long the codons of this loop took. Ids are unique in the whole hank.
    pub(super) fn time_of_loop(&self, found: &LoopConfig) -> Duration {
        let ids = found.codons.iter().map(|codon| codon.id.as_str());
        let times = ids.filter_map(|id| self.configured.get(id));
        times.fold(Duration::ZERO, |sum, attempts| sum.saturating_add(attempts.time))
    }
}

fn codons(run: &RunRecord) -> impl Iterator<Item = &CodonExecution> {
    run.codons.iter().map(AsRef::as_ref)
}

/// How long a codon took; zero for one that a crash interrupted, for which that is unknown.
pub(super) fn took(walked: &ThreadItem<'_>) -> Duration {
    let end = walked.codon.end_time().copied();
    let was_cut_off = end.is_some_and(|end| was_cut_off(walked.run, end));
    let took = walked.codon.duration().filter(|_| !was_cut_off);
    took.unwrap_or_default()
}

/// How long the run of a codon had lasted when the codon began.
fn begun(record: &ThreadItem<'_>) -> Duration {
    let codon = record.codon;
    let measured = codon.run_time().zip(codon.duration());
    let by_times = || codon.start_time().since(record.run.start_time);
    measured.map_or_else(by_times, |(end, took)| end.saturating_sub(took))
}

/// Whether the codon was open in a crash: its end is the time at which the crash was noticed.
fn was_cut_off(run: &RunRecord, end: Timestamp) -> bool {
    run.status == RunStatus::Crashed && run.end_time == Some(end)
}

fn last_sign(run: &RunRecord) -> Timestamp {
    let starts = codons(run).map(|codon| *codon.start_time());
    let ends = codons(run).filter_map(CodonExecution::end_time);
    let ends = ends.copied().filter(|end| !was_cut_off(run, *end));
    starts.chain(ends).max().unwrap_or(run.start_time)
}

/// Counts the runs from the newest one back to the first one of its history. A run can only continue an older
/// one.
fn runs_of_history(state: &HankweaveState) -> usize {
    let mut count = usize::from(!state.runs.is_empty());
    let source = |count: usize| {
        state
            .runs
            .get(count.checked_sub(1)?)?
            .starting_conditions
            .source()
    };
    while let Some(source) = source(count) {
        let mut older = state.runs.iter().skip(count);
        match older.position(|run| run.run_id == source.run_id) {
            Some(distance) => count += distance + 1,
            None => break,
        }
    }
    count
}
