//! Facts about the commits that a document names.

use std::collections::{HashMap, HashSet};
use std::fmt;

use crate::id::CheckpointSha;
use crate::time::Timestamp;

/// Facts of the checkpoint repository about one commit.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CheckpointFacts {
    /// The commit message; empty where only the name of the commit is known.
    pub message: String,
    /// When the commit was made, where known.
    pub timestamp: Option<Timestamp>,
    /// A branch that holds it; empty where unknown.
    pub branch: String,
}

/// The commits that exist.
pub trait KnownCheckpoints: fmt::Debug {
    /// Returns the facts about the commit `sha`; `None` when it does not exist.
    fn find(&self, sha: &CheckpointSha) -> Option<CheckpointFacts>;
}

/// Commits with what is known about them.
pub type CheckpointTable = HashMap<CheckpointSha, CheckpointFacts>;

impl KnownCheckpoints for CheckpointTable {
    fn find(&self, sha: &CheckpointSha) -> Option<CheckpointFacts> {
        self.get(sha).cloned()
    }
}

/// Commits that are known by name only.
impl KnownCheckpoints for HashSet<CheckpointSha> {
    fn find(&self, sha: &CheckpointSha) -> Option<CheckpointFacts> {
        self.contains(sha).then(CheckpointFacts::default)
    }
}
