//! The log of operations: runs, rollbacks, undos, restores and cleanups. It gives the position of the thread before and after each, and the undo of the newest
//! one (STATE-66, STATE-67, RUN-23).

use std::sync::Arc;

use super::target::{beginnings, newest_checkpoint, source_of_files};
use super::{ExecutionThread, build};
use crate::codon::CheckpointType;
use crate::document::{
    ContinuationReason, ContinuationSource, HankweaveState, Operation, OperationKind, PendingRollback,
    RunRecord, StartingConditions,
};
use crate::id::CheckpointSha;
use crate::machine::Extra;

/// One operation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum LoggedOperation<'s> {
    /// A run, from its start to its end.
    Run(&'s RunRecord),
    /// Files were rolled back or restored, or unneeded items were removed.
    Recorded(&'s Operation),
}

/// Effect of an undo.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Undo {
    /// Id of the operation that is undone.
    pub id: String,
    /// Position of the thread before that operation.
    pub target: ContinuationSource,
    /// Checkpoint of the files with which that operation ended: files that it does not have were made by the user since. `None` where a crash ended the
    /// operation.
    pub left: Option<CheckpointSha>,
}

/// All operations, newest first.
#[must_use]
pub fn operations(state: &HankweaveState) -> Vec<LoggedOperation<'_>> {
    let mut log = Vec::new();
    for run in &state.runs {
        let newest_first = state.operations.iter().rev();
        let after_run = newest_first.filter(|operation| operation.behind == run.run_id);
        log.extend(after_run.map(LoggedOperation::Recorded));
        log.push(LoggedOperation::Run(run));
    }
    log
}

/// Returns the undo of the newest operation that is not undone yet: after an undo, the operation before the undone one. `None` when nothing is left, or when
/// the position before the operation is unknown. Operations that changed no file are skipped: cleanups, and runs that continued and ran nothing.
#[must_use]
pub fn undo(state: &HankweaveState) -> Option<Undo> {
    let mut log = operations(state);
    log.retain(|logged| !logged.is_cleanup() && !logged.ran_nothing());
    let mut position = 0;
    while let LoggedOperation::Recorded(operation) = log.get(position)?
        && let Some(undone) = &operation.undoes
    {
        position = log.iter().position(|known| known.id() == *undone)? + 1;
    }
    log.get(position)?.undo(state)
}

/// Returns the undo of the rollback with this id, as long as the rollback is [`undoable`].
#[must_use]
pub fn undo_of(state: &HankweaveState, id: &str) -> Option<Undo> {
    let operation = undoable(state).filter(|operation| operation.id == id)?;
    LoggedOperation::Recorded(operation).undo(state)
}

/// Returns the rollback that a user can undo by its id, also while a run lives: no codon has started since, and the rollback is not itself an undo.
#[must_use]
pub fn undoable(state: &HankweaveState) -> Option<&Operation> {
    let log = operations(state).into_iter();
    let mut log = log.skip_while(|logged| logged.is_cleanup() || logged.ran_nothing());
    match log.next()? {
        LoggedOperation::Recorded(operation) => Some(operation).filter(|operation| operation.is_rollback()),
        LoggedOperation::Run(_) => None,
    }
}

/// The point where the thread ends now, with the newest checkpoint of its files; `None` before the first run.
#[must_use]
pub fn head(state: &HankweaveState) -> Option<ContinuationSource> {
    match &state.pending_rollback {
        Some(pending) => Some(pending.source.clone()),
        None => end_of(state, state.runs.front()?),
    }
}

/// Returns the checkpoint with which the codon of a position ended, in its newest attempt. Where the files at the position differ from this checkpoint, they
/// were changed after the codon, from outside.
#[must_use]
pub fn end_at<'s>(state: &'s HankweaveState, position: &ContinuationSource) -> Option<&'s CheckpointSha> {
    let mut codons = state.run(&position.run_id)?.codons.iter().rev();
    let newest = codons.find(|codon| Some(codon.codon_id()) == position.after_codon.as_ref());
    newest?.end_checkpoint().map(|(_, sha)| sha)
}

impl LoggedOperation<'_> {
    /// Whether the operation is a cleanup.
    #[must_use]
    pub fn is_cleanup(&self) -> bool {
        matches!(self, Self::Recorded(operation) if operation.kind == OperationKind::Cleanup)
    }

    /// Returns whether the operation is a run that continued another one and ended before it started a codon.
    fn ran_nothing(&self) -> bool {
        matches!(self, Self::Run(run) if run.codons.is_empty() && run.starting_conditions.source().is_some())
    }

    fn undo(&self, state: &HankweaveState) -> Option<Undo> {
        Some(Undo {
            id: self.id(),
            target: self.before(state)?,
            left: self.left().cloned(),
        })
    }

    /// The id of the operation: twelve digits 0-9 and a-f.
    #[must_use]
    pub fn id(&self) -> String {
        match self {
            Self::Run(run) => name(run.run_id.as_str()),
            Self::Recorded(operation) => operation.id.clone(),
        }
    }

    /// Returns the checkpoint of the files with which the operation ended; `None` where a crash ended it.
    fn left(&self) -> Option<&CheckpointSha> {
        let left = match self {
            Self::Run(run) => run.codons.last()?.end_checkpoint()?.1,
            Self::Recorded(operation) => &operation.after.checkpoint_sha,
        };
        Some(left).filter(|left| !left.is_blank())
    }

    /// Returns the thread's position before the operation; `None` when the document does not have it.
    #[must_use]
    pub fn before(&self, state: &HankweaveState) -> Option<ContinuationSource> {
        match self {
            Self::Run(run) => start_of(state, run),
            Self::Recorded(operation) => Some(operation.before.clone()),
        }
    }

    /// Returns the thread's position after the operation; `None` when the document does not have it.
    #[must_use]
    pub fn after(&self, state: &HankweaveState) -> Option<ContinuationSource> {
        match self {
            Self::Run(run) => end_of(state, run),
            Self::Recorded(operation) => Some(operation.after.clone()),
        }
    }
}

/// Returns the id of the operation that `text` describes, such as a run id. The id is a hash: run ids differ at their ends only, and people type the start of
/// an id.
#[must_use]
pub fn name(text: &str) -> String {
    let fnv1a = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325, fnv1a);
    format!("{:012x}", hash >> 16)
}

/// Returns the position at which a run started, with the files with which its first codon started: changes by the user since the run before are no work of this
/// run (STATE-71).
fn start_of(state: &HankweaveState, run: &RunRecord) -> Option<ContinuationSource> {
    let source = position_before(state, run)?;
    let started = run.codons.first().and_then(|codon| codon.start_checkpoint());
    match started {
        Some(files) => {
            let source = end_before_retry(state, run).unwrap_or(source);
            Some(match files == source.checkpoint_sha {
                true => source,
                false => at_files(state, &source, files),
            })
        }
        // A blank checkpoint means the files as they were. Without a recorded start, the newest checkpoint of the thread comes closest.
        None if source.checkpoint_sha.is_blank() => Some(with_files(&source, files_at(state, &source)?)),
        None => Some(source),
    }
}

/// Returns the position before a run that started with the newest codon again: the end of that codon in the run before. `None` for any other run.
fn end_before_retry(state: &HankweaveState, run: &RunRecord) -> Option<ContinuationSource> {
    let StartingConditions::Continuation {
        reason: Some(ContinuationReason::Retry),
        ..
    } = &run.starting_conditions
    else {
        return None;
    };
    let before = end_before(state, run)?;
    let first = run.codons.first()?.codon_id();
    (before.after_codon.as_ref() == Some(first)).then_some(before)
}

/// Returns the position after the operation before a run; `None` where the run is the first one.
fn end_before(state: &HankweaveState, run: &RunRecord) -> Option<ContinuationSource> {
    let is_other = |logged: &LoggedOperation<'_>| !is_run(logged, run);
    let log = operations(state).into_iter();
    let mut older = log.skip_while(is_other).skip(1);
    older.find(|logged| !logged.is_cleanup())?.after(state)
}

fn is_run(logged: &LoggedOperation<'_>, run: &RunRecord) -> bool {
    matches!(logged, LoggedOperation::Run(known) if known.run_id == run.run_id)
}

/// Returns the position of `source` with `files` in place of those of its checkpoint. A position at a rig set-up is known only by its checkpoint, so it becomes
/// the position before the codon, whose rig is then set up again.
fn at_files(state: &HankweaveState, source: &ContinuationSource, files: CheckpointSha) -> ContinuationSource {
    let is_rig = source.checkpoint_type(state) == Some(CheckpointType::RigSetup);
    let before_rig = is_rig.then(|| source_of_files(state, &source.checkpoint_sha, &files));
    before_rig.flatten().unwrap_or_else(|| with_files(source, files))
}

/// Returns the position of the thread before a run, as its record has it.
fn position_before(state: &HankweaveState, run: &RunRecord) -> Option<ContinuationSource> {
    if let Some(source) = run.starting_conditions.source() {
        return Some(source.clone());
    }
    if state.runs.back().is_some_and(|first| first.run_id == run.run_id) {
        return beginnings(state).find(|beginning| beginning.run_id == run.run_id);
    }
    // A fresh run that is not the first started with the files as they were. The thread before it is another one, which ended with the operation before this
    // run.
    let end = end_before(state, run)?;
    Some(match run.starting_conditions.checkpoint() {
        Some(files) if *files != end.checkpoint_sha => at_files(state, &end, files.clone()),
        _ => end,
    })
}

/// Returns the position at which a run ended, with its newest checkpoint; if it ran no codon, the position at which it started.
fn end_of(state: &HankweaveState, run: &RunRecord) -> Option<ContinuationSource> {
    let Some(newest) = run.codons.last() else {
        return start_of(state, run);
    };
    let files = match newest_checkpoint(run.codons.iter().rev().map(Arc::as_ref)) {
        Some(files) => files.clone(),
        None => start_of(state, run)?.checkpoint_sha,
    };
    Some(ContinuationSource::after(&run.run_id, newest.codon_id(), files))
}

/// Returns the newest checkpoint of the thread that ends at `source`.
fn files_at(state: &HankweaveState, source: &ContinuationSource) -> Option<CheckpointSha> {
    let thread = thread_at(state, source);
    let newest = newest_checkpoint(thread.codons.iter().map(|entry| entry.codon.as_ref()));
    newest.or(state.initial_checkpoint.as_ref()).cloned()
}

/// Returns the thread that a run which starts at `source` continues.
pub(super) fn thread_at(state: &HankweaveState, source: &ContinuationSource) -> ExecutionThread {
    // Only the source of a pending rollback decides about the thread, so the other fields can have any values.
    let mut ahead = state.clone();
    ahead.pending_rollback = Some(PendingRollback {
        source: source.clone(),
        left: None,
        safety: None,
        restored: true,
        operation: None,
        extra: Extra::default(),
    });
    build(&ahead, None, None)
}

fn with_files(source: &ContinuationSource, files: CheckpointSha) -> ContinuationSource {
    ContinuationSource {
        checkpoint_sha: files,
        ..source.clone()
    }
}
