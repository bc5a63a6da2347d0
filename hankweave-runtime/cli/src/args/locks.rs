//! What can be typed about locks (CLI-40).

use std::time::Duration;

use clap::{Args, Subcommand};

use super::Place;
use super::values::lease;

#[derive(Debug, Args)]
pub(crate) struct LockArgs {
    #[command(flatten)]
    pub(crate) place: Place,
    #[command(subcommand)]
    pub(crate) command: LockCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum LockCommand {
    /// List who holds what
    List,
    /// Take a lock, for a time
    ///
    /// For example: hankweave lock acquire deploy:web --owner ann --lease 10m && ./deploy; hankweave lock release deploy:web --owner ann
    Acquire(LockAcquireArgs),
    /// Hold a lock for longer
    Renew(LockRenewArgs),
    /// Give a lock back
    Release(LockReleaseArgs),
    /// Remove all locks of an owner that is gone for good
    Free {
        /// The owner, such as lifecycle:worker-7.
        owner: String,
    },
    /// Remove expired locks
    Cleanup,
}

#[derive(Debug, Args)]
pub(crate) struct LockHolder {
    /// What the lock is on.
    pub(crate) resource: String,
    /// On whose behalf.
    #[arg(long, value_name = "NAME")]
    pub(crate) owner: String,
    /// Tells several holders of one owner apart.
    #[arg(long, value_name = "NAME", default_value = "hand")]
    pub(crate) scope: String,
}

#[derive(Debug, Args)]
pub(crate) struct LockAcquireArgs {
    #[command(flatten)]
    pub(crate) holder: LockHolder,
    /// How long it is held.
    #[arg(long, value_name = "TIME", value_parser = lease, default_value = "30s")]
    pub(crate) lease: Duration,
    /// Share it with others who share it too; then it is waited for.
    #[arg(long)]
    pub(crate) collaborative: bool,
    /// How often a shared one is tried.
    #[arg(long, value_name = "NUMBER", default_value_t = 3)]
    pub(crate) tries: u32,
}

#[derive(Debug, Args)]
pub(crate) struct LockRenewArgs {
    /// What the lock is on.
    pub(crate) resource: String,
    /// Its token, which `acquire` has printed.
    #[arg(long, value_name = "NUMBER")]
    pub(crate) token: u64,
    /// How long from now on.
    #[arg(long, value_name = "TIME", value_parser = lease, default_value = "30s")]
    pub(crate) lease: Duration,
}

#[derive(Debug, Args)]
pub(crate) struct LockReleaseArgs {
    #[command(flatten)]
    pub(crate) holder: LockHolder,
}
