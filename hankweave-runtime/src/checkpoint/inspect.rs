//! Reading every part of a checkpoint, to find out whether it could be restored to the last byte.

use std::collections::HashMap;
use std::io;

use git2::{ObjectType, Oid, Repository};
use hankweave_core::id::CheckpointSha;
use serde::Serialize;

use super::TreePath;
use super::git_format::{ObjectReader, TreeEntry};
use super::object::ContentError;
use super::repository::if_readable;

/// A part of a checkpoint that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Damage {
    /// The file or folder; `None` for the checkpoint itself and for its outermost folder.
    pub path: Option<TreePath>,
    /// The name of the object.
    pub object: String,
    /// Kind of damage.
    pub kind: DamageKind,
}

/// Damage of a part of a checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum DamageKind {
    /// The object does not exist.
    Missing,
    /// The object exists, but its content is not what its name says.
    Corrupt,
}

/// Reads checkpoints of one repository; what several of them share is read once.
pub(super) struct Inspector<'a> {
    reader: ObjectReader<'a>,
    /// Results for contents and for folders without any damage inside.
    seen: HashMap<Oid, Option<DamageKind>>,
}

impl<'a> Inspector<'a> {
    pub(super) fn new(repository: &'a Repository) -> Result<Self, git2::Error> {
        Ok(Self {
            reader: ObjectReader::open(repository)?,
            seen: HashMap::new(),
        })
    }

    /// Everything that is wrong with the checkpoint `sha`, in the order of the paths.
    pub(super) fn inspect(&mut self, sha: &CheckpointSha) -> Result<Vec<Damage>, git2::Error> {
        let damage = |kind| Damage {
            path: None,
            object: sha.to_string(),
            kind,
        };
        match if_readable(self.reader.look_up(sha))? {
            None => Ok(vec![damage(DamageKind::Corrupt)]),
            // `look_up` reports a missing commit itself.
            Some(None) => Ok(vec![damage(DamageKind::Missing)]),
            Some(Some(commit)) => {
                let mut found = Vec::new();
                self.folder(commit.tree, &[], &mut found)?;
                Ok(found)
            }
        }
    }

    /// Adds the damage of the folder `id` at `path` and of everything inside to `found`.
    fn folder(&mut self, id: Oid, path: &[u8], found: &mut Vec<Damage>) -> Result<(), git2::Error> {
        if self.seen.get(&id) == Some(&None) {
            return Ok(());
        }
        let before = found.len();
        match if_readable(self.reader.tree(id))? {
            None => found.push(describe(path, id, self.damage_of(id))),
            Some(entries) => self.entries(entries, path, found)?,
        }
        if found.len() == before {
            self.seen.insert(id, None);
        }
        Ok(())
    }

    fn entries(
        &mut self,
        entries: Vec<TreeEntry>,
        folder: &[u8],
        found: &mut Vec<Damage>,
    ) -> Result<(), git2::Error> {
        for entry in entries {
            let separator: &[u8] = if folder.is_empty() { b"" } else { b"/" };
            let path = [folder, separator, &entry.name].concat();
            let id = entry.id;
            if entry.is_folder() {
                self.folder(id, &path, found)?;
                continue;
            }
            let kind = match self.seen.get(&id) {
                Some(known) => *known,
                None => self.read(id)?,
            };
            self.seen.insert(id, kind);
            found.extend(kind.map(|kind| describe(&path, id, kind)));
        }
        Ok(())
    }

    /// Reads the content of a file and compares it with its name.
    fn read(&self, id: Oid) -> Result<Option<DamageKind>, git2::Error> {
        let read = self.reader.copy_content(id, &mut io::sink());
        let good = if_readable(read.map_err(ContentError::into_git))? == Some(ObjectType::Blob);
        Ok((!good).then(|| self.damage_of(id)))
    }

    /// Returns the damage of an object that cannot be read.
    fn damage_of(&self, id: Oid) -> DamageKind {
        match self.reader.exists(id) {
            true => DamageKind::Corrupt,
            false => DamageKind::Missing,
        }
    }
}

fn describe(path: &[u8], object: Oid, kind: DamageKind) -> Damage {
    Damage {
        path: TreePath::new(path).ok(),
        object: object.to_string(),
        kind,
    }
}
