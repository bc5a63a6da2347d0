//! The state events in a journal that nobody may write to meanwhile but that is read without its lock.

use std::path::{Path, PathBuf};

use hankweave_core::event::{Recorded, StateEvent};
use hankweave_core::time::Timestamp;
use hankweave_core::wire::{Event, JournalEntry};
use serde::Deserialize;

use crate::world::disk::Disk;

/// A journal file is continued in another one long before it has this size.
const MAX_SEGMENT_BYTES: u64 = 256 << 20;

/// The files of the journal in `dir` that hold anything, oldest first.
pub(super) fn segments(disk: &dyn Disk, dir: &Path) -> Vec<PathBuf> {
    // Without a journal there is nothing to read.
    let names = disk.list_dir(dir).unwrap_or_default();
    let mut segments: Vec<PathBuf> = names
        .into_iter()
        .map(|name| dir.join(name))
        .filter(|path| path.extension().is_some_and(|extension| extension == "jsonl"))
        .filter(|path| disk.metadata(path).is_ok_and(|metadata| metadata.length > 0))
        .collect();
    segments.sort();
    segments
}

/// Every state event that can be read, oldest first; damaged lines and files are passed over.
pub(super) fn state_events(disk: &dyn Disk, segments: &[PathBuf]) -> Vec<Recorded<StateEvent>> {
    let mut events: Vec<Recorded<StateEvent>> = Vec::new();
    for segment in segments {
        let Ok(bytes) = disk.read(segment, MAX_SEGMENT_BYTES) else {
            continue;
        };
        // A crash may have left a file beside what was kept of it.
        let known = events.last().map_or(0, |event| event.seq);
        let lines = bytes.split(|byte| *byte == b'\n');
        events.extend(
            lines
                .filter_map(|line| serde_json::from_slice::<Line>(line).ok())
                .filter(|line| line.seq > known)
                .map(Line::recorded),
        );
    }
    events
}

/// The newest `budget.summary`, if a run with budgets has ended.
pub(super) fn budget_summary(disk: &dyn Disk, segments: &[PathBuf]) -> Option<Event> {
    segments.iter().rev().find_map(|segment| {
        let bytes = disk.read(segment, MAX_SEGMENT_BYTES).ok()?;
        let told = |line: &&[u8]| {
            line.windows(BUDGET_SUMMARY.len())
                .any(|part| part == BUDGET_SUMMARY)
        };
        let entries = bytes.rsplit(|byte| *byte == b'\n').filter(told);
        let mut entries = entries.filter_map(|line| serde_json::from_slice::<JournalEntry>(line).ok());
        entries.find_map(|entry| matches!(entry.event, Event::BudgetSummary { .. }).then_some(entry.event))
    })
}

/// What every such line holds, and hardly another one.
const BUDGET_SUMMARY: &[u8] = b"\"budget.summary\"";

/// The line of a state event; lines of other events do not have its data.
#[derive(Deserialize)]
struct Line {
    seq: u64,
    timestamp: Timestamp,
    data: Transition,
}

#[derive(Deserialize)]
struct Transition {
    transition: StateEvent,
}

impl Line {
    fn recorded(self) -> Recorded<StateEvent> {
        Recorded {
            seq: self.seq,
            at: self.timestamp,
            event: self.data.transition,
        }
    }
}
