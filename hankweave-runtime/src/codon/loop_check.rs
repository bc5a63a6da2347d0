//! Loops until a check passes: the command of the loop runs after the last codon of each iteration (HANK-62). Also finds loops that only repeat
//! themselves, because an iteration changed no file and the check printed the same output (STATE-69).

use hankweave_core::agent::FailureReason;
use hankweave_core::codon::{BudgetExceeded, LoopCheck, LoopStall};
use hankweave_core::hank::{HankItem, LoopConfig, OnExceeded};
use sha2::{Digest, Sha256};

use super::budget::check_cut_off;
use super::check::{FailedCheck, report_next, run_check};
use super::context::CodonRun;
use super::run::{AgentOutcome, AgentRun};
use crate::world::ids::hex;

/// Maximum length of the output that state.json keeps for the next iteration, in bytes.
const MOST_BYTES: usize = 4 << 10;

/// Message to the next iteration if the last one had no effect.
const REPEATED: &str = "No file has changed in the iteration before this one, and the check printed the same as before. Try another way, or say what is in the way.";

/// Runs the check of the loop when it is due. When no iteration can follow, a codon whose loop has not passed has failed.
pub(super) async fn check(codon: &CodonRun<'_>, work: &mut AgentRun) {
    let Some((exit, may_continue)) = work.checkable(codon) else {
        return;
    };
    // At a limit where the run pauses, the next iteration follows once the user raises the limit.
    let ends_loop = |exceeded: &BudgetExceeded| codon.limits.consequence(exceeded) != OnExceeded::Pause;
    let ended_by = work.exceeded(&exit.usage).filter(ends_loop);
    // Compared before the check, whose command may write files itself.
    let comparison = IterationComparison::at_end_of(codon).await;
    let Some((run, is_last)) = codon.entry.due_check(&codon.run.hank, ended_by.is_some()) else {
        work.loop_stall = comparison.map(|comparison| comparison.stall(None));
        report_stall(codon, work.loop_stall.as_ref()).await;
        return;
    };
    let of = codon.entry.loop_context.as_ref().map(|place| &place.loop_id);
    let result = run_check(codon, run, of, may_continue, MOST_BYTES).await;
    if let Some(why) = codon.interruption() {
        work.outcome = AgentOutcome::Stopped(why, exit);
        return;
    }
    // A rehearsal runs no check, so there is no result to record; its loop ends after the only pass.
    if codon.run.options.rehearsal {
        return;
    }
    let last_line = result.as_ref().err().map(FailedCheck::last_words);
    let message = match result {
        Ok(()) => None,
        Err(failed) if is_last || failed.out_of_time => {
            let (why, remedy) = match (ended_by, is_last) {
                (Some(exceeded), _) => (
                    "its budget is used up, so no iteration follows",
                    exceeded
                        .key_in_hank()
                        .map(|key| format!(": a larger {key} in hank.json lets one follow")),
                ),
                (None, true) => ("no iteration is left", limit_of_loop(codon)),
                (None, false) => ("its time is used up, so no iteration follows", None),
            };
            report_next(codon, why.to_owned()).await;
            let why = format!("{why}{}", remedy.unwrap_or_default());
            let reason = match failed.out_of_time {
                true => check_cut_off(codon, failed.why),
                // The failed check comes last: screens cut a long reason.
                false => FailureReason::unknown(false, format!("{why}; {}", failed.why)),
            };
            work.outcome = AgentOutcome::Rejected {
                exit,
                reason,
                exceeded: ended_by,
            };
            return;
        }
        Err(failed) => {
            let output = hex(&Sha256::digest(failed.outcome()));
            work.loop_stall = comparison.map(|comparison| comparison.stall(Some(output)));
            Some(failed.prompt())
        }
    };
    report_stall(codon, work.loop_stall.as_ref()).await;
    let is_repeated = work.loop_stall.as_ref().is_some_and(|stall| stall.iterations > 0);
    work.loop_check = Some(LoopCheck {
        passed: message.is_none(),
        last_line,
        says: match message {
            Some(message) if is_repeated => Some(format!("{message}\n\n{REPEATED}")),
            message => message,
        },
    });
}

/// Comparison of an iteration with the one before, made before the check of the iteration runs.
struct IterationComparison {
    /// How often the loop had repeated itself before this iteration.
    before: Option<LoopStall>,
    /// Whether this iteration changed no file.
    changed_nothing: bool,
}

impl IterationComparison {
    /// Compares the iteration that ends with this codon. Returns `None` if the codon ends no iteration, or if the loop has no limit for
    /// repetitions.
    async fn at_end_of(codon: &CodonRun<'_>) -> Option<Self> {
        stall_limit(codon)?;
        if !codon.entry.ends_iteration(&codon.run.hank) {
            return None;
        }
        let (before, others_changed_nothing) = codon.run.manager.snapshot().stall_before(codon.entry);
        codon.run.watch.survey(codon).await;
        let changed_nothing = others_changed_nothing && codon.run.watch.files_changed(codon).await == Some(0);
        Some(Self {
            before,
            changed_nothing,
        })
    }

    /// Returns how often the loop has repeated itself with this iteration. `output` is the fingerprint of what the check printed; `None` if no check ran.
    fn stall(self, output: Option<String>) -> LoopStall {
        LoopStall::after(self.before.as_ref(), self.changed_nothing, output)
    }
}

/// Returns how many iterations the loop has had, and the key that allows more, for the end of a sentence.
fn limit_of_loop(codon: &CodonRun<'_>) -> Option<String> {
    let of = &codon.entry.loop_context.as_ref()?.loop_id;
    let mut loops = codon.run.hank.items.iter().map(HankItem::as_loop).zip(0_usize..);
    let (found, index) =
        loops.find_map(|(item, index)| Some((item.filter(|found| found.id == *of)?, index)))?;
    let all = match found.most_iterations()? {
        1 => "the only one".to_owned(),
        most => format!("all {most} iterations"),
    };
    Some(format!(
        " after {all}: raise `hank[{index}].terminateOn.limit` in hank.json for more"
    ))
}

/// Number of repeated iterations after which the loop of the codon counts as stuck; `None` without a limit.
fn stall_limit(codon: &CodonRun<'_>) -> Option<u32> {
    let context = codon.entry.loop_context.as_ref()?;
    let found = codon.run.hank.find_loop(&context.loop_id);
    found.and_then(LoopConfig::stall_limit)
}

/// Reports an iteration that repeats the one before it.
async fn report_stall(codon: &CodonRun<'_>, stall: Option<&LoopStall>) {
    let (Some(stall), Some(most)) = (stall.filter(|stall| stall.iterations > 0), stall_limit(codon)) else {
        return;
    };
    let printed = match stall.output {
        Some(_) => ", and its check printed the same",
        None => "",
    };
    let repeats = match stall.iterations {
        number if number < most => format!("repeats itself ({number} of {most} times)"),
        _ => "is stuck".to_owned(),
    };
    report_next(codon, format!("the loop {repeats}: nothing changed{printed}")).await;
}
