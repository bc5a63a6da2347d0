//! `hankweave completions` and `hankweave man`

use std::io;
use std::path::Path;
use std::process::ExitCode;

use clap::CommandFactory;
use clap_complete::Shell;

use crate::args::Cli;
use crate::exit::{Failure, FailureKind};
use crate::output;

pub(crate) fn completions(shell: Shell) -> Result<ExitCode, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "hankweave", &mut script);
    output::print(&*String::from_utf8_lossy(&script))?;
    Ok(ExitCode::SUCCESS)
}

/// Writes a page for each command, `hankweave.1`, `hankweave-run.1` and so on, into a folder that is made if it is not there.
pub(crate) fn man(folder: &Path) -> Result<ExitCode, Failure> {
    write_pages(folder).map_err(|error| {
        let message = format!("failed to write the pages to `{}`: {error}", folder.display());
        Failure::new(FailureKind::Io, message)
    })?;
    Ok(ExitCode::SUCCESS)
}

fn write_pages(folder: &Path) -> io::Result<()> {
    std::fs::create_dir_all(folder)?;
    clap_mangen::generate_to(Cli::command(), folder)
}
