//! Removal of unfinished files that a crash left, and of a deleted task's folder (TASK-50).

use std::ffi::OsStr;

use hankweave_runtime::world::disk::Folder;

use super::error::LayerError;
use super::files::{TaskFiles, TaskLayers};
use super::folder::enter;
use super::{CHECKPOINTS, UNFINISHED_FILE, UNFINISHED_FOLDER};

/// Result of a sweep.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SweepReport {
    /// Removed paths, relative to the root.
    pub removed: Vec<String>,
    /// Folders that were left alone because a process works in them.
    pub held: Vec<String>,
}

impl TaskLayers {
    /// Removes unfinished files of writers that no longer exist. Skips folders in which a process writes at this moment.
    ///
    /// # Errors
    ///
    /// Returns [`LayerError::Load`] or [`LayerError::Save`].
    pub fn sweep(&self) -> Result<SweepReport, LayerError> {
        let mut report = SweepReport::default();
        let Some(root) = self.open_root()? else {
            return Ok(report);
        };
        for name in root.names().map_err(self.load_error())? {
            if is_unfinished(&name) {
                root.remove(&name).map_err(self.save_error())?;
                report.removed.push(name.to_string_lossy().into_owned());
            }
        }
        for id in self.tasks()? {
            self.task(id).sweep(&*root, &mut report)?;
        }
        Ok(report)
    }
}

impl TaskFiles {
    /// Removes unfinished files of this task, unless a process works in its folder.
    fn sweep(&self, root: &dyn Folder, report: &mut SweepReport) -> Result<(), LayerError> {
        // A file or a link with the name of a task is not the task's folder.
        let Ok(Some(folder)) = enter(root, self.id.as_str()) else {
            return Ok(());
        };
        if !folder.try_lock().map_err(self.save_error(""))? {
            report.held.push(self.id.to_string());
            return Ok(());
        }
        self.sweep_folder(&*folder, "", report)?;
        let Some(checkpoints) = enter(&*folder, CHECKPOINTS).map_err(self.load_error(CHECKPOINTS))? else {
            return Ok(());
        };
        self.sweep_folder(&*checkpoints, CHECKPOINTS, report)?;
        for name in checkpoints.names().map_err(self.load_error(CHECKPOINTS))? {
            if let Some(Ok(Some(checkpoint))) = name.to_str().map(|name| enter(&*checkpoints, name)) {
                self.sweep_folder(&*checkpoint, CHECKPOINTS, report)?;
            }
        }
        Ok(())
    }

    fn sweep_folder(
        &self,
        folder: &dyn Folder,
        relative: &str,
        report: &mut SweepReport,
    ) -> Result<(), LayerError> {
        for name in folder.names().map_err(self.load_error(relative))? {
            if is_unfinished(&name) {
                folder.remove(&name).map_err(self.save_error(relative))?;
                let path = self.path().join(relative).join(&name);
                let path = path.strip_prefix(self.layers.root()).unwrap_or(&path);
                report.removed.push(path.display().to_string());
            }
        }
        Ok(())
    }

    /// Removes the folder of the task with all its files; the folder may be missing.
    ///
    /// # Errors
    ///
    /// Returns [`LayerError::Save`]; [`ResourceLocked`](crate::model::TaskError::ResourceLocked) while another process writes.
    pub fn remove(&self) -> Result<(), LayerError> {
        let Some(root) = self.layers.open_root()? else {
            return Ok(());
        };
        let Some(folder) = enter(&*root, self.id.as_str()).map_err(self.load_error(""))? else {
            return Ok(());
        };
        self.check_folder(&*folder)?;
        if !folder.try_lock().map_err(self.save_error(""))? {
            return Err(self.held_error());
        }
        // Renamed first, so that a crash leaves no partial task.
        let gone = format!("{UNFINISHED_FOLDER}gone-{}-{}", self.id, self.nonce());
        let remove = || {
            root.rename(OsStr::new(self.id.as_str()), OsStr::new(&gone))?;
            root.sync()?;
            root.remove(OsStr::new(&gone))
        };
        remove().map_err(self.save_error(""))
    }
}

fn is_unfinished(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    name.starts_with(UNFINISHED_FOLDER) || name.ends_with(UNFINISHED_FILE)
}
