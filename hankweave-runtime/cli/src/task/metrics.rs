//! `hankweave task metrics`: current figures of a registry by name, as lines, CSV or JSON.

use std::process::ExitCode;

use hankweave_task_model::registry::TaskCost;
use serde_json::{Value, json};

use super::health::ORPHAN_AFTER;
use super::list::{STATUSES, costs, counts};
use crate::args::{Global, TaskMetricsArgs};
use crate::present_workers::present;
use crate::registry::Registry;
use crate::terminal::exit::CliError;
use crate::terminal::output;

/// Prints the current figures of the registry, which are the same for every program that uses it (TASK-107).
pub(super) async fn metrics(
    global: &Global,
    registry: &Registry,
    args: &TaskMetricsArgs,
) -> Result<ExitCode, CliError> {
    let rows = rows(registry).await?;
    if global.json() || args.j {
        let object: serde_json::Map<String, Value> = rows.into_iter().collect();
        return output::print_json(&json!({"metrics": object}));
    }
    let text: String = match args.csv {
        true => std::iter::once("name,value\n".to_owned())
            .chain(
                rows.iter()
                    .map(|(name, value)| format!("{},{value}\n", field(name))),
            )
            .collect(),
        false => rows
            .iter()
            .map(|(name, value)| format!("{:<40} {value:>10}\n", crate::terminal::screen::one_line(name)))
            .collect(),
    };
    output::print(text)?;
    Ok(ExitCode::SUCCESS)
}

async fn rows(registry: &Registry) -> Result<Vec<(String, Value)>, CliError> {
    let failed = |error| registry.failure(&error);
    let counts = counts(registry).await?;
    let orphans = registry.coordinator.orphans(ORPHAN_AFTER).await.map_err(failed)?;
    let locks = registry.locks.summary().await.map_err(failed)?;
    let mut rows = vec![("tasks_total".to_owned(), json!(counts.values().sum::<u64>()))];
    rows.extend(STATUSES.map(|status| (format!("tasks_{status}"), json!(counts[status.as_str()]))));
    let costs = costs(registry).await?;
    let all: TaskCost = costs.values().copied().sum();
    rows.push(("tasks_cost_usd".to_owned(), json!(all.cost)));
    rows.push((
        "tasks_cost_is_lower_bound".to_owned(),
        json!(u8::from(all.cost_is_lower_bound)),
    ));
    rows.extend(STATUSES.map(|status| {
        (
            format!("tasks_{status}_cost_usd"),
            json!(costs[status.as_str()].cost),
        )
    }));
    rows.push(("tasks_orphaned".to_owned(), json!(orphans.len())));
    let workers = present(registry).await?;
    let idle = workers.iter().filter(|worker| worker.tasks == 0).count();
    rows.push(("workers".to_owned(), json!(workers.len())));
    rows.push(("workers_idle".to_owned(), json!(idle)));
    let slots: u64 = workers.iter().map(|worker| worker.terms.slots).sum();
    rows.push(("workers_slots".to_owned(), json!(slots)));
    rows.push(("locks_active".to_owned(), json!(locks.active_locks)));
    let oldest = locks.oldest_lock.map_or(0, |oldest| oldest.age);
    rows.push(("locks_oldest_ms".to_owned(), json!(oldest)));
    let by_owner = locks.locks_by_owner.into_iter();
    rows.extend(by_owner.map(|(owner, held)| (format!("locks_held{{{owner}}}"), json!(held))));
    Ok(rows)
}

/// Returns a field of CSV (RFC 4180), quoted where its text needs it: users choose these texts freely.
fn field(text: &str) -> String {
    match text.contains(['"', ',', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // covers: TASK-107
    #[test]
    fn a_name_that_anybody_chose_stays_one_field() {
        assert_eq!(field("tasks_total"), "tasks_total");
        assert_eq!(field("locks_held{a\"b,c}"), "\"locks_held{a\"\"b,c}\"");
    }
}
