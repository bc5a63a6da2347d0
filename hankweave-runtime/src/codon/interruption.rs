//! Ending a codon before its agent ends: on a user's order, at the end of the run, or after a failure.

use hankweave_core::agent::FailureReason;

use super::context::CodonRun;
use super::orders::CodonCommand;
use crate::shutdown::StopCause;

/// Why a codon ends before its agent does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Interruption {
    /// On an order of a user or a sentinel.
    Ordered(CodonCommand),
    /// The run stops, for this cause; `None` if the cause is not known yet.
    Stopped(Option<StopCause>),
    /// Something failed.
    Failure(FailureReason),
}

impl CodonRun<'_> {
    /// Why the codon has to end, if it has to.
    pub(super) fn interruption(&self) -> Option<Interruption> {
        if !self.orders.token().is_cancelled() {
            return None;
        }
        // Without an order, the token was cancelled by the stop of the run.
        Some(match self.orders.order().cloned() {
            Some(order) => Interruption::Ordered(order),
            None => Interruption::Stopped(self.run.shutdown.cause()),
        })
    }

    /// Waits for a reason to cut short the sentinels that act on the end of the codon: a forced stop, a stop of the run, an order, or a
    /// failed disk. An order that has already ended the codon does not count. Nor does a pause that one of these sentinels asked for:
    /// the others finish.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when the future is dropped.
    pub(super) async fn until_sentinels_are_cut(&self) {
        let (orders, shutdown) = (&self.orders, &self.run.shutdown);
        let was_ordered = orders.order().is_some();
        let stopped = async {
            shutdown.requested().await;
            if shutdown.cause() == Some(StopCause::Sentinel) {
                std::future::pending::<()>().await;
            }
        };
        // The token is cancelled by the stop of the run as well, which `stopped` handles.
        let ordered = async {
            orders.token().cancelled().await;
            if was_ordered || orders.order().is_none() {
                std::future::pending::<()>().await;
            }
        };
        tokio::select! {
            () = orders.force_token().cancelled() => {}
            () = stopped => {}
            () = ordered => {}
            () = self.run.degraded() => {}
        }
    }

    /// Waits until the codon has to end for a reason outside of its agent.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when the future is dropped.
    pub(super) async fn interrupted(&self) -> Interruption {
        tokio::select! {
            biased;
            () = self.orders.token().cancelled() => {
                self.interruption().unwrap_or(Interruption::Stopped(None))
            }
            () = self.run.degraded() => {
                Interruption::Failure(FailureReason::unknown(true, "the state could not be saved"))
            }
        }
    }
}
