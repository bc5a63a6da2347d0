//! Work that a run undoes when it goes back by itself: the files with which it began, and the files that it made (RUN-2).

use std::collections::BTreeMap;

use hankweave_core::codon::CheckpointType;
use hankweave_core::document::{ContinuationSource, HankweaveState};
use hankweave_core::id::CheckpointSha;
use hankweave_core::plan::DeclaredPatterns;
use hankweave_core::thread::{ExecutionThread, StartOfWork, ThreadCodon};
use hankweave_core::time::Timestamp;
use hankweave_core::wire::Event;

use super::RollbackError;
use super::restore::check_survivors;
use crate::checkpoint::{
    ChangeKind, Checkpoint, CheckpointError, CheckpointRequest, CheckpointStore, PathChange, RestoreError,
    named,
};
use crate::recovery::{LockedExecution, OpenedExecution};

/// How far the clock of a file system may be behind, in milliseconds.
const COARSE_MS: i64 = 20;

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
    /// Checkpoint of the files that a crash has left, to be made.
    cut_off: Option<CheckpointRequest>,
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
            cut_off: cut_off.map(|newest| request(opened, state, first, newest)),
        }))
    }

    /// Puts the files with which the work began in the place of the target's, and what a crash has left in the place of what is left; returns what to say of files
    /// that stay so.
    pub(super) async fn narrow(
        self,
        possession: &LockedExecution,
        ends: &mut Ends,
    ) -> Result<Vec<Event>, RollbackError> {
        check_survivors(possession)?;
        let mut told = Vec::new();
        if let Some(request) = self.cut_off {
            let (left, start, began) = (ends.left.clone(), self.start.clone(), self.began);
            let kept =
                possession.with_checkpoints(move |store| Kept::make(store, request, left, &start, began));
            let kept = kept.await.map_err(RollbackError::Restore)?;
            if !kept.older.is_empty() {
                let why = format!("in no checkpoint before {} began", self.first);
                told.push(stays(&why, &kept.older));
            }
            ends.left = kept.left;
        }
        let (from, to) = (ends.source.checkpoint_sha.clone(), self.start.clone());
        let changed = possession
            .with_checkpoints(move |store| store.diff(&from, &to))
            .await;
        let changed = changed.map_err(RollbackError::History)?;
        if !changed.is_empty() {
            told.push(stays(&format!("changed before {} began", self.first), &changed));
        }
        ends.source.checkpoint_sha = self.start;
        Ok(told)
    }
}

fn stays(why: &str, changes: &[PathChange]) -> Event {
    let names = named(changes.iter().map(|change| change.path.to_string()));
    let message = format!("{why}, so kept: {names}");
    Event::Info { message }
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

/// Files that a crash has left.
struct Kept {
    /// The checkpoint that is left.
    left: Option<CheckpointSha>,
    /// New files that are older than the work.
    older: Vec<PathChange>,
}

impl Kept {
    /// Makes the checkpoint. Where a new file in it was there before the work began, what counts as a file of the workspace has changed since, and nobody
    /// knows which of the new ones were made by the work: then all stay, because `left` does not have them.
    fn make(
        store: &dyn CheckpointStore,
        request: CheckpointRequest,
        left: Option<CheckpointSha>,
        start: &CheckpointSha,
        began: Timestamp,
    ) -> Result<Self, RestoreError> {
        let made = create(store, request, left.as_ref().unwrap_or(start)).map_err(RestoreError::Safety)?;
        let changes = store.diff(start, &made.sha).map_err(RestoreError::History)?;
        let touched: BTreeMap<_, _> = made
            .seen
            .iter()
            .map(|file| (&file.path, file.touched()))
            .collect();
        let oldest = Timestamp::from_millis(began.as_millis().saturating_sub(COARSE_MS));
        let is_older =
            |change: &PathChange| touched.get(&change.path).is_none_or(|touched| *touched < oldest);
        let added = changes
            .into_iter()
            .filter(|change| change.kind == ChangeKind::Added);
        let (older, newer): (Vec<_>, Vec<_>) = added.partition(is_older);
        Ok(match older.is_empty() {
            true => Self {
                left: Some(made.sha),
                older,
            },
            false => Self {
                left,
                older: [older, newer].concat(),
            },
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
