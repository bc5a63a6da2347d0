//! Answers questions about the newest codons of the thread. It reads no more of the history than a question needs, so a long run decides as fast as a short
//! one.

use std::borrow::Cow;
use std::path::PathBuf;
use std::sync::Arc;

use super::next::{codon_to_resume, next_codon_id, policy_of_passed_failure};
use super::walk::{ThreadCodons, ThreadItem, walk};
use crate::agent::InterruptedBy;
use crate::codon::{CodonExecution, CodonStatus};
use crate::document::{
    ContinuationReason, HankweaveState, RunRecord, RunStatus, SharedList, StartingConditions,
};
use crate::id::{CodonId, Pid, RunId, SessionId};
use crate::machine::Extra;
use crate::time::Timestamp;

/// Newest end of a thread. It reads older codons only when a question needs them.
///
/// [`ExecutionThread`](super::ExecutionThread) has all codons at once, for readers that show them.
#[derive(Debug, Clone)]
pub struct ThreadTip<'a> {
    /// The document; with a pending rollback a copy, as it will be when the next run starts.
    pub(super) state: Cow<'a, HankweaveState>,
    /// The run that the thread ends in; `None` for the newest one.
    target: Option<&'a RunId>,
}

impl<'a> ThreadTip<'a> {
    /// The thread that ends in the newest run; with a pending rollback, in the run that will start with it.
    #[must_use]
    pub fn of(state: &'a HankweaveState) -> Self {
        Self {
            state: looking_ahead(state),
            target: None,
        }
    }

    /// The thread that ends in this run.
    #[must_use]
    pub fn ending_in(state: &'a HankweaveState, target: &'a RunId) -> Self {
        Self {
            state: Cow::Borrowed(state),
            target: Some(target),
        }
    }
}

impl ThreadTip<'_> {
    /// The document; with a pending rollback, as it will be when the next run starts with it.
    pub(crate) fn state(&self) -> &HankweaveState {
        &self.state
    }

    /// The codons, newest first.
    #[must_use]
    pub fn codons(&self) -> ThreadCodons<'_> {
        walk(&self.state, self.target)
    }

    /// The newest codon.
    #[must_use]
    pub fn newest(&self) -> Option<ThreadItem<'_>> {
        self.codons().next()
    }

    /// Returns whether some codon has not ended, in any run.
    #[must_use]
    pub fn has_running_codon(&self) -> bool {
        let is_open = |walked: ThreadItem<'_>| !walked.codon.is_terminal();
        // In the newest run only the last codon can be open, so its others are skipped.
        let mut older = self.codons();
        older.skip_run();
        self.newest().is_some_and(is_open) || older.any(is_open)
    }

    /// Whether the newest codon failed, or was open when its run failed or crashed; see
    /// [`ExecutionThread::failed`](super::ExecutionThread::failed).
    #[must_use]
    pub fn failed(&self) -> bool {
        let continues = self.last_run().is_some_and(|run| {
            codon_to_resume(run).is_some() || policy_of_passed_failure(self, run).is_some()
        });
        self.newest().is_some_and(|newest| is_failed(&newest)) && !continues
    }

    /// Next codon; see [`ExecutionThread::next_codon_id`](super::ExecutionThread::next_codon_id).
    #[must_use]
    pub fn next_codon_id(&self) -> Option<CodonId> {
        next_codon_id(self, self.last_run()?)
    }

    /// Returns the cause of the newest codon's interruption, if it was interrupted.
    #[must_use]
    pub fn interruption(&self) -> Option<InterruptedBy> {
        self.newest()?.codon.interruption()
    }

    /// The session in which the newest codon can continue: it was interrupted, or cut off by a crash, after
    /// its agent had named one.
    #[must_use]
    pub fn own_session(&self) -> Option<&SessionId> {
        self.newest()?.own_session()
    }

    /// The run that the thread ends in.
    fn last_run(&self) -> Option<&RunRecord> {
        match self.target {
            Some(id) => self.state.run(id),
            None => self.state.runs.front().map(Arc::as_ref),
        }
    }

    /// Returns the number of runs of the document among the `visited` ones: with a pending rollback the newest is only made up.
    pub(super) fn total_runs(&self, visited: usize) -> usize {
        visited - usize::from(matches!(self.state, Cow::Owned(_)))
    }
}

/// Returns the document as it will be when the next run starts with the pending rollback, by adding such a run; without a rollback the document as it is.
fn looking_ahead(state: &HankweaveState) -> Cow<'_, HankweaveState> {
    let (Some(pending), Ok(run_id)) = (&state.pending_rollback, RunId::new("the-next-run")) else {
        return Cow::Borrowed(state);
    };
    let mut ahead = state.clone();
    if let Some(plan) = state.left_plan_at(&pending.source) {
        ahead.execution_plan = plan.clone();
    }
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
        cause: None,
        left_plan: None,
        extra: Extra::default(),
    }));
    Cow::Owned(ahead)
}

/// Whether a codon failed, or was still open when its run failed or crashed.
fn is_failed(entry: &ThreadItem<'_>) -> bool {
    let run_failed = matches!(entry.run.status, RunStatus::Failed | RunStatus::Crashed);
    let failed = entry.codon.status() == CodonStatus::Failed && entry.codon.interruption().is_none();
    failed || (!entry.codon.is_terminal() && run_failed)
}

impl<'a> ThreadItem<'a> {
    /// The session in which this codon can continue, if it is the newest one.
    pub(super) fn own_session(&self) -> Option<&'a SessionId> {
        own_session(self.codon, self.was_cut_off())
    }

    /// Whether the codon was open when its run crashed: its end is the time at which that was noticed.
    #[must_use]
    pub fn was_cut_off(&self) -> bool {
        was_cut_off(self.codon, self.run.status, self.run.end_time)
    }
}

/// Whether the codon was open when its run crashed; `status` and `run_end` are those of the run.
pub(super) fn was_cut_off(codon: &CodonExecution, status: RunStatus, run_end: Option<Timestamp>) -> bool {
    status == RunStatus::Crashed && run_end.is_some() && codon.end_time() == run_end.as_ref()
}

/// Returns the session in which a codon can continue: the codon was interrupted, other than by the loss of the session, or cut off by a crash.
pub(super) fn own_session(codon: &CodonExecution, was_cut_off: bool) -> Option<&SessionId> {
    let is_lost = codon.interruption() == Some(InterruptedBy::LostSession);
    let continues = codon.interruption().is_some() || was_cut_off;
    codon.agent_session_id().filter(|_| continues && !is_lost)
}
