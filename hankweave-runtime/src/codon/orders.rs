//! Ending a codon before its agent ends: on a user's order, at the end of the run, or after a failure.

use std::sync::{Arc, OnceLock};

use hankweave_core::agent::{FailureReason, InterruptedBy};
use hankweave_core::codon::{Codon, Edge, Fail, Failed, Skip, Skipped};
use hankweave_core::wire::Event;
use tokio_util::sync::CancellationToken;

use super::context::{CodonRun, Ended};
use super::finish::Notes;
use super::watchers::Watched;
use crate::shutdown::{Shutdown, StopCause};

/// A user's order about the running codon.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Order {
    /// It ends as skipped.
    Skip,
    /// It ends as failed, because a sentinel wants it or has failed itself.
    Fail(String),
    /// It ends as failed, its agent is killed.
    ForceStop(Option<String>),
}

/// The orders for one codon; all clones share them.
#[derive(Debug, Clone)]
pub(crate) struct Orders {
    halt: CancellationToken,
    force: CancellationToken,
    order: Arc<OnceLock<Order>>,
}

impl Orders {
    /// No order yet. The codon also ends when the run is asked to stop.
    pub(crate) fn new(shutdown: &Shutdown) -> Self {
        Self {
            halt: shutdown.token().child_token(),
            force: shutdown.force_token().child_token(),
            order: Arc::default(),
        }
    }

    /// Gives an order. The first one counts; a forced stop after a skip only skips the grace period.
    pub(crate) fn give(&self, order: Order) {
        if matches!(order, Order::ForceStop(_)) {
            self.force.cancel();
        }
        let _ = self.order.set(order);
        self.halt.cancel();
    }

    /// Whether the codon was stopped by force, and nothing else.
    pub(crate) fn was_forced(&self) -> bool {
        matches!(self.order.get(), Some(Order::ForceStop(_)))
    }

    /// Cancelled as soon as the codon has to end.
    pub(crate) fn token(&self) -> &CancellationToken {
        &self.halt
    }

    /// Cancelled as soon as what runs has to be killed: by an order, or because the stop of the run is
    /// forced.
    pub(crate) fn force_token(&self) -> &CancellationToken {
        &self.force
    }
}

/// Why a codon ends before its agent does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Interruption {
    /// On a user's order.
    Ordered(Order),
    /// The run stops.
    Stopped(Option<StopCause>),
    /// Something failed.
    Failure(FailureReason),
}

impl CodonRun<'_> {
    /// Why the codon has to end, if it has to.
    pub(super) fn interruption(&self) -> Option<Interruption> {
        if !self.orders.halt.is_cancelled() {
            return None;
        }
        let order = self.orders.order.get().cloned();
        Some(match order {
            Some(order) => Interruption::Ordered(order),
            None => Interruption::Stopped(self.run.shutdown.cause()),
        })
    }

    /// Waits until the codon has to end for a reason outside of its agent.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when the future is dropped.
    pub(super) async fn interrupted(&self) -> Interruption {
        tokio::select! {
            biased;
            () = self.orders.halt.cancelled() => {
                self.interruption().unwrap_or(Interruption::Stopped(None))
            }
            () = self.run.degraded() => {
                Interruption::Failure(FailureReason::unknown(true, "the state could not be saved"))
            }
        }
    }

    /// Ends the codon after an interruption. `exit_code` is that of its agent, -1 without one.
    pub(super) async fn end_early<S: Watched>(
        &self,
        codon: Codon<S>,
        exit_code: i64,
        why: Interruption,
    ) -> Ended
    where
        Fail: Edge<S, To = Failed>,
        Skip: Edge<S, To = Skipped>,
    {
        match why {
            Interruption::Ordered(Order::Skip) => self.skip(codon, exit_code, Notes::default()).await,
            Interruption::Ordered(Order::Fail(message)) => {
                self.fail(codon, exit_code, FailureReason::unknown(false, message))
                    .await
            }
            Interruption::Ordered(Order::ForceStop(reason)) => {
                let reason = reason.unwrap_or_else(|| "user request".to_owned());
                let reason = FailureReason::unknown(true, format!("Force stopped: {reason}"));
                let ended = self.fail(codon, -1, reason).await;
                // RUN-13
                let message = format!("Codon {} force stopped", self.entry.codon_id);
                self.run.publish(Event::Info { message }).await;
                ended
            }
            Interruption::Stopped(cause) => {
                let cause = cause.map_or("stopped", StopCause::as_str);
                let reason = FailureReason::interrupted(InterruptedBy::Stop, cause);
                self.fail(codon, exit_code, reason).await
            }
            Interruption::Failure(reason) => self.fail(codon, exit_code, reason).await,
        }
    }
}
