//! Agents that do not say whether they have succeeded: something else has to show it (AGENT-24).
//!
//! A check that passes shows it, and that comes later. Without a check it is a checkpointed file that has changed since the agent began.

use hankweave_core::agent::ExitOutcome;

use super::context::CodonRun;

/// The files as they were before the agent began.
#[derive(Debug, Clone, Copy)]
pub(super) struct Proof {
    /// How many changes had been seen; `None` when it does not matter.
    changes_before: Option<u64>,
}

impl Proof {
    pub(super) async fn begin(codon: &CodonRun<'_>) -> Self {
        let driver = codon.run.drivers.get(codon.config.agent_name());
        let says_nothing = driver.is_some_and(|driver| !driver.capabilities().success);
        let changes_before = match says_nothing && codon.config.check.is_none() {
            true => Some(codon.run.watch.changes_now(codon).await),
            false => None,
        };
        Self { changes_before }
    }

    /// Turns a success that nothing shows into the failure that it has to be taken for.
    pub(super) async fn judge(self, codon: &CodonRun<'_>, exit: &mut ExitOutcome) {
        let Some(doubt) = exit.unless_shown.take() else {
            return;
        };
        if let Some(before) = self.changes_before
            && codon.run.watch.changes_now(codon).await == before
        {
            exit.verdict = doubt;
        }
    }
}
