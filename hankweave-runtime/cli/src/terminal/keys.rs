//! Keys of a terminal out of the bytes that it sends.
//!
//! crossterm cannot decode bytes that a caller has read: it reads the terminal itself, ahead and into a buffer of its own. Keys would be lost to the
//! next reader (CLI-41), and a program that reads while a shell has the terminal is stopped.

/// A key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Key {
    Char(char),
    Enter,
    Escape,
    /// Backspace.
    Back,
    Tab,
    Up,
    Down,
    Left,
    Right,
    PageUp,
    PageDown,
    Home,
    End,
}

/// Bytes of a key that is not whole yet.
#[derive(Debug, Default)]
pub(crate) struct KeyDecoder(Vec<u8>);

/// Longer sequences are of no key that we know.
const LONGEST: usize = 32;

impl KeyDecoder {
    /// Takes a byte; `None` means that none came for a moment, so that an Escape byte is the key of that name. Returns the key that is whole now.
    pub(crate) fn press(&mut self, byte: Option<u8>) -> Option<Key> {
        let Some(byte) = byte else {
            return (std::mem::take(&mut self.0) == [0x1b]).then_some(Key::Escape);
        };
        self.0.push(byte);
        match self.read() {
            KeyRead::More if self.0.len() < LONGEST => None,
            KeyRead::More | KeyRead::Unknown => {
                self.0.clear();
                None
            }
            KeyRead::Key(key) => {
                self.0.clear();
                Some(key)
            }
        }
    }

    fn read(&self) -> KeyRead {
        match self.0.as_slice() {
            [b'\n' | b'\r'] => KeyRead::Key(Key::Enter),
            [b'\t'] => KeyRead::Key(Key::Tab),
            [0x7f | 0x08] => KeyRead::Key(Key::Back),
            [0x1b] | [0x1b, b'[' | b'O'] => KeyRead::More,
            [0x1b, b'[' | b'O', rest @ ..] => sequence(rest),
            [0x1b, ..] => KeyRead::Unknown,
            bytes => match std::str::from_utf8(bytes) {
                Ok(text) => match text.chars().next().filter(|c| !c.is_control()) {
                    Some(c) => KeyRead::Key(Key::Char(c)),
                    None => KeyRead::Unknown,
                },
                Err(error) if error.error_len().is_none() => KeyRead::More,
                Err(_) => KeyRead::Unknown,
            },
        }
    }
}

/// Meaning of the bytes read until now.
enum KeyRead {
    Key(Key),
    /// The key has more bytes.
    More,
    Unknown,
}

/// Reads the bytes after `ESC [` or `ESC O`.
fn sequence(rest: &[u8]) -> KeyRead {
    KeyRead::Key(match rest {
        b"A" => Key::Up,
        b"B" => Key::Down,
        b"C" => Key::Right,
        b"D" => Key::Left,
        b"H" | b"1~" | b"7~" => Key::Home,
        b"F" | b"4~" | b"8~" => Key::End,
        b"5~" => Key::PageUp,
        b"6~" => Key::PageDown,
        [b'0'..=b'9' | b';', ..]
            if !rest.ends_with(b"~") && !rest.last().is_some_and(u8::is_ascii_alphabetic) =>
        {
            return KeyRead::More;
        }
        _ => return KeyRead::Unknown,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(bytes: &[u8]) -> Vec<Key> {
        let mut keys = KeyDecoder::default();
        bytes
            .iter()
            .map(|byte| Some(*byte))
            .chain([None])
            .filter_map(|byte| keys.press(byte))
            .collect()
    }

    #[test]
    fn bytes_are_keys() {
        assert_eq!(
            keys(b"q/\n\t\x7f"),
            [Key::Char('q'), Key::Char('/'), Key::Enter, Key::Tab, Key::Back]
        );
        assert_eq!(
            keys(b"\x1b[A\x1bOB\x1b[5~\x1b[6~\x1b[H"),
            [Key::Up, Key::Down, Key::PageUp, Key::PageDown, Key::Home]
        );
        assert_eq!(keys("ü漢".as_bytes()), [Key::Char('ü'), Key::Char('漢')]);
        assert_eq!(keys(b"\x1b"), [Key::Escape], "nothing came after it");
    }

    #[test]
    fn what_is_no_key_is_left_out_and_harms_no_other() {
        for odd in [
            &b"\x1b[1;5C"[..],
            b"\x1b[999999999999",
            b"\xff",
            b"\x1bx",
            b"\x1b[200~",
        ] {
            let mut bytes = odd.to_vec();
            bytes.extend(b"q");
            assert!(keys(&bytes).len() <= 4, "{odd:?}");
        }
        assert_eq!(keys(b"\x1b[1;5Cq"), [Key::Char('q')]);
        assert_eq!(keys(b"\xffq"), [Key::Char('q')]);
    }
}
