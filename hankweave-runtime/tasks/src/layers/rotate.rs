//! Rotation of old checkpoints (TASK-46).

use std::ffi::OsStr;

use super::error::LayerError;
use super::files::TaskFiles;
use super::folder::enter;
use super::{CHECKPOINTS, UNFINISHED_FOLDER};
use crate::model::{CheckpointId, Retention};

impl TaskFiles {
    /// Removes the checkpoints that need not be kept, oldest first, and returns their names. Invalid ones are left alone.
    ///
    /// # Errors
    ///
    /// [`LayerError::Load`], or [`LayerError::Save`] for the first that could not be removed;
    /// [`ResourceLocked`](crate::model::TaskError::ResourceLocked) while another process writes.
    pub fn rotate_checkpoints(&self, retention: &Retention) -> Result<Vec<CheckpointId>, LayerError> {
        let folder = self.lock()?;
        let valid = self.checkpoints_in(&*folder)?.valid;
        let ids = valid
            .iter()
            .filter_map(|manifest| CheckpointId::parse(&manifest.id).ok());
        let sized: Result<Vec<_>, LayerError> = ids.map(|id| Ok((id, self.size_of(id)?))).collect();
        let surplus = retention.surplus(&sized?);
        let Some(checkpoints) = enter(&*folder, CHECKPOINTS).map_err(self.load_error(CHECKPOINTS))? else {
            return Ok(surplus);
        };
        for id in &surplus {
            // Renamed first, so that a crash leaves no partial checkpoint.
            let gone = format!("{UNFINISHED_FOLDER}gone-{id}");
            let remove = || {
                checkpoints.rename(OsStr::new(&id.to_string()), OsStr::new(&gone))?;
                checkpoints.remove(OsStr::new(&gone))
            };
            remove().map_err(self.save_error(CHECKPOINTS))?;
        }
        checkpoints.sync().map_err(self.save_error(CHECKPOINTS))?;
        Ok(surplus)
    }

    fn size_of(&self, id: CheckpointId) -> Result<u64, LayerError> {
        let (disk, folder) = (
            &self.layers.world.disk,
            self.path().join(CHECKPOINTS).join(id.to_string()),
        );
        let size = || {
            let names = disk.list_dir(&folder)?;
            let lengths = names
                .iter()
                .map(|name| Ok(disk.metadata(&folder.join(name))?.length));
            lengths.sum::<std::io::Result<u64>>()
        };
        size().map_err(self.load_error(CHECKPOINTS))
    }
}
