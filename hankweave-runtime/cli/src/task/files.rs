//! `hankweave task checkpoint`, `restore` and `recover`: copies of a task's own files (state, log and decisions), not of its workspace. Changes are
//! made under the lock of the task.

use std::process::ExitCode;

use hankweave_core::id::TaskId;
use hankweave_tasks::layers::RestoreOptions;
use serde_json::json;

use super::create::print_hint;
use crate::args::{Global, TaskCheckpointArgs, TaskRestoreArgs};
use crate::hints::HintCommands;
use crate::registry::Registry;
use crate::terminal::exit::CliError;
use crate::terminal::output;
use crate::terminal::screen::{local_time, one_line};

pub(super) async fn checkpoint(
    global: &Global,
    registry: &Registry,
    args: &TaskCheckpointArgs,
) -> Result<ExitCode, CliError> {
    let (id, description) = (&args.task.id, args.description.clone());
    let files = registry.files(&registry.task(id).await?);
    let made = registry.under_lock(id, async |_, token| {
        if args.pack {
            files
                .run(hankweave_tasks::layers::TaskFiles::pack_checkpoints)
                .await?;
        }
        files
            .run(move |files| files.create_checkpoint_under(Some(token), description.as_deref()))
            .await
    });
    let manifest = made.await.map_err(|error| registry.layer_failure(&error))?;
    if global.json() {
        return output::print_json(&manifest);
    }
    output::print(format!("{}\n", manifest.id))?;
    Ok(ExitCode::SUCCESS)
}

pub(super) async fn restore(
    global: &Global,
    registry: &Registry,
    args: &TaskRestoreArgs,
) -> Result<ExitCode, CliError> {
    let id = &args.task.id;
    if args.list {
        return list(global, registry, id).await;
    }
    let row = registry.task(id).await?;
    let (files, workspace) = (registry.files(&row), registry.workspace_of(&row));
    let given = args.checkpoint.clone();
    let restored = registry.under_lock(id, async |row, token| {
        let options = RestoreOptions {
            status: Some(row.record.status()),
            token: Some(token),
            ..RestoreOptions::default()
        };
        let restore = move |files: &hankweave_tasks::layers::TaskFiles| {
            let checkpoint = files.checkpoint_id(given.as_deref())?;
            Ok((checkpoint, files.restore_checkpoint(checkpoint, options)?))
        };
        files.run(restore).await
    });
    let (checkpoint, state) = restored.await.map_err(|error| registry.layer_failure(&error))?;
    if global.json() {
        return output::print_json(&json!({"checkpointId": checkpoint.to_string(), "state": state}));
    }
    output::print(format!(
        "{id} has the state, log and decisions of {checkpoint}; the earlier ones are in a new checkpoint\n"
    ))?;
    let rollback = HintCommands::about(&workspace).command("rollback --codon ID");
    print_hint(&format!(
        "the files in its workspace stay; `{rollback}` takes them back"
    ));
    Ok(ExitCode::SUCCESS)
}

async fn list(global: &Global, registry: &Registry, id: &TaskId) -> Result<ExitCode, CliError> {
    let files = registry.files(&registry.task(id).await?);
    let all = files.run(|files| files.checkpoints()).await;
    let all = all.map_err(|error| registry.layer_failure(&error))?;
    if global.json() {
        return output::print_json(&json!({"checkpoints": all.valid, "invalid": all.invalid}));
    }
    let mut text = String::new();
    for manifest in &all.valid {
        text.push_str(&format!(
            "{}  {:<12}  {}\n",
            manifest.id,
            local_time(manifest.timestamp),
            one_line(&manifest.description)
        ));
    }
    for name in &all.invalid {
        text.push_str(&format!("{}  no valid manifest\n", one_line(name)));
    }
    output::print(text)?;
    Ok(ExitCode::SUCCESS)
}

pub(super) async fn recover(global: &Global, registry: &Registry, id: &TaskId) -> Result<ExitCode, CliError> {
    let files = registry.files(&registry.task(id).await?);
    let recovered = registry.under_lock(id, async |row, token| {
        let status = row.record.status();
        let recover =
            move |files: &hankweave_tasks::layers::TaskFiles| files.recover(Some(status), Some(token));
        files.run(recover).await
    });
    let recovered = recovered.await.map_err(|error| registry.layer_failure(&error))?;
    let method = recovered.method.method();
    if global.json() {
        return output::print_json(&json!({
            "method": method, "checkpointId": recovered.method.checkpoint().map(|id| id.to_string()),
            "kept": recovered.kept, "state": recovered.state,
        }));
    }
    let text = match recovered.method.checkpoint() {
        Some(checkpoint) => format!("the state of {id} is recovered from {checkpoint}\n"),
        None if method == "log" => {
            format!("the status of {id} is recovered from the log; its data are lost\n")
        }
        None => format!("the state of {id} is readable; nothing was changed\n"),
    };
    output::print(text)?;
    Ok(ExitCode::SUCCESS)
}
