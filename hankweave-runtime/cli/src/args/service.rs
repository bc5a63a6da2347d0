//! Arguments of `service`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueHint};

use super::ExecutionArgs;

#[derive(Debug, Subcommand)]
pub(crate) enum ServiceCommand {
    /// Install and start the service of a hank
    ///
    /// Writes a systemd unit of your user, enables it and starts it. A crash and a reboot start the run again; a failure, a pause and a mistake in the hank need
    /// you. Without systemd it says which line of a crontab does that.
    #[command(
        after_long_help = "Examples:\n  hankweave service install night --max-cost 20\n  hankweave service install --env ANTHROPIC_API_KEY night -e work"
    )]
    Install(ServiceInstallArgs),
    /// Stop and remove the service of a directory; the record stays
    #[command(
        after_long_help = "Examples:\n  hankweave service uninstall night\n  hankweave service uninstall -e work"
    )]
    Uninstall(ExecutionArgs),
    /// List the services with their state
    #[command(after_long_help = "Examples:\n  hankweave service status\n  hankweave service status --json")]
    Status,
}

#[derive(Debug, Args)]
pub(crate) struct ServiceInstallArgs {
    /// Variable to copy into the private file of the service; repeatable
    #[arg(long, value_name = "NAME", value_parser = variable_name)]
    pub(crate) env: Vec<String>,
    /// Hank, or the folder that holds it
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) dir: PathBuf,
    /// Options of `hankweave run`, after DIR
    #[arg(
        value_name = "RUN_OPTIONS",
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    pub(crate) options: Vec<String>,
}

fn variable_name(text: &str) -> Result<String, String> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let is_name = !text.is_empty() && !text.as_bytes()[0].is_ascii_digit() && text.bytes().all(fits);
    match is_name {
        true => Ok(text.to_owned()),
        false => Err("the name of a variable".to_owned()),
    }
}
