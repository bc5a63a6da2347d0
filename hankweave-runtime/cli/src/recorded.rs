//! Reads the journal of an execution directory for `logs`, `journal` and reports: once, or again and again while it grows.

use std::io;
use std::ops::ControlFlow;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use hankweave_core::id::CodonId;
use hankweave_runtime::ExecutionDir;
use hankweave_runtime::journal::{JournalTail, SkippedInput, TailLine};
use hankweave_runtime::world::disk::RealDisk;
use serde::Deserialize;

use crate::directory::is_served;
use crate::owning_task::existing_state_dir;
use crate::terminal::exit::{CliError, CliErrorKind};
use crate::terminal::screen::print_stderr;

/// Interval at which a followed journal is read: as often as a run syncs it (D5).
const READ_INTERVAL: Duration = Duration::from_millis(200);

/// Time for which a journal is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Follow {
    /// Only up to what is recorded now.
    No,
    /// While a process works in the directory.
    WhileLive,
    /// Until interrupted, also through later runs.
    Always,
}

/// Which part of the journal is read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct JournalRange {
    /// Number of the event after which the part begins; 0 for all.
    pub(crate) after: u64,
    /// Time for which new events are read.
    pub(crate) follow: Follow,
    /// Lines that are missing or damaged are not reported.
    pub(crate) quiet: bool,
}

/// Consumer of the journal's lines.
pub(crate) trait LineSink {
    /// Prints a line, or keeps it until `flush`.
    fn line(&mut self, line: TailLine<'_>) -> io::Result<()>;

    /// Prints the lines that were kept.
    fn flush(&mut self) -> io::Result<()>;
}

/// Passes a part of the journal of an execution directory to `sink`. It takes no lock and writes nothing, so a live run continues undisturbed (CLI-12).
pub(crate) fn read(
    execution: &Path,
    part: JournalRange,
    sink: &mut impl LineSink,
) -> Result<ExitCode, CliError> {
    existing_state_dir(execution)?;
    let dir = ExecutionDir::new(execution.to_owned()).events();
    let mut reader = JournalReader {
        tail: JournalTail::new(Arc::new(RealDisk), dir, part.after),
        sink,
        quiet: part.quiet,
    };
    let result = match part.follow {
        Follow::No => reader.once(),
        Follow::WhileLive => reader.follow(|| is_served(execution)),
        Follow::Always => reader.follow(|| true),
    };
    match result {
        Ok(()) | Err(Stopped::NobodyReads) => Ok(ExitCode::SUCCESS),
        Err(Stopped::Failed(failure)) => Err(failure),
    }
}

/// Returns the codon that a line is about.
pub(crate) fn codon(line: TailLine<'_>) -> Option<CodonId> {
    #[derive(Deserialize)]
    struct Entry {
        data: Data,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Data {
        codon_id: Option<CodonId>,
    }
    serde_json::from_slice::<Entry>(line.bytes).ok()?.data.codon_id
}

/// Sentence of commands that cannot show all that was recorded.
pub(crate) const SHORTENED: &str = "the oldest output of agents and rigs was removed when the journal grew beyond 1 GiB; what agents said is in their own logs, in .hankweave/runs";

/// Returns `3 events` and `were`, for a sentence about events that were removed from the journal.
pub(crate) fn removed(count: u64) -> (String, &'static str) {
    match count {
        1 => ("1 event".to_owned(), "was"),
        _ => (format!("{count} events"), "were"),
    }
}

struct JournalReader<'a, L> {
    tail: JournalTail,
    sink: &'a mut L,
    quiet: bool,
}

/// Why nothing more is printed.
enum Stopped {
    /// The program that reads our output has closed the pipe, which is not a failure (F19).
    NobodyReads,
    Failed(CliError),
}

impl<L: LineSink> JournalReader<'_, L> {
    fn once(&mut self) -> Result<(), Stopped> {
        let skipped = self.print()?;
        self.report_skipped(skipped);
        if skipped.unfinished_bytes > 0 && !self.quiet {
            print_stderr(
                "the last line is not whole and was left out; it is being written, or the next run counts it as damaged\n",
            );
        }
        Ok(())
    }

    /// Reads until `is_live` returns false.
    fn follow(&mut self, is_live: impl Fn() -> bool) -> Result<(), Stopped> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build();
        let runtime =
            runtime.map_err(|error| Stopped::Failed(CliError::from_error(CliErrorKind::Io, &error)))?;
        runtime.block_on(async {
            let mut ticks = tokio::time::interval(READ_INTERVAL);
            loop {
                ticks.tick().await;
                // Checked before reading, so that everything that the run has written before its end is still read.
                let is_over = !is_live();
                let skipped = self.print()?;
                self.report_skipped(skipped);
                if is_over {
                    return Ok(());
                }
            }
        })
    }

    /// Prints the recorded lines that were not printed yet; returns what was skipped among them.
    fn print(&mut self) -> Result<SkippedInput, Stopped> {
        let mut written = Ok(());
        let sink = &mut *self.sink;
        let skipped = self.tail.read(|line| {
            written = sink.line(line);
            match written {
                Ok(()) => ControlFlow::Continue(()),
                Err(_) => ControlFlow::Break(()),
            }
        });
        match written.and_then(|()| self.sink.flush()) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Err(Stopped::NobodyReads),
            Err(error) => return Err(Stopped::Failed(CliError::from_error(CliErrorKind::Io, &error))),
        }
        skipped.map_err(|error| Stopped::Failed(CliError::from_error(CliErrorKind::Io, &error)))
    }

    fn report_skipped(&self, skipped: SkippedInput) {
        if skipped.removed > 0 && !self.quiet {
            let (removed, were) = removed(skipped.removed);
            print_stderr(format!(
                "{removed} of agents and rigs {were} removed when the journal grew beyond 1 GiB; what agents said is in their own logs, in .hankweave/runs\n"
            ));
        }
        if skipped.corrupt_lines > 0 && !self.quiet {
            print_stderr(format!("{} damaged lines were left out\n", skipped.corrupt_lines));
        }
    }
}
