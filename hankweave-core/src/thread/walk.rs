//! Walks the thread back from its newest codon: through a run, then the run that it continues, until the fresh run (STATE-49).

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

use crate::codon::CodonExecution;
use crate::document::{ContinuationSource, HankweaveState, RunRecord};
use crate::id::{CodonId, RunId};

/// The codons of a thread, newest first, one at a time; made by [`walk`].
///
/// An unknown target has no codons, a missing parent ends the walk, and a run that continues itself is
/// visited once.
#[derive(Debug, Clone)]
pub struct ThreadCodons<'a> {
    state: &'a HankweaveState,
    /// The runs by id; made when the walk leaves its first run.
    by_id: Option<HashMap<&'a RunId, &'a RunRecord>>,
    visited: HashSet<&'a RunId>,
    /// The run that the walk is in, and the number of its codons, from the first on, that are still to come.
    current: Option<(&'a RunRecord, usize)>,
    /// Number of codons that the walk has passed.
    passed: usize,
}

/// One codon with its place in history.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct ThreadItem<'a> {
    /// The record.
    pub codon: &'a Arc<CodonExecution>,
    /// The run that executed it.
    pub run: &'a RunRecord,
    /// The position in the thread; 0 is the newest.
    pub global_index: usize,
    /// How many continuations back the run lies; 0 is the newest run.
    pub run_index: usize,
    /// The position in the run.
    pub codon_index_in_run: usize,
}

impl<'a> ThreadItem<'a> {
    /// The codon at this position of the newest run; `global_index` is 0, whatever the codon's position in the thread.
    pub(crate) fn in_newest_run(run: &'a RunRecord, codon_index_in_run: usize) -> Self {
        Self {
            codon: &run.codons[codon_index_in_run],
            run,
            global_index: 0,
            run_index: 0,
            codon_index_in_run,
        }
    }
}

/// Walks the thread that ends in `target`, or in the newest run.
#[must_use]
pub fn walk<'a>(state: &'a HankweaveState, target: Option<&RunId>) -> ThreadCodons<'a> {
    let start = match target {
        Some(id) => state.run(id),
        None => state.runs.front().map(Arc::as_ref),
    };
    ThreadCodons {
        state,
        by_id: None,
        visited: start.iter().map(|run| &run.run_id).collect(),
        current: start.map(|run| (run, run.codons.len())),
        passed: 0,
    }
}

impl<'a> ThreadCodons<'a> {
    /// How many runs the walk has visited, those without a codon of their own included.
    #[must_use]
    pub fn runs_visited(&self) -> usize {
        self.visited.len()
    }

    /// Skips the rest of the run that the walk is in.
    pub(super) fn skip_run(&mut self) {
        if let Some((run, left)) = self.current {
            self.passed += left;
            self.current = self.parent(run);
        }
    }

    /// Returns the run that `run` continues, and the number of its codons that belong to the thread; `None` if there is no such run or it was visited already.
    fn parent(&mut self, run: &RunRecord) -> Option<(&'a RunRecord, usize)> {
        let mut source = run.starting_conditions.source()?.clone();
        let mut parent = self.visit(&source)?;
        // The target may be the set-up of the parent's first codon, which continued in the session of an earlier run and so shares the set-up of the attempt
        // there. A rollback to that set-up undoes the attempts of all these runs, so the walk moves on to the earliest of them.
        while let Some(earlier) = self.rerun_before(parent, &source) {
            parent = self.visit(&earlier)?;
            source = earlier;
        }
        Some(parent)
    }

    /// Returns the set-up `source` as a source in an earlier run, if it is the set-up of the first codon of `parent`, and that codon continued an attempt of
    /// the earlier run with the same set-up.
    fn rerun_before(
        &self,
        parent: (&RunRecord, usize),
        source: &ContinuationSource,
    ) -> Option<ContinuationSource> {
        // The count is 0 for a set-up of the first codon: no codon of `parent` belongs to the thread.
        let (run, 0) = parent else { return None };
        rig_setup_target(run, source)?;
        let continued = run.starting_conditions.source()?;
        let earlier = ContinuationSource {
            run_id: continued.run_id.clone(),
            ..source.clone()
        };
        let is_same = continued.after_codon == source.after_codon;
        let older = self.state.run(&earlier.run_id).filter(|_| is_same)?;
        rig_setup_target(older, &earlier).map(|_| earlier)
    }

    /// Moves to the run of `source`; `None` if it does not exist or was visited.
    fn visit(&mut self, source: &ContinuationSource) -> Option<(&'a RunRecord, usize)> {
        let by_id = self.by_id.get_or_insert_with(|| {
            let runs = self.state.runs.iter().map(Arc::as_ref);
            runs.map(|run| (&run.run_id, run)).collect()
        });
        let parent = *by_id.get(&source.run_id)?;
        let is_new = self.visited.insert(&parent.run_id);
        is_new.then(|| (parent, inherited(parent, source)))
    }
}

impl<'a> Iterator for ThreadCodons<'a> {
    type Item = ThreadItem<'a>;

    fn next(&mut self) -> Option<ThreadItem<'a>> {
        loop {
            let (run, left) = self.current?;
            let Some(index) = left.checked_sub(1) else {
                self.current = self.parent(run);
                continue;
            };
            self.current = Some((run, index));
            let global_index = self.passed;
            self.passed += 1;
            return Some(ThreadItem {
                codon: &run.codons[index],
                run,
                global_index,
                run_index: self.visited.len() - 1,
                codon_index_in_run: index,
            });
        }
    }
}

/// Returns the number of codons of `parent`, from the first on, that belong to the thread of a run that continues `parent` at `source` (STATE-50 to STATE-52).
fn inherited(parent: &RunRecord, source: &ContinuationSource) -> usize {
    let Some(after) = &source.after_codon else {
        return 0;
    };
    if let Some(rerun) = rig_setup_target(parent, source) {
        return rerun;
    }
    let attempts = newest_attempts(parent, after);
    let ended_there = |index: &usize| {
        let end = parent.codons[*index].end_checkpoint();
        end.is_some_and(|(_, sha)| !sha.is_blank() && *sha == source.checkpoint_sha)
    };
    let last = attempts
        .clone()
        .rev()
        .find(ended_there)
        .or_else(|| attempts.last());
    last.map_or(parent.codons.len(), |index| index + 1)
}

/// Returns the position of the codon that is run again from its rig-setup checkpoint, if `source` is such a continuation (STATE-51).
pub(super) fn rig_setup_target(parent: &RunRecord, source: &ContinuationSource) -> Option<usize> {
    let after = source.after_codon.as_ref()?;
    if source.checkpoint_sha.is_blank() {
        return None;
    }
    let has_rig =
        |index: &usize| parent.codons[*index].rig_setup_checkpoint() == Some(&source.checkpoint_sha);
    newest_attempts(parent, after).find(has_rig)
}

/// Returns the positions of the newest attempts of a codon in a run, which follow one another.
fn newest_attempts(run: &RunRecord, id: &CodonId) -> Range<usize> {
    let is_attempt = |codon: &Arc<CodonExecution>| codon.codon_id() == id;
    // From the end: most runs are continued there.
    let end = run.codons.iter().rposition(is_attempt).map_or(0, |last| last + 1);
    let older = run.codons.iter().rev().skip(run.codons.len() - end);
    end - older.take_while(|codon| is_attempt(codon)).count()..end
}
