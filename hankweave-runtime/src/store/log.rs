//! `state.log`: one line for each recorded state event.
//!
//! A line is `<8 hex digits> <JSON>` and a newline; the digits are the CRC-32 of the JSON. The first line of each write
//! has a space after the digits, the other lines of the write have `+`. A write starts only after the write before it was
//! synced, so the space proves that all earlier lines were durable. A bad line without such a proof after it is
//! the torn end of the last write, which was never acknowledged. A bad line with a proof after it is damage to
//! acknowledged history.
//!
//! After the last line there may be room for later lines, which is filled with zeros. A reader treats this room as a torn end.
//!
//! Three kinds of JSON occur: a recorded event `{"seq","at","event":{"type","data"}}`, the mark of a snapshot `{"snapshot":{…}}`, and
//! `{"closed":seq}`, the last line of a clean end with the highest number in use.

use std::io;
use std::ops::Range;
use std::path::Path;

use hankweave_core::event::{Recorded, StateEvent};
use hankweave_core::time::Timestamp;
use serde::{Deserialize, Serialize};

use super::SnapshotMark;
use crate::world::disk::{self, AppendFile, Disk};

/// The log, open for appending.
///
/// After its lines there is room: zeros, written and synced together with some earlier lines. Lines that are written into
/// this room do not change the length of the file, so a sync only has to record the lines, which takes about half the time.
#[derive(Debug)]
pub struct StateLog {
    file: Box<dyn AppendFile>,
    /// Bytes of room after the last line.
    room: usize,
}

/// Stands for the last write when a log has just been written again, so that no part of it is in doubt.
pub const NOTHING_IN_DOUBT: Range<u64> = u64::MAX..u64::MAX;

/// Least room that is made at a time, in bytes. Between this and [`MOST_ROOM`], the room is as long as all lines of the log.
const LEAST_ROOM: u64 = 16 << 10;

/// Most room that is made at a time, in bytes.
const MOST_ROOM: u64 = 1 << 20;

/// Zeros for preallocated room, written in chunks.
static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

impl StateLog {
    /// Opens the log, or makes it. Cuts off everything after its last write, and makes that write durable: a killed process may
    /// have written it without a sync, or the sync of an earlier process may have failed.
    ///
    /// # Errors
    ///
    /// Returns the error of the disk.
    pub fn open(disk: &dyn Disk, path: &Path, last_write: &Range<u64>) -> io::Result<Self> {
        let mut file = disk.open_append(path)?;
        if file.length() > last_write.end {
            file.truncate(last_write.end)?;
        }
        disk::write_again(disk, path, &mut *file, last_write.start)?;
        file.sync_data()?;
        disk.sync_dir(disk::parent(path))?;
        Ok(Self { file, room: 0 })
    }

    /// Appends the lines in one write and returns once they are durable.
    ///
    /// # Errors
    ///
    /// Returns the error of the disk. It is then unknown what a crash would leave, and the log must not be used any more.
    pub fn append(&mut self, batch: &LogBatch) -> io::Result<()> {
        let durable_length = self.file.length();
        self.write(&batch.bytes)?;
        self.file.sync_data().inspect_err(|_| {
            // The events are reported as not durable, so it is better if the next start does not find them. Nothing depends on that.
            let _ = self.file.truncate(durable_length);
        })
    }

    /// Appends the last lines and leaves no room after them.
    ///
    /// # Errors
    ///
    /// As [`append`](Self::append).
    pub fn close(&mut self, batch: &LogBatch) -> io::Result<()> {
        if self.room > 0 {
            self.file.truncate(self.file.length())?;
            self.room = 0;
        }
        self.file.append(&batch.bytes)?;
        self.file.sync_data()
    }

    /// Writes the lines into the room if they fit, otherwise makes more room.
    fn write(&mut self, lines: &[u8]) -> io::Result<()> {
        if let Some(left) = self.room.checked_sub(lines.len()) {
            self.room = left;
            return self.file.append(lines);
        }
        self.write_with_room(lines)
    }

    /// Writes the lines, which reach beyond the room, and new room after them.
    fn write_with_room(&mut self, lines: &[u8]) -> io::Result<()> {
        self.room = 0;
        self.file.append(lines)?;
        let end = self.file.length();
        let room = end.clamp(LEAST_ROOM, MOST_ROOM) as usize;
        let mut left = room;
        while left > 0 {
            let zeros = &ZEROS[..left.min(ZEROS.len())];
            self.file.append(zeros)?;
            left -= zeros.len();
        }
        self.file.rewind(end)?;
        self.room = room;
        Ok(())
    }

    /// The length of its lines in bytes, without the room.
    #[must_use]
    pub fn length(&self) -> u64 {
        self.file.length()
    }
}

/// Lines that become durable together.
#[derive(Debug, Default)]
pub struct LogBatch {
    bytes: Vec<u8>,
}

impl LogBatch {
    /// Adds an event that is recorded under the number `seq` at the time `at`.
    ///
    /// # Errors
    ///
    /// Returns the error of the serialisation, as for a path that is not UTF-8; nothing is added then.
    pub fn record(&mut self, seq: u64, at: Timestamp, event: &StateEvent) -> serde_json::Result<()> {
        self.line(&EventLine { seq, at, event })
    }

    /// Adds the mark of the snapshot that is about to become state.json.
    pub fn mark(&mut self, mark: &SnapshotMark) {
        let snapshot = mark.clone();
        self.line(&MarkLine { snapshot }).expect("a mark is text");
    }

    /// Adds the line of a clean end; `seq` is the highest number in use.
    pub fn closed(&mut self, seq: u64) {
        self.line(&ClosedLine { closed: seq }).expect("a number is text");
    }

    /// Drops everything after the first `length` bytes, where a line ends.
    pub fn truncate(&mut self, length: usize) {
        self.bytes.truncate(length);
    }

    /// Whether there is nothing to write.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The lines as they are written to disk.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    fn line(&mut self, line: &impl Serialize) -> serde_json::Result<()> {
        let json = serde_json::to_vec(line)?;
        let separator = if self.bytes.is_empty() { ' ' } else { '+' };
        let prefix = format!("{:08x}{separator}", crc32fast::hash(&json));
        self.bytes.extend_from_slice(prefix.as_bytes());
        self.bytes.extend_from_slice(&json);
        self.bytes.push(b'\n');
        Ok(())
    }
}

/// The contents of a log.
#[derive(Debug, Default, PartialEq)]
pub struct LogContents {
    /// The recorded events that can be read, by ascending `seq`.
    pub records: Vec<Recorded<StateEvent>>,
    /// The snapshots that were about to become state.json, in order.
    pub marks: Vec<SnapshotMark>,
    /// The highest number in use, if the last writer ended cleanly.
    pub closed_at: Option<u64>,
    /// Range of the last write, in bytes; everything after it is torn.
    pub last_write: Range<u64>,
    /// Number of lines before the torn end that cannot be read: acknowledged history that was damaged later.
    pub damaged_lines: usize,
}

impl LogContents {
    /// The records after the snapshot with exactly these bytes; empty when the log has no mark of it.
    #[must_use]
    pub fn tail_of(&self, snapshot: &[u8]) -> &[Recorded<StateEvent>] {
        let Some(mark) = self.mark_of(snapshot) else {
            return &[];
        };
        &self.records[self.records.partition_point(|record| record.seq <= mark.seq)..]
    }

    /// The mark that fits these bytes.
    #[must_use]
    pub fn mark_of(&self, snapshot: &[u8]) -> Option<&SnapshotMark> {
        // Equal bytes may have been marked twice; the first mark is used. The records between the two marks have changed the document
        // back and forth, so applying them again does no harm, and the journal may still lack them.
        self.marks.iter().find(|mark| mark.fits(snapshot))
    }

    /// Whether a mark fits these bytes.
    #[must_use]
    pub fn knows(&self, snapshot: &[u8]) -> bool {
        self.mark_of(snapshot).is_some()
    }

    /// Whether these bytes are a snapshot that was damaged in its place: some mark has their length, but none fits them.
    /// A damaged log may lack marks, so it disowns nothing.
    #[must_use]
    pub fn disowns(&self, snapshot: &[u8]) -> bool {
        let as_long = |mark: &SnapshotMark| mark.bytes == snapshot.len() as u64;
        self.damaged_lines == 0 && self.marks.iter().any(as_long) && !self.knows(snapshot)
    }

    /// Returns the readable lines as one write.
    #[must_use]
    pub fn to_batch(&self) -> LogBatch {
        let mut batch = LogBatch::default();
        for Recorded { seq, at, event } in &self.records {
            batch
                .record(*seq, *at, event)
                .expect("what was read as JSON can be written as JSON");
        }
        self.marks.iter().for_each(|mark| batch.mark(mark));
        batch
    }

    /// The highest number that the log mentions; 0 for an empty log.
    #[must_use]
    pub fn last_seq(&self) -> u64 {
        let record = self.records.last().map(|record| record.seq);
        let mark = self.marks.iter().map(|mark| mark.seq).max();
        record.max(mark).max(self.closed_at).unwrap_or(0)
    }
}

/// Reads the bytes of a log; damaged bytes are no error.
#[must_use]
pub fn read_log(bytes: &[u8]) -> LogContents {
    let mut contents = LogContents::default();
    let mut unproven = UnconfirmedTail::default();
    let mut end = 0;
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        let begin = end;
        end += line.len() as u64;
        match decode(line) {
            Some((begins_write, content)) => {
                if begins_write {
                    unproven.confirm(&mut contents);
                }
                if unproven.bad_lines > 0 {
                    unproven.lines_after.push(content);
                } else {
                    contents.add(content);
                    contents.last_write.end = end;
                    if begins_write {
                        contents.last_write.start = begin;
                    }
                }
            }
            None => unproven.bad_lines += 1,
        }
    }
    contents
}

/// Bad lines, and the good lines after them, until the start of a later write proves that they were acknowledged. Without a proof they are the
/// torn end of the log.
#[derive(Default)]
struct UnconfirmedTail {
    bad_lines: usize,
    lines_after: Vec<LogLine>,
}

impl UnconfirmedTail {
    /// Adds the lines to the contents, because a later write starts: they were durable, so the bad ones are damage.
    fn confirm(&mut self, contents: &mut LogContents) {
        contents.damaged_lines += std::mem::take(&mut self.bad_lines);
        for content in self.lines_after.drain(..) {
            contents.add(content);
        }
    }
}

impl LogContents {
    fn add(&mut self, content: LogLine) {
        // A line after a clean end belongs to another process, which has not ended cleanly yet.
        self.closed_at = None;
        match content {
            LogLine::Closed(seq) => self.closed_at = Some(seq),
            LogLine::Mark(mark) => self.marks.push(mark),
            // Numbers only grow: any other line is not ours, although its checksum is right.
            LogLine::Record(record) if self.records.last().is_some_and(|last| last.seq >= record.seq) => {
                self.damaged_lines += 1;
            }
            LogLine::Record(record) => self.records.push(*record),
        }
    }
}

/// Number of bytes before the JSON: eight digits and a separator.
const PREFIX: usize = 9;

/// The content of a line, as the module's documentation describes it.
enum LogLine {
    Record(Box<Recorded<StateEvent>>),
    Mark(SnapshotMark),
    Closed(u64),
}

#[derive(Serialize, Deserialize)]
struct EventLine<E> {
    seq: u64,
    at: Timestamp,
    event: E,
}

#[derive(Serialize, Deserialize)]
struct MarkLine {
    snapshot: SnapshotMark,
}

#[derive(Serialize, Deserialize)]
struct ClosedLine {
    closed: u64,
}

/// Returns whether a line begins a write, and its content; `None` if the line was not written whole or is damaged.
fn decode(line: &[u8]) -> Option<(bool, LogLine)> {
    let line = line.strip_suffix(b"\n")?;
    let (prefix, json) = line.split_at_checked(PREFIX)?;
    let begins_write = match prefix[8] {
        b' ' => true,
        b'+' => false,
        _ => return None,
    };
    let checksum = u32::from_str_radix(std::str::from_utf8(&prefix[..8]).ok()?, 16).ok()?;
    if checksum != crc32fast::hash(json) {
        return None;
    }
    Some((begins_write, decode_json(json)?))
}

fn decode_json(json: &[u8]) -> Option<LogLine> {
    if json.starts_with(b"{\"snapshot\"") {
        let line: MarkLine = serde_json::from_slice(json).ok()?;
        Some(LogLine::Mark(line.snapshot))
    } else if json.starts_with(b"{\"closed\"") {
        let line: ClosedLine = serde_json::from_slice(json).ok()?;
        Some(LogLine::Closed(line.closed))
    } else {
        let EventLine { seq, at, event } = serde_json::from_slice(json).ok()?;
        Some(LogLine::Record(Box::new(Recorded { seq, at, event })))
    }
}

#[cfg(test)]
mod tests {
    use hankweave_core::id::CheckpointSha;
    use proptest::prelude::*;

    use super::*;
    use crate::world::disk::{Fault, FaultyDisk, RealDisk};

    fn record(seq: u64) -> Recorded<StateEvent> {
        Recorded {
            seq,
            at: Timestamp::UNIX_EPOCH,
            event: StateEvent::InitialCheckpointSet {
                sha: CheckpointSha::new(format!("{seq:040}")),
            },
        }
    }

    #[test]
    fn what_is_no_text_leaves_no_part_of_a_line() {
        use std::os::unix::ffi::OsStringExt as _;
        let mut batch = LogBatch::default();
        add(&mut batch, 1);
        let one = batch.as_bytes().to_vec();
        let no_text = StateEvent::RunStarted {
            run_id: hankweave_core::id::RunId::new("a").unwrap(),
            run_folder: std::ffi::OsString::from_vec(vec![0xff]).into(),
            git_branch: String::new(),
            starting_conditions: hankweave_core::document::StartingConditions::fresh(None),
            server_pid: hankweave_core::id::Pid(1),
        };
        assert!(batch.record(2, Timestamp::UNIX_EPOCH, &no_text).is_err());
        assert_eq!(batch.as_bytes(), one);
    }

    #[test]
    fn a_line_that_is_taken_back_leaves_nothing() {
        let mut batch = LogBatch::default();
        add(&mut batch, 1);
        let length = batch.as_bytes().len();
        add(&mut batch, 2);
        batch.truncate(length);
        let read = read_log(batch.as_bytes());
        assert_eq!((read.records.len(), read.damaged_lines), (1, 0));
    }

    fn add(batch: &mut LogBatch, seq: u64) {
        let Recorded { seq, at, event } = record(seq);
        batch.record(seq, at, &event).unwrap();
    }

    fn batch(seqs: impl IntoIterator<Item = u64>) -> Vec<u8> {
        let mut batch = LogBatch::default();
        for seq in seqs {
            add(&mut batch, seq);
        }
        batch.bytes
    }

    fn seqs(contents: &LogContents) -> Vec<u64> {
        contents.records.iter().map(|record| record.seq).collect()
    }

    #[test]
    fn the_bytes_of_a_line_are_documented() {
        let mut lines = LogBatch::default();
        add(&mut lines, 7);
        lines.mark(&SnapshotMark::of(7, b"{}\n"));
        lines.closed(9);
        insta::assert_snapshot!(String::from_utf8(lines.bytes).unwrap(), @r#"
        e1083c2c {"seq":7,"at":"1970-01-01T00:00:00.000Z","event":{"type":"InitialCheckpointSet","data":{"sha":"0000000000000000000000000000000000000007"}}}
        985d91c9+{"snapshot":{"seq":7,"bytes":3,"crc":"dda1b006"}}
        934da84d+{"closed":9}
        "#);
    }

    #[test]
    fn what_was_written_is_read() {
        let mut bytes = batch([1, 2]);
        bytes.extend(batch([5]));
        let contents = read_log(&bytes);
        assert_eq!(seqs(&contents), [1, 2, 5]);
        let second = batch([1, 2]).len() as u64;
        assert_eq!(
            (contents.last_write, contents.damaged_lines),
            (second..bytes.len() as u64, 0)
        );
    }

    // covers: F1
    #[test]
    fn every_cut_of_the_last_write_keeps_its_whole_lines() {
        let first = batch([1, 2]);
        let whole: Vec<u8> = [first.clone(), batch([3, 4])].concat();
        for length in first.len()..whole.len() {
            let contents = read_log(&whole[..length]);
            assert_eq!(seqs(&contents)[..2], [1, 2]);
            assert_eq!(contents.damaged_lines, 0, "cut at {length}");
            assert_eq!(
                read_log(&whole[..usize::try_from(contents.last_write.end).unwrap()]).records,
                contents.records
            );
        }
    }

    // covers: F2
    #[test]
    fn a_hole_in_the_last_write_is_a_torn_end() {
        let first = batch([1]);
        let mut bytes: Vec<u8> = [first.clone(), batch([2, 3, 4])].concat();
        bytes[first.len() + 20] = 0;
        let contents = read_log(&bytes);
        assert_eq!(seqs(&contents), [1]);
        assert_eq!(
            (contents.last_write.end, contents.damaged_lines),
            (first.len() as u64, 0)
        );
    }

    // covers: F4
    #[test]
    fn a_bad_line_in_front_of_a_later_write_is_damage() {
        let mut bytes: Vec<u8> = [batch([1, 2]), batch([3])].concat();
        bytes[20] ^= 1;
        let contents = read_log(&bytes);
        assert_eq!(seqs(&contents), [2, 3]);
        assert_eq!(
            (contents.last_write.end, contents.damaged_lines),
            (bytes.len() as u64, 1)
        );
    }

    #[test]
    fn a_number_that_does_not_grow_is_damage() {
        let contents = read_log(&[batch([5]), batch([5]), batch([4])].concat());
        assert_eq!((seqs(&contents), contents.damaged_lines), (vec![5], 2));
    }

    #[test]
    fn the_tail_begins_behind_the_mark_that_fits() {
        let mut lines = LogBatch::default();
        add(&mut lines, 1);
        add(&mut lines, 2);
        lines.mark(&SnapshotMark::of(1, b"old"));
        add(&mut lines, 3);
        lines.mark(&SnapshotMark::of(3, b"new"));
        let contents = read_log(lines.as_bytes());
        let tail = |bytes: &[u8]| contents.tail_of(bytes).iter().map(|r| r.seq).collect::<Vec<_>>();
        assert_eq!(
            (tail(b"old"), tail(b"new"), tail(b"else")),
            (vec![2, 3], vec![], vec![])
        );
    }

    // covers: P6
    #[test]
    fn what_is_as_long_as_a_snapshot_and_none_was_damaged_in_its_place() {
        let mut lines = LogBatch::default();
        lines.mark(&SnapshotMark::of(1, b"saved"));
        let mut contents = read_log(lines.as_bytes());
        let disowned = [&b"saved"[..], b"slved", b"edited"].map(|bytes| contents.disowns(bytes));
        assert_eq!(disowned, [false, true, false]);
        contents.damaged_lines = 1;
        assert!(!contents.disowns(b"slved"), "its mark may be the damaged line");
    }

    // covers: P7
    #[test]
    fn behind_equal_snapshots_the_tail_begins_with_the_first() {
        let mut lines = LogBatch::default();
        lines.mark(&SnapshotMark::of(1, b"same"));
        add(&mut lines, 2);
        lines.mark(&SnapshotMark::of(2, b"same"));
        add(&mut lines, 3);
        let contents = read_log(lines.as_bytes());
        let tail: Vec<u64> = contents
            .tail_of(b"same")
            .iter()
            .map(|record| record.seq)
            .collect();
        assert_eq!(tail, [2, 3], "the journal may lack number 2");
    }

    // covers: P7
    #[test]
    fn what_a_killed_life_wrote_is_durable_once_the_log_is_open() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state.log");
        let bytes = batch([1, 2]);
        RealDisk.open_append(&path).unwrap().append(&bytes).unwrap();
        let disk = FaultyDisk::new(std::sync::Arc::new(RealDisk), Fault::None);
        StateLog::open(&disk, &path, &read_log(&bytes).last_write).unwrap();
        assert_eq!(disk.syncs(), 1);
    }

    #[test]
    fn only_the_very_last_line_tells_of_a_clean_end() {
        let mut lines = LogBatch::default();
        lines.closed(8);
        assert_eq!(read_log(lines.as_bytes()).closed_at, Some(8));
        add(&mut lines, 9);
        assert_eq!(
            (
                read_log(lines.as_bytes()).closed_at,
                read_log(lines.as_bytes()).last_seq()
            ),
            (None, 9)
        );
    }

    #[test]
    fn opening_cuts_the_torn_end_and_appending_goes_on() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state.log");
        let good = batch([1]);
        RealDisk
            .create_new(&path, &[&good[..], b"torn"].concat())
            .unwrap();
        let mut log = StateLog::open(&RealDisk, &path, &read_log(&good).last_write).unwrap();
        let mut more = LogBatch::default();
        add(&mut more, 2);
        log.append(&more).unwrap();
        assert_eq!(seqs(&read_log(&RealDisk.read(&path, 1 << 20).unwrap())), [1, 2]);
    }

    fn opened(folder: &tempfile::TempDir) -> (std::path::PathBuf, StateLog) {
        let path = folder.path().join("state.log");
        let log = StateLog::open(&RealDisk, &path, &(0..0)).unwrap();
        (path, log)
    }

    fn one(seq: u64) -> LogBatch {
        let mut batch = LogBatch::default();
        add(&mut batch, seq);
        batch
    }

    #[test]
    fn lines_come_to_lie_in_room_that_reads_as_nothing_and_is_gone_after_a_clean_end() {
        let folder = tempfile::tempdir().unwrap();
        let (path, mut log) = opened(&folder);
        let size = || RealDisk.metadata(&path).unwrap().length;
        log.append(&one(1)).unwrap();
        let with_room = size();
        assert_eq!(with_room, log.length() + LEAST_ROOM.max(log.length()));
        log.append(&one(2)).unwrap();
        assert_eq!(size(), with_room);
        let contents = read_log(&RealDisk.read(&path, 1 << 20).unwrap());
        assert_eq!((seqs(&contents), contents.damaged_lines), (vec![1, 2], 0));
        assert_eq!(contents.last_write.end, log.length());
        let mut closed = LogBatch::default();
        closed.closed(2);
        log.close(&closed).unwrap();
        assert_eq!(size(), log.length());
        assert_eq!(
            read_log(&RealDisk.read(&path, 1 << 20).unwrap()).closed_at,
            Some(2)
        );
    }

    #[test]
    fn room_is_made_again_when_it_is_used_up() {
        let folder = tempfile::tempdir().unwrap();
        let (path, mut log) = opened(&folder);
        for seq in 1..=500 {
            log.append(&one(seq)).unwrap();
        }
        let contents = read_log(&RealDisk.read(&path, 1 << 20).unwrap());
        assert_eq!(seqs(&contents), Vec::from_iter(1..=500));
        assert!(log.length() > 2 * LEAST_ROOM && contents.last_write.end == log.length());
    }

    #[test]
    fn a_batch_costs_one_sync() {
        let folder = tempfile::tempdir().unwrap();
        let disk = FaultyDisk::new(std::sync::Arc::new(RealDisk), Fault::None);
        let mut log = StateLog::open(&disk, &folder.path().join("state.log"), &(0..0)).unwrap();
        let mut many = LogBatch::default();
        (1..=64).for_each(|seq| add(&mut many, seq));
        let before = disk.syncs();
        log.append(&many).unwrap();
        assert_eq!(disk.syncs() - before, 1);
    }

    proptest! {
        #[test]
        fn any_bytes_give_an_answer(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            prop_assert!(read_log(&bytes).last_write.end <= bytes.len() as u64);
        }

        #[test]
        fn a_flipped_bit_never_makes_up_an_event(bit in 0_usize..8 * 300) {
            let good: Vec<u8> = [batch([1, 2]), batch([3, 4])].concat();
            let mut bytes = good.clone();
            bytes[bit / 8 % good.len()] ^= 1 << (bit % 8);
            for read in read_log(&bytes).records {
                prop_assert_eq!(&read, &record(read.seq));
            }
        }
    }
}
