//! The route of a rollback, from the current files (`left`) to the target (`source`): the codons that are undone, the copies that stay, and the record.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hankweave_core::document::{ContinuationSource, HankweaveState, Operation, PendingRollback};
use hankweave_core::id::CheckpointSha;
use hankweave_core::machine::Extra;
use hankweave_core::thread::{self, ExecutionThread, ThreadCodon};

use super::super::target::OperationCause;
use super::Rollback;
use crate::checkpoint::RestorePlan;
use crate::recovery::LockedExecution;
use crate::rig::ArchiveEntry;

/// The route of a possible rollback, before it is carried out.
pub(super) struct RollbackPlan {
    pub(super) state: Arc<HankweaveState>,
    pub(super) thread: ExecutionThread,
    /// The target.
    pub(super) source: ContinuationSource,
    /// The checkpoint of the current files; `None` if none can be read.
    pub(super) left: Option<CheckpointSha>,
    pub(super) cause: OperationCause,
}

impl RollbackPlan {
    /// The codons that are undone, newest first.
    pub(super) fn codons(&self) -> Vec<&ThreadCodon> {
        let remaining = self.thread_after().codons;
        let position = |entry: &ThreadCodon| (entry.run_id.clone(), entry.codon_index_in_run);
        let remaining: BTreeSet<_> = remaining.iter().map(position).collect();
        let codons = self.thread.codons.iter();
        codons
            .filter(|entry| !is_target(entry, &self.source) && !remaining.contains(&position(entry)))
            .collect()
    }

    /// Returns the record of the rollback once it is done, without its operation.
    pub(super) fn pending(&self) -> PendingRollback {
        PendingRollback {
            source: self.source.clone(),
            left: self.left.clone(),
            safety: None,
            restored: true,
            operation: None,
            extra: Extra::default(),
        }
    }

    /// The thread after the rollback.
    fn thread_after(&self) -> ExecutionThread {
        let mut state = HankweaveState::clone(&self.state);
        state.pending_rollback = Some(self.pending());
        thread::build(&state, None, None)
    }

    /// Returns the operation to record once the files are restored; `None` if the position before the rollback is unknown. `safety` is the checkpoint of the
    /// files before that, if one was made.
    pub(super) fn operation(
        &self,
        possession: &LockedExecution,
        safety: Option<&CheckpointSha>,
        plan: &RestorePlan,
    ) -> Option<Operation> {
        let target = &self.source.checkpoint_sha;
        // The checkpoint of the files before the restore.
        let files_before = match plan.write.is_empty() && plan.delete.is_empty() {
            true => target,
            // Files that are only added need no safety checkpoint.
            false => safety.or(self.left.as_ref()).unwrap_or(target),
        };
        Some(Operation {
            id: thread::name(&possession.world.ids.nonce()),
            kind: self.cause.kind,
            command: self.cause.command.clone(),
            at: possession.world.clock.now(),
            behind: self.state.runs.front()?.run_id.clone(),
            before: ContinuationSource {
                checkpoint_sha: files_before.clone(),
                ..thread::head(&self.state)?
            },
            after: self.source.clone(),
            undoes: self.cause.undoes.clone(),
            files: u64::try_from(plan.count()).unwrap_or(u64::MAX),
            removed: None,
            extra: Extra::default(),
        })
    }

    /// Returns the places of the copies that the rigs of the remaining codons have made.
    pub(super) fn kept_copies(&self, possession: &LockedExecution) -> BTreeSet<PathBuf> {
        let (remaining, codons) = (self.thread_after().codons, self.thread.codons.iter());
        let target_codons = codons.filter(|entry| is_target(entry, &self.source));
        let kept = remaining.iter().chain(target_codons);
        let ids = kept.map(|entry| entry.codon.codon_id().configured());
        let places = possession.rig_copies.targets(ids).into_iter();
        places.map(Path::to_owned).collect()
    }

    /// Returns the result of the rollback. An archived file is moved back only if the restore does not write a file to its place.
    pub(super) fn rollback(
        &self,
        files: RestorePlan,
        archived: Vec<ArchiveEntry>,
        record: PendingRollback,
    ) -> Rollback {
        let is_written = |path: &str| {
            files
                .write
                .iter()
                .any(|written| written.as_path() == Path::new(path))
        };
        let unarchived = archived.into_iter().map(|entry| entry.source_path);
        let unarchived = unarchived.filter(|path| !is_written(path)).collect();
        let thread = self.thread_after();
        Rollback {
            checkpoint_type: self.source.checkpoint_type(&self.state),
            source: self.source.clone(),
            files,
            unarchived,
            rig_copies: Vec::new(),
            kept: Vec::new(),
            safety: None,
            next: thread.next_codon_id,
            failed: thread.failed,
            undoes: self.cause.undoes.clone(),
            record,
        }
    }
}

/// Whether `source` is a position in this codon or after it.
fn is_target(entry: &ThreadCodon, source: &ContinuationSource) -> bool {
    let is_after = Some(entry.codon.codon_id()) == source.after_codon.as_ref();
    // A position with a checkpoint of the codon is in it, even if it does not have its id.
    let mut checkpoints = entry.codon.checkpoints();
    entry.run_id == source.run_id && (is_after || checkpoints.any(|(_, sha)| *sha == source.checkpoint_sha))
}
