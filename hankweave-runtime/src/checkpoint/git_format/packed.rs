//! Lengths of objects in packs, for the [reader](super::read).
//!
//! libgit2 reads an object into memory as a whole, so its length is checked in advance. The kind of the object is checked as
//! well, since `git2` panics at a kind that does not exist.

use std::collections::HashSet;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufReader, Read as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use flate2::read::ZlibDecoder;
use git2::Oid;

use crate::checkpoint::object::damaged;
use crate::world::disk::{Disk as _, RealDisk, open_regular};

/// Offset of the running counts in an index.
const COUNTS: u64 = 8;
/// Offset of the ids in an index: right after the counts.
const IDS: u64 = COUNTS + 256 * 4;

/// Bytes of a pack that are read at once: kind and length of an object, and the beginning of a delta.
const BEGINNING: usize = 64;

/// The packs of a repository, each opened when it is needed first.
pub(super) struct OpenPacks {
    folder: PathBuf,
    /// File names of the indexes that were opened, or are invalid.
    seen: HashSet<OsString>,
    packs: Vec<OpenPack>,
}

struct OpenPack {
    index: PackIndex,
    path: PathBuf,
    /// Opened for the first object that is in it.
    file: Option<File>,
}

/// Contents of an index, without the offsets: those are read one by one.
pub(super) struct PackIndex {
    file: File,
    /// For each first byte, the number of objects whose id begins with it or a smaller one.
    counts: [u32; 256],
    /// The objects, in order.
    pub(super) ids: Vec<Oid>,
}

impl OpenPacks {
    /// Returns the packs in the folder of objects; none is opened yet.
    pub(super) fn of(objects: &Path) -> Self {
        Self {
            folder: objects.join("pack"),
            seen: HashSet::new(),
            packs: Vec::new(),
        }
    }

    /// Returns the most bytes that libgit2 needs at once for the object `id`: the largest length in any pack that has the
    /// object. `None` when no pack has it.
    ///
    /// Another process may write a pack meanwhile, so the folder is listed again for an object that no pack has.
    pub(super) fn length(&mut self, id: Oid) -> io::Result<Option<u64>> {
        match self.longest(id)? {
            None if self.open_new()? => self.longest(id),
            found => Ok(found),
        }
    }

    fn longest(&mut self, id: Oid) -> io::Result<Option<u64>> {
        let mut longest = None;
        for pack in &mut self.packs {
            longest = longest.max(pack.length(id)?);
        }
        Ok(longest)
    }

    /// Opens the indexes that are new in the folder. Returns whether there were any.
    fn open_new(&mut self) -> io::Result<bool> {
        let names = match RealDisk.list_dir(&self.folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            names => names?,
        };
        let before = self.packs.len();
        for name in names {
            let path = self.folder.join(&name);
            if path.extension().is_none_or(|extension| extension != "idx") || !self.seen.insert(name) {
                continue;
            }
            if let Some(index) = PackIndex::open(&path)? {
                self.packs.push(OpenPack {
                    index,
                    path: path.with_extension("pack"),
                    file: None,
                });
            }
        }
        Ok(self.packs.len() > before)
    }
}

impl OpenPack {
    fn length(&mut self, id: Oid) -> io::Result<Option<u64>> {
        let Some(offset) = none_if_torn(self.index.find(id))? else {
            return Ok(None);
        };
        let file = match &mut self.file {
            Some(file) => file,
            closed => {
                #[cfg(test)]
                super::counts::PACKS.set(super::counts::PACKS.get() + 1);
                closed.insert(open_regular(&self.path)?)
            }
        };
        length_at(file, offset, id).map(Some)
    }
}

/// Treats an index that ends too early as absent, as libgit2 does; the other packs are still good.
fn none_if_torn<T>(found: io::Result<Option<T>>) -> io::Result<Option<T>> {
    match found {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
        found => found,
    }
}

impl PackIndex {
    /// Reads the index at `path`; `None` when it is no index, or a torn one.
    pub(super) fn open(path: &Path) -> io::Result<Option<Self>> {
        none_if_torn(Self::read(open_regular(path)?))
    }

    fn read(file: File) -> io::Result<Option<Self>> {
        if read_at(&file, 0)? != *b"\xfftOc\0\0\0\x02" {
            return Ok(None);
        }
        let counts: [u8; 1024] = read_at(&file, COUNTS)?;
        let (counts, _) = counts.as_chunks::<4>();
        let counts: [u32; 256] = std::array::from_fn(|first| u32::from_be_bytes(counts[first]));
        let all = u64::from(counts[255]);
        if !counts.is_sorted() || all * 28 > file.metadata()?.len() {
            return Ok(None);
        }
        let mut ids = vec![0; all as usize * 20];
        file.read_exact_at(&mut ids, IDS)?;
        let ids = ids.chunks_exact(20).map(Oid::from_bytes);
        let ids = ids.collect::<Result<_, _>>().map_err(io::Error::other)?;
        Ok(Some(Self { file, counts, ids }))
    }

    /// Returns the offset of the object `id` in its pack.
    fn find(&self, id: Oid) -> io::Result<Option<u64>> {
        let first = usize::from(id.as_bytes()[0]);
        let before = first.checked_sub(1).map_or(0, |before| self.counts[before]) as usize;
        let same = &self.ids[before..self.counts[first] as usize];
        let Ok(place) = same.binary_search(&id) else {
            return Ok(None);
        };
        let all = self.ids.len() as u64;
        // Ids and checksums come before the offsets, and the long offsets after them.
        let short = IDS + all * 24 + (before + place) as u64 * 4;
        let short = u64::from(u32::from_be_bytes(read_at(&self.file, short)?));
        match short.checked_sub(1 << 31) {
            None => Ok(Some(short)),
            Some(long) => read_at(&self.file, IDS + all * 28 + long * 8)
                .map(u64::from_be_bytes)
                .map(Some),
        }
    }
}

fn read_at<const N: usize>(file: &File, at: u64) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    file.read_exact_at(&mut bytes, at).map(|()| bytes)
}

/// Reads a file from the offset `at` on, without the position that all readers of the file share.
struct ReadFrom<'f> {
    file: &'f File,
    at: u64,
}

impl io::Read for ReadFrom<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read_at(bytes, self.at)?;
        self.at += read as u64;
        Ok(read)
    }
}

/// Returns the length of the object at `offset`. A delta, which only says how an object differs from another, begins with
/// the lengths of both objects: then the longer one.
fn length_at(pack: &File, offset: u64, id: Oid) -> io::Result<u64> {
    let mut pack = BufReader::with_capacity(
        BEGINNING,
        ReadFrom {
            file: pack,
            at: offset,
        },
    );
    let mut next = || {
        let mut byte = [0];
        pack.read_exact(&mut byte).map(|()| byte[0])
    };
    let head = next()?;
    let mut length = u64::from(head & 0x0f);
    if head & 0x80 != 0 {
        length |= number(&mut next)?
            .checked_mul(16)
            .ok_or_else(|| damaged(id, "is too long"))?;
    }
    match head >> 4 & 7 {
        1..=4 => return Ok(length),
        // A delta to an object in this pack: skips the distance to that object.
        6 => while next()? & 0x80 != 0 {},
        // A delta to any object: skips the id of that object.
        7 => pack.read_exact(&mut [0; 20])?,
        _ => return Err(damaged(id, "is of a kind that does not exist")),
    }
    let mut delta = ZlibDecoder::new_with_buf(pack, vec![0; BEGINNING]);
    let mut next = || {
        let mut byte = [0];
        delta.read_exact(&mut byte).map(|()| byte[0])
    };
    Ok(number(&mut next)?.max(number(&mut next)?))
}

/// Reads a number in groups of seven bits, lowest first.
fn number(next: &mut impl FnMut() -> io::Result<u8>) -> io::Result<u64> {
    let mut value = 0;
    for shift in (0..63).step_by(7) {
        let byte = next()?;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err(io::ErrorKind::InvalidData.into())
}
