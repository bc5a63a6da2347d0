//! `hankweave journal`: prints the journal, the recorded events of a run.

use std::fmt::Write as _;
use std::io::{self, IsTerminal as _};
use std::process::ExitCode;

use hankweave_core::wire::JournalEntry;
use hankweave_runtime::journal::TailLine;

use crate::args::{Global, JournalArgs};
use crate::recorded::{self, Follow, JournalRange, LineSink};
use crate::terminal::exit::CliError;
use crate::terminal::report::record_text;
use crate::terminal::screen::{JsonLines, SafeText, local_second, print, with_local_times};

/// Prints the journal: as sentences on a terminal; elsewhere its lines of JSON, in which invisible characters are escaped (CLI-12).
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
        follow: if args.follow { Follow::Always } else { Follow::No },
        quiet: global.quiet,
    };
    recorded::read(&args.execution.execution, part, &mut lines)
}

struct Journal<'a> {
    /// Kinds of events to print; empty for all.
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

/// Returns `   12  Nov 23 23:50:42  outline: the agent works`. An event that only a newer version knows is shown by its kind.
pub(crate) fn sentence(line: TailLine<'_>) -> String {
    let entry = JournalEntry::from_json(line.bytes).ok();
    let time = entry.as_ref().map(|entry| local_second(entry.timestamp));
    let words = entry.and_then(|entry| record_text(&entry.event));
    let words = words.unwrap_or_else(|| match recorded::codon(line) {
        Some(codon) => format!("{codon}: {}", line.kind),
        None => line.kind.to_owned(),
    });
    format!(
        "{:>6}  {}  {}",
        line.seq,
        time.unwrap_or_default(),
        with_local_times(&words)
    )
}
