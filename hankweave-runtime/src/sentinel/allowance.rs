//! Whether sentinels may still ask their models (SENT-20).
//!
//! Agent and sentinels of a codon spend from one budget. Both report here what they have spent, and a sentinel asks here before each request, so that at
//! most the requests that are open then cost more than the budget has.

use std::sync::{Arc, Mutex, PoisonError};

use hankweave_core::budget::CodonLimits;
use hankweave_core::cost::Usd;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

/// Requests of one codon that are open at a time.
const MOST_OPEN: usize = 4;

/// The reason of a codon that was stopped, skipped or paused.
const STOPPED: &str = "its codon did not wait for it";

/// The money of a codon that its sentinels may ask for, until it is used up or the codon has to end.
#[derive(Debug)]
pub(crate) struct Allowance {
    /// The money that was left when the codon began, for agent and sentinels together.
    left: Option<Usd>,
    spent: Mutex<Spent>,
    /// Cancelled when the codon has to end.
    halt: CancellationToken,
    /// Cancelled when no further question may be asked.
    closed: CancellationToken,
    open: Arc<Semaphore>,
}

#[derive(Debug, Default)]
struct Spent {
    agent: Usd,
    sentinels: Usd,
}

impl Allowance {
    /// Nothing is spent. It is closed when `halt` is cancelled.
    pub(crate) fn new(limits: &CodonLimits, halt: &CancellationToken) -> Self {
        let left = [limits.left_of_ceiling, limits.left_of_loop];
        Self {
            left: left.into_iter().flatten().min(),
            spent: Mutex::default(),
            halt: halt.clone(),
            closed: halt.child_token(),
            open: Arc::new(Semaphore::new(MOST_OPEN)),
        }
    }

    /// Returns what is left after the end of a codon with these costs. No stop closes the allowance: the task that waits
    /// for the sentinels cuts them short.
    pub(crate) fn after_end(limits: &CodonLimits, agent: Usd, sentinels: Usd) -> Self {
        let allowance = Self::new(limits, &CancellationToken::new());
        allowance.note_agent(agent);
        allowance.note_sentinels(sentinels);
        allowance
    }

    /// Notes what the agent has cost so far.
    pub(crate) fn note_agent(&self, cost: Usd) {
        self.note(|spent| spent.agent = cost);
    }

    /// Notes what the sentinels have cost so far.
    pub(crate) fn note_sentinels(&self, cost: Usd) {
        self.note(|spent| spent.sentinels = cost);
    }

    fn note(&self, change: impl FnOnce(&mut Spent)) {
        let mut spent = self.spent.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut spent);
        if self
            .left
            .is_some_and(|left| spent.agent + spent.sentinels >= left)
        {
            self.close();
        }
    }

    /// Ends all asking, because a budget is used up.
    pub(crate) fn close(&self) {
        self.closed.cancel();
    }

    /// Whether a question may be asked.
    pub(crate) fn is_open(&self) -> bool {
        !self.closed.is_cancelled()
    }

    /// Waits until no question may be asked any more.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when the future is dropped.
    pub(crate) async fn closed(&self) {
        self.closed.cancelled().await;
    }

    /// Waits until a request may be sent, and holds its place until the permit is dropped. `None` when none may be sent any more.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when the future is dropped.
    pub(crate) async fn admit(&self) -> Option<OwnedSemaphorePermit> {
        tokio::select! {
            biased;
            () = self.closed() => None,
            permit = Arc::clone(&self.open).acquire_owned() => permit.ok(),
        }
    }

    /// The reason why no question may be asked, for people.
    pub(crate) fn why_closed(&self) -> &'static str {
        match self.halt.is_cancelled() {
            true => STOPPED,
            false => "the budget is used up",
        }
    }

    /// The reason why a sentinel cannot finish at the end of its codon, for people; the budget is none, also when it is used up.
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
        allowance.note_agent(cents_of(6));
        allowance.note_sentinels(cents_of(3));
        assert!(allowance.admit().await.is_some());
        allowance.note_sentinels(cents_of(4));
        assert!(!allowance.is_open() && allowance.admit().await.is_none());
        assert_eq!(allowance.why_closed(), "the budget is used up");
    }

    // covers: SENT-20
    #[tokio::test]
    async fn a_question_that_waits_for_its_place_is_not_asked_once_the_codon_is_stopped() {
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
}
