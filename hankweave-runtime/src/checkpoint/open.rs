//! Making a repository, and putting one in order before it is used ("reliability and security", rules G1, G2 and G10).

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Once;

use git2::{ConfigLevel, ErrorCode, Repository, RepositoryInitOptions, Signature, Time};
use hankweave_core::time::Timestamp;

use super::object::ObjectError;
use super::{git, loose, message, stat_cache};

/// The configuration of every repository: contents are bytes, nothing is run, nothing is cleaned up behind our back.
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

/// Says where the checkpoints are and of what.
#[derive(Debug, Clone)]
pub struct OpenRequest {
    /// The folder of the bare repository; its parent must exist. Made when it is missing.
    pub repository: PathBuf,
    /// The folder whose files are checkpointed.
    pub workspace: PathBuf,
    /// The time now: of the first commit, and part of the name of a repository that is moved aside.
    pub at: Timestamp,
    /// Random text for the name of a temporary repository.
    pub nonce: String,
}

/// What opening changed besides.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OpenReport {
    /// A new repository was made.
    pub created: bool,
    /// Where a repository went that git could not read or that had no first commit; its checkpoints are not available.
    pub moved_aside: Option<PathBuf>,
    /// Locks and temporary repositories that a crash had left and that were removed.
    pub removed: Vec<PathBuf>,
}

/// Why the checkpoints cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// A file or folder could not be read, written or renamed.
    #[error("failed to {action} `{}`", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// With what.
        path: PathBuf,
        /// What the operating system said.
        #[source]
        source: io::Error,
    },
    /// Git could not make the repository.
    #[error("failed to make the checkpoint repository")]
    Create(#[source] ObjectError),
    /// The repository belongs to another user of the system.
    #[error("the checkpoint repository `{}` belongs to another user", path.display())]
    ForeignOwner {
        /// The repository.
        path: PathBuf,
    },
    /// Somebody wrote a setting into the repository that could run programs or read other files.
    #[error("the checkpoint repository `{}` has the setting `{setting}`, which is not ours", path.display())]
    ForeignConfig {
        /// The repository.
        path: PathBuf,
        /// The section or key.
        setting: String,
    },
}

/// Cuts libgit2 off from the configuration of the user and of the system; every use of git2 in this process goes
/// through here first.
#[expect(unsafe_code, reason = "libgit2 has these paths as global variables")]
pub(super) fn isolate() {
    static ISOLATED: Once = Once::new();
    ISOLATED.call_once(|| {
        for level in [
            ConfigLevel::System,
            ConfigLevel::Global,
            ConfigLevel::XDG,
            ConfigLevel::ProgramData,
        ] {
            // SAFETY: `Once` lets one thread in and holds the others back, and no other code of this process
            // touches the search paths.
            let emptied = unsafe { git2::opts::set_search_path(level, "") };
            emptied.expect("an empty search path is valid for each of these levels");
        }
    });
}

/// Makes the repository usable: cleans up after a crash, moves a broken one aside, makes a missing one.
///
/// The caller holds the lock of the execution directory, so any lock in the repository is a dead one.
pub(super) fn prepare(request: &OpenRequest) -> Result<OpenReport, OpenError> {
    isolate();
    let path = &request.repository;
    let mut report = OpenReport {
        removed: sweep_temporary(path)?,
        ..OpenReport::default()
    };
    if path.symlink_metadata().is_ok() {
        report.removed.extend(remove_locks(path)?);
        report.removed.extend(remove_unfinished_objects(path)?);
        check_config(path)?;
        if is_good(path)? {
            write_settings(path)?;
            return Ok(report);
        }
        report.moved_aside = Some(move_aside(path, request.at)?);
    }
    create(request)?;
    report.created = true;
    Ok(report)
}

/// Whether git can read the repository and `HEAD` names a commit.
///
/// What the system does not let us read is no proof of damage, and git does not tell one from the other. So a bad answer counts only when
/// all files can be read, and when git gives it again.
fn is_good(path: &Path) -> Result<bool, OpenError> {
    if can_be_used(path)? {
        return Ok(true);
    }
    read_everything(path)?;
    can_be_used(path)
}

fn can_be_used(path: &Path) -> Result<bool, OpenError> {
    let head = Repository::open_bare(path).and_then(|repository| {
        let head = repository
            .head()?
            .target()
            .ok_or_else(|| git2::Error::from_str("no commit"))?;
        let tree = loose::find_commit(&repository, head)?.tree_id();
        loose::find_tree(&repository, tree).map(drop)
    });
    match head {
        Err(error) if error.code() == ErrorCode::Owner => Err(OpenError::ForeignOwner {
            path: path.to_owned(),
        }),
        head => Ok(head.is_ok()),
    }
}

/// Fails when the system does not give the content of a file in `folder` or beneath it.
fn read_everything(folder: &Path) -> Result<(), OpenError> {
    for entry in list(folder)? {
        let kind = entry.symlink_metadata().map_err(io_error("look at", &entry))?;
        if kind.is_dir() {
            read_everything(&entry)?;
        } else if kind.is_file() {
            let read = File::open(&entry).and_then(|mut file| io::copy(&mut file, &mut io::sink()));
            read.map_err(io_error("read", &entry))?;
        }
    }
    Ok(())
}

/// Makes a repository with one empty commit on `main` under another name, and renames it when it is whole (rule G1).
fn create(request: &OpenRequest) -> Result<(), OpenError> {
    let path = &request.repository;
    let temporary = sibling(path, &format!("tmp-{}", request.nonce));
    let make = || -> Result<(), git2::Error> {
        let mut options = RepositoryInitOptions::new();
        options
            .bare(true)
            .no_reinit(true)
            .external_template(false)
            .initial_head("main")
            .mode(git2::RepositoryInitMode::from_bits_retain(0o700));
        let repository = Repository::init_opts(&temporary, &options)?;
        let tree = repository.find_tree(repository.treebuilder(None)?.write()?)?;
        let (name, email) = message::AUTHOR;
        let signature = Signature::new(name, email, &Time::new(message::seconds(request.at), 0))?;
        repository.commit(
            Some("refs/heads/main"),
            &signature,
            &signature,
            &message::root(),
            &tree,
            &[],
        )?;
        Ok(())
    };
    let put_in_place = || -> Result<(), OpenError> {
        make().map_err(|error| OpenError::Create(ObjectError::at("make a bare repository")(error)))?;
        write_settings(&temporary)?;
        let folder = File::open(&temporary).map_err(io_error("open", &temporary))?;
        git::sync_file_system(&folder).map_err(io_error("sync", &temporary))?;
        fs::rename(&temporary, path).map_err(io_error("put in place", path))
    };
    put_in_place().inspect_err(|_| {
        // A full disk still lets us clean up; the error to report is the first.
        let _ = fs::remove_dir_all(&temporary);
    })?;
    sync_folder_of(path)
}

/// Writes the files that say how git treats contents; a repository may have been touched since we made it (rule G2).
fn write_settings(path: &Path) -> Result<(), OpenError> {
    replace(&path.join("config"), CONFIG)?;
    let info = path.join("info");
    fs::create_dir_all(&info).map_err(io_error("make", &info))?;
    replace(&info.join("attributes"), ATTRIBUTES)
}

fn replace(path: &Path, text: &str) -> Result<(), OpenError> {
    if fs::read(path).is_ok_and(|present| present == text.as_bytes()) {
        return Ok(());
    }
    let temporary = path.with_extension("lock");
    let write = || -> io::Result<()> {
        let mut file = File::create_new(&temporary)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&temporary, path)
    };
    let written = write().inspect_err(|_| {
        // The next start removes what stays.
        let _ = fs::remove_file(&temporary);
    });
    written.map_err(io_error("write", path))
}

/// Refuses settings that could run programs or pull in other files.
fn check_config(path: &Path) -> Result<(), OpenError> {
    let text = match fs::read(path.join("config")) {
        Ok(bytes) => String::from_utf8_lossy(&bytes).to_lowercase(),
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
            ) =>
        {
            return Ok(());
        }
        Err(error) => return Err(io_error("read", &path.join("config"))(error)),
    };
    match text.lines().find_map(foreign_setting) {
        Some(setting) => Err(OpenError::ForeignConfig {
            path: path.to_owned(),
            setting,
        }),
        None => Ok(()),
    }
}

/// The section or key in a line of lower-case configuration that has no business there.
fn foreign_setting(line: &str) -> Option<String> {
    let line = line.trim();
    let (section, rest) = match line.strip_prefix('[') {
        Some(opened) => opened.split_once(']').unwrap_or((opened, "")),
        None => ("", line),
    };
    let name = section.split(['.', ' ', '\t', '"']).next().unwrap_or(section);
    let key = rest.split('=').next().unwrap_or(rest).trim();
    if ["include", "includeif", "filter", "alias"].contains(&name) {
        Some(section.to_owned())
    } else {
        key.ends_with("command").then(|| key.to_owned())
    }
}

/// Removes repositories that were not finished.
fn sweep_temporary(path: &Path) -> Result<Vec<PathBuf>, OpenError> {
    let prefix = sibling(path, "tmp-");
    let mut removed = Vec::new();
    for entry in list(path.parent().unwrap_or(Path::new(".")))? {
        if entry
            .as_os_str()
            .as_encoded_bytes()
            .starts_with(prefix.as_os_str().as_encoded_bytes())
        {
            fs::remove_dir_all(&entry).map_err(io_error("remove", &entry))?;
            removed.push(entry);
        }
    }
    Ok(removed)
}

/// Removes the locks of git's that a crash left.
fn remove_locks(path: &Path) -> Result<Vec<PathBuf>, OpenError> {
    let mut removed = Vec::new();
    let mut folders = vec![path.to_owned(), path.join("info")];
    while let Some(folder) = folders.pop() {
        for entry in list(&folder)? {
            if entry.extension().is_some_and(|extension| extension == "lock") {
                fs::remove_file(&entry).map_err(io_error("remove", &entry))?;
                removed.push(entry);
            } else if entry.starts_with(path.join("refs"))
                && entry.symlink_metadata().is_ok_and(|it| it.is_dir())
            {
                folders.push(entry);
            }
        }
    }
    Ok(removed)
}

/// Removes objects and packs that were not finished; git gives all of them names that begin with `tmp_`. And our own unfinished cache.
fn remove_unfinished_objects(path: &Path) -> Result<Vec<PathBuf>, OpenError> {
    let objects = path.join("objects");
    let mut removed = Vec::new();
    for entry in [list(path)?, list(&objects)?, list(&objects.join("pack"))?].concat() {
        let name = entry.file_name().unwrap_or_default().as_encoded_bytes();
        if name.starts_with(b"tmp_") || name == stat_cache::TEMPORARY.as_bytes() {
            fs::remove_file(&entry).map_err(io_error("remove", &entry))?;
            removed.push(entry);
        }
    }
    Ok(removed)
}

/// The entries of `folder`, ordered; none when it is missing or is no folder.
fn list(folder: &Path) -> Result<Vec<PathBuf>, OpenError> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
            ) =>
        {
            return Ok(Vec::new());
        }
        Err(error) => return Err(io_error("list", folder)(error)),
    };
    let paths: io::Result<Vec<PathBuf>> = entries.map(|entry| entry.map(|entry| entry.path())).collect();
    let mut paths = paths.map_err(io_error("list", folder))?;
    paths.sort();
    Ok(paths)
}

/// Renames a broken repository; nothing is thrown away.
fn move_aside(path: &Path, at: Timestamp) -> Result<PathBuf, OpenError> {
    let free = |aside: &PathBuf| aside.symlink_metadata().is_err();
    let aside = (0_u32..)
        .map(|attempt| sibling(path, &format!("damaged-{}-{attempt}", at.as_millis())))
        .find(free)
        .expect("not every number is taken");
    fs::rename(path, &aside).map_err(io_error("move aside", path))?;
    sync_folder_of(path)?;
    Ok(aside)
}

/// `checkpoints` becomes `checkpoints.suffix`.
fn sibling(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(suffix);
    name.into()
}

fn sync_folder_of(path: &Path) -> Result<(), OpenError> {
    let folder = path.parent().unwrap_or(Path::new("."));
    File::open(folder)
        .and_then(|folder| folder.sync_all())
        .map_err(io_error("sync", folder))
}

fn io_error(action: &'static str, path: &Path) -> impl Fn(io::Error) -> OpenError {
    let path = path.to_owned();
    move |source| OpenError::Io {
        action,
        path: path.clone(),
        source,
    }
}
