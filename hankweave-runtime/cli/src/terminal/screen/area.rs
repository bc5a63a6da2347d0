//! Lines at the foot of the terminal that are drawn again (CLI-24).
//!
//! A process has one terminal, so there is one such area. All other output to the terminal is written above it ([`above`]), so that nothing breaks
//! the area up.

use std::fmt::Write as _;
use std::io::{self, IsTerminal as _, Write as _};
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use console::{Term, strip_ansi_codes, truncate_str};
use rustix::process::getpgrp;
use rustix::termios::tcgetpgrp;

use super::SafeText;
use super::lost::{InfallibleWriter, is_lost};

/// Interval at which the lines are drawn again.
const TICK: Duration = Duration::from_millis(120);

static FOOTER: Mutex<FooterState> = Mutex::new(FooterState {
    parts: Vec::new(),
    is_drawn: false,
    is_hidden: false,
    generation: 0,
    ticker: None,
});

/// Wakes the drawing thread when its generation has ended or nothing is left to draw.
static WAKE_UP: Condvar = Condvar::new();

/// Number of footers that are shown. While there is none, writers take no lock: standard output and error may have different readers, and a slow one
/// must not delay the other.
static SHOWN: AtomicUsize = AtomicUsize::new(0);

/// Returns the lines of a part for the room that it has.
type DrawPart = Box<dyn Fn(ScreenSize) -> SafeText + Send>;

/// Last lines of the terminal.
struct FooterState {
    /// Parts from top to bottom, each with the generation in which it was added.
    parts: Vec<(usize, DrawPart)>,
    /// Lines are on the terminal; the cursor is on the first of them.
    is_drawn: bool,
    /// Another program, or the whole screen, has the terminal.
    is_hidden: bool,
    /// Number of parts shown so far; the thread of an earlier generation ends.
    generation: usize,
    /// Thread that draws; `None` while nothing is shown, or if it could not be started.
    ticker: Option<JoinHandle<()>>,
}

fn footer() -> MutexGuard<'static, FooterState> {
    FOOTER.lock().unwrap_or_else(PoisonError::into_inner)
}

impl FooterState {
    fn draw(&mut self) {
        let term = Term::stderr();
        if self.is_hidden || !term.is_term() {
            return;
        }
        if is_in_background() {
            // A shell writes over the lines, so they must not be erased later.
            self.is_drawn = false;
            return;
        }
        let lines = self.lines(ScreenSize::of_terminal());
        if lines.is_empty() {
            self.erase();
            return;
        }
        write(&drawing(&lines));
        self.is_drawn = true;
    }

    /// Returns the lines of all parts. The last parts say what a person has to do, so the parts above get the room that is left.
    fn lines(&self, room: ScreenSize) -> Vec<String> {
        let mut lines = Vec::new();
        for (_, part) in self.parts.iter().rev() {
            let room = ScreenSize {
                lines: room.lines.saturating_sub(lines.len()),
                ..room
            };
            let above = fit(part(room).as_str(), room);
            lines.splice(..0, above.into_iter().take(room.lines));
        }
        lines
    }

    fn erase(&mut self) {
        if std::mem::take(&mut self.is_drawn) && !is_in_background() {
            write(ERASE);
        }
    }
}

/// Erases the line of the cursor and all below it.
///
/// If the erasure starts in the first column of the first row, some terminals (tmux) move the whole screen into their history, and it would return
/// with the next larger size. So the first line is erased by itself, and the rest from its second column on.
const ERASE: &str = "\r\u{1b}[K\u{1b}[C\u{1b}[J\r";

/// Whether the terminal is another program's at the moment, as after `bg`: a shell reads a line there, which nothing may be drawn over.
pub(crate) fn is_in_background() -> bool {
    tcgetpgrp(io::stderr()).is_ok_and(|foreground| foreground != getpgrp())
}

/// Returns the text that draws these lines in place of the lines that were drawn before.
///
/// The cursor stays on the first line. There it keeps its place while the terminal changes its size and breaks the lines below again. A program
/// learns of a new size late, so a way up from the last line would be counted with the old size. That is also why lines are not broken (DECAWM).
/// The cursor is put on the second column, next to the mark of the line.
fn drawing(lines: &[String]) -> String {
    let mut text = format!("{ERASE}\u{1b}[?7l{}", lines.join("\r\n"));
    let up = lines.len() - 1;
    if up > 0 {
        // Writing to a String cannot fail.
        let _ = write!(text, "\u{1b}[{up}A");
    }
    text + "\r\u{1b}[C\u{1b}[?7h"
}

/// Writes to the terminal. A terminal that was closed is no reason to fail.
fn write(text: &str) {
    let mut terminal = InfallibleWriter(io::stderr().lock());
    let _ = terminal
        .write_all(text.as_bytes())
        .and_then(|()| terminal.flush());
}

/// Draws until nothing is left to draw.
fn tick(generation: usize) {
    let mut footer = footer();
    while footer.generation == generation {
        footer.draw();
        let waited = WAKE_UP.wait_timeout(footer, TICK);
        footer = waited.unwrap_or_else(PoisonError::into_inner).0;
    }
}

/// Writes above the lines that are drawn again.
pub(super) fn above<T>(write: impl FnOnce() -> T) -> T {
    if SHOWN.load(Relaxed) == 0 || is_lost() {
        return write();
    }
    let mut footer = footer();
    footer.erase();
    let written = write();
    footer.draw();
    written
}

/// Draws nothing for a while, because another program or view needs the whole screen.
pub(crate) fn set_aside() {
    let mut footer = footer();
    footer.erase();
    footer.is_hidden = true;
}

/// Draws again, below what others have written meanwhile.
pub(crate) fn show_again() {
    let mut footer = footer();
    // Lines that were not erased before the program was stopped are still on the terminal, so it draws below the text of the shell.
    if std::mem::take(&mut footer.is_drawn) {
        write("\r\n\u{1b}[J");
    }
    footer.is_hidden = false;
    footer.draw();
}

/// Room on the screen, in characters.
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

/// Returns the number of columns for a line that stays.
pub(crate) fn columns() -> usize {
    ScreenSize::of_terminal().columns
}

/// Columns of standard output; `None` where it is no terminal, whose readers want whole lines.
pub(crate) fn columns_of_output() -> Option<usize> {
    io::stdout().is_terminal().then(columns)
}

/// Columns of standard error; `None` where it is no terminal.
pub(crate) fn columns_of_errors() -> Option<usize> {
    io::stderr().is_terminal().then(columns)
}

/// A part of the footer, drawn again several times a second until the value is dropped. Has the generation in which it was added.
#[derive(Debug)]
pub(crate) struct Footer(usize);

impl Footer {
    /// Shows the lines that `draw` returns for the room of the footer. `draw` is called while the footer is locked, so it must not print.
    pub(crate) fn show(draw: impl Fn(ScreenSize) -> SafeText + Send + 'static) -> Self {
        let mut footer = footer();
        footer.generation += 1;
        let generation = footer.generation;
        footer.parts.push((generation, Box::new(draw)));
        SHOWN.fetch_add(1, Relaxed);
        WAKE_UP.notify_all();
        #[expect(
            clippy::disallowed_methods,
            reason = "it draws while everything else is blocked, too"
        )]
        let ticker = Builder::new()
            .name("screen".to_owned())
            .spawn(move || tick(generation));
        // Without a thread the lines are drawn whenever something is printed.
        let before = std::mem::replace(&mut footer.ticker, ticker.ok());
        drop(footer);
        join(before);
        Self(generation)
    }
}

impl Drop for Footer {
    fn drop(&mut self) {
        let mut footer = footer();
        footer.parts.retain(|(number, _)| *number != self.0);
        footer.draw();
        SHOWN.fetch_sub(1, Relaxed);
        let mut ticker = None;
        if footer.parts.is_empty() {
            footer.erase();
            footer.generation += 1;
            ticker = footer.ticker.take();
            WAKE_UP.notify_all();
        }
        drop(footer);
        join(ticker);
    }
}

/// Waits for a thread whose generation has ended.
fn join(ticker: Option<JoinHandle<()>>) {
    if let Some(ticker) = ticker {
        // A panic of what draws was reported where it happened.
        let _ = ticker.join();
    }
}

/// Cuts lines to the room, and removes colours if they are disabled.
fn fit(text: &str, room: ScreenSize) -> Vec<String> {
    let cut = text.lines().map(|line| truncate_str(line, room.columns, "…"));
    cut.map(|line| match console::colors_enabled_stderr() {
        true => line.into_owned(),
        false => strip_ansi_codes(&line).into_owned(),
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_cut_to_the_room() {
        let room = ScreenSize { lines: 2, columns: 4 };
        let lines = fit("漢字漢字\nab", room);
        assert_eq!(
            lines
                .iter()
                .map(|line| strip_ansi_codes(line))
                .collect::<Vec<_>>(),
            ["漢…", "ab"]
        );
    }

    // covers: CLI-24
    #[test]
    fn the_cursor_stays_on_the_first_line_whatever_becomes_of_the_size() {
        let lines = ["⠋ one", "  two"].map(str::to_owned);
        assert_eq!(
            drawing(&lines),
            "\r\u{1b}[K\u{1b}[C\u{1b}[J\r\u{1b}[?7l⠋ one\r\n  two\u{1b}[1A\r\u{1b}[C\u{1b}[?7h"
        );
        assert!(!drawing(&lines[..1]).contains('A'));
    }
}
