//! The ways in which a new run can continue a thread, and the positions for each (STATE-57, STATE-60, RUN-3). `plan::resume` chooses among them.

use std::sync::Arc;

use super::tip::{own_session, was_cut_off};
use super::{ExecutionThread, ThreadCodon, ValidatedCheckpoint};
use crate::agent::InterruptedBy;
use crate::codon::{CheckpointType, CodonExecution, CodonPhase, CodonStatus};
use crate::document::{ContinuationReason, ContinuationSource, HankweaveState, RunRecord};
use crate::id::{CheckpointSha, SessionId};

/// Start of a new run.
#[derive(Debug, Clone, PartialEq)]
pub enum Resume {
    /// From nothing; there is no history to continue.
    Fresh,
    /// After the newest codon, with the files as they are.
    Continue(ContinuationSource),
    /// Before the newest codon, which runs again with the files as they are.
    Again(ContinuationSource),
    /// In the newest codon, with the files as they are: its agent continues in its session.
    Session(ContinuationSource, SessionId),
    /// At an earlier point: its checkpoint is restored first.
    RollBack(ContinuationSource),
}

impl Resume {
    /// The reason that the new run records.
    #[must_use]
    pub fn reason(&self) -> Option<ContinuationReason> {
        match self {
            Self::Fresh => None,
            Self::Continue(_) | Self::Session(..) => Some(ContinuationReason::Continue),
            Self::Again(_) => Some(ContinuationReason::Retry),
            Self::RollBack(_) => Some(ContinuationReason::Rollback),
        }
    }
}

/// Position from which a run continues after a failure, a crash or an interruption.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recovery {
    /// Point of the interruption: the files stay, and the agent resumes its session. Without a session as [`CrashPoint`](Self::CrashPoint).
    Session,
    /// At the last success: its files are restored, and the current ones are kept in a checkpoint.
    LastSuccess,
    /// Point of the stop: the files stay, and the codon starts again.
    CrashPoint,
}

impl ExecutionThread {
    /// Returns the cause of the newest codon's interruption, if it was interrupted.
    #[must_use]
    pub fn interruption(&self) -> Option<InterruptedBy> {
        self.codons.first()?.codon.interruption()
    }

    /// Whether the newest codon was interrupted, or cut off by a crash, and so has not failed by itself.
    #[must_use]
    pub fn is_unfinished(&self) -> bool {
        let newest = self.codons.first();
        newest.is_some_and(|entry| entry.codon.interruption().is_some() || entry.was_cut_off())
    }

    /// The session in which the newest codon can continue: it was interrupted, or cut off by a crash, after
    /// its agent had named one.
    #[must_use]
    pub fn own_session(&self) -> Option<&SessionId> {
        let newest = self.codons.first()?;
        own_session(&newest.codon, newest.was_cut_off())
    }

    /// Returns the default position of a continued run: after a pause the session, after a failed set-up the point of the stop, else the last success, so that
    /// nothing half done is left.
    #[must_use]
    pub fn default_recovery(&self) -> Recovery {
        match self.interruption() {
            Some(by) if by.is_pause() => Recovery::Session,
            None if self.failed_in_set_up() => Recovery::CrashPoint,
            Some(_) | None => Recovery::LastSuccess,
        }
    }

    /// Returns whether the rig of the newest codon failed: no agent has left anything half done, and the user's repairs since then are to stay.
    fn failed_in_set_up(&self) -> bool {
        let newest = self.codons.first();
        newest.is_some_and(|entry| match &*entry.codon {
            CodonExecution::Failed(failed) => {
                failed.failed_during == CodonPhase::Preparing && !entry.was_cut_off()
            }
            _ => false,
        })
    }

    /// The point in the newest codon at which its agent continues in its session, with the files as they are;
    /// `None` without such a session.
    #[must_use]
    pub fn in_session(&self) -> Option<Resume> {
        let newest = self.codons.first()?;
        let session = self.own_session()?.clone();
        Some(Resume::Session(end_of(newest), session))
    }

    /// Returns how the run after this thread starts.
    ///
    /// The thread must have been built with the commits that exist. `blocked` means that the newest codon failed and that its policy does not ignore
    /// that.
    #[must_use]
    pub fn resume(&self, blocked: bool) -> Resume {
        match self.codons.first() {
            None => Resume::Fresh,
            Some(newest) if !blocked => Resume::Continue(end_of(newest)),
            // The last success must not be the codon that blocks: a run that continues after this codon would be blocked again, for ever.
            Some(newest) => self
                .last_success()
                .filter(|source| !is_end_of(newest, source))
                .map_or(Resume::Fresh, Resume::RollBack),
        }
    }

    /// The point before the newest codon, with the files as they are: a run from there runs that codon again.
    /// `None` when no codon has run yet.
    #[must_use]
    pub fn again(&self) -> Option<ContinuationSource> {
        let newest = self.codons.first()?;
        let is_other = |entry: &&ThreadCodon| entry.codon.codon_id() != newest.codon.codon_id();
        let as_they_are = CheckpointSha::new("");
        Some(match self.codons.iter().find(is_other) {
            Some(before) => source(before, as_they_are),
            None => ContinuationSource::beginning_of(&newest.run_id),
        })
    }

    /// Like [`again`](Self::again), for a thread that has no codon before the newest one, because its run was opened for a codon that the user chose: the point
    /// after the codon that the plan has before the newest one, in the newest run in which that codon ended.
    ///
    /// `None` for any other thread, and if the codon before never ended.
    #[must_use]
    pub fn across_the_cut(&self, state: &HankweaveState) -> Option<ContinuationSource> {
        let newest = self.codons.first()?.codon.codon_id();
        if self.again()?.after_codon.is_some() {
            return None;
        }
        // A fresh run starts at the beginning: older runs belong to another history.
        let run = state.run(&self.codons.first()?.run_id)?;
        run.starting_conditions.source()?;
        let plan = &state.execution_plan;
        let before = &plan.get(state.planned_at(newest)?.checked_sub(1)?)?.codon_id;
        let has_ended = |run: &&Arc<RunRecord>| {
            let mut codons = run.codons.iter();
            codons.any(|codon| codon.codon_id() == before && codon.is_terminal())
        };
        let run = state.runs.iter().find(has_ended)?;
        Some(ContinuationSource {
            after_codon: Some(before.clone()),
            ..ContinuationSource::beginning_of(&run.run_id)
        })
    }

    /// The point of the last success: after the newest completed codon. `None` when no checkpoint of the thread exists any more.
    ///
    /// If the checkpoint of that codon no longer exists, the newest codon with any existing checkpoint counts. The first existing one of these is taken:
    /// completion, error, skip, rig set-up. For a failed codon the rig set-up comes first.
    #[must_use]
    pub fn last_success(&self) -> Option<ContinuationSource> {
        let mut codons = self.codons.iter();
        let completed = codons.find(|entry| entry.codon.status() == CodonStatus::Completed);
        let confirmed =
            completed.and_then(|entry| Some((entry, entry.checkpoint(CheckpointType::Completed)?)));
        let with_checkpoint = |entry| Some((entry, ThreadCodon::best_checkpoint(entry)?));
        let (entry, checkpoint) = confirmed.or_else(|| self.codons.iter().find_map(with_checkpoint))?;
        Some(source(entry, checkpoint.sha.clone()))
    }
}

impl ThreadCodon {
    /// Whether the codon was open when its run crashed: its end is the time at which that was noticed.
    #[must_use]
    pub fn was_cut_off(&self) -> bool {
        was_cut_off(&self.codon, self.run_status, self.run_end_time)
    }

    /// The confirmed checkpoint of this type.
    #[must_use]
    pub fn checkpoint(&self, checkpoint_type: CheckpointType) -> Option<&ValidatedCheckpoint> {
        let mut checkpoints = self.validated_checkpoints.iter();
        checkpoints.find(|checkpoint| checkpoint.checkpoint_type == checkpoint_type)
    }

    fn best_checkpoint(&self) -> Option<&ValidatedCheckpoint> {
        use CheckpointType::{Completed, Error, RigSetup, Skipped};
        let order = match self.codon.status() {
            CodonStatus::Failed => [RigSetup, Completed, Error, Skipped],
            _ => [Completed, Error, Skipped, RigSetup],
        };
        let mut order = order.into_iter();
        order.find_map(|checkpoint_type| self.checkpoint(checkpoint_type))
    }
}

/// Whether `source` is the end of this codon, and not its rig set-up.
fn is_end_of(entry: &ThreadCodon, source: &ContinuationSource) -> bool {
    entry.run_id == source.run_id
        && Some(entry.codon.codon_id()) == source.after_codon.as_ref()
        && entry.codon.rig_setup_checkpoint() != Some(&source.checkpoint_sha)
}

/// Returns the point after the codon, with the checkpoint of the codon's end. Without one the checkpoint is blank: the files stay as they are.
fn end_of(entry: &ThreadCodon) -> ContinuationSource {
    let sha = entry.codon.end_checkpoint().map(|(_, sha)| sha.clone());
    source(entry, sha.unwrap_or_else(|| CheckpointSha::new("")))
}

/// Returns the point at a checkpoint of the codon. It has the id of the codon also at a rig-setup checkpoint, which is before the codon: the thread needs it
/// (STATE-59).
pub(super) fn source(entry: &ThreadCodon, checkpoint_sha: CheckpointSha) -> ContinuationSource {
    ContinuationSource::after(&entry.run_id, entry.codon.codon_id(), checkpoint_sha)
}
