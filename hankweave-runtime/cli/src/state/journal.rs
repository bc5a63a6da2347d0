//! The state events in a journal that nobody may write to meanwhile but that is read without its lock.

use std::io;
use std::path::{Path, PathBuf};

use hankweave_core::event::{Recorded, StateEvent};
use hankweave_core::id::CodonId;
use hankweave_core::time::Timestamp;
use hankweave_core::wire::{AgentAction, Event, JournalEntry, ProgressKind};
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

/// Whether output of agents was removed from a file of the journal (D6).
pub(super) fn is_shortened(segments: &[PathBuf]) -> bool {
    let names = segments
        .iter()
        .filter_map(|segment| segment.file_stem()?.to_str());
    names.into_iter().any(|name| name.ends_with("-kept"))
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

/// The newest `budget.summary`, if a run with budgets has ended and not much was recorded since: it is one of the last lines of its run.
pub(super) fn budget_summary(disk: &dyn Disk, segments: &[PathBuf]) -> Option<JournalEntry> {
    newest(disk, segments, "budget.summary", &|_| true)
}

/// The newest `run.described`, if not much was recorded since.
pub(super) fn description(disk: &dyn Disk, segments: &[PathBuf]) -> Option<JournalEntry> {
    newest(disk, segments, "run.described", &|_| true)
}

/// The newest question about this codon, if not much was recorded since.
pub(super) fn question(disk: &dyn Disk, segments: &[PathBuf], codon: &CodonId) -> Option<JournalEntry> {
    let is_of_it =
        |event: &Event| matches!(event, Event::ApprovalRequested { codon_id, .. } if codon_id == codon);
    newest(disk, segments, "approval.requested", &is_of_it)
}

/// The newest check of this codon, if not much was recorded since.
pub(super) fn check(disk: &dyn Disk, segments: &[PathBuf], codon: &CodonId) -> Option<JournalEntry> {
    let is_of_it =
        |event: &Event| matches!(event, Event::CheckCompleted { codon_id, .. } if codon_id == codon);
    newest(disk, segments, "check.completed", &is_of_it)
}

/// The newest wait of this codon for background work, if its agent has said and done nothing since.
pub(super) fn background(disk: &dyn Disk, segments: &[PathBuf], codon: &CodonId) -> Option<JournalEntry> {
    let is_wait = |event: &Event| matches!(event, Event::Progress { codon_id: Some(of), kind: ProgressKind::Background, .. } if of == codon);
    let wait = newest(disk, segments, "progress", &is_wait)?;
    let has_ended = |kind| newest(disk, segments, kind, &|_| true).is_some_and(|entry| entry.seq > wait.seq);
    let ends = ["assistant.action", "tool.result", "token.usage"];
    (!ends.into_iter().any(has_ended)).then_some(wait)
}

/// The newest message of an agent, if not much was recorded since; sub-agents do not count.
pub(super) fn message(disk: &dyn Disk, segments: &[PathBuf]) -> Option<JournalEntry> {
    let is_message = |event: &Event| {
        matches!(event, Event::AssistantAction { action: AgentAction::Message, content, parent_tool_use_id: None, .. }
            if !content.trim().is_empty())
    };
    newest(disk, segments, "assistant.action", &is_message)
}

/// Whether a run at rest waits for a command: it has reported so, and its state has not changed since.
pub(super) fn is_idle(disk: &dyn Disk, segments: &[PathBuf]) -> bool {
    let newest_of = |kind| newest(disk, segments, kind, &|_| true).map(|entry| entry.seq);
    newest_of("server.idle").is_some_and(|idle| newest_of("state.transition") < Some(idle))
}

/// The newest event of a type that is `wanted`. Only the newest part of the journal is searched, from its end, and no line of another type is parsed.
/// The newest event, unless a line of a megabyte follows it.
pub(super) fn last(disk: &dyn Disk, segments: &[PathBuf]) -> Option<JournalEntry> {
    let segment = segments.last()?;
    let end = disk.metadata(segment).ok()?.length;
    let begin = end.saturating_sub(SEARCHED);
    let length = usize::try_from(end - begin).ok()?;
    let part = disk.read_at(segment, begin, length).ok()?;
    // A kill may have cut the last line off.
    let mut lines = part.rsplit(|byte| *byte == b'\n');
    lines.find_map(|line| JournalEntry::from_json(line).ok())
}

fn newest(
    disk: &dyn Disk,
    segments: &[PathBuf],
    kind: &str,
    wanted: &dyn Fn(&Event) -> bool,
) -> Option<JournalEntry> {
    let mut left = MOST_SEARCHED;
    // What cannot be read has none.
    let found = |segment: &PathBuf| newest_in(disk, segment, kind, wanted, &mut left).unwrap_or_default();
    segments.iter().rev().find_map(found)
}

/// Bytes that are searched at a time, from the end of a file on.
const SEARCHED: u64 = 1 << 20;

/// Bytes that are searched at most: the summary of ten thousand codons has about three million.
const MOST_SEARCHED: u64 = 16 << 20;

/// The newest event in the last `left` bytes of one file.
fn newest_in(
    disk: &dyn Disk,
    segment: &Path,
    kind: &str,
    wanted: &dyn Fn(&Event) -> bool,
    left: &mut u64,
) -> io::Result<Option<JournalEntry>> {
    let mark = format!(r#""type":"{kind}""#);
    let told = memchr::memmem::FinderRev::new(&mark);
    let mut end = disk.metadata(segment)?.length;
    let first = end.saturating_sub(*left);
    *left -= end - first;
    while end >= first + mark.len() as u64 {
        let begin = end.saturating_sub(SEARCHED).max(first);
        let part = disk.read_at(segment, begin, usize::try_from(end - begin).unwrap_or(usize::MAX))?;
        let Some(found) = told.rfind(&part) else {
            // The mark may lie across both parts.
            end = match begin == first {
                true => first,
                false => begin + mark.len() as u64 - 1,
            };
            continue;
        };
        let found = begin + found as u64;
        let line = whole_line(disk, segment, found)?;
        // A tool may have been given the same words.
        match JournalEntry::from_json(&line) {
            Ok(entry) if entry.event.name() == kind && wanted(&entry.event) => return Ok(Some(entry)),
            Ok(_) | Err(_) => end = found + mark.len() as u64 - 1,
        }
    }
    Ok(None)
}

/// The line around this place.
fn whole_line(disk: &dyn Disk, segment: &Path, place: u64) -> io::Result<Vec<u8>> {
    let (mut before, mut begin) = (Vec::new(), place);
    while begin > 0 {
        let from = begin.saturating_sub(SEARCHED);
        let part = disk.read_at(segment, from, usize::try_from(begin - from).unwrap_or(usize::MAX))?;
        let line_break = memchr::memrchr(b'\n', &part).map(|at| at + 1);
        before.splice(..0, part[line_break.unwrap_or(0)..].iter().copied());
        match line_break {
            Some(_) => break,
            None => begin = from,
        }
    }
    let mut from = place;
    loop {
        let part = disk.read_at(segment, from, SEARCHED as usize)?;
        let line_break = memchr::memchr(b'\n', &part);
        before.extend_from_slice(&part[..line_break.unwrap_or(part.len())]);
        from += part.len() as u64;
        if line_break.is_some() || part.is_empty() {
            return Ok(before);
        }
    }
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

#[cfg(test)]
mod tests {
    use hankweave_runtime::world::disk::RealDisk;

    use super::*;

    const SUMMARY: &str = r#"{"seq":2,"id":"e-2","timestamp":"2026-01-04T12:00:00.000Z","type":"budget.summary","data":{"ceiling":{},"allocation":"shared","rows":[],"totals":{"actualDollars":1.5,"actualTimeSeconds":1.0}}}"#;

    fn line(seq: u64, input: &str) -> String {
        format!(
            r#"{{"seq":{seq},"id":"e-{seq}","timestamp":"2026-01-04T12:00:00.000Z","type":"assistant.action","data":{{"codonId":"a","action":"tool_use","content":"x","toolInput":{input}}}}}"#
        )
    }

    fn found(lines: &[String]) -> Option<Event> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("000001.jsonl");
        RealDisk
            .create_new(&path, (lines.join("\n") + "\n").as_bytes())
            .unwrap();
        Some(budget_summary(&RealDisk, &[path])?.event)
    }

    #[test]
    fn the_newest_summary_is_found_from_the_end_wherever_it_stands() {
        let is_summary = |event: Option<Event>| matches!(event, Some(Event::BudgetSummary { .. }));
        // What a tool was given in the same words is none.
        let alike = line(3, r#"{"type":"budget.summary"}"#);
        assert!(!is_summary(found(&[line(1, "1"), alike.clone()])));
        assert!(is_summary(found(&[
            line(1, "1"),
            SUMMARY.to_owned(),
            alike.clone()
        ])));
        // Lines longer than what is searched at a time, and the mark on every place about its edge.
        let mark = SUMMARY.find("\"type\"").unwrap();
        for behind in [0, 1, 2, mark, SUMMARY.len()] {
            let length = usize::try_from(SEARCHED).unwrap() - behind;
            let long = line(3, &format!("\"{}\"", "y".repeat(length)));
            assert!(
                is_summary(found(&[long.clone(), SUMMARY.to_owned(), long.clone()])),
                "{behind}"
            );
        }
    }

    #[test]
    fn only_the_newest_part_of_a_long_journal_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let segments = ["000001.jsonl", "000002.jsonl", "000003.jsonl"].map(|name| folder.path().join(name));
        let long = |number: u64| line(number, &format!("\"{}\"", "y".repeat(9 << 20)));
        for (segment, text) in segments.iter().zip([SUMMARY.to_owned(), long(3), long(4)]) {
            RealDisk.create_new(segment, (text + "\n").as_bytes()).unwrap();
        }
        let mut left = MOST_SEARCHED;
        let read = segments.iter().rev().map(|segment| {
            let before = left;
            let found = newest_in(&RealDisk, segment, "budget.summary", &|_| true, &mut left).unwrap();
            assert_eq!(found, None);
            before - left
        });
        assert_eq!(read.sum::<u64>(), MOST_SEARCHED, "the oldest part is not read");
        assert!(budget_summary(&RealDisk, &segments[..1]).is_some());
    }
}
