//! Differences between two checkpoints, as a review shows them: files with their counts, renames, and the lines of one file.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use git2::{DiffOptions, Oid, Patch};
use hankweave_core::codon::CodonExecution;
use hankweave_core::document::HankweaveState;
use hankweave_core::id::CheckpointSha;
use hankweave_core::thread::{self, CodonWork};
use hankweave_core::wire::{
    DifferenceKind, FileDifference, FileDifferences, LineDifference, LineDifferenceKind, NoLinesReason,
};

use super::git_format::ObjectReader;
use super::history::{GitHistory, differing, find, open_reader};
use super::object::ObjectError;
use super::repository::name_of;
use super::tree::{FileEntry, FileMode, Listing};
use super::{HistoryError, TreePath, message, renames};

/// Maximum length of a file whose lines are shown, in bytes.
const MAX_BYTES: u64 = 16 << 20;

/// Maximum number of lines of such a file, because comparing takes memory for each.
const MAX_LINES: usize = 500_000;

/// Bytes of content that are read to count the lines of all files.
const MAX_COUNTED_BYTES: u64 = 64 << 20;

/// Longest line that is kept, in characters.
const MAX_LINE_CHARACTERS: usize = 2_000;

/// Longest text of all lines of one file, in bytes.
const MAX_TEXT_BYTES: usize = 64 << 20;

/// Lines around a change.
const CONTEXT: u32 = 3;

/// Two checkpoints that were compared.
#[derive(Debug)]
pub struct Comparison {
    /// All files that differ, as clients get them.
    pub differences: FileDifferences,
    /// The entries of these files, in the order of `differences`.
    sides: Vec<Sides>,
}

/// The entries of a file in both checkpoints; `None` where the file does not exist.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sides {
    pub(super) old: Option<FileEntry>,
    pub(super) new: Option<FileEntry>,
}

/// All lines of the difference of one file.
#[derive(Debug, Default)]
pub struct ShownLines {
    /// The texts of all lines, one after the other without line breaks.
    text: String,
    rows: Vec<Row>,
}

#[derive(Debug, Clone, Copy)]
struct Row {
    kind: LineDifferenceKind,
    /// Number of the line in the old file, if the line is in it.
    old: Option<u32>,
    /// Number of the line in the new file, if the line is in it.
    new: Option<u32>,
    /// Offset in [`ShownLines::text`] where this line ends; it begins where the line before ends.
    end: usize,
}

/// Content of one side, or why there is none.
type SideContent = Result<Vec<u8>, NoLinesReason>;

impl GitHistory {
    /// Returns the checkpoint that `prefix`, a SHA or its first digits, names; `None` when none or several begin so.
    ///
    /// # Errors
    ///
    /// Returns [`HistoryError`] when the repository cannot be read.
    pub fn named(&self, prefix: &str) -> Result<Option<CheckpointSha>, HistoryError> {
        let repository = self.repository().map_err(HistoryError::Read)?;
        let reader = open_reader(&repository)?;
        let short = Oid::from_str(prefix).ok().filter(|_| prefix.len() <= 40);
        let full = short.and_then(|short| repository.odb().ok()?.exists_prefix(short, prefix.len()).ok());
        let Some(sha) = full.map(name_of) else {
            return Ok(None);
        };
        match find(&reader, &sha) {
            Ok(_) => Ok(Some(sha)),
            // The object of this name is no checkpoint.
            Err(HistoryError::Unknown { .. } | HistoryError::Read(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns the newest checkpoint from before the codon of `sha` began in its run. If `sha` belongs to no codon, returns
    /// the checkpoint before `sha`. Returns `sha` itself if no checkpoint is older.
    ///
    /// # Errors
    ///
    /// Returns [`HistoryError`] when a checkpoint on the way cannot be read.
    pub fn before_codon(&self, sha: &CheckpointSha) -> Result<CheckpointSha, HistoryError> {
        let repository = self.repository().map_err(HistoryError::Read)?;
        let reader = open_reader(&repository)?;
        let commit = find(&reader, sha)?;
        let codon = message::codon_and_run(&commit.message).map(to_owned_pair);
        let (mut found, mut commit) = (sha.clone(), commit);
        loop {
            let before =
                message::base(&commit.message).or_else(|| commit.parents.first().copied().map(name_of));
            let Some(before) = before else { return Ok(found) };
            commit = find(&reader, &before)?;
            // The commit that every repository begins with holds nothing, so it is no state of the files.
            if message::kind(&commit.message) == "repository" {
                return Ok(found);
            }
            found = before;
            if codon.is_none() || message::codon_and_run(&commit.message).map(to_owned_pair) != codon {
                return Ok(found);
            }
        }
    }

    /// Returns the work that ended with the checkpoint `to`, over all attempts of its codon. If `state` does not know these
    /// attempts, or one of their checkpoints no longer exists, the work is one attempt from [`before_codon`](Self::before_codon) to `to`.
    ///
    /// # Errors
    ///
    /// Returns [`HistoryError`] when a checkpoint on the way cannot be read.
    pub fn work_until(
        &self,
        state: Option<&HankweaveState>,
        to: &CheckpointSha,
    ) -> Result<CodonWork, HistoryError> {
        let recorded = state.and_then(|state| {
            let ends_there =
                |codon: &Arc<CodonExecution>| codon.end_checkpoint().is_some_and(|(_, sha)| sha == to);
            let run = state.runs.iter().find(|run| run.codons.iter().any(ends_there))?;
            thread::build(state, Some(&run.run_id), None).work_until(state, to)
        });
        if let Some(work) = recorded {
            let pairs = work.attempts.iter();
            let all: BTreeSet<&CheckpointSha> = pairs.flat_map(|(from, to)| [from, to]).collect();
            let wanted: Vec<CheckpointSha> = all.into_iter().cloned().collect();
            if self.existing(&wanted)?.len() == wanted.len() {
                return Ok(work);
            }
        }
        Ok(CodonWork {
            attempts: vec![(self.before_codon(to)?, to.clone())],
        })
    }

    /// Compares the files at the beginning of the first attempt with those at the end of the last, without the files that
    /// only the user changed between attempts. Work without attempts has no differences.
    ///
    /// # Errors
    ///
    /// Returns [`HistoryError`] when a checkpoint does not exist or cannot be read.
    pub fn compare_work(&self, work: &CodonWork, to: &CheckpointSha) -> Result<Comparison, HistoryError> {
        let (from, to) = work.ends().unwrap_or((to, to));
        self.compare_without(from, to, &self.changed_between(work)?)
    }

    /// Returns the files that differ between the first beginning and the last end although no attempt changed them: the
    /// user did, between attempts.
    ///
    /// # Errors
    ///
    /// Returns [`HistoryError`] when a checkpoint does not exist or cannot be read.
    pub fn changed_between(&self, work: &CodonWork) -> Result<BTreeSet<TreePath>, HistoryError> {
        let mut all = BTreeSet::new();
        if let (Some((from, to)), 2..) = (work.ends(), work.attempts.len()) {
            all.extend(self.diff(from, to)?.into_iter().map(|change| change.path));
            for (from, to) in &work.attempts {
                for change in self.diff(from, to)? {
                    all.remove(&change.path);
                }
            }
        }
        Ok(all)
    }

    /// Returns all files that the user changed between attempts, also those that an attempt changed as well.
    ///
    /// # Errors
    ///
    /// Returns [`HistoryError`] when a checkpoint does not exist or cannot be read.
    pub fn changed_by_user(&self, work: &CodonWork) -> Result<BTreeSet<TreePath>, HistoryError> {
        let mut all = BTreeSet::new();
        for pair in work.attempts.windows(2) {
            let [(_, ended), (began, _)] = pair else { continue };
            all.extend(self.diff(ended, began)?.into_iter().map(|change| change.path));
        }
        Ok(all)
    }

    /// Compares the files of two checkpoints.
    ///
    /// # Errors
    ///
    /// Returns [`HistoryError`] when one of them does not exist or cannot be read.
    pub fn compare(&self, from: &CheckpointSha, to: &CheckpointSha) -> Result<Comparison, HistoryError> {
        self.compare_without(from, to, &BTreeSet::new())
    }

    fn compare_without(
        &self,
        from: &CheckpointSha,
        to: &CheckpointSha,
        left_out: &BTreeSet<TreePath>,
    ) -> Result<Comparison, HistoryError> {
        let repository = self.repository().map_err(HistoryError::Read)?;
        let reader = open_reader(&repository)?;
        let (before, after) = differing(&reader, from, to)?;
        let [before, after] = [before, after].map(|files| files.without(left_out));
        let mut comparing = Comparing {
            reader: &reader,
            bytes_left: MAX_COUNTED_BYTES,
            files: Vec::new(),
        };
        comparing.add_all(&before, &after)?;
        let (files, sides): (Vec<FileDifference>, Vec<Sides>) = comparing.files.into_iter().unzip();
        let sum = |count: fn(&FileDifference) -> Option<u64>| files.iter().filter_map(count).sum();
        let differences = FileDifferences {
            from: from.clone(),
            to: to.clone(),
            count: files.len() as u64,
            added: sum(|file| file.added),
            removed: sum(|file| file.removed),
            files,
        };
        Ok(Comparison { differences, sides })
    }

    /// Returns the lines of the file at `path` in a comparison; none when it does not differ or its lines are not shown.
    ///
    /// # Errors
    ///
    /// Returns [`HistoryError`] when its content cannot be read.
    pub fn lines(&self, comparison: &Comparison, path: &str) -> Result<ShownLines, HistoryError> {
        let files = &comparison.differences.files;
        let found = files.iter().position(|file| file.path == path);
        let Some(sides) = found.and_then(|at| comparison.sides.get(at)) else {
            return Ok(ShownLines::default());
        };
        let repository = self.repository().map_err(HistoryError::Read)?;
        let reader = open_reader(&repository)?;
        let read = |side| content(&reader, side);
        match (read(sides.old)?, read(sides.new)?) {
            (Ok(old), Ok(new)) => ShownLines::between(&old, &new).map_err(unreadable),
            _ => Ok(ShownLines::default()),
        }
    }
}

impl ShownLines {
    fn between(old: &[u8], new: &[u8]) -> Result<Self, git2::Error> {
        let patch = patch(old, new)?;
        let mut shown = Self::default();
        for hunk in 0..patch.num_hunks() {
            let (header, count) = patch.hunk(hunk)?;
            let words = String::from_utf8_lossy(header.header());
            // A header is `@@ -1,2 +1,3 @@ text`, where the text after the second `@@` repeats a line of the file.
            let range = words.split("@@").nth(1).unwrap_or_default();
            shown.push(LineDifferenceKind::Hunk, (None, None), &format!("@@{range}@@"));
            for line in 0..count {
                let line = patch.line_in_hunk(hunk, line)?;
                let kind = match line.origin() {
                    '+' => LineDifferenceKind::Added,
                    '-' => LineDifferenceKind::Removed,
                    ' ' => LineDifferenceKind::Context,
                    _ => LineDifferenceKind::NoNewline,
                };
                if kind == LineDifferenceKind::NoNewline {
                    shown.push(kind, (None, None), "no line break at the end");
                    continue;
                }
                let text = String::from_utf8_lossy(line.content());
                let numbers = (line.old_lineno(), line.new_lineno());
                shown.push(kind, numbers, text.strip_suffix('\n').unwrap_or(&text));
            }
        }
        Ok(shown)
    }

    /// Adds a line. Its text is cut at [`MAX_LINE_CHARACTERS`], and left out if all texts would exceed [`MAX_TEXT_BYTES`] with it.
    fn push(&mut self, kind: LineDifferenceKind, (old, new): (Option<u32>, Option<u32>), text: &str) {
        let cut = text.char_indices().nth(MAX_LINE_CHARACTERS).map(|(at, _)| at);
        let (text, end) = cut.map_or((text, ""), |at| (&text[..at], "…"));
        if self.text.len() + text.len() <= MAX_TEXT_BYTES {
            self.text.push_str(text);
            self.text.push_str(end);
        }
        self.rows.push(Row {
            kind,
            old,
            new,
            end: self.text.len(),
        });
    }

    /// Number of lines.
    #[must_use]
    pub fn count(&self) -> usize {
        self.rows.len()
    }

    /// Returns at most `limit` lines from the index `offset` on, whose texts together have at most `bytes` bytes. The first line is returned in any case.
    #[must_use]
    pub fn part(&self, offset: usize, limit: usize, bytes: usize) -> Vec<LineDifference> {
        let begin_of = |at: usize| at.checked_sub(1).map_or(0, |before| self.rows[before].end);
        let begin = begin_of(offset.min(self.rows.len()));
        let rows = self.rows.iter().enumerate().skip(offset).take(limit);
        let fitting = rows.take_while(|(at, row)| *at == offset || row.end - begin <= bytes);
        let line = |(at, row): (usize, &Row)| LineDifference {
            kind: row.kind,
            old: row.old,
            new: row.new,
            text: self.text[begin_of(at)..row.end].to_owned(),
        };
        fitting.map(line).collect()
    }
}

/// A comparison in progress.
struct Comparing<'r> {
    reader: &'r ObjectReader<'r>,
    /// Rest of [`MAX_COUNTED_BYTES`].
    bytes_left: u64,
    files: Vec<(FileDifference, Sides)>,
}

impl Comparing<'_> {
    fn add_all(&mut self, before: &Listing, after: &Listing) -> Result<(), HistoryError> {
        let renamed = renames::find(self.reader, before, after)?;
        let origins: HashMap<&TreePath, &TreePath> = renamed.iter().map(|(old, new)| (new, old)).collect();
        let moved: HashMap<&TreePath, &TreePath> = renamed.iter().map(|(old, new)| (old, new)).collect();
        for change in super::tree::changes(before, after) {
            let path = &change.path;
            let (new, old) = (after.get(path.as_bytes()), before.get(path.as_bytes()));
            if new.is_none() && moved.contains_key(path) {
                continue;
            }
            let origin = origins.get(path).copied().filter(|_| old.is_none());
            let old = origin.map_or(old, |origin| before.get(origin.as_bytes()));
            self.add(
                path,
                origin,
                Sides {
                    old: old.copied(),
                    new: new.copied(),
                },
            )?;
        }
        Ok(())
    }

    fn add(&mut self, path: &TreePath, origin: Option<&TreePath>, sides: Sides) -> Result<(), HistoryError> {
        let size = |side: Option<FileEntry>| match side {
            Some(entry) => self.reader.length(entry.blob).map_err(unreadable),
            None => Ok(None),
        };
        let (old_size, size) = (size(sides.old)?, size(sides.new)?);
        let counted = self.count(sides, old_size.unwrap_or(0) + size.unwrap_or(0))?;
        let difference = FileDifference {
            path: path.to_string(),
            old_path: origin.map(ToString::to_string),
            change: match (origin, sides.old, sides.new) {
                (Some(_), ..) => DifferenceKind::Renamed,
                (None, None, _) => DifferenceKind::Created,
                (None, Some(_), None) => DifferenceKind::Deleted,
                (None, Some(_), Some(_)) => DifferenceKind::Modified,
            },
            added: counted.ok().map(|(added, _)| added),
            removed: counted.ok().map(|(_, removed)| removed),
            without_lines: counted.err(),
            old_size,
            size,
        };
        self.files.push((difference, sides));
        Ok(())
    }

    /// Counts the lines that a file gained and lost; `bytes` is the length of both sides. The inner error is why they are not counted.
    fn count(&mut self, sides: Sides, bytes: u64) -> Result<Result<(u64, u64), NoLinesReason>, HistoryError> {
        if let (Some(old), Some(new)) = (sides.old, sides.new)
            && old.blob == new.blob
        {
            return Ok(Ok((0, 0)));
        }
        if bytes > MAX_BYTES * 2 {
            return Ok(Err(NoLinesReason::TooLarge));
        }
        let Some(left) = self.bytes_left.checked_sub(bytes) else {
            return Ok(Err(NoLinesReason::NotCounted));
        };
        self.bytes_left = left;
        let (old, new) = match (content(self.reader, sides.old)?, content(self.reader, sides.new)?) {
            (Ok(old), Ok(new)) => (old, new),
            (Err(reason), _) | (_, Err(reason)) => return Ok(Err(reason)),
        };
        let stats = patch(&old, &new).and_then(|patch| patch.line_stats());
        let (_, added, removed) = stats.map_err(unreadable)?;
        Ok(Ok((added as u64, removed as u64)))
    }
}

fn to_owned_pair((codon, run): (&str, &str)) -> (String, String) {
    (codon.to_owned(), run.to_owned())
}

fn unreadable(error: git2::Error) -> HistoryError {
    HistoryError::Read(ObjectError::at("read the files of a checkpoint")(error))
}

fn patch<'b>(old: &'b [u8], new: &'b [u8]) -> Result<Patch<'b>, git2::Error> {
    let mut options = DiffOptions::new();
    options
        .context_lines(CONTEXT)
        .indent_heuristic(true)
        .force_text(true);
    Patch::from_buffers(old, None, new, None, Some(&mut options))
}

/// Returns the text of one side, or why it has no lines to show. A file that does not exist has an empty text.
fn content(reader: &ObjectReader<'_>, side: Option<FileEntry>) -> Result<SideContent, HistoryError> {
    let Some(entry) = side else {
        return Ok(Ok(Vec::new()));
    };
    if reader.length(entry.blob).map_err(unreadable)?.unwrap_or(0) > MAX_BYTES {
        return Ok(Err(NoLinesReason::TooLarge));
    }
    let mut bytes = Vec::new();
    reader
        .copy_content(entry.blob, &mut bytes)
        .map_err(|error| unreadable(error.into_git()))?;
    Ok(match () {
        // Git's own rule for what is no text.
        () if memchr::memchr(0, &bytes[..bytes.len().min(8_000)]).is_some() => Err(NoLinesReason::Binary),
        () if memchr::memchr_iter(b'\n', &bytes).count() > MAX_LINES => Err(NoLinesReason::TooLarge),
        // A link's target is one line. Without a line break its difference would report that the break is missing.
        () if entry.mode == FileMode::Link => Ok([&bytes[..], b"\n"].concat()),
        () => Ok(bytes),
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::super::contract::Fixture;
    use super::*;

    fn history(fixture: &Fixture) -> GitHistory {
        GitHistory::open(&fixture.path(".hankweave/checkpoints"))
            .unwrap()
            .unwrap()
    }

    fn numbered(lines: std::ops::Range<u32>) -> String {
        lines.map(|line| format!("line {line}\n")).collect()
    }

    /// The lines in short: kind, numbers and text.
    fn written(lines: &[LineDifference]) -> Vec<String> {
        let number = |number: Option<u32>| number.map_or("-".to_owned(), |number| number.to_string());
        let line = |line: &LineDifference| {
            let kind = serde_json::to_value(line.kind).unwrap();
            let kind = kind.as_str().unwrap();
            format!("{kind}{},{} {}", number(line.old), number(line.new), line.text)
        };
        lines.iter().map(line).collect()
    }

    // covers: WIRE-45
    #[test]
    fn files_are_compared_with_their_lines_renames_and_reasons() {
        let fixture = Fixture::git();
        fixture.write("same", "1\n");
        fixture.write("edited", &numbered(0..20));
        fixture.write("gone", "a\nb\n");
        fixture.write("old/moved", &numbered(0..9));
        fixture.write("old/nearly", &numbered(100..140));
        fixture.write("bin", "a\0b");
        let from = fixture.create();
        let edited = numbered(0..20).replace("line 9\n", "line nine\nand more\n");
        fixture.write("edited", edited.trim_end_matches('\n'));
        for path in ["gone", "old/moved", "old/nearly"] {
            std::fs::remove_file(fixture.path(path)).unwrap();
        }
        fixture.write("new/moved", &numbered(0..9));
        fixture.write("new/nearly", &numbered(100..141));
        fixture.write("bin", "a\0c");
        fixture.write("big", &"x\n".repeat(MAX_LINES + 1));
        symlink("same", fixture.path("link")).unwrap();
        let to = fixture.create();

        let history = history(&fixture);
        let compared = history.compare(&from.sha, &to.sha).unwrap();
        let told = |file: &FileDifference| {
            let (old, change) = (file.old_path.clone().unwrap_or_default(), file.change);
            (
                file.path.clone(),
                old,
                change,
                file.added.zip(file.removed),
                file.without_lines,
            )
        };
        let counted = |path: &str, old: &str, change, lines| {
            (path.to_owned(), old.to_owned(), change, Some(lines), None)
        };
        let without =
            |path: &str, change, reason| (path.to_owned(), String::new(), change, None, Some(reason));
        let found: Vec<_> = compared.differences.files.iter().map(told).collect();
        assert_eq!(
            found,
            [
                without("big", DifferenceKind::Created, NoLinesReason::TooLarge),
                without("bin", DifferenceKind::Modified, NoLinesReason::Binary),
                counted("edited", "", DifferenceKind::Modified, (3, 2)),
                counted("gone", "", DifferenceKind::Deleted, (0, 2)),
                counted("link", "", DifferenceKind::Created, (1, 0)),
                counted("new/moved", "old/moved", DifferenceKind::Renamed, (0, 0)),
                counted("new/nearly", "old/nearly", DifferenceKind::Renamed, (1, 0)),
            ]
        );
        let sums = &compared.differences;
        assert_eq!((sums.count, sums.added, sums.removed), (7, 5, 4));

        let lines = history.lines(&compared, "edited").unwrap();
        let all = lines.part(0, usize::MAX, usize::MAX);
        assert_eq!(
            written(&all),
            [
                "@-,- @@ -7,7 +7,8 @@",
                " 7,7 line 6",
                " 8,8 line 7",
                " 9,9 line 8",
                "-10,- line 9",
                "+-,10 line nine",
                "+-,11 and more",
                " 11,12 line 10",
                " 12,13 line 11",
                " 13,14 line 12",
                "@-,- @@ -17,4 +18,4 @@",
                " 17,18 line 16",
                " 18,19 line 17",
                " 19,20 line 18",
                "-20,- line 19",
                "+-,21 line 19",
                "\\-,- no line break at the end",
            ]
        );
        assert_eq!(lines.part(4, 2, usize::MAX), all[4..6]);
        assert_eq!(lines.part(4, 9, 1), all[4..5], "one line comes, however long");
        assert_eq!(lines.part(99, 9, usize::MAX), []);
        for path in ["bin", "big", "same", "nowhere"] {
            assert_eq!(history.lines(&compared, path).unwrap().count(), 0, "{path}");
        }
        assert_eq!(history.lines(&compared, "new/nearly").unwrap().count(), 5);
    }

    // covers: WIRE-45
    #[test]
    fn a_long_line_is_cut_and_a_checkpoint_is_found_by_its_first_digits() {
        let fixture = Fixture::git();
        fixture.write("a", "short\n");
        let from = fixture.create();
        fixture.write("a", &format!("{}\n", "ä".repeat(MAX_LINE_CHARACTERS + 5)));
        let to = fixture.create();
        let history = history(&fixture);
        let compared = history.compare(&from.sha, &to.sha).unwrap();
        let lines = history.lines(&compared, "a").unwrap().part(2, 1, usize::MAX);
        assert_eq!(lines[0].text, format!("{}…", "ä".repeat(MAX_LINE_CHARACTERS)));

        let named = |prefix: &str| history.named(prefix).unwrap();
        assert_eq!(named(to.sha.as_str()), Some(to.sha.clone()));
        assert_eq!(named(&to.sha.as_str()[..12]), Some(to.sha.clone()));
        for nothing in ["000000000000", &"0".repeat(40), &"a".repeat(64)] {
            assert_eq!(named(nothing), None, "{nothing}");
        }
    }
}
