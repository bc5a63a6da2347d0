//! How much a restore of checkpoints would write, found out without reading any content.

use std::collections::HashMap;

use git2::Oid;
use hankweave_core::id::CheckpointSha;

use super::git_format::ObjectReader;
use super::history::open_reader;
use super::object::ObjectError;
use super::repository::if_readable;
use super::{GitHistory, HistoryError};

/// Extent of the files of a checkpoint. A sum that is too large for its type stays at the largest number.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CheckpointExtent {
    /// Length of all files, in bytes.
    pub bytes: u64,
    /// Files and folders.
    pub entries: u64,
    /// Maximum number of folders inside one another.
    pub depth: usize,
}

impl GitHistory {
    /// Measures each of `shas`, in their order. A folder that several of them have is read once, and missing objects
    /// count as nothing. Folders nested deeper than `most_depth` are not read; such a checkpoint has a depth above
    /// `most_depth`.
    ///
    /// # Errors
    ///
    /// Returns [`HistoryError`] when the repository cannot be read.
    pub fn extents(
        &self,
        shas: &[CheckpointSha],
        most_depth: usize,
    ) -> Result<Vec<CheckpointExtent>, HistoryError> {
        let repository = self.repository().map_err(HistoryError::Read)?;
        let mut measure = Measure {
            reader: open_reader(&repository)?,
            most_depth,
            folders: HashMap::new(),
        };
        let extents: Result<_, git2::Error> = shas.iter().map(|sha| measure.checkpoint(sha)).collect();
        extents.map_err(|error| HistoryError::Read(ObjectError::at("measure the checkpoints")(error)))
    }
}

struct Measure<'r> {
    reader: ObjectReader<'r>,
    most_depth: usize,
    folders: HashMap<Oid, CheckpointExtent>,
}

impl Measure<'_> {
    fn checkpoint(&mut self, sha: &CheckpointSha) -> Result<CheckpointExtent, git2::Error> {
        match if_readable(self.reader.look_up(sha))?.flatten() {
            Some(commit) => self.folder(commit.tree, 0),
            None => Ok(CheckpointExtent::default()),
        }
    }

    /// The extent of a folder that lies in `above` others.
    fn folder(&mut self, id: Oid, above: usize) -> Result<CheckpointExtent, git2::Error> {
        if let Some(known) = self.folders.get(&id) {
            return Ok(*known);
        }
        let mut extent = CheckpointExtent::default();
        if above > self.most_depth {
            // The folders above count already, so the depth of the checkpoint is above `most_depth`.
            return Ok(extent);
        }
        for entry in if_readable(self.reader.tree(id))?.unwrap_or_default() {
            let inner = match entry.is_folder() {
                true => {
                    let inner = self.folder(entry.id, above + 1)?;
                    let depth = inner.depth + 1;
                    CheckpointExtent { depth, ..inner }
                }
                false => CheckpointExtent {
                    bytes: self.reader.length(entry.id)?.unwrap_or(0),
                    ..CheckpointExtent::default()
                },
            };
            extent.bytes = extent.bytes.saturating_add(inner.bytes);
            extent.entries = extent.entries.saturating_add(inner.entries).saturating_add(1);
            extent.depth = extent.depth.max(inner.depth);
        }
        self.folders.insert(id, extent);
        Ok(extent)
    }
}
