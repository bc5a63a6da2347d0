//! Reading a checkpoint repository: safe beside a live owner, changes nothing.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use git2::{BranchType, Commit, ErrorCode, ObjectType, Oid, Repository, Tree};
use hankweave_core::id::CheckpointSha;
use hankweave_core::time::Timestamp;

use super::object::ObjectError;
use super::tree::{Entry, FileMode, Folders, Listing, changes};
use super::{Change, HistoryError, KnownCheckpoint, KnownCheckpoints, TreePath, message, open};

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

    /// Every checkpoint of every branch.
    ///
    /// # Errors
    ///
    /// Returns [`HistoryError`] when the repository cannot be read.
    pub fn known(&self) -> Result<KnownCheckpoints, HistoryError> {
        let known = || -> Result<KnownCheckpoints, git2::Error> {
            let repository = Repository::open_bare(&self.repository)?;
            let mut known = KnownCheckpoints::new();
            for branch in repository.branches(Some(BranchType::Local))? {
                let reference = branch?.0.into_reference();
                let branch = reference.shorthand().unwrap_or_default().to_owned();
                add_line(reference.peel_to_commit()?, &branch, &mut known)?;
            }
            Ok(known)
        };
        open::isolate();
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
        let repository = self.repository().map_err(HistoryError::Read)?;
        let mut good = HashSet::new();
        let is_whole = |sha: &CheckpointSha, good: &mut HashSet<Oid>| match find(&repository, sha) {
            Ok(commit) => is_tree_whole(&repository, commit.tree_id(), good),
            Err(_) => false,
        };
        Ok(shas
            .iter()
            .filter(|sha| !is_whole(sha, &mut good))
            .cloned()
            .collect())
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
        open::isolate();
        Repository::open_bare(&self.repository).map_err(ObjectError::at("open the checkpoint repository"))
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
pub(super) fn find<'a>(repository: &'a Repository, sha: &CheckpointSha) -> Result<Commit<'a>, HistoryError> {
    let unknown = || HistoryError::Unknown { sha: sha.clone() };
    if sha.as_str().len() != 40 {
        return Err(unknown());
    }
    let id = Oid::from_str(sha.as_str()).map_err(|_| unknown())?;
    repository.find_commit(id).map_err(|error| match error.code() {
        ErrorCode::NotFound => unknown(),
        _ => HistoryError::Read(ObjectError::at("read a checkpoint")(error)),
    })
}

/// The files of the checkpoint `sha`.
pub(super) fn load(repository: &Repository, sha: &CheckpointSha) -> Result<Loaded, HistoryError> {
    let commit = find(repository, sha)?;
    let tree = commit
        .tree()
        .map_err(|error| HistoryError::Read(ObjectError::at("read a checkpoint")(error)))?;
    let mut loaded = Loaded::default();
    load_folder(repository, sha, &tree, &[], &mut loaded)?;
    Ok(loaded)
}

fn load_folder(
    repository: &Repository,
    sha: &CheckpointSha,
    tree: &Tree<'_>,
    folder: &[u8],
    loaded: &mut Loaded,
) -> Result<(), HistoryError> {
    loaded.folders.insert(folder.into(), tree.id());
    for entry in tree {
        let name = entry.name_bytes();
        let path = if folder.is_empty() {
            name.to_vec()
        } else {
            [folder, b"/", name].concat()
        };
        let unusable = || HistoryError::Unusable {
            sha: sha.clone(),
            entry: path.escape_ascii().to_string(),
        };
        let checked = TreePath::new(&path).map_err(|_| unusable())?;
        if entry.kind() == Some(ObjectType::Tree) {
            let tree = repository.find_tree(entry.id());
            let tree =
                tree.map_err(|error| HistoryError::Read(ObjectError::at("read a checkpoint")(error)))?;
            load_folder(repository, sha, &tree, &path, loaded)?;
        } else {
            let mode = u32::try_from(entry.filemode_raw())
                .ok()
                .and_then(FileMode::from_git);
            loaded.files.insert(
                checked,
                Entry {
                    mode: mode.ok_or_else(unusable)?,
                    blob: entry.id(),
                },
            );
        }
    }
    Ok(())
}

/// Follows the first parents from `commit` until one is known. `branch` is used for commits that do not tell theirs.
fn add_line(commit: Commit<'_>, branch: &str, known: &mut KnownCheckpoints) -> Result<(), git2::Error> {
    let mut next = Some(commit);
    while let Some(commit) = next {
        let sha = name_of(commit.id());
        if known.contains_key(&sha) {
            return Ok(());
        }
        next = if commit.parent_count() > 0 {
            Some(commit.parent(0)?)
        } else {
            None
        };
        known.insert(sha, describe(&commit, branch));
    }
    Ok(())
}

fn describe(commit: &Commit<'_>, branch: &str) -> KnownCheckpoint {
    let message = String::from_utf8_lossy(commit.message_bytes()).into_owned();
    let seconds = commit.time().seconds();
    KnownCheckpoint {
        timestamp: message::timestamp(&message)
            .unwrap_or_else(|| Timestamp::from_millis(seconds.saturating_mul(1_000))),
        branch: message::branch(&message).unwrap_or_else(|| branch.to_owned()),
        parent: commit.parent_ids().next().map(name_of),
        message,
    }
}

pub(super) fn name_of(commit: Oid) -> CheckpointSha {
    CheckpointSha::new(commit.to_string())
}

/// Whether `tree` and everything beneath it is there. `good` holds the trees that were found whole before.
fn is_tree_whole(repository: &Repository, tree: Oid, good: &mut HashSet<Oid>) -> bool {
    if good.contains(&tree) {
        return true;
    }
    let (Ok(folder), Ok(objects)) = (repository.find_tree(tree), repository.odb()) else {
        return false;
    };
    let whole = folder.iter().all(|entry| match entry.kind() {
        Some(ObjectType::Tree) => is_tree_whole(repository, entry.id(), good),
        _ => good.contains(&entry.id()) || objects.exists(entry.id()) && good.insert(entry.id()),
    });
    if whole {
        good.insert(tree);
    }
    whole
}
