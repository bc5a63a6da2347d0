//! `hankweave task create`

use std::path::Path;
use std::process::ExitCode;

use hankweave_core::id::TaskId;
use hankweave_runtime::hank_files;
use hankweave_runtime::world::disk::{Disk as _, RealDisk};
use hankweave_task_model::TaskError;
use hankweave_task_model::registry::NewTask;
use hankweave_tasks::coordinator::{Claimed, Create, Hold, Release};
use hankweave_tasks::publish;
use hankweave_tasks::worker::Order;
use serde_json::{Map, Value};

use crate::args::{Global, TaskCreateArgs};
use crate::exit::{Failure, FailureKind};
use crate::failures::hank_failure;
use crate::output;
use crate::registry::Registry;
use crate::screen::one_line;

/// So many ids are tried when tasks are created in the same millisecond.
const IDS: i64 = 100;

pub(super) async fn create(
    global: &Global,
    registry: &Registry,
    args: &TaskCreateArgs,
) -> Result<ExitCode, Failure> {
    let mut metadata = metadata(args.metadata.as_deref())?;
    let order = order(args)?;
    let written = order.put_into(&mut metadata);
    written.map_err(|error| Failure::from_error(FailureKind::Input, &error))?;
    let task = |id| NewTask {
        id,
        name: args.name.clone(),
        description: args.description.clone(),
        owner: args.owner.clone(),
        metadata: metadata.clone(),
    };
    let hold = Hold {
        holder: registry.holder(),
        lease: Some(Registry::LEASE),
    };
    let created = match &args.id {
        Some(id) => insert(registry, task(id.clone()), &hold).await,
        None => insert_somewhere(registry, task, &hold).await,
    };
    let claimed = created.map_err(|error| registry.failure(&error))?;
    let id = claimed.row.id().clone();
    let token = claimed.held.map(|held| held.token);
    // Nobody claims it before its files are there.
    let published = publish(&*registry.coordinator, &registry.files(&id), &claimed.row, token).await;
    let released = registry.coordinator.release(Release {
        resource: hankweave_task_model::registry::TaskRow::lock_name(&id),
        holder: hold.holder,
        written: published.as_ref().ok().map(|seq| (id.clone(), *seq)),
    });
    released.await.map_err(|error| registry.failure(&error))?;
    published.map_err(|error| registry.layer_failure(&error))?;
    if global.json() {
        return output::print_json(&registry.task(&id).await?);
    }
    if !global.quiet {
        output::print(format!("{id}\n"))?;
        let next = registry.typed("worker --once");
        crate::screen::tell(format!(
            "\"{}\" waits for a worker; `{next}` runs it here\n",
            one_line(&args.name)
        ));
    }
    Ok(ExitCode::SUCCESS)
}

async fn insert(registry: &Registry, task: NewTask, hold: &Hold) -> Result<Claimed, TaskError> {
    let hold = Some(hold.clone());
    registry.coordinator.create(Create { task, hold }).await
}

async fn insert_somewhere(
    registry: &Registry,
    task: impl Fn(TaskId) -> NewTask,
    hold: &Hold,
) -> Result<Claimed, TaskError> {
    let now = registry.coordinator.now().await?.as_millis();
    let mut number = now;
    loop {
        let created = insert(registry, task(TaskId::new(format!("task_{number}"))?), hold).await;
        number += 1;
        match created {
            Err(TaskError::TaskCreateFailed { .. }) if number < now + IDS => {}
            created => return created,
        }
    }
}

fn metadata(given: Option<&str>) -> Result<Map<String, Value>, Failure> {
    let Some(text) = given else { return Ok(Map::new()) };
    let wrong = |why: String| {
        Failure::new(FailureKind::Input, format!("--metadata is no JSON object: {why}"))
            .hint("for example -m '{\"pages\": 3}'")
    };
    let metadata: Map<String, Value> =
        serde_json::from_str(text).map_err(|error| wrong(error.to_string()))?;
    match metadata.contains_key("run") {
        true => Err(Failure::new(
            FailureKind::Input,
            "`run` in the metadata says what the task runs; --hank and --data write it",
        )),
        false => Ok(metadata),
    }
}

/// The hank must be one that can run; where the worker is another machine, it must have it at the same place.
fn order(args: &TaskCreateArgs) -> Result<Order, Failure> {
    let loaded = hank_files::load(&args.hank).map_err(|error| hank_failure(&error))?;
    if loaded.hank.is_none() {
        let problems = loaded
            .problems
            .display_in(&loaded.file.display().to_string())
            .to_string();
        let message = format!("the hank cannot be used\n{}", problems.trim_end());
        return Err(Failure::new(FailureKind::Input, message));
    }
    Ok(Order {
        hank: real(&args.hank)?,
        data: args.data.as_deref().map(real).transpose()?,
        arguments: args.arguments.clone(),
    })
}

fn real(path: &Path) -> Result<std::path::PathBuf, Failure> {
    RealDisk.real_path(path).map_err(|error| {
        let message = format!("failed to find `{}`: {error}", path.display());
        Failure::new(FailureKind::Input, message)
    })
}
