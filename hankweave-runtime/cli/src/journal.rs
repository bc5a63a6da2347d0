//! `hankweave journal`

use std::fmt::Write as _;
use std::io::{self, IsTerminal as _};
use std::process::ExitCode;

use hankweave_core::event::StateEvent;
use hankweave_core::wire::{Event, JournalEntry};
use hankweave_runtime::journal::TailLine;

use crate::args::{Global, JournalArgs};
use crate::exit::CliError;
use crate::recorded::{self, JournalRange, LineSink};
use crate::report::event_text;
use crate::screen::{JsonLines, SafeText, print};

/// Prints the lines of the journal: as sentences on a terminal, elsewhere as they are, what is hidden in their texts as escapes (CLI-12).
pub(crate) fn journal(global: &Global, args: &JournalArgs) -> Result<ExitCode, CliError> {
    let form = match io::stdout().is_terminal() && !global.json() {
        true => JournalOutput::Sentences(SafeText::default()),
        false => JournalOutput::Json(JsonLines::default()),
    };
    let mut lines = Journal {
        kinds: &args.kinds,
        form,
    };
    let part = JournalRange {
        after: args.after,
        follow: args.follow,
        quiet: global.quiet,
    };
    recorded::read(&args.execution.execution, part, &mut lines)
}

struct Journal<'a> {
    /// Empty for all.
    kinds: &'a [String],
    form: JournalOutput,
}

enum JournalOutput {
    Json(JsonLines),
    Sentences(SafeText),
}

impl LineSink for Journal<'_> {
    fn line(&mut self, line: TailLine<'_>) -> io::Result<()> {
        if !self.kinds.is_empty() && !self.kinds.iter().any(|kind| kind == line.kind) {
            return Ok(());
        }
        match &mut self.form {
            JournalOutput::Json(lines) => lines.line(line.bytes),
            JournalOutput::Sentences(text) => {
                // Writing to a text cannot fail.
                if line.removed > 0 {
                    let (removed, were) = recorded::removed(line.removed);
                    let _ = writeln!(text, "        {removed} of agents and rigs {were} removed here");
                }
                let _ = writeln!(text, "{}", sentence(line));
                print(std::mem::take(text))
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.form {
            JournalOutput::Json(lines) => lines.flush(),
            JournalOutput::Sentences(text) => print(std::mem::take(text)),
        }
    }
}

/// `   12  2026-11-23T23:50:42.876Z  outline: the agent works`. What only programs need is told by its type.
pub(crate) fn sentence(line: TailLine<'_>) -> String {
    let entry = JournalEntry::from_json(line.bytes).ok();
    let time = entry.as_ref().map(|entry| entry.timestamp.to_string());
    let words = entry.and_then(|entry| match &entry.event {
        Event::StateTransition { transition, .. } => Some(change(transition)),
        event => event_text(event),
    });
    let words = words.unwrap_or_else(|| match recorded::codon(line) {
        Some(codon) => format!("{codon}: {}", line.kind),
        None => line.kind.to_owned(),
    });
    format!("{:>6}  {}  {words}", line.seq, time.unwrap_or_default())
}

/// Describes a change of the recorded state.
fn change(event: &StateEvent) -> String {
    let codon = event
        .codon_id()
        .map_or_else(String::new, |codon| format!("{codon}: "));
    let what = match event {
        StateEvent::RunStarted { run_id, .. } => format!("run {run_id} begins"),
        StateEvent::RunCompleted { run_id } => format!("run {run_id} is completed"),
        StateEvent::RunFailed { run_id, .. } => format!("run {run_id} has ended without being completed"),
        StateEvent::RunCrashed { run_id, .. } => format!("run {run_id} crashed"),
        StateEvent::CodonStarted { .. } => "begins".to_owned(),
        StateEvent::CodonTransitioned { from, to, .. } => format!("from {from} to {to}"),
        StateEvent::CheckpointCreated {
            checkpoint_type, sha, ..
        } => format!("checkpoint {} ({checkpoint_type})", sha.short()),
        StateEvent::CostsIncremented { cost_delta, .. } => format!("used {cost_delta} more"),
        StateEvent::CostsUpdated { cost, .. } => format!("has used {cost}"),
        other => other.name().to_owned(),
    };
    format!("{codon}{what}")
}
