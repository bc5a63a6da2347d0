//! `hankweave task cancel`, `resume` and `delete`

use std::io::IsTerminal;
use std::process::ExitCode;

use hankweave_core::id::TaskId;
use hankweave_task_model::TaskError;
use hankweave_task_model::registry::{Change, TaskRow};
use hankweave_task_model::task::{TaskStatus, TaskTransition};
use hankweave_tasks::layers::{LayerError, RestoreOptions};
use hankweave_tasks::publish;

use super::show::line;
use crate::args::{Global, TaskDeleteArgs, TaskResumeArgs};
use crate::exit::{Failure, FailureKind};
use crate::output;
use crate::registry::Registry;
use crate::screen::{ask, tell};

/// Takes one step of a task that nobody else works on; the files follow.
async fn step(registry: &Registry, id: &TaskId, step: TaskTransition) -> Result<TaskRow, LayerError> {
    registry
        .under_lock(id, async |row, token| {
            step_under_lock(registry, row, token, step).await
        })
        .await
}

async fn step_under_lock(
    registry: &Registry,
    row: &TaskRow,
    token: u64,
    step: TaskTransition,
) -> Result<(TaskRow, Option<u64>), LayerError> {
    let id = row.id().clone();
    let changed = registry.coordinator.change(Change {
        id: id.clone(),
        expected_version: row.version,
        token,
        steps: vec![step],
    });
    let row = changed.await?.row;
    let files = registry.files(&id);
    if row.record.status() == TaskStatus::Deleted {
        files.run(|files| files.remove()).await?;
        return Ok((row, None));
    }
    let written = publish(&*registry.coordinator, &files, &row, Some(token)).await?;
    Ok((row, Some(written)))
}

fn told(global: &Global, row: &TaskRow) -> Result<ExitCode, Failure> {
    if global.json() {
        return output::print_json(row);
    }
    output::print(line(row))?;
    Ok(ExitCode::SUCCESS)
}

pub(super) async fn cancel(global: &Global, registry: &Registry, id: &TaskId) -> Result<ExitCode, Failure> {
    match step(registry, id, TaskTransition::Cancel).await {
        // Whoever works on it stops it.
        Err(LayerError::Task(TaskError::ResourceLocked { .. })) => {
            let asked = registry.coordinator.request_cancel(id.clone()).await;
            let row = asked.map_err(|error| registry.failure(&error))?;
            if !global.quiet {
                let show = registry.typed(&format!("task show {id}"));
                tell(format!(
                    "its worker is asked to stop it; `{show}` tells when it has\n"
                ));
            }
            told(global, &row)
        }
        row => told(global, &row.map_err(|error| registry.layer_failure(&error))?),
    }
}

pub(super) async fn resume(
    global: &Global,
    registry: &Registry,
    args: &TaskResumeArgs,
) -> Result<ExitCode, Failure> {
    let (id, given) = (&args.task.id, args.checkpoint.clone());
    let files = registry.files(id);
    let row = registry.under_lock(id, async |row, token| {
        if given.is_some() {
            let options = RestoreOptions {
                status: Some(row.record.status()),
                token: Some(token),
                ..RestoreOptions::default()
            };
            let restore = move |files: &hankweave_tasks::layers::TaskFiles| {
                files.restore_checkpoint(files.checkpoint_id(given.as_deref())?, options)
            };
            files.run(restore).await?;
        }
        step_under_lock(registry, row, token, TaskTransition::Resume).await
    });
    let row = row.await.map_err(|error| registry.layer_failure(&error))?;
    told(global, &row)
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
    let row = step(registry, id, TaskTransition::Delete).await;
    let row = row.map_err(|error| registry.layer_failure(&error))?;
    if global.json() {
        return output::print_json(&row);
    }
    output::print(format!("{id} is deleted, with its files\n"))?;
    Ok(ExitCode::SUCCESS)
}
