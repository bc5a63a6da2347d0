//! Restoring the files of a checkpoint, with code of our own: git's checkout writes through links (G7).
//!
//! [`prepare`] compares the workspace with the checkpoint and makes a plan. The caller saves what the plan would change,
//! then [`apply`] carries it out.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use git2::Oid;
use hankweave_core::hank::exclude::{RESTORE_TEMPORARY, is_excluded};
use hankweave_core::hank::reserved::{RepositoryShape, is_never_a_link};
use hankweave_core::time::Timestamp;
use rustix::fs::{AtFlags, Dir, Mode, OFlags, RawMode, RenameFlags};
use rustix::io::Errno;

use super::object::{BlobStore, ContentError, ObjectError};
use super::select::FileSelection;
use super::snapshot::{self, WorkspaceSnapshot};
use super::stat_cache::StatCache;
use super::tree::{ChangeKind, FileEntry, FileMode, Listing, PathChange, changes};
use super::workspace::Workspace;
use super::{
    CheckpointError, FileProgress, Patterns, RestoreError, RestorePlan, SkipReason, Skipped, TreePath,
};
use crate::world::disk::{open_folder_in, sync_file_system};
use crate::world::environment::umask_of_user;

/// Maximum number of temporary names that are passed over in one folder because folders of the user have these names.
const MOST_TEMPORARY: usize = 64;

/// Longest target of a link, in bytes.
const LONGEST_TARGET: usize = 64 << 10;

/// A restore that is planned and has changed nothing yet.
#[derive(Debug)]
pub(super) struct Prepared {
    /// The tracked files as they are now, and other entries that the restore would replace.
    pub(super) current: WorkspaceSnapshot,
    pub(super) target: Arc<Listing>,
    pub(super) plan: RestorePlan,
}

impl Prepared {
    pub(super) fn changes_nothing(&self) -> bool {
        self.plan.write.is_empty() && self.plan.delete.is_empty()
    }

    /// Whether the checkpoint `saved` has every file that the restore would replace or delete, as it is now.
    pub(super) fn is_saved_in(&self, saved: &Listing) -> bool {
        let current = &self.current.files;
        // A file that the restore does not change need not be saved.
        let stays = |path: &TreePath| self.target.get(path.as_bytes()) == current.get(path.as_bytes());
        let mut unsaved = remaining(changes(saved, current));
        unsaved.all(|path| stays(&path))
    }
}

/// Compares the workspace with the files `target` of a checkpoint, and with `left`, the files of the checkpoint being left.
/// The contents that are read go to `blobs`. `spares_changed`: files that differ from `left` stay.
pub(super) fn prepare(
    workspace: &Workspace,
    cache: &StatCache,
    blobs: &dyn BlobStore,
    target: Arc<Listing>,
    left: &Listing,
    spares_changed: bool,
    counted: &FileProgress,
) -> Result<Prepared, RestoreError> {
    let patterns = Patterns::nothing();
    let selection = FileSelection {
        patterns: &patterns,
        tracked: &[&target, left],
        in_the_way: true,
        unlisted: false,
        most_bytes: u64::MAX,
    };
    let current =
        snapshot::take(workspace, &selection, cache, blobs, counted).map_err(RestoreError::Safety)?;
    let plan = plan(&current, left, &target, spares_changed)?;
    refuse_repository(workspace, &plan)?;
    Ok(Prepared {
        current,
        target,
        plan,
    })
}

/// Returns the changes that turn the tracked files of `current` into those of `target`.
///
/// Deletes only files that `left` has and `target` has not (G8). `spares_changed`: files that differ from `left` stay. Fails
/// when an entry would be lost that could not be read into `current`.
fn plan(
    current: &WorkspaceSnapshot,
    left: &Listing,
    target: &Listing,
    spares_changed: bool,
) -> Result<RestorePlan, RestoreError> {
    let now = |path: &TreePath| current.files.get(path.as_bytes());
    let is_spared = |path: &TreePath| spares_changed && now(path) != left.get(path.as_bytes());
    let mut plan = RestorePlan {
        write: Vec::new(),
        delete: Vec::new(),
        spared: Vec::new(),
        absent: Vec::new(),
    };
    for path in remaining(changes(&current.files, target)) {
        if is_path_excluded(&path) || is_forbidden_link(&path, target) {
            continue;
        }
        if !is_spared(&path) {
            plan.write.push(path);
        } else if now(&path).is_some() {
            plan.spared.push(path);
        } else {
            plan.absent.push(path);
        }
    }
    for path in left.paths() {
        if target.contains(path.as_bytes()) || now(path).is_none() || is_path_excluded(path) {
            continue;
        }
        if is_spared(path) {
            plan.spared.push(path.clone());
        } else {
            plan.delete.push(path.clone());
        }
    }
    match current
        .skipped
        .iter()
        .find(|skipped| is_in_the_way(skipped, &plan.write, target))
    {
        Some(Skipped { path, reason, .. }) => Err(RestoreError::InTheWay {
            path: path.clone(),
            reason: *reason,
        }),
        None => Ok(plan),
    }
}

/// Whether `target` has a link at `path` where no link may be.
fn is_forbidden_link(path: &TreePath, target: &Listing) -> bool {
    let entry = target.get(path.as_bytes());
    entry.is_some_and(|entry| entry.mode == FileMode::Link) && is_never_a_link(path.split().1)
}

/// Fails if the plan would turn a workspace that is no git repository into one: git, started in it, would follow the
/// restored settings (X13).
fn refuse_repository(workspace: &Workspace, plan: &RestorePlan) -> Result<(), RestoreError> {
    let first = |path: &TreePath| path.parts().next().unwrap_or_default().to_owned();
    let is_part = |path: &&TreePath| {
        let mut shape = RepositoryShape::default();
        shape.add(&first(path));
        shape != RepositoryShape::default()
    };
    let Some(path) = plan.write.iter().find(is_part) else {
        return Ok(());
    };
    let (mut before, mut after) = (RepositoryShape::default(), RepositoryShape::default());
    for name in RepositoryShape::NAMES.map(str::as_bytes) {
        let there = workspace.has_entry(name).map_err(|error| {
            RestoreError::Safety(CheckpointError::Workspace {
                path: workspace.locate(name),
                source: error.into(),
            })
        })?;
        if there {
            before.add(name);
        }
        if there && !plan.delete.iter().any(|path| path.as_bytes() == name) {
            after.add(name);
        }
    }
    for path in &plan.write {
        after.add(&first(path));
    }
    match after.is_repository() && !before.is_repository() {
        true => Err(RestoreError::Repository { path: path.clone() }),
        false => Ok(()),
    }
}

/// Returns the changed paths that still exist after `changes`.
fn remaining(changes: Vec<PathChange>) -> impl Iterator<Item = TreePath> {
    let remaining = changes
        .into_iter()
        .filter(|change| change.kind != ChangeKind::Deleted);
    remaining.map(|change| change.path)
}

/// Whether writing `paths` of `target` would remove the skipped entry, or write into it. A FIFO or socket may be removed: it
/// has no contents.
fn is_in_the_way(skipped: &Skipped, paths: &[TreePath], target: &Listing) -> bool {
    let is_written = |path: &[u8]| {
        paths
            .binary_search_by(|written| written.as_bytes().cmp(path))
            .is_ok()
    };
    skipped.reason != SkipReason::NotAFile
        && (is_written(skipped.path.as_bytes())
            || skipped.path.folders().any(is_written)
            || target.holds_beneath(skipped.path.as_bytes()))
}

/// Copies the bytes of a blob into a sink.
pub(super) type CopyContents<'a> = dyn Fn(Oid, &mut dyn io::Write) -> Result<(), ContentError> + 'a;

/// Carries out `plan`; `contents` copies the bytes of a blob. After an interruption it can be called again. A folder that a
/// deletion leaves empty is removed, unless it is older than the target, which was made at `made`.
pub(super) fn apply(
    workspace: &Workspace,
    plan: &RestorePlan,
    (target, made): (&Listing, Option<Timestamp>),
    contents: &CopyContents<'_>,
    counted: &FileProgress,
) -> Result<(), RestoreError> {
    let at = |path: &TreePath| {
        let path = path.clone();
        move |error: io::Error| RestoreError::Write { path, source: error }
    };
    counted.start(plan.delete.len() + plan.write.len());
    for path in &plan.delete {
        delete(workspace, path, made).map_err(|error| at(path)(error.into()))?;
        counted.step();
    }
    for path in &plan.write {
        let Some(entry) = target.get(path.as_bytes()) else {
            continue;
        };
        write(workspace, path, *entry, contents).map_err(|error| match error {
            ContentError::Sink(error) => at(path)(error),
            ContentError::Object(error) => RestoreError::Contents {
                path: path.clone(),
                source: ObjectError::at("read a blob")(error),
            },
        })?;
        counted.step();
    }
    sync_file_system(workspace.root()).map_err(RestoreError::Sync)
}

/// Removes temporary files that an interrupted restore left next to the files that it wrote (P9); they are among the `skipped` entries.
pub(super) fn sweep(workspace: &Workspace, skipped: &[Skipped]) -> Result<(), RestoreError> {
    let names = skipped
        .iter()
        .map(|skipped| (&skipped.path, skipped.path.split()));
    let left = names.filter(|(_, (_, name))| name.starts_with(RESTORE_TEMPORARY.as_bytes()));
    for (path, (folder, name)) in left {
        let folder = workspace.folder(folder);
        match folder.and_then(|folder| rustix::fs::unlinkat(folder, name, AtFlags::empty())) {
            // A folder of that name is not ours.
            Ok(()) | Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::ISDIR) => {}
            Err(error) => {
                return Err(RestoreError::Write {
                    path: path.clone(),
                    source: error.into(),
                });
            }
        }
    }
    Ok(())
}

/// Deletes the file at `path`, and then each folder above that is empty, up to the first that is older than `made`.
fn delete(workspace: &Workspace, path: &TreePath, made: Option<Timestamp>) -> Result<(), Errno> {
    let (folder, name) = path.split();
    match workspace
        .folder(folder)
        .and_then(|folder| rustix::fs::unlinkat(folder, name, AtFlags::empty()))
    {
        Ok(()) => {}
        // The file is already gone, or another entry that no checkpoint holds has taken its place.
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::ISDIR) => return Ok(()),
        Err(error) => return Err(error),
    }
    for folder in path.folders().filter(|folder| !folder.is_empty()) {
        let folder = TreePath::new(folder).expect("a folder of a path is a path");
        // git holds no empty folders, so the checkpoint does not show whether this one existed.
        if made.is_some_and(|made| is_older(workspace, &folder, made)) {
            break;
        }
        let (parent, name) = folder.split();
        let removed = workspace
            .folder(parent)
            .and_then(|parent| rustix::fs::unlinkat(parent, name, AtFlags::REMOVEDIR));
        if removed.is_err() {
            break; // Not empty: other files live here.
        }
    }
    Ok(())
}

/// Whether a folder was made before `time`; false if the file system does not know.
fn is_older(workspace: &Workspace, folder: &TreePath, time: Timestamp) -> bool {
    let metadata = workspace
        .folder(folder.as_bytes())
        .ok()
        .and_then(|folder| File::from(folder).metadata().ok());
    let born = metadata.and_then(|metadata| metadata.created().ok());
    let born = born.and_then(|born| born.duration_since(UNIX_EPOCH).ok());
    born.is_some_and(|born| i64::try_from(born.as_millis()).is_ok_and(|born| born < time.as_millis()))
}

/// Writes a file or link to `path`, and replaces an existing entry.
fn write(
    workspace: &Workspace,
    path: &TreePath,
    entry: FileEntry,
    contents: &CopyContents<'_>,
) -> Result<(), ContentError> {
    let (folder, name) = path.split();
    let folder = make_folder(workspace, folder).map_err(failed)?;
    let temporary = temporary_in(&folder).map_err(failed)?;
    let written = match entry.mode {
        FileMode::Link => write_link(&folder, &temporary, entry.blob, contents),
        FileMode::Regular => create(&folder, &temporary, 0o666, entry.blob, contents),
        FileMode::Executable => create(&folder, &temporary, 0o777, entry.blob, contents),
    };
    written.inspect_err(|_| {
        // The error to report is the first. If this fails too, the next restore removes the temporary file.
        let _ = rustix::fs::unlinkat(&folder, &*temporary, AtFlags::empty());
    })?;
    put_in_place(&folder, &temporary, name).map_err(failed)
}

fn failed(error: Errno) -> ContentError {
    ContentError::Sink(error.into())
}

fn write_link(
    folder: &OwnedFd,
    name: &[u8],
    blob: Oid,
    contents: &CopyContents<'_>,
) -> Result<(), ContentError> {
    let mut target = LinkTarget(Vec::new());
    contents(blob, &mut target)?;
    rustix::fs::symlinkat(&*target.0, folder, name).map_err(failed)
}

/// Target of a link, a short text.
struct LinkTarget(Vec<u8>);

impl io::Write for LinkTarget {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() + bytes.len() > LONGEST_TARGET {
            return Err(io::ErrorKind::InvalidFilename.into());
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Errors of a file system in which two entries cannot be exchanged. On Linux the last two are one number.
const NO_EXCHANGE: [Errno; 4] = [Errno::INVAL, Errno::NOSYS, Errno::NOTSUP, Errno::OPNOTSUPP];

/// Renames the entry `temporary` to `name`, and removes the entry that had this name.
///
/// The two are exchanged first: where a rename replaces a file, ext4 begins to write the new one at once, which takes
/// several times as long as everything else here. [`apply`] syncs everything in the end.
fn put_in_place(folder: &OwnedFd, temporary: &[u8], name: &[u8]) -> Result<(), Errno> {
    match rustix::fs::renameat_with(folder, temporary, folder, name, RenameFlags::EXCHANGE) {
        Ok(()) => match rustix::fs::unlinkat(folder, temporary, AtFlags::empty()) {
            Err(Errno::ISDIR | Errno::PERM) => remove_folder(folder, temporary),
            other => other,
        },
        // No entry has this name yet.
        Err(Errno::NOENT) => rustix::fs::renameat(folder, temporary, folder, name),
        // A file system that cannot exchange entries.
        Err(error) if NO_EXCHANGE.contains(&error) => {
            match rustix::fs::unlinkat(folder, name, AtFlags::empty()) {
                Err(Errno::ISDIR | Errno::PERM) => remove_folder(folder, name)?,
                Err(Errno::NOENT) => {}
                other => other?,
            }
            rustix::fs::renameat(folder, temporary, folder, name)
        }
        Err(error) => Err(error),
    }
}

/// Returns a free temporary name in `folder`. A file that an interrupted restore left is removed; a folder of that name is
/// not ours and stays.
fn temporary_in(folder: impl AsFd) -> Result<Vec<u8>, Errno> {
    let mut number = 0;
    loop {
        let name = format!("{RESTORE_TEMPORARY}{number}").into_bytes();
        match rustix::fs::unlinkat(&folder, &*name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => return Ok(name),
            Err(Errno::ISDIR) if number < MOST_TEMPORARY => number += 1,
            Err(error) => return Err(error),
        }
    }
}

/// Creates a file with the bytes of `blob`. Where the umask of the user is known, it replaces that of this process.
fn create(
    folder: &OwnedFd,
    name: &[u8],
    mode: u32,
    blob: Oid,
    contents: &CopyContents<'_>,
) -> Result<(), ContentError> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file =
        rustix::fs::openat(folder, name, flags, Mode::from_raw_mode(mode as RawMode)).map_err(failed)?;
    if let Some(umask) = umask_of_user() {
        rustix::fs::fchmod(&file, Mode::from_raw_mode((mode & !umask) as RawMode)).map_err(failed)?;
    }
    contents(blob, &mut File::from(file))
}

/// Opens the folder `folder`, making what is missing. A file or link in the place of a folder is removed, not followed.
fn make_folder(workspace: &Workspace, folder: &[u8]) -> Result<OwnedFd, Errno> {
    workspace.folder_or(folder, |parent, name, error| match error {
        Errno::NOTDIR | Errno::LOOP => {
            rustix::fs::unlinkat(parent, name, AtFlags::empty())?;
            new_folder(parent, name)
        }
        Errno::NOENT => new_folder(parent, name),
        error => Err(error),
    })
}

fn new_folder(parent: &OwnedFd, name: &[u8]) -> Result<OwnedFd, Errno> {
    rustix::fs::mkdirat(parent, name, Mode::from_raw_mode(0o777))?;
    let folder = open_folder_in(parent, name)?;
    if let Some(umask) = umask_of_user() {
        rustix::fs::fchmod(&folder, Mode::from_raw_mode((0o777 & !umask) as RawMode))?;
    }
    Ok(folder)
}

/// Removes a folder with all that is in it. The plan made sure that the safety checkpoint has it.
fn remove_folder(parent: impl AsFd, name: &[u8]) -> Result<(), Errno> {
    let mut folder = Dir::new(open_folder_in(&parent, name)?)?;
    let mut children = Vec::new();
    while let Some(entry) = folder.read() {
        children.push(entry?.file_name().to_owned());
    }
    for child in children
        .iter()
        .map(|child| child.as_bytes())
        .filter(|child| *child != b"." && *child != b"..")
    {
        match rustix::fs::unlinkat(folder.fd()?, child, AtFlags::empty()) {
            Err(Errno::ISDIR | Errno::PERM) => remove_folder(folder.fd()?, child)?,
            other => other?,
        }
    }
    rustix::fs::unlinkat(parent, name, AtFlags::REMOVEDIR)
}

/// Whether any part of the path is left out of checkpoints.
fn is_path_excluded(path: &TreePath) -> bool {
    path.parts()
        .enumerate()
        .any(|(depth, part)| is_excluded(part, depth == 0))
}
