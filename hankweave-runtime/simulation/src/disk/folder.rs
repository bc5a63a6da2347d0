//! An open directory of the simulated disk.

use std::ffi::{OsStr, OsString};
use std::io::{self, Cursor, ErrorKind, Read};
use std::path::{Path, PathBuf};

use hankweave_runtime::world::disk::{FileKind, Folder, OpenFile, OpenedEntry, SharedFile};

use super::files::{Id, Node};
use super::plan::Need;
use super::sim_disk::SimDisk;

#[derive(Debug)]
pub(super) struct SimFolder {
    disk: SimDisk,
    id: Id,
}

impl SimFolder {
    pub(super) fn new(disk: SimDisk, id: Id) -> Self {
        Self { disk, id }
    }

    fn inner(&self, id: Id) -> Self {
        Self::new(self.disk.clone(), id)
    }

    fn add(&self, name: &OsStr, mode: u32, node: Node) -> io::Result<Id> {
        let mut shared = self.disk.shared();
        shared.step(self.disk.life(), Need::Space)?;
        shared.add(self.id, name, mode, node)
    }
}

impl Folder for SimFolder {
    fn open(&self, name: &OsStr) -> io::Result<OpenedEntry> {
        let shared = self.disk.shared();
        shared.alive(self.disk.life())?;
        let id = shared.files.entry(self.id, name)?;
        let inode = shared.files.inode(id);
        Ok(match &inode.node {
            Node::File(file) => OpenedEntry::File(OpenFile {
                mode: inode.mode,
                content: Box::new(Cursor::new(file.content().to_vec())),
            }),
            Node::Directory(_) => OpenedEntry::Folder(Box::new(self.inner(id))),
            Node::Link(_) => OpenedEntry::Other(FileKind::Link),
        })
    }

    fn names(&self) -> io::Result<Vec<OsString>> {
        let shared = self.disk.shared();
        shared.alive(self.disk.life())?;
        let directory = shared.files.directory(self.id)?;
        Ok(directory.names().map(|(name, _)| name.clone()).collect())
    }

    fn read_link(&self, name: &OsStr) -> io::Result<PathBuf> {
        let shared = self.disk.shared();
        shared.alive(self.disk.life())?;
        match &shared.files.inode(shared.files.entry(self.id, name)?).node {
            Node::Link(target) => Ok(target.clone()),
            Node::File(_) | Node::Directory(_) => Err(ErrorKind::InvalidInput.into()),
        }
    }

    fn create_folder(&self, name: &OsStr) -> io::Result<()> {
        self.add(
            name,
            0o755,
            Node::Directory(super::directory::Directory::default()),
        )
        .map(|_| ())
    }

    fn create_file(&self, name: &OsStr, mode: u32, content: &mut dyn Read) -> io::Result<()> {
        let mut bytes = Vec::new();
        content.read_to_end(&mut bytes)?;
        let id = self.add(name, mode, Node::File(super::file::File::default()))?;
        self.disk.shared().write_at(self.disk.life(), id, 0, &bytes)
    }

    fn append_file(&self, name: &OsStr, bytes: &[u8]) -> io::Result<()> {
        let there = {
            let shared = self.disk.shared();
            shared.alive(self.disk.life())?;
            shared.files.entry(self.id, name)
        };
        let id = match there {
            Ok(id) => id,
            Err(_) => self.add(name, 0o644, Node::File(super::file::File::default()))?,
        };
        let mut shared = self.disk.shared();
        let length = shared.files.content(id)?.len() as u64;
        shared.write_at(self.disk.life(), id, length, bytes)
    }

    // Files that several processes add to belong to tasks, which are not simulated.
    fn open_shared(&self, _name: &OsStr) -> io::Result<Box<dyn SharedFile>> {
        Err(ErrorKind::Unsupported.into())
    }

    fn rename(&self, _from: &OsStr, _to: &OsStr) -> io::Result<()> {
        Err(ErrorKind::Unsupported.into())
    }

    fn sync(&self) -> io::Result<()> {
        Err(ErrorKind::Unsupported.into())
    }

    fn try_lock(&self) -> io::Result<bool> {
        Err(ErrorKind::Unsupported.into())
    }

    fn create_link(&self, name: &OsStr, target: &Path) -> io::Result<()> {
        self.add(name, 0o777, Node::Link(target.to_owned())).map(|_| ())
    }

    fn remove(&self, name: &OsStr) -> io::Result<()> {
        let found = {
            let shared = self.disk.shared();
            shared.alive(self.disk.life())?;
            shared.files.entry(self.id, name)
        };
        let Ok(id) = found else { return Ok(()) };
        let inner = self.inner(id);
        if let Ok(names) = inner.names() {
            for name in names {
                inner.remove(&name)?;
            }
        }
        let mut shared = self.disk.shared();
        shared.step(self.disk.life(), Need::Nothing)?;
        shared.files.directory_mut(self.id)?.clear(name);
        Ok(())
    }
}
