//! Check that files belong to a task's own registry: several registries can share a folder of tasks, and have tasks with equal ids (TASK-125).

use std::io::{BufRead, BufReader, Read};

use hankweave_core::time::Timestamp;
use hankweave_runtime::world::disk::Folder;
use hankweave_task_model::registry::TaskRow;

use super::LOGS;
use super::error::LayerError;
use super::files::{TaskFiles, TaskLayers};
use super::folder::open;
use crate::model::{LogEntry, TaskError};

/// Longest first line that is read, in bytes.
const LONGEST: u64 = 1 << 20;

impl TaskLayers {
    /// Returns the files of this row's task. If they belong to another registry's task with this id, each use is refused with
    /// [`TaskError::FolderTaken`].
    #[must_use]
    pub fn task_of(&self, row: &TaskRow) -> TaskFiles {
        TaskFiles {
            created_at: Some(*row.record.created_at()),
            ..self.task(row.id().clone())
        }
    }
}

impl TaskFiles {
    /// Returns the creation time of the task to which the files belong, from the first line of its log; `None` if unknown.
    ///
    /// # Errors
    ///
    /// Returns [`LayerError::Load`] when the folder cannot be entered.
    pub fn created(&self) -> Result<Option<Timestamp>, LayerError> {
        let folder = self.open_any()?;
        Ok(folder.and_then(|folder| created(&*folder)))
    }

    /// Checks that the files belong to the task of the row.
    ///
    /// # Errors
    ///
    /// Returns [`TaskError::FolderTaken`], and [`LayerError::Load`] when the folder cannot be entered.
    pub fn check_origin(&self) -> Result<(), LayerError> {
        self.open().map(drop)
    }

    /// Returns the error of a folder with files of another registry's task.
    #[must_use]
    pub fn is_taken(&self) -> TaskError {
        TaskError::FolderTaken {
            id: self.id.to_string(),
            folder: self.path().display().to_string(),
        }
    }

    /// Refuses a folder of another task. Tasks are distinguished by their creation time, which even logs of version 0.1.0 have. A folder without a known
    /// time is accepted.
    pub(super) fn check_folder(&self, folder: &dyn Folder) -> Result<(), LayerError> {
        let Some(expected) = self.created_at else {
            return Ok(());
        };
        match created(folder) {
            Some(found) if found != expected => Err(self.is_taken().into()),
            _ => Ok(()),
        }
    }
}

/// Returns the time of the line with which every registry starts a task's log. Read errors are left to the caller's own read.
fn created(folder: &dyn Folder) -> Option<Timestamp> {
    let file = open(folder, LOGS).ok()??;
    let mut line = Vec::new();
    BufReader::new(file.take(LONGEST))
        .read_until(b'\n', &mut line)
        .ok()?;
    let entry: LogEntry = serde_json::from_slice(&line).ok()?;
    (entry.seq == Some(1)).then_some(entry.timestamp)
}
