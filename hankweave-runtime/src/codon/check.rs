//! Checks: a codon is complete only when it had the effects that it must have (HANK-66), its answer fits the schema (HANK-90) and the command of its
//! check passes (HANK-61, WIRE-41). Called after the agent and its extensions; `loop_check` uses [`run_check`] for the check of a loop.

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

/// Number of times that the agent continues when effects are missing and the codon has no check.
const REMINDERS: u64 = 1;

/// Maximum length of a command's output in the message to the agent, in bytes.
const MOST_BYTES: usize = 16 << 10;

/// Longest line of the output that an event has, in bytes.
const MOST_OF_LINE: usize = 400;

/// Checks the codon's required effects, its answer and its check command, in this order. As long as one of them does not pass and
/// retries are left, the agent continues and all are checked again.
pub(super) async fn check(
    codon: &CodonRun<'_>,
    mut running: Codon<Running>,
    mut work: AgentRun,
) -> StageResult<(Codon<Running>, AgentRun)> {
    rehearsal::pass_limit(codon, &mut work).await;
    let mut retry_counts = RetryCounts::default();
    loop {
        let Some((exit, may_continue)) = work.checkable(codon) else {
            break;
        };
        let Some(shortfall) = find_shortfall(codon, &work, &exit, may_continue).await else {
            break;
        };
        let (retry, retries) = (retry_counts.next(&shortfall), shortfall.retries);
        if let Some(why) = codon.interruption() {
            work.outcome = AgentOutcome::Stopped(why, exit);
            break;
        }
        if retry > retries || !may_continue || shortfall.out_of_time {
            // After the last retry the codon fails because of its check, even if its budget is used up too.
            let exceeded = work.exceeded(&exit.usage).filter(|_| retry <= retries);
            work.outcome = failed(codon, shortfall, exceeded, exit);
            break;
        }
        let continues = format!("the agent continues (retry {retry} of {retries})");
        let next = match (shortfall.is_reported, shortfall.is_of_result) {
            (true, _) => continues,
            // The reason comes last: it may list many differences from the schema.
            (false, true) => format!("{continues}: {}", shortfall.why),
            (false, false) => format!("{}; {continues}", shortfall.why),
        };
        report_next(codon, next).await;
        settle_costs(codon, &mut running, &exit).await;
        (running, work) = start_extension(codon, running, work, shortfall.prompt).await?;
    }
    Ok((running, work))
}

/// How often the agent has continued.
#[derive(Default)]
struct RetryCounts {
    /// After checks and missing effects.
    checks: u64,
    /// In a row, after answers that do not fit.
    results: u64,
}

impl RetryCounts {
    /// Counts one more retry, and returns its number.
    fn next(&mut self, shortfall: &Shortfall) -> u64 {
        let count = match shortfall.is_of_result {
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
struct Shortfall {
    /// Whether it is the answer that does not fit.
    is_of_result: bool,
    /// The reason, for people.
    why: String,
    /// Message for the agent.
    prompt: String,
    /// Whether an event has reported the reason.
    is_reported: bool,
    /// How often the agent may continue after a shortfall of this kind.
    retries: u64,
    /// Whether the time of the codon is used up.
    out_of_time: bool,
}

/// Returns why the work does not pass; `None` when it does.
async fn find_shortfall(
    codon: &CodonRun<'_>,
    work: &AgentRun,
    exit: &ExitOutcome,
    may_continue: bool,
) -> Option<Shortfall> {
    let check = codon.config.check.as_ref();
    let retries = check.map_or(REMINDERS, |check| check.retries.unwrap_or(RETRIES));
    if let Some(why) = effects::nothing_done(codon, work, exit).await {
        // No retry: only the user can change what the reason names, the prompt or `requires`.
        return Some(Shortfall {
            is_of_result: false,
            why,
            prompt: String::new(),
            is_reported: false,
            retries: 0,
            out_of_time: false,
        });
    }
    if let Some(missing) = effects::missing(codon).await {
        return Some(Shortfall {
            is_of_result: false,
            prompt: missing.prompt(),
            why: missing.why(),
            is_reported: false,
            retries: if effects::can_continue(codon) { retries } else { 0 },
            out_of_time: false,
        });
    }
    if let Some(why) = result::misfit(codon, work, exit) {
        return Some(Shortfall {
            is_of_result: true,
            prompt: result::prompt(&why),
            why,
            is_reported: false,
            retries: if effects::can_continue(codon) {
                result::RETRIES
            } else {
                0
            },
            out_of_time: false,
        });
    }
    // If the agent may not continue, the time of the codon may be used up already, and would stop the command at once.
    let stops_in_time = may_continue;
    let failed = run_check(codon, &check?.run, None, stops_in_time, MOST_BYTES)
        .await
        .err()?;
    Some(Shortfall {
        is_of_result: false,
        prompt: failed.prompt(),
        why: failed.why,
        is_reported: true,
        retries,
        out_of_time: failed.out_of_time,
    })
}

/// The end of work that does not pass; `exceeded` is the limit that leaves nothing for a retry, if one does.
fn failed(
    codon: &CodonRun<'_>,
    shortfall: Shortfall,
    exceeded: Option<BudgetExceeded>,
    mut exit: ExitOutcome,
) -> AgentOutcome {
    let reason = match exceeded {
        _ if shortfall.out_of_time => check_cut_off(codon, shortfall.why),
        None => FailureReason::unknown(true, shortfall.why),
        // The run pauses at the limit: with a larger limit the agent continues, and the work is checked again.
        Some(exceeded) if codon.limits.consequence(&exceeded) == OnExceeded::Pause => {
            exit.verdict = Verdict::Failure {
                reason: FailureReason::unknown(false, shortfall.why),
                context_exceeded: false,
            };
            return AgentOutcome::Ended(exit);
        }
        Some(exceeded) => {
            let used_up = codon.limits.over_all_attempts(exceeded);
            let key = exceeded.key_in_hank().unwrap_or("budget");
            let why = format!(
                "{}; for a retry its budget has nothing left: {used_up} (a larger {key} allows it)",
                shortfall.why
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
    /// The command and `how`, for people.
    pub(super) why: String,
    /// How the command ended.
    how: String,
    printed: Tail,
    /// Whether the command was stopped because the time of the codon was used up.
    pub(super) out_of_time: bool,
}

impl FailedCheck {
    /// Returns how the command ended and the end of its output, for comparison with another run of the command: without times and with sorted lines, because
    /// times differ in each run, and so may the order of lines from two streams.
    pub(super) fn outcome(&self) -> String {
        let text = without_times(&format!("{}\n{}", self.how, self.printed.text()));
        let mut lines: Vec<&str> = text.lines().collect();
        lines.sort_unstable();
        lines.join("\n")
    }

    /// Returns the last line of the output, shortened as in the event of the check, or how the command ended if it printed nothing.
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

/// Runs the command `run` of a check once, publishes its result, and keeps at most `most` bytes of its output. `of` is the loop whose check it is; `None` for
/// the check of the codon. With `stops_in_time` the command is stopped when the time of the codon is used up.
pub(super) async fn run_check(
    codon: &CodonRun<'_>,
    run: &str,
    of: Option<&LoopId>,
    stops_in_time: bool,
    most: usize,
) -> Result<(), FailedCheck> {
    if codon.run.options.rehearsal {
        rehearsal::report(codon.run, codon.entry, RehearsedKind::Run, run.to_owned()).await;
        return Ok(());
    }
    let clock = &*codon.run.world.clock;
    let stopwatch = Stopwatch::start(clock);
    let result = run_command(codon, run, stops_in_time, most).await;
    let (printed, failed) = match &result {
        Ok(printed) => (printed, None),
        Err(failed) => (&failed.printed, Some(failed)),
    };
    let event = Event::CheckCompleted {
        codon_id: codon.entry.codon_id.clone(),
        loop_id: of.cloned(),
        run: run.to_owned(),
        passed: result.is_ok(),
        duration_ms: u64::try_from(stopwatch.elapsed(clock).as_millis()).unwrap_or(u64::MAX),
        why: failed.map(|failed| failed.how.clone()),
        says: printed.last_line().map(|line| excerpt(line, MOST_OF_LINE)),
    };
    codon.run.publish(event).await;
    result.map(drop)
}

/// Runs the command as an item of a rig, and returns the end of its output if it passed.
async fn run_command(
    codon: &CodonRun<'_>,
    run: &str,
    stops_in_time: bool,
    most: usize,
) -> Result<Tail, FailedCheck> {
    let rig = Rig {
        // The option to ignore failures of rigs does not let a check pass.
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
    // For clients the check is the item after those of the codon's rig.
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
    let (result, out_of_time) = tokio::select! {
        biased;
        result = &mut work => (result, false),
        _ = codon.time_is_over(), if stops_in_time => {
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
        _ if out_of_time => "the command was stopped: the time of the codon is over".to_owned(),
        // Without the output: its last line is shown next to the failure.
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
        out_of_time,
    })
}

/// The last lines of an output.
#[derive(Debug)]
struct Tail {
    /// Maximum of `bytes`.
    most: usize,
    lines: VecDeque<String>,
    /// Length of `lines`, with a line break each.
    bytes: usize,
    /// Number of earlier lines that were dropped.
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
        // The longest end of the line that has at most `most` bytes and starts at the start of a character.
        let mut starts = line.len().saturating_sub(self.most)..=line.len();
        let line = starts.find_map(|start| line.get(start..)).unwrap_or_default();
        self.bytes += line.len() + 1;
        self.lines.push_back(line.to_owned());
        // The line break after the last line does not count.
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
        let with_words = lines.clone().rfind(|line| line.contains(char::is_alphanumeric));
        with_words.or_else(|| lines.rfind(|line| !line.trim().is_empty()))
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
