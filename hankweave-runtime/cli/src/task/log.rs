//! `hankweave task log`: the newest lines of a task's log, with the steps of other machines that only the registry has.

use std::collections::BTreeSet;
use std::process::ExitCode;

use hankweave_core::time::Timestamp;
use hankweave_task_model::task::TaskStatus;
use hankweave_task_model::{LogEntry, LogLevel, LogQuery};
use serde_json::json;

use super::create::print_hint;
use super::details::broken;
use crate::args::{Global, TaskHistoryArgs};
use crate::begun_elsewhere::newest_in;
use crate::registry::Registry;
use crate::task_lines::{LogLine, lines};
use crate::terminal::exit::CliError;
use crate::terminal::output;
use crate::terminal::screen::{columns_of_output, local_second, local_time, one_line};

pub(super) async fn history(
    global: &Global,
    registry: &Registry,
    args: &TaskHistoryArgs,
) -> Result<ExitCode, CliError> {
    let row = registry.task(&args.task.id).await?;
    // People see the level of a sentence, which may differ from that of its entry, so for them the sentences are filtered below.
    let entry_level = args.level.filter(|_| global.json());
    let query = LogQuery {
        level: entry_level,
        start: args.start,
        end: args.end,
        ..LogQuery::default()
    };
    let files = registry.files(&row);
    let logs = files.run(move |files| files.load_log(&query)).await;
    let mut logs = logs.map_err(|error| registry.layer_failure(&error))?;
    add_steps_of_others(registry, args, entry_level, &mut logs.entries).await?;
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
    output::print(newest.map(|line| line_text(line, time)).collect::<String>())?;
    let went_on = registry.files(&row).went_on_in(&row);
    let elsewhere = match went_on {
        Some(place) => Some(format!("the task went on {}", newest_in(&place))),
        None => registry
            .begun_elsewhere(&row)
            .map(|words| match row.record.status() {
                TaskStatus::Running | TaskStatus::Completed => words,
                _ => format!("the task was {words}"),
            }),
    };
    if let Some(words) = elsewhere.filter(|_| !global.quiet) {
        print_hint(&words);
    }
    Ok(ExitCode::SUCCESS)
}

/// Adds from the registry the steps that are not in the log here, because they were taken on other machines.
async fn add_steps_of_others(
    registry: &Registry,
    args: &TaskHistoryArgs,
    level: Option<LogLevel>,
    entries: &mut Vec<LogEntry>,
) -> Result<(), CliError> {
    let steps = registry.coordinator.log_lines(args.task.id.clone(), 0).await;
    let steps = steps.map_err(|error| registry.failure(&error))?;
    let own: BTreeSet<u64> = entries.iter().filter_map(|entry| entry.seq).collect();
    let is_within = |step: &LogEntry| {
        args.start.is_none_or(|start| step.timestamp >= start)
            && args.end.is_none_or(|end| step.timestamp <= end)
    };
    let is_of_level = |step: &LogEntry| level.is_none_or(|level| step.level == level);
    let others = steps
        .into_iter()
        .filter(|step| step.seq.is_none_or(|seq| !own.contains(&seq)));
    entries.extend(others.filter(|step| is_within(step) && is_of_level(step)));
    entries.sort_by_key(|entry| entry.timestamp);
    Ok(())
}

fn newest<T>(all: &[T], limit: usize) -> &[T] {
    &all[all.len().saturating_sub(limit)..]
}

/// Columns in front of a message.
const INDENT_OF_MESSAGE: usize = 23;

fn line_text(line: &LogLine<'_>, time: fn(Timestamp) -> String) -> String {
    let level = json!(line.level);
    let mut lines = broken(&one_line(&line.message), columns_of_output(), INDENT_OF_MESSAGE).into_iter();
    let mut text = format!(
        "{:<12}  {:<7}  {}\n",
        time(line.entry.timestamp),
        level.as_str().unwrap_or_default(),
        lines.next().unwrap_or_default()
    );
    text.extend(lines.map(|line| format!("{:INDENT_OF_MESSAGE$}{line}\n", "")));
    if let Some(detail) = line.detail {
        let lines = broken(&one_line(detail), columns_of_output(), 4);
        text.extend(lines.iter().map(|line| format!("    {line}\n")));
    }
    text
}
