//! One object in one file: git's loose form, the compressed object with its kind and length before it.
//!
//! libgit2 can write it as well, but looks through the folder of packs again for each object that is new, which takes longer than writing it.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use flate2::Compression;
use flate2::write::ZlibEncoder;
use git2::{ObjectType, Oid};

/// Tells apart what threads write at the same time.
static WRITTEN: AtomicU64 = AtomicU64::new(0);

/// Writes an object into the folder of objects `objects`; it is there as a whole or not at all, and not durable yet.
pub(super) fn write(objects: &Path, id: Oid, kind: ObjectType, contents: &[u8]) -> io::Result<()> {
    let name = id.to_string();
    let folder = objects.join(&name[..2]);
    fs::create_dir_all(&folder)?;
    let number = WRITTEN.fetch_add(1, Ordering::Relaxed);
    let temporary = objects.join(format!("tmp_object_{}_{number}", std::process::id()));
    let written =
        write_to(&temporary, kind, contents).and_then(|()| fs::rename(&temporary, folder.join(&name[2..])));
    written.inspect_err(|_| drop(fs::remove_file(&temporary)))
}

fn write_to(path: &Path, kind: ObjectType, contents: &[u8]) -> io::Result<()> {
    let file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o444)
        .open(path)?;
    let mut compressed = ZlibEncoder::new(Vec::with_capacity(contents.len() / 2 + 64), Compression::fast());
    write!(compressed, "{kind} {}\0", contents.len())?;
    compressed.write_all(contents)?;
    (&file).write_all(&compressed.finish()?)
}
