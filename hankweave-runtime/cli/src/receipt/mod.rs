//! `hankweave report`: report of a directory's runs, for people who did not watch them (CLI-44).
//!
//! A [`Receipt`] is the data of a report: what the state document says, with what only the journal knows ([`JournalFacts`]). `markdown`, `html` and
//! `markup` turn the data into text. The command prints the report, the page shows it, and a run writes it to `.hankweave/report.md` when the run waits
//! for a person ([`ReportFollower`]) and when it ends ([`write()`]).

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

/// Longest journal, in bytes, that is read for a report without the command `report`, such as the page's: half a second of reading.
const MOST_UNASKED: u64 = 64 << 20;

/// Longest journal, in bytes, that is read when a run starts, so that it need not be read when the run ends. No user notices the time of that.
const MOST_AT_START: u64 = 2 << 20;

/// Name of the report in `.hankweave`.
const REPORT: &str = "report.md";

/// Prints the report of a run from its record (CLI-44).
pub(crate) fn report(global: &Global, args: &ReportArgs) -> Result<ExitCode, CliError> {
    let execution = &args.execution.execution;
    // Asks the registry about a task, since the user waits for this command; other reports say what the files say.
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
        // A terminal would show the escapes of Markdown.
        false if is_terminal => markup::unescaped(&markdown),
        false => markdown,
    };
    print(text).map_err(|error| CliError::from_error(CliErrorKind::Io, &error))?;
    Ok(ExitCode::SUCCESS)
}

/// Task that follows a run: collects what the report needs, writes `report.md` whenever the run begins to wait for a person, and removes `report.md` when
/// the run continues.
#[derive(Debug)]
pub(crate) struct ReportFollower(AbortOnDropHandle<Option<JournalFacts>>);

impl ReportFollower {
    /// Starts to follow a run. Reads the journal so far, unless that is long: then [`ReportFollower::end`] returns `None`.
    pub(crate) fn start(world: &World, execution: &Path, mut events: Subscription) -> Self {
        let is_short = crate::state::journal_bytes(execution).is_ok_and(|bytes| bytes <= MOST_AT_START);
        // An event that comes between the subscription and this reading comes twice; the second one changes nothing in `JournalFacts`.
        let mut facts = match is_short {
            true => JournalFacts::of(execution).ok(),
            false => None,
        };
        let (disk, blocking, execution) = (Arc::clone(&world.disk), world.blocking, execution.to_owned());
        Self(AbortOnDropHandle::new(tokio::spawn(async move {
            loop {
                let entries = match events.next().await {
                    Ok(Some(Delivery::Events(entries))) => entries,
                    // A subscriber that lags gets the missed events from the journal next.
                    Ok(Some(Delivery::Lagged)) => continue,
                    Ok(None) => return facts,
                    Err(_) => return None,
                };
                if let Some(facts) = &mut facts {
                    entries.values().for_each(|entry| facts.add(entry));
                }
                let execution = execution.clone();
                // Awaited, so that this cannot overwrite or remove the report of the end.
                match waits_after(entries.values()) {
                    Some(true) => {
                        let known = facts.clone();
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

    /// Returns the facts up to the end; `None` if the journal has to be read.
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
/// The file is written without the run's [`Disk`], which would put it back when an agent removes it (P11). That is not needed: the report can be made
/// again from the record.
pub(crate) fn write(execution: &Path, facts: Option<JournalFacts>) -> Option<PathBuf> {
    let path = report_path(execution);
    let receipt = gather(execution, OwningTask::of(execution), MOST_UNASKED, facts);
    let written = receipt.and_then(|receipt| {
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

/// Removes `report.md`, which is out of date once a run works. `disk` has to be the run's: it puts back files of the record that are removed in another
/// way.
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

/// Returns the report in a line; `None` if no run is recorded, or if the record cannot be read. `budget` is the next run's total budget, if it differs from
/// the last run's.
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

/// Gathers the data of a report. Without `facts`, the journal is read; a journal of more than `most` bytes is not, and a remark in the report says so.
fn gather(
    execution: &Path,
    task: Option<OwningTask>,
    most: u64,
    facts: Option<JournalFacts>,
) -> Result<Receipt, CliError> {
    let state = crate::state::read_execution(execution)?;
    let (newest_run, checkpoints) = (None, None);
    let thread = thread::build(&state, newest_run, checkpoints);
    let hank = last_hank(execution);
    let mut status = StatusView::whole(execution, &state, &thread, hank.as_ref(), task)?;
    // The report is sent to people whose shell is not in this folder.
    status.hints = HintCommands::from_anywhere(execution);
    let has_facts = facts.is_some() || crate::state::journal_bytes(execution)? <= most;
    let mut facts = match facts {
        Some(facts) => facts,
        None if has_facts => JournalFacts::of(execution)?,
        None => JournalFacts::default(),
    };
    // No event reports a crash before a later run records it: it is found because its process is missing.
    if let Some(crash) = &status.crash {
        facts.add_unseen_crash(crash, SystemClock.now());
    }
    let mut receipt = Receipt::new(execution, &status, hank.as_ref(), facts);
    if !has_facts {
        let whole = status.hints.command("report");
        let remark = format!("The journal is long: {whole} also says what agents and checks said.");
        receipt.remarks.push(remark);
    }
    Ok(receipt)
}
