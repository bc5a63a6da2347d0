//! Worker for Restate: the options, files and metrics that all its executions share.

use std::fmt;
use std::sync::Arc;

use hankweave_runtime::Shutdown;
use hankweave_runtime::world::World;
use hankweave_task_model::registry::TaskRow;
use hankweave_tasks::layers::TaskLayers;
use hankweave_tasks::worker::{OrphanPolicyConfig, WorkerMetrics, WorkerOptions};
use tokio::sync::Semaphore;

/// Worker for Restate, made once by the program. [`serve`](crate::serve) runs executions with it.
pub struct RestateEngine {
    pub(crate) layers: TaskLayers,
    pub(crate) world: World,
    /// Options of the inner worker of each execution, which works on one task, once.
    pub(crate) options: WorkerOptions,
    /// Called with each step of a task.
    pub(crate) step_reporter: Arc<dyn Fn(&TaskRow) + Send + Sync>,
    /// Metrics of all executions.
    pub(crate) figures: WorkerMetrics,
    pub(crate) shutdown: Shutdown,
    /// One permit for each task that may run at once.
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
    /// Creates a worker whose files are under the root of `layers`. `step_reporter` is called with each step of a task and must return quickly.
    /// Restate takes care of orphaned tasks, so `options.orphans` is ignored.
    #[must_use]
    pub fn new(
        layers: TaskLayers,
        world: World,
        mut options: WorkerOptions,
        step_reporter: impl Fn(&TaskRow) + Send + Sync + 'static,
    ) -> Self {
        let room = Arc::new(Semaphore::new(options.jobs));
        options.jobs = 1;
        options.once = true;
        options.orphans = OrphanPolicyConfig::Leave;
        Self {
            layers,
            world,
            options,
            step_reporter: Arc::new(step_reporter),
            figures: WorkerMetrics::default(),
            shutdown: Shutdown::new(),
            room,
        }
    }

    /// Returns the metrics of all its executions.
    #[must_use]
    pub fn figures(&self) -> WorkerMetrics {
        self.figures.clone()
    }
}
