//! A branch in a repository of the user's, on which people can review what runs did (TASK-109).
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
use look::{checked_out, conflict, in_the_way, no_folder, submodules_in_the_middle, target, unfinished};
pub use obstacle::{Obstacle, ReviewError};

/// Message of our changes in reference logs.
const LOG: &str = "hankweave";

/// The author of our commits.
const NAME: &str = "hankweave";
const MAIL: &str = "hankweave@localhost";

/// A branch, which need not be there.
#[derive(Debug, Clone)]
pub struct ReviewBranch {
    /// The folder of the repository.
    pub repository: PathBuf,
    /// Name of the branch, such as `task/report-7`.
    pub name: String,
    /// The full name of a reference that no other program uses.
    pub mark: String,
    /// Folder on the branch, from the outermost to the innermost.
    pub folder: Vec<String>,
}

/// Work to be shown.
#[derive(Debug, Clone)]
pub struct ReviewRequest {
    /// The bare repository of the checkpoints.
    pub checkpoints: PathBuf,
    /// The one whose files are shown.
    pub checkpoint: CheckpointSha,
    /// Message of the commit.
    pub message: String,
    /// When it is made.
    pub at: Timestamp,
}

/// Relation of the branch to its mark.
enum BranchState {
    Absent,
    Ours { branch: Oid, newest: Oid },
    Foreign,
    Diverged { mark: Oid },
}

/// Position of the next commit.
struct BranchTip {
    branch: Oid,
    newest: Oid,
    /// Why the branch cannot be moved.
    obstacle: Option<Obstacle>,
}

impl ReviewBranch {
    /// Finds out whether the branch can be made, or is there and ours. Changes nothing; blocks.
    ///
    /// # Errors
    ///
    /// Returns [`ReviewError::Unusable`], or [`ReviewError::Obstructed`] with all that is in the way.
    pub fn check(&self) -> Result<(), ReviewError> {
        let repository = open(&self.repository)?;
        let obstacles = self.obstacles(&repository);
        self.free_of(obstacles.map_err(ObjectError::at("look at the repository"))?)
    }

    /// Makes the branch at HEAD, unless it is there and ours. Blocks.
    ///
    /// # Errors
    ///
    /// Returns [`ReviewError`]; existing references stay unchanged.
    pub fn start(&self) -> Result<(), ReviewError> {
        let repository = open(&self.repository)?;
        self.place(&repository).map(drop)
    }

    /// Adds a commit with the files of a checkpoint to the branch, unless it has them; a branch that is not there is made first. Blocks.
    ///
    /// # Errors
    ///
    /// Returns [`ReviewError`]; with [`ReviewError::Waiting`] the mark has the commit.
    pub fn show(&self, work: &ReviewRequest) -> Result<(), ReviewError> {
        let repository = open(&self.repository)?;
        let place = self.place(&repository)?;
        let blocked = self.blocked(&repository, place.newest).map_err(at_branch())?;
        self.free_of(blocked.into_iter().collect())?;
        let checkpoints = repository::open(&work.checkpoints)?;
        let commit = commit(&repository, place.newest, &self.folder, &checkpoints, work);
        let commit = commit.map_err(ObjectError::at("bring the files to the branch"))?;
        self.move_branch(&repository, place, commit)
    }

    fn reference(&self) -> String {
        format!("refs/heads/{}", self.name)
    }

    fn free_of(&self, obstacles: Vec<Obstacle>) -> Result<(), ReviewError> {
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

    /// Returns the position of the branch, which is made if it does not exist.
    fn place(&self, repository: &Repository) -> Result<BranchTip, ReviewError> {
        let (branch, newest, obstacle) = match self.standing(repository).map_err(at_branch())? {
            BranchState::Absent => {
                let head = self.begin_in(repository).map_err(at_branch())?;
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

    fn begin_in(&self, repository: &Repository) -> Result<Oid, git2::Error> {
        let head = repository.head()?.peel_to_commit()?.id();
        // The mark first: a branch without one is not ours.
        repository.reference(&self.mark, head, true, LOG)?;
        repository.reference(&self.reference(), head, false, LOG)?;
        Ok(head)
    }

    fn standing(&self, repository: &Repository) -> Result<BranchState, git2::Error> {
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
            // As when we were cut short between the two.
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

    fn obstacles(&self, repository: &Repository) -> Result<Vec<Obstacle>, git2::Error> {
        let mut found = Vec::new();
        found.extend(unfinished(repository).map(Obstacle::Unfinished));
        found.extend(conflict(repository)?.map(Obstacle::Conflict));
        let submodules = submodules_in_the_middle(repository)?.into_iter();
        found.extend(submodules.map(|(submodule, what)| Obstacle::Submodule { submodule, what }));
        if !Reference::is_valid_name(&self.reference()) {
            found.push(Obstacle::Name(self.name.clone()));
            return Ok(found);
        }
        found.extend(in_the_way(repository, &self.name)?.map(Obstacle::InTheWay));
        found.extend(match self.standing(repository)? {
            BranchState::Absent => match target(repository, "HEAD")? {
                Some(head) => self.blocked(repository, head)?,
                None => Some(Obstacle::NoCommit),
            },
            BranchState::Ours { newest, .. } => match self.checked_out(repository)? {
                None => self.blocked(repository, newest)?,
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

    fn blocked(&self, repository: &Repository, commit: Oid) -> Result<Option<Obstacle>, git2::Error> {
        Ok(no_folder(repository, commit, &self.folder)?.map(Obstacle::NoFolder))
    }

    /// Brings the mark to a commit, and the branch if it can be moved.
    fn move_branch(&self, repository: &Repository, place: BranchTip, commit: Oid) -> Result<(), ReviewError> {
        let mark = repository.reference(&self.mark, commit, true, LOG);
        mark.map_err(at_branch())?;
        if commit == place.branch {
            return Ok(());
        }
        if let Some(obstacle) = place.obstacle {
            let mark = self.mark.clone();
            return Err(ReviewError::Waiting { mark, obstacle });
        }
        // If the branch was moved in between, that move is not undone.
        let moved = repository.reference_matching(&self.reference(), commit, true, place.branch, LOG);
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
