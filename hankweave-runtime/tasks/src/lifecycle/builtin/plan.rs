//! Hooks that keep Plan.md (TASK-108).

use hankweave_runtime::error::chain;
use hankweave_task_model::{DEFAULT_PRIORITY, HookPoint, HookPolicy};

use super::Lifecycle;

/// Moments of the hooks: before the start, so that the agent can read the page, and after each step.
const POINTS: [HookPoint; 5] = [
    HookPoint::BeforeStart,
    HookPoint::AfterStart,
    HookPoint::AfterComplete,
    HookPoint::AfterFail,
    HookPoint::AfterCancel,
];

impl Lifecycle {
    /// Registers hooks that keep `Plan.md` in the folder of each task: its description, attempts and outcome. Without `makes`, only existing pages
    /// are updated, so that a page stays true whichever worker has the task.
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
