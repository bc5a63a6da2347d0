//! `hankweave status`

use std::fmt::Write;
use std::process::ExitCode;

use hankweave_core::codon::CodonStatus;
use hankweave_core::id::CodonId;
use hankweave_core::state::{HankweaveState, Run, RunStatus};
use hankweave_core::thread::{self, ExecutionThread};
use hankweave_core::wire::Event;
use serde_json::json;

use super::args::{Execution, Global};
use super::exit::Failure;
use super::typed::{Change, Typed};
use crate::paths::ExecutionDir;
use crate::report::{self, codon_line};
use crate::runner::{self, CodonSummary};
use crate::world::disk::RealDisk;

pub(super) fn status(global: &Global, execution: &Execution) -> Result<ExitCode, Failure> {
    let state = super::state::read_execution(&execution.execution)?;
    let thread = thread::build(&state, None, None);
    let look = Look {
        state: &state,
        thread: &thread,
        typed: Typed::about(&execution.execution),
        unfinished: unfinished(execution, &thread),
        budget: super::state::budget_summary(&execution.execution)?,
    };
    if global.json() {
        let document = json!({
            "currentRunId": state.current_run_id,
            "run": state.runs.front().map(|run| json!({
                "runId": run.run_id,
                "status": run.status,
                "startTime": run.start_time,
                "endTime": run.end_time,
                "codons": run.codons.iter().map(|codon| CodonSummary::of(codon)).collect::<Vec<_>>(),
                "cost": run.spend(),
                "costIsLowerBound": run.cost_is_lower_bound(),
            })),
            "failed": thread.failed,
            "hasRunningCodon": thread.has_running_codon,
            "nextCodonId": thread.next_codon_id,
            "unfinishedCodonId": look.unfinished,
            "pendingRollback": state.pending_rollback,
            "commands": look.commands().into_iter().map(|(command, _)| command).collect::<Vec<_>>(),
            "budget": look.budget.as_ref().and_then(|event| serde_json::to_value(event).ok()?.get("data").cloned()),
            "plannedCodons": state.execution_plan.len(),
            "totalCost": state.total_cost(),
            "totalSpend": state.total_spend(),
            "costIsLowerBound": state.cost_is_lower_bound(),
        });
        return super::state::print_json(&document);
    }
    let mut text = String::new();
    // Writing to a String cannot fail.
    let _ = look.write(&mut text);
    super::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// What there is to say.
struct Look<'a> {
    state: &'a HankweaveState,
    thread: &'a ExecutionThread,
    typed: Typed,
    /// The codon that has ended, and what follows its end has not.
    unfinished: Option<CodonId>,
    /// What the last run told of budgets when it ended.
    budget: Option<Event>,
}

impl Look<'_> {
    fn write(&self, text: &mut String) -> std::fmt::Result {
        let Self { state, thread, .. } = self;
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
                    let line = codon_line(
                        codon.status,
                        codon.duration,
                        codon.tokens.total(),
                        &codon.told_cost(),
                    );
                    writeln!(text, "  {:<24} {line}", id.as_str())?;
                    if let Some(message) = codon.failure.and_then(|failure| failure.message) {
                        writeln!(text, "    {message}")?;
                    } else if let Some(exceeded) = codon.budget_exceeded {
                        writeln!(text, "    its budget is used up: {exceeded}")?;
                    }
                }
                None => writeln!(text, "  {:<24} planned", id.as_str())?,
            }
        }
        writeln!(
            text,
            "  this run {}, all runs {}",
            run.spend().told(run.cost_is_lower_bound()),
            state.total_spend().told(state.cost_is_lower_bound())
        )?;
        if let Some(Event::BudgetSummary { ceiling, totals, .. }) = &self.budget {
            let budget = report::budget(ceiling, totals);
            writeln!(text, "  {budget} (when the last run ended)")?;
        }
        if let Some(pending) = &state.pending_rollback {
            let source = &pending.source;
            let codon = source
                .after_codon
                .as_ref()
                .map_or("the beginning", |id| id.as_str());
            let sha = source.checkpoint_sha.short();
            match pending.restored {
                true => writeln!(
                    text,
                    "went back to checkpoint {sha} of {codon}, and nothing has run since"
                ),
                false => writeln!(
                    text,
                    "going back to checkpoint {sha} of {codon} was interrupted; the next start finishes it"
                ),
            }?;
        }
        writeln!(text, "{}", self.outlook(run))?;
        if let Some(id) = &self.unfinished {
            writeln!(
                text,
                "what follows the end of {id} is not done: its results, or its archive"
            )?;
        }
        for (command, purpose) in self.commands() {
            writeln!(text, "  {command:<48} {purpose}")?;
        }
        Ok(())
    }

    /// What one can type here, with what it does.
    fn commands(&self) -> Vec<(String, String)> {
        let Self {
            state, thread, typed, ..
        } = self;
        let mut commands = Vec::new();
        let mut offer = |command: String, purpose: &str| commands.push((command, purpose.to_owned()));
        if thread.has_running_codon || state.runs.is_empty() {
            return commands;
        }
        let newest = thread.codons.first().map(|entry| entry.codon.as_ref());
        if let Some(next) = &thread.next_codon_id {
            offer(typed.run(), &format!("goes on with {next}"));
        } else if let Some(failed) = newest.filter(|_| self.is_blocked()) {
            let id = failed.codon_id();
            offer(
                typed.run(),
                "goes back to the last success and on from there, unless `onFailure` says otherwise",
            );
            offer(
                typed.run_with(&[Change::Set("recover", "crash-point")]),
                &format!("keeps the files and runs {id} again"),
            );
            if failed.rig_setup_checkpoint().is_some() {
                offer(
                    typed.command(&format!("rollback --codon {id} --at rig-setup")),
                    &format!("takes the files back to where {id} began"),
                );
            }
        }
        if newest.is_some() {
            offer(
                typed.command("thread"),
                "lists the checkpoints to which `rollback --to SHA` goes back",
            );
        }
        if self.unfinished.is_some() && thread.next_codon_id.is_none() && !self.is_blocked() {
            offer(typed.run(), "finishes that");
        }
        offer(
            typed.run_with(&[Change::Flag("new")]),
            "starts from the first codon; the history stays",
        );
        commands
    }

    /// What is next, or what blocks.
    fn outlook(&self, run: &Run) -> String {
        let thread = &self.thread;
        if let Some(next) = &thread.next_codon_id {
            return format!("next: {next}");
        }
        if self.is_blocked() {
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

    /// Whether a failure keeps the next run from simply going on. A run that completed all the same had ignored it ("hank configuration",
    /// section 6.4).
    fn is_blocked(&self) -> bool {
        let newest = self.thread.codons.first();
        let completed = newest.is_some_and(|entry| entry.run_status == RunStatus::Completed);
        self.thread.failed && !(completed && self.state.pending_rollback.is_none())
    }
}

/// The newest codon, when a note says that something of it is still to be done.
fn unfinished(execution: &Execution, thread: &ExecutionThread) -> Option<CodonId> {
    let dir = ExecutionDir::new(execution.execution.clone());
    let newest = thread.codons.first().filter(|_| !thread.has_running_codon)?;
    runner::is_unfinished(&RealDisk, &dir, newest).then(|| newest.codon.codon_id().clone())
}
