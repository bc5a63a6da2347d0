//! Files of the user that a run keeps when it rolls back by itself (RUN-2), and the messages that name them. Also finds new files in no checkpoint, which
//! a rollback by a user keeps (RUN-19).

use std::collections::BTreeSet;
use std::path::Path;

use hankweave_core::id::CheckpointSha;
use hankweave_core::plan::DeclaredPatterns;
use hankweave_core::thread::ThreadCodon;
use hankweave_core::time::Timestamp;
use hankweave_core::wire::Event;

use super::Rollback;
use super::route::RollbackPlan;
use super::undone::COARSE_MS;
use crate::checkpoint::{CheckpointStore, RestorePlan, TreePath, named};
use crate::error::chain;
use crate::recovery::LockedExecution;

/// Files that the user has changed or made.
#[derive(Debug, Default)]
pub(super) struct KeptFiles {
    /// First codon of the work that is undone.
    first: String,
    /// Files that the user changed after the target, before that codon started.
    pub(super) older: BTreeSet<TreePath>,
    /// New files in no checkpoint before that codon, of which it is unknown whether the work or the user made them.
    pub(super) unknown: BTreeSet<TreePath>,
    /// Files that were made since the newest codon ended.
    new: BTreeSet<TreePath>,
}

impl KeptFiles {
    /// Returns an empty set for work that starts with the codon `first`.
    pub(super) fn of_work(first: String) -> Self {
        Self {
            first,
            ..Self::default()
        }
    }

    /// Finds the new files that are in none of the `known` checkpoints. They are only used for messages, so a failure to read them
    /// is ignored.
    pub(super) async fn find_new(
        &mut self,
        possession: &LockedExecution,
        patterns: Vec<String>,
        known: [CheckpointSha; 2],
    ) {
        let of_any_age = Timestamp::UNIX_EPOCH;
        self.new = new_files(possession, (patterns, of_any_age), known.into()).await;
    }

    /// Returns the files that the user had changed before the work, and that the work changed again: the user's versions are restored.
    pub(super) fn taken_back<'p>(&self, plan: &'p RestorePlan) -> impl Iterator<Item = &'p TreePath> {
        let changed = plan.write.iter().chain(&plan.delete);
        changed.filter(|path| self.older.contains(*path))
    }

    /// Returns messages after the rollback that name each kept file once. Copies of a rig are not named: they are removed by then.
    pub(super) fn events(&self, done: &Rollback) -> Vec<Event> {
        let plan = &done.files;
        let taken_back: BTreeSet<&TreePath> = self.taken_back(plan).collect();
        let newer: BTreeSet<&TreePath> = plan.spared.iter().chain(&self.new).collect();
        let copies: Vec<&Path> = done.rig_copies.iter().map(Path::new).collect();
        let is_copy = |path: &TreePath| {
            let path = path.to_string();
            copies.iter().any(|copy| Path::new(&path).starts_with(copy))
        };
        let unknown = self.unknown.iter().filter(|path| !is_copy(path)).collect();
        let is_named = |path: &&TreePath| taken_back.contains(path) || newer.contains(path);
        let older = self.older.iter().filter(|path| !is_named(path)).collect();
        let first = &self.first;
        let lines: [(String, BTreeSet<&TreePath>); 5] = [
            (
                format!("taken back to what they were when {first} began, with what was changed before"),
                taken_back,
            ),
            (
                format!("in no checkpoint before {first} began, and perhaps yours, so kept"),
                unknown,
            ),
            (format!("changed before {first} began, so kept"), older),
            ("changed since the run ended, so kept".to_owned(), newer),
            (
                "deleted since the run ended, so not brought back".to_owned(),
                plan.absent.iter().collect(),
            ),
        ];
        let lines = lines.into_iter().filter(|(_, files)| !files.is_empty());
        let event = |(what, files): (String, BTreeSet<&TreePath>)| {
            let names = named(files.into_iter().map(ToString::to_string));
            Event::Info {
                message: format!("{what}: {names}"),
            }
        };
        lines.map(event).collect()
    }
}

/// Returns the files that match the patterns, were touched at `since` or later, and are in none of the `known` checkpoints; none if the files or a checkpoint
/// cannot be read.
async fn new_files(
    possession: &LockedExecution,
    (patterns, since): (Vec<String>, Timestamp),
    known: Vec<CheckpointSha>,
) -> BTreeSet<TreePath> {
    let find = move |store: &dyn CheckpointStore| {
        let files = store.survey(&patterns).map_err(|error| chain(&error))?;
        let recent = files.into_iter().filter(|file| file.touched() >= since);
        let mut new: BTreeSet<TreePath> = recent.map(|file| file.path).collect();
        for sha in known {
            let files = store.files(&sha).map_err(|error| chain(&error))?;
            let files: BTreeSet<TreePath> = files.into_iter().collect();
            new.retain(|path| !files.contains(path));
        }
        Ok::<_, String>(new)
    };
    let found = possession.with_checkpoints(find).await;
    found.unwrap_or_else(|error| {
        tracing::warn!(error, "the new files of the workspace could not be found");
        BTreeSet::new()
    })
}

/// Returns the files in no checkpoint that were made since the start of a crashed codon, by it or by the user: a rollback keeps them (RUN-19).
pub(super) async fn unsaved(possession: &LockedExecution, route: &RollbackPlan) -> Vec<TreePath> {
    let newest = route.thread.codons.first();
    let is_crash = |newest: &&ThreadCodon| newest.was_cut_off() && route.state.pending_rollback.is_none();
    let Some(crashed) = newest.filter(is_crash) else {
        return Vec::new();
    };
    let patterns = DeclaredPatterns::of(&route.state.execution_plan);
    let known = route.left.iter().chain([&route.source.checkpoint_sha]);
    let started = crashed.codon.start_time().as_millis().saturating_sub(COARSE_MS);
    let since = Timestamp::from_millis(started);
    let new = new_files(possession, (patterns, since), known.cloned().collect());
    new.await.into_iter().collect()
}
