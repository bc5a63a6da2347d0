//! The state of the file watcher: files as the last survey found them, and the comparison of two surveys. `watch` surveys and publishes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use hankweave_core::id::CheckpointSha;
use hankweave_core::time::Timestamp;
use hankweave_core::wire::{Event, FileAction, FileNode, file_tree};
use sha2::{Digest, Sha256};
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::checkpoint::{CheckpointStore, SurveyedFile, TreePath};
use crate::world::ids::hex;

/// Maximum number of changes that are published one by one after one survey.
pub(super) const MOST_CHANGES: usize = 500;

/// Largest file that is published with a fingerprint, in bytes.
const MOST_READ_BYTES: u64 = 8 << 20;

/// Largest file that is published with its content, in bytes: clients have limits too.
const MOST_CONTENT_BYTES: usize = 64 << 10;

/// Total of the content that is published after one survey, in bytes.
const MOST_CONTENT_AT_ONCE: usize = 1 << 20;

/// The files as they were surveyed last.
#[derive(Debug, Default)]
pub(crate) struct FileWatcher(pub(super) Mutex<WatchState>);

/// State of a [`FileWatcher`].
#[derive(Debug, Default)]
pub(super) struct WatchState {
    /// The files of the last survey; `None` before the first survey.
    pub(super) files: Option<Arc<FileMap>>,
    /// The files that no checkpoint holds, while sentinels wait for their changes (SENT-22).
    pub(super) unlisted: Option<Arc<FileMap>>,
    /// Patterns of the files in the last survey.
    pub(super) patterns: Vec<String>,
    /// Number of changes in all surveys together.
    pub(super) changes: u64,
    /// The files at the start of the codon.
    pub(super) at_start: Option<Arc<FileMap>>,
    /// The files that a survey since the start of the codon found changed, also if they have their old content again.
    pub(super) touched: BTreeSet<TreePath>,
    /// The checkpoint of the files at the start of the codon.
    pub(super) base: Option<CheckpointSha>,
    /// Files that earlier attempts of the codon have changed.
    pub(super) changed_before: BTreeSet<TreePath>,
    /// When the next survey is due.
    pub(super) due: Option<Instant>,
}

pub(super) type FileMap = BTreeMap<TreePath, SurveyedFile>;

/// Result of one survey.
pub(super) struct FileSurvey {
    pub(super) files: FileMap,
    pub(super) changes: Vec<FileChange>,
}

/// One file that differs from the survey before; its fields are those of the event.
pub(super) struct FileChange {
    pub(super) path: TreePath,
    action: FileAction,
    /// In bytes; `None` for a deleted file.
    size: Option<u64>,
    fingerprint: Option<String>,
    content: Option<String>,
    /// `Some(false)` for a file that no checkpoint holds, else `None`.
    pub(super) checkpointed: Option<bool>,
}

impl WatchState {
    /// Whether the last survey used these patterns.
    pub(super) fn knows(&self, patterns: &[String]) -> bool {
        self.files.is_some() && self.patterns == patterns
    }
}

/// The word of a kind of change in its event.
pub(super) const fn word(action: FileAction) -> &'static str {
    match action {
        FileAction::Created => "created",
        FileAction::Modified => "modified",
        FileAction::Deleted => "deleted",
    }
}

/// Predicate for the changes to report, by path, kind and size.
pub(super) type Wanted<'w> = &'w (dyn Fn(&str, FileAction, Option<u64>) -> bool + Sync);

/// Compares the surveyed `files` with those of the survey before. In a first survey nothing counts as changed.
pub(super) fn compare(
    store: &dyn CheckpointStore,
    before: Option<&FileMap>,
    files: Vec<SurveyedFile>,
    content: &mut ContentBudget,
    wanted: Wanted<'_>,
) -> FileSurvey {
    let files = files.into_iter().map(|file| (file.path.clone(), file)).collect();
    let changes = before.map_or_else(Vec::new, |before| changes(store, before, &files, content, wanted));
    FileSurvey { files, changes }
}

fn changes(
    store: &dyn CheckpointStore,
    before: &FileMap,
    now: &FileMap,
    content: &mut ContentBudget,
    wanted: Wanted<'_>,
) -> Vec<FileChange> {
    let new_or_modified = now.values().filter_map(|file| {
        let action = match before.get(&file.path) {
            Some(known) if known == file => return None,
            Some(_) => FileAction::Modified,
            None => FileAction::Created,
        };
        wanted(&text(&file.path), action, Some(file.size())).then_some((file, action))
    });
    let mut changes: Vec<FileChange> = Vec::new();
    for (file, action) in new_or_modified {
        // Files beyond the changes that are published one by one are not read, nor are ignored files, which may hold secrets.
        let bytes = (changes.len() < MOST_CHANGES && !file.is_ignored)
            .then(|| store.content(file, MOST_READ_BYTES))
            .flatten();
        changes.push(FileChange {
            path: file.path.clone(),
            action,
            size: Some(file.size()),
            fingerprint: bytes.as_deref().map(|bytes| hex(&Sha256::digest(bytes))),
            content: bytes.and_then(|bytes| content.take(bytes)),
            checkpointed: None,
        });
    }
    let deleted = before.keys().filter(|path| !now.contains_key(*path));
    let deleted = deleted.filter(|path| wanted(&text(path), FileAction::Deleted, None));
    changes.extend(deleted.map(|path| FileChange {
        path: path.clone(),
        action: FileAction::Deleted,
        size: None,
        fingerprint: None,
        content: None,
        checkpointed: None,
    }));
    changes
}

/// How much content may still be published after one survey.
pub(super) struct ContentBudget {
    /// Bytes; `None` when no content is wanted.
    left: Option<usize>,
}

impl ContentBudget {
    /// Returns the budget of one survey; an empty one unless content is `wanted`.
    pub(super) fn if_wanted(wanted: bool) -> Self {
        let left = wanted.then_some(MOST_CONTENT_AT_ONCE);
        Self { left }
    }

    /// Returns the text to publish, and takes it from the budget; `None` when the bytes are no text, or too many.
    fn take(&mut self, bytes: Vec<u8>) -> Option<String> {
        let left = self.left.as_mut()?;
        if bytes.len() > MOST_CONTENT_BYTES.min(*left) {
            return None;
        }
        let text = String::from_utf8(bytes).ok()?;
        *left -= text.len();
        Some(text)
    }
}

impl FileChange {
    pub(super) fn into_event(self) -> Event {
        let path = text(&self.path);
        let name = path.rsplit('/').next().unwrap_or(&path);
        Event::FileUpdated {
            filename: name.to_owned(),
            path,
            action: self.action,
            size: self.size,
            fingerprint: self.fingerprint,
            content: self.content,
            checkpointed: self.checkpointed,
        }
    }
}

/// Returns the files as a tree for clients.
pub(super) fn nodes<'f>(files: impl Iterator<Item = &'f SurveyedFile>) -> Vec<FileNode> {
    let named: Vec<(String, Timestamp)> = files.map(|file| (text(&file.path), file.modified())).collect();
    file_tree(named.iter().map(|(path, modified)| (path.as_str(), *modified)))
}

/// A path for people and JSON; invalid UTF-8 is replaced.
fn text(path: &TreePath) -> String {
    String::from_utf8_lossy(path.as_bytes()).into_owned()
}
