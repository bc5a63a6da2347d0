//! Work that a run undoes when it rolls back by itself: the files with which the work began, and the files that it made (RUN-2). The rollback restores
//! the former, not the older files of the target, so that changes by the user between the target and the work stay.

use std::collections::BTreeSet;
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
    Checkpoint, CheckpointError, CheckpointRequest, CheckpointStore, PathChange, RestoreError, SurveyedFile,
    TreePath,
};
use crate::recovery::{LockedExecution, OpenedExecution};
use crate::world::disk::Disk;

/// Maximum lag of a file system's clock behind the system's, in milliseconds: a file made just after the start of a codon may have a time before it.
pub(super) const COARSE_MS: i64 = 20;

/// The two ends of a rollback.
pub(super) struct Ends {
    /// The target.
    pub(super) source: ContinuationSource,
    /// The checkpoint of the current files.
    pub(super) left: Option<CheckpointSha>,
}

/// Work that is undone.
pub(in crate::runner) struct UndoneWork {
    /// Checkpoint of the files with which the work began.
    start: CheckpointSha,
    /// First codon of the work.
    first: String,
    /// Start of that codon.
    began: Timestamp,
    /// The crash with which the work ended, if it did.
    crash: Option<CrashedWork>,
}

/// A crash in the newest codon.
struct CrashedWork {
    /// Request for a checkpoint of the files that the crash has left.
    request: CheckpointRequest,
    /// Log of the agent.
    log: Option<PathBuf>,
}

/// Files that were made since the work began.
#[derive(Default)]
pub(super) struct NewFiles {
    /// Files that the work made.
    pub(super) made: BTreeSet<TreePath>,
    /// Files whose maker is unknown: the work or the user.
    pub(super) stay: BTreeSet<TreePath>,
}

impl UndoneWork {
    /// Returns the work that a rollback to `source` undoes; `None` if the files with which that work began are unknown.
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
        let crashed = newest.filter(|newest| newest.was_cut_off() && state.pending_rollback.is_none());
        Ok(Some(Self {
            start: checkpoint,
            first: first.codon_id().to_string(),
            began: *first.start_time(),
            crash: crashed.map(|newest| CrashedWork {
                request: request(opened, state, first, newest),
                log: log(opened, newest),
            }),
        }))
    }

    /// Returns the checkpoint of the files with which the work began.
    pub(super) fn start(&self) -> &CheckpointSha {
        &self.start
    }

    /// Returns the files that are new since the work began. The files that the work made until a crash interrupted it are
    /// rolled back, the others stay. Returns `None` if there was no crash.
    pub(super) fn new_files(
        self,
        store: &dyn CheckpointStore,
        disk: &dyn Disk,
    ) -> Result<Option<NewFiles>, RestoreError> {
        let Some(CrashedWork { request, log }) = self.crash else {
            return Ok(None);
        };
        let new = new_since(store, &self.start, &request.patterns)?;
        let work_time = WorkTime {
            began: self.began,
            printed: last_print(disk, log),
        };
        let stay = work_time.of_unknown_maker(&new);
        let made = new.into_iter().map(|file| file.path);
        Ok(Some(NewFiles {
            made: made.filter(|path| !stay.contains(path)).collect(),
            stay,
        }))
    }

    /// Narrows a rollback to the work: its target becomes the checkpoint with which the work began, and after a crash its origin
    /// becomes a new checkpoint of the files that the crash has left. Returns the user's files, which stay because of that.
    pub(super) async fn narrow(
        self,
        possession: &LockedExecution,
        ends: &mut Ends,
    ) -> Result<KeptFiles, RollbackError> {
        check_survivors(possession)?;
        let mut files = KeptFiles::of_work(self.first);
        if let Some(CrashedWork { request, log }) = self.crash {
            let (left, start, began) = (ends.left.clone(), self.start.clone(), self.began);
            let disk = Arc::clone(&possession.world.disk);
            let saved = possession.with_checkpoints(move |store| {
                let printed = last_print(&*disk, log);
                save_crashed_work(
                    store,
                    request,
                    left.as_ref(),
                    &start,
                    &WorkTime { began, printed },
                )
            });
            let (left, unknown) = saved.await.map_err(RollbackError::Restore)?;
            files.unknown = unknown;
            ends.left = Some(left);
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

/// Returns when the agent with this log printed last; `None` if that is unknown.
fn last_print(disk: &dyn Disk, log: Option<PathBuf>) -> Option<Timestamp> {
    Some(disk.metadata(&log?).ok()?.modified_at())
}

/// Time of the undone work.
struct WorkTime {
    began: Timestamp,
    /// When the agent printed last; `None` if that is unknown.
    printed: Option<Timestamp>,
}

impl WorkTime {
    /// Returns those of the new files of which it is unknown whether the work made them. Files that are newer than the last output
    /// of the agent may be the user's. If a file is older than the work, the rules that select files of the workspace must have changed
    /// since: then the maker of every file is unknown.
    fn of_unknown_maker(&self, new: &[SurveyedFile]) -> BTreeSet<TreePath> {
        let oldest = Timestamp::from_millis(self.began.as_millis().saturating_sub(COARSE_MS));
        let is_newer = |file: &SurveyedFile| self.printed.is_none_or(|last| file.touched() > last);
        let has_older = new.iter().any(|file| file.touched() < oldest);
        let unknown = new.iter().filter(|file| has_older || is_newer(file));
        unknown.map(|file| file.path.clone()).collect()
    }
}

/// Returns the files of the workspace that match these patterns and are not in the checkpoint `start`.
fn new_since(
    store: &dyn CheckpointStore,
    start: &CheckpointSha,
    patterns: &[String],
) -> Result<Vec<SurveyedFile>, RestoreError> {
    let before = store.files(start).map_err(RestoreError::History)?;
    let before: BTreeSet<TreePath> = before.into_iter().collect();
    let mut files = store.survey(patterns).map_err(RestoreError::Safety)?;
    files.retain(|file| !before.contains(&file.path));
    Ok(files)
}

fn paths(changes: Vec<PathChange>) -> BTreeSet<TreePath> {
    changes.into_iter().map(|change| change.path).collect()
}

/// Returns the request for a checkpoint of the files that a crash has left, on the branch of the run that crashed. Its
/// patterns are those with which the first codon started, so that a file that only later codons watch does not count as
/// new.
fn request(
    opened: &OpenedExecution,
    state: &HankweaveState,
    first: &CodonExecution,
    newest: &ThreadCodon,
) -> CheckpointRequest {
    let declared = DeclaredPatterns::default()
        .until(state, first.codon_id())
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
        left_out: BTreeSet::new(),
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

/// Makes the checkpoint of the files that a crash has left. Returns the checkpoint, and the new files of which it is unknown whether
/// the work made them. The checkpoint leaves these out, so the rollback does not delete them.
fn save_crashed_work(
    store: &dyn CheckpointStore,
    request: CheckpointRequest,
    left: Option<&CheckpointSha>,
    start: &CheckpointSha,
    work_time: &WorkTime,
) -> Result<(CheckpointSha, BTreeSet<TreePath>), RestoreError> {
    let unknown = work_time.of_unknown_maker(&new_since(store, start, &request.patterns)?);
    let request = CheckpointRequest {
        left_out: unknown.clone(),
        ..request
    };
    let made = create(store, request, left.unwrap_or(start)).map_err(RestoreError::Safety)?;
    Ok((made.sha, unknown))
}

/// Makes a checkpoint on the branch of a run that has ended. If the branch ends in a checkpoint that is not on record, builds on that one.
fn create(
    store: &dyn CheckpointStore,
    request: CheckpointRequest,
    parent: &CheckpointSha,
) -> Result<Checkpoint, CheckpointError> {
    let create_on = |parent: &CheckpointSha| {
        let parent = Some(parent.clone());
        store.create(&CheckpointRequest {
            parent,
            ..request.clone()
        })
    };
    match create_on(parent) {
        Err(CheckpointError::BranchMoved { found, .. }) => create_on(&found),
        made => made,
    }
}
