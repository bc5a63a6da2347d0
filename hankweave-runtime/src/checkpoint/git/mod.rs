//! Checkpoints in a bare git repository next to the project, one branch for each run.
//!
//! [`GitCheckpoints`] is the [`CheckpointStore`] of real runs. Neither an index nor a work tree of git's is used: contents
//! are bytes that we read, trees are built from a listing, and a [cache](super::stat_cache) knows which files did not
//! change since the checkpoint before. A checkpoint becomes durable in this order: objects, one sync of the file system,
//! the branch, the sync of the branch's folder (G3, G6).

mod record;
mod restore;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::io;
use std::mem;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use git2::{Oid, Reference, Repository};
use hankweave_core::id::CheckpointSha;

use self::record::{
    CommitDraft, Unchanged, base_on, beginning, keep_within_reach, moved_elsewhere, reference_name, tip,
};
use self::restore::{check_contents, unreadable};
use super::git_format::{self, NewObjects, ObjectReader};
use super::history::{self, GitHistory, MAIN};
use super::object::{ObjectError, OnlyIds};
use super::open::{self, OpenReport, OpenStoreError, OpenStoreRequest};
use super::repository::name_of;
use super::restore::{apply, sweep};
use super::stat_cache::StatCache;
use super::survey;
use super::tree::Listing;
use super::workspace::Workspace;
use super::{
    Checkpoint, CheckpointError, CheckpointRequest, CheckpointStore, CheckpointsBySha, Counts, FileProgress,
    HistoryError, InitialRequest, PathChange, Patterns, Protection, RestoreError, RestorePlan, RestoreReport,
    RestoreRequest, SurveyedFile, TreePath, WorkspaceSurvey, clean, message, prune,
};

/// Checkpoints in a bare git repository.
#[derive(Debug)]
pub struct GitCheckpoints {
    history: GitHistory,
    workspace: PathBuf,
    /// Facts about the files of the newest checkpoint. Locked during every write, so that two writes run one after the other.
    cache: Mutex<StatCache>,
    /// The files of the checkpoints that a restore involves, by tree id: planning, protecting and restoring each need them.
    listings: Mutex<HashMap<Oid, Arc<Listing>>>,
    /// Objects that `open` found, which the first `restorable` need not check again; a write forgets them.
    found_by_open: Mutex<HashSet<Oid>>,
    /// The patterns of the last request and their compiled form, since compiling thousands takes longer than a checkpoint.
    patterns: Mutex<Option<(Vec<String>, Arc<Patterns>)>>,
    /// Longest file that belongs to a checkpoint, in bytes.
    most_bytes: u64,
    /// Progress of the write that is running.
    counted: FileProgress,
}

impl GitCheckpoints {
    /// Opens the repository, after cleaning up what a crash left; makes it when it is missing.
    ///
    /// Only for the process that holds the execution directory; other processes read through [`GitHistory`].
    ///
    /// # Errors
    ///
    /// Returns [`OpenStoreError`] when there is no usable repository in the end. A repository that git cannot read is no
    /// error: it is moved aside and named in the report.
    pub fn open(request: &OpenStoreRequest) -> Result<(Self, OpenReport), OpenStoreError> {
        let report = open::prepare(request)?;
        let history = GitHistory::at(&request.repository);
        let (cache, found_by_open) = usable_cache(&history);
        Ok((
            Self {
                history,
                workspace: request.workspace.clone(),
                cache: Mutex::new(cache),
                listings: Mutex::default(),
                found_by_open: Mutex::new(found_by_open),
                patterns: Mutex::default(),
                most_bytes: request.most_bytes,
                counted: FileProgress::default(),
            },
            report,
        ))
    }

    fn cache(&self) -> MutexGuard<'_, StatCache> {
        // A panic elsewhere leaves the cache as it was before, because it is replaced in one step at the end.
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn compiled(&self, patterns: &[String]) -> Result<Arc<Patterns>, CheckpointError> {
        // The pair is replaced in one step, so a panic leaves a complete one.
        let mut last = self.patterns.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, compiled)) = last.as_ref().filter(|(known, _)| known == patterns) {
            return Ok(Arc::clone(compiled));
        }
        let compiled = Arc::new(Patterns::parse(patterns).map_err(CheckpointError::Pattern)?);
        *last = Some((patterns.to_owned(), Arc::clone(&compiled)));
        Ok(compiled)
    }

    /// Locks the cache for a write, sets the progress to nothing and forgets the objects found by `open`.
    fn start_write(&self) -> MutexGuard<'_, StatCache> {
        let cache = self.cache();
        self.counted.start(0);
        drop(self.take_found_by_open());
        cache
    }

    /// Returns the objects found by `open`, only once: later they may no longer exist.
    fn take_found_by_open(&self) -> HashSet<Oid> {
        mem::take(&mut *self.found_by_open.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Makes a checkpoint on the branch of a run.
    fn create_on_branch(
        &self,
        request: &CheckpointRequest,
        message: String,
        unchanged: Unchanged,
    ) -> Result<Option<Checkpoint>, CheckpointError> {
        let patterns = self.compiled(&request.patterns)?;
        let branch = request.branch();
        if !Reference::is_valid_name(&reference_name(&branch)) {
            return Err(CheckpointError::InvalidBranch { branch });
        }
        let mut cache = self.start_write();
        let repository = self.history.repository().map_err(CheckpointError::Store)?;
        let own_tip = tip(&repository, &branch)?;
        let reader = history::open_reader(&repository).map_err(CheckpointError::Parent)?;
        let base = match (&request.parent, own_tip) {
            (Some(sha), _) => Some(name_of_commit(&reader, sha)?),
            (None, Some(tip)) => Some(tip),
            (None, None) => tip(&repository, MAIN)?,
        };
        let draft = CommitDraft {
            branch: &branch,
            tip: own_tip,
            base,
            parent: parent_for(&repository, &reader, base)?,
            message,
            at: request.at,
        };
        // A run's branch grows only at its tip.
        if own_tip.is_some() && own_tip != base {
            return Err(moved_elsewhere(&draft, own_tip));
        }
        let patterns_and_left_out = (&*patterns, Some(&request.left_out));
        self.record(&repository, &mut cache, patterns_and_left_out, &draft, unchanged)
    }

    fn open_workspace(&self) -> Result<Workspace, CheckpointError> {
        Workspace::open(&self.workspace).map_err(|source| CheckpointError::Workspace {
            path: self.workspace.clone(),
            source,
        })
    }
}

impl CheckpointStore for GitCheckpoints {
    fn initial(&self, request: &InitialRequest) -> Result<Checkpoint, CheckpointError> {
        let patterns = self.compiled(&request.patterns)?;
        let mut cache = self.start_write();
        let repository = self.history.repository().map_err(CheckpointError::Store)?;
        let tip = tip(&repository, MAIN)?;
        let reader = history::open_reader(&repository).map_err(CheckpointError::Parent)?;
        let parent = beginning(&repository, &reader)?;
        if let Some(earlier) = tip.filter(|tip| parent != Some(*tip)) {
            keep_within_reach(&repository, earlier)?;
        }
        let message = message::initial(request.at);
        let draft = CommitDraft {
            branch: MAIN,
            tip,
            base: tip,
            parent,
            message,
            at: request.at,
        };
        let made = self.record(
            &repository,
            &mut cache,
            (&patterns, None),
            &draft,
            Unchanged::Recorded,
        )?;
        Ok(made.expect("a checkpoint without changes is made, too"))
    }

    fn create(&self, request: &CheckpointRequest) -> Result<Checkpoint, CheckpointError> {
        let made = self.create_on_branch(request, message::codon(request), Unchanged::Recorded)?;
        Ok(made.expect("a checkpoint without changes is made, too"))
    }

    fn create_start(&self, request: &CheckpointRequest) -> Result<Option<Checkpoint>, CheckpointError> {
        self.create_on_branch(request, message::start(request), Unchanged::NotRecorded)
    }

    fn survey(&self, patterns: &[String]) -> Result<Vec<SurveyedFile>, CheckpointError> {
        let patterns = self.compiled(patterns)?;
        survey::survey(&self.open_workspace()?, &patterns, self.most_bytes)
    }

    fn survey_all(&self, patterns: &[String]) -> Result<WorkspaceSurvey, CheckpointError> {
        let patterns = self.compiled(patterns)?;
        survey::survey_all(&self.open_workspace()?, &patterns, self.most_bytes)
    }

    fn content(&self, file: &SurveyedFile, most: u64) -> Option<Vec<u8>> {
        survey::content(&self.open_workspace().ok()?, file, most)
    }

    fn progress(&self) -> Option<Counts> {
        self.counted.now()
    }

    fn list(&self) -> Result<CheckpointsBySha, HistoryError> {
        self.history.known()
    }

    fn contains(&self, sha: &CheckpointSha) -> Result<bool, HistoryError> {
        self.history.contains(sha)
    }

    fn verify(&self, shas: &[CheckpointSha]) -> Result<Vec<CheckpointSha>, HistoryError> {
        self.history.verify(shas)
    }

    fn files(&self, sha: &CheckpointSha) -> Result<Vec<TreePath>, HistoryError> {
        self.history.files(sha)
    }

    fn diff(&self, from: &CheckpointSha, to: &CheckpointSha) -> Result<Vec<PathChange>, HistoryError> {
        self.history.diff(from, to)
    }

    fn plan_restore(&self, request: &RestoreRequest) -> Result<RestorePlan, RestoreError> {
        let cache = self.cache();
        let repository = self.history.repository().map_err(unreadable)?;
        let reader = open_objects(&repository)?;
        Ok(self.prepare_restore(&reader, &cache, request, &OnlyIds)?.plan)
    }

    fn protect(&self, request: &RestoreRequest) -> Result<Protection, RestoreError> {
        let mut cache = self.start_write();
        let repository = self.history.repository().map_err(unreadable)?;
        base_on(&repository, &mut cache, request.left.as_ref()).map_err(RestoreError::History)?;
        let objects = NewObjects::open(self.history.path(), &cache.durable).map_err(unreadable)?;
        let reader = open_objects(&repository)?;
        let mut prepared = self.prepare_restore(&reader, &cache, request, &objects)?;
        let mut safety = None;
        if !prepared.changes_nothing() {
            check_contents(&reader, &prepared.plan, &prepared.target)?;
            let saved = self.save(&repository, &cache, objects, &mut prepared.current, request);
            safety = Some(saved.map_err(RestoreError::Safety)?);
        }
        Ok(Protection {
            plan: prepared.plan,
            safety,
        })
    }

    fn restore(&self, request: &RestoreRequest) -> Result<RestoreReport, RestoreError> {
        let mut cache = self.start_write();
        let repository = self.history.repository().map_err(unreadable)?;
        base_on(&repository, &mut cache, request.left.as_ref()).map_err(RestoreError::History)?;
        let objects = NewObjects::open(self.history.path(), &cache.durable).map_err(unreadable)?;
        let reader = open_objects(&repository)?;
        let mut prepared = self.prepare_restore(&reader, &cache, request, &objects)?;
        let workspace = self.open_workspace().map_err(RestoreError::Safety)?;
        sweep(&workspace, &prepared.current.skipped)?;
        let mut safety = None;
        if !prepared.changes_nothing() {
            check_contents(&reader, &prepared.plan, &prepared.target)?;
            if !self.is_saved(&reader, &cache, &prepared, request) {
                let saved = self.save(&repository, &cache, objects, &mut prepared.current, request);
                safety = Some(saved.map_err(RestoreError::Safety)?);
            }
            let contents = |blob, sink: &mut dyn io::Write| reader.copy_content(blob, sink).map(drop);
            let target = history::find(&reader, &request.target).map_err(RestoreError::History)?;
            let made = message::timestamp(&target.message);
            apply(
                &workspace,
                &prepared.plan,
                (&prepared.target, made),
                &contents,
                &self.counted,
            )?;
        }
        self.listings().clear();
        Ok(RestoreReport {
            safety,
            done: prepared.plan,
        })
    }

    fn restorable(&self, shas: &[CheckpointSha]) -> Result<CheckpointsBySha, HistoryError> {
        self.history.restorable_with(shas, self.take_found_by_open())
    }

    fn prune(&self, keep: &[CheckpointSha]) -> Result<Vec<String>, HistoryError> {
        let _one_writer = self.cache();
        let repository = self.history.repository().map_err(HistoryError::Read)?;
        prune::safety_branches(&repository, keep)
            .map_err(|error| HistoryError::Read(ObjectError::at("prune safety checkpoints")(error)))
    }

    fn pack(&self) -> Result<usize, HistoryError> {
        let _one_writer = self.cache();
        let repository = self.history.repository().map_err(HistoryError::Read)?;
        git_format::pack_loose(&repository)
            .map_err(|error| HistoryError::Read(ObjectError::at("pack the checkpoints")(error)))
    }

    fn measure_clean(
        &self,
        gone: &BTreeSet<CheckpointSha>,
        keep: &[CheckpointSha],
    ) -> Result<u64, HistoryError> {
        let _one_writer = self.cache();
        let repository = self.history.repository().map_err(HistoryError::Read)?;
        clean::measure(&repository, gone, keep)
            .map_err(|error| HistoryError::Read(ObjectError::at("look for what nothing needs")(error)))
    }

    fn clean(&self, gone: &BTreeSet<CheckpointSha>, keep: &[CheckpointSha]) -> Result<u64, HistoryError> {
        let mut cache = self.cache();
        let repository = self.history.repository().map_err(HistoryError::Read)?;
        let freed = clean::clean(&repository, gone, keep);
        // The objects that the listings and the cache name may no longer exist.
        self.listings().clear();
        *cache = usable_cache(&self.history).0;
        freed.map_err(|error| HistoryError::Read(ObjectError::at("remove old checkpoints")(error)))
    }
}

fn name_of_commit(reader: &ObjectReader<'_>, sha: &CheckpointSha) -> Result<Oid, CheckpointError> {
    Ok(history::find(reader, sha).map_err(CheckpointError::Parent)?.id)
}

/// Returns the parent of the commit for a checkpoint made from `base`. That is `base`, except where `base` holds the files
/// before a run: then it is the first commit of the repository, so that a cleanup can remove `base` alone (RUN-18).
fn parent_for(
    repository: &Repository,
    reader: &ObjectReader<'_>,
    base: Option<Oid>,
) -> Result<Option<Oid>, CheckpointError> {
    let Some(base) = base else { return Ok(None) };
    let found = history::find(reader, &name_of(base)).map_err(CheckpointError::Parent)?;
    match message::is_initial(&found.message) {
        true => beginning(repository, reader),
        false => Ok(Some(base)),
    }
}

fn open_objects(repository: &Repository) -> Result<ObjectReader<'_>, RestoreError> {
    history::open_reader(repository).map_err(RestoreError::History)
}

/// Loads the stat cache; returns it with the objects that its checkpoint needs and that exist. Both are empty if the cache
/// names a missing object or a damaged folder: its objects are not stored again, so the next checkpoint would lack them.
fn usable_cache(history: &GitHistory) -> (StatCache, HashSet<Oid>) {
    let cache = StatCache::load(history.path());
    let existing = || -> Result<Option<HashSet<Oid>>, ObjectError> {
        let failed = ObjectError::at("read the newest checkpoint");
        let repository = history.repository()?;
        let reader = ObjectReader::open(&repository).map_err(&failed)?;
        let mut good = HashSet::new();
        let whole = match cache.root() {
            Some(root) => history::is_tree_whole(&reader, root, &mut good).map_err(&failed)?,
            None => true,
        };
        let mut ids = cache.folders.values().copied().chain(cache.files.blobs());
        Ok((whole && ids.all(|id| good.contains(&id))).then_some(good))
    };
    match existing() {
        Ok(Some(good)) => (cache, good),
        Ok(None) | Err(_) => Default::default(),
    }
}
