//! One object in one file: git's loose form, the compressed object with its kind and length before it.
//!
//! libgit2 can write it as well, but looks through the folder of packs again for each object that is new, which takes longer than writing it.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use git2::{ObjectType, Oid};

use super::pack::Packer;

/// Tells apart what threads write at the same time.
static WRITTEN: AtomicU64 = AtomicU64::new(0);

/// An object under a temporary name. Dropped before it is in place, it leaves nothing behind.
#[derive(Debug)]
pub(super) struct LooseObject {
    temporary: PathBuf,
    place: PathBuf,
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
