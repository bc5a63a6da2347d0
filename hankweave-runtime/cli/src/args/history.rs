//! Commands that go back in the history of an execution directory, or remove from it.

use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use hankweave_core::id::CodonId;

use super::Execution;
use super::values::{duration, sha_prefix};

#[derive(Debug, Args)]
#[group(id = "target", required = true, multiple = false, args = ["to", "codon", "last_success"])]
pub(crate) struct RollbackArgs {
    #[command(flatten)]
    pub(crate) execution: Execution,
    /// Go back to the checkpoint with this SHA, or the one that begins like this.
    #[arg(long, value_name = "SHA", value_parser = sha_prefix)]
    pub(crate) to: Option<String>,
    /// Go back to a checkpoint of this codon.
    #[arg(long, value_name = "ID")]
    pub(crate) codon: Option<CodonId>,
    /// Which of its checkpoints.
    #[arg(long, value_enum, value_name = "POINT", default_value_t = Point::End, conflicts_with_all = ["to", "last_success"])]
    pub(crate) at: Point,
    /// Go back to the newest codon that completed.
    #[arg(long)]
    pub(crate) last_success: bool,
    /// Only list which files would change.
    #[arg(long)]
    pub(crate) dry_run: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Point {
    /// After its rig was set up: the codon runs again.
    RigSetup,
    /// After it completed.
    Completed,
    /// After it failed.
    Error,
    /// After it was skipped.
    Skipped,
    /// Its first checkpoint.
    Start,
    /// Its last checkpoint.
    End,
}

#[derive(Debug, Args)]
pub(crate) struct UndoArgs {
    #[command(flatten)]
    pub(crate) execution: Execution,
    /// Only list which files would change.
    #[arg(long)]
    pub(crate) dry_run: bool,
}

#[derive(Debug, Args)]
pub(crate) struct CleanupArgs {
    #[command(flatten)]
    pub(crate) execution: Execution,
    /// Keep everything of this many runs, the newest ones.
    #[arg(long, value_name = "COUNT", default_value = "10", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) keep: u32,
    /// Of the others, only those that ended longer ago than this, such as 30d or 12h.
    #[arg(long, value_name = "AGE", value_parser = duration)]
    pub(crate) older_than: Option<Duration>,
    /// Only show what would be removed.
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Do not ask.
    #[arg(short, long, conflicts_with = "dry_run")]
    pub(crate) yes: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum OpCommand {
    /// List all operations, newest first, with what they cost and how many files they changed
    Log(OpLogArgs),
    /// Show one operation, and where things stood before and after it
    Show(OpShowArgs),
    /// Go to where things stood after an operation; that is an operation of its own
    Restore(OpRestoreArgs),
}

#[derive(Debug, Args)]
pub(crate) struct OpLogArgs {
    #[command(flatten)]
    pub(crate) execution: Execution,
    /// Show only this many, the newest ones.
    #[arg(short = 'n', long, value_name = "COUNT")]
    pub(crate) limit: Option<usize>,
}

#[derive(Debug, Args)]
pub(crate) struct OpShowArgs {
    /// Its id, or the beginning of it.
    #[arg(value_parser = sha_prefix)]
    pub(crate) id: String,
    #[command(flatten)]
    pub(crate) execution: Execution,
}

#[derive(Debug, Args)]
pub(crate) struct OpRestoreArgs {
    /// Its id, or the beginning of it.
    #[arg(value_parser = sha_prefix)]
    pub(crate) id: String,
    #[command(flatten)]
    pub(crate) execution: Execution,
    /// Only list which files would change.
    #[arg(long)]
    pub(crate) dry_run: bool,
}
