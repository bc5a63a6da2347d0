//! A run that continues, with a hank that may have changed since its start (STATE-45).

use super::changes::{HankChanges, hank_changes};
use super::expand::ExpandError;
use super::onward::{ResumePoint, RunIntent, resume};
use super::replan::replan;
use crate::document::{HankweaveState, KnownCheckpoints};
use crate::hank::Hank;
use crate::thread::{self, ExecutionThread, Recovery, Resume};

/// Position in the plan from which the next run continues.
#[derive(Debug)]
pub struct ContinuedRun {
    state: HankweaveState,
    thread: ExecutionThread,
    resume: Resume,
    is_new: bool,
}

impl ContinuedRun {
    /// Returns the next run of `state`, with `recovery` if the user has chosen one; `None` when it starts at the first codon, with a plan of its
    /// own.
    #[must_use]
    pub fn of(
        state: HankweaveState,
        hank: &Hank,
        recovery: Option<Recovery>,
        known: &dyn KnownCheckpoints,
    ) -> Option<Self> {
        let thread = thread::build(&state, None, Some(known));
        let wish = RunIntent {
            recovery,
            again: false,
        };
        let resume = resume(&state, &thread, hank, wish, known);
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
    /// [`ExpandError`] when the hank gives the id of a codon that has run in a loop to another one, or a loop cannot be repeated.
    pub fn replan(&mut self, hank: &Hank) -> Result<(), ExpandError> {
        let plan = replan(&self.state, &self.thread, hank, &self.standing(hank))?;
        self.state.execution_plan = plan;
        self.is_new = true;
        Ok(())
    }

    /// The document, with the plan as it is by now.
    #[must_use]
    pub fn state(&self) -> &HankweaveState {
        &self.state
    }

    /// Returns how it starts.
    #[must_use]
    pub const fn resume(&self) -> &Resume {
        &self.resume
    }

    /// Returns the number of entries at the front of the plan that are done.
    #[must_use]
    pub fn kept(&self, hank: &Hank) -> usize {
        self.standing(hank).kept
    }

    /// How the hank differs from the plan.
    #[must_use]
    pub fn changes(&self, hank: &Hank) -> HankChanges {
        hank_changes(&self.state, &self.thread, hank, &self.standing(hank), self.is_new)
    }

    fn standing(&self, hank: &Hank) -> ResumePoint {
        ResumePoint::of(&self.state, &self.thread, hank, &self.resume)
    }
}
