//! `hankweave task list`, `find`, `stats` and `health`

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::Duration;

use hankweave_task_model::registry::TaskRow;
use hankweave_task_model::task::TaskStatus;
use hankweave_tasks::coordinator::{ListQuery, TaskFilter};
use serde_json::json;

use super::show::line;
use crate::args::{Filter, Global, TaskFindArgs, TaskHealthArgs, TaskListArgs};
use crate::exit::{Failure, FailureKind};
use crate::output;
use crate::registry::{Registry, within};
use crate::screen::one_line;

/// How long a registry may take to answer before it counts as away.
const PATIENCE: Duration = Duration::from_secs(10);

/// A task of a worker that is gone is told after this time.
pub(super) const ORPHAN_AFTER: Duration = Duration::from_secs(5 * 60);

/// So many tasks are read at once.
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
) -> Result<ExitCode, Failure> {
    let rows = registry.coordinator.tasks(ListQuery {
        filter: filter(&args.filter),
        offset: args.offset,
        limit: Some(args.limit),
    });
    let rows = rows.await.map_err(|error| registry.failure(&error))?;
    print(global, registry, &rows)
}

fn print(global: &Global, registry: &Registry, rows: &[TaskRow]) -> Result<ExitCode, Failure> {
    if global.json() {
        return output::print_json(&json!({"tasks": rows}));
    }
    if rows.is_empty() {
        let create = registry.typed("task create NAME --hank PATH");
        output::print(format!("no task is there; `{create}` makes one\n"))?;
    }
    let about = |row: &TaskRow| {
        if global.verbose > 0 {
            more(row)
        } else {
            String::new()
        }
    };
    let text = rows.iter().map(|row| line(row) + &about(row));
    output::print(text.collect::<String>())?;
    Ok(ExitCode::SUCCESS)
}

/// What `--verbose` tells of a task.
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
) -> Result<ExitCode, Failure> {
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

pub(super) const STATUSES: [TaskStatus; 5] = [
    TaskStatus::Pending,
    TaskStatus::Running,
    TaskStatus::Completed,
    TaskStatus::Failed,
    TaskStatus::Cancelled,
];

pub(super) async fn counts(registry: &Registry) -> Result<BTreeMap<&'static str, u64>, Failure> {
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

pub(super) async fn stats(global: &Global, registry: &Registry) -> Result<ExitCode, Failure> {
    let counts = counts(registry).await?;
    let total: u64 = counts.values().sum();
    if global.json() {
        return output::print_json(&json!({"total": total, "byStatus": counts}));
    }
    let mut text = format!("{total} {}\n", if total == 1 { "task" } else { "tasks" });
    for status in STATUSES {
        text.push_str(&format!(
            "  {:<10} {:>6}\n",
            status.as_str(),
            counts[status.as_str()]
        ));
    }
    output::print(text)?;
    Ok(ExitCode::SUCCESS)
}

pub(super) async fn health(
    global: &Global,
    registry: &Registry,
    args: &TaskHealthArgs,
) -> Result<ExitCode, Failure> {
    let away = || {
        let message = format!(
            "the registry `{}` does not answer within {} s",
            shown(&registry.url),
            PATIENCE.as_secs()
        );
        Failure::new(FailureKind::Io, message)
    };
    let looked = within(PATIENCE, look(registry, args.details))
        .await
        .ok_or_else(away)??;
    if global.json() {
        return output::print_json(&looked);
    }
    let number = |name: &str| looked[name].as_u64().unwrap_or(0);
    let mut text = format!(
        "{} answers in {} ms\n{} tasks, {} of them running; {} locks are held\n",
        shown(&registry.url),
        number("answerMs"),
        number("tasks"),
        number("running"),
        number("locks"),
    );
    match number("orphans") {
        0 => text.push_str("no task was left behind\n"),
        orphans => text.push_str(&format!(
            "{orphans} tasks were left behind by workers that are gone; the next worker cares for them\n"
        )),
    }
    for id in looked["leftBehind"].as_array().into_iter().flatten() {
        text.push_str(&format!("  left behind: {}\n", id.as_str().unwrap_or_default()));
    }
    for lock in looked["held"].as_array().into_iter().flatten() {
        let name = |name: &str| one_line(lock[name].as_str().unwrap_or_default());
        text.push_str(&format!("  {} is held by {}\n", name("resource"), name("owner")));
    }
    output::print(text)?;
    Ok(ExitCode::SUCCESS)
}

async fn look(registry: &Registry, details: bool) -> Result<serde_json::Value, Failure> {
    let failed = |error| registry.failure(&error);
    let began = tokio::time::Instant::now();
    registry.coordinator.now().await.map_err(failed)?;
    let answer = began.elapsed().as_millis();
    let counts = counts(registry).await?;
    let orphans = registry.coordinator.orphans(ORPHAN_AFTER).await.map_err(failed)?;
    let locks = registry.coordinator.held().await.map_err(failed)?;
    let mut looked = json!({
        "registry": shown(&registry.url), "answerMs": u64::try_from(answer).unwrap_or(u64::MAX),
        "tasks": counts.values().sum::<u64>(), "running": counts["running"], "orphans": orphans.len(), "locks": locks.len(),
    });
    if details {
        looked["leftBehind"] = orphans.iter().map(|row| json!(row.id())).collect();
        looked["held"] = json!(locks);
    }
    Ok(looked)
}

/// The address without what a password would be.
fn shown(url: &str) -> String {
    match (url.split_once("://"), url.rsplit_once('@')) {
        (Some((scheme, _)), Some((_, place))) => format!("{scheme}://…@{place}"),
        _ => url.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_shown_without_its_password() {
        assert_eq!(
            shown("postgres://ann:secret@db:5432/tasks"),
            "postgres://…@db:5432/tasks"
        );
        assert_eq!(shown("sqlite:/x/a@b.db"), "sqlite:/x/a@b.db");
    }
}
