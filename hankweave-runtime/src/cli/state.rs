//! `hankweave state` and what other commands read of it.

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use hankweave_core::state::{HankweaveState, parse, render};

use super::args::{Execution, Global};
use super::exit::{Failure, FailureKind};
use crate::state_manager::peek;
use crate::store::StateFiles;
use crate::world::disk::RealDisk;

pub(super) fn show(_: &Global, execution: &Execution, file: Option<&Path>) -> Result<ExitCode, Failure> {
    let state = match file {
        Some(file) => read_file(file)?,
        None => read_execution(&execution.execution)?,
    };
    super::print(&render(&state))?;
    Ok(ExitCode::SUCCESS)
}

/// The document of an execution directory as a start would find it; changes nothing and needs no lock.
pub(super) fn read_execution(execution: &Path) -> Result<HankweaveState, Failure> {
    let state_dir = super::run::existing_state_dir(execution)?;
    let files = StateFiles::new(Arc::new(RealDisk), None, state_dir);
    let recovered = peek(&files).map_err(|error| Failure::from_error(FailureKind::Io, &error))?;
    Ok(recovered.state)
}

fn read_file(file: &Path) -> Result<HankweaveState, Failure> {
    let bytes = std::fs::read(file).map_err(|error| {
        Failure::new(
            FailureKind::Input,
            format!("failed to read `{}`: {error}", file.display()),
        )
    })?;
    parse(&bytes).map_err(|problems| {
        let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
        Failure::new(
            FailureKind::Input,
            format!("`{}` is no state document: {}", file.display(), lines.join("; ")),
        )
    })
}
