//! Rigs: what prepares a codon's workspace before its agent starts.
//!
//! Input: [`RigStep`]s with sources beneath the hank's folder. Output: what happened, and
//! lines to tell on the way. Steps run in order; the first that fails and may not fail ends the rig (HANK-20).
//!
//! When the codon is gone back on, [`RigCopies`] takes out what was copied. When it has completed, [`Outputs`] hands its results out and [`Archive`] moves away what is no longer wanted.

mod archive;
mod command;
mod copies;
mod copy;
mod files;
mod outputs;
mod run;
mod target;

use std::path::PathBuf;

pub use archive::{Archive, ArchiveEntry, ArchiveError, ArchiveRequest, Moved, Taken};
pub use copies::{LeftCopy, RigCopies, RigCopy};
pub use copy::CopyError;
pub use outputs::{OutputError, Outputs};
pub use run::{Rig, RigError, RigEvent, RigFailure, RigSummary};
pub use target::TargetError;

/// One step of a rig.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RigStep {
    /// What is done.
    pub action: RigAction,
    /// Whether the rig goes on when this step fails.
    pub allow_failure: bool,
}

/// What a step does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RigAction {
    /// Copies a file or a folder.
    Copy {
        /// The source, a reference beneath the hank's folder.
        from: String,
        /// The target, relative to the workspace; its parent exists.
        to: PathBuf,
        /// Whether the target is removed first; otherwise files are replaced one by one.
        replace: bool,
    },
    /// Runs a command line with `sh -c`.
    Command {
        /// The command line.
        run: String,
        /// Where it runs.
        working_directory: WorkingDirectory,
    },
}

/// Where a rig command runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WorkingDirectory {
    /// In the agent's workspace.
    #[default]
    Project,
    /// In the target of the latest copy of this rig, else in the workspace.
    LastCopied,
}
