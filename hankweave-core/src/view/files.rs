//! Changed files of the workspace, as a view lists them: `file.updated` events add to the list, and a rollback takes entries out.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::text::{TITLE, excerpt};
use crate::id::CheckpointSha;
use crate::wire::FileAction;

/// Maximum number of files that a view lists.
const FILES: usize = 50;

/// Changed files of the workspace, the newest ones by name.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
#[non_exhaustive]
pub struct FileChanges {
    /// Checkpoint before the run's first codon.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base: Option<CheckpointSha>,
    /// Files that changed last, by path relative to the workspace; a long path is cut.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub newest: BTreeMap<String, ChangedFile>,
    /// Number of files that newer ones replaced in the list; a file that was replaced twice counts twice.
    #[serde(skip_serializing_if = "is_zero")]
    pub more: u64,
}

/// Last change of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ChangedFile {
    /// Kind of change since the file was first listed: one that was created stays so.
    #[serde(rename = "as")]
    pub action: FileAction,
    /// Length in bytes, unless it is deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// Number of the event.
    pub seq: u64,
    /// Number of the event by which the file was first listed; absent where that is `seq`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first: Option<u64>,
}

impl FileChanges {
    /// Adds a change, merged with the listed change of the same file. A file that was created and then deleted is not listed.
    pub(super) fn take(&mut self, path: &str, action: FileAction, size: Option<u64>, seq: u64) {
        let path = excerpt(path, TITLE);
        let known = self.newest.get(&path);
        let first = known.map(|file| file.first.unwrap_or(file.seq));
        let action = match (known.map(|file| file.action), action) {
            (Some(FileAction::Created), FileAction::Deleted) => {
                self.newest.remove(&path);
                return;
            }
            (Some(FileAction::Created), FileAction::Modified) => FileAction::Created,
            (_, action) => action,
        };
        let file = ChangedFile {
            action,
            size,
            seq,
            first,
        };
        self.newest.insert(path, file);
        if self.newest.len() > FILES {
            let oldest = self.newest.iter().min_by_key(|(_, file)| file.seq);
            let oldest = oldest.map(|(path, _)| path.clone());
            self.newest.retain(|path, _| Some(path) != oldest.as_ref());
            self.more = self.more.saturating_add(1);
        }
    }

    /// Adapts the list to files that were rolled back to their contents before the event `seq`.
    pub(super) fn roll_back(&mut self, seq: u64) {
        self.newest.retain(|_, file| file.first.unwrap_or(file.seq) < seq);
        // These changed before `seq` and again later. A file that was deleted later exists again. Its size before `seq` is not known.
        for file in self.newest.values_mut().filter(|file| file.seq >= seq) {
            if file.action == FileAction::Deleted {
                file.action = FileAction::Modified;
            }
            (file.seq, file.size) = (file.first.unwrap_or(file.seq), None);
        }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}
