//! How long objects in packs are.
//!
//! libgit2 takes an object into memory as a whole, so its length is looked at before; and the kind, since `git2` panics at one that does not exist.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use flate2::read::ZlibDecoder;
use git2::Oid;

use crate::checkpoint::object::damaged;
use crate::world::disk::{Disk as _, RealDisk, open_regular};

/// Where the running counts of an index begin, and where they end and the ids begin.
const COUNTS: u64 = 8;
const IDS: u64 = COUNTS + 256 * 4;

/// The most bytes that libgit2 needs at once for the object `id`, of all packs that have it; `None` when none has.
pub(super) fn length(repository: &Path, id: Oid) -> io::Result<Option<u64>> {
    let folder = repository.join("objects/pack");
    let names = match RealDisk.list_dir(&folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        names => names?,
    };
    let mut longest = None;
    for index in names.iter().map(|name| folder.join(name)) {
        if index.extension().is_some_and(|extension| extension == "idx")
            && let Some(offset) = unless_torn(find(&open_regular(&index)?, id))?
        {
            let pack = open_regular(&index.with_extension("pack"))?;
            longest = longest.max(Some(length_at(pack, offset, id)?));
        }
    }
    Ok(longest)
}

/// An index that ends too early is none to libgit2 either; the other packs are still good.
fn unless_torn<T>(found: io::Result<Option<T>>) -> io::Result<Option<T>> {
    match found {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
        found => found,
    }
}

/// Where in its pack the object `id` begins, by the pack's index.
fn find(index: &File, id: Oid) -> io::Result<Option<u64>> {
    let number = |at| read_at(index, at).map(u32::from_be_bytes).map(u64::from);
    let count_to = |first: u8| number(COUNTS + u64::from(first) * 4);
    if read_at(index, 0)? != *b"\xfftOc\0\0\0\x02" {
        return Ok(None);
    }
    let first = id.as_bytes()[0];
    let before = first.checked_sub(1).map_or(Ok(0), count_to)?;
    let (up_to, all) = (count_to(first)?, count_to(u8::MAX)?);
    if before > up_to || up_to > all || all * 28 > index.metadata()?.len() {
        return Ok(None);
    }
    let mut ids = vec![0; (up_to - before) as usize * 20];
    index.read_exact_at(&mut ids, IDS + before * 20)?;
    let Some(place) = ids.chunks_exact(20).position(|other| other == id.as_bytes()) else {
        return Ok(None);
    };
    // Ids and checksums come before the offsets, and the long offsets after them.
    let short = number(IDS + all * 24 + (before + place as u64) * 4)?;
    match short.checked_sub(1 << 31) {
        None => Ok(Some(short)),
        Some(long) => read_at(index, IDS + all * 28 + long * 8)
            .map(u64::from_be_bytes)
            .map(Some),
    }
}

/// The objects that an index lists; `None` when it is no index, or a torn one.
pub(super) fn ids(index: &Path) -> io::Result<Option<Vec<Oid>>> {
    let index = open_regular(index)?;
    unless_torn(read_ids(&index))
}

fn read_ids(index: &File) -> io::Result<Option<Vec<Oid>>> {
    if read_at(index, 0)? != *b"\xfftOc\0\0\0\x02" {
        return Ok(None);
    }
    let all = u64::from(u32::from_be_bytes(read_at(index, COUNTS + 255 * 4)?));
    if all * 28 > index.metadata()?.len() {
        return Ok(None);
    }
    let mut ids = vec![0; all as usize * 20];
    index.read_exact_at(&mut ids, IDS)?;
    let ids = ids.chunks_exact(20).map(Oid::from_bytes);
    ids.collect::<Result<_, _>>().map(Some).map_err(io::Error::other)
}

fn read_at<const N: usize>(file: &File, at: u64) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    file.read_exact_at(&mut bytes, at).map(|()| bytes)
}

/// The length of the object at `offset`, or of what it is a delta to if that is longer.
fn length_at(mut pack: File, offset: u64, id: Oid) -> io::Result<u64> {
    pack.seek(SeekFrom::Start(offset))?;
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
        // How far before this one the object is from which it differs.
        6 => while next()? & 0x80 != 0 {},
        // The name of that one.
        7 => drop(pack.seek_relative(20)?),
        _ => return Err(damaged(id, "is of a kind that does not exist")),
    }
    let mut delta = ZlibDecoder::new(pack);
    let mut next = || {
        let mut byte = [0];
        delta.read_exact(&mut byte).map(|()| byte[0])
    };
    Ok(number(&mut next)?.max(number(&mut next)?))
}

/// A number in groups of seven bits, lowest first.
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
