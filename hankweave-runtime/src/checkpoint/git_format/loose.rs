//! Writing loose objects: first under a temporary name, then under the name of the object.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use git2::{ObjectType, Oid};
use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::{Errno, retry_on_intr};

use super::compress::Compressor;
use crate::checkpoint::object::{ReadSeek, WriteError, sum_of};
use crate::world::disk::open_folder_in;

/// Distinguishes the objects that the threads of a process write at the same time.
static WRITTEN: AtomicU64 = AtomicU64::new(0);

/// An object under a temporary name, which is removed if this value is dropped before the object is in place.
#[derive(Debug)]
pub(super) struct LooseObject {
    /// The folder of objects.
    objects: Arc<OwnedFd>,
    /// Name of the temporary file, in that folder.
    temporary: String,
    /// Name of the object, 40 hexadecimal digits.
    name: String,
}

impl LooseObject {
    /// Writes an object for the folder of objects `objects`; it is not durable yet.
    pub(super) fn write(
        objects: &Arc<OwnedFd>,
        compressor: &mut Compressor,
        id: Oid,
        kind: ObjectType,
        contents: &[u8],
    ) -> io::Result<Self> {
        let mut bytes = Vec::with_capacity(contents.len() / 2 + 128);
        let header = format!("{kind} {}\0", contents.len());
        compressor.append(header.as_bytes(), contents, &mut bytes)?;
        let (object, mut file) = Self::create(objects, id)?;
        file.write_all(&bytes)?;
        Ok(object)
    }

    /// Writes the content of a file of `length` bytes, piece by piece; `None` when the file has changed, so that its content is not the object `id`.
    pub(super) fn write_from(
        objects: &Arc<OwnedFd>,
        compressor: &mut Compressor,
        id: Oid,
        source: &mut dyn ReadSeek,
        length: u64,
    ) -> Result<Option<Self>, WriteError> {
        let (object, mut file) = Self::create(objects, id).map_err(WriteError::writing)?;
        compressor
            .start(format!("{} {length}\0", ObjectType::Blob).as_bytes(), &mut file)
            .map_err(WriteError::writing)?;
        let read = sum_of(source, length, &mut |piece| compressor.feed(piece, &mut file))?;
        compressor.end(&mut file).map_err(WriteError::writing)?;
        Ok((read == Some(id)).then_some(object))
    }

    fn create(objects: &Arc<OwnedFd>, id: Oid) -> io::Result<(Self, File)> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(0o444);
        loop {
            let number = WRITTEN.fetch_add(1, Ordering::Relaxed);
            let temporary = format!("tmp_object_{}_{number}", std::process::id());
            let file = match retry_on_intr(|| rustix::fs::openat(objects, &*temporary, flags, mode)) {
                // Another process, such as a push during a run, has written this file. In two containers both may have the same process id.
                Err(Errno::EXIST) => continue,
                made => File::from(made?),
            };
            let object = Self {
                objects: Arc::clone(objects),
                temporary,
                name: id.to_string(),
            };
            return Ok((object, file));
        }
    }

    /// Whether the repository already has an entry of this object's name.
    pub(super) fn replaces_another(&self) -> io::Result<bool> {
        let folder = match open_folder_in(&*self.objects, self.folder()) {
            Err(Errno::NOENT) => return Ok(false),
            folder => folder?,
        };
        match rustix::fs::statat(folder, self.file(), AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => Ok(false),
            found => Ok(found.map(|_| true)?),
        }
    }

    /// Gives the object its name. A folder of that name is no object; it is renamed to `<name>.damaged`.
    pub(super) fn put_in_place(self) -> io::Result<()> {
        let folder = match open_folder_in(&*self.objects, self.folder()) {
            Err(Errno::NOENT) => {
                match rustix::fs::mkdirat(&*self.objects, self.folder(), Mode::from_raw_mode(0o777)) {
                    Ok(()) | Err(Errno::EXIST) => {}
                    Err(error) => return Err(error.into()),
                }
                open_folder_in(&*self.objects, self.folder())
            }
            folder => folder,
        }?;
        let rename = || rustix::fs::renameat(&*self.objects, &*self.temporary, &folder, self.file());
        match rename() {
            Err(Errno::ISDIR) => {
                let aside = [self.file(), b".damaged"].concat();
                rustix::fs::renameat(&folder, self.file(), &folder, &*aside)?;
                Ok(rename()?)
            }
            renamed => Ok(renamed?),
        }
    }

    fn folder(&self) -> &[u8] {
        &self.name.as_bytes()[..2]
    }

    fn file(&self) -> &[u8] {
        &self.name.as_bytes()[2..]
    }
}

impl Drop for LooseObject {
    fn drop(&mut self) {
        // Once in place, the object has no temporary name and this fails. A file that cannot be removed now is removed by the next start.
        let _ = rustix::fs::unlinkat(&*self.objects, &*self.temporary, AtFlags::empty());
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::world::disk::open_dir;

    // covers: G11
    #[test]
    fn a_file_of_another_process_of_the_same_number_is_in_nobodys_way() {
        let folder = tempfile::tempdir().unwrap();
        let objects: Arc<OwnedFd> = Arc::new(open_dir(folder.path()).unwrap().into());
        let next = WRITTEN.load(Ordering::Relaxed);
        let name = |number| format!("tmp_object_{}_{number}", std::process::id());
        for number in next..next + 1_000 {
            fs::write(folder.path().join(name(number)), "of another").unwrap();
        }
        let id = Oid::hash_object(ObjectType::Blob, b"ours").unwrap();
        let object = LooseObject::write(&objects, &mut Compressor::new(), id, ObjectType::Blob, b"ours");
        object.unwrap().put_in_place().unwrap();
        let theirs = fs::read(folder.path().join(name(next))).unwrap();
        assert_eq!(theirs, b"of another");
    }
}
