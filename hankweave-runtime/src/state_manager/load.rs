//! Loads the state when a directory is opened: chooses the document to trust among state.json, its backup and the log, repairs the other files, and adds to the
//! journal the events that it lacks.

use std::path::PathBuf;

use hankweave_core::document::{HankweaveState, StateProblem, foreign_version, parse, render};
use hankweave_core::event::{Recorded, StateEvent};
use hankweave_core::state::{Candidate, LiveState, RecoverError, RecoveredState, StateSource, recover};
use hankweave_core::wire::{CurrentFigures, Event, JournalEntry};

use super::journal_writer::SEQ_GAP;
use super::snapshots::LogTrimPoints;
use super::{LoadError, StateManagerParts};
use crate::journal::{EventJournal, PageLimit, state_event_id};
use crate::store::{FoundFile, FoundState, NOTHING_IN_DOUBT, SnapshotMark, StateFileError, StateLog};
use crate::world::disk::IoError;

/// Behaviour when recorded history exists and none of it can be used (P6).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strictness {
    /// Start with an empty document; the caller warns the user.
    StartOver,
    /// Stop and change nothing.
    Stop,
}

/// The state to start with, and where it came from.
#[derive(Debug)]
pub struct LoadedState {
    /// Source of the document.
    pub source: StateSource,
    /// Why state.json could not be used; empty when it could or was absent.
    pub primary_problems: Vec<StateProblem>,
    /// Why state.json.bak could not be used; empty when it was not read.
    pub backup_problems: Vec<StateProblem>,
    /// Whether recorded history was lost; the user must be notified.
    pub history_was_reset: bool,
    /// Number of acknowledged lines of the log that cannot be read.
    pub damaged_log_lines: usize,
    /// New paths of damaged files.
    pub quarantined: Vec<PathBuf>,
    /// How many events the journal lacked and got from the log.
    pub restored_events: usize,
    pub(super) live: LiveState,
    pub(super) next_seq: u64,
    pub(super) log: StateLog,
    /// Which part of the log the saved documents need.
    pub(super) cuts: LogTrimPoints,
    /// Whether state.json lacks events of the log.
    pub(super) behind: bool,
}

impl LoadedState {
    /// The document to start with.
    #[must_use]
    pub fn state(&self) -> &HankweaveState {
        self.live.document()
    }
}

/// Reads the state files and the journal, chooses the document to trust, and repairs the other files. Blocks; the instance
/// lock must be held.
///
/// Afterwards state.json holds a document that the log continues, and every event of the log is in the
/// journal.
///
/// # Errors
///
/// [`LoadError`]; damaged files may have been moved aside before the error.
pub fn load(parts: &StateManagerParts, strictness: Strictness) -> Result<LoadedState, LoadError> {
    let found = parts.files.find().map_err(LoadError::Files)?;
    let history_exists = found.traces || found.log.last_seq() > 0 || parts.journal.last_seq() > 0;
    let mut journal_failure = None;
    let events = || {
        recorded_events(&*parts.journal, &found).unwrap_or_else(|error| {
            journal_failure = Some(error);
            Vec::new()
        })
    };
    // A backup that cannot be read counts as absent here, and is an error below, before anything is changed.
    let backup = || found.backup().unwrap_or(&FoundFile::Absent);
    let recovered = choose(&found, backup, events, history_exists);
    let backup = match recovered.source {
        StateSource::Primary => &FoundFile::Absent,
        _ => found.backup().map_err(LoadError::Files)?,
    };
    if let Some(error) = journal_failure {
        return Err(LoadError::Journal(error));
    }
    if let Some(version) = foreign_version_among(&found.primary, backup, recovered.source) {
        return Err(LoadError::Version { version });
    }
    if recovered.history_was_reset && strictness == Strictness::Stop {
        return Err(LoadError::History(RecoverError));
    }
    let last_seq = found.log.last_seq().max(parts.journal.last_seq());
    // Whether the last process ended cleanly, with everything durable.
    let clean = last_seq == 0 || found.log.closed_at == Some(last_seq);
    let quarantined = repair_files(parts, &found, backup, recovered.source).map_err(LoadError::Files)?;
    // A damaged log was just written again as a whole, so the range of its last write no longer applies.
    let last_write = match found.log.damaged_lines {
        0 => &found.log.last_write,
        _ => &NOTHING_IN_DOUBT,
    };
    // Opening makes the log durable. That comes before its events are added to the journal: otherwise a loss of power could take
    // events from the log that the journal has.
    let log = parts.files.open_log(last_write).map_err(LoadError::Files)?;
    let restored_events =
        complete_journal(parts, &found, backup, recovered.source, clean).map_err(LoadError::Journal)?;
    let mut loaded = LoadedState {
        source: recovered.source,
        primary_problems: recovered.primary_problems,
        backup_problems: recovered.backup_problems,
        history_was_reset: recovered.history_was_reset,
        damaged_log_lines: found.log.damaged_lines,
        quarantined,
        restored_events,
        live: LiveState::new(recovered.state),
        next_seq: last_seq + if clean { 1 } else { 1 + SEQ_GAP },
        log,
        cuts: LogTrimPoints::default(),
        behind: is_behind(&found, recovered.source),
    };
    if !continues(&found, loaded.source) {
        first_snapshot(parts, &mut loaded, last_seq)?;
    }
    Ok(loaded)
}

/// Finds out which document a start would load, without changing anything: for commands that only read.
///
/// `journal_exists` and `journaled` replace the journal, which cannot be opened without repairing it. `journaled` returns its
/// state events; it is called only when neither state.json nor the backup can be used.
#[must_use]
pub fn peek(
    found: &FoundState,
    journal_exists: bool,
    journaled: impl FnOnce() -> Vec<Recorded<StateEvent>>,
) -> RecoveredState {
    let history_exists = found.traces || found.log.last_seq() > 0 || journal_exists;
    let backup = || {
        found.backup().unwrap_or_else(|error| {
            tracing::warn!(%error, "the backup of the state cannot be read");
            &FoundFile::Unusable
        })
    };
    let events = || merged(found.log.records.clone(), journaled());
    choose(found, backup, events, history_exists)
}

/// Chooses the document to trust. `backup` and `events` are called only when state.json cannot be used.
fn choose<'f>(
    found: &'f FoundState,
    backup: impl FnOnce() -> &'f FoundFile,
    events: impl FnOnce() -> Vec<Recorded<StateEvent>>,
    history_exists: bool,
) -> RecoveredState {
    let primary = candidate(&found.primary, found);
    let recovered = recover(primary, None, Vec::new, history_exists);
    match recovered.source {
        StateSource::Primary => recovered,
        _ => recover(primary, candidate(backup(), found), events, history_exists),
    }
}

/// Returns a document to choose from: the bytes of the file, and the events of the log after it.
fn candidate<'a>(file: &'a FoundFile, found: &'a FoundState) -> Option<Candidate<'a>> {
    match file {
        FoundFile::Absent => None,
        // Empty bytes are no valid document, so `recover` reports a problem with this file.
        FoundFile::Unusable => Some(Candidate {
            bytes: &[],
            tail: &[],
        }),
        FoundFile::Bytes(bytes) => Some(Candidate {
            bytes,
            tail: found.log.tail_of(bytes),
        }),
    }
}

/// Returns the schema version of a state file that was not used because another version of hankweave wrote it.
fn foreign_version_among(primary: &FoundFile, backup: &FoundFile, source: StateSource) -> Option<u64> {
    let unused = match source {
        StateSource::Primary => &[][..],
        StateSource::Backup => &[primary],
        StateSource::Log | StateSource::Fresh => &[primary, backup],
    };
    unused.iter().find_map(|file| match file {
        FoundFile::Bytes(bytes) => foreign_version(bytes),
        FoundFile::Absent | FoundFile::Unusable => None,
    })
}

/// Whether the log has a mark of the loaded state.json, so that a later start finds the records that follow it.
fn continues(found: &FoundState, source: StateSource) -> bool {
    match (&found.primary, source) {
        (FoundFile::Bytes(bytes), StateSource::Primary) => found.log.knows(bytes),
        _ => false,
    }
}

/// Whether the loaded state.json lacks events that the log has.
fn is_behind(found: &FoundState, source: StateSource) -> bool {
    match (&found.primary, source) {
        (FoundFile::Bytes(bytes), StateSource::Primary) => !found.log.tail_of(bytes).is_empty(),
        _ => false,
    }
}

/// Moves aside files that are not trusted, and removes the remains of interrupted saves. Returns the new paths.
fn repair_files(
    parts: &StateManagerParts,
    found: &FoundState,
    backup: &FoundFile,
    source: StateSource,
) -> Result<Vec<PathBuf>, StateFileError> {
    let (files, now) = (&parts.files, parts.clock.now());
    let mut quarantined = Vec::new();
    files.sweep()?;
    if source != StateSource::Primary && found.primary != FoundFile::Absent {
        quarantined.push(files.quarantine_primary(now)?);
    }
    if matches!(source, StateSource::Log | StateSource::Fresh) && *backup != FoundFile::Absent {
        quarantined.push(files.quarantine_backup(now)?);
    }
    if found.log.damaged_lines > 0 {
        quarantined.push(files.repair_log(&found.log, now)?);
    }
    Ok(quarantined)
}

/// Writes the loaded document as state.json, with a mark in the log, so that the log continues it.
fn first_snapshot(
    parts: &StateManagerParts,
    loaded: &mut LoadedState,
    last_seq: u64,
) -> Result<(), LoadError> {
    let document = render(loaded.state());
    let cut = loaded.log.length();
    let mut batch = crate::store::LogBatch::default();
    batch.mark(&SnapshotMark::of(last_seq, document.as_bytes()));
    loaded.log.append(&batch).map_err(LoadError::Log)?;
    let keep_current = loaded.source == StateSource::Primary;
    parts
        .files
        .save(document.as_bytes(), keep_current)
        .map_err(LoadError::Files)?;
    loaded.cuts.saved(cut, keep_current);
    Ok(())
}

/// Makes the end of the journal durable, and adds events of the log that a crash took from the journal (P7). Returns their number.
///
/// The journal is synced before each snapshot, so only events after the loaded snapshot can be missing or in
/// doubt.
fn complete_journal(
    parts: &StateManagerParts,
    found: &FoundState,
    backup: &FoundFile,
    source: StateSource,
    clean: bool,
) -> Result<usize, IoError> {
    let (bytes, tail) = match (source, &found.primary, backup) {
        (StateSource::Primary, FoundFile::Bytes(bytes), _)
        | (StateSource::Backup, _, FoundFile::Bytes(bytes)) => (bytes.as_slice(), found.log.tail_of(bytes)),
        _ => (&[][..], found.log.records.as_slice()),
    };
    if !clean {
        let snapshot_seq = found.log.mark_of(bytes).map_or(0, |mark| mark.seq);
        parts.journal.write_again(snapshot_seq)?;
    }
    let missing = missing_from(&*parts.journal, tail)?;
    let (Some(first), count) = (missing.first(), missing.len()) else {
        return Ok(0);
    };
    tracing::debug!(first, count, "the journal lacks events that the log has");
    let mut live = LiveState::new(parse(bytes).unwrap_or_default());
    let mut entries = Vec::new();
    for recorded in tail {
        // Only accepted events are logged, but after damage to the log one may no longer apply; then it is no part of
        // history.
        if live.apply(recorded).is_ok() && missing.binary_search(&recorded.seq).is_ok() {
            entries.push(journal_entry(recorded, &live));
        }
    }
    let restored = entries.len();
    parts.journal.restore(entries)?;
    Ok(restored)
}

/// The journal entry of an event from the log; `live` is the state after it.
fn journal_entry(recorded: &Recorded<StateEvent>, live: &LiveState) -> JournalEntry {
    let figures = CurrentFigures::of(live);
    JournalEntry {
        seq: recorded.seq,
        id: state_event_id(recorded.seq, recorded.at, &recorded.event, &figures),
        timestamp: recorded.at,
        event: Event::state_transition(Box::new(recorded.event.clone()), figures),
    }
}

/// The numbers of `records` that the journal does not have, ascending.
fn missing_from(journal: &dyn EventJournal, records: &[Recorded<StateEvent>]) -> Result<Vec<u64>, IoError> {
    let mut missing: Vec<u64> = records.iter().map(|record| record.seq).collect();
    if let Some(first) = missing.first() {
        for_each_entry(journal, first - 1, |entry| {
            if let Ok(index) = missing.binary_search(&entry.seq) {
                missing.remove(index);
            }
        })?;
    }
    Ok(missing)
}

/// Returns every state event that the journal or the log still has, oldest first.
fn recorded_events(
    journal: &dyn EventJournal,
    found: &FoundState,
) -> Result<Vec<Recorded<StateEvent>>, IoError> {
    let mut journaled = Vec::new();
    for_each_entry(journal, 0, |entry| {
        if let Event::StateTransition { transition, .. } = &entry.event {
            let event = StateEvent::clone(transition);
            journaled.push(Recorded {
                seq: entry.seq,
                at: entry.timestamp,
                event,
            });
        }
    })?;
    Ok(merged(found.log.records.clone(), journaled))
}

/// Returns the events of log and journal together, each once, oldest first.
fn merged(
    logged: Vec<Recorded<StateEvent>>,
    journaled: Vec<Recorded<StateEvent>>,
) -> Vec<Recorded<StateEvent>> {
    let mut events = logged;
    events.extend(journaled);
    events.sort_by_key(|event| event.seq);
    events.dedup_by_key(|event| event.seq);
    events
}

/// Calls `each` for every entry of the journal after number `after`, page by page.
fn for_each_entry(
    journal: &dyn EventJournal,
    mut after: u64,
    mut each: impl FnMut(&JournalEntry),
) -> Result<(), IoError> {
    loop {
        let page = journal.read_after(after, PageLimit::CLIENT)?;
        page.entries.iter().for_each(&mut each);
        match page.entries.last() {
            Some(last) if page.more => after = last.seq,
            _ => return Ok(()),
        }
    }
}
