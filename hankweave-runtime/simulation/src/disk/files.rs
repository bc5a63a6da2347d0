//! Files, directories and links, and how a path leads to them.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::io::{self, ErrorKind};
use std::path::{Component, Path, PathBuf};

use hankweave_runtime::world::disk::{FileKind, Metadata};

use super::directory::Directory;
use super::file::File;
use crate::rng::Rng;

pub(super) type Id = u64;

/// The user to whom everything belongs.
pub(crate) const USER: u32 = 1_000;

const ROOT: Id = 0;

/// Number of links in one path from which the path counts as a circle.
const MAX_LINKS: usize = 40;

/// Everything on the disk.
#[derive(Debug)]
pub(super) struct Files {
    inodes: BTreeMap<Id, Inode>,
    next: Id,
}

#[derive(Debug)]
pub(super) struct Inode {
    pub(super) mode: u32,
    pub(super) node: Node,
}

#[derive(Debug)]
pub(super) enum Node {
    File(File),
    Directory(Directory),
    Link(PathBuf),
}

/// A file or link as an observer sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// Permission bits and bytes of a file.
    File(u32, Vec<u8>),
    /// Target of a link.
    Link(PathBuf),
}

/// Everything inside a folder, by its path from there. Folders themselves are left out.
pub type Tree = BTreeMap<PathBuf, Content>;

impl Files {
    pub(super) fn new() -> Self {
        let root = Inode {
            mode: 0o755,
            node: Node::Directory(Directory::default()),
        };
        Self {
            inodes: BTreeMap::from([(ROOT, root)]),
            next: ROOT + 1,
        }
    }

    pub(super) fn add(&mut self, mode: u32, node: Node) -> Id {
        let id = self.next;
        self.next += 1;
        self.inodes.insert(id, Inode { mode, node });
        id
    }

    pub(super) fn inode(&self, id: Id) -> &Inode {
        self.inodes
            .get(&id)
            .expect("whatever has a name or a handle is there")
    }

    fn inode_mut(&mut self, id: Id) -> &mut Inode {
        self.inodes
            .get_mut(&id)
            .expect("whatever has a name or a handle is there")
    }

    pub(super) fn file_mut(&mut self, id: Id) -> io::Result<&mut File> {
        match &mut self.inode_mut(id).node {
            Node::File(file) => Ok(file),
            Node::Directory(_) | Node::Link(_) => Err(not_regular()),
        }
    }

    pub(super) fn content(&self, id: Id) -> io::Result<&[u8]> {
        match &self.inode(id).node {
            Node::File(file) => Ok(file.content()),
            Node::Directory(_) | Node::Link(_) => Err(not_regular()),
        }
    }

    pub(super) fn directory(&self, id: Id) -> io::Result<&Directory> {
        match &self.inode(id).node {
            Node::Directory(directory) => Ok(directory),
            Node::File(_) | Node::Link(_) => Err(ErrorKind::NotADirectory.into()),
        }
    }

    pub(super) fn directory_mut(&mut self, id: Id) -> io::Result<&mut Directory> {
        match &mut self.inode_mut(id).node {
            Node::Directory(directory) => Ok(directory),
            Node::File(_) | Node::Link(_) => Err(ErrorKind::NotADirectory.into()),
        }
    }

    pub(super) fn metadata(&self, id: Id) -> Metadata {
        let inode = self.inode(id);
        let (kind, length) = match &inode.node {
            Node::File(file) => (FileKind::File, file.content().len()),
            Node::Directory(_) => (FileKind::Directory, 0),
            Node::Link(_) => (FileKind::Link, 0),
        };
        Metadata {
            kind,
            length: length as u64,
            owner: USER,
            mode: inode.mode,
            identity: (0, id),
            // Nothing in a simulated run asks for the times of files.
            modified: (0, 0),
        }
    }

    /// The permissions, which are durable at once: nothing here depends on when.
    pub(super) fn set_mode(&mut self, id: Id, mode: u32) {
        self.inode_mut(id).mode = mode;
    }

    /// The entry `name` of a directory.
    pub(super) fn entry(&self, directory: Id, name: &OsStr) -> io::Result<Id> {
        let found = self.directory(directory)?.get(name);
        found.ok_or_else(|| ErrorKind::NotFound.into())
    }

    /// Returns the inode that `path` leads to; a link at its end is not followed.
    pub(super) fn find(&self, path: &Path) -> io::Result<Id> {
        let (directory, name) = self.place(path)?;
        match name {
            Some(name) => self.entry(directory, &name),
            None => Ok(directory),
        }
    }

    /// Returns the inode that `path` leads to, and the path to it without links.
    pub(super) fn find_followed(&self, path: &Path) -> io::Result<(Id, PathBuf)> {
        let (mut id, mut real) = (ROOT, PathBuf::from("/"));
        let mut links = 0;
        let mut rest: Vec<OsString> = reversed(path)?;
        while let Some(name) = rest.pop() {
            if name == ".." {
                real.pop();
                id = self.find_followed(&real)?.0;
                continue;
            }
            let found = self.entry(id, &name)?;
            if let Node::Link(target) = &self.inode(found).node {
                links += 1;
                if links > MAX_LINKS {
                    return Err(ErrorKind::InvalidInput.into());
                }
                if target.is_absolute() {
                    (id, real) = (ROOT, PathBuf::from("/"));
                }
                rest.extend(reversed(&Path::new("/").join(target))?);
                continue;
            }
            id = found;
            real.push(name);
        }
        Ok((id, real))
    }

    /// The directory that holds the last name of `path`, and that name; `None` for the root.
    pub(super) fn place(&self, path: &Path) -> io::Result<(Id, Option<OsString>)> {
        match (path.parent(), path.file_name()) {
            (Some(parent), Some(name)) => Ok((self.find_followed(parent)?.0, Some(name.to_owned()))),
            _ => Ok((self.find_followed(path)?.0, None)),
        }
    }

    /// The system drops the clean pages of any file or of none.
    pub(super) fn reclaim(&mut self, rng: &mut Rng) {
        for inode in self.inodes.values_mut() {
            if let Node::File(file) = &mut inode.node
                && file.has_lost()
                && rng.one_in(2)
            {
                file.reclaim();
            }
        }
    }

    /// Returns a copy without everything unsynced.
    pub(super) fn durable(&self) -> Self {
        let mut copy = Self {
            inodes: BTreeMap::new(),
            next: self.next,
        };
        self.copy_durable(ROOT, &mut copy);
        copy
    }

    fn copy_durable(&self, id: Id, copy: &mut Self) {
        if copy.inodes.contains_key(&id) {
            return;
        }
        let Inode { mode, node } = self.inode(id);
        let node = match node {
            Node::File(file) => Node::File(file.durable()),
            Node::Directory(directory) => Node::Directory(directory.durable()),
            Node::Link(target) => Node::Link(target.clone()),
        };
        let inner: Vec<Id> = match &node {
            Node::Directory(directory) => directory.names().map(|(_, id)| id).collect(),
            Node::File(_) | Node::Link(_) => Vec::new(),
        };
        copy.inodes.insert(id, Inode { mode: *mode, node });
        for id in inner {
            self.copy_durable(id, copy);
        }
    }

    /// The power goes: everything is what it would be after a new start.
    pub(super) fn lose(&mut self, rng: &mut Rng) {
        for inode in self.inodes.values_mut() {
            match &mut inode.node {
                Node::File(file) => file.lose(rng),
                Node::Directory(directory) => directory.lose(rng),
                Node::Link(_) => {}
            }
        }
    }

    /// Forgets inodes that have no name and cannot get one back. No file may be open.
    pub(super) fn forget_nameless(&mut self) {
        let mut reachable = BTreeSet::new();
        self.reach(ROOT, &mut reachable);
        self.inodes.retain(|id, _| reachable.contains(id));
    }

    fn reach(&self, id: Id, reachable: &mut BTreeSet<Id>) {
        if reachable.insert(id)
            && let Node::Directory(directory) = &self.inode(id).node
        {
            directory.ids().for_each(|id| self.reach(id, reachable));
        }
    }

    /// Makes everything inside `id` durable, except names for which `left_out` is true.
    pub(super) fn sync_tree(&mut self, id: Id, left_out: &dyn Fn(&OsStr) -> bool) {
        let inner: Vec<Id> = match &mut self.inode_mut(id).node {
            Node::File(file) => return file.sync(),
            Node::Link(_) => return,
            Node::Directory(directory) => {
                directory.sync();
                let names = directory.names().filter(|(name, _)| !left_out(name));
                names.map(|(_, id)| id).collect()
            }
        };
        for id in inner {
            self.sync_tree(id, left_out);
        }
    }

    /// Returns everything inside `id`, except names for which `left_out` is true.
    pub(super) fn tree(&self, id: Id, left_out: &dyn Fn(&OsStr) -> bool) -> Tree {
        let mut tree = Tree::new();
        self.collect(id, Path::new(""), left_out, &mut tree);
        tree
    }

    fn collect(&self, id: Id, path: &Path, left_out: &dyn Fn(&OsStr) -> bool, tree: &mut Tree) {
        let inode = self.inode(id);
        match &inode.node {
            Node::File(file) => {
                let content = Content::File(inode.mode, file.content().to_vec());
                tree.insert(path.to_owned(), content);
            }
            Node::Link(target) => drop(tree.insert(path.to_owned(), Content::Link(target.clone()))),
            Node::Directory(directory) => {
                for (name, id) in directory.names().filter(|(name, _)| !left_out(name)) {
                    self.collect(id, &path.join(name), left_out, tree);
                }
            }
        }
    }
}

/// The names of an absolute path, the last one first.
fn reversed(path: &Path) -> io::Result<Vec<OsString>> {
    let mut names = Vec::new();
    let mut components = path.components();
    if components.next() != Some(Component::RootDir) {
        return Err(io::Error::new(
            ErrorKind::InvalidInput,
            "the simulated disk has no current directory",
        ));
    }
    for component in components {
        match component {
            Component::CurDir => {}
            other => names.push(other.as_os_str().to_owned()),
        }
    }
    names.reverse();
    Ok(names)
}

pub(super) fn not_regular() -> io::Error {
    io::Error::new(ErrorKind::InvalidInput, "not a regular file")
}
