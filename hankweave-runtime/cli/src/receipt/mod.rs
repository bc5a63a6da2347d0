//! `hankweave report`: report of a directory's runs, for people who were not there (CLI-44).
//!
//! A [`Receipt`] is the data of a report: what the state document says, with what only the journal knows ([`JournalFacts`]). `markdown`, `html` and `markup`
//! draw it. The command prints it, the page shows it, and a run leaves it as `.hankweave/report.md` when it waits for a person ([`ReportFollower`]) and
//! when it ends ([`write()`]).

mod attempts;
mod checks;
mod codons;
mod files;
mod from_journal;
mod gathered;
mod html;
mod markdown;
mod markup;
mod money;
mod occasions;
mod rollbacks;
mod terms;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use hankweave_core::cost::Usd;
use hankweave_core::event::StateEvent;
use hankweave_core::id::CodonId;
use hankweave_core::thread;
use hankweave_core::wire::{CodonDescription, Event, IdleReason, JournalEntry};
use hankweave_runtime::state_manager::{Delivery, Subscription};
use hankweave_runtime::world::World;
use hankweave_runtime::world::clock::{Clock as _, SystemClock};
use hankweave_runtime::world::disk::{Disk, IoError, RealDisk, replace};
use hankweave_runtime::{ExecutionDir, RunReport, RunTexts};

pub(crate) use from_journal::JournalFacts;
use gathered::Receipt;
use tokio_util::task::AbortOnDropHandle;

use crate::args::{Global, ReportArgs};
use crate::hints::HintCommands;
use crate::owning_task::OwningTask;
use crate::state::last_hank;
use crate::status::StatusView;
use crate::terminal::exit::{CliError, CliErrorKind};
use crate::terminal::output;
use crate::terminal::screen::{columns_of_output, print};
use crate::validate::describe;

/// Longest journal, in bytes, that is read for a report that no user has asked for by name: half a second of reading.
const MOST_UNASKED: u64 = 64 << 20;

/// Longest journal, in bytes, that is read when a run starts, so that nothing is left to read when the run ends: a time that no user notices.
const MOST_AT_START: u64 = 2 << 20;

/// Name of the report in `.hankweave`.
const REPORT: &str = "report.md";

/// Prints the report of a run from its record (CLI-44).
pub(crate) fn report(global: &Global, args: &ReportArgs) -> Result<ExitCode, CliError> {
    let execution = &args.execution.execution;
    // Only a command that a user waits for asks the registry; other reports say what the files say.
    let task = OwningTask::of(execution).map(OwningTask::looked_up);
    print_report(global, execution, task, args.html)
}

/// Prints the report of this execution directory.
pub(crate) fn print_report(
    global: &Global,
    execution: &Path,
    task: Option<OwningTask>,
    html: bool,
) -> Result<ExitCode, CliError> {
    let receipt = gather(execution, task, u64::MAX, None)?;
    if global.json() {
        return output::print_json(&receipt);
    }
    let markdown = markdown::markdown(&receipt);
    let is_terminal = columns_of_output().is_some();
    let text = match html {
        true => html::page(&receipt.name, &markdown),
        // A terminal shows Markdown as it stands, with its escapes.
        false if is_terminal => markup::unescaped(&markdown),
        false => markdown,
    };
    print(text).map_err(|error| CliError::from_error(CliErrorKind::Io, &error))?;
    Ok(ExitCode::SUCCESS)
}

/// Follows a run: collects what its report needs, writes `report.md` whenever the run begins to wait for a person, and removes it when the run
/// continues.
#[derive(Debug)]
pub(crate) struct ReportFollower(AbortOnDropHandle<Option<JournalFacts>>);

impl ReportFollower {
    /// Starts to follow a run. What is recorded already is read first, unless that is much: then [`ReportFollower::end`] returns `None`.
    pub(crate) fn start(world: &World, execution: &Path, mut events: Subscription) -> Self {
        let is_short = crate::state::journal_bytes(execution).is_ok_and(|bytes| bytes <= MOST_AT_START);
        // An event between the subscription and this reading comes twice, which `JournalFacts` notices.
        let mut heard = match is_short {
            true => JournalFacts::of(execution).ok(),
            false => None,
        };
        let (disk, blocking, execution) = (Arc::clone(&world.disk), world.blocking, execution.to_owned());
        Self(AbortOnDropHandle::new(tokio::spawn(async move {
            loop {
                let entries = match events.next().await {
                    Ok(Some(Delivery::Events(entries))) => entries,
                    // Nothing is lost: the next events come from the journal.
                    Ok(Some(Delivery::Lagged)) => continue,
                    Ok(None) => return heard,
                    Err(_) => return None,
                };
                if let Some(heard) = &mut heard {
                    entries.values().for_each(|entry| heard.take(entry));
                }
                let execution = execution.clone();
                // Awaited, so that the file is as it should be before the report of the end is written.
                match waits_after(entries.values()) {
                    Some(true) => {
                        let known = heard.clone();
                        blocking.run(move || write(&execution, known)).await;
                    }
                    Some(false) => {
                        let disk = Arc::clone(&disk);
                        blocking.run(move || remove(&*disk, &execution)).await;
                    }
                    None => {}
                }
            }
        })))
    }

    /// Returns what was heard up to the end; `None` when the journal has to be read.
    pub(crate) async fn end(self) -> Option<JournalFacts> {
        self.0.await.ok()?
    }
}

/// Whether a run waits for a person after these events; `None` when they say nothing about it.
fn waits_after<'e>(entries: impl Iterator<Item = &'e JournalEntry>) -> Option<bool> {
    entries.filter_map(|entry| waits_for_person(&entry.event)).last()
}

/// Whether a run waits for a person after this event; `None` for events that say nothing about it.
fn waits_for_person(event: &Event) -> Option<bool> {
    match event {
        Event::ApprovalRequested { .. } => Some(true),
        // A run that has done everything ends, and its report is written then.
        Event::ServerIdle { reason, .. } => (*reason != IdleReason::AllCodonsCompleted).then_some(true),
        Event::StateTransition { transition, .. } => {
            let continues = matches!(
                **transition,
                StateEvent::ApprovalSet { approval: Some(_) } | StateEvent::CodonStarted { .. }
            );
            continues.then_some(false)
        }
        _ => None,
    }
}

/// Writes the report of a run that has ended, or waits for a person, next to its record, and returns its path; `None`, with a warning, when that
/// fails.
///
/// The file is written past the run's disk, which would put it back when an agent removes it (P11): another report can be made from the record at any
/// time.
pub(crate) fn write(execution: &Path, heard: Option<JournalFacts>) -> Option<PathBuf> {
    let path = report_path(execution);
    let gathered = gather(execution, OwningTask::of(execution), MOST_UNASKED, heard);
    let written = gathered.and_then(|receipt| {
        let text = markdown::markdown(&receipt);
        replace(&RealDisk, &path, text.as_bytes())
            .map_err(|error| CliError::from_error(CliErrorKind::Io, &IoError::at("write", &path)(error)))
    });
    match written {
        Ok(()) => Some(path),
        Err(error) => {
            tracing::warn!(error = error.message(), "the report was not written");
            None
        }
    }
}

/// Removes `report.md`, which says nothing of a run that works. `disk` has to be that of the run, which puts back files of the record that are
/// removed past it.
fn remove(disk: &dyn Disk, execution: &Path) {
    // A missing file is as good as a removed one.
    let _ = disk.remove_file(&report_path(execution));
}

fn report_path(execution: &Path) -> PathBuf {
    let dir = ExecutionDir::new(execution.to_owned());
    dir.state_dir().join(REPORT)
}

/// Whether a run is recorded in this directory.
pub(crate) fn has_record(execution: &Path) -> bool {
    let state_dir = ExecutionDir::new(execution.to_owned()).state_dir().to_owned();
    RealDisk.metadata(&state_dir).is_ok()
}

/// Returns the report in a line; `None` where no run is recorded, or the record cannot be read. `budget` is that of the next run, where it differs
/// from the last one's.
pub(crate) fn in_short(execution: &Path, budget: Option<Usd>) -> Option<String> {
    if !has_record(execution) {
        return None;
    }
    let mut receipt = gather(execution, OwningTask::of(execution), MOST_UNASKED, None).ok()?;
    receipt.money.limit = budget.or(receipt.money.limit);
    Some(receipt.in_short())
}

/// Returns the texts about the runs in this directory, for their page (WIRE-47, WIRE-52).
pub(crate) fn texts(execution: &Path) -> Arc<dyn RunTexts> {
    Arc::new(RecordTexts(execution.to_owned()))
}

/// Texts about the runs in a directory.
#[derive(Debug)]
struct RecordTexts(PathBuf);

impl RunTexts for RecordTexts {
    fn report(&self) -> Result<RunReport, String> {
        recorded(&self.0).map_err(|error| error.message().to_owned())
    }

    fn describe(&self, codon: &CodonId) -> Result<Option<CodonDescription>, String> {
        describe(&self.0, codon).map_err(|error| error.message().to_owned())
    }
}

/// Returns the report of what is recorded in this directory, as the page shows it.
pub(crate) fn recorded(execution: &Path) -> Result<RunReport, CliError> {
    let receipt = gather(execution, OwningTask::of(execution), MOST_UNASKED, None)?;
    Ok(RunReport {
        markdown: markdown::markdown(&receipt),
        next: receipt.next,
    })
}

/// Gathers the data of a report. What only the journal knows comes from `heard`, or is read from the journal; one of more than `most` bytes is not
/// read, and a remark in the report says so.
fn gather(
    execution: &Path,
    task: Option<OwningTask>,
    most: u64,
    heard: Option<JournalFacts>,
) -> Result<Receipt, CliError> {
    let state = crate::state::read_execution(execution)?;
    let (newest_run, checkpoints) = (None, None);
    let thread = thread::build(&state, newest_run, checkpoints);
    let hank = last_hank(execution);
    let mut status = StatusView::whole(execution, &state, &thread, hank.as_ref(), task)?;
    // The report is sent to people whose shell is not in this folder.
    status.hints = HintCommands::from_anywhere(execution);
    let is_read = heard.is_some() || crate::state::journal_bytes(execution)? <= most;
    let mut heard = match heard {
        Some(heard) => heard,
        None if is_read => JournalFacts::of(execution)?,
        None => JournalFacts::default(),
    };
    // The crash of a process without a successor is found by its absence: no event says it.
    if let Some(crash) = &status.crash {
        heard.take_crash(crash, SystemClock.now());
    }
    let mut receipt = Receipt::new(execution, &status, hank.as_ref(), heard);
    if !is_read {
        let whole = status.hints.command("report");
        let remark = format!("The journal is long: {whole} also says what agents and checks said.");
        receipt.remarks.push(remark);
    }
    Ok(receipt)
}
