//! Arguments of workers, and of agents that have tasks as tools (CLI-40).

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum, ValueHint};

use super::RegistryArgs;
use super::values::{duration, lease};

#[derive(Debug, Args)]
pub(crate) struct WorkerArgs {
    #[command(flatten)]
    pub(crate) place: RegistryArgs,
    /// Number of tasks to run concurrently
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub(crate) jobs: u16,
    /// Name of this worker [default: HOST-PID]
    #[arg(long, value_name = "NAME")]
    pub(crate) owner: Option<String>,
    /// Exit when this worker can start nothing more
    ///
    /// It says what is left: failed tasks, those that wait for an approval or for other tasks, and those of other workers.
    #[arg(long)]
    pub(crate) once: bool,
    /// Lease on a task without renewal, at least 1s
    #[arg(long, help_heading = "Lost workers", value_name = "DURATION", value_parser = lease, default_value = "30s")]
    pub(crate) lease: Duration,
    /// Idle time after which a task without a worker is orphaned
    #[arg(long, help_heading = "Lost workers", value_name = "DURATION", value_parser = duration, default_value = "5m")]
    pub(crate) orphan_after: Duration,
    /// Action for orphaned tasks
    #[arg(long, help_heading = "Lost workers", value_enum, value_name = "ACTION", default_value_t = OrphanPolicy::Requeue)]
    pub(crate) orphans: OrphanPolicy,
    /// Times of task checkpoints
    #[arg(long, help_heading = "Files", value_enum, value_name = "WHEN", default_value_t = CheckpointPolicy::Risk)]
    pub(crate) checkpoints: CheckpointPolicy,
    /// Compress checkpoints that have a newer one
    #[arg(long, help_heading = "Files", hide_short_help = true)]
    pub(crate) pack_checkpoints: bool,
    /// Keep Plan.md with attempts, cost and result
    #[arg(long, help_heading = "Files", hide_short_help = true)]
    pub(crate) plan: bool,
    /// Put results on branch task/ID of this repository
    ///
    /// Review them with `git diff main...task/ID`.
    #[arg(long, help_heading = "Files", hide_short_help = true, value_name = "REPOSITORY", value_hint = ValueHint::DirPath)]
    pub(crate) branch: Option<PathBuf>,
    /// Refuse to start outside a container
    ///
    /// The workspace must be no link, and writable by no other user.
    #[arg(long, help_heading = "Machine", hide_short_help = true)]
    pub(crate) contained: bool,
    /// Warn about high memory, CPU and process use
    ///
    /// It is sampled every 5 s; warnings begin at 85, 80 and 80 %.
    #[arg(long, help_heading = "Machine", hide_short_help = true)]
    pub(crate) watch: bool,
    /// Git remote to push runs to and continue them from [env: HANKWEAVE_REMOTE]
    #[arg(long, value_name = "URL", value_hint = ValueHint::Url)]
    pub(crate) remote: Option<String>,
    /// Serve Prometheus metrics at ADDR/metrics
    #[arg(long, value_name = "ADDR")]
    pub(crate) metrics: Option<SocketAddr>,
    #[cfg(feature = "restate")]
    #[command(flatten)]
    pub(crate) restate: RestateArgs,
}

/// An engine in the place of the registry.
#[cfg(feature = "restate")]
#[derive(Debug, Args)]
pub(crate) struct RestateArgs {
    /// Restate admin address to take tasks from, as http://127.0.0.1:9070
    #[arg(long = "restate", value_name = "URL", conflicts_with_all = ["registry", "once", "orphan_after", "orphans"])]
    pub(crate) admin: Option<String>,
    /// Address of this worker for Restate
    #[arg(
        long,
        value_name = "ADDR",
        requires = "admin",
        default_value = "127.0.0.1:9080"
    )]
    pub(crate) listen: SocketAddr,
    /// Address that all workers share for Restate [default: that of --listen]
    #[arg(long, value_name = "URL", requires = "admin")]
    pub(crate) advertise: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum CheckpointPolicy {
    /// After each codon, on a timer of 30, 15, 5 or 1 minutes by risk, on silence and on stop
    Risk,
    /// After each codon and at the end
    Codons,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum OrphanPolicy {
    /// Requeue it, up to five attempts
    Requeue,
    /// Fail it
    Fail,
    /// Leave it
    Leave,
}

#[cfg(feature = "mcp")]
#[derive(Debug, Args)]
pub(crate) struct McpArgs {
    #[command(flatten)]
    pub(crate) place: RegistryArgs,
}
