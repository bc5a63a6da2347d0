//! `hankweave task list`, `find` and `stats`

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::process::ExitCode;

use hankweave_core::id::TaskId;
use hankweave_task_model::registry::{TaskCost, TaskRow};
use hankweave_task_model::task::TaskStatus;
use hankweave_tasks::coordinator::{ListQuery, TaskFilter};
use serde_json::{Value, json};

use super::create::print_hint;
use super::executions::attempts;
use super::reasons::{needed_budget, reasons};
use super::row_line::{LineWidths, in_table, write_with};
use super::show::costs_so_far;
use crate::args::{Filter, Global, TaskFindArgs, TaskListArgs};
use crate::holding::{AbsentWorker, TaskHolders};
use crate::present_workers::{present, words};
use crate::registry::Registry;
use crate::running_tasks::{absent_worker, cost_so_far};
use crate::terminal::exit::CliError;
use crate::terminal::output;
use crate::terminal::screen::{SafeText, one_line};

/// Number of tasks read at once.
const PAGE: u64 = 500;

fn filter(given: &Filter) -> TaskFilter {
    TaskFilter {
        status: given.status,
        owner: given.owner.clone(),
    }
}

pub(super) async fn list(
    global: &Global,
    registry: &Registry,
    args: &TaskListArgs,
) -> Result<ExitCode, CliError> {
    let rows = registry.coordinator.tasks(ListQuery {
        filter: filter(&args.filter),
        offset: args.offset,
        limit: Some(args.limit),
    });
    let rows = rows.await.map_err(|error| registry.failure(&error))?;
    print_rows(global, registry, &rows, &args.filter).await
}

/// Prints rows, each with its reason and cost, and hints below them.
async fn print_rows(
    global: &Global,
    registry: &Registry,
    rows: &[TaskRow],
    filter: &Filter,
) -> Result<ExitCode, CliError> {
    if global.json() {
        let rows = with_workers(registry, rows).await?;
        return output::print_json(&json!({"tasks": rows}));
    }
    if rows.is_empty() {
        output::print(none_found(registry, filter).await?)?;
    }
    let reasons = reasons(registry, rows).await?;
    let costs = costs_so_far(registry, rows).await;
    let (mut text, widths) = (SafeText::default(), LineWidths::of(rows));
    for ((row, reason), cost) in rows.iter().zip(reasons).zip(costs) {
        let at = *row.record.created_at();
        // Writing to a text cannot fail.
        let _ = write_with(row, at, cost, reason, widths, &mut text);
        if global.verbose > 0 {
            let attempts = attempts(registry, row.id()).await?.len();
            let _ = text.write_str(&verbose_lines(row, attempts));
        }
    }
    output::print(text)?;
    if !global.quiet {
        print_next(registry, rows).await?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints below a list the workers of its tasks, and the commands for tasks that need their user.
async fn print_next(registry: &Registry, rows: &[TaskRow]) -> Result<(), CliError> {
    let has = |status| rows.iter().any(|row| row.record.status() == status);
    let command = |what: &str| registry.command(&format!("task {what} ID"));
    if has(TaskStatus::Waiting) {
        let line = format!(
            "waiting: `{}` or `{}` answers",
            command("approve"),
            command("deny")
        );
        print_hint(&line);
    }
    let ended = [TaskStatus::Failed, TaskStatus::Cancelled];
    let ended: Vec<&str> = ended
        .into_iter()
        .filter(|status| has(*status))
        .map(TaskStatus::as_str)
        .collect();
    if !ended.is_empty() {
        let (show, resume) = (command("show"), command("resume"));
        let is_spent = rows.iter().any(|row| needed_budget(row).is_some());
        let more = if is_spent {
            ", with a larger --max-cost or --max-time where its budget is used up"
        } else {
            ""
        };
        print_hint(&format!(
            "{}: `{show}` says more, `{resume}` lets a worker continue the task{more}",
            ended.join(", ")
        ));
    }
    if has(TaskStatus::Pending) || has(TaskStatus::Running) {
        let workers = words(&present(registry).await?, &registry.command("worker"));
        print_hint(&format!("workers: {workers}"));
    }
    Ok(())
}

/// Returns the rows for JSON. If a task's worker does not work, its row says why, as `status` does.
async fn with_workers(registry: &Registry, rows: &[TaskRow]) -> Result<Vec<Value>, CliError> {
    let holders = TaskHolders::of(registry, rows).await?;
    let with_worker = |row: &TaskRow| {
        let mut json = json!(row);
        let absent = holders
            .as_ref()
            .and_then(|holders| absent_worker(registry, holders, row));
        if let Some(absent) = absent {
            json["worker"] = absent.in_short().into();
        }
        json
    };
    Ok(rows.iter().map(with_worker).collect())
}

/// Returns the line for an empty list: there is no task, or none that passes the filter.
async fn none_found(registry: &Registry, filter: &Filter) -> Result<String, CliError> {
    let all: u64 = counts(registry).await?.values().sum();
    let status = filter
        .status
        .map_or_else(String::new, |status| format!(" is {status}"));
    Ok(match all {
        0 => {
            let create = registry.command("task create NAME --hank PATH");
            format!("no task yet; `{create}` creates one\n")
        }
        _ if status.is_empty() => format!("none of {} is asked for\n", counted_tasks(all)),
        _ => format!("none of {}{status}\n", counted_tasks(all)),
    })
}

fn counted_tasks(number: u64) -> String {
    let tasks = if number == 1 { "task" } else { "tasks" };
    format!("{number} {tasks}")
}

/// Returns the details of a task for `--verbose`.
fn verbose_lines(row: &TaskRow, attempts: usize) -> String {
    let record = serde_json::to_value(row).unwrap_or_default();
    let names = ["description", "agentId", "error", "metadata"];
    let lines =
        names
            .iter()
            .filter(|name| !record[**name].is_null())
            .map(|name| match record[*name].as_str() {
                Some(text) => format!("  {name}: {}\n", one_line(text)),
                None => format!("  {name}: {}\n", one_line(record[*name].to_string())),
            });
    lines.chain([format!("  attempts: {attempts}\n")]).collect()
}

pub(super) async fn find(
    global: &Global,
    registry: &Registry,
    args: &TaskFindArgs,
) -> Result<ExitCode, CliError> {
    let query = args.query.to_lowercase();
    let (mut found, mut offset) = (Vec::new(), 0);
    loop {
        let page = registry.coordinator.tasks(ListQuery {
            filter: filter(&args.filter),
            offset,
            limit: Some(PAGE),
        });
        let page = page.await.map_err(|error| registry.failure(&error))?;
        offset += PAGE;
        let is_last = (page.len() as u64) < PAGE;
        found.extend(
            page.into_iter()
                .filter(|row| matches_query(row, &query, args.metadata)),
        );
        if is_last {
            return print_rows(global, registry, &found, &args.filter).await;
        }
    }
}

/// Whether id, name, description or, if wanted, the metadata of a task contain `query`, which is in lower case.
fn matches_query(row: &TaskRow, query: &str, in_metadata: bool) -> bool {
    let record = serde_json::to_value(row).unwrap_or_default();
    let mut texts = vec![row.id().to_string()];
    texts.extend(
        ["name", "description"]
            .iter()
            .filter_map(|name| record[name].as_str().map(str::to_owned)),
    );
    if in_metadata {
        texts.push(record["metadata"].to_string());
    }
    texts.iter().any(|text| text.to_lowercase().contains(query))
}

/// Statuses of the tasks that a registry lists, in the order of all tables; deleted tasks are not listed.
pub(crate) const STATUSES: [TaskStatus; 6] = [
    TaskStatus::Pending,
    TaskStatus::Running,
    TaskStatus::Waiting,
    TaskStatus::Completed,
    TaskStatus::Failed,
    TaskStatus::Cancelled,
];

/// Returns the number of tasks of each status.
pub(crate) async fn counts(registry: &Registry) -> Result<BTreeMap<&'static str, u64>, CliError> {
    let mut counts = BTreeMap::new();
    for status in STATUSES {
        let filter = TaskFilter {
            status: Some(status),
            owner: None,
        };
        let count = registry.coordinator.count(filter).await;
        counts.insert(status.as_str(), count.map_err(|error| registry.failure(&error))?);
    }
    Ok(counts)
}

/// Returns all tasks of a status.
pub(crate) async fn all_of(registry: &Registry, status: TaskStatus) -> Result<Vec<TaskRow>, CliError> {
    let query = ListQuery {
        filter: TaskFilter {
            status: Some(status),
            owner: None,
        },
        offset: 0,
        limit: None,
    };
    let rows = registry.coordinator.tasks(query).await;
    rows.map_err(|error| registry.failure(&error))
}

/// Running tasks of a registry.
pub(crate) struct RunningTasks {
    /// Number of those that a worker holds.
    pub(crate) held: u64,
    /// Number of those that no worker holds.
    pub(crate) unheld: u64,
    /// Tasks on which no worker works now, with the reason.
    pub(super) absent: Vec<(TaskId, AbsentWorker)>,
}

/// Returns the running tasks.
pub(crate) async fn running(registry: &Registry) -> Result<RunningTasks, CliError> {
    let rows = all_of(registry, TaskStatus::Running).await?;
    let mut running = RunningTasks {
        held: 0,
        unheld: 0,
        absent: Vec::new(),
    };
    let Some(holders) = TaskHolders::of(registry, &rows).await? else {
        return Ok(running);
    };
    for row in &rows {
        match holders.worker(row) {
            Some(_) => running.held += 1,
            None => running.unheld += 1,
        }
        let absent = absent_worker(registry, &holders, row);
        running
            .absent
            .extend(absent.map(|absent| (row.id().clone(), absent)));
    }
    Ok(running)
}

/// Returns the cost of the tasks of each status, all attempts together; a status is absent if no worker has run any of its tasks. Deleted tasks
/// do not count.
async fn known_costs(registry: &Registry) -> Result<BTreeMap<&'static str, TaskCost>, CliError> {
    let mut costs: BTreeMap<&'static str, TaskCost> = BTreeMap::new();
    let mut offset = 0;
    loop {
        let page = registry.coordinator.tasks(ListQuery {
            filter: TaskFilter::default(),
            offset,
            limit: Some(PAGE),
        });
        let page = page.await.map_err(|error| registry.failure(&error))?;
        for row in &page {
            if let Some(cost) = cost_so_far(registry, row).await {
                let sum = costs.entry(row.record.status().as_str()).or_default();
                *sum = [*sum, cost].into_iter().sum();
            }
        }
        offset += PAGE;
        if (page.len() as u64) < PAGE {
            return Ok(costs);
        }
    }
}

/// Returns the cost of the tasks of every status, zero if no worker has run any of its tasks.
pub(super) async fn costs(registry: &Registry) -> Result<BTreeMap<&'static str, TaskCost>, CliError> {
    let known = known_costs(registry).await?;
    let of = |status: TaskStatus| known.get(status.as_str()).copied().unwrap_or_default();
    Ok(STATUSES.map(|status| (status.as_str(), of(status))).into())
}

pub(super) async fn stats(global: &Global, registry: &Registry) -> Result<ExitCode, CliError> {
    let counts = counts(registry).await?;
    let total: u64 = counts.values().sum();
    let known = known_costs(registry).await?;
    let all: TaskCost = known.values().copied().sum();
    if global.json() {
        let of = |status: TaskStatus| known.get(status.as_str()).copied().unwrap_or_default();
        let by_status: BTreeMap<_, _> = STATUSES.map(|status| (status.as_str(), of(status).cost)).into();
        let unknown: Vec<_> = STATUSES
            .into_iter()
            .filter(|status| of(*status).cost_is_lower_bound)
            .map(TaskStatus::as_str)
            .collect();
        return output::print_json(&json!({"total": total, "byStatus": counts, "cost": all.cost,
            "costIsLowerBound": all.cost_is_lower_bound, "costByStatus": by_status,
            "costIsLowerBoundIn": unknown}));
    }
    let cost = match all.cost.display(all.cost_is_lower_bound) {
        unknown if unknown == "unknown" => "cost unknown".to_owned(),
        cost => cost,
    };
    let mut text = format!("{}, {cost}\n", counted_tasks(total));
    for status in STATUSES {
        let name = status.as_str();
        let cost = known
            .get(name)
            .map_or_else(|| "-".to_owned(), |cost| in_table(*cost));
        text.push_str(&format!("  {name:<10} {:>6} {cost:>12}\n", counts[name]));
    }
    output::print(text)?;
    Ok(ExitCode::SUCCESS)
}
