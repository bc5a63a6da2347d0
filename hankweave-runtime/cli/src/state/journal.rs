//! The state events in a journal that nobody may write to meanwhile but that is read without its lock.

use std::path::{Path, PathBuf};

use hankweave_core::event::{Recorded, StateEvent};
use hankweave_core::time::Timestamp;
use hankweave_core::wire::{Event, JournalEntry};
use hankweave_runtime::journal::each_line;
use hankweave_runtime::world::disk::Disk;
use serde::Deserialize;

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
        // A crash may have left a file beside what was kept of it.
        let known = events.last().map_or(0, |event| event.seq);
        let read = each_line(disk, segment, |line| {
            let line = serde_json::from_slice::<StateEventLine>(line).ok();
            events.extend(line.filter(|line| line.seq > known).map(StateEventLine::recorded));
        });
        // What could be read of it counts.
        read.unwrap_or_default();
    }
    events
}

/// The newest `budget.summary`, if a run with budgets has ended.
pub(super) fn budget_summary(disk: &dyn Disk, segments: &[PathBuf]) -> Option<Event> {
    segments.iter().rev().find_map(|segment| {
        let mut newest = None;
        let told = memchr::memmem::Finder::new("\"budget.summary\"");
        let read = each_line(disk, segment, |line| {
            let entry = told.find(line).and_then(|_| JournalEntry::from_json(line).ok());
            let event = entry.map(|entry| entry.event);
            newest = event
                .filter(|event| matches!(event, Event::BudgetSummary { .. }))
                .or(newest.take());
        });
        read.unwrap_or_default();
        newest
    })
}

/// The line of a state event; lines of other events do not have its data.
#[derive(Deserialize)]
struct StateEventLine {
    seq: u64,
    timestamp: Timestamp,
    data: Transition,
}

#[derive(Deserialize)]
struct Transition {
    transition: StateEvent,
}

impl StateEventLine {
    fn recorded(self) -> Recorded<StateEvent> {
        Recorded {
            seq: self.seq,
            at: self.timestamp,
            event: self.data.transition,
        }
    }
}
