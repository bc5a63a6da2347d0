//! `hankweave task create --from` (TASK-124): reads a task from each line of a file, checks all of them, and then creates all or none.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use hankweave_core::id::TaskId;
use hankweave_runtime::world::disk::{Disk as _, RealDisk};
use hankweave_task_model::TaskError;
use hankweave_task_model::registry::{NewTask, TaskRow};
use hankweave_tasks::worker::TaskSpec;
use serde_json::{Value, json};

use super::create::print_hint;
use super::file_lines::{LineMistakes, read_task};
use super::file_order::creation_order;
use crate::args::{Global, TaskCreateArgs};
use crate::present_workers::takers;
use crate::registry::Registry;
use crate::terminal::exit::{CliError, CliErrorKind};
use crate::terminal::output;
use crate::validate::TaskLimits;

/// Longest input that is read, in bytes.
const LONGEST: u64 = 16 << 20;

/// Most tasks that are named for one limit.
const NAMED: usize = 3;

/// Tasks and mistakes of a file.
#[derive(Default)]
struct FileTasks {
    tasks: Vec<NewTask>,
    /// Line number of each of `tasks`, from 1.
    numbers: Vec<usize>,
    mistakes: LineMistakes,
    /// Ids of lines with a mistake. Other tasks may name them in `after` without another mistake.
    refused: BTreeSet<TaskId>,
    /// Number of lines that are not blank.
    lines: usize,
}

impl FileTasks {
    /// Reads all lines. `now`, in milliseconds, is part of the ids of tasks that name none.
    fn read(text: &str, now: i64, args: &TaskCreateArgs) -> Self {
        let mut listed = Self::default();
        // With leading zeros ids sort as their lines do: that of line 2 comes before that of line 10.
        let digits = text.lines().count().to_string().len();
        for (line, number) in text.lines().zip(1_usize..) {
            if line.trim().is_empty() {
                continue;
            }
            listed.lines += 1;
            match read_task(line, &format!("task_{now}-{number:0digits$}"), args) {
                Ok(task) => {
                    listed.tasks.push(task);
                    listed.numbers.push(number);
                }
                Err(reason) => {
                    listed.refused.extend(named_id(line));
                    listed.mistakes.add(number, reason);
                }
            }
        }
        listed
    }

    /// Finds ids that come twice.
    fn check_ids(&mut self) {
        let mut first = BTreeMap::new();
        for (task, number) in self.tasks.iter().zip(&self.numbers) {
            if let Some(before) = first.insert(&task.id, *number) {
                let reason = format!("`{}` is the id of line {before}", task.id);
                self.mistakes.add(*number, reason);
            }
        }
    }

    /// Finds ids that the registry has, earlier tasks that are neither in the file nor in the registry, and folders of other registries.
    async fn check_registry(&mut self, registry: &Registry) -> Result<(), CliError> {
        let failed = |error: TaskError| registry.failure(&error);
        let mut used = Vec::new();
        for (task, number) in self.tasks.iter().zip(&self.numbers) {
            if exists(registry, &task.id).await.map_err(failed)? {
                used.push((
                    *number,
                    format!("`{}` is the id of a task in the registry", task.id),
                ));
            }
        }
        // If the registry has every id, the file was probably given twice: then the registry refuses it in one sentence.
        if used.len() < self.tasks.len() {
            used.into_iter()
                .for_each(|(number, reason)| self.mistakes.add(number, reason));
        }
        let here = self.tasks.iter().map(|task| &task.id).chain(&self.refused);
        let mut known: BTreeMap<TaskId, bool> = here.map(|id| (id.clone(), true)).collect();
        for (task, number) in self.tasks.iter().zip(&self.numbers) {
            for id in &task.after {
                let is_known = match known.get(id) {
                    Some(is_known) => *is_known,
                    None => exists(registry, id).await.map_err(failed)?,
                };
                known.insert(id.clone(), is_known);
                if !is_known {
                    let reason =
                        format!("`after` names `{id}`, which is neither in this file nor in the registry");
                    self.mistakes.add(*number, reason);
                }
            }
            match registry.lifecycle.check_folder(&task.id).await {
                Err(error @ TaskError::FolderTaken { .. }) => {
                    self.mistakes.add_error(*number, &registry.failure(&error));
                }
                checked => checked.map_err(failed)?,
            }
        }
        Ok(())
    }

    /// Returns the positions of the tasks in the order in which they are created; empty, and a mistake, if tasks wait for one another.
    fn order(&mut self) -> Vec<usize> {
        creation_order(&self.tasks).unwrap_or_else(|(at, ids)| {
            let ids: Vec<String> = ids.iter().map(|id| format!("`{id}`")).collect();
            let reason = format!("`after` leads back to the task: {}", ids.join(" after "));
            self.mistakes.add(self.numbers[at], reason);
            Vec::new()
        })
    }
}

/// Returns the id in a line that is no task.
fn named_id(line: &str) -> Option<TaskId> {
    let line: Value = serde_json::from_str(line).ok()?;
    TaskId::new(line["id"].as_str()?).ok()
}

/// Whether a task exists, or did before it was deleted.
async fn exists(registry: &Registry, id: &TaskId) -> Result<bool, TaskError> {
    let coordinator = &registry.coordinator;
    Ok(coordinator.task(id.clone()).await?.is_some() || coordinator.deleted_at(id.clone()).await?.is_some())
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
    let mut listed = FileTasks::read(&text, now, args);
    if listed.lines == 0 {
        let message = format!("`{}` has no line with a task", from.display());
        return Err(CliError::new(CliErrorKind::Input, message)
            .hint("each line is an object such as {\"name\": \"Report\", \"hank\": \"./report\"}"));
    }
    listed.check_ids();
    listed.check_registry(registry).await?;
    let order = listed.order();
    listed.mistakes.check(from, listed.lines)?;
    let rows = create_in(registry, &listed.tasks, &order).await?;
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
        let (wait, them) = match rows.len() {
            1 => ("1 task waits".to_owned(), "it"),
            many => (format!("{many} tasks wait"), "them"),
        };
        let after = rows.iter().filter(|row| !row.after.is_empty()).count();
        let after = match after {
            0 => String::new(),
            some => format!(", {some} of them after other tasks"),
        };
        print_hint(&format!(
            "{wait} for a worker{after}; {}",
            takers(registry, them, None).await?
        ));
        limits_of(&rows).iter().for_each(|line| print_hint(line));
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the limits of tasks, a line each that names the tasks with this limit.
fn limits_of(rows: &[TaskRow]) -> Vec<String> {
    // Tasks often share a hank, which is read once.
    let mut read: BTreeMap<(PathBuf, Vec<String>), Vec<String>> = BTreeMap::new();
    let mut lines: Vec<(String, Vec<&TaskId>)> = Vec::new();
    for row in rows {
        let Ok(spec) = TaskSpec::read(row.record.metadata()) else {
            continue;
        };
        let key = (spec.hank.clone(), spec.arguments.clone());
        let limits = read
            .entry(key)
            .or_insert_with(|| TaskLimits::of(&spec).map_or_else(Vec::new, |limits| limits.lines()));
        for limit in limits.iter() {
            match lines.iter_mut().find(|(line, _)| line == limit) {
                Some((_, ids)) => ids.push(row.id()),
                None => lines.push((limit.clone(), vec![row.id()])),
            }
        }
    }
    let named = |(line, ids): (String, Vec<&TaskId>)| format!("{}: {line}", names(&ids, rows.len()));
    lines.into_iter().map(named).collect()
}

/// Returns the names of tasks out of `all` created ones: `figures, report and 2 more`.
fn names(ids: &[&TaskId], all: usize) -> String {
    if ids.len() == all && all > 1 {
        return "each task".to_owned();
    }
    let named: Vec<&str> = ids.iter().take(NAMED).map(|id| id.as_str()).collect();
    match ids.len().saturating_sub(NAMED) {
        0 => named.join(", "),
        more => format!("{} and {more} more", named.join(", ")),
    }
}

/// Creates the tasks in this order; returns their rows in the order of the file.
async fn create_in(
    registry: &Registry,
    tasks: &[NewTask],
    order: &[usize],
) -> Result<Vec<TaskRow>, CliError> {
    let ordered = order.iter().map(|at| tasks[*at].clone()).collect();
    let rows = registry.coordinator.create_all(ordered).await;
    let rows = rows.map_err(|error| registry.failure(&error))?;
    let mut placed: Vec<_> = order.iter().zip(rows).collect();
    placed.sort_by_key(|(at, _)| **at);
    Ok(placed.into_iter().map(|(_, row)| row).collect())
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
