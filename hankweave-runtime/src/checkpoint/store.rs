//! The seam to the world: the trait of every checkpoint store, with its requests, results and errors.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use hankweave_core::codon::CheckpointType;
use hankweave_core::id::{CheckpointSha, CodonId, RunId};
use hankweave_core::time::Timestamp;
use hankweave_core::wire::{LeftOutFile, LeftOutReason};
use serde::Serialize;

use super::object::ObjectError;
use super::tree::{PathChange, TreePath};
use super::workspace::FileStat;
use super::{Counts, PatternError};

/// Keeps checkpoints of one workspace.
///
/// All methods block on the disk; async code calls them from a blocking task. Two calls that write run one after the
/// other. A SHA that was returned names files that survive a power loss (P8, G6).
pub trait CheckpointStore: Send + Sync + fmt::Debug {
    /// Records the files as they are before any codon ran, on the branch `main`.
    ///
    /// # Errors
    ///
    /// As [`create`](Self::create).
    fn initial(&self, request: &InitialRequest) -> Result<Checkpoint, CheckpointError>;

    /// Records the files as they are now, on the branch of the run (RUN-18). An unchanged workspace gives a new checkpoint too (G12).
    ///
    /// # Errors
    ///
    /// Returns [`CheckpointError`] when not all files could be recorded; then no checkpoint was made.
    fn create(&self, request: &CheckpointRequest) -> Result<Checkpoint, CheckpointError>;

    /// Records the files before a codon starts, as [`create`](Self::create) does. If no file differs from the checkpoint to
    /// build on, makes none and returns `None`. [`CheckpointRequest::kind`] is ignored.
    ///
    /// # Errors
    ///
    /// As [`create`](Self::create).
    fn create_start(&self, request: &CheckpointRequest) -> Result<Option<Checkpoint>, CheckpointError>;

    /// Returns the existing files that match these patterns and belong to a checkpoint. A checkpoint also keeps files of its parent that no longer match;
    /// these are left out. A store that cannot find out returns none; then no changes of files are reported.
    ///
    /// # Errors
    ///
    /// Returns [`CheckpointError`] when the workspace cannot be read.
    fn survey(&self, patterns: &[String]) -> Result<Vec<SurveyedFile>, CheckpointError>;

    /// Like [`survey`](Self::survey), with the other files of the workspace in addition. A store that does not know these
    /// returns none of them.
    ///
    /// # Errors
    ///
    /// Returns [`CheckpointError`] when the workspace cannot be read.
    fn survey_all(&self, patterns: &[String]) -> Result<WorkspaceSurvey, CheckpointError> {
        Ok(WorkspaceSurvey {
            listed: self.survey(patterns)?,
            unlisted: Vec::new(),
        })
    }

    /// Returns the content of a file; `None` if the file no longer exists, is unreadable or is larger than `most` bytes.
    fn content(&self, file: &SurveyedFile, most: u64) -> Option<Vec<u8>>;

    /// Returns the progress of the current write; `None` if nothing is counted. This is the only method that never waits.
    fn progress(&self) -> Option<Counts>;

    /// Returns every checkpoint of every branch. No checkpoint gives an empty map, not an error.
    ///
    /// # Errors
    ///
    /// Returns [`HistoryError`] when the checkpoints cannot be read.
    fn list(&self) -> Result<CheckpointsBySha, HistoryError>;

    /// Whether `sha`, in full length, names a checkpoint.
    ///
    /// # Errors
    ///
    /// Returns [`HistoryError`] when that cannot be found out.
    fn contains(&self, sha: &CheckpointSha) -> Result<bool, HistoryError>;

    /// The members of `shas` that cannot be restored, because the checkpoint or one of its files is missing.
    ///
    /// # Errors
    ///
    /// Returns [`HistoryError`] when that cannot be found out.
    fn verify(&self, shas: &[CheckpointSha]) -> Result<Vec<CheckpointSha>, HistoryError>;

    /// Returns the facts about those of `shas` that can be restored (G10).
    ///
    /// # Errors
    ///
    /// Returns [`HistoryError`] when that cannot be found out.
    fn restorable(&self, shas: &[CheckpointSha]) -> Result<CheckpointsBySha, HistoryError> {
        let missing = self.verify(shas)?;
        let mut known = self.list()?;
        known.retain(|sha, _| shas.contains(sha) && !missing.contains(sha));
        Ok(known)
    }

    /// Returns the files of a checkpoint, ordered by path.
    ///
    /// # Errors
    ///
    /// Returns [`HistoryError`] when it does not exist or cannot be read.
    fn files(&self, sha: &CheckpointSha) -> Result<Vec<TreePath>, HistoryError>;

    /// Returns the changes of files between `from` and `to`, ordered by path.
    ///
    /// # Errors
    ///
    /// Returns [`HistoryError`] when one of them does not exist or cannot be read.
    fn diff(&self, from: &CheckpointSha, to: &CheckpointSha) -> Result<Vec<PathChange>, HistoryError>;

    /// Returns what [`restore`](Self::restore) would change now. Changes nothing.
    ///
    /// # Errors
    ///
    /// As [`restore`](Self::restore).
    fn plan_restore(&self, request: &RestoreRequest) -> Result<RestorePlan, RestoreError>;

    /// Saves in a safety checkpoint what [`restore`](Self::restore) would change or delete now (G8). Changes
    /// no file.
    ///
    /// # Errors
    ///
    /// Returns [`RestoreError`] when a restore is not possible.
    fn protect(&self, request: &RestoreRequest) -> Result<Protection, RestoreError>;

    /// Restores the files of a checkpoint (G7, G8).
    ///
    /// First everything that will change and that [`RestoreRequest::safety`] does not have is saved in a safety checkpoint.
    /// Then files that belong to the checkpoint being left and not to the target are deleted, and files that differ from the
    /// target are written. Files that no checkpoint knows stay. Links are replaced, never followed. Interrupted, it can be
    /// called again and finishes.
    ///
    /// # Errors
    ///
    /// Returns [`RestoreError`]; its documentation says whether files were changed.
    fn restore(&self, request: &RestoreRequest) -> Result<RestoreReport, RestoreError>;

    /// Deletes the branches of old safety checkpoints that `keep` does not name; returns the deleted branches. A store that
    /// lives no longer than the process keeps all.
    ///
    /// # Errors
    ///
    /// Returns [`HistoryError`] when the branches cannot be read or deleted.
    fn prune(&self, keep: &[CheckpointSha]) -> Result<Vec<String>, HistoryError>;

    /// Removes the checkpoints `gone`, so that no branch leads to them, and frees all data that neither a branch nor one
    /// of `keep` needs (RUN-23). Returns the number of freed bytes. After an interruption it can be called again and
    /// finishes. A store that lives no longer than the process keeps everything.
    ///
    /// # Errors
    ///
    /// Returns [`HistoryError`] when the repository cannot be read or written; objects whose use is not known are kept then.
    fn clean(&self, gone: &BTreeSet<CheckpointSha>, keep: &[CheckpointSha]) -> Result<u64, HistoryError>;

    /// Moves small objects that have a file each into one file, durably; returns the number of objects moved.
    ///
    /// # Errors
    ///
    /// Returns [`HistoryError`] when the repository cannot be read or written; then each object is still somewhere.
    fn pack(&self) -> Result<usize, HistoryError> {
        Ok(0)
    }

    /// Returns the number of bytes that [`clean`](Self::clean) would free now. Changes nothing.
    ///
    /// # Errors
    ///
    /// As [`clean`](Self::clean).
    fn measure_clean(
        &self,
        gone: &BTreeSet<CheckpointSha>,
        keep: &[CheckpointSha],
    ) -> Result<u64, HistoryError>;
}

/// Asks for the checkpoint before any codon.
#[derive(Debug, Clone)]
pub struct InitialRequest {
    /// `checkpointedFiles` of the whole plan; empty means every file.
    pub patterns: Vec<String>,
    /// Time of the checkpoint.
    pub at: Timestamp,
}

/// Asks for one checkpoint of a codon.
#[derive(Debug, Clone)]
pub struct CheckpointRequest {
    /// The point in the codon's life.
    pub kind: CheckpointType,
    /// The run; its checkpoints are on the branch [`branch`](Self::branch).
    pub run_id: RunId,
    /// The codon.
    pub codon_id: CodonId,
    /// Name of the codon; any text.
    pub codon_name: String,
    /// `checkpointedFiles` of every plan entry up to this codon; empty means every file.
    pub patterns: Vec<String>,
    /// Files that the checkpoint does not have, even if the patterns or its parent include them.
    pub left_out: BTreeSet<TreePath>,
    /// The checkpoint to build on: the run's newest one, or the one the run started from. `None` means the tip of the
    /// run's branch, or of `main` when the run has no checkpoint yet.
    pub parent: Option<CheckpointSha>,
    /// Time of the checkpoint.
    pub at: Timestamp,
    /// How long the codon took, if it ended.
    pub duration: Option<Duration>,
}

impl CheckpointRequest {
    /// The branch of the run: `run-<run id>`.
    #[must_use]
    pub fn branch(&self) -> String {
        format!("run-{}", self.run_id)
    }
}

/// A checkpoint that was just made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkpoint {
    /// Its name.
    pub sha: CheckpointSha,
    /// The branch that points to it now.
    pub branch: String,
    /// The checkpoint it was built on; `None` for the first.
    pub parent: Option<CheckpointSha>,
    /// Number of files in it.
    pub files: usize,
    /// Entries of the workspace that were left out, in the order of the walk.
    pub skipped: Vec<Skipped>,
    /// Result of a [`survey`](CheckpointStore::survey) at that moment.
    pub seen: Vec<SurveyedFile>,
}

impl Checkpoint {
    /// Returns the files that would belong to this checkpoint and are not in it, in the order of the walk.
    #[must_use]
    pub fn left_out(&self) -> Vec<LeftOutFile> {
        self.skipped.iter().filter_map(Skipped::left_out).collect()
    }
}

/// A file of the workspace as it was seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SurveyedFile {
    /// Path.
    pub path: TreePath,
    /// Whether a `.gitignore` excludes the file. Such a file may hold secrets, so its content is not shown.
    pub is_ignored: bool,
    pub(super) stat: FileStat,
}

/// All files of the workspace as they were seen, except those that are never read (SENT-22).
#[derive(Debug, Clone, Default)]
pub struct WorkspaceSurvey {
    /// The files that a checkpoint would hold.
    pub listed: Vec<SurveyedFile>,
    /// The files that no checkpoint would hold.
    pub unlisted: Vec<SurveyedFile>,
}

impl SurveyedFile {
    /// Length in bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.stat.size
    }

    /// Returns the time of the last change of the content, according to the file system.
    #[must_use]
    pub fn modified(&self) -> Timestamp {
        self.stat.modified.timestamp()
    }

    /// Returns the time of the last change of content, name or permissions, according to the file system. No program can
    /// set this time.
    #[must_use]
    pub fn touched(&self) -> Timestamp {
        self.stat.changed.timestamp()
    }
}

/// Something in the workspace that is not part of a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Skipped {
    /// Path.
    pub path: TreePath,
    /// Why.
    pub reason: SkipReason,
    /// Its length in bytes, if that is why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
}

impl Skipped {
    /// Returns the file for people and clients; `None` for one that never belongs to a checkpoint.
    #[must_use]
    pub fn left_out(&self) -> Option<LeftOutFile> {
        let reason = match self.reason {
            SkipReason::Protected | SkipReason::NotAFile => return None,
            SkipReason::Unreadable => LeftOutReason::Unreadable,
            SkipReason::TooLarge => LeftOutReason::TooLarge,
            SkipReason::TooDeep => LeftOutReason::TooDeep,
        };
        Some(LeftOutFile {
            path: self.path.to_string(),
            reason,
            size: self.size,
        })
    }
}

/// Why a path was left out (G4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum SkipReason {
    /// A git folder or our own state.
    Protected,
    /// A socket, FIFO or device.
    NotAFile,
    /// The operating system does not let us read it.
    Unreadable,
    /// Larger than files of this store may be, by default [`MAX_FILE_BYTES`](super::MAX_FILE_BYTES).
    TooLarge,
    /// A folder inside too many others.
    TooDeep,
}

/// Every checkpoint, by its SHA.
pub type CheckpointsBySha = BTreeMap<CheckpointSha, KnownCheckpoint>;

/// Facts of a store about one checkpoint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct KnownCheckpoint {
    /// The whole message (RUN-17).
    pub message: String,
    /// When it was made.
    pub timestamp: Timestamp,
    /// The branch it was made on.
    pub branch: String,
    /// The checkpoint that it was made from.
    pub parent: Option<CheckpointSha>,
    /// The commit before it in git, which must stay as long as this one. It is `parent`, except for a checkpoint whose message names what it was made from
    /// (`Base:`), such as the first one of a run that started over: that one follows the repository's first commit (RUN-18).
    pub before: Option<CheckpointSha>,
}

/// Request to restore the files of a checkpoint.
#[derive(Debug, Clone)]
pub struct RestoreRequest {
    /// The checkpoint to go to, in full length.
    pub target: CheckpointSha,
    /// The checkpoint being left: files that only it has are deleted. `None` deletes nothing.
    pub left: Option<CheckpointSha>,
    /// Whether to keep files that differ from `left`, because the user or a program changed them since.
    pub spares_changed: bool,
    /// The safety checkpoint that was made already, by [`CheckpointStore::protect`].
    pub safety: Option<CheckpointSha>,
    /// Time of the safety checkpoint.
    pub at: Timestamp,
}

/// Effect of a restore; paths in order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RestorePlan {
    /// Files to write.
    pub write: Vec<TreePath>,
    /// Files to delete.
    pub delete: Vec<TreePath>,
    /// Files that stay, because they were changed since the checkpoint being left.
    pub spared: Vec<TreePath>,
    /// Files that are not written again, because they were deleted since the checkpoint being left.
    pub absent: Vec<TreePath>,
}

impl RestorePlan {
    /// Number of files that change.
    #[must_use]
    pub fn count(&self) -> usize {
        self.write.len() + self.delete.len()
    }

    /// Names at most `most` of the files that change, and counts the others: `a, b (deleted) and 3 more`.
    #[must_use]
    pub fn names(&self, most: usize) -> String {
        let written = self.write.iter().map(ToString::to_string);
        let deleted = self.delete.iter().map(|path| format!("{path} (deleted)"));
        first_named(written.chain(deleted), most)
    }

    /// Names at most `most` of the files that stay, and counts the others. Returns `None` if there are none.
    #[must_use]
    pub fn kept_names(&self, most: usize) -> Option<String> {
        let kept = self.spared.iter().map(ToString::to_string);
        (!self.spared.is_empty()).then(|| first_named(kept, most))
    }

    /// Names the files that change: `2 files changed: a, b (deleted)`; `None` when none does.
    #[must_use]
    pub fn summary(&self) -> Option<String> {
        match self.count() {
            0 => None,
            count => Some(format!("{}: {}", changed_files(count), self.names(NAMED))),
        }
    }
}

/// `1 file changed`, `2 files changed`
pub(crate) fn changed_files(number: usize) -> String {
    match number {
        1 => "1 file changed".to_owned(),
        _ => format!("{number} files changed"),
    }
}

/// Paths that a line names; more are counted.
pub(crate) const NAMED: usize = 4;

/// Names the first of these paths and counts the others: `a, b, c, d and 3 more`.
pub fn named(paths: impl IntoIterator<Item = String>) -> String {
    first_named(paths, NAMED)
}

fn first_named(paths: impl IntoIterator<Item = String>, most: usize) -> String {
    let mut paths = paths.into_iter();
    let first: Vec<String> = paths.by_ref().take(most).collect();
    match paths.count() {
        0 => first.join(", "),
        more => format!("{} and {more} more", first.join(", ")),
    }
}

/// Effect of a restore, and the checkpoint that saves the affected files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Protection {
    /// Effect of the restore, unless the files change until then.
    pub plan: RestorePlan,
    /// The checkpoint of what it replaces or deletes; `None` when that is nothing.
    pub safety: Option<Checkpoint>,
}

/// Result of a restore.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RestoreReport {
    /// The checkpoint of the files as they were before; `None` when nothing had to change, or all that changed was saved already.
    pub safety: Option<Checkpoint>,
    /// Changes made.
    pub done: RestorePlan,
}

/// Why no checkpoint was made. The workspace and the other checkpoints are as before.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CheckpointError {
    /// A pattern of `checkpointedFiles` is wrong: the author of the hank is at fault.
    #[error("failed to understand `checkpointedFiles`")]
    Pattern(#[source] PatternError),
    /// A file or folder of the workspace could not be read.
    #[error("failed to read `{}` for the checkpoint", path.display())]
    Workspace {
        /// The file or folder.
        path: PathBuf,
        /// Error of the operating system.
        #[source]
        source: io::Error,
    },
    /// The checkpoint could not be stored.
    #[error("failed to store the checkpoint")]
    Store(#[source] ObjectError),
    /// The checkpoint to build on could not be read.
    #[error("failed to read the parent of the checkpoint")]
    Parent(#[source] HistoryError),
    /// The run id cannot be the name of a branch.
    #[error("`{branch}` cannot be the name of a branch")]
    InvalidBranch {
        /// The name that git refuses.
        branch: String,
    },
    /// Another process moved the branch: two processes use one store.
    #[error("the branch `{branch}` is at {found} and not at the expected {expected}")]
    BranchMoved {
        /// The branch.
        branch: String,
        /// The checkpoint to build on, as requested.
        expected: CheckpointSha,
        /// Target of the branch.
        found: CheckpointSha,
    },
}

impl CheckpointError {
    /// Whether the repository could not be written or read. Then the disk is at fault, and neither the hank nor the workspace.
    pub(crate) fn is_of_the_repository(&self) -> bool {
        matches!(self, Self::Store(_) | Self::Parent(HistoryError::Read(_)))
    }
}

/// Why checkpoints could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HistoryError {
    /// There is no such checkpoint.
    #[error("there is no checkpoint `{sha}`")]
    Unknown {
        /// The name that was asked for.
        sha: CheckpointSha,
    },
    /// The checkpoint holds an entry that is not a file or link inside the workspace; we did not make it.
    #[error("the checkpoint `{sha}` holds the unusable entry `{entry}`")]
    Unusable {
        /// The checkpoint.
        sha: CheckpointSha,
        /// The entry, made printable.
        entry: String,
    },
    /// The store could not be read.
    #[error("failed to read the checkpoint repository")]
    Read(#[source] ObjectError),
}

/// Why files were not restored.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RestoreError {
    /// A checkpoint could not be read. No file was changed.
    #[error("failed to read the checkpoint to restore")]
    History(#[source] HistoryError),
    /// The present files could not be saved. No file was changed.
    #[error("failed to save the present files before restoring")]
    Safety(#[source] CheckpointError),
    /// Something in the way could not be saved, so it is not removed. No file was changed.
    #[error("`{path}` is in the way of the restore and cannot be saved first ({reason:?})")]
    InTheWay {
        /// Obstacle.
        path: TreePath,
        /// Why it cannot be saved.
        reason: SkipReason,
    },
    /// The files would make the workspace a repository of git, whose settings start programs (X13). No file was changed.
    #[error("the checkpoint would turn the workspace into a git repository of its own: `{path}`")]
    Repository {
        /// A file of it that would be written.
        path: TreePath,
    },
    /// A file could not be written or deleted. Others may have been changed; call again to finish.
    #[error("failed to restore `{path}`")]
    Write {
        /// The file.
        path: TreePath,
        /// Error of the operating system.
        #[source]
        source: io::Error,
    },
    /// The contents of a file could not be read. Others may have been changed; repair the repository and call again.
    #[error("failed to read the saved contents of `{path}`")]
    Contents {
        /// The file.
        path: TreePath,
        /// The cause.
        #[source]
        source: ObjectError,
    },
    /// The changes could not be made durable. Call again to finish.
    #[error("failed to sync the restored files")]
    Sync(#[source] io::Error),
}
