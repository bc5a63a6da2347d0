//! The thread as a whole (STATE-53, STATE-56).

use std::borrow::Cow;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use serde::Serialize;

use super::next::{next_codon_id, passed_over, taken_up};
use super::walk::{ThreadItem, walk};
use crate::codon::{CheckpointType, CodonExecution, CodonStatus};
use crate::document::{
    ContinuationReason, HankweaveState, KnownCheckpoints, RunRecord, RunStatus, SharedList,
    StartingConditions,
};
use crate::id::{CheckpointSha, CodonId, Pid, RunId, SessionId};
use crate::machine::Extra;
use crate::time::Timestamp;

/// One history out of many runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ExecutionThread {
    /// The codons that count, newest first.
    pub codons: Vec<ThreadCodon>,
    /// How many runs were visited, those without a codon of their own included.
    pub total_runs: usize,
    /// Whether some codon of the thread has not ended, in whatever run.
    pub has_running_codon: bool,
    /// Whether the newest codon failed, or was open when its run ended.
    ///
    /// An interrupted one has not failed. A failure after which its run continued until it was interrupted
    /// does not count.
    pub failed: bool,
    /// Next codon; `None` when everything is done, something failed or something runs. After an
    /// interruption, the codon that was open.
    pub next_codon_id: Option<CodonId>,
}

/// One codon of the thread with its place in history.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ThreadCodon {
    /// The record.
    pub codon: Arc<CodonExecution>,
    /// The run that executed it.
    pub run_id: RunId,
    /// The status of that run.
    pub run_status: RunStatus,
    /// When that run began.
    pub run_start_time: Timestamp,
    /// When that run ended.
    pub run_end_time: Option<Timestamp>,
    /// The branch of that run.
    pub git_branch: Arc<str>,
    /// The position in the thread; 0 is the newest.
    pub global_index: usize,
    /// How many continuations back the run lies; 0 is the newest run.
    pub run_index: usize,
    /// The position in the run.
    pub codon_index_in_run: usize,
    /// The checkpoints of the codon that exist in the repository.
    pub validated_checkpoints: Vec<ValidatedCheckpoint>,
    /// The session that the codon resumed.
    pub continuation_session_id: Option<SessionId>,
}

/// A checkpoint that is known to exist.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ValidatedCheckpoint {
    /// When in the life of the codon it was made.
    #[serde(rename = "type")]
    pub checkpoint_type: CheckpointType,
    /// The commit.
    pub sha: CheckpointSha,
    /// The commit message.
    pub message: String,
    /// When the commit was made.
    pub timestamp: Option<Timestamp>,
    /// A branch that holds it.
    pub branch: String,
}

impl ExecutionThread {
    /// Returns the newest record of each codon.
    #[must_use]
    pub fn newest_records(&self) -> HashMap<&CodonId, &CodonExecution> {
        let oldest_first = self.codons.iter().rev().map(|entry| entry.codon.as_ref());
        oldest_first.map(|codon| (codon.codon_id(), codon)).collect()
    }
}

/// Builds the thread that ends in `target`, or in the newest run; with a pending rollback, in the run that
/// will begin with it.
///
/// `known` are the commits that exist; without them no checkpoint counts as validated (STATE-49, STATE-56).
#[must_use]
pub fn build(
    state: &HankweaveState,
    target: Option<&RunId>,
    known: Option<&dyn KnownCheckpoints>,
) -> ExecutionThread {
    let ahead = match target {
        None => looking_ahead(state),
        Some(_) => Cow::Borrowed(state),
    };
    let state = ahead.as_ref();
    let mut walk = walk(state, target);
    let mut branch = Branch::default();
    let codons = walk
        .by_ref()
        .map(|walked| thread_codon(walked, &mut branch, known));
    let codons: Vec<ThreadCodon> = codons.collect();
    let start = match target {
        Some(id) => state.run(id),
        None => state.runs.front().map(Arc::as_ref),
    };
    let continues =
        |start: &RunRecord| taken_up(start).is_some() || passed_over(state, start, &codons).is_some();
    let mut thread = ExecutionThread {
        total_runs: walk.runs_visited() - usize::from(matches!(ahead, Cow::Owned(_))),
        has_running_codon: codons.iter().any(|entry| !entry.codon.is_terminal()),
        failed: codons.first().is_some_and(is_failed) && !start.is_some_and(continues),
        next_codon_id: None,
        codons,
    };
    thread.next_codon_id = start.and_then(|start| next_codon_id(state, start, &thread));
    thread
}

/// The document as it will be when the next run begins with the pending rollback.
fn looking_ahead(state: &HankweaveState) -> Cow<'_, HankweaveState> {
    let (Some(pending), Ok(run_id)) = (&state.pending_rollback, RunId::new("the-next-run")) else {
        return Cow::Borrowed(state);
    };
    let mut ahead = state.clone();
    ahead.runs.push_front(Arc::new(RunRecord {
        git_branch: format!("run-{run_id}"),
        run_id,
        run_folder: PathBuf::new(),
        starting_conditions: StartingConditions::continuation(
            pending.source.clone(),
            Some(ContinuationReason::Rollback),
        ),
        codons: SharedList::new(),
        status: RunStatus::Running,
        start_time: Timestamp::UNIX_EPOCH,
        end_time: None,
        server_pid: Pid(0),
        interrupted_by: None,
        extra: Extra::default(),
    }));
    Cow::Owned(ahead)
}

/// A codon that failed, or that was still open when its run ended badly.
fn is_failed(entry: &ThreadCodon) -> bool {
    let run_broke = matches!(entry.run_status, RunStatus::Failed | RunStatus::Crashed);
    let failed = entry.codon.status() == CodonStatus::Failed && entry.codon.interruption().is_none();
    failed || (!entry.codon.is_terminal() && run_broke)
}

/// The branch of the run that is walked through, once for all its codons.
#[derive(Default)]
struct Branch<'a>(Option<(&'a RunId, Arc<str>)>);

impl<'a> Branch<'a> {
    fn of(&mut self, run: &'a RunRecord) -> Arc<str> {
        match &self.0 {
            Some((id, branch)) if **id == run.run_id => Arc::clone(branch),
            _ => {
                let branch: Arc<str> = run.git_branch.as_str().into();
                self.0 = Some((&run.run_id, Arc::clone(&branch)));
                branch
            }
        }
    }
}

fn thread_codon<'a>(
    walked: ThreadItem<'a>,
    branch: &mut Branch<'a>,
    known: Option<&dyn KnownCheckpoints>,
) -> ThreadCodon {
    let ThreadItem { codon, run, .. } = walked;
    ThreadCodon {
        codon: Arc::clone(codon),
        run_id: run.run_id.clone(),
        run_status: run.status,
        run_start_time: run.start_time,
        run_end_time: run.end_time,
        git_branch: branch.of(run),
        global_index: walked.global_index,
        run_index: walked.run_index,
        codon_index_in_run: walked.codon_index_in_run,
        validated_checkpoints: known.map(|known| validated(codon, known)).unwrap_or_default(),
        continuation_session_id: codon.previous_session_id().cloned(),
    }
}

fn validated(codon: &CodonExecution, known: &dyn KnownCheckpoints) -> Vec<ValidatedCheckpoint> {
    let exists = |(checkpoint_type, sha): (CheckpointType, &CheckpointSha)| {
        let facts = known.find(sha)?;
        Some(ValidatedCheckpoint {
            checkpoint_type,
            sha: sha.clone(),
            message: facts.message,
            timestamp: facts.timestamp,
            branch: facts.branch,
        })
    };
    codon.checkpoints().filter_map(exists).collect()
}
