//! `hankweave logs`

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io;
use std::process::ExitCode;

use anstyle::Style;
use hankweave_core::event::StateEvent;
use hankweave_core::id::{CodonId, SentinelId};
use hankweave_core::wire::{Event, JournalEntry};
use hankweave_runtime::ExecutionDir;
use hankweave_runtime::journal::TailLine;
use hankweave_runtime::world::disk::{Disk as _, IoError, RealDisk, with_suffix};

use crate::args::{Global, LogsArgs};
use crate::exit::{CliError, CliErrorKind};
use crate::owning_task::existing_state_dir;
use crate::recorded::{self, JournalRange, LineSink};
use crate::report::MarkedText;
use crate::screen::{JsonLines, SafeText, local_time, print};

/// Our own log is smaller than this, each half of it (CLI-20).
const SERVER_LOG_BYTES: u64 = 16 << 20;

/// Prints what was said and done, by codon (CLI-22).
pub(crate) fn logs(global: &Global, args: &LogsArgs) -> Result<ExitCode, CliError> {
    if args.server {
        return server(args);
    }
    let mut logs = LogPrinter {
        codon: args.codon(),
        want: SpeakerFilter::of(args),
        all: global.verbose > 0,
        out: match global.json() {
            true => LogsOutput::Json(JsonLines::default()),
            false => LogsOutput::Text(SafeText::default()),
        },
        speaker: None,
        others: BTreeSet::new(),
        removed: 0,
        is_empty: true,
    };
    let part = JournalRange {
        after: 0,
        follow: args.follow,
        quiet: global.quiet,
    };
    let code = recorded::read(args.execution(), part, &mut logs)?;
    match args.codon() {
        Some(codon) if logs.is_empty => Err(logs.nothing_of(codon)),
        _ => Ok(code),
    }
}

/// Prints our own log. What was moved away when it became long comes first.
fn server(args: &LogsArgs) -> Result<ExitCode, CliError> {
    let execution = args.execution();
    existing_state_dir(execution)?;
    let path = ExecutionDir::new(execution.to_owned()).server_log();
    for path in [with_suffix(&path, ".1"), path] {
        let log = match RealDisk.read(&path, SERVER_LOG_BYTES) {
            Ok(log) => log,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => {
                return Err(CliError::from_error(
                    CliErrorKind::Io,
                    &IoError::at("read", &path)(error),
                ));
            }
        };
        if print(String::from_utf8_lossy(&log).into_owned()).is_err() {
            break;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Whose words are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SpeakerFilter<'a> {
    Everybody,
    Agent,
    Rig,
    /// All of them, or one.
    Sentinel(Option<&'a SentinelId>),
}

impl<'a> SpeakerFilter<'a> {
    fn of(args: &'a LogsArgs) -> Self {
        match (args.agent, args.rig, &args.sentinel) {
            (true, ..) => Self::Agent,
            (_, true, _) => Self::Rig,
            (.., Some(sentinel)) => Self::Sentinel(sentinel.as_ref()),
            _ => Self::Everybody,
        }
    }

    fn has(self, event: &Event) -> bool {
        let speaker: SpeakerFilter<'_> = match event {
            Event::AssistantAction { .. }
            | Event::ToolResult { .. }
            | Event::OutputTruncated { .. }
            | Event::OutputUnparsed { .. } => SpeakerFilter::Agent,
            Event::RigOutput { .. } | Event::RigSetupFailed { .. } => SpeakerFilter::Rig,
            Event::SentinelLoaded { sentinel_id, .. }
            | Event::SentinelTriggered { sentinel_id, .. }
            | Event::SentinelOutput { sentinel_id, .. }
            | Event::SentinelError { sentinel_id, .. }
            | Event::SentinelUnloaded { sentinel_id, .. } => match self {
                SpeakerFilter::Sentinel(None) => self,
                _ => SpeakerFilter::Sentinel(Some(sentinel_id)),
            },
            _ => SpeakerFilter::Everybody,
        };
        self == Self::Everybody || speaker == self
    }
}

struct LogPrinter<'a> {
    /// All where there is none; a codon of a loop stands for all its iterations.
    codon: Option<&'a CodonId>,
    want: SpeakerFilter<'a>,
    /// Thoughts and the answers of tools as well.
    all: bool,
    out: LogsOutput,
    /// The codon that spoke last.
    speaker: Option<CodonId>,
    /// Codons that are not wanted, for whoever has mistyped one.
    others: BTreeSet<String>,
    /// Events that were removed from the journal before the line that is read, and are not told yet.
    removed: u64,
    is_empty: bool,
}

enum LogsOutput {
    Json(JsonLines),
    Text(SafeText),
}

impl LineSink for LogPrinter<'_> {
    fn line(&mut self, line: TailLine<'_>) -> io::Result<()> {
        self.removed += line.removed;
        let Some(codon) = recorded::codon(line) else {
            return Ok(());
        };
        if !self
            .codon
            .is_none_or(|wanted| *wanted == codon || wanted.as_str() == codon.configured())
        {
            self.others.insert(codon.configured().to_owned());
            return Ok(());
        }
        self.is_empty = false;
        self.tell_removed(&codon)?;
        // A kind of event that is newer than this program has no words here.
        let Ok(entry) = JournalEntry::from_json(line.bytes) else {
            return Ok(());
        };
        if !self.want.has(&entry.event) {
            return Ok(());
        }
        match &mut self.out {
            LogsOutput::Json(lines) => lines.line(line.bytes),
            LogsOutput::Text(text) => {
                let Some(said) = MarkedText::of(&entry.event, &codon, self.all) else {
                    return Ok(());
                };
                // Writing to a text cannot fail.
                if begins(&entry.event) || self.speaker.as_ref() != Some(&codon) {
                    let _ = text.styled(Style::new().bold(), format_args!("{codon}"));
                    let _ = writeln!(text, "  {}", local_time(entry.timestamp));
                    self.speaker = Some(codon);
                }
                let _ = said.write(text);
                print(std::mem::take(text))
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.out {
            LogsOutput::Json(lines) => lines.flush(),
            LogsOutput::Text(_) => Ok(()),
        }
    }
}

impl LogPrinter<'_> {
    /// Says where something is missing. What was removed belongs to the codon that was open, and so does the line after it.
    fn tell_removed(&mut self, codon: &CodonId) -> io::Result<()> {
        let removed = std::mem::take(&mut self.removed);
        let LogsOutput::Text(text) = &mut self.out else {
            return Ok(());
        };
        if removed == 0 {
            return Ok(());
        }
        let (removed, were) = recorded::removed(removed);
        // Writing to a text cannot fail.
        let _ = writeln!(
            text,
            "({codon}: {removed} of agents and rigs {were} removed here)"
        );
        self.speaker = None;
        print(std::mem::take(text))
    }

    fn nothing_of(self, codon: &CodonId) -> CliError {
        let others: Vec<String> = self.others.into_iter().collect();
        let hint = match others.is_empty() {
            true => "nothing has run here yet".to_owned(),
            false => format!("there is something of: {}", others.join(", ")),
        };
        CliError::new(
            CliErrorKind::Input,
            format!("nothing is recorded of a codon `{codon}`"),
        )
        .hint(hint)
    }
}

/// Whether a codon begins, for the first time or once more.
fn begins(event: &Event) -> bool {
    let Event::StateTransition { transition, .. } = event else {
        return false;
    };
    matches!(**transition, StateEvent::CodonStarted { .. })
}
