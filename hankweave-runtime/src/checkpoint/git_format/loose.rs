//! One object in one file: git's loose form, the compressed object with its kind and length before it.
//!
//! libgit2 can read and write it as well, but takes every object into memory as a whole, opens whatever stands in its place, and looks through the folder
//! of packs again for each object that is new, which takes longer than writing it.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use flate2::{Decompress, FlushDecompress, Status};
use git2::{Commit, ErrorClass, ErrorCode, ObjectType, Odb, Oid, Repository, Tree};
use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::{Errno, retry_on_intr};

use crate::checkpoint::object::{AT_ONCE, Source, WriteError, begin_sum, sum_of};
use super::pack::Packer;
use crate::checkpoint::workspace::open_folder;
use crate::world::disk::open_regular;

/// Tells apart what threads write at the same time.
static WRITTEN: AtomicU64 = AtomicU64::new(0);

/// Longest commit or folder, in bytes: more than a folder of a million names. libgit2 takes it into memory.
const MOST_OF_FOLDER: u64 = 64 << 20;

/// Longest content of a file in a pack, in bytes, which is taken into memory; longer ones are in files of their own.
const MOST_OF_PACKED: u64 = 512 << 20;

/// An object under a temporary name. Dropped before it is in place, it leaves nothing behind.
#[derive(Debug)]
pub(in crate::checkpoint) struct LooseObject {
    /// The folder of objects.
    objects: Arc<OwnedFd>,
    temporary: String,
    name: String,
}

/// An object in a file of its own, of which the kind and the length were read.
struct LooseReader {
    id: Oid,
    kind: ObjectType,
    length: u64,
    inflate: Inflate,
}

/// Why an object was not passed on.
#[derive(Debug)]
pub(in crate::checkpoint) enum CopyError {
    /// It cannot be read, or is not what its name says.
    Object(git2::Error),
    /// Whoever was to take it did not.
    Sink(io::Error),
}

/// The commit `id`; like all readers here an error when its own file is damaged, and no endless loop.
pub(in crate::checkpoint) fn find_commit(repository: &Repository, id: Oid) -> Result<Commit<'_>, git2::Error> {
    check(repository, id)?;
    repository.find_commit(id)
}

/// The folder `id`.
pub(in crate::checkpoint) fn find_tree(repository: &Repository, id: Oid) -> Result<Tree<'_>, git2::Error> {
    check(repository, id)?;
    repository.find_tree(id)
}

/// Fails for what libgit2 must not read: an object in a file of its own that is no regular file, is damaged, or ends before its compressed bytes do, in
/// which case libgit2 1.9 asks zlib for the rest for ever; and one that is longer than any commit or folder.
fn check(repository: &Repository, id: Oid) -> Result<(), git2::Error> {
    let length = match LooseReader::open(repository.path(), id).map_err(as_git)? {
        Some(object) if object.length <= MOST_OF_FOLDER => {
            return object.copy_to(&mut io::sink()).map_err(CopyError::into_git);
        }
        Some(object) => object.length,
        None => repository.odb()?.read_header(id)?.0 as u64,
    };
    match length <= MOST_OF_FOLDER {
        true => Ok(()),
        false => Err(too_long(id, length)),
    }
}

/// Gives the content of the object `id` to `sink`, in pieces and compared with its name, and tells its kind. That it is not what its name says may turn
/// out only in the end.
pub(in crate::checkpoint) fn copy(
    repository: &Repository,
    odb: &Odb<'_>,
    id: Oid,
    sink: &mut dyn Write,
) -> Result<ObjectType, CopyError> {
    let opened = LooseReader::open(repository.path(), id);
    if let Some(object) = opened.map_err(|error| CopyError::Object(as_git(error)))? {
        let kind = object.kind;
        return object.copy_to(sink).map(|()| kind);
    }
    let read = || {
        let (length, _) = odb.read_header(id)?;
        match length as u64 <= MOST_OF_PACKED {
            true => odb.read(id),
            false => Err(too_long(id, length as u64)),
        }
    };
    let object = read().map_err(CopyError::Object)?;
    sink.write_all(object.data()).map_err(CopyError::Sink)?;
    Ok(object.kind())
}

fn too_long(id: Oid, length: u64) -> git2::Error {
    let message = format!("the object {id} has {length} bytes, which is more than there can be");
    git2::Error::new(ErrorCode::GenericError, ErrorClass::Odb, message)
}

/// What the system says stays a matter of the system; anything else is damage.
fn as_git(error: io::Error) -> git2::Error {
    let class = match error.raw_os_error() {
        Some(_) => ErrorClass::Os,
        None => ErrorClass::Zlib,
    };
    git2::Error::new(ErrorCode::GenericError, class, error.to_string())
}

fn damaged(id: Oid, what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("the object {id} {what}"))
}

impl CopyError {
    pub(in crate::checkpoint) fn into_git(self) -> git2::Error {
        match self {
            Self::Object(error) => error,
            Self::Sink(error) => as_git(error),
        }
    }
}

impl LooseReader {
    /// Opens the object `id` of the repository in the folder `repository`; `None` when it has no file of its own.
    fn open(repository: &Path, id: Oid) -> io::Result<Option<Self>> {
        let name = id.to_string();
        let path = PathBuf::from_iter([
            repository,
            Path::new("objects"),
            Path::new(&name[..2]),
            Path::new(&name[2..]),
        ]);
        let file = match open_regular(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file?,
        };
        let mut inflate = Inflate::new(file)?;
        let mut header = Vec::with_capacity(32);
        loop {
            let mut byte = [0];
            if header.len() == 32 || inflate.read(&mut byte)? == 0 {
                return Err(damaged(id, "does not begin like one"));
            }
            if byte == [0] {
                break;
            }
            header.push(byte[0]);
        }
        let text = String::from_utf8_lossy(&header);
        let parts = text.split_once(' ');
        let parsed =
            parts.and_then(|(kind, length)| Some((ObjectType::from_str(kind)?, length.parse().ok()?)));
        let (kind, length) = parsed.ok_or_else(|| damaged(id, "does not begin like one"))?;
        Ok(Some(Self {
            id,
            kind,
            length,
            inflate,
        }))
    }

    /// Gives all of it to `sink`, no more than it says it has, and compares it with its name.
    fn copy_to(mut self, sink: &mut dyn Write) -> Result<(), CopyError> {
        let (id, bad) = (self.id, |error| CopyError::Object(as_git(error)));
        let mut sum = begin_sum(self.kind, self.length);
        let mut left = self.length;
        let mut buffer = vec![0; AT_ONCE.min(left).max(1) as usize];
        while left > 0 {
            let wanted = AT_ONCE.min(left) as usize;
            let read = self.inflate.read(&mut buffer[..wanted]).map_err(bad)?;
            if read == 0 {
                return Err(bad(damaged(id, "is shorter than it says")));
            }
            sum.update(&buffer[..read]);
            sink.write_all(&buffer[..read]).map_err(CopyError::Sink)?;
            left -= read as u64;
        }
        if self.inflate.read(&mut buffer[..1]).map_err(bad)? > 0 {
            return Err(bad(damaged(id, "is longer than it says")));
        }
        match sum.digest().bytes() == id.as_bytes() {
            true => Ok(()),
            false => Err(bad(damaged(id, "is not what its name says"))),
        }
    }
}

/// The bytes that a compressed file stands for.
struct Inflate {
    file: File,
    input: Vec<u8>,
    /// What of the input was read and not used.
    rest: std::ops::Range<usize>,
    stream: Decompress,
    has_ended: bool,
}

impl Inflate {
    fn new(file: File) -> io::Result<Self> {
        let length = AT_ONCE.min(file.metadata()?.len()).max(1);
        Ok(Self {
            file,
            input: vec![0; length as usize],
            rest: 0..0,
            stream: Decompress::new(true),
            has_ended: false,
        })
    }
}

impl Read for Inflate {
    fn read(&mut self, output: &mut [u8]) -> io::Result<usize> {
        while !self.has_ended && !output.is_empty() {
            if self.rest.is_empty() {
                self.rest = 0..self.file.read(&mut self.input)?;
            }
            let (taken, given) = (self.stream.total_in(), self.stream.total_out());
            let input = &self.input[self.rest.clone()];
            let status = self.stream.decompress(input, output, FlushDecompress::None)?;
            let taken = (self.stream.total_in() - taken) as usize;
            let given = (self.stream.total_out() - given) as usize;
            self.rest.start += taken;
            self.has_ended = status == Status::StreamEnd;
            if given > 0 {
                return Ok(given);
            }
            if taken == 0 && !self.has_ended && self.rest.is_empty() {
                let error = "the compressed bytes of an object end too early";
                return Err(io::Error::new(io::ErrorKind::InvalidData, error));
            }
        }
        Ok(0)
    }
}

impl LooseObject {
    /// Writes an object for the folder of objects `objects`; it is not durable yet.
    pub(in crate::checkpoint) fn write(
        objects: &Arc<OwnedFd>,
        packer: &mut Packer,
        id: Oid,
        kind: ObjectType,
        contents: &[u8],
    ) -> io::Result<Self> {
        let mut bytes = Vec::with_capacity(contents.len() / 2 + 128);
        let header = format!("{kind} {}\0", contents.len());
        packer.compress(header.as_bytes(), contents, &mut bytes)?;
        let (object, mut file) = Self::create(objects, id)?;
        file.write_all(&bytes)?;
        Ok(object)
    }

    /// Writes the content of a file of `length` bytes, piece by piece; `None` when what is read is not `id`, since the file has changed.
    pub(in crate::checkpoint) fn write_from(
        objects: &Arc<OwnedFd>,
        packer: &mut Packer,
        id: Oid,
        source: &mut dyn Source,
        length: u64,
    ) -> Result<Option<Self>, WriteError> {
        let (object, mut file) = Self::create(objects, id).map_err(WriteError::writing)?;
        packer
            .begin(format!("{} {length}\0", ObjectType::Blob).as_bytes(), &mut file)
            .map_err(WriteError::writing)?;
        let read = sum_of(source, length, &mut |piece| packer.feed(piece, &mut file))?;
        packer.end(&mut file).map_err(WriteError::writing)?;
        Ok((read == Some(id)).then_some(object))
    }

    fn create(objects: &Arc<OwnedFd>, id: Oid) -> io::Result<(Self, File)> {
        let number = WRITTEN.fetch_add(1, Ordering::Relaxed);
        let object = Self {
            objects: Arc::clone(objects),
            temporary: format!("tmp_object_{}_{number}", std::process::id()),
            name: id.to_string(),
        };
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(0o444);
        let made = retry_on_intr(|| rustix::fs::openat(&*object.objects, &*object.temporary, flags, mode));
        Ok((object, File::from(made?)))
    }

    /// Whether there is a file in its place.
    pub(in crate::checkpoint) fn replaces_another(&self) -> io::Result<bool> {
        let folder = match open_folder(&*self.objects, self.folder()) {
            Err(Errno::NOENT) => return Ok(false),
            folder => folder?,
        };
        match rustix::fs::statat(folder, self.file(), AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => Ok(false),
            found => Ok(found.map(|_| true)?),
        }
    }

    /// Gives the object its name. A folder of that name is nobody's object, and is kept beside it.
    pub(in crate::checkpoint) fn put_in_place(self) -> io::Result<()> {
        let folder = match open_folder(&*self.objects, self.folder()) {
            Err(Errno::NOENT) => {
                match rustix::fs::mkdirat(&*self.objects, self.folder(), Mode::from_raw_mode(0o777)) {
                    Ok(()) | Err(Errno::EXIST) => {}
                    Err(error) => return Err(error.into()),
                }
                open_folder(&*self.objects, self.folder())
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
        // In its place it has no temporary name; otherwise the next start removes what cannot be removed now.
        let _ = rustix::fs::unlinkat(&*self.objects, &*self.temporary, AtFlags::empty());
    }
}
