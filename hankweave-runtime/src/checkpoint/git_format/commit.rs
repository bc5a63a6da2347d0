//! Commits: their text, written and read.

use std::io;
use std::path::Path;
use std::sync::Arc;

use git2::{ObjectType, Oid};
use hankweave_core::time::Timestamp;

use super::compress::Compressor;
use super::loose::LooseObject;
use super::new_objects::NewObjects;
use super::trees::TreeWriter;
use crate::checkpoint::object::ObjectError;
use crate::checkpoint::tree::{Folders, Listing, PathChange};
use crate::world::disk::open_dir;

/// The one author of all checkpoints and records.
const AUTHOR: &str = "hankweave <hankweave@localhost>";

/// A commit to write, without its tree.
#[derive(Debug, Clone, Copy)]
pub(in crate::checkpoint) struct NewCommit<'a> {
    pub(in crate::checkpoint) parents: &'a [Oid],
    pub(in crate::checkpoint) at: Timestamp,
    pub(in crate::checkpoint) message: &'a str,
}

/// A commit that was read.
#[derive(Debug)]
pub(in crate::checkpoint) struct Commit {
    pub(in crate::checkpoint) id: Oid,
    pub(in crate::checkpoint) tree: Oid,
    pub(in crate::checkpoint) parents: Vec<Oid>,
    /// When it was made, in seconds since 1970.
    pub(in crate::checkpoint) seconds: i64,
    pub(in crate::checkpoint) message: String,
}

impl NewCommit<'_> {
    /// Writes the folders of `files`, which differ from those in `before` by `changes`, and the commit. Returns the ids of
    /// the commit and of all folders.
    pub(in crate::checkpoint) fn write(
        &self,
        objects: &NewObjects<'_>,
        files: &Listing,
        before: &Folders,
        changes: &[PathChange],
    ) -> Result<(Oid, Folders), ObjectError> {
        let writer = objects.open_writer();
        let mut trees = TreeWriter::new(&writer, before, changes);
        let tree = trees.folder(&[], files.as_slice())?;
        let commit = writer.write(ObjectType::Commit, self.encode(tree).as_bytes())?;
        Ok((commit, trees.folders))
    }

    /// The commit of `tree` as git stores it. Git knows no time before 1970.
    fn encode(&self, tree: Oid) -> String {
        let seconds = self.at.as_millis().div_euclid(1_000).max(0);
        let who = format!("{AUTHOR} {seconds} +0000");
        let parents = self.parents.iter().map(|parent| format!("parent {parent}\n"));
        let (parents, message) = (parents.collect::<String>(), self.message);
        format!("tree {tree}\n{parents}author {who}\ncommitter {who}\n\n{message}")
    }
}

impl Commit {
    /// Reads what [`NewCommit::encode`], or any git, has written; `None` when it is no commit.
    pub(super) fn decode(id: Oid, bytes: &[u8]) -> Option<Self> {
        let end = bytes.windows(2).position(|pair| pair == b"\n\n")?;
        let (head, message) = (String::from_utf8_lossy(&bytes[..end]), &bytes[end + 2..]);
        let values = |name: &'static str| {
            let lines = head.lines();
            lines.filter_map(move |line| line.strip_prefix(name)?.strip_prefix(' '))
        };
        // git2 makes an id of a shorter text as well.
        let id_of = |text: &str| Oid::from_str(text).ok().filter(|_| text.len() == 40);
        let committer = values("committer").next()?;
        let (_, time) = committer.rsplit_once('>')?;
        Some(Self {
            id,
            tree: id_of(values("tree").next()?)?,
            parents: values("parent").map(id_of).collect::<Option<_>>()?,
            seconds: time.split_whitespace().next()?.parse().ok()?,
            message: String::from_utf8_lossy(message).into_owned(),
        })
    }
}

/// Writes a commit without files, each object in a file of its own that replaces an existing one. The file system must
/// still be synced.
pub(in crate::checkpoint) fn write_first_commit(
    repository: &Path,
    commit: &NewCommit<'_>,
) -> io::Result<Oid> {
    let objects = Arc::new(open_dir(&repository.join("objects"))?.into());
    let mut compressor = Compressor::new();
    let mut write = |kind, contents: &[u8]| {
        let id = Oid::hash_object(kind, contents).map_err(io::Error::other)?;
        LooseObject::write(&objects, &mut compressor, id, kind, contents)?.put_in_place()?;
        Ok::<Oid, io::Error>(id)
    };
    let tree = write(ObjectType::Tree, b"")?;
    write(ObjectType::Commit, commit.encode(tree).as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(byte: u8) -> Oid {
        Oid::from_bytes(&[byte; 20]).unwrap()
    }

    // covers: G11
    #[test]
    fn a_commit_is_read_back_and_so_is_one_that_others_wrote() {
        let new = NewCommit {
            parents: &[id(2)],
            at: Timestamp::from_millis(1_736_000_000_123),
            message: "a\n\nb\n",
        };
        let read = Commit::decode(id(9), new.encode(id(1)).as_bytes()).unwrap();
        assert_eq!((read.id, read.tree, read.parents), (id(9), id(1), vec![id(2)]));
        assert_eq!((read.seconds, &*read.message), (1_736_000_000, "a\n\nb\n"));

        let (tree, one, two) = (id(1), id(2), id(3));
        let signed = format!(
            "tree {tree}\nparent {one}\nparent {two}\nauthor A > B <a> 1 +0100\ncommitter <> 7 -0230\n\
             encoding latin1\ngpgsig -----\n parent\n tree x\n\nmerge"
        );
        let read = Commit::decode(id(9), signed.as_bytes()).unwrap();
        assert_eq!((read.parents, read.seconds), (vec![one, two], 7));
        for (bad, reason) in [
            (signed.replace("tree 01", "tree 0"), "no whole id"),
            (signed.replace("committer", "committee"), "no committer"),
            (signed.replace("\n\n", "\n"), "no end of its head"),
        ] {
            assert!(Commit::decode(id(9), bad.as_bytes()).is_none(), "{reason}");
        }
    }
}
