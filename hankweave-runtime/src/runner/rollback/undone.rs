//! Work that a run undoes when it goes back by itself: the files with which it began, and the files that it made (RUN-2).

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use hankweave_core::codon::{CheckpointType, CodonExecution};
use hankweave_core::document::{ContinuationSource, HankweaveState};
use hankweave_core::id::CheckpointSha;
use hankweave_core::plan::DeclaredPatterns;
use hankweave_core::thread::{ExecutionThread, StartOfWork, ThreadCodon};
use hankweave_core::time::Timestamp;

use super::RollbackError;
use super::kept::KeptFiles;
use super::restore::check_survivors;
use crate::checkpoint::{
    ChangeKind, Checkpoint, CheckpointError, CheckpointRequest, CheckpointStore, PathChange, RestoreError,
    TreePath,
};
use crate::recovery::{LockedExecution, OpenedExecution};
use crate::world::disk::Disk;

/// How far the clock of a file system may be behind, in milliseconds.
pub(super) const COARSE_MS: i64 = 20;

/// Target and origin of a rollback.
pub(super) struct Ends {
    pub(super) source: ContinuationSource,
    pub(super) left: Option<CheckpointSha>,
}

/// Work that is undone.
pub(in crate::runner) struct UndoneWork {
    /// Checkpoint of the files with which it began.
    start: CheckpointSha,
    /// First codon of it.
    first: String,
    /// When that began.
    began: Timestamp,
    /// The crash that it ended with.
    cut_off: Option<CutOff>,
}

/// A crash in the newest codon.
struct CutOff {
    /// Checkpoint of the files that it has left, to be made.
    request: CheckpointRequest,
    /// Log of the agent.
    log: Option<PathBuf>,
}

impl UndoneWork {
    /// Returns the work that a rollback to `source` undoes; `None` where nobody knows the files with which it began.
    pub(in crate::runner) async fn find(
        opened: &OpenedExecution,
        state: &HankweaveState,
        thread: &ExecutionThread,
        source: &ContinuationSource,
    ) -> Result<Option<Self>, RollbackError> {
        let Some(StartOfWork { first, checkpoint }) = thread.start_of_undone(state, source) else {
            return Ok(None);
        };
        let wanted = [checkpoint.clone()];
        let known = opened
            .possession
            .with_checkpoints(move |store| store.restorable(&wanted));
        if known.await.map_err(RollbackError::History)?.is_empty() {
            return Ok(None);
        }
        let newest = thread.codons.first();
        let cut_off = newest.filter(|newest| newest.was_cut_off() && state.pending_rollback.is_none());
        Ok(Some(Self {
            start: checkpoint,
            first: first.codon.codon_id().to_string(),
            began: *first.codon.start_time(),
            cut_off: cut_off.map(|newest| CutOff {
                request: request(opened, state, first, newest),
                log: log(opened, newest),
            }),
        }))
    }

    /// Returns the checkpoint of the files with which it began.
    pub(super) fn start(&self) -> &CheckpointSha {
        &self.start
    }

    /// Returns the files that it made until a crash interrupted it, and that are taken back; `None` where no crash did, or nobody knows who made them.
    pub(super) fn new_files(
        self,
        store: &dyn CheckpointStore,
        disk: &dyn Disk,
    ) -> Result<Option<Vec<TreePath>>, RestoreError> {
        let Some(CutOff { request, log }) = self.cut_off else {
            return Ok(None);
        };
        let before = store.files(&self.start).map_err(RestoreError::History)?;
        let before: BTreeSet<TreePath> = before.into_iter().collect();
        let mut seen = store.survey(&request.patterns).map_err(RestoreError::Safety)?;
        seen.retain(|file| !before.contains(&file.path));
        let during = (self.began, last_print(disk, log));
        let is_known = seen.iter().all(|file| is_of_work(file.touched(), during));
        Ok(is_known.then(|| seen.into_iter().map(|file| file.path).collect()))
    }

    /// Puts the files with which the work began in the place of the target's, and what a crash has left in the place of what is left; returns the files that
    /// stay so.
    pub(super) async fn narrow(
        self,
        possession: &LockedExecution,
        ends: &mut Ends,
    ) -> Result<KeptFiles, RollbackError> {
        check_survivors(possession)?;
        let mut files = KeptFiles::of_work(self.first);
        if let Some(CutOff { request, log }) = self.cut_off {
            let (left, start, began) = (ends.left.clone(), self.start.clone(), self.began);
            let disk = Arc::clone(&possession.world.disk);
            let kept = possession.with_checkpoints(move |store| {
                let during = (began, last_print(&*disk, log));
                Kept::make(store, request, left, &start, during)
            });
            let kept = kept.await.map_err(RollbackError::Restore)?;
            files.unknown = paths(kept.new);
            ends.left = kept.left;
        }
        let (from, to) = (ends.source.checkpoint_sha.clone(), self.start.clone());
        let changed = possession
            .with_checkpoints(move |store| store.diff(&from, &to))
            .await;
        files.older = paths(changed.map_err(RollbackError::History)?);
        ends.source.checkpoint_sha = self.start;
        Ok(files)
    }
}

/// Returns when an agent with this log printed last.
fn last_print(disk: &dyn Disk, log: Option<PathBuf>) -> Option<Timestamp> {
    Some(disk.metadata(&log?).ok()?.modified_at())
}

/// Whether a file that was last touched at this time was made by work: `during` is when that began, and when its agent printed last.
fn is_of_work(touched: Timestamp, (began, printed): (Timestamp, Option<Timestamp>)) -> bool {
    let oldest = Timestamp::from_millis(began.as_millis().saturating_sub(COARSE_MS));
    touched >= oldest && printed.is_some_and(|last| touched <= last)
}

fn paths(changes: Vec<PathChange>) -> BTreeSet<TreePath> {
    changes.into_iter().map(|change| change.path).collect()
}

/// Asks for a checkpoint of the files that a crash has left, on the branch of the run that crashed. The patterns are those with which the first codon began, so
/// that a file which only later ones watch is not taken for new.
fn request(
    opened: &OpenedExecution,
    state: &HankweaveState,
    first: &ThreadCodon,
    newest: &ThreadCodon,
) -> CheckpointRequest {
    let declared = DeclaredPatterns::default()
        .until(state, first.codon.codon_id())
        .to_vec();
    let id = newest.codon.codon_id();
    let config = opened.hank.codon(id.configured());
    CheckpointRequest {
        kind: CheckpointType::Error,
        run_id: newest.run_id.clone(),
        codon_id: id.clone(),
        codon_name: config.map_or_else(|| id.to_string(), |config| config.name.clone()),
        patterns: opened.patterns(declared),
        parent: None,
        at: opened.possession.world.clock.now(),
        duration: None,
    }
}

/// Returns the log of the agent of the newest codon.
fn log(opened: &OpenedExecution, newest: &ThreadCodon) -> Option<PathBuf> {
    match newest.codon.as_ref() {
        CodonExecution::Failed(failed) => {
            let log = failed.agent_log_path.as_ref()?;
            Some(opened.possession.dir.state_dir().join(log))
        }
        _ => None,
    }
}

/// Files that a crash has left.
struct Kept {
    /// The checkpoint that is left.
    left: Option<CheckpointSha>,
    /// New files, where nobody knows who made them.
    new: Vec<PathChange>,
}

impl Kept {
    /// Makes the checkpoint. `during`: when the work began, and when its agent printed last. A new file in it that is older shows that what counts as a file
    /// of the workspace has changed since, and one that is newer may be the user's. Then nobody knows which of the new ones were made by the work, and all
    /// stay, because `left` does not have them.
    fn make(
        store: &dyn CheckpointStore,
        request: CheckpointRequest,
        left: Option<CheckpointSha>,
        start: &CheckpointSha,
        during: (Timestamp, Option<Timestamp>),
    ) -> Result<Self, RestoreError> {
        let made = create(store, request, left.as_ref().unwrap_or(start)).map_err(RestoreError::Safety)?;
        let changes = store.diff(start, &made.sha).map_err(RestoreError::History)?;
        let touched: BTreeMap<_, _> = made
            .seen
            .iter()
            .map(|file| (&file.path, file.touched()))
            .collect();
        let is_known = |change: &PathChange| {
            let touched = touched.get(&change.path);
            touched.is_some_and(|touched| is_of_work(*touched, during))
        };
        let new: Vec<_> = changes
            .into_iter()
            .filter(|change| change.kind == ChangeKind::Added)
            .collect();
        Ok(match new.iter().all(is_known) {
            true => Self {
                left: Some(made.sha),
                new: Vec::new(),
            },
            false => Self { left, new },
        })
    }
}

/// Makes a checkpoint on the branch of a run that is over, which may have one that is not on record.
fn create(
    store: &dyn CheckpointStore,
    request: CheckpointRequest,
    parent: &CheckpointSha,
) -> Result<Checkpoint, CheckpointError> {
    let on = |parent: &CheckpointSha| {
        let parent = Some(parent.clone());
        store.create(&CheckpointRequest {
            parent,
            ..request.clone()
        })
    };
    match on(parent) {
        Err(CheckpointError::BranchMoved { found, .. }) => on(&found),
        made => made,
    }
}
