//! `hankweave logs`: prints from the journal what agents, rigs and sentinels said and did, codon by codon; with `--server` the server log instead.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use anstyle::Style;
use hankweave_core::codon::CodonExecution;
use hankweave_core::document::RunRecord;
use hankweave_core::event::StateEvent;
use hankweave_core::id::{CodonId, RunId, SentinelId};
use hankweave_core::thread;
use hankweave_core::time::Timestamp;
use hankweave_core::wire::{Event, JournalEntry};
use hankweave_runtime::ExecutionDir;
use hankweave_runtime::journal::TailLine;
use hankweave_runtime::world::disk::{Disk as _, IoError, RealDisk, with_suffix};

use crate::args::{Global, LogsArgs};
use crate::directory::{is_served, suspended};
use crate::owning_task::existing_state_dir;
use crate::recorded::{self, Follow, JournalRange, LineSink};
use crate::terminal::approval_prompt::{answer_words, because};
use crate::terminal::exit::{CliError, CliErrorKind};
use crate::terminal::report::{MarkedText, RunProcess, event_text, run_standing};
use crate::terminal::screen::{JsonLines, SafeText, local_time, print, print_stderr};
use crate::terminal::suspended_run::SuspendedRun;

/// Read limit for each of the two files of the server log, in bytes; each is shorter (CLI-20).
const SERVER_LOG_BYTES: u64 = 16 << 20;

/// Prints what was said and done, by codon (CLI-22).
pub(crate) fn logs(global: &Global, args: &LogsArgs) -> Result<ExitCode, CliError> {
    if args.server {
        return server(args);
    }
    let mut logs = LogPrinter {
        codon: args.codon(),
        filter: SpeakerFilter::of(args),
        all: global.verbose > 0,
        out: match global.json() {
            true => LogsOutput::Json(JsonLines::default()),
            false => LogsOutput::Text(SafeText::default()),
        },
        speaker: None,
        others: BTreeSet::new(),
        removed: 0,
        is_empty: true,
        undone: undone(args.execution()),
        open: None,
    };
    let part = JournalRange {
        after: 0,
        follow: if args.follow {
            Follow::WhileLive
        } else {
            Follow::No
        },
        quiet: global.quiet,
    };
    let code = recorded::read(args.execution(), part, &mut logs)?;
    let newest = newest_run(args.execution());
    if let Some(newest) = &newest {
        // A reader that has gone away is not a failure (F19).
        let _ = logs.print_end(newest);
    }
    match (args.codon(), newest) {
        (Some(codon), _) if logs.is_empty => return Err(logs.nothing_of(codon)),
        (_, Some(newest)) if args.follow && !global.quiet && newest.suspended.is_none() => {
            print_stderr(format!("the run has ended: {}\n", newest.state_words));
        }
        _ => {}
    }
    Ok(code)
}

/// Newest run of a directory where no run works: it has ended, was killed, or is suspended.
struct NewestRun {
    /// Codon that the run left open, because it was killed or is suspended.
    left_open: Option<CodonId>,
    /// The run, where that is suspended.
    suspended: Option<SuspendedRun>,
    /// Status of the run in words.
    state_words: &'static str,
}

/// Returns the newest run; `None` while a process works in the directory.
fn newest_run(execution: &Path) -> Option<NewestRun> {
    let suspended = suspended(execution);
    if suspended.is_none() && is_served(execution) {
        return None;
    }
    let state = crate::state::read_execution(execution).ok()?;
    let run = state.runs.front()?;
    Some(NewestRun {
        left_open: run.open_codon().map(|open| open.codon_id().clone()),
        suspended,
        state_words: run_standing(run, RunProcess::None),
    })
}

/// Prints the server log. Its older part, which was moved away when the log became long, comes first.
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

/// Speaker whose events are printed. As the speaker of an event, `Everybody` stands for all other events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SpeakerFilter<'a> {
    Everybody,
    Agent,
    Rig,
    /// One sentinel; `None` for all.
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

    fn includes(self, event: &Event) -> bool {
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
                // This filter takes every sentinel, so the speaker is made equal to it for the comparison below.
                SpeakerFilter::Sentinel(None) => self,
                _ => SpeakerFilter::Sentinel(Some(sentinel_id)),
            },
            _ => SpeakerFilter::Everybody,
        };
        self == Self::Everybody || speaker == self
    }
}

/// Prints the lines of the journal that the arguments select.
struct LogPrinter<'a> {
    /// Codon to print; `None` for all. The configured id of a codon in a loop selects all its iterations.
    codon: Option<&'a CodonId>,
    filter: SpeakerFilter<'a>,
    /// Whether thoughts and the results of tools are printed as well.
    all: bool,
    out: LogsOutput,
    /// Codon of the last printed line; its heading is not repeated.
    speaker: Option<CodonId>,
    /// Codons that were not selected, for the hint after a mistyped id.
    others: BTreeSet<String>,
    /// Number of events that were removed from the journal before the current line and that are not reported yet.
    removed: u64,
    /// No event of a selected codon has come.
    is_empty: bool,
    /// Starts of the attempts that no longer count.
    undone: BTreeSet<AttemptStart>,
    /// Codon that is open at the current line.
    open: Option<CodonId>,
}

/// Run, codon and start of an attempt.
type AttemptStart = (RunId, CodonId, Timestamp);

/// Returns the starts of the attempts that no longer count at this moment; none if the state of the directory cannot be read.
fn undone(execution: &Path) -> BTreeSet<AttemptStart> {
    let Ok(state) = crate::state::read_execution(execution) else {
        return BTreeSet::new();
    };
    let start = |run: &RunId, codon: &CodonExecution| -> AttemptStart {
        (run.clone(), codon.codon_id().clone(), *codon.start_time())
    };
    let thread = thread::build(&state, None, None);
    let counting: BTreeSet<AttemptStart> = thread
        .codons
        .iter()
        .map(|entry| start(&entry.run_id, &entry.codon))
        .collect();
    let of_run = |run: &Arc<RunRecord>| -> Vec<AttemptStart> {
        run.codons.iter().map(|codon| start(&run.run_id, codon)).collect()
    };
    let all = state.runs.iter().flat_map(of_run);
    all.filter(|start| !counting.contains(start)).collect()
}

enum LogsOutput {
    Json(JsonLines),
    Text(SafeText),
}

impl LineSink for LogPrinter<'_> {
    fn line(&mut self, line: TailLine<'_>) -> io::Result<()> {
        self.removed += line.removed;
        let Some(codon) = recorded::codon(line).or_else(|| self.codon_of(line)) else {
            return Ok(());
        };
        if !self.matches(&codon) {
            self.others.insert(codon.configured().to_owned());
            return Ok(());
        }
        self.is_empty = false;
        self.print_removed(&codon)?;
        // An event of a kind that only a newer version knows is left out.
        let Ok(entry) = JournalEntry::from_json(line.bytes) else {
            return Ok(());
        };
        self.note_open(&entry.event);
        if !self.filter.includes(&entry.event) {
            return Ok(());
        }
        let count_no_longer = self.counts_no_longer(&entry);
        match &mut self.out {
            LogsOutput::Json(lines) => lines.line(line.bytes),
            LogsOutput::Text(text) => {
                let words = interruption(&entry);
                let Some(words) = words.or_else(|| MarkedText::of(&entry.event, &codon, self.all)) else {
                    return Ok(());
                };
                // Writing to a text cannot fail.
                if begins(&entry.event) || self.speaker.as_ref() != Some(&codon) {
                    let _ = text.styled(Style::new().bold(), format_args!("{codon}"));
                    let note = if count_no_longer {
                        "  (undone or run again)"
                    } else {
                        ""
                    };
                    let _ = writeln!(text, "  {}{note}", local_time(entry.timestamp));
                    self.speaker = Some(codon);
                }
                let _ = words.write(text);
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

/// Returns the text of an event that comes between the words of agents, rigs and sentinels: a crash, a question for an approval or its answer, a continued
/// run, an agent that was asked again. `None` for other events.
fn interruption(entry: &JournalEntry) -> Option<MarkedText> {
    let at = local_time(entry.timestamp);
    let words = match &entry.event {
        Event::StateTransition { transition, .. } => match &**transition {
            StateEvent::RunCrashed { .. } => format!("the run crashed here (noticed at {at})"),
            StateEvent::ApprovalSet {
                approval: Some(answer),
            } => {
                let words = answer_words(answer.granted, answer.by.as_deref(), None);
                let at = local_time(answer.given_at(entry.timestamp));
                format!("{words} at {at}{}", because(answer.reason.as_deref()))
            }
            _ => return None,
        },
        Event::ApprovalRequested { question, .. } => format!("asked at {at}: {question}"),
        Event::RunContinued { .. } => event_text(&entry.event)?,
        Event::Info { message } => asked_again(message)?.1.to_owned(),
        _ => return None,
    };
    let (mark, style) = ("— ", Style::new().dimmed());
    Some(MarkedText { mark, style, words })
}

/// Returns the codon and the reason from a message that the agent was asked again: `a: REASON; the agent continues (retry 1 of 5)`, or with the reason last,
/// `a: the agent continues (retry 1 of 5): REASON`. `None` for other messages, and for one without a reason: it follows a failed check, which is printed as
/// an event of its own.
fn asked_again(message: &str) -> Option<(&str, &str)> {
    let (codon, why) = message.split_once(": ")?;
    let (before, after) = why.split_once("the agent continues (retry ")?;
    (!before.is_empty() || after.contains("): ")).then_some((codon, why))
}

impl LogPrinter<'_> {
    /// Prints that the codon which the newest run left open has crashed or is suspended; the journal has no event of that.
    fn print_end(&mut self, newest: &NewestRun) -> io::Result<()> {
        let is_wanted = self.filter == SpeakerFilter::Everybody;
        let Some(codon) = newest
            .left_open
            .as_ref()
            .filter(|codon| is_wanted && self.matches(codon))
        else {
            return Ok(());
        };
        let LogsOutput::Text(text) = &mut self.out else {
            return Ok(());
        };
        // Writing to a text cannot fail.
        if self.speaker.as_ref() != Some(codon) {
            let _ = text.styled(Style::new().bold(), format_args!("{codon}\n"));
            self.speaker = Some(codon.clone());
        }
        let words = match newest.suspended {
            Some(run) => format!(
                "suspended since {}; `kill -CONT {}` continues it",
                local_time(run.since()),
                run.pid()
            ),
            None => "crashed: its process no longer exists".to_owned(),
        };
        let (mark, style) = ("— ", Style::new().dimmed());
        let _ = MarkedText { mark, style, words }.write(text);
        print(std::mem::take(text))
    }

    /// Whether the codon is selected; the configured id of a codon in a loop selects all its iterations.
    fn matches(&self, codon: &CodonId) -> bool {
        self.codon
            .is_none_or(|wanted| wanted == codon || wanted.as_str() == codon.configured())
    }

    /// Returns the codon of an event whose data have no id of a codon: the open codon, or the codon of an approval.
    fn codon_of(&self, line: TailLine<'_>) -> Option<CodonId> {
        if !matches!(line.kind, "state.transition" | "run.continued" | "info") {
            return None;
        }
        match JournalEntry::from_json(line.bytes).ok()?.event {
            Event::StateTransition { transition, .. } => match *transition {
                StateEvent::RunCrashed { .. } => self.open.clone(),
                StateEvent::ApprovalSet { approval } => Some(approval?.codon_id),
                _ => None,
            },
            Event::RunContinued { .. } => self.open.clone(),
            Event::Info { message } => {
                let (codon, _) = asked_again(&message)?;
                self.open.clone().filter(|open| open.as_str() == codon)
            }
            _ => None,
        }
    }

    /// Notes which codon is open. A codon ends with its own event, or with the crash of its run.
    fn note_open(&mut self, event: &Event) {
        match event {
            Event::CodonCompleted { .. } => self.open = None,
            Event::StateTransition { transition, .. } => match &**transition {
                StateEvent::CodonStarted { codon_id, .. } => self.open = Some(codon_id.clone()),
                StateEvent::RunCrashed { .. } => self.open = None,
                _ => {}
            },
            _ => {}
        }
    }

    /// Whether this entry starts an attempt that a rollback has undone since, or that a run has repeated.
    fn counts_no_longer(&self, entry: &JournalEntry) -> bool {
        let Event::StateTransition { transition, .. } = &entry.event else {
            return false;
        };
        let StateEvent::CodonStarted { run_id, codon_id, .. } = &**transition else {
            return false;
        };
        let start = (run_id.clone(), codon_id.clone(), entry.timestamp);
        self.undone.contains(&start)
    }

    /// Prints where events were removed from the journal. They belong to the codon that was open, as does the line after them.
    fn print_removed(&mut self, codon: &CodonId) -> io::Result<()> {
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

    /// Returns the error for a selected codon without any event.
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
