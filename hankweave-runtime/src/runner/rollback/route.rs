//! Plan of a possible rollback: the codons that it undoes, what stays, and what is put on record.

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

/// A rollback that is possible, before it is carried out.
pub(super) struct RollbackPlan {
    pub(super) state: Arc<HankweaveState>,
    /// The thread that ends at the current state.
    pub(super) thread: ExecutionThread,
    /// The target.
    pub(super) source: ContinuationSource,
    /// The checkpoint of the current files.
    pub(super) left: Option<CheckpointSha>,
    pub(super) cause: OperationCause,
}

impl RollbackPlan {
    /// The codons that are undone, newest first.
    pub(super) fn codons(&self) -> Vec<&ThreadCodon> {
        let kept = self.ahead().codons;
        let place = |entry: &ThreadCodon| (entry.run_id.clone(), entry.codon_index_in_run);
        let kept: BTreeSet<_> = kept.iter().map(place).collect();
        let codons = self.thread.codons.iter();
        codons
            .filter(|entry| !is_target(entry, &self.source) && !kept.contains(&place(entry)))
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

    /// The thread as it will be.
    fn ahead(&self) -> ExecutionThread {
        let mut ahead = HankweaveState::clone(&self.state);
        ahead.pending_rollback = Some(self.pending());
        thread::build(&ahead, None, None)
    }

    /// Returns the operation to record once the files are back; `safety` has them as they are now, if anything changes.
    pub(super) fn operation(
        &self,
        possession: &LockedExecution,
        safety: Option<&CheckpointSha>,
        plan: &RestorePlan,
    ) -> Option<Operation> {
        let target = &self.source.checkpoint_sha;
        let files = match plan.write.is_empty() && plan.delete.is_empty() {
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
                checkpoint_sha: files.clone(),
                ..thread::head(&self.state)?
            },
            after: self.source.clone(),
            undoes: self.cause.undoes.clone(),
            files: u64::try_from(plan.count()).unwrap_or(u64::MAX),
            removed: None,
            extra: Extra::default(),
        })
    }

    /// Returns the targets of the rigs of codons that stay.
    pub(super) fn kept_copies(&self, possession: &LockedExecution) -> BTreeSet<PathBuf> {
        let (ahead, targets) = (self.ahead().codons, self.thread.codons.iter());
        let targets = targets.filter(|entry| is_target(entry, &self.source));
        let stay = ahead.iter().chain(targets);
        let ids = stay.map(|entry| entry.codon.codon_id().configured());
        let targets = possession.rig_copies.targets(ids).into_iter();
        targets.map(Path::to_owned).collect()
    }

    /// Returns the result of the rollback.
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
        let thread = self.ahead();
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

fn is_target(entry: &ThreadCodon, source: &ContinuationSource) -> bool {
    let is_after = Some(entry.codon.codon_id()) == source.after_codon.as_ref();
    // A checkpoint of a rig is after no codon; the codon of the rig continues from there.
    let mut checkpoints = entry.codon.checkpoints();
    entry.run_id == source.run_id && (is_after || checkpoints.any(|(_, sha)| *sha == source.checkpoint_sha))
}
