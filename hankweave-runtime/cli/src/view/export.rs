//! `hankweave view --export`: the page as one file (WIRE-43).

use std::collections::VecDeque;
use std::io;
use std::path::Path;
use std::process::ExitCode;

use hankweave_core::id::CodonId;
use hankweave_core::view::{ItemKind, RunView};
use hankweave_core::wire::{CodonDescription, JournalEntry};
use hankweave_runtime::journal::TailLine;
use hankweave_runtime::world::clock::{Clock, SystemClock};
use hankweave_runtime::world::disk::{Disk, RealDisk, replace};
use hankweave_runtime::{RunReport, exported_page};
use serde_json::json;

use super::differences::ExportedDifferences;
use super::no_run;
use crate::args::Global;
use crate::directory::{holder, last_sign};
use crate::owning_task::existing_state_dir;
use crate::receipt;
use crate::recorded::{self, Follow, JournalRange, LineSink};
use crate::terminal::exit::{CliError, CliErrorKind};
use crate::terminal::output;
use crate::terminal::report::counted;
use crate::terminal::screen::print_stderr;
use crate::validate::describe;

/// Size limit of the transcripts in a file, in bytes; the newest ones are taken.
const MAX_EVENTS_BYTES: usize = 32 << 20;

/// Longest report in a file, in bytes.
const MAX_REPORT_BYTES: usize = 512 << 10;

/// Most codons that a file describes although they have not started.
const MAX_DESCRIBED: usize = 50;
/// Most bytes of the prompts in these descriptions together.
const MAX_DESCRIBED_BYTES: usize = 512 << 10;

/// Events that the page makes transcripts from.
const TRANSCRIPT: [&str; 17] = [
    "codon.prompted",
    "codon.fallback",
    "rehearsal.step",
    "rig.setup.completed",
    "assistant.action",
    "tool.result",
    "rig.output",
    "rig.setup.failed",
    "file.updated",
    "sentinel.output",
    "sentinel.error",
    "check.completed",
    "codon.extended",
    "output.truncated",
    "output.unparsed",
    "info",
    "error",
];

/// Writes the page of the recorded runs as one file. It takes no lock, so a live run continues undisturbed.
pub(super) fn export(global: &Global, execution: &Path, file: &Path) -> Result<ExitCode, CliError> {
    refuse_record(&existing_state_dir(execution)?, file)?;
    let mut record = Record::default();
    let part = JournalRange {
        after: 0,
        follow: Follow::No,
        quiet: global.quiet,
    };
    recorded::read(execution, part, &mut record)?;
    if record.view.run.is_none() {
        return Err(no_run(execution));
    }
    if holder(execution).is_none() {
        record.view.note_alive(last_sign(execution));
        record.view.mark_crashed(None);
    }
    if record.cut_at > 0 && !global.quiet {
        print_stderr(format!(
            "the file holds the newest {} MiB of the transcripts; older ones are left out, and `hankweave logs` has them\n",
            MAX_EVENTS_BYTES >> 20
        ));
    }
    record.differences = ExportedDifferences::read(execution, &record.view);
    record.report = report(execution);
    record.described = described(execution, &record.view);
    if !global.quiet {
        print_stderr(left_out(&record));
    }
    let page = exported_page(&record.to_json(execution));
    let failed = |error: io::Error| {
        let message = format!("failed to write `{}`: {error}", file.display());
        CliError::new(CliErrorKind::Io, message)
    };
    replace(&RealDisk, file, page.as_bytes()).map_err(failed)?;
    match global.json() {
        true => output::print_json(&json!({
            "file": file,
            "bytes": page.len(),
            "events": record.events.len(),
            "isWhole": record.cut_at == 0 && record.differences.left_out.is_nothing() && record.report.is_some(),
            "differencesLeftOut": record.differences.left_out,
        })),
        false => {
            output::print(format!(
                "{} ({} KiB)\n",
                file.display(),
                page.len().div_ceil(1_024)
            ))?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// Returns the report, unless it cannot be made or is too long for a page.
fn report(execution: &Path) -> Option<RunReport> {
    let made = receipt::recorded(execution);
    let made = made.inspect_err(|error| tracing::warn!(error = error.message(), "the page has no report"));
    made.ok()
        .filter(|report| report.markdown.len() <= MAX_REPORT_BYTES)
}

/// Describes the first codons that have not started.
fn described(execution: &Path, view: &RunView) -> Vec<CodonDescription> {
    let planned = view.items.iter();
    let planned = planned.filter(|(_, item)| item.kind == ItemKind::Codon && item.attempts.is_empty());
    let planned = planned.filter_map(|(id, _)| id.parse::<CodonId>().ok());
    let described = planned.map_while(|id| describe(execution, &id).ok().flatten());
    let mut bytes = 0;
    let is_room = |description: &CodonDescription| {
        bytes += description.prompt.as_ref().map_or(0, String::len);
        bytes <= MAX_DESCRIBED_BYTES
    };
    described.take(MAX_DESCRIBED).take_while(is_room).collect()
}

/// Returns the notes on what the file leaves out, apart from its transcripts.
fn left_out(record: &Record) -> String {
    let left_out = record.differences.left_out;
    let files = usize::try_from(left_out.files + left_out.lines).unwrap_or(usize::MAX);
    let counts = [(left_out.attempts, "attempt"), (files, "file")];
    let named = counts.iter().filter(|(count, _)| *count > 0);
    let named: Vec<String> = named.map(|(count, what)| counted(*count, what)).collect();
    let mut notes = String::new();
    if !named.is_empty() {
        notes = format!(
            "changes of {} are left out, and `hankweave diff` shows them\n",
            named.join(" and of ")
        );
    }
    if record.report.is_none() {
        notes.push_str("the report is left out, and `hankweave report` prints it\n");
    }
    notes
}

/// Refuses a file in the record of the runs, which only a run writes.
fn refuse_record(state_dir: &Path, file: &Path) -> Result<(), CliError> {
    let folder = match file.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    match (RealDisk.real_path(folder), RealDisk.real_path(state_dir)) {
        (Ok(folder), Ok(state_dir)) if folder.starts_with(&state_dir) => Err(CliError::new(
            CliErrorKind::Usage,
            format!("`{}` is in the record of the runs", file.display()),
        )
        .hint("name a file outside of .hankweave")),
        _ => Ok(()),
    }
}

/// View and transcripts of recorded runs.
#[derive(Default)]
struct Record {
    view: RunView,
    /// Events of the transcripts as the journal has them, each with its number.
    events: VecDeque<(u64, String)>,
    /// Length of these events together.
    bytes: usize,
    /// Number of the newest event that is left out because of the limit; 0 if none is.
    cut_at: u64,
    differences: ExportedDifferences,
    /// `None` if the report is left out.
    report: Option<RunReport>,
    /// Descriptions of codons that have not started.
    described: Vec<CodonDescription>,
}

impl Record {
    /// Adds an event; drops the oldest ones beyond the limit.
    fn keep(&mut self, seq: u64, event: &str) {
        self.bytes += event.len();
        self.events.push_back((seq, event.to_owned()));
        while self.bytes > MAX_EVENTS_BYTES
            && let Some((seq, oldest)) = self.events.pop_front()
        {
            self.bytes -= oldest.len();
            self.cut_at = seq;
        }
    }

    fn to_json(&self, execution: &Path) -> String {
        let path = RealDisk.real_path(execution).unwrap_or_default();
        // Only the name, not the path: the file may be sent to others.
        let folder = path.file_name().unwrap_or_default().to_string_lossy();
        let head = json!({
            "at": SystemClock.now(),
            "folder": folder,
            "cutAt": self.cut_at,
            "view": self.view.to_json(),
            "differences": self.differences,
            "report": self.report.as_ref().map(|report| &report.markdown),
            "described": self.described,
            "next": self.report.as_ref().map(|report| &report.next),
        });
        let events: Vec<&str> = self.events.iter().map(|(_, event)| event.as_str()).collect();
        let head = head.to_string();
        // The events are JSON already, so they are added as text.
        let open = head.strip_suffix('}').unwrap_or(&head);
        format!("{open},\"events\":[{}]}}", events.join(","))
    }
}

impl LineSink for Record {
    fn line(&mut self, line: TailLine<'_>) -> io::Result<()> {
        // Events of newer versions say nothing to this one.
        if let Ok(entry) = JournalEntry::from_json(line.bytes) {
            self.view.take(&entry);
            if TRANSCRIPT.contains(&line.kind)
                && let Ok(event) = str::from_utf8(line.bytes)
            {
                self.keep(line.seq, event);
            }
        }
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
