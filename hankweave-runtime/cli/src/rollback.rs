//! `hankweave rollback` (CLI-16), and rollbacks in general: `undo` and `op restore` also call [`roll_back`], which shows, asks, restores the files and
//! prints the result.

use std::collections::VecDeque;
use std::fmt::Write;
use std::io::{self, BufRead, IsTerminal};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use hankweave_core::codon::CheckpointType;
use hankweave_core::document::{CheckpointTable, HankweaveState, KnownCheckpoints};
use hankweave_core::id::CodonId;
use hankweave_core::thread::{self, CodonPoint, TargetError};
use hankweave_runtime::world::World;
use hankweave_runtime::world::blocking::Blocking;
use hankweave_runtime::{OpenDirectory, Rollback, RollbackError, RollbackTarget, RunOptions, Shutdown};
use serde_json::json;

use crate::args::{Global, RollbackArgs, RollbackPointArg};
use crate::directory::{noted_question, takes_clients};
use crate::failures::{open_failure, rollback_failure};
use crate::hints::{CommandEdit, HintCommands};
use crate::logging;
use crate::owning_task::{check_by_hand, existing_state_dir};
use crate::receipt;
use crate::server_log::ServerLog;
use crate::signals::{self, HangUp};
use crate::status::{self, Outlook};
use crate::terminal::exit::{CliError, CliErrorKind};
use crate::terminal::keyboard;
use crate::terminal::output;
use crate::terminal::report::{counted, restoring};
use crate::terminal::screen::{self, SafeText, columns_of_errors, is_drawable, one_line, print_stderr};
use crate::terminal::shell::word;

/// Rolls back to the target of the arguments: a live run does it itself, otherwise [`roll_back`] does.
pub(crate) fn rollback(global: &Global, args: &RollbackArgs) -> Result<ExitCode, CliError> {
    existing_state_dir(&args.execution.execution)?;
    if !args.dry_run && takes_clients(&args.execution.execution) {
        check_by_hand(&args.execution.execution, "rollback")?;
        return crate::remote::rollback(global, args);
    }
    let request = RollbackRequest {
        execution: &args.execution.execution,
        target: target(args),
        dry_run: args.dry_run,
        asks: !args.yes,
    };
    roll_back(global, &request)
}

/// Returns the command that the user typed for this target.
fn command(target: &RollbackTarget) -> &'static str {
    match target {
        RollbackTarget::Undo | RollbackTarget::UndoOf(_) => "undo",
        RollbackTarget::Operation(_) => "op restore",
        _ => "rollback",
    }
}

/// Returns the command that the user typed, with `--dry-run`, so that it lists all of the files.
fn dry_run_command(target: &RollbackTarget) -> String {
    let command = command(target);
    let arguments = match target {
        RollbackTarget::Undo | RollbackTarget::UndoOf(_) => String::new(),
        RollbackTarget::Operation(prefix) => format!(" {prefix}"),
        RollbackTarget::Checkpoint(prefix) => format!(" --to {prefix}"),
        RollbackTarget::LastSuccess => " --last-success".to_owned(),
        RollbackTarget::Codon(id, CodonPoint::End) => format!(" --codon {}", word(id.as_str())),
        RollbackTarget::Codon(id, CodonPoint::Start) => format!(" --codon {} --at start", word(id.as_str())),
        RollbackTarget::Codon(id, CodonPoint::At(kind)) => {
            format!(" --codon {} --at {kind}", word(id.as_str()))
        }
    };
    format!("{command}{arguments} --dry-run")
}

/// Rollback that was requested.
pub(crate) struct RollbackRequest<'a> {
    pub(crate) execution: &'a Path,
    pub(crate) target: RollbackTarget,
    /// Changes are only shown.
    pub(crate) dry_run: bool,
    /// The user at a terminal is shown what would change, and asked.
    pub(crate) asks: bool,
}

/// Rolls back a directory in which no run is live.
pub(crate) fn roll_back(global: &Global, request: &RollbackRequest<'_>) -> Result<ExitCode, CliError> {
    let log = logging::install(global);
    existing_state_dir(request.execution)?;
    if !request.dry_run {
        check_by_hand(request.execution, command(&request.target))?;
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| CliError::from_error(CliErrorKind::Io, &error))?;
    let shutdown = Shutdown::new();
    let performed = runtime.block_on(async {
        // A rollback that has started is finished, unless the user insists: then the next program in the directory finishes it.
        tokio::select! {
            biased;
            never = signals::watch(shutdown.clone(), HangUp::Stops) => match never {},
            () = shutdown.force_token().cancelled() => Ok(None),
            performed = perform(global, request, &log, &shutdown) => performed,
        }
    });
    // A thread in the middle of a rollback must not delay a user who insists.
    runtime.shutdown_background();
    let Some((rollback, state)) = performed? else {
        return Ok(signals::stopped(&shutdown));
    };
    if !request.dry_run {
        receipt::write(request.execution, None);
    }
    if global.json() {
        output::print_json(&document(&rollback, request.dry_run))?;
    } else if !global.quiet {
        let outlook = outlook_after(request.execution, &state, &rollback);
        let text = text(&rollback, request.dry_run, outlook.as_ref());
        let reversal = reversal(request, &rollback).filter(|_| !request.dry_run);
        output::print_lines(text + &reversal.unwrap_or_default())?;
    }
    Ok(signals::stopped(&shutdown))
}

/// Returns the command that reverses an undo or a restore; `None` for other rollbacks.
fn reversal(request: &RollbackRequest<'_>, rollback: &Rollback) -> Option<String> {
    let hints = HintCommands::about(request.execution);
    match (&rollback.undoes, &request.target) {
        (Some(undone), _) => {
            let restore = hints.command(&format!("op restore {undone}"));
            Some(format!("`{restore}` brings it back\n"))
        }
        (None, RollbackTarget::Operation(_)) => {
            Some(format!("`{}` takes this back\n", hints.command("undo")))
        }
        (None, _) => None,
    }
}

/// Returns what `status` will name as next after this rollback, which may only be planned.
fn outlook_after(execution: &Path, state: &HankweaveState, rollback: &Rollback) -> Option<Outlook> {
    // The state after the rollback, which also withdraws an answer to a question for an approval.
    let ahead = HankweaveState {
        pending_rollback: Some(rollback.record.clone()),
        approval: None,
        ..state.clone()
    };
    // The result of the rollback is printed also if the outlook cannot be read.
    status::outlook_of(execution, &ahead).ok().flatten()
}

/// Rolls back, and returns the rollback with the state after it; `None` if the user was asked and declined.
async fn perform(
    global: &Global,
    request: &RollbackRequest<'_>,
    log: &ServerLog,
    shutdown: &Shutdown,
) -> Result<Option<(Rollback, Arc<HankweaveState>)>, CliError> {
    let world = World::real();
    let mut options = RunOptions::default();
    // Fails if the history cannot be read: starting over would leave nothing to roll back to.
    options.strict_state = true;
    let hints = HintCommands::about(request.execution);
    let disk = world.disk.clone();
    let opened = OpenDirectory::open(world, request.execution, &options)
        .await
        .map_err(|error| open_failure(&error, &hints))?;
    log.open(&disk, &opened.directory().server_log());
    for notice in opened.notices() {
        tracing::info!("{notice}");
    }
    for notice in opened.notices().iter().filter(|_| !global.quiet) {
        print_stderr(format!("note: {notice}\n"));
    }
    let is_watched = !request.dry_run && !global.json() && !global.quiet && is_drawable();
    let result = match is_confirmed(global, request, &opened, shutdown).await {
        Ok(true) if request.dry_run => opened.look_back(&request.target).await.map(Some),
        Ok(true) => {
            let bar = is_watched.then(|| restoring(opened.progress()));
            let done = opened.go_back(&request.target).await;
            drop(bar);
            done.map(Some)
        }
        Ok(false) => Ok(None),
        Err(error) => Err(error),
    };
    if let Ok(Some(rollback)) = &result {
        let to = rollback.source.checkpoint_sha.short();
        tracing::info!(dry = request.dry_run, "rolled back to checkpoint {to}");
    }
    let state = opened.state();
    let known = match &result {
        Ok(_) => None,
        Err(_) => opened.known_checkpoints().await.ok(),
    };
    let saved = opened.close().await;
    let rollback = result.map_err(|error| {
        let failure = rollback_failure(&error, &hints);
        match better_hint(&error, &state, known.as_ref(), &hints) {
            Some(hint) => failure.hint(hint),
            None => failure,
        }
    })?;
    saved.map_err(|error| CliError::from_error(CliErrorKind::Io, &*error))?;
    Ok(rollback.map(|rollback| (rollback, state)))
}

/// Returns whether to continue. If the request says so, the user at a terminal is shown what would change and asked; a signal means no.
async fn is_confirmed(
    global: &Global,
    request: &RollbackRequest<'_>,
    opened: &OpenDirectory,
    shutdown: &Shutdown,
) -> Result<bool, RollbackError> {
    let can_ask = io::stdin().is_terminal() && io::stderr().is_terminal();
    if !request.asks || request.dry_run || global.json() || global.quiet || !can_ask {
        return Ok(true);
    }
    let preview = opened.look_back(&request.target).await?;
    let outlook = outlook_after(request.execution, &opened.state(), &preview);
    let list_all = HintCommands::about(request.execution).command(&dry_run_command(&request.target));
    let question = SafeText::from(question(&preview, outlook.as_ref(), &list_all));
    print_stderr(question.broken(columns_of_errors()));
    keyboard::forget_typed();
    noted_question(opened.note_question(true));
    // Another thread reads, so that a signal is received meanwhile.
    let answer = Blocking::Threads.run(|| {
        let mut line = String::new();
        let asked = screen::ask("Do that? [y/N] ");
        let answered = asked.and_then(|()| io::stdin().lock().read_line(&mut line));
        answered.is_ok() && matches!(line.trim(), "y" | "Y" | "yes")
    });
    let is_yes = tokio::select! {
        biased;
        () = shutdown.requested() => false,
        is_yes = answer => is_yes,
    };
    noted_question(opened.note_question(false));
    if !is_yes {
        print_stderr("no file was changed\n");
    }
    Ok(is_yes)
}

/// Returns the text of [`text`] with at most [`MOST_FILES`] files, which the user sees before the question. `list_all` is the command that lists all files.
fn question(preview: &Rollback, outlook: Option<&Outlook>, list_all: &str) -> String {
    let all = text(preview, true, outlook);
    let is_file = |line: &&str| line.starts_with("  would ");
    let more = all.lines().filter(is_file).count().saturating_sub(MOST_FILES);
    let mut files = 0;
    let mut shown = String::new();
    for line in all.lines() {
        files += usize::from(is_file(&line));
        if files <= MOST_FILES || !is_file(&line) {
            shown += &format!("{line}\n");
        }
        if files == MOST_FILES && more > 0 && is_file(&line) {
            shown += &format!("  and {}, which `{list_all}` lists\n", counted(more, "more file"));
        }
    }
    shown
}

fn target(args: &RollbackArgs) -> RollbackTarget {
    match (&args.to, &args.codon) {
        (Some(prefix), _) => RollbackTarget::Checkpoint(prefix.clone()),
        (None, Some(codon)) => RollbackTarget::Codon(codon.clone(), point(args.at)),
        (None, None) => RollbackTarget::LastSuccess,
    }
}

fn point(at: RollbackPointArg) -> CodonPoint {
    match at {
        RollbackPointArg::RigSetup => CodonPoint::At(CheckpointType::RigSetup),
        RollbackPointArg::Completed => CodonPoint::At(CheckpointType::Completed),
        RollbackPointArg::Error => CodonPoint::At(CheckpointType::Error),
        RollbackPointArg::Skipped => CodonPoint::At(CheckpointType::Skipped),
        RollbackPointArg::Start => CodonPoint::Start,
        RollbackPointArg::End => CodonPoint::End,
    }
}

fn document(rollback: &Rollback, dry_run: bool) -> serde_json::Value {
    json!({
        "dryRun": dry_run,
        "runId": rollback.source.run_id,
        "codonId": rollback.source.after_codon,
        "checkpoint": rollback.source.checkpoint_sha,
        "checkpointType": rollback.checkpoint_type,
        "write": rollback.files.write,
        "delete": rollback.files.delete,
        "unarchive": rollback.unarchived,
        "rigCleanup": rollback.rig_copies,
        "kept": rollback.kept,
        "safetyCheckpoint": rollback.safety,
        "nextCodonId": rollback.next,
        "undoes": rollback.undoes,
    })
}

/// Describes a rollback. `outlook` is what is next; `None` in a live run, which continues with the next codon itself.
pub(crate) fn text(rollback: &Rollback, dry_run: bool, outlook: Option<&Outlook>) -> String {
    let mut text = String::new();
    // Writing to a String cannot fail.
    let _ = write(&mut text, rollback, dry_run).and_then(|()| match outlook {
        Some(outlook) => writeln!(text, "{outlook}"),
        None => write_next(&mut text, rollback),
    });
    text
}

/// Largest number of files that are listed before a question.
const MOST_FILES: usize = 20;

/// Writes a line for each path.
fn write_paths<P: std::fmt::Display>(text: &mut String, verb: &str, paths: &[P]) -> std::fmt::Result {
    let mut paths = paths.iter();
    paths.try_for_each(|path| writeln!(text, "  {verb}  {}", one_line(path)))
}

fn write(text: &mut String, rollback: &Rollback, dry_run: bool) -> std::fmt::Result {
    let (source, files) = (&rollback.source, &rollback.files);
    let sha = source.checkpoint_sha.short();
    let would = if dry_run { "would roll" } else { "rolled" };
    if let Some(undone) = &rollback.undoes {
        let undo = if dry_run { "would undo" } else { "undid" };
        writeln!(text, "{undo} operation {undone}; its cost still counts")?;
    }
    match (rollback.checkpoint_type, &source.after_codon) {
        // Not called `error` checkpoint: a codon that was stopped or paused has one as well, and nothing failed there.
        (Some(CheckpointType::Error), Some(codon)) => {
            writeln!(text, "{would} back to the last checkpoint {sha} of {codon}")?
        }
        (Some(kind), Some(codon)) => {
            writeln!(text, "{would} back to the {kind} checkpoint {sha} of {codon}")?
        }
        (None, Some(codon)) => writeln!(
            text,
            "{would} back to checkpoint {sha}, which was made after {codon}"
        )?,
        (_, None) => writeln!(text, "{would} back to checkpoint {sha}, before the first codon")?,
    }
    if dry_run {
        write_paths(text, "would write ", &files.write)?;
        write_paths(text, "would delete", &files.delete)?;
        write_paths(text, "would come back from the archive", &rollback.unarchived)?;
        write_paths(text, "would take out the copy of a rig", &rollback.rig_copies)?;
        let nothing = files.write.is_empty() && files.delete.is_empty();
        if nothing && rollback.unarchived.is_empty() && rollback.rig_copies.is_empty() {
            writeln!(text, "  no file would change")?;
        }
        write_kept(text, rollback)?;
    } else {
        let changed = files.summary().unwrap_or_else(|| "no file changed".to_owned());
        writeln!(text, "  {}", one_line(&changed))?;
        if !rollback.unarchived.is_empty() {
            let count = counted(rollback.unarchived.len(), "file");
            writeln!(
                text,
                "  {count} came back from the archive, where nothing stood in their places"
            )?;
        }
        if !rollback.rig_copies.is_empty() {
            let copies = rollback.rig_copies.join(", ");
            writeln!(
                text,
                "  untouched copies of rigs were taken out: {}",
                one_line(&copies)
            )?;
        }
        write_kept(text, rollback)?;
        if let Some(safety) = &rollback.safety {
            writeln!(
                text,
                "  the replaced files are kept in checkpoint {}",
                safety.short()
            )?;
        }
    }
    Ok(())
}

/// Writes the files that stay because no checkpoint has them.
fn write_kept(text: &mut String, rollback: &Rollback) -> std::fmt::Result {
    match rollback.kept_words() {
        Some(words) => writeln!(text, "  {}", one_line(&words)),
        None => Ok(()),
    }
}

/// Writes the next codon of a live run that waits for commands.
fn write_next(text: &mut String, rollback: &Rollback) -> std::fmt::Result {
    let codon = rollback.source.after_codon.as_ref().map_or("", |id| id.as_str());
    match &rollback.next {
        Some(next) => writeln!(text, "next: {next} (`next` continues there)"),
        None if rollback.failed => writeln!(
            text,
            "next: nothing, because {codon} did not complete there; an earlier checkpoint, or redo, runs it again"
        ),
        None => writeln!(
            text,
            "nothing is left to do; {codon} is the last codon of the plan"
        ),
    }
}

/// Returns a hint with details of the record, such as the codons that exist; `None` if the error's own hint is good enough.
fn better_hint(
    error: &RollbackError,
    state: &HankweaveState,
    known: Option<&CheckpointTable>,
    hints: &HintCommands,
) -> Option<String> {
    let known = known.map(|known| known as &dyn KnownCheckpoints);
    let thread = thread::build(state, None, known);
    let entry_of = |id: &CodonId| thread.codons.iter().find(|entry| entry.codon.codon_id() == id);
    match error {
        RollbackError::Target(TargetError::UnknownCodon(_)) => {
            let mut known: VecDeque<&str> = VecDeque::new();
            for entry in &thread.codons {
                let other = entry.codon.codon_id();
                if !known.contains(&other.as_str()) && known.len() < MOST_NAMED {
                    // The thread is newest first.
                    known.push_front(other.as_str());
                }
            }
            let (all, known) = (hints.command("history"), Vec::from(known));
            Some(match known.is_empty() {
                true => format!("no codon has run yet; `{}` starts the first one", hints.run()),
                false => format!(
                    "codons that have run: {}; `{all}` lists all with their checkpoints",
                    known.join(", ")
                ),
            })
        }
        RollbackError::Target(TargetError::NoCheckpoint(id)) => {
            let checkpoints = entry_of(id)?.validated_checkpoints.iter();
            let points: Vec<String> = checkpoints
                .map(|checkpoint| format!("--at {}", checkpoint.checkpoint_type))
                .collect();
            let points = match points.is_empty() {
                true => "it has none that can be restored".to_owned(),
                false => format!("it has {}", points.join(" and ")),
            };
            let undone = thread.undone_codons(state).map(|(run, at)| &run.codons[at]);
            let undone = undone.filter(|codon| codon.codon_id() == id);
            let undone = undone.flat_map(|codon| codon.checkpoints());
            let undone = undone.filter(|(_, sha)| known.is_none_or(|known| known.find(sha).is_some()));
            let undone: Vec<String> = undone
                .take(MOST_NAMED)
                .map(|(at, sha)| {
                    format!(
                        "{at} `{}`",
                        hints.command(&format!("rollback --to {}", sha.short()))
                    )
                })
                .collect();
            let undone = match undone.is_empty() {
                true => String::new(),
                false => format!(
                    "; attempts that are undone or were run again: {}",
                    undone.join(", ")
                ),
            };
            let all = hints.command("history --all");
            Some(format!("{points}{undone}; `{all}` lists those of all codons"))
        }
        RollbackError::Target(TargetError::UnknownSha(_)) => {
            Some(format!("`{}` lists all of them", hints.command("checkpoints")))
        }
        RollbackError::NoSuccess => Some(format!(
            "`{}` starts from the first codon; the history stays",
            hints.run_with(&[CommandEdit::Flag("new")])
        )),
        _ => None,
    }
}

/// Largest number of codons that a hint names; the thread may hold thousands.
const MOST_NAMED: usize = 10;
