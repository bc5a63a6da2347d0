//! Searches the files of a journal from their end, for commands that read it while another process may write to it.

use std::io;
use std::path::{Path, PathBuf};

use hankweave_core::wire::{Event, JournalEntry};

use crate::world::disk::Disk;

/// The files of the journal in `dir` that are not empty, oldest first.
#[must_use]
pub fn segments(disk: &dyn Disk, dir: &Path) -> Vec<PathBuf> {
    // A folder that cannot be listed counts as an empty journal.
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

/// The newest event, if its line is in the last MiB of the newest file.
#[must_use]
pub fn last(disk: &dyn Disk, segments: &[PathBuf]) -> Option<JournalEntry> {
    let segment = segments.last()?;
    let end = disk.metadata(segment).ok()?.length;
    let begin = end.saturating_sub(SEARCHED);
    let length = usize::try_from(end - begin).ok()?;
    let part = disk.read_at(segment, begin, length).ok()?;
    // The last line may be incomplete, so the last one that can be decoded counts.
    let mut lines = part.rsplit(|byte| *byte == b'\n');
    lines.find_map(|line| JournalEntry::from_json(line).ok())
}

/// The newest event of type `kind` for which `wanted` returns true, in the last `most` bytes of the journal. The bytes are searched from their end, and
/// lines without the type are not parsed.
#[must_use]
pub fn newest(
    disk: &dyn Disk,
    segments: &[PathBuf],
    kind: &str,
    wanted: &dyn Fn(&Event) -> bool,
    most: u64,
) -> Option<JournalEntry> {
    let mut left = most;
    // A file that cannot be read counts as one without such an event.
    let find_in = |segment: &PathBuf| newest_in(disk, segment, kind, wanted, &mut left).unwrap_or_default();
    segments.iter().rev().find_map(find_in)
}

/// Number of bytes that are searched at a time, from the end of a file on.
const SEARCHED: u64 = 1 << 20;

/// The newest event of type `kind` that is `wanted`, in the last `left` bytes of one file. Subtracts the bytes of the file from `left`.
fn newest_in(
    disk: &dyn Disk,
    segment: &Path,
    kind: &str,
    wanted: &dyn Fn(&Event) -> bool,
    left: &mut u64,
) -> io::Result<Option<JournalEntry>> {
    let mark = format!(r#""type":"{kind}""#);
    let finder = memchr::memmem::FinderRev::new(&mark);
    let mut end = disk.metadata(segment)?.length;
    let first = end.saturating_sub(*left);
    *left -= end - first;
    while end >= first + mark.len() as u64 {
        let begin = end.saturating_sub(SEARCHED).max(first);
        let part = disk.read_at(segment, begin, usize::try_from(end - begin).unwrap_or(usize::MAX))?;
        let Some(found) = finder.rfind(&part) else {
            // The mark may begin in the part before and end in this part, so the next part overlaps with this one.
            end = match begin == first {
                true => first,
                false => begin + mark.len() as u64 - 1,
            };
            continue;
        };
        let found = begin + found as u64;
        let line = whole_line(disk, segment, found)?;
        // The mark may also be part of an event's content, such as the input of a tool. The search then continues before this mark: the next part lacks its
        // last byte, so it is not found again.
        match JournalEntry::from_json(&line) {
            Ok(entry) if entry.event.name() == kind && wanted(&entry.event) => return Ok(Some(entry)),
            Ok(_) | Err(_) => end = found + mark.len() as u64 - 1,
        }
    }
    Ok(None)
}

/// Returns the line around this offset.
fn whole_line(disk: &dyn Disk, segment: &Path, offset: u64) -> io::Result<Vec<u8>> {
    let (mut line, mut begin) = (Vec::new(), offset);
    while begin > 0 {
        let from = begin.saturating_sub(SEARCHED);
        let part = disk.read_at(segment, from, usize::try_from(begin - from).unwrap_or(usize::MAX))?;
        let line_break = memchr::memrchr(b'\n', &part).map(|at| at + 1);
        line.splice(..0, part[line_break.unwrap_or(0)..].iter().copied());
        match line_break {
            Some(_) => break,
            None => begin = from,
        }
    }
    let mut from = offset;
    loop {
        let part = disk.read_at(segment, from, SEARCHED as usize)?;
        let line_break = memchr::memchr(b'\n', &part);
        line.extend_from_slice(&part[..line_break.unwrap_or(part.len())]);
        from += part.len() as u64;
        if line_break.is_some() || part.is_empty() {
            return Ok(line);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::world::disk::RealDisk;

    use super::*;

    const MOST: u64 = 16 << 20;

    fn budget_summary(segments: &[PathBuf]) -> Option<JournalEntry> {
        newest(&RealDisk, segments, "budget.summary", &|_| true, MOST)
    }

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
        Some(budget_summary(&[path])?.event)
    }

    #[test]
    fn the_newest_summary_is_found_from_the_end_wherever_it_stands() {
        let is_summary = |event: Option<Event>| matches!(event, Some(Event::BudgetSummary { .. }));
        // A tool input that contains the mark is no summary.
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
        let mut left = MOST;
        let read = segments.iter().rev().map(|segment| {
            let before = left;
            let found = newest_in(&RealDisk, segment, "budget.summary", &|_| true, &mut left).unwrap();
            assert_eq!(found, None);
            before - left
        });
        assert_eq!(read.sum::<u64>(), MOST, "the oldest part is not read");
        assert!(budget_summary(&segments[..1]).is_some());
    }
}
