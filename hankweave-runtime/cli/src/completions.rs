//! `hankweave completions`

use std::process::ExitCode;

use clap::CommandFactory;
use clap_complete::Shell;

use super::args::Cli;
use super::exit::Failure;

pub(super) fn completions(shell: Shell) -> Result<ExitCode, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "hankweave", &mut script);
    super::print(&*String::from_utf8_lossy(&script))?;
    Ok(ExitCode::SUCCESS)
}
