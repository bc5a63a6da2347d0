//! Watches the files of the workspace while a codon runs: surveys them from time to time, publishes the changes, and counts which
//! files the codon has changed. All changes are published before the codon ends.
//!
//! A survey is the walk with which checkpoints list their files. It is repeated instead of asking the system to watch folders: it
//! knows which files count, has no limit on their number, and finds changes that were made while nothing watched. Files that
//! a new checkpoint has listed are taken over without a survey.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use hankweave_core::hank::Patterns;
use hankweave_core::id::CheckpointSha;
use hankweave_core::sentinel::FileInterest;
use hankweave_core::thread::{self, CodonWork};
use hankweave_core::time::Timestamp;
use hankweave_core::wire::{Event, FileNode};
use tokio::time::Instant;

use super::context::CodonRun;
use super::start_of_work::was_attempted;
use super::surveyed::{
    ContentBudget, FileChange, FileMap, FileWatcher, MOST_CHANGES, WatchState, compare, nodes, word,
};
use crate::checkpoint::{CheckpointStore, RestoreRequest, SurveyedFile, TreePath, WorkspaceSurvey};
use crate::error::chain;
use crate::world::World;

/// The shortest time between two surveys.
const INTERVAL: Duration = Duration::from_secs(1);

/// A survey is followed by a pause of this many times its duration, so surveys take at most about a twentieth of the time.
const PAUSE_FACTOR: u32 = 20;

impl FileWatcher {
    /// Waits until the next survey is due.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when the future is dropped.
    pub(super) async fn due(&self) {
        let due = self.0.lock().await.due;
        tokio::time::sleep_until(due.unwrap_or_else(|| Instant::now() + INTERVAL)).await;
    }

    /// Starts watching for a codon. Surveys, unless the last survey had the codon's patterns; the files that this survey finds do
    /// not count as new.
    pub(super) async fn start(&self, codon: &CodonRun<'_>) {
        if !self.0.lock().await.knows(&codon.patterns) {
            self.survey(codon).await;
        }
        let mut watch_state = self.0.lock().await;
        watch_state.at_start = watch_state.files.clone();
        watch_state.touched.clear();
        (watch_state.base, watch_state.changed_before) = (None, BTreeSet::new());
    }

    /// Starts to count the codon's changes, after its rig. Changes of earlier attempts of the codon count as well.
    pub(super) async fn begin_work(&self, codon: &CodonRun<'_>) {
        let state = codon.run.manager.snapshot();
        let work = match was_attempted(codon, &state) {
            // Position 0 is the present attempt.
            true => thread::build(&state, None, None).work(&state, 0),
            false => None,
        };
        let tip = codon.run.tip().clone();
        let mut watch_state = self.0.lock().await;
        watch_state.at_start = watch_state.files.clone();
        watch_state.touched.clear();
        watch_state.base = work.as_ref().map_or(tip, |work| Some(work.ends()?.0.clone()));
        if let Some(work) = work {
            let (store, patterns) = (Arc::clone(&codon.run.checkpoints), codon.patterns.clone());
            let find = move || changed_by(&*store, &work, &patterns);
            watch_state.changed_before = codon.run.world.blocking.run(find).await.unwrap_or_default();
        }
    }

    /// Surveys the files, and publishes the changes. The first survey, and one with other patterns, only publishes
    /// the tree.
    pub(super) async fn survey(&self, codon: &CodonRun<'_>) {
        let mut watch_state = self.0.lock().await;
        let begin = Instant::now();
        let (store, patterns) = (Arc::clone(&codon.run.checkpoints), codon.patterns.clone());
        let interest = codon.file_interest();
        let all = interest.is_some();
        let walk = move || match all {
            true => store.survey_all(&patterns),
            false => store.survey(&patterns).map(|listed| WorkspaceSurvey {
                listed,
                unlisted: Vec::new(),
            }),
        };
        let walk = codon.run.world.blocking.run(walk).await;
        watch_state.due = Some(Instant::now() + INTERVAL.max(begin.elapsed() * PAUSE_FACTOR));
        match walk {
            Ok(files) => {
                watch_state.take(codon, files.listed).await;
                if let Some(interest) = interest {
                    watch_state.take_unlisted(codon, files.unlisted, interest).await;
                }
            }
            Err(error) => tracing::warn!(error = %chain(&error), "the files could not be looked at"),
        }
    }

    /// Surveys before the agent starts, if sentinels wait for changed files: to them, existing files that no checkpoint holds are not new.
    pub(super) async fn start_unlisted(&self, codon: &CodonRun<'_>) {
        self.0.lock().await.unlisted = None;
        if codon.file_interest().is_some() {
            self.survey(codon).await;
        }
    }

    /// Surveys, and returns the number of changes since the run began.
    pub(super) async fn changes_now(&self, codon: &CodonRun<'_>) -> u64 {
        self.survey(codon).await;
        self.0.lock().await.changes
    }

    /// Returns the files that differ from the start of the codon; `None` when no files are watched, or those at the start are not known.
    pub(super) async fn changed(&self, codon: &CodonRun<'_>) -> Option<BTreeSet<TreePath>> {
        // A list of patterns that only exclude matches nothing; an empty list means every file (HANK-17).
        let excludes = |pattern: &String| pattern.starts_with('!');
        if !codon.patterns.is_empty() && codon.patterns.iter().all(excludes) {
            return None;
        }
        let watch_state = self.0.lock().await;
        let (before, now) = watch_state.at_start.as_ref().zip(watch_state.files.as_ref())?;
        let is_changed = |path: &&TreePath| before.get(*path) != now.get(*path);
        let mut changed: BTreeSet<TreePath> =
            watch_state.touched.iter().filter(is_changed).cloned().collect();
        // A file that was written again with its old content has not changed, so contents are compared with the checkpoint at the start.
        let mut earlier = watch_state.changed_before.clone();
        if let (Some(base), false) = (watch_state.base.clone(), changed.is_empty() && earlier.is_empty()) {
            let differences = Differences::of(codon, base, now.clone());
            if let Some(differing) = codon.run.world.blocking.run(move || differences.find()).await {
                changed.retain(|path| differing.contains(path) || !now.contains_key(path));
                earlier.retain(|path| differing.contains(path));
            }
        }
        changed.extend(earlier);
        Some(changed)
    }

    /// Returns the number of files that differ from the start of the codon; `None` as for [`changed`](Self::changed).
    pub(super) async fn files_changed(&self, codon: &CodonRun<'_>) -> Option<u64> {
        Some(self.changed(codon).await?.len() as u64)
    }

    /// Takes over the files that a new checkpoint has listed, like those of a survey.
    pub(super) async fn learn(&self, codon: &CodonRun<'_>, files: Vec<SurveyedFile>) {
        self.0.lock().await.take(codon, files).await;
    }
}

/// Returns the watched files that the attempts of `work` have changed; `None` when their checkpoints cannot be read.
fn changed_by(
    store: &dyn CheckpointStore,
    work: &CodonWork,
    patterns: &[String],
) -> Option<BTreeSet<TreePath>> {
    let watched = Patterns::parse(patterns).ok()?;
    let mut changed = BTreeSet::new();
    for (from, to) in &work.attempts {
        let found = store.diff(from, to);
        let found = found.inspect_err(|error| {
            tracing::warn!(
                error = chain(error),
                "what an earlier attempt changed could not be read"
            );
        });
        let paths = found.ok()?.into_iter().map(|change| change.path);
        changed.extend(paths.filter(|path| patterns.is_empty() || watched.matches(path.as_bytes())));
    }
    Some(changed)
}

/// Comparison of the workspace with a checkpoint.
struct Differences {
    store: Arc<dyn CheckpointStore>,
    base: CheckpointSha,
    /// The files of the last survey.
    files: Arc<FileMap>,
    patterns: Vec<String>,
    at: Timestamp,
}

impl Differences {
    fn of(codon: &CodonRun<'_>, base: CheckpointSha, files: Arc<FileMap>) -> Self {
        Self {
            store: Arc::clone(&codon.run.checkpoints),
            base,
            files,
            patterns: codon.patterns.clone(),
            at: codon.run.world.clock.now(),
        }
    }

    /// Returns the watched files that are new, missing or different from the checkpoint; `None` if the checkpoint cannot be read.
    fn find(self) -> Option<BTreeSet<TreePath>> {
        // A restore of the checkpoint would write the files that differ. It is only planned.
        let request = RestoreRequest {
            target: self.base.clone(),
            left: None,
            spares_changed: false,
            safety: None,
            at: self.at,
        };
        let unread =
            |error: String| tracing::warn!(error, "the files could not be compared with a checkpoint");
        let known = self.store.files(&self.base);
        let known = known.map_err(|error| unread(chain(&error))).ok()?;
        let known: BTreeSet<TreePath> = known.into_iter().collect();
        let plan = self.store.plan_restore(&request);
        let plan = plan.map_err(|error| unread(chain(&error))).ok()?;
        let watched = Patterns::parse(&self.patterns).ok()?;
        let is_watched = |path: &TreePath| self.files.contains_key(path) || watched.matches(path.as_bytes());
        let differing = plan.write.into_iter().filter(is_watched);
        let new = self.files.keys().filter(|path| !known.contains(*path)).cloned();
        Some(differing.chain(new).collect())
    }
}

impl WatchState {
    /// Compares the surveyed files with those of the last survey, and publishes the changes.
    async fn take(&mut self, codon: &CodonRun<'_>, files: Vec<SurveyedFile>) {
        // With other patterns, additional files are not new.
        let before = self.files.take().filter(|_| self.patterns == codon.patterns);
        self.patterns.clone_from(&codon.patterns);
        let is_first = before.is_none();
        let store = Arc::clone(&codon.run.checkpoints);
        let mut content = ContentBudget::if_wanted(codon.reports_contents());
        let compare = move || {
            let all = |_: &str, _, _| true;
            compare(&*store, before.as_deref(), files, &mut content, &all)
        };
        let survey = codon.run.world.blocking.run(compare).await;
        let changed = !survey.changes.is_empty();
        self.changes += survey.changes.len() as u64;
        let changed_paths = survey.changes.iter().map(|change| change.path.clone());
        self.touched.extend(changed_paths);
        publish(codon, survey.changes, "files have changed").await;
        if changed || is_first {
            let tree = nodes(survey.files.values());
            codon.run.publish(Event::FiletreeUpdated { tree }).await;
        }
        self.files = Some(Arc::new(survey.files));
    }

    /// Compares the files that no checkpoint holds, and publishes the changes for which sentinels wait. These do not count as changes of the codon.
    async fn take_unlisted(
        &mut self,
        codon: &CodonRun<'_>,
        files: Vec<SurveyedFile>,
        interest: Arc<FileInterest>,
    ) {
        let before = self.unlisted.take();
        let store = Arc::clone(&codon.run.checkpoints);
        let mut content = ContentBudget::if_wanted(codon.reports_contents());
        let compare = move || {
            let wanted = |path: &str, action, size| interest.matches(path, word(action), size);
            compare(&*store, before.as_deref(), files, &mut content, &wanted)
        };
        let mut survey = codon.run.world.blocking.run(compare).await;
        // A file that checkpoints hold since this survey was reported with the listed files.
        let listed = self.files.as_deref();
        survey
            .changes
            .retain(|change| !listed.is_some_and(|listed| listed.contains_key(&change.path)));
        for change in &mut survey.changes {
            change.checkpointed = Some(false);
        }
        publish(
            codon,
            survey.changes,
            "files that no checkpoint holds have changed",
        )
        .await;
        self.unlisted = Some(Arc::new(survey.files));
    }
}

/// Publishes up to [`MOST_CHANGES`] changes one by one, and the number of the others, described by `what`.
async fn publish(codon: &CodonRun<'_>, changes: Vec<FileChange>, what: &str) {
    let more = changes.len().saturating_sub(MOST_CHANGES);
    for change in changes.into_iter().take(MOST_CHANGES) {
        codon.run.publish(change.into_event()).await;
    }
    if more > 0 {
        let message = format!("{more} more {what}");
        codon.run.publish(Event::Info { message }).await;
    }
}

/// The files that match `patterns` now, as a tree; empty when they cannot be surveyed.
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
