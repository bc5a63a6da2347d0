//! The moving part of the screen: what runs, what comes, and one line about all of it (CLI-24).

use std::fmt::{self, Write};
use std::time::Duration;

use anstyle::{AnsiColor, Style};
use hankweave_core::time::Timestamp;

use super::current::Current;
use super::progress::LiveProgress;
use crate::report::words::{duration, standing, tokens};
use crate::screen::{SafeText, ScreenSize};

/// The most lines of what an agent said and did.
const LINES: usize = 6;

/// The most sentinels.
const SENTINELS: usize = 3;

/// The most sub-agents.
const HELPERS: usize = 6;

/// The longest bar, in characters.
pub(super) const BAR: usize = 24;

/// The most codons that come.
const COMING: usize = 3;

/// Turns as long as something runs.
const TURNING: [char; 8] = ['⠋', '⠙', '⠸', '⠴', '⠦', '⠇', '⠏', '⠛'];

/// How long each of them stands, in milliseconds.
const TURN: u128 = 120;

/// Returns the lines at the foot of the screen at `now`, as many as there is room for. The caller cuts longer lines.
pub(super) fn draw(progress: &LiveProgress, room: ScreenSize, now: Timestamp) -> SafeText {
    let mut text = SafeText::default();
    // Writing to a text cannot fail.
    let _ = write_all(progress, room, now, &mut text);
    text
}

fn write_all(progress: &LiveProgress, room: ScreenSize, now: Timestamp, text: &mut SafeText) -> fmt::Result {
    let coming = progress.coming();
    let doing = progress.doing.as_ref().filter(|doing| !doing.is_over(now));
    let doing = doing.map(|doing| doing.words(now, (room.columns / 4).min(BAR)));
    // The last line is that about all of it, the one before it what runs.
    let left = room.lines.saturating_sub(2);
    let next = coming.len().min(COMING).min(left / 2);
    let more = usize::from(coming.len() > next && next > 0);
    if let Some(current) = progress.current.as_ref().filter(|_| room.lines > 1) {
        write_current(current, room, now, text)?;
        let mut room_left = left.saturating_sub(next + more);
        if let Some(doing) = doing.filter(|_| room_left > 0) {
            room_left -= 1;
            writeln!(text, "  {}", one_line(&doing))?;
        }
        let helpers = current.helpers.lines();
        let sentinels = current.sentinels.len().min(SENTINELS).min(room_left / 2);
        let shown = helpers.len().min(HELPERS).min((room_left - sentinels) / 2);
        let lines = current.lines.len().min(LINES).min(room_left - sentinels - shown);
        for line in current.lines.iter().skip(current.lines.len() - lines) {
            write_dim(text, format_args!("  │ {line}"))?;
        }
        for helper in &helpers[..shown] {
            write_dim(text, format_args!("  {helper}"))?;
        }
        for (sentinel, words) in &current.sentinels[current.sentinels.len() - sentinels..] {
            write_dim(text, format_args!("  ◇ {sentinel}: {words}"))?;
        }
    } else if let Some(doing) = doing.filter(|_| room.lines > 1) {
        write_dim(text, format_args!("  {doing}"))?;
    }
    for planned in &coming[..next] {
        write_dim(text, format_args!("  · {}", planned.title))?;
    }
    if more > 0 {
        write_dim(text, format_args!("  · and {} more", coming.len() - next))?;
    }
    match progress.plan.is_empty() {
        true => Ok(()),
        false => write_foot(progress, now, text),
    }
}

fn write_dim(text: &mut SafeText, line: fmt::Arguments<'_>) -> fmt::Result {
    text.styled(Style::new().dimmed(), one_line(&line.to_string()))?;
    writeln!(text)
}

fn one_line(line: &str) -> String {
    line.replace(['\n', '\t'], " ")
}

fn write_current(current: &Current, room: ScreenSize, now: Timestamp, text: &mut SafeText) -> fmt::Result {
    let lived = now.since(current.began);
    let turn = TURNING[(lived.as_millis() / TURN) as usize % TURNING.len()];
    let title = room.columns.saturating_sub(30).clamp(8, 24);
    text.styled(AnsiColor::Cyan.on_default(), turn)?;
    writeln!(
        text,
        " {:<title$} {} {}  {}  {} tokens",
        current.title,
        standing(current.status, None),
        duration(lived),
        current.told_cost(),
        tokens(current.usage.total()),
    )
}

/// `4 of 9 · 12:31 · $1.24 of $5.00 · ctx 61 % · next: review`
fn write_foot(progress: &LiveProgress, now: Timestamp, text: &mut SafeText) -> fmt::Result {
    let mut parts = vec![format!("{} of {}", progress.done, progress.plan.len())];
    if let Some(began) = progress.began {
        parts.push(clock(now.since(began)));
    }
    let spent = progress.counted().told(progress.is_lower_bound);
    parts.push(match progress.known.ceiling {
        Some(ceiling) => format!("{spent} of {ceiling}"),
        None => spent,
    });
    if let Some((tokens, window)) = progress.current.as_ref().and_then(|current| current.context) {
        parts.push(format!("ctx {} %", tokens.saturating_mul(100) / window.max(1)));
    }
    if let Some(end) = progress.stops_at {
        parts.push(format!("stopping: {}", duration(end.since(now))));
    } else if let Some(next) = progress.coming().first() {
        parts.push(format!("next: {}", next.title));
    }
    text.styled(Style::new().bold(), parts.join(" · "))
}

/// `0:07`, `12:31`, `1:02:03`
fn clock(time: Duration) -> String {
    let seconds = time.as_secs();
    let (hours, minutes, seconds) = (seconds / 3_600, seconds / 60 % 60, seconds % 60);
    match hours {
        0 => format!("{minutes}:{seconds:02}"),
        _ => format!("{hours}:{minutes:02}:{seconds:02}"),
    }
}
