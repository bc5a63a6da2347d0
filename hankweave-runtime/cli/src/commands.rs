//! Commands to a live run, typed into the terminal of `hankweave run`, which reads them line by line from its standard input.

use std::convert::Infallible;

use hankweave_core::id::CodonId;
use hankweave_core::thread::CodonPoint;
use hankweave_runtime::error::chain;
use hankweave_runtime::world::environment::Environment;
use hankweave_runtime::{AcceptedCommand, Commander, RollbackTarget, RunCommand, Shutdown, StopCause};
use tokio::io::{AsyncBufReadExt, BufReader};

use crate::hints::HintCommands;
use crate::terminal::screen::print_stderr;

const HELP: &str = "next | approve | deny [REASON] | redo | start ID [--skip-rig] | skip | stop [REASON] (by force) | rollback SHA | rollback last-success | \
                    rollback codon ID | quit";

/// Meaning of a line of input.
#[derive(Debug, Clone, PartialEq, Eq)]
enum StdinCommand {
    /// An empty line.
    Nothing,
    Command(RunCommand),
    Quit,
    Unknown,
}

/// Reads commands from standard input, one per line, and prints the outcome of each; reads nothing without a `commander`. Never returns, not even at the
/// end of the input, so that the caller can wait for it next to the run.
pub(crate) async fn obey(
    commander: Option<Commander>,
    shutdown: Shutdown,
    hints: &HintCommands,
) -> Infallible {
    let Some(commander) = commander else {
        return std::future::pending().await;
    };
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        match parse(&line) {
            StdinCommand::Nothing => {}
            StdinCommand::Unknown => print_stderr(format!("commands: {HELP}\n")),
            StdinCommand::Quit => shutdown.request(StopCause::Request),
            StdinCommand::Command(command) => match commander.send(command).await {
                Ok(AcceptedCommand::Starting(codon)) => print_stderr(format!("starting {codon}\n")),
                Ok(AcceptedCommand::Denied(codon)) => print_stderr(format!("{codon} may not begin\n")),
                Ok(AcceptedCommand::Stopping(codon)) => print_stderr(format!("stopping {codon}\n")),
                Ok(AcceptedCommand::RolledBack(rollback)) => {
                    print_stderr(crate::rollback::text(&rollback, false, None));
                }
                Ok(_) => print_stderr("accepted\n".to_owned()),
                Err(refusal) => {
                    let instead = hints.instead_of(refusal.code());
                    let hint = instead.unwrap_or_else(|| refusal.hint().to_owned());
                    print_stderr(format!("refused: {}\n  hint: {hint}\n", chain(&refusal)));
                }
            },
        }
    }
    std::future::pending().await
}

fn parse(line: &str) -> StdinCommand {
    let words: Vec<&str> = line.split_whitespace().collect();
    let roll_back = |target| {
        StdinCommand::Command(RunCommand::RollBack {
            target,
            restart: false,
        })
    };
    let answer = |granted, reason: &[&str]| {
        StdinCommand::Command(RunCommand::Answer {
            codon_id: None,
            granted,
            reason: Some(reason.join(" ")).filter(|reason| !reason.is_empty()),
            by: Environment::of_process().user(),
        })
    };
    let start = |id: &str, skip_rig| match CodonId::new(id) {
        Ok(codon_id) => StdinCommand::Command(RunCommand::Start { codon_id, skip_rig }),
        Err(_) => StdinCommand::Unknown,
    };
    match words.as_slice() {
        [] => StdinCommand::Nothing,
        ["next"] => StdinCommand::Command(RunCommand::Next),
        ["redo"] => StdinCommand::Command(RunCommand::Redo),
        ["start", id] => start(id, false),
        ["start", id, "--skip-rig"] | ["start", "--skip-rig", id] => start(id, true),
        ["approve"] => answer(true, &[]),
        ["deny", reason @ ..] => answer(false, reason),
        ["skip"] => StdinCommand::Command(RunCommand::Skip),
        ["stop", reason @ ..] => StdinCommand::Command(RunCommand::ForceStop {
            reason: Some(reason.join(" ")).filter(|reason| !reason.is_empty()),
        }),
        ["rollback", "last-success"] => roll_back(RollbackTarget::LastSuccess),
        ["rollback", "codon", id] => match CodonId::new(*id) {
            Ok(id) => roll_back(RollbackTarget::Codon(id, CodonPoint::End)),
            Err(_) => StdinCommand::Unknown,
        },
        ["rollback", sha] => roll_back(RollbackTarget::Checkpoint(sha.to_ascii_lowercase())),
        ["quit"] => StdinCommand::Quit,
        _ => StdinCommand::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_command_or_asks_for_help() {
        let stop = |reason: Option<&str>| {
            StdinCommand::Command(RunCommand::ForceStop {
                reason: reason.map(str::to_owned),
            })
        };
        assert_eq!(parse("  next "), StdinCommand::Command(RunCommand::Next));
        assert_eq!(
            (parse("stop"), parse("stop it now")),
            (stop(None), stop(Some("it now")))
        );
        let back = |target| {
            StdinCommand::Command(RunCommand::RollBack {
                target,
                restart: false,
            })
        };
        assert_eq!(
            parse("rollback 12AB"),
            back(RollbackTarget::Checkpoint("12ab".to_owned()))
        );
        assert_eq!(parse("rollback last-success"), back(RollbackTarget::LastSuccess));
        let end = RollbackTarget::Codon("a".parse().unwrap(), CodonPoint::End);
        assert_eq!(parse("rollback codon a"), back(end));
        let start = |skip_rig| {
            let codon_id = "a#1".parse().unwrap();
            StdinCommand::Command(RunCommand::Start { codon_id, skip_rig })
        };
        assert_eq!(parse("start a#1"), start(false));
        assert_eq!(parse("start a#1 --skip-rig"), start(true));
        assert_eq!(
            (parse(""), parse("quit")),
            (StdinCommand::Nothing, StdinCommand::Quit)
        );
        for unknown in [
            "help",
            "nexte",
            "start",
            "start ../x",
            "start --skip-rig",
            "rollback",
            "rollback codon ../x",
        ] {
            assert_eq!(parse(unknown), StdinCommand::Unknown, "{unknown}");
        }
    }
}
