//! state.json: replaced as a whole, and read exactly as saved or not at all (TASK-40 to TASK-42).

use hankweave_core::document::RunStatus;
use hankweave_core::id::TaskId;
use hankweave_remote::history;
use hankweave_runtime::ExecutionDir;
use hankweave_runtime::world::disk::Folder;

use super::error::LayerError;
use super::figures::{Layer, LayerOperation};
use super::files::TaskFiles;
use super::folder::{read, replace};
use super::{STATE, WORKSPACE};
use crate::model::task::TaskStatus;
use crate::model::{TaskError, TaskState};

impl TaskFiles {
    /// Whether the newest run in the task's workspace on this machine has completed.
    pub(crate) fn has_completed_run(&self) -> bool {
        if self.check_origin().is_err() {
            return false;
        }
        let dir = ExecutionDir::new(self.path().join(WORKSPACE));
        let state = history(self.layers.world(), &dir);
        state.is_ok_and(|state| {
            let newest = state.runs.front();
            newest.is_some_and(|run| run.status == RunStatus::Completed)
        })
    }

    /// Saves a state in place of an earlier one.
    ///
    /// # Errors
    ///
    /// [`StateSaveFailed`](TaskError::StateSaveFailed), [`StaleToken`](TaskError::StaleToken), [`VersionConflict`](TaskError::VersionConflict), or
    /// why the existing state cannot be read; [`ResourceLocked`](TaskError::ResourceLocked) while another process writes. The old state stays then,
    /// unless only the last step failed, the sync of the folder.
    pub fn save_state(&self, state: &TaskState) -> Result<(), LayerError> {
        self.traced(Layer::State, LayerOperation::Save, || {
            let folder = self.lock()?;
            if let Some(current) = self.state_in(&*folder)? {
                current.may_become(state)?;
            }
            self.put_state(&*folder, state)
        })
    }

    /// Changes the state under the lock with this token, and raises its version. A missing state starts without data.
    ///
    /// # Errors
    ///
    /// Fails like [`save_state`](Self::save_state).
    pub fn update_state(
        &self,
        token: Option<u64>,
        change: impl FnOnce(&mut TaskState),
    ) -> Result<TaskState, LayerError> {
        self.traced(Layer::State, LayerOperation::Save, || {
            let folder = self.lock()?;
            let current = self.state_in(&*folder)?;
            let new = || TaskState::new(TaskId::clone(&self.id), TaskStatus::Pending, self.now());
            let mut next = current.clone().unwrap_or_else(new);
            change(&mut next);
            next.version = Some(next.version.unwrap_or(0) + 1);
            next.fencing_token = token;
            next.last_updated = self.now();
            if let Some(current) = current {
                current.may_become(&next)?;
            }
            self.put_state(&*folder, &next)?;
            Ok(next)
        })
    }

    /// Returns the saved state; `None` if there is none.
    ///
    /// # Errors
    ///
    /// [`StateLoadFailed`](TaskError::StateLoadFailed) or [`StateValidationFailed`](TaskError::StateValidationFailed). Nothing is repaired.
    pub fn load_state(&self) -> Result<Option<TaskState>, LayerError> {
        self.traced(Layer::State, LayerOperation::Load, || match self.open()? {
            Some(folder) => self.state_in(&*folder),
            None => Ok(None),
        })
    }

    /// Adds a checksum to a state that another program wrote without one, or with zeros in its place. Returns whether the state was of that kind.
    ///
    /// # Errors
    ///
    /// Fails like [`load_state`](Self::load_state) and [`save_state`](Self::save_state).
    pub fn import_legacy_state(&self) -> Result<bool, LayerError> {
        self.traced(Layer::State, LayerOperation::Save, || {
            let folder = self.lock()?;
            let bytes = read(&*folder, STATE).map_err(self.load_error(STATE))?;
            let missing = || TaskError::StateLoadFailed("there is none".to_owned());
            let (state, is_legacy) = TaskState::import(&bytes.ok_or_else(missing)?, &self.id)?;
            if is_legacy {
                tracing::warn!(code = "LEGACY_CHECKSUM", taskId = %self.id, "a state without a checksum is taken over");
                self.put_state(&*folder, &state)?;
            }
            Ok(is_legacy)
        })
    }

    /// Reads the state in the open folder of the task.
    pub(super) fn state_in(&self, folder: &dyn Folder) -> Result<Option<TaskState>, LayerError> {
        let bytes = read(folder, STATE).map_err(self.load_error(STATE))?;
        Ok(bytes.map(|bytes| TaskState::read(&bytes, &self.id)).transpose()?)
    }

    /// Replaces the state in the open and locked folder of the task.
    pub(super) fn put_state(&self, folder: &dyn Folder, state: &TaskState) -> Result<(), LayerError> {
        let text = state.text()?;
        replace(folder, STATE, &self.nonce(), text.as_bytes()).map_err(self.save_error(STATE))
    }
}
