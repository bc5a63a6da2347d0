//! Protects the largest folders of the record from `git clean` and `git stash`: a file `.git` in each makes git take the folder for a repository of its own,
//! which these commands leave alone (P12).
//!
//! The state directory itself gets no such file: git would show it to the user as a repository, and `git add` would fail for it. The folders inside of it are
//! ignored, so git does not show them.

use std::io;
use std::path::Path;

use crate::paths::ExecutionDir;
use crate::world::disk::Disk;

/// The file that makes a folder look like a repository, by naming one.
pub(super) const SHIELD: &str = ".git";

/// Writes the files that are missing. They name the checkpoint repository; the one inside of it does so too, so that git still finds that repository there.
pub(super) fn raise(disk: &dyn Disk, dir: &ExecutionDir) -> io::Result<()> {
    put(disk, &dir.checkpoints(), b"gitdir: .\n")?;
    disk.make_private_dirs(&dir.runs())?;
    for folder in [dir.events(), dir.runs()] {
        put(disk, &folder, b"gitdir: ../checkpoints\n")?;
    }
    Ok(())
}

/// Writes one file, unless it exists. It is not synced: a file that is lost with the power is written again at the next start.
fn put(disk: &dyn Disk, folder: &Path, text: &[u8]) -> io::Result<()> {
    match disk.create_append(&folder.join(SHIELD)) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        file => file?.append(text),
    }
}
