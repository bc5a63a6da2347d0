//! Hooks of the lifecycle: those that every worker has (TASK-70), and optional ones.

mod branch;
mod contained;
mod plan;

pub use contained::is_contained;

use std::collections::BTreeSet;

use hankweave_core::id::TaskId;
use hankweave_runtime::error::chain;
use hankweave_task_model::registry::TaskRow;
use hankweave_task_model::{DEFAULT_PRIORITY, HookPoint, HookPolicy};

use super::{HookCall, HookRun, Lifecycle};
use crate::layers::{LayerError, TaskFiles, TaskLayers};

/// Priority of the first hooks.
const FIRST: i64 = -100;

/// Priority of the check of the files: after the collection of decisions, before the final checkpoint and the commit to a task's branch.
const VALIDATION: i64 = 0;

impl Lifecycle {
    /// Registers the hooks of every worker. Every call is logged. Before a task ends, its agents' decisions are collected. A task completes only if
    /// its files are consistent, and gets a final checkpoint.
    pub fn register_builtin(&self) {
        for point in HookPoint::ALL {
            self.register(point, FIRST, HookPolicy::Continue, HookRun::new(log));
        }
        for point in [
            HookPoint::BeforeComplete,
            HookPoint::BeforeFail,
            HookPoint::BeforeCancel,
        ] {
            // A hook does not know which codon made a decision, so decisions without an agent get a general name.
            let take_over = self.with_files(|files| files.take_over_decisions("agent").map(drop));
            self.register(point, FIRST, HookPolicy::Continue, take_over);
        }
        let before = HookPoint::BeforeComplete;
        self.register(before, VALIDATION, HookPolicy::Veto, self.with_files(validate));
        let checkpoint = self.with_files(|files| files.ensure_checkpoint("before completion"));
        self.register(before, DEFAULT_PRIORITY, HookPolicy::Continue, checkpoint);
    }

    /// Returns a hook that calls `act` with the files of the task.
    fn with_files(
        &self,
        act: impl Fn(&TaskFiles) -> Result<(), LayerError> + Send + Sync + Copy + 'static,
    ) -> HookRun {
        let layers = self.shared.layers.clone();
        HookRun::new(move |call| act_on(layers.clone(), call.task, act))
    }
}

impl Lifecycle {
    /// Returns a hook that gets the task's row from the registry. It does nothing for a task that no longer exists.
    fn on_task<F>(&self, act: impl Fn(TaskLayers, TaskRow) -> F + Clone + Send + Sync + 'static) -> HookRun
    where
        F: Future<Output = Result<(), String>> + Send + 'static,
    {
        let (coordinator, layers) = (self.shared.coordinator.clone(), self.shared.layers.clone());
        HookRun::new(move |call| {
            let (coordinator, layers, act) = (coordinator.clone(), layers.clone(), act.clone());
            async move {
                let row = coordinator.task(call.task).await;
                match row.map_err(|error| chain(&error))? {
                    Some(row) => act(layers, row).await,
                    None => Ok(()),
                }
            }
        })
    }
}

async fn act_on(
    layers: TaskLayers,
    id: TaskId,
    act: impl Fn(&TaskFiles) -> Result<(), LayerError> + Send + Sync + 'static,
) -> Result<(), String> {
    let result = layers.task(id).run(act).await;
    result.map_err(|error| chain(&error))
}

async fn log(call: HookCall) -> Result<(), String> {
    tracing::debug!(point = call.point.name(), taskId = %call.task, "Hook");
    Ok(())
}

/// Checks that the state is readable, and that the log has the registry's lines without a gap.
fn validate(files: &TaskFiles) -> Result<(), LayerError> {
    files.load_state()?;
    let seqs: BTreeSet<u64> = files.log_seqs()?;
    match seqs.iter().zip(1..).find(|(seq, expected)| **seq != *expected) {
        Some((_, missing)) => Err(LayerError::Task(
            hankweave_task_model::TaskError::StateLoadFailed(format!(
                "line {missing} of the registry is not in the log"
            )),
        )),
        None => Ok(()),
    }
}
