//! The journal as files with one line for each event: `events/000001-kept.jsonl`, `events/000002.jsonl`, … Only the last file is appended
//! to. A file named `-kept` has lost its output of agents, because the journal was too large.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hankweave_core::wire::JournalEntry;

use super::lines;
use super::retention::{oldest_beyond, write_kept_part};
use super::segment::Segment;
use super::{Batch, EventHistory, EventJournal, JournalPage, PageLimit};
use crate::world::disk::{self, AppendFile, Disk, IoError, SyncFile};

/// A journal of append-only files with one line for each event.
#[derive(Debug)]
pub struct FileJournal {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    limits: JournalLimits,
    writer: Mutex<SegmentWriter>,
    /// Whether a sync has failed. Locked during a sync, so that a second sync waits until the first one has made its entries durable.
    sync_failed: Mutex<bool>,
}

/// Sizes at which the journal starts a new file, and removes output of agents (D6).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JournalLimits {
    /// Length of a file, in bytes, from which on a new file is started.
    pub segment_bytes: u64,
    /// Total length of all files, in bytes, above which the oldest output of agents is removed.
    pub retained_bytes: u64,
}

impl Default for JournalLimits {
    fn default() -> Self {
        Self {
            segment_bytes: 64 << 20,
            retained_bytes: 1 << 30,
        }
    }
}

#[derive(Debug)]
struct SegmentWriter {
    /// Oldest first; the last one is appended to.
    segments: Vec<Segment>,
    /// The last file.
    file: Box<dyn AppendFile>,
    last_seq: u64,
    /// Number of entries, once they were counted.
    count: Option<u64>,
    /// Whether something was written since the last sync was started.
    unsynced: bool,
    /// Whether a file was finished since the last tidying.
    untidy: bool,
}

impl FileJournal {
    /// Opens the journal in `dir`, which is made when it does not exist. A torn last line gets its newline,
    /// so that it counts as one corrupt line and the next one is whole (P7).
    ///
    /// # Errors
    ///
    /// [`IoError`] when the disk refuses.
    pub fn open(disk: Arc<dyn Disk>, dir: &Path, limits: JournalLimits) -> Result<Self, IoError> {
        let writer = open_writer(&*disk, dir).map_err(IoError::at("open", dir))?;
        Ok(Self {
            disk,
            dir: dir.to_owned(),
            limits,
            writer: Mutex::new(writer),
            sync_failed: Mutex::default(),
        })
    }

    fn writer(&self) -> MutexGuard<'_, SegmentWriter> {
        // A panic while writing ends the task that writes; readers use only complete lines.
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a new file. The old one is synced first, so that only the last file can lack lines after a crash.
    fn roll(&self, first_seq: u64) -> Result<(), IoError> {
        self.sync()?;
        self.begin_file(first_seq)
            .map_err(IoError::at("begin a new file in", &self.dir))
    }

    fn begin_file(&self, first_seq: u64) -> io::Result<()> {
        let mut writer = self.writer();
        let number = writer.segments.last().map_or(0, |last| last.number) + 1;
        let segment = Segment::new(&self.dir, number, first_seq);
        writer.file = self.disk.open_append(&segment.path)?;
        self.disk.sync_dir(&self.dir)?;
        writer.segments.push(segment);
        writer.untidy = true;
        Ok(())
    }

    /// Removes the output of agents from the oldest files until the journal has at most `retained_bytes`, or no older file has output.
    fn forget(&self) -> io::Result<()> {
        loop {
            let segments = self.writer().segments.clone();
            let Some(whole) = oldest_beyond(&*self.disk, &segments, self.limits.retained_bytes)? else {
                return Ok(());
            };
            let kept = whole.as_kept(&self.dir);
            write_kept_part(&*self.disk, &whole, &kept)?;
            let mut writer = self.writer();
            self.disk.remove_file(&whole.path)?;
            writer.count = None;
            // A reader with the old list of files does not find this one, and then waits for the new list (see `visit`).
            if let Some(entry) = writer.segments.iter_mut().find(|segment| **segment == whole) {
                *entry = kept;
            }
            drop(writer);
            self.disk.sync_dir(&self.dir)?;
        }
    }

    /// Passes the lines after number `after` to `show`, oldest first, until `show` returns `false` (P10). The number is `None` for a damaged line.
    fn visit(&self, mut after: u64, show: &mut dyn FnMut(Option<u64>, &[u8]) -> bool) -> Result<(), IoError> {
        let mut segments = self.writer().segments_after(after);
        loop {
            let mut shown = after;
            let end = self.walk(&segments, after, &mut |seq, line| {
                let more = show(seq, line);
                if more {
                    shown = shown.max(seq.unwrap_or(shown));
                }
                more
            });
            match end {
                // The output of agents was removed from a file meanwhile: continue with the new list of files. That happens to each file at most
                // once, so the loop ends.
                Err(error) if error.source.kind() == io::ErrorKind::NotFound => {
                    after = shown;
                    let now = self.writer().segments_after(after);
                    if now == segments {
                        return Err(error);
                    }
                    segments = now;
                }
                end => return end,
            }
        }
    }

    fn walk(
        &self,
        segments: &[Segment],
        after: u64,
        show: &mut dyn FnMut(Option<u64>, &[u8]) -> bool,
    ) -> Result<(), IoError> {
        for segment in segments {
            let more = show_lines(&*self.disk, segment, after, show);
            if !more.map_err(IoError::at("read", &segment.path))? {
                break;
            }
        }
        Ok(())
    }

    /// Rewrites the last file with the lines of `restored` inserted. Only the last file can lack lines (see [`roll`](Self::roll)).
    fn rewrite_last(&self, writer: &mut SegmentWriter, restored: &Batch) -> io::Result<()> {
        let segment = writer
            .segments
            .last()
            .expect("a journal has at least one file")
            .clone();
        let mut restored = restored.lines().peekable();
        let mut content = Vec::new();
        let mut add = |line: &[u8]| {
            content.extend_from_slice(line);
            content.push(b'\n');
        };
        let mut lines = segment.lines(&*self.disk, 0);
        while let Some(line) = lines.next_line()? {
            let seq = lines::seq_of(line.bytes);
            while let Some(lost) = restored.next_if(|lost| seq.is_some_and(|seq| lost.seq() < seq)) {
                add(lost.text().as_bytes());
            }
            add(line.bytes);
        }
        restored.for_each(|lost| add(lost.text().as_bytes()));
        disk::replace(&*self.disk, &segment.path, &content)?;
        writer.file = self.disk.open_append(&segment.path)?;
        Ok(())
    }
}

impl SegmentWriter {
    /// The files with the lines after number `after`, beginning with the last file whose first number is at most `after`.
    fn segments_after(&self, after: u64) -> Vec<Segment> {
        let start = self
            .segments
            .partition_point(|segment| segment.first_seq <= after);
        self.segments[start.saturating_sub(1)..].to_vec()
    }

    fn append(&mut self, batch: &Batch) -> io::Result<()> {
        self.file.append(batch.text().as_bytes())?;
        self.unsynced = true;
        Ok(())
    }

    /// Writes the lines of the last file after number `after` again; older files were synced when they were finished.
    fn write_again(&mut self, disk: &dyn Disk, after: u64) -> io::Result<()> {
        let last = self.segments.last().expect("a journal has at least one file");
        let from = last.offset_before(disk, after)?;
        self.unsynced = true;
        disk::write_again(disk, &last.path, &mut *self.file, from)
    }

    /// Returns the file if something was written to it since the last sync was started, and notes that a sync starts.
    fn take_unsynced(&mut self) -> Option<Arc<dyn SyncFile>> {
        std::mem::take(&mut self.unsynced).then(|| self.file.syncer())
    }
}

impl EventJournal for FileJournal {
    fn append(&self, batch: &Batch) -> Result<(), IoError> {
        let Some(first) = batch.first_seq() else {
            return Ok(());
        };
        let is_full = self.writer().file.length() >= self.limits.segment_bytes;
        if is_full {
            self.roll(first)?;
        }
        let mut writer = self.writer();
        writer
            .append(batch)
            .map_err(IoError::at("append to the journal in", &self.dir))?;
        writer.last_seq = batch.last_seq();
        writer.count = writer.count.map(|count| count + batch.len() as u64);
        Ok(())
    }

    fn sync(&self) -> Result<(), IoError> {
        let mut has_failed = self.sync_failed.lock().unwrap_or_else(PoisonError::into_inner);
        let unsynced = self.writer().take_unsynced();
        let synced = match (*has_failed, unsynced) {
            // Another sync could succeed, although the entries of the failed one are lost.
            (true, _) => Err(io::Error::other("an earlier sync has failed")),
            // The writer is not locked here, so that entries can be appended meanwhile.
            (false, Some(file)) => file.sync_data(),
            (false, None) => Ok(()),
        };
        *has_failed = synced.is_err();
        synced.map_err(IoError::at("sync the journal in", &self.dir))
    }

    fn write_again(&self, after: u64) -> Result<(), IoError> {
        self.writer()
            .write_again(&*self.disk, after)
            .map_err(IoError::at("write again the end of the journal in", &self.dir))?;
        self.sync()
    }

    fn is_untidy(&self) -> bool {
        self.writer().untidy
    }

    fn tidy(&self) {
        self.writer().untidy = false;
        // A journal that is too large loses nothing, and the removal is tried again when the next file is
        // finished.
        self.forget().unwrap_or_else(|error| {
            tracing::warn!(%error, dir = %self.dir.display(), "failed to forget the oldest output of agents");
        });
    }

    fn restore(&self, mut entries: Vec<JournalEntry>) -> Result<(), IoError> {
        entries.sort_by_key(|entry| entry.seq);
        let restored = Batch::new(&entries);
        let Some(first) = restored.first_seq() else {
            return Ok(());
        };
        if first > self.last_seq() {
            self.append(&restored)?;
        } else {
            let mut writer = self.writer();
            self.rewrite_last(&mut writer, &restored)
                .map_err(IoError::at("restore events in", &self.dir))?;
            writer.last_seq = writer.last_seq.max(restored.last_seq());
            writer.count = None;
        }
        self.sync()
    }

    fn read_after(&self, after: u64, limit: PageLimit) -> Result<JournalPage, IoError> {
        let (mut page, mut bytes) = (JournalPage::default(), 0);
        self.visit(after, &mut |_, line| {
            let Some(entry) = lines::decode(line) else {
                page.corrupt_lines += 1;
                return true;
            };
            if page.is_full(bytes + line.len(), limit) {
                page.more = true;
                return false;
            }
            bytes += line.len() + 1;
            page.entries.push(entry);
            true
        })?;
        Ok(page)
    }

    fn last_seq(&self) -> u64 {
        self.writer().last_seq
    }
}

impl EventHistory for FileJournal {
    fn lines_after(&self, after: u64, show: &mut dyn FnMut(u64, &[u8]) -> bool) -> Result<(), IoError> {
        self.visit(after, &mut |seq, line| {
            match seq.zip(lines::for_readers(line)) {
                Some((seq, line)) => show(seq, &line),
                // A damaged line is skipped.
                None => true,
            }
        })
    }

    fn count(&self) -> Result<u64, IoError> {
        let (known, last) = {
            let writer = self.writer();
            (writer.count, writer.last_seq)
        };
        if let Some(count) = known {
            return Ok(count);
        }
        // First without the lock of the writer. Events that are appended meanwhile have greater numbers than `last`; they are counted below.
        let mut before = 0;
        self.visit(0, &mut |seq, _| {
            before += u64::from(seq.is_some_and(|seq| seq <= last));
            seq.is_none_or(|seq| seq <= last)
        })?;
        // Then with the lock, only the new events.
        let mut writer = self.writer();
        let mut later = 0;
        self.walk(&writer.segments_after(last), last, &mut |_, _| {
            later += 1;
            true
        })?;
        Ok(*writer.count.insert(before + later))
    }
}

/// Passes the lines of one file after number `after` to `show`; returns `false` if `show` did.
fn show_lines(
    disk: &dyn Disk,
    segment: &Segment,
    after: u64,
    show: &mut dyn FnMut(Option<u64>, &[u8]) -> bool,
) -> io::Result<bool> {
    let mut lines = segment.lines(disk, segment.offset_before(disk, after)?);
    while let Some(line) = lines.next_line()? {
        let seq = lines::seq_of(line.bytes);
        let is_before = seq.is_some_and(|seq| seq <= after);
        if !is_before && !show(seq, line.bytes) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Opens the last file for appending, after removing what a crash left behind. Makes folder and file if they do not exist.
fn open_writer(disk: &dyn Disk, dir: &Path) -> io::Result<SegmentWriter> {
    match disk.create_dir_private(dir) {
        Ok(()) => disk.sync_dir(disk::parent(dir))?,
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(error),
    }
    let mut segments = find_segments(disk, dir)?;
    if segments.is_empty() {
        segments.push(Segment::new(dir, 1, 0));
    }
    for segment in &segments {
        // A crash during a removal of output leaves the old file beside its kept part, or a temporary kept part.
        let remains = match segment.kept {
            true => Segment::new(dir, segment.number, 0).path,
            false => disk::with_suffix(&segment.as_kept(dir).path, ".tmp"),
        };
        disk::remove_if_present(disk, &remains)?;
    }
    let last = segments.last().expect("one was just made sure of");
    disk::remove_if_present(disk, &disk::with_suffix(&last.path, ".tmp"))?;
    let mut file = disk.open_append(&last.path)?;
    disk.sync_dir(dir)?;
    end_last_line(disk, &last.path, &mut *file)?;
    let mut last_seq = 0;
    for segment in segments.iter().rev() {
        if let Some(seq) = segment.last_seq(disk)? {
            last_seq = seq;
            break;
        }
    }
    Ok(SegmentWriter {
        segments,
        file,
        last_seq,
        count: None,
        // The process before may have ended without a sync.
        unsynced: true,
        untidy: false,
    })
}

/// The files of a journal, oldest first. If a crash left both a file and its kept part, the kept part counts.
pub(super) fn find_segments(disk: &dyn Disk, dir: &Path) -> io::Result<Vec<Segment>> {
    let names = disk.list_dir(dir)?;
    let names = names.iter().filter_map(|name| name.to_str());
    let mut found = BTreeMap::new();
    for (number, kept) in names.filter_map(Segment::number_in) {
        *found.entry(number).or_default() |= kept;
    }
    let mut segments = Vec::new();
    let mut first_seq = 0;
    for (number, kept) in found {
        let mut segment = Segment::new(dir, number, first_seq);
        if kept {
            segment = segment.as_kept(dir);
        }
        // A file without a readable number gets that of the file before it; reading then passes through the file.
        first_seq = segment.seq_at(disk, 0)?.unwrap_or(first_seq);
        segment.first_seq = first_seq;
        segments.push(segment);
    }
    Ok(segments)
}

/// Adds the newline to a torn last line.
fn end_last_line(disk: &dyn Disk, path: &Path, file: &mut dyn AppendFile) -> io::Result<()> {
    let Some(last_byte) = file.length().checked_sub(1) else {
        return Ok(());
    };
    if disk.read_at(path, last_byte, 1)? == b"\n" {
        return Ok(());
    }
    file.append(b"\n")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::contract::{self, entries, seqs};
    use super::*;
    use crate::world::disk::{Fault, FaultyDisk, RealDisk};

    const EVERYTHING: PageLimit = PageLimit {
        entries: usize::MAX,
        bytes: usize::MAX,
    };

    fn open(folder: &tempfile::TempDir) -> FileJournal {
        open_with(folder, 64 << 20)
    }

    fn open_with(folder: &tempfile::TempDir, segment_bytes: u64) -> FileJournal {
        let limits = JournalLimits {
            segment_bytes,
            ..JournalLimits::default()
        };
        FileJournal::open(Arc::new(RealDisk), &folder.path().join("events"), limits).unwrap()
    }

    #[test]
    fn it_keeps_the_contract_of_a_journal() {
        contract::check(|| {
            let folder = tempfile::tempdir().unwrap();
            (open(&folder), folder)
        });
    }

    #[test]
    fn it_keeps_the_contract_with_a_file_for_each_write() {
        contract::check(|| {
            let folder = tempfile::tempdir().unwrap();
            (open_with(&folder, 1), folder)
        });
    }

    // covers: CLI-19
    #[test]
    fn a_line_has_the_documented_fields() {
        let batch = entries([3]);
        insta::assert_snapshot!(
            batch.line(0).text(),
            @r#"{"seq":3,"id":"event-3","timestamp":"1970-01-01T00:00:00.000Z","type":"info","data":{"message":"number 3"}}"#
        );
    }

    #[test]
    fn another_life_reads_and_continues_the_files() {
        let folder = tempfile::tempdir().unwrap();
        let journal = open_with(&folder, 300);
        for seq in 1..=20 {
            journal.append(&entries([seq])).unwrap();
        }
        drop(journal);
        let journal = open_with(&folder, 300);
        assert_eq!(journal.last_seq(), 20);
        journal.append(&entries([21])).unwrap();
        for after in 0..=21 {
            let page = journal.read_after(after, EVERYTHING).unwrap();
            assert_eq!(seqs(&page), (after + 1..=21).collect::<Vec<_>>());
        }
        assert!(RealDisk.list_dir(&folder.path().join("events")).unwrap().len() > 3);
    }

    // covers: D6
    #[test]
    fn a_place_in_a_large_file_is_found_by_halving() {
        let folder = tempfile::tempdir().unwrap();
        let journal = open(&folder);
        journal.append(&entries((1..=20_000).map(|n| n * 2))).unwrap();
        for after in [0, 1, 2, 9_999, 10_000, 39_998, 39_999] {
            let page = journal
                .read_after(
                    after,
                    PageLimit {
                        entries: 2,
                        bytes: 1 << 20,
                    },
                )
                .unwrap();
            assert_eq!(page.entries[0].seq, (after / 2 + 1) * 2, "after {after}");
        }
        assert!(journal.read_after(40_000, EVERYTHING).unwrap().entries.is_empty());
    }

    // covers: P7, F5
    #[test]
    fn a_torn_last_line_is_ended_and_counted() {
        let folder = tempfile::tempdir().unwrap();
        open(&folder).append(&entries([1, 2])).unwrap();
        let path = folder.path().join("events/000001.jsonl");
        RealDisk
            .open_append(&path)
            .unwrap()
            .append(b"{\"seq\":3,\"id")
            .unwrap();
        let journal = open(&folder);
        journal.append(&entries([4])).unwrap();
        let page = journal.read_after(0, EVERYTHING).unwrap();
        assert_eq!((seqs(&page), page.corrupt_lines), (vec![1, 2, 4], 1));
    }

    // covers: F5
    #[test]
    fn damage_in_the_middle_hides_only_its_own_lines() {
        let folder = tempfile::tempdir().unwrap();
        open(&folder).append(&entries([1, 2, 3])).unwrap();
        let path = folder.path().join("events/000001.jsonl");
        let mut content = std::fs::read(&path).unwrap();
        let second = content.iter().position(|byte| *byte == b'\n').unwrap() + 1;
        content[second..second + 10].fill(0);
        std::fs::write(&path, content).unwrap();
        let page = open(&folder).read_after(0, EVERYTHING).unwrap();
        assert_eq!((seqs(&page), page.corrupt_lines), (vec![1, 3], 1));
    }

    // covers: F5
    #[test]
    fn a_line_that_another_life_wrote_is_passed_on_only_if_it_is_json() {
        let folder = tempfile::tempdir().unwrap();
        open(&folder).append(&entries([1, 2, 3])).unwrap();
        let path = folder.path().join("events/000001.jsonl");
        let content = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, content.replace("number 2\"}}", "number 2\"} ")).unwrap();
        let journal = open(&folder);
        journal.append(&entries([4])).unwrap();
        let mut seqs = Vec::new();
        let show = &mut |seq, _: &[u8]| {
            seqs.push(seq);
            true
        };
        journal.lines_after(0, show).unwrap();
        assert_eq!(seqs, [1, 3, 4]);
    }

    // covers: X9
    #[test]
    fn what_an_earlier_version_recorded_of_variables_is_passed_on_without_their_values() {
        let folder = tempfile::tempdir().unwrap();
        open(&folder).append(&entries([1])).unwrap();
        let plan = |value: &str| {
            json!({"seq": 2, "id": "e-2", "timestamp": "2025-01-04T12:00:00.000Z", "type": "state.transition", "data": {
                "transitionType": "PlanReplaced", "transition": {"type": "PlanReplaced", "data": {"executionPlan": [
                    {"codon": {"id": "a", "env": {"API_KEY": value}}, "codonId": "a"}]}},
                "resultingState": {"currentRunId": null, "runCount": 0, "totalCost": 0, "currentRunCost": 0}}})
        };
        let path = folder.path().join("events/000001.jsonl");
        let line = plan("sesame").to_string() + "\n";
        RealDisk
            .open_append(&path)
            .unwrap()
            .append(line.as_bytes())
            .unwrap();
        let mut passed_on = Vec::new();
        let show = &mut |_, line: &[u8]| {
            passed_on.push(serde_json::from_slice::<Value>(line).unwrap());
            true
        };
        open(&folder).lines_after(1, show).unwrap();
        assert_eq!(passed_on, [plan("[not recorded]")]);
    }

    // covers: D5
    #[test]
    fn a_failed_append_leaves_no_trace() {
        let folder = tempfile::tempdir().unwrap();
        open(&folder).append(&entries([1])).unwrap();
        for n in 0.. {
            let disk = FaultyDisk::new(Arc::new(RealDisk), Fault::FailAt(n, io::ErrorKind::StorageFull));
            let dir = folder.path().join("events");
            let Ok(journal) = FileJournal::open(Arc::new(disk.clone()), &dir, JournalLimits::default())
            else {
                continue;
            };
            if journal.append(&entries([2])).is_ok() {
                return;
            }
            assert_eq!(
                seqs(&journal.read_after(0, EVERYTHING).unwrap()),
                [1],
                "failure at {n}"
            );
        }
    }
}
