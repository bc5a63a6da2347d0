//! Files that belong to a checkpoint and are not in it, as the message of its commit lists them (G4).

use std::path::Path;

use hankweave_core::id::CheckpointSha;
use hankweave_core::wire::{LeftOutFile, LeftOutReason};
use hankweave_runtime::ExecutionDir;
use hankweave_runtime::checkpoint::GitHistory;
use serde::Serialize;

use crate::terminal::screen::{one_line, size};

/// Largest number of files that are named on one line.
const NAMED: usize = 3;

/// Files that are not in a checkpoint.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LeftOut {
    /// The first of the files, in the order of their paths.
    pub(crate) files: Vec<LeftOutFile>,
    /// Number of all files that are left out.
    pub(crate) count: usize,
}

impl LeftOut {
    /// Reads the list of the checkpoint `sha`; empty if the checkpoint cannot be read, which other checks report.
    pub(crate) fn of(execution: &Path, sha: Option<&CheckpointSha>) -> Self {
        let repository = ExecutionDir::new(execution.to_owned()).checkpoints();
        let known = sha.and_then(|sha| {
            let history = GitHistory::open(&repository).ok()??;
            history.existing(std::slice::from_ref(sha)).ok()?.remove(sha)
        });
        let (files, count) = known.map(|known| known.left_out()).unwrap_or_default();
        Self { files, count }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Names the files on one line; `None` if there are none.
    pub(crate) fn words(&self) -> Option<String> {
        named(&self.files, self.count)
    }
}

/// Returns the first of `count` files on one line, each with the reason why it is left out; `None` if there are none.
pub(crate) fn named(files: &[LeftOutFile], count: usize) -> Option<String> {
    let named: Vec<String> = files.iter().take(NAMED).map(with_reason).collect();
    let more = match count.saturating_sub(named.len()) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    (!named.is_empty()).then(|| format!("{}{more}", named.join(", ")))
}

fn with_reason(file: &LeftOutFile) -> String {
    let why = match (file.reason, file.size) {
        (LeftOutReason::TooLarge, Some(bytes)) => {
            format!("{}, more than `checkpointedFileLimitMb` allows", size(bytes))
        }
        (LeftOutReason::TooLarge, None) => "more than `checkpointedFileLimitMb` allows".to_owned(),
        (LeftOutReason::Unreadable, _) => "cannot be read".to_owned(),
        (LeftOutReason::TooDeep, _) => "inside too many folders".to_owned(),
    };
    format!("{} ({why})", one_line(&file.path))
}
