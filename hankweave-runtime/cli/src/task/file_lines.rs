//! Lines of a file for `task create --from` (TASK-124): [`read_task`] reads the task of a line, [`LineMistakes`] collects the mistakes of all lines.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use hankweave_core::hank::did_you_mean;
use hankweave_core::id::TaskId;
use hankweave_core::shape::plain;
use hankweave_task_model::registry::NewTask;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::create::task_spec;
use crate::args::TaskCreateArgs;
use crate::terminal::exit::{CliError, CliErrorKind};

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

/// Reads the task of a line; `default_id` is its id if the line names none.
///
/// # Errors
///
/// Returns the mistake in words.
pub(super) fn read_task(line: &str, default_id: &str, args: &TaskCreateArgs) -> Result<NewTask, String> {
    let task: TaskLine = serde_json::from_str(line).map_err(|error| mistake(line, &error))?;
    let mut metadata = task.metadata;
    if metadata.contains_key("run") {
        return Err("`metadata.run` is written from `hank`, `data` and `arguments`".to_owned());
    }
    let spec = task_spec(&task.hank, task.data.as_deref(), task.arguments);
    let spec = spec.map_err(|error| error.message().to_owned())?;
    spec.put_into(&mut metadata).map_err(|error| error.to_string())?;
    let id = task.id.map_or_else(|| TaskId::new(default_id), Ok);
    let id = id.map_err(|error| error.to_string())?;
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

/// Returns the mistakes of a line in words: each unknown key, with a similar key if there is one, each key with a value that cannot be used, and a hank
/// that cannot be run.
fn mistake(line: &str, error: &serde_json::Error) -> String {
    let keys: Map<String, Value> = serde_json::from_str(line).unwrap_or_default();
    let hank = keys.get("hank").and_then(Value::as_str).map(Path::new);
    let missing = hank.and_then(|hank| task_spec(hank, None, Vec::new()).err());
    let missing = missing.map(|error| error.message().to_owned());
    let wrong: Vec<String> = keys.into_iter().filter_map(wrong_key).chain(missing).collect();
    match wrong.is_empty() {
        true => plain(error),
        false => wrong.join("; "),
    }
}

/// Returns what is wrong with a key or its value.
fn wrong_key((key, value): (String, Value)) -> Option<String> {
    if KEYS.contains(&key.as_str()) {
        return wrong_value(key, value);
    }
    let advice = did_you_mean(&key, &KEYS);
    let advice = advice.unwrap_or_else(|| "`task create --help` lists the keys".to_owned());
    Some(format!("`{key}` is no key of a task; {advice}"))
}

/// Returns what is wrong with the value of a key.
fn wrong_value(key: String, value: Value) -> Option<String> {
    // The value is tried in a line that has only the required keys besides.
    let required = ["name", "hank"].map(|key| (key.to_owned(), Value::from("x")));
    let mut alone = Map::from_iter(required);
    alone.insert(key.clone(), value);
    let error = TaskLine::deserialize(Value::Object(alone)).err()?;
    Some(format!("`{key}`: {}", plain(&error)))
}

/// Mistakes of a file, by the number of their line.
#[derive(Debug, Default)]
pub(super) struct LineMistakes {
    reasons: BTreeMap<usize, Vec<String>>,
    /// Remedies of the errors, for one hint after all mistakes.
    remedies: BTreeSet<String>,
}

impl LineMistakes {
    /// Adds a mistake of a line, which may have several.
    pub(super) fn add(&mut self, number: usize, reason: String) {
        self.reasons.entry(number).or_default().push(reason);
    }

    /// Adds an error of a line. Its remedy, which several lines may have, is reported once.
    pub(super) fn add_error(&mut self, number: usize, error: &CliError) {
        self.add(number, error.message().to_owned());
        self.remedies.extend(error.remedy().map(str::to_owned));
    }

    /// Returns an error with all mistakes, if there are any; `tasks` is the number of lines with a task.
    pub(super) fn check(self, from: &Path, tasks: usize) -> Result<(), CliError> {
        if self.reasons.is_empty() {
            return Ok(());
        }
        let from = from.display();
        let lines = if tasks == 1 { "line" } else { "lines" };
        let mut message = format!(
            "no task was created: {} of {tasks} {lines} of `{from}` cannot be used (TASK_BULK_INSERT_FAILED)",
            self.reasons.len()
        );
        let mut first_lines = BTreeMap::new();
        for (number, reasons) in &self.reasons {
            let reason = reasons.join("; ");
            let first = *first_lines.entry(reason.clone()).or_insert(*number);
            let reason = match first == *number {
                true => reason.trim_end().replace('\n', "\n    "),
                false => format!("like line {first}"),
            };
            // Writing to a text cannot fail.
            let _ = write!(message, "\n  {from}:{number}: {reason}");
        }
        let error = CliError::new(CliErrorKind::Input, message);
        let remedies: Vec<String> = self.remedies.into_iter().collect();
        Err(match remedies.is_empty() {
            true => error,
            false => error.hint(remedies.join("\n")),
        })
    }
}
