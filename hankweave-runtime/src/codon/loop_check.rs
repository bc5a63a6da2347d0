//! Loops until a check passes: after the last codon of an iteration the command of the loop runs (HANK-62). It is also noted whether the loop only
//! repeats itself (STATE-69).

use hankweave_core::agent::FailureReason;
use hankweave_core::codon::{BudgetExceeded, LoopCheck, LoopStall};
use hankweave_core::hank::{HankItem, LoopConfig, OnExceeded};
use sha2::{Digest, Sha256};

use super::budget::check_cut_off;
use super::check::{FailedCheck, examine, report_next};
use super::context::CodonRun;
use super::run::{AgentOutcome, AgentRun};
use crate::world::ids::hex;

/// How much of what a command printed is kept in state.json for the next iteration.
const MOST_BYTES: usize = 4 << 10;

/// Message to the next iteration if the last one had no effect.
const REPEATED: &str = "No file has changed in the iteration before this one, and the check printed the same as before. Try another way, or say what is in the way.";

/// Runs the check of the loop when it is due. When no iteration can follow, a codon whose loop has not passed has failed.
pub(super) async fn check(codon: &CodonRun<'_>, work: &mut AgentRun) {
    let Some((exit, in_time)) = work.checkable(codon) else {
        return;
    };
    // At a limit of the whole the run pauses before the next iteration, which a higher limit lets follow.
    let ends = |exceeded: &BudgetExceeded| codon.limits.consequence(exceeded) != OnExceeded::Pause;
    let ended_by = work.exceeded(&exit.usage).filter(ends);
    let ends_loop = ended_by.is_some();
    // Before the check, whose command may write files itself.
    let repeats = Repeats::seen(codon).await;
    let Some((run, is_last)) = codon.entry.due_check(&codon.run.hank, ends_loop) else {
        work.loop_stall = repeats.map(|repeats| repeats.stall(None));
        report_stall(codon, work.loop_stall.as_ref()).await;
        return;
    };
    let of = codon.entry.loop_context.as_ref().map(|place| &place.loop_id);
    let said = examine(codon, run, of, in_time, MOST_BYTES).await;
    if let Some(why) = codon.interruption() {
        work.outcome = AgentOutcome::Stopped(why, exit);
        return;
    }
    // Nothing was run, so there is no result to record; a rehearsed loop ends after its only pass.
    if codon.run.options.rehearsal {
        return;
    }
    let last_line = said.as_ref().err().map(FailedCheck::last_words);
    let says = match said {
        Ok(()) => None,
        Err(missed) if is_last || missed.is_over => {
            let (why, helps) = match (ended_by, is_last) {
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
            let why = format!("{why}{}", helps.unwrap_or_default());
            let reason = match missed.is_over {
                true => check_cut_off(codon, missed.why),
                // Screens cut a long reason, and what the check printed may be long.
                false => FailureReason::unknown(false, format!("{why}; {}", missed.why)),
            };
            work.outcome = AgentOutcome::Rejected {
                exit,
                reason,
                exceeded: ended_by,
            };
            return;
        }
        Err(missed) => {
            let output = hex(&Sha256::digest(missed.outcome()));
            work.loop_stall = repeats.map(|repeats| repeats.stall(Some(output)));
            Some(missed.prompt())
        }
    };
    report_stall(codon, work.loop_stall.as_ref()).await;
    let is_repeated = work.loop_stall.as_ref().is_some_and(|stall| stall.iterations > 0);
    work.loop_check = Some(LoopCheck {
        passed: says.is_none(),
        last_line,
        says: says.map(|says| {
            if is_repeated {
                format!("{says}\n\n{REPEATED}")
            } else {
                says
            }
        }),
    });
}

/// Earlier facts with which an iteration is compared.
struct Repeats {
    before: Option<LoopStall>,
    changed_nothing: bool,
}

impl Repeats {
    /// Compares the iteration that ends with this codon. Returns `None` if the codon ends no iteration, or if no limit
    /// needs the comparison.
    async fn seen(codon: &CodonRun<'_>) -> Option<Self> {
        limit(codon)?;
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

/// Iterations after which the loop of the codon is stuck.
fn limit(codon: &CodonRun<'_>) -> Option<u32> {
    let context = codon.entry.loop_context.as_ref()?;
    let found = codon.run.hank.find_loop(&context.loop_id);
    found.and_then(LoopConfig::stall_limit)
}

/// Reports an iteration that repeats the one before it.
async fn report_stall(codon: &CodonRun<'_>, stall: Option<&LoopStall>) {
    let (Some(stall), Some(most)) = (stall.filter(|stall| stall.iterations > 0), limit(codon)) else {
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
