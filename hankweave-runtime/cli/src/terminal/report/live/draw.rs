//! The footer of the screen (CLI-24): the running codon with its last lines, the codons that come, and one line about the whole run.

use std::fmt::{self, Write};

use anstyle::{AnsiColor, Style};
use hankweave_core::text::blank_controls;
use hankweave_core::time::Timestamp;
use hankweave_core::view::{AttemptView, CurrentAttempt, RunState, RunView, SentinelView, WatchStatus};

use super::columns::Columns;
use super::progress::LiveProgress;
use super::{activities, helpers};
use crate::terminal::report::words::{self, duration};
use crate::terminal::screen::{SafeText, ScreenSize};

/// The most lines of what an agent said and did.
const LINES: usize = 6;

/// The most sentinels.
const SENTINELS: usize = 3;

/// The most sub-agents.
const HELPERS: usize = 6;

/// The longest bar, in characters.
pub(super) const BAR: usize = 24;

/// The most codons that come next.
const COMING: usize = 3;

/// Frames of the mark that turns while something runs.
const TURNING: [char; 8] = ['⠋', '⠙', '⠸', '⠴', '⠦', '⠇', '⠏', '⠛'];

/// Duration of each frame, in milliseconds.
const TURN: u128 = 120;

/// Returns the lines at the foot of the screen at `now`, as many as there is room for. The caller cuts longer lines.
pub(super) fn draw(progress: &LiveProgress, room: ScreenSize, now: Timestamp) -> SafeText {
    let mut text = SafeText::default();
    // Writing to a text cannot fail.
    let _ = write_all(progress, room, now, &mut text);
    text
}

fn write_all(progress: &LiveProgress, room: ScreenSize, now: Timestamp, text: &mut SafeText) -> fmt::Result {
    let view = &progress.view;
    let coming: Vec<&str> = view.coming().collect();
    let activity = view
        .activity
        .as_ref()
        .filter(|activity| !activities::is_over(activity, now));
    let doing = activity.map(|activity| activities::words(activity, now, (room.columns / 4).min(BAR)));
    // Two lines are kept: for the running codon and, at the end, for the whole run.
    let left = room.lines.saturating_sub(2);
    let next = coming.len().min(COMING).min(left / 2);
    // The line with the number of further codons.
    let more = usize::from(coming.len() > next && next > 0);
    if let Some((current, attempt)) = view.current().filter(|_| room.lines > 1) {
        write_current(view, current, attempt, room.columns, now, text)?;
        let mut room_left = left.saturating_sub(next + more);
        if let Some(doing) = doing.filter(|_| room_left > 0) {
            room_left -= 1;
            writeln!(text, "  {}", blank_controls(&doing))?;
        }
        let helpers = helpers::lines(&current.agents);
        let watching = watching(view);
        let sentinels = watching.len().min(SENTINELS).min(room_left / 2);
        let shown = helpers.len().min(HELPERS).min((room_left - sentinels) / 2);
        let lines = current.lines.len().min(LINES).min(room_left - sentinels - shown);
        for line in current.lines.values().skip(current.lines.len() - lines) {
            write_dim(text, format_args!("  │ {line}"))?;
        }
        for helper in &helpers[..shown] {
            write_dim(text, format_args!("  {helper}"))?;
        }
        for (id, sentinel) in &watching[watching.len() - sentinels..] {
            let says = sentinel.says.as_deref().unwrap_or("watches");
            let failed = if sentinel.state == WatchStatus::Failed {
                "failed: "
            } else {
                ""
            };
            write_dim(text, format_args!("  ◇ {id}: {failed}{says}"))?;
        }
    } else if let Some(doing) = doing.filter(|_| room.lines > 1) {
        write_dim(text, format_args!("  {doing}"))?;
    }
    for title in &coming[..next] {
        write_dim(text, format_args!("  · {title}"))?;
    }
    if more > 0 {
        write_dim(text, format_args!("  · and {} more", coming.len() - next))?;
    }
    match view.items.is_empty() {
        true => Ok(()),
        false => write_foot(progress, now, text),
    }
}

/// Returns the sentinels that watch the running codon, the most recent one at the end.
fn watching(view: &RunView) -> Vec<(&String, &SentinelView)> {
    let watching = view.sentinels.iter();
    let mut watching: Vec<_> = watching
        .filter(|(_, sentinel)| sentinel.state != WatchStatus::Ended)
        .collect();
    watching.sort_by_key(|(_, sentinel)| sentinel.seq);
    watching
}

fn write_dim(text: &mut SafeText, line: fmt::Arguments<'_>) -> fmt::Result {
    text.styled(Style::new().dimmed(), blank_controls(&line.to_string()))?;
    writeln!(text)
}

fn write_current(
    view: &RunView,
    current: &CurrentAttempt,
    attempt: &AttemptView,
    columns: usize,
    now: Timestamp,
    text: &mut SafeText,
) -> fmt::Result {
    let lived = attempt.worked(now);
    let turn = TURNING[(lived.as_millis() / TURN) as usize % TURNING.len()];
    let phase = match current.phase.as_str() {
        "working" => "running",
        other => other,
    };
    text.styled(AnsiColor::Cyan.on_default(), turn)?;
    let position = view.position_in_loop(&current.item, current.iteration);
    let name = view.name(&current.item);
    let open = AttemptView {
        at_least: attempt.at_least || view.is_working(),
        ..attempt.clone()
    };
    // The figures of the line are those of this attempt alone, so a later attempt is named.
    let phase = match (phase, current.attempt) {
        ("running", 2..) => format!("attempt {}", current.attempt),
        _ => phase.to_owned(),
    };
    let line = Columns::of(view, columns).line(name, &position, &open, lived, &phase);
    writeln!(text, " {line}")
}

/// Writes the line about the whole run: `4 of 9 · 12m31s · $1.24 of $5.00 · ctx 61 % · next: review`.
fn write_foot(progress: &LiveProgress, now: Timestamp, text: &mut SafeText) -> fmt::Result {
    let view = &progress.view;
    let mut parts = words::progress(view, now);
    if progress.suspended.is_some() {
        parts.push("suspended".to_owned());
    } else if let Some(end) = progress.stops_at {
        parts.push(format!("stopping: {}", duration(end.since(now))));
    } else if let Some(next) = &view.next {
        parts.push(format!("next: {}", next.strip_prefix("Then ").unwrap_or(next)));
    } else if let Some(next) = view.coming().next() {
        parts.push(format!("next: {next}"));
        // As after a rollback, when nothing starts by itself.
        if view.state == RunState::Idle {
            parts.push("waits for `next`".to_owned());
        }
    }
    text.styled(Style::new().bold(), parts.join(" · "))
}
