//! What can be typed about runs that move between machines (CLI-50, CLI-51).

use std::path::PathBuf;

use clap::{Args, ValueHint};

use super::Execution;

#[derive(Debug, Args)]
pub(crate) struct PushArgs {
    #[command(flatten)]
    pub(crate) execution: Execution,
    /// Where to; it is remembered [default: where it was pushed to or came from last] [env: HANKWEAVE_REMOTE].
    #[arg(long, value_name = "URL", value_hint = ValueHint::Url)]
    pub(crate) remote: Option<String>,
    /// When both sides went on: take this one; the other stays on the remote beside it.
    #[arg(long)]
    pub(crate) replace: bool,
}

#[derive(Debug, Args)]
pub(crate) struct PullArgs {
    #[command(flatten)]
    pub(crate) execution: Execution,
    /// When both sides went on: take that of the remote; this one stays on the remote beside it.
    #[arg(long)]
    pub(crate) replace: bool,
}

#[derive(Debug, Args)]
pub(crate) struct CloneArgs {
    /// Where from [env: HANKWEAVE_REMOTE].
    #[arg(value_name = "URL", value_hint = ValueHint::Url)]
    pub(crate) remote: Option<String>,
    /// The directory that is made; it must not exist or be empty [default: the last name in URL].
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) directory: Option<PathBuf>,
    /// Which run, by its id or the beginning of it: that of its first run, or of its task [default: the only one].
    #[arg(long, value_name = "ID")]
    pub(crate) run: Option<String>,
}
