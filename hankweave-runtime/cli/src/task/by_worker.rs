//! `hankweave task list --workers`: attempts and money of each worker.

use std::collections::BTreeMap;
use std::process::ExitCode;

use hankweave_core::cost::Usd;
use hankweave_task_model::{AttemptCost, TaskExecution};
use hankweave_tasks::coordinator::{ListQuery, TaskFilter};
use serde::Serialize;
use serde_json::json;

use super::executions::{CountedAttempts, OF_LOST, attempts};
use crate::args::Global;
use crate::registry::Registry;
use crate::terminal::exit::CliError;
use crate::terminal::output;
use crate::terminal::screen::one_line;

/// Sum over the attempts of one worker, or of one user who worked by hand.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct WorkerSum {
    attempts: u64,
    /// Number of attempts by their outcome.
    outcomes: BTreeMap<String, u64>,
    cost: Usd,
    /// More was spent than `cost`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    cost_is_lower_bound: bool,
    /// Whether the cost of any attempt is counted; that of attempts by hand is not.
    #[serde(skip)]
    is_counted: bool,
}

impl WorkerSum {
    fn add(&mut self, attempt: &TaskExecution) {
        self.attempts += 1;
        *self.outcomes.entry(attempt.outcome().to_owned()).or_default() += 1;
        self.is_counted |= !matches!(attempt.cost(), AttemptCost::Uncounted);
        match attempt.cost() {
            AttemptCost::Known { cost, is_lower_bound } => {
                self.cost += cost;
                self.cost_is_lower_bound |= is_lower_bound;
            }
            AttemptCost::Unknown => self.cost_is_lower_bound = true,
            AttemptCost::Uncounted => {}
        }
    }

    /// Returns the outcomes in words: `4 completed, 1 failed`.
    fn outcomes(&self) -> String {
        let outcomes = self.outcomes.iter();
        let outcomes: Vec<String> = outcomes
            .map(|(outcome, count)| format!("{count} {outcome}"))
            .collect();
        outcomes.join(", ")
    }
}

/// Prints the sums over all attempts of all tasks, by worker or user.
pub(super) async fn by_worker(global: &Global, registry: &Registry) -> Result<ExitCode, CliError> {
    let all = ListQuery {
        filter: TaskFilter {
            status: None,
            owner: None,
        },
        offset: 0,
        limit: None,
    };
    let rows = registry.coordinator.tasks(all).await;
    let mut sums: BTreeMap<String, WorkerSum> = BTreeMap::new();
    let mut lost = Usd::ZERO;
    for row in rows.map_err(|error| registry.failure(&error))? {
        let attempts = attempts(registry, row.id()).await?;
        let counted = CountedAttempts::of(registry, &row, attempts).await;
        lost += counted.lost;
        for attempt in counted.attempts {
            sums.entry(attempt.agent_id.clone()).or_default().add(&attempt);
        }
    }
    if global.json() {
        return output::print_json(&json!({"workers": sums, "lostAttemptsCost": lost}));
    }
    if sums.is_empty() {
        output::print("no attempt of a task has started\n")?;
        return Ok(ExitCode::SUCCESS);
    }
    let width = sums.keys().map(|name| one_line(name).chars().count()).max();
    let width = width.unwrap_or_default();
    let line = |(name, sum): (&String, &WorkerSum)| {
        let cost = match sum.is_counted {
            true => sum.cost.display(sum.cost_is_lower_bound),
            false => "-".to_owned(),
        };
        format!("{:<width$}  {cost:>18}  {}\n", one_line(name), sum.outcomes())
    };
    let mut text: String = sums.iter().map(line).collect();
    if lost > Usd::ZERO {
        text += &format!("{:<width$}  {lost:>18}  {OF_LOST}\n", "");
    }
    output::print(text)?;
    Ok(ExitCode::SUCCESS)
}
