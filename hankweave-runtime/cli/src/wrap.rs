//! Text in lines of a given width.

use console::measure_text_width;

/// Returns the words of a text. What stands in backticks is one word if it fits into a line, so that it can be copied.
fn words(text: &str, columns: usize) -> Vec<String> {
    let mut words = Vec::new();
    let mut quoted: Vec<&str> = Vec::new();
    for word in text.split_whitespace() {
        let is_end = word.matches('`').count() % 2 == 1;
        match quoted.is_empty() {
            true if !is_end => words.push(word.to_owned()),
            false if is_end => {
                quoted.push(word);
                let whole = quoted.join(" ");
                match measure_text_width(&whole) <= columns {
                    true => words.push(whole),
                    false => words.extend(quoted.iter().map(|word| (*word).to_owned())),
                }
                quoted.clear();
            }
            _ => quoted.push(word),
        }
    }
    words.extend(quoted.into_iter().map(str::to_owned));
    words
}

/// Breaks a text between its words into lines of at most `columns`; a longer word is cut where the line ends.
pub(crate) fn wrap(text: &str, columns: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    let mut used = 0;
    for word in &words(text, columns) {
        let width = measure_text_width(word);
        if used > 0 && used + 1 + width > columns {
            lines.push(String::new());
            used = 0;
        }
        if let (true, Some(line)) = (used > 0, lines.last_mut()) {
            line.push(' ');
            used += 1;
        }
        for c in word.chars() {
            let wide = measure_text_width(c.encode_utf8(&mut [0; 4]));
            if used > 0 && used + wide > columns {
                lines.push(String::new());
                used = 0;
            }
            if let Some(line) = lines.last_mut() {
                line.push(c);
            }
            used += wide;
        }
    }
    lines
}

/// Breaks a line between its words into lines of at most `columns`, those after the first one with `indent`. What stands between backticks is one word,
/// because commands are pasted whole; a longer word is left to the terminal.
pub(crate) fn hanging(line: &str, columns: usize, indent: &str) -> Vec<String> {
    let start = line.len() - line.trim_start().len();
    let mut lines = vec![line[..start].to_owned()];
    let (mut used, mut is_empty) = (start, true);
    for word in &words(&line[start..], usize::MAX) {
        let width = measure_text_width(word);
        if !is_empty && used + 1 + width > columns {
            lines.push(indent.to_owned());
            (used, is_empty) = (indent.len(), true);
        }
        if let Some(line) = lines.last_mut() {
            if !is_empty {
                line.push(' ');
                used += 1;
            }
            line.push_str(word);
        }
        (used, is_empty) = (used + width, false);
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_hangs_breaks_between_words_and_never_in_a_command() {
        let line = "  hint: `hankweave run --max-cost 5` goes on, and more";
        assert_eq!(
            hanging(line, 24, "      "),
            [
                "  hint:",
                "      `hankweave run --max-cost 5`",
                "      goes on, and more"
            ]
        );
        assert_eq!(hanging("short", 24, "  "), ["short"]);
        assert_eq!(
            hanging("an odd ` is here", 8, "  "),
            ["an odd `", "  is", "  here"]
        );
        assert_eq!(hanging("", 8, "  "), [""]);
    }

    #[test]
    fn lines_break_between_words_and_inside_of_those_that_are_too_long() {
        assert_eq!(wrap("one two  three", 7), ["one two", "three"]);
        assert_eq!(wrap("abcdefgh ij", 5), ["abcde", "fgh", "ij"]);
        assert_eq!(wrap("漢字漢字", 5), ["漢字", "漢字"]);
        assert_eq!(wrap("", 5), [""]);
        assert_eq!(wrap("so `a b` (`c d e`) f", 9), ["so `a b`", "(`c d e`)", "f"]);
        assert_eq!(wrap("`a b c d e f` or `g", 9), ["`a b c d", "e f` or", "`g"]);
    }
}
