//! Reads the state files at a start, replaces state.json and keeps its backup, repairs and trims the log, and moves damaged files aside.

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use hankweave_core::document::MAX_STATE_BYTES;
use hankweave_core::time::Timestamp;

use super::{LogContents, NOTHING_IN_DOUBT, StateLog, read_log};
use crate::world::disk::{self, DirLockGuard, Disk, IoError};

/// Size limit of a log that is read, in bytes, so that a strange file cannot fill the memory. A log is cut long before it reaches this.
const MAX_LOG_BYTES: u64 = 256 << 20;

/// The state files of one execution directory; only the holder of the instance lock may change them.
#[derive(Debug, Clone)]
pub struct StateFiles {
    disk: Arc<dyn Disk>,
    guard: Option<Arc<dyn DirLockGuard>>,
    state_dir: PathBuf,
}

/// The state files as a start finds them, before their contents are checked.
#[derive(Debug)]
pub struct FoundState {
    /// state.json
    pub primary: FoundFile,
    /// state.log
    pub log: LogContents,
    /// Whether run folders or checkpoints show that there once was a document.
    pub traces: bool,
    files: StateFiles,
    backup: OnceLock<FoundFile>,
}

impl FoundState {
    /// Returns state.json.bak, which the first call reads: it is as large as state.json, and needed only when state.json cannot be used.
    ///
    /// # Errors
    ///
    /// [`StateFileError::Io`] when the file exists and cannot be read.
    pub fn backup(&self) -> Result<&FoundFile, StateFileError> {
        if let Some(read) = self.backup.get() {
            return Ok(read);
        }
        let read = self.files.find_file(&self.files.backup_path(), &self.log)?;
        Ok(self.backup.get_or_init(|| read))
    }
}

/// A state file as it was found.
#[derive(Debug, Default, PartialEq, Eq)]
pub enum FoundFile {
    /// There is no file.
    #[default]
    Absent,
    /// The file is larger than a document may be, no regular file, or was changed since it was saved.
    Unusable,
    /// The bytes of the file.
    Bytes(Vec<u8>),
}

/// Why a step on a state file failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StateFileError {
    /// The system reported an error.
    #[error(transparent)]
    Io(#[from] IoError),
    /// The locked directory was moved or replaced; another process may work at its path now.
    #[error("`{}` was moved or replaced while it was locked", state_dir.display())]
    LockLost {
        /// The state directory.
        state_dir: PathBuf,
    },
}

impl StateFiles {
    /// The files in `state_dir`. `guard` is the instance lock, which each save checks (D7);
    /// `None` when the user waived the lock.
    #[must_use]
    pub fn new(disk: Arc<dyn Disk>, guard: Option<Arc<dyn DirLockGuard>>, state_dir: PathBuf) -> Self {
        Self {
            disk,
            guard,
            state_dir,
        }
    }

    /// Reads everything but the backup, and changes nothing.
    ///
    /// # Errors
    ///
    /// [`StateFileError::Io`] when a file exists and cannot be read.
    pub fn find(&self) -> Result<FoundState, StateFileError> {
        let path = self.log_path();
        let log = disk::read_if_present(&*self.disk, &path, MAX_LOG_BYTES);
        let log = log.map_err(IoError::at("read", &path))?;
        let log = log.as_deref().map(read_log).unwrap_or_default();
        Ok(FoundState {
            primary: self.find_file(&self.primary_path(), &log)?,
            log,
            traces: self.has_entries("runs") || self.has_entries("checkpoints"),
            files: self.clone(),
            backup: OnceLock::new(),
        })
    }

    /// Replaces state.json (D1, D2).
    ///
    /// With `keep_current` the present state.json becomes the backup; the caller has loaded or written it, so it is good. After a crash at
    /// any moment the old or the new document exists, and a good backup.
    ///
    /// # Errors
    ///
    /// [`StateFileError`]; the present state.json is then still in place, or the new one is and may not be durable.
    pub fn save(&self, document: &[u8], keep_current: bool) -> Result<(), StateFileError> {
        self.check_lock()?;
        self.replace_primary(document, keep_current).inspect_err(|_| {
            // Removes temporary files, which works on a full disk too. Only the first error is reported.
            let _ = self.sweep();
        })?;
        self.sync_directory()
    }

    /// Refuses to write if the locked directory is no longer at its path.
    fn check_lock(&self) -> Result<(), StateFileError> {
        let Some(guard) = self.guard.as_ref().filter(|guard| !guard.still_guards()) else {
            return Ok(());
        };
        let state_dir = self.state_dir.clone();
        match guard.is_removed() {
            true => Err(IoError::at("find", &state_dir)(io::ErrorKind::NotFound.into()).into()),
            false => Err(StateFileError::LockLost { state_dir }),
        }
    }

    fn replace_primary(&self, document: &[u8], keep_current: bool) -> Result<(), StateFileError> {
        let (primary, temporary) = (self.primary_path(), self.temporary_path());
        self.remove(&temporary)?;
        self.step("write", &temporary, |disk, path| disk.create_new(path, document))?;
        if keep_current {
            self.place_backup()?;
        }
        self.step("replace", &primary, |disk, path| disk.rename(&temporary, path))
    }

    /// Gives the present state.json the backup's name as well.
    fn place_backup(&self) -> Result<(), StateFileError> {
        let (primary, backup) = (self.primary_path(), self.backup_path());
        let temporary = disk::with_suffix(&backup, ".tmp");
        self.remove(&temporary)?;
        self.step("link", &temporary, |disk, path| disk.link_or_copy(&primary, path))?;
        self.step("replace", &backup, |disk, path| disk.rename(&temporary, path))?;
        // If the temporary name and the backup are one file already, POSIX lets the rename do nothing, so the temporary name stays. That
        // happens when the last process ended between this step and the replacement of state.json.
        self.remove(&temporary)
    }

    /// Moves state.json aside and returns its new path.
    ///
    /// # Errors
    ///
    /// [`StateFileError::Io`] when the disk refuses.
    pub fn quarantine_primary(&self, now: Timestamp) -> Result<PathBuf, StateFileError> {
        self.quarantine(&self.primary_path(), now)
    }

    /// Moves state.json.bak aside and returns its new path.
    ///
    /// # Errors
    ///
    /// [`StateFileError::Io`] when the disk refuses.
    pub fn quarantine_backup(&self, now: Timestamp) -> Result<PathBuf, StateFileError> {
        self.quarantine(&self.backup_path(), now)
    }

    /// Keeps a copy of a damaged log, writes the log again with the lines that could be read, and returns the path of the copy.
    ///
    /// # Errors
    ///
    /// [`StateFileError::Io`] when the disk refuses; the old log is then still in place.
    pub fn repair_log(&self, contents: &LogContents, now: Timestamp) -> Result<PathBuf, StateFileError> {
        let (path, copy) = (self.log_path(), self.free_name(&self.log_path(), now)?);
        let bytes = self.step("read", &path, |disk, path| disk.read(path, MAX_LOG_BYTES))?;
        self.step("write", &copy, |disk, path| disk.create_new(path, &bytes))?;
        let repaired = contents.to_batch();
        self.step("rewrite", &path, |disk, path| {
            disk::replace(disk, path, repaired.as_bytes())
        })?;
        Ok(copy)
    }

    /// Removes the remains of an interrupted save (P9).
    ///
    /// # Errors
    ///
    /// [`StateFileError::Io`] when the disk refuses.
    pub fn sweep(&self) -> Result<(), StateFileError> {
        for path in [self.primary_path(), self.backup_path(), self.log_path()] {
            self.remove(&disk::with_suffix(&path, ".tmp"))?;
        }
        Ok(())
    }

    /// Opens the log for appending after its last write. That write is made durable, in case it is not yet.
    ///
    /// # Errors
    ///
    /// [`StateFileError::Io`] when the disk refuses.
    pub fn open_log(&self, last_write: &Range<u64>) -> Result<StateLog, StateFileError> {
        self.step("open", &self.log_path(), |disk, path| {
            StateLog::open(disk, path, last_write)
        })
    }

    /// Writes the log again without its first `cut` bytes, and opens the new log; nothing may be appended meanwhile.
    ///
    /// # Errors
    ///
    /// [`StateFileError::Io`] when the disk refuses; the old log is then still in place.
    pub fn trim_log(&self, log: &StateLog, cut: u64) -> Result<StateLog, StateFileError> {
        let length = usize::try_from(log.length() - cut).unwrap_or(usize::MAX);
        let remaining = self.step("read", &self.log_path(), |disk, path| {
            disk.read_at(path, cut, length)
        })?;
        self.step("rewrite", &self.log_path(), |disk, path| {
            disk::replace(disk, path, &remaining)
        })?;
        self.open_log(&NOTHING_IN_DOUBT)
    }

    /// Reads state.json or its backup; the log shows whether the file was changed since it was saved.
    fn find_file(&self, path: &Path, log: &LogContents) -> Result<FoundFile, StateFileError> {
        match disk::read_if_present(&*self.disk, path, MAX_STATE_BYTES as u64) {
            Ok(Some(bytes)) if log.disowns(&bytes) => {
                tracing::warn!(path = %path.display(), "the file is not as it was saved");
                Ok(FoundFile::Unusable)
            }
            Ok(bytes) => Ok(bytes.map_or(FoundFile::Absent, FoundFile::Bytes)),
            Err(error) if is_unusable(&error) => Ok(FoundFile::Unusable),
            Err(error) => Err(IoError::at("read", path)(error).into()),
        }
    }

    fn has_entries(&self, name: &str) -> bool {
        // A directory that is absent or cannot be listed is no trace of a document, and neither is the `.git` file that protects it from git.
        self.disk
            .list_dir(&self.state_dir.join(name))
            .is_ok_and(|names| names.iter().any(|name| name != ".git"))
    }

    fn quarantine(&self, path: &Path, now: Timestamp) -> Result<PathBuf, StateFileError> {
        let target = self.free_name(path, now)?;
        self.step("move aside", path, |disk, path| disk.rename(path, &target))?;
        self.sync_directory()?;
        Ok(target)
    }

    fn free_name(&self, path: &Path, now: Timestamp) -> Result<PathBuf, StateFileError> {
        self.step("find a name beside", path, |disk, path| {
            disk::free_name(disk, path, "corrupt", now)
        })
    }

    fn remove(&self, path: &Path) -> Result<(), StateFileError> {
        self.step("remove", path, disk::remove_if_present)
    }

    fn sync_directory(&self) -> Result<(), StateFileError> {
        self.step("sync", &self.state_dir, |disk, path| disk.sync_dir(path))
    }

    /// Runs a step on a file; its error names `action` and the path.
    fn step<T>(
        &self,
        action: &'static str,
        path: &Path,
        step: impl FnOnce(&dyn Disk, &Path) -> io::Result<T>,
    ) -> Result<T, StateFileError> {
        Ok(step(&*self.disk, path).map_err(IoError::at(action, path))?)
    }

    fn primary_path(&self) -> PathBuf {
        self.state_dir.join("state.json")
    }

    fn backup_path(&self) -> PathBuf {
        self.state_dir.join("state.json.bak")
    }

    fn temporary_path(&self) -> PathBuf {
        self.state_dir.join("state.json.tmp")
    }

    fn log_path(&self) -> PathBuf {
        self.state_dir.join("state.log")
    }
}

/// Whether an error shows that the file itself is damaged, and not the disk; then the backup can be used.
fn is_unusable(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::FileTooLarge | io::ErrorKind::InvalidInput
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::disk::{Fault, FaultyDisk, RealDisk};

    fn folder() -> (tempfile::TempDir, StateFiles) {
        let folder = tempfile::tempdir().unwrap();
        let files = files(&folder, Arc::new(RealDisk));
        (folder, files)
    }

    fn files(folder: &tempfile::TempDir, disk: Arc<dyn Disk>) -> StateFiles {
        StateFiles::new(disk, None, folder.path().to_owned())
    }

    fn bytes(text: &str) -> FoundFile {
        FoundFile::Bytes(text.into())
    }

    #[test]
    fn an_empty_directory_holds_nothing() {
        let (_folder, files) = folder();
        let found = files.find().unwrap();
        assert_eq!(
            (&found.primary, found.backup().unwrap(), found.traces),
            (&FoundFile::Absent, &FoundFile::Absent, false)
        );
    }

    #[test]
    fn run_folders_are_traces_of_a_document() {
        let (folder, files) = folder();
        std::fs::create_dir_all(folder.path().join("runs/1-a-b")).unwrap();
        assert!(files.find().unwrap().traces);
    }

    // covers: D2
    #[test]
    fn the_backup_is_the_document_before_unless_that_was_damaged() {
        let (_folder, files) = folder();
        files.save(b"one", false).unwrap();
        files.save(b"two", true).unwrap();
        let found = files.find().unwrap();
        assert_eq!(
            (&found.primary, found.backup().unwrap()),
            (&bytes("two"), &bytes("one"))
        );
        files.save(b"three", false).unwrap();
        let found = files.find().unwrap();
        assert_eq!(
            (&found.primary, found.backup().unwrap()),
            (&bytes("three"), &bytes("one"))
        );
    }

    /// Two documents of a long night at once would take twice the memory of one.
    #[test]
    fn the_backup_is_read_when_it_is_asked_for() {
        let (_folder, files) = folder();
        files.save(b"one", false).unwrap();
        let found = files.find().unwrap();
        files.save(b"two", true).unwrap();
        assert_eq!(found.backup().unwrap(), &bytes("one"));
        files.save(b"three", true).unwrap();
        assert_eq!(found.backup().unwrap(), &bytes("one"), "and only once");
    }

    // covers: D1, D2, P9
    #[test]
    fn a_crash_at_any_operation_of_a_save_leaves_a_document_and_a_backup() {
        for n in 0.. {
            let (folder, files) = folder();
            files.save(b"one", false).unwrap();
            files.save(b"two", true).unwrap();
            let faulty = FaultyDisk::new(Arc::new(RealDisk), Fault::CrashAt(n));
            let result = self::files(&folder, Arc::new(faulty)).save(b"three", true);

            let found = files.find().unwrap();
            assert!(
                [bytes("two"), bytes("three")].contains(&found.primary),
                "crash at {n}"
            );
            assert!(
                [bytes("one"), bytes("two")].contains(found.backup().unwrap()),
                "crash at {n}"
            );

            // The next life loads what it found, saves, and leaves no temporary file.
            files.save(b"four", true).unwrap();
            files.sweep().unwrap();
            assert_eq!(
                RealDisk.list_dir(folder.path()).unwrap(),
                ["state.json", "state.json.bak"],
                "crash at {n}"
            );
            if result.is_ok() {
                return;
            }
        }
    }

    // covers: F3, P9
    #[test]
    fn a_save_that_fails_leaves_no_temporary_file() {
        for n in 0.. {
            let (folder, files) = folder();
            files.save(b"one", false).unwrap();
            let fault = Fault::FailAt(n, io::ErrorKind::StorageFull);
            let faulty = FaultyDisk::new(Arc::new(RealDisk), fault);
            let result = self::files(&folder, Arc::new(faulty)).save(b"two", true);
            let names = RealDisk.list_dir(folder.path()).unwrap();
            let ours = ["state.json", "state.json.bak"];
            assert!(
                names.iter().all(|name| ours.iter().any(|our| name == our)),
                "failure at {n}: {names:?}"
            );
            if result.is_ok() {
                return;
            }
        }
    }

    // covers: P6
    #[test]
    fn damaged_files_are_kept_under_other_names() {
        let (folder, files) = folder();
        let now = Timestamp::UNIX_EPOCH;
        for text in ["bad", "worse"] {
            files.save(text.as_bytes(), false).unwrap();
            files.quarantine_primary(now).unwrap();
        }
        assert_eq!(
            RealDisk.list_dir(folder.path()).unwrap(),
            [
                "state.json.corrupt-1970-01-01T00-00-00.000Z",
                "state.json.corrupt-1970-01-01T00-00-00.000Z-2"
            ]
        );
    }

    #[test]
    fn a_link_in_the_place_of_the_document_is_unusable_and_not_followed() {
        let (folder, files) = folder();
        std::os::unix::fs::symlink("/etc/hostname", folder.path().join("state.json")).unwrap();
        assert_eq!(files.find().unwrap().primary, FoundFile::Unusable);
    }

    // covers: D7
    #[test]
    fn nothing_is_saved_into_a_directory_that_was_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let state_dir = folder.path().join("state");
        RealDisk.create_dir_private(&state_dir).unwrap();
        let disk::DirLock::Acquired(guard) = RealDisk.lock_dir(&state_dir).unwrap() else {
            panic!("nobody else holds it")
        };
        let files = StateFiles::new(Arc::new(RealDisk), Some(guard), state_dir.clone());
        files.save(b"one", false).unwrap();
        RealDisk.rename(&state_dir, &folder.path().join("away")).unwrap();
        RealDisk.create_dir_private(&state_dir).unwrap();
        assert!(matches!(
            files.save(b"two", true),
            Err(StateFileError::LockLost { .. })
        ));
        assert!(RealDisk.list_dir(&state_dir).unwrap().is_empty());
    }

    #[test]
    fn trimming_keeps_the_end_of_the_log() {
        let (folder, files) = folder();
        let mut log = files.open_log(&NOTHING_IN_DOUBT).unwrap();
        let lines: Vec<super::super::LogBatch> = (1..=3)
            .map(|seq| {
                let mut batch = super::super::LogBatch::default();
                batch.closed(seq);
                batch
            })
            .collect();
        log.append(&lines[0]).unwrap();
        let cut = log.length();
        log.append(&lines[1]).unwrap();
        let mut log = files.trim_log(&log, cut).unwrap();
        log.close(&lines[2]).unwrap();
        let expected = [lines[1].as_bytes(), lines[2].as_bytes()].concat();
        assert_eq!(
            RealDisk.read(&folder.path().join("state.log"), 1000).unwrap(),
            expected
        );
    }
}
