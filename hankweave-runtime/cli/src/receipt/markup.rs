//! Markup of a report: puts texts of agents and users into Markdown so that none of them is markup, and removes these escapes for a terminal.

use crate::terminal::screen::{one_line, with_offset_times};

/// Largest number of names that a sentence lists.
pub(super) const NAMED: usize = 6;

/// Escapes text of an agent or a user for one line, so that none of the text is markup.
pub(super) fn plain(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in one_line(text).chars() {
        if matches!(
            c,
            '\\' | '`' | '*' | '_' | '[' | ']' | '<' | '>' | '#' | '|' | '~' | '&'
        ) {
            escaped.push('\\');
        }
        escaped.push(c);
    }
    escaped
}

/// Formats text of the record for one line of the report. Its times get an offset, as elsewhere in the report. Ids of iterations, such as `mend#1`,
/// and text in backticks become code.
pub(super) fn with_ids(text: &str) -> String {
    let text = with_offset_times(&one_line(text));
    let parts: Vec<&str> = text.split('`').collect();
    let is_paired = parts.len() % 2 == 1;
    let parts = parts.iter().enumerate().map(|(at, part)| match at % 2 {
        1 if is_paired && !part.trim().is_empty() => code(part),
        _ => with_iterations(part),
    });
    let between = if is_paired { "" } else { "\\`" };
    parts.collect::<Vec<_>>().join(between)
}

/// Escapes text, and formats ids of iterations such as `mend#1` as code.
fn with_iterations(mut rest: &str) -> String {
    let is_part = |c: char| c.is_ascii_alphanumeric() || "_-#".contains(c);
    let is_id = |word: &str| {
        let parts = word.split_once('#');
        parts.is_some_and(|(name, number)| !name.is_empty() && number.parse::<u32>().is_ok())
    };
    let mut written = String::new();
    while let Some(first) = rest.chars().next() {
        let end = match is_part(first) {
            true => rest.find(|c| !is_part(c)).unwrap_or(rest.len()),
            false => rest.find(is_part).unwrap_or(rest.len()),
        };
        let (part, others) = rest.split_at(end);
        written += &if is_id(part) { code(part) } else { plain(part) };
        rest = others;
    }
    written
}

/// Returns a list of the first names, as code: `a`, `b` and 3 more.
pub(super) fn named<'n>(names: impl ExactSizeIterator<Item = &'n str>) -> String {
    let more = names.len().saturating_sub(NAMED);
    let listed = names.take(NAMED).map(code).collect::<Vec<_>>().join(", ");
    match more {
        0 => listed,
        more => format!("{listed} and {more} more"),
    }
}

/// Returns the report for a terminal: without the backslashes of [`plain`]. Within code, which is what lies between two fences of equally many backticks,
/// backslashes are text and stay.
pub(super) fn unescaped(markdown: &str) -> String {
    let mut shown = String::with_capacity(markdown.len());
    // `fence` is the number of backticks that opened the current code; 0 outside of code.
    let (mut rest, mut fence) = (markdown, 0);
    while let Some(first) = rest.chars().next() {
        let run = rest.chars().take_while(|c| *c == '`').count();
        let length = match first {
            '`' => {
                fence = match fence {
                    0 => run,
                    open if open == run => 0,
                    open => open,
                };
                run
            }
            '\\' if fence == 0 => {
                rest = &rest[1..];
                rest.chars().next().map_or(0, char::len_utf8)
            }
            other => other.len_utf8(),
        };
        let (part, others) = rest.split_at(length);
        shown += part;
        rest = others;
    }
    shown
}

/// Removes paired marks of Markdown from the text of an agent, which a table could only show as they are.
pub(super) fn without_marks(text: &str) -> String {
    ["**", "`"].iter().fold(text.to_owned(), |text, mark| {
        let is_paired = text.matches(mark).count() % 2 == 0;
        if is_paired { text.replace(mark, "") } else { text }
    })
}

/// Formats text as code, in a fence that is longer than any within the text.
pub(super) fn code(text: &str) -> String {
    let text = one_line(text);
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest + 1);
    let space = if text.starts_with('`') || text.ends_with('`') {
        " "
    } else {
        ""
    };
    format!("{fence}{space}{text}{space}{fence}")
}

#[cfg(test)]
mod tests {
    use super::*;

    // covers: CLI-44
    #[test]
    fn a_message_has_no_marks_of_markdown_in_the_table() {
        assert_eq!(
            without_marks("in **A.md** and `src/b.rs`"),
            "in A.md and src/b.rs"
        );
        assert_eq!(without_marks("2 ** 3, cut `he"), "2 ** 3, cut `he");
    }

    // covers: CLI-44
    #[test]
    fn text_of_others_is_no_markup() {
        assert_eq!(
            plain("<b>*x* | [y](z)\n#1"),
            "\\<b\\>\\*x\\* \\| \\[y\\](z)\\\\n\\#1"
        );
        assert_eq!(code("a|b"), "`a|b`");
        assert_eq!(code("`` x"), "``` `` x ```");
        assert_eq!(plain("\u{202e}gnp.exe"), "\\\\u{202e}gnp.exe");
        assert_eq!(
            with_ids("rollback --codon mend#1: a_b #2"),
            "rollback --codon `mend#1`: a\\_b \\#2"
        );
        assert_eq!(
            with_ids("`kill 7` ends mend#1; 2 * 3"),
            "`kill 7` ends `mend#1`; 2 \\* 3"
        );
        assert_eq!(with_ids("a ` b*"), "a \\` b\\*");
        assert_eq!(
            unescaped("a\\_b \\`x\\\\ `c\\_d` ``e`\\f`` \\#"),
            "a_b `x\\ `c\\_d` ``e`\\f`` #"
        );
    }
}
