//! Trees: the folders of a checkpoint, written and read.

use std::collections::HashSet;
use std::io::Write as _;

use git2::{ObjectType, Oid};

use super::new_objects::ObjectWriter;
use crate::checkpoint::object::ObjectError;
use crate::checkpoint::tree::{ChangeKind, FileEntry, Folders, PathChange, TreePath};

/// The mode of a folder in a tree.
const FOLDER: u32 = 0o040_000;

/// One entry of a tree that was read.
#[derive(Debug)]
pub(in crate::checkpoint) struct TreeEntry {
    pub(in crate::checkpoint) mode: u32,
    pub(in crate::checkpoint) name: Vec<u8>,
    pub(in crate::checkpoint) id: Oid,
}

impl TreeEntry {
    pub(in crate::checkpoint) fn is_folder(&self) -> bool {
        self.mode == FOLDER
    }
}

/// Writes the trees of a listing, except those that the checkpoint before has already.
pub(super) struct TreeWriter<'a> {
    objects: &'a ObjectWriter<'a>,
    /// Folders with a change somewhere inside.
    changed: HashSet<Box<[u8]>>,
    /// Ids of all folders. They start as those of the checkpoint before; each written folder replaces its own.
    pub(super) folders: Folders,
}

impl<'a> TreeWriter<'a> {
    /// `before` are the folders of the checkpoint from which the listing differs by `changes`.
    pub(super) fn new(objects: &'a ObjectWriter<'a>, before: &Folders, changes: &[PathChange]) -> Self {
        let mut writer = Self {
            objects,
            changed: HashSet::new(),
            folders: before.clone(),
        };
        for PathChange { path, kind } in changes {
            for folder in path.folders() {
                let known = !writer.changed.insert(folder.into());
                if *kind == ChangeKind::Deleted {
                    // The folder may no longer exist; otherwise it is written again.
                    writer.folders.remove(folder);
                } else if known {
                    // Then the folders above are in the set as well.
                    break;
                }
            }
        }
        writer
    }

    /// Writes the folder `folder`, which holds `files`. These are ordered by whole path, and so are names in a tree.
    pub(super) fn folder(
        &mut self,
        folder: &[u8],
        files: &[(TreePath, FileEntry)],
    ) -> Result<Oid, ObjectError> {
        if let Some(tree) = self.folders.get(folder)
            && !self.changed.contains(folder)
        {
            return Ok(*tree);
        }
        let start = if folder.is_empty() { 0 } else { folder.len() + 1 };
        let (mut tree, mut rest) = (Vec::new(), files);
        while let [(path, entry), others @ ..] = rest {
            let name = &path.as_bytes()[start..];
            match name.iter().position(|&byte| byte == b'/') {
                None => {
                    append(&mut tree, entry.mode.to_git(), name, entry.blob);
                    rest = others;
                }
                Some(slash) => {
                    let prefix = &path.as_bytes()[..=start + slash];
                    let end = rest.partition_point(|(path, _)| path.as_bytes().starts_with(prefix));
                    let (inside, after) = rest.split_at(end);
                    let id = self.folder(&prefix[..start + slash], inside)?;
                    append(&mut tree, FOLDER, &name[..slash], id);
                    rest = after;
                }
            }
        }
        let id = self.objects.write(ObjectType::Tree, &tree)?;
        self.folders.insert(folder.into(), id);
        Ok(id)
    }
}

fn append(tree: &mut Vec<u8>, mode: u32, name: &[u8], id: Oid) {
    let _ = write!(tree, "{mode:o} "); // A Vec takes everything.
    tree.extend_from_slice(name);
    tree.push(0);
    tree.extend_from_slice(id.as_bytes());
}

/// Decodes the entries of a tree; `None` if the bytes are no tree.
pub(super) fn decode(mut bytes: &[u8]) -> Option<Vec<TreeEntry>> {
    let mut entries = Vec::new();
    while !bytes.is_empty() {
        let space = bytes.iter().position(|&byte| byte == b' ')?;
        let mode = u32::from_str_radix(std::str::from_utf8(&bytes[..space]).ok()?, 8).ok()?;
        let rest = &bytes[space + 1..];
        let end = rest.iter().position(|&byte| byte == 0)?;
        let (id, after) = rest[end + 1..].split_at_checked(20)?;
        entries.push(TreeEntry {
            mode,
            name: rest[..end].to_vec(),
            id: Oid::from_bytes(id).ok()?,
        });
        bytes = after;
    }
    Some(entries)
}

#[cfg(test)]
mod tests {
    use super::*;

    // covers: G11
    #[test]
    fn a_tree_is_read_back_and_a_part_of_one_is_none() {
        let id = Oid::from_bytes(&[7; 20]).unwrap();
        let mut bytes = Vec::new();
        append(&mut bytes, 0o100_755, b"a b", id);
        append(&mut bytes, FOLDER, b"\xff", id);
        let read = decode(&bytes).unwrap();
        let read: Vec<_> = read.iter().map(|entry| (entry.mode, &*entry.name)).collect();
        assert_eq!(read, [(0o100_755, &b"a b"[..]), (FOLDER, b"\xff")]);
        let first = 7 + b"a b".len() + 1 + 20;
        for length in (1..bytes.len()).filter(|length| *length != first) {
            assert!(decode(&bytes[..length]).is_none(), "{length}");
        }
        assert_eq!(decode(b"").map(|entries| entries.len()), Some(0));
    }
}
