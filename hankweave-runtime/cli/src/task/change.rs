//! `hankweave task cancel`, `approve`, `deny`, `resume`, `complete`, `detach` and `delete`

use std::io::IsTerminal;
use std::path::Path;
use std::process::ExitCode;

use hankweave_core::id::{AgentId, TaskId};
use hankweave_core::machine::Extra;
use hankweave_runtime::world::disk::{Disk as _, RealDisk};
use hankweave_task_model::registry::{Patch, TaskPatch, TaskRow};
use hankweave_task_model::task::{TaskResult, TaskStatus};
use hankweave_task_model::{CheckpointId, TaskError};
use hankweave_tasks::coordinator::UpdateTask;
use hankweave_tasks::lifecycle::{TaskAnswer, TaskStep};
use hankweave_tasks::worker::TaskSpec;

use super::create::print_hint;
use super::show::{held_until, line, needed_budget, resume_command};
use crate::args::{
    Global, TaskAnswerArgs, TaskCompleteArgs, TaskDeleteArgs, TaskDetachArgs, TaskResumeArgs, settings_of_run,
};
use crate::exit::{CliError, CliErrorKind};
use crate::keyboard::forget_typed;
use crate::output;
use crate::registry::Registry;
use crate::screen::{ask, one_line, print_stderr};
use crate::validate::ceiling;

fn print_row(global: &Global, row: &TaskRow) -> Result<ExitCode, CliError> {
    if global.json() {
        return output::print_json(row);
    }
    output::print(line(row))?;
    Ok(ExitCode::SUCCESS)
}

/// Cancels a task, or asks its worker to stop it.
pub(crate) async fn cancel_or_ask(registry: &Registry, id: &TaskId) -> Result<TaskRow, TaskError> {
    match registry.lifecycle.cancel(id).await {
        Err(TaskError::ResourceLocked { .. }) => registry.coordinator.request_cancel(id.clone()).await,
        row => row,
    }
}

pub(super) async fn cancel(global: &Global, registry: &Registry, id: &TaskId) -> Result<ExitCode, CliError> {
    let row = cancel_or_ask(registry, id)
        .await
        .map_err(|error| registry.failure(&error))?;
    if row.cancel_requested_at.is_some() && !global.quiet {
        let show = registry.typed(&format!("task show {id}"));
        print_hint(&format!("its worker stops it; `{show}` shows when it has"));
    }
    print_row(global, &row)
}

/// Approves or denies what a waiting task asks about (TASK-123).
pub(super) async fn answer(
    global: &Global,
    registry: &Registry,
    args: &TaskAnswerArgs,
    granted: bool,
) -> Result<ExitCode, CliError> {
    let by = args.by.clone().unwrap_or_else(|| user_name(registry));
    let step = TaskStep::Answer(TaskAnswer {
        granted,
        by,
        reason: args.reason.clone(),
    });
    let id = &args.task.id;
    let row = registry.lifecycle.take(id, &step).await;
    print_row(global, &row.map_err(|error| registry.failure(&error))?)?;
    if !global.quiet && !global.json() {
        let resume = registry.typed(&format!("task resume {id}"));
        print_hint(&match granted {
            true => "approved; the next worker continues the task".to_owned(),
            false => format!("denied; `{resume}` lets the task ask again"),
        });
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the login name of the user, also where no variable holds it, as in a service; the number of the user where the system has no name for it.
fn user_name(registry: &Registry) -> String {
    if let Some(name) = registry.world.environment.user() {
        return name;
    }
    let number = rustix::process::getuid().as_raw();
    let users = RealDisk
        .read(Path::new("/etc/passwd"), LARGEST_PASSWD)
        .unwrap_or_default();
    let users = String::from_utf8_lossy(&users).into_owned();
    let name = users.lines().find_map(|user| {
        let mut fields = user.split(':');
        let name = fields.next()?;
        (fields.nth(1)?.parse() == Ok(number)).then_some(name)
    });
    name.map_or_else(|| format!("user {number}"), str::to_owned)
}

/// Most of the list of users that is read, in bytes.
const LARGEST_PASSWD: u64 = 1 << 20;

pub(super) async fn resume(
    global: &Global,
    registry: &Registry,
    args: &TaskResumeArgs,
) -> Result<ExitCode, CliError> {
    let (id, given) = (&args.task.id, args.checkpoint.clone());
    let files = registry.files(&registry.task(id).await?);
    let named = files.run(move |files| {
        let named = given.as_deref().map(|given| files.checkpoint_id(Some(given)));
        named.transpose()
    });
    let checkpoint = named.await.map_err(|error| registry.layer_failure(&error))?;
    if let Some(agent) = &args.agent {
        return resume_for(global, registry, id, checkpoint, agent).await;
    }
    refuse_spent(registry, args).await?;
    raise_limits(registry, args).await?;
    let row = registry.lifecycle.resume(id, checkpoint).await;
    print_row(global, &unless_held(registry, id, row).await?)
}

/// Refuses to resume a task whose total budget is spent and would not be raised: its next attempt would fail at once (TASK-115).
async fn refuse_spent(registry: &Registry, args: &TaskResumeArgs) -> Result<(), CliError> {
    let id = &args.task.id;
    let row = registry.task(id).await?;
    let Some(needed) = needed_budget(&row) else {
        return Ok(());
    };
    let Ok(mut order) = TaskSpec::read(row.record.metadata()) else {
        return Ok(());
    };
    for (name, value) in &args.limits() {
        order.set_option(name, value);
    }
    // The hank may allow more by now; one that cannot be read here is the worker's to read.
    let settings = settings_of_run(&order.hank, &order.arguments).ok();
    let Some(limits) = settings.and_then(|settings| ceiling(&order.hank, &settings).ok()) else {
        return Ok(());
    };
    let Some((used, limit)) = needed.spent_of(limits) else {
        return Ok(());
    };
    let error = registry.failure(&TaskError::BudgetSpent {
        id: id.to_string(),
        used,
        limit,
    });
    let resume = resume_command(registry, &row).unwrap_or_default();
    let why = needed.explanation().map(|why| format!("; {why}"));
    Err(error.hint(format!("`{resume}` continues it{}", why.unwrap_or_default())))
}

/// Notes the new limits with the run of a task that can be resumed (TASK-115).
async fn raise_limits(registry: &Registry, args: &TaskResumeArgs) -> Result<(), CliError> {
    let (id, limits) = (&args.task.id, args.limits());
    let row = registry.task(id).await?;
    match row.record.status() {
        _ if limits.is_empty() => return Ok(()),
        TaskStatus::Failed | TaskStatus::Cancelled => {}
        TaskStatus::Running => {
            let detach = registry.typed(&format!("task detach {id}"));
            let message = format!("the limits of {id} cannot be changed while it is running");
            return Err(CliError::new(CliErrorKind::Input, message)
                .hint(format!("`{detach}` requeues it once its worker has ended")));
        }
        // What cannot be resumed is refused by the step that follows.
        _ => return Ok(()),
    }
    let wrong = |why: String| CliError::new(CliErrorKind::Input, why);
    let mut metadata = row.record.metadata().clone();
    let mut order = TaskSpec::read(&metadata).map_err(|why| wrong(format!("{id} runs no hank: {why}")))?;
    for (name, value) in &limits {
        order.set_option(name, value);
    }
    order
        .put_into(&mut metadata)
        .map_err(|error| wrong(error.to_string()))?;
    let update = UpdateTask {
        id: id.clone(),
        patch: TaskPatch {
            metadata: Patch::Set(metadata),
            if_version: Some(row.version),
            ..TaskPatch::default()
        },
        token: None,
    };
    let noted = registry.lifecycle.update(update).await;
    noted.map(drop).map_err(|error| registry.failure(&error))
}

/// Starts it for an agent, which works in its workspace (TASK-115). Nobody holds its lock then.
async fn resume_for(
    global: &Global,
    registry: &Registry,
    id: &TaskId,
    checkpoint: Option<CheckpointId>,
    agent: &AgentId,
) -> Result<ExitCode, CliError> {
    registry.task(id).await?;
    let made = registry.make_workspace(id).await;
    let workspace = made.map_err(|error| {
        let message = format!("failed to create the workspace of {id}: {error}");
        CliError::new(CliErrorKind::Io, message)
    })?;
    let row = registry.lifecycle.resume_for(id, checkpoint, agent.clone()).await;
    print_row(global, &row.map_err(|error| registry.failure(&error))?)?;
    if !global.quiet && !global.json() {
        let [done, free] = ["complete", "detach"].map(|what| registry.typed(&format!("task {what} {id}")));
        print_stderr(format!(
            "{} works on it in {}\nend with `{done}` or `{free}`;\na worker requeues it once nothing has changed for its --orphan-after\n",
            one_line(agent.as_str()),
            workspace.display()
        ));
    }
    Ok(ExitCode::SUCCESS)
}

/// Completes a running task without a live worker (TASK-105).
pub(super) async fn complete(
    global: &Global,
    registry: &Registry,
    args: &TaskCompleteArgs,
) -> Result<ExitCode, CliError> {
    let result = TaskResult {
        success: true,
        status: Some("completed".to_owned()),
        data: args.result.clone(),
        error: None,
        message: args.message.clone(),
        extra: Extra::default(),
    };
    let id = &args.task.id;
    let row = registry.lifecycle.complete(id, result).await;
    print_row(global, &unless_held(registry, id, row).await?)
}

/// Error code of a task that was detached by hand.
const DETACHED: &str = "DETACHED";

/// Requeues a running task without a live worker (TASK-105).
pub(super) async fn detach(
    global: &Global,
    registry: &Registry,
    args: &TaskDetachArgs,
) -> Result<ExitCode, CliError> {
    let id = &args.task.id;
    if let Some(agent) = &args.agent {
        let has = agent_of(&registry.task(id).await?);
        if has.as_ref() != Some(agent) {
            let message = match has {
                Some(other) => format!("{id} is a task of {other}, not of {agent}"),
                None => format!("{id} is no task of {agent}: it has not started"),
            };
            return Err(CliError::new(CliErrorKind::Input, message));
        }
    }
    let step = TaskStep::Requeue(DETACHED.to_owned());
    let row = registry.lifecycle.take(id, &step).await;
    print_row(global, &unless_held(registry, id, row).await?)
}

/// Names in the error of a task that is held how long that lasts, and what to type.
async fn unless_held(
    registry: &Registry,
    id: &TaskId,
    taken: Result<TaskRow, TaskError>,
) -> Result<TaskRow, CliError> {
    match taken {
        Err(error @ TaskError::ResourceLocked { .. }) => {
            let failure = registry.failure(&error);
            Err(match held_until(registry, id).await? {
                Some(until) => failure.hint(until),
                None => failure,
            })
        }
        taken => taken.map_err(|error| registry.failure(&error)),
    }
}

/// Who works on a task, or did.
fn agent_of(row: &TaskRow) -> Option<String> {
    let record = serde_json::to_value(row).ok()?;
    record["agentId"].as_str().map(str::to_owned)
}

/// Asks, unless told not to.
pub(super) fn sure(args: &TaskDeleteArgs) -> Result<(), CliError> {
    if args.force {
        return Ok(());
    }
    let id = &args.task.id;
    let usage = |message: String| {
        CliError::new(CliErrorKind::Usage, message).hint("--force deletes without a question")
    };
    if !std::io::stdin().is_terminal() {
        return Err(usage(format!(
            "deleting {id} needs a confirmation, and there is no terminal"
        )));
    }
    let io = |error: std::io::Error| CliError::from_error(CliErrorKind::Io, &error);
    forget_typed();
    ask(format!("Delete {id} with all its files? [y/N] ")).map_err(io)?;
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer).map_err(io)?;
    match answer.trim() {
        "y" | "Y" | "yes" => Ok(()),
        _ => Err(CliError::new(
            CliErrorKind::Failed,
            format!("{id} was not deleted"),
        )),
    }
}

pub(super) async fn delete(global: &Global, registry: &Registry, id: &TaskId) -> Result<ExitCode, CliError> {
    let row = registry.lifecycle.delete(id).await;
    let row = row.map_err(|error| registry.failure(&error))?;
    if global.json() {
        return output::print_json(&row);
    }
    output::print(format!("{id} is deleted, with its files\n"))?;
    Ok(ExitCode::SUCCESS)
}
