//! An index of runs and codons by their ids, so that the reducer finds the record of an event without a walk through the history.

use std::collections::{BTreeSet, HashMap};

use super::Rejected;
use crate::codon::CodonExecution;
use crate::document::{HankweaveState, RunRecord, RunStatus};
use crate::id::{CodonId, RunId};

/// The index of one document; kept up to date by the reducer.
///
/// New runs are put in front of the others, so positions change. The index has the "age" of a run instead, the number of older runs.
#[derive(Debug, Clone, Default)]
pub(super) struct Index {
    /// The age of each run.
    ages: HashMap<RunId, usize>,
    /// The ages of the runs that are recorded as running.
    running: BTreeSet<usize>,
    /// The codons of each run, by the age of the run; made with the first event about a codon of the run.
    codons: Vec<Option<Codons>>,
}

/// The codons of one run.
#[derive(Debug, Clone, Default)]
struct Codons {
    /// Position of the newest record of each codon.
    newest: HashMap<CodonId, usize>,
    /// Position of the record that has not ended.
    open: Option<usize>,
}

/// A record: the position of its run, and its own position in that run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RecordPosition {
    pub(super) run: usize,
    pub(super) codon: usize,
}

impl Index {
    pub(super) fn of(state: &HankweaveState) -> Self {
        let mut index = Self::default();
        for (age, run) in state.runs.iter().rev().enumerate() {
            index.ages.insert(run.run_id.clone(), age);
            if run.status == RunStatus::Running {
                index.running.insert(age);
            }
        }
        index
    }

    /// The position of the run with this id.
    pub(super) fn run(&self, state: &HankweaveState, id: &RunId) -> Option<usize> {
        // Nearly all events are about the newest run.
        if state.runs.front().is_some_and(|newest| newest.run_id == *id) {
            return Some(0);
        }
        Some(position(state, *self.ages.get(id)?))
    }

    /// The newest run that is recorded as running.
    pub(super) fn running_run<'a>(&self, state: &'a HankweaveState) -> Option<&'a RunRecord> {
        Some(&state.runs[position(state, *self.running.last()?)])
    }

    /// The position of the open record of this codon in a run, otherwise of the newest record (STATE-21).
    pub(super) fn codon(
        &mut self,
        state: &HankweaveState,
        run_id: &RunId,
        codon_id: &CodonId,
    ) -> Result<RecordPosition, Rejected> {
        let run = self.run(state, run_id);
        let run = run.ok_or_else(|| Rejected::not_found("run", run_id.as_str()))?;
        let known = self.codons_of(state, run);
        let has_id = |position: &usize| state.runs[run].codons[*position].codon_id() == codon_id;
        let codon = known
            .open
            .filter(has_id)
            .or_else(|| known.newest.get(codon_id).copied());
        let codon = codon.ok_or_else(|| Rejected::not_found("codon", codon_id.as_str()))?;
        Ok(RecordPosition { run, codon })
    }

    /// The position of the codon that has not ended, in the run at this position.
    pub(super) fn open_codon(&mut self, state: &HankweaveState, run: usize) -> Option<usize> {
        self.codons_of(state, run).open
    }

    /// A codon that has not ended, in a run that has not ended.
    pub(super) fn live_codon<'a>(&mut self, state: &'a HankweaveState) -> Option<&'a CodonExecution> {
        let running: Vec<usize> = self.running.iter().map(|age| position(state, *age)).collect();
        running.into_iter().find_map(|run| {
            let open = self.open_codon(state, run)?;
            Some(&*state.runs[run].codons[open])
        })
    }

    /// Notes the run that was put in front.
    pub(super) fn run_started(&mut self, state: &HankweaveState) {
        let (age, id) = (state.runs.len() - 1, state.runs[0].run_id.clone());
        self.ages.insert(id, age);
        self.running.insert(age);
    }

    /// Notes that the run at this position has ended.
    pub(super) fn run_ended(&mut self, state: &HankweaveState, run: usize) {
        self.running.remove(&position(state, run));
    }

    /// Notes the codon that was added to the run at this position.
    pub(super) fn codon_started(&mut self, state: &HankweaveState, run: usize) {
        let codons = &state.runs[run].codons;
        let (newest, id) = (codons.len() - 1, codons[codons.len() - 1].codon_id().clone());
        let known = self.codons_of(state, run);
        known.newest.insert(id, newest);
        known.open = Some(newest);
    }

    /// Notes that the open codon of the run at this position has ended.
    pub(super) fn codon_ended(&mut self, state: &HankweaveState, run: usize) {
        self.codons_of(state, run).open = None;
    }

    /// The codons of the run at this position.
    fn codons_of(&mut self, state: &HankweaveState, run: usize) -> &mut Codons {
        let age = position(state, run);
        if self.codons.len() <= age {
            self.codons.resize_with(age + 1, || None);
        }
        self.codons[age].get_or_insert_with(|| Codons::of(&state.runs[run]))
    }
}

impl Codons {
    fn of(run: &RunRecord) -> Self {
        let mut codons = Self::default();
        for (position, codon) in run.codons.iter().enumerate() {
            codons.newest.insert(codon.codon_id().clone(), position);
            if !codon.is_terminal() {
                codons.open = Some(position);
            }
        }
        codons
    }
}

/// Converts the age of a run to its position, or a position to the age: one counts from the oldest run, the other from the newest.
fn position(state: &HankweaveState, age: usize) -> usize {
    state.runs.len() - 1 - age
}
