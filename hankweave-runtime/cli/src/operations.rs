//! `hankweave op` and `hankweave undo`: operations that changed the files and the record, and how to undo them (CLI-31, CLI-32).

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
            let back = RollbackRequest {
                execution: &args.execution.execution,
                target,
                dry_run: args.dry_run,
                asks: !args.yes,
            };
            roll_back(global, &back)
        }
    }
}

pub(crate) fn undo(global: &Global, args: &UndoArgs) -> Result<ExitCode, CliError> {
    let execution = &args.execution.execution;
    if !args.dry_run
        && takes_clients(execution)
        && let Some(rollback) = thread::undoable(&read_execution(execution)?)
    {
        check_by_hand(execution, "undo")?;
        return crate::remote::undo_rollback(global, execution, &rollback.id);
    }
    let back = RollbackRequest {
        execution: &args.execution.execution,
        target: RollbackTarget::Undo,
        dry_run: args.dry_run,
        asks: !args.yes,
    };
    roll_back(global, &back)
}

/// One line of the log.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct OperationRow {
    id: String,
    /// `run`, `rollback`, `undo` or `restore`.
    kind: &'static str,
    at: Timestamp,
    command: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    run_id: Option<RunId>,
    /// Outcome in words.
    outcome: String,
    /// Spending, in US dollars; an undo does not return it.
    cost: Usd,
    /// More was spent than is known.
    cost_is_lower_bound: bool,
    /// Number of files that it changed, where checkpoints show it.
    #[serde(skip_serializing_if = "Option::is_none")]
    files: Option<u64>,
    /// Codon of it that crashed, so that no checkpoint has what it did.
    #[serde(skip)]
    crashed: Option<CodonId>,
    /// Whether the workspace still has what that codon did.
    #[serde(skip)]
    is_left: bool,
    /// An undo has taken it back.
    undone: bool,
    /// A cleanup has removed its logs.
    cleaned: bool,
    /// Whether its state can be restored: cleanups have not removed what that needs.
    restorable: bool,
    /// Items that a cleanup removed.
    #[serde(skip_serializing_if = "Option::is_none")]
    removed: Option<Removed>,
    #[serde(skip_serializing_if = "Option::is_none")]
    undoes: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    before: Option<ContinuationSource>,
    #[serde(skip_serializing_if = "Option::is_none")]
    after: Option<ContinuationSource>,
}

impl OperationRow {
    fn of(
        state: &HankweaveState,
        history: Option<&GitHistory>,
        logged: LoggedOperation<'_>,
        (process, undone): (RunProcess, &UndoneAttempts<'_>),
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
            is_left: false,
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
                is_left: state.runs.front().is_some_and(|last| last.run_id == run.run_id)
                    && state.pending_rollback.is_none(),
                run_id: Some(run.run_id.clone()),
                cost: run.spend(),
                cost_is_lower_bound: run.spends_at_least(),
                files: has_all_files(run)
                    .then(|| changed(history, before.as_ref(), after.as_ref()))
                    .flatten(),
                ..row(
                    "run",
                    run.start_time,
                    command(run).to_owned(),
                    became(run, process, undone),
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
                        Some(removed) => what_went(removed),
                        None => place(&operation.after),
                    },
                )
            },
        }
    }
}

/// Returns the codon in which a run crashed.
fn crashed(run: &RunRecord, process: RunProcess) -> Option<CodonId> {
    let newest = run.codons.last()?;
    let is_open = !newest.is_terminal() && process == RunProcess::None;
    (is_open || newest.crashed()).then(|| newest.codon_id().clone())
}

/// Whether checkpoints have all that the codons of a run did: none has the work of a codon that is open or has crashed.
fn has_all_files(run: &RunRecord) -> bool {
    let newest = run.codons.last();
    newest.is_none_or(|newest| newest.is_terminal() && !newest.crashed())
}

/// `the logs of 2 runs, 4 checkpoints`
fn what_went(removed: &Removed) -> String {
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
const MOST: usize = 4;

/// `one completed, two skipped`; where some of its codons count no longer, these are marked.
fn became(run: &RunRecord, process: RunProcess, undone: &UndoneAttempts<'_>) -> String {
    let is_undone = |at: usize| undone.contains(&(&run.run_id, at));
    let is_part = !(0..run.codons.len()).all(is_undone);
    let ended = run.codons.iter().enumerate().map(|(at, codon)| {
        let undone = match is_part && is_undone(at) {
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
    // The last one says how the run ended.
    let more = words.len().saturating_sub(MOST);
    if more > 0 {
        words.splice(MOST - 1..words.len() - 1, [format!("{more} more")]);
    }
    words.join(", ")
}

/// `after two, checkpoint 77b0e2c1d4`
fn place(source: &ContinuationSource) -> String {
    let sha = source.checkpoint_sha.short();
    match &source.after_codon {
        Some(codon) => format!("to {codon}, checkpoint {sha}"),
        None => format!("to the beginning, checkpoint {sha}"),
    }
}

fn changed(
    history: Option<&GitHistory>,
    before: Option<&ContinuationSource>,
    after: Option<&ContinuationSource>,
) -> Option<u64> {
    let changes = history?.diff(&before?.checkpoint_sha, &after?.checkpoint_sha);
    u64::try_from(changes.ok()?.len()).ok()
}

/// Returns the operations that no longer count: runs without a codon in the history, and operations that a counting operation undid. `log` has the
/// newest one first.
fn undone(state: &HankweaveState, log: &[LoggedOperation<'_>]) -> HashSet<String> {
    let thread = thread::build(state, None, None);
    let in_thread: HashSet<&RunId> = thread.codons.iter().map(|entry| &entry.run_id).collect();
    let own = state.runs.iter().take(thread::runs_of_history(state));
    let own: HashSet<&RunId> = own.map(|run| &run.run_id).collect();
    let (mut counting, mut undone) = (HashSet::new(), HashSet::new());
    for logged in log {
        match logged {
            LoggedOperation::Run(run) if in_thread.contains(&run.run_id) => counting.insert(logged.id()),
            LoggedOperation::Run(run) if own.contains(&run.run_id) && !run.codons.is_empty() => {
                undone.insert(logged.id())
            }
            _ => false,
        };
    }
    for logged in log {
        if let LoggedOperation::Recorded(operation) = logged
            && !undone.contains(&operation.id)
        {
            let takes_back = operation.undoes.clone();
            undone.extend(takes_back.filter(|id| !counting.contains(id)));
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
    let (runs, gone) = (removed_runs(state), state.removed_checkpoints());
    let shown = log.into_iter().take(most);
    let process = process_of(None, execution);
    let thread = thread::build(state, None, None);
    let again = thread.undone_attempts(state);
    let rows = shown.map(|logged| OperationRow::of(state, history.as_ref(), logged, (process, &again)));
    Ok(rows
        .map(|row| OperationRow {
            undone: undone.contains(&row.id),
            cleaned: row.run_id.as_ref().is_some_and(|run| runs.contains(run)),
            restorable: row
                .after
                .as_ref()
                .is_none_or(|after| !gone.contains(&after.checkpoint_sha)),
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

/// Longest command that the columns after it make room for.
const COMMAND: usize = 28;

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
            command: widest(&|row| measure_text_width(&one_line(&row.command))).min(COMMAND),
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

    /// Returns the number of changed files in words. A cleanup never changes any. The changes of a crashed codon are in none of its checkpoints.
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
    // Writing to a text cannot fail.
    let _ = write(&mut text, row, LogColumns::default()).and_then(|()| write_points(&mut text, row, &hints));
    output::print_lines(text)?;
    Ok(ExitCode::SUCCESS)
}

/// Writes the positions before and after it, and the commands to return there.
fn write_points(text: &mut SafeText, row: &OperationRow, hints: &HintCommands) -> std::fmt::Result {
    if let Some(undone) = &row.undoes {
        writeln!(text, "  undid      {undone}")?;
    }
    let points = [("before", &row.before), ("after", &row.after)];
    for (word, source) in points
        .into_iter()
        .filter_map(|(word, point)| Some((word, point.as_ref()?)))
    {
        writeln!(text, "  {word:<9}  {}", place(source).trim_start_matches("to "))?;
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
    if let Some(crashed) = row.crashed.as_ref().filter(|_| row.is_left) {
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
