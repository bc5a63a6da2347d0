//! Cleanup of a checkpoint repository: removes the named checkpoints from all branches, then the objects that nothing
//! needs any more (RUN-23).

use std::collections::{BTreeSet, HashSet};
use std::io;

use git2::{ErrorCode, Oid, Repository};
use hankweave_core::id::CheckpointSha;

use super::git_format::{self, Move, MoveError, ObjectReader};
use super::history::{EARLIER_BEGINNING, MAIN};
use super::object::as_git;
use super::prune;
use super::repository::{if_readable, name_of};
use crate::world::disk::{open_dir, sync_file_system};

/// Outcome of the cleanup for a branch.
enum Fate {
    Stays,
    /// The branch is moved back to this older commit.
    Back(Oid),
    Deleted,
}

/// A branch, or another reference, before a cleanup.
struct Branch {
    /// Full name of the reference, such as `refs/heads/main`.
    name: String,
    tip: Oid,
    fate: Fate,
}

/// Removes the checkpoints `gone` from all branches, and the objects that neither a branch nor one of `keep` needs.
/// Returns the number of freed bytes.
///
/// Branches are changed first, so an interruption leaves no branch without its objects. No other process may write meanwhile.
pub(super) fn clean(
    repository: &Repository,
    gone: &BTreeSet<CheckpointSha>,
    keep: &[CheckpointSha],
) -> Result<u64, git2::Error> {
    let branches = branches(repository, gone, keep)?;
    let needed = needed(repository, &branches, keep)?;
    for branch in &branches {
        match branch.fate {
            Fate::Stays => {}
            Fate::Back(commit) => move_back(repository, &branch.name, branch.tip, commit)?,
            Fate::Deleted => repository.find_reference(&branch.name)?.delete()?,
        }
    }
    git_format::remove_unneeded(repository, &needed)
}

/// How many bytes [`clean`] would free now. Changes nothing.
pub(super) fn measure(
    repository: &Repository,
    gone: &BTreeSet<CheckpointSha>,
    keep: &[CheckpointSha],
) -> Result<u64, git2::Error> {
    let branches = branches(repository, gone, keep)?;
    git_format::length_of_unneeded(repository, &needed(repository, &branches, keep)?)
}

/// Returns every reference with its new target: a branch ends at its newest checkpoint that stays, and a branch without
/// one is deleted.
fn branches(
    repository: &Repository,
    gone: &BTreeSet<CheckpointSha>,
    keep: &[CheckpointSha],
) -> Result<Vec<Branch>, git2::Error> {
    let reader = ObjectReader::open(repository)?;
    let mut branches = Vec::new();
    for reference in repository.references()? {
        let reference = reference?;
        let Some(tip) = reference.target() else {
            continue;
        };
        let name = reference.name()?.to_owned();
        let fate = fate(&reader, &name, tip, gone, keep)?;
        branches.push(Branch { name, tip, fate });
    }
    Ok(branches)
}

fn fate(
    reader: &ObjectReader<'_>,
    name: &str,
    tip: Oid,
    gone: &BTreeSet<CheckpointSha>,
    keep: &[CheckpointSha],
) -> Result<Fate, git2::Error> {
    let Some(branch) = name.strip_prefix("refs/heads/") else {
        return Ok(Fate::Stays);
    };
    // A branch with the files before an earlier run. `keep` lacks its checkpoint if that run was never recorded, or if it is removed.
    let is_unneeded = branch.starts_with(EARLIER_BEGINNING) && !keep.contains(&name_of(tip));
    if !gone.contains(&name_of(tip)) && !is_unneeded {
        return Ok(Fate::Stays);
    }
    if branch.starts_with(EARLIER_BEGINNING) || branch.starts_with(prune::PREFIX) {
        return Ok(Fate::Deleted);
    }
    Ok(match newest_remaining(reader, tip, gone)? {
        // At the first commit, with which every branch begins, a branch has no checkpoint of its own.
        Some((commit, is_first)) if !is_first || branch == MAIN => Fate::Back(commit),
        _ => Fate::Deleted,
    })
}

/// Returns the newest commit on the line of `tip` that is not in `gone`, and whether the repository begins with it.
fn newest_remaining(
    reader: &ObjectReader<'_>,
    tip: Oid,
    gone: &BTreeSet<CheckpointSha>,
) -> Result<Option<(Oid, bool)>, git2::Error> {
    let mut next = Some(tip);
    while let Some(commit) = next {
        let found = if_readable(reader.commit(commit))?;
        if !gone.contains(&name_of(commit)) {
            let is_first = found.is_some_and(|found| found.parents.is_empty());
            return Ok(Some((commit, is_first)));
        }
        next = found.and_then(|found| found.parents.first().copied());
    }
    Ok(None)
}

fn move_back(repository: &Repository, name: &str, from: Oid, to: Oid) -> Result<(), git2::Error> {
    let moved = Move::start(repository, name, Some(from), to).map_err(|error| match error {
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

/// Returns every object that is reachable from a branch after the cleanup, from the newest pushed record (RUN-31) or from
/// one of `keep`. A missing object adds only its own id.
fn needed(
    repository: &Repository,
    branches: &[Branch],
    keep: &[CheckpointSha],
) -> Result<HashSet<Oid>, git2::Error> {
    let reader = ObjectReader::open(repository)?;
    let tips = branches.iter().filter_map(|branch| match branch.fate {
        Fate::Stays => Some(branch.tip),
        Fate::Back(commit) => Some(commit),
        Fate::Deleted => None,
    });
    let mut commits: Vec<Oid> = tips.collect();
    for sha in keep {
        commits.extend(reader.look_up(sha)?.map(|commit| commit.id));
    }
    let mut needed = HashSet::new();
    let mut trees = Vec::new();
    while let Some(commit) = commits.pop() {
        if needed.insert(commit)
            && let Some(found) = none_if_absent(reader.commit(commit))?
        {
            commits.extend(found.parents);
            trees.push(found.tree);
        }
    }
    while let Some(tree) = trees.pop() {
        if !needed.insert(tree) {
            continue;
        }
        for entry in none_if_absent(reader.tree(tree))?.unwrap_or_default() {
            match entry.is_folder() {
                true => trees.push(entry.id),
                false => drop(needed.insert(entry.id)),
            }
        }
    }
    Ok(needed)
}

/// Returns `None` for an object that does not exist. A damaged object stays an error, because the objects it refers to
/// are unknown.
fn none_if_absent<T>(found: Result<T, git2::Error>) -> Result<Option<T>, git2::Error> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.code() == ErrorCode::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}
