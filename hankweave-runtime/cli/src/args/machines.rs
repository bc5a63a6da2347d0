//! What can be typed about runs that move between machines (CLI-50, CLI-51).

use std::path::PathBuf;

use clap::{Args, ValueHint};

use super::Execution;

#[derive(Debug, Args)]
pub(crate) struct PushArgs {
    #[command(flatten)]
    pub(crate) execution: Execution,
    /// The remote to push to; it is remembered [default: where it was pushed to or came from last] [env: HANKWEAVE_REMOTE].
    #[arg(long, value_name = "URL", value_hint = ValueHint::Url)]
    pub(crate) remote: Option<String>,
    /// When both sides went on: keep this history; the other one stays beside it on the remote.
    #[arg(long)]
    pub(crate) replace: bool,
}

#[derive(Debug, Args)]
pub(crate) struct PullArgs {
    #[command(flatten)]
    pub(crate) execution: Execution,
    /// When both sides went on: take the history of the remote; this one stays beside it on the remote.
    #[arg(long)]
    pub(crate) replace: bool,
}

#[derive(Debug, Args)]
pub(crate) struct CloneArgs {
    /// The remote to clone from [env: HANKWEAVE_REMOTE].
    #[arg(value_name = "URL", value_hint = ValueHint::Url)]
    pub(crate) remote: Option<String>,
    /// The directory to make; it must not exist or be empty [default: the last name in URL].
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) directory: Option<PathBuf>,
    /// Which run, by its id or the beginning of it: that of its first run, or of its task [default: the only one].
    #[arg(long, value_name = "ID")]
    pub(crate) run: Option<String>,
}
