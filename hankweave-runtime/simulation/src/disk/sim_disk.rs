//! The disk as the runtime and all other programs reach it.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hankweave_runtime::world::disk::{AppendFile, DirLock, DirLockGuard, Disk, Folder, Metadata, SyncFile};
use tokio::sync::Notify;

use super::directory::Directory;
use super::file::File;
use super::files::{Files, Id, Node, Tree, not_regular};
use super::folder::SimFolder;
use super::plan::{Need, Plan};
use crate::rng::Rng;

/// An end of the runtime that it did not choose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Crash {
    /// The process is killed; the system lives on, with everything that was written.
    Kill,
    /// The power goes.
    PowerLoss,
}

/// A handle of the disk, for one life of the runtime or for a program outside of it.
///
/// A life that has crashed can no longer use the disk. Operations from outside are neither counted nor refused.
#[derive(Clone)]
pub struct SimDisk {
    shared: Arc<Mutex<Shared>>,
    life: Option<u64>,
    /// Called before each use of the disk.
    pause: Option<fn()>,
}

pub(super) struct Shared {
    pub(super) files: Files,
    locks: BTreeMap<Id, u64>,
    life: u64,
    down: bool,
    plan: Plan,
    operations: u64,
    reads: u64,
    rng: Rng,
    crashed: Arc<Notify>,
    /// A file whose refusals are noted.
    watched: Option<PathBuf>,
    refused: bool,
    /// How many operations the disk has refused in the present life.
    refusals: u64,
}

impl fmt::Debug for SimDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimDisk")
            .field("life", &self.life)
            .finish_non_exhaustive()
    }
}

impl SimDisk {
    /// An empty disk, not in use by any runtime.
    #[must_use]
    pub fn new(rng: Rng) -> Self {
        let shared = Shared {
            files: Files::new(),
            locks: BTreeMap::new(),
            life: 0,
            down: true,
            plan: Plan::default(),
            operations: 0,
            reads: 0,
            rng,
            crashed: Arc::default(),
            watched: None,
            refused: false,
            refusals: 0,
        };
        Self {
            shared: Arc::new(Mutex::new(shared)),
            life: None,
            pause: None,
        }
    }

    /// Begins a life of the runtime, whose disk goes wrong as planned, and returns its way to the disk.
    #[must_use]
    pub fn begin_life(&self, plan: Plan) -> Self {
        let mut shared = self.shared();
        shared.life += 1;
        shared.down = false;
        shared.plan = plan;
        shared.operations = 0;
        shared.reads = 0;
        shared.refused = false;
        shared.refusals = 0;
        shared.crashed = Arc::default();
        Self {
            shared: Arc::clone(&self.shared),
            life: Some(shared.life),
            pause: None,
        }
    }

    /// The present life's way to the disk.
    #[must_use]
    pub fn present(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
            life: Some(self.shared().life),
            pause: None,
        }
    }

    /// Returns a handle that calls `pause` before each use of the disk: a scheduler lets other tasks continue there.
    #[must_use]
    pub fn pausing(self, pause: fn()) -> Self {
        let pause = Some(pause);
        Self { pause, ..self }
    }

    /// Ends the present life: its way to the disk leads nowhere from now on, and its locks are free.
    pub fn end_life(&self, crash: Option<Crash>) {
        let mut shared = self.shared();
        shared.down = true;
        shared.locks.clear();
        let Shared { files, rng, .. } = &mut *shared;
        match crash {
            Some(Crash::PowerLoss) => files.lose(rng),
            Some(Crash::Kill) | None => files.reclaim(rng),
        }
        files.forget_nameless();
    }

    /// Returns a handle of this disk for programs other than the runtime.
    #[must_use]
    pub fn outside(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
            life: None,
            pause: None,
        }
    }

    /// Whether the present life has ended or crashed.
    #[must_use]
    pub fn is_down(&self) -> bool {
        self.shared().down
    }

    /// Stops the present life for good, between two operations.
    pub fn crash_now(&self) {
        self.shared().go_down();
    }

    /// Is notified when the present life crashes.
    #[must_use]
    pub fn crashed(&self) -> Arc<Notify> {
        Arc::clone(&self.shared().crashed)
    }

    /// How many operations of the present life changed or synced something.
    #[must_use]
    pub fn operations(&self) -> u64 {
        self.shared().operations
    }

    /// How many times the present life has read from a file.
    #[must_use]
    pub fn reads(&self) -> u64 {
        self.shared().reads
    }

    /// Notes from now on when the disk refuses to write or sync the file at `path`.
    pub fn watch(&self, path: &Path) {
        self.shared().watched = Some(path.to_owned());
    }

    /// Whether the disk has refused the watched file in the present life.
    #[must_use]
    pub fn refused_watched(&self) -> bool {
        self.shared().refused
    }

    /// How many operations the disk has refused in the present life.
    #[must_use]
    pub fn refusals(&self) -> u64 {
        self.shared().refusals
    }

    /// Returns the disk that would be left if the power went now: a disk of its own, without everything unsynced.
    #[must_use]
    pub fn durable(&self) -> Self {
        let copy = Self::new(Rng::new(0));
        copy.shared().files = self.shared().files.durable();
        copy
    }

    /// Writes a durable file, with its folders, as if it had always existed.
    ///
    /// # Errors
    ///
    /// When a name on the way is no folder.
    pub fn plant(&self, path: &Path, mode: u32, content: &[u8]) -> io::Result<()> {
        let mut shared = self.shared();
        let mut directory = shared.files.find(Path::new("/"))?;
        for name in names(path.parent().unwrap_or(Path::new("/"))) {
            directory = match shared.files.entry(directory, name) {
                Ok(found) => found,
                Err(_) => shared.make_directory(directory, name, 0o755)?,
            };
            shared.files.directory_mut(directory)?;
        }
        let name = path.file_name().ok_or(ErrorKind::InvalidInput)?;
        let mut file = File::default();
        file.append(content);
        let id = shared.files.add(mode, Node::File(file));
        shared.files.directory_mut(directory)?.set(name, id);
        shared.files.sync_tree(0, &|_| false);
        Ok(())
    }

    /// Replaces the content of a file, or makes it, as a program does that never syncs.
    ///
    /// # Errors
    ///
    /// As for a file of the operating system.
    pub fn scribble(&self, path: &Path, content: &[u8]) -> io::Result<()> {
        let mut shared = self.shared();
        let (directory, name) = shared.name(path)?;
        let id = match shared.files.entry(directory, &name) {
            Ok(id) => id,
            Err(_) => shared.make_file(directory, &name, 0o644)?,
        };
        let file = shared.files.file_mut(id)?;
        file.cut(0);
        file.append(content);
        Ok(())
    }

    /// Returns everything inside a folder, without the entries called `left_out`; empty if there is no such folder.
    #[must_use]
    pub fn tree(&self, path: &Path, left_out: &str) -> Tree {
        let shared = self.shared();
        let found = shared.files.find_followed(path);
        found.map_or_else(
            |_| Tree::new(),
            |(id, _)| shared.files.tree(id, &|name| name == left_out),
        )
    }

    /// Makes everything inside a folder durable, without the entries called `left_out`.
    ///
    /// # Errors
    ///
    /// When the disk refuses, or when there is no such folder.
    pub fn sync_tree(&self, path: &Path, left_out: &str) -> io::Result<()> {
        let mut shared = self.shared();
        shared.step(self.life, Need::Device)?;
        let (id, _) = shared.files.find_followed(path)?;
        shared.files.sync_tree(id, &|name| name == left_out);
        Ok(())
    }

    pub(super) fn shared(&self) -> MutexGuard<'_, Shared> {
        if let Some(pause) = self.pause {
            pause();
        }
        // Only a test that fails anyway panics while holding the lock.
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn life(&self) -> Option<u64> {
        self.life
    }

    /// Reads the files, also where the disk refuses others.
    fn with_files<T>(&self, read: impl FnOnce(&Files) -> io::Result<T>) -> io::Result<T> {
        let shared = self.shared();
        shared.alive(self.life)?;
        read(&shared.files)
    }

    /// Reads, unless the disk refuses it.
    fn read_from<T>(&self, read: impl FnOnce(&Files) -> io::Result<T>) -> io::Result<T> {
        let mut shared = self.shared();
        shared.step_of_reading(self.life)?;
        read(&shared.files)
    }

    /// Carries out one operation, unless the disk refuses it.
    fn step<T>(&self, need: Need, step: impl FnOnce(&mut Shared) -> io::Result<T>) -> io::Result<T> {
        let mut shared = self.shared();
        shared.step(self.life, need)?;
        step(&mut shared)
    }

    fn append_file(&self, id: Id) -> io::Result<Box<dyn AppendFile>> {
        let length = self.shared().files.content(id)?.len() as u64;
        let file = Arc::new(SimSyncFile {
            disk: self.clone(),
            id,
        });
        Ok(Box::new(SimAppendFile { file, length }))
    }
}

impl Shared {
    pub(super) fn alive(&self, life: Option<u64>) -> io::Result<()> {
        match life {
            Some(life) if self.down || life != self.life => Err(io::Error::other("this life is over")),
            Some(_) | None => Ok(()),
        }
    }

    fn go_down(&mut self) {
        self.down = true;
        self.crashed.notify_one();
    }

    /// Counts one operation of a life, and fails if it may not happen.
    pub(super) fn step(&mut self, life: Option<u64>, need: Need) -> io::Result<()> {
        self.alive(life)?;
        if life.is_none() {
            return Ok(());
        }
        let number = self.operations;
        self.operations += 1;
        if self.plan.crash_at == Some(number) {
            self.go_down();
            return Err(io::Error::other("the planned crash"));
        }
        match self.plan.refusal(number, need) {
            Some(error) => {
                self.refusals += 1;
                Err(error)
            }
            None => Ok(()),
        }
    }

    /// Counts one read of a life, and fails if it may not happen.
    fn step_of_reading(&mut self, life: Option<u64>) -> io::Result<()> {
        self.alive(life)?;
        if life.is_none() {
            return Ok(());
        }
        let number = self.reads;
        self.reads += 1;
        let refusal = self.plan.read_refusal(number);
        self.refusals += u64::from(refusal.is_some());
        refusal.map_or(Ok(()), Err)
    }

    fn note_refusal(&mut self, id: Id) {
        let found = self.watched.as_deref().map(|path| self.files.find(path));
        if let Some(Ok(watched)) = found {
            self.refused |= watched == id && !self.down;
        }
    }

    /// Writes to the end of a file; what hinders that leaves a part.
    pub(super) fn write_at(
        &mut self,
        life: Option<u64>,
        id: Id,
        offset: u64,
        bytes: &[u8],
    ) -> io::Result<()> {
        self.alive(life)?;
        let refused = self.step(life, Need::Space).err();
        let fits = match refused {
            Some(_) => self.rng.up_to(bytes.len()),
            None => bytes.len(),
        };
        let offset = usize::try_from(offset).map_err(|_| not_regular())?;
        self.files.file_mut(id)?.write_at(offset, &bytes[..fits]);
        if refused.is_some() {
            self.note_refusal(id);
        }
        refused.map_or(Ok(()), Err)
    }

    fn sync(&mut self, life: Option<u64>, id: Id) -> io::Result<()> {
        self.alive(life)?;
        let refused = self.step(life, Need::Device).err();
        let down = self.down;
        let file = self.files.file_mut(id)?;
        match refused {
            None => file.sync(),
            // A crash is no answer of the disk.
            Some(_) if down => {}
            Some(_) => {
                file.fail_sync();
                self.note_refusal(id);
            }
        }
        refused.map_or(Ok(()), Err)
    }

    pub(super) fn make_file(&mut self, directory: Id, name: &OsStr, mode: u32) -> io::Result<Id> {
        self.add(directory, name, mode, Node::File(File::default()))
    }

    pub(super) fn make_directory(&mut self, directory: Id, name: &OsStr, mode: u32) -> io::Result<Id> {
        self.add(directory, name, mode, Node::Directory(Directory::default()))
    }

    pub(super) fn add(&mut self, directory: Id, name: &OsStr, mode: u32, node: Node) -> io::Result<Id> {
        if self.files.directory(directory)?.get(name).is_some() {
            return Err(ErrorKind::AlreadyExists.into());
        }
        let id = self.files.add(mode, node);
        self.files.directory_mut(directory)?.set(name, id);
        Ok(id)
    }

    /// Returns the folder and the last name of `path`, which need not exist.
    fn name(&self, path: &Path) -> io::Result<(Id, OsString)> {
        let (directory, name) = self.files.place(path)?;
        Ok((directory, name.ok_or(ErrorKind::InvalidInput)?))
    }

    fn make_directories(&mut self, life: Option<u64>, path: &Path, mode: u32) -> io::Result<()> {
        if let Ok((id, _)) = self.files.find_followed(path) {
            return self.files.directory(id).map(|_| ());
        }
        if let Some(parent) = path.parent() {
            self.make_directories(life, parent, mode)?;
        }
        self.step(life, Need::Space)?;
        let (directory, name) = self.name(path)?;
        self.make_directory(directory, &name, mode).map(|_| ())
    }
}

impl Disk for SimDisk {
    fn read(&self, path: &Path, limit: u64) -> io::Result<Vec<u8>> {
        self.read_from(|files| {
            let content = files.content(files.find(path)?)?;
            if content.len() as u64 > limit {
                return Err(ErrorKind::FileTooLarge.into());
            }
            Ok(content.to_vec())
        })
    }

    fn read_at(&self, path: &Path, offset: u64, length: usize) -> io::Result<Vec<u8>> {
        self.read_from(|files| {
            let content = files.content(files.find(path)?)?;
            let start = usize::try_from(offset).unwrap_or(usize::MAX).min(content.len());
            let end = start.saturating_add(length).min(content.len());
            Ok(content[start..end].to_vec())
        })
    }

    fn create_new(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let id = self.step(Need::Space, |shared| {
            let (directory, name) = shared.name(path)?;
            shared.make_file(directory, &name, 0o600)
        })?;
        let mut shared = self.shared();
        shared.write_at(self.life, id, 0, bytes)?;
        shared.sync(self.life, id)
    }

    fn open_append(&self, path: &Path) -> io::Result<Box<dyn AppendFile>> {
        let id = match self.with_files(|files| files.find(path)) {
            Err(error) if error.kind() == ErrorKind::NotFound => return self.create_append(path),
            found => found?,
        };
        self.append_file(id)
    }

    fn create_append(&self, path: &Path) -> io::Result<Box<dyn AppendFile>> {
        let id = self.step(Need::Space, |shared| {
            let (directory, name) = shared.name(path)?;
            shared.make_file(directory, &name, 0o600)
        })?;
        self.append_file(id)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.step(Need::Nothing, |shared| {
            let (directory, from) = shared.name(from)?;
            let (target, to) = shared.name(to)?;
            if directory != target {
                return Err(ErrorKind::CrossesDevices.into());
            }
            let id = shared.files.entry(directory, &from)?;
            if let Ok(replaced) = shared.files.entry(directory, &to) {
                if replaced == id {
                    // Two names of one file: POSIX wants both to stay.
                    return Ok(());
                }
                if shared.files.directory(replaced).is_ok() || shared.files.directory(id).is_ok() {
                    return Err(ErrorKind::AlreadyExists.into());
                }
            }
            shared.files.directory_mut(directory)?.rename(&from, &to, id);
            Ok(())
        })
    }

    fn link_or_copy(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.step(Need::Space, |shared| {
            let id = shared.files.find(from)?;
            shared.files.content(id)?;
            let (directory, name) = shared.name(to)?;
            if shared.files.entry(directory, &name).is_ok() {
                return Err(ErrorKind::AlreadyExists.into());
            }
            shared.files.directory_mut(directory)?.set(&name, id);
            Ok(())
        })
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.step(Need::Nothing, |shared| {
            let (directory, name) = shared.name(path)?;
            let id = shared.files.entry(directory, &name)?;
            if shared.files.directory(id).is_ok() {
                return Err(ErrorKind::IsADirectory.into());
            }
            shared.files.directory_mut(directory)?.clear(&name);
            Ok(())
        })
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.step(Need::Device, |shared| {
            let id = shared.files.find(path)?;
            shared.files.directory_mut(id)?.sync();
            Ok(())
        })
    }

    fn create_dir_private(&self, path: &Path) -> io::Result<()> {
        self.step(Need::Space, |shared| {
            let (directory, name) = shared.name(path)?;
            shared.make_directory(directory, &name, 0o700).map(|_| ())
        })
    }

    fn make_dir_private(&self, path: &Path) -> io::Result<()> {
        self.step(Need::Device, |shared| {
            let id = shared.files.find(path)?;
            shared.files.directory(id)?;
            shared.files.set_mode(id, 0o700);
            Ok(())
        })
    }

    fn make_private_dirs(&self, path: &Path) -> io::Result<()> {
        let mut shared = self.shared();
        shared.alive(self.life)?;
        shared.make_directories(self.life, path, 0o700)
    }

    fn make_dirs(&self, path: &Path) -> io::Result<PathBuf> {
        let mut shared = self.shared();
        shared.alive(self.life)?;
        shared.make_directories(self.life, path, 0o755)?;
        Ok(shared.files.find_followed(path)?.1)
    }

    fn list_dir(&self, path: &Path) -> io::Result<Vec<OsString>> {
        self.with_files(|files| {
            let (id, _) = files.find_followed(path)?;
            Ok(files
                .directory(id)?
                .names()
                .map(|(name, _)| name.clone())
                .collect())
        })
    }

    fn metadata(&self, path: &Path) -> io::Result<Metadata> {
        self.with_files(|files| Ok(files.metadata(files.find(path)?)))
    }

    fn metadata_followed(&self, path: &Path) -> io::Result<Metadata> {
        self.with_files(|files| Ok(files.metadata(files.find_followed(path)?.0)))
    }

    fn real_path(&self, path: &Path) -> io::Result<PathBuf> {
        self.with_files(|files| Ok(files.find_followed(path)?.1))
    }

    fn open_folder(&self, path: &Path) -> io::Result<Box<dyn Folder>> {
        let id = self.with_files(|files| {
            let (id, _) = files.find_followed(path)?;
            files.directory(id).map(|_| id)
        })?;
        Ok(Box::new(SimFolder::new(self.clone(), id)))
    }

    fn lock_dir(&self, path: &Path) -> io::Result<DirLock> {
        let (id, path) = self.with_files(|files| files.find_followed(path))?;
        let mut shared = self.shared();
        shared.files.directory(id)?;
        if shared.locks.contains_key(&id) {
            return Ok(DirLock::Held);
        }
        let life = self.life.unwrap_or_default();
        shared.locks.insert(id, life);
        Ok(DirLock::Acquired(Arc::new(SimLock {
            disk: self.clone(),
            path,
            id,
        })))
    }
}

#[derive(Debug)]
struct SimAppendFile {
    file: Arc<SimSyncFile>,
    length: u64,
}

impl AppendFile for SimAppendFile {
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        let SimSyncFile { disk, id } = &*self.file;
        disk.shared().write_at(disk.life, *id, self.length, bytes)?;
        self.length += bytes.len() as u64;
        Ok(())
    }

    fn syncer(&self) -> Arc<dyn SyncFile> {
        self.file.clone()
    }

    fn rewind(&mut self, length: u64) -> io::Result<()> {
        self.length = length;
        Ok(())
    }

    fn truncate(&mut self, length: u64) -> io::Result<()> {
        let SimSyncFile { disk, id } = &*self.file;
        disk.step(Need::Nothing, |shared| {
            let length = usize::try_from(length).map_err(|_| not_regular())?;
            shared.files.file_mut(*id)?.cut(length);
            Ok(())
        })?;
        self.length = length;
        Ok(())
    }

    fn length(&self) -> u64 {
        self.length
    }
}

#[derive(Debug)]
struct SimSyncFile {
    disk: SimDisk,
    id: Id,
}

impl SyncFile for SimSyncFile {
    fn sync_data(&self) -> io::Result<()> {
        self.disk.shared().sync(self.disk.life, self.id)
    }
}

#[derive(Debug)]
struct SimLock {
    disk: SimDisk,
    path: PathBuf,
    id: Id,
}

impl DirLockGuard for SimLock {
    fn still_guards(&self) -> bool {
        self.disk
            .with_files(|files| files.find(&self.path))
            .is_ok_and(|id| id == self.id)
    }
}

impl Drop for SimLock {
    fn drop(&mut self) {
        let mut shared = self.disk.shared();
        // A later life may hold it by now.
        if shared.locks.get(&self.id) == Some(&self.disk.life.unwrap_or_default()) {
            shared.locks.remove(&self.id);
        }
    }
}

fn names(path: &Path) -> impl Iterator<Item = &OsStr> {
    path.components().filter_map(|component| match component {
        std::path::Component::Normal(name) => Some(name),
        _ => None,
    })
}
