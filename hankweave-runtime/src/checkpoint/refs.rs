//! Moving a branch so that a power loss leaves the old value or the new one, never an empty file ("reliability and
//! security", rule G6). Libgit2 renames the file of a branch into place before its contents are durable.

use std::fs::{self, File};
use std::io::{self, Write as _};

use git2::{ErrorCode, Oid, Repository};

/// Why a branch was not moved.
#[derive(Debug)]
pub(super) enum MoveError {
    /// It is not where it was expected.
    Elsewhere(Option<Oid>),
    /// Git cannot read it.
    Git(git2::Error),
    /// It cannot be written, or somebody else holds its lock.
    Io(io::Error),
}

/// Where the reference `name` points, if it exists.
pub(super) fn target(repository: &Repository, name: &str) -> Result<Option<Oid>, git2::Error> {
    match repository.refname_to_id(name) {
        Ok(target) => Ok(Some(target)),
        Err(error) if error.code() == ErrorCode::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Points the reference `name` at `to`, under its lock and only if it still points at `expected`; durable on return.
pub(super) fn move_to(
    repository: &Repository,
    name: &str,
    expected: Option<Oid>,
    to: Oid,
) -> Result<(), MoveError> {
    let path = repository.path().join(name);
    let lock = path.with_file_name(format!("{}.lock", name.rsplit('/').next().unwrap_or(name)));
    let lock_it = || -> io::Result<File> {
        fs::create_dir_all(path.parent().unwrap_or(repository.path()))?;
        File::create_new(&lock)
    };
    let mut file = lock_it().map_err(MoveError::Io)?;
    let moved = (|| {
        let found = target(repository, name).map_err(MoveError::Git)?;
        if found != expected {
            return Err(MoveError::Elsewhere(found));
        }
        writeln!(file, "{to}")
            .and_then(|()| file.sync_all())
            .and_then(|()| fs::rename(&lock, &path))
            .map_err(MoveError::Io)
    })();
    if moved.is_err() {
        // The error that counts is the first; the next start removes a lock that stays.
        let _ = fs::remove_file(&lock);
    }
    moved?;
    sync_folders(repository, name).map_err(MoveError::Io)
}

/// Syncs every folder above the reference, each of which may have been made for it.
fn sync_folders(repository: &Repository, name: &str) -> io::Result<()> {
    let mut folder = repository.path().join(name);
    while folder.pop() && folder != repository.path() {
        File::open(&folder)?.sync_all()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAME: &str = "refs/heads/recovery/x";

    fn oid(byte: u8) -> Oid {
        Oid::from_bytes(&[byte; 20]).unwrap()
    }

    // covers: G6
    #[test]
    fn a_branch_moves_only_from_where_it_was_expected() {
        let folder = tempfile::tempdir().unwrap();
        let repository = Repository::init_bare(folder.path()).unwrap();
        move_to(&repository, NAME, None, oid(1)).unwrap();
        let error = move_to(&repository, NAME, None, oid(2)).unwrap_err();
        assert!(matches!(error, MoveError::Elsewhere(Some(found)) if found == oid(1)));
        move_to(&repository, NAME, Some(oid(1)), oid(2)).unwrap();
        assert_eq!(target(&repository, NAME).unwrap(), Some(oid(2)));
        assert!(!folder.path().join(NAME).with_extension("lock").exists());
    }

    // covers: G6
    #[test]
    fn a_branch_that_somebody_else_holds_is_not_moved() {
        let folder = tempfile::tempdir().unwrap();
        let repository = Repository::init_bare(folder.path()).unwrap();
        move_to(&repository, NAME, None, oid(1)).unwrap();
        let lock = folder.path().join("refs/heads/recovery/x.lock");
        fs::write(&lock, "").unwrap();
        let error = move_to(&repository, NAME, Some(oid(1)), oid(2)).unwrap_err();
        assert!(matches!(error, MoveError::Io(error) if error.kind() == io::ErrorKind::AlreadyExists));
        assert!(lock.exists(), "it is not ours");
        assert_eq!(target(&repository, NAME).unwrap(), Some(oid(1)));
    }
}
