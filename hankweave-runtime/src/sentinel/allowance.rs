//! Permission of a codon's sentinels to ask their models (SENT-20).
//!
//! Agent and sentinels of a codon spend from one budget. Both report here what they have spent, and a sentinel needs a place here before each request. So only
//! requests that are open when the budget is used up can exceed it.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use hankweave_core::budget::CodonLimits;
use hankweave_core::cost::Usd;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

/// Number of requests of one codon that may be open at a time.
const MOST_OPEN: usize = 4;

/// Reason for people when the codon was stopped, skipped or paused.
const STOPPED: &str = "its codon did not wait for it";

/// Permission of a codon's sentinels to send requests, until the budget is used up or the codon has to end.
#[derive(Debug)]
pub(crate) struct Allowance {
    /// Money for agent and sentinels together: what was left of the budget of the hank or of the loop when the codon began, whichever is less. `None` without a
    /// limit.
    budget: Option<Usd>,
    spent: Mutex<Spent>,
    /// Cancelled when the codon is stopped.
    halt: CancellationToken,
    /// Cancelled when no further request may be sent. `halt` is its parent, so a stop cancels it, too.
    closed: CancellationToken,
    /// The limit that closed the allowance; empty while the allowance is open, or if a stop closed it.
    reached: OnceLock<ReachedLimit>,
    /// Places of the requests that are open at a time.
    places: Arc<Semaphore>,
}

/// Money that a codon has cost so far.
#[derive(Debug, Default)]
pub(crate) struct Spent {
    pub(crate) agent: Usd,
    pub(crate) sentinels: Usd,
}

#[derive(Debug)]
enum ReachedLimit {
    /// The money of the hank or of the loop, which is watched here.
    Budget,
    /// Any limit of money, time or tokens that has ended the codon.
    OfCodon,
}

impl Allowance {
    /// Returns an allowance of which nothing is spent. Cancelling `halt`, the stop of the codon, closes it.
    pub(crate) fn new(limits: &CodonLimits, halt: &CancellationToken) -> Self {
        let left = [limits.left_of_ceiling, limits.left_of_loop];
        Self {
            budget: left.into_iter().flatten().min(),
            spent: Mutex::default(),
            halt: halt.clone(),
            closed: halt.child_token(),
            reached: OnceLock::new(),
            places: Arc::new(Semaphore::new(MOST_OPEN)),
        }
    }

    /// Returns the allowance for the sentinels that act on the end of a codon, which has cost `spent` (SENT-23). No stop closes it: the caller that waits for
    /// these sentinels cuts them short.
    pub(crate) fn after_end(limits: &CodonLimits, spent: Spent) -> Self {
        let allowance = Self::new(limits, &CancellationToken::new());
        allowance.update(|total| *total = spent);
        allowance
    }

    /// Sets the cost of the agent so far.
    pub(crate) fn set_agent_cost(&self, total: Usd) {
        self.update(|spent| spent.agent = total);
    }

    /// Sets the cost of the sentinels so far.
    pub(crate) fn set_sentinel_cost(&self, total: Usd) {
        self.update(|spent| spent.sentinels = total);
    }

    /// Changes the money spent, and closes the allowance when the budget is used up.
    fn update(&self, change: impl FnOnce(&mut Spent)) {
        let mut spent = self.spent.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut spent);
        let total = spent.agent + spent.sentinels;
        if self.budget.is_some_and(|budget| total >= budget) {
            self.close(ReachedLimit::Budget);
        }
    }

    /// Lets no further request be sent, because a limit of money, time or tokens has ended the codon.
    pub(crate) fn close_at_limit(&self) {
        self.close(ReachedLimit::OfCodon);
    }

    fn close(&self, reached: ReachedLimit) {
        // Only the first reason counts, which may also be a stop.
        if self.is_open() {
            let _ = self.reached.set(reached);
        }
        self.closed.cancel();
    }

    /// Whether a request may be sent.
    pub(crate) fn is_open(&self) -> bool {
        !self.closed.is_cancelled()
    }

    /// Waits until no request may be sent any more.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when the future is dropped.
    pub(crate) async fn closed(&self) {
        self.closed.cancelled().await;
    }

    /// Waits for a place for a request. The place is taken until the permit is dropped. `None` when no request may be sent any more.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when the future is dropped.
    pub(crate) async fn admit(&self) -> Option<OwnedSemaphorePermit> {
        tokio::select! {
            biased;
            () = self.closed() => None,
            permit = Arc::clone(&self.places).acquire_owned() => permit.ok(),
        }
    }

    /// Returns the reason why no request may be sent, for people.
    pub(crate) fn why_closed(&self) -> &'static str {
        match self.reached.get() {
            Some(ReachedLimit::Budget) => "the budget is used up",
            Some(ReachedLimit::OfCodon) => "a limit has ended its codon",
            None => STOPPED,
        }
    }

    /// Returns the reason why the work of a sentinel is cut short at the end of its codon, for people. A used-up budget is no such
    /// reason: [`why_closed`](Self::why_closed) has it.
    pub(crate) fn why_cut(&self) -> &'static str {
        match self.halt.is_cancelled() {
            true => STOPPED,
            false => "the codon has ended",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allowance(cents: u64) -> (Allowance, CancellationToken) {
        let limits = CodonLimits {
            left_of_ceiling: Some(cents_of(cents)),
            ..CodonLimits::default()
        };
        let halt = CancellationToken::new();
        (Allowance::new(&limits, &halt), halt)
    }

    fn cents_of(cents: u64) -> Usd {
        Usd::from_micros(cents * 10_000)
    }

    // covers: SENT-20
    #[tokio::test]
    async fn agent_and_sentinels_use_up_one_budget() {
        let (allowance, _) = allowance(10);
        allowance.set_agent_cost(cents_of(6));
        allowance.set_sentinel_cost(cents_of(3));
        assert!(allowance.admit().await.is_some());
        allowance.set_sentinel_cost(cents_of(4));
        assert!(!allowance.is_open() && allowance.admit().await.is_none());
        assert_eq!(allowance.why_closed(), "the budget is used up");
    }

    // covers: SENT-20
    #[tokio::test]
    async fn a_request_that_waits_for_its_place_is_not_sent_once_the_codon_is_stopped() {
        let (allowance, halt) = allowance(10);
        let mut held = Vec::new();
        for _ in 0..MOST_OPEN {
            held.push(allowance.admit().await.unwrap());
        }
        let stop = async { halt.cancel() };
        let (waiting, ()) = tokio::join!(allowance.admit(), stop);
        assert!(waiting.is_none());
        drop(held);
        assert!(allowance.admit().await.is_none());
        assert_eq!(allowance.why_closed(), "its codon did not wait for it");
    }

    // covers: SENT-20
    #[test]
    fn the_reason_is_what_closed_it_and_nothing_later() {
        let (spent, halt) = allowance(10);
        spent.set_agent_cost(cents_of(10));
        halt.cancel();
        spent.close_at_limit();
        assert_eq!(spent.why_closed(), "the budget is used up");

        let (limited, _halt) = allowance(10);
        limited.close_at_limit();
        limited.set_agent_cost(cents_of(10));
        assert_eq!(limited.why_closed(), "a limit has ended its codon");

        let (stopped, halt) = allowance(10);
        halt.cancel();
        stopped.set_agent_cost(cents_of(10));
        assert_eq!(stopped.why_closed(), "its codon did not wait for it");
    }
}
