//! Recovery of an unreadable state from the remaining files (TASK-49).

use std::ffi::OsStr;

use hankweave_core::id::TaskId;
use hankweave_runtime::world::disk::Folder;
use serde_json::json;

use super::STATE;
use super::error::LayerError;
use super::figures::{Layer, LayerOperation};
use super::files::TaskFiles;
use super::folder::read;
use super::restore::RestoredState;
use crate::model::task::TaskStatus;
use crate::model::{CheckpointId, LogEntry, LogLevel, TaskError, TaskState, lines};

/// Result of a recovery.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct RecoveredTask {
    /// Source of the state.
    pub method: RecoveredBy,
    /// Recovered state.
    pub state: TaskState,
    /// New name of the broken state file, if there was one.
    pub kept: Option<String>,
}

/// Source of a recovered state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RecoveredBy {
    /// The state was readable; nothing was changed.
    Nothing,
    /// The newest complete checkpoint.
    Checkpoint(CheckpointId),
    /// The last log line with a status; the data are lost.
    Log,
}

impl RecoveredBy {
    /// Returns the checkpoint, if it was the source.
    #[must_use]
    pub fn checkpoint(&self) -> Option<CheckpointId> {
        match self {
            Self::Checkpoint(id) => Some(*id),
            Self::Nothing | Self::Log => None,
        }
    }

    /// Returns the name of the source.
    #[must_use]
    pub fn method(&self) -> &'static str {
        match self {
            Self::Nothing => "none",
            Self::Checkpoint(_) => "checkpoint",
            Self::Log => "log",
        }
    }
}

impl TaskFiles {
    /// Recovers an unreadable state from the newest undamaged checkpoint. Without a checkpoint, recovers only the status, from the log. The broken file
    /// is kept under another name. `status` is that of the registry, which takes precedence.
    ///
    /// # Errors
    ///
    /// [`StateUnrecoverable`](TaskError::StateUnrecoverable), and nothing was changed; [`LayerError::Load`] and [`LayerError::Save`];
    /// [`ResourceLocked`](TaskError::ResourceLocked) while another process writes.
    pub fn recover(
        &self,
        status: Option<TaskStatus>,
        token: Option<u64>,
    ) -> Result<RecoveredTask, LayerError> {
        self.traced(Layer::State, LayerOperation::Save, || {
            // `lock` would create a missing folder.
            if self.open()?.is_none() {
                return Err(self.lost_error());
            }
            let folder = self.lock()?;
            self.recover_in(&*folder, status, token)
        })
    }

    fn recover_in(
        &self,
        folder: &dyn Folder,
        status: Option<TaskStatus>,
        token: Option<u64>,
    ) -> Result<RecoveredTask, LayerError> {
        match self.state_in(folder) {
            Ok(Some(state)) => {
                return Ok(RecoveredTask {
                    method: RecoveredBy::Nothing,
                    state,
                    kept: None,
                });
            }
            Ok(None) | Err(LayerError::Task(_)) => {}
            Err(error) => return Err(error),
        }
        let (method, state, log) = self.recovered_state(folder, status, token)?;
        let kept = self.keep_broken(folder)?;
        self.put_state(folder, &state)?;
        self.add_to_log(folder, &log)?;
        Ok(RecoveredTask { method, state, kept })
    }

    /// Returns the source, the recovered state, and the text to append to the log.
    fn recovered_state(
        &self,
        folder: &dyn Folder,
        status: Option<TaskStatus>,
        token: Option<u64>,
    ) -> Result<(RecoveredBy, TaskState, String), LayerError> {
        let status = match status {
            Some(status) => Some(status),
            None => self.last_status(folder)?,
        };
        for manifest in self.checkpoints_in(folder)?.valid {
            let id = CheckpointId::parse(&manifest.id)?;
            let checkpoint = match self.read_checkpoint_in(folder, id) {
                Ok(checkpoint) => checkpoint,
                Err(LayerError::Task(_)) => continue,
                // The checkpoint may be intact: an older one, or none, would lose its data.
                Err(error) => return Err(error),
            };
            let next = RestoredState {
                status: status.unwrap_or(checkpoint.state().status),
                version: checkpoint.state().version.unwrap_or(0),
                token: token.max(checkpoint.state().fencing_token),
            };
            let (state, log) = self.restored(folder, &checkpoint, next)?;
            let method = RecoveredBy::Checkpoint(id);
            return Ok((method.clone(), state, log + &self.note(&method)?));
        }
        let status = status.ok_or_else(|| self.lost_error())?;
        let mut state = TaskState::new(TaskId::clone(&self.id), status, self.now());
        (state.version, state.fencing_token) = (Some(1), token);
        // The newline ends a torn last line.
        Ok((
            RecoveredBy::Log,
            state,
            format!("\n{}", self.note(&RecoveredBy::Log)?),
        ))
    }

    fn lost_error(&self) -> LayerError {
        LayerError::Task(TaskError::StateUnrecoverable {
            task: self.id.to_string(),
        })
    }

    /// Returns the log line about the recovery.
    fn note(&self, method: &RecoveredBy) -> Result<String, LayerError> {
        let mut data = json!({"method": method.method()});
        if let RecoveredBy::Checkpoint(id) = method {
            data["checkpointId"] = json!(id.to_string());
        }
        let note = self.entry(LogLevel::Warning, "State recovered", Some(data));
        Ok(lines(&[note], false).map_err(|_| TaskError::StateSaveFailed("a log line is no JSON"))?)
    }

    /// Returns the status in the last log line that has one.
    fn last_status(&self, folder: &dyn Folder) -> Result<Option<TaskStatus>, LayerError> {
        let mut last = None;
        self.each_log_line_in(folder, |line| {
            let entry = line.and_then(|line| serde_json::from_slice::<LogEntry>(line).ok());
            let status = entry.and_then(|entry| entry.data?.get("toStatus")?.as_str()?.parse().ok());
            last = status.or(last);
        })?;
        Ok(last)
    }

    /// Renames the state file, if there is one, and returns its new name.
    fn keep_broken(&self, folder: &dyn Folder) -> Result<Option<String>, LayerError> {
        if read(folder, STATE).map_err(self.load_error(STATE))?.is_none() {
            return Ok(None);
        }
        let names = folder.names().map_err(self.load_error(""))?;
        let mut millis = self.now().as_millis();
        let name = loop {
            let name = format!("{STATE}.corrupt-{millis}");
            if !names.iter().any(|taken| *taken == *name) {
                break name;
            }
            millis += 1;
        };
        folder
            .rename(OsStr::new(STATE), OsStr::new(&name))
            .map_err(self.save_error(STATE))?;
        Ok(Some(name))
    }
}
