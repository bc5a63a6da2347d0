//! The colours of words that many commands print.

use std::fmt::{self, Write};

use anstyle::{AnsiColor, Style};
use hankweave_core::agent::InterruptedBy;
use hankweave_core::codon::CodonStatus;
use hankweave_core::view::AttemptState;

use crate::terminal::screen::SafeText;
use crate::terminal::wrap::hanging;

/// Returns the style of a codon's name for its state. A completed codon needs no attention, so it has no colour.
pub(crate) fn style_of(status: CodonStatus, interrupted_by: Option<InterruptedBy>) -> Style {
    let colour = match status {
        CodonStatus::Completed => return Style::new(),
        CodonStatus::Failed if interrupted_by.is_none() => AnsiColor::Red,
        status if status.is_terminal() => AnsiColor::Yellow,
        _ => AnsiColor::Cyan,
    };
    colour.on_default()
}

/// Returns the style of an attempt's mark, by its outcome.
pub(crate) fn style_of_attempt(state: AttemptState) -> Style {
    let colour = match state {
        AttemptState::Completed => return Style::new(),
        AttemptState::Failed => AnsiColor::Red,
        AttemptState::Running => AnsiColor::Cyan,
        _ => AnsiColor::Yellow,
    };
    colour.on_default()
}

/// Writes problems in their own words, and colours the word that names the kind of each.
///
/// Lines break between words at `columns`, if there are any.
pub(crate) fn write_problems(text: &mut SafeText, problems: &str, columns: Option<usize>) -> fmt::Result {
    let kinds = [
        (": error: ", AnsiColor::Red),
        (": warning: ", AnsiColor::Yellow),
        ("  hint: ", AnsiColor::Cyan),
    ];
    let broken = |line| match columns {
        Some(columns) => hanging(line, columns, "    "),
        None => vec![line.to_owned()],
    };
    for line in problems.lines().flat_map(broken) {
        let found = kinds
            .iter()
            .filter_map(|(word, colour)| Some((line.find(word)?, *word, *colour)))
            .min_by_key(|(place, ..)| *place);
        match found {
            Some((place, word, colour)) => {
                let (before, after) = (&line[..place], &line[place + word.len()..]);
                let name = word.trim_matches([' ', ':']);
                let (head, tail) = word.split_once(name).unwrap_or_default();
                write!(text, "{before}{head}")?;
                text.styled(colour.on_default(), name)?;
                writeln!(text, "{tail}{after}")?;
            }
            None => writeln!(text, "{line}")?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problems_keep_their_words_and_only_their_kinds_are_coloured() {
        let problems = "hank.json:1:2: error: id: says `: warning: `\n  hint: write x\na line";
        let mut text = SafeText::default();
        write_problems(&mut text, problems, None).unwrap();
        assert_eq!(
            text.as_str(),
            "hank.json:1:2: \u{1b}[31merror\u{1b}[0m: id: says `: warning: `\n  \u{1b}[36mhint\u{1b}[0m: write x\na line\n"
        );
    }
}
