//! Opening a checkpoint repository: [`prepare`] makes a missing one, and cleans up and repairs an existing one before git
//! uses it (G1, G2, G10).

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use git2::{ErrorCode, Repository, RepositoryInitOptions};
use hankweave_core::time::Timestamp;
use rustix::fs::{CWD, Mode, OFlags};

use super::git_format::{NewCommit, ObjectReader, good_lines, is_list, is_reference, write_first_commit};
use super::object::ObjectError;
use super::repository::isolate;
use super::shape::{self, UnsafeEntry, UnsafeReason};
use super::{message, stat_cache};
use crate::world::disk::{
    Disk as _, FileKind, IoError, RealDisk, open_dir, parent, read_if_present, replace_through,
    sync_file_system,
};

/// The configuration of every repository: contents are bytes, git starts no programs and never cleans up by itself.
const CONFIG: &str = "\
[core]
\trepositoryformatversion = 0
\tbare = true
\tfilemode = true
\tsymlinks = true
\tautocrlf = false
\tsafecrlf = false
\tlogAllRefUpdates = false
\thooksPath = /dev/null
\tfsmonitor = false
[gc]
\tauto = 0
[commit]
\tgpgSign = false
";

/// No attribute may change a byte.
const ATTRIBUTES: &str = "* -text -eol -ident -filter -working-tree-encoding\n";

/// The branch of the checkpoints before any run.
const HEAD: &str = "ref: refs/heads/main\n";

/// Folders and settings for opening the checkpoints.
#[derive(Debug, Clone)]
pub struct OpenStoreRequest {
    /// The folder of the bare repository; its parent must exist. Made when it is missing.
    pub repository: PathBuf,
    /// The folder whose files are checkpointed.
    pub workspace: PathBuf,
    /// The time now: of the first commit, and part of the name of a repository that is moved aside.
    pub at: Timestamp,
    /// Random text for the name of a temporary repository.
    pub nonce: String,
    /// Longest file that belongs to a checkpoint, in bytes; commonly [`MAX_FILE_BYTES`](super::MAX_FILE_BYTES).
    pub most_bytes: u64,
}

/// Side effects of opening.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct OpenReport {
    /// A new repository was made.
    pub created: bool,
    /// New path of a repository that git could not read; its checkpoints are not available.
    pub moved_aside: Option<PathBuf>,
    /// The first commit, or the reference to it, was lost and was made again. Everything undamaged is available.
    pub mended: bool,
    /// Parts of the repository that git must not open, such as links, pipes and settings that lead elsewhere: what was wrong
    /// with each, and its new path.
    pub set_aside: Vec<(String, PathBuf)>,
    /// Locks and temporary repositories that a crash had left and that were removed.
    pub removed: Vec<PathBuf>,
}

/// Why the checkpoints cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenStoreError {
    /// A file or folder could not be read, written or renamed.
    #[error(transparent)]
    Io(#[from] IoError),
    /// Git could not make the repository.
    #[error("failed to make the checkpoint repository")]
    Create(#[source] ObjectError),
    /// The repository belongs to another user of the system.
    #[error("the checkpoint repository `{}` belongs to another user", path.display())]
    ForeignOwner {
        /// The repository.
        path: PathBuf,
    },
}

/// Makes the repository usable: cleans up after a crash, repairs a broken one or moves it aside, makes a missing one.
///
/// The caller holds the lock of the execution directory, so any lock in the repository was left by a crash.
pub(super) fn prepare(request: &OpenStoreRequest) -> Result<OpenReport, OpenStoreError> {
    isolate();
    let path = &request.repository;
    let mut report = OpenReport {
        removed: sweep_temporary(path)?,
        ..OpenReport::default()
    };
    let kind = match RealDisk.metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        found => Some(found.map_err(IoError::at("look at", path))?.kind),
    };
    match kind {
        None => {}
        Some(FileKind::Directory) => {
            report.set_aside = move_unsafe_aside(path, request.at)?;
            report.removed.extend(remove_locks(path)?);
            report.removed.extend(remove_unfinished_objects(path)?);
            // Before `is_good`, in which git reads the settings.
            write_settings(path)?;
            if is_good(path)? {
                return Ok(report);
            }
            report.mended = repair(path, request.at)?;
            if report.mended {
                return Ok(report);
            }
            report.moved_aside = Some(move_aside(path, None, request.at)?);
        }
        Some(_) => report.moved_aside = Some(move_aside(path, None, request.at)?),
    }
    create(request)?;
    report.created = true;
    Ok(report)
}

/// Moves aside entries that git must not open, and invalid references, which would hide all others.
fn move_unsafe_aside(path: &Path, at: Timestamp) -> Result<Vec<(String, PathBuf)>, IoError> {
    let unsafe_entries = shape::unsafe_entries(path).map_err(IoError::at("look at", path))?;
    let mut kept = move_all_aside(path, unsafe_entries, at)?;
    // References are read only now: a link or pipe in the place of one has been moved aside.
    kept.extend(move_all_aside(path, damaged_references(path)?, at)?);
    Ok(kept)
}

/// Moves `entries` aside; returns what was wrong with each, and its new path.
fn move_all_aside(
    path: &Path,
    entries: Vec<UnsafeEntry>,
    at: Timestamp,
) -> Result<Vec<(String, PathBuf)>, IoError> {
    let mut kept = Vec::new();
    for entry in entries {
        let aside = move_aside(path, Some(&entry.path), at)?;
        match entry.path.to_str() {
            Some("packed-refs") => keep_good_references(path, &aside)?,
            // Our repositories all have an equal `HEAD`.
            Some("HEAD") => {
                replace(&path.join("HEAD"), HEAD).map_err(IoError::at("write `HEAD` of", path))?
            }
            _ => {}
        }
        kept.push((entry.to_string(), aside));
    }
    Ok(kept)
}

/// Returns the files that should hold references and do not, as a power loss or a bad disk leaves them.
fn damaged_references(path: &Path) -> Result<Vec<UnsafeEntry>, IoError> {
    let mut damaged = Vec::new();
    let mut check = |relative: PathBuf, is_good: fn(&[u8]) -> bool| {
        let file = path.join(&relative);
        let read = read_if_present(&RealDisk, &file, shape::PACKED_REFERENCES_BYTES);
        if read
            .map_err(IoError::at("read", &file))?
            .is_some_and(|bytes| !is_good(&bytes))
        {
            damaged.push(UnsafeEntry {
                path: relative,
                what: UnsafeReason::NotAReference,
            });
        }
        Ok::<(), IoError>(())
    };
    check("HEAD".into(), is_reference)?;
    check("packed-refs".into(), is_list)?;
    let mut folders = vec![path.join("refs")];
    while let Some(folder) = folders.pop() {
        for entry in list(&folder)? {
            let kind = RealDisk
                .metadata(&entry)
                .map_err(IoError::at("look at", &entry))?
                .kind;
            if kind == FileKind::Directory {
                folders.push(entry);
            } else if entry.extension().is_none_or(|extension| extension != "lock") {
                check(
                    entry.strip_prefix(path).unwrap_or(&entry).to_owned(),
                    is_reference,
                )?;
            }
        }
    }
    Ok(damaged)
}

/// Writes `packed-refs` again, with the well-formed lines of the damaged one, which was moved to `damaged`.
fn keep_good_references(path: &Path, damaged: &Path) -> Result<(), IoError> {
    let Ok(bytes) = RealDisk.read(damaged, shape::PACKED_REFERENCES_BYTES) else {
        return Ok(()); // It was no file, or is too long.
    };
    let good: Vec<u8> = good_lines(&bytes)
        .flat_map(|line| [line, b"\n"].concat())
        .collect();
    let list = path.join("packed-refs");
    match good.is_empty() {
        true => Ok(()),
        false => RealDisk
            .create_new(&list, &good)
            .map_err(IoError::at("write", &list)),
    }
}

/// Whether git can read the repository and `HEAD` names a commit.
///
/// A file that the system does not let us read is no proof of damage, and git reports both alike. So a negative result
/// counts only if all files can be read and git then gives that result again; otherwise this fails.
fn is_good(path: &Path) -> Result<bool, OpenStoreError> {
    if can_be_used(path)? {
        return Ok(true);
    }
    read_everything(path)?;
    can_be_used(path)
}

fn can_be_used(path: &Path) -> Result<bool, OpenStoreError> {
    let head = Repository::open_bare(path).and_then(|repository| {
        let head = repository
            .head()?
            .target()
            .ok_or_else(|| git2::Error::from_str("no commit"))?;
        let reader = ObjectReader::open(&repository)?;
        reader.tree(reader.commit(head)?.tree).map(drop)
    });
    match head {
        Err(error) if error.code() == ErrorCode::Owner => Err(OpenStoreError::ForeignOwner {
            path: path.to_owned(),
        }),
        head => Ok(head.is_ok()),
    }
}

/// Reads every file inside `folder`; fails if the system does not let us read one.
fn read_everything(folder: &Path) -> Result<(), IoError> {
    for entry in list(folder)? {
        match RealDisk
            .metadata(&entry)
            .map_err(IoError::at("look at", &entry))?
            .kind
        {
            FileKind::Directory => read_everything(&entry)?,
            FileKind::File => {
                let read = open_by_path(&entry).and_then(|mut file| io::copy(&mut file, &mut io::sink()));
                read.map_err(IoError::at("read", &entry))?;
            }
            _ => {}
        }
    }
    Ok(())
}

/// Opens a regular file by its whole path, as git does, so that the system allows or refuses both alike.
fn open_by_path(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    // This is the call that git makes, in place of `open`.
    let file = File::from(rustix::fs::openat(CWD, path, flags, Mode::empty())?);
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::ErrorKind::InvalidInput.into()),
    }
}

/// Parts of a new repository that git reads if they exist, and does not need. They are removed because each takes one or two blocks
/// of the disk, and the folder of each task has such a repository too.
const TEMPLATE: [&str; 5] = [
    "description",
    "hooks",
    "info/exclude",
    "objects/info",
    "refs/tags",
];

/// Makes a repository with one empty commit on `main` under another name, and renames it when it is whole (G1).
fn create(request: &OpenStoreRequest) -> Result<(), OpenStoreError> {
    let path = &request.repository;
    let temporary = sibling(path, &format!("tmp-{}", request.nonce));
    let make = || {
        let mut options = RepositoryInitOptions::new();
        options
            .bare(true)
            .no_reinit(true)
            .external_template(false)
            .initial_head("main")
            .mode(git2::RepositoryInitMode::from_bits_retain(0o700));
        Repository::init_opts(&temporary, &options).map(drop)
    };
    let put_in_place = || -> Result<(), OpenStoreError> {
        make().map_err(|error| OpenStoreError::Create(ObjectError::at("make a bare repository")(error)))?;
        remove_template(&temporary)?;
        first_commit(&temporary, request.at).map_err(IoError::at("write the first commit of", &temporary))?;
        write_settings(&temporary)?;
        let folder = open_dir(&temporary).map_err(IoError::at("open", &temporary))?;
        sync_file_system(&folder).map_err(IoError::at("sync", &temporary))?;
        Ok(RealDisk
            .rename(&temporary, path)
            .map_err(IoError::at("put in place", path))?)
    };
    put_in_place().inspect_err(|_| {
        // A full disk still lets us clean up; the error to report is the first.
        let _ = remove(&temporary);
    })?;
    Ok(sync_folder_of(path)?)
}

fn remove_template(repository: &Path) -> Result<(), IoError> {
    for path in TEMPLATE.map(|name| repository.join(name)) {
        match remove(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(IoError::at("remove", &path)(error));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Makes the first commit of a repository again if it cannot be found, so that the other checkpoints stay usable. Returns
/// whether git can use the repository then; false also if the folder of objects is lost, because then there is nothing to keep.
fn repair(path: &Path, at: Timestamp) -> Result<bool, OpenStoreError> {
    let objects = RealDisk.metadata(&path.join("objects"));
    if !objects.is_ok_and(|found| found.kind == FileKind::Directory) {
        return Ok(false);
    }
    let mended = RealDisk
        .make_private_dirs(&path.join("refs/heads"))
        .and_then(|()| replace(&path.join("HEAD"), HEAD))
        .and_then(|()| first_commit(path, at))
        .and_then(|()| sync_file_system(&open_dir(path)?));
    let Err(error) = mended else {
        return can_be_used(path);
    };
    match error.kind() {
        // An entry of another kind is in the way: the caller moves the whole repository aside.
        io::ErrorKind::NotADirectory | io::ErrorKind::IsADirectory | io::ErrorKind::AlreadyExists => {
            Ok(false)
        }
        _ => Err(IoError::at("mend", path)(error).into()),
    }
}

/// Makes an empty commit and lets `main` name it; damaged objects of this commit are replaced.
fn first_commit(path: &Path, at: Timestamp) -> io::Result<()> {
    let message = message::root();
    let new = NewCommit {
        parents: &[],
        at,
        message: &message,
    };
    let commit = write_first_commit(path, &new)?;
    replace(&path.join("refs/heads/main"), &format!("{commit}\n"))
}

/// Writes the settings for git: contents are stored as they are, and no programs are started. A repository may have been
/// changed since we made it (G2), so these are written before git itself works there, too.
///
/// # Errors
///
/// Returns [`IoError`] when they cannot be written.
pub fn write_settings(path: &Path) -> Result<(), IoError> {
    let (config, info) = (path.join("config"), path.join("info"));
    replace(&config, CONFIG).map_err(IoError::at("write", &config))?;
    RealDisk
        .make_private_dirs(&info)
        .map_err(IoError::at("make", &info))?;
    let attributes = info.join("attributes");
    replace(&attributes, ATTRIBUTES).map_err(IoError::at("write", &attributes))
}

fn replace(path: &Path, text: &str) -> io::Result<()> {
    let present = RealDisk.read(path, text.len() as u64);
    if present.is_ok_and(|present| present == text.as_bytes()) {
        return Ok(());
    }
    // In `refs/heads` git takes a temporary file of any other name for a branch.
    replace_through(&RealDisk, path, &path.with_extension("lock"), text.as_bytes())
}

/// Removes repositories that were not finished.
fn sweep_temporary(path: &Path) -> Result<Vec<PathBuf>, IoError> {
    let prefix = sibling(path, "tmp-");
    let mut removed = Vec::new();
    for entry in list(parent(path))? {
        if entry
            .as_os_str()
            .as_encoded_bytes()
            .starts_with(prefix.as_os_str().as_encoded_bytes())
        {
            remove(&entry).map_err(IoError::at("remove", &entry))?;
            removed.push(entry);
        }
    }
    Ok(removed)
}

/// Removes git's lock files that a crash left.
fn remove_locks(path: &Path) -> Result<Vec<PathBuf>, IoError> {
    let mut removed = Vec::new();
    let mut folders = vec![path.to_owned(), path.join("info")];
    while let Some(folder) = folders.pop() {
        for entry in list(&folder)? {
            if entry.extension().is_some_and(|extension| extension == "lock") {
                remove(&entry).map_err(IoError::at("remove", &entry))?;
                removed.push(entry);
            } else if entry.starts_with(path.join("refs"))
                && RealDisk
                    .metadata(&entry)
                    .is_ok_and(|it| it.kind == FileKind::Directory)
            {
                folders.push(entry);
            }
        }
    }
    Ok(removed)
}

/// Removes unfinished objects and packs, whose names begin with `tmp_`, and our own unfinished cache.
fn remove_unfinished_objects(path: &Path) -> Result<Vec<PathBuf>, IoError> {
    let objects = path.join("objects");
    let mut removed = Vec::new();
    for entry in [list(path)?, list(&objects)?, list(&objects.join("pack"))?].concat() {
        let name = entry.file_name().unwrap_or_default().as_encoded_bytes();
        if name.starts_with(b"tmp_") || name == stat_cache::TEMPORARY.as_bytes() {
            remove(&entry).map_err(IoError::at("remove", &entry))?;
            removed.push(entry);
        }
    }
    Ok(removed)
}

/// The entries of `folder`, ordered; none when it is missing or is no folder.
fn list(folder: &Path) -> Result<Vec<PathBuf>, IoError> {
    match RealDisk.list_dir(folder) {
        Ok(names) => Ok(names.iter().map(|name| folder.join(name)).collect()),
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
            ) =>
        {
            Ok(Vec::new())
        }
        Err(error) => Err(IoError::at("list", folder)(error)),
    }
}

/// Removes a file, or a folder with all that is in it.
fn remove(path: &Path) -> io::Result<()> {
    let folder = RealDisk.open_folder(parent(path))?;
    folder.remove(path.file_name().unwrap_or_default())
}

/// Renames the broken repository, or only its `part`, to a free name next to the repository. Nothing is deleted.
fn move_aside(path: &Path, part: Option<&Path>, at: Timestamp) -> Result<PathBuf, IoError> {
    let (from, stem) = match part {
        None => (path.to_owned(), path.to_owned()),
        Some(part) => {
            let name = part.to_string_lossy().replace('/', "-");
            let short: String = name.chars().take(40).collect();
            (path.join(part), sibling(path, &short))
        }
    };
    let free = |aside: &PathBuf| RealDisk.metadata(aside).is_err();
    let aside = (0_u32..)
        .map(|attempt| sibling(&stem, &format!("damaged-{}-{attempt}", at.as_millis())))
        .find(free)
        .expect("not every number is taken");
    RealDisk
        .rename(&from, &aside)
        .map_err(IoError::at("move aside", &from))?;
    RealDisk
        .sync_dir(parent(&from))
        .map_err(IoError::at("sync the folder of", &from))?;
    sync_folder_of(path)?;
    Ok(aside)
}

/// Returns the path next to `path` with `.suffix` appended: `checkpoints` becomes `checkpoints.suffix`.
fn sibling(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(suffix);
    name.into()
}

fn sync_folder_of(path: &Path) -> Result<(), IoError> {
    let folder = parent(path);
    RealDisk.sync_dir(folder).map_err(IoError::at("sync", folder))
}
