//! Keys that command a followed run, and the menu of checkpoints to roll back to (CLI-15).

use hankweave_core::wire::{Command, ListedCheckpoint, ShaPrefix};

/// Commands by key, for people.
pub(super) const HELP: &str =
    "n next | s skip | x stop by force | r go back … | q end the run | d detach | ? this";

/// Checkpoints that the menu offers: the digits from 1 to 9 name them.
const MAX_CHECKPOINTS: usize = 9;

const CONFIRM: &str = "y means it, any other key does nothing";

/// Meaning of the next key.
#[derive(Debug, Default)]
pub(super) enum MenuState {
    /// The key is a command.
    #[default]
    Top,
    /// The key is the number of a checkpoint in this list, counted from 1.
    Checkpoints(Vec<ListedCheckpoint>),
    /// `y` sends the command; any other key drops it.
    Confirm(Command),
}

/// Reaction to a key.
#[derive(Debug, PartialEq)]
pub(super) enum KeyAction {
    Nothing,
    /// Print the text.
    Say(String),
    Send(Command),
    /// Ask the run for its checkpoints and [`MenuState::offer`] them.
    ListCheckpoints,
    Detach,
}

impl MenuState {
    /// Takes one key. Any key leaves the menu or the question that it answers.
    pub(super) fn press(&mut self, key: u8) -> KeyAction {
        let unchanged = || KeyAction::Say("nothing was changed".to_owned());
        match std::mem::take(self) {
            Self::Top => self.press_command(key),
            Self::Checkpoints(checkpoints) => {
                let index = key.checked_sub(b'1').map(usize::from);
                match index.and_then(|index| checkpoints.get(index)) {
                    Some(checkpoint) => self.confirm_rollback(checkpoint),
                    None => unchanged(),
                }
            }
            Self::Confirm(command) => match key {
                b'y' | b'Y' => KeyAction::Send(command),
                _ => unchanged(),
            },
        }
    }

    /// Opens a menu of the first of these checkpoints and returns its text; without any checkpoint no menu opens.
    pub(super) fn offer(&mut self, mut checkpoints: Vec<ListedCheckpoint>) -> String {
        checkpoints.truncate(MAX_CHECKPOINTS);
        if checkpoints.is_empty() {
            return "there is no checkpoint to roll back to".to_owned();
        }
        let mut text = "roll back to (any other key: nowhere)".to_owned();
        for (number, checkpoint) in (1..).zip(&checkpoints) {
            text.push_str(&format!(
                "\n  {number}  {} at {}",
                name(checkpoint),
                checkpoint.timestamp
            ));
        }
        *self = Self::Checkpoints(checkpoints);
        text
    }

    fn press_command(&mut self, key: u8) -> KeyAction {
        match key {
            b'n' => KeyAction::Send(Command::CodonNext),
            b's' => KeyAction::Send(Command::CodonSkip),
            b'x' => KeyAction::Send(Command::CodonForceStop { reason: None }),
            b'r' => KeyAction::ListCheckpoints,
            b'q' => {
                *self = Self::Confirm(Command::ServerShutdown { reason: None });
                KeyAction::Say(format!("end the run? {CONFIRM}"))
            }
            b'd' => KeyAction::Detach,
            b' ' | b'\n' | b'\r' => KeyAction::Nothing,
            _ => KeyAction::Say(HELP.to_owned()),
        }
    }

    fn confirm_rollback(&mut self, checkpoint: &ListedCheckpoint) -> KeyAction {
        let Some(checkpoint_sha) = ShaPrefix::new(checkpoint.sha.as_str()) else {
            return KeyAction::Say("this checkpoint has no name to roll back to".to_owned());
        };
        *self = Self::Confirm(Command::RollbackToCheckpoint {
            checkpoint_sha,
            auto_restart: false,
        });
        KeyAction::Say(format!(
            "take the files of the project back to {}? {CONFIRM}",
            name(checkpoint)
        ))
    }
}

/// Returns the name of a checkpoint for people, such as `build#1 rig-setup`. The type belongs to it: a codon has one after its rig and
/// one at its end.
fn name(checkpoint: &ListedCheckpoint) -> String {
    format!("{} {}", checkpoint.codon_id, checkpoint.checkpoint_type)
}

#[cfg(test)]
mod tests {
    use hankweave_core::codon::CheckpointType;
    use serde_json::json;

    use super::*;

    fn checkpoints(count: usize) -> Vec<ListedCheckpoint> {
        let checkpoint = |number: usize| {
            serde_json::from_value(json!({"codonId": format!("c{number}"), "codonName": "C", "checkpointType": "completed",
                "sha": format!("{number:040x}"), "status": "completed", "timestamp": "2026-01-04T12:00:00.000Z"}))
            .unwrap()
        };
        (1..=count).map(checkpoint).collect()
    }

    /// Presses keys one after another and returns the reaction to the last one.
    fn press(menu: &mut MenuState, keys: &str) -> KeyAction {
        let last = keys.bytes().map(|key| menu.press(key)).last();
        last.unwrap()
    }

    #[test]
    fn a_key_is_a_command() {
        let mut menu = MenuState::default();
        assert_eq!(press(&mut menu, "n"), KeyAction::Send(Command::CodonNext));
        assert_eq!(press(&mut menu, "s"), KeyAction::Send(Command::CodonSkip));
        let stop = Command::CodonForceStop { reason: None };
        assert_eq!(press(&mut menu, "x"), KeyAction::Send(stop));
        assert_eq!(press(&mut menu, "r"), KeyAction::ListCheckpoints);
        assert_eq!(press(&mut menu, "d"), KeyAction::Detach);
        assert_eq!(press(&mut menu, "\n"), KeyAction::Nothing);
        for unknown in ["?", "N", "1", "y", "\x1b"] {
            assert_eq!(
                press(&mut menu, unknown),
                KeyAction::Say(HELP.to_owned()),
                "{unknown:?}"
            );
        }
    }

    // covers: CLI-15
    #[test]
    fn what_takes_files_back_or_ends_the_run_is_asked_once_more() {
        let mut menu = MenuState::default();
        let text = menu.offer(checkpoints(12));
        assert!(
            text.contains("\n  1  c1 completed at 2026-01-04T12:00:00.000Z") && text.contains("\n  9  c9 ")
        );
        assert!(!text.contains("c10"), "{text}");
        let question =
            "take the files of the project back to c2 completed? y means it, any other key does nothing";
        assert_eq!(press(&mut menu, "2"), KeyAction::Say(question.to_owned()));
        let back = Command::RollbackToCheckpoint {
            checkpoint_sha: ShaPrefix::new(format!("{:040x}", 2)).unwrap(),
            auto_restart: false,
        };
        assert_eq!(press(&mut menu, "y"), KeyAction::Send(back));
        let question = "end the run? y means it, any other key does nothing";
        assert_eq!(press(&mut menu, "q"), KeyAction::Say(question.to_owned()));
        let quit = Command::ServerShutdown { reason: None };
        assert_eq!(press(&mut menu, "y"), KeyAction::Send(quit));
    }

    // covers: CLI-15
    #[test]
    fn a_checkpoint_after_a_rig_is_not_said_to_be_the_end_of_its_codon() {
        let mut menu = MenuState::default();
        let mut listed = checkpoints(1);
        listed[0].checkpoint_type = CheckpointType::RigSetup;
        menu.offer(listed);
        let KeyAction::Say(question) = press(&mut menu, "1") else {
            panic!("no question");
        };
        assert!(question.contains(" back to c1 rig-setup? "), "{question}");
    }

    #[test]
    fn any_other_key_leaves_a_menu_and_changes_nothing() {
        let nothing = KeyAction::Say("nothing was changed".to_owned());
        let mut menu = MenuState::default();
        for pressed in ["n", "0", "3", "\x1b"] {
            menu.offer(checkpoints(2));
            assert_eq!(press(&mut menu, pressed), nothing, "{pressed:?}");
        }
        for pressed in ["1n", "1Y1"] {
            menu.offer(checkpoints(2));
            let first = pressed.strip_suffix("1").unwrap_or(pressed);
            let sent = press(&mut menu, first);
            assert_eq!(sent == nothing, pressed == "1n", "{pressed:?}");
        }
        assert_eq!(press(&mut menu, "qn"), nothing);
        assert_eq!(menu.offer(Vec::new()), "there is no checkpoint to roll back to");
        assert_eq!(
            press(&mut menu, "n"),
            KeyAction::Send(Command::CodonNext),
            "there is no menu"
        );
    }
}
