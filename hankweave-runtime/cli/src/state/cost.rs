//! `hankweave cost`

use std::collections::HashSet;
use std::fmt::Write;
use std::process::ExitCode;

use hankweave_core::codon::{BudgetExceeded, CodonExecution, CodonStatus, SentinelState};
use hankweave_core::cost::{TokenUsage, Usd};
use hankweave_core::document::{RunRecord, RunStatus};
use hankweave_core::id::{CodonId, RunId, SentinelId};
use hankweave_core::thread;
use serde::Serialize;

use super::look;
use crate::args::{Global, StateCostArgs};
use crate::exit::{CliError, CliErrorKind};
use crate::output;
use crate::owning_task::OwningTask;
use crate::report::{RunProcess, at_its_budget, codon_standing, money, run_standing, tokens_at_least};

pub(crate) fn cost(global: &Global, args: &StateCostArgs) -> Result<ExitCode, CliError> {
    let state = look::read(&args.document)?;
    let count = match &args.since {
        None => state.runs.len(),
        Some(text) => {
            let id = look::named_run(&state, text, &args.document)?;
            state
                .runs
                .iter()
                .position(|run| run.run_id == id)
                .ok_or_else(|| {
                    CliError::new(CliErrorKind::Input, format!("run `{id}` does not exist")).hint(format!(
                        "`{}` lists the runs",
                        look::history_command(&args.document)
                    ))
                })?
                + 1
        }
    };
    let execution = &args.document.execution.execution;
    let process = look::process_of(args.document.state.as_deref(), execution, &state);
    let thread = thread::build(&state, None, None);
    let undone = thread.undone_attempts(&state);
    let cost_of = |run| RunCost::of(run, process, &undone);
    let runs: Vec<RunCost> = state.runs.iter().take(count).map(|run| cost_of(run)).collect();
    let current = state.current_run().map(cost_of);
    let is_whole = args.document.state.is_none() && args.since.is_none();
    let task = is_whole.then(|| OwningTask::of(execution).map(OwningTask::looked_up));
    let task = task.flatten();
    // Runs of a worker that was lost may be recorded elsewhere alone.
    let is_lower_bound = task.as_ref().is_some_and(OwningTask::cost_is_lower_bound);
    let total = CostTotals::sum(runs.iter().map(|run| run.figures));
    let report = CostReport {
        current_run: CostTotals::sum(current.iter().map(|run| run.figures)),
        total: CostTotals {
            is_lower_bound: total.is_lower_bound || is_lower_bound,
            agents_at_least: total.agents_at_least || is_lower_bound,
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
    // Elsewhere the task may have a larger budget.
    let is_here = is_whole && !task.is_some_and(|task| task.is_elsewhere());
    if is_here && let Some(overrun) = look::overrun(&args.document.execution.execution, &state)? {
        text.push_str(&format!("in all {overrun}\n"));
    }
    output::print_lines(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// Output of `--format json`; runs newest first.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct CostReport<'a> {
    total: CostTotals,
    current_run: CostTotals,
    runs: Vec<RunCost<'a>>,
}

/// The two costs (STATE-47, CLI-11), and the tokens that go with the first.
#[derive(Clone, Copy, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct CostTotals {
    codon_cost: Usd,
    spend: Usd,
    #[serde(rename = "costIsLowerBound", skip_serializing_if = "std::ops::Not::not")]
    is_lower_bound: bool,
    tokens: TokenUsage,
    /// Whether `codon_cost` is a lower bound.
    #[serde(skip)]
    agents_at_least: bool,
    /// Tokens that go with `spend`, those of skipped codons as well.
    #[serde(skip)]
    used: TokenUsage,
    /// Whether more tokens were used than are known.
    #[serde(skip)]
    used_at_least: bool,
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
    /// Returns the figures of a codon; one that works may have used more than is known.
    fn of(codon: &CodonExecution) -> Self {
        let is_lower_bound = codon.spends_at_least();
        Self {
            codon_cost: codon.codon_cost(),
            spend: codon.spend(),
            is_lower_bound,
            tokens: codon.codon_tokens(),
            agents_at_least: is_lower_bound && codon.status() != CodonStatus::Skipped,
            used: codon.agent_tokens(),
            used_at_least: codon.uses_at_least(),
        }
    }

    fn sum(figures: impl Iterator<Item = Self>) -> Self {
        figures.fold(Self::default(), |sum, next| Self {
            codon_cost: sum.codon_cost + next.codon_cost,
            spend: sum.spend + next.spend,
            is_lower_bound: sum.is_lower_bound || next.is_lower_bound,
            tokens: sum.tokens + next.tokens,
            agents_at_least: sum.agents_at_least || next.agents_at_least,
            used: sum.used + next.used,
            used_at_least: sum.used_at_least || next.used_at_least,
        })
    }
}

impl<'a> RunCost<'a> {
    fn of(run: &'a RunRecord, process: RunProcess, undone: &HashSet<(&RunId, usize)>) -> Self {
        let codons = run.codons.iter().enumerate();
        let codons = codons.map(|(at, codon)| CodonCost {
            undone: undone.contains(&(&run.run_id, at)),
            ..CodonCost::of(codon, process)
        });
        let codons: Vec<CodonCost> = codons.collect();
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
    /// Returns the newest attempt of each codon that counts, the oldest first.
    fn newest(&self) -> Vec<&CodonCost<'a>> {
        let newest_first = self.runs.iter().flat_map(|run| run.codons.iter().rev());
        let mut known = HashSet::new();
        let is_newest = |codon: &&CodonCost<'a>| !codon.undone && known.insert(codon.codon_id);
        let mut newest: Vec<_> = newest_first.filter(is_newest).collect();
        newest.reverse();
        newest
    }

    /// Writes the table. What sentinels and skipped codons cost is counted as spent, and has a column only where there is any.
    fn write(&self, has_current_run: bool, text: &mut String) -> std::fmt::Result {
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
        if let Some(run) = self.runs.first().filter(|_| has_current_run) {
            rows.push(CostRow::of("current run".to_owned(), "", run.figures));
        }
        rows.push(CostRow::of("total".to_owned(), "", self.total));
        let name = rows.iter().map(|row| row.name.len()).max().unwrap_or_default();
        let state = rows.iter().map(|row| row.state.len()).max().unwrap_or_default();
        let state = state.max(10);
        let is_same = |row: &CostRow| {
            let [agents, spent] = [&row.cost, &row.spent].map(|amount| amount.trim_start_matches("≥ "));
            agents == spent || agents.is_empty() && spent == Usd::ZERO.to_string()
        };
        let differ = !rows.iter().all(is_same);
        let head = CostRow {
            name: String::new(),
            state: "status",
            cost: "agents".to_owned(),
            spent: "spent".to_owned(),
            tokens: "tokens".to_owned(),
            note: "",
        };
        for row in [head].iter().chain(&rows) {
            write!(text, "{:<name$}  {:<state$}", row.name, row.state)?;
            if differ {
                write!(text, " {:>10}", row.cost)?;
            }
            let line = format!(" {:>11} {:>8}  {}", row.spent, row.tokens, row.note);
            writeln!(text, "{}", line.trim_end())?;
        }
        for codon in self.newest() {
            if let Some(exceeded) = codon.budget_exceeded {
                let limit = at_its_budget(codon.status, exceeded, codon.figures.is_lower_bound);
                writeln!(text, "{}: {limit}", codon.codon_id)?;
            }
        }
        if differ {
            writeln!(text, "agents: cost of the agents, without skipped codons")?;
            writeln!(
                text,
                "spent: all that was paid, with sentinels and skipped codons"
            )?;
        }
        Ok(())
    }
}

/// One line of the table.
struct CostRow {
    name: String,
    state: &'static str,
    cost: String,
    spent: String,
    tokens: String,
    note: &'static str,
}

impl CostRow {
    fn of(name: String, state: &'static str, figures: CostTotals) -> Self {
        Self {
            name,
            state,
            cost: money(figures.codon_cost, figures.agents_at_least),
            spent: money(figures.spend, figures.is_lower_bound),
            tokens: match figures.used.total() {
                0 if figures.used_at_least => "unknown".to_owned(),
                used => tokens_at_least(used, figures.used_at_least),
            },
            note: "",
        }
    }

    fn of_sentinel(sentinel: &SentinelCost<'_>) -> Self {
        Self {
            name: format!("    sentinel {}", sentinel.id),
            state: "",
            cost: String::new(),
            spent: money(sentinel.total_cost, sentinel.is_lower_bound),
            tokens: String::new(),
            note: "",
        }
    }
}
