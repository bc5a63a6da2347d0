//! Limits the bytes that the record of an execution directory takes on disk (RUN-40).
//!
//! Between codons a run with a limit measures its record. From four fifths of the limit on, it removes unneeded data,
//! packs the checkpoints, and publishes the number of bytes that are still used. At the limit it pauses before the next codon.

use std::io;
use std::path::Path;

use hankweave_core::view::disk_words;
use hankweave_core::wire::Event;

use super::cleanup::removed_and_kept;
use crate::checkpoint::HistoryError;
use crate::codon::RunContext;
use crate::error::chain;
use crate::paths::ExecutionDir;
use crate::world::disk::{Disk, FileKind, with_suffix};

/// Length of a block in bytes on nearly every file system; a file takes whole blocks.
const BLOCK: u64 = 4096;

/// Bytes that the record takes, and its limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct DiskUse {
    /// Length of all files in bytes, each rounded up to blocks of 4 KiB.
    pub used: u64,
    /// Limit in bytes.
    pub limit: u64,
}

impl DiskUse {
    /// Measures the record of an execution directory; one that does not exist takes nothing.
    ///
    /// # Errors
    ///
    /// Returns the error of the operating system.
    pub fn measure(disk: &dyn Disk, dir: &ExecutionDir, limit: u64) -> io::Result<Self> {
        let used = bytes_of(disk, &dir.state_dir())?;
        Ok(Self { used, limit })
    }

    /// Whether at least four fifths of the limit are used.
    #[must_use]
    pub const fn is_scarce(self) -> bool {
        // Divided rather than multiplied, because a product could overflow.
        self.used / 4 >= self.limit / 5
    }

    /// Whether the limit is reached.
    #[must_use]
    pub const fn is_full(self) -> bool {
        self.used >= self.limit
    }

    /// Describes the use in a sentence.
    #[must_use]
    pub fn words(self) -> String {
        disk_words(self.used, self.limit)
    }
}

/// Bytes of the blocks of a file, or of all files in a folder; links are not followed. A file that is removed meanwhile counts as 0.
fn bytes_of(disk: &dyn Disk, place: &Path) -> io::Result<u64> {
    let found = match disk.metadata(place) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        found => found?,
    };
    match found.kind {
        FileKind::File => Ok(found.length.div_ceil(BLOCK).saturating_mul(BLOCK)),
        FileKind::Directory => {
            let names = match disk.list_dir(place) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
                names => names?,
            };
            names.iter().map(|name| bytes_of(disk, &place.join(name))).sum()
        }
        _ => Ok(0),
    }
}

/// Measures the record before each codon of a run.
#[derive(Debug, Default)]
pub(crate) struct DiskWatch {
    /// Bytes used after the last removal of unneeded data.
    used_after_tidying: Option<u64>,
}

impl DiskWatch {
    /// Removes unneeded data when the record nears the limit. Returns why no codon can start, if the limit is reached nevertheless.
    pub(crate) async fn no_room(&mut self, context: &RunContext) -> Option<String> {
        let limit = context.options.max_disk?;
        let before = measured(context, limit).await?;
        // Every growth by a twentieth of the limit justifies another removal.
        let has_grown = self
            .used_after_tidying
            .is_none_or(|used| before.used >= used.saturating_add(limit / 20));
        if !before.is_scarce() || !(has_grown || before.is_full()) {
            return None;
        }
        tidy(context).await;
        let after = measured(context, limit).await?;
        self.used_after_tidying = Some(after.used);
        if after.is_scarce() {
            context
                .publish(Event::DiskUsage {
                    used_bytes: after.used,
                    limit_bytes: limit,
                })
                .await;
        }
        after.is_full().then(|| after.words())
    }
}

/// Measures the record; `None` after an error, which is no reason to stop.
async fn measured(context: &RunContext, limit: u64) -> Option<DiskUse> {
    let (disk, dir) = (context.world.disk.clone(), context.dir.clone());
    let measure = move || DiskUse::measure(&*disk, &dir, limit);
    let measured = context.world.blocking.run(measure).await;
    measured
        .inspect_err(|error| tracing::warn!(%error, "the room of the record cannot be measured"))
        .ok()
}

/// Removes unneeded data: objects of no checkpoint, and the older halves of our own logs (`.1`). Packs the remaining checkpoints.
async fn tidy(context: &RunContext) {
    let state = context.manager.snapshot();
    let (remove, keep) = removed_and_kept(&state, &Default::default());
    let store = context.checkpoints.clone();
    let clean = move || {
        let freed = store.clean(&remove, &keep)?;
        Ok::<_, HistoryError>((freed, store.pack()?))
    };
    match context.world.blocking.run(clean).await {
        Ok((freed, packed)) => tracing::info!(freed, packed, "what no checkpoint needs was removed"),
        Err(error) => tracing::warn!(error = %chain(&error), "the checkpoints cannot be packed"),
    }
    let (disk, dir) = (context.world.disk.clone(), context.dir.clone());
    let remove = move || {
        for log in [dir.server_log(), dir.detached_log()] {
            if let Err(error) = crate::world::disk::remove_if_present(&*disk, &with_suffix(&log, ".1")) {
                tracing::warn!(%error, "an old log cannot be removed");
            }
        }
    };
    context.world.blocking.run(remove).await;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::disk::RealDisk;

    // covers: RUN-40
    #[test]
    fn four_fifths_are_scarce_and_all_of_it_is_full() {
        let limit = 1_000;
        let levels = |used| {
            let found = DiskUse { used, limit };
            (found.is_scarce(), found.is_full())
        };
        assert_eq!(levels(799), (false, false));
        assert_eq!(levels(800), (true, false));
        assert_eq!(levels(1_000), (true, true));
    }

    // covers: RUN-40
    #[test]
    fn each_file_takes_whole_blocks_and_a_link_none() {
        let folder = tempfile::tempdir().unwrap();
        let dir = ExecutionDir::new(folder.path().to_owned());
        let measure = || DiskUse::measure(&RealDisk, &dir, 1).unwrap().used;
        assert_eq!(measure(), 0);
        std::fs::create_dir_all(dir.runs()).unwrap();
        std::fs::write(dir.runs().join("one"), "x").unwrap();
        std::fs::write(dir.state_dir().join("two"), [0; 4097]).unwrap();
        std::os::unix::fs::symlink("/", dir.state_dir().join("link")).unwrap();
        assert_eq!(measure(), 3 * BLOCK);
    }
}
