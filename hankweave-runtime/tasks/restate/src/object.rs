//! Virtual object of a task, with the handlers that Restate calls (TASK-88, TASK-89). `run` works on the task step by step through
//! [`RestateExecution`], and records each step; the other handlers answer, cancel, await or show the task.

use std::future::Future;
use std::path::PathBuf;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use hankweave_core::id::TaskId;
use hankweave_task_model::registry::{NewTask, TaskRow};
use hankweave_task_model::task::TaskRecord;
use hankweave_tasks::lifecycle::TaskAnswer;
use hankweave_tasks::worker::TaskSpec;
use restate_sdk::endpoint::{Endpoint, ServiceOptions};
use restate_sdk::prelude::*;
use restate_sdk::service::IntoServiceDefinition;
use serde::Deserialize;
use serde_json::{Map, Value};
use tokio::sync::Mutex;

use crate::engine::RestateEngine;
use crate::execution::RestateExecution;
use crate::kept::{DurableStep, RestateTask};

/// Key under which Restate stores the task.
const KEPT: &str = "kept";

/// Signal that cancels a task.
const CANCEL: &str = "cancel";

/// Time limit of a step, which may last as long as an agent works. Restate notices a lost worker by its connection, so silence ends nothing
/// (TASK-89).
const LONGEST_STEP: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// Longest pause between Restate's attempts to reach a worker.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// Number of attempts until Restate pauses the task. Workers may be away for days, and the task must wait for them.
const TRIES: u64 = 1_000_000;

/// Argument of `run` for a new task.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct NewRun {
    hank: PathBuf,
    data: Option<PathBuf>,
    /// Further arguments of `hankweave run`.
    #[serde(default)]
    arguments: Vec<String>,
    name: Option<String>,
    description: Option<String>,
    owner: Option<String>,
    #[serde(default)]
    metadata: Map<String, Value>,
}

/// Argument of `answer`: a user's answer to the question of a waiting task.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct GivenAnswer {
    granted: bool,
    by: String,
    reason: Option<String>,
}

/// Returns the question of a waiting task and the call that answers it, for people.
fn question_in_words(codon: &str, question: &str) -> String {
    format!(
        "the task waits for an approval of {codon}: {question}; call `answer` with {{\"granted\": true, \"by\": \"NAME\"}}, then `run`"
    )
}

struct HankweaveTask(Arc<RestateEngine>);

pub(crate) fn endpoint(engine: Arc<RestateEngine>) -> Endpoint {
    let options = ServiceOptions::new()
        .inactivity_timeout(LONGEST_STEP)
        .abort_timeout(LONGEST_STEP)
        .retry_policy_initial_interval(Duration::from_millis(200))
        .retry_policy_exponentiation_factor(2.0)
        .retry_policy_max_interval(LONGEST_PAUSE)
        .retry_policy_max_attempts(TRIES)
        .retry_policy_pause_on_max_attempts();
    let service = HankweaveTask(engine).into_service_definition();
    Endpoint::builder().bind(service.options(options)).build()
}

#[restate_sdk::object]
impl HankweaveTask {
    /// Runs the hank of a new task, or continues an existing task. To continue, the argument may be null.
    #[handler]
    async fn run(&self, ctx: ObjectContext<'_>, Json(run): Json<Value>) -> HandlerResult<Json<TaskRow>> {
        let mut kept = match ctx.get::<Json<RestateTask>>(KEPT).await? {
            Some(Json(kept)) => kept,
            None => {
                let task = new_task(ctx.key(), run)?;
                let clock = self.0.world.clock.clone();
                let now = ctx.run(|| async move { Ok(Json(clock.now())) }).name("create");
                RestateTask::new(task, now.await?.into_inner())
            }
        };
        if let TaskRecord::Waiting(waiting) = &kept.task.record {
            return Err(refusal(409, &question_in_words(&waiting.codon_id, &waiting.question)).into());
        }
        ctx.invocation_id().clone_into(&mut kept.invocation);
        ctx.set(KEPT, Json(kept.clone()));
        if !matches!(kept.task.record, TaskRecord::Completed(_)) {
            kept = work(&self.0, &ctx, kept).await?;
        }
        match &kept.task.record {
            TaskRecord::Failed(failed) => Err(refusal(500, &failed.error).into()),
            TaskRecord::Cancelled(_) => Err(refusal(409, "the task was cancelled").into()),
            TaskRecord::Waiting(waiting) => {
                Err(refusal(409, &question_in_words(&waiting.codon_id, &waiting.question)).into())
            }
            _ => Ok(Json(kept.task)),
        }
    }

    /// Answers the question of a waiting task; `run` continues an approved one.
    #[handler]
    async fn answer(
        &self,
        ctx: ObjectContext<'_>,
        Json(answer): Json<GivenAnswer>,
    ) -> HandlerResult<Json<RestateTask>> {
        let mut kept = known(ctx.get(KEPT).await?, ctx.key())?;
        let clock = self.0.world.clock.clone();
        let now = ctx.run(|| async move { Ok(Json(clock.now())) }).name("answer");
        let answer = TaskAnswer {
            granted: answer.granted,
            by: answer.by,
            reason: answer.reason,
        };
        let step = kept.answer(&answer, now.await?.into_inner());
        kept.take(step.map_err(|error| refusal(409, &format!("{error} ({})", error.code())))?);
        ctx.set(KEPT, Json(kept.clone()));
        Ok(Json(kept))
    }

    /// Cancels a task: its run is stopped in order.
    #[handler]
    async fn cancel(&self, ctx: SharedObjectContext<'_>) -> HandlerResult<Json<RestateTask>> {
        let kept = known(ctx.get(KEPT).await?, ctx.key())?;
        if matches!(kept.task.record, TaskRecord::Waiting(_)) {
            let message = "no run of a waiting task can be stopped; call `answer` with {\"granted\": false, \"by\": \"NAME\"} (INVALID_TRANSITION)";
            return Err(refusal(409, message).into());
        }
        if kept.has_ended() {
            let status = kept.task.record.status();
            let message = format!("a task that is {status} cannot be cancelled (INVALID_TRANSITION)");
            return Err(refusal(409, &message).into());
        }
        let invocation = ctx.invocation_handle(kept.invocation.clone());
        invocation.signal(CANCEL).resolve(());
        Ok(Json(kept))
    }

    /// Waits until the task has ended or waits for an answer, and returns it. Restate suspends this call meanwhile.
    #[handler(inactivity_timeout = "1m")]
    async fn attach(&self, ctx: SharedObjectContext<'_>) -> HandlerResult<Json<RestateTask>> {
        let kept = known(ctx.get(KEPT).await?, ctx.key())?;
        if !kept.has_ended() {
            // Its result and its error are ignored: `show` returns the task, which has the outcome.
            let _ = ctx
                .invocation_handle(kept.invocation)
                .attach::<Json<Value>>()
                .await;
        }
        let client = ctx.object_client::<HankweaveTaskClient>(ctx.key());
        Ok(client.show().call().await?)
    }

    /// Returns the task: its row, its log and the codons that succeeded.
    #[handler]
    async fn show(&self, ctx: SharedObjectContext<'_>) -> HandlerResult<Json<RestateTask>> {
        Ok(Json(known(ctx.get(KEPT).await?, ctx.key())?))
    }
}

/// Works on the task until it has ended, and records each step before the next one. Boxed, because only then the compiler sees that the future is
/// `Send`.
fn work<'ctx>(
    engine: &'ctx Arc<RestateEngine>,
    ctx: &'ctx ObjectContext<'ctx>,
    mut kept: RestateTask,
) -> Pin<Box<dyn Future<Output = HandlerResult<RestateTask>> + Send + 'ctx>> {
    let execution = Arc::new(Mutex::new(RestateExecution::new(Arc::clone(engine), &kept)));
    Box::pin(async move {
        for number in 1_u64.. {
            // A new future for each step: one that was polled in an earlier step would miss a signal in between.
            let cancel = ctx.signal::<()>(CANCEL);
            let (execution, known) = (Arc::clone(&execution), kept.clone());
            let step =
                ctx.run(move || async move { next(&mut *execution.lock().await, &known, cancel).await });
            let Json(step) = step.name(format!("step {number}")).await?;
            let is_task = matches!(step, DurableStep::Task(..));
            kept.take(step);
            ctx.set(KEPT, Json(kept.clone()));
            if is_task && kept.has_ended() {
                break;
            }
        }
        execution.lock().await.finish(&kept).await?;
        Ok(kept)
    })
}

/// Waits for the next step, and passes on a signal to cancel the task meanwhile. If Restate cancels the invocation itself, nothing more can be recorded:
/// the run is stopped, and the error returned.
async fn next(
    execution: &mut RestateExecution,
    kept: &RestateTask,
    cancel: impl Future<Output = Result<(), TerminalError>>,
) -> HandlerResult<Json<DurableStep>> {
    let mut cancel = pin!(cancel);
    let mut has_signal = false;
    loop {
        tokio::select! {
            biased;
            signal = &mut cancel, if !has_signal => {
                has_signal = true;
                match signal {
                    Ok(()) => execution.cancel().await?,
                    Err(error) => {
                        execution.abandon().await?;
                        return Err(error.into());
                    }
                }
            }
            step = execution.next(kept) => return Ok(Json(step?)),
        }
    }
}

/// Returns the stored task, or an error if there is none.
fn known(kept: Option<Json<RestateTask>>, key: &str) -> Result<RestateTask, TerminalError> {
    let missing = || refusal(404, &format!("there is no task {key} (TASK_NOT_FOUND)"));
    kept.map(Json::into_inner).ok_or_else(missing)
}

fn new_task(key: &str, run: Value) -> Result<NewTask, TerminalError> {
    let wrong = |message: String| refusal(400, &message);
    let id = TaskId::new(key).map_err(|error| wrong(format!("{} (INVALID_TASK_ID)", error.reason)))?;
    let run: NewRun = serde_json::from_value(run).map_err(|error| {
        wrong(format!(
            "{error}; a new task is {{\"hank\": \"/absolute/path\"}}, with data, arguments, name, description, owner and metadata if need be"
        ))
    })?;
    let mut task = NewTask::new(id);
    task.name = run.name.unwrap_or(task.name);
    task.owner = run.owner.unwrap_or(task.owner);
    (task.description, task.metadata) = (run.description, run.metadata);
    let spec = TaskSpec {
        hank: run.hank,
        data: run.data,
        arguments: run.arguments,
    };
    let put = spec
        .put_into(&mut task.metadata)
        .map_err(|error| error.to_string());
    put.and_then(|()| TaskSpec::read(&task.metadata)).map_err(wrong)?;
    Ok(task)
}

/// Returns an error after which Restate does not retry; `code` is the HTTP status of the answer.
fn refusal(code: u16, message: &str) -> TerminalError {
    TerminalError::new_with_code(code, message)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    // covers: TASK-90
    #[test]
    fn a_key_that_is_a_path_is_no_task() {
        let run = || json!({"hank": "/srv/hank"});
        for key in ["../report-7", "a/b", ".", "", "/etc/passwd", "a\0b", "-x"] {
            let refused = new_task(key, run()).unwrap_err();
            assert!(
                refused.to_string().contains("INVALID_TASK_ID"),
                "{key}: {refused}"
            );
        }
        assert_eq!(new_task("report-7", run()).unwrap().id.as_str(), "report-7");
        let nobody = known(None, "../report-7").unwrap_err();
        assert!(nobody.to_string().contains("TASK_NOT_FOUND"), "{nobody}");
    }
}
