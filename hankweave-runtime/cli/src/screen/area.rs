//! Lines at the foot of the terminal that are drawn again (CLI-24).
//!
//! A process has one terminal, so there is one such place. Whatever else goes to the terminal is written above it ([`above`]), so that nothing tears it.

use std::convert::Infallible;
use std::fmt::Write as _;
use std::io::{self, IsTerminal as _, Write as _};
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Condvar, LazyLock, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use console::{Term, measure_text_width, strip_ansi_codes, truncate_str};
use hankweave_runtime::world::environment::Environment;
use rustix::process::{Signal, getpid, kill_process};
use tokio::signal::unix::{SignalKind, signal};

use super::SafeText;
use super::full::is_taken;
use super::lost::{InfallibleWriter, is_lost};

/// How often the lines are drawn again.
const TICK: Duration = Duration::from_millis(120);

static FOOT: Mutex<Foot> = Mutex::new(Foot {
    parts: Vec::new(),
    drawn: Vec::new(),
    is_hidden: false,
    generation: 0,
    ticker: None,
});

/// Wakes the thread that draws when there is nothing left to draw.
static EMPTIED: Condvar = Condvar::new();

/// How many feet are shown. While there is none, writers do not wait for one another: each may have a reader of its own.
static SHOWN: AtomicUsize = AtomicUsize::new(0);

static REWRAPS: LazyLock<bool> = LazyLock::new(|| rewraps(&Environment::of_process()));

type DrawPart = Box<dyn Fn(ScreenSize) -> SafeText + Send>;

/// Last lines of the terminal.
struct Foot {
    parts: Vec<(usize, DrawPart)>,
    /// Lines on the terminal, without colours; the cursor is at the end of the last one.
    drawn: Vec<String>,
    /// Another program, or the whole screen, has the terminal.
    is_hidden: bool,
    /// Number of parts shown so far; the thread of an earlier generation ends.
    generation: usize,
    ticker: Option<JoinHandle<()>>,
}

fn foot() -> MutexGuard<'static, Foot> {
    FOOT.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Foot {
    fn draw(&mut self) {
        let term = Term::stderr();
        if self.is_hidden || !term.is_term() {
            return;
        }
        let room = ScreenSize::of_terminal();
        let lines = self.lines(room);
        if lines.is_empty() && self.drawn.is_empty() {
            return;
        }
        let mut text = self.way_back(usize::from(term.size().1));
        for (number, line) in lines.iter().enumerate() {
            text += if number == 0 { "" } else { "\r\n" };
            // Erased as a whole and before it is written, a row is no longer taken for the rest of the row above it, as it was when a narrower window broke a
            // line in two. Otherwise a wider window joins them, and the way back is too long.
            text += "\u{1b}[K";
            text += line;
        }
        text += "\u{1b}[J";
        write(&text);
        self.drawn = lines
            .iter()
            .map(|line| strip_ansi_codes(line).into_owned())
            .collect();
    }

    /// Lines of all parts. The last ones are what a person has to do, so the others get the room that is left.
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
        if !self.drawn.is_empty() {
            let columns = usize::from(Term::stderr().size().1);
            write(&(self.way_back(columns) + "\u{1b}[J"));
            self.drawn.clear();
        }
    }

    /// Returns what moves the cursor to the first column of the first line that is drawn, on a terminal that has this many columns now.
    fn way_back(&self, columns: usize) -> String {
        let rows = |line: &String| if *REWRAPS { rows(line, columns) } else { 1 };
        let up = self.drawn.iter().map(rows).sum::<usize>().saturating_sub(1);
        let mut text = "\r".to_owned();
        if up > 0 {
            // Writing to a String cannot fail.
            let _ = write!(text, "\u{1b}[{up}A");
        }
        text
    }
}

/// A terminal that was closed, or that others have made non-blocking, is no reason to fail: what it does not take is drawn again soon.
fn write(text: &str) {
    let mut terminal = InfallibleWriter(io::stderr().lock());
    let _ = terminal
        .write_all(text.as_bytes())
        .and_then(|()| terminal.flush());
}

/// Whether the terminal breaks lines again when it gets narrower. Without that a line that is too long now takes one row still, and going back further would
/// erase what was printed for good.
fn rewraps(environment: &Environment) -> bool {
    let kind = environment
        .get("TERM")
        .and_then(|kind| kind.to_str())
        .unwrap_or_default();
    let is_set = |name: &str| environment.get(name).is_some();
    let is_screen = is_set("STY") && !is_set("TMUX");
    !(kind == "linux" || kind.starts_with("vt") || is_set("XTERM_VERSION") || is_screen)
}

/// Number of rows that a line takes; a wide character that does not fit into the last column begins a new row.
fn rows(line: &str, columns: usize) -> usize {
    let (mut rows, mut column) = (1, 0);
    for character in line.chars() {
        let width = measure_text_width(character.encode_utf8(&mut [0; 4]));
        column += width;
        if column > columns {
            (rows, column) = (rows + 1, width);
        }
    }
    rows
}

/// Draws until nothing is left to draw.
fn tick(generation: usize) {
    let mut foot = foot();
    while foot.generation == generation {
        foot.draw();
        let waited = EMPTIED.wait_timeout(foot, TICK);
        foot = waited.unwrap_or_else(PoisonError::into_inner).0;
    }
}

/// Writes above the lines that are drawn again.
pub(super) fn above<T>(write: impl FnOnce() -> T) -> T {
    if SHOWN.load(Relaxed) == 0 || is_lost() {
        return write();
    }
    let mut foot = foot();
    foot.erase();
    let written = write();
    foot.draw();
    written
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
    let mut foot = foot();
    foot.erase();
    foot.is_hidden = true;
}

/// Draws again, below what others have written meanwhile.
pub(super) fn show_again() {
    let mut foot = foot();
    // What was not erased before the program was stopped is not where it was.
    if !std::mem::take(&mut foot.drawn).is_empty() {
        write("\r\n");
    }
    foot.is_hidden = false;
    foot.draw();
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

/// Columns of standard output; `None` where it is no terminal, whose readers want whole lines.
pub(crate) fn columns_of_output() -> Option<usize> {
    io::stdout().is_terminal().then(columns)
}

/// Columns of standard error; `None` where it is no terminal.
pub(crate) fn columns_of_errors() -> Option<usize> {
    io::stderr().is_terminal().then(columns)
}

/// Lines that are drawn again several times a second until this is dropped.
#[derive(Debug)]
pub(crate) struct Footer(usize);

impl Footer {
    /// Shows what `draw` gives for the room that there is. It is called with the place locked, so it must not write.
    pub(crate) fn show(draw: impl Fn(ScreenSize) -> SafeText + Send + 'static) -> Self {
        let mut foot = foot();
        foot.generation += 1;
        let generation = foot.generation;
        foot.parts.push((generation, Box::new(draw)));
        SHOWN.fetch_add(1, Relaxed);
        EMPTIED.notify_all();
        #[expect(
            clippy::disallowed_methods,
            reason = "it draws while everything else is blocked, too"
        )]
        let ticker = Builder::new()
            .name("screen".to_owned())
            .spawn(move || tick(generation));
        // Without a thread the lines are drawn whenever something is printed.
        let before = std::mem::replace(&mut foot.ticker, ticker.ok());
        drop(foot);
        join(before);
        Self(generation)
    }
}

impl Drop for Footer {
    fn drop(&mut self) {
        let mut foot = foot();
        foot.parts.retain(|(number, _)| *number != self.0);
        foot.draw();
        SHOWN.fetch_sub(1, Relaxed);
        let mut ticker = None;
        if foot.parts.is_empty() {
            foot.erase();
            foot.generation += 1;
            ticker = foot.ticker.take();
            EMPTIED.notify_all();
        }
        drop(foot);
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

/// Cuts lines to the room, and takes colours away where nobody wants them.
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

    #[test]
    fn a_line_is_broken_before_a_wide_character_that_does_not_fit() {
        assert_eq!([1, 2, 3, 5].map(|columns| rows("abcd", columns)), [4, 2, 2, 1]);
        assert_eq!(
            [3, 4, 5, 8].map(|columns| rows("漢字漢字", columns)),
            [4, 2, 2, 1]
        );
        assert_eq!(rows("", 3), 1);
    }
}
