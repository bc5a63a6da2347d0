//! Removing objects that nothing needs.
//!
//! A pack that holds one is written anew without it, durably, before it is removed; so whatever cuts this off leaves every needed object somewhere.

use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};

use git2::{Oid, Repository};

use super::compress::Compressor;
use super::pack::{PackFile, PackedObject};
use super::packed;
use super::read::read_any_packed;
use crate::checkpoint::object::as_git;
use crate::world::disk::{Disk as _, RealDisk, remove_if_present};

/// Removes every object that is not `needed`; returns how many bytes that freed. Nobody else may write meanwhile.
pub(in crate::checkpoint) fn remove_others(
    repository: &Repository,
    needed: &HashSet<Oid>,
) -> Result<u64, git2::Error> {
    let objects = repository.path().join("objects");
    let loose = remove_loose(&objects, needed).map_err(as_git)?;
    let packed = Packs::of(&objects)
        .map_err(as_git)?
        .write_anew(repository, needed)?;
    Ok(loose + packed)
}

fn remove_loose(objects: &Path, needed: &HashSet<Oid>) -> io::Result<u64> {
    let mut freed = 0;
    for first in names(objects)?.iter().filter(|name| is_hex(name, 2)) {
        let folder = objects.join(first);
        for rest in names(&folder)?.iter().filter(|name| is_hex(name, 38)) {
            let id = Oid::from_str(&format!("{first}{rest}")).map_err(io::Error::other)?;
            if !needed.contains(&id) {
                freed += remove(&folder.join(rest))?;
            }
        }
    }
    Ok(freed)
}

/// Packs with their indexes.
struct Packs {
    objects: PathBuf,
    /// Each index, and what it lists.
    indexes: Vec<(PathBuf, Vec<Oid>)>,
}

impl Packs {
    /// Those in the folder of objects. One without an index was cut off on its way in or out, and is removed; one whose index cannot be read is left alone.
    fn of(objects: &Path) -> io::Result<Self> {
        let folder = objects.join("pack");
        let names = names(&folder)?;
        let mut indexes = Vec::new();
        for pack in names.iter().filter(|name| name.ends_with(".pack")) {
            let pack = folder.join(pack);
            let index = pack.with_extension("idx");
            match packed::ids(&index) {
                Ok(ids) => indexes.extend(ids.map(|ids| (index, ids))),
                Err(error) if error.kind() == io::ErrorKind::NotFound => drop(remove(&pack)?),
                Err(error) => return Err(error),
            }
        }
        Ok(Self {
            objects: objects.to_owned(),
            indexes,
        })
    }

    /// Writes what is needed of packs that hold anything else into a new one, and removes them.
    fn write_anew(mut self, repository: &Repository, needed: &HashSet<Oid>) -> Result<u64, git2::Error> {
        self.indexes
            .retain(|(_, ids)| ids.iter().any(|id| !needed.contains(id)));
        let stay: HashSet<Oid> = self.indexes.iter().flat_map(|(_, ids)| ids).copied().collect();
        let mut pack = PackFile::create(&self.objects).map_err(as_git)?;
        let odb = repository.odb()?;
        let mut compressor = Compressor::new();
        for id in stay.intersection(needed) {
            let object = read_any_packed(repository.path(), &odb, *id)?;
            let packed = PackedObject::new(&mut compressor, *id, object.kind(), object.data());
            packed.and_then(|packed| pack.add(&packed)).map_err(as_git)?;
        }
        let written = pack.finish().map_err(as_git)?;
        let removed = self.remove().map_err(as_git)?;
        Ok(removed.saturating_sub(written))
    }

    /// Git finds packs by their indexes, so these go first.
    fn remove(self) -> io::Result<u64> {
        let mut removed = 0;
        for (index, _) in self.indexes {
            removed += remove(&index)?;
            removed += remove(&index.with_extension("pack"))?;
            // Git writes it beside its own packs.
            remove_if_present(&RealDisk, &index.with_extension("rev"))?;
        }
        RealDisk.sync_dir(&self.objects.join("pack"))?;
        Ok(removed)
    }
}

/// Removes a file and tells how long it was.
fn remove(path: &Path) -> io::Result<u64> {
    let length = RealDisk.metadata(path)?.length;
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
