//! Changes of files for an exported page (WIRE-43): the differences that each attempt made, the newest attempt first, within limits.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::path::Path;

use hankweave_core::id::CheckpointSha;
use hankweave_core::view::RunView;
use hankweave_core::wire::{FileDifferences, LineDifference};
use hankweave_runtime::ExecutionDir;
use hankweave_runtime::checkpoint::{Comparison, GitHistory};
use hankweave_runtime::error::chain;
use serde::Serialize;

/// Limits of the differences in one page.
#[derive(Debug, Clone, Copy)]
struct ExportLimits {
    /// Number of attempts.
    attempts: usize,
    /// Number of files of an attempt.
    files: usize,
    /// Number of lines of a file.
    lines: usize,
    /// Room for all paths and lines, in bytes; shrinks while they are read.
    bytes: usize,
}

const LIMITS: ExportLimits = ExportLimits {
    attempts: 500,
    files: 500,
    lines: 5_000,
    bytes: 16 << 20,
};

/// Approximate size of a line or a file without its texts, in bytes.
const OVERHEAD: usize = 64;

/// Differences of the attempts of a view.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ExportedDifferences {
    attempts: Vec<AttemptDifferences>,
    pub(super) left_out: LeftOutDifferences,
}

/// Number of differences that are left out for a limit, or because they cannot be read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub(super) struct LeftOutDifferences {
    /// Attempts without any differences.
    pub(super) attempts: usize,
    /// Files that are missing in the other attempts.
    pub(super) files: u64,
    /// Files without all of their lines.
    pub(super) lines: u64,
}

/// Differences between the start of a codon and the checkpoint of its attempt.
#[derive(Debug, Serialize)]
struct AttemptDifferences {
    #[serde(flatten)]
    differences: FileDifferences,
    /// Lines of each file, in the order of the files; `None` where they are left out.
    lines: Vec<Option<Vec<LineDifference>>>,
}

impl LeftOutDifferences {
    pub(super) fn is_nothing(self) -> bool {
        self == Self::default()
    }
}

impl ExportedDifferences {
    /// Reads the differences. A repository that cannot be read is no failure: the page has none then.
    pub(super) fn read(execution: &Path, view: &RunView) -> Self {
        Self::within(execution, view, LIMITS)
    }

    fn within(execution: &Path, view: &RunView, mut limits: ExportLimits) -> Self {
        let checkpoints = checkpoints(view);
        // Without a readable record the repository alone says where the work of an attempt began.
        let state = crate::state::read_execution(execution).ok();
        let mut found = Self::default();
        let repository = ExecutionDir::new(execution.to_owned()).checkpoints();
        let history = match GitHistory::open(&repository) {
            Ok(Some(history)) => history,
            Ok(None) => return found,
            Err(error) => {
                tracing::warn!(error = %chain(&error), "the page has no differences");
                found.left_out.attempts = checkpoints.len();
                return found;
            }
        };
        for (at, to) in checkpoints.iter().enumerate() {
            let compared = (at < limits.attempts && limits.bytes > 0)
                .then(|| history.compare_work(&history.work_until(state.as_ref(), to)?, to))
                .transpose();
            match compared {
                Ok(Some(comparison)) => {
                    let differences = found.read_attempt(&history, &comparison, &mut limits);
                    found.attempts.push(differences);
                }
                Ok(None) => found.left_out.attempts += 1,
                Err(error) => {
                    tracing::warn!(error = %chain(&error), checkpoint = %to, "differences cannot be read");
                    found.left_out.attempts += 1;
                }
            }
        }
        found
    }

    /// Returns the differences of one attempt, and takes their size from `limits`.
    fn read_attempt(
        &mut self,
        history: &GitHistory,
        comparison: &Comparison,
        limits: &mut ExportLimits,
    ) -> AttemptDifferences {
        let all = &comparison.differences;
        let mut differences = FileDifferences {
            files: Vec::new(),
            from: all.from.clone(),
            to: all.to.clone(),
            ..*all
        };
        let mut lines = Vec::new();
        for file in all.files.iter().take(limits.files) {
            let paths = file.path.len() + file.old_path.as_ref().map_or(0, String::len) + OVERHEAD;
            if paths > limits.bytes {
                limits.bytes = 0;
                break;
            }
            limits.bytes -= paths;
            let shown = match file.without_lines {
                None => self.lines(history, comparison, &file.path, limits),
                Some(_) => None,
            };
            lines.push(shown);
            differences.files.push(file.clone());
        }
        self.left_out.files += differences.count - differences.files.len() as u64;
        AttemptDifferences { differences, lines }
    }

    /// Returns the lines of a file; `None` if they are too many or cannot be read.
    fn lines(
        &mut self,
        history: &GitHistory,
        comparison: &Comparison,
        path: &str,
        limits: &mut ExportLimits,
    ) -> Option<Vec<LineDifference>> {
        let read = history.lines(comparison, path).ok();
        let fits = read.filter(|lines| lines.count() <= limits.lines);
        let part = fits.map(|lines| (lines.count(), lines.part(0, lines.count(), limits.bytes)));
        // A part without all lines would look like the whole file.
        let whole = part.filter(|(count, part)| part.len() == *count);
        let lines = whole.map(|(_, lines)| lines);
        let size =
            |lines: &Vec<LineDifference>| lines.iter().map(|line| line.text.len() + OVERHEAD).sum::<usize>();
        match lines.filter(|lines| size(lines) <= limits.bytes) {
            Some(lines) => {
                limits.bytes -= size(&lines);
                Some(lines)
            }
            None => {
                self.left_out.lines += 1;
                None
            }
        }
    }
}

/// Returns the checkpoints of the attempts that count, the newest first.
fn checkpoints(view: &RunView) -> Vec<CheckpointSha> {
    let attempts = view.items.values().flat_map(|item| item.attempts.values());
    let mut attempts: Vec<_> = attempts
        .filter_map(|attempt| Some((attempt.began, attempt.seq, attempt.checkpoint.clone()?)))
        .collect();
    attempts.sort_by_key(|attempt| Reverse((attempt.0, attempt.1)));
    let mut seen = BTreeSet::new();
    let shas = attempts.into_iter().map(|(_, _, sha)| sha);
    shas.filter(|sha| seen.insert(sha.to_string())).collect()
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use hankweave_core::codon::CheckpointType;
    use hankweave_core::id::{CodonId, RunId};
    use hankweave_core::time::Timestamp;
    use hankweave_runtime::checkpoint::{
        CheckpointRequest, CheckpointStore as _, GitCheckpoints, MAX_FILE_BYTES, OpenStoreRequest,
    };

    use super::*;

    /// Workspace with checkpoints.
    struct Workspace {
        folder: tempfile::TempDir,
        store: GitCheckpoints,
    }

    impl Workspace {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let request = OpenStoreRequest {
                repository: folder.path().join("checkpoints"),
                workspace: folder.path().join("work"),
                at: Timestamp::UNIX_EPOCH,
                nonce: "nonce".to_owned(),
                most_bytes: MAX_FILE_BYTES,
            };
            std::fs::create_dir(&request.workspace).unwrap();
            let (store, _) = GitCheckpoints::open(&request).unwrap();
            Self { folder, store }
        }

        fn file(&self) -> PathBuf {
            self.folder.path().join("work/notes.txt")
        }

        /// Writes the file of the workspace and creates a checkpoint.
        fn checkpoint(&self, text: &str) -> CheckpointSha {
            std::fs::write(self.file(), text).unwrap();
            let request = CheckpointRequest {
                kind: CheckpointType::Completed,
                run_id: RunId::new("1736000000000-a").unwrap(),
                codon_id: CodonId::new("write").unwrap(),
                codon_name: "Write".to_owned(),
                patterns: Vec::new(),
                left_out: BTreeSet::new(),
                parent: None,
                at: Timestamp::UNIX_EPOCH,
                duration: None,
            };
            self.store.create(&request).unwrap().sha
        }
    }

    // covers: WIRE-43
    #[test]
    fn a_file_whose_last_line_does_not_fit_is_left_out_whole() {
        let workspace = Workspace::new();
        let from = workspace.checkpoint("first\n");
        let long = "x".repeat(1_000);
        let to = workspace.checkpoint(&format!("first\nsecond\n{long}\n"));
        let history = GitHistory::open(&workspace.folder.path().join("checkpoints"));
        let history = history.unwrap().unwrap();
        let comparison = history.compare(&from, &to).unwrap();
        let read = |bytes| {
            let mut found = ExportedDifferences::default();
            let attempt = found.read_attempt(&history, &comparison, &mut ExportLimits { bytes, ..LIMITS });
            let lines = attempt.lines[0].as_ref().map(Vec::len);
            (attempt.differences.files.len(), lines, found.left_out.lines)
        };
        assert_eq!(read(10_000), (1, Some(4), 0));
        assert_eq!(read(900), (1, None, 1), "all but the last line would fit");
    }
}
