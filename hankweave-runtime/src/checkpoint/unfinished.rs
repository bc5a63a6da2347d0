//! The note that says a restore has begun ("reliability and security", rule G8).
//!
//! It lies in the repository from before the first change of a file until the last one is durable. Whoever finds it after a
//! crash knows that the workspace is half of one checkpoint and half of another, and restores again.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use hankweave_core::id::CheckpointSha;
use hankweave_core::time::Timestamp;
use serde::{Deserialize, Serialize};

/// A restore that has begun and did not reach its end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UnfinishedRestore {
    /// The checkpoint to go to.
    pub target: CheckpointSha,
    /// The checkpoint being left.
    pub left: Option<CheckpointSha>,
    /// The files as they were before the first change.
    pub safety: CheckpointSha,
    /// When it began.
    pub at: Timestamp,
}

/// The note of the repository at `repository`, if there is one.
pub(super) fn read(repository: &Path) -> io::Result<Option<UnfinishedRestore>> {
    match fs::read(place(repository)) {
        Ok(text) => Ok(Some(serde_json::from_slice(&text)?)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Puts the note in place, durably.
pub(super) fn write(repository: &Path, unfinished: &UnfinishedRestore) -> io::Result<()> {
    let temporary = repository.join("unfinished-restore.tmp");
    let mut file = File::create(&temporary)?;
    file.write_all(&serde_json::to_vec_pretty(unfinished)?)?;
    file.sync_all()?;
    fs::rename(&temporary, place(repository))?;
    File::open(repository)?.sync_all()
}

/// Removes the note, durably: after a crash nobody may restore over work that was done since.
pub(super) fn remove(repository: &Path) -> io::Result<()> {
    match fs::remove_file(place(repository)) {
        Ok(()) => File::open(repository)?.sync_all(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

/// Where the note lies.
pub(super) fn place(repository: &Path) -> PathBuf {
    repository.join("unfinished-restore.json")
}
