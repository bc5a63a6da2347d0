//! Words of `hankweave attach`: the lines in which people type commands ([`read`]), and the answers to commands as sentences ([`of_answer`]).

use hankweave_core::id::CodonId;
use hankweave_core::wire::{Command, CommandOutcome, DirectPayload, RollbackPoint, ShaPrefix};

pub(super) const HELP: &str = "next | approve | deny [REASON] | redo | start ID [--skip-rig] | skip | stop [REASON] (by force) | rollback SHA | rollback last-success | \
                               rollback codon ID | quit (ends the run) | detach";

/// Digits of a full SHA.
const LONGEST_SHA: usize = 64;

/// Meaning of a typed line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum AttachInput {
    Nothing,
    Command(Command),
    /// A command that changes files and has to be confirmed.
    Careful(Command),
    /// Roll back to the checkpoint whose SHA begins like this: too short for the run to accept, so the caller looks up the SHA.
    BackTo(String),
    Detach,
    Unknown,
}

pub(super) fn read(line: &str) -> AttachInput {
    let words: Vec<&str> = line.split_whitespace().collect();
    let auto_restart = false;
    match words.as_slice() {
        [] => AttachInput::Nothing,
        ["next"] => AttachInput::Command(Command::CodonNext),
        ["redo"] => AttachInput::Command(Command::CodonRedo),
        ["start", id] => start(id, false),
        ["start", id, "--skip-rig"] | ["start", "--skip-rig", id] => start(id, true),
        ["approve"] => AttachInput::Command(Command::CodonApprove {
            codon_id: None,
            reason: None,
            by: None,
        }),
        ["deny", reason @ ..] => AttachInput::Command(Command::CodonDeny {
            codon_id: None,
            reason: Some(reason.join(" ")).filter(|reason| !reason.is_empty()),
            by: None,
        }),
        ["skip"] => AttachInput::Command(Command::CodonSkip),
        ["stop", reason @ ..] => AttachInput::Command(Command::CodonForceStop {
            reason: Some(reason.join(" ")).filter(|reason| !reason.is_empty()),
        }),
        ["rollback", "last-success"] => AttachInput::Careful(Command::RollbackToLastSuccess { auto_restart }),
        ["rollback", "codon", id] => match CodonId::new(*id) {
            Ok(codon_id) => AttachInput::Careful(Command::RollbackToCodon {
                codon_id,
                checkpoint_type: RollbackPoint::End,
                auto_restart,
            }),
            Err(_) => AttachInput::Unknown,
        },
        ["rollback", sha] if sha.len() <= LONGEST_SHA && sha.bytes().all(|byte| byte.is_ascii_hexdigit()) => {
            back_to(sha.to_ascii_lowercase())
        }
        ["quit"] => AttachInput::Command(Command::ServerShutdown { reason: None }),
        ["detach"] => AttachInput::Detach,
        _ => AttachInput::Unknown,
    }
}

/// Returns the input that rolls back to a checkpoint, named by its SHA or a prefix.
pub(super) fn back_to(sha: String) -> AttachInput {
    match ShaPrefix::new(sha.clone()) {
        Some(checkpoint_sha) => AttachInput::Careful(Command::RollbackToCheckpoint {
            checkpoint_sha,
            auto_restart: false,
        }),
        None => AttachInput::BackTo(sha),
    }
}

fn start(id: &str, skip_pre_commands: bool) -> AttachInput {
    match CodonId::new(id) {
        Ok(codon_id) => AttachInput::Command(Command::CodonStart {
            codon_id,
            skip_pre_commands,
        }),
        Err(_) => AttachInput::Unknown,
    }
}

/// Describes the outcome of a command.
pub(super) fn of_answer(answer: &DirectPayload) -> String {
    let DirectPayload::CommandAck {
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
        CommandOutcome::Starting => format!("starting {codon}"),
        CommandOutcome::Denied => format!("{codon} may not begin, and the run ends"),
        CommandOutcome::Stopping => format!("stopping {codon}"),
        CommandOutcome::ShuttingDown => "the run is being stopped".to_owned(),
        CommandOutcome::RolledBack => {
            let mut text = match codon {
                "" => "rolled back to the beginning".to_owned(),
                codon => format!("rolled back to {codon}"),
            };
            if let Some(safety) = safety_checkpoint {
                text.push_str(&format!(
                    "; what it replaced is kept in checkpoint {}",
                    safety.short()
                ));
            }
            if let Some(next) = next_codon_id {
                text.push_str(&format!(
                    "; the run waits, and `next` starts {next}, where it needs an approval after that"
                ));
            }
            text
        }
        _ => "done".to_owned(),
    };
    let again = if *repeated { " (was done before)" } else { "" };
    format!("{text}{again}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_command_and_what_changes_files_is_asked_once_more() {
        assert_eq!(read(" next "), AttachInput::Command(Command::CodonNext));
        let stop = |reason: Option<&str>| {
            AttachInput::Command(Command::CodonForceStop {
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
            assert!(matches!(read(careful), AttachInput::Careful(_)), "{careful}");
        }
        assert_eq!(read("start a --skip-rig"), start("a", true));
        assert_eq!(read("rollback 01AB"), AttachInput::BackTo("01ab".to_owned()));
        assert_eq!(
            (read(""), read("detach")),
            (AttachInput::Nothing, AttachInput::Detach)
        );
        for unknown in [
            "start ../x",
            "start a b",
            "help",
            "nexte",
            "rollback",
            "rollback main",
            "rollback codon ../x",
        ] {
            assert_eq!(read(unknown), AttachInput::Unknown, "{unknown}");
        }
    }
}
