//! Checks whether a changed hank fits the recorded plan with which the next run continues, and replaces the plan on request (STATE-45).

use hankweave_core::document::HankweaveState;
use hankweave_core::event::StateEvent;
use hankweave_core::plan::ContinuedRun;

use super::rollback::restorable;
use crate::recovery::{OpenExecutionError, OpenedExecution};

/// Called when a directory is opened for a run. Makes the plan again from the hank if the options ask for it, and adds notices about a changed hank.
///
/// # Errors
///
/// [`OpenExecutionError::ChangedHank`] when the rest of the plan cannot be done with the hank; nothing was written then.
pub(crate) async fn replan(opened: &mut OpenedExecution) -> Result<(), OpenExecutionError> {
    let state = HankweaveState::clone(&opened.possession.manager.snapshot());
    if opened.options.fresh || state.runs.is_empty() {
        return Ok(());
    }
    let known = restorable(&opened.possession)
        .await
        .map_err(OpenExecutionError::History)?;
    let (hank, replanned) = (&opened.hank, opened.options.replan);
    let refused = |why| OpenExecutionError::ChangedHank { why, replanned };
    let Some(mut continued) = ContinuedRun::of(state, hank, opened.options.recovery, &known) else {
        return Ok(());
    };
    if replanned {
        continued.replan(hank).map_err(|error| refused(vec![error]))?;
    }
    let changes = continued.changes(hank);
    if !changes.misfits.is_empty() {
        return Err(refused(changes.misfits));
    }
    if replanned {
        let execution_plan = continued.state().execution_plan.clone();
        let manager = &opened.possession.manager;
        let recorded = manager
            .transition(StateEvent::PlanReplaced { execution_plan })
            .await;
        recorded.await.map_err(OpenExecutionError::Plan)?;
    }
    opened.possession.notices.extend(changes.notices());
    opened.can_be_replanned = changes.can_be_taken_over();
    Ok(())
}
