//! The raw output of an agent in a file of its own.

use std::io;
use std::path::{Path, PathBuf};

use crate::world::disk::{AppendFile, Disk, parent};

/// Number of names that are tried for the log of one codon; each attempt of the codon has a log of its own.
const MAX_NAMES: u32 = 10_000;

const LIMIT_NOTICE: &[u8] = b"\n[log limit reached; the rest was not written]\n";

/// Copies output into a file, up to a limit.
#[derive(Debug)]
pub(super) struct Log {
    path: PathBuf,
    /// `None` after the limit was reached or a write failed.
    file: Option<Box<dyn AppendFile>>,
    /// Bytes that may still be written.
    left: u64,
}

impl Log {
    /// Makes a new file at `path`, or at the next free name: `x.log`, `x-2.log`, and so on. An existing entry is never opened,
    /// so no link is followed (S10, X5).
    pub(super) fn create(disk: &dyn Disk, path: &Path, limit: u64) -> io::Result<Self> {
        disk.make_private_dirs(parent(path))?;
        let mut number = 1;
        loop {
            let path = numbered(path, number);
            match disk.create_append(&path) {
                Ok(file) => {
                    return Ok(Self {
                        path,
                        file: Some(file),
                        left: limit,
                    });
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && number < MAX_NAMES => {
                    number += 1;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Opens the file at `path` again, to append to the output of an earlier process.
    pub(super) fn reopen(disk: &dyn Disk, path: &Path, limit: u64) -> io::Result<Self> {
        let file = disk.open_append(path)?;
        Ok(Self {
            path: path.to_owned(),
            left: limit.saturating_sub(file.length()),
            file: Some(file),
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Appends `chunk`. Blocks. A log that cannot be written must not end the agent's work, so a failure is
    /// only reported to `tracing`.
    pub(super) fn append(&mut self, chunk: &[u8]) {
        let Some(file) = &mut self.file else { return };
        let fits = usize::try_from(self.left).unwrap_or(usize::MAX).min(chunk.len());
        self.left -= fits as u64;
        let is_full = fits < chunk.len();
        let mut written = file.write_all(&chunk[..fits]);
        if is_full {
            written = written.and_then(|()| file.write_all(LIMIT_NOTICE));
        }
        if let Err(error) = &written {
            tracing::warn!(path = %self.path.display(), %error, "failed to write the agent's log");
        }
        if is_full || written.is_err() {
            self.file = None;
        }
    }
}

fn numbered(path: &Path, number: u32) -> PathBuf {
    if number == 1 {
        return path.to_owned();
    }
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let extension = path.extension().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!("{stem}-{number}.{extension}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::disk::RealDisk;

    fn create(path: &Path, limit: u64) -> Log {
        Log::create(&RealDisk, path, limit).unwrap()
    }

    // covers: S10
    #[test]
    fn a_second_try_gets_its_own_file() {
        let folder = tempfile::tempdir().unwrap();
        let wanted = folder.path().join("runs/review-1-claude.log");
        let first = create(&wanted, 10);
        let second = create(&wanted, 10);
        assert_eq!(first.path(), wanted);
        assert_eq!(second.path(), folder.path().join("runs/review-1-claude-2.log"));
    }

    // covers: S10
    #[test]
    fn a_log_stops_at_its_limit_with_a_notice() {
        let folder = tempfile::tempdir().unwrap();
        let mut log = create(&folder.path().join("a.log"), 6);
        for chunk in [b"1234", b"5678", b"9012"] {
            log.append(chunk);
        }
        let text = std::fs::read_to_string(log.path()).unwrap();
        assert_eq!(text, "123456\n[log limit reached; the rest was not written]\n");
    }

    #[test]
    fn a_log_goes_on_behind_what_is_there_and_up_to_the_same_limit() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.log");
        create(&path, 6).append(b"1234");
        let mut log = Log::reopen(&RealDisk, &path, 6).unwrap();
        log.append(b"5678");
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text, "123456\n[log limit reached; the rest was not written]\n");
    }

    // covers: S10
    #[test]
    fn a_planted_link_is_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("target");
        std::os::unix::fs::symlink(&target, folder.path().join("a.log")).unwrap();
        let mut log = create(&folder.path().join("a.log"), 100);
        log.append(b"x");
        assert!(!target.exists());
        assert_eq!(log.path(), folder.path().join("a-2.log"));
    }
}
