//! Meaning of keys, and the menu of rollback targets (CLI-15).

use hankweave_core::wire::{Command, ListedCheckpoint, ShaPrefix};

pub(super) const HELP: &str =
    "n next | s skip | x stop by force | r go back … | q end the run | d detach | ? this";

/// As many as there are digits.
const PLACES: usize = 9;

/// Current menu.
#[derive(Debug, Default)]
pub(super) enum MenuState {
    /// Nowhere.
    #[default]
    Top,
    /// A digit names a place to roll back to.
    Places(Vec<ListedCheckpoint>),
    /// `y` means it.
    Sure(Command),
}

/// Command of a key.
#[derive(Debug, PartialEq)]
pub(super) enum KeyAction {
    Nothing,
    Say(String),
    Send(Command),
    /// The places to roll back to are to be asked for, and then [`MenuState::offer`]ed.
    List,
    Detach,
}

impl MenuState {
    /// Takes one key.
    pub(super) fn press(&mut self, key: u8) -> KeyAction {
        match std::mem::take(self) {
            Self::Top => self.choose(key),
            Self::Places(places) => match key
                .checked_sub(b'1')
                .and_then(|index| places.get(usize::from(index)))
            {
                Some(place) => self.ask(place),
                None => KeyAction::Say("nothing was changed".to_owned()),
            },
            Self::Sure(command) => match key {
                b'y' | b'Y' => KeyAction::Send(command),
                _ => KeyAction::Say("nothing was changed".to_owned()),
            },
        }
    }

    /// Offers places to roll back to, newest first.
    pub(super) fn offer(&mut self, mut places: Vec<ListedCheckpoint>) -> String {
        places.truncate(PLACES);
        if places.is_empty() {
            return "there is no checkpoint to roll back to".to_owned();
        }
        let mut text = "roll back to (any other key: nowhere)".to_owned();
        for (number, place) in (1..).zip(&places) {
            let kind = place.checkpoint_type;
            let line = format!("{} {kind} at {}", place.codon_id, place.timestamp);
            text.push_str(&format!("\n  {number}  {line}"));
        }
        *self = Self::Places(places);
        text
    }

    fn choose(&mut self, key: u8) -> KeyAction {
        match key {
            b'n' => KeyAction::Send(Command::CodonNext),
            b's' => KeyAction::Send(Command::CodonSkip),
            b'x' => KeyAction::Send(Command::CodonForceStop { reason: None }),
            b'r' => KeyAction::List,
            b'q' => {
                *self = Self::Sure(Command::ServerShutdown { reason: None });
                KeyAction::Say("the run is ended; y means it".to_owned())
            }
            b'd' => KeyAction::Detach,
            b' ' | b'\n' | b'\r' => KeyAction::Nothing,
            _ => KeyAction::Say(HELP.to_owned()),
        }
    }

    fn ask(&mut self, place: &ListedCheckpoint) -> KeyAction {
        let Some(checkpoint_sha) = ShaPrefix::new(place.sha.as_str()) else {
            return KeyAction::Say("this checkpoint has no name to roll back to".to_owned());
        };
        let auto_restart = false;
        *self = Self::Sure(Command::RollbackToCheckpoint {
            checkpoint_sha,
            auto_restart,
        });
        let question = format!(
            "the files of the project are taken back to the end of {}; y means it",
            place.codon_id
        );
        KeyAction::Say(question)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn places(count: usize) -> Vec<ListedCheckpoint> {
        let place = |number: usize| {
            serde_json::from_value(json!({"codonId": format!("c{number}"), "codonName": "C", "checkpointType": "completed",
                "sha": format!("{number:040x}"), "status": "completed", "timestamp": "2026-01-04T12:00:00.000Z"}))
            .unwrap()
        };
        (1..=count).map(place).collect()
    }

    /// Presses keys one after another; the last one counts.
    fn press(keys: &mut MenuState, pressed: &str) -> KeyAction {
        let last = pressed.bytes().map(|key| keys.press(key)).last();
        last.unwrap()
    }

    #[test]
    fn a_key_is_a_command() {
        let mut keys = MenuState::default();
        assert_eq!(press(&mut keys, "n"), KeyAction::Send(Command::CodonNext));
        assert_eq!(press(&mut keys, "s"), KeyAction::Send(Command::CodonSkip));
        let stop = Command::CodonForceStop { reason: None };
        assert_eq!(press(&mut keys, "x"), KeyAction::Send(stop));
        assert_eq!(press(&mut keys, "r"), KeyAction::List);
        assert_eq!(press(&mut keys, "d"), KeyAction::Detach);
        assert_eq!(press(&mut keys, "\n"), KeyAction::Nothing);
        for unknown in ["?", "N", "1", "y", "\x1b"] {
            assert_eq!(
                press(&mut keys, unknown),
                KeyAction::Say(HELP.to_owned()),
                "{unknown:?}"
            );
        }
    }

    // covers: CLI-15
    #[test]
    fn what_takes_files_back_or_ends_the_run_is_asked_once_more() {
        let mut keys = MenuState::default();
        let text = keys.offer(places(12));
        assert!(
            text.contains("\n  1  c1 completed at 2026-01-04T12:00:00.000Z") && text.contains("\n  9  c9 ")
        );
        assert!(!text.contains("c10"), "{text}");
        assert!(matches!(press(&mut keys, "2"), KeyAction::Say(question) if question.contains("end of c2")));
        let back = Command::RollbackToCheckpoint {
            checkpoint_sha: ShaPrefix::new(format!("{:040x}", 2)).unwrap(),
            auto_restart: false,
        };
        assert_eq!(press(&mut keys, "y"), KeyAction::Send(back));
        assert!(matches!(press(&mut keys, "q"), KeyAction::Say(_)));
        let quit = Command::ServerShutdown { reason: None };
        assert_eq!(press(&mut keys, "y"), KeyAction::Send(quit));
    }

    #[test]
    fn any_other_key_leaves_a_menu_and_changes_nothing() {
        let nothing = KeyAction::Say("nothing was changed".to_owned());
        let mut keys = MenuState::default();
        for pressed in ["n", "0", "3", "\x1b"] {
            keys.offer(places(2));
            assert_eq!(press(&mut keys, pressed), nothing, "{pressed:?}");
        }
        for pressed in ["1n", "1Y1"] {
            keys.offer(places(2));
            let first = pressed.strip_suffix("1").unwrap_or(pressed);
            let sent = press(&mut keys, first);
            assert_eq!(sent == nothing, pressed == "1n", "{pressed:?}");
        }
        assert_eq!(press(&mut keys, "qn"), nothing);
        assert_eq!(keys.offer(Vec::new()), "there is no checkpoint to roll back to");
        assert_eq!(
            press(&mut keys, "n"),
            KeyAction::Send(Command::CodonNext),
            "there is no menu"
        );
    }
}
