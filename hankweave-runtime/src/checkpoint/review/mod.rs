//! A branch in a repository of the user's, on which people can review the files of a task's checkpoint (TASK-109).
//!
//! The repository belongs to the user: nothing is checked out and none of its hooks runs. Of its references only the
//! branch and a mark next to it are written. The mark is the commit to which we moved the branch last. A branch without a
//! mark is not ours. A branch that neither contains the mark nor is contained in it has diverged.

mod files;
mod look;
mod obstacle;

use std::path::{Path, PathBuf};

use git2::{Oid, Reference, Repository};
use hankweave_core::id::CheckpointSha;
use hankweave_core::time::Timestamp;

use super::object::ObjectError;
use super::repository::{self, isolate};
use files::commit;
use look::{checked_out, conflict, in_the_way, no_folder, target, unfinished, unfinished_submodules};
pub use obstacle::{Obstacle, ReviewError};

/// Message of our changes in reference logs.
const LOG: &str = "hankweave";

/// The author of our commits.
const NAME: &str = "hankweave";
const MAIL: &str = "hankweave@localhost";

/// A review branch, which need not exist yet.
#[derive(Debug, Clone)]
pub struct ReviewBranch {
    /// The folder of the repository.
    pub repository: PathBuf,
    /// Name of the branch, such as `task/report-7`.
    pub name: String,
    /// The full name of a reference that no other program uses.
    pub mark: String,
    /// Folder on the branch that gets the files: its names from the outermost to the innermost.
    pub folder: Vec<String>,
}

/// Files to be shown on a review branch.
#[derive(Debug, Clone)]
pub struct ReviewRequest {
    /// The bare repository of the checkpoints.
    pub checkpoints: PathBuf,
    /// The checkpoint whose files are shown.
    pub checkpoint: CheckpointSha,
    /// Message of the commit.
    pub message: String,
    /// Time of the commit.
    pub at: Timestamp,
}

/// Relation of the branch to its mark.
enum BranchState {
    Absent,
    /// The branch ends at `branch`; `newest` is that commit or the mark, whichever contains the other.
    Ours {
        branch: Oid,
        newest: Oid,
    },
    /// The branch has no mark.
    Foreign,
    Diverged {
        mark: Oid,
    },
}

/// Place of the next commit.
struct BranchTip {
    /// Commit at which the branch ends, or the mark if the branch has diverged.
    branch: Oid,
    /// Parent of the next commit.
    newest: Oid,
    /// Why the branch cannot be moved; `None` if it can.
    obstacle: Option<Obstacle>,
}

impl ReviewBranch {
    /// Finds out whether the branch can be made, or exists and is ours. Changes nothing; blocks.
    ///
    /// # Errors
    ///
    /// Returns [`ReviewError::Unusable`], or [`ReviewError::Obstructed`] with all obstacles.
    pub fn check(&self) -> Result<(), ReviewError> {
        let repository = open(&self.repository)?;
        let obstacles = self.obstacles(&repository);
        self.fail_if_any(obstacles.map_err(ObjectError::at("look at the repository"))?)
    }

    /// Makes the branch at HEAD, unless it exists and is ours. Blocks.
    ///
    /// # Errors
    ///
    /// Returns [`ReviewError`]; existing references stay unchanged.
    pub fn start(&self) -> Result<(), ReviewError> {
        let repository = open(&self.repository)?;
        self.find_or_create(&repository).map(drop)
    }

    /// Adds a commit with the files of a checkpoint to the branch, unless the branch has them; a missing branch is made first. Blocks.
    ///
    /// # Errors
    ///
    /// Returns [`ReviewError`]; with [`ReviewError::Waiting`] the commit is made and only the mark names it.
    pub fn show(&self, work: &ReviewRequest) -> Result<(), ReviewError> {
        let repository = open(&self.repository)?;
        let tip = self.find_or_create(&repository)?;
        let obstacle = self
            .folder_obstacle(&repository, tip.newest)
            .map_err(at_branch())?;
        self.fail_if_any(obstacle.into_iter().collect())?;
        let checkpoints = repository::open(&work.checkpoints)?;
        let commit = commit(&repository, tip.newest, &self.folder, &checkpoints, work);
        let commit = commit.map_err(ObjectError::at("bring the files to the branch"))?;
        self.move_branch(&repository, tip, commit)
    }

    fn reference(&self) -> String {
        format!("refs/heads/{}", self.name)
    }

    fn fail_if_any(&self, obstacles: Vec<Obstacle>) -> Result<(), ReviewError> {
        match obstacles.is_empty() {
            true => Ok(()),
            false => Err(self.obstructed(obstacles)),
        }
    }

    fn obstructed(&self, obstacles: Vec<Obstacle>) -> ReviewError {
        ReviewError::Obstructed {
            path: self.repository.clone(),
            obstacles,
        }
    }

    /// Returns the place of the next commit. Makes the branch if it does not exist; fails if it is not ours.
    fn find_or_create(&self, repository: &Repository) -> Result<BranchTip, ReviewError> {
        let (branch, newest, obstacle) = match self.state(repository).map_err(at_branch())? {
            BranchState::Absent => {
                let head = self.create_branch(repository).map_err(at_branch())?;
                (head, head, None)
            }
            BranchState::Ours { branch, newest } => {
                let checked_out = self.checked_out(repository).map_err(at_branch())?;
                (branch, newest, checked_out)
            }
            BranchState::Diverged { mark } => (mark, mark, Some(self.diverged())),
            BranchState::Foreign => return Err(self.obstructed(vec![Obstacle::Foreign(self.name.clone())])),
        };
        Ok(BranchTip {
            branch,
            newest,
            obstacle,
        })
    }

    fn create_branch(&self, repository: &Repository) -> Result<Oid, git2::Error> {
        let head = repository.head()?.peel_to_commit()?.id();
        // The mark first: a branch without one is not ours.
        repository.reference(&self.mark, head, true, LOG)?;
        repository.reference(&self.reference(), head, false, LOG)?;
        Ok(head)
    }

    fn state(&self, repository: &Repository) -> Result<BranchState, git2::Error> {
        let (branch, mark) = (
            target(repository, &self.reference())?,
            target(repository, &self.mark)?,
        );
        let contains = |later: Oid, earlier: Oid| match later == earlier {
            true => Ok(true),
            false => repository.graph_descendant_of(later, earlier),
        };
        let ours = |branch, newest| BranchState::Ours { branch, newest };
        Ok(match (branch, mark) {
            (None, _) => BranchState::Absent,
            (Some(_), None) => BranchState::Foreign,
            (Some(branch), Some(mark)) if contains(branch, mark)? => ours(branch, branch),
            // As after a crash of `move_branch` before it moved the branch.
            (Some(branch), Some(mark)) if contains(mark, branch)? => ours(branch, mark),
            (Some(_), Some(mark)) => BranchState::Diverged { mark },
        })
    }

    fn diverged(&self) -> Obstacle {
        Obstacle::Diverged {
            branch: self.name.clone(),
            mark: self.mark.clone(),
        }
    }

    /// Returns everything that keeps us from making or moving the branch.
    fn obstacles(&self, repository: &Repository) -> Result<Vec<Obstacle>, git2::Error> {
        let mut found = Vec::new();
        found.extend(unfinished(repository).map(Obstacle::Unfinished));
        found.extend(conflict(repository)?.map(Obstacle::Conflict));
        let submodules = unfinished_submodules(repository)?.into_iter();
        found.extend(submodules.map(|(submodule, what)| Obstacle::Submodule { submodule, what }));
        if !Reference::is_valid_name(&self.reference()) {
            found.push(Obstacle::Name(self.name.clone()));
            return Ok(found);
        }
        found.extend(in_the_way(repository, &self.name)?.map(Obstacle::InTheWay));
        found.extend(match self.state(repository)? {
            BranchState::Absent => match target(repository, "HEAD")? {
                Some(head) => self.folder_obstacle(repository, head)?,
                None => Some(Obstacle::NoCommit),
            },
            BranchState::Ours { newest, .. } => match self.checked_out(repository)? {
                None => self.folder_obstacle(repository, newest)?,
                checked_out => checked_out,
            },
            BranchState::Foreign => Some(Obstacle::Foreign(self.name.clone())),
            BranchState::Diverged { .. } => Some(self.diverged()),
        });
        Ok(found)
    }

    fn checked_out(&self, repository: &Repository) -> Result<Option<Obstacle>, git2::Error> {
        let place = checked_out(repository, &self.reference())?;
        Ok(place.map(|place| Obstacle::CheckedOut {
            branch: self.name.clone(),
            place,
        }))
    }

    /// Returns the obstacle if the files of `commit` have something else than a folder on the path of [`folder`](Self::folder).
    fn folder_obstacle(&self, repository: &Repository, commit: Oid) -> Result<Option<Obstacle>, git2::Error> {
        Ok(no_folder(repository, commit, &self.folder)?.map(Obstacle::NoFolder))
    }

    /// Moves the mark to `commit`, and then the branch if no obstacle is known.
    fn move_branch(&self, repository: &Repository, tip: BranchTip, commit: Oid) -> Result<(), ReviewError> {
        let mark = repository.reference(&self.mark, commit, true, LOG);
        mark.map_err(at_branch())?;
        if commit == tip.branch {
            return Ok(());
        }
        if let Some(obstacle) = tip.obstacle {
            let mark = self.mark.clone();
            return Err(ReviewError::Waiting { mark, obstacle });
        }
        // Fails if the user has moved the branch since `find_or_create`, so that their move is not undone.
        let moved = repository.reference_matching(&self.reference(), commit, true, tip.branch, LOG);
        Ok(moved.map(drop).map_err(at_branch())?)
    }
}

/// Finds out whether branches can be made in the repository in this folder at all. Blocks.
///
/// # Errors
///
/// Returns [`ReviewError::Unusable`].
pub fn is_usable(repository: &Path) -> Result<(), ReviewError> {
    open(repository).map(drop)
}

fn open(path: &Path) -> Result<Repository, ReviewError> {
    isolate();
    Repository::open(path).map_err(|error| ReviewError::Unusable {
        path: path.to_owned(),
        source: ObjectError::at("open it")(error),
    })
}

fn at_branch() -> impl Fn(git2::Error) -> ObjectError {
    ObjectError::at("look after the branch")
}

#[cfg(test)]
mod tests;
