//! Chooses the document that a start works with: from state.json, its backup, or the recorded events (P6).

use std::fmt;

use super::LiveState;
use crate::document::{HankweaveState, StateProblem, parse};
use crate::event::{Recorded, StateEvent};

/// The contents of a state file, with the events that follow it.
#[derive(Debug, Clone, Copy)]
pub struct Candidate<'a> {
    /// The bytes of the file.
    pub bytes: &'a [u8],
    /// The logged events that came after exactly these bytes, oldest first. The log marks where each file was written, with a checksum of the file; without a
    /// mark of these bytes the tail is empty.
    pub tail: &'a [Recorded<StateEvent>],
}

/// Origin of the recovered document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StateSource {
    /// `state.json`
    Primary,
    /// `state.json.bak`
    Backup,
    /// The recorded events.
    Log,
    /// Nothing existed, or nothing could be used.
    Fresh,
}

impl fmt::Display for StateSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Primary => "primary",
            Self::Backup => "backup",
            Self::Log => "log",
            Self::Fresh => "fresh",
        })
    }
}

/// The document to work with, and why better sources were not used.
#[derive(Debug, Clone)]
pub struct RecoveredState {
    /// The document.
    pub state: HankweaveState,
    /// Origin of the document.
    pub source: StateSource,
    /// Why `state.json` could not be used; empty when it could, or when there never was one.
    pub primary_problems: Vec<StateProblem>,
    /// Why `state.json.bak` could not be used; empty when it was not read.
    pub backup_problems: Vec<StateProblem>,
    /// Whether recorded history existed and could not be used: the user must learn of it.
    pub history_was_reset: bool,
}

/// The history is so damaged that a strict start refuses (P6).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the recorded history cannot be read and --strict-state forbids to start over")]
pub struct RecoverError;

impl RecoveredState {
    /// Adds the chosen document and its source.
    fn with(self, state: HankweaveState, source: StateSource) -> Self {
        Self {
            state,
            source,
            ..self
        }
    }
}

/// Chooses the first of: the primary file, the backup, a rebuild from all recorded events, an empty document.
///
/// `events` are all events of the journal, oldest first; they are read only when both files fail. `history_exists` means that something in the
/// directory shows that there once was a document.
#[must_use]
pub fn recover(
    primary: Option<Candidate<'_>>,
    backup: Option<Candidate<'_>>,
    events: impl FnOnce() -> Vec<Recorded<StateEvent>>,
    history_exists: bool,
) -> RecoveredState {
    let mut recovered = RecoveredState {
        state: HankweaveState::default(),
        source: StateSource::Fresh,
        primary_problems: Vec::new(),
        backup_problems: Vec::new(),
        history_was_reset: false,
    };
    let damaged = primary.is_some() || backup.is_some() || history_exists;
    match primary.map(load) {
        Some(Ok(state)) => return recovered.with(state, StateSource::Primary),
        Some(Err(problems)) => recovered.primary_problems = problems,
        None if damaged => {
            // A missing document is damage, not a first start (P6).
            let message = "the file is gone, and others show that it was there";
            recovered.primary_problems = vec![StateProblem::corrupted(message)];
        }
        None => {}
    }
    match backup.map(load) {
        Some(Ok(state)) => return recovered.with(state, StateSource::Backup),
        Some(Err(problems)) => recovered.backup_problems = problems,
        None => {}
    }
    if !damaged {
        return recovered;
    }
    match rebuild(&events()) {
        Some(state) => recovered.with(state, StateSource::Log),
        None => RecoveredState {
            history_was_reset: true,
            ..recovered
        },
    }
}

/// Reads a state file and applies the events after it.
fn load(found: Candidate<'_>) -> Result<HankweaveState, Vec<StateProblem>> {
    let mut live = LiveState::new(parse(found.bytes)?);
    for recorded in found.tail {
        // Only accepted events are logged, so a refusal means that the log does not continue these bytes.
        if let Err(refused) = live.apply(recorded) {
            let message = format!("event {} of the log does not fit: {refused}", recorded.seq);
            return Err(vec![StateProblem::corrupted(message)]);
        }
    }
    Ok(live.into_document())
}

/// Applies all events to an empty document; `None` when the result has no run.
fn rebuild(events: &[Recorded<StateEvent>]) -> Option<HankweaveState> {
    let mut live = LiveState::default();
    for recorded in events {
        // A damaged journal may lack lines; what still fits is kept.
        let _ = live.apply(recorded);
    }
    let state = live.into_document();
    (!state.runs.is_empty()).then_some(state)
}
