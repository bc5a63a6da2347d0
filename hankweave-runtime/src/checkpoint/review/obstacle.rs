//! Obstacles for a review branch, and the errors of [`ReviewBranch`](super::ReviewBranch) (TASK-109).

use std::fmt;
use std::path::PathBuf;

use crate::checkpoint::object::ObjectError;

/// Something in a repository that must be out of the way first.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Obstacle {
    /// Git allows no branch of this name.
    #[error("`{0}` cannot be the name of a branch")]
    Name(String),
    /// The repository is empty.
    #[error("it has no commit yet at which a branch could begin; make one")]
    NoCommit,
    /// A merge, a rebase or something else that was not finished.
    #[error("a {0} is unfinished there; finish or abort it")]
    Unfinished(&'static str),
    /// Files or submodules with conflicts; this is the path of one of them.
    #[error("`{0}` is in conflict; resolve that and commit it")]
    Conflict(String),
    /// A submodule with a merge or something else that was not finished.
    #[error("the submodule `{submodule}` is in the middle of a {what}; finish or abort it")]
    Submodule {
        /// Its path.
        submodule: String,
        /// Operation in progress.
        what: &'static str,
    },
    /// Another branch whose name leaves no room for this one.
    #[error("its branch `{0}` is in the way; rename it with `git branch -m {0} OTHER`")]
    InTheWay(String),
    /// A branch of this name that we have not made.
    #[error("its branch `{0}` was made by somebody else; rename it with `git branch -m {0} OTHER`")]
    Foreign(String),
    /// A branch that was rebased or reset since we moved it last.
    #[error(
        "its branch `{branch}` has gone another way than `{mark}`, to which it was brought; bring them together with `git merge`, or delete one"
    )]
    Diverged {
        /// The branch.
        branch: String,
        /// The reference that is not in it.
        mark: String,
    },
    /// The branch is checked out. If it moved, git would show files that the user has not touched as changed.
    #[error("its branch `{branch}` is checked out in `{}`; check out another one there", place.display())]
    CheckedOut {
        /// The branch.
        branch: String,
        /// Path of that working tree.
        place: PathBuf,
    },
    /// Something else than a folder where the folder is to be.
    #[error("its `{0}` is no folder; move it away in a commit")]
    NoFolder(String),
}

/// Why a review branch was not made, or did not get the newest files.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReviewError {
    /// It is no repository, or git must not open it.
    #[error("`{}` cannot be used as a git repository", path.display())]
    Unusable {
        /// Expected path.
        path: PathBuf,
        /// Error of git.
        #[source]
        source: ObjectError,
    },
    /// All that is in the way.
    #[error("the git repository `{}` has no room for a branch: {}", path.display(), ObstacleList(obstacles))]
    Obstructed {
        /// Path.
        path: PathBuf,
        /// At least one.
        obstacles: Vec<Obstacle>,
    },
    /// The commit is made, and the branch could not be moved to it.
    #[error("the commit waits at `{mark}`: {obstacle}")]
    Waiting {
        /// The reference that names the commit.
        mark: String,
        /// Why the branch was not moved.
        obstacle: Obstacle,
    },
    /// Error of git.
    #[error(transparent)]
    Git(#[from] ObjectError),
}

/// Several obstacles in a line.
struct ObstacleList<'o>(&'o [Obstacle]);

impl fmt::Display for ObstacleList<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let messages: Vec<String> = self.0.iter().map(ToString::to_string).collect();
        f.write_str(&messages.join("; "))
    }
}
