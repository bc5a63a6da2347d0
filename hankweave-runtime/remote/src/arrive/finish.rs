//! Last steps of a clone or a pull: the fetched record is moved to its final paths. Both call `install`; then a clone calls
//! `restore`, a pull `announce`.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};

use hankweave_core::id::{CheckpointSha, SessionId};
use hankweave_runtime::ExecutionDir;
use hankweave_runtime::arrival::{self, WorkspaceSwap};
use hankweave_runtime::checkpoint::{CheckpointStore as _, RestoreRequest};
use hankweave_runtime::error::chain;
use hankweave_runtime::world::World;
use hankweave_runtime::world::disk::{Disk, Folder, IoError, parent, replace};

use super::FetchedRun;
use super::arrived_record::{FetchedRecord, open_store, staging};
use crate::book::RemoteTracking;
use crate::error::RemoteError;
use crate::files::list;
use crate::manifest::{HANK, SESSIONS, is_of_a_record};
use crate::place::sync_everything;
use crate::sessions;

/// Last steps of a clone or a pull, which block.
pub(super) struct InstallStep {
    pub(super) world: World,
    /// Final execution directory. The record is in a temporary one until it is moved.
    pub(super) final_dir: ExecutionDir,
    /// Folder that gets the hank's files: of a clone the temporary directory, of a pull the final one.
    pub(super) hank_root: PathBuf,
    pub(super) fetched: FetchedRecord,
}

impl InstallStep {
    /// Installs sessions and hank, and notes in `temporary` from which remote the record is.
    pub(super) fn install(&self, temporary: &ExecutionDir) -> Result<FetchedRun, RemoteError> {
        let FetchedRecord {
            manifest,
            record,
            tracking,
            ..
        } = &self.fetched;
        self.install_sessions(temporary)?;
        let different = self.install_hank(temporary)?;
        let left_behind = self.note_sessions(temporary)?;
        self.write_meta(temporary)?;
        let noted = RemoteTracking {
            arrived_at: Some(self.world.clock.now()),
            ..tracking.clone()
        };
        noted.write(&*self.world.disk, temporary)?;
        self.remove_staging(temporary)?;
        let hank = manifest.hank.as_ref();
        Ok(FetchedRun {
            changed: true,
            url: tracking.url.clone(),
            execution: tracking.execution.clone(),
            record: record.clone(),
            checkpoint: manifest.checkpoint.clone(),
            hank: hank.map(|hank| self.final_dir.root().join(hank)),
            left_behind,
            different,
            kept: None,
        })
    }

    /// Returns the staged files of one kind, with their paths in the record and their contents.
    fn staged(
        &self,
        temporary: &ExecutionDir,
        kind: &str,
    ) -> impl Iterator<Item = Result<(&str, Vec<u8>), RemoteError>> {
        let staging = staging(temporary);
        let files = self.fetched.manifest.files.keys().map(String::as_str);
        let files = files.filter(move |file| file.split('/').next() == Some(kind));
        files.map(move |file| Ok((file, read(&*self.world.disk, &staging.join(file))?)))
    }

    /// Installs the session files where the agents of this machine look for them.
    fn install_sessions(&self, temporary: &ExecutionDir) -> Result<(), RemoteError> {
        for staged in self.staged(temporary, SESSIONS) {
            let (file, bytes) = staged?;
            sessions::install_session(&self.world, self.final_dir.root(), file, &bytes)?;
        }
        Ok(())
    }

    /// Installs the files of the hank. Returns those that differ on this machine, which stay as they are.
    fn install_hank(&self, temporary: &ExecutionDir) -> Result<Vec<PathBuf>, RemoteError> {
        let mut different = Vec::new();
        for staged in self.staged(temporary, HANK) {
            let (file, bytes) = staged?;
            let relative = file.strip_prefix(HANK).unwrap_or_default();
            let relative = Path::new(relative.trim_start_matches('/'));
            if !self.write_if_absent(relative, &bytes)? {
                different.push(relative.to_owned());
            }
        }
        Ok(different)
    }

    /// Writes the note about the invocation of the run, if a hank is known.
    fn write_meta(&self, temporary: &ExecutionDir) -> Result<(), RemoteError> {
        let manifest = &self.fetched.manifest;
        let meta = manifest
            .meta
            .file(self.final_dir.root(), manifest.hank.as_deref());
        let Some(meta) = meta else {
            return Ok(());
        };
        let path = temporary.execution_meta();
        let written = self.world.disk.create_new(&path, meta.to_string().as_bytes());
        Ok(written.map_err(IoError::at("write", &path))?)
    }

    fn remove_staging(&self, temporary: &ExecutionDir) -> Result<(), RemoteError> {
        let path = staging(temporary);
        let name = path.file_name().unwrap_or_default();
        let folder = self.world.disk.open_folder(parent(&path));
        let removed = folder.and_then(|folder| match folder.names()?.iter().any(|found| found == name) {
            true => folder.remove(name),
            false => Ok(()),
        });
        Ok(removed.map_err(IoError::at("remove", &path))?)
    }

    /// Notes in `temporary` the sessions that are not on this machine, and returns them.
    fn note_sessions(&self, temporary: &ExecutionDir) -> Result<Vec<SessionId>, RemoteError> {
        let is_missing = |session: &&SessionId| !sessions::is_here(&self.world, &self.final_dir, session);
        let mut missing: Vec<SessionId> = self
            .fetched
            .manifest
            .left_behind
            .iter()
            .filter(is_missing)
            .cloned()
            .collect();
        let in_record = self.fetched.manifest.sessions.iter();
        let is_installed = |session: &&SessionId| {
            sessions::is_here(&self.world, temporary, session)
                || sessions::is_here(&self.world, &self.final_dir, session)
        };
        missing.extend(in_record.filter(|session| !is_installed(session)).cloned());
        let path = temporary.state_dir();
        let noted = arrival::note_elsewhere(&*self.world.disk, temporary, &missing);
        noted.map_err(IoError::at("write", &path))?;
        Ok(missing)
    }

    /// Writes a file of the hank unless one exists, and returns whether the file now has these contents. Follows no link.
    fn write_if_absent(&self, relative: &Path, bytes: &[u8]) -> Result<bool, RemoteError> {
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
                .is_ok_and(|present| present == bytes))
        };
        put().map_err(|error| IoError::at("write", &path)(error).into())
    }

    /// Restores the files of the checkpoint into a directory that has none yet.
    pub(super) fn restore(&self, temporary: &ExecutionDir) -> Result<(), RemoteError> {
        let store = open_store(&self.world, temporary, temporary.root())?;
        if let Some(target) = &self.fetched.manifest.checkpoint {
            store.restore(&RestoreRequest {
                target: target.clone(),
                left: None,
                spares_changed: false,
                safety: None,
                at: self.world.clock.now(),
            })?;
        }
        Ok(())
    }

    /// Announces the prepared record in `temporary`, and moves it to its final paths. Once it is announced, the next start
    /// finishes an interrupted move. `left` is the checkpoint whose files are in the directory now.
    pub(super) fn announce(
        &self,
        temporary: &ExecutionDir,
        left: Option<CheckpointSha>,
    ) -> Result<(), RemoteError> {
        let disk = &*self.world.disk;
        self.install_scripted_sessions(temporary)?;
        let new: BTreeSet<String> = names(disk, &temporary.state_dir(), |name| name != "tmp")?;
        let is_of_the_record = |name: &str| is_of_a_record(name) || OUR_NOTES.contains(&name);
        let old = names(disk, &self.final_dir.state_dir(), is_of_the_record)?;
        let synced = sync_everything(temporary.root());
        synced.map_err(IoError::at("sync", temporary.root()))?;
        let arrival = WorkspaceSwap {
            removed: old.difference(&new).cloned().collect(),
            replaced: new,
            checkpoint: self.fetched.manifest.checkpoint.clone(),
            left,
        };
        arrival::announce(disk, &self.final_dir, &arrival)?;
        arrival::finish(&self.world, &self.final_dir)?;
        Ok(())
    }

    /// Copies sessions of the scripted agent into the final temporary folder; the other agents' files next to them stay.
    fn install_scripted_sessions(&self, temporary: &ExecutionDir) -> Result<(), RemoteError> {
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

/// Entries of the state directory that a new record replaces, although they belong to this machine and are in no record.
const OUR_NOTES: [&str; 6] = [
    "checkpoints",
    "execution-meta.json",
    "remote.json",
    "sessions-elsewhere.json",
    "aftermath.json",
    "state.json.bak",
];

/// Returns the names in `folder` that `wanted` selects.
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
