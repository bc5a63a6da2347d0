//! Lines at the foot of the terminal that are drawn again (CLI-24).
//!
//! A process has one terminal, so there is one such place. Whatever else goes to the terminal is written above it ([`above`]), so that nothing tears it.

use std::convert::Infallible;
use std::fmt;
use std::sync::LazyLock;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use console::{Term, strip_ansi_codes, truncate_str};
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};

use rustix::process::{Signal, getpid, kill_process};
use tokio::signal::unix::{SignalKind, signal};

use super::SafeText;
use super::full::is_taken;
use super::lost::{InfallibleTerm, is_lost};

/// How often the lines are drawn again.
const TICK: Duration = Duration::from_millis(120);

/// How often the lines are written at most, in times a second.
const MOST_WRITES: u8 = 20;

static FOOT: LazyLock<MultiProgress> = LazyLock::new(|| MultiProgress::with_draw_target(target()));

/// Standard error, if it is a terminal. Drawing on it never fails: indicatif would panic, and end the run.
fn target() -> ProgressDrawTarget {
    match Term::stderr().is_term() {
        true => ProgressDrawTarget::term_like_with_hz(Box::new(InfallibleTerm::stderr()), MOST_WRITES),
        false => ProgressDrawTarget::hidden(),
    }
}

/// How many feet are shown. While there is none, writers do not wait for one another: each may have a reader of its own.
static SHOWN: AtomicUsize = AtomicUsize::new(0);

/// Writes above the lines that are drawn again.
pub(super) fn above<T>(write: impl FnOnce() -> T) -> T {
    match SHOWN.load(Relaxed) {
        0 => write(),
        _ if is_lost() => write(),
        _ => FOOT.suspend(write),
    }
}

/// Takes what is drawn away when somebody presses Ctrl+Z, and each time that the program continues sets the terminal `again` and draws below what the
/// shell has written meanwhile.
pub(crate) async fn come_back(again: impl Fn()) -> Infallible {
    let of = |kind: Signal| signal(SignalKind::from_raw(kind.as_raw()));
    let (Ok(mut stopped), Ok(mut continued)) = (of(Signal::TSTP), of(Signal::CONT)) else {
        return std::future::pending().await;
    };
    loop {
        let is_stopped = tokio::select! {
            Some(()) = stopped.recv() => true,
            Some(()) = continued.recv() => false,
            else => return std::future::pending().await,
        };
        // Who has taken the whole screen sees to it.
        if is_taken() {
            continue;
        }
        if is_stopped {
            set_aside();
            // Whoever may not stop itself just continues.
            if kill_process(getpid(), Signal::STOP).is_ok() {
                continued.recv().await;
            }
        }
        again();
        show_again();
    }
}

/// Draws nothing for a while, because somebody needs the whole screen.
pub(super) fn set_aside() {
    // What is not cleared is drawn over by nobody.
    let _ = FOOT.clear();
    FOOT.set_draw_target(ProgressDrawTarget::hidden());
}

/// Draws again.
pub(super) fn show_again() {
    FOOT.set_draw_target(target());
}

/// How much room there is, in characters.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ScreenSize {
    pub(crate) lines: usize,
    pub(crate) columns: usize,
}

impl ScreenSize {
    fn of_terminal() -> Self {
        let (lines, columns) = Term::stderr().size();
        // A line that is full to the edge, and one in the last row, would scroll on some terminals.
        Self {
            lines: usize::from(lines).saturating_sub(1).max(1),
            columns: usize::from(columns).saturating_sub(1).max(1),
        }
    }
}

/// How many columns a line may have that stays.
pub(crate) fn columns() -> usize {
    ScreenSize::of_terminal().columns
}

/// Lines that are drawn again several times a second until this is dropped.
#[derive(Debug)]
pub(crate) struct Footer(ProgressBar);

impl Footer {
    /// Shows what `draw` gives for the room that there is. It is called with the place locked, so it must not write.
    pub(crate) fn show(draw: impl Fn(ScreenSize) -> SafeText + Clone + Send + Sync + 'static) -> Self {
        let lines = move |_: &ProgressState, out: &mut dyn fmt::Write| {
            let room = ScreenSize::of_terminal();
            // What cannot be drawn is drawn again soon.
            let _ = out.write_str(&fit(draw(room).as_str(), room));
        };
        let style =
            ProgressStyle::with_template("{lines}").unwrap_or_else(|_| ProgressStyle::default_spinner());
        let bar = FOOT.add(ProgressBar::new_spinner().with_style(style.with_key("lines", lines)));
        bar.enable_steady_tick(TICK);
        SHOWN.fetch_add(1, Relaxed);
        Self(bar)
    }
}

impl Drop for Footer {
    fn drop(&mut self) {
        self.0.finish_and_clear();
        SHOWN.fetch_sub(1, Relaxed);
    }
}

/// Cuts lines to the room, and takes colours away where nobody wants them.
fn fit(text: &str, room: ScreenSize) -> String {
    let cut = text
        .lines()
        .take(room.lines)
        .map(|line| truncate_str(line, room.columns, "…"));
    let text = cut.collect::<Vec<_>>().join("\n");
    match console::colors_enabled_stderr() {
        true => text,
        false => strip_ansi_codes(&text).into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_cut_to_the_room() {
        let room = ScreenSize { lines: 2, columns: 4 };
        assert_eq!(strip_ansi_codes(&fit("漢字漢字\nab\nc", room)), "漢…\nab");
    }
}
