//! Hooks that keep Plan.md (TASK-108).

use hankweave_runtime::error::chain;
use hankweave_task_model::{DEFAULT_PRIORITY, HookPoint, HookPolicy};

use super::Lifecycle;

/// Before the first start, so that whoever works on the task can read it, and after each step.
const POINTS: [HookPoint; 5] = [
    HookPoint::BeforeStart,
    HookPoint::AfterStart,
    HookPoint::AfterComplete,
    HookPoint::AfterFail,
    HookPoint::AfterCancel,
];

impl Lifecycle {
    /// Registers hooks that keep `Plan.md` in the folder of each task: what it is, how each attempt went and what has become of it. Without `makes` only of tasks that have
    /// one, so that it stays true whichever worker has the task.
    pub fn register_plan(&self, makes: bool) {
        for point in POINTS {
            let write = self.on_task(move |layers, row| async move {
                let files = layers.task_of(&row);
                let written = files.run(move |files| match makes {
                    true => files.save_plan(&row),
                    false => files.renew_plan(&row),
                });
                let written = written.await;
                written.map_err(|error| chain(&error))
            });
            self.register(point, DEFAULT_PRIORITY, HookPolicy::Continue, write);
        }
    }
}
