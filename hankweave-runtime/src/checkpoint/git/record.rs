//! From the files of the workspace to a commit: `record` reads the files, `commit` writes the objects and moves the branch.
//! Both make the checkpoints of [`GitCheckpoints`]; a safety checkpoint needs only `commit`.

use std::collections::BTreeSet;
use std::io;
use std::mem;

use git2::{Oid, Repository};
use hankweave_core::id::CheckpointSha;
use hankweave_core::time::Timestamp;

use super::GitCheckpoints;
use crate::checkpoint::git_format::{self, Move, MoveError, NewCommit, NewObjects, ObjectReader};
use crate::checkpoint::history::{self, EARLIER_BEGINNING, MAIN};
use crate::checkpoint::object::ObjectError;
use crate::checkpoint::repository::name_of;
use crate::checkpoint::select::FileSelection;
use crate::checkpoint::snapshot::{self, WorkspaceSnapshot};
use crate::checkpoint::stat_cache::{NextCache, StatCache};
use crate::checkpoint::tree::{Folders, Listing, changes};
use crate::checkpoint::{
    Checkpoint, CheckpointError, HistoryError, PathChange, Patterns, Skipped, TreePath, message,
};
use crate::world::disk::{open_dir, sync_file_system};

/// A commit to make.
pub(super) struct CommitDraft<'a> {
    pub(super) branch: &'a str,
    /// Current target of the branch.
    pub(super) tip: Option<Oid>,
    /// The checkpoint from which the new one is made: its files belong to the new one, too.
    pub(super) base: Option<Oid>,
    /// The parent in git, which may be another commit than `base`.
    pub(super) parent: Option<Oid>,
    pub(super) message: String,
    pub(super) at: Timestamp,
}

/// Treatment of files that are all as in the base.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unchanged {
    /// They get a commit of their own (G12).
    Recorded,
    /// No commit is made.
    NotRecorded,
}

impl CommitDraft<'_> {
    /// Returns the message, which also names the base if that is not the parent, and the files in `skipped`.
    fn whole_message(&self, skipped: &[Skipped]) -> String {
        let base = self.base.filter(|_| self.base != self.parent);
        let message = match base {
            Some(base) => message::made_from(&self.message, &name_of(base)),
            None => self.message.clone(),
        };
        message::without(message, skipped)
    }
}

impl GitCheckpoints {
    /// Reads the files of the workspace that match or belong to the base, without those in `left_out`, and commits them.
    /// Returns `None` when they are unchanged and `unchanged` says that no commit is made.
    pub(super) fn record(
        &self,
        repository: &Repository,
        cache: &mut StatCache,
        (patterns, left_out): (&Patterns, Option<&BTreeSet<TreePath>>),
        draft: &CommitDraft<'_>,
        unchanged: Unchanged,
    ) -> Result<Option<Checkpoint>, CheckpointError> {
        let workspace = self.open_workspace()?;
        let base = draft.base.map(name_of);
        base_on(repository, cache, base.as_ref()).map_err(CheckpointError::Parent)?;
        let next = NextCache::start(self.history.path())
            .inspect_err(|error| {
                tracing::warn!(%error, "no stat cache can be begun; what is read now is read again");
            })
            .ok();
        let selection = FileSelection {
            patterns,
            tracked: &[&cache.files],
            in_the_way: false,
            unlisted: false,
            most_bytes: self.most_bytes,
        };
        let objects =
            NewObjects::open(self.history.path(), &cache.durable).map_err(CheckpointError::Store)?;
        let mut snapshot = snapshot::take(&workspace, &selection, cache, &objects, &self.counted)?;
        if let Some(left_out) = left_out {
            snapshot.files = mem::take(&mut snapshot.files).without(left_out);
        }
        let changes = changes(&cache.files, &snapshot.files);
        if changes.is_empty() && unchanged == Unchanged::NotRecorded {
            return Ok(None);
        }
        let (checkpoint, folders) =
            self.commit(repository, cache, objects, &mut snapshot, &changes, draft)?;
        cache.update(next.as_ref(), snapshot.files, snapshot.read, folders, &changes);
        if let Some(Err(error)) = next.map(|next| next.finish(cache)) {
            tracing::warn!(%error, "failed to write the stat cache; the next start reads all files again");
        }
        Ok(Some(checkpoint))
    }

    /// Commits the files of `snapshot` and moves the branch; returns the checkpoint and the ids of all its folders. All
    /// objects are durable before the branch moves, and the move is durable on return (G6).
    pub(super) fn commit(
        &self,
        repository: &Repository,
        cache: &StatCache,
        objects: NewObjects<'_>,
        snapshot: &mut WorkspaceSnapshot,
        changes: &[PathChange],
        draft: &CommitDraft<'_>,
    ) -> Result<(Checkpoint, Folders), CheckpointError> {
        let new = NewCommit {
            parents: draft.parent.as_slice(),
            at: draft.at,
            message: &draft.whole_message(&snapshot.skipped),
        };
        let (commit, folders) = new
            .write(&objects, &snapshot.files, &cache.folders, changes)
            .map_err(CheckpointError::Store)?;
        let name = reference_name(draft.branch);
        let failed = |action| move |error: io::Error| CheckpointError::Store(ObjectError::at(action)(error));
        let branch = Move::start(repository, &name, draft.tip, commit).map_err(|error| match error {
            MoveError::Elsewhere(found) => moved_elsewhere(draft, found),
            MoveError::Git(error) => CheckpointError::Store(ObjectError::at("read the branch")(error)),
            MoveError::Io(error) => failed("prepare the branch")(error),
        })?;
        objects.finish().map_err(CheckpointError::Store)?;
        branch.finish().map_err(failed("move the branch"))?;
        let checkpoint = Checkpoint {
            sha: name_of(commit),
            branch: draft.branch.to_owned(),
            parent: draft.base.map(name_of),
            files: snapshot.files.len(),
            skipped: mem::take(&mut snapshot.skipped),
            seen: mem::take(&mut snapshot.seen),
        };
        Ok((checkpoint, folders))
    }
}

/// Makes `cache` hold the files of the checkpoint `parent`, or none without a parent; the known stats of files stay.
pub(super) fn base_on(
    repository: &Repository,
    cache: &mut StatCache,
    parent: Option<&CheckpointSha>,
) -> Result<(), HistoryError> {
    let Some(parent) = parent else {
        if cache.root().is_some() {
            cache.set_checkpoint(Listing::default(), Folders::default());
        }
        return Ok(());
    };
    let reader = history::open_reader(repository)?;
    if cache.root() != Some(history::find(&reader, parent)?.tree) {
        let loaded = history::load(&reader, parent, Some((&cache.files, &cache.folders)))?;
        cache.set_checkpoint(loaded.files, loaded.folders);
    }
    Ok(())
}

/// Returns the first commit of the repository, which has no files. A commit with this parent needs no other checkpoint.
pub(super) fn beginning(
    repository: &Repository,
    reader: &ObjectReader<'_>,
) -> Result<Option<Oid>, CheckpointError> {
    match tip(repository, MAIN)? {
        Some(main) => history::first_commit(reader, main).map_err(CheckpointError::Parent),
        None => Ok(None),
    }
}

/// Makes a branch for the commit `tip` of `main`, so that git keeps `tip` when `main` moves to another line.
pub(super) fn keep_within_reach(repository: &Repository, tip: Oid) -> Result<(), CheckpointError> {
    const ACTION: &str = "keep the files before an earlier run";
    let name = reference_name(&format!("{EARLIER_BEGINNING}{}", name_of(tip).short()));
    let io = |error: io::Error| CheckpointError::Store(ObjectError::at(ACTION)(error));
    let moved = match Move::start(repository, &name, None, tip) {
        Ok(moved) => moved,
        // An earlier start made this branch and crashed.
        Err(MoveError::Elsewhere(_)) => return Ok(()),
        Err(MoveError::Git(error)) => return Err(CheckpointError::Store(ObjectError::at(ACTION)(error))),
        Err(MoveError::Io(error)) => return Err(io(error)),
    };
    open_dir(repository.path())
        .and_then(sync_file_system)
        .map_err(io)?;
    moved.finish().map_err(io)
}

/// Returns the target of `branch`, if it exists.
pub(super) fn tip(repository: &Repository, branch: &str) -> Result<Option<Oid>, CheckpointError> {
    git_format::target(repository, &reference_name(branch))
        .map_err(|error| CheckpointError::Store(ObjectError::at("read the branch")(error)))
}

pub(super) fn reference_name(branch: &str) -> String {
    format!("refs/heads/{branch}")
}

/// Returns the error for a branch that ends at `found` and not where `draft` expects.
pub(super) fn moved_elsewhere(draft: &CommitDraft<'_>, found: Option<Oid>) -> CheckpointError {
    let name = |commit: Option<Oid>| commit.map_or_else(|| CheckpointSha::new(""), name_of);
    CheckpointError::BranchMoved {
        branch: draft.branch.to_owned(),
        expected: name(draft.base),
        found: name(found),
    }
}
