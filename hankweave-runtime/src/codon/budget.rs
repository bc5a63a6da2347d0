//! What a codon may use, watched from its first record to its end ("hank configuration", section 6.3).

use hankweave_core::agent::{ExitOutcome, FailureReason};
use hankweave_core::budget::{BudgetExceeded, Meter};
use hankweave_core::codon::{Codon, Preparing, Running};
use hankweave_core::hank::OnExceeded;
use tokio::time::Instant;

use super::CodonEnd;
use super::context::{CodonRun, Stage};
use super::finish::{Notes, complete};

/// Ends a codon for which nothing is left before anything is started for it: not even its first request may be paid.
pub(super) async fn begin(codon: &CodonRun<'_>, preparing: Codon<Preparing>) -> Stage<Codon<Preparing>> {
    let Some(exceeded) = Meter::new(codon.limits).exceeded(codon.begun.elapsed()) else {
        return Ok(preparing);
    };
    let notes = Notes::of_budget(exceeded);
    Err(match codon.limits.on_exceeded {
        OnExceeded::Complete => codon.skip(preparing, -1, notes).await,
        OnExceeded::Fail => codon.fail_with(preparing, -1, used_up(exceeded), notes).await,
    })
}

/// Ends a codon that reached a limit.
pub(super) async fn end(
    codon: &CodonRun<'_>,
    running: Codon<Running>,
    exit: &ExitOutcome,
    exceeded: BudgetExceeded,
) -> Stage<CodonEnd> {
    let notes = Notes::of_budget(exceeded);
    match codon.limits.on_exceeded {
        OnExceeded::Complete => complete(codon, running, exit, notes).await,
        OnExceeded::Fail => {
            let code = i64::from(exit.exit.code());
            Err(codon.fail_with(running, code, used_up(exceeded), notes).await)
        }
    }
}

fn used_up(exceeded: BudgetExceeded) -> FailureReason {
    FailureReason::unknown(false, format!("the budget is used up: {exceeded}"))
}

impl CodonRun<'_> {
    /// When the time of the codon is over, if that is limited.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.limits.time.and_then(|time| self.begun.checked_add(time))
    }
}
