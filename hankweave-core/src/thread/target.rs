//! Points of history from which a new run can continue (STATE-58, STATE-64).

use std::sync::Arc;

use super::{ExecutionThread, ValidatedCheckpoint, resume::source};
use crate::codon::{CheckpointType, CodonExecution};
use crate::document::{ContinuationSource, HankweaveState, KnownCheckpoints};
use crate::id::{CheckpointSha, CodonId, RunId};

/// A point in the life of a codon.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CodonPoint {
    /// The first checkpoint of the codon.
    Start,
    /// The last checkpoint of the codon.
    End,
    /// The checkpoint of this type.
    At(CheckpointType),
}

/// Why a run cannot continue at the requested point.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TargetError {
    /// The codon is not part of the thread.
    #[error("codon `{0}` is not in the execution thread")]
    UnknownCodon(CodonId),
    /// The newest record of the codon has no checkpoint of the requested point, or none that still exists.
    #[error("the newest attempt of `{0}` has no such checkpoint")]
    NoCheckpoint(CodonId),
    /// No checkpoint of any run begins with this text.
    #[error("no checkpoint begins with `{0}`")]
    UnknownSha(String),
    /// Several checkpoints begin with the requested text.
    #[error("`{prefix}` fits several checkpoints: {}", list(matches))]
    Ambiguous {
        /// Requested prefix.
        prefix: String,
        /// The checkpoints that begin with it.
        matches: Vec<CheckpointSha>,
    },
}

fn list(shas: &[CheckpointSha]) -> String {
    let shas: Vec<&str> = shas.iter().map(CheckpointSha::as_str).collect();
    shas.join(", ")
}

impl ExecutionThread {
    /// Returns the source for a run that continues at `point` of the codon `id`, by the newest record of the codon in the thread. An id without an iteration
    /// (`review`) means the newest iteration. The thread must have been built with the commits that exist: only their checkpoints are offered.
    ///
    /// # Errors
    ///
    /// [`TargetError::UnknownCodon`] and [`TargetError::NoCheckpoint`].
    pub fn codon_target(&self, id: &CodonId, point: CodonPoint) -> Result<ContinuationSource, TargetError> {
        let mut newest_first = self.codons.iter();
        let exact = newest_first.find(|entry| entry.codon.codon_id() == id);
        let of_any_iteration = || {
            let mut newest_first = self.codons.iter();
            newest_first.find(|entry| entry.codon.codon_id().configured() == id.as_str())
        };
        let entry = exact.or_else(of_any_iteration);
        let entry = entry.ok_or_else(|| TargetError::UnknownCodon(id.clone()))?;
        let checkpoint: Option<&ValidatedCheckpoint> = match point {
            CodonPoint::Start => entry.validated_checkpoints.first(),
            CodonPoint::End => entry.validated_checkpoints.last(),
            CodonPoint::At(checkpoint_type) => entry.checkpoint(checkpoint_type),
        };
        let checkpoint =
            checkpoint.ok_or_else(|| TargetError::NoCheckpoint(entry.codon.codon_id().clone()))?;
        Ok(source(entry, checkpoint.sha.clone()))
    }

    /// Returns the source of the commit that begins with `prefix`: searched in the thread, then in all runs of
    /// `state`, then among the files before the first codons.
    ///
    /// # Errors
    ///
    /// [`TargetError::UnknownSha`] and [`TargetError::Ambiguous`].
    pub fn sha_target(
        &self,
        state: &HankweaveState,
        known: &dyn KnownCheckpoints,
        prefix: &str,
    ) -> Result<ContinuationSource, TargetError> {
        let fits = |sha: &CheckpointSha| !prefix.is_empty() && sha.as_str().starts_with(prefix);
        let in_thread = self.codons.iter().flat_map(|entry| {
            let checkpoints = entry.validated_checkpoints.iter();
            checkpoints.map(|checkpoint| source(entry, checkpoint.sha.clone()))
        });
        let in_thread: Vec<_> = in_thread.filter(|target| fits(&target.checkpoint_sha)).collect();
        if !in_thread.is_empty() {
            return only(in_thread, prefix);
        }
        let in_all_runs = state.runs.iter().flat_map(|run| {
            let codons = run.codons.iter().rev();
            let checkpoints = codons.flat_map(|codon| codon.checkpoints().map(move |(_, sha)| (codon, sha)));
            checkpoints.map(|(codon, sha)| after(&run.run_id, codon, sha))
        });
        let exists = |target: &ContinuationSource| {
            fits(&target.checkpoint_sha) && known.find(&target.checkpoint_sha).is_some()
        };
        let in_all_runs: Vec<_> = in_all_runs.filter(exists).collect();
        if !in_all_runs.is_empty() {
            return only(in_all_runs, prefix);
        }
        only(beginnings(state).filter(exists).collect(), prefix)
    }

    /// Returns the source before the first codon of the thread; `None` if its files were not kept. The thread must
    /// be the one that ends in the newest run.
    #[must_use]
    pub fn beginning(
        &self,
        state: &HankweaveState,
        known: &dyn KnownCheckpoints,
    ) -> Option<ContinuationSource> {
        let oldest_codon = self.codons.last();
        // A thread without codons is that of the newest run.
        let run =
            oldest_codon.map_or_else(|| Some(&state.runs.front()?.run_id), |entry| Some(&entry.run_id))?;
        let root = &state.runs[state.root_of(run)?];
        let beginning = beginnings(state).find(|target| target.run_id == root.run_id);
        beginning.filter(|target| known.find(&target.checkpoint_sha).is_some())
    }
}

/// Returns the source for a run that continues with `files`, a checkpoint that no codon has recorded, such as a safety checkpoint before a restore. `base` is
/// the checkpoint on which these files are based: the run continues where a run from `base` would. `None` if the document does not have `base`.
#[must_use]
pub fn source_of_files(
    state: &HankweaveState,
    base: &CheckpointSha,
    files: &CheckpointSha,
) -> Option<ContinuationSource> {
    let with_files = |source: ContinuationSource| ContinuationSource {
        checkpoint_sha: files.clone(),
        ..source
    };
    let of_base = state.runs.iter().find_map(|run| {
        let is_base = |codon: &Arc<CodonExecution>| codon.checkpoints().any(|(_, sha)| sha == base);
        Some((run, run.codons.iter().rposition(is_base)?))
    });
    if let Some((run, index)) = of_base {
        let codon = &run.codons[index];
        let has_ended = codon.end_checkpoint().is_some_and(|(_, sha)| sha == base);
        let before = index.checked_sub(1).map(|before| &run.codons[before]);
        // A codon of which only the rig is recorded runs again: the run continues after the codon before it, or where its own run started.
        return Some(match (has_ended, before, run.starting_conditions.source()) {
            (true, ..) => after(&run.run_id, codon, files),
            (false, Some(before), _) => after(&run.run_id, before, files),
            (false, None, Some(source)) => with_files(source.clone()),
            (false, None, None) => with_files(ContinuationSource::beginning_of(&run.run_id)),
        });
    }
    // No codon has recorded `base`: a run started from it, or will.
    let pending = state.pending_rollback.iter().map(|pending| &pending.source);
    let runs = state.runs.iter();
    let mut recorded = pending.chain(runs.filter_map(|run| run.starting_conditions.source()));
    let recorded = recorded.find(|source| source.checkpoint_sha == *base);
    let beginning = || beginnings(state).find(|target| target.checkpoint_sha == *base);
    recorded.cloned().or_else(beginning).map(with_files)
}

/// Returns the source before the first codon of each fresh run, newest run first.
///
/// A run that names no checkpoint, as other versions of hankweave record it, started from the first checkpoint of the document.
pub(super) fn beginnings(state: &HankweaveState) -> impl Iterator<Item = ContinuationSource> {
    let fresh = state
        .runs
        .iter()
        .filter(|run| run.starting_conditions.source().is_none());
    fresh.filter_map(|run| {
        let own = run.starting_conditions.checkpoint();
        let sha = own.or(state.initial_checkpoint.as_ref())?;
        Some(ContinuationSource {
            checkpoint_sha: sha.clone(),
            ..ContinuationSource::beginning_of(&run.run_id)
        })
    })
}

impl ContinuationSource {
    /// Returns at which point of the codon's life its checkpoint was made; `None` when the document does not have that information.
    #[must_use]
    pub fn checkpoint_type(&self, state: &HankweaveState) -> Option<CheckpointType> {
        let after = self.after_codon.as_ref()?;
        let codons = state.run(&self.run_id)?.codons.iter();
        let records = codons.filter(|codon| codon.codon_id() == after);
        let mut checkpoints = records.flat_map(|codon| codon.checkpoints());
        let (checkpoint_type, _) = checkpoints.find(|(_, sha)| **sha == self.checkpoint_sha)?;
        Some(checkpoint_type)
    }
}

/// Returns the newest of the targets, if all of them have one commit.
fn only(targets: Vec<ContinuationSource>, prefix: &str) -> Result<ContinuationSource, TargetError> {
    let mut matches: Vec<CheckpointSha> = Vec::new();
    for target in &targets {
        if !matches.contains(&target.checkpoint_sha) {
            matches.push(target.checkpoint_sha.clone());
        }
    }
    match targets.into_iter().next() {
        None => Err(TargetError::UnknownSha(prefix.to_owned())),
        Some(newest) if matches.len() == 1 => Ok(newest),
        Some(_) => Err(TargetError::Ambiguous {
            prefix: prefix.to_owned(),
            matches,
        }),
    }
}

fn after(run: &RunId, codon: &Arc<CodonExecution>, sha: &CheckpointSha) -> ContinuationSource {
    ContinuationSource::after(run, codon.codon_id(), sha.clone())
}

/// Returns the checkpoint on which the files of the workspace are based: the last one that was made or restored.
///
/// The thread must be the one that ends in the newest run.
#[must_use]
pub fn position(state: &HankweaveState, thread: &ExecutionThread) -> Option<CheckpointSha> {
    if let Some(pending) = &state.pending_rollback {
        return Some(pending.source.checkpoint_sha.clone());
    }
    let run = state.runs.front()?;
    let beginning = run.starting_conditions.checkpoint();
    let own = run.codons.iter().rev().map(AsRef::as_ref);
    newest_checkpoint(own)
        .or(beginning.filter(|sha| !sha.is_blank()))
        .or_else(|| newest_checkpoint(thread.codons.iter().map(|entry| entry.codon.as_ref())))
        .cloned()
}

/// Returns the last checkpoint of the first codon that has one. A blank one, as the older system recorded, names no commit and is passed over.
pub(super) fn newest_checkpoint<'a>(
    mut codons: impl Iterator<Item = &'a CodonExecution>,
) -> Option<&'a CheckpointSha> {
    codons.find_map(|codon| {
        let named = codon.checkpoints().filter(|(_, sha)| !sha.is_blank());
        named.last().map(|(_, sha)| sha)
    })
}

/// Whether another run can continue `run` after the codon `after`, or from its start without one: the run exists, and the codon completed in it.
#[must_use]
pub fn can_continue_from(state: &HankweaveState, run: &RunId, after: Option<&CodonId>) -> bool {
    match (state.run(run), after) {
        (None, _) => false,
        (Some(_), None) => true,
        (Some(_), Some(codon)) => completion_checkpoint(state, run, codon).is_some(),
    }
}

/// Returns the checkpoint with which a run starts that continues `run` after the codon `after`: the completion checkpoint of the codon, or without a codon
/// the rig-setup checkpoint of the first one. `None` if there is none, or if [`can_continue_from`] is false.
#[must_use]
pub fn continuation_checkpoint<'a>(
    state: &'a HankweaveState,
    run: &RunId,
    after: Option<&CodonId>,
) -> Option<&'a CheckpointSha> {
    match after {
        None => state.run(run)?.codons.first()?.rig_setup_checkpoint(),
        Some(codon) => completion_checkpoint(state, run, codon),
    }
    .filter(|sha| !sha.is_blank())
}

fn completion_checkpoint<'a>(
    state: &'a HankweaveState,
    run: &RunId,
    codon: &CodonId,
) -> Option<&'a CheckpointSha> {
    let records = state.run(run)?.codons.iter().rev();
    let mut same_id = records.filter(|record| record.codon_id() == codon);
    same_id.find_map(|record| match record.as_ref() {
        CodonExecution::Completed(completed) => Some(&completed.completion_checkpoint),
        _ => None,
    })
}
