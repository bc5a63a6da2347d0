//! The record of the hank that ran last (`execution-meta.json`, RUN-6): where it is, its command line and limits. A rollback without a hank finds there
//! which copies the rigs have made, so that it can remove them; hints find the command line.

use std::io;
use std::path::{Path, PathBuf};

use hankweave_core::hank::{CodonConfig, Hank, RigAction};
use serde::{Deserialize, Serialize};

use crate::hank_files::{self, LoadHankError, LoadedHank};
use crate::invocation::Invocation;
use crate::options::RunOptions;
use crate::paths::ExecutionDir;
use crate::rig::{RigCopies, RigCopy};
use crate::world::disk::{Disk, read_if_present, replace};

/// Size limit of the record, in bytes; a larger file is not one of ours.
const MAX_RECORD_BYTES: u64 = 1 << 20;

/// Content of the record.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct LastHank {
    hank_path: String,
    /// Execution directory at the time of the run: a hank inside moves with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    execution_path: Option<PathBuf>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    invocation: Option<Invocation>,
    /// Limit of the bytes that `.hankweave` may take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    max_disk: Option<u64>,
}

impl LastHank {
    /// Returns the path of the hank. If the hank is inside the execution directory and that was moved, returns the new path.
    fn hank(&self, disk: &dyn Disk, dir: &ExecutionDir) -> PathBuf {
        let recorded = Path::new(&self.hank_path);
        let old = self.execution_path.as_ref();
        let inner = old.and_then(|old| recorded.strip_prefix(old).ok());
        let moved = inner.map(|inner| dir.root().join(inner));
        let moved = moved.filter(|path| disk.metadata_followed(path).is_ok());
        moved.unwrap_or_else(|| recorded.to_owned())
    }

    /// Returns the command line of the run. If the execution directory was moved or copied together with its hank, the paths are adapted.
    fn invocation(&self, disk: &dyn Disk, dir: &ExecutionDir) -> Option<Invocation> {
        let invocation = self.invocation.clone()?;
        let (Some(old), Ok(new)) = (&self.execution_path, disk.real_path(dir.root())) else {
            return Some(invocation);
        };
        let is_inside = Path::new(&self.hank_path).starts_with(old);
        let hank_exists = disk.metadata_followed(&self.hank(disk, dir)).is_ok();
        Some(match *old != new && is_inside && hank_exists {
            true => invocation.moved(old, &new),
            false => invocation,
        })
    }
}

/// Returns the copies that the rigs of a hank make.
pub(super) fn rig_copies(loaded: &LoadedHank, hank: &Hank, workspace: &Path) -> RigCopies {
    let copies = |codon: &CodonConfig| {
        let actions = codon.rig_setup.iter().map(|item| &item.action);
        let copies = actions.filter_map(|action| match action {
            RigAction::Copy { copy, replace } => Some(RigCopy {
                from: copy.from.clone(),
                to: copy.to.clone().into(),
                replace: *replace,
            }),
            RigAction::Command { .. } => None,
        });
        (codon.id.to_string(), copies.collect::<Vec<_>>())
    };
    RigCopies {
        hank: loaded.root.clone(),
        workspace: workspace.to_owned(),
        of: hank.codons().map(copies).collect(),
    }
}

/// Writes the record. A hank whose path is not UTF-8 is not recorded. `starts` is whether a run starts now; before that, an existing record of this hank stays,
/// because a command that has nothing to do must not replace the command line of the newest run.
pub(super) fn remember(
    disk: &dyn Disk,
    dir: &ExecutionDir,
    hank: &LoadedHank,
    options: &RunOptions,
    starts: bool,
) -> io::Result<()> {
    let file = hank.file.file_name().map(|name| hank.root.join(name));
    let Some(hank_path) = file.and_then(|file| file.into_os_string().into_string().ok()) else {
        return Ok(());
    };
    let record = LastHank {
        hank_path,
        execution_path: dir.root().to_str().map(PathBuf::from),
        invocation: options.invocation.clone(),
        max_disk: options.max_disk,
    };
    if let Some(known) = recorded(disk, dir)? {
        let is_of_this_hank = || known.hank(disk, dir) == Path::new(&record.hank_path);
        if known == record || (!starts && is_of_this_hank()) {
            return Ok(());
        }
    }
    // Fails for a path of the command line that is not UTF-8.
    let text = serde_json::to_vec(&record).map_err(io::Error::other)?;
    replace(disk, &dir.execution_meta(), &text)
}

/// Returns the copies that the rigs of the last hank make; none when that hank no longer exists or has mistakes
/// now.
pub(super) fn remembered(disk: &dyn Disk, dir: &ExecutionDir) -> RigCopies {
    let loaded = match last_hank(disk, dir) {
        Ok(loaded) => loaded,
        Err(error) => {
            tracing::warn!(error = %crate::error::chain(&error), "what rigs have copied stays");
            None
        }
    };
    let copies = loaded.and_then(|loaded| Some(rig_copies(&loaded, loaded.hank.as_ref()?, dir.root())));
    copies.unwrap_or_default()
}

/// Returns the hank that ran here last; `None` if its path is not recorded.
///
/// # Errors
///
/// [`LoadHankError`] when it cannot be read.
pub fn last_hank(disk: &dyn Disk, dir: &ExecutionDir) -> Result<Option<LoadedHank>, LoadHankError> {
    let Ok(Some(record)) = recorded(disk, dir) else {
        return Ok(None);
    };
    hank_files::load_from(disk, &record.hank(disk, dir)).map(Some)
}

/// The last run in an execution directory.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LastRun {
    /// Its command line, if it was started on one.
    pub invocation: Option<Invocation>,
    /// The file of its hank.
    pub hank: PathBuf,
    /// Its limit of the bytes that `.hankweave` may take (RUN-40).
    pub max_disk: Option<u64>,
}

/// Returns the record of the last run in an execution directory, if there is one.
pub fn last_run(disk: &dyn Disk, dir: &ExecutionDir) -> Option<LastRun> {
    let record = recorded(disk, dir).ok()??;
    Some(LastRun {
        hank: record.hank(disk, dir),
        invocation: record.invocation(disk, dir),
        max_disk: record.max_disk,
    })
}

/// Returns the record of the last hank; a record that cannot be understood counts as absent.
fn recorded(disk: &dyn Disk, dir: &ExecutionDir) -> io::Result<Option<LastHank>> {
    let read = read_if_present(disk, &dir.execution_meta(), MAX_RECORD_BYTES)?;
    Ok(read.and_then(|bytes| serde_json::from_slice(&bytes).ok()))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::world::disk::RealDisk;

    // covers: RUN-6
    #[test]
    fn a_hank_in_its_execution_directory_is_found_after_both_were_moved() {
        let folder = tempfile::tempdir().unwrap();
        let (old, new) = (folder.path().join("old"), folder.path().join("new"));
        fs::create_dir_all(old.join(".hankweave")).unwrap();
        let hank = r#"{"hank": [{"id": "a", "name": "A", "model": "m", "continuationMode": "fresh", "promptText": "x"}]}"#;
        fs::write(old.join("hank.json"), hank).unwrap();
        let old = old.canonicalize().unwrap();
        let loaded = hank_files::load_from(&RealDisk, &old).unwrap();
        remember(
            &RealDisk,
            &ExecutionDir::new(old.clone()),
            &loaded,
            &RunOptions::default(),
            true,
        )
        .unwrap();
        fs::rename(&old, &new).unwrap();
        let moved = ExecutionDir::new(new.clone());
        let found = last_hank(&RealDisk, &moved).unwrap().unwrap();
        assert_eq!(found.root, new.canonicalize().unwrap());
        assert_eq!(last_run(&RealDisk, &moved).unwrap().hank, new.join("hank.json"));
    }
}
