//! Branches: moving one so that a power loss leaves the old value or the new one, never an empty file (G6), and checking
//! the files and lines that name branches.
//!
//! [`Move::start`] writes the new content of the branch to a lock file. The caller's sync of the file system, which makes
//! the objects durable, covers that content too. Then [`Move::finish`] renames the lock file.

use std::io::{self, Write as _};
use std::mem;
use std::path::PathBuf;

use git2::{ErrorCode, Oid, Reference, Repository};

use crate::world::disk::{Disk as _, RealDisk, new_file, parent};

/// Why a branch was not moved.
#[derive(Debug)]
pub(in crate::checkpoint) enum MoveError {
    /// The branch has this other target, or none.
    Elsewhere(Option<Oid>),
    /// Git cannot read the branch.
    Git(git2::Error),
    /// The branch cannot be written, or another process holds its lock.
    Io(io::Error),
}

/// Returns the target of the reference `name`, if it exists.
pub(in crate::checkpoint) fn target(repository: &Repository, name: &str) -> Result<Option<Oid>, git2::Error> {
    match repository.refname_to_id(name) {
        Ok(target) => Ok(Some(target)),
        Err(error) if error.code() == ErrorCode::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// A branch that is about to move, under its lock. If this value is dropped before [`finish`](Self::finish), the branch keeps its target.
#[derive(Debug)]
pub(in crate::checkpoint) struct Move {
    branch: PathBuf,
    /// Path of the lock file, with the new content.
    lock: PathBuf,
}

impl Move {
    /// Prepares to point the reference `name` at `to`, if it points at `expected` and no other process holds its lock.
    ///
    /// The folders of the reference and its new content are not durable yet: sync the file system before [`finish`](Self::finish).
    pub(in crate::checkpoint) fn start(
        repository: &Repository,
        name: &str,
        expected: Option<Oid>,
        to: Oid,
    ) -> Result<Self, MoveError> {
        let branch = repository.path().join(name);
        let lock = branch.with_file_name(format!("{}.lock", name.rsplit('/').next().unwrap_or(name)));
        RealDisk
            .make_private_dirs(parent(&branch))
            .map_err(MoveError::Io)?;
        let mut file = new_file(&lock, 0o600).map_err(MoveError::Io)?;
        let begun = Self { branch, lock };
        match target(repository, name).map_err(MoveError::Git)? {
            found if found == expected => writeln!(file, "{to}").map_err(MoveError::Io)?,
            found => return Err(MoveError::Elsewhere(found)),
        }
        Ok(begun)
    }

    /// Moves the branch; durable on return.
    pub(in crate::checkpoint) fn finish(self) -> io::Result<()> {
        RealDisk.rename(&self.lock, &self.branch)?;
        RealDisk.sync_dir(parent(&self.branch))
    }
}

impl Drop for Move {
    fn drop(&mut self) {
        // After a rename the lock does not exist; otherwise the next start removes what cannot be removed now.
        let _ = RealDisk.remove_file(&self.lock);
    }
}

/// Whether the content of a file names a commit or another reference.
pub(in crate::checkpoint) fn is_reference(bytes: &[u8]) -> bool {
    let text = bytes.trim_ascii_end();
    text.strip_prefix(b"ref: ")
        .is_some_and(|name| name.starts_with(b"refs/"))
        || is_id(text)
}

/// Whether every line of a `packed-refs` file is well-formed.
pub(in crate::checkpoint) fn is_list(bytes: &[u8]) -> bool {
    good_lines(bytes).count() == lines(bytes).count()
}

/// Returns the well-formed lines of a `packed-refs` file.
pub(in crate::checkpoint) fn good_lines(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let is_name = |name: &[u8]| {
        name.starts_with(b"refs/") && std::str::from_utf8(name).is_ok_and(Reference::is_valid_name)
    };
    let mut follows_a_name = false;
    lines(bytes).filter(move |line| match line {
        [b'#', ..] => line.iter().all(|byte| byte.is_ascii_graphic() || *byte == b' '),
        // The object of a tag, whose name is in the line before.
        [b'^', id @ ..] => mem::take(&mut follows_a_name) && is_id(id),
        line => {
            follows_a_name = line
                .split_at_checked(41)
                .is_some_and(|(id, name)| is_id(&id[..40]) && id[40] == b' ' && is_name(name));
            follows_a_name
        }
    })
}

fn lines(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty())
}

fn is_id(text: &[u8]) -> bool {
    text.len() == 40 && text.iter().all(u8::is_ascii_hexdigit)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const NAME: &str = "refs/heads/recovery/x";

    // covers: G10, G11
    #[test]
    fn of_a_damaged_list_the_lines_stay_that_name_something() {
        let id = oid(0xab);
        let good = [
            "# pack-refs with: peeled fully-peeled sorted ".to_owned(),
            format!("{id} refs/heads/main"),
            format!("{id} refs/tags/v1"),
            format!("^{id}"),
        ];
        assert!(is_list(good.join("\n").as_bytes()) && is_list(b""));
        for bad in ["", "x", "../x", "refs/heads/a b", "refs/heads/x.lock"] {
            // The target of the bad name must not be taken for that of the good name in front of it.
            let list = format!("{}\n{id} {bad}\n^{id}\n", good.join("\n"));
            assert!(!is_list(list.as_bytes()), "{bad}");
            assert!(
                good_lines(list.as_bytes()).eq(good.iter().map(String::as_bytes)),
                "{bad}"
            );
        }
        assert!(is_reference(format!("{id}\n").as_bytes()) && is_reference(b"ref: refs/heads/main\n"));
        assert!(!is_reference(b"") && !is_reference(b"ref: /etc/passwd\n") && !is_reference(&[0; 41]));
    }

    fn oid(byte: u8) -> Oid {
        Oid::from_bytes(&[byte; 20]).unwrap()
    }

    fn move_to(repository: &Repository, expected: Option<Oid>, to: Oid) -> Result<(), MoveError> {
        let begun = Move::start(repository, NAME, expected, to)?;
        assert_eq!(target(repository, NAME).unwrap(), expected);
        begun.finish().map_err(MoveError::Io)
    }

    // covers: G6
    #[test]
    fn a_branch_moves_only_from_where_it_was_expected() {
        let folder = tempfile::tempdir().unwrap();
        let repository = Repository::init_bare(folder.path()).unwrap();
        move_to(&repository, None, oid(1)).unwrap();
        let error = move_to(&repository, None, oid(2)).unwrap_err();
        assert!(matches!(error, MoveError::Elsewhere(Some(found)) if found == oid(1)));
        move_to(&repository, Some(oid(1)), oid(2)).unwrap();
        assert_eq!(target(&repository, NAME).unwrap(), Some(oid(2)));
        drop(Move::start(&repository, NAME, Some(oid(2)), oid(3)).unwrap());
        assert_eq!(target(&repository, NAME).unwrap(), Some(oid(2)));
        assert!(!folder.path().join(NAME).with_extension("lock").exists());
    }

    // covers: G6
    #[test]
    fn a_branch_that_somebody_else_holds_is_not_moved() {
        let folder = tempfile::tempdir().unwrap();
        let repository = Repository::init_bare(folder.path()).unwrap();
        move_to(&repository, None, oid(1)).unwrap();
        let lock = folder.path().join("refs/heads/recovery/x.lock");
        fs::write(&lock, "").unwrap();
        let error = move_to(&repository, Some(oid(1)), oid(2)).unwrap_err();
        assert!(matches!(error, MoveError::Io(error) if error.kind() == io::ErrorKind::AlreadyExists));
        assert!(lock.exists(), "it is not ours");
        assert_eq!(target(&repository, NAME).unwrap(), Some(oid(1)));
    }
}
