//! Command `hankweave cost`: costs and tokens of codons and runs.

use std::collections::HashSet;
use std::fmt::Write;
use std::process::ExitCode;

use hankweave_core::codon::{BudgetExceeded, CodonExecution, CodonStatus, SentinelState};
use hankweave_core::cost::{TokenUsage, Usd};
use hankweave_core::document::{HankweaveState, RunRecord, RunStatus};
use hankweave_core::id::{CodonId, RunId, SentinelId};
use hankweave_core::thread;
use serde::Serialize;

use super::look;
use crate::args::{Document, Global, StateCostArgs};
use crate::owning_task::OwningTask;
use crate::terminal::exit::{CliError, CliErrorKind};
use crate::terminal::output;
use crate::terminal::report::{
    RunProcess, at_its_budget, codon_standing, money, run_standing, tokens_at_least,
};

pub(crate) fn cost(global: &Global, args: &StateCostArgs) -> Result<ExitCode, CliError> {
    let state = look::read(&args.document)?;
    let count = match &args.since {
        None => state.runs.len(),
        Some(run) => count_since(&state, run, &args.document)?,
    };
    let execution = &args.document.execution.execution;
    let process = look::process_of(args.document.state.as_deref(), execution, &state);
    let thread = thread::build(&state, None, None);
    let undone = thread.undone_attempts(&state);
    let cost_of = |run| RunCost::of(run, process, &undone);
    let runs: Vec<RunCost> = state.runs.iter().take(count).map(|run| cost_of(run)).collect();
    let current = state.current_run().map(cost_of);
    let is_whole = args.document.state.is_none() && args.since.is_none();
    let task = if is_whole {
        OwningTask::of(execution).map(OwningTask::looked_up)
    } else {
        None
    };
    // Runs of a lost worker may be recorded on its machine alone.
    let lacks_runs = task.as_ref().is_some_and(OwningTask::cost_is_lower_bound);
    let total = CostTotals::sum(runs.iter().map(|run| run.figures));
    let report = CostReport {
        current_run: CostTotals::sum(current.iter().map(|run| run.figures)),
        total: CostTotals {
            spend_at_least: total.spend_at_least || lacks_runs,
            codon_cost_at_least: total.codon_cost_at_least || lacks_runs,
            ..total
        },
        runs,
    };
    if global.json() {
        return output::print_json(&report);
    }
    let mut text = String::new();
    // Writing to a String cannot fail.
    let _ = report.write(current.is_some() && process.is_live(), &mut text);
    // The budget in this directory is not that of a task that another worker has.
    let has_own_budget = is_whole && !task.is_some_and(|task| task.is_elsewhere());
    if has_own_budget && let Some(overrun) = look::overrun(&args.document.execution.execution, &state)? {
        text.push_str(&format!("in all {overrun}\n"));
    }
    output::print_lines(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// Returns the number of runs from the newest to `run`, which is named by a part of its id.
fn count_since(state: &HankweaveState, run: &str, document: &Document) -> Result<usize, CliError> {
    let id = look::named_run(state, run, document)?;
    let position = state.runs.iter().position(|run| run.run_id == id);
    let position = position.ok_or_else(|| {
        CliError::new(CliErrorKind::Input, format!("run `{id}` does not exist"))
            .hint(format!("`{}` lists the runs", look::history_command(document)))
    })?;
    Ok(position + 1)
}

/// Output of `--format json`; runs newest first.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct CostReport<'a> {
    total: CostTotals,
    current_run: CostTotals,
    runs: Vec<RunCost<'a>>,
}

/// Costs and tokens of a codon, a run or all runs: without skipped codons and sentinels (`codon_cost`, `tokens`), and all that
/// was spent (STATE-47, CLI-11).
#[derive(Clone, Copy, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct CostTotals {
    /// Cost of agents, without skipped codons.
    codon_cost: Usd,
    /// Cost of agents and sentinels, with skipped codons.
    spend: Usd,
    /// Whether `spend` is a lower bound.
    #[serde(rename = "costIsLowerBound", skip_serializing_if = "std::ops::Not::not")]
    spend_at_least: bool,
    /// Tokens of agents, without skipped codons.
    tokens: TokenUsage,
    /// Whether `codon_cost` is a lower bound.
    #[serde(skip)]
    codon_cost_at_least: bool,
    /// Tokens of agents, with skipped codons; those of sentinels are not counted.
    #[serde(skip)]
    all_tokens: TokenUsage,
    /// Whether `all_tokens` is a lower bound.
    #[serde(skip)]
    all_tokens_at_least: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct RunCost<'a> {
    run_id: &'a RunId,
    status: RunStatus,
    /// Status in the word that people read: a run that was stopped or paused has not failed.
    state: &'static str,
    #[serde(flatten)]
    figures: CostTotals,
    codons: Vec<CodonCost<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct CodonCost<'a> {
    codon_id: &'a CodonId,
    status: CodonStatus,
    /// Status in the word that people read: a codon that was stopped or paused has not failed.
    state: &'static str,
    /// A rollback undid it, or a later run repeats it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    undone: bool,
    /// Limit of its budget that it reached.
    #[serde(skip_serializing_if = "Option::is_none")]
    budget_exceeded: Option<BudgetExceeded>,
    #[serde(flatten)]
    figures: CostTotals,
    sentinel_cost: Usd,
    sentinels: Vec<SentinelCost<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SentinelCost<'a> {
    id: &'a SentinelId,
    model: &'a str,
    total_cost: Usd,
    #[serde(rename = "costIsLowerBound", skip_serializing_if = "std::ops::Not::not")]
    is_lower_bound: bool,
    llm_call_count: u64,
}

impl CostTotals {
    /// Returns the figures of a codon. Those of one whose agent is at work are lower bounds: it may be in the middle of an answer.
    fn of(codon: &CodonExecution) -> Self {
        let agent_at_least = codon.uses_at_least();
        Self {
            codon_cost: codon.codon_cost(),
            spend: codon.spend(),
            spend_at_least: codon.spends_at_least(),
            tokens: codon.codon_tokens(),
            // A skipped codon costs exactly nothing here.
            codon_cost_at_least: agent_at_least && codon.status() != CodonStatus::Skipped,
            all_tokens: codon.agent_tokens(),
            all_tokens_at_least: agent_at_least,
        }
    }

    fn sum(figures: impl Iterator<Item = Self>) -> Self {
        figures.fold(Self::default(), |sum, next| Self {
            codon_cost: sum.codon_cost + next.codon_cost,
            spend: sum.spend + next.spend,
            spend_at_least: sum.spend_at_least || next.spend_at_least,
            tokens: sum.tokens + next.tokens,
            codon_cost_at_least: sum.codon_cost_at_least || next.codon_cost_at_least,
            all_tokens: sum.all_tokens + next.all_tokens,
            all_tokens_at_least: sum.all_tokens_at_least || next.all_tokens_at_least,
        })
    }
}

impl<'a> RunCost<'a> {
    fn of(run: &'a RunRecord, process: RunProcess, undone: &HashSet<(&RunId, usize)>) -> Self {
        let numbered = run.codons.iter().enumerate();
        let codons: Vec<CodonCost> = numbered
            .map(|(index, codon)| CodonCost {
                undone: undone.contains(&(&run.run_id, index)),
                ..CodonCost::of(codon, process)
            })
            .collect();
        Self {
            run_id: &run.run_id,
            status: match (run.status, process) {
                (RunStatus::Running, RunProcess::None) => RunStatus::Crashed,
                (status, _) => status,
            },
            state: run_standing(run, process),
            figures: CostTotals::sum(codons.iter().map(|codon| codon.figures)),
            codons,
        }
    }
}

impl<'a> CodonCost<'a> {
    fn of(codon: &'a CodonExecution, process: RunProcess) -> Self {
        Self {
            codon_id: codon.codon_id(),
            status: codon.status(),
            state: codon_standing(codon, process),
            undone: false,
            budget_exceeded: codon.budget_exceeded(),
            figures: CostTotals::of(codon),
            sentinel_cost: codon.sentinel_cost(),
            sentinels: codon.sentinels().iter().map(SentinelCost::of).collect(),
        }
    }
}

impl<'a> SentinelCost<'a> {
    fn of(sentinel: &'a SentinelState) -> Self {
        Self {
            id: &sentinel.id,
            model: &sentinel.model,
            total_cost: sentinel.total_cost,
            is_lower_bound: sentinel.cost_is_lower_bound(),
            llm_call_count: sentinel.llm_call_count,
        }
    }
}

impl<'a> CostReport<'a> {
    /// Returns the newest attempt of each codon that was not undone, the oldest first.
    fn newest(&self) -> Vec<&CodonCost<'a>> {
        let newest_first = self.runs.iter().flat_map(|run| run.codons.iter().rev());
        let mut known = HashSet::new();
        let is_newest = |codon: &&CodonCost<'a>| !codon.undone && known.insert(codon.codon_id);
        let mut newest: Vec<_> = newest_first.filter(is_newest).collect();
        newest.reverse();
        newest
    }

    /// Writes the table. It has a column for agents only where some row spent something else, on sentinels or a skipped codon.
    fn write(&self, has_live_run: bool, text: &mut String) -> std::fmt::Result {
        let mut rows = Vec::new();
        for run in &self.runs {
            rows.push(CostRow::of(format!("run {}", run.run_id), run.state, run.figures));
            for codon in &run.codons {
                let note = if codon.undone { "undone or run again" } else { "" };
                rows.push(CostRow {
                    note,
                    ..CostRow::of(format!("  {}", codon.codon_id), codon.state, codon.figures)
                });
                rows.extend(codon.sentinels.iter().map(CostRow::of_sentinel));
            }
        }
        if has_live_run {
            rows.push(CostRow::of("current run".to_owned(), "", self.current_run));
        }
        rows.push(CostRow::of("total".to_owned(), "", self.total));
        let name_width = rows.iter().map(|row| row.name.len()).max().unwrap_or_default();
        let state_width = rows.iter().map(|row| row.state.len()).fold(10, usize::max);
        let is_same = |row: &CostRow| {
            let [agents, spent] = [&row.agents, &row.spent].map(|amount| amount.trim_start_matches("≥ "));
            agents == spent || agents.is_empty() && spent == Usd::ZERO.to_string()
        };
        let has_agents_column = !rows.iter().all(is_same);
        let head = CostRow {
            name: String::new(),
            state: "status",
            agents: "agents".to_owned(),
            spent: "spent".to_owned(),
            tokens: "tokens".to_owned(),
            note: "",
        };
        for row in [head].iter().chain(&rows) {
            write!(text, "{:<name_width$}  {:<state_width$}", row.name, row.state)?;
            if has_agents_column {
                write!(text, " {:>10}", row.agents)?;
            }
            let line = format!(" {:>11} {:>8}  {}", row.spent, row.tokens, row.note);
            writeln!(text, "{}", line.trim_end())?;
        }
        for codon in self.newest() {
            if let Some(exceeded) = codon.budget_exceeded {
                let limit = at_its_budget(codon.status, exceeded, codon.figures.spend_at_least);
                writeln!(text, "{}: {limit}", codon.codon_id)?;
            }
        }
        if has_agents_column {
            writeln!(text, "agents: cost of the agents, without skipped codons")?;
            writeln!(
                text,
                "spent: all that was paid, with sentinels and skipped codons"
            )?;
        }
        Ok(())
    }
}

/// Row of the table; empty cells stay blank.
struct CostRow {
    name: String,
    state: &'static str,
    agents: String,
    spent: String,
    tokens: String,
    note: &'static str,
}

impl CostRow {
    fn of(name: String, state: &'static str, figures: CostTotals) -> Self {
        Self {
            name,
            state,
            agents: money(figures.codon_cost, figures.codon_cost_at_least),
            spent: money(figures.spend, figures.spend_at_least),
            tokens: match figures.all_tokens.total() {
                0 if figures.all_tokens_at_least => "unknown".to_owned(),
                used => tokens_at_least(used, figures.all_tokens_at_least),
            },
            note: "",
        }
    }

    fn of_sentinel(sentinel: &SentinelCost<'_>) -> Self {
        Self {
            name: format!("    sentinel {}", sentinel.id),
            state: "",
            agents: String::new(),
            spent: money(sentinel.total_cost, sentinel.is_lower_bound),
            tokens: String::new(),
            note: "",
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    // covers: CLI-11, STATE-47
    #[test]
    fn an_uncertain_sentinel_does_not_make_the_cost_of_the_agents_uncertain() {
        let sentinel = json!({"id": "s", "model": "haiku", "loadedAt": "2025-01-04T12:00:00Z", "llmCallCount": 1, "failedLLMCalls": 0,
            "totalCost": 0.25, "uncountedRequests": 1, "status": "unloaded"});
        let codon: CodonExecution = serde_json::from_value(json!({
            "status": "completed", "codonId": "a", "startTime": "2025-01-04T12:00:00Z", "endTime": "2025-01-04T12:00:05Z", "exitCode": 0, "resultMessageReceived": true,
            "finalCost": 1.0, "claudeSessionId": "s", "claudeLogPath": "l", "completionCheckpoint": "7ff2e640f6b747bac8a4cf7f5762064acaeeaee5",
            "finalTokens": {"inputTokens": 1, "outputTokens": 1, "cacheCreationTokens": 0, "cacheReadTokens": 0},
            "sentinels": {"executed": [sentinel], "totalCost": 0.25},
        }))
        .unwrap();
        let row = CostRow::of("a".to_owned(), "completed", CostTotals::of(&codon));
        assert_eq!(
            (row.agents.as_str(), row.spent.as_str()),
            ("$1.0000", "≥ $1.2500")
        );
    }
}
