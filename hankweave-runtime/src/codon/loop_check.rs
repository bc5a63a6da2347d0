//! Loops until a check passes: after the last codon of an iteration the command of the loop runs (HANK-62).

use hankweave_core::agent::FailureReason;
use hankweave_core::codon::LoopCheck;
use hankweave_core::hank::OnExceeded;

use super::check::{examine, report_next};
use super::context::CodonRun;
use super::orders::Interruption;
use super::run::{AgentOutcome, AgentRun};

/// How much of what a command printed is kept in state.json for the next iteration.
const MOST_BYTES: usize = 4 << 10;

/// Runs the check of the loop when it is due. When no iteration can follow, a codon whose loop has not passed has failed.
pub(super) async fn check(codon: &CodonRun<'_>, work: &mut AgentRun) {
    let Some((exit, in_time)) = work.checkable(codon) else {
        return;
    };
    // At a limit of the whole the run pauses before the next iteration, which a higher limit lets follow.
    let ends = |exceeded| codon.limits.consequence(&exceeded) != OnExceeded::Pause;
    let ends_loop = work.exceeded(&exit.usage).is_some_and(ends);
    let Some((run, is_last)) = codon.entry.due_check(&codon.run.hank, ends_loop) else {
        return;
    };
    let of = codon.entry.loop_context.as_ref().map(|place| &place.loop_id);
    let said = examine(codon, run, of, in_time, MOST_BYTES).await;
    if let Some(why) = codon.interruption() {
        work.outcome = AgentOutcome::Stopped(why, exit);
        return;
    }
    let says = match said {
        Ok(()) => None,
        Err(missed) if is_last || missed.is_over => {
            let why = match ends_loop {
                true => "its budget is used up, so no iteration follows",
                false => "no iteration is left",
            };
            report_next(codon, why.to_owned()).await;
            let reason = FailureReason::unknown(false, missed.why);
            work.outcome = AgentOutcome::Stopped(Interruption::Failure(reason), exit);
            return;
        }
        Err(missed) => Some(missed.prompt()),
    };
    work.loop_check = Some(LoopCheck {
        passed: says.is_none(),
        says,
    });
}
