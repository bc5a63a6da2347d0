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
    List,
    /// Take a lock for some time
    ///
    /// For example: hankweave lock acquire deploy:web --owner ann --lease 10m && ./deploy; hankweave lock release deploy:web --owner ann
    Acquire(LockAcquireArgs),
    /// Renew a lock
    Renew(LockRenewArgs),
    /// Release a lock
    Release(LockReleaseArgs),
    /// Remove all locks of an owner that no longer exists
    Free {
        /// Owner, such as lifecycle:worker-7
        owner: String,
    },
    /// Remove expired locks
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
