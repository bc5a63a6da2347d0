//! All output to people and scripts is written here, and nothing in it can control a terminal or deceive the reader (S9).
//!
//! No other module opens standard output or standard error for text; `tests/architecture.rs` checks that. So no caller has to think of safety:
//! control characters in its text are made visible here, except for the styles that it asks for ([`SafeText::styled`]).

mod area;
mod full;
mod harmless;
mod json;
mod lost;
mod text;
mod time;

use std::io::{self, IsTerminal as _, Write};

use self::area::above;
use self::full::{OutputStream, hold};
use hankweave_runtime::world::environment::Environment;
use rustix::termios::{LocalModes, tcgetattr};

pub(crate) use area::{
    Footer, ScreenSize, columns, columns_of_errors, columns_of_output, is_in_background, set_aside,
    show_again,
};
pub(crate) use full::{FullScreen, give_back, is_taken};
pub(crate) use harmless::one_line;
pub(crate) use json::{JsonLines, print_json};
pub(crate) use text::SafeText;
pub(crate) use time::{
    local_period, local_second, local_time, offset_date, offset_period, offset_second, offset_time,
    with_local_times, with_offset_times, with_zoned_times,
};

/// Whether a person looks at a terminal on which lines can be drawn again.
pub(crate) fn is_drawable() -> bool {
    let environment = Environment::of_process();
    let is_dumb = environment.get("TERM").is_none_or(|kind| kind == "dumb");
    !is_dumb && io::stdout().is_terminal() && io::stderr().is_terminal()
}

/// Prints a result to standard output (CLI-5).
pub(crate) fn print(text: impl Into<SafeText>) -> io::Result<()> {
    let text = text.into();
    // While a view has the whole screen, it keeps the text and prints it at its end.
    if hold(OutputStream::Out, text.as_str()) {
        return Ok(());
    }
    above(|| {
        let mut out = anstream::stdout().lock();
        out.write_all(text.as_str().as_bytes())?;
        out.flush()
    })
}

/// Returns standard input and output for a protocol that is spoken there; nothing else is printed meanwhile.
#[cfg(feature = "mcp")]
pub(crate) fn streams() -> (tokio::io::Stdin, tokio::io::Stdout) {
    (tokio::io::stdin(), tokio::io::stdout())
}

/// Writes to standard error, for people. A message that cannot be written, because of a full disk for example, is no reason to fail.
pub(crate) fn print_stderr(text: impl Into<SafeText>) {
    let _ = ask(text);
}

/// Prints a question. Returns errors, because a question that was not shown cannot be answered.
pub(crate) fn ask(text: impl Into<SafeText>) -> io::Result<()> {
    let text = text.into();
    if hold(OutputStream::Error, text.as_str()) {
        return Ok(());
    }
    above(|| {
        let mut out = anstream::stderr().lock();
        out.write_all(text.as_str().as_bytes())?;
        out.flush()
    })
}

/// Returns a size for people, as in `1.34 KiB`.
pub(crate) fn size(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let power = (bytes.ilog2() / 10).min(5);
    #[expect(clippy::cast_precision_loss, reason = "two digits after the point are shown")]
    let amount = bytes as f64 / (1_u64 << (10 * power)) as f64;
    format!("{amount:.2} {}", UNITS[power as usize - 1])
}

/// Rings the bell of the terminal, if there is one.
pub(crate) fn ring() {
    above(|| {
        let mut err = io::stderr().lock();
        if err.is_terminal() {
            // A bell that cannot be written is not worth an error.
            let _ = err.write_all(b"\x07").and_then(|()| err.flush());
        }
    });
}

/// Ends the line in which a terminal has shown the typed `^C`, so that the next message begins its own line. A terminal that shows no keys has no such
/// line.
pub(crate) fn end_echoed_line() {
    let shows = tcgetattr(io::stderr())
        .is_ok_and(|modes| modes.local_modes.contains(LocalModes::ECHO | LocalModes::ECHOCTL));
    if shows {
        print_stderr("\n");
    }
}

/// Returns a message of our own log, always on one line.
pub(crate) fn log_line(message: &[u8]) -> String {
    let text = String::from_utf8_lossy(message);
    format!("{}\n", one_line(text.trim_end()))
}

/// Standard error for the messages of our own log, which go there one at a time.
#[derive(Debug, Default)]
pub(crate) struct LogWriter;

impl Write for LogWriter {
    fn write(&mut self, message: &[u8]) -> io::Result<usize> {
        let line = log_line(message);
        if !hold(OutputStream::Error, &line) {
            above(|| io::stderr().write_all(line.as_bytes()))?;
        }
        Ok(message.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}
