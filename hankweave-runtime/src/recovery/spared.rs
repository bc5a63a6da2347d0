//! The checkpoint store of a directory whose record has a spare copy outside of the workspace (P11). Before the store is read, files that agents
//! have removed are put back out of the spare copy; after it was written, the spare copy is updated.

use std::collections::BTreeSet;
use std::sync::Arc;

use hankweave_core::id::CheckpointSha;

use crate::checkpoint::{
    Checkpoint, CheckpointError, CheckpointRequest, CheckpointStore, CheckpointsBySha, Counts,
    GitCheckpoints, HistoryError, InitialRequest, PathChange, Protection, RestoreError, RestorePlan,
    RestoreReport, RestoreRequest, SurveyedFile, TreePath, WorkspaceSurvey,
};
use crate::world::disk::Spare;

/// A checkpoint repository, and the spare copy of the record that it is part of.
#[derive(Debug)]
pub(super) struct SparedCheckpoints {
    store: GitCheckpoints,
    spare: Arc<Spare>,
}

impl SparedCheckpoints {
    pub(super) fn new(store: GitCheckpoints, spare: Arc<Spare>) -> Self {
        Self { store, spare }
    }

    /// Returns the store for reading, after putting back missing files.
    fn reading(&self) -> &GitCheckpoints {
        self.spare.restore_missing();
        &self.store
    }

    /// Runs a step that writes to the store, and then updates the spare copy, even if the step failed halfway.
    fn writing<T>(&self, step: impl FnOnce(&GitCheckpoints) -> T) -> T {
        let result = step(self.reading());
        self.spare.follow();
        result
    }
}

impl CheckpointStore for SparedCheckpoints {
    fn initial(&self, request: &InitialRequest) -> Result<Checkpoint, CheckpointError> {
        self.writing(|store| store.initial(request))
    }

    fn create(&self, request: &CheckpointRequest) -> Result<Checkpoint, CheckpointError> {
        self.writing(|store| store.create(request))
    }

    fn create_start(&self, request: &CheckpointRequest) -> Result<Option<Checkpoint>, CheckpointError> {
        self.writing(|store| store.create_start(request))
    }

    // This method and the next three do not read the repository, so nothing is put back for them.
    fn survey(&self, patterns: &[String]) -> Result<Vec<SurveyedFile>, CheckpointError> {
        self.store.survey(patterns)
    }

    fn survey_all(&self, patterns: &[String]) -> Result<WorkspaceSurvey, CheckpointError> {
        self.store.survey_all(patterns)
    }

    fn content(&self, file: &SurveyedFile, most: u64) -> Option<Vec<u8>> {
        self.store.content(file, most)
    }

    fn progress(&self) -> Option<Counts> {
        self.store.progress()
    }

    fn list(&self) -> Result<CheckpointsBySha, HistoryError> {
        self.reading().list()
    }

    fn contains(&self, sha: &CheckpointSha) -> Result<bool, HistoryError> {
        self.reading().contains(sha)
    }

    fn verify(&self, shas: &[CheckpointSha]) -> Result<Vec<CheckpointSha>, HistoryError> {
        self.reading().verify(shas)
    }

    fn restorable(&self, shas: &[CheckpointSha]) -> Result<CheckpointsBySha, HistoryError> {
        self.reading().restorable(shas)
    }

    fn files(&self, sha: &CheckpointSha) -> Result<Vec<TreePath>, HistoryError> {
        self.reading().files(sha)
    }

    fn diff(&self, from: &CheckpointSha, to: &CheckpointSha) -> Result<Vec<PathChange>, HistoryError> {
        self.reading().diff(from, to)
    }

    fn plan_restore(&self, request: &RestoreRequest) -> Result<RestorePlan, RestoreError> {
        self.reading().plan_restore(request)
    }

    fn protect(&self, request: &RestoreRequest) -> Result<Protection, RestoreError> {
        self.writing(|store| store.protect(request))
    }

    fn restore(&self, request: &RestoreRequest) -> Result<RestoreReport, RestoreError> {
        self.writing(|store| store.restore(request))
    }

    fn prune(&self, keep: &[CheckpointSha]) -> Result<Vec<String>, HistoryError> {
        self.writing(|store| store.prune(keep))
    }

    fn clean(&self, gone: &BTreeSet<CheckpointSha>, keep: &[CheckpointSha]) -> Result<u64, HistoryError> {
        self.writing(|store| store.clean(gone, keep))
    }

    fn pack(&self) -> Result<usize, HistoryError> {
        self.writing(|store| store.pack())
    }

    fn measure_clean(
        &self,
        gone: &BTreeSet<CheckpointSha>,
        keep: &[CheckpointSha],
    ) -> Result<u64, HistoryError> {
        self.reading().measure_clean(gone, keep)
    }
}
