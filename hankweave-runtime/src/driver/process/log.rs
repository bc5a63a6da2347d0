//! The raw output of an agent in a file of its own.

use std::fs::{DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use tokio::fs::File;
use tokio::io::AsyncWriteExt;

/// How often one codon may be tried before there are no names left.
const MAX_TRIES: u32 = 10_000;

/// Copies output into a file, up to a limit.
#[derive(Debug)]
pub(super) struct Log {
    path: PathBuf,
    /// `None` after the limit was reached or a write failed.
    file: Option<File>,
    left: u64,
}

impl Log {
    /// Makes a new file at `path`, or at the next free name behind it: `x.log`, `x-2.log`, and so on.
    pub(super) fn create(path: &Path, limit: u64) -> io::Result<Self> {
        if let Some(folder) = path.parent() {
            private_folder(folder)?;
        }
        let mut attempt = 1;
        loop {
            let path = numbered(path, attempt);
            match private_file().open(&path) {
                Ok(file) => {
                    let file = Some(File::from_std(file));
                    return Ok(Self {
                        path,
                        file,
                        left: limit,
                    });
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && attempt < MAX_TRIES => {
                    attempt += 1
                }
                Err(error) => return Err(error),
            }
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Appends `chunk`. A log that cannot be written must not end the agent's work, so a failure is only logged.
    pub(super) async fn append(&mut self, chunk: &[u8]) {
        let Some(file) = &mut self.file else { return };
        let fits = usize::try_from(self.left).unwrap_or(usize::MAX).min(chunk.len());
        self.left -= fits as u64;
        let mut written = file.write_all(&chunk[..fits]).await;
        let full = fits < chunk.len();
        if full && written.is_ok() {
            written = file
                .write_all(b"\n[log limit reached; the rest was not written]\n")
                .await;
        }
        if full || written.is_err() {
            self.close(written).await;
        }
    }

    /// Writes out what is still in memory.
    pub(super) async fn finish(&mut self) {
        self.close(Ok(())).await;
    }

    async fn close(&mut self, mut written: io::Result<()>) {
        if let Some(mut file) = self.file.take() {
            written = written.and(file.flush().await);
        }
        if let Err(error) = written {
            tracing::warn!(path = %self.path.display(), %error, "failed to write the agent's log");
        }
    }
}

/// Makes `folder` and its missing parents, for this user alone.
pub(in crate::driver) fn private_folder(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

/// Writes a new file for this user alone, or replaces the one that is there.
pub(in crate::driver) fn write_private(path: &Path, content: &str) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    private_file().open(path)?.write_all(content.as_bytes())
}

/// A file that did not exist, so that no link is followed ("reliability and security", rules S10 and X5).
fn private_file() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600);
    options
}

fn numbered(path: &Path, attempt: u32) -> PathBuf {
    if attempt == 1 {
        return path.to_owned();
    }
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let extension = path.extension().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!("{stem}-{attempt}.{extension}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_second_try_gets_its_own_file() {
        let folder = tempfile::tempdir().unwrap();
        let wanted = folder.path().join("runs/review-1-claude.log");
        let first = Log::create(&wanted, 10).unwrap();
        let second = Log::create(&wanted, 10).unwrap();
        assert_eq!(first.path(), wanted);
        assert_eq!(second.path(), folder.path().join("runs/review-1-claude-2.log"));
    }

    #[tokio::test]
    async fn a_log_stops_at_its_limit_with_a_notice() {
        let folder = tempfile::tempdir().unwrap();
        let mut log = Log::create(&folder.path().join("a.log"), 6).unwrap();
        for chunk in [b"1234", b"5678", b"9012"] {
            log.append(chunk).await;
        }
        log.finish().await;
        let text = std::fs::read_to_string(log.path()).unwrap();
        assert_eq!(text, "123456\n[log limit reached; the rest was not written]\n");
    }

    #[tokio::test]
    async fn a_planted_link_is_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("target");
        std::os::unix::fs::symlink(&target, folder.path().join("a.log")).unwrap();
        let mut log = Log::create(&folder.path().join("a.log"), 100).unwrap();
        log.append(b"x").await;
        log.finish().await;
        assert!(!target.exists());
        assert_eq!(log.path(), folder.path().join("a-2.log"));
    }
}
