//! `hankweave completions`

use std::process::ExitCode;

use clap::CommandFactory;
use clap_complete::Shell;

use crate::args::Cli;
use crate::exit::Failure;
use crate::output;

pub(crate) fn completions(shell: Shell) -> Result<ExitCode, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "hankweave", &mut script);
    output::print(&*String::from_utf8_lossy(&script))?;
    Ok(ExitCode::SUCCESS)
}
