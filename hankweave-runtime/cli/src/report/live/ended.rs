//! Lines that stay when a codon has ended (CLI-43): what it was, and below it why, and after a failure its last lines.

use std::fmt::{self, Write};

use anstyle::Style;
use console::{Alignment, measure_text_width, pad_str};
use hankweave_core::id::CodonId;
use hankweave_core::time::Timestamp;
use hankweave_core::view::{AttemptKey, AttemptState, AttemptView, RunView};

use crate::report::colours::style_of_attempt;
use crate::report::words::{duration, tokens};
use crate::screen::{SafeText, columns};

/// Writes the lines of the newest attempt of a codon.
pub(super) fn write(view: &RunView, codon: &CodonId, said: &mut SafeText) -> fmt::Result {
    let Some((key, attempt)) = view.newest_attempt(codon) else {
        return Ok(());
    };
    let title = view.title(codon.configured(), key.iteration);
    said.styled(style_of_attempt(attempt.state), mark(attempt.state))?;
    writeln!(said, " {}", fitting(&title, &figures(attempt), columns()))?;
    if let Some(used) = &attempt.budget {
        match attempt.state {
            AttemptState::Skipped => writeln!(said, "    nothing was left of its budget: {used}"),
            _ => writeln!(said, "    stopped at its budget: {used}"),
        }?;
    }
    if let Some(message) = attempt.why.as_ref().and_then(|why| why.message.as_ref()) {
        writeln!(said, "    {message}")?;
    }
    for line in tail(view, codon, key) {
        said.styled(Style::new().dimmed(), format_args!("    │ {line}"))?;
        writeln!(said)?;
    }
    Ok(())
}

const fn mark(state: AttemptState) -> &'static str {
    match state {
        AttemptState::Completed => "✓",
        AttemptState::Failed => "✗",
        _ => "■",
    }
}

/// Time, cost, tokens and checkpoint of an attempt.
fn figures(attempt: &AttemptView) -> [String; 4] {
    let outcome = match attempt.state {
        AttemptState::Completed => String::new(),
        other => format!("{}, ", other.as_str()),
    };
    let worked = attempt.worked(attempt.ended.unwrap_or(Timestamp::UNIX_EPOCH));
    let time = format!("{outcome}{}", duration(worked));
    let cost = attempt.spent().display(attempt.at_least);
    let checkpoint = attempt.checkpoint.as_ref().map_or("", |sha| sha.short());
    [
        format!("{time:>11}"),
        format!("{cost:>9}"),
        format!("{:>8} tokens", tokens(attempt.tokens.total())),
        format!(" {checkpoint}"),
    ]
}

/// Last lines before a failure.
fn tail<'v>(view: &'v RunView, codon: &CodonId, key: AttemptKey) -> impl Iterator<Item = &'v String> {
    let problem = view.problem.as_ref();
    let problem = problem.filter(|problem| problem.item == codon.configured() && problem.attempt == key);
    problem.into_iter().flat_map(|problem| problem.tail.values())
}

/// As much of a title is shown before the figures that can be looked up elsewhere are left out.
const TITLE: usize = 12;

/// A title and what is told of it, on one line of a terminal with so many columns, after a mark (CLI-43).
fn fitting(title: &str, figures: &[String], columns: usize) -> String {
    let width = |figures: &[String]| {
        figures
            .iter()
            .map(|figure| measure_text_width(figure) + 1)
            .sum::<usize>()
    };
    let room = |shown: usize| columns.saturating_sub(2 + width(&figures[..shown]));
    let wanted = measure_text_width(title).min(TITLE);
    let shown = (0..=figures.len())
        .rev()
        .find(|shown| room(*shown) >= wanted)
        .unwrap_or(0);
    let widest = measure_text_width(title).max(24).min(room(shown));
    let title = pad_str(title, widest, Alignment::Left, Some("…"));
    let line = std::iter::once(title.as_ref()).chain(figures[..shown].iter().map(String::as_str));
    line.collect::<Vec<_>>().join(" ").trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    // covers: CLI-43
    #[test]
    fn what_stays_is_one_line_of_any_terminal() {
        let figures = [
            "failed, 4.6 s",
            "at least $1.2345",
            "  310.4k tokens",
            " 5e7c33ec384c",
        ]
        .map(str::to_owned);
        let title = "Write all of it, 漢字漢字漢字 and more, 1 of at most 10";
        for columns in 30..140 {
            let line = fitting(title, &figures, columns);
            assert!(measure_text_width(&line) + 2 <= columns, "{columns}: {line:?}");
            assert!(line.starts_with("Write all"), "{line:?}");
            assert_eq!(line.contains("failed"), columns >= 30, "{columns}: {line:?}");
        }
        assert!(fitting(title, &figures, 200).contains(title));
        assert_eq!(
            fitting("Plan", &figures, 79),
            "Plan             failed, 4.6 s at least $1.2345   310.4k tokens  5e7c33ec384c"
        );
    }
}
