//! The commit of a record: state, journal and sessions of an execution directory, as the crate `hankweave-remote` pushes
//! them to a git remote. Checkpoints are among its parents, so the commit is written into their repository.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;

use git2::{ObjectType, Oid, Repository};
use hankweave_core::id::CheckpointSha;
use hankweave_core::time::Timestamp;

use super::git_format::{self, Move, MoveError, NewCommit, NewObjects, ObjectReader};
use super::history::{self, LoadedCheckpoint};
use super::object::{BlobStore as _, ObjectError, begin_sum};
use super::tree::{FileEntry, FileMode, Listing, changes};
use super::{HistoryError, TreePath, repository};

/// From this number of new contents on a pack is written, as git does with what it imports: the push that follows copies
/// packed objects as they are, and compresses loose ones again.
const PACKED_FROM: usize = 100;

/// Commit of a record in the repository of the checkpoints, for `hankweave-remote`.
///
/// Its name depends on these fields alone.
#[derive(Debug)]
pub struct RecordCommit<'a> {
    /// Folder of the repository.
    pub repository: &'a Path,
    /// Name of the reference to move to the commit, whatever it names now.
    pub reference: &'a str,
    /// Name of the previous record, which is durable: its contents and folders are not written again.
    pub before: Option<&'a str>,
    /// Names of the parents, in their order.
    pub parents: &'a [String],
    /// Time of the commit; fractions of seconds do not count.
    pub at: Timestamp,
    /// Message.
    pub message: &'a str,
    /// Git's [name](Self::blob_name) of the contents of each file, by its path with `/`.
    pub files: &'a BTreeMap<String, String>,
}

impl RecordCommit<'_> {
    /// Returns git's name for the contents of a file.
    #[must_use]
    pub fn blob_name(contents: &[u8]) -> String {
        let mut sum = begin_sum(ObjectType::Blob, contents.len() as u64);
        sum.update(contents);
        sum.digest().to_string()
    }

    /// Writes the commit and returns its name. Calls `contents` with the path of each file whose contents the previous record
    /// does not have. Blocks.
    ///
    /// All objects are durable before the reference moves, and the reference is durable on return (G6).
    ///
    /// # Errors
    ///
    /// Returns the error of `contents`, or an [`ObjectError`] if the repository cannot be read or written, or if the contents do not have their name. The
    /// reference has not moved then.
    pub fn write<E: From<ObjectError>>(
        &self,
        mut contents: impl FnMut(&str) -> Result<Vec<u8>, E>,
    ) -> Result<String, E> {
        let repository = repository::open(self.repository)?;
        let reader = history::open_reader(&repository).map_err(unreadable)?;
        let before = self.load_before(&reader)?;
        let folders = before.folders.values().copied();
        let durable: HashSet<Oid> = before.files.blobs().chain(folders).collect();
        let objects = NewObjects::open(self.repository, &durable)?;
        let files = self.listing()?;
        // The map and the listing are both in the order of the paths.
        let entries = self.files.keys().zip(files.as_slice());
        let blobs = entries.map(|(path, (_, entry))| (path, entry.blob));
        let is_new = |(_, blob): &(&String, Oid)| !durable.contains(blob) || !reader.exists(*blob);
        let new: Vec<(&String, Oid)> = blobs.filter(is_new).collect();
        if new.len() >= PACKED_FROM {
            objects.start_pack()?;
        }
        let writer = objects.writer()?;
        for (path, blob) in new {
            if writer.write(&contents(path)?)? != blob {
                let changed = format!("`{path}` changes");
                return Err(ObjectError::at("write the record")(changed).into());
            }
        }
        drop(writer);
        Ok(self.commit(&repository, objects, &files, &before)?)
    }

    fn load_before(&self, reader: &ObjectReader<'_>) -> Result<LoadedCheckpoint, ObjectError> {
        match self.before {
            Some(name) => history::load(reader, &CheckpointSha::new(name), None).map_err(unreadable),
            None => Ok(LoadedCheckpoint::default()),
        }
    }

    fn commit(
        &self,
        repository: &Repository,
        objects: NewObjects<'_>,
        files: &Listing,
        before: &LoadedCheckpoint,
    ) -> Result<String, ObjectError> {
        const ACTION: &str = "move the reference of the record";
        let parents = self.parents.iter().map(|name| id_of(name));
        let new = NewCommit {
            parents: &parents.collect::<Result<Vec<Oid>, _>>()?,
            at: self.at,
            message: self.message,
        };
        let changes = changes(&before.files, files);
        let (commit, _) = new.write(&objects, files, &before.folders, &changes)?;
        let now = git_format::target(repository, self.reference).map_err(ObjectError::at(ACTION))?;
        let reference =
            Move::start(repository, self.reference, now, commit).map_err(|error| match error {
                MoveError::Elsewhere(_) => ObjectError::at(ACTION)("another process moves it"),
                MoveError::Git(error) => ObjectError::at(ACTION)(error),
                MoveError::Io(error) => ObjectError::at(ACTION)(error),
            })?;
        objects.finish()?;
        reference.finish().map_err(ObjectError::at(ACTION))?;
        Ok(commit.to_string())
    }

    fn listing(&self) -> Result<Listing, ObjectError> {
        let entry = |(path, name): (&String, &String)| {
            let path = TreePath::new(path.as_bytes()).map_err(ObjectError::at("write the record"))?;
            let blob = id_of(name)?;
            let mode = FileMode::Regular;
            Ok((path, FileEntry { mode, blob }))
        };
        self.files.iter().map(entry).collect()
    }
}

fn id_of(name: &str) -> Result<Oid, ObjectError> {
    Oid::from_str(name).map_err(ObjectError::at("write the record"))
}

fn unreadable(error: HistoryError) -> ObjectError {
    match error {
        HistoryError::Read(error) => error,
        other => ObjectError::at("read the previous record")(other),
    }
}
