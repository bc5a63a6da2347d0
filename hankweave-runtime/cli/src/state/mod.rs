//! `hankweave state` and what other commands read of the recorded state.

mod apply;
mod cost;
mod history;
mod journal;
mod look;
mod validate;

use std::process::ExitCode;

use hankweave_core::document::render;

use super::args::{Document, Global, StateCommand};
use super::exit::{Failure, FailureKind};

pub(super) use look::{budget_summary, history_command, known_checkpoints, read, read_execution};

pub(super) fn state(global: &Global, command: &StateCommand) -> Result<ExitCode, Failure> {
    match command {
        StateCommand::Show(document) => show(document),
        StateCommand::Validate(args) => validate::validate(global, args),
        StateCommand::Apply(args) => apply::apply(global, args),
        StateCommand::Cost(args) => cost::cost(global, args),
        StateCommand::History(document) => history::history(global, document),
    }
}

fn show(document: &Document) -> Result<ExitCode, Failure> {
    super::print_json(&render(&read(document)?))?;
    Ok(ExitCode::SUCCESS)
}

/// Prints one document of a command.
pub(super) fn print_json(document: &impl serde::Serialize) -> Result<ExitCode, Failure> {
    let text = serde_json::to_string_pretty(document).map_err(|error| {
        Failure::new(
            FailureKind::Bug,
            format!("failed to write a result as JSON: {error}"),
        )
    })?;
    super::print_json(&format!("{text}\n"))?;
    Ok(ExitCode::SUCCESS)
}
