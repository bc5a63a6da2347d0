//! Arguments of commands that roll back, list operations or delete old runs.

use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use hankweave_core::id::CodonId;

use super::ExecutionArgs;
use super::values::{duration, sha_prefix};

#[derive(Debug, Args)]
#[group(id = "target", required = true, multiple = false, args = ["to", "codon", "last_success"])]
pub(crate) struct RollbackArgs {
    #[command(flatten)]
    pub(crate) execution: ExecutionArgs,
    /// Return to the checkpoint with this SHA, or start of one
    #[arg(long, value_name = "SHA", value_parser = sha_prefix)]
    pub(crate) to: Option<String>,
    /// Return to a checkpoint of this codon
    #[arg(long, value_name = "ID")]
    pub(crate) codon: Option<CodonId>,
    /// Checkpoint of the codon
    #[arg(long, value_enum, value_name = "POINT", default_value_t = RollbackPointArg::End, conflicts_with_all = ["to", "last_success"])]
    pub(crate) at: RollbackPointArg,
    /// Return to the newest completed codon, or else to the newest checkpoint
    ///
    /// Where no codon has completed, it is the newest checkpoint of all.
    #[arg(long)]
    pub(crate) last_success: bool,
    /// List the files that would change; change none
    ///
    /// A run that has crashed is recorded as such first, and what it left at work is ended.
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Do not ask
    #[arg(short, long, conflicts_with = "dry_run")]
    pub(crate) yes: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum RollbackPointArg {
    /// After its rig was set up: the codon runs again.
    RigSetup,
    /// After it completed.
    Completed,
    /// After it failed, was stopped or paused.
    #[value(aliases = ["stopped", "paused", "failed"])]
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
    pub(crate) execution: ExecutionArgs,
    /// List the files that would change; change none
    ///
    /// A run that has crashed is recorded as such first, and what it left at work is ended.
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Do not ask
    #[arg(short, long, conflicts_with = "dry_run")]
    pub(crate) yes: bool,
}

#[derive(Debug, Args)]
pub(crate) struct CleanupArgs {
    #[command(flatten)]
    pub(crate) execution: ExecutionArgs,
    /// Number of newest runs to keep
    #[arg(long, value_name = "N", default_value = "10", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) keep: u32,
    /// Delete only runs that ended longer ago, such as 30d or 12h
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub(crate) older_than: Option<Duration>,
    /// Show what would be deleted; delete nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Do not ask
    #[arg(short, long, conflicts_with = "dry_run")]
    pub(crate) yes: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum OpCommand {
    /// List operations, newest first, with their cost and number of files
    #[command(
        alias = "list",
        after_long_help = "Examples:\n  hankweave op log my-hank\n  hankweave op log my-hank --limit 5"
    )]
    Log(OpLogArgs),
    /// Show an operation, with the state before and after it
    #[command(
        after_long_help = "Examples:\n  hankweave op show 1f3a9c07b2e4\n  hankweave op show 1f3a9c07b2e4 my-hank"
    )]
    Show(OpShowArgs),
    /// Return to the state after an operation; this is an operation too
    #[command(
        after_long_help = "Examples:\n  hankweave op restore 1f3a9c07b2e4 --dry-run\n  hankweave op restore 1f3a9c07b2e4 my-hank"
    )]
    Restore(OpRestoreArgs),
}

#[derive(Debug, Args)]
pub(crate) struct OpLogArgs {
    #[command(flatten)]
    pub(crate) execution: ExecutionArgs,
    /// Number of newest operations to show
    #[arg(short = 'n', long, value_name = "N")]
    pub(crate) limit: Option<usize>,
}

#[derive(Debug, Args)]
pub(crate) struct OpShowArgs {
    /// Id of the operation, or start of it
    #[arg(value_parser = sha_prefix)]
    pub(crate) id: String,
    #[command(flatten)]
    pub(crate) execution: ExecutionArgs,
}

#[derive(Debug, Args)]
pub(crate) struct OpRestoreArgs {
    /// Id of the operation, or start of it
    #[arg(value_parser = sha_prefix)]
    pub(crate) id: String,
    #[command(flatten)]
    pub(crate) execution: ExecutionArgs,
    /// List the files that would change; change none
    ///
    /// A run that has crashed is recorded as such first, and what it left at work is ended.
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Do not ask
    #[arg(short, long, conflicts_with = "dry_run")]
    pub(crate) yes: bool,
}
