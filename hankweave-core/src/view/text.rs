//! Cuts the texts of a view to one line of limited length (WIRE-38).

use serde_json::Value;

use crate::codon::MOST_ASKED;

/// Longest line of an agent or rig, in bytes of JSON.
pub(super) const LINE: usize = 400;
/// Longest purpose of a run, in bytes of JSON.
pub(super) const GOAL: usize = 320;
/// Longest reason of a failure, in bytes of JSON: longer than a title, as it may name the place in hank.json that helps.
pub(super) const REASON: usize = 184;
/// Longest title or message, in bytes of JSON.
pub(super) const TITLE: usize = 160;
/// Longest name of a codon, loop or model, in bytes of JSON.
pub(super) const NAME: usize = 96;

/// Returns `text` as one line that takes at most `most` bytes in JSON; a text that is cut ends in `…`, after a whole word unless that is a long one.
///
/// Control characters become spaces: JSON would write each with six bytes, and no screen shows them.
#[must_use]
pub fn excerpt(text: &str, most: usize) -> String {
    let ellipsis = '…'.len_utf8();
    // `used` is the length of the line in JSON; up to `end` an ellipsis still fits after the text.
    let (mut line, mut used, mut end) = (String::new(), 0, 0);
    for c in text.trim().chars() {
        let c = if c.is_control() { ' ' } else { c };
        used += match c {
            '"' | '\\' => 2,
            c => c.len_utf8(),
        };
        if used > most {
            let last_space = line[..end].rfind(' ').filter(|space| *space > end / 2);
            let end = match line[end..].starts_with(' ') {
                true => end,
                false => last_space.unwrap_or(end),
            };
            line.truncate(end);
            line.push('…');
            return line;
        }
        line.push(c);
        if used + ellipsis <= most {
            end = line.len();
        }
    }
    line
}

/// Returns the beginning of a prompt in one line, as records keep it.
#[must_use]
pub fn prompt_excerpt(prompt: &str) -> String {
    // Each word takes a byte at least, so no later word fits.
    let words: Vec<&str> = prompt.split_whitespace().take(MOST_ASKED).collect();
    excerpt(&words.join(" "), MOST_ASKED)
}

/// Returns the purpose that a prompt begins with: its first line that is no heading, or its first heading; `None` where it has no text.
#[must_use]
pub fn goal_of_prompt(prompt: &str) -> Option<String> {
    let lines = || prompt.lines().map(str::trim).filter(|line| !line.is_empty());
    let line = lines()
        .find(|line| !line.starts_with('#'))
        .or_else(|| lines().next())?;
    Some(excerpt(line.trim_start_matches(['#', ' ']), GOAL)).filter(|goal| !goal.is_empty())
}

/// Returns a sentinel's answer as text: its words, or its value as JSON.
pub(super) fn answer(content: &Value) -> String {
    content
        .as_str()
        .map_or_else(|| content.to_string(), str::to_owned)
}

/// Returns how many files a codon changed, as a predicate: `changed 3 files`, `changed nothing`; empty where it is not known.
#[must_use]
pub fn changed(files_changed: Option<u64>) -> String {
    match files_changed {
        None => String::new(),
        Some(0) => "changed nothing".to_owned(),
        Some(1) => "changed 1 file".to_owned(),
        Some(count) => format!("changed {count} files"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // covers: WIRE-39
    #[test]
    fn the_purpose_of_a_prompt_is_its_first_line_that_is_no_heading() {
        let of = |prompt| goal_of_prompt(prompt);
        assert_eq!(
            of("# Plan\n\n Write the guide. \nThen stop.").as_deref(),
            Some("Write the guide.")
        );
        assert_eq!(of("\n## Plan the guide\n").as_deref(), Some("Plan the guide"));
        assert_eq!(of(" \n\n"), None);
        assert_eq!(of("#"), None);
    }

    // covers: WIRE-38
    #[test]
    fn an_excerpt_is_one_line_that_fits() {
        assert_eq!(excerpt(" two\nlines ", 20), "two lines");
        assert_eq!(excerpt("abcdef", 6), "abcdef");
        assert_eq!(excerpt("abcdefg", 6), "abc…");
        assert_eq!(excerpt("two words and more", 12), "two words…");
        assert_eq!(excerpt("one two three", 12), "one two…", "no word is cut");
        for text in [
            "\u{1}".repeat(900),
            "\"".repeat(900),
            "漢".repeat(900),
            "x\u{7f}\\".repeat(300),
        ] {
            for most in [3, 4, 5, 160] {
                let json = serde_json::to_string(&excerpt(&text, most)).unwrap();
                assert!(json.len() <= most + 2, "{most}: {json}");
            }
        }
    }
}
