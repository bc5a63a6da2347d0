//! Commands to a live run, typed into the program that runs it.

use std::convert::Infallible;

use hankweave_core::id::CodonId;
use hankweave_core::thread::CodonPoint;
use hankweave_runtime::error::chain;
use hankweave_runtime::{Accepted, Command, Commander, RollbackTarget, Shutdown, StopCause};
use tokio::io::{AsyncBufReadExt, BufReader};

use crate::screen::tell;
use crate::typed::Typed;

const HELP: &str = "next | approve | deny [REASON] | redo | start ID [--skip-rig] | skip | stop [REASON] (by force) | rollback SHA | rollback last-success | \
                    rollback codon ID | quit";

/// A line of input.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Input {
    Nothing,
    Command(Command),
    Quit,
    Unknown,
}

/// Reads commands from standard input, one a line, and says what became of each. The end of the input changes nothing.
pub(crate) async fn obey(commander: Option<Commander>, shutdown: Shutdown, typed: &Typed) -> Infallible {
    let Some(commander) = commander else {
        return std::future::pending().await;
    };
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        match read(&line) {
            Input::Nothing => {}
            Input::Unknown => tell(format!("commands: {HELP}\n")),
            Input::Quit => shutdown.request(StopCause::Request),
            Input::Command(command) => match commander.send(command).await {
                Ok(Accepted::Starting(codon)) => tell(format!("starting {codon}\n")),
                Ok(Accepted::Denied(codon)) => tell(format!("{codon} may not begin\n")),
                Ok(Accepted::Stopping(codon)) => tell(format!("stopping {codon}\n")),
                Ok(Accepted::RolledBack(rollback)) => {
                    tell(crate::rollback::text(&rollback, false, None));
                }
                Err(refusal) => {
                    let instead = typed.instead_of(refusal.code());
                    let hint = instead.unwrap_or_else(|| refusal.hint().to_owned());
                    tell(format!("refused: {}\n  hint: {hint}\n", chain(&refusal)));
                }
            },
        }
    }
    std::future::pending().await
}

fn read(line: &str) -> Input {
    let words: Vec<&str> = line.split_whitespace().collect();
    let roll_back = |target| {
        Input::Command(Command::RollBack {
            target,
            restart: false,
        })
    };
    let answer = |granted, reason: &[&str]| {
        Input::Command(Command::Answer {
            codon_id: None,
            granted,
            reason: Some(reason.join(" ")).filter(|reason| !reason.is_empty()),
        })
    };
    let start = |id: &str, skip_rig| match CodonId::new(id) {
        Ok(codon_id) => Input::Command(Command::Start { codon_id, skip_rig }),
        Err(_) => Input::Unknown,
    };
    match words.as_slice() {
        [] => Input::Nothing,
        ["next"] => Input::Command(Command::Next),
        ["redo"] => Input::Command(Command::Redo),
        ["start", id] => start(id, false),
        ["start", id, "--skip-rig"] | ["start", "--skip-rig", id] => start(id, true),
        ["approve"] => answer(true, &[]),
        ["deny", reason @ ..] => answer(false, reason),
        ["skip"] => Input::Command(Command::Skip),
        ["stop", reason @ ..] => Input::Command(Command::ForceStop {
            reason: Some(reason.join(" ")).filter(|reason| !reason.is_empty()),
        }),
        ["rollback", "last-success"] => roll_back(RollbackTarget::LastSuccess),
        ["rollback", "codon", id] => match CodonId::new(*id) {
            Ok(id) => roll_back(RollbackTarget::Codon(id, CodonPoint::End)),
            Err(_) => Input::Unknown,
        },
        ["rollback", sha] => roll_back(RollbackTarget::Checkpoint(sha.to_ascii_lowercase())),
        ["quit"] => Input::Quit,
        _ => Input::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_command_or_asks_for_help() {
        let stop = |reason: Option<&str>| {
            Input::Command(Command::ForceStop {
                reason: reason.map(str::to_owned),
            })
        };
        assert_eq!(read("  next "), Input::Command(Command::Next));
        assert_eq!(
            (read("stop"), read("stop it now")),
            (stop(None), stop(Some("it now")))
        );
        let back = |target| {
            Input::Command(Command::RollBack {
                target,
                restart: false,
            })
        };
        assert_eq!(
            read("rollback 12AB"),
            back(RollbackTarget::Checkpoint("12ab".to_owned()))
        );
        assert_eq!(read("rollback last-success"), back(RollbackTarget::LastSuccess));
        let end = RollbackTarget::Codon("a".parse().unwrap(), CodonPoint::End);
        assert_eq!(read("rollback codon a"), back(end));
        let start = |skip_rig| {
            let codon_id = "a#1".parse().unwrap();
            Input::Command(Command::Start { codon_id, skip_rig })
        };
        assert_eq!(read("start a#1"), start(false));
        assert_eq!(read("start a#1 --skip-rig"), start(true));
        assert_eq!((read(""), read("quit")), (Input::Nothing, Input::Quit));
        for unknown in [
            "help",
            "nexte",
            "start",
            "start ../x",
            "start --skip-rig",
            "rollback",
            "rollback codon ../x",
        ] {
            assert_eq!(read(unknown), Input::Unknown, "{unknown}");
        }
    }
}
