//! `hankweave history`

use std::collections::{BTreeMap, HashSet};
use std::fmt::Write;
use std::process::ExitCode;

use hankweave_core::document::{HankweaveState, PendingRollback};
use hankweave_core::id::{CheckpointSha, CodonId, RunId, SessionId};
use hankweave_core::thread::{self, ExecutionThread};
use hankweave_runtime::CodonSummary;
use serde::Serialize;

use crate::args::{Global, HistoryArgs};
use crate::directory::may_be_live;
use crate::exit::CliError;
use crate::output;
use crate::report::{codon_line, codon_standing, counted, id_width, loop_check, run_standing, style_of};
use crate::screen::{SafeText, print_stderr};
use crate::state;

pub(crate) fn thread(global: &Global, args: &HistoryArgs) -> Result<ExitCode, CliError> {
    let document = state::read(&args.document)?;
    let known = match args.no_checkpoint_validation {
        true => None,
        false => state::known_checkpoints(&args.document, &document, args.known_checkpoints.as_deref())?,
    };
    let run = args
        .run
        .as_deref()
        .map(|text| state::named_run(&document, text, &args.document));
    let run = run.transpose()?;
    let thread = thread::build(&document, run.as_ref(), known.as_deref());
    if let Some(run) = run.as_ref().filter(|run| document.run(run).is_none()) {
        let hint = state::history_command(&args.document);
        print_stderr(format!(
            "note: no run `{run}` is recorded, so its thread is empty\n  hint: `{hint}` lists the runs\n"
        ));
    }
    let sessions = thread.continuation_sessions(&document.execution_plan);
    if global.json() {
        return output::print_json(&ThreadReport {
            thread: &thread,
            sessions,
        });
    }
    let mut text = SafeText::default();
    // Writing to a String cannot fail.
    let pending = document.pending_rollback.as_ref().filter(|_| args.run.is_none());
    let live = may_be_live(args.document.state.as_deref(), &args.document.execution.execution);
    let _ = write(&mut text, pending, (&document, &thread), live);
    output::print_lines(text)?;
    Ok(ExitCode::SUCCESS)
}

/// Output of `--format json` (CLI-8).
#[derive(Serialize)]
struct ThreadReport<'a> {
    #[serde(flatten)]
    thread: &'a ExecutionThread,
    sessions: BTreeMap<&'a CodonId, Option<&'a SessionId>>,
}

fn write(
    text: &mut SafeText,
    pending: Option<&PendingRollback>,
    (document, thread): (&HankweaveState, &ExecutionThread),
    live: bool,
) -> std::fmt::Result {
    if let Some(pending) = pending {
        let sha = pending.source.checkpoint_sha.short();
        writeln!(
            text,
            "rolled back to checkpoint {sha}; the next run continues from there"
        )?;
    }
    writeln!(text, "{}, newest first", numbers(document, thread))?;
    let width = id_width(thread.codons.iter().map(|entry| entry.codon.codon_id()));
    let mut run = None;
    for entry in &thread.codons {
        if run != Some(&entry.run_id) {
            let state = document.run(&entry.run_id);
            let state = state.map_or(entry.run_status.as_str(), |run| run_standing(run, live));
            writeln!(text, "run {} {state}", entry.run_id)?;
            run = Some(&entry.run_id);
        }
        let codon = CodonSummary::of(&entry.codon);
        let line = codon_line(
            codon_standing(&entry.codon, live),
            Some(codon.duration).filter(|_| !entry.codon.crashed()),
            &codon,
        );
        write!(text, "  ")?;
        let style = style_of(codon.status, codon.interrupted_by);
        text.styled(style, format_args!("{:<width$}", codon.codon_id.as_str()))?;
        write!(text, "  {line}")?;
        for checkpoint in &entry.validated_checkpoints {
            write!(
                text,
                "  {} {}",
                checkpoint.checkpoint_type,
                CheckpointSha::short(&checkpoint.sha)
            )?;
        }
        writeln!(text)?;
        if let Some(words) = loop_check(&entry.codon) {
            writeln!(text, "    {words}")?;
        }
    }
    match (&thread.next_codon_id, thread.failed, thread.has_running_codon) {
        (Some(next), ..) => writeln!(text, "next: {next}"),
        (None, true, _) => writeln!(text, "nothing is next: the newest codon failed"),
        (None, false, true) if live => writeln!(text, "nothing is next: a codon is running"),
        (None, false, true) => writeln!(
            text,
            "nothing is next: a codon crashed, its process no longer exists"
        ),
        (None, false, false) => writeln!(text, "nothing is next"),
    }
}

/// `4 codons, 9 attempts in 6 runs; 12 runs are recorded`. A codon of a loop counts once.
fn numbers(document: &HankweaveState, thread: &ExecutionThread) -> String {
    let codons: HashSet<&str> = thread
        .codons
        .iter()
        .map(|entry| entry.codon.codon_id().configured())
        .collect();
    let runs: HashSet<&RunId> = thread.codons.iter().map(|entry| &entry.run_id).collect();
    let recorded = match document.runs.len() {
        all if all == runs.len() => String::new(),
        all => format!("; {} recorded", are(all, "run")),
    };
    format!(
        "{}, {} in {}{recorded}",
        counted(codons.len(), "codon"),
        counted(thread.codons.len(), "attempt"),
        counted(runs.len(), "run")
    )
}

fn are(number: usize, noun: &str) -> String {
    let verb = if number == 1 { "is" } else { "are" };
    format!("{} {verb}", counted(number, noun))
}
