//! Bringing a run here: a clone makes a directory for it, a pull brings a directory up to date. Both are verified before anything that was there changes.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hankweave_core::id::{CheckpointSha, SessionId};
use hankweave_runtime::ExecutionDir;
use hankweave_runtime::arrival::{self, Arrival};
use hankweave_runtime::checkpoint::{CheckpointStore as _, GitCheckpoints, OpenRequest, RestoreRequest};
use hankweave_runtime::error::chain;
use hankweave_runtime::world::World;
use hankweave_runtime::world::disk::{DirLock, Disk, Folder, HeldLock, IoError, parent, replace};

use crate::book::{self, Book, remembered};
use crate::error::RemoteError;
use crate::execution::Execution;
use crate::fetch::{SEEN, choose, fetch, head};
use crate::files::list;
use crate::git::Git;
use crate::manifest::{HANK, Manifest, SESSIONS, STATE, is_of_this_machine};
use crate::place::{Workshop, is_occupied, sync_everything};
use crate::push::{Local, Push, Written};
use crate::record::{self, Pieces};
use crate::sessions;
use crate::unpack::unpack;
use crate::url::{check_url, shown};
use crate::verify;

/// What is to be cloned, and where to.
#[derive(Debug, Clone)]
pub struct Cloning {
    /// The remote.
    pub url: String,
    /// The name of the history there, or how it begins; none for the only one.
    pub wanted: Option<String>,
    /// The directory, absolute; it must not exist or be empty.
    pub into: PathBuf,
}

/// How a directory is brought up to date.
#[derive(Debug, Clone, Default)]
pub struct Pulling {
    /// Another remote than the remembered one.
    pub url: Option<String>,
    /// Another name than the remembered one.
    pub execution: Option<Execution>,
    /// The fencing token of the task, 0 for none: a record under a greater one belongs to a later owner.
    pub token: u64,
    /// Whether the remote's record takes the place of ours when both sides went on; ours is pushed beside it first.
    pub replace: bool,
}

/// A run that is here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Arrived {
    /// Whether it was not here before.
    pub changed: bool,
    /// The remote.
    pub url: String,
    /// What the history is called there.
    pub execution: Execution,
    /// The record.
    pub record: String,
    /// The checkpoint whose files are here.
    pub checkpoint: Option<CheckpointSha>,
    /// The hank, if it came along.
    pub hank: Option<PathBuf>,
    /// Sessions whose transcripts stayed on another machine; their codons go on in new ones.
    pub left_behind: Vec<SessionId>,
    /// Files of the hank that differ here and were left as they are.
    pub different: Vec<PathBuf>,
    /// The reference under which our own record stays reachable on the remote, if it gave way.
    pub kept: Option<String>,
}

/// Makes a directory of a history of runs.
///
/// # Errors
///
/// [`RemoteError`]; then there is no directory.
pub async fn clone(world: &World, order: &Cloning) -> Result<Arrived, RemoteError> {
    check_url(&order.url)?;
    let (own, into) = (world.clone(), order.into.clone());
    let occupied = move || is_occupied(&*own.disk, &into);
    if world.blocking.run(occupied).await? {
        let path = order.into.clone();
        return Err(RemoteError::Occupied { path });
    }
    let execution = choose(world, &order.url, order.wanted.as_deref()).await?;
    let (own, into) = (world.clone(), order.into.clone());
    let workshop = world.blocking.run(move || Workshop::beside(&own, &into)).await?;
    let temporary = ExecutionDir::new(workshop.path().to_owned());
    let git = new_repository(world, &temporary, temporary.root())
        .await?
        .without_questions()
        .await?;
    let record = fetch(&git, &order.url, &execution).await?;
    let came = Came::look(git, record, execution, &order.url).await?;
    came.prepare(world, &temporary).await?;
    let work = Finishing {
        world: world.clone(),
        final_dir: ExecutionDir::new(real_place(world, &order.into)?),
        hank_root: temporary.root().to_owned(),
        came,
    };
    world
        .blocking
        .run(move || {
            let mut arrived = work.bring(&temporary)?;
            work.restore(&temporary)?;
            let place = work.final_dir.root().to_owned();
            workshop.finish(&place)?;
            arrived.changed = true;
            Ok(arrived)
        })
        .await
}

/// Brings a directory up to date with its remote.
///
/// # Errors
///
/// [`RemoteError`]; then the directory is as it was, unless only the files of the new checkpoint could not all be brought back.
pub async fn pull(world: &World, dir: &ExecutionDir, order: &Pulling) -> Result<Arrived, RemoteError> {
    let (disk, place) = (world.disk.clone(), dir.clone());
    let _locks = world.blocking.run(move || hold(&*disk, &place)).await?;
    let push = Push {
        url: order.url.clone(),
        execution: order.execution.clone(),
        token: order.token,
        replace: false,
    };
    let local = Local::look(world, dir, &push).await?;
    let (url, execution) = (local.book.url.clone(), local.book.execution.clone());
    let there = head(&local.git, &url, &execution).await?;
    let there = there.ok_or_else(|| RemoteError::NoSuchRun {
        url: shown(&url),
        wanted: execution.to_string(),
        known: Vec::new(),
    })?;
    if local.base.as_ref().is_some_and(|base| base.commit == there) {
        return Ok(nothing_new(&local, there));
    }
    let record = fetch(&local.git, &url, &execution).await?;
    let theirs = record::manifest(&local.git, &record).await?;
    let ours = local.write().await?;
    if order.token > 0 && theirs.token > order.token {
        return Err(RemoteError::Superseded {
            ours: order.token,
            theirs: theirs.token,
            kept: local.keep(&ours).await,
        });
    }
    if local.is_ancestor(&record, &ours.commit).await? {
        return Ok(nothing_new(&local, record));
    }
    let kept = give_way(&local, &ours, &record, order.replace).await?;
    let left = local.draft.manifest.checkpoint.clone();
    let old = dir.checkpoints();
    let base = local.base;
    let temporary = begin(world, dir).await?;
    let git = new_repository(world, &temporary, dir.root()).await?;
    let old = old.to_string_lossy();
    // What gave way stays within reach, and is none of the branches of what came.
    let (ours, known) = (
        "+refs/heads/*:refs/hankweave/before/*",
        "+refs/hankweave/*:refs/hankweave/*",
    );
    let arguments = [
        "fetch",
        "--quiet",
        "--no-tags",
        "--no-write-fetch-head",
        "--",
        &*old,
        known,
        ours,
    ];
    git.run("copy the checkpoints", &arguments).await?;
    let came = Came::look(git, record, execution, &url).await?;
    verify::shape(
        &came.manifest,
        &came.pieces,
        base.as_ref().filter(|_| !order.replace),
    )?;
    came.prepare(world, &temporary).await?;
    let work = Finishing {
        world: world.clone(),
        final_dir: dir.clone(),
        hank_root: dir.root().to_owned(),
        came,
    };
    world
        .blocking
        .run(move || {
            let mut arrived = work.bring(&temporary)?;
            work.announce(&temporary, left)?;
            arrived.changed = true;
            arrived.kept = kept;
            Ok(arrived)
        })
        .await
}

/// What was done here and not pushed gives way, once it is on the remote; or this ends here.
async fn give_way(
    local: &Local<'_>,
    ours: &Written,
    record: &str,
    replace: bool,
) -> Result<Option<String>, RemoteError> {
    if ours.is_base && local.is_ancestor(&ours.commit, record).await? {
        return Ok(None);
    }
    let kept = local.keep(ours).await;
    match kept.is_some() && replace {
        true => Ok(kept),
        false => Err(RemoteError::Diverged {
            ours: ours.commit.clone(),
            theirs: record.to_owned(),
            kept,
        }),
    }
}

fn nothing_new(local: &Local<'_>, record: String) -> Arrived {
    Arrived {
        changed: false,
        url: local.book.url.clone(),
        execution: local.book.execution.clone(),
        record,
        checkpoint: local.draft.manifest.checkpoint.clone(),
        hank: None,
        left_behind: Vec::new(),
        different: Vec::new(),
        kept: None,
    }
}

/// The locks of a pull: no other one, and no run.
fn hold(disk: &dyn Disk, dir: &ExecutionDir) -> Result<Vec<Arc<dyn HeldLock>>, RemoteError> {
    if remembered(disk, dir).is_err_and(|error| matches!(error, RemoteError::Io(_))) {
        return Err(RemoteError::NothingRecorded);
    }
    let state_dir = dir.state_dir();
    let run = match disk.lock_dir(&state_dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(RemoteError::NothingRecorded),
        locked => match locked.map_err(IoError::at("lock", &state_dir))? {
            DirLock::Acquired(lock) => Some(lock),
            DirLock::Unsupported => None,
            DirLock::Held => {
                return Err(RemoteError::Live {
                    directory: dir.root().to_owned(),
                });
            }
        },
    };
    Ok(run.into_iter().chain(book::take(disk, dir)?).collect())
}

/// An empty place for what arrives; what an earlier pull announced is finished first.
async fn begin(world: &World, dir: &ExecutionDir) -> Result<ExecutionDir, RemoteError> {
    let (own, place) = (world.clone(), dir.clone());
    let made = move || {
        arrival::discard(&*own.disk, &place)?;
        let temporary = arrival::place(&place);
        let made = own.disk.make_private_dirs(&temporary.state_dir());
        made.map_err(IoError::at("make", &temporary.state_dir()))?;
        Ok::<_, RemoteError>(temporary)
    };
    world.blocking.run(made).await
}

/// An empty repository for checkpoints in this directory, of the files in `workspace`.
async fn new_repository(world: &World, dir: &ExecutionDir, workspace: &Path) -> Result<Git, RemoteError> {
    let (own, place, workspace) = (world.clone(), dir.clone(), workspace.to_owned());
    let made = move || {
        let made = own.disk.make_private_dirs(&place.state_dir());
        made.map_err(IoError::at("make", &place.state_dir()))?;
        open_store(&own, &place, &workspace).map(drop)
    };
    world.blocking.run(made).await?;
    Git::new(world, &dir.checkpoints())
}

fn open_store(world: &World, dir: &ExecutionDir, workspace: &Path) -> Result<GitCheckpoints, RemoteError> {
    let request = OpenRequest {
        repository: dir.checkpoints(),
        workspace: workspace.to_owned(),
        at: world.clock.now(),
        nonce: world.ids.nonce(),
    };
    Ok(GitCheckpoints::open(&request)?.0)
}

/// The absolute path that a folder will have.
fn real_place(world: &World, into: &Path) -> Result<PathBuf, RemoteError> {
    let folder = world.disk.real_path(parent(into));
    let folder = folder.map_err(IoError::at("find", parent(into)))?;
    Ok(folder.join(into.file_name().unwrap_or_default()))
}

/// A record that was fetched into a new repository.
#[derive(Debug)]
struct Came {
    git: Git,
    record: String,
    manifest: Manifest,
    pieces: Pieces,
    book: Book,
}

impl Came {
    async fn look(git: Git, record: String, execution: Execution, url: &str) -> Result<Self, RemoteError> {
        let manifest = record::manifest(&git, &record).await?;
        if manifest.execution != execution {
            return Err(RemoteError::corrupt(format!(
                "it is that of {}",
                manifest.execution
            )));
        }
        let pieces = record::pieces(&git, &record).await?;
        let book = Book {
            url: url.to_owned(),
            execution,
            head: Some(record.clone()),
        };
        Ok(Self {
            git,
            record,
            manifest,
            pieces,
            book,
        })
    }

    /// Puts its branches and its files beneath a directory that is not in use yet, and verifies them there.
    async fn prepare(&self, world: &World, temporary: &ExecutionDir) -> Result<(), RemoteError> {
        verify::shape(&self.manifest, &self.pieces, None)?;
        let mut orders = format!("update {SEEN} {}\n", self.record);
        for (branch, tip) in &self.manifest.branches {
            orders.push_str(&format!("update refs/heads/{branch} {tip}\n"));
        }
        let arguments = ["update-ref", "--stdin"];
        let updated = self
            .git
            .with_input("name the checkpoints", &arguments, orders.into_bytes());
        let updated = updated.await?;
        if !updated.exit.is_success() {
            return Err(RemoteError::corrupt(updated.said));
        }
        unpack(world, &self.git, &self.manifest, &self.pieces, &|file| {
            goes_to(temporary, file)
        })
        .await?;
        let (own, place, manifest) = (world.clone(), temporary.clone(), self.manifest.clone());
        world
            .blocking
            .run(move || verify::content(&own, &place, &manifest))
            .await
    }
}

/// Where a file of a record lies at first.
fn goes_to(temporary: &ExecutionDir, file: &str) -> PathBuf {
    match file.split_once('/') {
        Some((STATE, rest)) => temporary.state_dir().join(rest),
        // Until it is known where they belong.
        _ => staging(temporary).join(file),
    }
}

fn staging(temporary: &ExecutionDir) -> PathBuf {
    temporary.state_dir().join("remote")
}

/// The last steps, which block.
struct Finishing {
    world: World,
    /// Where the run will be.
    final_dir: ExecutionDir,
    /// Where the files of the hank go now.
    hank_root: PathBuf,
    came: Came,
}

impl Finishing {
    /// Brings sessions and hank to their places, and writes down where the record came from.
    fn bring(&self, temporary: &ExecutionDir) -> Result<Arrived, RemoteError> {
        let (disk, manifest) = (&*self.world.disk, &self.came.manifest);
        let is_of = |kind: &str, file: &&String| file.split('/').next() == Some(kind);
        for file in manifest.files.keys().filter(|file| is_of(SESSIONS, file)) {
            let bytes = read(disk, &staging(temporary).join(file))?;
            sessions::bring(&self.world, self.final_dir.root(), file, &bytes)?;
        }
        let mut different = Vec::new();
        for file in manifest.files.keys().filter(|file| is_of(HANK, file)) {
            let relative = Path::new(
                file.strip_prefix(HANK)
                    .unwrap_or_default()
                    .trim_start_matches('/'),
            );
            let bytes = read(disk, &staging(temporary).join(file))?;
            if !self.put_if_absent(relative, &bytes)? {
                different.push(relative.to_owned());
            }
        }
        let left_behind = self.note_sessions(temporary)?;
        if let Some(meta) = manifest
            .meta
            .file(self.final_dir.root(), manifest.hank.as_deref())
        {
            let path = temporary.execution_meta();
            let written = disk.create_new(&path, meta.to_string().as_bytes());
            written.map_err(IoError::at("write", &path))?;
        }
        self.came.book.write(disk, temporary)?;
        let staged = disk.open_folder(&temporary.state_dir());
        let removed = staged.and_then(
            |folder| match folder.names()?.iter().any(|name| name == "remote") {
                true => folder.remove("remote".as_ref()),
                false => Ok(()),
            },
        );
        removed.map_err(IoError::at("remove", &staging(temporary)))?;
        Ok(Arrived {
            changed: false,
            url: self.came.book.url.clone(),
            execution: self.came.book.execution.clone(),
            record: self.came.record.clone(),
            checkpoint: manifest.checkpoint.clone(),
            hank: manifest
                .hank
                .as_ref()
                .map(|hank| self.final_dir.root().join(hank)),
            left_behind,
            different,
            kept: None,
        })
    }

    /// Notes the sessions that are not here.
    fn note_sessions(&self, temporary: &ExecutionDir) -> Result<Vec<SessionId>, RemoteError> {
        let known = |session: &&SessionId| !sessions::is_here(&self.world, &self.final_dir, session);
        let mut missing: Vec<SessionId> = self
            .came
            .manifest
            .left_behind
            .iter()
            .filter(known)
            .cloned()
            .collect();
        let taken = self.came.manifest.sessions.iter();
        let is_placed = |session: &&SessionId| {
            sessions::is_here(&self.world, temporary, session)
                || sessions::is_here(&self.world, &self.final_dir, session)
        };
        missing.extend(taken.filter(|session| !is_placed(session)).cloned());
        let path = temporary.state_dir();
        let noted = arrival::note_elsewhere(&*self.world.disk, temporary, &missing);
        noted.map_err(IoError::at("write", &path))?;
        Ok(missing)
    }

    /// Writes a file of the hank where none is; whether it is there now as it came. No link is followed.
    fn put_if_absent(&self, relative: &Path, bytes: &[u8]) -> Result<bool, RemoteError> {
        let path = self.hank_root.join(relative);
        let put = || -> io::Result<bool> {
            let root = self.world.disk.open_folder(&self.hank_root)?;
            let put = root.make(relative, |folder: &dyn Folder, name: &OsStr| {
                match folder.create_file(name, 0o644, &mut &*bytes) {
                    Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
                    created => created,
                }
            });
            put.map_err(|error| io::Error::other(chain(&error)))?;
            Ok(self
                .world
                .disk
                .read(&path, sessions::MAX_BYTES)
                .is_ok_and(|there| there == bytes))
        };
        put().map_err(|error| IoError::at("write", &path)(error).into())
    }

    /// Brings the files of the checkpoint into a directory that has none yet.
    fn restore(&self, temporary: &ExecutionDir) -> Result<(), RemoteError> {
        let store = open_store(&self.world, temporary, temporary.root())?;
        if let Some(target) = &self.came.manifest.checkpoint {
            store.restore(&RestoreRequest {
                target: target.clone(),
                left: None,
                safety: None,
                at: self.world.clock.now(),
            })?;
        }
        Ok(())
    }

    /// Makes what was prepared count, and puts it in place.
    fn announce(&self, temporary: &ExecutionDir, left: Option<CheckpointSha>) -> Result<(), RemoteError> {
        let disk = &*self.world.disk;
        self.bring_scripted(temporary)?;
        let new: BTreeSet<String> = names(disk, &temporary.state_dir(), |name| name != "tmp")?;
        let is_of_the_record = |name: &str| !is_of_this_machine(name) || OUR_NOTES.contains(&name);
        let old = names(disk, &self.final_dir.state_dir(), is_of_the_record)?;
        let synced = sync_everything(temporary.root());
        synced.map_err(IoError::at("sync", temporary.root()))?;
        let arrival = Arrival {
            removed: old.difference(&new).cloned().collect(),
            replaced: new,
            checkpoint: self.came.manifest.checkpoint.clone(),
            left,
        };
        arrival::announce(disk, &self.final_dir, &arrival)?;
        let finished = arrival::finish(&self.world, &self.final_dir);
        finished.map_err(|error| RemoteError::Arrival(Box::new(error)))?;
        Ok(())
    }

    /// Sessions of the scripted agent lie among files of other agents, which stay.
    fn bring_scripted(&self, temporary: &ExecutionDir) -> Result<(), RemoteError> {
        let disk = &*self.world.disk;
        let from = temporary.temp_dir().join("scripted-sessions");
        let to = self.final_dir.temp_dir().join("scripted-sessions");
        for name in list(disk, &from)? {
            let bytes = read(disk, &from.join(&name))?;
            let made = disk.make_private_dirs(&to);
            let written = made.and_then(|()| replace(disk, &to.join(&name), &bytes));
            written.map_err(IoError::at("write", &to))?;
        }
        Ok(())
    }
}

/// Entries of this machine that a new record replaces all the same.
const OUR_NOTES: [&str; 6] = [
    "checkpoints",
    "execution-meta.json",
    "remote.json",
    "sessions-elsewhere.json",
    "aftermath.json",
    "state.json.bak",
];

fn names(
    disk: &dyn Disk,
    folder: &Path,
    wanted: impl Fn(&str) -> bool,
) -> Result<BTreeSet<String>, RemoteError> {
    let listed = list(disk, folder)?;
    let names = listed.iter().filter_map(|name| name.to_str());
    Ok(names.filter(|name| wanted(name)).map(str::to_owned).collect())
}

fn read(disk: &dyn Disk, path: &Path) -> Result<Vec<u8>, RemoteError> {
    let read = disk.read(path, sessions::MAX_BYTES);
    read.map_err(|error| IoError::at("read", path)(error).into())
}
