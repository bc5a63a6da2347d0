//! `hankweave task log`

use std::process::ExitCode;

use hankweave_core::time::Timestamp;
use hankweave_task_model::{LogEntry, LogLevel, LogQuery};
use serde_json::json;

use super::create::print_hint;
use super::details::broken;
use super::show::in_words;
use crate::args::{Global, TaskHistoryArgs};
use crate::begun_elsewhere::newest_in;
use crate::exit::CliError;
use crate::output;
use crate::registry::Registry;
use crate::screen::{columns_of_output, local_second, local_time, one_line};

/// Message of the line of a step that fails the task, and of the one that resumes it.
const FAILED: &str = "Task failed";
const RESUMED: &str = "Task resumed";

pub(super) async fn history(
    global: &Global,
    registry: &Registry,
    args: &TaskHistoryArgs,
) -> Result<ExitCode, CliError> {
    let row = registry.task(&args.task.id).await?;
    let query = LogQuery {
        level: args.level.filter(|_| global.json()),
        start: args.start,
        end: args.end,
        ..LogQuery::default()
    };
    let files = registry.files(&row);
    let logs = files.run(move |files| files.load_log(&query)).await;
    let logs = logs.map_err(|error| registry.layer_failure(&error))?;
    if global.json() {
        let newest = newest(&logs.entries, args.limit);
        return output::print_json(&json!({"entries": newest, "broken": logs.broken}));
    }
    let mut lines = lines(&logs.entries);
    lines.retain(|line| args.level.is_none_or(|level| line.level == level));
    let time = if global.verbose > 0 {
        local_second
    } else {
        local_time
    };
    let newest = newest(&lines, args.limit).iter();
    output::print(newest.map(|line| text(line, time)).collect::<String>())?;
    let went_on = registry.files(&row).went_on_in(&row);
    let elsewhere = match went_on {
        Some(place) => Some(format!("the task went on {}", newest_in(&place))),
        None => registry
            .begun_elsewhere(&row)
            .map(|words| format!("the task was {words}")),
    };
    if let Some(words) = elsewhere.filter(|_| !global.quiet) {
        print_hint(&words);
    }
    Ok(ExitCode::SUCCESS)
}

fn newest<T>(all: &[T], limit: usize) -> &[T] {
    &all[all.len().saturating_sub(limit)..]
}

/// Line of the log for people.
struct LogLine<'e> {
    entry: &'e LogEntry,
    level: LogLevel,
    message: String,
    /// Cause of a failure or sentence about a result, in lines of its own.
    detail: Option<&'e str>,
}

/// Returns the lines for people. A task that is requeued fails and is resumed in one commit, and did not fail.
fn lines(entries: &[LogEntry]) -> Vec<LogLine<'_>> {
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
        lines.push(match requeued {
            Some(why) => LogLine {
                entry,
                level: LogLevel::Warning,
                message: format!("Task requeued{by}: {}", in_words(why).unwrap_or(why)),
                detail: None,
            },
            None => LogLine {
                entry,
                level: entry.level,
                message: format!("{}{by}", entry.message),
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

fn text(line: &LogLine<'_>, time: fn(Timestamp) -> String) -> String {
    let level = json!(line.level);
    let mut lines = broken(&one_line(&line.message), columns_of_output(), 23).into_iter();
    let mut text = format!(
        "{:<12}  {:<7}  {}\n",
        time(line.entry.timestamp),
        level.as_str().unwrap_or_default(),
        lines.next().unwrap_or_default()
    );
    text.extend(lines.map(|line| format!("{:23}{line}\n", "")));
    if let Some(detail) = line.detail {
        let lines = broken(&one_line(detail), columns_of_output(), 4);
        text.extend(lines.iter().map(|line| format!("    {line}\n")));
    }
    text
}
