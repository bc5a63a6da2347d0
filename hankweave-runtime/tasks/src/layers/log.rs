//! logs.jsonl: append-only, with one write of complete lines each time (TASK-9, TASK-43).

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::time::Duration;

use hankweave_runtime::world::disk::{Folder, SharedFile};
use tokio::time::Instant;

use super::LOGS;
use super::error::LayerError;
use super::figures::{Layer, LayerOperation};
use super::files::TaskFiles;
use super::folder::open;
use super::lines::each_line;
use crate::model::{LogEntry, LogFold, LogQuery, TaskError, TaskLogPage, lines};

/// Longest time that a line waits for its sync.
const LONGEST_WAIT: Duration = Duration::from_millis(100);

/// Time at which lines become durable.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Durability {
    /// Whenever the system writes them.
    Buffered,
    /// With the next call of [`TaskLog::sync`], or with the first append 100 ms after the oldest line that is not durable.
    #[default]
    Batch,
    /// Before the call returns.
    Each,
}

/// Log of a task, open for appending.
#[derive(Debug)]
pub struct TaskLog {
    files: TaskFiles,
    file: Box<dyn SharedFile>,
    durability: Durability,
    /// Time of the first append after the last sync; `None` if all lines are durable.
    unsynced_since: Option<Instant>,
}

impl TaskFiles {
    /// Opens the log for appending. Creates folder and file if they are missing.
    ///
    /// # Errors
    ///
    /// Returns [`LayerError::Save`].
    pub fn open_log(&self, durability: Durability) -> Result<TaskLog, LayerError> {
        let folder = self.make()?;
        let file = folder
            .open_shared(OsStr::new(LOGS))
            .map_err(self.save_error(LOGS))?;
        // The name of the file must survive a crash, too.
        folder.sync().map_err(self.save_error(LOGS))?;
        Ok(TaskLog {
            files: self.clone(),
            file,
            durability,
            unsynced_since: None,
        })
    }

    /// Appends lines to the log and makes them durable.
    ///
    /// # Errors
    ///
    /// Fails like [`TaskLog::append`].
    pub fn append_log(&self, entries: &[LogEntry]) -> Result<(), LayerError> {
        match entries {
            [] => Ok(()),
            entries => self.open_log(Durability::Each)?.append(entries),
        }
    }

    /// Reads the lines that match; the others take no memory. Torn or invalid lines are skipped and counted (TASK-10).
    ///
    /// # Errors
    ///
    /// Returns [`LayerError::Load`].
    pub fn load_log(&self, query: &LogQuery) -> Result<TaskLogPage, LayerError> {
        self.traced(Layer::Logs, LayerOperation::Load, || {
            let mut fold = LogFold::new(query.clone());
            self.each_log_line(|line| match line {
                Some(line) => fold.line(line),
                None => fold.broken_line(),
            })?;
            let logs = fold.finish();
            if logs.broken > 0 {
                tracing::warn!(taskId = %self.id, lines = logs.broken, "unreadable lines in the log of a task");
            }
            Ok(logs)
        })
    }

    /// Returns the registry's numbers of the lines in the log.
    ///
    /// # Errors
    ///
    /// Returns [`LayerError::Load`].
    pub fn log_seqs(&self) -> Result<BTreeSet<u64>, LayerError> {
        self.traced(Layer::Logs, LayerOperation::Load, || {
            let mut seqs = BTreeSet::new();
            self.each_log_line(|line| {
                let entry = line.and_then(|line| serde_json::from_slice::<LogEntry>(line).ok());
                seqs.extend(entry.and_then(|entry| entry.seq));
            })?;
            Ok(seqs)
        })
    }

    pub(super) fn each_log_line(&self, each: impl FnMut(Option<&[u8]>)) -> Result<(), LayerError> {
        match self.open()? {
            Some(folder) => self.each_log_line_in(&*folder, each),
            None => Ok(()),
        }
    }

    pub(super) fn each_log_line_in(
        &self,
        folder: &dyn Folder,
        each: impl FnMut(Option<&[u8]>),
    ) -> Result<(), LayerError> {
        let file = open(folder, LOGS).map_err(self.load_error(LOGS))?;
        file.map_or(Ok(()), |file| each_line(file, each))
            .map_err(self.load_error(LOGS))
    }
}

impl TaskLog {
    /// Appends lines, all in one write; writes nothing for no lines. If the last line of an earlier writer has no end, the text starts with a
    /// newline.
    ///
    /// # Errors
    ///
    /// Returns [`TaskError::StateSaveFailed`] for data that is no JSON. After [`LayerError::Save`] the log may have a torn line, which does not
    /// affect others.
    pub fn append(&mut self, entries: &[LogEntry]) -> Result<(), LayerError> {
        if entries.is_empty() {
            return Ok(());
        }
        let Self {
            files,
            file,
            durability,
            unsynced_since,
        } = self;
        files.traced(Layer::Logs, LayerOperation::Save, || {
            let is_torn = !matches!(
                file.last_byte().map_err(files.save_error(LOGS))?,
                None | Some(b'\n')
            );
            let text =
                lines(entries, is_torn).map_err(|_| TaskError::StateSaveFailed("a log line is no JSON"))?;
            file.add(text.as_bytes()).map_err(files.save_error(LOGS))?;
            let since = *unsynced_since.get_or_insert_with(Instant::now);
            match durability {
                Durability::Buffered => Ok(()),
                Durability::Batch if since.elapsed() < LONGEST_WAIT => Ok(()),
                Durability::Batch | Durability::Each => sync(files, &**file, unsynced_since),
            }
        })
    }

    /// Makes all lines durable.
    ///
    /// # Errors
    ///
    /// Returns [`LayerError::Save`]; it is then unknown which lines are durable.
    pub fn sync(&mut self) -> Result<(), LayerError> {
        sync(&self.files, &*self.file, &mut self.unsynced_since)
    }

    /// Returns the time at which the owner of the log must call [`sync`](Self::sync), even during other work. `None` if no line waits for a sync, and
    /// always without [`Durability::Batch`].
    #[must_use]
    pub fn sync_due(&self) -> Option<Instant> {
        let since = self
            .unsynced_since
            .filter(|_| self.durability == Durability::Batch);
        since.map(|since| since + LONGEST_WAIT)
    }
}

fn sync(
    files: &TaskFiles,
    file: &dyn SharedFile,
    unsynced_since: &mut Option<Instant>,
) -> Result<(), LayerError> {
    if unsynced_since.is_some() {
        file.sync_data().map_err(files.save_error(LOGS))?;
        *unsynced_since = None;
    }
    Ok(())
}
