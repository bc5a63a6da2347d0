//! Registration and running of hooks: functions that run before and after the steps of tasks (TASK-17, TASK-35, TASK-97, TASK-99).

use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, PoisonError};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use hankweave_core::id::TaskId;
use hankweave_task_model::{Hook, HookId, HookPoint, HookPolicy, LONGEST_HOOK, TaskError};
use serde_json::Value;
use tokio::time::{Instant, timeout};

use super::Lifecycle;

/// Input of a hook.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct HookCall {
    /// Moment of the call.
    pub point: HookPoint,
    /// The task.
    pub task: TaskId,
    /// Agent, result or error of the step; `null` if it has none.
    pub about: Value,
}

/// Function of a hook. It returns the reason if it failed.
#[derive(Clone)]
pub struct HookRun(Arc<dyn Fn(HookCall) -> BoxFuture<'static, Result<(), String>> + Send + Sync>);

impl HookRun {
    /// Wraps a function.
    pub fn new<F>(run: impl Fn(HookCall) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<(), String>> + Send + 'static,
    {
        Self(Arc::new(move |call| run(call).boxed()))
    }
}

tokio::task_local! {
    /// Tasks whose hooks before a step are running now, each hook inside the one before: a hook may take a step of another task.
    static BEFORE_STEPS_OF: Vec<TaskId>;
}

/// Refuses a step of a task inside a hook that runs before a step of that task: it would wait for itself (TASK-97).
pub(super) fn refuse_inside_hook(task: &TaskId) -> Result<(), TaskError> {
    match before_steps_of().contains(task) {
        true => Err(TaskError::InvalidArgument(
            "a hook before a step of a task takes no other step of it",
        )),
        false => Ok(()),
    }
}

/// Returns the tasks in `BEFORE_STEPS_OF`; none outside of hooks.
fn before_steps_of() -> Vec<TaskId> {
    BEFORE_STEPS_OF.try_with(Vec::clone).unwrap_or_default()
}

impl fmt::Debug for HookRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HookRun")
    }
}

impl Lifecycle {
    /// Registers a hook, which runs from the next step on.
    pub fn register(&self, point: HookPoint, priority: i64, policy: HookPolicy, run: HookRun) -> HookId {
        let mut hooks = self.shared.hooks.lock().unwrap_or_else(PoisonError::into_inner);
        hooks.register(point, priority, policy, run)
    }

    /// Removes a hook, and returns whether it existed.
    pub fn unregister(&self, id: HookId) -> bool {
        self.shared
            .hooks
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .unregister(id)
    }

    /// Returns all hooks, in running order.
    #[must_use]
    pub fn hooks(&self) -> Vec<Hook<HookRun>> {
        let hooks = self.shared.hooks.lock().unwrap_or_else(PoisonError::into_inner);
        hooks.all().cloned().collect()
    }

    /// Runs the hooks of a moment one after another.
    pub(super) async fn run_hooks(&self, call: HookCall) -> Result<(), TaskError> {
        let hooks = self
            .shared
            .hooks
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .at(call.point);
        for hook in hooks {
            if let Err(error) = self.run_hook(&hook, &call).await
                && hook.prevents()
            {
                return Err(error);
            }
        }
        Ok(())
    }

    async fn run_hook(&self, hook: &Hook<HookRun>, call: &HookCall) -> Result<(), TaskError> {
        let began = Instant::now();
        let run = AssertUnwindSafe(async { (hook.run.0)(call.clone()).await }).catch_unwind();
        let mut tasks = before_steps_of();
        tasks.extend(call.point.is_before().then(|| call.task.clone()));
        let result = timeout(LONGEST_HOOK, BEFORE_STEPS_OF.scope(tasks, run)).await;
        let took = began.elapsed();
        self.shared.metrics.hooks.add(took);
        let id = hook.id.to_string();
        // The outer result is about the time limit, the middle one about a panic, the inner one is the hook's own.
        let error = match result {
            Ok(Ok(Ok(()))) => return Ok(()),
            Ok(Ok(Err(reason))) => TaskError::HookVeto { hook: id, reason },
            Ok(Err(_)) => TaskError::HookVeto {
                hook: id,
                reason: "it panicked".to_owned(),
            },
            Err(_) => TaskError::HookTimeout {
                hook: id,
                seconds: LONGEST_HOOK.as_secs(),
            },
        };
        self.shared.metrics.failed_hooks.add(1);
        let duration = took.as_secs_f64() * 1000.0;
        tracing::warn!(hook = %hook.id, point = call.point.name(), taskId = %call.task, duration, %error, "a hook failed");
        Err(error)
    }
}
