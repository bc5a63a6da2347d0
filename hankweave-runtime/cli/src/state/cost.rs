//! `hankweave cost`

use std::fmt::Write;
use std::process::ExitCode;

use hankweave_core::codon::{CodonExecution, CodonStatus, SentinelState};
use hankweave_core::cost::{TokenUsage, Usd};
use hankweave_core::document::{RunRecord, RunStatus};
use hankweave_core::id::{CodonId, RunId, SentinelId};
use serde::Serialize;

use super::look;
use crate::args::{Global, StateCostArgs};
use crate::exit::{CliError, CliErrorKind};
use crate::output;

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
    let runs: Vec<RunCost> = state
        .runs
        .iter()
        .take(count)
        .map(|run| RunCost::of(run))
        .collect();
    let current = state.current_run().map(RunCost::of);
    let report = CostReport {
        current_run: CostTotals::sum(current.iter().map(|run| run.figures)),
        total: CostTotals::sum(runs.iter().map(|run| run.figures)),
        runs,
    };
    if global.json() {
        return output::print_json(&report);
    }
    let mut text = String::new();
    // Writing to a String cannot fail.
    let _ = report.write(&mut text);
    output::print(&text)?;
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
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct RunCost<'a> {
    run_id: &'a RunId,
    status: RunStatus,
    #[serde(flatten)]
    figures: CostTotals,
    codons: Vec<CodonCost<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct CodonCost<'a> {
    codon_id: &'a CodonId,
    status: CodonStatus,
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
    fn of(codon: &CodonExecution) -> Self {
        Self {
            codon_cost: codon.codon_cost(),
            spend: codon.spend(),
            is_lower_bound: codon.cost_is_lower_bound(),
            tokens: codon.codon_tokens(),
        }
    }

    fn sum(figures: impl Iterator<Item = Self>) -> Self {
        figures.fold(Self::default(), |sum, next| Self {
            codon_cost: sum.codon_cost + next.codon_cost,
            spend: sum.spend + next.spend,
            is_lower_bound: sum.is_lower_bound || next.is_lower_bound,
            tokens: sum.tokens + next.tokens,
        })
    }
}

impl<'a> RunCost<'a> {
    fn of(run: &'a RunRecord) -> Self {
        let codons: Vec<CodonCost> = run.codons.iter().map(|codon| CodonCost::of(codon)).collect();
        Self {
            run_id: &run.run_id,
            status: run.status,
            figures: CostTotals::sum(codons.iter().map(|codon| codon.figures)),
            codons,
        }
    }
}

impl<'a> CodonCost<'a> {
    fn of(codon: &'a CodonExecution) -> Self {
        Self {
            codon_id: codon.codon_id(),
            status: codon.status(),
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

impl CostReport<'_> {
    fn write(&self, text: &mut String) -> std::fmt::Result {
        writeln!(
            text,
            "{:<38} {:>20} {:>10} {:>18} {:>12}",
            "", "status", "cost", "spent", "tokens"
        )?;
        for run in &self.runs {
            line(
                text,
                &format!("run {}", run.run_id),
                &run.status.to_string(),
                run.figures,
            )?;
            for codon in &run.codons {
                line(
                    text,
                    &format!("  {}", codon.codon_id),
                    codon.status.as_str(),
                    codon.figures,
                )?;
                for sentinel in &codon.sentinels {
                    let name = format!("    sentinel {}", sentinel.id);
                    let cost = sentinel.total_cost.display(sentinel.is_lower_bound);
                    writeln!(text, "{name:<38} {:>20} {:>10} {cost:>18}", "", "")?;
                }
            }
        }
        line(text, "current run", "", self.current_run)?;
        line(text, "total", "", self.total)
    }
}

fn line(text: &mut String, name: &str, status: &str, figures: CostTotals) -> std::fmt::Result {
    let cost = match figures.is_lower_bound && figures.codon_cost == Usd::ZERO {
        true => figures.codon_cost.display(true),
        false => figures.codon_cost.to_string(),
    };
    let spend = figures.spend.display(figures.is_lower_bound);
    let tokens = figures.tokens.total();
    writeln!(
        text,
        "{name:<38} {status:>20} {cost:>10} {spend:>18} {tokens:>12}"
    )
}
