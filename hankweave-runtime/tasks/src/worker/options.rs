//! How a worker works.

use std::path::PathBuf;
use std::time::Duration;

use super::resources::ResourceWatch;
use crate::lifecycle::Lifecycle;

/// Action for a task without a worker (TASK-56).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OrphanPolicyConfig {
    /// It waits for a worker again, unless it was tried so often already; then it fails.
    Requeue {
        /// The most tries of one task.
        tries: u32,
    },
    /// It fails, and somebody has to resume it.
    Fail,
    /// It stays as it is.
    Leave,
}

/// The attempts of a task whose workers are gone, the first included, when nobody says otherwise (TASK-56).
pub const USUAL_TRIES: u32 = 5;

/// How a worker works.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct WorkerOptions {
    /// Name of the worker.
    pub name: String,
    /// Number of tasks to run concurrently, at least one.
    pub jobs: usize,
    /// How long a task is its own without a renewal, at least a few times what the registry takes to answer.
    pub lease: Duration,
    /// Whether it ends when nothing is left to do.
    pub once: bool,
    /// How long a task of a worker that has ended stays unchanged before it is an orphan.
    pub orphan_after: Duration,
    /// Action for orphaned tasks.
    pub orphans: OrphanPolicyConfig,
    /// The program that runs a hank: `hankweave` itself.
    pub program: PathBuf,
    /// Registry of its tasks, for commands that people type in their workspaces; `None` where it is not to be kept with a task.
    pub registry: Option<String>,
    /// The git remote to which runs are pushed and from which those of other machines are fetched, if there is one.
    pub remote: Option<String>,
    /// How long a run may take to stop in order before it is killed.
    pub grace: Duration,
    /// Whether it makes checkpoints by what is at stake as well, and not only after codons.
    pub checkpoints_by_risk: bool,
    /// Whether checkpoints are packed once there is a newer one.
    pub packs_checkpoints: bool,
    /// Whether it keeps Plan.md beside the state of each task.
    pub keeps_plans: bool,
    /// The git repository in which each task has a branch, if there is one; an absolute path.
    pub branch: Option<PathBuf>,
    /// Whether tasks start only in a container, in a workspace that nobody else can write to.
    pub requires_container: bool,
    /// How it looks after what runs use, if it does.
    pub watch: Option<ResourceWatch>,
    /// How often it looks, without a hint, whether there is something to do.
    pub look: Duration,
}

impl WorkerOptions {
    /// Registers the hooks that are asked for.
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

    /// The usual ones: one task at a time, a lease of 30 s, orphans after five minutes, which have [`USUAL_TRIES`],
    /// checkpoints by what is at stake, none of them packed, and no hooks but those that every worker has.
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
