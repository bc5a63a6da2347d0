//! The objects of one checkpoint on their way into the repository.

use std::cell::RefCell;
use std::sync::{Mutex, OnceLock, PoisonError};

use git2::{ObjectType, Odb, OdbLookupFlags, Oid, Repository};

use super::history::GitHistory;
use super::object::{BlobStore, BlobWriter, ObjectError};
use super::pack::{PackFile, Packer};

/// From this number of files on a pack is written. Fewer become loose objects: a pack for each small checkpoint would make
/// every look-up search through all of them.
pub(super) const PACKED_FROM: usize = 512;

/// Takes objects; they are in the repository after [`finish`](Self::finish).
#[derive(Debug)]
pub(super) struct NewObjects<'a> {
    history: &'a GitHistory,
    pack: OnceLock<Mutex<PackFile>>,
}

/// Writes objects from one thread.
pub(super) struct ObjectWriter<'a> {
    pack: Option<&'a Mutex<PackFile>>,
    packer: RefCell<Packer>,
    repository: Repository,
}

impl<'a> NewObjects<'a> {
    pub(super) fn new(history: &'a GitHistory) -> Self {
        Self {
            history,
            pack: OnceLock::new(),
        }
    }

    pub(super) fn open_writer(&self) -> Result<ObjectWriter<'_>, ObjectError> {
        Ok(ObjectWriter {
            pack: self.pack.get(),
            packer: RefCell::new(Packer::new()),
            repository: self.history.repository()?,
        })
    }

    /// Puts a pack in place. Loose objects are there already, and not durable yet.
    pub(super) fn finish(self) -> Result<(), ObjectError> {
        let Some(pack) = self.pack.into_inner() else {
            return Ok(());
        };
        let pack = pack.into_inner().unwrap_or_else(PoisonError::into_inner);
        pack.finish().map_err(ObjectError::at("finish a pack"))
    }
}

impl BlobStore for NewObjects<'_> {
    fn expect(&self, files: usize) -> Result<(), ObjectError> {
        if files < PACKED_FROM {
            return Ok(());
        }
        let objects = self.history.path().join("objects");
        let pack = PackFile::create(&objects).map_err(ObjectError::at("begin a pack"))?;
        // Another call came first: its pack takes these files, too.
        let _ = self.pack.set(Mutex::new(pack));
        Ok(())
    }

    fn writer(&self) -> Result<Box<dyn BlobWriter + '_>, ObjectError> {
        Ok(Box::new(self.open_writer()?))
    }
}

impl ObjectWriter<'_> {
    pub(super) fn write(&self, kind: ObjectType, contents: &[u8]) -> Result<Oid, ObjectError> {
        let odb = self
            .repository
            .odb()
            .map_err(ObjectError::at("open the object store"))?;
        match self.pack {
            None => odb
                .write(kind, contents)
                .map_err(ObjectError::at("write an object")),
            Some(pack) => self.add_to(pack, &odb, kind, contents),
        }
    }

    fn add_to(
        &self,
        pack: &Mutex<PackFile>,
        odb: &Odb<'_>,
        kind: ObjectType,
        contents: &[u8],
    ) -> Result<Oid, ObjectError> {
        let pack = || pack.lock().unwrap_or_else(PoisonError::into_inner);
        let id = Oid::hash_object(kind, contents).map_err(ObjectError::at("hash an object"))?;
        // Nobody else writes, so there is no need to look at the folders again for each object.
        if pack().contains(id) || odb.exists_ext(id, OdbLookupFlags::NO_REFRESH) {
            return Ok(id);
        }
        let packed = self.packer.borrow_mut().pack(id, kind, contents);
        let packed = packed.map_err(ObjectError::at("compress an object"))?;
        pack().add(&packed).map_err(ObjectError::at("write a pack"))?;
        Ok(id)
    }
}

impl BlobWriter for ObjectWriter<'_> {
    fn write(&self, contents: &[u8]) -> Result<Oid, ObjectError> {
        self.write(ObjectType::Blob, contents)
    }
}
