//! Reading a checkpoint repository: safe beside a live owner, changes nothing.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use git2::{BranchType, Odb, Oid, Repository};
use hankweave_core::id::CheckpointSha;
use hankweave_core::time::Timestamp;

use super::git_format::{Commit, find_commit, look_up, read_tree};
use super::inspect::Inspector;
use super::object::ObjectError;
use super::repository::{self, name_of, unless_missing};
use super::tree::{Entry, FileMode, Folders, Listing, changes};
use super::{Change, Damage, HistoryError, KnownCheckpoint, KnownCheckpoints, TreePath, message};

/// The branch of the checkpoints before any run.
pub(super) const MAIN: &str = "main";

/// The checkpoints of a repository, for looking at.
#[derive(Debug, Clone)]
pub struct GitHistory {
    repository: PathBuf,
}

/// A checkpoint with all its files and folders.
#[derive(Debug, Default)]
pub(super) struct Loaded {
    pub(super) files: Listing,
    pub(super) folders: Folders,
}

impl GitHistory {
    /// Looks at the bare repository in the folder `repository`; `None` when there is no such folder.
    ///
    /// # Errors
    ///
    /// Returns [`HistoryError`] when there is a folder but git cannot read it.
    pub fn open(repository: &Path) -> Result<Option<Self>, HistoryError> {
        let history = Self {
            repository: repository.to_owned(),
        };
        match repository.try_exists() {
            Ok(true) => history
                .repository()
                .map_err(HistoryError::Read)
                .map(|_| Some(history)),
            Ok(false) => Ok(None),
            Err(error) => Err(HistoryError::Read(ObjectError::at(
                "look for the checkpoint repository",
            )(error))),
        }
    }

    /// Every checkpoint of every branch; what lies behind a missing one is found by its name only.
    ///
    /// # Errors
    ///
    /// Returns [`HistoryError`] when the repository cannot be read.
    pub fn known(&self) -> Result<KnownCheckpoints, HistoryError> {
        let repository = self.repository().map_err(HistoryError::Read)?;
        let known = || -> Result<KnownCheckpoints, git2::Error> {
            let mut known = KnownCheckpoints::new();
            for branch in repository.branches(Some(BranchType::Local))? {
                let reference = branch?.0.into_reference();
                let branch = reference.shorthand().unwrap_or_default().to_owned();
                if let Some(tip) = reference.target() {
                    add_line(&repository, tip, &branch, &mut known)?;
                }
            }
            Ok(known)
        };
        known().map_err(|error| HistoryError::Read(ObjectError::at("list the checkpoints")(error)))
    }

    /// Whether `sha`, in full length, names a checkpoint.
    ///
    /// # Errors
    ///
    /// Returns [`HistoryError`] when that cannot be found out.
    pub fn contains(&self, sha: &CheckpointSha) -> Result<bool, HistoryError> {
        let repository = self.repository().map_err(HistoryError::Read)?;
        match find(&repository, sha) {
            Ok(_) => Ok(true),
            Err(HistoryError::Unknown { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// The members of `shas` that cannot be restored.
    ///
    /// # Errors
    ///
    /// Returns [`HistoryError`] when that cannot be found out.
    pub fn verify(&self, shas: &[CheckpointSha]) -> Result<Vec<CheckpointSha>, HistoryError> {
        let restorable = self.restorable(shas)?;
        let missing = shas.iter().filter(|sha| !restorable.contains_key(*sha));
        Ok(missing.cloned().collect())
    }

    /// What is known about those of `shas` that can be restored: the commit, its folders and the contents of all files
    /// are there (G10).
    ///
    /// # Errors
    ///
    /// Returns [`HistoryError`] when that cannot be found out.
    pub fn restorable(&self, shas: &[CheckpointSha]) -> Result<KnownCheckpoints, HistoryError> {
        let repository = self.repository().map_err(HistoryError::Read)?;
        let mut restorable = KnownCheckpoints::new();
        let mut check = || -> Result<(), git2::Error> {
            let odb = repository.odb()?;
            let mut good = HashSet::new();
            for sha in shas {
                let Some(commit) = unless_missing(look_up(&repository, sha))?.flatten() else {
                    continue;
                };
                if is_tree_whole(&repository, &odb, commit.tree, &mut good)? {
                    restorable.insert(sha.clone(), describe(&commit, MAIN));
                }
            }
            Ok(())
        };
        check().map_err(|error| HistoryError::Read(ObjectError::at("look for the checkpoints")(error)))?;
        Ok(restorable)
    }

    /// What is known about those of `shas` that are there, whatever leads to them: a lost checkpoint hides none that is older.
    ///
    /// # Errors
    ///
    /// Returns [`HistoryError`] when that cannot be found out.
    pub fn existing(&self, shas: &[CheckpointSha]) -> Result<KnownCheckpoints, HistoryError> {
        let repository = self.repository().map_err(HistoryError::Read)?;
        let find = |sha: &CheckpointSha| -> Result<Option<_>, git2::Error> {
            let commit = unless_missing(look_up(&repository, sha))?.flatten();
            Ok(commit.map(|commit| (sha.clone(), describe(&commit, MAIN))))
        };
        let found = shas.iter().filter_map(|sha| find(sha).transpose());
        let found: Result<_, git2::Error> = found.collect();
        found.map_err(|error| HistoryError::Read(ObjectError::at("look for the checkpoints")(error)))
    }

    /// Reads every part of each of `shas` and returns what is wrong with it, in their order.
    ///
    /// # Errors
    ///
    /// Returns [`HistoryError`] when the disk cannot be read; damage is no error.
    pub fn inspect(&self, shas: &[CheckpointSha]) -> Result<Vec<Vec<Damage>>, HistoryError> {
        let repository = self.repository().map_err(HistoryError::Read)?;
        let inspect = || -> Result<Vec<Vec<Damage>>, git2::Error> {
            let mut inspector = Inspector::new(&repository)?;
            shas.iter().map(|sha| inspector.inspect(sha)).collect()
        };
        inspect().map_err(|error| HistoryError::Read(ObjectError::at("read the checkpoints")(error)))
    }

    /// The files of the checkpoint `sha`, ordered.
    ///
    /// # Errors
    ///
    /// Returns [`HistoryError`] when it does not exist or cannot be read.
    pub fn files(&self, sha: &CheckpointSha) -> Result<Vec<TreePath>, HistoryError> {
        let repository = self.repository().map_err(HistoryError::Read)?;
        Ok(load(&repository, sha)?.files.paths().cloned().collect())
    }

    /// What happened to the files between `from` and `to`, ordered by path.
    ///
    /// # Errors
    ///
    /// Returns [`HistoryError`] when one of them does not exist or cannot be read.
    pub fn diff(&self, from: &CheckpointSha, to: &CheckpointSha) -> Result<Vec<Change>, HistoryError> {
        let repository = self.repository().map_err(HistoryError::Read)?;
        Ok(changes(
            &load(&repository, from)?.files,
            &load(&repository, to)?.files,
        ))
    }

    /// Opens the repository; every operation does, because a `Repository` cannot be shared between threads.
    pub(super) fn repository(&self) -> Result<Repository, ObjectError> {
        repository::open(&self.repository)
    }

    pub(super) fn path(&self) -> &Path {
        &self.repository
    }

    pub(super) fn at(repository: &Path) -> Self {
        Self {
            repository: repository.to_owned(),
        }
    }
}

/// The commit called `sha`.
pub(super) fn find(repository: &Repository, sha: &CheckpointSha) -> Result<Commit, HistoryError> {
    match look_up(repository, sha) {
        Ok(Some(commit)) => Ok(commit),
        Ok(None) => Err(HistoryError::Unknown { sha: sha.clone() }),
        Err(error) => Err(HistoryError::Read(ObjectError::at("read a checkpoint")(error))),
    }
}

/// The files of the checkpoint `sha`.
pub(super) fn load(repository: &Repository, sha: &CheckpointSha) -> Result<Loaded, HistoryError> {
    let commit = find(repository, sha)?;
    let (mut files, mut folders) = (Vec::new(), Folders::new());
    load_folder(repository, sha, commit.tree, &[], &mut files, &mut folders)?;
    let files = files.into_iter().collect();
    Ok(Loaded { files, folders })
}

fn load_folder(
    repository: &Repository,
    sha: &CheckpointSha,
    tree: Oid,
    folder: &[u8],
    files: &mut Vec<(TreePath, Entry)>,
    folders: &mut Folders,
) -> Result<(), HistoryError> {
    let entries = read_tree(repository, tree)
        .map_err(|error| HistoryError::Read(ObjectError::at("read a checkpoint")(error)))?;
    folders.insert(folder.into(), tree);
    for entry in entries {
        let separator: &[u8] = if folder.is_empty() { b"" } else { b"/" };
        let path = [folder, separator, &entry.name].concat();
        let unusable = || HistoryError::Unusable {
            sha: sha.clone(),
            entry: path.escape_ascii().to_string(),
        };
        let checked = TreePath::new(&path).map_err(|_| unusable())?;
        if entry.is_folder() {
            load_folder(repository, sha, entry.id, &path, files, folders)?;
        } else {
            let mode = FileMode::from_git(entry.mode).ok_or_else(unusable)?;
            let blob = entry.id;
            files.push((checked, Entry { mode, blob }));
        }
    }
    Ok(())
}

/// Follows the first parents from `tip` until one is known or missing. `branch` is used for commits that do not name
/// theirs.
fn add_line(
    repository: &Repository,
    tip: Oid,
    branch: &str,
    known: &mut KnownCheckpoints,
) -> Result<(), git2::Error> {
    let mut next = Some(tip);
    while let Some(id) = next {
        let sha = name_of(id);
        if known.contains_key(&sha) {
            return Ok(());
        }
        let Some(commit) = unless_missing(find_commit(repository, id))? else {
            return Ok(());
        };
        next = commit.parents.first().copied();
        known.insert(sha, describe(&commit, branch));
    }
    Ok(())
}

fn describe(commit: &Commit, branch: &str) -> KnownCheckpoint {
    let message = &commit.message;
    KnownCheckpoint {
        timestamp: message::timestamp(message)
            .unwrap_or_else(|| Timestamp::from_millis(commit.seconds.saturating_mul(1_000))),
        branch: message::branch(message).unwrap_or_else(|| branch.to_owned()),
        parent: commit.parents.first().copied().map(name_of),
        message: message.clone(),
    }
}

/// Whether `tree` and everything beneath it is there. `good` holds the objects that were found before.
fn is_tree_whole(
    repository: &Repository,
    odb: &Odb<'_>,
    tree: Oid,
    good: &mut HashSet<Oid>,
) -> Result<bool, git2::Error> {
    if good.contains(&tree) {
        return Ok(true);
    }
    let Some(folder) = unless_missing(read_tree(repository, tree))? else {
        return Ok(false);
    };
    for entry in &folder {
        let id = entry.id;
        let whole = match entry.is_folder() {
            true => is_tree_whole(repository, odb, id, good)?,
            false => good.contains(&id) || odb.exists(id) && good.insert(id),
        };
        if !whole {
            return Ok(false);
        }
    }
    good.insert(tree);
    Ok(true)
}
