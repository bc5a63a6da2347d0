//! `hankweave report`: the story of a run, for people who did not watch it.

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
use hankweave_core::wire::{CodonDescription, Event, IdleReason};
use hankweave_runtime::state_manager::{Delivery, Subscription};
use hankweave_runtime::world::World;
use hankweave_runtime::world::clock::{Clock as _, SystemClock};
use hankweave_runtime::world::disk::{Disk, IoError, RealDisk, replace};
use hankweave_runtime::{ExecutionDir, RunReport, RunTexts};

pub(crate) use from_journal::Heard;
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

/// Largest journal, in bytes, that is read at the end of a run whose events were not followed: half a second of reading.
const MOST_AT_END: u64 = 64 << 20;

/// Largest journal, in bytes, that is read at the start of a run, so that the report at its end needs no reading. Too small to delay the start.
const MOST_AT_START: u64 = 2 << 20;

/// Name of the report in `.hankweave`.
const REPORT: &str = "report.md";

/// Prints the report of a run from its record (CLI-44).
pub(crate) fn report(global: &Global, args: &ReportArgs) -> Result<ExitCode, CliError> {
    let execution = &args.execution.execution;
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
    let text = match html {
        true => html::page(&receipt.name, &markdown),
        // A terminal does not render Markdown.
        false if columns_of_output().is_some() => markup::unescaped(&markdown),
        false => markdown,
    };
    print(text).map_err(|error| CliError::from_error(CliErrorKind::Io, &error))?;
    Ok(ExitCode::SUCCESS)
}

/// Listener to a run, for its report, which exists while the run waits for a person.
#[derive(Debug)]
pub(crate) struct Listening(AbortOnDropHandle<Option<Heard>>);

impl Listening {
    /// Listens from here on, after what is recorded, unless that is much: the journal is read at the end then.
    pub(crate) fn start(world: &World, execution: &Path, mut events: Subscription) -> Self {
        let recorded = crate::state::journal_bytes(execution).ok();
        let earlier = recorded.filter(|bytes| *bytes <= MOST_AT_START);
        let mut heard = earlier.and_then(|_| Heard::of(execution).ok());
        let (disk, blocking, execution) = (Arc::clone(&world.disk), world.blocking, execution.to_owned());
        Self(AbortOnDropHandle::new(tokio::spawn(async move {
            // Until the first codon starts, the report of an earlier run is true.
            let mut is_written = None;
            loop {
                let entries = match events.next().await {
                    Ok(Some(Delivery::Events(entries))) => entries,
                    Ok(Some(Delivery::Lagged)) => continue,
                    Ok(None) => return heard,
                    Err(_) => return None,
                };
                if let Some(heard) = &mut heard {
                    entries.values().for_each(|entry| heard.take(entry));
                }
                let changes = entries
                    .values()
                    .filter_map(|entry| waits_for_person(&entry.event));
                let Some(waits) = changes.last().filter(|waits| is_written != Some(*waits)) else {
                    continue;
                };
                is_written = Some(waits);
                let (disk, execution, known) = (Arc::clone(&disk), execution.clone(), heard.clone());
                // Awaited, so that it is written before the report of the end.
                match waits {
                    true => drop(blocking.run(move || write(&execution, known)).await),
                    false => blocking.run(move || forget(&*disk, &execution)).await,
                }
            }
        })))
    }

    /// Returns the events up to the end; `None` if the journal has to be read.
    pub(crate) async fn end(self) -> Option<Heard> {
        self.0.await.ok()?
    }
}

/// Whether a run waits for a person from this event on, or no longer; `None` where the event changes neither.
fn waits_for_person(event: &Event) -> Option<bool> {
    match event {
        Event::ApprovalRequested { .. } => Some(true),
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

/// Whether a run is recorded in this directory.
pub(crate) fn has_record(execution: &Path) -> bool {
    let state_dir = ExecutionDir::new(execution.to_owned()).state_dir().to_owned();
    RealDisk.metadata(&state_dir).is_ok()
}

/// Returns the report in a line; `None` if no run is recorded. Its money is compared with `budget`, if the next run has another one than the last.
pub(crate) fn in_short(execution: &Path, budget: Option<Usd>) -> Option<String> {
    let known =
        has_record(execution).then(|| gather(execution, OwningTask::of(execution), MOST_AT_END, None));
    let mut receipt = known?.ok()?;
    receipt.money.limit = budget.or(receipt.money.limit);
    Some(receipt.in_short())
}

/// Texts about the runs in a directory, for their page.
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

/// Returns the texts about the runs in this directory (WIRE-47, WIRE-52).
pub(crate) fn texts(execution: &Path) -> Arc<dyn RunTexts> {
    Arc::new(RecordTexts(execution.to_owned()))
}

/// Returns the report of what is recorded in this directory.
pub(crate) fn recorded(execution: &Path) -> Result<RunReport, CliError> {
    let receipt = gather(execution, OwningTask::of(execution), MOST_AT_END, None)?;
    Ok(RunReport {
        markdown: markdown::markdown(&receipt),
        next: receipt.next,
    })
}

/// Writes the report of a run that has ended, or waits for a person, next to its record, and returns its path. A report that cannot be written is
/// no reason to fail.
pub(crate) fn write(execution: &Path, heard: Option<Heard>) -> Option<PathBuf> {
    let path = ExecutionDir::new(execution.to_owned()).state_dir().join(REPORT);
    let written = gather(execution, OwningTask::of(execution), MOST_AT_END, heard).and_then(|receipt| {
        let text = markdown::markdown(&receipt);
        let written = replace(&RealDisk, &path, text.as_bytes()).map_err(IoError::at("write", &path));
        written.map_err(|error| CliError::from_error(CliErrorKind::Io, &error))
    });
    match written {
        Ok(()) => Some(path),
        Err(error) => {
            tracing::warn!(error = error.message(), "the report was not written");
            None
        }
    }
}

/// Removes the report of an earlier run, which does not describe the run that starts. `disk` is that of the run: a file of the record that another
/// disk removes is put back.
fn forget(disk: &dyn Disk, execution: &Path) {
    let path = ExecutionDir::new(execution.to_owned()).state_dir().join(REPORT);
    // One that is not there says nothing either.
    let _ = disk.remove_file(&path);
}

/// Gathers a report from `heard`, or without it from the journal. A journal of more than `most` bytes is not read; the report says so in place
/// of the facts that only the journal has.
fn gather(
    execution: &Path,
    task: Option<OwningTask>,
    most: u64,
    heard: Option<Heard>,
) -> Result<Receipt, CliError> {
    let state = crate::state::read_execution(execution)?;
    let thread = thread::build(&state, None, None);
    let hank = last_hank(execution);
    let mut status = StatusView::whole(execution, &state, &thread, hank.as_ref(), task)?;
    // The report is sent to people who are not in this folder.
    status.hints = HintCommands::from_anywhere(execution);
    let is_read = heard.is_some() || crate::state::journal_bytes(execution)? <= most;
    let mut heard = match heard {
        Some(heard) => heard,
        None if is_read => Heard::of(execution)?,
        None => Heard::default(),
    };
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
