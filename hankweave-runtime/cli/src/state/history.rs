//! `hankweave history --all`: every run, with all attempts of its codons, also those that were undone.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::process::ExitCode;

use hankweave_core::codon::{CheckpointType, CodonExecution, CodonStatus};
use hankweave_core::cost::Usd;
use hankweave_core::discovery::ServerLockRecord;
use hankweave_core::document::{HankweaveState, RunRecord, RunStatus, StartingConditions};
use hankweave_core::id::{CheckpointSha, CodonId, RunId};
use hankweave_core::thread::{self, UndoneAttempts};
use hankweave_core::time::Timestamp;
use hankweave_runtime::CodonSummary;
use serde::Serialize;

use super::look;
use crate::args::{Document, Global};
use crate::directory::holder;
use crate::terminal::exit::CliError;
use crate::terminal::output;
use crate::terminal::report::{
    RunProcess, budget_note, codon_line, codon_standing, codon_time, id_width, later_attempt_line,
    loop_check, run_standing,
};
use crate::terminal::screen::{local_period, local_time};

pub(crate) fn history(global: &Global, document: &Document) -> Result<ExitCode, CliError> {
    let state = look::read(document)?;
    let thread = thread::build(&state, None, None);
    let undone = thread.undone_attempts(&state);
    let process = look::process_of(document.state.as_deref(), &document.execution.execution, &state);
    if global.json() {
        return output::print_json(&History::of(&state, process, &undone));
    }
    let mut text = String::new();
    let holder = holder(&document.execution.execution);
    // Writing to a String cannot fail.
    let _ = write(&mut text, &state, &undone, process, holder.as_ref());
    output::print_lines(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// Output of `--format json`; runs newest first, their codons oldest first.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct History<'a> {
    current_run_id: Option<&'a RunId>,
    runs: Vec<RunHistory<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct RunHistory<'a> {
    run_id: &'a RunId,
    status: RunStatus,
    /// Status in the word that people read: a run that was stopped or paused has not failed.
    state: &'static str,
    start_time: Timestamp,
    end_time: Option<Timestamp>,
    starting_conditions: &'a StartingConditions,
    codon_cost: Usd,
    codons: Vec<CodonHistory<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct CodonHistory<'a> {
    codon_id: &'a CodonId,
    status: CodonStatus,
    /// Status in the word that people read: a codon that was stopped or paused has not failed.
    state: &'static str,
    /// Whether it was undone, or the codon has run again.
    undone: bool,
    start_time: Timestamp,
    end_time: Option<Timestamp>,
    codon_cost: Usd,
    checkpoints: Vec<CheckpointMade<'a>>,
}

#[derive(Serialize)]
struct CheckpointMade<'a> {
    #[serde(rename = "type")]
    checkpoint_type: CheckpointType,
    sha: &'a CheckpointSha,
}

impl<'a> History<'a> {
    fn of(state: &'a HankweaveState, process: RunProcess, undone: &UndoneAttempts<'_>) -> Self {
        let runs = state.runs.iter();
        Self {
            current_run_id: state.current_run_id.as_ref(),
            runs: runs.map(|run| RunHistory::of(run, process, undone)).collect(),
        }
    }
}

impl<'a> RunHistory<'a> {
    fn of(run: &'a RunRecord, process: RunProcess, undone: &UndoneAttempts<'_>) -> Self {
        let codons = run.codons.iter().enumerate();
        let codons = codons.map(|(at, codon)| CodonHistory {
            undone: undone.contains(&(&run.run_id, at)),
            ..CodonHistory::of(codon, process)
        });
        Self {
            run_id: &run.run_id,
            status: run.status,
            state: run_standing(run, process),
            start_time: run.start_time,
            end_time: run.end_time,
            starting_conditions: &run.starting_conditions,
            codon_cost: run.codon_cost(),
            codons: codons.collect(),
        }
    }
}

impl<'a> CodonHistory<'a> {
    fn of(codon: &'a CodonExecution, process: RunProcess) -> Self {
        let made = |(checkpoint_type, sha)| CheckpointMade { checkpoint_type, sha };
        Self {
            codon_id: codon.codon_id(),
            status: codon.status(),
            state: codon_standing(codon, process),
            undone: false,
            start_time: *codon.start_time(),
            end_time: codon.end_time().copied(),
            codon_cost: codon.codon_cost(),
            checkpoints: codon.checkpoints().map(made).collect(),
        }
    }
}

/// Returns the oldest attempt of each codon, as its run and the position in that run.
fn oldest_attempts(state: &HankweaveState) -> BTreeMap<&CodonId, (&RunId, usize)> {
    let mut oldest = BTreeMap::new();
    for run in state.runs.iter().rev() {
        for (at, codon) in run.codons.iter().enumerate() {
            oldest.entry(codon.codon_id()).or_insert((&run.run_id, at));
        }
    }
    oldest
}

/// Writes the history, newest run first. `holder` is the lock record of the live process, which measures the time of the open codon.
fn write(
    text: &mut String,
    state: &HankweaveState,
    undone: &UndoneAttempts<'_>,
    process: RunProcess,
    holder: Option<&ServerLockRecord>,
) -> std::fmt::Result {
    if state.runs.is_empty() {
        return writeln!(text, "no run has been recorded yet");
    }
    let codons = state.runs.iter().flat_map(|run| &run.codons);
    let width = id_width(codons.map(|codon| codon.codon_id()));
    let oldest = oldest_attempts(state);
    for run in &state.runs {
        let start = local_time(run.start_time);
        let time = match run.end_time {
            // The time of the crash is unknown: what is recorded is when a later start found the crash.
            Some(found) if run.status == RunStatus::Crashed => {
                format!("started {start}, found at {}", local_time(found))
            }
            end @ Some(_) => local_period(run.start_time, "to", end),
            None if process.is_live() => format!("{start} to now"),
            None => format!("since {start}"),
        };
        writeln!(text, "run {} {} ({time})", run.run_id, run_standing(run, process))?;
        if let Some(source) = run.starting_conditions.source() {
            let place = match &source.after_codon {
                None => "after its beginning".to_owned(),
                Some(codon) if is_interrupted(state, &source.run_id, codon) => format!("with {codon}"),
                Some(codon) => format!("after {codon}"),
            };
            writeln!(text, "  continues run {} {place}", source.run_id)?;
        }
        for (at, codon) in run.codons.iter().enumerate() {
            let summary = CodonSummary::of(codon);
            let is_first = oldest.get(codon.codon_id()) == Some(&(&run.run_id, at));
            let format_line = if is_first { codon_line } else { later_attempt_line };
            let line = format_line(
                codon_standing(codon, process),
                codon_time(codon, process, holder),
                &summary,
            );
            let checkpoint = summary.checkpoint.as_ref().map_or("", CheckpointSha::short);
            let undone = match undone.contains(&(&run.run_id, at)) {
                true => "  undone or run again",
                false => "",
            };
            let note = budget_note(&summary);
            let line = format!(
                "  {:<width$}  {line}  {checkpoint}{note}{undone}",
                summary.codon_id.as_str()
            );
            writeln!(text, "{}", line.trim_end())?;
            if let Some(words) = loop_check(codon) {
                writeln!(text, "    {words}")?;
            }
            if let Some(message) = summary.failure.and_then(|failure| failure.message) {
                writeln!(text, "    {message}")?;
            }
            if let Some(replacement) = codon.replacement() {
                writeln!(text, "    {replacement}")?;
            }
        }
    }
    Ok(())
}

/// Whether the last attempt of a codon in a run was interrupted, so that the next run continues within it.
fn is_interrupted(state: &HankweaveState, run: &RunId, codon: &CodonId) -> bool {
    let attempts = state.run(run).into_iter().flat_map(|run| run.codons.iter().rev());
    let mut attempts = attempts.filter(|attempt| attempt.codon_id() == codon);
    attempts
        .next()
        .is_some_and(|last| last.interruption().is_some() || last.crashed() || !last.is_terminal())
}
