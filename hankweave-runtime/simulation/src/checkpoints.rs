//! Checkpoints of a workspace on the simulated disk.
//!
//! A checkpoint that was returned survives everything, and so does the workspace as it was then: the real store syncs the whole file
//! system before it returns (G6).

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::io::{self, Cursor};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hankweave_core::discovery::STATE_DIR;
use hankweave_core::id::CheckpointSha;
use hankweave_core::time::Timestamp;
use hankweave_runtime::checkpoint::{
    ChangeKind, Checkpoint, CheckpointError, CheckpointRequest, CheckpointStore, CheckpointsBySha, Counts,
    HistoryError, InitialRequest, KnownCheckpoint, PathChange, Protection, RestoreError, RestorePlan,
    RestoreReport, RestoreRequest, SurveyedFile, TreePath,
};
use hankweave_runtime::world::disk::Disk;

use crate::disk::{Content, SimDisk, Tree};

/// The end of the names under which files arrive.
const ARRIVING: &str = ".arriving";

/// Checkpoints that all lives share.
#[derive(Debug, Clone, Default)]
pub(crate) struct Vault(Arc<Mutex<Commits>>);

#[derive(Debug, Default)]
struct Commits {
    known: CheckpointsBySha,
    trees: BTreeMap<CheckpointSha, Tree>,
    tips: BTreeMap<String, CheckpointSha>,
}

impl Vault {
    fn commits(&self) -> MutexGuard<'_, Commits> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn contains(&self, sha: &CheckpointSha) -> bool {
        self.commits().known.contains_key(sha)
    }

    /// Whether a checkpoint has this file.
    pub(crate) fn holds(&self, sha: &CheckpointSha, path: &Path, bytes: &[u8]) -> bool {
        let commits = self.commits();
        let kept = commits.trees.get(sha).and_then(|tree| tree.get(path));
        matches!(kept, Some(Content::File(_, kept)) if *kept == bytes)
    }
}

/// The way of one life of the runtime to the checkpoints.
#[derive(Debug)]
pub(crate) struct SimCheckpoints {
    pub(crate) vault: Vault,
    pub(crate) disk: SimDisk,
    pub(crate) workspace: PathBuf,
}

impl SimCheckpoints {
    fn tree(&self) -> Tree {
        self.disk.tree(&self.workspace, STATE_DIR)
    }

    /// Keeps the files as they are now.
    fn keep(&self, commit: KnownCheckpoint, commits: &mut Commits) -> Result<Checkpoint, CheckpointError> {
        let synced = self.disk.sync_tree(&self.workspace, STATE_DIR);
        synced.map_err(|source| CheckpointError::Workspace {
            path: self.workspace.clone(),
            source,
        })?;
        let tree = self.tree();
        let sha = CheckpointSha::new(format!("{:040x}", commits.known.len() + 1));
        let checkpoint = Checkpoint {
            sha: sha.clone(),
            branch: commit.branch.clone(),
            parent: commit.parent.clone(),
            files: tree.len(),
            skipped: Vec::new(),
            seen: Vec::new(),
        };
        commits.tips.insert(commit.branch.clone(), sha.clone());
        commits.known.insert(sha.clone(), commit);
        commits.trees.insert(sha, tree);
        Ok(checkpoint)
    }

    fn plan(&self, request: &RestoreRequest) -> Result<RestorePlan, HistoryError> {
        let commits = self.vault.commits();
        let (now, target) = (self.tree(), commits.tree(&request.target)?);
        let left = request.left.as_ref().map(|left| commits.tree(left)).transpose()?;
        let write = target
            .iter()
            .filter(|(path, content)| now.get(*path) != Some(content));
        let left = left.into_iter().flat_map(Tree::keys);
        let delete = left.filter(|path| now.contains_key(*path) && !target.contains_key(*path));
        Ok(RestorePlan {
            write: write.map(|(path, _)| tree_path(path)).collect(),
            delete: delete.map(|path| tree_path(path)).collect(),
            spared: Vec::new(),
            absent: Vec::new(),
        })
    }

    /// Keeps the files as they are before a restore.
    fn save(&self, request: &RestoreRequest) -> Result<Checkpoint, RestoreError> {
        let mut commits = self.vault.commits();
        let commit = KnownCheckpoint {
            message: format!("safety: {}", request.target),
            timestamp: request.at,
            branch: format!("recovery/{}-{}", millis(request.at), commits.known.len()),
            parent: request.left.clone(),
            before: None,
        };
        self.keep(commit, &mut commits).map_err(RestoreError::Safety)
    }

    /// Whether the entry now at `path` is in the safety checkpoint of `request`.
    fn is_saved(&self, path: &TreePath, request: &RestoreRequest) -> bool {
        let (now, commits) = (self.tree(), self.vault.commits());
        let saved = request
            .safety
            .as_ref()
            .and_then(|safety| commits.trees.get(safety));
        saved.is_some_and(|saved| saved.get(path.as_path()) == now.get(path.as_path()))
    }

    /// Writes one file next to its path and moves it there.
    fn write(&self, path: &Path, content: &Content) -> io::Result<()> {
        let whole = self.workspace.join(path);
        let (Some(folder), Some(name)) = (whole.parent(), whole.file_name()) else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        self.disk.make_private_dirs(folder)?;
        let open = self.disk.open_folder(folder)?;
        let arriving = arriving(name);
        open.remove(&arriving)?;
        match content {
            Content::File(mode, bytes) => open.create_file(&arriving, *mode, &mut Cursor::new(bytes))?,
            Content::Link(target) => open.create_link(&arriving, target)?,
        }
        self.disk.rename(&folder.join(arriving), &whole)
    }

    fn apply(&self, plan: &RestorePlan, target: &Tree) -> Result<(), RestoreError> {
        let failed = |path: &TreePath| {
            let path = path.clone();
            move |source| RestoreError::Write { path, source }
        };
        for path in &plan.delete {
            let whole = self.workspace.join(path.as_path());
            self.disk.remove_file(&whole).map_err(failed(path))?;
        }
        for path in &plan.write {
            self.write(path.as_path(), &target[path.as_path()])
                .map_err(failed(path))?;
        }
        self.disk
            .sync_tree(&self.workspace, STATE_DIR)
            .map_err(RestoreError::Sync)
    }
}

impl Commits {
    fn tree(&self, sha: &CheckpointSha) -> Result<&Tree, HistoryError> {
        self.trees
            .get(sha)
            .ok_or_else(|| HistoryError::Unknown { sha: sha.clone() })
    }
}

impl CheckpointStore for SimCheckpoints {
    fn initial(&self, request: &InitialRequest) -> Result<Checkpoint, CheckpointError> {
        let mut commits = self.vault.commits();
        let commit = KnownCheckpoint {
            message: "initial".to_owned(),
            timestamp: request.at,
            branch: "main".to_owned(),
            parent: commits.tips.get("main").cloned(),
            before: None,
        };
        self.keep(commit, &mut commits)
    }

    fn create(&self, request: &CheckpointRequest) -> Result<Checkpoint, CheckpointError> {
        let (branch, mut commits) = (request.branch(), self.vault.commits());
        let tip = commits.tips.get(&branch);
        let parent = request.parent.as_ref().or(tip).or(commits.tips.get("main"));
        if let (Some(found), Some(expected)) = (tip, parent)
            && found != expected
        {
            return Err(CheckpointError::BranchMoved {
                expected: expected.clone(),
                found: found.clone(),
                branch,
            });
        }
        if let Some(parent) = parent {
            commits.tree(parent).map_err(CheckpointError::Parent)?;
        }
        let commit = KnownCheckpoint {
            message: format!("{}:{}", request.kind, request.codon_id),
            timestamp: request.at,
            branch,
            parent: parent.cloned(),
            before: parent.cloned(),
        };
        self.keep(commit, &mut commits)
    }

    fn create_start(&self, request: &CheckpointRequest) -> Result<Option<Checkpoint>, CheckpointError> {
        let is_same = {
            let commits = self.vault.commits();
            let parent = request.parent.as_ref().map(|parent| commits.tree(parent));
            let parent = parent.transpose().map_err(CheckpointError::Parent)?;
            parent.is_some_and(|parent| *parent == self.tree())
        };
        match is_same {
            true => Ok(None),
            false => self.create(request).map(Some),
        }
    }

    fn list(&self) -> Result<CheckpointsBySha, HistoryError> {
        Ok(self.vault.commits().known.clone())
    }

    fn contains(&self, sha: &CheckpointSha) -> Result<bool, HistoryError> {
        Ok(self.vault.contains(sha))
    }

    fn verify(&self, shas: &[CheckpointSha]) -> Result<Vec<CheckpointSha>, HistoryError> {
        let missing = shas.iter().filter(|sha| !self.vault.contains(sha));
        Ok(missing.cloned().collect())
    }

    fn files(&self, sha: &CheckpointSha) -> Result<Vec<TreePath>, HistoryError> {
        let commits = self.vault.commits();
        Ok(commits.tree(sha)?.keys().map(|path| tree_path(path)).collect())
    }

    fn diff(&self, from: &CheckpointSha, to: &CheckpointSha) -> Result<Vec<PathChange>, HistoryError> {
        let commits = self.vault.commits();
        let (from, to) = (commits.tree(from)?, commits.tree(to)?);
        let change = |path: &PathBuf, kind| PathChange {
            path: tree_path(path),
            kind,
        };
        let mut changes: Vec<PathChange> = to
            .iter()
            .filter_map(|(path, content)| match from.get(path) {
                None => Some(change(path, ChangeKind::Added)),
                Some(before) if before != content => Some(change(path, ChangeKind::Modified)),
                Some(_) => None,
            })
            .collect();
        let gone = from.keys().filter(|path| !to.contains_key(*path));
        changes.extend(gone.map(|path| change(path, ChangeKind::Deleted)));
        changes.sort_by(|one, other| one.path.cmp(&other.path));
        Ok(changes)
    }

    fn plan_restore(&self, request: &RestoreRequest) -> Result<RestorePlan, RestoreError> {
        self.plan(request).map_err(RestoreError::History)
    }

    fn protect(&self, request: &RestoreRequest) -> Result<Protection, RestoreError> {
        let plan = self.plan(request).map_err(RestoreError::History)?;
        let safety = match plan.write.is_empty() && plan.delete.is_empty() {
            true => None,
            false => Some(self.save(request)?),
        };
        Ok(Protection { plan, safety })
    }

    fn restore(&self, request: &RestoreRequest) -> Result<RestoreReport, RestoreError> {
        let plan = self.plan(request).map_err(RestoreError::History)?;
        let changed = plan.write.iter().chain(&plan.delete);
        let safety = match changed.clone().all(|path| self.is_saved(path, request)) {
            true => None,
            false => Some(self.save(request)?),
        };
        let commits = self.vault.commits();
        let target = commits.tree(&request.target).map_err(RestoreError::History)?;
        self.apply(&plan, target)?;
        Ok(RestoreReport { safety, done: plan })
    }

    fn survey(&self, _patterns: &[String]) -> Result<Vec<SurveyedFile>, CheckpointError> {
        Ok(Vec::new())
    }

    fn content(&self, _file: &SurveyedFile, _most: u64) -> Option<Vec<u8>> {
        None
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

fn arriving(name: &OsStr) -> OsString {
    let mut arriving = name.to_owned();
    arriving.push(ARRIVING);
    arriving
}

fn millis(at: Timestamp) -> i64 {
    at.as_millis()
}

fn tree_path(path: &Path) -> TreePath {
    TreePath::new(path.as_os_str().as_bytes()).expect("names on the simulated disk are plain")
}
