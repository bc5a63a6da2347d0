//! Reading objects. Agents may replace the file of an object by anything: the reader never waits for such an entry, and
//! takes no more memory than an object may need.

use std::cell::RefCell;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;

use flate2::read::ZlibDecoder;
use git2::{ErrorClass, ErrorCode, ObjectType, Odb, OdbObject, Oid, Repository};
use hankweave_core::id::CheckpointSha;
use rustix::io::Errno;

use super::commit::Commit;
use super::packed::OpenPacks;
use super::trees::{self, TreeEntry};
use crate::checkpoint::object::{AT_ONCE, ContentError, as_git, begin_sum, damaged};
use crate::world::disk::{open_dir, open_folder_in, open_regular_in};

/// Longest commit or folder, in bytes: more than a folder of a million names. It is read into memory.
const MOST_OF_FOLDER: u64 = 64 << 20;

/// Longest content of a file in a pack, in bytes. It is read into memory; longer content is in loose objects.
const MOST_OF_PACKED: u64 = 512 << 20;

/// Reads objects of one repository, for one operation: the folder of objects, packs and their indexes are opened once (G13).
pub(in crate::checkpoint) struct ObjectReader<'r> {
    odb: Odb<'r>,
    objects: OwnedFd,
    packs: RefCell<OpenPacks>,
}

/// A loose object, with its kind and length already read.
struct LooseReader {
    id: Oid,
    kind: ObjectType,
    length: u64,
    inflate: ZlibDecoder<File>,
}

impl<'r> ObjectReader<'r> {
    pub(in crate::checkpoint) fn open(repository: &'r Repository) -> Result<Self, git2::Error> {
        let objects = repository.path().join("objects");
        Ok(Self {
            odb: repository.odb()?,
            packs: RefCell::new(OpenPacks::of(&objects)),
            objects: open_dir(&objects).map_err(as_git)?.into(),
        })
    }

    /// Returns the commit called `sha`, in full length, if it exists.
    pub(in crate::checkpoint) fn look_up(&self, sha: &CheckpointSha) -> Result<Option<Commit>, git2::Error> {
        let id = Some(sha.as_str()).filter(|text| text.len() == 40);
        let Some(id) = id.and_then(|text| Oid::from_str(text).ok()) else {
            return Ok(None);
        };
        match self.commit(id) {
            Ok(commit) => Ok(Some(commit)),
            Err(error) if error.code() == ErrorCode::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The commit `id`.
    pub(in crate::checkpoint) fn commit(&self, id: Oid) -> Result<Commit, git2::Error> {
        let bytes = self.read(id, ObjectType::Commit)?;
        Commit::decode(id, &bytes).ok_or_else(|| as_git(damaged(id, "is no commit")))
    }

    /// The entries of the folder `id`.
    pub(in crate::checkpoint) fn tree(&self, id: Oid) -> Result<Vec<TreeEntry>, git2::Error> {
        #[cfg(test)]
        super::counts::TREES.set(super::counts::TREES.get() + 1);
        let bytes = self.read(id, ObjectType::Tree)?;
        trees::decode(&bytes).ok_or_else(|| as_git(damaged(id, "is no folder")))
    }

    /// Whether there is an object of this name; it is not read.
    pub(in crate::checkpoint) fn exists(&self, id: Oid) -> bool {
        self.odb.exists(id)
    }

    /// Returns the length of an object in bytes, if it exists, without reading its content.
    pub(in crate::checkpoint) fn length(&self, id: Oid) -> Result<Option<u64>, git2::Error> {
        match LooseReader::open(&self.objects, id).map_err(as_git)? {
            Some(object) => Ok(Some(object.length)),
            None => self.packs.borrow_mut().length(id).map_err(as_git),
        }
    }

    /// Reads a whole commit or folder. A loose object is preferred to a packed one, because an object that was found
    /// damaged in a pack is written again as a loose one.
    fn read(&self, id: Oid, wanted: ObjectType) -> Result<Vec<u8>, git2::Error> {
        let (kind, bytes) = match LooseReader::open(&self.objects, id).map_err(as_git)? {
            Some(object) if object.length > MOST_OF_FOLDER => return Err(too_long(id, object.length)),
            Some(object) => {
                let (kind, mut bytes) = (object.kind, Vec::new());
                object.copy_to(&mut bytes).map_err(ContentError::into_git)?;
                (kind, bytes)
            }
            None => {
                let object = self.read_packed(id, MOST_OF_FOLDER)?;
                (object.kind(), object.data().to_vec())
            }
        };
        match kind == wanted {
            true => Ok(bytes),
            false => Err(as_git(damaged(id, "is of another kind"))),
        }
    }

    /// Reads an object that a pack has, whatever its kind. If there is also a loose object of this name, either is read.
    pub(super) fn read_any_packed(&self, id: Oid) -> Result<OdbObject<'_>, git2::Error> {
        self.read_packed(id, MOST_OF_PACKED)
    }

    /// Reads a loose object, whatever its kind; `None` when a pack has it as well, or when it is longer than `most` bytes.
    pub(super) fn read_loose(&self, id: Oid, most: u64) -> Result<Option<OdbObject<'_>>, git2::Error> {
        if self.packs.borrow_mut().length(id).map_err(as_git)?.is_some() {
            return Ok(None);
        }
        match LooseReader::open(&self.objects, id).map_err(as_git)? {
            Some(object) if object.length <= most => self.odb.read(id).map(Some),
            _ => Ok(None),
        }
    }

    /// Reads an object that a pack has; fails when it is longer than `most` bytes.
    fn read_packed(&self, id: Oid, most: u64) -> Result<OdbObject<'_>, git2::Error> {
        match self.packs.borrow_mut().length(id).map_err(as_git)? {
            Some(length) if length > most => Err(too_long(id, length)),
            Some(_) => self.odb.read(id),
            None => Err(git2::Error::new(
                ErrorCode::NotFound,
                ErrorClass::Odb,
                format!("the object {id} is not there"),
            )),
        }
    }

    /// Writes the content of the object `id` to `sink`, in chunks, and returns its kind. The content is compared with its
    /// name; a mismatch may be found only at the end.
    pub(in crate::checkpoint) fn copy_content(
        &self,
        id: Oid,
        sink: &mut dyn Write,
    ) -> Result<ObjectType, ContentError> {
        let opened = LooseReader::open(&self.objects, id);
        if let Some(object) = opened.map_err(|error| ContentError::Object(as_git(error)))? {
            let kind = object.kind;
            return object.copy_to(sink).map(|()| kind);
        }
        let object = self
            .read_packed(id, MOST_OF_PACKED)
            .map_err(ContentError::Object)?;
        sink.write_all(object.data()).map_err(ContentError::Sink)?;
        Ok(object.kind())
    }
}

fn too_long(id: Oid, length: u64) -> git2::Error {
    let message = format!("the object {id} has {length} bytes, which is more than there can be");
    git2::Error::new(ErrorCode::GenericError, ErrorClass::Odb, message)
}

impl LooseReader {
    /// Opens the object `id` in the folder of objects; `None` when it has no file of its own.
    fn open(objects: &OwnedFd, id: Oid) -> io::Result<Option<Self>> {
        let name = id.to_string();
        let folder = match open_folder_in(objects, &name[..2]) {
            Err(Errno::NOENT) => return Ok(None),
            folder => folder?,
        };
        let file = match open_regular_in(&folder, &name[2..]) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file?,
        };
        let input = AT_ONCE.min(file.metadata()?.len()).max(1);
        let mut inflate = ZlibDecoder::new_with_buf(file, vec![0; input as usize]);
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

    /// Writes the whole content to `sink`, at most the length in the header, and compares it with the object's name.
    fn copy_to(mut self, sink: &mut dyn Write) -> Result<(), ContentError> {
        let (id, bad) = (self.id, |error| ContentError::Object(as_git(error)));
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
            sink.write_all(&buffer[..read]).map_err(ContentError::Sink)?;
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
