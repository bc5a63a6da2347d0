//! Packing of checkpoints, to save space. The manifest stays unchanged and has the checksums of the unpacked files (TASK-47).

use std::ffi::OsStr;
use std::io::{self, Write};

use flate2::Compression;
use flate2::write::GzEncoder;
use hankweave_runtime::world::disk::Folder;

use super::error::LayerError;
use super::files::TaskFiles;
use super::folder::{enter, read, replace};
use super::{CHECKPOINTS, LOGS, PACKED, STATE};
use crate::model::{CheckpointId, TaskError};

impl TaskFiles {
    /// Packs the state and the log of a complete and undamaged checkpoint. A packed checkpoint stays packed.
    ///
    /// # Errors
    ///
    /// Fails like [`read_checkpoint`](Self::read_checkpoint), and with [`LayerError::Save`]. The checkpoint is complete at every moment.
    pub fn compress_checkpoint(&self, id: CheckpointId) -> Result<(), LayerError> {
        let folder = self.lock()?;
        self.read_checkpoint_in(&*folder, id)?;
        let pack = || {
            let checkpoint = inside(&*inside(&*folder, CHECKPOINTS)?, &id.to_string())?;
            [STATE, LOGS]
                .iter()
                .try_for_each(|name| self.pack(&*checkpoint, name))?;
            checkpoint.sync()
        };
        pack().map_err(self.save_error(CHECKPOINTS))
    }

    /// Packs every valid checkpoint that is not packed yet, and returns their number. Damaged checkpoints stay unchanged.
    ///
    /// # Errors
    ///
    /// [`LayerError::Load`] or [`LayerError::Save`]. Each checkpoint is complete at every moment.
    pub fn pack_checkpoints(&self) -> Result<usize, LayerError> {
        let mut packed = 0;
        for manifest in self.checkpoints()?.valid {
            let Ok(id) = CheckpointId::parse(&manifest.id) else {
                continue;
            };
            if self.is_packed(id)? {
                continue;
            }
            match self.compress_checkpoint(id) {
                Ok(()) => packed += 1,
                Err(LayerError::Task(TaskError::CheckpointCorrupt { .. })) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(packed)
    }

    /// Whether state and log of the checkpoint are packed. A crash may have come between them.
    fn is_packed(&self, id: CheckpointId) -> Result<bool, LayerError> {
        let Some(folder) = self.open()? else {
            // Without a folder there is nothing to pack.
            return Ok(true);
        };
        let names = || inside(&*inside(&*folder, CHECKPOINTS)?, &id.to_string())?.names();
        let names = names().map_err(self.load_error(CHECKPOINTS))?;
        Ok(!names.iter().any(|name| name == STATE || name == LOGS))
    }

    /// Replaces a file of the checkpoint by its packed form. A file that is packed already, or absent, is left alone.
    fn pack(&self, checkpoint: &dyn Folder, name: &str) -> io::Result<()> {
        let Some(bytes) = read(checkpoint, name)? else {
            return Ok(());
        };
        let mut packed = GzEncoder::new(Vec::new(), Compression::default());
        packed.write_all(&bytes)?;
        replace(
            checkpoint,
            &format!("{name}{PACKED}"),
            &self.nonce(),
            &packed.finish()?,
        )?;
        checkpoint.remove(OsStr::new(name))
    }
}

/// Opens the folder `name`, which must exist.
fn inside(folder: &dyn Folder, name: &str) -> io::Result<Box<dyn Folder>> {
    enter(folder, name)?.ok_or_else(|| io::ErrorKind::NotFound.into())
}
