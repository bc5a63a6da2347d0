//! Ends a codon at a limit of money, time or context: before its agent works, after its agent, or during its check (HANK-35).

use std::time::Duration;

use hankweave_core::agent::{ExitOutcome, FailureReason, InterruptedBy};
use hankweave_core::budget::{CodonLimits, Meter};
use hankweave_core::codon::{
    BudgetExceeded, Codon, Complete, Completed, Edge, Fail, Failed, Preparing, Skip, Skipped,
};
use hankweave_core::hank::OnExceeded;

use super::context::{CodonEnd, CodonRun, EarlyEnd, StageResult};
use super::end::{EndDetails, complete, exit_code};
use super::watchers::HasSentinels;

/// Ends a codon with no budget left before anything is started for it: not even its agent's first request could be
/// paid.
pub(super) async fn start(
    codon: &CodonRun<'_>,
    preparing: Codon<Preparing>,
) -> StageResult<Codon<Preparing>> {
    match codon.used_up() {
        // -1, because no agent was started.
        Some(exceeded) => Err(end_before_work(codon, preparing, -1, exceeded).await),
        None => Ok(preparing),
    }
}

/// Ends a codon that reached a limit before its agent worked. Without work to complete it is skipped, unless
/// the run pauses.
pub(super) async fn end_before_work<S: HasSentinels>(
    codon: &CodonRun<'_>,
    state: Codon<S>,
    exit_code: i64,
    exceeded: BudgetExceeded,
) -> EarlyEnd
where
    Fail: Edge<S, To = Failed>,
    Skip: Edge<S, To = Skipped>,
{
    let notes = EndDetails::of_budget(exceeded);
    match codon.limits.consequence(&exceeded) {
        OnExceeded::Complete => codon.skip(state, exit_code, notes).await,
        OnExceeded::Fail => codon.fail_with(state, exit_code, used_up(exceeded), notes).await,
        OnExceeded::Pause => {
            codon
                .fail_with(state, exit_code, paused(codon, exceeded), notes)
                .await
        }
    }
}

/// Ends a codon whose agent worked until a limit. `own_failure` is an error that the agent met by itself, if any; `of_loop` has what the
/// check of the loop found, if the codon ends an iteration.
pub(super) async fn end<S: HasSentinels>(
    codon: &CodonRun<'_>,
    running: Codon<S>,
    exit: &ExitOutcome,
    (exceeded, own_failure): (BudgetExceeded, Option<FailureReason>),
    of_loop: EndDetails,
) -> StageResult<CodonEnd>
where
    Complete: Edge<S, To = Completed>,
    Fail: Edge<S, To = Failed>,
{
    let notes = of_loop.clone().with_budget(exceeded);
    let reason = match codon.limits.consequence(&exceeded) {
        OnExceeded::Complete => match own_failure {
            None => return complete(codon, running, exit, notes).await,
            Some(failure) => final_failure(failure, exceeded),
        },
        // The agent's last answer used up the budget, and its work is done. If the budget is shared with other codons, of
        // a loop or of the hank, the run pauses before the next codon and reports the reason then.
        OnExceeded::Pause if exit.verdict.is_success() => {
            let notes = match exceeded.is_shared() {
                // A record of the limit in this codon would end the loop; the loop has to continue when the limit is raised.
                true => {
                    codon
                        .remarks
                        .extend(over_its_loop(&exceeded, exit.usage.lower_bound));
                    of_loop
                }
                false => notes,
            };
            return complete(codon, running, exit, notes).await;
        }
        OnExceeded::Fail => with_own_error(own_failure.as_ref(), used_up(exceeded)),
        OnExceeded::Pause => with_own_error(own_failure.as_ref(), paused(codon, exceeded)),
    };
    Err(codon.fail_with(running, exit_code(exit), reason, notes).await)
}

/// Returns a remark that the last answer of a codon passed the limit of its loop; `None` if the limit is the total budget. After
/// the last iteration no codon follows before which the run would pause, so only this remark reports the limit.
fn over_its_loop(exceeded: &BudgetExceeded, is_lower_bound: bool) -> Option<String> {
    let is_of_loop = !exceeded.is_total();
    is_of_loop.then(|| format!("budget reached: {}", exceeded.words_with_overrun(is_lower_bound)))
}

/// Returns a failure of the agent after which no budget is left to repair it: no other attempt starts, and the run does
/// not wait for the end of a usage limit.
fn final_failure(failure: FailureReason, exceeded: BudgetExceeded) -> FailureReason {
    let message = failure.message.unwrap_or_default();
    let (error, more) = message.split_at(message.find('\n').unwrap_or(message.len()));
    FailureReason {
        message: Some(format!(
            "{error}; its budget is used up as well: {exceeded}{more}"
        )),
        retriable: false,
        retry_after_ms: None,
        retry_at: None,
        ..failure
    }
}

/// Adds the first line of the agent's own error, if any, to the failure at a limit.
fn with_own_error(own_failure: Option<&FailureReason>, mut reason: FailureReason) -> FailureReason {
    let error = own_failure.and_then(|failure| failure.message.as_deref()?.lines().next());
    if let (Some(error), Some(message)) = (error, &mut reason.message) {
        *message = format!("its agent failed: {error}; {message}");
    }
    reason
}

fn used_up(exceeded: BudgetExceeded) -> FailureReason {
    // At the total budget a run pauses, unless `onExceeded` is "fail".
    let why = if exceeded.is_total() {
        " (its `onExceeded` is \"fail\")"
    } else {
        ""
    };
    FailureReason::unknown(false, format!("the budget is used up: {exceeded}{why}"))
}

fn paused(codon: &CodonRun<'_>, exceeded: BudgetExceeded) -> FailureReason {
    FailureReason::interrupted(InterruptedBy::Ceiling, why_paused(&codon.limits, exceeded))
}

/// The end of a codon whose check was stopped because the codon's time was used up: a pause, if the run pauses at that limit; otherwise a
/// failure because of `why`.
pub(super) fn check_cut_off(codon: &CodonRun<'_>, why: String) -> FailureReason {
    let pauses = |exceeded: &BudgetExceeded| codon.limits.consequence(exceeded) == OnExceeded::Pause;
    match codon.used_up().filter(pauses) {
        Some(exceeded) => paused(codon, exceeded),
        None => FailureReason::unknown(false, why),
    }
}

/// Consequence for a codon that has no budget left before it starts.
pub(crate) enum NoBudget {
    /// The run pauses before the codon, for this reason.
    Pauses(String),
    /// The codon ends before anything is started for it.
    Ends,
}

/// Returns the consequence for a codon that has no budget left; `None` when it can start.
pub(crate) fn no_budget_left(limits: &CodonLimits) -> Option<NoBudget> {
    let exceeded = Meter::new(*limits).exceeded(Duration::ZERO)?;
    Some(match limits.consequence(&exceeded) {
        OnExceeded::Pause => NoBudget::Pauses(why_paused(limits, exceeded)),
        OnExceeded::Complete | OnExceeded::Fail => NoBudget::Ends,
    })
}

/// Why a run pauses, in words; the run adds the details of its total budget.
fn why_paused(limits: &CodonLimits, exceeded: BudgetExceeded) -> String {
    if limits.is_of_the_ceiling(&exceeded) {
        return match exceeded {
            BudgetExceeded::Duration { .. } => "the total time is used up".to_owned(),
            _ => "the total budget is used up".to_owned(),
        };
    }
    let used = limits.over_all_attempts(exceeded);
    let key = exceeded.key_in_hank().unwrap_or("budget");
    format!("its budget is used up: {used} (a larger {key} in hank.json lets it continue)")
}

impl CodonRun<'_> {
    /// Waits until the time of the codon is used up; forever, if the time is not limited.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when the future is dropped.
    pub(super) async fn time_is_over(&self) -> BudgetExceeded {
        if let Some(time) = self.limits.time {
            self.begun.reach(&*self.run.world.clock, time).await;
        }
        match self.used_up() {
            Some(exceeded) => exceeded,
            None => std::future::pending().await,
        }
    }

    /// The limit that the codon has reached without any work of its agent: its time, or a budget of which nothing was left.
    pub(super) fn used_up(&self) -> Option<BudgetExceeded> {
        Meter::new(self.limits).exceeded(self.elapsed())
    }
}
