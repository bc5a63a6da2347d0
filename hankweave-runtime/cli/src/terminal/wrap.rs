//! Text in lines of a given width.

use console::measure_text_width;

/// Returns the words of a text for [`wrap`]. Text in backticks is one word if it fits into a line, so that it can be copied.
fn words(text: &str, columns: usize) -> Vec<String> {
    let mut words = Vec::new();
    let mut quoted: Vec<&str> = Vec::new();
    for word in text.split_whitespace() {
        // An odd number of backticks begins or ends a quoted text.
        let is_boundary = word.matches('`').count() % 2 == 1;
        match quoted.is_empty() {
            true if !is_boundary => words.push(word.to_owned()),
            false if is_boundary => {
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

/// Breaks a line between its words into lines of at most `columns`; lines after the first one start with `indent`. Blanks between words stay, except
/// at the end of a line. Text between backticks is one word, because commands are pasted whole; a longer word is left to the terminal.
pub(crate) fn hanging(line: &str, columns: usize, indent: &str) -> Vec<String> {
    let start = line.len() - line.trim_start().len();
    let mut lines = vec![line[..start].to_owned()];
    let (mut used, mut is_empty) = (start, true);
    for (gap, word) in whole_words(&line[start..]) {
        let width = measure_text_width(word);
        if !is_empty && used + gap + width > columns {
            lines.push(indent.to_owned());
            (used, is_empty) = (measure_text_width(indent), true);
        }
        if let Some(line) = lines.last_mut() {
            if !is_empty {
                line.push_str(&" ".repeat(gap));
                used += gap;
            }
            line.push_str(word);
        }
        (used, is_empty) = (used + width, false);
    }
    lines
}

/// Returns the words of a line for [`hanging`], each with the number of blanks in front of it. Text between backticks is one word.
fn whole_words(line: &str) -> Vec<(usize, &str)> {
    let (mut words, mut rest) = (Vec::new(), line);
    while let Some(start) = rest.find(|c: char| !c.is_whitespace()) {
        let (gap, from) = (start, &rest[start..]);
        let end = |from: &str| from.find(char::is_whitespace).unwrap_or(from.len());
        let mut length = end(from);
        if from[..length].matches('`').count() % 2 == 1
            && let Some(close) = from[length..].find('`')
        {
            let after = length + close + 1;
            length = after + end(&from[after..]);
        }
        words.push((gap, &from[..length]));
        rest = &from[length..];
    }
    words
}

/// Breaks the lines of a text that are wider than `columns`; the further lines of each are indented by two more than its start.
pub(crate) fn broken(text: &str, columns: usize) -> String {
    let mut whole = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let (line, end) = line.strip_suffix('\n').map_or((line, ""), |line| (line, "\n"));
        match measure_text_width(line) > columns {
            false => whole.push_str(line),
            true => {
                let mut indent: String = line.chars().map_while(below).take(columns / 2).collect();
                indent.push_str("  ");
                whole.push_str(&hanging(line, columns, &indent).join("\n"));
            }
        }
        whole.push_str(end);
    }
    whole
}

/// Returns the character to draw below a blank or a branch of a tree; `None` for the start of a text.
const fn below(c: char) -> Option<char> {
    match c {
        '│' | '├' => Some('│'),
        ' ' | '─' | '└' => Some(' '),
        _ => None,
    }
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
    fn only_lines_that_are_too_wide_break_and_columns_stay_where_they_are() {
        let table = "  one   completed  2s\n  three  completed  12s  3 files changed\n";
        assert_eq!(broken(table, 80), table);
        assert_eq!(
            broken(table, 26),
            "  one   completed  2s\n  three  completed  12s  3\n    files changed\n"
        );
        assert_eq!(
            broken("├─ one two\n│  three four", 8),
            "├─ one\n│    two\n│  three\n│    four"
        );
        let styled = "\u{1b}[1mone two three\u{1b}[0m";
        assert_eq!(broken(styled, 8), "\u{1b}[1mone two\n  three\u{1b}[0m");
        assert_eq!(broken("漢字 漢字", 5), "漢字\n  漢字");
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
