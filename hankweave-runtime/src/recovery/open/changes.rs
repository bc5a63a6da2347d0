//! Whether a hank fits the plan of the run that goes on (STATE-45).

use std::sync::Arc;

use hankweave_core::document::{HankweaveState, PlanEntry};
use hankweave_core::event::StateEvent;
use hankweave_core::hank::Hank;
use hankweave_core::plan::{hank_changes, replan};
use hankweave_core::thread;

use super::OpenError;
use crate::options::RunOptions;
use crate::state_manager::StateManager;

/// How a run goes on with a hank that may have changed since it began.
#[derive(Debug, Default)]
pub(super) struct GoingOn {
    /// What to tell.
    pub(super) notices: Vec<String>,
    /// The plan to go on with, when it is not the recorded one.
    plan: Option<Vec<PlanEntry>>,
}

impl GoingOn {
    /// # Errors
    ///
    /// [`OpenError::ChangedHank`] when the rest of the plan cannot be done with the hank.
    pub(super) fn with(
        mut state: HankweaveState,
        hank: &Hank,
        options: &RunOptions,
    ) -> Result<Self, OpenError> {
        if options.fresh || state.runs.is_empty() {
            return Ok(Self::default());
        }
        let thread = thread::build(&state, None, None);
        let mut plan = None;
        let refused = |why| OpenError::ChangedHank {
            why,
            replanned: options.replan,
        };
        if options.replan {
            let anew =
                replan(&state, &thread, hank, options.recovery).map_err(|error| refused(vec![error]))?;
            state.execution_plan = Arc::new(anew.clone());
            plan = Some(anew);
        }
        let changes = hank_changes(&state, &thread, hank, options.recovery);
        if !changes.misfits.is_empty() {
            return Err(refused(changes.misfits));
        }
        let notices = match options.replan {
            true => changes.of_new_plan(),
            false => changes.notices(),
        };
        Ok(Self { notices, plan })
    }

    /// Records the plan, if it is another one.
    pub(super) async fn record(&mut self, manager: &StateManager) -> Result<(), OpenError> {
        let Some(execution_plan) = self.plan.take() else {
            return Ok(());
        };
        let recorded = manager
            .transition(StateEvent::PlanReplaced { execution_plan })
            .await;
        recorded.await.map(drop).map_err(OpenError::Plan)
    }
}
