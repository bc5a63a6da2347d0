//! Results on standard output.

use std::process::ExitCode;

use serde::Serialize;

use crate::terminal::exit::{CliError, CliErrorKind};
use crate::terminal::screen::{self, SafeText};

/// Prints a result for people.
pub(crate) fn print(text: impl Into<SafeText>) -> Result<(), CliError> {
    printed(screen::print(text))
}

/// Prints a result for people in lines that fit their terminal.
pub(crate) fn print_lines(text: impl Into<SafeText>) -> Result<(), CliError> {
    print(text.into().broken(screen::columns_of_output()))
}

/// Prints a result for programs.
pub(crate) fn print_json_text(document: &str) -> Result<(), CliError> {
    printed(screen::print_json(document))
}

/// Returns the error of a write. A reader that has gone away is not a failure (F19).
fn printed(result: std::io::Result<()>) -> Result<(), CliError> {
    match result {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            let message = format!("failed to write to standard output: {error}");
            Err(CliError::new(CliErrorKind::Io, message))
        }
        _ => Ok(()),
    }
}

/// Prints one document of a command.
pub(crate) fn print_json(document: &impl Serialize) -> Result<ExitCode, CliError> {
    let text = serde_json::to_string_pretty(document).map_err(|error| {
        CliError::new(
            CliErrorKind::Bug,
            format!("failed to write a result as JSON: {error}"),
        )
    })?;
    print_json_text(&format!("{text}\n"))?;
    Ok(ExitCode::SUCCESS)
}
