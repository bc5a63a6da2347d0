//! `hankweave cleanup` (CLI-42): removes the logs of old runs and the checkpoints that nothing else needs, after showing them and asking.

use std::fmt::Write;
use std::io::{self, BufRead, IsTerminal};
use std::process::ExitCode;
use std::time::Duration;

use hankweave_core::thread::RetentionRule;
use hankweave_core::time::Timestamp;
use hankweave_runtime::state_manager::TransitionError;
use hankweave_runtime::world::World;
use hankweave_runtime::{CleanupError, CleanupPlan, CleanupReport, OpenDirectory, RunOptions};
use serde_json::json;

use crate::args::{CleanupArgs, Global};
use crate::failures::open_failure;
use crate::hints::HintCommands;
use crate::logging;
use crate::owning_task::existing_state_dir;
use crate::remote::runtime;
use crate::server_log::ServerLog;
use crate::terminal::exit::{CliError, CliErrorKind};
use crate::terminal::keyboard;
use crate::terminal::output;
use crate::terminal::report::counted;
use crate::terminal::screen::{self, local_time, print_stderr, size};

pub(crate) fn cleanup(global: &Global, args: &CleanupArgs) -> Result<ExitCode, CliError> {
    let log = logging::install(global);
    existing_state_dir(&args.execution.execution)?;
    runtime()?.block_on(perform(global, args, &log))
}

/// Opens the directory, performs the cleanup and closes it. The directory is locked from the offer to the end, so nothing else is removed than was
/// shown.
async fn perform(global: &Global, args: &CleanupArgs, log: &ServerLog) -> Result<ExitCode, CliError> {
    let (world, hints) = (World::real(), HintCommands::about(&args.execution.execution));
    let mut options = RunOptions::default();
    // Fails if the history cannot be read: only the history shows what is still needed.
    options.strict_state = true;
    let (disk, now) = (world.disk.clone(), world.clock.now());
    let opened = OpenDirectory::open(world, &args.execution.execution, &options)
        .await
        .map_err(|error| open_failure(&error, &hints))?;
    log.open(&disk, &opened.directory().server_log());
    for notice in opened.notices().iter().filter(|_| !global.quiet) {
        print_stderr(format!("note: {notice}\n"));
    }
    let rule = RetentionRule {
        keep: args.keep as usize,
        ended_before: args.older_than.map(|age| ago(now, age)),
    };
    let done = clean(global, args, &opened, rule, &hints).await;
    let saved = opened.close().await;
    let code = done?;
    saved.map_err(|error| CliError::from_error(CliErrorKind::Io, &*error))?;
    Ok(code)
}

async fn clean(
    global: &Global,
    args: &CleanupArgs,
    opened: &OpenDirectory,
    rule: RetentionRule,
    hints: &HintCommands,
) -> Result<ExitCode, CliError> {
    let plan = opened.plan_cleanup(rule).await;
    let plan = plan.map_err(|error| failure(&error, hints))?;
    let shows_offer = !global.json() && !global.quiet;
    if shows_offer {
        output::print_lines(offer(&plan))?;
    }
    if args.dry_run {
        return report(global, &plan, None);
    }
    // An empty plan needs no answer: it only finishes an earlier cleanup and removes what nothing needs.
    if !plan.is_empty() && !args.yes && !is_confirmed(hints)? {
        print_stderr("nothing was removed\n");
        return Ok(ExitCode::SUCCESS);
    }
    let cleaned = opened.clean_up(&plan, &command(args)).await;
    let cleaned = cleaned.map_err(|error| failure(&error, hints))?;
    tracing::info!(
        runs = plan.runs.len(),
        checkpoints = plan.checkpoints.len(),
        "cleaned up"
    );
    report(global, &plan, Some(&cleaned))
}

fn ago(now: Timestamp, age: Duration) -> Timestamp {
    let age = i64::try_from(age.as_millis()).unwrap_or(i64::MAX);
    Timestamp::from_millis(now.as_millis().saturating_sub(age))
}

/// Returns the command for the log of operations: `cleanup --keep 10 --older-than 30d`.
fn command(args: &CleanupArgs) -> String {
    const DAY: u64 = 24 * 60 * 60;
    let age = args.older_than.map(|age| match age.as_secs() {
        seconds if seconds % DAY == 0 => format!(" --older-than {}d", seconds / DAY),
        seconds => format!(" --older-than {seconds}s"),
    });
    format!("cleanup --keep {}{}", args.keep, age.unwrap_or_default())
}

/// Describes the items to be removed.
fn offer(plan: &CleanupPlan) -> String {
    let mut text = String::new();
    // Writing to a String cannot fail.
    let _ = write_offer(&mut text, plan);
    text
}

/// Largest number of checkpoints that are named.
const MOST_NAMED: usize = 12;

fn write_offer(text: &mut String, plan: &CleanupPlan) -> std::fmt::Result {
    if plan.is_empty() {
        writeln!(text, "nothing is old enough to be removed")?;
        return write_unneeded(text, plan);
    }
    if !plan.runs.is_empty() {
        writeln!(text, "the logs of {}:", counted(plan.runs.len(), "run"))?;
    }
    for run in &plan.runs {
        let (codons, size) = (counted(run.codons, "codon"), size(run.bytes));
        let began = local_time(run.began);
        writeln!(text, "  {}  {began:<12}  {codons:>9}  {size:>10}", run.run_id)?;
    }
    if plan.checkpoints.is_empty() {
        writeln!(text, "no checkpoint: what stays builds on all of them")?;
        return write_unneeded(text, plan);
    }
    let names: Vec<&str> = plan
        .checkpoints
        .iter()
        .take(MOST_NAMED)
        .map(|sha| sha.short())
        .collect();
    let more = match plan.checkpoints.len().saturating_sub(MOST_NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    writeln!(
        text,
        "{}, to which there is no way back then, with {} that nothing else needs:\n  {}{more}",
        counted(plan.checkpoints.len(), "checkpoint"),
        size(plan.checkpoint_bytes),
        names.join(" ")
    )
}

/// Writes the size of what interrupted work has left in the repository. No checkpoint needs it, so it is removed even if all checkpoints stay.
fn write_unneeded(text: &mut String, plan: &CleanupPlan) -> std::fmt::Result {
    match plan.checkpoint_bytes {
        0 => Ok(()),
        bytes => writeln!(text, "{} of the checkpoints that nothing needs", size(bytes)),
    }
}

/// Asks on a terminal whether to remove; anything but `y` or `yes` means no.
fn is_confirmed(hints: &HintCommands) -> Result<bool, CliError> {
    let stdin = io::stdin();
    if !stdin.is_terminal() || !io::stderr().is_terminal() {
        let message = "nothing is removed without an answer, and nobody can be asked here";
        return Err(CliError::new(CliErrorKind::Usage, message).hint(format!(
            "`{}` does not ask, `{}` only shows it",
            hints.command("cleanup --yes"),
            hints.command("cleanup --dry-run")
        )));
    }
    let mut line = String::new();
    keyboard::forget_typed();
    let asked = screen::ask("Remove all of that for good? [y/N] ");
    let answered = asked.and_then(|()| stdin.lock().read_line(&mut line));
    Ok(answered.is_ok() && matches!(line.trim(), "y" | "Y" | "yes"))
}

/// Prints the result; `cleaned` is `None` for a dry run.
fn report(
    global: &Global,
    plan: &CleanupPlan,
    cleaned: Option<&CleanupReport>,
) -> Result<ExitCode, CliError> {
    if global.json() {
        let runs = plan.runs.iter().map(|run| {
            json!({"runId": run.run_id, "startTime": run.began, "codons": run.codons, "bytes": run.bytes})
        });
        let document = json!({
            "dryRun": cleaned.is_none(),
            "operation": cleaned.and_then(|cleaned| cleaned.operation.as_ref()),
            "runs": runs.collect::<Vec<_>>(),
            "checkpoints": plan.checkpoints,
            "logBytes": plan.bytes(),
            "checkpointBytes": cleaned.map_or(plan.checkpoint_bytes, |cleaned| cleaned.freed),
        });
        return output::print_json(&document);
    }
    if let Some(cleaned) = cleaned.filter(|_| !global.quiet) {
        let freed = size(plan.bytes() + cleaned.freed);
        match &cleaned.operation {
            Some(id) => output::print_lines(format!("removed, {freed} are free again (operation {id})\n"))?,
            None if cleaned.freed > 0 => {
                output::print_lines(format!("{freed} that nothing needs are free again\n"))?
            }
            None => {}
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn failure(error: &CleanupError, hints: &HintCommands) -> CliError {
    match error {
        CleanupError::Record(TransitionError::Rejected(_)) => CliError::from_error(CliErrorKind::Bug, error),
        CleanupError::History(_) | CleanupError::Look(_) | CleanupError::Record(_) => {
            CliError::from_error(CliErrorKind::Io, error).hint("nothing was removed")
        }
        // `Logs` and `Checkpoints`: the cleanup is recorded, and a part of it may be done.
        _ => CliError::from_error(CliErrorKind::Io, error).hint(format!(
            "repair the disk, and `{}` finishes what was begun; `{}` looks for damage",
            hints.command("cleanup"),
            hints.command("checkpoints verify")
        )),
    }
}
