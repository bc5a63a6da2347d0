//! Watching the files of the workspace while a codon runs: what changed is told once in a while, and all of it before the codon ends.
//!
//! The walk of checkpoints is repeated instead of asking the system to watch: it knows which files count, has no limit on their number, and sees
//! what happened while nobody looked.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use hankweave_core::time::Timestamp;
use hankweave_core::wire::{Event, FileAction, FileNode, file_tree};
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::context::CodonRun;
use crate::checkpoint::{CheckpointError, CheckpointStore, SurveyedFile, TreePath};
use crate::error::chain;
use crate::world::World;

/// The shortest time between two looks.
const INTERVAL: Duration = Duration::from_secs(1);

/// Looking takes at most one part of so many of the time.
const SHARE: u32 = 20;

/// Changes that are told one by one after one look.
const MOST_CHANGES: usize = 500;

/// A larger file is told without a fingerprint.
const MOST_READ_BYTES: u64 = 8 << 20;

/// What the files were like when they were looked at last.
#[derive(Debug, Default)]
pub(crate) struct Watch(Mutex<Seen>);

#[derive(Debug, Default)]
struct Seen {
    /// `None` before the first look.
    files: Option<Arc<Files>>,
    /// Which files counted then.
    patterns: Vec<String>,
    /// When the next look is due.
    due: Option<Instant>,
}

type Files = BTreeMap<TreePath, SurveyedFile>;

/// What one look found.
struct Look {
    files: Files,
    changes: Vec<Change>,
}

/// One file that is not as it was.
struct Change {
    path: String,
    action: FileAction,
    size: Option<u64>,
    fingerprint: Option<String>,
}

impl Watch {
    /// Waits until the next look is due.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when the future is dropped.
    pub(super) async fn due(&self) {
        let due = self.0.lock().await.due;
        tokio::time::sleep_until(due.unwrap_or_else(|| Instant::now() + INTERVAL)).await;
    }

    /// Looks and tells what is not as it was; the first look, and one at other files, only tells what there is.
    pub(super) async fn look(&self, codon: &CodonRun<'_>) {
        let mut seen = self.0.lock().await;
        let begin = Instant::now();
        let patterns = codon.patterns.clone();
        // Where other files count, those that come in are not new.
        let before = seen.files.clone().filter(|_| seen.patterns == patterns);
        seen.patterns.clone_from(&patterns);
        let is_first = before.is_none();
        let found = look(&codon.run.world, &codon.run.checkpoints, patterns, before).await;
        seen.due = Some(Instant::now() + INTERVAL.max(begin.elapsed() * SHARE));
        let look = match found {
            Ok(look) => look,
            Err(error) => {
                tracing::warn!(error = %chain(&error), "the files could not be looked at");
                return;
            }
        };
        let changed = !look.changes.is_empty();
        let more = look.changes.len().saturating_sub(MOST_CHANGES);
        for change in look.changes.into_iter().take(MOST_CHANGES) {
            codon.run.tell(change.into_event()).await;
        }
        if more > 0 {
            let message = format!("{more} more files have changed");
            codon.run.tell(Event::Info { message }).await;
        }
        if changed || is_first {
            let tree = nodes(look.files.values());
            codon.run.tell(Event::FiletreeUpdated { tree }).await;
        }
        seen.files = Some(Arc::new(look.files));
    }

    /// The files as they were seen last.
    pub(crate) async fn tree(&self) -> Vec<FileNode> {
        let seen = self.0.lock().await;
        seen.files
            .as_ref()
            .map(|files| nodes(files.values()))
            .unwrap_or_default()
    }
}

/// The files that match `patterns` now, as a tree; nothing when they cannot be looked at.
pub(crate) async fn tree_now(
    world: &World,
    checkpoints: &Arc<dyn CheckpointStore>,
    patterns: Vec<String>,
) -> Vec<FileNode> {
    match look(world, checkpoints, patterns, None).await {
        Ok(look) => nodes(look.files.values()),
        Err(error) => {
            tracing::warn!(error = %chain(&error), "the files could not be looked at");
            Vec::new()
        }
    }
}

async fn look(
    world: &World,
    checkpoints: &Arc<dyn CheckpointStore>,
    patterns: Vec<String>,
    before: Option<Arc<Files>>,
) -> Result<Look, CheckpointError> {
    let store = Arc::clone(checkpoints);
    let work = move || {
        let files: Files = store
            .survey(&patterns)?
            .into_iter()
            .map(|file| (file.path.clone(), file))
            .collect();
        let changes = match &before {
            Some(before) => compare(&*store, before, &files),
            None => Vec::new(),
        };
        Ok(Look { files, changes })
    };
    world.blocking.run(work).await
}

fn compare(store: &dyn CheckpointStore, before: &Files, now: &Files) -> Vec<Change> {
    let written = now.values().filter_map(|file| {
        let action = match before.get(&file.path) {
            Some(known) if known == file => return None,
            Some(_) => FileAction::Modified,
            None => FileAction::Created,
        };
        Some((file, action))
    });
    let mut changes: Vec<Change> = Vec::new();
    for (file, action) in written {
        // What nobody is told one by one needs no fingerprint.
        let fingerprint = (changes.len() < MOST_CHANGES)
            .then(|| store.fingerprint(file, MOST_READ_BYTES))
            .flatten();
        changes.push(Change {
            path: text(&file.path),
            action,
            size: Some(file.size()),
            fingerprint: fingerprint.map(|digest| hex(&digest)),
        });
    }
    let gone = before.keys().filter(|path| !now.contains_key(*path));
    changes.extend(gone.map(|path| Change {
        path: text(path),
        action: FileAction::Deleted,
        size: None,
        fingerprint: None,
    }));
    changes
}

impl Change {
    fn into_event(self) -> Event {
        let name = self.path.rsplit('/').next().unwrap_or(&self.path);
        Event::FileUpdated {
            filename: name.to_owned(),
            path: self.path,
            action: self.action,
            size: self.size,
            fingerprint: self.fingerprint,
        }
    }
}

fn nodes<'f>(files: impl Iterator<Item = &'f SurveyedFile>) -> Vec<FileNode> {
    let named: Vec<(String, Timestamp)> = files.map(|file| (text(&file.path), file.modified())).collect();
    file_tree(named.iter().map(|(path, modified)| (path.as_str(), *modified)))
}

/// A path for people and JSON: what is no UTF-8 is replaced.
fn text(path: &TreePath) -> String {
    String::from_utf8_lossy(path.as_bytes()).into_owned()
}

fn hex(digest: &[u8]) -> String {
    digest.iter().fold(String::with_capacity(64), |mut text, byte| {
        // A String takes any text.
        let _ = write!(text, "{byte:02x}");
        text
    })
}
