//! Which characters could control a terminal or deceive the reader, and how they are shown instead.

use std::fmt::Display;

/// Returns text from files, agents and the network with its hidden characters made visible: `\u{1b}` for an escape character. Lines and tabs stay.
pub(crate) fn printable(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    push_printable(&mut safe, text);
    safe
}

/// Makes a name harmless; a line break in it is escaped as well.
pub(crate) fn one_line(name: impl Display) -> String {
    printable(&name.to_string())
        .replace('\n', "\\n")
        .replace('\t', "\\t")
}

/// Adds `text` to `safe`, which is harmless already.
pub(super) fn push_printable(safe: &mut String, text: &str) {
    if text
        .bytes()
        .all(|byte| matches!(byte, b' '..=b'~' | b'\n' | b'\t'))
    {
        return safe.push_str(text);
    }
    for character in text.chars() {
        match character {
            '\n' | '\t' => safe.push(character),
            // These two join the parts of an emoji and the letters of some scripts; between other characters they would be hidden.
            '\u{200c}' | '\u{200d}' if safe.chars().next_back().is_some_and(|before| !before.is_ascii()) => {
                safe.push(character);
            }
            hidden if is_hidden(hidden) => safe.extend(hidden.escape_unicode()),
            other => safe.push(other),
        }
    }
}

/// Whether a character is a control (C0, DEL or C1), changes the direction of text, or has no width and could hide in a name.
pub(super) fn is_hidden(character: char) -> bool {
    character.is_control()
        || matches!(character,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    // covers: S9
    #[test]
    fn what_could_steer_a_terminal_or_deceive_is_made_visible() {
        for (text, shown) in [
            ("a\u{1b}[2Jb\n\u{9b}c", "a\\u{1b}[2Jb\n\\u{9b}c"),
            ("\u{1b}]52;c;ZXZpbA==\u{7}", "\\u{1b}]52;c;ZXZpbA==\\u{7}"),
            ("over\rwritten\u{8}\u{7f}", "over\\u{d}written\\u{8}\\u{7f}"),
            ("user\u{202e}gnp.exe", "user\\u{202e}gnp.exe"),
            (
                "\u{2066}\u{2069}\u{200e}\u{200f}\u{61c}",
                "\\u{2066}\\u{2069}\\u{200e}\\u{200f}\\u{61c}",
            ),
            (
                "pass\u{200b}word\u{feff}\u{e0041}",
                "pass\\u{200b}word\\u{feff}\\u{e0041}",
            ),
            ("a\u{200d}b", "a\\u{200d}b"),
        ] {
            assert_eq!(printable(text), shown);
            assert_eq!(printable(shown), shown, "what is visible stays as it is");
        }
    }

    #[test]
    fn what_people_write_stays_as_it_is() {
        for text in [
            "tab\tline\n",
            "\u{1f468}\u{200d}\u{1f469}",
            "می\u{200c}خواهم",
            "naïve ✓ 漢字 e\u{301}",
            "C:\\u{1b}",
        ] {
            assert_eq!(printable(text), text);
        }
    }

    #[test]
    fn a_name_adds_no_line_of_its_own() {
        assert_eq!(
            one_line("a\nhint: \tpaste this\u{9b}"),
            "a\\nhint: \\tpaste this\\u{9b}"
        );
    }
}
