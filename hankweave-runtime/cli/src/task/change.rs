//! `hankweave task cancel`, `resume` and `delete`

use std::io::IsTerminal;
use std::process::ExitCode;

use hankweave_core::id::TaskId;
use hankweave_task_model::TaskError;
use hankweave_task_model::registry::TaskRow;

use super::show::line;
use crate::args::{Global, TaskDeleteArgs, TaskResumeArgs};
use crate::exit::{Failure, FailureKind};
use crate::output;
use crate::registry::Registry;
use crate::screen::{ask, tell};

fn told(global: &Global, row: &TaskRow) -> Result<ExitCode, Failure> {
    if global.json() {
        return output::print_json(row);
    }
    output::print(line(row))?;
    Ok(ExitCode::SUCCESS)
}

/// Calls a task off, or asks whoever works on it to stop.
pub(crate) async fn call_off(registry: &Registry, id: &TaskId) -> Result<TaskRow, TaskError> {
    match registry.lifecycle.cancel(id).await {
        Err(TaskError::ResourceLocked { .. }) => registry.coordinator.request_cancel(id.clone()).await,
        row => row,
    }
}

pub(super) async fn cancel(global: &Global, registry: &Registry, id: &TaskId) -> Result<ExitCode, Failure> {
    let row = call_off(registry, id)
        .await
        .map_err(|error| registry.failure(&error))?;
    if row.cancel_requested_at.is_some() && !global.quiet {
        let show = registry.typed(&format!("task show {id}"));
        tell(format!(
            "its worker is asked to stop it; `{show}` tells when it has\n"
        ));
    }
    told(global, &row)
}

pub(super) async fn resume(
    global: &Global,
    registry: &Registry,
    args: &TaskResumeArgs,
) -> Result<ExitCode, Failure> {
    let (id, given) = (&args.task.id, args.checkpoint.clone());
    let files = registry.files(id);
    let named = files.run(move |files| {
        let named = given.as_deref().map(|given| files.checkpoint_id(Some(given)));
        named.transpose()
    });
    let checkpoint = named.await.map_err(|error| registry.layer_failure(&error))?;
    let row = registry.lifecycle.resume(id, checkpoint).await;
    told(global, &row.map_err(|error| registry.failure(&error))?)
}

/// Asks, unless told not to.
pub(super) fn sure(args: &TaskDeleteArgs) -> Result<(), Failure> {
    if args.force {
        return Ok(());
    }
    let id = &args.task.id;
    let usage = |message: String| {
        Failure::new(FailureKind::Usage, message).hint("--force deletes without a question")
    };
    if !std::io::stdin().is_terminal() {
        return Err(usage(format!("nobody can be asked whether to delete {id}")));
    }
    let io = |error: std::io::Error| Failure::from_error(FailureKind::Io, &error);
    ask(format!("Delete {id} with all its files? [y/N] ")).map_err(io)?;
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer).map_err(io)?;
    match answer.trim() {
        "y" | "Y" | "yes" => Ok(()),
        _ => Err(Failure::new(FailureKind::Failed, format!("{id} was not deleted"))),
    }
}

pub(super) async fn delete(global: &Global, registry: &Registry, id: &TaskId) -> Result<ExitCode, Failure> {
    let row = registry.lifecycle.delete(id).await;
    let row = row.map_err(|error| registry.failure(&error))?;
    if global.json() {
        return output::print_json(&row);
    }
    output::print(format!("{id} is deleted, with its files\n"))?;
    Ok(ExitCode::SUCCESS)
}
