//! Commands to a live run, typed into the program that runs it.

use std::convert::Infallible;

use hankweave_core::id::CodonId;
use hankweave_core::thread::CodonPoint;
use hankweave_runtime::error::chain;
use hankweave_runtime::{Accepted, Command, Commander, RollbackTarget, Shutdown, StopCause};
use tokio::io::{AsyncBufReadExt, BufReader};

use crate::screen::tell;
use crate::typed::Typed as About;

const HELP: &str = "next | redo | start ID [--skip-rig] | skip | stop [REASON] (by force) | rollback SHA | rollback last-success | \
                    rollback codon ID | quit";

/// A line that was typed.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Typed {
    Nothing,
    Command(Command),
    Quit,
    Unknown,
}

/// Reads commands from standard input, one a line, and says what became of each. The end of the input changes nothing.
pub(crate) async fn obey(commander: Option<Commander>, shutdown: Shutdown, commands: &About) -> Infallible {
    let Some(commander) = commander else {
        return std::future::pending().await;
    };
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        match read(&line) {
            Typed::Nothing => {}
            Typed::Unknown => tell(format!("commands: {HELP}\n")),
            Typed::Quit => shutdown.request(StopCause::Request),
            Typed::Command(command) => match commander.send(command).await {
                Ok(Accepted::Starting(codon)) => tell(format!("starting {codon}\n")),
                Ok(Accepted::Stopping(codon)) => tell(format!("stopping {codon}\n")),
                Ok(Accepted::RolledBack(rollback)) => {
                    tell(crate::rollback::text(&rollback, false, None));
                }
                Err(refusal) => {
                    let instead = commands.instead_of(refusal.code());
                    let hint = instead.unwrap_or_else(|| refusal.hint().to_owned());
                    tell(format!("refused: {}\n  hint: {hint}\n", chain(&refusal)));
                }
            },
        }
    }
    std::future::pending().await
}

fn read(line: &str) -> Typed {
    let words: Vec<&str> = line.split_whitespace().collect();
    let roll_back = |target| {
        Typed::Command(Command::RollBack {
            target,
            restart: false,
        })
    };
    let start = |id: &str, skip_rig| match CodonId::new(id) {
        Ok(codon_id) => Typed::Command(Command::Start { codon_id, skip_rig }),
        Err(_) => Typed::Unknown,
    };
    match words.as_slice() {
        [] => Typed::Nothing,
        ["next"] => Typed::Command(Command::Next),
        ["redo"] => Typed::Command(Command::Redo),
        ["start", id] => start(id, false),
        ["start", id, "--skip-rig"] | ["start", "--skip-rig", id] => start(id, true),
        ["skip"] => Typed::Command(Command::Skip),
        ["stop", reason @ ..] => Typed::Command(Command::ForceStop {
            reason: Some(reason.join(" ")).filter(|reason| !reason.is_empty()),
        }),
        ["rollback", "last-success"] => roll_back(RollbackTarget::LastSuccess),
        ["rollback", "codon", id] => match CodonId::new(*id) {
            Ok(id) => roll_back(RollbackTarget::Codon(id, CodonPoint::End)),
            Err(_) => Typed::Unknown,
        },
        ["rollback", sha] => roll_back(RollbackTarget::Checkpoint(sha.to_ascii_lowercase())),
        ["quit"] => Typed::Quit,
        _ => Typed::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_command_or_asks_for_help() {
        let stop = |reason: Option<&str>| {
            Typed::Command(Command::ForceStop {
                reason: reason.map(str::to_owned),
            })
        };
        assert_eq!(read("  next "), Typed::Command(Command::Next));
        assert_eq!(
            (read("stop"), read("stop it now")),
            (stop(None), stop(Some("it now")))
        );
        let back = |target| {
            Typed::Command(Command::RollBack {
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
            Typed::Command(Command::Start { codon_id, skip_rig })
        };
        assert_eq!(read("start a#1"), start(false));
        assert_eq!(read("start a#1 --skip-rig"), start(true));
        assert_eq!((read(""), read("quit")), (Typed::Nothing, Typed::Quit));
        for unknown in [
            "help",
            "nexte",
            "start",
            "start ../x",
            "start --skip-rig",
            "rollback",
            "rollback codon ../x",
        ] {
            assert_eq!(read(unknown), Typed::Unknown, "{unknown}");
        }
    }
}
