//! From a walk to a listing of the workspace: [`take`] walks, reads the files that changed, hands their contents to the blob
//! store, and returns their stat data for the cache. Checkpoints, restores and comparisons with the workspace begin here.

use std::thread;

use git2::Oid;

use super::object::{BlobStore, BlobWriter, WriteError};
use super::select::{FileSelection, Selected, SelectedFile, select};
use super::stat_cache::{Recognition, StatCache};
use super::survey::matching;
use super::tree::{FileEntry, Listing};
use super::workspace::{Contents, FileContents, FileStat, Workspace, whole};
use super::{CheckpointError, FileProgress, SkipReason, Skipped, SurveyedFile, TreePath};

/// From this number of files on, reading and storing them is worth several threads.
const PARALLEL_FILES: usize = 256;

/// Longest file that is read into memory as a whole, in bytes. Longer ones are read and stored in pieces.
const MOST_IN_MEMORY: u64 = 1 << 20;

/// The selected files of a workspace as they are now.
#[derive(Debug, Default)]
pub(super) struct WorkspaceSnapshot {
    pub(super) files: Listing,
    /// The files that the cache did not recognise, with their stat data and blobs.
    pub(super) read: Vec<(TreePath, FileStat, Oid)>,
    pub(super) skipped: Vec<Skipped>,
    /// The files that match the patterns, as the walk saw them.
    pub(super) seen: Vec<SurveyedFile>,
}

/// Takes a snapshot of the files in `selection`. Files that `cache` recognises are not read.
pub(super) fn take(
    workspace: &Workspace,
    selection: &FileSelection<'_>,
    cache: &StatCache,
    blobs: &dyn BlobStore,
    counted: &FileProgress,
) -> Result<WorkspaceSnapshot, CheckpointError> {
    let Selected { files, skipped } =
        select(workspace, selection).map_err(|error| CheckpointError::Workspace {
            path: error.path,
            source: error.source,
        })?;
    let seen = matching(&files);
    let entry = |stat: &FileStat, blob| FileEntry {
        mode: stat.mode,
        blob,
    };
    let mut known = Recognition::new(&cache.stats);
    let (mut entries, mut unknown) = (Vec::with_capacity(files.len()), Vec::new());
    for found in files {
        match known.recognise(&found.path, &found.stat) {
            Some((path, blob)) => entries.push((path.clone(), entry(&found.stat, blob))),
            None => unknown.push(found),
        }
    }
    counted.start(unknown.len());
    blobs.expect(unknown.len()).map_err(CheckpointError::Store)?;
    let mut snapshot = WorkspaceSnapshot {
        skipped,
        seen,
        ..WorkspaceSnapshot::default()
    };
    for stored in store_all(workspace, &unknown, blobs, counted)? {
        match stored {
            StoreResult::Blob(path, stat, blob) => {
                entries.push((path.clone(), entry(&stat, blob)));
                snapshot.read.push((path, stat, blob));
            }
            StoreResult::Skipped(skipped) => snapshot.skipped.push(skipped),
            StoreResult::Gone => {}
        }
    }
    snapshot.files = entries.into_iter().collect();
    Ok(snapshot)
}

/// Outcome for one file.
enum StoreResult {
    Blob(TreePath, FileStat, Oid),
    Skipped(Skipped),
    /// The file no longer exists.
    Gone,
}

fn store_all(
    workspace: &Workspace,
    files: &[SelectedFile],
    blobs: &dyn BlobStore,
    counted: &FileProgress,
) -> Result<Vec<StoreResult>, CheckpointError> {
    if files.len() < PARALLEL_FILES {
        return store_some(workspace, files, blobs, counted);
    }
    let threads = thread::available_parallelism().map_or(1, usize::from).min(8);
    thread::scope(|scope| {
        let parts = files.chunks(files.len().div_ceil(threads));
        let running: Vec<_> = parts
            .map(|part| scope.spawn(|| store_some(workspace, part, blobs, counted)))
            .collect();
        let mut stored = Vec::with_capacity(files.len());
        for thread in running {
            stored.extend(
                thread
                    .join()
                    .unwrap_or_else(|panic| std::panic::resume_unwind(panic))?,
            );
        }
        Ok(stored)
    })
}

fn store_some(
    workspace: &Workspace,
    files: &[SelectedFile],
    blobs: &dyn BlobStore,
    counted: &FileProgress,
) -> Result<Vec<StoreResult>, CheckpointError> {
    if files.is_empty() {
        return Ok(Vec::new());
    }
    let writer = blobs.writer().map_err(CheckpointError::Store)?;
    files
        .iter()
        .map(|found| store(workspace, &found.path, &*writer))
        .inspect(|_| counted.step())
        .collect()
}

fn store(
    workspace: &Workspace,
    path: &TreePath,
    writer: &dyn BlobWriter,
) -> Result<StoreResult, CheckpointError> {
    let contents = workspace.read_with(path, &mut |source| match source {
        FileContents::Link(target) => writer.write(target).map(Some).map_err(WriteError::Store),
        FileContents::File(mut file, length) if length > MOST_IN_MEMORY => {
            writer.write_from(&mut file, length)
        }
        FileContents::File(file, length) => match whole::<WriteError>(file, length)? {
            Some(bytes) => writer.write(&bytes).map(Some).map_err(WriteError::Store),
            None => Ok(None),
        },
    });
    let contents = contents.map_err(|error| match error {
        WriteError::Store(error) => CheckpointError::Store(error),
        WriteError::Source(source) => CheckpointError::Workspace {
            path: workspace.locate(path.as_bytes()),
            source,
        },
    })?;
    Ok(match contents {
        Contents::Read { read: blob, stat } => StoreResult::Blob(path.clone(), stat, blob),
        Contents::Unreadable => StoreResult::Skipped(Skipped {
            path: path.clone(),
            reason: SkipReason::Unreadable,
            size: None,
        }),
        Contents::Gone => StoreResult::Gone,
    })
}
