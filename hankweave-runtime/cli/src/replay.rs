//! `hankweave replay`: decodes the recorded logs of agents once more, shows the events that come out, and compares them and the final state with the
//! record. Agents are not started.

use std::fmt::Write as _;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use hankweave_core::discovery::STATE_DIR;
use hankweave_core::document::render;
use hankweave_core::time::Timestamp;
use hankweave_core::wire::JournalEntry;
use hankweave_runtime::journal::{Batch, EventJournal, FileJournal, JournalLimits, JournalTail, TailLine};
use hankweave_runtime::replay::{Replay, Replayed};
use hankweave_runtime::world::World;
use hankweave_runtime::world::disk::{Disk, IoError, RealDisk, replace};
use hankweave_runtime::{ExecutionDir, Shutdown};
use serde_json::json;

use crate::args::{Global, ReplayArgs, Speed};
use crate::owning_task::existing_state_dir;
use crate::signals::{self, HangUp};
use crate::state::read_execution;
use crate::terminal::exit::{CliError, CliErrorKind};
use crate::terminal::report::{LiveContext, Reporter, counted};
use crate::terminal::screen::{is_drawable, print_stderr};
use crate::terminal::suspend::{self, SuspendSignals};

/// Number of entries that are read at once.
const BATCH: usize = 256;

/// Plays a recorded execution once more and compares what comes out with the record (CLI-33).
pub(crate) fn replay(global: &Global, args: &ReplayArgs) -> Result<ExitCode, CliError> {
    crate::logging::install(global);
    existing_state_dir(&args.recorded)?;
    let recorded = read_execution(&args.recorded)?;
    let directory = new_directory(args)?;
    let out = FileJournal::open(Arc::new(RealDisk), &directory.events(), JournalLimits::default());
    let out = out.map_err(|error| CliError::from_error(CliErrorKind::Io, &error))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| CliError::from_error(CliErrorKind::Io, &error))?;
    let from = ExecutionDir::new(args.recorded.clone());
    let mut session = ReplaySession {
        replay: Replay::new(Arc::new(RealDisk), &from),
        tail: JournalTail::new(Arc::new(RealDisk), from.events(), 0),
        out,
        report: choose_report(global, args.speed),
        speed: args.speed,
        before: None,
    };
    let shutdown = Shutdown::new();
    let stopped = runtime.block_on(async {
        let mut watch = pin!(signals::watch(shutdown.clone(), HangUp::Stops));
        tokio::select! {
            biased;
            never = &mut watch => match never {},
            () = shutdown.requested() => Ok(true),
            never = suspend::answer(SuspendSignals::new(), None) => match never {},
            played = session.play_all() => played.map(|()| false),
        }
    })?;
    if stopped {
        return Ok(signals::stopped(&shutdown));
    }
    let ReplaySession {
        replay, out, report, ..
    } = session;
    let state = directory.state_dir().join("state.json");
    let written = out.sync().and_then(|()| {
        let document = render(replay.state());
        replace(&RealDisk, &state, document.as_bytes()).map_err(IoError::at("write", &state))
    });
    written.map_err(|error| CliError::from_error(CliErrorKind::Io, &error))?;
    let outcome = replay.end(&recorded);
    print_outcome(global, report, &outcome, directory.root());
    Ok(match outcome.difference {
        None => ExitCode::SUCCESS,
        Some(_) => ExitCode::from(CliErrorKind::Failed.code()),
    })
}

/// Makes the directory of the replay, and refuses one that is an execution directory already.
fn new_directory(args: &ReplayArgs) -> Result<ExecutionDir, CliError> {
    let root = match &args.into {
        Some(root) => root.clone(),
        None => temporary_path(),
    };
    if RealDisk.metadata(&root.join(STATE_DIR)).is_ok() {
        let message = format!("`{}` is an execution directory already", root.display());
        return Err(
            CliError::new(CliErrorKind::Input, message).hint("name a new directory with -e DIR, or none")
        );
    }
    let made = RealDisk.make_dirs(&root).map_err(IoError::at("create", &root));
    let root = made.map_err(|error| CliError::from_error(CliErrorKind::Io, &error))?;
    let dir = ExecutionDir::new(root);
    let made = RealDisk.make_private_dirs(&dir.state_dir());
    let made = made.map_err(IoError::at("create", &dir.state_dir()));
    made.map_err(|error| CliError::from_error(CliErrorKind::Io, &error))?;
    Ok(dir)
}

/// Returns the path of a new folder among the temporary files.
fn temporary_path() -> PathBuf {
    let world = World::real();
    let folder = world.environment.get("TMPDIR").unwrap_or("/tmp".as_ref());
    PathBuf::from(folder).join(format!("hankweave-replay-{}", world.ids.nonce()))
}

fn choose_report(global: &Global, speed: Speed) -> Reporter {
    if global.json() {
        Reporter::json()
    } else if global.quiet {
        Reporter::Quiet
    } else if is_drawable() {
        let speed = match speed {
            Speed::Times(times) => times,
            // Stands for a replay without waits.
            Speed::Max => 0.0,
        };
        Reporter::live(LiveContext::of_replay(speed))
    } else {
        Reporter::plain(None)
    }
}

/// Replay, with the outputs that its events go to: the report, and the journal of its own directory.
struct ReplaySession {
    replay: Replay,
    /// Journal of the record.
    tail: JournalTail,
    /// Journal of the replay.
    out: FileJournal,
    report: Reporter,
    speed: Speed,
    /// Time of the previous event in the record.
    before: Option<Timestamp>,
}

impl ReplaySession {
    async fn play_all(&mut self) -> Result<(), CliError> {
        loop {
            let entries = self.next_entries()?;
            if entries.is_empty() {
                return Ok(());
            }
            for (removed, entry) in entries {
                self.replay.pass_over(removed);
                self.play(entry).await?;
            }
        }
    }

    /// Returns the next entries of the record, each with the number of entries that were removed before it; none at the end.
    fn next_entries(&mut self) -> Result<Vec<(u64, JournalEntry)>, CliError> {
        let (mut entries, mut removed) = (Vec::new(), 0);
        let each = |line: TailLine<'_>| {
            // An event that this version does not know is skipped; its number is then missing in the replay's journal.
            removed += line.removed;
            if let Ok(entry) = JournalEntry::from_json(line.bytes) {
                entries.push((std::mem::take(&mut removed), entry));
            }
            match entries.len() < BATCH {
                true => ControlFlow::Continue(()),
                false => ControlFlow::Break(()),
            }
        };
        let read = self.tail.read(each);
        read.map_err(|error| CliError::from_error(CliErrorKind::Io, &error))?;
        Ok(entries)
    }

    /// Plays an entry after the time that lay before it in the record, divided by the speed.
    async fn play(&mut self, entry: JournalEntry) -> Result<(), CliError> {
        let gap = self
            .before
            .map_or(Duration::ZERO, |before| entry.timestamp.since(before));
        self.before = Some(entry.timestamp);
        let wait = self.speed.of(gap);
        if !wait.is_zero() {
            // So that the user sees all earlier events before the wait.
            self.show(|report| report.flush());
            tokio::time::sleep(wait).await;
        }
        let played = self.replay.play(entry);
        let entry = played.map_err(|error| {
            CliError::new(
                CliErrorKind::Io,
                format!("the log of an agent cannot be read: {error}"),
            )
        })?;
        let written = self.out.append(&Batch::new(std::slice::from_ref(&entry)));
        written.map_err(|error| CliError::from_error(CliErrorKind::Io, &error))?;
        self.show(|report| report.event(&entry));
        Ok(())
    }

    /// Shows an event. A reader that has gone away does not end the comparison.
    fn show(&mut self, show: impl FnOnce(&mut Reporter) -> std::io::Result<()>) {
        if show(&mut self.report).is_err() {
            self.report = Reporter::Quiet;
        }
    }
}

/// Prints the result of the comparison.
fn print_outcome(global: &Global, mut report: Reporter, outcome: &Replayed, place: &Path) {
    if global.json() {
        let difference = outcome.difference.as_ref().map(
            |found| json!({"place": found.place, "recorded": found.recorded, "replayed": found.replayed}),
        );
        let data = json!({"events": outcome.events, "fromLogs": outcome.from_logs, "compared": outcome.compared,
            "toldByTheRecord": outcome.told, "removed": outcome.removed, "execution": place, "difference": difference});
        // Fails if the program that reads our output has closed the pipe, which is no failure of the replay.
        let _ = report.unknown(&json!({"type": "replay.completed", "data": data}));
    }
    let _ = report.flush();
    let is_quiet = report.is_quiet() || global.json();
    drop(report);
    if !is_quiet {
        print_stderr(in_words(outcome, place));
    }
}

fn in_words(outcome: &Replayed, place: &Path) -> String {
    let mut text = String::new();
    let Replayed {
        events,
        from_logs,
        compared,
        told,
        removed,
        difference,
    } = outcome;
    // Writing to a String cannot fail.
    let _ = match difference {
        None => writeln!(text, "\nReplayed: everything came out as it is recorded."),
        Some(difference) => writeln!(text, "\nReplayed, and it differs at {difference}"),
    };
    let _ = writeln!(
        text,
        "  events       {events}, {from_logs} of them out of the logs of agents"
    );
    let attempts = |number: u64| counted(usize::try_from(number).unwrap_or(usize::MAX), "attempt");
    let _ = writeln!(text, "  compared     the usage of {}", attempts(*compared));
    if *told > 0 {
        let lacking = attempts(*told);
        let _ = writeln!(
            text,
            "  not compared {lacking}, whose logs lack the usage or were not read to the end"
        );
    }
    if *removed > 0 {
        let _ = writeln!(
            text,
            "  not compared {removed} events that were removed when the journal grew beyond 1 GiB"
        );
    }
    let _ = writeln!(text, "  kept in      {}", place.display());
    text
}
