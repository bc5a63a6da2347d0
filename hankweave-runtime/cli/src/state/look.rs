//! The recorded state and the newest events of the journal, as many commands need them. Reads without the lock and changes nothing.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hankweave_core::document::{
    CheckpointFacts, CheckpointTable, HankweaveState, KnownCheckpoints, RunRecord, RunStatus, StateWarning,
    WarningContext, parse, warnings,
};
use hankweave_core::hank::Hank;
use hankweave_core::id::{CheckpointSha, CodonId, RunId};
use hankweave_core::plan::{Decision, decide_with_replans};
use hankweave_core::state::{Candidate, RecoveredState, recover};
use hankweave_core::thread;
use hankweave_core::view::RunView;
use hankweave_core::wire::JournalEntry;
use hankweave_runtime::ExecutionDir;
use hankweave_runtime::checkpoint::{GitHistory, KnownCheckpoint};
use hankweave_runtime::error::chain;
use hankweave_runtime::inspect;
use hankweave_runtime::state_manager::peek;
use hankweave_runtime::store::StateFiles;
use hankweave_runtime::world::disk::{Disk, RealDisk};

use super::journal;
use crate::args::Document;
use crate::directory;
use crate::hints::{HintCommands, about_file};
use crate::owning_task::existing_state_dir;
use crate::terminal::exit::{CliError, CliErrorKind};
use crate::terminal::report::RunProcess;
use crate::terminal::screen::print_stderr;

/// Reads the document that a command is about. A named file must be complete; an execution directory is read as a start would read it.
pub(crate) fn read(document: &Document) -> Result<HankweaveState, CliError> {
    match &document.state {
        None => read_execution(&document.execution.execution),
        Some(file) => parse(&bytes_of(file)?).map_err(|problems| {
            let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
            let message = format!("`{}` is no state document: {}", file.display(), lines.join("; "));
            CliError::new(CliErrorKind::Input, message)
        }),
    }
}

/// Reads the document of an execution directory as a start would find it.
pub(crate) fn read_execution(execution: &Path) -> Result<HankweaveState, CliError> {
    Ok(recover_from(&existing_state_dir(execution)?)?.state)
}

/// Returns the id of the run whose id is `text`, or starts or ends with it. An id that no run has is returned as it is.
pub(crate) fn named_run(state: &HankweaveState, text: &str, document: &Document) -> Result<RunId, CliError> {
    let has_part = |run: &&Arc<RunRecord>| {
        let id = run.run_id.as_str();
        !text.is_empty() && (id.starts_with(text) || id.ends_with(text))
    };
    let found: Vec<&RunId> = state
        .runs
        .iter()
        .filter(has_part)
        .map(|run| &run.run_id)
        .collect();
    let failure = |message: String| {
        let hint = format!("`{}` lists the runs", history_command(document));
        CliError::new(CliErrorKind::Input, message).hint(hint)
    };
    match found[..] {
        [run] => Ok(run.clone()),
        [] => text
            .parse()
            .map_err(|_| failure(format!("run `{text}` does not exist"))),
        _ => Err(failure(format!(
            "`{text}` is part of the ids of {} runs",
            found.len()
        ))),
    }
}

/// Returns the command that lists the runs of a document.
pub(crate) fn history_command(document: &Document) -> String {
    match &document.state {
        Some(file) => about_file("history --all", file),
        None => HintCommands::about(&document.execution.execution).command("history --all"),
    }
}

/// Returns the files of the journal of an execution directory, oldest first.
fn segments_of(execution: &Path) -> Result<Vec<PathBuf>, CliError> {
    let events = existing_state_dir(execution)?.join("events");
    Ok(journal::segments(&RealDisk, &events))
}

/// Whether the oldest output of agents was removed from the journal of the execution directory.
pub(crate) fn is_shortened(execution: &Path) -> Result<bool, CliError> {
    let segments = segments_of(execution)?;
    Ok(journal::is_shortened(&segments))
}

/// Returns the length of the journal of an execution directory, in bytes.
pub(crate) fn journal_bytes(execution: &Path) -> Result<u64, CliError> {
    let segments = segments_of(execution)?;
    let lengths = segments.iter().filter_map(|path| RealDisk.metadata(path).ok());
    Ok(lengths.map(|found| found.length).sum())
}

/// Returns the budgets' usage at the end of the newest run that has budgets, if not much was recorded since.
pub(crate) fn budget_summary(execution: &Path) -> Result<Option<JournalEntry>, CliError> {
    let segments = segments_of(execution)?;
    Ok(journal::budget_summary(&RealDisk, &segments))
}

/// Returns the newest description of a run with its limits, if it describes the newest run in which a codon started or a later run. `None` also if much
/// was recorded since.
pub(crate) fn description(
    execution: &Path,
    state: &HankweaveState,
) -> Result<Option<JournalEntry>, CliError> {
    let segments = segments_of(execution)?;
    let mut with_codons = state.runs.iter().filter(|run| !run.codons.is_empty());
    let began = with_codons
        .next()
        .or(state.runs.front())
        .map(|run| run.start_time);
    let described = journal::description(&RealDisk, &segments);
    Ok(described.filter(|entry| Some(entry.timestamp) >= began))
}

/// Returns by how much the total budget of the newest run is exceeded, in words.
pub(crate) fn overrun(execution: &Path, state: &HankweaveState) -> Result<Option<String>, CliError> {
    Ok(description(execution, state)?.and_then(|described| {
        let view = RunView::of_state(state, &thread::build(state, None, None), 0);
        view.with_description(&described.event).overrun()
    }))
}

/// Returns the newest question about a codon, with the time at which it was asked.
pub(crate) fn question(execution: &Path, codon: &CodonId) -> Result<Option<JournalEntry>, CliError> {
    let segments = segments_of(execution)?;
    Ok(journal::question(&RealDisk, &segments, codon))
}

/// Returns the process of the newest run of a document, also where it waits for an approval.
pub(crate) fn process_of(file: Option<&Path>, execution: &Path, state: &HankweaveState) -> RunProcess {
    match directory::process_of(file, execution) {
        RunProcess::Working if file.is_none() && is_asking(execution, state) => RunProcess::Asking,
        process => process,
    }
}

/// Whether the newest run has asked for the approval that its next codon needs.
fn is_asking(execution: &Path, state: &HankweaveState) -> bool {
    let run = state.runs.front().filter(|run| run.status == RunStatus::Running);
    let Some(run) = run.filter(|run| run.open_codon().is_none()) else {
        return false;
    };
    let decision = last_hank(execution).map(|hank| decide_with_replans(state, &hank));
    let Some(Decision::Ask(entry)) = decision else {
        return false;
    };
    let asked = question(execution, &entry.codon_id).ok().flatten();
    // An older question is that of an earlier run.
    asked.is_some_and(|asked| asked.timestamp >= run.start_time)
}

/// Returns the hank that ran last in an execution directory.
pub(crate) fn last_hank(execution: &Path) -> Option<Hank> {
    let dir = ExecutionDir::new(execution.to_owned());
    inspect::last_hank(&RealDisk, &dir).ok()??.hank
}

/// Returns the wait of an open codon for background work of its agent, if it waits.
pub(crate) fn background(execution: &Path, codon: &CodonId) -> Result<Option<JournalEntry>, CliError> {
    let segments = segments_of(execution)?;
    Ok(journal::background(&RealDisk, &segments, codon))
}

/// Returns the newest message of an agent, if not much was recorded since.
pub(crate) fn newest_message(execution: &Path) -> Result<Option<JournalEntry>, CliError> {
    let segments = segments_of(execution)?;
    Ok(journal::message(&RealDisk, &segments))
}

/// Whether a run at rest waits for a command, by its journal.
pub(crate) fn is_idle(execution: &Path) -> Result<bool, CliError> {
    let segments = segments_of(execution)?;
    Ok(journal::is_idle(&RealDisk, &segments))
}

/// Returns the newest check of a codon, if not much was recorded since.
pub(crate) fn newest_check(execution: &Path, codon: &CodonId) -> Result<Option<JournalEntry>, CliError> {
    let segments = segments_of(execution)?;
    Ok(journal::check(&RealDisk, &segments, codon))
}

/// Returns the recovered document of a command, with its source and the problems of the files.
pub(super) fn recovered_document(document: &Document) -> Result<RecoveredState, CliError> {
    match &document.state {
        None => recover_from(&existing_state_dir(&document.execution.execution)?),
        Some(file) => {
            let bytes = bytes_of(file)?;
            let candidate = Candidate {
                bytes: &bytes,
                tail: &[],
            };
            Ok(recover(Some(candidate), None, Vec::new, true))
        }
    }
}

/// Recovers the document from the files of a state directory and its journal, as a start would.
fn recover_from(state_dir: &Path) -> Result<RecoveredState, CliError> {
    let disk = RealDisk;
    let segments = journal::segments(&disk, &state_dir.join("events"));
    let files = StateFiles::new(Arc::new(RealDisk), None, state_dir.to_owned());
    let found = files
        .find()
        .map_err(|error| CliError::from_error(CliErrorKind::Io, &error))?;
    Ok(peek(&found, !segments.is_empty(), || {
        journal::state_events(&disk, &segments)
    }))
}

/// Returns the warnings about the record of an execution directory, without those about its checkpoints.
pub(crate) fn record_warnings(execution: &Path, state: &HankweaveState) -> Vec<StateWarning> {
    let state_dir = ExecutionDir::new(execution.to_owned()).state_dir();
    let context = WarningContext {
        checkpoints: None,
        run_folders: &folders_below(&state_dir.join("runs")),
    };
    warnings(state, context)
}

/// Returns the names of the run folders of an execution directory; none for a single file.
pub(super) fn run_folders(document: &Document) -> Vec<String> {
    match document.state {
        Some(_) => Vec::new(),
        None => folders_below(&state_dir(document).join("runs")),
    }
}

fn folders_below(runs: &Path) -> Vec<String> {
    // A folder that does not exist or cannot be listed counts as empty: the names are only used for warnings.
    let names = RealDisk.list_dir(runs).unwrap_or_default();
    let is_dir = |name: &str| runs.join(name).is_dir();
    let mut names: Vec<String> = names
        .into_iter()
        .filter_map(|name| name.into_string().ok())
        .filter(|name| is_dir(name))
        .collect();
    names.sort();
    names
}

pub(super) fn state_dir(document: &Document) -> PathBuf {
    ExecutionDir::new(document.execution.execution.clone()).state_dir()
}

/// Returns the commits named by `state` that exist, according to the list in `file` or else the repository of the execution directory. `None` if that
/// is unknown.
pub(crate) fn known_checkpoints(
    document: &Document,
    state: &HankweaveState,
    file: Option<&Path>,
) -> Result<Option<Box<dyn KnownCheckpoints>>, CliError> {
    if let Some(file) = file {
        let listed: HashSet<CheckpointSha> = serde_json::from_slice(&bytes_of(file)?).map_err(|error| {
            let message = format!("`{}` is no JSON list of SHAs: {error}", file.display());
            CliError::new(CliErrorKind::Input, message)
        })?;
        return Ok(Some(Box::new(listed)));
    }
    match &document.state {
        Some(_) => Ok(None),
        None => Ok(repository(&document.execution.execution, state).map(|known| Box::new(known) as _)),
    }
}

/// Returns the checkpoints named by `state`: none if the repository no longer exists. A repository that cannot be read is reported, and the result is
/// `None`.
fn repository(execution: &Path, state: &HankweaveState) -> Option<CheckpointTable> {
    let path = ExecutionDir::new(execution.to_owned()).checkpoints();
    let recorded = inspect::recorded_checkpoints(state);
    let existing = GitHistory::open(&path).and_then(|history| match history {
        Some(history) => history.existing(&recorded),
        None => Ok(Default::default()),
    });
    match existing {
        Ok(existing) => Some(
            existing
                .into_iter()
                .map(|(sha, found)| (sha, facts(found)))
                .collect(),
        ),
        Err(error) => {
            print_stderr(format!("note: checkpoints are not checked: {}\n", chain(&error)));
            None
        }
    }
}

fn facts(found: KnownCheckpoint) -> CheckpointFacts {
    CheckpointFacts {
        message: found.message,
        timestamp: Some(found.timestamp),
        branch: found.branch,
    }
}

pub(super) fn bytes_of(file: &Path) -> Result<Vec<u8>, CliError> {
    RealDisk.read(file, u64::MAX).map_err(|error| {
        let message = format!("failed to read `{}`: {error}", file.display());
        CliError::new(CliErrorKind::Input, message)
    })
}
