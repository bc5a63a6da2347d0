//! `hankweave status`

use std::fmt::Write;
use std::process::ExitCode;

use hankweave_core::codon::CodonStatus;
use hankweave_core::state::{HankweaveState, Run};
use hankweave_core::thread::{self, ExecutionThread};
use hankweave_core::wire::Event;
use serde_json::json;

use super::args::{Execution, Global};
use super::exit::Failure;
use crate::report::{self, codon_line, printable};
use crate::runner::CodonSummary;

pub(super) fn status(global: &Global, execution: &Execution) -> Result<ExitCode, Failure> {
    let state = super::state::read_execution(&execution.execution)?;
    let thread = thread::build(&state, None, None);
    let budget = super::state::budget_summary(&execution.execution)?;
    let text = if global.json() {
        let document = json!({
            "currentRunId": state.current_run_id,
            "run": state.runs.front().map(|run| json!({
                "runId": run.run_id,
                "status": run.status,
                "startTime": run.start_time,
                "endTime": run.end_time,
                "codons": run.codons.iter().map(|codon| CodonSummary::of(codon)).collect::<Vec<_>>(),
                "cost": run.codon_cost(),
            })),
            "failed": thread.failed,
            "hasRunningCodon": thread.has_running_codon,
            "nextCodonId": thread.next_codon_id,
            "pendingRollback": state.pending_rollback,
            "commands": commands(&state, &thread).into_iter().map(|(command, _)| command).collect::<Vec<_>>(),
            "plannedCodons": state.execution_plan.len(),
            "totalCost": state.total_cost(),
            "totalSpend": state.total_spend(),
            "budget": budget.as_ref().and_then(|event| serde_json::to_value(event).ok()?.get("data").cloned()),
        });
        format!(
            "{}\n",
            serde_json::to_string_pretty(&document).unwrap_or_default()
        )
    } else {
        let mut text = String::new();
        // Writing to a String cannot fail.
        let _ = write(&mut text, &state, &thread, budget.as_ref());
        text
    };
    super::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

fn write(
    text: &mut String,
    state: &HankweaveState,
    thread: &ExecutionThread,
    budget: Option<&Event>,
) -> std::fmt::Result {
    let Some(run) = state.runs.front() else {
        return writeln!(text, "no run has been recorded yet");
    };
    writeln!(
        text,
        "run {} is {} (since {})",
        run.run_id, run.status, run.start_time
    )?;
    for entry in state.execution_plan.iter() {
        let id = &entry.codon_id;
        match thread.codons.iter().find(|known| known.codon.codon_id() == id) {
            Some(known) => {
                let codon = CodonSummary::of(&known.codon);
                let line = codon_line(codon.status, codon.duration, codon.tokens.total(), codon.cost);
                writeln!(text, "  {:<24} {line}", id.as_str())?;
                if let Some(message) = codon.failure.and_then(|failure| failure.message) {
                    writeln!(text, "    {}", printable(&message))?;
                } else if let Some(exceeded) = codon.budget_exceeded {
                    writeln!(text, "    its budget is used up: {exceeded}")?;
                }
            }
            None => writeln!(text, "  {:<24} planned", id.as_str())?,
        }
    }
    writeln!(
        text,
        "  this run {}, all runs {}, spent {}",
        run.codon_cost(),
        state.total_cost(),
        state.total_spend()
    )?;
    if let Some(Event::BudgetSummary { ceiling, totals, .. }) = budget {
        writeln!(
            text,
            "  {} (when the last run ended)",
            report::budget(ceiling, totals)
        )?;
    }
    if let Some(pending) = &state.pending_rollback {
        let source = &pending.source;
        let codon = source
            .after_codon
            .as_ref()
            .map_or("the beginning", |id| id.as_str());
        let sha = source.checkpoint_sha.short();
        writeln!(
            text,
            "went back to checkpoint {sha} of {codon}, and nothing has run since"
        )?;
    }
    writeln!(text, "{}", outlook(run, thread))?;
    for (command, purpose) in commands(state, thread) {
        writeln!(text, "  {command:<48} {purpose}")?;
    }
    Ok(())
}

/// What one can type here, with what it does.
fn commands(state: &HankweaveState, thread: &ExecutionThread) -> Vec<(String, String)> {
    let mut commands = Vec::new();
    let mut offer = |command: &str, purpose: &str| commands.push((command.to_owned(), purpose.to_owned()));
    if thread.has_running_codon || state.runs.is_empty() {
        return commands;
    }
    let newest = thread.codons.first().map(|entry| entry.codon.as_ref());
    if let Some(next) = &thread.next_codon_id {
        offer("hankweave run", &format!("goes on with {next}"));
    } else if let Some(failed) = newest.filter(|_| thread.failed) {
        let id = failed.codon_id();
        offer(
            "hankweave run",
            "goes back to the last success and on from there, unless `onFailure` says otherwise",
        );
        offer(
            "hankweave run --recover crash-point",
            &format!("keeps the files and runs {id} again"),
        );
        if failed.rig_setup_checkpoint().is_some() {
            offer(
                &format!("hankweave rollback --codon {id} --at rig-setup"),
                &format!("takes the files back to where {id} began"),
            );
        }
    }
    if newest.is_some() {
        offer(
            "hankweave rollback --codon ID",
            "goes back to an earlier codon; `hankweave thread` lists them",
        );
    }
    offer(
        "hankweave run --new",
        "starts from the first codon; the history stays",
    );
    commands
}

/// What is next, or what blocks.
fn outlook(run: &Run, thread: &ExecutionThread) -> String {
    if let Some(next) = &thread.next_codon_id {
        return format!("next: {next}");
    }
    if thread.failed {
        let newest = thread
            .codons
            .first()
            .map_or("", |entry| entry.codon.codon_id().as_str());
        return format!("blocked: {newest} failed");
    }
    if thread.has_running_codon {
        return "a codon is running".to_owned();
    }
    let all_ended = run
        .codons
        .iter()
        .all(|codon| codon.status() != CodonStatus::Failed);
    if all_ended {
        "nothing is left to do".to_owned()
    } else {
        "the plan has ended".to_owned()
    }
}
