//! Checkpoints in a bare git repository beside the project, one branch for each run.
//!
//! Neither an index nor a work tree of git's is used: contents are bytes that we read, trees are built from a listing,
//! and what did not change since the checkpoint before is known from a [cache](super::stat_cache). A checkpoint becomes
//! durable in one order: objects, one sync of the file system, the branch, the sync of its folder (G3, G6).

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::mem;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use git2::{Odb, Oid, Reference, Repository};
use hankweave_core::id::CheckpointSha;
use hankweave_core::time::Timestamp;

use super::git_format::{self, Move, MoveError, NewCommit, NewObjects};
use super::history::{self, GitHistory, MAIN};
use super::object::{BlobStore, ContentError, ObjectError, OnlyIds};
use super::open::{self, OpenError, OpenReport, OpenRequest};
use super::repository::name_of;
use super::restore::{self, Prepared};
use super::select::Selection;
use super::snapshot::{self, Snapshot};
use super::stat_cache::{NextCache, StatCache};
use super::survey;
use super::tree::{Folders, Listing, changes};
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

/// A commit to make.
struct Draft<'a> {
    branch: &'a str,
    /// Where the branch points now.
    tip: Option<Oid>,
    parent: Option<Oid>,
    message: String,
    at: Timestamp,
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

    /// Takes the files of the workspace on top of the parent and commits them.
    fn record(
        &self,
        repository: &Repository,
        cache: &mut StatCache,
        patterns: &Patterns,
        draft: &Draft<'_>,
    ) -> Result<Checkpoint, CheckpointError> {
        let workspace = self.open_workspace()?;
        let parent = draft.parent.map(name_of);
        base_on(repository, cache, parent.as_ref()).map_err(CheckpointError::Parent)?;
        let next = NextCache::begin(self.history.path())
            .inspect_err(|error| {
                tracing::warn!(%error, "no stat cache can be begun; what is read now is read again");
            })
            .ok();
        let selection = Selection {
            patterns,
            tracked: &[&cache.files],
            in_the_way: false,
        };
        let objects =
            NewObjects::begin(self.history.path(), &cache.durable).map_err(CheckpointError::Store)?;
        let mut snapshot = snapshot::take(&workspace, &selection, cache, &objects, &self.counted)?;
        let changes = changes(&cache.files, &snapshot.files);
        let (checkpoint, folders) =
            self.commit(repository, cache, objects, &mut snapshot, &changes, draft)?;
        cache.update(next.as_ref(), snapshot.files, snapshot.read, folders, &changes);
        if let Some(Err(error)) = next.map(|next| next.finish(cache)) {
            tracing::warn!(%error, "failed to write the stat cache; the next start reads all files again");
        }
        Ok(checkpoint)
    }

    /// Commits the files of `snapshot` and moves the branch; returns the ids of all folders too. All objects are durable before the branch
    /// moves from where it was, and that is durable on return (G6).
    fn commit(
        &self,
        repository: &Repository,
        cache: &StatCache,
        objects: NewObjects<'_>,
        snapshot: &mut Snapshot,
        changes: &[Change],
        draft: &Draft<'_>,
    ) -> Result<(Checkpoint, Folders), CheckpointError> {
        let new = NewCommit {
            parent: draft.parent,
            at: draft.at,
            message: &draft.message,
        };
        let (commit, folders) = new
            .write(&objects, &snapshot.files, &cache.folders, changes)
            .map_err(CheckpointError::Store)?;
        let name = reference_name(draft.branch);
        let failed = |action| move |error: io::Error| CheckpointError::Store(ObjectError::at(action)(error));
        let branch = Move::begin(repository, &name, draft.tip, commit).map_err(|error| match error {
            MoveError::Elsewhere(found) => moved_elsewhere(draft, found),
            MoveError::Git(error) => CheckpointError::Store(ObjectError::at("read the branch")(error)),
            MoveError::Io(error) => failed("prepare the branch")(error),
        })?;
        objects.finish().map_err(CheckpointError::Store)?;
        branch.finish().map_err(failed("move the branch"))?;
        let checkpoint = Checkpoint {
            sha: name_of(commit),
            branch: draft.branch.to_owned(),
            parent: draft.parent.map(name_of),
            files: snapshot.files.len(),
            skipped: mem::take(&mut snapshot.skipped),
            seen: mem::take(&mut snapshot.seen),
        };
        Ok((checkpoint, folders))
    }

    fn prepare_restore(
        &self,
        repository: &Repository,
        cache: &StatCache,
        request: &RestoreRequest,
        blobs: &dyn BlobStore,
    ) -> Result<Prepared, RestoreError> {
        let listing = |sha| self.listing(repository, cache, sha);
        let target = listing(&request.target).map_err(RestoreError::History)?;
        let left = request.left.as_ref().map(listing).transpose();
        let left = left.map_err(RestoreError::History)?.unwrap_or_default();
        let workspace = self.open_workspace().map_err(RestoreError::Safety)?;
        restore::prepare(&workspace, cache, blobs, target, &left, &self.counted)
    }

    fn listings(&self) -> MutexGuard<'_, HashMap<Oid, Arc<Listing>>> {
        // Whatever a panic left in there is right: a tree never changes.
        self.listings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The files of a checkpoint.
    fn listing(
        &self,
        repository: &Repository,
        cache: &StatCache,
        sha: &CheckpointSha,
    ) -> Result<Arc<Listing>, HistoryError> {
        let tree = history::find(repository, sha)?.tree;
        if let Some(known) = self.listings().get(&tree) {
            return Ok(Arc::clone(known));
        }
        let files = match cache.root() == Some(tree) {
            true => cache.files.clone(),
            false => history::load(repository, sha)?.files,
        };
        let files = Arc::new(files);
        self.listings().insert(tree, Arc::clone(&files));
        Ok(files)
    }

    /// Whether the safety checkpoint of `request` has all that would change; one that cannot be read has nothing.
    fn is_saved(
        &self,
        repository: &Repository,
        cache: &StatCache,
        prepared: &Prepared,
        request: &RestoreRequest,
    ) -> bool {
        let saved = request
            .safety
            .as_ref()
            .map(|safety| self.listing(repository, cache, safety));
        saved.is_some_and(|saved| saved.is_ok_and(|saved| prepared.is_saved_in(&saved)))
    }

    /// Saves the files as they are before a restore, on a branch of their own.
    fn save(
        &self,
        repository: &Repository,
        cache: &StatCache,
        objects: NewObjects<'_>,
        current: &mut Snapshot,
        request: &RestoreRequest,
    ) -> Result<Checkpoint, CheckpointError> {
        let parent = request
            .left
            .as_ref()
            .map(|left| history::find(repository, left))
            .transpose();
        let parent = parent.map_err(CheckpointError::Parent)?.map(|commit| commit.id);
        let first = format!(
            "{}{}-{}",
            prune::PREFIX,
            request.at.as_millis(),
            request.target.short()
        );
        let (mut branch, mut number) = (first.clone(), 1);
        while tip(repository, &branch)?.is_some() {
            number += 1;
            branch = format!("{first}-{number}");
        }
        let message = message::safety(&request.target, request.at);
        let draft = Draft {
            branch: &branch,
            tip: None,
            parent,
            message,
            at: request.at,
        };
        let changes = changes(&cache.files, &current.files);
        let (checkpoint, folders) = self.commit(repository, cache, objects, current, &changes, &draft)?;
        if let Some(tree) = folders.get(&[][..]) {
            self.listings().insert(*tree, Arc::new(current.files.clone()));
        }
        Ok(checkpoint)
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
        restore::sweep(&workspace, &prepared.current.skipped)?;
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
            restore::apply(
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

/// Makes `cache` hold the files of the checkpoint `parent`; what is known of how files look stays.
fn base_on(
    repository: &Repository,
    cache: &mut StatCache,
    parent: Option<&CheckpointSha>,
) -> Result<(), HistoryError> {
    let tree = parent
        .map(|parent| history::find(repository, parent))
        .transpose()?
        .map(|it| it.tree);
    if cache.root() != tree {
        let loaded = parent
            .map(|parent| history::load(repository, parent))
            .transpose()?
            .unwrap_or_default();
        cache.hold(loaded.files, loaded.folders);
    }
    Ok(())
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

fn open_objects(repository: &Repository) -> Result<Odb<'_>, RestoreError> {
    repository
        .odb()
        .map_err(|error| unreadable(ObjectError::at("open the object store")(error)))
}

/// Fails when contents are missing that the restore needs, before anything is changed.
fn check_contents(
    repository: &Repository,
    odb: &Odb<'_>,
    plan: &RestorePlan,
    target: &Listing,
) -> Result<(), RestoreError> {
    for path in &plan.write {
        if let Some(entry) = target.get(path.as_bytes())
            && let Err(ContentError::Object(error)) =
                git_format::copy_content(repository, odb, entry.blob, &mut io::sink())
        {
            return Err(unreadable(ObjectError::at("find the contents of a file")(error)));
        }
    }
    Ok(())
}

/// Where `branch` points, if it exists.
fn tip(repository: &Repository, branch: &str) -> Result<Option<Oid>, CheckpointError> {
    git_format::target(repository, &reference_name(branch))
        .map_err(|error| CheckpointError::Store(ObjectError::at("read the branch")(error)))
}

fn reference_name(branch: &str) -> String {
    format!("refs/heads/{branch}")
}

fn moved_elsewhere(draft: &Draft<'_>, found: Option<Oid>) -> CheckpointError {
    let name = |commit: Option<Oid>| commit.map_or_else(|| CheckpointSha::new(""), name_of);
    CheckpointError::BranchMoved {
        branch: draft.branch.to_owned(),
        expected: name(draft.parent),
        found: name(found),
    }
}

fn unreadable(error: ObjectError) -> RestoreError {
    RestoreError::History(HistoryError::Read(error))
}
