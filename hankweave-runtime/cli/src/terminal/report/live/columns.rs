//! Columns of the lines of codons (CLI-43): as wide as the plan needs, so that a column does not move from the first line to the last.

use std::time::Duration;

use console::{Alignment, measure_text_width, pad_str, truncate_str};
use hankweave_core::view::{AttemptState, AttemptView, RunView};

use crate::terminal::report::words::{ColumnTime, counted, money, tokens};

/// Blanks between two columns.
const GAP: usize = 2;

/// Mark and blank at the start of a line.
const MARK: usize = 2;

/// Positions in [`Columns::widths`], which has the columns after the title in the order of a line; the time is the first.
const MONEY: usize = 1;
const TOKENS: usize = 2;
const FILES: usize = 3;
const CHECKPOINT: usize = 4;

/// Columns that a narrow terminal loses, in this order. Each goes if it would leave less than this width for a name.
const OPTIONAL: [(usize, usize); 4] = [(CHECKPOINT, 24), (TOKENS, 20), (FILES, 12), (MONEY, 12)];

/// Shortest width to which a name is cut, in columns; a position without a name says nothing.
const LEAST_NAME: usize = 6;

/// Widths of the columns.
#[derive(Debug, Clone, Copy)]
pub(super) struct Columns {
    /// Width of the title: name and position in a loop.
    title: usize,
    /// Widths of the other columns; 0 for one that is not shown.
    widths: [usize; 5],
}

impl Columns {
    /// Returns the columns for the plan of a run, on lines of this many columns.
    pub(super) fn of(view: &RunView, columns: usize) -> Self {
        let longest = view.codons().map(|id| widest_title(view, id)).max();
        let longest = longest.unwrap_or_default().max(1);
        let position = view.codons().map(|id| widest_position(view, id)).max();
        let position = position.unwrap_or_default();
        // Each column is as wide as its longest usual text.
        let widths = [
            if view.has_lost_time() {
                "≥ 59m59s"
            } else {
                "59m59s"
            },
            "≥ $0.0000",
            "999.9k tokens",
            "changed nothing",
            "0123456789ab",
        ];
        let mut widths = widths.map(measure_text_width);
        let room = |widths: &[usize; 5]| {
            let shown = widths.iter().filter(|width| **width > 0);
            columns.saturating_sub(MARK + shown.map(|width| width + GAP).sum::<usize>())
        };
        for (column, least_name) in OPTIONAL {
            // No title needs more room than the longest one.
            if room(&widths) < longest.min(least_name + position) {
                widths[column] = 0;
            }
        }
        let title = longest.min(room(&widths));
        Self { title, widths }
    }

    /// Returns the line of an attempt without its mark; `files` is the text in the column of the changed files.
    pub(super) fn line(
        &self,
        name: &str,
        position: &str,
        attempt: &AttemptView,
        time: Duration,
        files: &str,
    ) -> String {
        let checkpoint = attempt.checkpoint.as_ref().map_or("", |sha| sha.short());
        let time = ColumnTime::of(time, attempt.state == AttemptState::Crashed).to_string();
        let money = money(attempt.spent(), attempt.at_least);
        let tokens = format!("{} tokens", tokens(attempt.tokens.total()));
        let texts = [
            (time.as_str(), Alignment::Right),
            (&money, Alignment::Right),
            (&tokens, Alignment::Right),
            (files, Alignment::Left),
            (checkpoint, Alignment::Left),
        ];
        let mut line = cell(&self.title(name, position), self.title, Alignment::Left);
        for ((text, alignment), width) in texts.into_iter().zip(self.widths).filter(|(_, width)| *width > 0) {
            line += &" ".repeat(GAP);
            line += &cell(text, width, alignment);
        }
        line.trim_end().to_owned()
    }

    /// Returns a name with its position in a loop. If both do not fit, the name is cut, but not below [`LEAST_NAME`].
    fn title(&self, name: &str, position: &str) -> String {
        let left = self.title.saturating_sub(measure_text_width(position));
        match position.is_empty() || left < LEAST_NAME.min(measure_text_width(name)) {
            true => name.to_owned() + position,
            false => truncate_str(name, left, "…").into_owned() + position,
        }
    }
}

/// Returns a text in a column of this width. A text that was cut in front of a wide character is too short, so padding comes after the cut.
fn cell(text: &str, width: usize, alignment: Alignment) -> String {
    pad_str(&truncate_str(text, width, "…"), width, alignment, None).into_owned()
}

/// Returns the number of changed files in words; empty if it is not known.
pub(in crate::terminal::report) fn files(changed: Option<u64>) -> String {
    match changed {
        None => String::new(),
        Some(0) => "changed nothing".to_owned(),
        Some(count) => counted(usize::try_from(count).unwrap_or(usize::MAX), "file"),
    }
}

/// Columns of the name of a codon with its longest position.
fn widest_title(view: &RunView, id: &str) -> usize {
    measure_text_width(view.name(id)) + widest_position(view, id)
}

/// Columns of the longest position of a codon in its loop.
fn widest_position(view: &RunView, id: &str) -> usize {
    let within = view.items.get(id).and_then(|item| item.within.as_ref());
    let within = within.and_then(|within| view.items.get(within));
    // A loop without a known limit may go round often.
    let most = within.and_then(|within| within.most).unwrap_or(99);
    measure_text_width(&view.position_in_loop(id, most))
}

#[cfg(test)]
mod tests {
    use hankweave_core::id::CheckpointSha;
    use hankweave_core::view::ItemView;

    use super::*;

    /// A plan of codons with these names; those after the first are in a loop of at most 10 iterations.
    fn plan(names: &[&str], is_looped: bool) -> RunView {
        let mut view = RunView::default();
        for (number, name) in names.iter().enumerate() {
            let within = (is_looped && number > 0).then(|| "loop".to_owned());
            let item = ItemView {
                name: (*name).to_owned(),
                within,
                ..ItemView::default()
            };
            view.items.insert(number.to_string(), item);
            view.order.push(number.to_string());
        }
        let of = ItemView {
            most: Some(10),
            ..ItemView::default()
        };
        view.items.insert("loop".to_owned(), of);
        view
    }

    fn attempt(nanos: u64, at_least: bool) -> AttemptView {
        AttemptView {
            cost: hankweave_core::cost::Usd::from_nanos(nanos),
            at_least,
            checkpoint: Some(CheckpointSha::new("5e7c33ec384c5e7c33ec384c5e7c33ec384c5e7c")),
            ..AttemptView::default()
        }
    }

    const NAMES: [&str; 3] = [
        "Plan",
        "漢字漢字 👩‍💻 Review",
        "A name of sixty characters, longer than anybody would read it",
    ];

    // covers: CLI-43
    #[test]
    fn every_line_fits_and_no_column_depends_on_the_line() {
        for is_looped in [false, true] {
            let view = plan(&NAMES, is_looped);
            for width in 20..220 {
                let columns = Columns::of(&view, width);
                let position = if is_looped { " (3 of at most 10)" } else { "" };
                let cut = columns.line(
                    NAMES[2],
                    position,
                    &attempt(0, false),
                    Duration::from_millis(4_600),
                    "",
                );
                assert!(
                    !is_looped
                        || width < 40
                        || cut.contains("… (3 of at most 10) ")
                        || cut.contains("read it (3"),
                    "{width}: {cut:?}"
                );
                let lines = NAMES.map(|name| {
                    let place = if name == "Plan" { "" } else { position };
                    columns.line(
                        name,
                        place,
                        &attempt(1_234_500_000, name == "Plan"),
                        Duration::from_millis(4_600),
                        "3 files",
                    )
                });
                for line in &lines {
                    assert!(MARK + measure_text_width(line) <= width, "{width}: {line:?}");
                }
                let ends = lines.each_ref().map(|line| {
                    let before = line.split_once("4.6s").map_or("", |(before, _)| before);
                    measure_text_width(before)
                });
                assert!(ends.iter().all(|end| *end == ends[0]), "{width}: {lines:?}");
                assert!(width < 32 || ends[0] > 0, "{width}: {lines:?}");
            }
        }
    }

    // covers: CLI-43
    #[test]
    fn a_narrow_terminal_loses_columns_and_a_wide_one_has_all() {
        let line = |width| {
            let columns = Columns::of(&plan(&NAMES, true), width);
            let attempt = attempt(23_100_000, false);
            let time = Duration::from_secs(200);
            columns.line("Review it", " (2 of at most 10)", &attempt, time, &files(Some(0)))
        };
        assert_eq!(
            [39, 79, 199].map(line),
            [
                "Review it (2 of at most 10)     3m20s",
                "Review it (2 of at most 10)                 3m20s    $0.0231  changed nothing",
                "Review it (2 of at most 10)                                                        3m20s    $0.0231       0 tokens  changed nothing  5e7c33ec384c",
            ]
        );
        assert_eq!([None, Some(1), Some(12)].map(files), ["", "1 file", "12 files"]);
    }
}
