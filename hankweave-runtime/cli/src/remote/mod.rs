//! Commands to a live run of another process (CLI-15): `next`, `skip`, `redo`, `approve`, `stop`, `rollback` and `undo` each connect to the run, send
//! one command and print the answer. `attach` follows the run, `page` prints the address of its page.

mod attach;
mod menu;
mod page;
mod words;

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use hankweave_client::{Client, CommandError, ConnectError, Disconnected, FindError, Options, RunAddress};
use hankweave_core::wire::Command;
use hankweave_runtime::world::environment::Environment;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::args::{ApproveArgs, ExecutionArgs, Global, RollbackArgs, RollbackPointArg, StopArgs};
use crate::checkpoints;
use crate::directory::{answer_there, holder, suspended, takes_clients};
use crate::hints::{ATTACH_BY_ADDRESS, HintCommands};
use crate::owning_task::{check_stop, onward};
use crate::status;
use crate::terminal::exit::{CliError, CliErrorKind};
use crate::terminal::output;
use crate::terminal::screen::print_stderr;
use crate::terminal::suspended_run::{SuspendedRun, how_to_continue};

pub(super) use attach::{attach, on_whole_screen};
pub(super) use page::page;

pub(super) fn next(global: &Global, execution: &ExecutionArgs) -> Result<ExitCode, CliError> {
    send(global, &execution.execution, Command::CodonNext)
}

pub(super) fn skip(global: &Global, execution: &ExecutionArgs) -> Result<ExitCode, CliError> {
    send(global, &execution.execution, Command::CodonSkip)
}

pub(super) fn redo(global: &Global, execution: &ExecutionArgs) -> Result<ExitCode, CliError> {
    send(global, &execution.execution, Command::CodonRedo)
}

/// Runs `approve` for a live run, which then continues by itself, or ends.
pub(super) fn approve(global: &Global, args: &ApproveArgs) -> Result<ExitCode, CliError> {
    let (codon_id, reason) = (args.codon().cloned(), args.reason.clone());
    // The run learns the name of the user when this client connects.
    let by = None;
    let command = match args.deny {
        false => Command::CodonApprove { codon_id, reason, by },
        true => Command::CodonDeny { codon_id, reason, by },
    };
    send(global, args.execution(), command)
}

pub(super) fn stop(global: &Global, args: &StopArgs) -> Result<ExitCode, CliError> {
    let reason = args.reason.clone();
    let command = match args.force {
        false => Command::ServerShutdown { reason },
        true => Command::ServerForceShutdown { reason },
    };
    let execution = &args.execution.execution;
    check_stop(execution)?;
    let run = suspended(execution).filter(|_| takes_clients(execution));
    if run.is_some_and(wake) && !global.quiet && !global.json() {
        print_stderr("the run was suspended; it continues in order to stop\n");
    }
    send(global, execution, command)
}

/// Lets a suspended run continue; returns whether the signal could be sent.
fn wake(run: SuspendedRun) -> bool {
    let pid = i32::try_from(run.pid()).ok().and_then(Pid::from_raw);
    pid.is_some_and(|pid| kill_process(pid, Signal::CONT).is_ok())
}

/// Runs `rollback` for a live run: that process rolls back and starts its next run from the checkpoint.
pub(super) fn rollback(global: &Global, args: &RollbackArgs) -> Result<ExitCode, CliError> {
    use hankweave_core::wire::{RollbackPoint as WirePoint, ShaPrefix};
    let auto_restart = false;
    let command = match (&args.to, &args.codon) {
        (Some(prefix), _) => {
            // The live run may have a checkpoint that this look-up does not find yet. Then the run gets the prefix as typed, and resolves it.
            let full = checkpoints::full_name(&args.execution.execution, prefix);
            let name = match &full {
                Ok(sha) => sha.as_str(),
                Err(_) => prefix,
            };
            let Some(checkpoint_sha) = ShaPrefix::new(name.to_owned()) else {
                let message = format!("`{prefix}` is too short to name a checkpoint to a live run");
                return Err(full
                    .err()
                    .unwrap_or_else(|| CliError::new(CliErrorKind::Input, message)));
            };
            Command::RollbackToCheckpoint {
                checkpoint_sha,
                auto_restart,
            }
        }
        (None, Some(codon)) => Command::RollbackToCodon {
            codon_id: codon.clone(),
            checkpoint_type: match args.at {
                RollbackPointArg::RigSetup => WirePoint::RigSetup,
                RollbackPointArg::Completed => WirePoint::Completed,
                RollbackPointArg::Error => WirePoint::Error,
                RollbackPointArg::Skipped => WirePoint::Skipped,
                RollbackPointArg::Start => WirePoint::Start,
                RollbackPointArg::End => WirePoint::End,
            },
            auto_restart,
        },
        (None, None) => Command::RollbackToLastSuccess { auto_restart },
    };
    send(global, &args.execution.execution, command)
}

/// Runs `undo` for a live run whose newest operation is this rollback; `operation` is its id.
pub(super) fn undo_rollback(
    global: &Global,
    execution: &Path,
    operation: &str,
) -> Result<ExitCode, CliError> {
    let command = Command::RollbackUndo {
        operation: operation.to_owned(),
        auto_restart: false,
    };
    send(global, execution, command)
}

/// Sends one command and prints the answer.
fn send(global: &Global, execution: &Path, command: Command) -> Result<ExitCode, CliError> {
    crate::logging::install(global);
    let hints = HintCommands::about(execution);
    let answer = runtime()?.block_on(async {
        let target = RunAddress::Execution(execution.to_owned());
        let client = connect(target, Options::commanding()).await;
        let client = client.map_err(|error| connect_failure(&error, Some(&hints)))?;
        let answer = client.command(command).await;
        client.close().await;
        answer.map_err(|error| command_failure(&error, Some(&hints)))
    })?;
    if global.json() {
        return output::print_json(&json!(answer)["data"]);
    }
    if !global.quiet {
        output::print(format!("{}\n", words::of_answer(&answer)))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Longest wait for a process that has the directory and does not accept clients yet.
const START_WAIT: Duration = Duration::from_secs(10);
/// Longest wait for the end of a process that closes its server.
const END_WAIT: Duration = Duration::from_secs(2);
/// Interval between attempts to connect.
const CONNECT_INTERVAL: Duration = Duration::from_millis(50);

/// Connects to a run, also to one that is about to accept clients.
async fn connect(target: RunAddress, mut options: Options) -> Result<Client, ConnectError> {
    options.user = Environment::of_process().user();
    let (until, until_ended) = (Instant::now() + START_WAIT, Instant::now() + END_WAIT);
    let is_directory = matches!(target, RunAddress::Execution(_));
    // A process that asks a question in its terminal accepts no clients before the answer, which may take a night.
    let may_start = || match &target {
        RunAddress::Execution(execution) => !holder(execution).is_some_and(|holder| holder.asking),
        _ => true,
    };
    loop {
        match Client::connect(target.clone(), options.clone()).await {
            Err(ConnectError::Find(FindError::NoPort { .. })) if Instant::now() < until && may_start() => {
                sleep(CONNECT_INTERVAL).await;
            }
            // A run that has just ended no longer answers. Another attempt a moment later finds that it is no longer live, which is the better error.
            Err(ConnectError::Connect { .. } | ConnectError::Upgrade { .. })
                if is_directory && Instant::now() < until_ended =>
            {
                sleep(CONNECT_INTERVAL).await;
            }
            connected => return connected,
        }
    }
}

pub(super) fn runtime() -> Result<tokio::runtime::Runtime, CliError> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| CliError::from_error(CliErrorKind::Io, &error))
}

/// Returns the process that has this execution directory, if it asks a question in its terminal.
fn asking_pid(execution: &Path) -> Option<u32> {
    holder(execution)
        .filter(|holder| holder.asking)
        .map(|holder| holder.pid)
}

/// Describes a failure to connect. `hints` is `None` if the server was named by its address, so that the directory is unknown.
fn connect_failure(error: &ConnectError, hints: Option<&HintCommands>) -> CliError {
    match error {
        ConnectError::Find(FindError::NoExecution { .. } | FindError::NotLive { .. }) => {
            let failure = CliError::from_error(CliErrorKind::Input, error);
            match hints {
                Some(hints) => failure.hint(without_run(hints)),
                None => failure,
            }
        }
        ConnectError::Find(FindError::Address(_)) => CliError::from_error(CliErrorKind::Input, error),
        ConnectError::Find(FindError::Elsewhere { .. }) => CliError::from_error(CliErrorKind::Input, error)
            .hint(format!("nothing was connected to; if you know it, `{ATTACH_BY_ADDRESS}` takes its address with the token")),
        ConnectError::Find(FindError::NoPort { path, pid }) => {
            let other = || "it starts or ends its run just now, or it is no run".to_owned();
            let hint = asking_pid(path).map_or_else(other, |_| answer_there(*pid));
            CliError::from_error(CliErrorKind::Held, error).hint(hint)
        }
        ConnectError::Find(FindError::Suspended { pid, .. }) => {
            CliError::from_error(CliErrorKind::Held, error).hint(how_to_continue(*pid))
        }
        ConnectError::Unauthorized { .. } => CliError::from_error(CliErrorKind::Input, error)
            .hint("HANKWEAVE_TOKEN, and HANKWEAVE_READONLY_TOKEN for reading, must hold what the run was started with; without them the tokens in .hankweave are taken"),
        ConnectError::Connect { .. } => CliError::from_error(CliErrorKind::Io, error).hint(status_hint(hints)),
        ConnectError::Refused { .. } => CliError::from_error(CliErrorKind::Failed, error),
        _ => CliError::from_error(CliErrorKind::Io, error),
    }
}

/// Returns what to type where no run is live: what continues the last one, or starts the first.
fn without_run(hints: &HintCommands) -> String {
    match status::last_run(hints.execution()) {
        Some(last) => format!(
            "{last}; `{}` tells more, `{}` serves its page",
            hints.command("status"),
            hints.command("view")
        ),
        None if hints.knows_the_hank() => format!("`{}` starts the first run there", hints.run()),
        None => "name the directory of a live run with -e DIR".to_owned(),
    }
}

fn command_failure(error: &CommandError, hints: Option<&HintCommands>) -> CliError {
    match error {
        CommandError::Refused { message, code, hint } => {
            let failure = CliError::new(CliErrorKind::Failed, format!("refused: {message}"));
            // A task is continued by its worker, not by a run.
            let ended = hints.filter(|_| matches!(code.as_str(), "STOPPING" | "RUN_ENDED"));
            let hint = ended
                .and_then(|hints| onward(hints.execution()))
                .or_else(|| hints?.instead_of(code))
                .or_else(|| hint.clone());
            match hint {
                Some(hint) => failure.hint(hint),
                None => failure,
            }
        }
        CommandError::Unanswered(_) => CliError::from_error(CliErrorKind::Io, error).hint(status_hint(hints)),
        _ => CliError::from_error(CliErrorKind::Bug, error),
    }
}

/// Returns the failure of a client whose connection has ended; `None` after the regular end of the run.
fn ended_failure(ended: &Disconnected, hints: Option<&HintCommands>) -> Option<CliError> {
    match ended {
        Disconnected::RunEnded => None,
        Disconnected::Incomplete { after } => {
            Some(CliError::from_error(CliErrorKind::Io, ended).hint(missed_events_hint(hints, *after)))
        }
        Disconnected::Refused(_) => Some(CliError::from_error(CliErrorKind::Failed, ended)),
        // `Lost`
        _ => Some(CliError::from_error(CliErrorKind::Io, ended).hint(status_hint(hints))),
    }
}

/// Returns a hint on how to read the events that were not received.
fn missed_events_hint(hints: Option<&HintCommands>, after: u64) -> String {
    match hints {
        Some(hints) => format!("`{} --after {after}` shows them", hints.command("journal")),
        None => format!("`hankweave journal --after {after}` in its directory shows them"),
    }
}

/// Returns a hint on how to find out about a run that no longer answers.
fn status_hint(hints: Option<&HintCommands>) -> String {
    match hints {
        Some(hints) => format!("`{}` shows what became of the run", hints.command("status")),
        None => "the status of its directory shows what became of the run".to_owned(),
    }
}
