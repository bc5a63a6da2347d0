//! Removing checkpoints, and the objects that nothing needs any more (RUN-23).

use std::collections::{BTreeSet, HashSet};
use std::io;

use git2::{ErrorCode, Oid, Repository};
use hankweave_core::id::CheckpointSha;

use super::git_format::{self, Move, MoveError, find_commit, look_up, read_tree};
use super::object::as_git;
use super::repository::{name_of, sync_file_system, unless_missing};
use crate::world::disk::open_dir;

/// Removes the checkpoints `gone` from all branches, and the objects that neither a branch nor one of `keep` needs; returns how many bytes that freed.
///
/// Branches come first, so whatever cuts this off leaves no branch without its objects. Nobody else may write meanwhile.
pub(super) fn clean(
    repository: &Repository,
    gone: &BTreeSet<CheckpointSha>,
    keep: &[CheckpointSha],
) -> Result<u64, git2::Error> {
    take_back_branches(repository, gone)?;
    let needed = needed(repository, keep)?;
    git_format::remove_others(repository, &needed)
}

/// Lets each branch end at its newest checkpoint that stays; one that has none is deleted.
fn take_back_branches(repository: &Repository, gone: &BTreeSet<CheckpointSha>) -> Result<(), git2::Error> {
    for reference in repository.references_glob("refs/heads/*")? {
        let mut reference = reference?;
        let Some(tip) = reference.target().filter(|tip| gone.contains(&name_of(*tip))) else {
            continue;
        };
        match stays(repository, tip, gone)? {
            None => reference.delete()?,
            Some(commit) => move_back(repository, reference.name()?, tip, commit)?,
        }
    }
    Ok(())
}

/// The first commit on the line of `tip` that is not gone.
fn stays(
    repository: &Repository,
    tip: Oid,
    gone: &BTreeSet<CheckpointSha>,
) -> Result<Option<Oid>, git2::Error> {
    let mut next = Some(tip);
    while let Some(commit) = next.filter(|commit| gone.contains(&name_of(*commit))) {
        let found = unless_missing(find_commit(repository, commit))?;
        next = found.and_then(|found| found.parents.first().copied());
    }
    Ok(next)
}

fn move_back(repository: &Repository, name: &str, from: Oid, to: Oid) -> Result<(), git2::Error> {
    let moved = Move::begin(repository, name, Some(from), to).map_err(|error| match error {
        MoveError::Git(error) => error,
        MoveError::Io(error) => as_git(error),
        MoveError::Elsewhere(_) => as_git(io::Error::other("somebody else moves branches")),
    })?;
    let write = || {
        sync_file_system(&open_dir(repository.path())?)?;
        moved.finish()
    };
    write().map_err(as_git)
}

/// Every object that a branch, what was pushed last (RUN-31) or one of `keep` leads to. What is missing already leads nowhere.
fn needed(repository: &Repository, keep: &[CheckpointSha]) -> Result<HashSet<Oid>, git2::Error> {
    let mut commits = Vec::new();
    for reference in repository.references()? {
        commits.extend(reference?.target());
    }
    for sha in keep {
        commits.extend(look_up(repository, sha)?.map(|commit| commit.id));
    }
    let mut needed = HashSet::new();
    let mut trees = Vec::new();
    while let Some(commit) = commits.pop() {
        if needed.insert(commit)
            && let Some(found) = unless_absent(find_commit(repository, commit))?
        {
            commits.extend(found.parents);
            trees.push(found.tree);
        }
    }
    while let Some(tree) = trees.pop() {
        if !needed.insert(tree) {
            continue;
        }
        for entry in unless_absent(read_tree(repository, tree))?.unwrap_or_default() {
            match entry.is_folder() {
                true => trees.push(entry.id),
                false => drop(needed.insert(entry.id)),
            }
        }
    }
    Ok(needed)
}

/// `None` when an object is not there. Of a damaged one nobody knows what it leads to.
fn unless_absent<T>(found: Result<T, git2::Error>) -> Result<Option<T>, git2::Error> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.code() == ErrorCode::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}
