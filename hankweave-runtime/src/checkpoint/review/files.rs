//! The commit that puts the files of a checkpoint on a review branch (TASK-109).

use std::io::Write;

use git2::{Oid, Repository, Signature, Time, Tree};

use super::{MAIL, NAME, ReviewRequest};

/// The mode of a folder in a tree.
const FOLDER: i32 = 0o040_000;

/// Makes a commit on top of `base` with the files of the checkpoint in `folder`, and returns it. Returns `base` itself if
/// `base` has these files already, or if the checkpoint has none.
pub(super) fn commit(
    repository: &Repository,
    base: Oid,
    folder: &[String],
    checkpoints: &Repository,
    work: &ReviewRequest,
) -> Result<Oid, git2::Error> {
    let files = checkpoints
        .find_commit(Oid::from_str(work.checkpoint.as_str())?)?
        .tree()?;
    let parent = repository.find_commit(base)?;
    let old = parent.tree()?;
    if files.is_empty() {
        return Ok(base);
    }
    copy(checkpoints, repository, files.id())?;
    let tree = with_folder(repository, Some(&old), folder, files.id())?;
    if tree == old.id() {
        return Ok(base);
    }
    let author = Signature::new(NAME, MAIL, &Time::new(work.at.as_millis() / 1000, 0))?;
    let tree = repository.find_tree(tree)?;
    repository.commit(None, &author, &author, &work.message, &tree, &[&parent])
}

/// Copies a tree with everything inside as one pack, so that it arrives as a whole or not at all.
fn copy(from: &Repository, to: &Repository, tree: Oid) -> Result<(), git2::Error> {
    let objects = to.odb()?;
    if objects.exists(tree) {
        return Ok(());
    }
    let mut pack = from.packbuilder()?;
    pack.insert_tree(tree)?;
    let mut writer = objects.packwriter()?;
    pack.foreach(|bytes| writer.write_all(bytes).is_ok())?;
    writer.commit().map(drop)
}

/// Returns the tree with `content` as the folder at `place`, and everything else unchanged.
fn with_folder(
    repository: &Repository,
    tree: Option<&Tree<'_>>,
    place: &[String],
    content: Oid,
) -> Result<Oid, git2::Error> {
    let [name, rest @ ..] = place else {
        return Ok(content);
    };
    let below = tree.and_then(|tree| tree.get_name(name)).map(|entry| entry.id());
    let below = below.map(|id| repository.find_tree(id)).transpose()?;
    let inner = with_folder(repository, below.as_ref(), rest, content)?;
    let mut builder = repository.treebuilder(tree)?;
    builder.insert(name, inner, FOLDER)?;
    builder.write()
}
