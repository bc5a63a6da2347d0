//! What a key means, and the menu of places to go back to (CLI-15).

use hankweave_core::wire::{Command, ListedCheckpoint, ShaPrefix};

pub(super) const HELP: &str =
    "n next | a approve | s skip | x stop by force | r go back … | q end the run | d detach | ? this";

/// As many as there are digits.
const PLACES: usize = 9;

/// Where a person is in the menus.
#[derive(Debug, Default)]
pub(super) enum Keys {
    /// Nowhere.
    #[default]
    Top,
    /// A digit names a place to go back to.
    Places(Vec<ListedCheckpoint>),
    /// `y` approves, `n` denies.
    Answer,
    /// `y` means it.
    Sure(Command),
}

/// What a key wants.
#[derive(Debug, PartialEq)]
pub(super) enum Pressed {
    Nothing,
    Say(String),
    Send(Command),
    /// The places to go back to are to be asked for, and then [`Keys::offer`]ed.
    List,
    Detach,
}

impl Keys {
    /// Takes one key.
    pub(super) fn press(&mut self, key: u8) -> Pressed {
        match std::mem::take(self) {
            Self::Top => self.choose(key),
            Self::Places(places) => match key
                .checked_sub(b'1')
                .and_then(|index| places.get(usize::from(index)))
            {
                Some(place) => self.ask(place),
                None => Pressed::Say("nothing was changed".to_owned()),
            },
            Self::Answer => match key {
                b'y' | b'Y' => Pressed::Send(Command::CodonApprove {
                    codon_id: None,
                    reason: None,
                }),
                b'n' | b'N' => Pressed::Send(Command::CodonDeny {
                    codon_id: None,
                    reason: None,
                }),
                _ => Pressed::Say("nothing was changed".to_owned()),
            },
            Self::Sure(command) => match key {
                b'y' | b'Y' => Pressed::Send(command),
                _ => Pressed::Say("nothing was changed".to_owned()),
            },
        }
    }

    /// Offers places to go back to, newest first.
    pub(super) fn offer(&mut self, mut places: Vec<ListedCheckpoint>) -> String {
        places.truncate(PLACES);
        if places.is_empty() {
            return "there is no checkpoint to go back to".to_owned();
        }
        let mut text = "go back to (any other key: nowhere)".to_owned();
        for (number, place) in (1..).zip(&places) {
            let kind = place.checkpoint_type;
            let line = format!("{} {kind} at {}", place.codon_id, place.timestamp);
            text.push_str(&format!("\n  {number}  {line}"));
        }
        *self = Self::Places(places);
        text
    }

    fn choose(&mut self, key: u8) -> Pressed {
        match key {
            b'n' => Pressed::Send(Command::CodonNext),
            b'a' => {
                *self = Self::Answer;
                Pressed::Say("y lets the codon begin that waits for an approval, n denies it".to_owned())
            }
            b's' => Pressed::Send(Command::CodonSkip),
            b'x' => Pressed::Send(Command::CodonForceStop { reason: None }),
            b'r' => Pressed::List,
            b'q' => {
                *self = Self::Sure(Command::ServerShutdown { reason: None });
                Pressed::Say("the run is ended; y means it".to_owned())
            }
            b'd' => Pressed::Detach,
            b' ' | b'\n' | b'\r' => Pressed::Nothing,
            _ => Pressed::Say(HELP.to_owned()),
        }
    }

    fn ask(&mut self, place: &ListedCheckpoint) -> Pressed {
        let Some(checkpoint_sha) = ShaPrefix::new(place.sha.as_str()) else {
            return Pressed::Say("this checkpoint has no name to go back to".to_owned());
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
        Pressed::Say(question)
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
    fn press(keys: &mut Keys, pressed: &str) -> Pressed {
        let last = pressed.bytes().map(|key| keys.press(key)).last();
        last.unwrap()
    }

    #[test]
    fn a_key_is_a_command() {
        let mut keys = Keys::default();
        assert_eq!(press(&mut keys, "n"), Pressed::Send(Command::CodonNext));
        assert_eq!(press(&mut keys, "s"), Pressed::Send(Command::CodonSkip));
        let stop = Command::CodonForceStop { reason: None };
        assert_eq!(press(&mut keys, "x"), Pressed::Send(stop));
        assert_eq!(press(&mut keys, "r"), Pressed::List);
        assert_eq!(press(&mut keys, "d"), Pressed::Detach);
        assert_eq!(press(&mut keys, "\n"), Pressed::Nothing);
        for unknown in ["?", "N", "1", "y", "\x1b"] {
            assert_eq!(
                press(&mut keys, unknown),
                Pressed::Say(HELP.to_owned()),
                "{unknown:?}"
            );
        }
    }

    // covers: CLI-15
    #[test]
    fn what_takes_files_back_or_ends_the_run_is_asked_once_more() {
        let mut keys = Keys::default();
        let text = keys.offer(places(12));
        assert!(
            text.contains("\n  1  c1 completed at 2026-01-04T12:00:00.000Z") && text.contains("\n  9  c9 ")
        );
        assert!(!text.contains("c10"), "{text}");
        assert!(matches!(press(&mut keys, "2"), Pressed::Say(question) if question.contains("end of c2")));
        let back = Command::RollbackToCheckpoint {
            checkpoint_sha: ShaPrefix::new(format!("{:040x}", 2)).unwrap(),
            auto_restart: false,
        };
        assert_eq!(press(&mut keys, "y"), Pressed::Send(back));
        assert!(matches!(press(&mut keys, "q"), Pressed::Say(_)));
        let quit = Command::ServerShutdown { reason: None };
        assert_eq!(press(&mut keys, "y"), Pressed::Send(quit));
    }

    #[test]
    fn any_other_key_leaves_a_menu_and_changes_nothing() {
        let nothing = Pressed::Say("nothing was changed".to_owned());
        let mut keys = Keys::default();
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
        assert_eq!(keys.offer(Vec::new()), "there is no checkpoint to go back to");
        assert_eq!(
            press(&mut keys, "n"),
            Pressed::Send(Command::CodonNext),
            "there is no menu"
        );
    }
}
