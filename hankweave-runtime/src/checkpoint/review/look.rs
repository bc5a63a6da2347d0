//! Questions about a repository that belongs to the user: what keeps us from making or moving a review branch (TASK-109).

use std::path::{Path, PathBuf};

use git2::{ErrorCode, ObjectType, Oid, Repository, RepositoryState};

/// Returns the commit to which a reference leads, if the reference exists.
pub(super) fn target(repository: &Repository, name: &str) -> Result<Option<Oid>, git2::Error> {
    let found = repository.find_reference(name);
    match found.and_then(|found| found.peel_to_commit()) {
        Ok(commit) => Ok(Some(commit.id())),
        Err(error) if error.code() == ErrorCode::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Returns the unfinished operation of the repository, such as a merge.
pub(super) fn unfinished(repository: &Repository) -> Option<&'static str> {
    Some(match repository.state() {
        RepositoryState::Clean => return None,
        RepositoryState::Merge => "merge",
        RepositoryState::Revert | RepositoryState::RevertSequence => "revert",
        RepositoryState::CherryPick | RepositoryState::CherryPickSequence => "cherry-pick",
        RepositoryState::Bisect => "bisect",
        _ => "rebase",
    })
}

/// Returns one path of the index that is in conflict, if any is.
pub(super) fn conflict(repository: &Repository) -> Result<Option<String>, git2::Error> {
    if repository.is_bare() {
        return Ok(None);
    }
    let index = repository.index()?;
    let Some(conflict) = index.conflicts()?.next().transpose()? else {
        return Ok(None);
    };
    let entry = conflict.our.or(conflict.their).or(conflict.ancestor);
    Ok(entry.map(|entry| String::from_utf8_lossy(&entry.path).into_owned()))
}

/// Returns the submodules with an unfinished operation, and the operation.
pub(super) fn unfinished_submodules(
    repository: &Repository,
) -> Result<Vec<(String, &'static str)>, git2::Error> {
    let mut found = Vec::new();
    if repository.is_bare() {
        return Ok(found);
    }
    for submodule in repository.submodules()? {
        // One that is not checked out has nothing unfinished.
        if let Some(what) = submodule.open().ok().as_ref().and_then(unfinished) {
            let submodule = submodule.path().display().to_string();
            found.push((submodule, what));
        }
    }
    Ok(found)
}

/// Returns a branch that leaves no room for the branch `name`: `a` or `a/b/c` for `a/b`.
pub(super) fn in_the_way(repository: &Repository, name: &str) -> Result<Option<String>, git2::Error> {
    let folders = name.match_indices('/').map(|(end, _)| &name[..end]);
    for folder in folders {
        if target(repository, &format!("refs/heads/{folder}"))?.is_some() {
            return Ok(Some(folder.to_owned()));
        }
    }
    let mut beneath = repository.references_glob(&format!("refs/heads/{name}/*"))?;
    let first = beneath.names().next().transpose()?;
    Ok(first.map(|name| name.trim_start_matches("refs/heads/").to_owned()))
}

/// Returns the path where a branch is checked out, by the full name of its reference.
pub(super) fn checked_out(repository: &Repository, reference: &str) -> Result<Option<PathBuf>, git2::Error> {
    let mut trees = vec![Repository::open(repository.commondir())?];
    for name in repository.worktrees()?.iter() {
        if let Some(name) = name? {
            // A worktree whose folder no longer exists has nothing checked out.
            trees.extend(Repository::open_from_worktree(&repository.find_worktree(name)?).ok());
        }
    }
    let is_here = |tree: &&Repository| {
        tree.head()
            .is_ok_and(|head| head.name_bytes() == reference.as_bytes())
    };
    let place = trees.iter().filter(is_here).find_map(|tree| tree.workdir());
    Ok(place.map(Path::to_owned))
}

/// Returns the path of an entry on the path `folder` that is no folder, in the files of a commit.
pub(super) fn no_folder(
    repository: &Repository,
    commit: Oid,
    folder: &[String],
) -> Result<Option<String>, git2::Error> {
    let mut tree = repository.find_commit(commit)?.tree()?;
    for (depth, name) in (1..).zip(folder) {
        let Some(entry) = tree.get_name(name).map(|entry| (entry.kind(), entry.id())) else {
            return Ok(None);
        };
        tree = match entry {
            (Some(ObjectType::Tree), id) => repository.find_tree(id)?,
            _ => return Ok(Some(folder[..depth].join("/"))),
        };
    }
    Ok(None)
}
