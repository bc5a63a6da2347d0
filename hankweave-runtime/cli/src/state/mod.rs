//! `hankweave state` and what other commands read of the recorded state.

mod apply;
mod cost;
mod history;
mod journal;
mod look;
mod validate;

use std::process::ExitCode;

use hankweave_core::document::render;

use crate::args::{Document, Global, StateCommand};
use crate::terminal::exit::CliError;
use crate::terminal::output;

pub(crate) use cost::cost;
pub(crate) use history::history;
pub(super) use look::{
    background, budget_summary, description, history_command, is_idle, is_shortened, journal_bytes,
    known_checkpoints, last_hank, named_run, newest_check, newest_message, process_of, question, read,
    read_execution, record_warnings,
};

pub(super) fn state(global: &Global, command: &StateCommand) -> Result<ExitCode, CliError> {
    match command {
        StateCommand::Show(document) => show(document),
        StateCommand::Validate(args) => validate::validate(global, args),
        StateCommand::Apply(args) => apply::apply(global, args),
        StateCommand::Cost(args) => cost(global, args),
        StateCommand::History(document) => history(global, document),
    }
}

fn show(document: &Document) -> Result<ExitCode, CliError> {
    output::print_json_text(&render(&read(document)?))?;
    Ok(ExitCode::SUCCESS)
}
