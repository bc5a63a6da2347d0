//! `hankweave task list`, `find` and `stats`

use std::collections::BTreeMap;
use std::process::ExitCode;

use hankweave_task_model::registry::{TaskCost, TaskRow};
use hankweave_task_model::task::TaskStatus;
use hankweave_tasks::coordinator::{ListQuery, TaskFilter};
use serde_json::json;

use super::show::{in_table, line_with_reason};
use crate::args::{Filter, Global, TaskFindArgs, TaskListArgs};
use crate::exit::CliError;
use crate::output;
use crate::registry::Registry;
use crate::screen::one_line;

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
    print(global, registry, &rows)
}

fn print(global: &Global, registry: &Registry, rows: &[TaskRow]) -> Result<ExitCode, CliError> {
    if global.json() {
        return output::print_json(&json!({"tasks": rows}));
    }
    if rows.is_empty() {
        let create = registry.typed("task create NAME --hank PATH");
        output::print(format!("no task yet; `{create}` creates one\n"))?;
    }
    let about = |row: &TaskRow| {
        if global.verbose > 0 {
            more(row)
        } else {
            String::new()
        }
    };
    let text = rows.iter().map(|row| line_with_reason(row) + &about(row));
    output::print(text.collect::<String>())?;
    Ok(ExitCode::SUCCESS)
}

/// Returns the details of a task for `--verbose`.
fn more(row: &TaskRow) -> String {
    let record = serde_json::to_value(row).unwrap_or_default();
    let told = ["description", "agentId", "attempt", "error", "metadata"];
    let told =
        told.iter()
            .filter(|name| !record[**name].is_null())
            .map(|name| match record[*name].as_str() {
                Some(text) => format!("  {name}: {}\n", one_line(text)),
                None => format!("  {name}: {}\n", one_line(record[*name].to_string())),
            });
    told.collect()
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
        found.extend(page.into_iter().filter(|row| says(row, &query, args.metadata)));
        if is_last {
            return print(global, registry, &found);
        }
    }
}

fn says(row: &TaskRow, query: &str, in_metadata: bool) -> bool {
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

pub(super) const STATUSES: [TaskStatus; 6] = [
    TaskStatus::Pending,
    TaskStatus::Running,
    TaskStatus::Waiting,
    TaskStatus::Completed,
    TaskStatus::Failed,
    TaskStatus::Cancelled,
];

pub(super) async fn counts(registry: &Registry) -> Result<BTreeMap<&'static str, u64>, CliError> {
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

/// Returns the cost of the tasks of each status, all attempts together. Deleted tasks are not among them.
pub(super) async fn costs(registry: &Registry) -> Result<BTreeMap<&'static str, TaskCost>, CliError> {
    let mut costs: BTreeMap<_, _> = STATUSES
        .map(|status| (status.as_str(), TaskCost::default()))
        .into();
    let mut offset = 0;
    loop {
        let page = registry.coordinator.tasks(ListQuery {
            filter: TaskFilter::default(),
            offset,
            limit: Some(PAGE),
        });
        let page = page.await.map_err(|error| registry.failure(&error))?;
        for row in &page {
            let sum = costs.entry(row.record.status().as_str()).or_default();
            *sum = [*sum, TaskCost::of(&row.record).unwrap_or_default()]
                .into_iter()
                .sum();
        }
        offset += PAGE;
        if (page.len() as u64) < PAGE {
            return Ok(costs);
        }
    }
}

pub(super) async fn stats(global: &Global, registry: &Registry) -> Result<ExitCode, CliError> {
    let counts = counts(registry).await?;
    let total: u64 = counts.values().sum();
    let costs = costs(registry).await?;
    let all: TaskCost = costs.values().copied().sum();
    if global.json() {
        let by_status: BTreeMap<_, _> = costs.iter().map(|(status, cost)| (status, cost.cost)).collect();
        return output::print_json(&json!({"total": total, "byStatus": counts, "cost": all.cost,
            "costIsLowerBound": all.cost_is_lower_bound, "costByStatus": by_status}));
    }
    let tasks = if total == 1 { "task" } else { "tasks" };
    let mut text = format!("{total} {tasks}, {}\n", all.cost.display(all.cost_is_lower_bound));
    for status in STATUSES {
        let (name, cost) = (status.as_str(), costs[status.as_str()]);
        text.push_str(&format!(
            "  {name:<10} {:>6} {:>12}\n",
            counts[name],
            in_table(cost)
        ));
    }
    output::print(text)?;
    Ok(ExitCode::SUCCESS)
}
