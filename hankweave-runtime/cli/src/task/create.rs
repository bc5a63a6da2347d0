//! `hankweave task create`: one task of the command line; with `--from`, [`create_many`](super::create_many) creates those of a file.

use std::path::Path;
use std::process::ExitCode;

use hankweave_core::id::TaskId;
use hankweave_core::time::Timestamp;
use hankweave_runtime::world::disk::{Disk as _, RealDisk};
use hankweave_task_model::TaskError;
use hankweave_task_model::registry::{NewTask, TaskRow};
use hankweave_tasks::worker::TaskSpec;
use serde_json::{Map, Value};

use super::EarlierTasks;
use crate::args::{Global, TaskCreateArgs, settings_of_run};
use crate::failures::hank_with_mistakes;
use crate::hints::in_folder;
use crate::present_workers::takers;
use crate::registry::Registry;
use crate::terminal::exit::{CliError, CliErrorKind};
use crate::terminal::output;
use crate::terminal::screen::{columns_of_errors, one_line, print_stderr};
use crate::terminal::wrap::hanging;
use crate::validate::{TaskLimits, load_planned};

/// Number of ids that are tried when several tasks are created in one millisecond.
const IDS: i64 = 100;

pub(super) async fn create(
    global: &Global,
    registry: &Registry,
    args: &TaskCreateArgs,
) -> Result<ExitCode, CliError> {
    let (Some(name), Some(hank)) = (&args.name, &args.hank) else {
        return super::create_many::create_many(global, registry, args).await;
    };
    let mut metadata = metadata(args.metadata.as_deref())?;
    let spec = task_spec(hank, args.data.as_deref(), args.arguments.clone())?;
    let written = spec.put_into(&mut metadata);
    written.map_err(|error| CliError::from_error(CliErrorKind::Input, &error))?;
    let task = |id| NewTask {
        id,
        name: name.clone(),
        description: args.description.clone(),
        owner: args.owner.clone(),
        metadata: metadata.clone(),
        priority: args.priority,
        after: args.after.clone(),
    };
    check_earlier(registry, &args.after).await?;
    let created = match &args.id {
        Some(id) => registry.lifecycle.create(task(id.clone())).await,
        None => create_with_free_id(registry, task).await,
    };
    let row = created.map_err(|error| registry.failure(&error))?;
    let id = row.id();
    if global.json() {
        return output::print_json(&row);
    }
    if !global.quiet {
        output::print(format!("{id}\n"))?;
        let mut earlier = EarlierTasks::new(registry, &[]);
        let waits = match earlier.blocked(&row).await? {
            Some(blocked) => blocked,
            None => {
                let first = earlier.awaited(&row).await?;
                let first = first.map_or_else(String::new, |first| format!("{first}, then for "));
                let takes = takers(registry, "it", None).await?;
                format!("waits for {first}a worker; {takes}")
            }
        };
        print_hint(&format!("\"{}\" {waits}", one_line(name)));
        let limits = TaskLimits::of(&spec).map_or_else(Vec::new, |limits| limits.lines());
        limits.iter().for_each(|limit| print_hint(limit));
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints a message, broken between its words where the terminal of messages ends.
pub(super) fn print_hint(text: &str) {
    let lines = match columns_of_errors() {
        Some(room) => hanging(text, room, "  "),
        None => vec![text.to_owned()],
    };
    print_stderr(lines.iter().map(|line| format!("{line}\n")).collect::<String>());
}

/// Refuses a task that comes after one that does not exist, before ids are tried in vain.
async fn check_earlier(registry: &Registry, after: &[TaskId]) -> Result<(), CliError> {
    for id in after {
        registry.task(id).await?;
    }
    Ok(())
}

/// Returns ids for a task that is created now, to be tried in order: one for each of the next [`IDS`] milliseconds, because some may be in use already.
pub(crate) fn free_ids(now: Timestamp) -> impl Iterator<Item = TaskId> + Send {
    (0..IDS).filter_map(move |more| TaskId::new(format!("task_{}", now.as_millis() + more)).ok())
}

/// Creates a task with the first id that is not in use.
async fn create_with_free_id(
    registry: &Registry,
    task: impl Fn(TaskId) -> NewTask,
) -> Result<TaskRow, TaskError> {
    // Replaced by the refusal of the first id.
    let mut last_refusal = TaskError::InvalidArgument("a task has an id");
    for id in free_ids(registry.coordinator.now().await?) {
        match registry.lifecycle.create(task(id)).await {
            Err(error @ (TaskError::TaskCreateFailed { .. } | TaskError::FolderTaken { .. })) => {
                last_refusal = error
            }
            created => return created,
        }
    }
    Err(last_refusal)
}

/// Parses `--metadata`; the key `run` is reserved for the spec.
fn metadata(given: Option<&str>) -> Result<Map<String, Value>, CliError> {
    let Some(text) = given else { return Ok(Map::new()) };
    let wrong = |why: String| {
        CliError::new(
            CliErrorKind::Input,
            format!("--metadata is no JSON object: {why}"),
        )
        .hint("for example -m '{\"pages\": 3}'")
    };
    let metadata: Map<String, Value> =
        serde_json::from_str(text).map_err(|error| wrong(error.to_string()))?;
    match metadata.contains_key("run") {
        true => Err(CliError::new(
            CliErrorKind::Input,
            "`metadata.run` says what the task runs; --hank and --data write it",
        )),
        false => Ok(metadata),
    }
}

/// Returns the spec of a task, which a worker runs later; refuses what `run` would refuse. A worker on another machine must have the hank at this path.
pub(crate) fn task_spec(
    hank: &Path,
    data: Option<&Path>,
    arguments: Vec<String>,
) -> Result<TaskSpec, CliError> {
    let settings = settings_of_run(hank, &arguments).map_err(|why| {
        let message = format!("`run` refuses the arguments of the task: {why}");
        CliError::new(CliErrorKind::Input, message).hint(format!(
            "`{}` lists them",
            in_folder("run --help", Path::new("."))
        ))
    })?;
    let loaded = load_planned(hank, &settings)?;
    if loaded.problems.has_errors() {
        return Err(hank_with_mistakes(&loaded));
    }
    Ok(TaskSpec {
        hank: real(hank)?,
        data: data.map(real).transpose()?,
        arguments,
    })
}

fn real(path: &Path) -> Result<std::path::PathBuf, CliError> {
    RealDisk.real_path(path).map_err(|error| {
        let message = format!("failed to find `{}`: {error}", path.display());
        CliError::new(CliErrorKind::Input, message)
    })
}
