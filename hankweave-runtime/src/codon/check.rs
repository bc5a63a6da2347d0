//! Checks: a codon is complete only when it had the effects that it must have (HANK-66), its answer fits (HANK-90) and the command of its check passes (HANK-61, WIRE-41).

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use hankweave_core::agent::{ExitOutcome, FailureReason, Verdict};
use hankweave_core::codon::{BudgetExceeded, Codon, Running, without_times};
use hankweave_core::hank::{OnExceeded, RehearsedKind, RigAction, RigCommand, RigItem, WorkingDirectory};
use hankweave_core::id::LoopId;
use hankweave_core::view::excerpt;
use hankweave_core::wire::Event;

use super::budget::check_cut_off;
use super::context::{CodonRun, StageResult};
use super::effects;
use super::extend::start_extension;
use super::finish::settle_costs;
use super::rehearsal;
use super::result;
use super::run::{AgentOutcome, AgentRun};
use super::set_up;
use crate::rig::{Rig, RigError, RigEvent, RigFailure};
use crate::world::suspension::Stopwatch;

/// Default number of times that the agent continues when its work does not pass.
const RETRIES: u64 = 3;

/// Maximum length of a command's output in the message to the agent, in bytes.
const MOST_BYTES: usize = 16 << 10;

/// Longest line of the output that an event has, in bytes.
const MOST_OF_LINE: usize = 400;

/// How often the agent continues when effects are missing and there is no check.
const REMINDERS: u64 = 1;

/// Checks the effects that the codon must have, its answer and its check command. Lets its agent continue as long as the
/// work does not pass and retries are left.
pub(super) async fn check(
    codon: &CodonRun<'_>,
    mut running: Codon<Running>,
    mut work: AgentRun,
) -> StageResult<(Codon<Running>, AgentRun)> {
    rehearsal::pass_limit(codon, &mut work).await;
    let mut tries = Tries::default();
    loop {
        let Some((exit, may_go_on)) = work.checkable(codon) else {
            break;
        };
        let Some(missed) = miss(codon, &work, &exit, may_go_on).await else {
            break;
        };
        let (retry, retries) = (tries.next(&missed), missed.retries);
        if let Some(why) = codon.interruption() {
            work.outcome = AgentOutcome::Stopped(why, exit);
            break;
        }
        if retry > retries || !may_go_on || missed.is_over {
            // After the last retry the codon fails because of its check, even if its budget is used up too.
            let exceeded = work.exceeded(&exit.usage).filter(|_| retry <= retries);
            work.outcome = failed(codon, missed, exceeded, exit);
            break;
        }
        let goes_on = format!("the agent continues (retry {retry} of {retries})");
        let next = match (missed.is_told, missed.is_of_result) {
            (true, _) => goes_on,
            // The differences may be many.
            (false, true) => format!("{goes_on}: {}", missed.why),
            (false, false) => format!("{}; {goes_on}", missed.why),
        };
        report_next(codon, next).await;
        settle_costs(codon, &mut running, &exit).await;
        (running, work) = start_extension(codon, running, work, missed.prompt).await?;
    }
    Ok((running, work))
}

/// How often the agent has continued.
#[derive(Default)]
struct Tries {
    /// After checks and missing effects.
    checks: u64,
    /// In a row, after answers that do not fit.
    results: u64,
}

impl Tries {
    /// Counts one more retry, and returns its number.
    fn next(&mut self, missed: &Miss) -> u64 {
        let count = match missed.is_of_result {
            true => &mut self.results,
            false => {
                self.results = 0;
                &mut self.checks
            }
        };
        *count += 1;
        *count
    }
}

/// Why the work does not pass.
struct Miss {
    /// It is the answer that does not fit.
    is_of_result: bool,
    why: String,
    /// Message for the agent.
    prompt: String,
    /// Whether an event has reported the reason.
    is_told: bool,
    /// How often the agent may continue after one.
    retries: u64,
    /// Whether the time of the codon is used up.
    is_over: bool,
}

/// Returns why the work does not pass; `None` when it does.
async fn miss(codon: &CodonRun<'_>, work: &AgentRun, exit: &ExitOutcome, may_go_on: bool) -> Option<Miss> {
    let check = codon.config.check.as_ref();
    let retries = check.map_or(REMINDERS, |check| check.retries.unwrap_or(RETRIES));
    if let Some(why) = effects::nothing_done(codon, work, exit).await {
        return Some(Miss {
            is_of_result: false,
            why,
            prompt: String::new(),
            is_told: false,
            retries: 0,
            is_over: false,
        });
    }
    if let Some(missing) = effects::missing(codon).await {
        return Some(Miss {
            is_of_result: false,
            prompt: missing.prompt(),
            why: missing.why(),
            is_told: false,
            retries: if effects::can_continue(codon) { retries } else { 0 },
            is_over: false,
        });
    }
    if let Some(why) = result::misfit(codon, work, exit) {
        return Some(Miss {
            is_of_result: true,
            prompt: result::prompt(&why),
            why,
            is_told: false,
            retries: if effects::can_continue(codon) {
                result::RETRIES
            } else {
                0
            },
            is_over: false,
        });
    }
    let missed = examine(codon, &check?.run, None, may_go_on, MOST_BYTES)
        .await
        .err()?;
    Some(Miss {
        is_of_result: false,
        prompt: missed.prompt(),
        why: missed.why,
        is_told: true,
        retries,
        is_over: missed.is_over,
    })
}

/// The end of work that does not pass; `exceeded` is the limit that leaves nothing for a retry.
fn failed(
    codon: &CodonRun<'_>,
    missed: Miss,
    exceeded: Option<BudgetExceeded>,
    mut exit: ExitOutcome,
) -> AgentOutcome {
    let reason = match exceeded {
        _ if missed.is_over => check_cut_off(codon, missed.why),
        None => FailureReason::unknown(true, missed.why),
        // The limit ends the codon: with a larger one its agent continues, and the work is checked again.
        Some(exceeded) if codon.limits.consequence(&exceeded) == OnExceeded::Pause => {
            exit.verdict = Verdict::Failure {
                reason: FailureReason::unknown(false, missed.why),
                context_exceeded: false,
            };
            return AgentOutcome::Ended(exit);
        }
        Some(exceeded) => {
            let used_up = codon.limits.over_all_attempts(exceeded);
            let key = exceeded.key_in_hank().unwrap_or("budget");
            let why = format!(
                "{}; for a retry its budget has nothing left: {used_up} (a larger {key} allows it)",
                missed.why
            );
            FailureReason::unknown(false, why)
        }
    };
    AgentOutcome::Rejected {
        exit,
        reason,
        exceeded,
    }
}

/// Reports what follows a check that did not pass; the check itself is an event of its own.
pub(super) async fn report_next(codon: &CodonRun<'_>, what: String) {
    let message = format!("{}: {what}", codon.entry.codon_id);
    codon.run.publish(Event::Info { message }).await;
}

/// A check that was not passed.
pub(super) struct FailedCheck {
    pub(super) why: String,
    /// How the command ended.
    how: String,
    printed: Tail,
    /// Whether the time of the codon is used up.
    pub(super) is_over: bool,
}

impl FailedCheck {
    /// How the command ended and the end of its output, without what differs from one time to the next by itself: times, and the order in which the lines of its two
    /// streams came.
    pub(super) fn outcome(&self) -> String {
        let text = without_times(&format!("{}\n{}", self.how, self.printed.text()));
        let mut lines: Vec<&str> = text.lines().collect();
        lines.sort_unstable();
        lines.join("\n")
    }

    /// Returns the last line of its output, cut, as its event has it, or how the command ended where it printed nothing.
    pub(super) fn last_words(&self) -> String {
        let line = self.printed.last_line();
        line.map_or_else(|| self.how.clone(), |line| excerpt(line, MOST_OF_LINE))
    }

    /// Returns the message for the agent.
    pub(super) fn prompt(&self) -> String {
        let (why, printed) = (&self.why, self.printed.text());
        format!(
            "Your work was checked, and {why}. It printed:\n\n{printed}\n\nMend what is wrong. The check is done again when you have finished."
        )
    }
}

/// Runs the command once, and keeps at most `most` bytes of what it prints; the time of the codon ends it, where that is still to come.
pub(super) async fn examine(
    codon: &CodonRun<'_>,
    run: &str,
    of: Option<&LoopId>,
    in_time: bool,
    most: usize,
) -> Result<(), FailedCheck> {
    if codon.run.options.rehearsal {
        rehearsal::report(codon.run, codon.entry, RehearsedKind::Run, run.to_owned()).await;
        return Ok(());
    }
    let clock = &*codon.run.world.clock;
    let begun = Stopwatch::start(clock);
    let result = run_once(codon, run, in_time, most).await;
    let (printed, failed) = match &result {
        Ok(printed) => (printed, None),
        Err(failed) => (&failed.printed, Some(failed)),
    };
    let event = Event::CheckCompleted {
        codon_id: codon.entry.codon_id.clone(),
        loop_id: of.cloned(),
        run: run.to_owned(),
        passed: result.is_ok(),
        duration_ms: u64::try_from(begun.elapsed(clock).as_millis()).unwrap_or(u64::MAX),
        why: failed.map(|failed| failed.how.clone()),
        says: printed.last_line().map(|line| excerpt(line, MOST_OF_LINE)),
    };
    codon.run.publish(event).await;
    result.map(drop)
}

/// Returns what the command printed, if it passed.
async fn run_once(codon: &CodonRun<'_>, run: &str, in_time: bool, most: usize) -> Result<Tail, FailedCheck> {
    let rig = Rig {
        ignore_failures: false,
        ..set_up::rig(codon).await
    };
    let command = RigCommand {
        run: run.to_owned(),
        working_directory: WorkingDirectory::Project,
    };
    let items = [RigItem {
        action: RigAction::Command { command },
        allow_failure: false,
    }];
    let printed = Mutex::new(Tail::new(most));
    let index = codon.config.rig_setup.len();
    let report = |event| {
        let event = match event {
            RigEvent::Output { stream, line, .. } => {
                printed.lock().unwrap_or_else(PoisonError::into_inner).push(&line);
                RigEvent::Output { index, stream, line }
            }
            RigEvent::Began { .. } => RigEvent::Began { index },
            other => other,
        };
        codon.run.publish(set_up::translate(codon, event))
    };
    let work = rig.run(&items, report);
    tokio::pin!(work);
    let (result, is_over) = tokio::select! {
        biased;
        result = &mut work => (result, false),
        _ = codon.time_is_over(), if in_time => {
            rig.cancel.cancel();
            (work.await, true)
        }
    };
    let printed = std::mem::replace(
        &mut *printed.lock().unwrap_or_else(PoisonError::into_inner),
        Tail::new(most),
    );
    let Err(error) = result else {
        return Ok(printed);
    };
    let how = match &error {
        _ if is_over => "the command was stopped: the time of the codon is over".to_owned(),
        // The last line is shown next to the failure.
        RigError::Step {
            failure: RigFailure::CommandFailed { exit, .. },
            ..
        } => format!("the command {exit}"),
        RigError::Step { failure, .. } => failure.to_string(),
        RigError::Cancelled { .. } => "the command was stopped".to_owned(),
    };
    Err(FailedCheck {
        why: format!("the check `{run}` has not passed: {how}"),
        how,
        printed,
        is_over,
    })
}

/// The last lines of an output.
#[derive(Debug)]
struct Tail {
    /// How many bytes they are at most.
    most: usize,
    lines: VecDeque<String>,
    bytes: usize,
    left_out: u64,
}

impl Tail {
    const fn new(most: usize) -> Self {
        Self {
            most,
            lines: VecDeque::new(),
            bytes: 0,
            left_out: 0,
        }
    }

    fn push(&mut self, line: &str) {
        let mut ends = line.len().saturating_sub(self.most)..=line.len();
        let line = ends.find_map(|start| line.get(start..)).unwrap_or_default();
        self.bytes += line.len() + 1;
        self.lines.push_back(line.to_owned());
        while self.bytes > self.most + 1 {
            let Some(first) = self.lines.pop_front() else {
                break;
            };
            self.bytes -= first.len() + 1;
            self.left_out += 1;
        }
    }

    /// Returns the last line with a letter or a digit, or else the last line that is not empty.
    fn last_line(&self) -> Option<&str> {
        let mut lines = self.lines.iter().map(String::as_str);
        let told = lines.clone().rfind(|line| line.contains(char::is_alphanumeric));
        told.or_else(|| lines.rfind(|line| !line.trim().is_empty()))
    }

    fn text(&self) -> String {
        let lines = self.lines.iter().map(String::as_str);
        let text = lines.collect::<Vec<_>>().join("\n");
        match self.left_out {
            0 if text.is_empty() => "(nothing)".to_owned(),
            0 => text,
            left_out => format!("({left_out} lines before this are left out)\n{text}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // covers: HANK-61
    #[test]
    fn only_the_last_lines_of_an_output_are_told() {
        let mut tail = Tail::new(MOST_BYTES);
        assert_eq!(tail.text(), "(nothing)");
        for number in 0..100_000 {
            tail.push(&format!("line {number}"));
        }
        let text = tail.text();
        assert!(text.ends_with("\nline 99999") && text.contains("lines before this are left out"));
        assert!(text.len() < MOST_BYTES + 100 && tail.bytes <= MOST_BYTES + 1);
        tail.push(&"ä".repeat(MOST_BYTES));
        assert_eq!(tail.lines.len(), 1);
        assert_eq!(tail.lines[0].len(), MOST_BYTES);
    }
}
