//! The whole thread as data, for readers that show it (STATE-53, STATE-56).

use std::collections::HashMap;
use std::sync::Arc;

use serde::Serialize;

use super::tip::ThreadTip;
use super::walk::ThreadItem;
use crate::codon::{CheckpointType, CodonExecution};
use crate::document::{HankweaveState, KnownCheckpoints, RunRecord, RunStatus};
use crate::id::{CheckpointSha, CodonId, RunId, SessionId};
use crate::time::Timestamp;

/// One history out of many runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ExecutionThread {
    /// The codons that count, newest first.
    pub codons: Vec<ThreadCodon>,
    /// Number of runs in the thread, those without a codon of their own included.
    pub total_runs: usize,
    /// Whether some codon of the thread has not ended, in any of its runs.
    pub has_running_codon: bool,
    /// Whether the newest codon failed, or was open when its run failed or crashed, so that no codon is next.
    ///
    /// An interrupted codon has not failed. Two failures do not count: one whose policy is to retry or to ignore, if the run was interrupted before it did so,
    /// and one whose codon the newest run was opened to resume in its session.
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
    /// Start of that run.
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
#[non_exhaustive]
pub struct ValidatedCheckpoint {
    /// When in the life of the codon it was made.
    #[serde(rename = "type")]
    pub checkpoint_type: CheckpointType,
    /// The commit.
    pub sha: CheckpointSha,
    /// The commit message.
    pub message: String,
    /// When the commit was made, where known.
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
    let tip = match target {
        None => ThreadTip::of(state),
        Some(target) => ThreadTip::ending_in(state, target),
    };
    let mut walk = tip.codons();
    let mut branch = Branch::default();
    let codons = walk
        .by_ref()
        .map(|walked| thread_codon(walked, &mut branch, known));
    ExecutionThread {
        codons: codons.collect(),
        total_runs: tip.total_runs(walk.runs_visited()),
        has_running_codon: tip.has_running_codon(),
        failed: tip.failed(),
        next_codon_id: tip.next_codon_id(),
    }
}

/// The branch of the run that the walk is in, shared by all codons of the run.
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

/// Returns the checkpoints of a codon that exist.
fn validated(codon: &CodonExecution, known: &dyn KnownCheckpoints) -> Vec<ValidatedCheckpoint> {
    let with_facts = |(checkpoint_type, sha): (CheckpointType, &CheckpointSha)| {
        let facts = known.find(sha)?;
        Some(ValidatedCheckpoint {
            checkpoint_type,
            sha: sha.clone(),
            message: facts.message,
            timestamp: facts.timestamp,
            branch: facts.branch,
        })
    };
    codon.checkpoints().filter_map(with_facts).collect()
}
