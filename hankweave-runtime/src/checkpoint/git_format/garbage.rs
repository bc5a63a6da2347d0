//! Removing objects that nothing needs, for a cleanup; and packing loose objects.
//!
//! A pack that holds an unneeded object is written again without it, durably, before the pack is removed. So an
//! interruption leaves every needed object somewhere.

use std::collections::{BTreeSet, HashSet};
use std::io;
use std::path::{Path, PathBuf};

use git2::{Oid, Repository};

use super::compress::Compressor;
use super::pack::{PackFile, PackedObject};
use super::packed::PackIndex;
use super::read::ObjectReader;
use crate::checkpoint::object::as_git;
use crate::world::disk::{Disk as _, RealDisk, remove_if_present};

/// Removes every object that is not `needed`, and returns the number of freed bytes. No other process may write meanwhile.
pub(in crate::checkpoint) fn remove_unneeded(
    repository: &Repository,
    needed: &HashSet<Oid>,
) -> Result<u64, git2::Error> {
    let objects = repository.path().join("objects");
    let packs = Packs::of(&objects).map_err(as_git)?;
    let unfinished = packs
        .unfinished
        .iter()
        .map(|pack| remove(pack))
        .sum::<io::Result<u64>>();
    let unfinished = unfinished.map_err(as_git)?;
    let loose = for_each_unneeded(&objects, needed, remove).map_err(as_git)?;
    Ok(unfinished + loose + packs.with_unneeded(needed).write_anew(repository, needed)?)
}

/// Returns the number of bytes that [`remove_unneeded`] would free now. Changes nothing.
pub(in crate::checkpoint) fn length_of_unneeded(
    repository: &Repository,
    needed: &HashSet<Oid>,
) -> Result<u64, git2::Error> {
    let objects = repository.path().join("objects");
    let loose = for_each_unneeded(&objects, needed, length).map_err(as_git)?;
    let packs = Packs::of(&objects).map_err(as_git)?;
    let unfinished = packs
        .unfinished
        .iter()
        .map(|pack| length(pack))
        .sum::<io::Result<u64>>();
    let packs = packs.with_unneeded(needed);
    let reader = ObjectReader::open(repository)?;
    let written = PackFile::length_with(packs.needed_objects(&reader, needed))?;
    let removed = packs.length().map_err(as_git)?;
    Ok(loose + unfinished.map_err(as_git)? + removed.saturating_sub(written))
}

/// Longest object that is packed, in bytes: a longer one wastes little room in a file of its own.
const LONGEST_PACKED: u64 = 1 << 20;

/// Moves every small loose object into one pack, and returns the number of files removed. No other process may write meanwhile.
pub(in crate::checkpoint) fn pack_loose(repository: &Repository) -> Result<usize, git2::Error> {
    let objects = repository.path().join("objects");
    let mut pack = PackFile::create(&objects).map_err(as_git)?;
    let packed = {
        let (reader, mut compressor) = (ObjectReader::open(repository)?, Compressor::new());
        let mut packed = Vec::new();
        for (id, file) in loose(&objects).map_err(as_git)? {
            // A damaged object stays in its file.
            if let Ok(Some(object)) = reader.read_loose(id, LONGEST_PACKED) {
                let object = PackedObject::new(&mut compressor, id, object.kind(), object.data());
                pack.add(&object.map_err(as_git)?).map_err(as_git)?;
                packed.push(file);
            }
        }
        packed
    };
    // A pack with a single object would only replace one file by another.
    if packed.len() < 2 {
        return Ok(0);
    }
    pack.finish().map_err(as_git)?;
    for file in &packed {
        remove(file).map_err(as_git)?;
    }
    Ok(packed.len())
}

/// Returns every loose object, that is one in a file of its own, with the path of its file.
fn loose(objects: &Path) -> io::Result<Vec<(Oid, PathBuf)>> {
    let mut found = Vec::new();
    for first in names(objects)?.iter().filter(|name| is_hex(name, 2)) {
        let folder = objects.join(first);
        for rest in names(&folder)?.iter().filter(|name| is_hex(name, 38)) {
            let id = Oid::from_str(&format!("{first}{rest}")).map_err(io::Error::other)?;
            found.push((id, folder.join(rest)));
        }
    }
    Ok(found)
}

/// Calls `act` with the file of every loose object that is not `needed`; returns the sum of the results.
fn for_each_unneeded(
    objects: &Path,
    needed: &HashSet<Oid>,
    act: fn(&Path) -> io::Result<u64>,
) -> io::Result<u64> {
    let unneeded = loose(objects)?.into_iter().filter(|(id, _)| !needed.contains(id));
    unneeded.map(|(_, file)| act(&file)).sum()
}

/// Packs with their indexes.
struct Packs {
    objects: PathBuf,
    /// Path of each index, and the objects that it lists.
    indexes: Vec<(PathBuf, Vec<Oid>)>,
    /// Packs without an index: a crash came while they were written or removed.
    unfinished: Vec<PathBuf>,
}

impl Packs {
    /// Finds the packs in the folder of objects; a pack with a malformed index is left alone.
    fn of(objects: &Path) -> io::Result<Self> {
        let folder = objects.join("pack");
        let names = names(&folder)?;
        let (mut indexes, mut unfinished) = (Vec::new(), Vec::new());
        for pack in names.iter().filter(|name| name.ends_with(".pack")) {
            let pack = folder.join(pack);
            let index = pack.with_extension("idx");
            match PackIndex::open(&index) {
                Ok(opened) => indexes.extend(opened.map(|opened| (index, opened.ids))),
                Err(error) if error.kind() == io::ErrorKind::NotFound => unfinished.push(pack),
                Err(error) => return Err(error),
            }
        }
        Ok(Self {
            objects: objects.to_owned(),
            indexes,
            unfinished,
        })
    }

    /// Narrows `self` to the packs that hold an unneeded object.
    fn with_unneeded(mut self, needed: &HashSet<Oid>) -> Self {
        self.indexes
            .retain(|(_, ids)| ids.iter().any(|id| !needed.contains(id)));
        self
    }

    /// Packs the needed objects again, in the order of the ids.
    fn needed_objects<'p>(
        &'p self,
        reader: &'p ObjectReader<'_>,
        needed: &HashSet<Oid>,
    ) -> impl Iterator<Item = Result<PackedObject, git2::Error>> + use<'p> {
        let all = self.indexes.iter().flat_map(|(_, ids)| ids);
        let stay: BTreeSet<Oid> = all.filter(|id| needed.contains(id)).copied().collect();
        let mut compressor = Compressor::new();
        stay.into_iter().map(move |id| {
            let object = reader.read_any_packed(id)?;
            PackedObject::new(&mut compressor, id, object.kind(), object.data()).map_err(as_git)
        })
    }

    /// Writes the needed objects of these packs into a new one, removes these packs and returns the number of freed bytes.
    fn write_anew(self, repository: &Repository, needed: &HashSet<Oid>) -> Result<u64, git2::Error> {
        let reader = ObjectReader::open(repository)?;
        let mut pack = PackFile::create(&self.objects).map_err(as_git)?;
        for packed in self.needed_objects(&reader, needed) {
            pack.add(&packed?).map_err(as_git)?;
        }
        let written = pack.finish().map_err(as_git)?;
        let removed = self.remove().map_err(as_git)?;
        Ok(removed.saturating_sub(written))
    }

    /// Length of the packs and their indexes, in bytes.
    fn length(&self) -> io::Result<u64> {
        let both = |index: &PathBuf| Ok(length(index)? + length(&index.with_extension("pack"))?);
        self.indexes.iter().map(|(index, _)| both(index)).sum()
    }

    /// Removes the packs, indexes first because git finds packs by their indexes. Returns the number of freed bytes.
    fn remove(self) -> io::Result<u64> {
        let mut removed = 0;
        for (index, _) in self.indexes {
            removed += remove(&index)?;
            removed += remove(&index.with_extension("pack"))?;
            // Git writes a `.rev` file next to its own packs.
            remove_if_present(&RealDisk, &index.with_extension("rev"))?;
        }
        RealDisk.sync_dir(&self.objects.join("pack"))?;
        Ok(removed)
    }
}

fn length(path: &Path) -> io::Result<u64> {
    Ok(RealDisk.metadata(path)?.length)
}

/// Removes a file and returns its length.
fn remove(path: &Path) -> io::Result<u64> {
    let length = length(path)?;
    RealDisk.remove_file(path)?;
    Ok(length)
}

fn names(folder: &Path) -> io::Result<Vec<String>> {
    let names = match RealDisk.list_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        names => names?,
    };
    Ok(names
        .into_iter()
        .filter_map(|name| name.into_string().ok())
        .collect())
}

fn is_hex(name: &str, length: usize) -> bool {
    name.len() == length && name.bytes().all(|byte| byte.is_ascii_hexdigit())
}
