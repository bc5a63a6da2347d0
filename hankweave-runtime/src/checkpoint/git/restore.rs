//! First steps of a restore by [`GitCheckpoints`]: plan it, and save the affected files in a safety checkpoint (G8).
//! [`apply`](crate::checkpoint::restore::apply) then writes the files.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, MutexGuard, PoisonError};

use git2::{Oid, Repository};
use hankweave_core::id::CheckpointSha;

use super::GitCheckpoints;
use super::record::{CommitDraft, beginning, tip};
use crate::checkpoint::git_format::{NewObjects, ObjectReader};
use crate::checkpoint::history;
use crate::checkpoint::object::{BlobStore, ContentError, ObjectError};
use crate::checkpoint::restore::{Prepared, prepare};
use crate::checkpoint::snapshot::WorkspaceSnapshot;
use crate::checkpoint::stat_cache::StatCache;
use crate::checkpoint::tree::{Listing, changes};
use crate::checkpoint::{
    Checkpoint, CheckpointError, HistoryError, RestoreError, RestorePlan, RestoreRequest, message, prune,
};

impl GitCheckpoints {
    /// Compares the workspace with the target of `request` and plans the restore; changes nothing.
    pub(super) fn prepare_restore(
        &self,
        reader: &ObjectReader<'_>,
        cache: &StatCache,
        request: &RestoreRequest,
        blobs: &dyn BlobStore,
    ) -> Result<Prepared, RestoreError> {
        let listing = |sha| self.listing(reader, cache, sha);
        let target = listing(&request.target).map_err(RestoreError::History)?;
        let left = request.left.as_ref().map(listing).transpose();
        let left = left.map_err(RestoreError::History)?.unwrap_or_default();
        let workspace = self.open_workspace().map_err(RestoreError::Safety)?;
        prepare(
            &workspace,
            cache,
            blobs,
            target,
            &left,
            request.spares_changed,
            &self.counted,
        )
    }

    pub(super) fn listings(&self) -> MutexGuard<'_, HashMap<Oid, Arc<Listing>>> {
        // After a panic the map is still right: the files of a tree never change.
        self.listings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The files of a checkpoint.
    fn listing(
        &self,
        reader: &ObjectReader<'_>,
        cache: &StatCache,
        sha: &CheckpointSha,
    ) -> Result<Arc<Listing>, HistoryError> {
        let tree = history::find(reader, sha)?.tree;
        if let Some(known) = self.listings().get(&tree) {
            return Ok(Arc::clone(known));
        }
        let files = match cache.root() == Some(tree) {
            true => cache.files.clone(),
            false => history::load(reader, sha, Some((&cache.files, &cache.folders)))?.files,
        };
        let files = Arc::new(files);
        self.listings().insert(tree, Arc::clone(&files));
        Ok(files)
    }

    /// Whether the safety checkpoint of `request` has all files that the restore would change. One that cannot be read does not count.
    pub(super) fn is_saved(
        &self,
        reader: &ObjectReader<'_>,
        cache: &StatCache,
        prepared: &Prepared,
        request: &RestoreRequest,
    ) -> bool {
        let Some(safety) = &request.safety else {
            return false;
        };
        let saved = self.listing(reader, cache, safety);
        saved.is_ok_and(|saved| prepared.is_saved_in(&saved))
    }

    /// Saves the files as they are before a restore, on a branch of their own.
    pub(super) fn save(
        &self,
        repository: &Repository,
        cache: &StatCache,
        objects: NewObjects<'_>,
        current: &mut WorkspaceSnapshot,
        request: &RestoreRequest,
    ) -> Result<Checkpoint, CheckpointError> {
        let reader = history::open_reader(repository).map_err(CheckpointError::Parent)?;
        let base = request.left.as_ref().map(|left| history::find(&reader, left));
        let base = base
            .transpose()
            .map_err(CheckpointError::Parent)?
            .map(|commit| commit.id);
        let first = format!(
            "{}{}-{}",
            prune::PREFIX,
            request.at.as_millis(),
            request.target.short()
        );
        let (mut branch, mut number) = (first.clone(), 1);
        while tip(repository, &branch)?.is_some() {
            number += 1;
            branch = format!("{first}-{number}");
        }
        let message = message::safety(&request.target, request.at);
        let draft = CommitDraft {
            branch: &branch,
            tip: None,
            base,
            // The base is no parent, so that cleaning up can remove the base.
            parent: beginning(repository, &reader)?,
            message,
            at: request.at,
        };
        let changes = changes(&cache.files, &current.files);
        let (checkpoint, folders) = self.commit(repository, cache, objects, current, &changes, &draft)?;
        if let Some(tree) = folders.get(&[][..]) {
            self.listings().insert(*tree, Arc::new(current.files.clone()));
        }
        Ok(checkpoint)
    }
}

/// Fails when contents are missing that the restore needs, before anything is changed.
pub(super) fn check_contents(
    reader: &ObjectReader<'_>,
    plan: &RestorePlan,
    target: &Listing,
) -> Result<(), RestoreError> {
    for path in &plan.write {
        if let Some(entry) = target.get(path.as_bytes())
            && let Err(ContentError::Object(error)) = reader.copy_content(entry.blob, &mut io::sink())
        {
            return Err(unreadable(ObjectError::at("find the contents of a file")(error)));
        }
    }
    Ok(())
}

pub(super) fn unreadable(error: ObjectError) -> RestoreError {
    RestoreError::History(HistoryError::Read(error))
}
