//! Approvals: the question before a codon, the pause of a run that cannot ask, and the record of the answer (STATE-65).

use hankweave_core::agent::InterruptedBy;
use hankweave_core::budget::Ceiling;
use hankweave_core::document::{Approval, HankweaveState, PlanEntry};
use hankweave_core::event::StateEvent;
use hankweave_core::id::CodonId;
use hankweave_core::machine::Extra;
use hankweave_core::time::Timestamp;

use super::outcome::{Pause, RunResult};
use crate::codon::{RunContext, prompt_values};
use crate::state_manager::{StateManager, TransitionError};

/// Whether the run waits for an answer even when no client is connected. [`RunContext::is_attended`] counts connected clients, but leaves out `answers`.
pub(super) fn is_attended(context: &RunContext) -> bool {
    let options = &context.options;
    options.answers || options.attended || !options.autostart
}

/// Whether an answer can arrive while this run waits.
pub(super) fn can_be_asked(context: &RunContext) -> bool {
    context.options.answers || context.is_attended()
}

/// Returns the question before the codon starts; empty if the hank has none for it.
pub(super) fn question(context: &RunContext, entry: &PlanEntry) -> String {
    let config = context.hank.codon(entry.codon_id.configured());
    let Some(approval) = config.and_then(|config| config.approval.as_ref()) else {
        return String::new();
    };
    approval.fill(&entry.codon_id, &prompt_values(context))
}

/// Returns the result of a run that has no way to ask the user.
pub(super) fn pause(codon: CodonId, question: String) -> RunResult {
    paused(codon, format!("it waits for an approval: {question}"))
}

/// Returns the result of a run whose next codon was denied.
pub(super) fn denied(state: &HankweaveState, codon: CodonId) -> RunResult {
    let reason = state
        .approval
        .as_ref()
        .and_then(|answer| answer.reason.as_deref());
    let why = match reason {
        Some(reason) => format!("it was denied: {reason}"),
        None => "it was denied".to_owned(),
    };
    paused(codon, why)
}

fn paused(codon: CodonId, why: String) -> RunResult {
    RunResult::Paused(Pause {
        codon,
        by: InterruptedBy::Approval,
        why,
        more: Ceiling::default(),
        patience: None,
    })
}

/// Records an answer, durably. `by` is its author; `at` is the time at which the answer was given, if that was earlier.
pub(crate) async fn record(
    manager: &StateManager,
    codon_id: &CodonId,
    granted: bool,
    reason: Option<String>,
    (by, at): (Option<String>, Option<Timestamp>),
) -> Result<(), TransitionError> {
    let answer = Approval {
        codon_id: codon_id.clone(),
        granted,
        reason,
        by,
        at,
        extra: Extra::default(),
    };
    set(manager, Some(answer)).await
}

/// Withdraws the recorded answer, so that the question is asked again.
pub(crate) async fn withdraw(manager: &StateManager) -> Result<(), TransitionError> {
    match manager.snapshot().approval {
        Some(_) => set(manager, None).await,
        None => Ok(()),
    }
}

async fn set(manager: &StateManager, approval: Option<Approval>) -> Result<(), TransitionError> {
    let event = StateEvent::ApprovalSet { approval };
    manager.transition(event).await.await?;
    Ok(())
}
