//! Rollback to a checkpoint (TASK-19, TASK-45).

use std::ffi::OsStr;

use hankweave_runtime::world::disk::Folder;

use super::LOGS;
use super::error::LayerError;
use super::figures::{Layer, LayerOperation};
use super::files::TaskFiles;
use super::folder::read;
use crate::model::task::TaskStatus;
use crate::model::{CheckpointId, TaskCheckpoint, TaskError, TaskState};

/// Options of a restore.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RestoreOptions {
    /// Whether to make a checkpoint of the present files first.
    pub keep_present: bool,
    /// Status of the task in the registry; if absent, the status in the present state stays.
    pub status: Option<TaskStatus>,
    /// Token of the lock under which the restore runs; `None` without a lock, which fails for a state that was written under one.
    pub token: Option<u64>,
}

impl Default for RestoreOptions {
    fn default() -> Self {
        Self {
            keep_present: true,
            status: None,
            token: None,
        }
    }
}

impl TaskFiles {
    /// Restores the data of a checkpoint, and adds its log lines that the present log lacks, with a note about the restore. A second restore only adds a
    /// second note.
    ///
    /// # Errors
    ///
    /// Fails like [`read_checkpoint`](Self::read_checkpoint) and [`save_state`](Self::save_state). A damaged checkpoint is detected before anything
    /// is changed.
    pub fn restore_checkpoint(
        &self,
        id: CheckpointId,
        options: RestoreOptions,
    ) -> Result<TaskState, LayerError> {
        self.traced(Layer::Checkpoints, LayerOperation::Load, || {
            let folder = self.lock()?;
            let checkpoint = self.read_checkpoint_in(&*folder, id)?;
            let present = self.state_in(&*folder)?;
            let status = options.status.or(present.as_ref().map(|state| state.status));
            let next = RestoredState {
                status: status.unwrap_or(checkpoint.state().status),
                version: present.as_ref().and_then(|state| state.version).unwrap_or(0),
                token: options.token,
            };
            let (state, log) = self.restored(&*folder, &checkpoint, next)?;
            if let Some(present) = present {
                present.may_become(&state)?;
                if options.keep_present {
                    self.create_checkpoint_in(&*folder, None, Some(&format!("before restore of {id}")))?;
                }
            }
            self.put_state(&*folder, &state)?;
            self.add_to_log(&*folder, &log)?;
            Ok(state)
        })
    }

    /// Returns the state that a restore writes, and the text that it appends to the log.
    pub(super) fn restored(
        &self,
        folder: &dyn Folder,
        checkpoint: &TaskCheckpoint,
        next: RestoredState,
    ) -> Result<(TaskState, String), LayerError> {
        let live = read(folder, LOGS)
            .map_err(self.load_error(LOGS))?
            .unwrap_or_default();
        let live = String::from_utf8_lossy(&live);
        let mut restored = checkpoint.restore(next.status, next.version, &live, self.now())?;
        restored.state.fencing_token = next.token;
        Ok((restored.state, restored.log))
    }

    pub(super) fn add_to_log(&self, folder: &dyn Folder, text: &str) -> Result<(), LayerError> {
        let add = || {
            let mut file = folder.open_shared(OsStr::new(LOGS))?;
            file.add(text.as_bytes())?;
            file.sync_data()?;
            folder.sync()
        };
        add().map_err(self.save_error(LOGS))
    }

    /// Parses the given name of a checkpoint, or returns the newest one.
    ///
    /// # Errors
    ///
    /// [`InvalidCheckpointId`](TaskError::InvalidCheckpointId), [`CheckpointNotFound`](TaskError::CheckpointNotFound) or [`LayerError::Load`].
    pub fn checkpoint_id(&self, given: Option<&str>) -> Result<CheckpointId, LayerError> {
        if let Some(name) = given {
            return Ok(CheckpointId::parse(name)?);
        }
        // The error puts "there is no" in front of this text.
        let none = || TaskError::CheckpointNotFound {
            id: format!("checkpoint of `{}`", self.id),
        };
        let newest = self.checkpoints()?.valid.into_iter().next().ok_or_else(none)?;
        Ok(CheckpointId::parse(&newest.id)?)
    }
}

/// Parts of the state after a restore that do not come from the checkpoint.
#[derive(Debug, Clone, Copy)]
pub(super) struct RestoredState {
    pub(super) status: TaskStatus,
    /// Version of the replaced state, or of the checkpoint if a recovery finds no readable state. The new state gets the next version.
    pub(super) version: u64,
    /// Token of the lock under which the state is written.
    pub(super) token: Option<u64>,
}
