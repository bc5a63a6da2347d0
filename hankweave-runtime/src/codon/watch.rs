//! Watching the files of the workspace while a codon runs: what changed is told once in a while, and all of it before the codon ends.
//!
//! The walk of checkpoints is repeated instead of asking the system to watch: it knows which files count, has no limit on their number, and sees
//! what happened while nobody looked. What a checkpoint itself has seen needs no walk of our own.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use hankweave_core::time::Timestamp;
use hankweave_core::wire::{Event, FileAction, FileNode, file_tree};
use sha2::{Digest, Sha256};
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::context::CodonRun;
use crate::checkpoint::{CheckpointStore, SurveyedFile, TreePath};
use crate::error::chain;
use crate::world::World;
use crate::world::ids::hex;

/// The shortest time between two looks.
const INTERVAL: Duration = Duration::from_secs(1);

/// Looking takes at most one part of so many of the time.
const SHARE: u32 = 20;

/// Changes that are told one by one after one look.
const MOST_CHANGES: usize = 500;

/// A larger file is told without a fingerprint.
const MOST_READ_BYTES: u64 = 8 << 20;

/// A larger file is told without its content, and so are all once so much has been told after one look: clients have limits too.
const MOST_TOLD_BYTES: usize = 64 << 10;
const MOST_TOLD_AT_ONCE: usize = 1 << 20;

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
    content: Option<String>,
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

    /// Looks for the first time, or at other files than before: what is there then is not new. Between two codons that watch the same files there
    /// is nothing to begin with.
    pub(super) async fn begin(&self, codon: &CodonRun<'_>) {
        if !self.0.lock().await.knows(&codon.patterns) {
            self.look(codon).await;
        }
    }

    /// Looks and tells what is not as it was; the first look, and one at other files, only tells what there is.
    pub(super) async fn look(&self, codon: &CodonRun<'_>) {
        let mut seen = self.0.lock().await;
        let begin = Instant::now();
        let (store, patterns) = (Arc::clone(&codon.run.checkpoints), codon.patterns.clone());
        let walk = codon
            .run
            .world
            .blocking
            .run(move || store.survey(&patterns))
            .await;
        seen.due = Some(Instant::now() + INTERVAL.max(begin.elapsed() * SHARE));
        match walk {
            Ok(files) => seen.take(codon, files).await,
            Err(error) => tracing::warn!(error = %chain(&error), "the files could not be looked at"),
        }
    }

    /// The same with what a checkpoint has just seen.
    pub(super) async fn learn(&self, codon: &CodonRun<'_>, files: Vec<SurveyedFile>) {
        self.0.lock().await.take(codon, files).await;
    }

    /// The files as they were seen last.
    pub(crate) async fn tree(&self) -> Vec<FileNode> {
        let seen = self.0.lock().await;
        let files = seen.files.as_deref();
        files.map(|files| nodes(files.values())).unwrap_or_default()
    }
}

impl Seen {
    /// Whether these are the files that were looked at.
    fn knows(&self, patterns: &[String]) -> bool {
        self.files.is_some() && self.patterns == patterns
    }

    /// Compares with what was seen before, and tells the difference.
    async fn take(&mut self, codon: &CodonRun<'_>, files: Vec<SurveyedFile>) {
        // Where other files count, those that come in are not new.
        let before = self.files.take().filter(|_| self.patterns == codon.patterns);
        self.patterns.clone_from(&codon.patterns);
        let is_first = before.is_none();
        let store = Arc::clone(&codon.run.checkpoints);
        let mut content = Content::told(codon.run.options.file_contents);
        let compare = move || compare(&*store, before.as_deref(), files, &mut content);
        let look = codon.run.world.blocking.run(compare).await;
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
        self.files = Some(Arc::new(look.files));
    }
}

/// The files that match `patterns` now, as a tree; nothing when they cannot be looked at.
pub(crate) async fn tree_now(
    world: &World,
    checkpoints: &Arc<dyn CheckpointStore>,
    patterns: Vec<String>,
) -> Vec<FileNode> {
    let store = Arc::clone(checkpoints);
    match world.blocking.run(move || store.survey(&patterns)).await {
        Ok(files) => nodes(files.iter()),
        Err(error) => {
            tracing::warn!(error = %chain(&error), "the files could not be looked at");
            Vec::new()
        }
    }
}

fn compare(
    store: &dyn CheckpointStore,
    before: Option<&Files>,
    files: Vec<SurveyedFile>,
    content: &mut Content,
) -> Look {
    let files = files.into_iter().map(|file| (file.path.clone(), file)).collect();
    let changes = before.map_or_else(Vec::new, |before| changes(store, before, &files, content));
    Look { files, changes }
}

fn changes(store: &dyn CheckpointStore, before: &Files, now: &Files, content: &mut Content) -> Vec<Change> {
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
        // What nobody is told one by one is not read.
        let bytes = (changes.len() < MOST_CHANGES)
            .then(|| store.content(file, MOST_READ_BYTES))
            .flatten();
        changes.push(Change {
            path: text(&file.path),
            action,
            size: Some(file.size()),
            fingerprint: bytes.as_deref().map(|bytes| hex(&Sha256::digest(bytes))),
            content: bytes.and_then(|bytes| content.tell(bytes)),
        });
    }
    let gone = before.keys().filter(|path| !now.contains_key(*path));
    changes.extend(gone.map(|path| Change {
        path: text(path),
        action: FileAction::Deleted,
        size: None,
        fingerprint: None,
        content: None,
    }));
    changes
}

/// How much of what files hold may still be told after one look.
struct Content {
    /// Bytes; `None` when nobody wants to know.
    left: Option<usize>,
}

impl Content {
    fn told(wanted: bool) -> Self {
        let left = wanted.then_some(MOST_TOLD_AT_ONCE);
        Self { left }
    }

    /// The text that is told; `None` for what is no text, too long or too much.
    fn tell(&mut self, bytes: Vec<u8>) -> Option<String> {
        let left = self.left.as_mut()?;
        if bytes.len() > MOST_TOLD_BYTES.min(*left) {
            return None;
        }
        let text = String::from_utf8(bytes).ok()?;
        *left -= text.len();
        Some(text)
    }
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
            content: self.content,
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
