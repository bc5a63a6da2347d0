//! The next run of a document that continues: its position, its plan, and how the hank has changed since the plan was made (STATE-45).

use super::changes::{HankChanges, hank_changes};
use super::expand::ExpandError;
use super::onward::{ResumePoint, RunIntent, resume};
use super::replan::replan;
use crate::document::{HankweaveState, KnownCheckpoints};
use crate::hank::Hank;
use crate::thread::{self, ExecutionThread, Recovery, Resume};

/// The next run of a document, which continues earlier runs.
#[derive(Debug)]
pub struct ContinuedRun {
    state: HankweaveState,
    /// The thread that the run continues.
    thread: ExecutionThread,
    resume: Resume,
    /// Whether the plan was made again from the hank.
    is_new: bool,
}

impl ContinuedRun {
    /// Returns the next run of `state`; `None` when that starts at the first codon, with a plan of its own. `recovery` is the position that the user has chosen
    /// after a failure, a crash or an interruption, if any.
    #[must_use]
    pub fn of(
        state: HankweaveState,
        hank: &Hank,
        recovery: Option<Recovery>,
        known: &dyn KnownCheckpoints,
    ) -> Option<Self> {
        let thread = thread::build(&state, None, Some(known));
        let intent = RunIntent {
            recovery,
            again: false,
        };
        let resume = resume(&state, &thread, hank, intent, known);
        (resume != Resume::Fresh).then_some(Self {
            state,
            thread,
            resume,
            is_new: false,
        })
    }

    /// Makes the plan again from the hank.
    ///
    /// # Errors
    ///
    /// [`ExpandError`] when the hank gives the id of a codon that has run in a loop to another codon, or a loop cannot be repeated.
    pub fn replan(&mut self, hank: &Hank) -> Result<(), ExpandError> {
        let plan = replan(&self.state, &self.thread, hank, &self.resume_point(hank))?;
        self.state.execution_plan = plan;
        self.is_new = true;
        Ok(())
    }

    /// The document, with the new plan after [`replan`](Self::replan).
    #[must_use]
    pub fn state(&self) -> &HankweaveState {
        &self.state
    }

    /// Returns how the run starts.
    #[must_use]
    pub const fn resume(&self) -> &Resume {
        &self.resume
    }

    /// Returns the number of entries at the front of the plan that are done.
    #[must_use]
    pub fn kept(&self, hank: &Hank) -> usize {
        self.resume_point(hank).kept
    }

    /// How the hank differs from the plan.
    #[must_use]
    pub fn changes(&self, hank: &Hank) -> HankChanges {
        hank_changes(
            &self.state,
            &self.thread,
            hank,
            &self.resume_point(hank),
            self.is_new,
        )
    }

    fn resume_point(&self, hank: &Hank) -> ResumePoint {
        ResumePoint::of(&self.state, &self.thread, hank, &self.resume)
    }
}
