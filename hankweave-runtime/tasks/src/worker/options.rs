//! Options of a worker.

use std::path::PathBuf;
use std::time::Duration;

use super::resources::ResourceWatch;
use crate::lifecycle::Lifecycle;

/// Action for a task without a worker (TASK-56).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OrphanPolicyConfig {
    /// Requeue it, or fail it after too many attempts.
    Requeue {
        /// Number of attempts in a row that lose their workers, after which the task fails.
        tries: u32,
    },
    /// Fail it; a user must resume it.
    Fail,
    /// Leave it as it is.
    Leave,
}

/// Default number of attempts in a row that lose their workers, after which a task fails (TASK-56).
pub const USUAL_TRIES: u32 = 5;

/// Options of a worker.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct WorkerOptions {
    /// Name of the worker.
    pub name: String,
    /// Number of tasks to run concurrently, at least one.
    pub jobs: usize,
    /// Length of the lease without a renewal; at least a few times the answer time of the registry.
    pub lease: Duration,
    /// Whether the worker ends when there is nothing left to do.
    pub once: bool,
    /// Time for which a task without its worker stays unchanged before it is an orphan.
    pub orphan_after: Duration,
    /// Action for orphaned tasks.
    pub orphans: OrphanPolicyConfig,
    /// Program that runs a hank: `hankweave` itself.
    pub program: PathBuf,
    /// Registry of its tasks, for commands that users type in the workspaces; `None` if it must not be stored with a task.
    pub registry: Option<String>,
    /// Git remote to which runs are pushed, and from which runs of other machines are fetched, if there is one.
    pub remote: Option<String>,
    /// Time for a run to stop in order before it is killed.
    pub grace: Duration,
    /// Whether to make checkpoints when much unsaved work is at stake, and not only after codons.
    pub checkpoints_by_risk: bool,
    /// Whether to pack checkpoints once there is a newer one.
    pub packs_checkpoints: bool,
    /// Whether to keep Plan.md next to the state of each task.
    pub keeps_plans: bool,
    /// Git repository in which each task has a branch, if there is one; an absolute path.
    pub branch: Option<PathBuf>,
    /// Whether tasks start only in a container, in a workspace that no other user can write to.
    pub requires_container: bool,
    /// Monitoring of the runs' resource usage, if wanted.
    pub watch: Option<ResourceWatch>,
    /// Interval of checks for work when no hint arrives.
    pub look: Duration,
}

impl WorkerOptions {
    /// Registers the requested hooks.
    pub(super) fn register(&self, lifecycle: &Lifecycle) {
        lifecycle.register_builtin();
        lifecycle.register_plan(self.keeps_plans);
        if let Some(repository) = &self.branch {
            lifecycle.register_branch(repository);
        }
        if self.requires_container {
            lifecycle.register_contained();
        }
    }

    /// Returns the defaults: one task at a time, a lease of 30 s, orphans after five minutes with [`USUAL_TRIES`] attempts, checkpoints also when
    /// much is at stake, none of them packed, and only the hooks of every worker.
    #[must_use]
    pub fn new(name: impl Into<String>, program: impl Into<PathBuf>) -> Self {
        Self {
            name: name.into(),
            jobs: 1,
            lease: Duration::from_secs(30),
            once: false,
            orphan_after: Duration::from_secs(5 * 60),
            orphans: OrphanPolicyConfig::Requeue { tries: USUAL_TRIES },
            program: program.into(),
            registry: None,
            remote: None,
            grace: Duration::from_secs(15),
            checkpoints_by_risk: true,
            packs_checkpoints: false,
            keeps_plans: false,
            branch: None,
            requires_container: false,
            watch: None,
            look: Duration::from_secs(1),
        }
    }
}
