//! Lines that stay when a codon has ended (CLI-43): the codon with its figures, and below it its checks, why it ended, and after a failure the last
//! lines of its output.

use std::fmt::{self, Write};

use anstyle::{AnsiColor, Style};
use console::measure_text_width;
use hankweave_core::id::CodonId;
use hankweave_core::time::Timestamp;
use hankweave_core::view::{AttemptKey, AttemptState, AttemptView, RunView};

use super::columns::{Columns, files};
use super::progress::CodonNotes;
use crate::terminal::report::colours::style_of_attempt;
use crate::terminal::report::words::{counted, ended, in_all};
use crate::terminal::screen::{SafeText, columns};
use crate::terminal::wrap::wrap;

/// Most ended attempts that a client shows when it connects later.
const EARLIER: usize = 40;

/// Writes a line for each attempt that has ended, for a client that connects later.
pub(super) fn write_all(view: &RunView, said: &mut SafeText) -> fmt::Result {
    let all = ended(view);
    let first = all.len().saturating_sub(EARLIER);
    if first > 0 {
        writeln!(said, "{} before these", counted(first, "attempt"))?;
    }
    for (item, key, attempt) in &all[first..] {
        write_attempt(view, (item, *key), attempt, &checks_after(view, item, *key), said)?;
    }
    Ok(())
}

/// Returns the check results that belong to an attempt, if the view still has them: that of the codon, and after the last codon of a loop that of the
/// loop. The view keeps one result for each iteration, so only the newest attempt in it gets them.
fn checks_after(view: &RunView, item: &str, key: AttemptKey) -> CodonNotes {
    let found = view.items.get(item);
    let own = found.filter(|found| {
        let mut newest_first = found.attempts.keys().rev();
        newest_first.find(|other| other.iteration == key.iteration) == Some(&key)
    });
    let around = own.and_then(|own| view.items.get(own.within.as_ref()?));
    let around = around.filter(|around| around.order.last().is_some_and(|last| last == item));
    let mut notes = CodonNotes::default();
    let checked = own.into_iter().chain(around);
    for check in checked.filter_map(|item| item.checks.get(&key.iteration)) {
        notes.missed_check = !check.passed;
        notes.push(check.words());
    }
    notes
}

/// Writes the line of an attempt, and below it the notes on its codon and why it ended.
fn write_attempt(
    view: &RunView,
    place: (&str, AttemptKey),
    attempt: &AttemptView,
    notes: &CodonNotes,
    said: &mut SafeText,
) -> fmt::Result {
    write_line(view, place, attempt, notes, said)?;
    for note in &notes.lines {
        write_below(note, said)?;
    }
    match why(attempt) {
        Some(why) => write_below(&why, said),
        None => Ok(()),
    }
}

/// Writes the line of an attempt.
fn write_line(
    view: &RunView,
    (item, key): (&str, AttemptKey),
    attempt: &AttemptView,
    notes: &CodonNotes,
    said: &mut SafeText,
) -> fmt::Result {
    let (mark, style) = mark(attempt.state, notes);
    let position = view.position_in_loop(item, key.iteration);
    let changed = files(attempt.files_changed);
    let changed = match key.attempt {
        0 | 1 => changed,
        _ => in_all(changed, attempt.files_changed),
    };
    // The attempt has ended, so its time at work does not depend on the current time.
    let time = attempt.worked(attempt.ended.unwrap_or(Timestamp::UNIX_EPOCH));
    let line = Columns::of(view, columns()).line(view.name(item), &position, attempt, time, &changed);
    said.styled(style, mark)?;
    // All figures but the files are those of this attempt alone, so a later attempt is named.
    let number = match key.attempt {
        0 | 1 => return writeln!(said, " {line}"),
        number => format!("(attempt {number})"),
    };
    let line = line.trim_end();
    match measure_text_width(line) + measure_text_width(&number) + 3 <= columns() {
        true => writeln!(said, " {line} {number}"),
        false => writeln!(said, " {line}\n    {number}"),
    }
}

/// Writes the lines of the newest attempt of a codon.
pub(super) fn write(view: &RunView, codon: &CodonId, notes: &CodonNotes, said: &mut SafeText) -> fmt::Result {
    let Some((key, attempt)) = view.newest_attempt(codon) else {
        return Ok(());
    };
    write_attempt(view, (codon.configured(), key), attempt, notes, said)?;
    // The notes above the tail are not repeated in it.
    let is_new = |line: &&String| {
        let own = line
            .strip_prefix(codon.as_str())
            .and_then(|own| own.strip_prefix(": "));
        !notes.lines.iter().any(|note| note == own.unwrap_or(line))
    };
    for line in tail(view, codon, key).filter(is_new) {
        for part in wrap(line, columns().saturating_sub(6).max(20)) {
            said.styled(Style::new().dimmed(), format_args!("    │ {part}"))?;
            writeln!(said)?;
        }
    }
    Ok(())
}

/// Writes a text below the line of a codon, broken between its words.
fn write_below(text: &str, said: &mut SafeText) -> fmt::Result {
    let mut lines = text
        .lines()
        .flat_map(|line| wrap(line, columns().saturating_sub(4).max(20)));
    lines.try_for_each(|line| writeln!(said, "    {line}"))
}

/// Returns the mark and style of an attempt. One that completed although its check did not pass has its own mark.
fn mark(state: AttemptState, notes: &CodonNotes) -> (&'static str, Style) {
    match state {
        AttemptState::Completed if notes.missed_check => ("↻", AnsiColor::Yellow.on_default()),
        AttemptState::Completed => ("✓", style_of_attempt(state)),
        AttemptState::Failed => ("✗", style_of_attempt(state)),
        _ => ("■", style_of_attempt(state)),
    }
}

/// Returns the state of an attempt in words, with its cause; `None` for one that just completed.
fn why(attempt: &AttemptView) -> Option<String> {
    let message = attempt.why.as_ref().and_then(|why| why.message.as_deref());
    match (attempt.state, &attempt.budget, message) {
        (AttemptState::Completed, None, _) => None,
        (AttemptState::Completed, Some(used), _) => Some(format!("budget reached: {used}")),
        (AttemptState::Skipped, Some(used), _) => Some(format!("skipped, no budget left: {used}")),
        (state, _, Some(message)) => Some(format!("{}: {message}", state.as_str())),
        (state, _, None) => Some(state.as_str().to_owned()),
    }
}

/// Returns the last lines of output before the attempt failed; none if it is not the newest failure.
fn tail<'v>(view: &'v RunView, codon: &CodonId, key: AttemptKey) -> impl Iterator<Item = &'v String> {
    let problem = view.problem.as_ref();
    let problem = problem.filter(|problem| problem.item == codon.configured() && problem.attempt == key);
    problem.into_iter().flat_map(|problem| problem.tail.values())
}

#[cfg(test)]
mod tests {
    use hankweave_core::view::{CheckView, ItemView};

    use super::*;

    // covers: CLI-24
    #[test]
    fn a_check_is_shown_under_the_newest_attempt_of_its_iteration() {
        let key = |attempt| AttemptKey {
            iteration: 1,
            attempt,
        };
        let check = |passed, says: &str| CheckView {
            passed,
            says: Some(says.to_owned()),
        };
        let codon = ItemView {
            within: Some("until".to_owned()),
            attempts: [key(1), key(2)].map(|key| (key, AttemptView::default())).into(),
            checks: [(1, check(true, "own"))].into(),
            ..ItemView::default()
        };
        let around = ItemView {
            order: vec!["mend".to_owned()],
            checks: [(1, check(false, "2 of 3"))].into(),
            ..ItemView::default()
        };
        let view = RunView {
            items: [("mend".to_owned(), codon), ("until".to_owned(), around)].into(),
            ..RunView::default()
        };
        assert!(checks_after(&view, "mend", key(1)).lines.is_empty());
        let notes = checks_after(&view, "mend", key(2));
        assert_eq!(notes.lines, ["check passed", "check failed: 2 of 3"]);
        assert!(notes.missed_check);
    }
}
