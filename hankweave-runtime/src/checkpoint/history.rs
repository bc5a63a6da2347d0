//! Reading a checkpoint repository: changes nothing, and is safe while a live process owns it.

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};

use git2::{BranchType, Oid, Repository};
use hankweave_core::id::CheckpointSha;
use hankweave_core::time::Timestamp;

use super::git_format::{Commit, ObjectReader, TreeEntry};
use super::inspect::Inspector;
use super::object::{ObjectError, OnlyIds};
use super::repository::{self, if_readable, name_of};
use super::select::FileSelection;
use super::snapshot;
use super::stat_cache::StatCache;
use super::tree::{ChangeKind, FileEntry, FileMode, Folders, Listing, changes};
use super::workspace::Workspace;
use super::{
    CheckpointError, CheckpointsBySha, Damage, FileProgress, HistoryError, KnownCheckpoint, MAX_FILE_BYTES,
    PathChange, Patterns, TreePath, message,
};

/// The branch of the files before the first codon, as the newest run found them that started from the beginning.
pub(super) const MAIN: &str = "main";

/// Name prefix of the branches that keep earlier commits of [`MAIN`]: `main-<short sha>`.
pub(super) const EARLIER_BEGINNING: &str = "main-";

/// The checkpoints of a repository, for reading only.
#[derive(Debug, Clone)]
pub struct GitHistory {
    repository: PathBuf,
}

/// A checkpoint with all its files and folders.
#[derive(Debug, Default)]
pub(super) struct LoadedCheckpoint {
    pub(super) files: Listing,
    pub(super) folders: Folders,
}

impl GitHistory {
    /// Opens the bare repository in the folder `repository`; `None` when there is no such folder.
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

    /// Returns every checkpoint of every branch. Checkpoints older than a missing one are left out: they are only found by name, see
    /// [`existing`](Self::existing).
    ///
    /// # Errors
    ///
    /// Returns [`HistoryError`] when the repository cannot be read.
    pub fn known(&self) -> Result<CheckpointsBySha, HistoryError> {
        let repository = self.repository().map_err(HistoryError::Read)?;
        let known = || -> Result<CheckpointsBySha, git2::Error> {
            let reader = ObjectReader::open(&repository)?;
            let mut known = CheckpointsBySha::new();
            for branch in repository.branches(Some(BranchType::Local))? {
                let reference = branch?.0.into_reference();
                let branch = reference.shorthand().unwrap_or_default().to_owned();
                if let Some(tip) = reference.target() {
                    add_line(&reader, tip, &branch, &mut known)?;
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
        match find(&open_reader(&repository)?, sha) {
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

    /// Returns the facts about those of `shas` that can be restored: the commit, its folders and the contents of all files
    /// are there (G10).
    ///
    /// # Errors
    ///
    /// Returns [`HistoryError`] when that cannot be found out.
    pub fn restorable(&self, shas: &[CheckpointSha]) -> Result<CheckpointsBySha, HistoryError> {
        self.restorable_with(shas, HashSet::new())
    }

    /// Like [`restorable`](Self::restorable); the objects in `good` are known to exist and not checked again.
    pub(super) fn restorable_with(
        &self,
        shas: &[CheckpointSha],
        mut good: HashSet<Oid>,
    ) -> Result<CheckpointsBySha, HistoryError> {
        let repository = self.repository().map_err(HistoryError::Read)?;
        let mut restorable = CheckpointsBySha::new();
        let mut check = || -> Result<(), git2::Error> {
            let reader = ObjectReader::open(&repository)?;
            for sha in shas {
                let Some(commit) = if_readable(reader.look_up(sha))?.flatten() else {
                    continue;
                };
                if is_tree_whole(&reader, commit.tree, &mut good)? {
                    restorable.insert(sha.clone(), describe(&commit, MAIN));
                }
            }
            Ok(())
        };
        check().map_err(|error| HistoryError::Read(ObjectError::at("look for the checkpoints")(error)))?;
        Ok(restorable)
    }

    /// Returns the facts about those of `shas` that exist. Each is looked up by its name, so a lost checkpoint hides no older one.
    ///
    /// # Errors
    ///
    /// Returns [`HistoryError`] when that cannot be found out.
    pub fn existing(&self, shas: &[CheckpointSha]) -> Result<CheckpointsBySha, HistoryError> {
        let repository = self.repository().map_err(HistoryError::Read)?;
        let reader = open_reader(&repository)?;
        let find = |sha: &CheckpointSha| -> Result<Option<_>, git2::Error> {
            let commit = if_readable(reader.look_up(sha))?.flatten();
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
        let loaded = load(&open_reader(&repository)?, sha, None)?;
        Ok(loaded.files.paths().cloned().collect())
    }

    /// Returns the changes of files between `from` and `to`, ordered by path.
    ///
    /// # Errors
    ///
    /// Returns [`HistoryError`] when one of them does not exist or cannot be read.
    pub fn diff(&self, from: &CheckpointSha, to: &CheckpointSha) -> Result<Vec<PathChange>, HistoryError> {
        let repository = self.repository().map_err(HistoryError::Read)?;
        let (before, after) = differing(&open_reader(&repository)?, from, to)?;
        Ok(changes(&before, &after))
    }

    /// Returns the changes from the checkpoint `from` to the files of `workspace`, ordered by path. A new file counts only if
    /// it matches `patterns` and was touched at `since` or later: an older one existed when `from` was made,
    /// whose own patterns decided about it.
    ///
    /// # Errors
    ///
    /// Returns [`CheckpointError`] when the checkpoint or the workspace cannot be read.
    pub fn diff_with_workspace(
        &self,
        from: &CheckpointSha,
        workspace: &Path,
        (patterns, since): (&[String], Timestamp),
    ) -> Result<Vec<PathChange>, CheckpointError> {
        let repository = self.repository().map_err(CheckpointError::Store)?;
        let reader = open_reader(&repository).map_err(CheckpointError::Parent)?;
        let before = load(&reader, from, None).map_err(CheckpointError::Parent)?.files;
        let patterns = Patterns::parse(patterns).map_err(CheckpointError::Pattern)?;
        let opened = Workspace::open(workspace).map_err(|source| CheckpointError::Workspace {
            path: workspace.to_owned(),
            source,
        })?;
        let selection = FileSelection {
            patterns: &patterns,
            tracked: &[&before],
            in_the_way: false,
            unlisted: false,
            most_bytes: MAX_FILE_BYTES,
        };
        let (cache, counted) = (StatCache::default(), FileProgress::default());
        let now = snapshot::take(&opened, &selection, &cache, &OnlyIds, &counted)?;
        let touched: BTreeMap<_, _> = now.seen.iter().map(|file| (&file.path, file.touched())).collect();
        let is_recent = |path: &TreePath| touched.get(path).is_some_and(|touched| *touched >= since);
        let mut changes = changes(&before, &now.files);
        changes.retain(|change| change.kind != ChangeKind::Added || is_recent(&change.path));
        Ok(changes)
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

/// Begins to read the objects of the repository.
pub(super) fn open_reader(repository: &Repository) -> Result<ObjectReader<'_>, HistoryError> {
    let failed = ObjectError::at("open the checkpoints");
    ObjectReader::open(repository).map_err(|error| HistoryError::Read(failed(error)))
}

/// The commit called `sha`.
pub(super) fn find(reader: &ObjectReader<'_>, sha: &CheckpointSha) -> Result<Commit, HistoryError> {
    match reader.look_up(sha) {
        Ok(Some(commit)) => Ok(commit),
        Ok(None) => Err(HistoryError::Unknown { sha: sha.clone() }),
        Err(error) => Err(HistoryError::Read(ObjectError::at("read a checkpoint")(error))),
    }
}

/// The commit with which the line of `tip` begins; `None` when it is lost.
pub(super) fn first_commit(reader: &ObjectReader<'_>, tip: Oid) -> Result<Option<Oid>, HistoryError> {
    let failed = |error| HistoryError::Read(ObjectError::at("read a checkpoint")(error));
    let mut next = tip;
    while let Some(commit) = if_readable(reader.commit(next)).map_err(failed)? {
        match commit.parents.first() {
            Some(parent) => next = *parent,
            None => return Ok(Some(next)),
        }
    }
    Ok(None)
}

/// Reads the files of the checkpoint `sha`. Folders that are equal in `known` are copied from there and not read.
pub(super) fn load(
    reader: &ObjectReader<'_>,
    sha: &CheckpointSha,
    known: Option<(&Listing, &Folders)>,
) -> Result<LoadedCheckpoint, HistoryError> {
    let tree = find(reader, sha)?.tree;
    let mut loading = Loading {
        known,
        ..Loading::new(reader, sha)
    };
    loading.folder(tree, &[])?;
    Ok(LoadedCheckpoint {
        files: loading.files.into_iter().collect(),
        folders: loading.folders,
    })
}

/// A checkpoint whose folders are being read.
struct Loading<'a> {
    reader: &'a ObjectReader<'a>,
    sha: &'a CheckpointSha,
    /// The files of another checkpoint, and its folders; what is equal in both is copied.
    known: Option<(&'a Listing, &'a Folders)>,
    files: Vec<(TreePath, FileEntry)>,
    folders: Folders,
}

impl<'a> Loading<'a> {
    fn new(reader: &'a ObjectReader<'a>, sha: &'a CheckpointSha) -> Self {
        Self {
            reader,
            sha,
            known: None,
            files: Vec::new(),
            folders: Folders::new(),
        }
    }

    /// Adds everything inside the folder `tree`, which is at `path`.
    fn folder(&mut self, tree: Oid, path: &[u8]) -> Result<(), HistoryError> {
        if let Some((files, folders)) = self.known.filter(|(_, known)| known.get(path) == Some(&tree)) {
            self.copy(files.beneath(path), folders, path);
            return Ok(());
        }
        self.folders.insert(path.into(), tree);
        for entry in self.entries(tree)? {
            self.add_entry(&entry, path)?;
        }
        Ok(())
    }

    /// Copies the folder at `place` from another checkpoint: `files` are all files inside, `folders` all folders of that checkpoint.
    fn copy(&mut self, files: &[(TreePath, FileEntry)], folders: &Folders, place: &[u8]) {
        for (path, _) in files {
            let within = path.folders().take_while(|folder| folder.len() >= place.len());
            // From the innermost folder outwards: if a folder is copied already, so are those around it.
            for folder in within {
                let Some(tree) = folders.get(folder) else { continue };
                if self.folders.insert(folder.into(), *tree).is_some() {
                    break;
                }
            }
        }
        // The loop above misses a folder without any file inside.
        self.folders
            .extend(folders.get(place).map(|tree| (place.into(), *tree)));
        self.files.extend_from_slice(files);
    }

    fn entries(&self, tree: Oid) -> Result<Vec<TreeEntry>, HistoryError> {
        let read = self.reader.tree(tree);
        read.map_err(|error| HistoryError::Read(ObjectError::at("read a checkpoint")(error)))
    }

    /// Adds an entry of the folder `folder`, with everything inside.
    fn add_entry(&mut self, entry: &TreeEntry, folder: &[u8]) -> Result<(), HistoryError> {
        let path = path_in(folder, &entry.name);
        let unusable = || HistoryError::Unusable {
            sha: self.sha.clone(),
            entry: path.escape_ascii().to_string(),
        };
        let checked = TreePath::new(&path).map_err(|_| unusable())?;
        if entry.is_folder() {
            return self.folder(entry.id, &path);
        }
        let mode = FileMode::from_git(entry.mode).ok_or_else(unusable)?;
        let blob = entry.id;
        self.files.push((checked, FileEntry { mode, blob }));
        Ok(())
    }
}

fn path_in(folder: &[u8], name: &[u8]) -> Vec<u8> {
    let separator: &[u8] = if folder.is_empty() { b"" } else { b"/" };
    [folder, separator, name].concat()
}

/// Returns the files of both checkpoints, without those that are equal in both.
pub(super) fn differing(
    reader: &ObjectReader<'_>,
    from: &CheckpointSha,
    to: &CheckpointSha,
) -> Result<(Listing, Listing), HistoryError> {
    let (old, new) = (find(reader, from)?.tree, find(reader, to)?.tree);
    let (mut before, mut after) = (Loading::new(reader, from), Loading::new(reader, to));
    add_differences((&mut before, old), (&mut after, new), &[])?;
    let [before, after] = [before, after].map(|loading| loading.files.into_iter().collect());
    Ok((before, after))
}

/// Adds the files inside the trees `old` and `new`, both at `path`, that differ. Entries with equal ids are not read.
fn add_differences(
    (from, old): (&mut Loading<'_>, Oid),
    (to, new): (&mut Loading<'_>, Oid),
    path: &[u8],
) -> Result<(), HistoryError> {
    if old == new {
        return Ok(());
    }
    let mut others = BTreeMap::new();
    for entry in to.entries(new)? {
        // In a damaged tree a name may come twice; the first entry counts.
        others.entry(entry.name.clone()).or_insert(entry);
    }
    for entry in from.entries(old)? {
        match others.remove(&entry.name) {
            Some(other) if (other.id, other.mode) == (entry.id, entry.mode) => {}
            Some(other) if entry.is_folder() && other.is_folder() => {
                let path = path_in(path, &entry.name);
                add_differences((from, entry.id), (to, other.id), &path)?;
            }
            other => {
                from.add_entry(&entry, path)?;
                other.map_or(Ok(()), |other| to.add_entry(&other, path))?;
            }
        }
    }
    others.values().try_for_each(|other| to.add_entry(other, path))
}

/// Adds the commits from `tip` along first parents to `known`, until one is known already or missing. `branch` is used for
/// commits whose message names no branch.
fn add_line(
    reader: &ObjectReader<'_>,
    tip: Oid,
    branch: &str,
    known: &mut CheckpointsBySha,
) -> Result<(), git2::Error> {
    let mut next = Some(tip);
    while let Some(id) = next {
        let sha = name_of(id);
        if known.contains_key(&sha) {
            return Ok(());
        }
        let Some(commit) = if_readable(reader.commit(id))? else {
            return Ok(());
        };
        next = commit.parents.first().copied();
        known.insert(sha, describe(&commit, branch));
    }
    Ok(())
}

/// Returns the facts about a commit; `branch` is used if its message names no branch.
fn describe(commit: &Commit, branch: &str) -> KnownCheckpoint {
    let message = &commit.message;
    let before = commit.parents.first().copied().map(name_of);
    KnownCheckpoint {
        timestamp: message::timestamp(message)
            .unwrap_or_else(|| Timestamp::from_millis(commit.seconds.saturating_mul(1_000))),
        branch: message::branch(message).unwrap_or_else(|| branch.to_owned()),
        parent: message::base(message).or_else(|| before.clone()),
        before,
        message: message.clone(),
    }
}

/// Whether `tree` and everything inside exists. Objects in `good` are known to exist; those found here are added to it.
pub(super) fn is_tree_whole(
    reader: &ObjectReader<'_>,
    tree: Oid,
    good: &mut HashSet<Oid>,
) -> Result<bool, git2::Error> {
    if good.contains(&tree) {
        return Ok(true);
    }
    let Some(folder) = if_readable(reader.tree(tree))? else {
        return Ok(false);
    };
    for entry in &folder {
        let id = entry.id;
        let whole = match entry.is_folder() {
            true => is_tree_whole(reader, id, good)?,
            false => good.contains(&id) || reader.exists(id) && good.insert(id),
        };
        if !whole {
            return Ok(false);
        }
    }
    good.insert(tree);
    Ok(true)
}
