//! Words of a shell: texts and paths quoted so that a command that is printed can be pasted.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::terminal::screen::one_line;

/// Returns a path as one word of a shell, which no program takes for an option.
pub(crate) fn path_word(path: &Path) -> String {
    match path.as_os_str().as_bytes().first() {
        Some(b'-') => os_word(Path::new(".").join(path).as_os_str()),
        _ => os_word(path.as_os_str()),
    }
}

/// Returns an option with its value as words of a shell.
pub(crate) fn valued(name: &str, value: &str) -> String {
    let value_word = word(value);
    match value.starts_with('-') {
        true => format!("--{name}={value_word}"),
        false => format!("--{name} {value_word}"),
    }
}

/// Returns a text as one word of a shell.
pub(crate) fn word(text: &str) -> String {
    os_word(OsStr::new(text))
}

/// Quotes any bytes. Bytes that a terminal would not show are written as numbers, which the shell turns back.
fn os_word(text: &OsStr) -> String {
    let is_plain = |character: char| character.is_ascii_alphanumeric() || "/._-+@%,:=".contains(character);
    match text.to_str() {
        Some(text) if !text.is_empty() && text.chars().all(is_plain) => text.to_owned(),
        Some(text) if one_line(text) == text => {
            format!("'{}'", text.replace('\'', r"'\''"))
        }
        _ => {
            let byte = |byte: &u8| match byte {
                b'/' | b'.' | b'_' | b'a'..=b'z' | b'A'..=b'Z' => char::from(*byte).to_string(),
                _ => format!("\\{byte:03o}"),
            };
            let text: String = text.as_bytes().iter().map(byte).collect();
            format!("\"$(printf '{text}')\"")
        }
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;
    use std::os::unix::ffi::OsStringExt;
    use std::process::Command;

    use super::*;

    /// Returns the bytes that a shell reads from a word.
    fn read_by_a_shell(word: &str) -> Vec<u8> {
        let line = format!("printf %s {word}");
        let output = Command::new("sh").args(["-c", &line]).output().unwrap();
        assert!(output.status.success(), "{line}: {output:?}");
        output.stdout
    }

    #[test]
    fn a_shell_reads_every_path_as_it_is() {
        for path in [
            "plain/path-1.json",
            "it's mine",
            "$HOME `id` \"quoted\" \\ *",
            "two\nlines\tand \u{1b}[2J",
            "right \u{202e} to left",
            "naïve",
            "",
        ] {
            let word = path_word(Path::new(path));
            assert!(!word.contains(['\n', '\t', '\u{1b}']), "{word}");
            assert_eq!(read_by_a_shell(&word), path.as_bytes(), "{word}");
        }
        let no_text = OsString::from_vec(b"caf\xe9 5%1".to_vec());
        assert_eq!(
            read_by_a_shell(&path_word(Path::new(&no_text))),
            b"caf\xe9 5%1",
            "{no_text:?}"
        );
        assert_eq!(path_word(Path::new("-x")), "./-x");
        assert_eq!(valued("model", "-x y"), "--model='-x y'");
    }
}
