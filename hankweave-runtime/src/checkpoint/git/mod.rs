//! Checkpoints in a bare git repository beside the project, one branch for each run.
//!
//! Neither an index nor a work tree of git's is used: contents are bytes that we read, trees are built from a listing,
//! and what did not change since the checkpoint before is known from a [cache](super::stat_cache). A checkpoint becomes
//! durable in one order: objects, one sync of the file system, the branch, the sync of its folder (G3, G6).

mod record;
mod restore;

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use git2::{Oid, Reference};
use hankweave_core::id::CheckpointSha;

use self::record::{Draft, base_on, moved_elsewhere, reference_name, tip};
use self::restore::{check_contents, open_objects, unreadable};
use super::git_format::{self, NewObjects};
use super::history::{self, GitHistory, MAIN};
use super::object::{ObjectError, OnlyIds};
use super::open::{self, OpenError, OpenReport, OpenRequest};
use super::restore::{apply, sweep};
use super::stat_cache::StatCache;
use super::survey;
use super::tree::Listing;
use super::workspace::Workspace;
use super::{
    Change, Checkpoint, CheckpointError, CheckpointRequest, CheckpointStore, Counted, Counts, HistoryError,
    InitialRequest, KnownCheckpoints, Patterns, Protection, RestoreError, RestorePlan, RestoreReport,
    RestoreRequest, SurveyedFile, clean, message, prune,
};

/// Checkpoints in a bare git repository.
#[derive(Debug)]
pub struct GitCheckpoints {
    history: GitHistory,
    workspace: PathBuf,
    /// Also held during every write, so that two of them run one after the other.
    cache: Mutex<StatCache>,
    /// The files of the checkpoints that a restore involves, by tree id: planning, protecting and restoring need the same ones.
    listings: Mutex<HashMap<Oid, Arc<Listing>>>,
    /// The patterns that were asked for last, since compiling thousands of them takes longer than a checkpoint.
    patterns: Mutex<Option<(Vec<String>, Arc<Patterns>)>>,
    /// How far the write that goes on has come.
    counted: Counted,
}

impl GitCheckpoints {
    /// Opens the repository, after cleaning up what a crash left; makes it when it is missing.
    ///
    /// Only for the process that holds the execution directory; others look through [`GitHistory`].
    ///
    /// # Errors
    ///
    /// Returns [`OpenError`] when there is no usable repository in the end. A repository that git cannot read is no
    /// error: it is moved aside and named in the report.
    pub fn open(request: &OpenRequest) -> Result<(Self, OpenReport), OpenError> {
        let report = open::prepare(request)?;
        let history = GitHistory::at(&request.repository);
        let cache = usable_cache(&history);
        Ok((
            Self {
                history,
                workspace: request.workspace.clone(),
                cache: Mutex::new(cache),
                listings: Mutex::default(),
                patterns: Mutex::default(),
                counted: Counted::default(),
            },
            report,
        ))
    }

    fn cache(&self) -> MutexGuard<'_, StatCache> {
        // A panic elsewhere leaves the cache as it was before, because it is replaced in one step at the end.
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn compiled(&self, patterns: &[String]) -> Result<Arc<Patterns>, CheckpointError> {
        // A pair is replaced in one step, so a panic leaves a whole one.
        let mut last = self.patterns.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, compiled)) = last.as_ref().filter(|(known, _)| known == patterns) {
            return Ok(Arc::clone(compiled));
        }
        let compiled = Arc::new(Patterns::parse(patterns).map_err(CheckpointError::Pattern)?);
        *last = Some((patterns.to_owned(), Arc::clone(&compiled)));
        Ok(compiled)
    }

    /// The same for a write, of which nothing is counted yet.
    fn writing(&self) -> MutexGuard<'_, StatCache> {
        let cache = self.cache();
        self.counted.begin(0);
        cache
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
        let mut cache = self.writing();
        let repository = self.history.repository().map_err(CheckpointError::Store)?;
        let tip = tip(&repository, MAIN)?;
        let message = message::initial(request.at);
        let draft = Draft {
            branch: MAIN,
            tip,
            parent: tip,
            message,
            at: request.at,
        };
        self.record(&repository, &mut cache, &patterns, &draft)
    }

    fn create(&self, request: &CheckpointRequest) -> Result<Checkpoint, CheckpointError> {
        let patterns = self.compiled(&request.patterns)?;
        let branch = request.branch();
        if !Reference::is_valid_name(&reference_name(&branch)) {
            return Err(CheckpointError::InvalidBranch { branch });
        }
        let mut cache = self.writing();
        let repository = self.history.repository().map_err(CheckpointError::Store)?;
        let own_tip = tip(&repository, &branch)?;
        let parent = match (&request.parent, own_tip) {
            (Some(sha), _) => Some(
                history::find(&repository, sha)
                    .map_err(CheckpointError::Parent)?
                    .id,
            ),
            (None, Some(tip)) => Some(tip),
            (None, None) => tip(&repository, MAIN)?,
        };
        let message = message::codon(request);
        let draft = Draft {
            branch: &branch,
            tip: own_tip,
            parent,
            message,
            at: request.at,
        };
        match own_tip {
            Some(found) if parent != Some(found) => Err(moved_elsewhere(&draft, Some(found))),
            _ => self.record(&repository, &mut cache, &patterns, &draft),
        }
    }

    fn survey(&self, patterns: &[String]) -> Result<Vec<SurveyedFile>, CheckpointError> {
        let patterns = self.compiled(patterns)?;
        survey::survey(&self.open_workspace()?, &patterns)
    }

    fn content(&self, file: &SurveyedFile, most: u64) -> Option<Vec<u8>> {
        survey::content(&self.open_workspace().ok()?, file, most)
    }

    fn progress(&self) -> Option<Counts> {
        self.counted.now()
    }

    fn known(&self) -> Result<KnownCheckpoints, HistoryError> {
        self.history.known()
    }

    fn contains(&self, sha: &CheckpointSha) -> Result<bool, HistoryError> {
        self.history.contains(sha)
    }

    fn verify(&self, shas: &[CheckpointSha]) -> Result<Vec<CheckpointSha>, HistoryError> {
        self.history.verify(shas)
    }

    fn diff(&self, from: &CheckpointSha, to: &CheckpointSha) -> Result<Vec<Change>, HistoryError> {
        self.history.diff(from, to)
    }

    fn plan_restore(&self, request: &RestoreRequest) -> Result<RestorePlan, RestoreError> {
        let cache = self.cache();
        let repository = self.history.repository().map_err(unreadable)?;
        Ok(self.prepare_restore(&repository, &cache, request, &OnlyIds)?.plan)
    }

    fn protect(&self, request: &RestoreRequest) -> Result<Protection, RestoreError> {
        let mut cache = self.writing();
        let repository = self.history.repository().map_err(unreadable)?;
        base_on(&repository, &mut cache, request.left.as_ref()).map_err(RestoreError::History)?;
        let objects = NewObjects::begin(self.history.path(), &cache.durable).map_err(unreadable)?;
        let mut prepared = self.prepare_restore(&repository, &cache, request, &objects)?;
        let mut safety = None;
        if !prepared.changes_nothing() {
            let odb = open_objects(&repository)?;
            check_contents(&repository, &odb, &prepared.plan, &prepared.target)?;
            let saved = self.save(&repository, &cache, objects, &mut prepared.current, request);
            safety = Some(saved.map_err(RestoreError::Safety)?);
        }
        Ok(Protection {
            plan: prepared.plan,
            safety,
        })
    }

    fn restore(&self, request: &RestoreRequest) -> Result<RestoreReport, RestoreError> {
        let mut cache = self.writing();
        let repository = self.history.repository().map_err(unreadable)?;
        base_on(&repository, &mut cache, request.left.as_ref()).map_err(RestoreError::History)?;
        let objects = NewObjects::begin(self.history.path(), &cache.durable).map_err(unreadable)?;
        let mut prepared = self.prepare_restore(&repository, &cache, request, &objects)?;
        let workspace = self.open_workspace().map_err(RestoreError::Safety)?;
        sweep(&workspace, &prepared.current.skipped)?;
        let mut safety = None;
        if !prepared.changes_nothing() {
            let odb = open_objects(&repository)?;
            check_contents(&repository, &odb, &prepared.plan, &prepared.target)?;
            if !self.is_saved(&repository, &cache, &prepared, request) {
                let saved = self.save(&repository, &cache, objects, &mut prepared.current, request);
                safety = Some(saved.map_err(RestoreError::Safety)?);
            }
            let contents = |blob, sink: &mut dyn io::Write| {
                git_format::copy_content(&repository, &odb, blob, sink).map(drop)
            };
            apply(
                &workspace,
                &prepared.plan,
                &prepared.target,
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

    fn restorable(&self, shas: &[CheckpointSha]) -> Result<KnownCheckpoints, HistoryError> {
        self.history.restorable(shas)
    }

    fn prune(&self, keep: &[CheckpointSha]) -> Result<Vec<String>, HistoryError> {
        let _one_writer = self.cache();
        let repository = self.history.repository().map_err(HistoryError::Read)?;
        prune::safety_branches(&repository, keep)
            .map_err(|error| HistoryError::Read(ObjectError::at("prune safety checkpoints")(error)))
    }

    fn clean(&self, gone: &BTreeSet<CheckpointSha>, keep: &[CheckpointSha]) -> Result<u64, HistoryError> {
        let mut cache = self.cache();
        let repository = self.history.repository().map_err(HistoryError::Read)?;
        let freed = clean::clean(&repository, gone, keep);
        // What they know may be gone.
        self.listings().clear();
        *cache = usable_cache(&self.history);
        freed.map_err(|error| HistoryError::Read(ObjectError::at("remove old checkpoints")(error)))
    }
}

/// The stat cache, unless it speaks of objects that are gone or of damaged folders, with which all in them would be lost: what it knows is not stored
/// again.
fn usable_cache(history: &GitHistory) -> StatCache {
    let cache = StatCache::load(history.path());
    let all_there = || -> Result<bool, ObjectError> {
        let repository = history.repository()?;
        let odb = repository
            .odb()
            .map_err(ObjectError::at("open the object store"))?;
        let (mut folders, mut files) = (cache.folders.values(), cache.files.blobs());
        Ok(
            folders.all(|folder| git_format::read_tree(&repository, *folder).is_ok())
                && files.all(|file| odb.exists(file)),
        )
    };
    if all_there().unwrap_or(false) {
        cache
    } else {
        StatCache::default()
    }
}
