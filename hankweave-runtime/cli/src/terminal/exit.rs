//! Errors of commands: what is printed, and the exit code (CLI-1).

use std::fmt::{self, Write};
use std::io;
use std::process::ExitCode;

use anstyle::{AnsiColor, Style};
use hankweave_runtime::error::chain;
use hankweave_runtime::world::environment::Environment;
use hankweave_runtime::world::secrets::Secrets;

use crate::terminal::screen::{SafeText, columns_of_errors, print_stderr};
use crate::terminal::wrap::hanging;

/// Why the program ends with something else than 0.
#[derive(Debug)]
pub(crate) struct CliError {
    kind: CliErrorKind,
    message: String,
    hint: Option<String>,
}

/// Kind of an error, by the side at fault; decides the exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CliErrorKind {
    /// A check found that the run cannot succeed here.
    Failed,
    /// The arguments do not fit together.
    Usage,
    /// The run is unfinished on purpose.
    Paused,
    /// hank.json, state.json or another input cannot be used.
    Input,
    /// hankweave itself.
    Bug,
    /// The disk.
    Io,
    /// Another instance holds the directory.
    Held,
}

impl CliErrorKind {
    pub(crate) const fn code(self) -> u8 {
        match self {
            Self::Failed => 1,
            Self::Usage => 2,
            Self::Paused => 3,
            Self::Input => 65,
            Self::Bug => 70,
            Self::Io => 74,
            Self::Held => 75,
        }
    }
}

impl CliError {
    pub(crate) fn new(kind: CliErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            hint: None,
        }
    }

    /// Returns the error with its whole chain of causes (CLI-3).
    pub(crate) fn from_error(kind: CliErrorKind, error: &(dyn std::error::Error + 'static)) -> Self {
        Self::new(kind, chain(error))
    }

    /// Describes a system that starts no threads, as when another program of the user has started too many processes.
    pub(crate) fn no_threads(error: &io::Error) -> Self {
        let message = format!("the system starts no more threads: {error}");
        Self::new(CliErrorKind::Io, message).hint(
            "`ulimit -u` shows how many processes and threads you may have; end some, then type the same again",
        )
    }

    /// Returns the message without the hint.
    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    /// Returns the hint: what to do about the error, where known.
    pub(crate) fn remedy(&self) -> Option<&str> {
        self.hint.as_deref()
    }

    /// Combines the refusals of some of `all` tasks; `None` if there is none. The first one decides the exit code, and a remedy that several share is
    /// printed once.
    pub(crate) fn of_several(mut refused: Vec<Self>, all: usize) -> Option<Self> {
        if all == 1 {
            return refused.pop();
        }
        let first = refused.first()?.kind;
        let mut message = format!("{} of {all} tasks were refused", refused.len());
        let mut hints: Vec<String> = Vec::new();
        for Self {
            message: why, hint, ..
        } in refused
        {
            // Writing to a text cannot fail.
            let _ = write!(message, "\n  {why}");
            hints.extend(hint.filter(|hint| !hints.contains(hint)));
        }
        let error = Self::new(first, message);
        Some(match hints.is_empty() {
            true => error,
            false => error.hint(hints.join("\n")),
        })
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Prints the message to standard error, without secrets, and returns the exit code.
    pub(crate) fn report(&self) -> ExitCode {
        print_stderr(self.text());
        ExitCode::from(self.kind.code())
    }

    /// Returns the message for people, without secrets.
    pub(crate) fn text(&self) -> SafeText {
        let mut text = SafeText::default();
        // Writing to a text cannot fail.
        let _ = self.write(&mut text);
        text
    }

    fn write(&self, text: &mut SafeText) -> fmt::Result {
        let secrets = Secrets::of(Environment::of_process().iter());
        let columns = columns_of_errors();
        text.styled(style(AnsiColor::Red).bold(), "error:")?;
        write!(
            text,
            " {}",
            broken(&secrets.redact(&self.message), "error: ", columns)
        )?;
        if let Some(hint) = &self.hint {
            write!(text, "\n  ")?;
            text.styled(style(AnsiColor::Cyan), "hint:")?;
            write!(text, " {}", broken(&secrets.redact(hint), "  hint: ", columns))?;
        }
        if self.kind == CliErrorKind::Bug {
            write!(text, "\n  this is a bug in hankweave; please report it")?;
        }
        writeln!(text)
    }
}

/// Breaks a text between words, where a terminal would break it anywhere. `before` is what the caller prints in front of the text.
fn broken(text: &str, before: &str, columns: Option<usize>) -> String {
    let Some(columns) = columns else {
        return text.to_owned();
    };
    let text = format!("{before}{text}");
    let lines = text.split('\n').flat_map(|line| hanging(line, columns, "    "));
    let broken = lines.collect::<Vec<_>>().join("\n");
    // The blank at the end of the prefix is lost if the first word goes to the next line.
    broken
        .strip_prefix(before)
        .or_else(|| broken.strip_prefix(before.trim_end()))
        .unwrap_or(&broken)
        .to_owned()
}

fn style(color: AnsiColor) -> Style {
    Style::new().fg_color(Some(color.into()))
}
