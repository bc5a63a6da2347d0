//! Proof of success for agents that do not report whether they have succeeded (AGENT-24).
//!
//! The proof is the codon's check, which runs later. For a codon without a check it is a changed checkpointed file: one that changed since the agent was
//! started, or in an earlier attempt whose session this one continues.

use std::sync::PoisonError;

use hankweave_core::agent::ExitOutcome;
use hankweave_core::id::CheckpointSha;

use super::context::CodonRun;
use super::start_of_work::{Attempts, start_of_work};
use crate::checkpoint::RestoreRequest;

/// The files as they were before the agent was started, for comparison at its end.
#[derive(Debug, Clone)]
pub(super) struct FileBaseline {
    /// Number of changes of files that the run had seen; `None` when no changed file is needed as proof.
    changes_before: Option<u64>,
    /// The checkpoint of the files before the first attempt in the session, for a codon that continues in its own session.
    began_at: Option<CheckpointSha>,
}

impl FileBaseline {
    pub(super) async fn take(codon: &CodonRun<'_>) -> Self {
        let driver = codon.run.drivers.get(codon.config.agent_name());
        let needs_proof = driver.is_some_and(|driver| !driver.capabilities().success);
        if !needs_proof || codon.config.check.is_some() {
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

    /// Turns a success without proof into the failure that the agent's end has for this case, `unless_shown`.
    pub(super) async fn check_success(&self, codon: &CodonRun<'_>, exit: &mut ExitOutcome) {
        let Some(verdict_without_proof) = exit.unless_shown.take() else {
            return;
        };
        if let Some(before) = self.changes_before
            && codon.run.watch.changes_now(codon).await == before
            && !self.earlier_attempts_changed_files(codon).await
        {
            exit.verdict = verdict_without_proof;
        }
    }

    /// Whether the attempts that this one continues have changed files. After a stop the newest checkpoint has the changes; after a crash only the
    /// workspace has them.
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
        let compare = move || {
            let tip_differs = tip.is_some_and(|tip| {
                store
                    .diff(&began_at, &tip)
                    .is_ok_and(|changes| !changes.is_empty())
            });
            // A restore to the start would write the files that differ now. It is only planned.
            let restore_to_start = RestoreRequest {
                target: began_at,
                left: None,
                spares_changed: false,
                safety: None,
                at,
            };
            tip_differs
                || store
                    .plan_restore(&restore_to_start)
                    .is_ok_and(|plan| !plan.write.is_empty())
        };
        codon.run.world.blocking.run(compare).await
    }
}
