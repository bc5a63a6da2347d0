//! A shield against `git clean` and `git stash`: to git the folders with the most in them look like repositories of their own, which it passes
//! over (P12).
//!
//! The state directory itself must not look so: git would show it to the user, and `git add` would fail for it. Inside of it everything is ignored, and so
//! are these folders.

use std::io;
use std::path::Path;

use crate::paths::ExecutionDir;
use crate::world::disk::Disk;

/// The file that makes a folder look like a repository, by naming one.
pub(super) const SHIELD: &str = ".git";

/// Puts the files in place that are missing. The repository that they name is that of the checkpoints, which thereby stays what it is for git.
pub(super) fn raise(disk: &dyn Disk, dir: &ExecutionDir) -> io::Result<()> {
    put(disk, &dir.checkpoints(), b"gitdir: .\n")?;
    disk.make_private_dirs(&dir.runs())?;
    for folder in [dir.events(), dir.runs()] {
        put(disk, &folder, b"gitdir: ../checkpoints\n")?;
    }
    Ok(())
}

/// Lost with the power it is written again: nothing waits for the disk here.
fn put(disk: &dyn Disk, folder: &Path, text: &[u8]) -> io::Result<()> {
    match disk.create_append(&folder.join(SHIELD)) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        file => file?.append(text),
    }
}
