//! Push of a run: its record and checkpoints (RUN-28, TASK-62). The order: lock; read the local record; commit it if it has
//! anything new; compare it with the remote's; exchange the remote's reference. A pull uses the first steps as well.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use hankweave_core::document::{HankweaveState, RunRecord};
use hankweave_core::id::{CheckpointSha, SessionId};
use hankweave_core::time::Timestamp;
use hankweave_runtime::ExecutionDir;
use hankweave_runtime::arrival;
use hankweave_runtime::checkpoint::{GitHistory, write_settings};
use hankweave_runtime::error::chain;
use hankweave_runtime::world::World;

use crate::book::{self, RemoteTracking, remembered};
use crate::error::RemoteError;
use crate::execution::RemoteExecution;
use crate::fetch::{fetch, head};
use crate::git::{Git, GitOutput};
use crate::limits::ArrivalLimits;
use crate::manifest::{FORMAT, RecordManifest, is_sha};
use crate::record::{self, PreviousRecord, RecordDraft};
use crate::snapshot::{self, RecordSnapshot};
use crate::url::check_url;

/// Number of times that another machine may push between our comparison and our exchange before a push fails.
const MOST_RACES: usize = 5;

/// Source and target of a push.
#[derive(Debug, Clone, Default)]
pub struct PushRequest {
    /// Remote to use in place of the remembered one, and to remember from now on.
    pub url: Option<String>,
    /// Name of the history on the remote; `None` for the remembered one, or one after the first run.
    pub execution: Option<RemoteExecution>,
    /// Fencing token of the task, 0 for none. A record that was pushed under a greater token is not replaced.
    pub token: u64,
    /// Whether our record replaces the remote's when both sides continued. The replaced record stays reachable.
    pub replace: bool,
}

/// Outcome of a push.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PushOutcome {
    /// The push sent the record.
    Pushed,
    /// The remote already had the record.
    UpToDate,
}

/// Run that is on its remote.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Pushed {
    /// Outcome.
    pub outcome: PushOutcome,
    /// The remote.
    pub url: String,
    /// Name of the history on the remote.
    pub execution: RemoteExecution,
    /// Commit of the record.
    pub record: String,
    /// Checkpoint that another machine starts with.
    pub checkpoint: Option<CheckpointSha>,
    /// Reference under which a replaced record stays reachable.
    pub kept: Option<String>,
    /// Sessions of agents that are not in the record.
    pub left_behind: Vec<SessionId>,
    /// History of runs in the record.
    pub history: HankweaveState,
}

/// Pushes the history of a directory. During a live run this is the history that a crash at this moment would leave.
///
/// # Errors
///
/// [`RemoteError`]. When both sides continued, or a later owner has pushed, our record is first pushed under `kept/`.
pub async fn push(world: &World, dir: &ExecutionDir, request: &PushRequest) -> Result<Pushed, RemoteError> {
    let (own, place) = (world.clone(), dir.clone());
    let locked = move || {
        let lock = book::lock(&*own.disk, &place)?;
        finish_pull(&own, &place)?;
        Ok::<_, RemoteError>(lock)
    };
    let _lock = world.blocking.run(locked).await?;
    let local = LocalSide::read_local(world, dir, request).await?;
    let written = local.write().await?;
    local.offer(&written, request).await
}

/// Finishes a pull that was killed after it announced its record: a mixture of two records must not be pushed. If a run is
/// live, it has finished the pull at its start, unless it is just starting: then this fails.
fn finish_pull(world: &World, dir: &ExecutionDir) -> Result<(), RemoteError> {
    if !arrival::is_announced(&*world.disk, dir) {
        return Ok(());
    }
    let _lock = book::keep_runs_out(&*world.disk, dir)?;
    Ok(arrival::finish(world, dir).map(drop)?)
}

/// Local side of a push or a pull, under the lock.
#[derive(Debug)]
pub(crate) struct LocalSide<'w> {
    world: &'w World,
    dir: &'w ExecutionDir,
    pub(crate) git: Git,
    pub(crate) tracking: RemoteTracking,
    /// The local record as it is now.
    pub(crate) draft: RecordDraft,
    /// The record that this machine pushed last or started with.
    pub(crate) base: Option<PreviousRecord>,
    history: HankweaveState,
}

/// Local record as a commit.
#[derive(Debug)]
pub(crate) struct WrittenRecord {
    pub(crate) commit: String,
    /// Whether nothing is new, so that `commit` is that of [`LocalSide::base`].
    pub(crate) is_base: bool,
}

impl<'w> LocalSide<'w> {
    /// Reads the local record and the one pushed last.
    pub(crate) async fn read_local(
        world: &'w World,
        dir: &'w ExecutionDir,
        request: &PushRequest,
    ) -> Result<Self, RemoteError> {
        let (own, place) = (world.clone(), dir.clone());
        let read = move || {
            let tracking = remembered(&*own.disk, &place)?;
            let snapshot = snapshot::take(&own, &place)?;
            reset_settings(&place.checkpoints())?;
            Ok::<_, RemoteError>((tracking, snapshot))
        };
        let (tracking, snapshot) = world.blocking.run(read).await?;
        let tracking = tracking_for(request, tracking, &snapshot.state)?;
        check_url(&tracking.url)?;
        let git = Git::new(world, &dir.checkpoints())?.without_questions().await?;
        let base = match &tracking.head {
            Some(head) => PreviousRecord::read(&git, head).await?,
            None => None,
        };
        let branches = branches(&git).await?;
        let number = base.as_ref().map_or(0, |base| base.manifest.number + 1);
        let manifest = manifest(&tracking.execution, &snapshot, branches, (request.token, number));
        let draft =
            RecordDraft::new(world, manifest, snapshot.contents, newest_time(&snapshot.state)).await?;
        Ok(Self {
            world,
            dir,
            git,
            tracking,
            draft,
            base,
            history: snapshot.state,
        })
    }

    /// Commits the record if it has anything new, or a greater fencing token.
    pub(crate) async fn write(&self) -> Result<WrittenRecord, RemoteError> {
        let has_greater_token = |base: &PreviousRecord| base.manifest.token < self.draft.manifest.token;
        if let Some(base) = self
            .base
            .as_ref()
            .filter(|base| self.draft.has_same_contents_as(base) && !has_greater_token(base))
        {
            return Ok(WrittenRecord {
                commit: base.commit.clone(),
                is_base: true,
            });
        }
        let base_tips = self
            .base
            .as_ref()
            .map(|base| base.manifest.branches.values().collect::<Vec<_>>());
        let base_tips = base_tips.unwrap_or_default();
        let new_tips = self
            .draft
            .manifest
            .branches
            .values()
            .filter(|tip| !base_tips.contains(tip));
        let mut parents: Vec<String> = self.base.iter().map(|base| base.commit.clone()).collect();
        parents.extend(new_tips.cloned());
        let before = self.base.as_ref().map(|base| base.commit.clone());
        let commit = self.draft.write(self.world, self.checkpoints(), before, parents);
        let commit = commit.await?;
        Ok(WrittenRecord {
            commit,
            is_base: false,
        })
    }

    /// Pushes the record, if the remote's state permits it.
    async fn offer(&self, ours: &WrittenRecord, request: &PushRequest) -> Result<Pushed, RemoteError> {
        let mut said = String::new();
        for _ in 0..MOST_RACES {
            let remote_head = head(&self.git, &self.tracking.url, &self.tracking.execution).await?;
            let (remote_head, replaces) = match remote_head {
                Some(remote_head) if remote_head == ours.commit => {
                    let outcome = if ours.is_base {
                        PushOutcome::UpToDate
                    } else {
                        PushOutcome::Pushed
                    };
                    return self.done(ours, outcome, None).await;
                }
                Some(remote_head) => {
                    let compared = self.compare_remote(&remote_head, ours, request).await?;
                    (Some(compared.record), compared.replaces)
                }
                None => (None, false),
            };
            let kept = remote_head
                .as_ref()
                .filter(|_| replaces)
                .map(|remote_head| self.tracking.execution.kept(remote_head));
            let pushed = self
                .exchange(remote_head.as_deref(), ours, kept.as_deref())
                .await?;
            if pushed.exit.is_success() {
                return self.done(ours, PushOutcome::Pushed, kept).await;
            }
            said = pushed.said;
            // Another machine was faster, the answer was lost, or pushing does not work at all: then the remote's record is unchanged.
            let head_now = head(&self.git, &self.tracking.url, &self.tracking.execution).await?;
            if head_now == remote_head {
                break;
            }
        }
        let action = "push the run";
        Err(RemoteError::Git { action, said })
    }

    /// Moves the record's reference on the remote from the commit `remote_head` to ours, if it still names that commit. The
    /// same step creates the reference `kept`, for a replaced record.
    async fn exchange(
        &self,
        remote_head: Option<&str>,
        ours: &WrittenRecord,
        kept: Option<&str>,
    ) -> Result<GitOutput, RemoteError> {
        let (url, record) = (&self.tracking.url, self.tracking.execution.record());
        // An empty name in the lease means that the reference must not exist yet.
        let lease = format!("--force-with-lease={record}:{}", remote_head.unwrap_or_default());
        let mut arguments = vec!["push", "--quiet", "--no-verify", &lease];
        let move_to = format!("{}:{record}", ours.commit);
        let keep = kept
            .zip(remote_head)
            .map(|(kept, remote_head)| format!("{remote_head}:{kept}"));
        if keep.is_some() {
            arguments.push("--atomic");
        }
        arguments.extend(["--", url, &move_to]);
        arguments.extend(keep.as_deref());
        let pushed = self.git.ask("push the run", &arguments).await?;
        Ok(pushed.without_secret(url))
    }

    /// Returns the remote's record if ours may follow or replace it. Otherwise fails, after pushing our record under `kept/`
    /// unless it is only behind the remote's.
    async fn compare_remote(
        &self,
        remote_head: &str,
        ours: &WrittenRecord,
        request: &PushRequest,
    ) -> Result<RemoteRecord, RemoteError> {
        let (record, theirs) = match self.base.as_ref().filter(|base| base.commit == *remote_head) {
            Some(base) => (remote_head.to_owned(), base.manifest.clone()),
            None => {
                let limits = ArrivalLimits::of(self.world)?;
                let record = fetch(&self.git, &self.tracking.url, &self.tracking.execution, &limits).await?;
                let theirs = record::manifest(&self.git, &record).await?;
                (record, theirs)
            }
        };
        if theirs.token > request.token {
            return Err(RemoteError::Superseded {
                ours: request.token,
                theirs: theirs.token,
                kept: self.keep(ours).await,
            });
        }
        if self.is_ancestor(&record, &ours.commit).await? {
            let replaces = false;
            return Ok(RemoteRecord { record, replaces });
        }
        if theirs.token < request.token || request.replace {
            let replaces = true;
            return Ok(RemoteRecord { record, replaces });
        }
        if ours.is_base && self.is_ancestor(&ours.commit, &record).await? {
            return Err(RemoteError::Behind { theirs: record });
        }
        Err(RemoteError::Diverged {
            ours: ours.commit.clone(),
            theirs: record,
            kept: self.keep(ours).await,
        })
    }

    /// Returns the local checkpoint repository.
    pub(crate) fn checkpoints(&self) -> PathBuf {
        self.dir.checkpoints()
    }

    /// Whether the commit `old` is `new` or an ancestor of it.
    pub(crate) async fn is_ancestor(&self, old: &str, new: &str) -> Result<bool, RemoteError> {
        let arguments = ["merge-base", "--is-ancestor", old, new];
        Ok(self
            .git
            .ask("compare records", &arguments)
            .await?
            .exit
            .is_success())
    }

    /// Pushes our record under `kept/` and returns its reference; `None` if the push failed. The local record stays in any case.
    pub(crate) async fn keep(&self, ours: &WrittenRecord) -> Option<String> {
        let (url, kept) = (&self.tracking.url, self.tracking.execution.kept(&ours.commit));
        let pair = format!("{}:{kept}", ours.commit);
        let arguments = ["push", "--quiet", "--no-verify", "--", url, &pair];
        let pushed = self.git.run("keep what was done here", &arguments).await;
        if let Err(error) = &pushed {
            tracing::warn!(%error, record = ours.commit, "what was done here is only on this machine");
        }
        pushed.is_ok().then_some(kept)
    }

    /// Remembers the pushed record, and returns the result of the push.
    async fn done(
        &self,
        ours: &WrittenRecord,
        outcome: PushOutcome,
        kept: Option<String>,
    ) -> Result<Pushed, RemoteError> {
        let tracking = RemoteTracking {
            head: Some(ours.commit.clone()),
            ..self.tracking.clone()
        };
        let (disk, dir, note) = (self.world.disk.clone(), self.dir.clone(), tracking.clone());
        self.world.blocking.run(move || note.write(&*disk, &dir)).await?;
        Ok(Pushed {
            outcome,
            url: tracking.url,
            execution: tracking.execution,
            record: ours.commit.clone(),
            checkpoint: self.draft.manifest.checkpoint.clone(),
            kept,
            left_behind: self.draft.manifest.left_behind.clone(),
            history: self.history.clone(),
        })
    }
}

/// Makes sure that git finds only our settings in this repository. A folder that was copied from elsewhere may have settings
/// that name programs and other addresses (CLI-62). Blocks.
fn reset_settings(repository: &Path) -> Result<(), RemoteError> {
    match GitHistory::open(repository) {
        Ok(Some(_)) => Ok(write_settings(repository)?),
        Ok(None) => Ok(()),
        Err(error) => Err(RemoteError::Unreadable { why: chain(&error) }),
    }
}

/// The remote's record, which ours may follow or replace.
struct RemoteRecord {
    record: String,
    /// Whether ours replaces it, because it is no ancestor of ours.
    replaces: bool,
}

/// Returns the remote and the name of the history for a push, and the previous record if the name is unchanged.
fn tracking_for(
    request: &PushRequest,
    known: Option<RemoteTracking>,
    state: &HankweaveState,
) -> Result<RemoteTracking, RemoteError> {
    let arrived = known.as_ref().is_some_and(|tracking| tracking.arrived);
    let arrived_at = known.as_ref().and_then(|tracking| tracking.arrived_at);
    let (known_url, known_name, head) = match known {
        Some(tracking) => (Some(tracking.url), Some(tracking.execution), tracking.head),
        None => (None, None, None),
    };
    let first = state.runs.back().map(|run| RemoteExecution::of_run(&run.run_id));
    let execution = request.execution.clone().or(known_name.clone()).or(first);
    let execution = execution.ok_or(RemoteError::NothingRecorded)?;
    Ok(RemoteTracking {
        url: request.url.clone().or(known_url).ok_or(RemoteError::NoRemote)?,
        // Also for another remote: it has the previous record already, or gets that with the push.
        head: head.filter(|_| known_name.as_ref() == Some(&execution)),
        execution,
        arrived,
        arrived_at,
    })
}

/// Returns the branches of the checkpoints, by name.
async fn branches(git: &Git) -> Result<BTreeMap<String, String>, RemoteError> {
    let arguments = [
        "for-each-ref",
        "--format=%(objectname) %(refname:lstrip=2)",
        "refs/heads",
    ];
    let listed = git.run("list the checkpoints", &arguments).await?;
    let lines = listed.lines().filter_map(|line| line.split_once(' '));
    Ok(lines
        .map(|(tip, name)| (name.to_owned(), tip.to_owned()))
        .collect())
}

fn manifest(
    execution: &RemoteExecution,
    snapshot: &RecordSnapshot,
    branches: BTreeMap<String, String>,
    (token, number): (u64, u64),
) -> RecordManifest {
    let files = snapshot.contents.iter();
    RecordManifest {
        format: FORMAT,
        execution: execution.clone(),
        token,
        number,
        last_event: snapshot.last_event,
        hank: snapshot.hank.clone(),
        meta: snapshot.meta.clone(),
        checkpoint: current_checkpoint(&snapshot.state, &branches),
        branches,
        files: files
            .map(|content| (content.path.clone(), content.length()))
            .collect(),
        sessions: snapshot.sessions.taken.clone(),
        left_behind: snapshot.sessions.left_behind.clone(),
    }
}

/// Returns the end time of the newest run, or its start time while it runs.
fn newest_time(state: &HankweaveState) -> Timestamp {
    let newest = state
        .runs
        .front()
        .map(|run| run.end_time.unwrap_or(run.start_time));
    // A history without runs is never pushed, so there is a newest run.
    newest.unwrap_or(Timestamp::from_millis(0))
}

/// Returns the checkpoint with the files that the next run finds. That is the tip of the newest run's branch, else the
/// checkpoint with which that run started, else those of an older run, else the initial checkpoint.
pub(crate) fn current_checkpoint(
    state: &HankweaveState,
    branches: &BTreeMap<String, String>,
) -> Option<CheckpointSha> {
    let of_run = |run: &RunRecord| {
        let tip = branches
            .get(&run.git_branch)
            .map(|tip| CheckpointSha::new(tip.as_str()));
        let source = || {
            run.starting_conditions
                .source()
                .map(|source| source.checkpoint_sha.clone())
        };
        tip.or_else(source).filter(|sha| is_sha(sha.as_str()))
    };
    let newest = state.runs.iter().find_map(|run| of_run(run));
    newest.or_else(|| state.initial_checkpoint.clone())
}
