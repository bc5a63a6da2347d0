//! Files of the workspace as they were surveyed, and the comparison of two surveys.

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

/// How many changes are published one by one after one survey.
pub(super) const MOST_CHANGES: usize = 500;

/// A larger file is published without a fingerprint.
const MOST_READ_BYTES: u64 = 8 << 20;

/// A larger file is published without its content, and so are all files beyond the total of one survey:
/// clients have limits too.
const MOST_CONTENT_BYTES: usize = 64 << 10;
const MOST_CONTENT_AT_ONCE: usize = 1 << 20;

/// The files as they were surveyed last.
#[derive(Debug, Default)]
pub(crate) struct FileWatcher(pub(super) Mutex<WatchState>);

/// State of a [`FileWatcher`].
#[derive(Debug, Default)]
pub(super) struct WatchState {
    /// `None` before the first survey.
    pub(super) files: Option<Arc<FileMap>>,
    /// The files that no checkpoint holds, while sentinels wait for their changes (SENT-22).
    pub(super) unlisted: Option<Arc<FileMap>>,
    /// Patterns of the files in the last survey.
    pub(super) patterns: Vec<String>,
    /// How many changes were seen, all surveys together.
    pub(super) changes: u64,
    /// The files at the start of the codon, and those that have changed since.
    pub(super) at_start: Option<Arc<FileMap>>,
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

/// One file that is not as it was.
pub(super) struct FileChange {
    pub(super) path: TreePath,
    action: FileAction,
    size: Option<u64>,
    fingerprint: Option<String>,
    content: Option<String>,
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
    let written = now.values().filter_map(|file| {
        let action = match before.get(&file.path) {
            Some(known) if known == file => return None,
            Some(_) => FileAction::Modified,
            None => FileAction::Created,
        };
        wanted(&text(&file.path), action, Some(file.size())).then_some((file, action))
    });
    let mut changes: Vec<FileChange> = Vec::new();
    for (file, action) in written {
        // Changes that are not published one by one are not read, and neither is what may be a secret.
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
    let gone = before.keys().filter(|path| !now.contains_key(*path));
    let gone = gone.filter(|path| wanted(&text(path), FileAction::Deleted, None));
    changes.extend(gone.map(|path| FileChange {
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
    pub(super) fn wanted(wanted: bool) -> Self {
        let left = wanted.then_some(MOST_CONTENT_AT_ONCE);
        Self { left }
    }

    /// The text to publish; `None` when it is no text, too long or too much.
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

pub(super) fn nodes<'f>(files: impl Iterator<Item = &'f SurveyedFile>) -> Vec<FileNode> {
    let named: Vec<(String, Timestamp)> = files.map(|file| (text(&file.path), file.modified())).collect();
    file_tree(named.iter().map(|(path, modified)| (path.as_str(), *modified)))
}

/// A path for people and JSON; invalid UTF-8 is replaced.
fn text(path: &TreePath) -> String {
    String::from_utf8_lossy(path.as_bytes()).into_owned()
}
