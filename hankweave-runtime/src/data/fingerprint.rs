//! A short name for the state of the user's data, by which a later run sees that the data has changed.

use std::io;
use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use tokio::time::Instant;

use crate::world::disk::{Disk, FileKind, Metadata};
use crate::world::ids::hex;

/// Maximum depth of nested folders that are read.
const DEPTH: usize = 3;

/// Maximum number of entries of one folder that count.
const NAMES: usize = 100;

/// Bytes of a file that are read at once.
const CHUNK: usize = 1 << 20;

/// Characters of the hash that are kept.
const CHARACTERS: usize = 12;

/// Names of files and folders that programs make, which are not part of the data.
const PASSED_OVER: [&str; 4] = ["node_modules", "__pycache__", "dist", "build"];

/// The state of some data in twelve characters (RUN-8). It covers name, size, time and content of a file, and paths,
/// sizes and times of a folder's contents.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fingerprint {
    hash: String,
    /// Whether there was time to read everything.
    complete: bool,
}

impl Fingerprint {
    /// Reads the data at `path`, a file or folder, for at most about `limit`.
    pub(super) fn of(disk: &dyn Disk, path: &Path, limit: Duration) -> io::Result<Self> {
        let mut reader = FingerprintReader {
            disk,
            hash: Sha256::new(),
            deadline: Instant::now() + limit,
            complete: true,
        };
        let found = disk.metadata_followed(path)?;
        match found.kind {
            FileKind::Directory => reader.folder(path, Path::new(""), 1)?,
            _ => reader.file(path, &found)?,
        }
        Ok(reader.finish())
    }

    /// Whether the data has certainly changed. False if there was no time to read all of the data, now or before.
    pub(super) fn differs_from(&self, other: &Self) -> bool {
        self.complete && other.complete && self.hash != other.hash
    }
}

struct FingerprintReader<'a> {
    disk: &'a dyn Disk,
    hash: Sha256,
    deadline: Instant,
    complete: bool,
}

impl FingerprintReader<'_> {
    /// Adds path, kind, length and time of an entry to the hash.
    fn entry(&mut self, path: &Path, found: &Metadata) {
        self.hash.update(path.as_os_str().as_encoded_bytes());
        let kind = match found.kind {
            FileKind::Directory => 'd',
            _ => 'f',
        };
        let length = match found.kind {
            // The length of a folder depends on the file system, not on the data.
            FileKind::Directory => 0,
            _ => found.length,
        };
        let (seconds, nanoseconds) = found.modified;
        self.hash
            .update(format!("\0{kind} {length} {seconds}.{nanoseconds:09}\n"));
    }

    fn has_time(&mut self) -> bool {
        self.complete &= Instant::now() < self.deadline;
        self.complete
    }

    /// Adds what is inside `folder`, which is at `at` in the data.
    fn folder(&mut self, folder: &Path, at: &Path, depth: usize) -> io::Result<()> {
        let names = self.disk.list_dir(folder)?.into_iter();
        let names = names.filter(|name| {
            let text = name.to_string_lossy();
            !text.starts_with('.') && !PASSED_OVER.contains(&&*text)
        });
        for name in names.take(NAMES) {
            if !self.has_time() {
                return Ok(());
            }
            let (place, path) = (folder.join(&name), at.join(&name));
            // An entry that vanished meanwhile, or a link without a target, is not part of the data.
            let Ok(found) = self.disk.metadata(&place) else {
                continue;
            };
            self.entry(&path, &found);
            if found.kind == FileKind::Directory && depth < DEPTH {
                match self.folder(&place, &path, depth + 1) {
                    Ok(()) => {}
                    Err(error)
                        if matches!(
                            error.kind(),
                            io::ErrorKind::PermissionDenied | io::ErrorKind::NotFound
                        ) => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(())
    }

    fn file(&mut self, path: &Path, found: &Metadata) -> io::Result<()> {
        self.entry(Path::new(path.file_name().unwrap_or_default()), found);
        let mut offset = 0;
        while self.has_time() {
            let chunk = self.disk.read_at(path, offset, CHUNK)?;
            if chunk.is_empty() {
                break;
            }
            offset += chunk.len() as u64;
            self.hash.update(&chunk);
        }
        Ok(())
    }

    fn finish(self) -> Fingerprint {
        Fingerprint {
            hash: hex(&self.hash.finalize()[..CHARACTERS / 2]),
            complete: self.complete,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::Arc;
    use std::time::UNIX_EPOCH;

    use super::*;
    use crate::world::disk::{Fault, FaultyDisk, RealDisk};

    fn of(path: &Path, limit: Duration) -> Fingerprint {
        Fingerprint::of(&RealDisk, path, limit).unwrap()
    }

    const LONG: Duration = Duration::from_secs(60);
    const MILLISECOND: Duration = Duration::from_millis(1);

    // covers: RUN-8
    #[test]
    fn a_fingerprint_changes_with_what_counts_and_with_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::create_dir_all(path("a/b/c")).unwrap();
        fs::write(path("a/one"), "1").unwrap();
        let first = of(folder.path(), LONG);
        assert_eq!((first.hash.len(), first.complete), (12, true));
        for passed_over in [".hidden", "node_modules", "a/b/c/deep"] {
            let time = fs::metadata(path("a/b/c")).unwrap().modified().unwrap();
            fs::write(path(passed_over), "x").unwrap();
            fs::File::open(path("a/b/c")).unwrap().set_modified(time).unwrap();
        }
        assert!(!first.differs_from(&of(folder.path(), LONG)));
        fs::write(path("a/one"), "12").unwrap();
        let longer = of(folder.path(), LONG);
        assert!(first.differs_from(&longer));
        // With the old length, and within the second of the old time.
        let one = fs::File::options().write(true).open(path("a/one")).unwrap();
        let time = one.metadata().unwrap().modified().unwrap();
        let within = time.duration_since(UNIX_EPOCH).unwrap().subsec_millis();
        let other = if within == 0 {
            time + MILLISECOND
        } else {
            time - MILLISECOND
        };
        one.set_modified(other).unwrap();
        assert!(longer.differs_from(&of(folder.path(), LONG)));
        assert_ne!(of(&path("a/one"), LONG), of(&path(".hidden"), LONG));
    }

    /// The folder vanishes after it was listed.
    // covers: RUN-8
    #[test]
    fn a_folder_that_vanishes_meanwhile_is_passed_over() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("a")).unwrap();
        // The last of metadata and list of the data, metadata and list of `a`.
        let fault = Fault::ErrorAt(3, libc::ENOENT);
        let disk = FaultyDisk::new(Arc::new(RealDisk), fault);
        let found = Fingerprint::of(&disk, folder.path(), LONG).unwrap();
        assert_eq!((found, disk.all_operations()), (of(folder.path(), LONG), 4));
    }

    #[test]
    fn without_time_nothing_is_claimed() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("one"), "1").unwrap();
        let hasty = of(folder.path(), Duration::ZERO);
        assert!(!hasty.complete && !hasty.differs_from(&of(folder.path(), LONG)));
    }
}
