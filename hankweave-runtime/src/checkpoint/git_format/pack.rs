//! Packs, written object by object: many objects in one file, and an index that lists them.
//!
//! A loose object costs a file that is made, renamed and synced; thousands of them take longer than everything else in a
//! first checkpoint.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, BufWriter, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use git2::{ObjectType, Oid};
use sha1_smol::Sha1;

use super::compress::Compressor;
use crate::world::disk::{Disk as _, RealDisk, new_file, remove_if_present};
use crate::world::ids::hex;

/// Distinguishes the packs that a process has started to write.
static BEGUN: AtomicU64 = AtomicU64::new(0);

/// Header of a pack; the number of objects follows.
const HEADER: &[u8; 12] = b"PACK\0\0\0\x02\0\0\0\0";

/// Offsets from here on do not fit into the short table of an index.
const LONG_OFFSET: u64 = 1 << 31;

/// One object in the form in which a pack holds it.
#[derive(Debug)]
pub(super) struct PackedObject {
    id: Oid,
    /// Kind and length, then the compressed content.
    bytes: Vec<u8>,
}

/// A pack that is being written. If it is dropped before [`finish`](Self::finish), no file is left.
#[derive(Debug)]
pub(super) struct PackFile {
    /// The folder of packs.
    folder: PathBuf,
    /// Path of the pack until it is finished.
    temporary: PathBuf,
    file: BufWriter<File>,
    /// Bytes written so far, which is the offset of the next object.
    length: u64,
    entries: Vec<IndexEntry>,
    ids: HashSet<Oid>,
}

#[derive(Debug)]
struct IndexEntry {
    id: Oid,
    /// CRC-32 of the packed object.
    checksum: u32,
    /// Offset of the object in the pack, in bytes.
    offset: u64,
}

impl PackedObject {
    /// Packs `contents`, whose name is `id`.
    pub(super) fn new(
        compressor: &mut Compressor,
        id: Oid,
        kind: ObjectType,
        contents: &[u8],
    ) -> io::Result<Self> {
        let mut bytes = Vec::with_capacity(contents.len() / 2 + 64);
        put_header(&mut bytes, kind, contents.len());
        compressor.append(&[], contents, &mut bytes)?;
        Ok(Self { id, bytes })
    }
}

impl PackFile {
    /// Begins a pack in the folder of objects `objects`.
    pub(super) fn create(objects: &Path) -> io::Result<Self> {
        let folder = objects.join("pack");
        RealDisk.make_private_dirs(&folder)?;
        let (temporary, file) = create_temporary(&folder)?;
        let mut file = BufWriter::with_capacity(1 << 18, file);
        // The number of objects is filled in at the end.
        file.write_all(HEADER)?;
        Ok(Self {
            folder,
            temporary,
            file,
            length: HEADER.len() as u64,
            entries: Vec::new(),
            ids: HashSet::new(),
        })
    }

    pub(super) fn contains(&self, id: Oid) -> bool {
        self.ids.contains(&id)
    }

    /// Appends an object, unless the pack has it already.
    pub(super) fn add(&mut self, object: &PackedObject) -> io::Result<()> {
        if !self.ids.insert(object.id) {
            return Ok(());
        }
        self.file.write_all(&object.bytes)?;
        self.entries.push(IndexEntry::of(object, self.length));
        self.length += object.bytes.len() as u64;
        Ok(())
    }

    /// Returns the length that a pack of these objects and its index would have together, in bytes.
    pub(super) fn length_with<E>(
        objects: impl IntoIterator<Item = Result<PackedObject, E>>,
    ) -> Result<u64, E> {
        let (mut offset, mut entries) = (HEADER.len() as u64, Vec::new());
        for object in objects {
            let object = object?;
            entries.push(IndexEntry::of(&object, offset));
            offset += object.bytes.len() as u64;
        }
        Ok(match entries.is_empty() {
            true => 0,
            false => offset + 20 + encode_index(&mut entries, &[0; 20]).len() as u64,
        })
    }

    /// Writes the number of objects, the checksum and the index, and gives pack and index their names, durably. Returns the
    /// length of both together, in bytes. Without objects nothing is kept.
    pub(super) fn finish(mut self) -> io::Result<u64> {
        if self.entries.is_empty() {
            return Ok(0);
        }
        self.file.flush()?;
        let count = u32::try_from(self.entries.len()).map_err(io::Error::other)?;
        let file = self.file.get_mut();
        file.seek(SeekFrom::Start(8))?;
        file.write_all(&count.to_be_bytes())?;
        let checksum = checksum_of(file)?;
        file.write_all(&checksum)?;
        file.sync_all()?;
        let name = |extension: &str| self.folder.join(format!("pack-{}.{extension}", hex(&checksum)));
        let index = self.temporary.with_extension("idx");
        // A crash may have left an index of this temporary name, but no pack of its own.
        remove_if_present(&RealDisk, &index)?;
        let mut index_file = new_file(&index, 0o600)?;
        let encoded = encode_index(&mut self.entries, &checksum);
        index_file.write_all(&encoded)?;
        index_file.sync_all()?;
        // The pack first: a reader that finds the index must find the pack.
        RealDisk.rename(&self.temporary, &name("pack"))?;
        RealDisk.rename(&index, &name("idx"))?;
        RealDisk.sync_dir(&self.folder)?;
        Ok(self.length + 20 + encoded.len() as u64)
    }
}

impl IndexEntry {
    fn of(object: &PackedObject, offset: u64) -> Self {
        Self {
            id: object.id,
            checksum: crc32fast::hash(&object.bytes),
            offset,
        }
    }
}

impl Drop for PackFile {
    fn drop(&mut self) {
        // After `finish` these files do not exist; otherwise the next start removes what cannot be removed now.
        let _ = RealDisk.remove_file(&self.temporary);
        let _ = RealDisk.remove_file(&self.temporary.with_extension("idx"));
    }
}

/// Creates the file of a pack that is being written. A push and a run may each write one at the same time.
fn create_temporary(folder: &Path) -> io::Result<(PathBuf, File)> {
    loop {
        let number = BEGUN.fetch_add(1, Ordering::Relaxed);
        let path = folder.join(format!("tmp_pack_hankweave_{}_{number}", std::process::id()));
        match new_file(&path, 0o600) {
            // The file is of a process with our process id: one that crashed, or one in another container.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            made => return Ok((path, made?)),
        }
    }
}

/// Appends kind and length of an object: first the kind and four bits of the length, then seven bits a byte, lowest first.
fn put_header(bytes: &mut Vec<u8>, kind: ObjectType, length: usize) {
    let kind: u8 = match kind {
        ObjectType::Commit => 1,
        ObjectType::Tree => 2,
        ObjectType::Tag => 4,
        _ => 3,
    };
    let mut rest = length >> 4;
    let mut byte = kind << 4 | (length & 0x0f) as u8;
    while rest > 0 {
        bytes.push(byte | 0x80);
        byte = (rest & 0x7f) as u8;
        rest >>= 7;
    }
    bytes.push(byte);
}

/// Returns the SHA-1 of the whole `file`, and leaves its position at the end.
fn checksum_of(file: &mut File) -> io::Result<[u8; 20]> {
    file.seek(SeekFrom::Start(0))?;
    let (mut sum, mut buffer) = (Sha1::new(), vec![0; 1 << 18]);
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(sum.digest().bytes()),
            length => sum.update(&buffer[..length]),
        }
    }
}

/// Returns the index, of version 2, of the pack with the checksum `pack`. Sorts the entries.
fn encode_index(entries: &mut [IndexEntry], pack: &[u8; 20]) -> Vec<u8> {
    entries.sort_unstable_by(|left, right| left.id.as_bytes().cmp(right.id.as_bytes()));
    let mut bytes = Vec::with_capacity(8 + 1_024 + entries.len() * 28 + 40);
    bytes.extend_from_slice(b"\xfftOc\0\0\0\x02");
    for first in 0..=u8::MAX {
        let up_to = entries.partition_point(|entry| entry.id.as_bytes()[0] <= first);
        bytes.extend_from_slice(&(up_to as u32).to_be_bytes());
    }
    for entry in &*entries {
        bytes.extend_from_slice(entry.id.as_bytes());
    }
    for entry in &*entries {
        bytes.extend_from_slice(&entry.checksum.to_be_bytes());
    }
    let mut long = Vec::new();
    for entry in &*entries {
        let short = if entry.offset < LONG_OFFSET {
            entry.offset as u32
        } else {
            long.push(entry.offset);
            1 << 31 | (long.len() - 1) as u32
        };
        bytes.extend_from_slice(&short.to_be_bytes());
    }
    for offset in long {
        bytes.extend_from_slice(&offset.to_be_bytes());
    }
    bytes.extend_from_slice(pack);
    let own = Sha1::from(&bytes).digest().bytes();
    bytes.extend_from_slice(&own);
    bytes
}

#[cfg(test)]
mod tests {
    use std::fs;

    use git2::Repository;

    use super::*;

    fn entries(folder: &Path) -> Vec<String> {
        let names = fs::read_dir(folder.join("objects/pack")).unwrap();
        names
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect()
    }

    #[test]
    fn git_reads_what_was_packed() {
        let folder = tempfile::tempdir().unwrap();
        let repository = Repository::init_bare(folder.path()).unwrap();
        let sizes = [0, 1, 15, 16, 2_047, 2_048, 40_000, 1 << 20];
        let noise = |size: usize| (0..size).map(|at| (at * at % 251) as u8).collect::<Vec<u8>>();
        let (mut compressor, mut pack) = (
            Compressor::new(),
            PackFile::create(&folder.path().join("objects")).unwrap(),
        );
        let mut ids = Vec::new();
        for size in sizes {
            let contents = noise(size);
            let id = Oid::hash_object(ObjectType::Blob, &contents).unwrap();
            let packed = PackedObject::new(&mut compressor, id, ObjectType::Blob, &contents).unwrap();
            pack.add(&packed).unwrap();
            pack.add(&packed).unwrap();
            assert!(pack.contains(id));
            ids.push(id);
        }
        pack.finish().unwrap();
        for (id, size) in ids.into_iter().zip(sizes) {
            assert_eq!(repository.find_blob(id).unwrap().content(), noise(size));
        }
        assert_eq!(entries(folder.path()).len(), 2, "{:?}", entries(folder.path()));
        hankweave_testing::git::assert_sound(folder.path());
    }

    /// A push writes a pack while a run writes one.
    // covers: G11
    #[test]
    fn two_packs_are_written_at_the_same_time() {
        let folder = tempfile::tempdir().unwrap();
        let repository = Repository::init_bare(folder.path()).unwrap();
        let contents = [&b"one"[..], b"two"];
        let mut packs = contents.map(|_| PackFile::create(&folder.path().join("objects")).unwrap());
        let ids = contents.map(|contents| Oid::hash_object(ObjectType::Blob, contents).unwrap());
        for ((pack, id), contents) in packs.iter_mut().zip(ids).zip(contents) {
            let mut compressor = Compressor::new();
            let packed = PackedObject::new(&mut compressor, id, ObjectType::Blob, contents);
            pack.add(&packed.unwrap()).unwrap();
        }
        for pack in packs {
            pack.finish().unwrap();
        }
        assert_eq!(
            ids.map(|id| repository.find_blob(id).unwrap().content().to_vec()),
            contents
        );
        hankweave_testing::git::assert_sound(folder.path());
    }

    #[test]
    fn a_pack_that_is_given_up_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let objects = folder.path().join("objects");
        drop(PackFile::create(&objects).unwrap());
        PackFile::create(&objects).unwrap().finish().unwrap();
        assert_eq!(entries(folder.path()), Vec::<String>::new());
    }

    #[test]
    fn offsets_beyond_two_gigabytes_stand_in_a_table_of_their_own() {
        let entry = |first: u8, offset| IndexEntry {
            id: Oid::from_bytes(&[first; 20]).unwrap(),
            checksum: 7,
            offset,
        };
        let mut entries = [entry(9, LONG_OFFSET), entry(1, 12), entry(5, LONG_OFFSET + 1)];
        let index = encode_index(&mut entries, &[0; 20]);
        let offsets = 8 + 1_024 + 3 * 24;
        let word = |at: usize| u32::from_be_bytes(index[at..at + 4].try_into().unwrap());
        assert_eq!([0, 4, 8].map(|at| word(offsets + at)), [12, 1 << 31, 1 << 31 | 1]);
        let long = |at: usize| u64::from_be_bytes(index[at..at + 8].try_into().unwrap());
        assert_eq!(
            [12, 20].map(|at| long(offsets + at)),
            [LONG_OFFSET + 1, LONG_OFFSET]
        );
        assert_eq!((word(8 + 4), word(8 + 4 * 255)), (1, 3));
    }
}
