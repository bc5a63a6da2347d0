//! Positions of runs and codons, so that an event finds its record without a walk through the history.

use std::collections::{BTreeSet, HashMap};

use super::Rejected;
use crate::codon::CodonExecution;
use crate::document::{HankweaveState, RunRecord, RunStatus};
use crate::id::{CodonId, RunId};

/// The places of one document; kept up to date by the reducer.
///
/// Runs are put in front, so a run is known by its age, the number of runs that are older.
#[derive(Debug, Clone, Default)]
pub(super) struct Index {
    ages: HashMap<RunId, usize>,
    /// The ages of the runs that are recorded as running.
    running: BTreeSet<usize>,
    /// By age; created with the first event about a codon of the run.
    codons: Vec<Option<Codons>>,
}

/// The codons of one run.
#[derive(Debug, Clone, Default)]
struct Codons {
    newest: HashMap<CodonId, usize>,
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
        // Nearly all events are about the newest one.
        if state.runs.front().is_some_and(|newest| newest.run_id == *id) {
            return Some(0);
        }
        Some(position(state, *self.ages.get(id)?))
    }

    /// The newest run that is recorded as running.
    pub(super) fn running_run<'a>(&self, state: &'a HankweaveState) -> Option<&'a RunRecord> {
        Some(&state.runs[position(state, *self.running.last()?)])
    }

    /// The open record with that id, otherwise the newest one (STATE-21).
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

    /// The codon of the run at this position that has not ended.
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

/// Converts an age to a position or back: both count the runs, from different ends.
fn position(state: &HankweaveState, age: usize) -> usize {
    state.runs.len() - 1 - age
}
