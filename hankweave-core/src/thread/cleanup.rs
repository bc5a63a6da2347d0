//! Finds what a cleanup may remove: the logs of old runs, and checkpoints that nothing else needs (RUN-23).

use std::collections::{BTreeSet, HashSet};

use super::operations::{operations, thread_at, undo};
use super::{ExecutionThread, LoggedOperation, ThreadCodon, build};
use crate::codon::CodonStatus;
use crate::document::{HankweaveState, RunRecord, RunStatus};
use crate::id::{CheckpointSha, RunId};
use crate::time::Timestamp;

/// Which runs are old.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetentionRule {
    /// Number of newest runs to keep; the newest one always stays.
    pub keep: usize,
    /// Runs that ended at this time or later are kept as well; `None` for no such limit.
    pub ended_before: Option<Timestamp>,
}

/// Items that a cleanup would remove.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Removable {
    /// The runs whose logs are removed, newest first.
    pub runs: Vec<RunId>,
    /// The checkpoints that only these runs, and operations of their time, need.
    pub checkpoints: BTreeSet<CheckpointSha>,
}

/// Returns the items that a cleanup by `rule` would remove. `parent` returns the parent commit of a checkpoint, which the repository keeps as long as the
/// checkpoint.
///
/// A checkpoint is needed if the present thread, a kept run, or the position before or after a kept operation leads to it. The ancestors of a needed checkpoint
/// are needed as well. The checkpoint with which a removed run started is not needed, if that run had a success. So every undo and rollback to
/// something that is kept stays possible.
#[must_use]
pub fn removable(
    state: &HankweaveState,
    rule: RetentionRule,
    parent: impl Fn(&CheckpointSha) -> Option<CheckpointSha>,
) -> Removable {
    let removed_before: HashSet<&RunId> = state.removed().flat_map(|removed| &removed.runs).collect();
    let old = old_runs(state, rule).filter(|run| !removed_before.contains(&run.run_id));
    let runs: Vec<RunId> = old.map(|run| run.run_id.clone()).collect();
    let all_removed: HashSet<&RunId> = runs.iter().chain(removed_before).collect();
    let needed = with_parents(needed(state, &all_removed), parent);
    let checkpoints = state.checkpoints().filter(|sha| !needed.contains(sha));
    Removable {
        checkpoints: checkpoints.cloned().collect(),
        runs,
    }
}

/// Returns the runs that `rule` does not keep.
fn old_runs(state: &HankweaveState, rule: RetentionRule) -> impl Iterator<Item = &RunRecord> {
    let older = state.runs.iter().map(AsRef::as_ref).skip(rule.keep.max(1));
    older.filter(move |run| {
        let end = run.end_time.unwrap_or(run.start_time);
        run.status != RunStatus::Running && rule.ended_before.is_none_or(|limit| end < limit)
    })
}

/// Returns the checkpoints that the kept runs, the kept operations and the thread need; `removed` are the runs that are not kept.
fn needed(state: &HankweaveState, removed: &HashSet<&RunId>) -> BTreeSet<CheckpointSha> {
    let mut needed: BTreeSet<CheckpointSha> = state.initial_checkpoint.iter().cloned().collect();
    if let Some(pending) = &state.pending_rollback {
        let recorded = [pending.safety.as_ref(), pending.left.as_ref()];
        needed.extend(recorded.into_iter().flatten().cloned());
        needed.insert(pending.source.checkpoint_sha.clone());
    }
    for run in state.runs.iter().filter(|run| !removed.contains(&run.run_id)) {
        needed.extend(run.starting_conditions.checkpoint().cloned());
        let codons = run.codons.iter().flat_map(|codon| codon.checkpoints());
        needed.extend(codons.map(|(_, sha)| sha.clone()));
    }
    let mut add_thread = |thread: ExecutionThread, ends_in_kept: bool| {
        let codons = thread.codons.iter().flat_map(|entry| entry.codon.checkpoints());
        needed.extend(codons.map(|(_, sha)| sha.clone()));
        // A rollback into a removed run leads to the last success there, and to the start of the run only without a success.
        let completed = |entry: &ThreadCodon| entry.codon.status() == CodonStatus::Completed;
        let without_success = !thread.codons.iter().any(completed);
        needed.extend(thread.codons.iter().filter_map(|entry| {
            let run = state.run(&entry.run_id)?;
            let is_needed = ends_in_kept || without_success || !removed.contains(&run.run_id);
            run.starting_conditions
                .checkpoint()
                .filter(|_| is_needed)
                .cloned()
        }));
    };
    add_thread(build(state, None, None), true);
    let kept = operations(state).into_iter().filter(|logged| match logged {
        LoggedOperation::Run(run) => !removed.contains(&run.run_id),
        LoggedOperation::Recorded(operation) => !removed.contains(&operation.behind),
    });
    let points = kept
        .flat_map(|logged| [logged.before(state), logged.after(state)])
        .flatten();
    // An undo skips newer runs that ran nothing, so the operation to undo may be a removed run.
    let undone = undo(state).map(|undo| undo.target);
    let points: Vec<_> = points.chain(undone).collect();
    for point in &points {
        add_thread(thread_at(state, point), !removed.contains(&point.run_id));
    }
    needed.extend(points.into_iter().map(|point| point.checkpoint_sha));
    needed
}

/// Returns the checkpoints with all their ancestors.
fn with_parents(
    mut needed: BTreeSet<CheckpointSha>,
    parent: impl Fn(&CheckpointSha) -> Option<CheckpointSha>,
) -> BTreeSet<CheckpointSha> {
    let mut open: Vec<CheckpointSha> = needed.iter().cloned().collect();
    while let Some(sha) = open.pop() {
        if let Some(parent) = parent(&sha).filter(|parent| !needed.contains(parent)) {
            needed.insert(parent.clone());
            open.push(parent);
        }
    }
    needed
}
