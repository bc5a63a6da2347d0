//! `hankweave report`: what a run did, for people who were not there.

mod gathered;
mod heard;
mod html;
mod markdown;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use hankweave_core::thread;
use hankweave_runtime::world::disk::{Disk as _, IoError, RealDisk, replace};
use hankweave_runtime::{ExecutionDir, ReportSource};

use gathered::Receipt;
use heard::Heard;

use crate::args::{Global, ReportArgs};
use crate::exit::{CliError, CliErrorKind};
use crate::output;
use crate::screen::print;
use crate::status::{StatusView, last_hank};

/// Longest journal that is read when a run ends, in bytes: half a second of reading.
const MOST_AT_END: u64 = 64 << 20;

/// Name of the report in `.hankweave`.
const REPORT: &str = "report.md";

/// Prints the report of a run from its record (CLI-44).
pub(crate) fn report(global: &Global, args: &ReportArgs) -> Result<ExitCode, CliError> {
    let receipt = gather(&args.execution.execution, u64::MAX)?;
    if global.json() {
        return output::print_json(&receipt);
    }
    let markdown = markdown::markdown(&receipt);
    let text = if args.html {
        html::page(&receipt.name, &markdown)
    } else {
        markdown
    };
    print(text).map_err(|error| CliError::from_error(CliErrorKind::Io, &error))?;
    Ok(ExitCode::SUCCESS)
}

/// Makes reports for the page of the runs in this directory (WIRE-47).
pub(crate) fn source(execution: &Path) -> ReportSource {
    let execution = execution.to_owned();
    ReportSource::new(move || match gather(&execution, MOST_AT_END) {
        Ok(receipt) => Ok(markdown::markdown(&receipt)),
        Err(error) => Err(error.message().to_owned()),
    })
}

/// Writes the report of a run that has ended beside its record, and returns its path. That it could not be written is no reason to fail.
pub(crate) fn write(execution: &Path) -> Option<PathBuf> {
    let path = ExecutionDir::new(execution.to_owned()).state_dir().join(REPORT);
    let written = gather(execution, MOST_AT_END).and_then(|receipt| {
        let text = markdown::markdown(&receipt);
        let written = replace(&RealDisk, &path, text.as_bytes()).map_err(IoError::at("write", &path));
        written.map_err(|error| CliError::from_error(CliErrorKind::Io, &error))
    });
    match written {
        Ok(()) => Some(path),
        Err(error) => {
            tracing::warn!(error = error.message(), "the report was not written");
            None
        }
    }
}

/// Removes the report of an earlier run, which says nothing of the one that starts.
pub(crate) fn forget(execution: &Path) {
    let path = ExecutionDir::new(execution.to_owned()).state_dir().join(REPORT);
    // One that is not there says nothing either.
    let _ = RealDisk.remove_file(&path);
}

/// Gathers a report; of a journal beyond `most` bytes it says so instead of what only that knows.
fn gather(execution: &Path, most: u64) -> Result<Receipt, CliError> {
    let state = crate::state::read_execution(execution)?;
    let thread = thread::build(&state, None, None);
    let hank = last_hank(execution);
    let status = StatusView::whole(execution, &state, &thread, hank.as_ref())?;
    let is_read = crate::state::journal_bytes(execution)? <= most;
    let heard = match is_read {
        true => Heard::of(execution)?,
        false => Heard::default(),
    };
    let mut receipt = Receipt::new(execution, &status, hank.as_ref(), heard);
    if !is_read {
        let whole = status.typed.command("report");
        let remark = format!("The journal is long: {whole} also says what agents and checks said.");
        receipt.remarks.push(remark);
    }
    Ok(receipt)
}
