//! Checkpoints in memory, of a real workspace. They do not outlive the process.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::{self, Read as _};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use git2::{ObjectType, Oid};
use hankweave_core::id::CheckpointSha;
use hankweave_core::time::Timestamp;

use super::object::{BlobStore, BlobWriter, ContentError, ObjectError, OnlyIds, ReadSeek, WriteError};
use super::restore::{self, Prepared};
use super::select::{FileSelection, MAX_FILE_BYTES};
use super::snapshot::{self, WorkspaceSnapshot};
use super::stat_cache::StatCache;
use super::survey;
use super::tree::{Listing, TreePath, changes};
use super::workspace::Workspace;
use super::{
    Checkpoint, CheckpointError, CheckpointRequest, CheckpointStore, CheckpointsBySha, Counts, FileProgress,
    HistoryError, InitialRequest, KnownCheckpoint, PathChange, Patterns, Protection, RestoreError,
    RestorePlan, RestoreReport, RestoreRequest, SurveyedFile, message,
};

/// Checkpoints that live as long as this value.
#[derive(Debug)]
pub(crate) struct MemoryCheckpoints {
    workspace: PathBuf,
    commits: Mutex<Commits>,
    blobs: MemoryBlobs,
}

#[derive(Debug, Default)]
struct Commits {
    known: CheckpointsBySha,
    files: BTreeMap<CheckpointSha, Listing>,
    tips: BTreeMap<String, CheckpointSha>,
}

#[derive(Debug, Default)]
struct MemoryBlobs(Mutex<HashMap<Oid, Vec<u8>>>);

impl MemoryCheckpoints {
    /// An empty store for the folder `workspace`.
    pub(crate) fn new(workspace: impl Into<PathBuf>) -> Self {
        Self {
            workspace: workspace.into(),
            commits: Mutex::default(),
            blobs: MemoryBlobs::default(),
        }
    }

    fn commits(&self) -> MutexGuard<'_, Commits> {
        self.commits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, patterns: &Patterns, tracked: &Listing) -> Result<WorkspaceSnapshot, CheckpointError> {
        let selection = FileSelection {
            patterns,
            tracked: &[tracked],
            in_the_way: false,
            unlisted: false,
            most_bytes: MAX_FILE_BYTES,
        };
        snapshot::take(
            &self.open_workspace()?,
            &selection,
            &StatCache::default(),
            &self.blobs,
            &FileProgress::default(),
        )
    }

    /// Makes a checkpoint on the branch of a run, `unless_unchanged`.
    fn create_on_branch(
        &self,
        request: &CheckpointRequest,
        message: String,
        unless_unchanged: bool,
    ) -> Result<Option<Checkpoint>, CheckpointError> {
        let patterns = Patterns::parse(&request.patterns).map_err(CheckpointError::Pattern)?;
        let (branch, mut commits) = (request.branch(), self.commits());
        let tip = commits.tips.get(&branch);
        let parent = request.parent.as_ref().or(tip).or(commits.tips.get("main"));
        if let (Some(found), Some(expected)) = (tip, parent)
            && found != expected
        {
            let (expected, found) = (expected.clone(), found.clone());
            return Err(CheckpointError::BranchMoved {
                branch,
                expected,
                found,
            });
        }
        let tracked = match parent {
            Some(parent) => commits.files(parent).map_err(CheckpointError::Parent)?.clone(),
            None => Listing::default(),
        };
        let (snapshot, parent) = (self.take(&patterns, &tracked)?, parent.cloned());
        if unless_unchanged && changes(&tracked, &snapshot.files).is_empty() {
            return Ok(None);
        }
        commits
            .add(branch, parent, message, request.at, snapshot)
            .map(Some)
    }

    fn open_workspace(&self) -> Result<Workspace, CheckpointError> {
        Workspace::open(&self.workspace).map_err(|source| CheckpointError::Workspace {
            path: self.workspace.clone(),
            source,
        })
    }

    fn prepare_restore(
        &self,
        commits: &Commits,
        request: &RestoreRequest,
        blobs: &dyn BlobStore,
    ) -> Result<Prepared, RestoreError> {
        let target = commits.files(&request.target).map_err(RestoreError::History)?;
        let left = request.left.as_ref().map(|left| commits.files(left)).transpose();
        let left = left.map_err(RestoreError::History)?.cloned().unwrap_or_default();
        let workspace = self.open_workspace().map_err(RestoreError::Safety)?;
        restore::prepare(
            &workspace,
            &StatCache::default(),
            blobs,
            Arc::new(target.clone()),
            &left,
            request.spares_changed,
            &FileProgress::default(),
        )
    }
}

impl Commits {
    fn files(&self, sha: &CheckpointSha) -> Result<&Listing, HistoryError> {
        self.files
            .get(sha)
            .ok_or_else(|| HistoryError::Unknown { sha: sha.clone() })
    }

    fn save(
        &mut self,
        request: &RestoreRequest,
        current: WorkspaceSnapshot,
    ) -> Result<Checkpoint, RestoreError> {
        let branch = format!("recovery/{}-{}", request.at.as_millis(), request.target.short());
        let text = message::safety(&request.target, request.at);
        let saved = self.add(branch, request.left.clone(), text, request.at, current);
        saved.map_err(RestoreError::Safety)
    }

    fn add(
        &mut self,
        branch: String,
        parent: Option<CheckpointSha>,
        message: String,
        timestamp: Timestamp,
        snapshot: WorkspaceSnapshot,
    ) -> Result<Checkpoint, CheckpointError> {
        let message = message::without(message, &snapshot.skipped);
        // The number of commits makes the name unique, as the parent's name does in git.
        let text = format!("{} {branch} {message}", self.known.len());
        let id = Oid::hash_object(ObjectType::Commit, text.as_bytes());
        let id = id.map_err(|error| CheckpointError::Store(ObjectError::at("name a checkpoint")(error)))?;
        let sha = CheckpointSha::new(id.to_string());
        let known = KnownCheckpoint {
            message,
            timestamp,
            branch: branch.clone(),
            before: parent.clone(),
            parent: parent.clone(),
        };
        self.known.insert(sha.clone(), known);
        self.tips.insert(branch.clone(), sha.clone());
        let WorkspaceSnapshot {
            files, skipped, seen, ..
        } = snapshot;
        let checkpoint = Checkpoint {
            sha: sha.clone(),
            branch,
            parent,
            files: files.len(),
            skipped,
            seen,
        };
        self.files.insert(sha, files);
        Ok(checkpoint)
    }
}

impl CheckpointStore for MemoryCheckpoints {
    fn initial(&self, request: &InitialRequest) -> Result<Checkpoint, CheckpointError> {
        let patterns = Patterns::parse(&request.patterns).map_err(CheckpointError::Pattern)?;
        let mut commits = self.commits();
        let parent = commits.tips.get("main").cloned();
        let tracked = parent
            .as_ref()
            .and_then(|tip| commits.files.get(tip))
            .cloned()
            .unwrap_or_default();
        let snapshot = self.take(&patterns, &tracked)?;
        commits.add(
            "main".to_owned(),
            parent,
            message::initial(request.at),
            request.at,
            snapshot,
        )
    }

    fn create(&self, request: &CheckpointRequest) -> Result<Checkpoint, CheckpointError> {
        let made = self.create_on_branch(request, message::codon(request), false)?;
        Ok(made.expect("one without changes is made, too"))
    }

    fn create_start(&self, request: &CheckpointRequest) -> Result<Option<Checkpoint>, CheckpointError> {
        self.create_on_branch(request, message::start(request), true)
    }

    fn survey(&self, patterns: &[String]) -> Result<Vec<SurveyedFile>, CheckpointError> {
        let patterns = Patterns::parse(patterns).map_err(CheckpointError::Pattern)?;
        survey::survey(&self.open_workspace()?, &patterns, MAX_FILE_BYTES)
    }

    fn content(&self, file: &SurveyedFile, most: u64) -> Option<Vec<u8>> {
        survey::content(&self.open_workspace().ok()?, file, most)
    }

    fn list(&self) -> Result<CheckpointsBySha, HistoryError> {
        Ok(self.commits().known.clone())
    }

    fn contains(&self, sha: &CheckpointSha) -> Result<bool, HistoryError> {
        Ok(self.commits().known.contains_key(sha))
    }

    fn verify(&self, shas: &[CheckpointSha]) -> Result<Vec<CheckpointSha>, HistoryError> {
        let commits = self.commits();
        Ok(shas
            .iter()
            .filter(|sha| !commits.known.contains_key(*sha))
            .cloned()
            .collect())
    }

    fn files(&self, sha: &CheckpointSha) -> Result<Vec<TreePath>, HistoryError> {
        Ok(self.commits().files(sha)?.paths().cloned().collect())
    }

    fn diff(&self, from: &CheckpointSha, to: &CheckpointSha) -> Result<Vec<PathChange>, HistoryError> {
        let commits = self.commits();
        Ok(changes(commits.files(from)?, commits.files(to)?))
    }

    fn plan_restore(&self, request: &RestoreRequest) -> Result<RestorePlan, RestoreError> {
        Ok(self.prepare_restore(&self.commits(), request, &OnlyIds)?.plan)
    }

    fn protect(&self, request: &RestoreRequest) -> Result<Protection, RestoreError> {
        let mut commits = self.commits();
        let prepared = self.prepare_restore(&commits, request, &self.blobs)?;
        let safety = match prepared.changes_nothing() {
            true => None,
            false => Some(commits.save(request, prepared.current)?),
        };
        Ok(Protection {
            plan: prepared.plan,
            safety,
        })
    }

    fn restore(&self, request: &RestoreRequest) -> Result<RestoreReport, RestoreError> {
        let mut commits = self.commits();
        let prepared = self.prepare_restore(&commits, request, &self.blobs)?;
        let saved = request
            .safety
            .as_ref()
            .and_then(|safety| commits.files.get(safety));
        let is_saved = saved.is_some_and(|saved| prepared.is_saved_in(saved));
        let safe = prepared.changes_nothing() || is_saved;
        let Prepared {
            current,
            target,
            plan,
        } = prepared;
        let safety = match safe {
            true => None,
            false => Some(commits.save(request, current)?),
        };
        let workspace = self.open_workspace().map_err(RestoreError::Safety)?;
        let contents = |blob, sink: &mut dyn io::Write| self.blobs.give(blob, sink);
        restore::apply(
            &workspace,
            &plan,
            (&target, None),
            &contents,
            &FileProgress::default(),
        )?;
        Ok(RestoreReport { safety, done: plan })
    }

    fn progress(&self) -> Option<Counts> {
        None
    }

    fn prune(&self, _keep: &[CheckpointSha]) -> Result<Vec<String>, HistoryError> {
        Ok(Vec::new())
    }

    fn clean(&self, _gone: &BTreeSet<CheckpointSha>, _keep: &[CheckpointSha]) -> Result<u64, HistoryError> {
        Ok(0)
    }

    fn measure_clean(
        &self,
        _gone: &BTreeSet<CheckpointSha>,
        _keep: &[CheckpointSha],
    ) -> Result<u64, HistoryError> {
        Ok(0)
    }
}

impl MemoryBlobs {
    fn give(&self, blob: Oid, sink: &mut dyn io::Write) -> Result<(), ContentError> {
        let blobs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let missing = || ContentError::Object(git2::Error::from_str(&format!("there is no content {blob}")));
        let contents = blobs.get(&blob).ok_or_else(missing)?;
        sink.write_all(contents).map_err(ContentError::Sink)
    }
}

impl BlobStore for MemoryBlobs {
    fn writer(&self) -> Result<Box<dyn BlobWriter + '_>, ObjectError> {
        Ok(Box::new(self))
    }
}

impl BlobWriter for &MemoryBlobs {
    fn write(&self, contents: &[u8]) -> Result<Oid, ObjectError> {
        let blob = OnlyIds.write(contents)?;
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(blob, contents.to_vec());
        Ok(blob)
    }

    fn write_from(&self, source: &mut dyn ReadSeek, length: u64) -> Result<Option<Oid>, WriteError> {
        let mut contents = Vec::new();
        source.rewind()?;
        source.take(length).read_to_end(&mut contents)?;
        if contents.len() as u64 != length {
            return Ok(None);
        }
        self.write(&contents).map(Some).map_err(WriteError::Store)
    }
}
