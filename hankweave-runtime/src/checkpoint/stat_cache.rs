//! Stat data and blobs of the files of the previous checkpoint, so that unchanged files are not read again.
//!
//! A file counts as unchanged if its size, inode, mode and both times are as they were when it was read. That is not
//! enough for a file that was written at the moment it was read: a second write in one tick of the file system's clock
//! leaves no trace. So only files with times *older* than the start of the walk are remembered; the others are read again
//! next time. The start is measured on the file system itself, as the time of a new file.
//!
//! The cache lives in the repository as one file. A damaged, missing or old file costs time and nothing else, so it is
//! written only once enough has changed.

use std::cmp::Ordering;
use std::collections::{BTreeMap, HashSet, btree_map};
use std::fs::File;
use std::io::{self, Write as _};
use std::iter::Peekable;
use std::path::{Path, PathBuf};

use git2::Oid;

use super::tree::{FileEntry, FileMode, Folders, Listing};
use super::workspace::{FileStat, FileTime};
use super::{ChangeKind, PathChange, TreePath};
use crate::world::disk::{Disk as _, RealDisk, new_file, remove_if_present};

/// The cache file is written once one in this many files differs from its record there.
const WORTH_WRITING: usize = 64;

/// The name of a cache file that is being written.
pub(super) const TEMPORARY: &str = "stat-cache.tmp";

/// Longest cache file that is read, in bytes; it has room for several million files.
const MAX_BYTES: u64 = 1 << 30;

const MAGIC: &[u8] = b"hankweave stat cache 1\n";

/// Contents of the newest checkpoint, and the stat data of its files.
#[derive(Debug, Default)]
pub(super) struct StatCache {
    /// All files of the checkpoint.
    pub(super) files: Listing,
    /// The ids of its folders.
    pub(super) folders: Folders,
    /// Stat data that can be trusted; a file without is read again.
    pub(super) stats: StatMap,
    /// Objects of finished checkpoints, among them all of this one.
    pub(super) durable: HashSet<Oid>,
    /// Number of changes of `stats` since the cache file was written.
    pub(super) unwritten: usize,
}

/// Stat data of files when they were read, and the blobs of their contents.
pub(super) type StatMap = BTreeMap<TreePath, (FileStat, Oid)>;

/// Recognises unchanged files, which must come in the order of their paths. A file out of order is not recognised, which only costs time.
#[derive(Debug)]
pub(super) struct Recognition<'a>(Peekable<btree_map::Iter<'a, TreePath, (FileStat, Oid)>>);

/// A cache file that is being written. It is made just before the walk, so its time is the start of the walk.
#[derive(Debug)]
pub(super) struct NextCache {
    file: File,
    temporary: PathBuf,
    began: FileTime,
}

impl StatCache {
    /// Reads the cache of the repository at `repository`; empty when there is no good one.
    pub(super) fn load(repository: &Path) -> Self {
        let bytes = RealDisk.read(&repository.join("stat-cache"), MAX_BYTES);
        let bytes = bytes.unwrap_or_default();
        decode(&bytes).unwrap_or_default()
    }

    /// Sets the checkpoint of the cache, whose `files` and `folders` are durable.
    pub(super) fn set_checkpoint(&mut self, files: Listing, folders: Folders) {
        self.files = files;
        self.folders = folders;
        self.durable.extend(self.files.blobs());
        self.durable.extend(self.folders.values());
    }

    /// Replaces files and folders with those of a new checkpoint, adds the stats of the files that were read, and removes
    /// the stats of deleted files, which `changes` names. Without `next` the start of the walk is unknown, so the stats of
    /// the files that were read cannot be trusted.
    pub(super) fn update(
        &mut self,
        next: Option<&NextCache>,
        files: Listing,
        read: Vec<(TreePath, FileStat, Oid)>,
        folders: Folders,
        changes: &[PathChange],
    ) {
        for change in changes.iter().filter(|change| change.kind == ChangeKind::Deleted) {
            self.unwritten += usize::from(self.stats.remove(&change.path).is_some());
        }
        self.durable.extend(read.iter().map(|(.., blob)| *blob));
        self.durable.extend(folders.values());
        for (path, stat, blob) in read {
            if next.is_some_and(|next| next.can_trust(&stat)) {
                self.stats.insert(path, (stat, blob));
                self.unwritten += 1;
            } else {
                self.unwritten += usize::from(self.stats.remove(&path).is_some());
            }
        }
        self.files = files;
        self.folders = folders;
    }

    /// The id of the tree of the whole checkpoint.
    pub(super) fn root(&self) -> Option<Oid> {
        self.folders.get(&[][..]).copied()
    }
}

impl<'a> Recognition<'a> {
    /// Begins with the first of `stats`.
    pub(super) fn new(stats: &'a StatMap) -> Self {
        Self(stats.iter().peekable())
    }

    /// Returns the blob of the file at `path` if its stat data are unchanged, and the cached path: a clone of that shares its
    /// bytes, so it costs nothing to keep and to compare.
    pub(super) fn recognise(&mut self, path: &TreePath, stat: &FileStat) -> Option<(&'a TreePath, Oid)> {
        loop {
            let (known, (seen, blob)) = *self.0.peek()?;
            match known.cmp(path) {
                Ordering::Less => self.0.next(),
                Ordering::Equal => return (seen == stat).then_some((known, *blob)),
                Ordering::Greater => return None,
            };
        }
    }
}

impl NextCache {
    /// Begins a new cache file in `repository`, before the walk.
    pub(super) fn start(repository: &Path) -> io::Result<Self> {
        let temporary = repository.join(TEMPORARY);
        remove_if_present(&RealDisk, &temporary)?;
        let file = new_file(&temporary, 0o600)?;
        let stat = rustix::fs::fstat(&file)?;
        // Without a time no stat data can be trusted: no file is older than the earliest time.
        let began = FileStat::of(&stat).map_or(FileTime(i64::MIN, 0), |stat| stat.modified);
        Ok(Self {
            file,
            temporary,
            began,
        })
    }

    /// Whether any later change of a file that had `stat` when it was read will change these stat data.
    pub(super) fn can_trust(&self, stat: &FileStat) -> bool {
        stat.modified < self.began && stat.changed < self.began
    }

    /// Writes `cache` and gives the file its name, if enough has changed.
    pub(super) fn finish(mut self, cache: &mut StatCache) -> io::Result<()> {
        if cache.unwritten == 0 || cache.unwritten < cache.files.len() / WORTH_WRITING {
            return Ok(());
        }
        self.file.write_all(&encode(cache))?;
        RealDisk.rename(&self.temporary, &self.temporary.with_file_name("stat-cache"))?;
        cache.unwritten = 0;
        Ok(())
    }
}

impl Drop for NextCache {
    fn drop(&mut self) {
        // After a rename the temporary file does not exist; otherwise the next start removes what cannot be removed now.
        let _ = RealDisk.remove_file(&self.temporary);
    }
}

fn encode(cache: &StatCache) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(cache.files.len() * 128 + cache.folders.len() * 64);
    bytes.extend_from_slice(MAGIC);
    put_u64(&mut bytes, cache.files.len() as u64);
    for (path, entry) in cache.files.as_slice() {
        put_text(&mut bytes, path.as_bytes());
        put_u64(&mut bytes, u64::from(entry.mode.to_git()));
        bytes.extend_from_slice(entry.blob.as_bytes());
        let stat = cache.stats.get(path).map(|(stat, _)| stat);
        put_u64(&mut bytes, u64::from(stat.is_some()));
        if let Some(stat) = stat {
            put_stat(&mut bytes, stat);
        }
    }
    put_u64(&mut bytes, cache.folders.len() as u64);
    for (folder, tree) in &cache.folders {
        put_text(&mut bytes, folder);
        bytes.extend_from_slice(tree.as_bytes());
    }
    let checksum = crc32fast::hash(&bytes);
    bytes.extend_from_slice(&checksum.to_le_bytes());
    bytes
}

fn put_u64(bytes: &mut Vec<u8>, number: u64) {
    bytes.extend_from_slice(&number.to_le_bytes());
}

fn put_text(bytes: &mut Vec<u8>, text: &[u8]) {
    put_u64(bytes, text.len() as u64);
    bytes.extend_from_slice(text);
}

fn put_stat(bytes: &mut Vec<u8>, stat: &FileStat) {
    for number in [stat.size, stat.inode] {
        put_u64(bytes, number);
    }
    for FileTime(seconds, nanoseconds) in [stat.modified, stat.changed] {
        bytes.extend_from_slice(&seconds.to_le_bytes());
        put_u64(bytes, u64::from(nanoseconds));
    }
}

/// Reads what [`encode`] wrote; `None` when it is anything else.
fn decode(bytes: &[u8]) -> Option<StatCache> {
    let (body, checksum) = bytes.split_last_chunk::<4>()?;
    if crc32fast::hash(body).to_le_bytes() != *checksum {
        return None;
    }
    let mut input = ByteCursor(body.strip_prefix(MAGIC)?);
    let (mut files, mut folders, mut stats) = (Vec::new(), Folders::new(), StatMap::new());
    for _ in 0..input.u64()? {
        let path = TreePath::new(input.text()?).ok()?;
        let mode = FileMode::from_git(u32::try_from(input.u64()?).ok()?)?;
        let blob = input.oid()?;
        if input.u64()? == 1 {
            stats.insert(path.clone(), (input.stat(mode)?, blob));
        }
        files.push((path, FileEntry { mode, blob }));
    }
    for _ in 0..input.u64()? {
        let folder = input.text()?.into();
        folders.insert(folder, input.oid()?);
    }
    let mut cache = StatCache {
        stats,
        ..StatCache::default()
    };
    cache.set_checkpoint(files.into_iter().collect(), folders);
    Some(cache)
}

struct ByteCursor<'a>(&'a [u8]);

impl<'a> ByteCursor<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    fn u64(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.take(8)?.try_into().ok()?))
    }

    fn text(&mut self) -> Option<&'a [u8]> {
        let length = usize::try_from(self.u64()?).ok()?;
        self.take(length)
    }

    fn oid(&mut self) -> Option<Oid> {
        Oid::from_bytes(self.take(20)?).ok()
    }

    fn stat(&mut self, mode: FileMode) -> Option<FileStat> {
        let (size, inode) = (self.u64()?, self.u64()?);
        Some(FileStat {
            mode,
            size,
            inode,
            modified: self.time()?,
            changed: self.time()?,
        })
    }

    fn time(&mut self) -> Option<FileTime> {
        let seconds = i64::from_le_bytes(self.take(8)?.try_into().ok()?);
        Some(FileTime(seconds, u32::try_from(self.u64()?).ok()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cache() -> StatCache {
        let path = TreePath::new(b"a/\xff").unwrap();
        let blob = Oid::from_bytes(&[7; 20]).unwrap();
        let (mode, modified, changed) = (FileMode::Executable, FileTime(-5, 999_999_999), FileTime(6, 0));
        let stat = FileStat {
            mode,
            size: 3,
            inode: 4,
            modified,
            changed,
        };
        let mut cache = StatCache {
            stats: StatMap::from([(path.clone(), (stat, blob))]),
            ..StatCache::default()
        };
        let files = [(path, FileEntry { mode, blob })];
        cache.set_checkpoint(
            files.into_iter().collect(),
            Folders::from([(Box::default(), blob)]),
        );
        cache
    }

    #[test]
    fn a_cache_is_read_back_as_it_was() {
        let read = decode(&encode(&cache())).unwrap();
        assert_eq!(
            (read.files, read.folders, read.stats),
            (cache().files, cache().folders, cache().stats)
        );
    }

    #[test]
    fn a_damaged_cache_is_not_used() {
        let bytes = encode(&cache());
        for length in 0..bytes.len() {
            assert!(decode(&bytes[..length]).is_none(), "{length}");
        }
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            assert!(decode(&damaged).is_none(), "{at}");
        }
    }

    #[test]
    fn a_file_written_while_the_walk_began_is_not_trusted() {
        let folder = tempfile::tempdir().unwrap();
        let next = NextCache::start(folder.path()).unwrap();
        let FileTime(seconds, nanoseconds) = next.began;
        let older = FileTime(seconds - 1, nanoseconds);
        let stat = |modified, changed| FileStat {
            mode: FileMode::Regular,
            size: 1,
            inode: 1,
            modified,
            changed,
        };
        assert!(next.can_trust(&stat(older, older)));
        assert!(!next.can_trust(&stat(older, next.began)));
        assert!(!next.can_trust(&stat(next.began, older)));
    }
}
