//! `hankweave op` and `hankweave undo` (CLI-31, CLI-32). An operation is what changed the files and the record of a directory: a run, rollback, undo,
//! restore or cleanup. `op log` and `op show` print them; `undo` and `op restore` are rollbacks.

use std::collections::HashSet;
use std::fmt::Write;
use std::path::Path;
use std::process::ExitCode;

use anstyle::{AnsiColor, Style};
use console::measure_text_width;
use hankweave_core::cost::Usd;
use hankweave_core::document::{
    ContinuationReason, ContinuationSource, HankweaveState, Operation, Removed, RunRecord, StartingConditions,
};
use hankweave_core::id::{CodonId, RunId};
use hankweave_core::thread::{self, LoggedOperation, UndoneAttempts};
use hankweave_core::time::Timestamp;
use hankweave_runtime::checkpoint::GitHistory;
use hankweave_runtime::{ExecutionDir, RollbackTarget};
use serde::Serialize;

use crate::args::{Global, OpCommand, OpLogArgs, OpShowArgs, UndoArgs};
use crate::directory::{process_of, takes_clients};
use crate::hints::HintCommands;
use crate::owning_task::check_by_hand;
use crate::rollback::{RollbackRequest, roll_back};
use crate::state::read_execution;
use crate::terminal::exit::{CliError, CliErrorKind};
use crate::terminal::output;
use crate::terminal::report::{RunProcess, codon_words, counted, money};
use crate::terminal::screen::{SafeText, local_time, one_line};
use crate::terminal::shell::word;

pub(crate) fn op(global: &Global, command: &OpCommand) -> Result<ExitCode, CliError> {
    match command {
        OpCommand::Log(args) => log(global, args),
        OpCommand::Show(args) => show(global, args),
        OpCommand::Restore(args) => {
            let target = RollbackTarget::Operation(args.id.clone());
            let request = RollbackRequest {
                execution: &args.execution.execution,
                target,
                dry_run: args.dry_run,
                asks: !args.yes,
            };
            roll_back(global, &request)
        }
    }
}

/// Undoes the newest operation that can be undone: a rollback of a live run through that run, everything else by [`roll_back`].
pub(crate) fn undo(global: &Global, args: &UndoArgs) -> Result<ExitCode, CliError> {
    let execution = &args.execution.execution;
    if !args.dry_run
        && takes_clients(execution)
        && let Some(rollback) = thread::undoable(&read_execution(execution)?)
    {
        check_by_hand(execution, "undo")?;
        return crate::remote::undo_rollback(global, execution, &rollback.id);
    }
    let request = RollbackRequest {
        execution: &args.execution.execution,
        target: RollbackTarget::Undo,
        dry_run: args.dry_run,
        asks: !args.yes,
    };
    roll_back(global, &request)
}

/// An operation in `op log` and `op show`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct OperationRow {
    id: String,
    /// `run`, `rollback`, `undo`, `restore` or `cleanup`.
    kind: &'static str,
    /// Start of a run; time of every other operation.
    at: Timestamp,
    /// The command that did it, without `hankweave`.
    command: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    run_id: Option<RunId>,
    /// Outcome in words.
    outcome: String,
    /// Spending of a run; an undo does not return it.
    cost: Usd,
    /// More was spent than is known.
    cost_is_lower_bound: bool,
    /// Number of files that the operation changed; `None` where checkpoints do not show it.
    #[serde(skip_serializing_if = "Option::is_none")]
    files: Option<u64>,
    /// Codon of the run that crashed, so that no checkpoint has its last changes.
    #[serde(skip)]
    crashed: Option<CodonId>,
    /// Whether the workspace still has the changes of that codon.
    #[serde(skip)]
    has_crash_files: bool,
    /// The operation no longer counts: it was undone, or its codons were run again.
    undone: bool,
    /// A cleanup has removed the logs of the run.
    cleaned: bool,
    /// Whether the files after the operation can be restored: no cleanup has removed their checkpoint.
    restorable: bool,
    /// Items that this cleanup removed.
    #[serde(skip_serializing_if = "Option::is_none")]
    removed: Option<Removed>,
    /// Id of the operation that this one undid.
    #[serde(skip_serializing_if = "Option::is_none")]
    undoes: Option<String>,
    /// Position before the operation; `None` if there was none, as before the first run.
    #[serde(skip_serializing_if = "Option::is_none")]
    before: Option<ContinuationSource>,
    /// Position after the operation.
    #[serde(skip_serializing_if = "Option::is_none")]
    after: Option<ContinuationSource>,
}

impl OperationRow {
    /// Returns the row, except `undone`, `cleaned` and `restorable`, which [`rows`] fills in. `process` is that of the newest run.
    fn of(
        state: &HankweaveState,
        history: Option<&GitHistory>,
        logged: LoggedOperation<'_>,
        process: RunProcess,
        undone_attempts: &UndoneAttempts<'_>,
    ) -> Self {
        let (before, after) = (logged.before(state), logged.after(state));
        let row = |kind, at, command, outcome| Self {
            id: logged.id(),
            kind,
            at,
            command,
            run_id: None,
            outcome,
            cost: Usd::ZERO,
            cost_is_lower_bound: false,
            files: None,
            crashed: None,
            has_crash_files: false,
            undone: false,
            cleaned: false,
            restorable: true,
            removed: None,
            undoes: None,
            before: before.clone(),
            after: after.clone(),
        };
        match logged {
            LoggedOperation::Run(run) => Self {
                crashed: crashed(run, process),
                has_crash_files: state.runs.front().is_some_and(|last| last.run_id == run.run_id)
                    && state.pending_rollback.is_none(),
                run_id: Some(run.run_id.clone()),
                cost: run.spend(),
                cost_is_lower_bound: run.spends_at_least(),
                files: match checkpoints_have_all(run) {
                    true => changed_files(history, before.as_ref(), after.as_ref()),
                    false => None,
                },
                ..row(
                    "run",
                    run.start_time,
                    command(run).to_owned(),
                    run_outcome(run, process, undone_attempts),
                )
            },
            LoggedOperation::Recorded(operation) => Self {
                files: Some(operation.files),
                undoes: operation.undoes.clone(),
                removed: operation.removed.clone(),
                ..row(
                    operation.kind.as_str(),
                    operation.at,
                    operation.command.clone(),
                    match &operation.removed {
                        Some(removed) => removed_words(removed),
                        None => position_words(&operation.after),
                    },
                )
            },
        }
    }
}

/// Returns the codon in which a run crashed; `None` if it did not.
fn crashed(run: &RunRecord, process: RunProcess) -> Option<CodonId> {
    let newest = run.codons.last()?;
    let is_open = !newest.is_terminal() && process == RunProcess::None;
    (is_open || newest.crashed()).then(|| newest.codon_id().clone())
}

/// Whether checkpoints have all changes of a run's codons. They lack those of a codon that is open or has crashed.
fn checkpoints_have_all(run: &RunRecord) -> bool {
    let newest = run.codons.last();
    newest.is_none_or(|newest| newest.is_terminal() && !newest.crashed())
}

/// Returns `removed the logs of 2 runs and 4 checkpoints`.
fn removed_words(removed: &Removed) -> String {
    let runs = counted(removed.runs.len(), "run");
    let checkpoints = counted(removed.checkpoints.len(), "checkpoint");
    format!("removed the logs of {runs} and {checkpoints}")
}

/// Returns the command that started a run.
const fn command(run: &RunRecord) -> &'static str {
    match &run.starting_conditions {
        StartingConditions::Fresh { rehearsal: true, .. } => "run --rehearse",
        StartingConditions::Fresh { .. } => "run",
        StartingConditions::Continuation { reason, .. } => match reason {
            Some(ContinuationReason::Retry) => "run (ran the last codon again)",
            Some(ContinuationReason::Rollback) => "run (continued after a rollback)",
            Some(ContinuationReason::Continue) | None => "run (continued)",
        },
    }
}

/// Largest number of codons that a line names.
const MOST_CODONS: usize = 4;

/// Returns `one completed, two skipped`. If some of the codons no longer count, these are marked; if none counts, the row is marked as a whole.
fn run_outcome(run: &RunRecord, process: RunProcess, undone_attempts: &UndoneAttempts<'_>) -> String {
    let is_undone = |at: usize| undone_attempts.contains(&(&run.run_id, at));
    let some_count = !(0..run.codons.len()).all(is_undone);
    let ended = run.codons.iter().enumerate().map(|(at, codon)| {
        let undone = match some_count && is_undone(at) {
            true => " (undone or run again)",
            false => "",
        };
        let is = match codon.is_terminal() || process == RunProcess::None {
            true => "",
            false => "is ",
        };
        format!("{} {is}{}{undone}", codon.codon_id(), codon_words(codon, process))
    });
    let mut words: Vec<String> = ended.collect();
    if words.is_empty() {
        return "nothing ran".to_owned();
    }
    // The last codon stays: it says how the run ended.
    let more = words.len().saturating_sub(MOST_CODONS);
    if more > 0 {
        words.splice(MOST_CODONS - 1..words.len() - 1, [format!("{more} more")]);
    }
    words.join(", ")
}

/// Returns `to two, checkpoint 77b0e2c1d4`.
fn position_words(source: &ContinuationSource) -> String {
    let sha = source.checkpoint_sha.short();
    match &source.after_codon {
        Some(codon) => format!("to {codon}, checkpoint {sha}"),
        None => format!("to the beginning, checkpoint {sha}"),
    }
}

/// Returns the number of files that differ between two positions; `None` if that is unknown.
fn changed_files(
    history: Option<&GitHistory>,
    before: Option<&ContinuationSource>,
    after: Option<&ContinuationSource>,
) -> Option<u64> {
    let changes = history?.diff(&before?.checkpoint_sha, &after?.checkpoint_sha);
    u64::try_from(changes.ok()?.len()).ok()
}

/// Returns the ids of the operations that no longer count: runs of the current history that ran codons of which none is in the thread, and operations that
/// were undone by one that counts. `log` has the newest operation first, so whether an undo counts is known before the operation that it undid.
fn undone(state: &HankweaveState, log: &[LoggedOperation<'_>]) -> HashSet<String> {
    let thread = thread::build(state, None, None);
    let in_thread: HashSet<&RunId> = thread.codons.iter().map(|entry| &entry.run_id).collect();
    let in_history = state.runs.iter().take(thread::runs_of_history(state));
    let in_history: HashSet<&RunId> = in_history.map(|run| &run.run_id).collect();
    let (mut counting, mut undone) = (HashSet::new(), HashSet::new());
    for logged in log {
        match logged {
            LoggedOperation::Run(run) if in_thread.contains(&run.run_id) => counting.insert(logged.id()),
            LoggedOperation::Run(run) if in_history.contains(&run.run_id) && !run.codons.is_empty() => {
                undone.insert(logged.id())
            }
            _ => false,
        };
    }
    for logged in log {
        if let LoggedOperation::Recorded(operation) = logged
            && !undone.contains(&operation.id)
        {
            let target = operation.undoes.clone();
            // A run with a codon in the thread counts, even if it was undone in between.
            undone.extend(target.filter(|id| !counting.contains(id)));
        }
    }
    undone
}

/// Returns the newest rows, `most` at most.
fn rows(execution: &Path, state: &HankweaveState, most: usize) -> Result<Vec<OperationRow>, CliError> {
    let repository = ExecutionDir::new(execution.to_owned()).checkpoints();
    let history =
        GitHistory::open(&repository).map_err(|error| CliError::from_error(CliErrorKind::Io, &error))?;
    let log = thread::operations(state);
    let undone = undone(state, &log);
    let (removed_runs, removed_checkpoints) = (removed_runs(state), state.removed_checkpoints());
    let shown = log.into_iter().take(most);
    let process = process_of(None, execution);
    let thread = thread::build(state, None, None);
    let attempts = thread.undone_attempts(state);
    let rows = shown.map(|logged| OperationRow::of(state, history.as_ref(), logged, process, &attempts));
    Ok(rows
        .map(|row| OperationRow {
            undone: undone.contains(&row.id),
            cleaned: row.run_id.as_ref().is_some_and(|run| removed_runs.contains(run)),
            restorable: row
                .after
                .as_ref()
                .is_none_or(|after| !removed_checkpoints.contains(&after.checkpoint_sha)),
            ..row
        })
        .collect())
}

fn removed_runs(state: &HankweaveState) -> HashSet<&RunId> {
    state.removed().flat_map(|removed| &removed.runs).collect()
}

fn log(global: &Global, args: &OpLogArgs) -> Result<ExitCode, CliError> {
    let execution = &args.execution.execution;
    let state = read_execution(execution)?;
    let rows = rows(execution, &state, args.limit.unwrap_or(usize::MAX))?;
    if global.json() {
        return output::print_json(&rows);
    }
    let mut text = SafeText::default();
    // Writing to a text cannot fail.
    let widths = LogColumns::of(&rows);
    let _ = rows.iter().try_for_each(|row| write(&mut text, row, widths));
    if rows.is_empty() {
        let _ = writeln!(text, "no run has been recorded yet");
    }
    output::print_lines(text)?;
    Ok(ExitCode::SUCCESS)
}

/// Largest width of the command column; a longer command moves the columns after it.
const COMMAND_WIDTH: usize = 28;

/// Widths of the columns of the log; 0 for one that has nothing.
#[derive(Debug, Clone, Copy, Default)]
struct LogColumns {
    time: usize,
    command: usize,
    cost: usize,
}

impl LogColumns {
    fn of(rows: &[OperationRow]) -> Self {
        let widest = |of: &dyn Fn(&OperationRow) -> usize| rows.iter().map(of).max().unwrap_or_default();
        Self {
            time: widest(&|row| local_time(row.at).len()),
            command: widest(&|row| measure_text_width(&one_line(&row.command))).min(COMMAND_WIDTH),
            cost: widest(&|row| row.cost_words().len()),
        }
    }
}

impl OperationRow {
    /// Returns the cost in words; empty for an operation that cost nothing.
    fn cost_words(&self) -> String {
        match self.cost {
            Usd::ZERO if !self.cost_is_lower_bound => String::new(),
            cost => money(cost, self.cost_is_lower_bound),
        }
    }

    /// Returns the number of changed files in words; empty for a cleanup, which changes none. A crashed codon has no checkpoint of its last changes.
    fn files_words(&self) -> String {
        match self.files.filter(|_| self.removed.is_none()) {
            Some(files) => counted(usize::try_from(files).unwrap_or(usize::MAX), "file"),
            None if self.crashed.is_some() => "files unknown".to_owned(),
            None => String::new(),
        }
    }
}

fn write(text: &mut SafeText, row: &OperationRow, columns: LogColumns) -> std::fmt::Result {
    text.styled(AnsiColor::Cyan.on_default(), &row.id)?;
    write!(text, "  {:<1$}  ", local_time(row.at), columns.time)?;
    let command = match (row.kind, &*row.command) {
        // A rollback by which a run began has only `run` as its command.
        (kind, Operation::BY_A_RUN) if kind != "run" => "run (rolled back)".to_owned(),
        (_, command) => one_line(command),
    };
    text.styled(Style::new().bold(), &command)?;
    let gap = columns.command.saturating_sub(measure_text_width(&command));
    let cost = row.cost_words();
    let cost = match columns.cost {
        0 if cost.is_empty() => cost,
        width => format!("  {cost:>width$}"),
    };
    let line = format!("{:gap$}{cost}  {}", "", row.files_words());
    write!(text, "{}", line.trim_end())?;
    write!(text, "\n  {}", one_line(&row.outcome))?;
    if row.undone {
        write!(text, " (undone or run again)")?;
    }
    match (row.restorable, row.cleaned) {
        (false, _) => write!(text, " (cleaned up)")?,
        (true, true) => write!(text, " (without its logs)")?,
        (true, false) => {}
    }
    writeln!(text)
}

fn show(global: &Global, args: &OpShowArgs) -> Result<ExitCode, CliError> {
    let execution = &args.execution.execution;
    let state = read_execution(execution)?;
    let hints = HintCommands::about(execution);
    let all = rows(execution, &state, usize::MAX)?;
    let mut fitting = all.iter().filter(|row| row.id.starts_with(&args.id));
    let row = match (fitting.next(), fitting.next()) {
        (Some(row), None) => row,
        (found, _) => {
            let many = if found.is_some() {
                "several operations begin"
            } else {
                "no operation begins"
            };
            let hint = format!("`{}` lists all of them", hints.command("op log"));
            let message = format!("{many} with `{}`", args.id);
            return Err(CliError::new(CliErrorKind::Input, message).hint(hint));
        }
    };
    if global.json() {
        return output::print_json(row);
    }
    let mut text = SafeText::default();
    // A single row is not aligned. Writing to a text cannot fail.
    let _ = write(&mut text, row, LogColumns::default()).and_then(|()| write_points(&mut text, row, &hints));
    output::print_lines(text)?;
    Ok(ExitCode::SUCCESS)
}

/// Writes the positions before and after the operation, and the commands that compare and restore them.
fn write_points(text: &mut SafeText, row: &OperationRow, hints: &HintCommands) -> std::fmt::Result {
    if let Some(undone) = &row.undoes {
        writeln!(text, "  undid      {undone}")?;
    }
    let points = [("before", &row.before), ("after", &row.after)];
    for (word, source) in points
        .into_iter()
        .filter_map(|(word, point)| Some((word, point.as_ref()?)))
    {
        writeln!(
            text,
            "  {word:<9}  {}",
            position_words(source).trim_start_matches("to ")
        )?;
    }
    if let (Some(before), Some(after), true) = (&row.before, &row.after, row.restorable)
        && before.checkpoint_sha != after.checkpoint_sha
    {
        let (from, to) = (before.checkpoint_sha.short(), after.checkpoint_sha.short());
        writeln!(
            text,
            "  {}  shows what changed",
            hints.command(&format!("diff {from}..{to}"))
        )?;
    }
    if let Some(crashed) = row.crashed.as_ref().filter(|_| row.has_crash_files) {
        writeln!(
            text,
            "  {}  shows what {crashed} has left, which no checkpoint of it has",
            hints.command(&format!("diff {}", word(crashed.as_str())))
        )?;
    }
    match row.restorable {
        false => writeln!(
            text,
            "  a cleanup has removed its checkpoints, so there is no way back to it"
        ),
        true => {
            let restore = hints.command(&format!("op restore {}", row.id));
            match &row.crashed {
                None => writeln!(text, "  {restore}  goes to where things stood after it"),
                Some(crashed) => writeln!(
                    text,
                    "  {restore}  goes to its last checkpoint, without what {crashed} did until it crashed"
                ),
            }
        }
    }
}
