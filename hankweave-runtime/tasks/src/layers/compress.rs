//! Packed checkpoints take less room; their manifest stays as it is, and tells the sums of what is in the pack (TASK-47).

use std::ffi::OsStr;
use std::io::{self, Write};

use flate2::Compression;
use flate2::write::GzEncoder;
use hankweave_runtime::world::disk::Folder;

use super::error::LayerError;
use super::files::TaskFiles;
use super::folder::{enter, read, replace};
use super::{CHECKPOINTS, LOGS, PACKED, STATE};
use crate::model::CheckpointId;

impl TaskFiles {
    /// Packs the state and the log of a checkpoint of which nothing is missing or spoiled; what is packed stays so.
    ///
    /// # Errors
    ///
    /// As [`read_checkpoint`](Self::read_checkpoint), and [`LayerError::Save`]; the checkpoint is whole at every moment.
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
        pack().map_err(self.save(CHECKPOINTS))
    }

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

fn inside(folder: &dyn Folder, name: &str) -> io::Result<Box<dyn Folder>> {
    enter(folder, name)?.ok_or_else(|| io::ErrorKind::NotFound.into())
}
