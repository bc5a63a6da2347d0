//! Lines of the log of a task as people read them.

use hankweave_task_model::{LogEntry, LogLevel};
use hankweave_tasks::lifecycle::ORPHANED;

/// Message of the line of a step that fails the task, and of the one that resumes it.
const FAILED: &str = "Task failed";
const RESUMED: &str = "Task resumed";

/// Line of the log for people.
pub(crate) struct LogLine<'e> {
    pub(crate) entry: &'e LogEntry,
    pub(crate) level: LogLevel,
    pub(crate) message: String,
    /// It requeued the task.
    pub(crate) is_requeue: bool,
    /// Cause of a failure or sentence about a result, in lines of its own.
    pub(crate) detail: Option<&'e str>,
}

/// Returns the lines for people. A task that is requeued fails and is resumed in one commit, and did not fail.
pub(crate) fn lines(entries: &[LogEntry]) -> Vec<LogLine<'_>> {
    let mut lines = Vec::new();
    let mut entries = entries.iter().peekable();
    while let Some(entry) = entries.next() {
        let error = entry.data.as_ref().and_then(|data| data["error"].as_str());
        let error = error.filter(|_| entry.message == FAILED);
        let data = entry.data.as_ref();
        let message = data.and_then(|data| data["result"]["message"].as_str());
        let requeued = error.filter(|_| entries.next_if(|next| is_requeued(entry, next)).is_some());
        let by = data.and_then(|data| data["by"].as_str());
        let by = by.map_or_else(String::new, |by| format!(" by {by}"));
        let arguments = data.and_then(|data| data["arguments"].as_array());
        let arguments = arguments.map_or_else(String::new, |all| {
            let all: Vec<&str> = all.iter().filter_map(|one| one.as_str()).collect();
            format!(" with {}", all.join(" "))
        });
        lines.push(match requeued {
            Some(why) => LogLine {
                entry,
                level: LogLevel::Warning,
                message: format!("Task requeued{by}: {}", in_words(why).unwrap_or(why)),
                is_requeue: true,
                detail: None,
            },
            None => LogLine {
                entry,
                level: entry.level,
                message: format!("{}{by}{arguments}", entry.message),
                is_requeue: false,
                detail: error.or(message),
            },
        });
    }
    lines
}

fn is_requeued(failed: &LogEntry, next: &LogEntry) -> bool {
    let follows = failed.seq.and_then(|seq| seq.checked_add(1)) == next.seq;
    next.message == RESUMED && follows && next.timestamp == failed.timestamp
}

/// Returns an error code of a task whose attempt ended without a result in words; `None` for other errors.
pub(crate) fn in_words(error: &str) -> Option<&'static str> {
    Some(match error {
        ORPHANED => {
            "ORPHANED: no worker held it any more, as its worker was gone, its registry did not answer for so long, or its attempt was by hand; no result was recorded"
        }
        "DETACHED" => "DETACHED: no worker held it, and it was requeued by hand",
        "WORKER_STOPPED" => "WORKER_STOPPED: its worker was stopped",
        _ => return None,
    })
}
