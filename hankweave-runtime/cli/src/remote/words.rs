//! Answers for people, and commands as people type them.

use hankweave_core::id::CodonId;
use hankweave_core::wire::{Answer, Command, Outcome, Point, ShaPrefix};

pub(super) const HELP: &str = "next | approve | deny [REASON] | redo | start ID [--skip-rig] | skip | stop [REASON] (by force) | rollback SHA | rollback last-success | \
                               rollback codon ID | quit (ends the run) | detach";

/// Digits of a full SHA.
const LONGEST_SHA: usize = 64;

/// A line of input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Input {
    Nothing,
    Command(Command),
    /// A command that changes files and has to be confirmed.
    Careful(Command),
    /// Back to the checkpoint that begins like this; too short for the run to accept.
    BackTo(String),
    Detach,
    Unknown,
}

pub(super) fn read(line: &str) -> Input {
    let words: Vec<&str> = line.split_whitespace().collect();
    let auto_restart = false;
    match words.as_slice() {
        [] => Input::Nothing,
        ["next"] => Input::Command(Command::CodonNext),
        ["redo"] => Input::Command(Command::CodonRedo),
        ["start", id] => start(id, false),
        ["start", id, "--skip-rig"] | ["start", "--skip-rig", id] => start(id, true),
        ["approve"] => Input::Command(Command::CodonApprove {
            codon_id: None,
            reason: None,
        }),
        ["deny", reason @ ..] => Input::Command(Command::CodonDeny {
            codon_id: None,
            reason: Some(reason.join(" ")).filter(|reason| !reason.is_empty()),
        }),
        ["skip"] => Input::Command(Command::CodonSkip),
        ["stop", reason @ ..] => Input::Command(Command::CodonForceStop {
            reason: Some(reason.join(" ")).filter(|reason| !reason.is_empty()),
        }),
        ["rollback", "last-success"] => Input::Careful(Command::RollbackToLastSuccess { auto_restart }),
        ["rollback", "codon", id] => match CodonId::new(*id) {
            Ok(codon_id) => Input::Careful(Command::RollbackToCodon {
                codon_id,
                checkpoint_type: Point::End,
                auto_restart,
            }),
            Err(_) => Input::Unknown,
        },
        ["rollback", sha] if sha.len() <= LONGEST_SHA && sha.bytes().all(|byte| byte.is_ascii_hexdigit()) => {
            back_to(sha.to_ascii_lowercase())
        }
        ["quit"] => Input::Command(Command::ServerShutdown { reason: None }),
        ["detach"] => Input::Detach,
        _ => Input::Unknown,
    }
}

/// Back to a checkpoint.
pub(super) fn back_to(sha: String) -> Input {
    match ShaPrefix::new(sha.clone()) {
        Some(checkpoint_sha) => Input::Careful(Command::RollbackToCheckpoint {
            checkpoint_sha,
            auto_restart: false,
        }),
        None => Input::BackTo(sha),
    }
}

fn start(id: &str, skip_pre_commands: bool) -> Input {
    match CodonId::new(id) {
        Ok(codon_id) => Input::Command(Command::CodonStart {
            codon_id,
            skip_pre_commands,
        }),
        Err(_) => Input::Unknown,
    }
}

/// What became of a command.
pub(super) fn of_answer(answer: &Answer) -> String {
    let Answer::CommandAck {
        outcome,
        codon_id,
        safety_checkpoint,
        next_codon_id,
        repeated,
        ..
    } = answer
    else {
        return "done".to_owned();
    };
    let codon = codon_id.as_ref().map_or("", |id| id.as_str());
    let text = match outcome {
        Outcome::Starting => format!("starting {codon}"),
        Outcome::Denied => format!("{codon} may not begin, and the run ends"),
        Outcome::Stopping => format!("stopping {codon}"),
        Outcome::ShuttingDown => "the run is being stopped".to_owned(),
        Outcome::Done => "done".to_owned(),
        Outcome::RolledBack => {
            let mut text = match codon {
                "" => "went back to the beginning".to_owned(),
                codon => format!("went back to {codon}"),
            };
            if let Some(safety) = safety_checkpoint {
                text.push_str(&format!(
                    "; the files as they were are kept in {}",
                    safety.short()
                ));
            }
            if let Some(next) = next_codon_id {
                text.push_str(&format!("; {next} runs next"));
            }
            text
        }
    };
    let again = if *repeated { " (was done before)" } else { "" };
    format!("{text}{again}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_command_and_what_changes_files_is_asked_once_more() {
        assert_eq!(read(" next "), Input::Command(Command::CodonNext));
        let stop = |reason: Option<&str>| {
            Input::Command(Command::CodonForceStop {
                reason: reason.map(str::to_owned),
            })
        };
        assert_eq!(
            (read("stop"), read("stop it now")),
            (stop(None), stop(Some("it now")))
        );
        for careful in [
            "rollback last-success",
            "rollback codon a",
            "rollback 0123456789AB",
        ] {
            assert!(matches!(read(careful), Input::Careful(_)), "{careful}");
        }
        assert_eq!(read("start a --skip-rig"), start("a", true));
        assert_eq!(read("rollback 01AB"), Input::BackTo("01ab".to_owned()));
        assert_eq!((read(""), read("detach")), (Input::Nothing, Input::Detach));
        for unknown in [
            "start ../x",
            "start a b",
            "help",
            "nexte",
            "rollback",
            "rollback main",
            "rollback codon ../x",
        ] {
            assert_eq!(read(unknown), Input::Unknown, "{unknown}");
        }
    }
}
