//! Checkpoints: the files of a workspace as they were at one moment, and the means to restore them.
//!
//! A [`CheckpointStore`] records the files that belong to a checkpoint under a SHA, and can restore them. Its input is a
//! workspace folder, the patterns of the plan and the checkpoint to build on. Its output is SHAs, lists of changes, and
//! the files that had to be left out. [`GitCheckpoints`] keeps checkpoints in a bare repository that ordinary git can
//! read. Tests keep them in memory; one contract suite holds for both.
//!
//! With patterns (HANK-16, HANK-17), these files belong: every regular file and link that matches and is not ignored by a
//! `.gitignore` of the workspace, and every file that the parent checkpoint holds. With an empty list everything counts
//! as matching: a user who declares nothing still expects a rollback to restore the files. Some paths never belong, see
//! [`exclude`](hankweave_core::hank::exclude).
//!
//! A file that cannot be read, or that is larger than [`MAX_FILE_BYTES`], is left out and reported in
//! [`Checkpoint::skipped`]. Any other failure to read fails the whole checkpoint (G4, G5). So does a file that changes
//! again each time it is read.
//!
//! [`CheckpointStore`] is the seam to the world here: git works on real files only. So the modules that touch the disk
//! bypass `world::disk`, and each gives its reason. A simulation with a virtual disk has a store of its own.
//!
//! Everything here blocks on the disk: call it from a blocking task. `codon` decides when a checkpoint is due, `runner`
//! what a rollback means for runs.

mod clean;
mod counted;
mod differences;
mod extent;
mod git;
#[expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "libgit2 and its repository are real files"
)]
mod git_format;
#[expect(
    clippy::disallowed_methods,
    reason = "libgit2 and its repository are real files"
)]
mod history;
mod inspect;
mod message;
mod object;
#[expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "libgit2 and its repository are real files"
)]
mod open;
mod prune;
mod record_commit;
mod renames;
mod repository;
#[expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "the files of the real workspace, by descriptors; `CheckpointStore` is the seam"
)]
mod restore;
mod review;
#[expect(
    clippy::disallowed_methods,
    reason = "the files of the real workspace, by descriptors; `CheckpointStore` is the seam. Threads are joined before the result, and its order does not depend on them"
)]
mod select;
#[expect(
    clippy::disallowed_methods,
    reason = "libgit2 and its repository are real files"
)]
mod shape;
#[expect(
    clippy::disallowed_methods,
    reason = "files are read by several threads, which are joined before the result, and its order does not depend on them"
)]
mod snapshot;
#[expect(
    clippy::disallowed_types,
    reason = "a cache beside the repository of libgit2, lost without harm"
)]
mod stat_cache;
mod store;
mod survey;
mod tree;
#[expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "the files of the real workspace, by descriptors; `CheckpointStore` is the seam"
)]
mod workspace;

#[cfg(test)]
#[path = "../../tests/support/checkpoint_contract.rs"]
mod contract;
#[cfg(test)]
mod damage_tests;
#[cfg(test)]
mod git_tests;
#[cfg(test)]
#[path = "../../tests/support/memory_checkpoints.rs"]
mod memory;
#[cfg(test)]
mod reading_tests;
#[cfg(test)]
mod real_git_tests;
#[cfg(test)]
mod record_tests;

pub use counted::Counts;
use counted::FileProgress;
pub use differences::{Comparison, ShownLines};
pub use extent::CheckpointExtent;
pub use git::GitCheckpoints;
pub use hankweave_core::hank::{PatternError, Patterns};
pub use history::GitHistory;
pub use inspect::{Damage, DamageKind};
#[cfg(test)]
pub(crate) use memory::MemoryCheckpoints;
pub(crate) use message::incomplete;
pub use object::ObjectError;
pub use open::{OpenReport, OpenStoreError, OpenStoreRequest, write_settings};
#[doc(hidden)]
pub use record_commit::RecordCommit;
pub use review::{Obstacle, ReviewBranch, ReviewError, ReviewRequest, is_usable as is_usable_for_review};
pub use select::MAX_FILE_BYTES;
pub use store::{
    Checkpoint, CheckpointError, CheckpointRequest, CheckpointStore, CheckpointsBySha, HistoryError,
    InitialRequest, KnownCheckpoint, Protection, RestoreError, RestorePlan, RestoreReport, RestoreRequest,
    SkipReason, Skipped, SurveyedFile, WorkspaceSurvey, named,
};
pub(crate) use store::{NAMED, changed_files};
pub use tree::{ChangeKind, InvalidPath, PathChange, TreePath};
