//! `hankweave task executions` and `task show --attempts` (TASK-106): a row for each attempt of a task, with its duration and cost.

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use hankweave_core::budget::time_at_work;
use hankweave_core::codon::CodonExecution;
use hankweave_core::cost::Usd;
use hankweave_core::document::RunRecord;
use hankweave_core::id::TaskId;
use hankweave_core::time::{Timestamp, short_duration};
use hankweave_task_model::registry::TaskRow;
use hankweave_task_model::task::TaskStatus;
use hankweave_task_model::{AttemptCost, LogQuery, TaskExecution, with_codons};
use hankweave_tasks::lifecycle::ORPHANED;
use serde_json::json;

use crate::args::Global;
use crate::directory::lived;
use crate::holding::{AbsentWorker, TaskHolders};
use crate::receipt;
use crate::registry::Registry;
use crate::running_tasks::{absent_worker, cost_so_far};
use crate::state::read_execution;
use crate::task_lines::{Attempter, why_requeued};
use crate::terminal::exit::CliError;
use crate::terminal::output;
use crate::terminal::report::money;
use crate::terminal::screen::{local_second, local_time, one_line};

/// Returns the attempts of a task, oldest first.
pub(super) async fn attempts(registry: &Registry, id: &TaskId) -> Result<Vec<TaskExecution>, CliError> {
    let lines = registry.coordinator.log_lines(id.clone(), 0).await;
    Ok(hankweave_task_model::executions(
        &lines.map_err(|error| registry.failure(&error))?,
    ))
}

/// Returns the attempts of a task, with the codons that the task's log on this machine has.
pub(super) async fn attempts_with_codons(
    registry: &Registry,
    row: &TaskRow,
) -> Result<Vec<TaskExecution>, CliError> {
    let attempts = attempts(registry, row.id()).await?;
    let files = registry.files(row);
    let log = files.run(|files| files.load_log(&LogQuery::default())).await;
    Ok(match log {
        Ok(log) => with_codons(attempts, &log.entries),
        // Files of another registry's task say nothing of this one.
        Err(_) => attempts,
    })
}

/// Attempts of a task with their costs so far.
pub(super) struct CountedAttempts {
    pub(super) attempts: Vec<TaskExecution>,
    /// Known cost of attempts that lost their workers, without the part that `attempts` has.
    pub(super) lost: Usd,
}

impl CountedAttempts {
    /// Adds the cost so far to the last attempt, if it is open or lost its worker.
    pub(super) async fn of(registry: &Registry, row: &TaskRow, mut attempts: Vec<TaskExecution>) -> Self {
        let so_far = cost_so_far(registry, row).await.unwrap_or_default();
        // If the last attempt lost its worker, the files here may know more of its cost than was noted when the task was requeued.
        let is_lost = |last: &TaskExecution| last.requeued && last.cost() == AttemptCost::Unknown;
        let is_uncounted = |last: &&mut TaskExecution| {
            last.ended_at.is_none() || (is_lost(last) && so_far.last_attempt_cost_is_lower_bound)
        };
        let uncounted = attempts
            .last_mut()
            .filter(|last| !last.by_hand && is_uncounted(last));
        if let Some(last) = uncounted {
            last.cost = Some(so_far.last_attempt_cost);
            last.cost_is_lower_bound = so_far.last_attempt_cost_is_lower_bound;
        }
        let in_attempts = attempts.iter().map(|attempt| match attempt.cost() {
            AttemptCost::Known { cost, .. } => cost,
            AttemptCost::Unknown | AttemptCost::Uncounted => Usd::ZERO,
        });
        let in_attempts: Usd = in_attempts.sum();
        Self {
            attempts,
            lost: so_far.cost.saturating_sub(in_attempts),
        }
    }
}

/// Words next to the cost that belongs to no attempt of the table.
pub(super) const OF_LOST: &str =
    "at least, more of attempts that lost their workers, as far as it is known here";

pub(super) async fn executions(
    global: &Global,
    registry: &Registry,
    id: &TaskId,
) -> Result<ExitCode, CliError> {
    let row = registry.task(id).await?;
    let attempts = attempts_with_codons(registry, &row).await?;
    let CountedAttempts { attempts, lost } = CountedAttempts::of(registry, &row, attempts).await;
    if global.json() {
        return output::print_json(&json!({"executions": attempts, "lostAttemptsCost": lost}));
    }
    if attempts.is_empty() {
        output::print(format!("no attempt of {id} has started\n"))?;
        return Ok(ExitCode::SUCCESS);
    }
    let open = OpenAttempt::of(registry, &row).await?;
    let time = if global.verbose > 0 {
        local_second
    } else {
        local_time
    };
    let recorded = RecordedWork::of(&registry.workspace_of(&row));
    let lines = (1..).zip(&attempts);
    let mut text: String = lines
        .map(|(number, attempt)| line(number, attempt, recorded.within(attempt), &open, time))
        .collect();
    if lost > Usd::ZERO {
        text += &format!("     {lost} {OF_LOST}\n");
    }
    output::print(text)?;
    Ok(ExitCode::SUCCESS)
}

/// The attempt that has not ended; without one, its values are not used.
struct OpenAttempt {
    /// Its outcome so far: `running` or `suspended`.
    word: &'static str,
    worked: WorkedUntil,
}

/// End of the time that an open attempt has worked.
#[derive(Clone, Copy)]
enum WorkedUntil {
    /// It still works at this time.
    Now(Timestamp),
    /// Its worker is suspended or no longer exists. It has worked at least until the last renewal of the lease, where that is known.
    LastRenewal(Option<Timestamp>),
}

impl OpenAttempt {
    async fn of(registry: &Registry, row: &TaskRow) -> Result<Self, CliError> {
        let now = registry.coordinator.now().await;
        let now = now.map_err(|error| registry.failure(&error))?;
        let holders = TaskHolders::of(registry, std::slice::from_ref(row)).await?;
        let absent = holders
            .as_ref()
            .and_then(|holders| Some((holders, absent_worker(registry, holders, row)?)));
        let (word, worked) = match absent {
            Some((holders, absent)) if !absent.works_on() => {
                let word = match absent {
                    AbsentWorker::Suspended { .. } => "suspended",
                    _ => "running",
                };
                (word, WorkedUntil::LastRenewal(holders.renewed_at(row)))
            }
            _ => ("running", WorkedUntil::Now(now)),
        };
        Ok(Self { word, worked })
    }
}

/// Recorded time at work of one run or of several together.
#[derive(Clone, Copy)]
struct RecordedTime {
    worked: Duration,
    /// No run crashed or still works, so that `worked` is exact.
    is_whole: bool,
}

impl RecordedTime {
    fn words(self) -> String {
        let bound = if self.is_whole { "" } else { "≥ " };
        format!("{bound}{}", short_duration(self.worked))
    }
}

/// Start and time at work of each run in the workspace of a task on this machine.
struct RecordedWork(Vec<(Timestamp, RecordedTime)>);

impl RecordedWork {
    fn of(workspace: &Path) -> Self {
        let state = receipt::has_record(workspace).then(|| read_execution(workspace).ok());
        let Some(state) = state.flatten() else {
            return Self(Vec::new());
        };
        let of_codon = |codon: &CodonExecution| match codon.is_terminal() {
            true => time_at_work(codon),
            false => lived(workspace, codon).unwrap_or_default(),
        };
        let of_run = |run: &RunRecord| RecordedTime {
            worked: run.codons.iter().map(|codon| of_codon(codon)).sum(),
            is_whole: run
                .codons
                .iter()
                .all(|codon| codon.is_terminal() && !codon.crashed()),
        };
        let runs = state.runs.iter();
        Self(runs.map(|run| (run.start_time, of_run(run))).collect())
    }

    /// Returns the time at work of the runs of an attempt; `None` where none is recorded.
    fn within(&self, attempt: &TaskExecution) -> Option<RecordedTime> {
        let is_of = |(start, _): &&(Timestamp, RecordedTime)| {
            *start >= attempt.started_at && attempt.ended_at.is_none_or(|end| *start <= end)
        };
        let own = || self.0.iter().filter(is_of).map(|(_, time)| time);
        let worked: Duration = own().map(|time| time.worked).sum();
        (!worked.is_zero()).then(|| RecordedTime {
            worked,
            is_whole: own().all(|time| time.is_whole),
        })
    }
}

/// Returns the duration of an attempt in words; `recorded` is the time at work that its runs have recorded.
fn duration_words(execution: &TaskExecution, recorded: Option<RecordedTime>, open: &OpenAttempt) -> String {
    let since_start = |end: Timestamp| short_duration(execution.worked(end));
    // An attempt that lost its worker ended at an unknown time before it was requeued or cancelled.
    let is_cancelled = execution.status == TaskStatus::Cancelled.as_str();
    let is_ended_from_outside = matches!(execution.error.as_deref(), Some(ORPHANED | "DETACHED"))
        || (is_cancelled && (execution.cost.is_none() || execution.cost_is_lower_bound));
    let is_lost = is_ended_from_outside && !execution.by_hand;
    match (execution.ended_at, open.worked) {
        (Some(end), _) if is_lost => match recorded {
            Some(time) => time.words(),
            None => format!("≤ {}", since_start(end)),
        },
        (Some(end), _) | (None, WorkedUntil::Now(end)) => since_start(end),
        (None, WorkedUntil::LastRenewal(renewed)) => {
            let renewed = renewed.map(|end| execution.worked(end));
            let worked = recorded.map(|time| time.worked).max(renewed);
            worked.map_or_else(
                || "unknown".to_owned(),
                |worked| format!("≥ {}", short_duration(worked)),
            )
        }
    }
}

/// Returns a row of number, outcome, worker, start, end, duration, cost and error.
fn line(
    number: usize,
    execution: &TaskExecution,
    recorded: Option<RecordedTime>,
    open: &OpenAttempt,
    time: fn(Timestamp) -> String,
) -> String {
    let end = execution.ended_at.map_or_else(|| "-".to_owned(), time);
    let outcome = match execution.ended_at {
        Some(_) => execution.outcome(),
        None => open.word,
    };
    let cost = execution.cost().words(money);
    let by = Attempter {
        name: &execution.agent_id,
        by_hand: execution.by_hand,
    };
    // The error of an attempt that ended without a result is a code.
    let error = execution
        .error
        .as_deref()
        .map(|error| format!("  {}", one_line(why_requeued(error, Some(by)))));
    format!(
        "{number:>3}  {:<10} {:<16}  {:<12}  {end:<12}  {:>7}  {cost:>10}{}\n",
        outcome,
        one_line(&execution.agent_id),
        time(execution.started_at),
        duration_words(execution, recorded, open),
        error.unwrap_or_default(),
    )
}
