//! Exit codes ("command line and on-disk contract", "General").

use std::fmt;
use std::process::ExitCode;

use anstyle::{AnsiColor, Style};

use crate::error::chain;
use crate::report::{printable, tell};
use crate::world::environment::Environment;
use crate::world::secrets::Secrets;

/// Why the program ends with something else than 0.
#[derive(Debug)]
pub(crate) struct Failure {
    kind: FailureKind,
    message: String,
    hint: Option<String>,
}

/// Who is at fault; decides the exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FailureKind {
    /// A check found that the run cannot succeed here.
    Failed,
    /// What was typed does not fit together.
    Usage,
    /// hank.json, state.json or another input cannot be used.
    Input,
    /// hankweave itself.
    Bug,
    /// The disk.
    Io,
    /// Another instance holds the directory.
    Held,
}

impl FailureKind {
    pub(crate) const fn code(self) -> u8 {
        match self {
            Self::Failed => 1,
            Self::Usage => 2,
            Self::Input => 65,
            Self::Bug => 70,
            Self::Io => 74,
            Self::Held => 75,
        }
    }
}

impl Failure {
    pub(crate) fn new(kind: FailureKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            hint: None,
        }
    }

    /// The error with its whole chain of causes.
    pub(crate) fn from_error(kind: FailureKind, error: &(dyn std::error::Error + 'static)) -> Self {
        Self::new(kind, chain(error))
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Prints the message to standard error, without secrets, and returns the exit code.
    pub(crate) fn report(&self) -> ExitCode {
        let secrets = Secrets::of(Environment::of_process().iter());
        tell(&secrets.redact(&format!("{self}\n")));
        ExitCode::from(self.kind.code())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let red = Style::new().bold().fg_color(Some(AnsiColor::Red.into()));
        let cyan = Style::new().fg_color(Some(AnsiColor::Cyan.into()));
        write!(f, "{red}error:{red:#} {}", printable(&self.message))?;
        if let Some(hint) = &self.hint {
            write!(f, "\n  {cyan}hint:{cyan:#} {}", printable(hint))?;
        }
        if self.kind == FailureKind::Bug {
            write!(f, "\n  this is a bug in hankweave; please report it")?;
        }
        Ok(())
    }
}
