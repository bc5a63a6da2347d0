//! Arguments of commands about locks (CLI-40).

use std::time::Duration;

use clap::{Args, Subcommand};

use super::RegistryArgs;
use super::values::lease;

#[derive(Debug, Args)]
pub(crate) struct LockArgs {
    #[command(flatten)]
    pub(crate) place: RegistryArgs,
    #[command(subcommand)]
    pub(crate) command: LockCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum LockCommand {
    /// List locks and their owners
    #[command(after_long_help = "Examples:\n  hankweave lock list\n  hankweave lock list --json")]
    List,
    /// Take a lock for some time
    #[command(
        after_long_help = "Examples:\n  hankweave lock acquire deploy:web --owner ann --lease 10m && ./deploy\n  hankweave lock acquire build-cache --owner ann --collaborative"
    )]
    Acquire(LockAcquireArgs),
    /// Renew a lock
    #[command(
        after_long_help = "Examples:\n  hankweave lock renew deploy:web --token 7\n  hankweave lock renew deploy:web --token 7 --lease 10m"
    )]
    Renew(LockRenewArgs),
    /// Release a lock
    #[command(
        after_long_help = "Examples:\n  hankweave lock release deploy:web --owner ann\n  hankweave lock release deploy:web --owner ann --scope deploy"
    )]
    Release(LockReleaseArgs),
    /// Remove all locks of an owner that no longer exists
    #[command(
        after_long_help = "Examples:\n  hankweave lock free lifecycle:worker-7\n  hankweave lock free ann --json"
    )]
    Free {
        /// Owner, such as lifecycle:worker-7
        owner: String,
    },
    /// Remove expired locks
    #[command(after_long_help = "Examples:\n  hankweave lock cleanup\n  hankweave lock cleanup --json")]
    Cleanup,
}

#[derive(Debug, Args)]
pub(crate) struct LockHolder {
    /// Resource of the lock
    pub(crate) resource: String,
    /// Owner of the lock
    #[arg(long, value_name = "NAME")]
    pub(crate) owner: String,
    /// Scope, which tells several holders of one owner apart
    #[arg(long, value_name = "NAME", default_value = "hand")]
    pub(crate) scope: String,
}

#[derive(Debug, Args)]
pub(crate) struct LockAcquireArgs {
    #[command(flatten)]
    pub(crate) holder: LockHolder,
    /// Lease of the lock
    #[arg(long, value_name = "DURATION", value_parser = lease, default_value = "30s")]
    pub(crate) lease: Duration,
    /// Share it with others who share it too; then wait for it
    #[arg(long)]
    pub(crate) collaborative: bool,
    /// Number of attempts at a shared lock
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub(crate) tries: u32,
}

#[derive(Debug, Args)]
pub(crate) struct LockRenewArgs {
    /// Resource of the lock
    pub(crate) resource: String,
    /// Token that `acquire` printed
    #[arg(long, value_name = "N")]
    pub(crate) token: u64,
    /// Lease from now on
    #[arg(long, value_name = "DURATION", value_parser = lease, default_value = "30s")]
    pub(crate) lease: Duration,
}

#[derive(Debug, Args)]
pub(crate) struct LockReleaseArgs {
    #[command(flatten)]
    pub(crate) holder: LockHolder,
}
