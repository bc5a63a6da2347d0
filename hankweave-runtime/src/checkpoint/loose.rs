//! One object in one file: git's loose form, the compressed object with its kind and length before it.
//!
//! libgit2 can write it as well, but looks through the folder of packs again for each object that is new, which takes longer than writing it.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use flate2::{Decompress, FlushDecompress, Status};
use git2::{Commit, ErrorClass, ErrorCode, ObjectType, Odb, OdbObject, Oid, Repository, Tree};

use super::pack::Packer;

/// Tells apart what threads write at the same time.
static WRITTEN: AtomicU64 = AtomicU64::new(0);

/// Bytes that are looked at together.
const INFLATED_AT_ONCE: usize = 64 << 10;

/// An object under a temporary name. Dropped before it is in place, it leaves nothing behind.
#[derive(Debug)]
pub(super) struct LooseObject {
    temporary: PathBuf,
    place: PathBuf,
}

/// The commit `id`; like all readers here an error, and no endless loop, when its own file ends too early.
pub(super) fn find_commit(repository: &Repository, id: Oid) -> Result<Commit<'_>, git2::Error> {
    check_end(repository, id)?;
    repository.find_commit(id)
}

/// The folder `id`.
pub(super) fn find_tree(repository: &Repository, id: Oid) -> Result<Tree<'_>, git2::Error> {
    check_end(repository, id)?;
    repository.find_tree(id)
}

/// The object `id`, whatever it is.
pub(super) fn read<'o>(
    repository: &Repository,
    odb: &'o Odb<'_>,
    id: Oid,
) -> Result<OdbObject<'o>, git2::Error> {
    check_end(repository, id)?;
    odb.read(id)
}

/// Fails for an object in a file of its own that ends before its compressed bytes do: libgit2 1.9 asks zlib for the rest for ever. All other damage, and
/// a file that cannot be read, it finds itself.
pub(super) fn check_end(repository: &Repository, id: Oid) -> Result<(), git2::Error> {
    let name = id.to_string();
    let path = repository
        .path()
        .join("objects")
        .join(&name[..2])
        .join(&name[2..]);
    match fs::read(path) {
        Ok(compressed) if ends_too_early(&compressed) => Err(git2::Error::new(
            ErrorCode::GenericError,
            ErrorClass::Zlib,
            format!("the object {name} ends too early"),
        )),
        Ok(_) | Err(_) => Ok(()),
    }
}

fn ends_too_early(compressed: &[u8]) -> bool {
    let (mut stream, mut output) = (Decompress::new(true), vec![0; INFLATED_AT_ONCE]);
    let mut rest = compressed;
    loop {
        let before = (stream.total_in(), stream.total_out());
        let status = stream.decompress(rest, &mut output, FlushDecompress::None);
        let used = usize::try_from(stream.total_in() - before.0).unwrap_or(usize::MAX);
        rest = rest.get(used..).unwrap_or_default();
        match status {
            Ok(Status::StreamEnd) | Err(_) => return false,
            Ok(Status::Ok | Status::BufError) if (stream.total_in(), stream.total_out()) == before => {
                return true;
            }
            Ok(Status::Ok | Status::BufError) => {}
        }
    }
}

impl LooseObject {
    /// Writes an object for the folder of objects `objects`; it is not durable yet.
    pub(super) fn write(
        objects: &Path,
        packer: &mut Packer,
        id: Oid,
        kind: ObjectType,
        contents: &[u8],
    ) -> io::Result<Self> {
        let mut bytes = Vec::with_capacity(contents.len() / 2 + 128);
        let header = format!("{kind} {}\0", contents.len());
        packer.compress(header.as_bytes(), contents, &mut bytes)?;
        let name = id.to_string();
        let number = WRITTEN.fetch_add(1, Ordering::Relaxed);
        let object = Self {
            temporary: objects.join(format!("tmp_object_{}_{number}", std::process::id())),
            place: objects.join(&name[..2]).join(&name[2..]),
        };
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o444);
        options.open(&object.temporary)?.write_all(&bytes)?;
        Ok(object)
    }

    /// Whether there is a file in its place.
    pub(super) fn replaces_another(&self) -> io::Result<bool> {
        self.place.try_exists()
    }

    /// Gives the object its name.
    pub(super) fn put_in_place(self) -> io::Result<()> {
        match fs::rename(&self.temporary, &self.place) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                fs::create_dir_all(self.place.parent().unwrap_or(Path::new(".")))?;
                fs::rename(&self.temporary, &self.place)
            }
            renamed => renamed,
        }
    }
}

impl Drop for LooseObject {
    fn drop(&mut self) {
        // In its place it has no temporary name; otherwise the next start removes what cannot be removed now.
        let _ = fs::remove_file(&self.temporary);
    }
}
