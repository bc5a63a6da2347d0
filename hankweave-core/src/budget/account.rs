//! Usage before a moment of a history (HANK-39).

use std::collections::HashMap;
use std::time::Duration;

use crate::codon::CodonExecution;
use crate::cost::Usd;
use crate::document::{HankweaveState, RunRecord, RunStatus};
use crate::hank::LoopConfig;
use crate::id::CodonId;
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
pub(super) struct Account<'l> {
    /// Newest first.
    thread: &'l [ThreadItem<'l>],
    /// The cost of the codons of the thread, by their ids in hank.json.
    dollars: HashMap<&'l str, Usd>,
    pub(super) spent: Usd,
    /// Whether more was spent than is known.
    pub(super) is_lower_bound: bool,
    pub(super) elapsed: Duration,
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
    pub(super) fn now(&self) -> Account<'_> {
        let lived = self.runs().map(|run| self.lived(run)).sum();
        self.account(&self.thread, self.runs().flat_map(codons), lived)
    }

    /// Everything before the record at this place in the thread, counted from the newest.
    pub(super) fn before(&self, index: usize) -> Account<'_> {
        let record = &self.thread[index];
        let older = || {
            let run_id = &record.run.run_id;
            self.runs().skip_while(move |run| run.run_id != *run_id).skip(1)
        };
        let same_run = codons(record.run).take(record.codon_index_in_run);
        let codons = older().flat_map(codons).chain(same_run);
        let lived: Duration = older().map(|run| self.lived(run)).sum();
        let elapsed = lived.saturating_add(begun(record));
        self.account(&self.thread[index + 1..], codons, elapsed)
    }

    /// The records of the thread, newest first.
    pub(super) fn thread(&self) -> &[ThreadItem<'a>] {
        &self.thread
    }

    fn runs(&self) -> impl Iterator<Item = &RunRecord> {
        self.state.runs.iter().take(self.runs).map(AsRef::as_ref)
    }

    fn account<'l>(
        &self,
        thread: &'l [ThreadItem<'a>],
        codons: impl Iterator<Item = &'l CodonExecution>,
        elapsed: Duration,
    ) -> Account<'l>
    where
        'a: 'l,
    {
        let mut dollars: HashMap<&str, Usd> = HashMap::new();
        for codon in thread.iter().map(|walked| walked.codon.as_ref()) {
            *dollars.entry(codon.codon_id().configured()).or_default() += codon.spend();
        }
        let (mut spent, mut is_lower_bound) = (Usd::ZERO, false);
        for codon in codons {
            spent += codon.spend();
            is_lower_bound |= codon.cost_is_lower_bound();
        }
        Account {
            thread,
            dollars,
            spent,
            is_lower_bound,
            elapsed,
        }
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

impl Account<'_> {
    /// The cost of the tries of this codon; inside a loop, in its iteration.
    pub(super) fn dollars_of_codon(&self, id: &CodonId) -> Usd {
        let codons = self.thread.iter().map(|walked| walked.codon.as_ref());
        let tries = codons.filter(|codon| codon.codon_id() == id);
        tries.map(CodonExecution::agent_cost).sum()
    }

    /// The cost of a codon of hank.json, in all iterations.
    pub(super) fn dollars_of_configured(&self, id: &str) -> Usd {
        self.dollars.get(id).copied().unwrap_or(Usd::ZERO)
    }

    /// The cost of the codons of this loop.
    pub(super) fn dollars_of_loop(&self, found: &LoopConfig) -> Usd {
        let ids = found.codons.iter().map(|codon| codon.id.as_str());
        ids.map(|id| self.dollars_of_configured(id)).sum()
    }

    /// How long the tries of this codon took.
    pub(super) fn time_of_codon(&self, id: &CodonId) -> Duration {
        self.time(|codon| codon.codon_id() == id)
    }

    /// How long the codons of this loop took.
    pub(super) fn time_of_loop(&self, found: &LoopConfig) -> Duration {
        self.time(|codon| is_in_loop(codon, found))
    }

    fn time(&self, counts: impl Fn(&CodonExecution) -> bool) -> Duration {
        let codons = self.thread.iter().filter(|walked| counts(walked.codon));
        codons.map(took).sum()
    }
}

fn codons(run: &RunRecord) -> impl Iterator<Item = &CodonExecution> {
    run.codons.iter().map(AsRef::as_ref)
}

/// Ids are unique in the whole hank.
fn is_in_loop(codon: &CodonExecution, found: &LoopConfig) -> bool {
    let id = codon.codon_id().configured();
    found.codons.iter().any(|inner| inner.id.as_str() == id)
}

/// How long a codon took; zero for one that a crash cut off, for which that is unknown.
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
