//! Commands to a live run.

use clap::{Args, ValueHint};
use hankweave_core::id::CodonId;

use super::Execution;

#[derive(Debug, Args)]
pub(crate) struct AttachArgs {
    #[command(flatten)]
    pub(crate) execution: Execution,
    /// The address that `hankweave page` prints, instead of an execution directory.
    #[arg(long, value_name = "URL", value_hint = ValueHint::Url)]
    pub(crate) url: Option<String>,
    /// Begin after this event; 0 shows everything [default: only what happens from now on].
    #[arg(long, value_name = "SEQ")]
    pub(crate) after: Option<u64>,
    /// Take commands from standard input, one a line (`help` lists them).
    #[arg(long)]
    pub(crate) control: bool,
    /// Take the whole screen: plan, transcript, files, costs and sentinels, with keys that command the run.
    #[arg(long, conflicts_with_all = ["control", "after"])]
    pub(crate) tui: bool,
}

#[derive(Debug, Args)]
pub(crate) struct PageArgs {
    #[command(flatten)]
    pub(crate) execution: Execution,
    /// With the token for watching; the default.
    #[arg(long)]
    pub(crate) read_only: bool,
    /// With the token for everything: anybody with the address can command the run.
    #[arg(long, conflicts_with = "read_only")]
    pub(crate) control: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ApproveArgs {
    /// The codon, as `hankweave status` shows it [default: the one that waits].
    pub(crate) codon: Option<CodonId>,
    #[command(flatten)]
    pub(crate) execution: Execution,
    /// It may not begin: the run ends before it, until somebody approves it after all or goes back.
    #[arg(long)]
    pub(crate) deny: bool,
    /// For the record.
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct StopArgs {
    #[command(flatten)]
    pub(crate) execution: Execution,
    /// Kill the agent instead of asking it to end.
    #[arg(long)]
    pub(crate) force: bool,
    /// For the record.
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: Option<String>,
}
