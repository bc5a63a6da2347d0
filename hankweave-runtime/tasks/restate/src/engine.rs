//! Common parts of one worker's executions.

use std::fmt;
use std::sync::Arc;

use hankweave_runtime::Shutdown;
use hankweave_runtime::world::World;
use hankweave_task_model::registry::TaskRow;
use hankweave_tasks::layers::TaskLayers;
use hankweave_tasks::worker::{OrphanPolicyConfig, WorkerMetrics, WorkerOptions};
use tokio::sync::Semaphore;

/// A worker beneath Restate: what all its executions have in common.
pub struct RestateEngine {
    pub(crate) layers: TaskLayers,
    pub(crate) world: World,
    pub(crate) options: WorkerOptions,
    pub(crate) told: Arc<dyn Fn(&TaskRow) + Send + Sync>,
    pub(crate) figures: WorkerMetrics,
    pub(crate) shutdown: Shutdown,
    /// One for each task that may run at once.
    pub(crate) room: Arc<Semaphore>,
}

impl fmt::Debug for RestateEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine")
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

impl RestateEngine {
    /// A worker whose files are under the root of `layers`. `told` hears of each step of a task and must not take long. What becomes of orphans is Restate's matter, so what
    /// `options` say of them does not count.
    #[must_use]
    pub fn new(
        layers: TaskLayers,
        world: World,
        mut options: WorkerOptions,
        told: impl Fn(&TaskRow) + Send + Sync + 'static,
    ) -> Self {
        let room = Arc::new(Semaphore::new(options.jobs));
        options.jobs = 1;
        options.once = true;
        options.orphans = OrphanPolicyConfig::Leave;
        Self {
            layers,
            world,
            options,
            told: Arc::new(told),
            figures: WorkerMetrics::default(),
            shutdown: Shutdown::new(),
            room,
        }
    }

    /// Returns the figures of all its executions.
    #[must_use]
    pub fn figures(&self) -> WorkerMetrics {
        self.figures.clone()
    }
}
