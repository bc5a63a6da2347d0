//! Whoever works on tasks: workers, and agents that have tasks as tools (CLI-40).

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum, ValueHint};

use super::Place;
use super::values::{duration, lease};

#[derive(Debug, Args)]
pub(crate) struct WorkerArgs {
    #[command(flatten)]
    pub(crate) place: Place,
    /// So many tasks at once.
    #[arg(long, value_name = "NUMBER", default_value = "1", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub(crate) jobs: u16,
    /// What it calls itself [default: the name of this machine and the number of its process].
    #[arg(long, value_name = "NAME")]
    pub(crate) owner: Option<String>,
    /// End when no task waits any more.
    #[arg(long)]
    pub(crate) once: bool,
    /// How long a task stays its own when it is not heard of, at least 1s.
    #[arg(long, value_name = "TIME", value_parser = lease, default_value = "30s")]
    pub(crate) lease: Duration,
    /// How long a task of a worker that is gone stays unchanged before others care for it.
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "5m")]
    pub(crate) orphan_after: Duration,
    /// What becomes of such a task.
    #[arg(long, value_enum, value_name = "WHAT", default_value_t = OrphanPolicy::Requeue)]
    pub(crate) orphans: OrphanPolicy,
    /// When a task gets a checkpoint.
    #[arg(long, value_enum, value_name = "WHEN", default_value_t = CheckpointPolicy::Risk)]
    pub(crate) checkpoints: CheckpointPolicy,
    /// Pack checkpoints (gzip) once there is a newer one.
    #[arg(long)]
    pub(crate) pack_checkpoints: bool,
    /// Keep Plan.md beside state.json: what each task is, how each attempt went, what it cost and what came of it.
    #[arg(long)]
    pub(crate) plan: bool,
    /// Give each task the branch `task/ID` in this git repository, on which what it made can be reviewed: `git diff main...task/ID`.
    #[arg(long, value_name = "REPOSITORY", value_hint = ValueHint::DirPath)]
    pub(crate) branch: Option<PathBuf>,
    /// Start tasks only in a container, and in a workspace that is no link and that nobody else can write to.
    #[arg(long)]
    pub(crate) contained: bool,
    /// Look every 5 s at the memory, the processors and the processes that a run uses, and warn from 85, 80 and 80 % on.
    #[arg(long)]
    pub(crate) watch: bool,
    /// Push runs to this git remote behind each checkpoint, and go on with those that other machines have pushed there [env: HANKWEAVE_REMOTE].
    #[arg(long, value_name = "URL", value_hint = ValueHint::Url)]
    pub(crate) remote: Option<String>,
    /// Answer Prometheus at this address under /metrics, such as 127.0.0.1:9464.
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
    /// Take tasks from Restate, whose admin interface is here, such as http://127.0.0.1:9070.
    #[arg(long = "restate", value_name = "URL", conflicts_with_all = ["registry", "once", "orphan_after", "orphans"])]
    pub(crate) admin: Option<String>,
    /// Where Restate reaches this worker.
    #[arg(
        long,
        value_name = "ADDR",
        requires = "admin",
        default_value = "127.0.0.1:9080"
    )]
    pub(crate) listen: SocketAddr,
    /// The address that all workers share for Restate, such as that of a load balancer [default: that of --listen].
    #[arg(long, value_name = "URL", requires = "admin")]
    pub(crate) advertise: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum CheckpointPolicy {
    /// Behind each codon, and every 30, 15, 5 or 1 minutes by what is at stake; when a run falls silent or is stopped as well.
    Risk,
    /// Only behind each codon and at the end.
    Codons,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum OrphanPolicy {
    /// It waits for a worker again, up to five tries.
    Requeue,
    /// It fails.
    Fail,
    /// It stays as it is.
    Leave,
}

#[cfg(feature = "mcp")]
#[derive(Debug, Args)]
pub(crate) struct McpArgs {
    #[command(flatten)]
    pub(crate) place: Place,
}
