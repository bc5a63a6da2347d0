//! Arguments of commands that move runs between machines (CLI-50, CLI-51).

use std::path::PathBuf;

use clap::{Args, ValueHint};

use super::ExecutionArgs;
use super::values::size;

#[derive(Debug, Args)]
pub(crate) struct PushArgs {
    #[command(flatten)]
    pub(crate) execution: ExecutionArgs,
    /// Remote to push to, remembered [default: the last one] [env: HANKWEAVE_REMOTE]
    #[arg(long, value_name = "URL", value_hint = ValueHint::Url)]
    pub(crate) remote: Option<String>,
    /// Keep this history when both sides continued
    ///
    /// The other one stays on the remote.
    #[arg(long)]
    pub(crate) replace: bool,
}

#[derive(Debug, Args)]
pub(crate) struct PullArgs {
    #[command(flatten)]
    pub(crate) execution: ExecutionArgs,
    /// Take the history of the remote when both sides continued
    ///
    /// This one is kept on the remote.
    #[arg(long)]
    pub(crate) replace: bool,
    #[command(flatten)]
    pub(crate) limits: ArrivalArgs,
}

/// How much may arrive.
#[derive(Debug, Args)]
pub(crate) struct ArrivalArgs {
    /// Size limit of the unpacked record [default: 2GiB] [env: HANKWEAVE_MAX_SIZE]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub(crate) max_size: Option<u64>,
}

#[derive(Debug, Args)]
pub(crate) struct CloneArgs {
    /// Remote to clone from [env: HANKWEAVE_REMOTE]
    #[arg(value_name = "URL", value_hint = ValueHint::Url)]
    pub(crate) remote: Option<String>,
    /// New or empty directory [default: the last name in URL]
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) directory: Option<PathBuf>,
    /// Run to clone, as the id of its first run or of its task
    ///
    /// The start or end of the id is enough.
    #[arg(long, value_name = "ID")]
    pub(crate) run: Option<String>,
    #[command(flatten)]
    pub(crate) limits: ArrivalArgs,
}
