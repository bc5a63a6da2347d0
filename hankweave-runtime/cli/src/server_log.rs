//! The server log, `.hankweave/logs/server.log`: hankweave's own messages in an execution directory (CLI-20).
//!
//! It is opened once this process has locked the directory (L3); earlier messages wait in memory. Before it grows beyond
//! [`LIMIT`], it becomes `server.log.1`, in place of an older one. A log that cannot be written is given up: it must not end a run.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hankweave_runtime::world::disk::{AppendFile, Disk, parent, with_suffix};

/// Largest length of the file in bytes.
const LIMIT: u64 = 8 << 20;

/// Maximum number of bytes that wait for the file to be opened; later text is dropped.
const WAITING: usize = 64 << 10;

/// Log, shared between the subscriber, which writes to it, and the code that opens the directory.
#[derive(Debug, Clone)]
pub(crate) struct ServerLog(Arc<Mutex<Sink>>);

#[derive(Debug)]
enum Sink {
    /// The directory is not locked yet; the messages so far.
    Waiting(Vec<u8>),
    Open(LogFile),
    /// The log could not be written.
    GivenUp,
}

#[derive(Debug)]
struct LogFile {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    file: Box<dyn AppendFile>,
    limit: u64,
}

impl ServerLog {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Mutex::new(Sink::Waiting(Vec::new()))))
    }

    /// Opens the file at `path`, and appends the messages that wait and all later ones to the text of earlier processes.
    pub(crate) fn open(&self, disk: &Arc<dyn Disk>, path: &Path) {
        if let Err(error) = self.open_with(disk, path, LIMIT) {
            // The mutex is free again, so this message can come back to `append`, which drops it; it also goes to standard error.
            tracing::warn!(path = %path.display(), %error, "our own log cannot be written");
        }
    }

    fn open_with(&self, disk: &Arc<dyn Disk>, path: &Path, limit: u64) -> io::Result<()> {
        let mut sink = self.sink();
        let Sink::Waiting(said) = std::mem::replace(&mut *sink, Sink::GivenUp) else {
            return Ok(());
        };
        let mut log = LogFile::open(Arc::clone(disk), path, limit)?;
        log.append(&said)?;
        *sink = Sink::Open(log);
        Ok(())
    }

    /// Appends complete lines.
    pub(crate) fn append(&self, lines: &[u8]) {
        let mut sink = self.sink();
        match &mut *sink {
            Sink::Waiting(said) if said.len() + lines.len() <= WAITING => said.extend_from_slice(lines),
            Sink::Open(log) => {
                // A failure to write the log cannot be logged.
                if log.append(lines).is_err() {
                    *sink = Sink::GivenUp;
                }
            }
            Sink::Waiting(_) | Sink::GivenUp => {}
        }
    }

    fn sink(&self) -> MutexGuard<'_, Sink> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LogFile {
    fn open(disk: Arc<dyn Disk>, path: &Path, limit: u64) -> io::Result<Self> {
        disk.make_private_dirs(parent(path))?;
        let file = disk.open_append(path)?;
        Ok(Self {
            disk,
            path: path.to_owned(),
            file,
            limit,
        })
    }

    fn append(&mut self, lines: &[u8]) -> io::Result<()> {
        let length = self.file.length();
        if length > 0 && length + lines.len() as u64 > self.limit {
            self.disk.rename(&self.path, &with_suffix(&self.path, ".1"))?;
            self.file = self.disk.open_append(&self.path)?;
        }
        self.file.append(lines)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hankweave_runtime::world::disk::RealDisk;

    fn disk() -> Arc<dyn Disk> {
        Arc::new(RealDisk)
    }

    fn read(path: &Path) -> String {
        String::from_utf8(RealDisk.read(path, 1_000).unwrap()).unwrap()
    }

    #[test]
    fn what_was_said_before_the_directory_was_ours_is_in_the_log() {
        let folder = tempfile::tempdir().unwrap();
        let (path, log) = (folder.path().join("logs/server.log"), ServerLog::new());
        log.append(b"before\n");
        log.append(&vec![b'x'; WAITING]);
        log.open(&disk(), &path);
        log.append(b"after\n");
        assert_eq!(read(&path), "before\nafter\n");
        let next = ServerLog::new();
        next.open(&disk(), &path);
        next.append(b"in the next life\n");
        assert_eq!(read(&path), "before\nafter\nin the next life\n");
    }

    // covers: CLI-20
    #[test]
    fn the_log_and_the_one_before_it_are_bounded() {
        let folder = tempfile::tempdir().unwrap();
        let (path, log) = (folder.path().join("server.log"), ServerLog::new());
        log.open_with(&disk(), &path, 10).unwrap();
        for line in [b"one..\n", b"two..\n", b"three\n"] {
            log.append(line);
        }
        assert_eq!(
            (read(&path), read(&with_suffix(&path, ".1"))),
            ("three\n".to_owned(), "two..\n".to_owned())
        );
    }

    // covers: CLI-20
    #[test]
    fn a_log_that_cannot_be_written_is_given_up_and_nothing_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("server.log");
        RealDisk.make_private_dirs(&path).unwrap();
        let log = ServerLog::new();
        log.open(&disk(), &path);
        log.append(b"lost\n");
        assert!(matches!(*log.sink(), Sink::GivenUp));
    }
}
