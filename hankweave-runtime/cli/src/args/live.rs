//! Arguments of commands to a live run.

use std::path::{Path, PathBuf};

use clap::{Args, ValueHint};
use hankweave_core::id::CodonId;

use super::{ExecutionArgs, PartOrDir, RegistryArgs};

#[derive(Debug, Args)]
pub(crate) struct AttachArgs {
    #[command(flatten)]
    pub(crate) execution: ExecutionArgs,
    /// Address that `hankweave page` prints, instead of DIR
    #[arg(long, value_name = "URL", value_hint = ValueHint::Url)]
    pub(crate) url: Option<String>,
    /// Start after the event with this number; 0 shows all [default: new ones]
    #[arg(long, value_name = "SEQ")]
    pub(crate) after: Option<u64>,
    /// Read commands from standard input, one a line (`help` lists them)
    #[arg(long)]
    pub(crate) control: bool,
    /// Show the whole screen: plan, transcript, files, costs and sentinels
    #[arg(long, conflicts_with_all = ["control", "after"])]
    pub(crate) tui: bool,
}

#[derive(Debug, Args)]
pub(crate) struct PageArgs {
    #[command(flatten)]
    pub(crate) execution: ExecutionArgs,
    /// Print the address for watching; the default
    #[arg(long, hide = true)]
    pub(crate) read_only: bool,
    /// Print the address that can also command the run
    #[arg(long, conflicts_with = "read_only")]
    pub(crate) control: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ViewArgs {
    #[command(flatten)]
    pub(crate) execution: ExecutionArgs,
    /// Show the history up to the end of this run [default: follow the newest]
    #[arg(long, value_name = "RUN", conflicts_with = "export")]
    pub(crate) run: Option<String>,
    /// Open the page in a browser
    #[arg(long, conflicts_with = "export")]
    pub(crate) open: bool,
    /// Port of the page [default: that of the directory]
    #[arg(long, value_name = "N", conflicts_with = "export")]
    pub(crate) port: Option<u16>,
    /// Write one file instead of serving; a file of that name is replaced
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) export: Option<PathBuf>,
    /// Serve a list of all runs below this folder, with tasks and workers
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, conflicts_with_all = ["run", "export", "dir"])]
    pub(crate) root: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) place: RegistryArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ApproveArgs {
    /// Codon, as `hankweave status` shows it [default: the one that waits]
    codon: Option<PartOrDir<CodonId>>,
    #[command(flatten)]
    execution: ExecutionArgs,
    /// Deny it: the run ends before the codon
    #[arg(long)]
    pub(crate) deny: bool,
    /// Reason, for the record
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: Option<String>,
}

impl ApproveArgs {
    pub(crate) fn codon(&self) -> Option<&CodonId> {
        self.codon.as_ref()?.part()
    }

    pub(crate) fn execution(&self) -> &Path {
        self.execution.or_first(self.codon.as_ref())
    }
}

#[derive(Debug, Args)]
pub(crate) struct StopArgs {
    #[command(flatten)]
    pub(crate) execution: ExecutionArgs,
    /// Kill the agent instead of asking it to end
    #[arg(long)]
    pub(crate) force: bool,
    /// Reason, for the record
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: Option<String>,
}
