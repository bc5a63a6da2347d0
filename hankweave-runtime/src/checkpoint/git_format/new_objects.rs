//! The objects of one checkpoint or record on their way into the repository.
//!
//! [`NewObjects::open`], then writers store objects, then [`NewObjects::finish`] makes all of them durable.
//!
//! An object that exists need not be durable: a checkpoint whose sync failed leaves objects that the system may have
//! given up writing, and one that a power loss interrupted leaves empty ones. So every object is written, also where one of
//! its name exists, except the objects of a finished checkpoint. An existing object is replaced only by a durable one (P8, G6).

use std::cell::{OnceCell, RefCell};
use std::collections::HashSet;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use git2::{ObjectType, Oid, Repository};

use super::compress::Compressor;
use super::loose::LooseObject;
use super::pack::{PackFile, PackedObject};
use crate::checkpoint::object::{BlobStore, BlobWriter, ObjectError, OnlyIds, ReadSeek, WriteError};
use crate::checkpoint::repository;
use crate::world::disk::{open_dir, sync_file_system};

/// From this number of files on a pack is written. Fewer become loose objects: a pack for each small checkpoint would make
/// every look-up search through all of them.
pub(in crate::checkpoint) const PACKED_FROM: usize = 512;

/// Takes objects; they are in the repository, durably, after [`finish`](Self::finish).
#[derive(Debug)]
pub(in crate::checkpoint) struct NewObjects<'a> {
    repository: &'a Path,
    /// The folder of objects, open since before the first one: a sync reports the writes that failed while its descriptor was open.
    folder: Arc<OwnedFd>,
    /// Objects of finished checkpoints.
    durable: &'a HashSet<Oid>,
    /// The pack that takes the objects; without one they become loose objects.
    pack: OnceLock<Mutex<PackFile>>,
    loose: Mutex<Loose>,
}

#[derive(Debug, Default)]
struct Loose {
    written: HashSet<Oid>,
    /// Objects whose name an existing object has. Each replaces the existing one at the end, when it is durable.
    replacing: Vec<LooseObject>,
}

/// Writes objects from one thread.
pub(super) struct ObjectWriter<'a> {
    new: &'a NewObjects<'a>,
    compressor: RefCell<Compressor>,
    /// Opened for the first object that may exist.
    repository: OnceCell<Repository>,
}

impl<'a> NewObjects<'a> {
    pub(in crate::checkpoint) fn open(
        repository: &'a Path,
        durable: &'a HashSet<Oid>,
    ) -> Result<Self, ObjectError> {
        let folder = open_dir(&repository.join("objects"));
        let folder = folder.map_err(ObjectError::at("open the checkpoint repository"))?;
        Ok(Self {
            repository,
            folder: Arc::new(folder.into()),
            durable,
            pack: OnceLock::new(),
            loose: Mutex::default(),
        })
    }

    /// Starts a pack for the objects from now on.
    pub(in crate::checkpoint) fn start_pack(&self) -> Result<(), ObjectError> {
        let pack = PackFile::create(&self.repository.join("objects"));
        let pack = pack.map_err(ObjectError::at("begin a pack"))?;
        // `set` fails if another call came first: the pack of that call takes these files, too.
        let _ = self.pack.set(Mutex::new(pack));
        Ok(())
    }

    pub(super) fn open_writer(&self) -> ObjectWriter<'_> {
        ObjectWriter {
            new: self,
            compressor: RefCell::new(Compressor::new()),
            repository: OnceCell::new(),
        }
    }

    /// Gives all objects their names and makes them durable, with all else that was written to the file system.
    pub(in crate::checkpoint) fn finish(self) -> Result<(), ObjectError> {
        let sync = || sync_file_system(&*self.folder).map_err(ObjectError::at("sync the objects"));
        if let Some(pack) = self.pack.into_inner() {
            let pack = pack.into_inner().unwrap_or_else(PoisonError::into_inner);
            pack.finish().map_err(ObjectError::at("finish a pack"))?;
        }
        sync()?;
        let replacing = self
            .loose
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner)
            .replacing;
        if replacing.is_empty() {
            return Ok(());
        }
        for object in replacing {
            object
                .put_in_place()
                .map_err(ObjectError::at("replace an object"))?;
        }
        sync()
    }
}

impl BlobStore for NewObjects<'_> {
    fn expect(&self, files: usize) -> Result<(), ObjectError> {
        if files < PACKED_FROM {
            return Ok(());
        }
        self.start_pack()
    }

    fn writer(&self) -> Result<Box<dyn BlobWriter + '_>, ObjectError> {
        Ok(Box::new(self.open_writer()))
    }
}

impl ObjectWriter<'_> {
    pub(super) fn write(&self, kind: ObjectType, contents: &[u8]) -> Result<Oid, ObjectError> {
        let id = Oid::hash_object(kind, contents).map_err(ObjectError::at("hash an object"))?;
        if self.new.durable.contains(&id) && self.exists(id)? {
            return Ok(id);
        }
        match self.new.pack.get() {
            None => self.add_loose(id, kind, contents),
            Some(pack) => self.add_to(pack, id, kind, contents),
        }?;
        Ok(id)
    }

    fn exists(&self, id: Oid) -> Result<bool, ObjectError> {
        let repository = match self.repository.get() {
            Some(opened) => opened,
            None => {
                let opened = repository::open(self.new.repository)?;
                self.repository.get_or_init(|| opened)
            }
        };
        let odb = repository
            .odb()
            .map_err(ObjectError::at("open the object store"))?;
        Ok(odb.exists(id))
    }

    fn add_loose(&self, id: Oid, kind: ObjectType, contents: &[u8]) -> Result<(), ObjectError> {
        if !locked(&self.new.loose).written.insert(id) {
            return Ok(());
        }
        let add = || {
            let mut compressor = self.compressor.borrow_mut();
            let object = LooseObject::write(&self.new.folder, &mut compressor, id, kind, contents)?;
            self.place(object)
        };
        add().map_err(ObjectError::at::<io::Error>("write an object"))
    }

    /// Gives an object its name. If one of that name exists, the new one is kept for [`NewObjects::finish`], which replaces it.
    fn place(&self, object: LooseObject) -> io::Result<()> {
        if object.replaces_another()? {
            locked(&self.new.loose).replacing.push(object);
            return Ok(());
        }
        object.put_in_place()
    }

    fn add_to(
        &self,
        pack: &Mutex<PackFile>,
        id: Oid,
        kind: ObjectType,
        contents: &[u8],
    ) -> Result<(), ObjectError> {
        if locked(pack).contains(id) {
            return Ok(());
        }
        let packed = PackedObject::new(&mut self.compressor.borrow_mut(), id, kind, contents);
        let packed = packed.map_err(ObjectError::at("compress an object"))?;
        locked(pack).add(&packed).map_err(ObjectError::at("write a pack"))
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl BlobWriter for ObjectWriter<'_> {
    fn write(&self, contents: &[u8]) -> Result<Oid, ObjectError> {
        self.write(ObjectType::Blob, contents)
    }

    /// Reads the source twice, since the object's name comes first and shows whether the object is stored already. The
    /// object never goes into a pack, because packed content cannot be read in chunks.
    fn write_from(&self, source: &mut dyn ReadSeek, length: u64) -> Result<Option<Oid>, WriteError> {
        let Some(id) = OnlyIds.write_from(source, length)? else {
            return Ok(None);
        };
        let is_durable = || Ok(self.new.durable.contains(&id) && self.exists(id)?);
        if locked(&self.new.loose).written.contains(&id) || is_durable().map_err(WriteError::Store)? {
            return Ok(Some(id));
        }
        source.rewind()?;
        let mut compressor = self.compressor.borrow_mut();
        let written = LooseObject::write_from(&self.new.folder, &mut compressor, id, source, length)?;
        let Some(object) = written else { return Ok(None) };
        self.place(object).map_err(WriteError::writing)?;
        // Only now: other threads take an object in `written` for stored.
        locked(&self.new.loose).written.insert(id);
        Ok(Some(id))
    }
}
