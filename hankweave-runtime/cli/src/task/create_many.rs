//! `hankweave task create --from` (TASK-124).

use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use hankweave_core::hank::did_you_mean;
use hankweave_core::id::TaskId;
use hankweave_core::shape::plain;
use hankweave_runtime::world::disk::{Disk as _, RealDisk};
use hankweave_task_model::registry::NewTask;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::create::{order, print_hint};
use crate::args::{Global, TaskCreateArgs};
use crate::exit::{CliError, CliErrorKind};
use crate::output;
use crate::registry::Registry;

/// Longest input that is read, in bytes.
const LONGEST: u64 = 16 << 20;

/// Task of one line.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct TaskLine {
    name: String,
    hank: PathBuf,
    data: Option<PathBuf>,
    id: Option<TaskId>,
    description: Option<String>,
    owner: Option<String>,
    #[serde(default)]
    metadata: Map<String, Value>,
    priority: Option<i32>,
    #[serde(default)]
    after: Vec<TaskId>,
    #[serde(default)]
    arguments: Vec<String>,
}

/// Creates all tasks of a file or of standard input, or none.
pub(super) async fn create_many(
    global: &Global,
    registry: &Registry,
    args: &TaskCreateArgs,
) -> Result<ExitCode, CliError> {
    let from = args.from.as_deref().unwrap_or(Path::new("-"));
    let text = read(from).map_err(|error| {
        let message = format!("failed to read `{}`: {error}", from.display());
        CliError::new(CliErrorKind::Input, message)
    })?;
    let now = registry.coordinator.now().await;
    let now = now.map_err(|error| registry.failure(&error))?.as_millis();
    // Tasks of one moment are listed by id, so that of line 2 comes before that of line 10.
    let digits = text.lines().count().to_string().len();
    let lines = text.lines().zip(1_usize..);
    let tasks: Vec<NewTask> = lines
        .filter(|(line, _)| !line.trim().is_empty())
        .map(|(line, number)| {
            let id = format!("task_{now}-{number:0digits$}");
            new_task(line, &id, args).map_err(|error| error.in_line(from, number))
        })
        .collect::<Result<_, _>>()?;
    if tasks.is_empty() {
        let message = format!("`{}` has no line with a task", from.display());
        return Err(CliError::new(CliErrorKind::Input, message)
            .hint("each line is an object such as {\"name\": \"Report\", \"hank\": \"./report\"}"));
    }
    let rows = registry.coordinator.create_all(tasks).await;
    let rows = rows.map_err(|error| registry.failure(&error))?;
    registry.lifecycle.follow_created(&rows).await;
    if global.json() {
        return output::print_json(&json!({"tasks": rows}));
    }
    if !global.quiet {
        output::print(
            rows.iter()
                .map(|row| format!("{}\n", row.id()))
                .collect::<String>(),
        )?;
        let next = registry.typed("worker --once");
        let (wait, them) = match rows.len() {
            1 => ("1 task waits".to_owned(), "it"),
            many => (format!("{many} tasks wait"), "them"),
        };
        print_hint(&format!("{wait} for a worker; `{next}` runs {them} here"));
    }
    Ok(ExitCode::SUCCESS)
}

fn read(from: &Path) -> io::Result<String> {
    let mut bytes = Vec::new();
    match from == Path::new("-") {
        true => drop(io::stdin().take(LONGEST + 1).read_to_end(&mut bytes)?),
        false => bytes = RealDisk.read(from, LONGEST)?,
    }
    if bytes.len() as u64 > LONGEST {
        return Err(io::Error::other(format!(
            "it is longer than {} MiB",
            LONGEST >> 20
        )));
    }
    String::from_utf8(bytes).map_err(|_| io::Error::other("it is not UTF-8 text"))
}

fn new_task(line: &str, free: &str, args: &TaskCreateArgs) -> Result<NewTask, LineError> {
    let task: TaskLine =
        serde_json::from_str(line).map_err(|error| LineError::Text(mistake(line, &error)))?;
    let mut metadata = task.metadata;
    if metadata.contains_key("run") {
        let reason = "`metadata.run` is written from `hank`, `data` and `arguments`";
        return Err(LineError::Text(reason.to_owned()));
    }
    let order = order(&task.hank, task.data.as_deref(), task.arguments).map_err(LineError::Hank)?;
    let put = order.put_into(&mut metadata);
    put.map_err(|error| LineError::Text(error.to_string()))?;
    let id = task.id.map_or_else(|| TaskId::new(free), Ok);
    let id = id.map_err(|error| LineError::Text(error.to_string()))?;
    let after = args.after.iter().cloned().chain(task.after).collect();
    Ok(NewTask {
        id,
        name: task.name,
        description: task.description,
        owner: task.owner.unwrap_or_else(|| args.owner.clone()),
        metadata,
        priority: task.priority.unwrap_or(args.priority),
        after,
    })
}

/// Keys of a line.
const KEYS: [&str; 10] = [
    "name",
    "hank",
    "data",
    "id",
    "description",
    "owner",
    "metadata",
    "priority",
    "after",
    "arguments",
];

/// Returns a mistake in words. An unknown key is named alone, with the one that it was meant to be if there is such a key.
fn mistake(line: &str, error: &serde_json::Error) -> String {
    let keys: Map<String, Value> = serde_json::from_str(line).unwrap_or_default();
    let Some(unknown) = keys.keys().find(|key| !KEYS.contains(&key.as_str())) else {
        return plain(error);
    };
    match did_you_mean(unknown, &KEYS) {
        Some(advice) => format!("`{unknown}` is no key of a task; {advice}"),
        None => format!("`{unknown}` is no key of a task; `task create --help` lists the keys"),
    }
}

/// Mistake in a line.
enum LineError {
    Text(String),
    Hank(CliError),
}

impl LineError {
    fn in_line(self, from: &Path, number: usize) -> CliError {
        match self {
            Self::Text(reason) => {
                let message = format!("{}:{number}: {reason}; no task was created", from.display());
                CliError::new(CliErrorKind::Input, message)
            }
            Self::Hank(error) => error.about(&format!("{}:{number}", from.display())),
        }
    }
}
