//! Lines of the log of a task for people: in words, and with one line for a requeue.

use hankweave_task_model::{LogEntry, LogLevel};
use hankweave_tasks::lifecycle::ORPHANED;

/// Message of the log entry of a step that fails the task.
const FAILED: &str = "Task failed";
/// Message of the log entry of a step that resumes the task.
const RESUMED: &str = "Task resumed";

/// Line of the log for people.
pub(crate) struct LogLine<'e> {
    pub(crate) entry: &'e LogEntry,
    pub(crate) level: LogLevel,
    pub(crate) message: String,
    /// The line is about a requeue.
    pub(crate) is_requeue: bool,
    /// Cause of a failure or sentence about a result, to be printed below the message.
    pub(crate) detail: Option<&'e str>,
}

/// Returns the lines for people. To requeue a task, the registry fails and resumes it in one commit; these two entries become one line.
pub(crate) fn lines(entries: &[LogEntry]) -> Vec<LogLine<'_>> {
    let mut lines = Vec::new();
    let mut entries = entries.iter().peekable();
    // Maker of the attempt to which the entries belong.
    let mut worker = None;
    while let Some(entry) = entries.next() {
        worker = Attempter::of_start(entry).or(worker);
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
                message: format!("Task requeued{by}: {}", why_requeued(why, worker)),
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

/// Whether the entry `next` resumes the task in the same commit in which `failed` failed it.
fn is_requeued(failed: &LogEntry, next: &LogEntry) -> bool {
    let follows = failed.seq.and_then(|seq| seq.checked_add(1)) == next.seq;
    next.message == RESUMED && follows && next.timestamp == failed.timestamp
}

/// Maker of an attempt: a worker, or a user by hand.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Attempter<'e> {
    pub(crate) name: &'e str,
    pub(crate) by_hand: bool,
}

impl<'e> Attempter<'e> {
    /// Returns the worker or user that starts an attempt with this line; `None` for another line.
    fn of_start(entry: &'e LogEntry) -> Option<Self> {
        let data = entry.data.as_ref()?;
        let name = data["agentId"].as_str()?;
        let by_hand = data["byHand"] == true;
        Some(Self { name, by_hand })
    }
}

/// Returns why an attempt ended without a result, with its worker or user where known.
pub(crate) fn why_requeued(error: &str, by: Option<Attempter<'_>>) -> String {
    let known = match (error, by) {
        (ORPHANED, Some(by)) if by.by_hand => Some(format!(
            "ORPHANED: {} worked on it by hand, and nothing about it changed for so long",
            by.name
        )),
        (ORPHANED, Some(by)) => Some(lost(&format!("its worker {}", by.name))),
        _ => None,
    };
    known.unwrap_or_else(|| in_words(error).unwrap_or_else(|| error.to_owned()))
}

/// Returns the words for an error code of an attempt that ended without a result; `None` for other errors.
pub(crate) fn in_words(error: &str) -> Option<String> {
    Some(match error {
        ORPHANED => lost("its worker"),
        "DETACHED" => "DETACHED: no worker held it, and it was requeued by hand".to_owned(),
        "WORKER_STOPPED" => "WORKER_STOPPED: its worker was stopped".to_owned(),
        _ => return None,
    })
}

fn lost(worker: &str) -> String {
    format!(
        "ORPHANED: {worker} did not renew its lease (killed, suspended or without its registry), and recorded no result"
    )
}
