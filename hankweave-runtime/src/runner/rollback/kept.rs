//! Files of the user that a run leaves as they are when it goes back by itself (RUN-2).

use std::collections::BTreeSet;

use hankweave_core::id::CheckpointSha;
use hankweave_core::wire::Event;

use crate::checkpoint::{CheckpointStore, RestorePlan, TreePath, named};
use crate::error::chain;
use crate::recovery::LockedExecution;

/// Files that the user has changed or made.
#[derive(Debug, Default)]
pub(super) struct KeptFiles {
    /// First codon of the work that is undone.
    first: String,
    /// Files that were changed before that codon began.
    pub(super) older: BTreeSet<TreePath>,
    /// New files in no checkpoint before it, where nobody knows who made them.
    pub(super) unknown: BTreeSet<TreePath>,
    /// Files that were made since the newest codon ended.
    new: BTreeSet<TreePath>,
}

impl KeptFiles {
    /// Returns those of work that begins with the codon `first`; none yet.
    pub(super) fn of_work(first: String) -> Self {
        Self {
            first,
            ..Self::default()
        }
    }

    /// Finds the files that are in none of these checkpoints. Nothing depends on them but what is said, so it is no failure where they cannot be read.
    pub(super) async fn find_new(
        &mut self,
        possession: &LockedExecution,
        patterns: Vec<String>,
        known: [CheckpointSha; 2],
    ) {
        let find = move |store: &dyn CheckpointStore| {
            let mut new: BTreeSet<TreePath> = match store.survey(&patterns) {
                Ok(files) => files.into_iter().map(|file| file.path).collect(),
                Err(error) => return Err(chain(&error)),
            };
            for sha in known {
                let files = store.files(&sha).map_err(|error| chain(&error))?;
                let files: BTreeSet<TreePath> = files.into_iter().collect();
                new.retain(|path| !files.contains(path));
            }
            Ok(new)
        };
        match possession.with_checkpoints(find).await {
            Ok(new) => self.new = new,
            Err(error) => tracing::warn!(error, "the new files of the user could not be found"),
        }
    }

    /// Returns the files that the user had changed before, and the work changed again: they are taken back to the user's.
    pub(super) fn taken_back<'p>(&self, plan: &'p RestorePlan) -> impl Iterator<Item = &'p TreePath> {
        let changed = plan.write.iter().chain(&plan.delete);
        changed.filter(|path| self.older.contains(*path))
    }

    /// Names each of the files once.
    pub(super) fn events(&self, plan: &RestorePlan) -> Vec<Event> {
        let taken_back: BTreeSet<&TreePath> = self.taken_back(plan).collect();
        let newer: BTreeSet<&TreePath> = plan.spared.iter().chain(&self.new).collect();
        let is_named = |path: &&TreePath| taken_back.contains(path) || newer.contains(path);
        let older = self.older.iter().filter(|path| !is_named(path)).collect();
        let first = &self.first;
        let lines: [(String, BTreeSet<&TreePath>); 4] = [
            (
                format!("taken back to what they were when {first} began, with what was changed before"),
                taken_back,
            ),
            (
                format!("in no checkpoint before {first} began, so kept"),
                self.unknown.iter().collect(),
            ),
            (format!("changed before {first} began, so kept"), older),
            ("changed since the run ended, so kept".to_owned(), newer),
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
