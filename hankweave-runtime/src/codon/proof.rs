//! Agents that do not say whether they have succeeded: something else has to show it (AGENT-24).
//!
//! A check that passes shows it, and that comes later. Without a check it is a checkpointed file that has changed since the codon began, in an earlier attempt
//! that this one continues as well.

use std::sync::PoisonError;

use hankweave_core::agent::ExitOutcome;
use hankweave_core::id::CheckpointSha;

use super::context::CodonRun;
use super::start_of_work::{Attempts, start_of_work};
use crate::checkpoint::RestoreRequest;

/// The files as they were before the agent began.
#[derive(Debug, Clone)]
pub(super) struct FileBaseline {
    /// How many changes had been seen; `None` when it does not matter.
    changes_before: Option<u64>,
    /// The checkpoint at which the first attempt in the session began, for a codon that continues in its own session.
    began_at: Option<CheckpointSha>,
}

impl FileBaseline {
    pub(super) async fn take(codon: &CodonRun<'_>) -> Self {
        let driver = codon.run.drivers.get(codon.config.agent_name());
        let says_nothing = driver.is_some_and(|driver| !driver.capabilities().success);
        if !says_nothing || codon.config.check.is_some() {
            return Self {
                changes_before: None,
                began_at: None,
            };
        }
        let state = codon.run.manager.snapshot();
        Self {
            changes_before: Some(codon.run.watch.changes_now(codon).await),
            began_at: codon
                .in_own_session
                .then(|| start_of_work(codon, &state, Attempts::InSession))
                .flatten(),
        }
    }

    /// Turns a success without proof into a failure.
    pub(super) async fn check_success(&self, codon: &CodonRun<'_>, exit: &mut ExitOutcome) {
        let Some(doubt) = exit.unless_shown.take() else {
            return;
        };
        if let Some(before) = self.changes_before
            && codon.run.watch.changes_now(codon).await == before
            && !self.earlier_attempts_changed_files(codon).await
        {
            exit.verdict = doubt;
        }
    }

    /// Whether the attempts that this one continues have changed files: those that a stop has kept, or after a crash those that differ now.
    async fn earlier_attempts_changed_files(&self, codon: &CodonRun<'_>) -> bool {
        let Some(began_at) = self.began_at.clone() else {
            return false;
        };
        let store = codon.run.checkpoints.clone();
        let tip = codon
            .run
            .tip
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        let at = codon.run.world.clock.now();
        let look = move || {
            let kept = tip.map(|tip| {
                store
                    .diff(&began_at, &tip)
                    .is_ok_and(|changes| !changes.is_empty())
            });
            let now = RestoreRequest {
                target: began_at,
                left: None,
                spares_changed: false,
                safety: None,
                at,
            };
            kept == Some(true) || store.plan_restore(&now).is_ok_and(|plan| !plan.write.is_empty())
        };
        codon.run.world.blocking.run(look).await
    }
}
