//! Reads the files of a journal without its lock, for the commands that show the record ([`super::look`]): all state events, or the newest event of one
//! kind. The newest event is looked for only in the last [`MOST_SEARCHED`] bytes, so it is found only "if not much was recorded since".

use std::path::PathBuf;

use hankweave_core::event::{Recorded, StateEvent};
use hankweave_core::id::CodonId;
use hankweave_core::time::Timestamp;
use hankweave_core::wire::{AgentAction, Event, JournalEntry, ProgressKind};
pub(super) use hankweave_runtime::journal::segments;
use hankweave_runtime::journal::{self, each_line};
use hankweave_runtime::world::disk::Disk;
use serde::Deserialize;

/// Whether output of agents was removed from a file of the journal (D6).
pub(super) fn is_shortened(segments: &[PathBuf]) -> bool {
    let names = segments
        .iter()
        .filter_map(|segment| segment.file_stem()?.to_str());
    // The name that the journal gives to a shortened file.
    names.into_iter().any(|name| name.ends_with("-kept"))
}

/// Returns every state event that can be read, oldest first; damaged lines and files are skipped.
pub(super) fn state_events(disk: &dyn Disk, segments: &[PathBuf]) -> Vec<Recorded<StateEvent>> {
    let mut events: Vec<Recorded<StateEvent>> = Vec::new();
    for segment in segments {
        // A crash may have left a file next to its shortened copy, so events that are known already are skipped.
        let known = events.last().map_or(0, |event| event.seq);
        let read = each_line(disk, segment, |line| {
            let line = serde_json::from_slice::<StateEventLine>(line).ok();
            events.extend(line.filter(|line| line.seq > known).map(StateEventLine::recorded));
        });
        // The events in front of a read error count.
        read.unwrap_or_default();
    }
    events
}

/// Returns the newest `budget.summary`, if a run with budgets has ended and not much was recorded since: it is one of the last lines of its run.
pub(super) fn budget_summary(disk: &dyn Disk, segments: &[PathBuf]) -> Option<JournalEntry> {
    newest(disk, segments, "budget.summary", &|_| true)
}

/// Returns the newest `run.described`, if not much was recorded since.
pub(super) fn description(disk: &dyn Disk, segments: &[PathBuf]) -> Option<JournalEntry> {
    newest(disk, segments, "run.described", &|_| true)
}

/// Returns the newest question about this codon, if not much was recorded since, and no answer to it has been used or withdrawn.
pub(super) fn question(disk: &dyn Disk, segments: &[PathBuf], codon: &CodonId) -> Option<JournalEntry> {
    let is_question =
        |event: &Event| matches!(event, Event::ApprovalRequested { codon_id, .. } if codon_id == codon);
    let question = newest(disk, segments, "approval.requested", &is_question)?;
    let uses_answer = |event: &Event| {
        matches!(event, Event::StateTransition { transition, .. }
            if matches!(**transition, StateEvent::ApprovalSet { approval: None }))
    };
    let end = newest(disk, segments, "state.transition", &uses_answer);
    end.is_none_or(|end| end.seq < question.seq).then_some(question)
}

/// Returns the newest check of this codon, if not much was recorded since.
pub(super) fn check(disk: &dyn Disk, segments: &[PathBuf], codon: &CodonId) -> Option<JournalEntry> {
    let is_check =
        |event: &Event| matches!(event, Event::CheckCompleted { codon_id, .. } if codon_id == codon);
    newest(disk, segments, "check.completed", &is_check)
}

/// Returns the newest wait of this codon for background work, if its agent has said and done nothing since.
pub(super) fn background(disk: &dyn Disk, segments: &[PathBuf], codon: &CodonId) -> Option<JournalEntry> {
    let is_wait = |event: &Event| matches!(event, Event::Progress { codon_id: Some(of), kind: ProgressKind::Background, .. } if of == codon);
    let wait = newest(disk, segments, "progress", &is_wait)?;
    let has_ended = |kind| newest(disk, segments, kind, &|_| true).is_some_and(|entry| entry.seq > wait.seq);
    let ends = ["assistant.action", "tool.result", "token.usage"];
    (!ends.into_iter().any(has_ended)).then_some(wait)
}

/// Returns the newest message of an agent, if not much was recorded since; sub-agents do not count.
pub(super) fn message(disk: &dyn Disk, segments: &[PathBuf]) -> Option<JournalEntry> {
    let is_message = |event: &Event| {
        matches!(event, Event::AssistantAction { action: AgentAction::Message, content, parent_tool_use_id: None, .. }
            if !content.trim().is_empty())
    };
    newest(disk, segments, "assistant.action", &is_message)
}

/// Whether a run at rest waits for a command: its newest `server.idle` is newer than any change of its state.
pub(super) fn is_idle(disk: &dyn Disk, segments: &[PathBuf]) -> bool {
    let newest_of = |kind| newest(disk, segments, kind, &|_| true).map(|entry| entry.seq);
    newest_of("server.idle").is_some_and(|idle| newest_of("state.transition") < Some(idle))
}

/// Most bytes that are searched, from the end. They must have room for long lines: a budget summary of ten thousand codons has about three million.
const MOST_SEARCHED: u64 = 16 << 20;

/// Returns the newest event of this kind that `wanted` accepts.
fn newest(
    disk: &dyn Disk,
    segments: &[PathBuf],
    kind: &str,
    wanted: &dyn Fn(&Event) -> bool,
) -> Option<JournalEntry> {
    journal::newest(disk, segments, kind, wanted, MOST_SEARCHED)
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
