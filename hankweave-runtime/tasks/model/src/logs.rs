//! Log of a task, one JSON object per line (TASK-9, TASK-10).

use hankweave_core::time::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Importance of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogLevel {
    /// Normal event.
    Info,
    /// Event to check.
    Warning,
    /// Failure.
    Error,
    /// Detail for debugging.
    Debug,
}

/// Line of a log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LogEntry {
    /// Time of the event.
    pub timestamp: Timestamp,
    /// Importance.
    pub level: LogLevel,
    /// Message.
    pub message: String,
    /// Data of the event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
    /// Number in the registry, for a line about a change there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seq: Option<u64>,
}

/// Filter of log lines. Both ends of the time range are included.
#[derive(Debug, Clone, Default)]
pub struct LogQuery {
    /// Wanted level.
    pub level: Option<LogLevel>,
    /// Earliest time.
    pub start: Option<Timestamp>,
    /// Latest time.
    pub end: Option<Timestamp>,
    /// Number of matching lines to skip first.
    pub offset: usize,
    /// Number of lines to return at most.
    pub limit: Option<usize>,
}

impl LogQuery {
    fn matches(&self, entry: &LogEntry) -> bool {
        self.level.is_none_or(|level| entry.level == level)
            && self.start.is_none_or(|start| entry.timestamp >= start)
            && self.end.is_none_or(|end| entry.timestamp <= end)
    }
}

/// Contents of a log.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct TaskLogPage {
    /// Matching lines.
    pub entries: Vec<LogEntry>,
    /// Number of unreadable lines.
    pub broken: usize,
}

impl TaskLogPage {
    /// Parses a log. A line that is torn or no entry does not affect the others (TASK-10).
    #[must_use]
    pub fn read(text: &str, query: &LogQuery) -> Self {
        let mut fold = LogFold::new(query.clone());
        text.split('\n').for_each(|line| fold.line(line.as_bytes()));
        fold.logs
    }
}

/// Reader of a log, line by line. Lines that do not match take no memory.
#[derive(Debug)]
pub struct LogFold {
    query: LogQuery,
    /// Number of matching lines skipped so far.
    skipped: usize,
    logs: TaskLogPage,
}

impl LogFold {
    /// Creates a reader at the start of a log.
    #[must_use]
    pub fn new(query: LogQuery) -> Self {
        let logs = TaskLogPage {
            entries: Vec::new(),
            broken: 0,
        };
        Self {
            query,
            skipped: 0,
            logs,
        }
    }

    /// Reads one line, without its line end.
    pub fn line(&mut self, line: &[u8]) {
        if line.trim_ascii().is_empty() {
            return;
        }
        match serde_json::from_slice(line) {
            Ok(entry) if self.query.matches(&entry) => self.take(entry),
            Ok(_) => {}
            Err(_) => self.broken_line(),
        }
    }

    /// Counts a line that could not be read at all.
    pub fn broken_line(&mut self) {
        self.logs.broken += 1;
    }

    fn take(&mut self, entry: LogEntry) {
        if self.skipped < self.query.offset {
            self.skipped += 1;
        } else if self
            .query
            .limit
            .is_none_or(|limit| self.logs.entries.len() < limit)
        {
            self.logs.entries.push(entry);
        }
    }

    /// Returns the contents of the log.
    #[must_use]
    pub fn finish(self) -> TaskLogPage {
        self.logs
    }
}

/// Usual length of a line, in bytes.
const USUAL_LENGTH: usize = 256;

/// Returns the text to append for these entries, in one write (TASK-9). If the file is `torn`, without a newline at its end, the text starts with
/// one.
///
/// # Errors
///
/// Returns the error of serde for data that is no JSON.
pub fn lines(entries: &[LogEntry], torn: bool) -> serde_json::Result<String> {
    let mut text = Vec::with_capacity(USUAL_LENGTH * entries.len());
    if torn && !entries.is_empty() {
        text.push(b'\n');
    }
    for entry in entries {
        serde_json::to_writer(&mut text, entry)?;
        text.push(b'\n');
    }
    String::from_utf8(text).map_err(serde::ser::Error::custom)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(millis: i64, level: LogLevel) -> LogEntry {
        LogEntry {
            timestamp: Timestamp::from_millis(millis),
            level,
            message: format!("two\nlines at {millis}"),
            data: None,
            seq: None,
        }
    }

    // covers: TASK-9, TASK-10
    #[test]
    fn a_torn_line_costs_only_itself() {
        let (first, second) = (entry(1, LogLevel::Info), entry(2, LogLevel::Error));
        let mut file = lines(std::slice::from_ref(&first), false).unwrap();
        file.push_str("{\"timestamp\":\"20");
        file.push_str(&lines(std::slice::from_ref(&second), true).unwrap());
        let read = TaskLogPage::read(&file, &LogQuery::default());
        assert_eq!((read.entries, read.broken), (vec![first, second], 1));
        assert_eq!(lines(&[], true).unwrap(), "");
    }

    // covers: TASK-10
    #[test]
    fn filters_come_first_then_offset_then_limit_and_a_limit_of_none_is_none() {
        let entries: Vec<_> = (0..6).map(|millis| entry(millis, LogLevel::Info)).collect();
        let file = lines(&entries, false).unwrap();
        let mut query = LogQuery {
            start: Some(Timestamp::from_millis(1)),
            end: Some(Timestamp::from_millis(4)),
            offset: 1,
            limit: Some(2),
            level: Some(LogLevel::Info),
        };
        assert_eq!(TaskLogPage::read(&file, &query).entries, entries[2..4]);
        query.limit = Some(0);
        assert_eq!(TaskLogPage::read(&file, &query).entries, []);
    }
}
