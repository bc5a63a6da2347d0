//! Commands to a run that another program serves: `next`, `skip`, `stop`, and `rollback` while a run is live.

mod attach;
mod keys;
mod words;

use std::io::IsTerminal;
use std::path::Path;
use std::process::ExitCode;

use hankweave_core::wire::Command;
use serde_json::json;

use super::args::{Execution, Global, Point, RollbackArgs, StopArgs};
use super::exit::{Failure, FailureKind};
use crate::client::{Client, CommandError, ConnectError, Ended, FindError, Options, Target};

pub(super) use attach::attach;

pub(super) fn next(global: &Global, execution: &Execution) -> Result<ExitCode, Failure> {
    send(global, &execution.execution, Command::CodonNext)
}

pub(super) fn skip(global: &Global, execution: &Execution) -> Result<ExitCode, Failure> {
    send(global, &execution.execution, Command::CodonSkip)
}

pub(super) fn stop(global: &Global, args: &StopArgs) -> Result<ExitCode, Failure> {
    let reason = args.reason.clone();
    let command = match args.force {
        false => Command::ServerShutdown { reason },
        true => Command::ServerForceShutdown { reason },
    };
    send(global, &args.execution.execution, command)
}

/// Whether a run is live in the directory and takes clients.
pub(super) fn is_live(execution: &Path) -> bool {
    Target::Execution(execution.to_owned()).is_there()
}

/// `rollback` where a run is live: it goes back by itself, and its next run begins there.
pub(super) fn rollback(global: &Global, args: &RollbackArgs) -> Result<ExitCode, Failure> {
    use hankweave_core::wire::{Point as WirePoint, ShaPrefix};
    let auto_restart = false;
    let command = match (&args.to, &args.codon) {
        (Some(prefix), _) => Command::RollbackToCheckpoint {
            checkpoint_sha: ShaPrefix::new(prefix.clone()).ok_or_else(|| {
                let message = format!("`{prefix}` is too short to name a checkpoint to a live run");
                Failure::new(FailureKind::Input, message)
                    .hint("give 12 or more digits; `hankweave checkpoints` lists them")
            })?,
            auto_restart,
        },
        (None, Some(codon)) => Command::RollbackToCodon {
            codon_id: codon.clone(),
            checkpoint_type: match args.at {
                Point::RigSetup => WirePoint::RigSetup,
                Point::Completed => WirePoint::Completed,
                Point::Error => WirePoint::Error,
                Point::Skipped => WirePoint::Skipped,
                Point::Start => WirePoint::Start,
                Point::End => WirePoint::End,
            },
            auto_restart,
        },
        (None, None) => Command::RollbackToLastSuccess { auto_restart },
    };
    send(global, &args.execution.execution, command)
}

/// Sends one command and prints the answer.
fn send(global: &Global, execution: &Path, command: Command) -> Result<ExitCode, Failure> {
    super::logging::install(global);
    let answer = runtime()?.block_on(async {
        let target = Target::Execution(execution.to_owned());
        let client = Client::connect(target, Options::commanding()).await;
        let client = client.map_err(|error| connect_failure(&error))?;
        let answer = client.command(command).await;
        client.close().await;
        answer.map_err(|error| command_failure(&error))
    })?;
    if global.json() {
        return super::state::print_json(&json!(answer)["data"]);
    }
    if !global.quiet {
        super::print(&format!("{}\n", words::of_answer(&answer)))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::from_error(FailureKind::Io, &error))
}

fn connect_failure(error: &ConnectError) -> Failure {
    match error {
        ConnectError::Find(FindError::NoExecution { .. } | FindError::NotLive { .. }) => {
            Failure::from_error(FailureKind::Input, error)
                .hint("name the directory of a live run with -e DIR; `hankweave run` starts one")
        }
        ConnectError::Find(FindError::Address(_)) => Failure::from_error(FailureKind::Input, error),
        ConnectError::Find(FindError::NoPort { .. }) => Failure::from_error(FailureKind::Held, error)
            .hint("it is starting, or it is no `run`; try again in a moment"),
        ConnectError::Unauthorized { .. } => Failure::from_error(FailureKind::Input, error)
            .hint("HANKWEAVE_TOKEN must hold what the run was started with; without it the token in .hankweave is taken"),
        ConnectError::Find(FindError::Token { .. })
        | ConnectError::Connect { .. }
        | ConnectError::Upgrade { .. } => Failure::from_error(FailureKind::Io, error),
        ConnectError::Refused { .. } => Failure::from_error(FailureKind::Failed, error),
    }
}

fn command_failure(error: &CommandError) -> Failure {
    match error {
        CommandError::Refused { message, hint, .. } => {
            let failure = Failure::new(FailureKind::Failed, format!("refused: {message}"));
            match hint {
                Some(hint) => failure.hint(hint),
                None => failure,
            }
        }
        CommandError::Unanswered(_) => Failure::from_error(FailureKind::Io, error)
            .hint("`hankweave status` shows what became of the run"),
        CommandError::History => Failure::from_error(FailureKind::Bug, error),
    }
}

fn ended_failure(ended: &Ended) -> Option<Failure> {
    match ended {
        Ended::RunEnded => None,
        Ended::Refused(_) => Some(Failure::from_error(FailureKind::Failed, ended)),
        Ended::Lost(_) => Some(
            Failure::from_error(FailureKind::Io, ended)
                .hint("`hankweave status` shows what became of the run"),
        ),
    }
}

/// Whether a person sees what is printed and can answer.
fn is_interactive() -> bool {
    std::io::stdout().is_terminal() && std::io::stderr().is_terminal()
}
