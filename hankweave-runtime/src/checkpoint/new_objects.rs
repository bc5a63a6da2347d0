//! The objects of one checkpoint on their way into the repository.

use std::cell::RefCell;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use git2::{ObjectType, OdbLookupFlags, Oid, Repository};

use super::history::GitHistory;
use super::loose;
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
    /// The folder of loose objects.
    objects: PathBuf,
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

    fn objects(&self) -> PathBuf {
        self.history.path().join("objects")
    }

    pub(super) fn open_writer(&self) -> Result<ObjectWriter<'_>, ObjectError> {
        Ok(ObjectWriter {
            objects: self.objects(),
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
        let pack = PackFile::create(&self.objects()).map_err(ObjectError::at("begin a pack"))?;
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
        let id = Oid::hash_object(kind, contents).map_err(ObjectError::at("hash an object"))?;
        // Nobody else writes, so there is no need to look at the folders again for each object.
        if self.is_packed(id) || odb.exists_ext(id, OdbLookupFlags::NO_REFRESH) {
            return Ok(id);
        }
        match self.pack {
            None => {
                loose::write(&self.objects, id, kind, contents).map_err(ObjectError::at("write an object"))
            }
            Some(pack) => self.add_to(pack, id, kind, contents),
        }?;
        Ok(id)
    }

    fn is_packed(&self, id: Oid) -> bool {
        self.pack.is_some_and(|pack| locked(pack).contains(id))
    }

    fn add_to(
        &self,
        pack: &Mutex<PackFile>,
        id: Oid,
        kind: ObjectType,
        contents: &[u8],
    ) -> Result<(), ObjectError> {
        let packed = self.packer.borrow_mut().pack(id, kind, contents);
        let packed = packed.map_err(ObjectError::at("compress an object"))?;
        locked(pack).add(&packed).map_err(ObjectError::at("write a pack"))
    }
}

fn locked(pack: &Mutex<PackFile>) -> MutexGuard<'_, PackFile> {
    pack.lock().unwrap_or_else(PoisonError::into_inner)
}

impl BlobWriter for ObjectWriter<'_> {
    fn write(&self, contents: &[u8]) -> Result<Oid, ObjectError> {
        self.write(ObjectType::Blob, contents)
    }
}
