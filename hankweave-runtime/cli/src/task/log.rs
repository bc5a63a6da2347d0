//! `hankweave task log`

use std::process::ExitCode;

use hankweave_core::time::Timestamp;
use hankweave_task_model::LogQuery;
use hankweave_task_model::task::TaskStatus;
use serde_json::json;

use super::create::print_hint;
use super::details::broken;
use crate::args::{Global, TaskHistoryArgs};
use crate::begun_elsewhere::newest_in;
use crate::exit::CliError;
use crate::output;
use crate::registry::Registry;
use crate::screen::{columns_of_output, local_second, local_time, one_line};
use crate::task_lines::{LogLine, lines};

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
            .map(|words| match row.record.status() {
                TaskStatus::Running => format!("the task is {words}"),
                _ => format!("the task was {words}"),
            }),
    };
    if let Some(words) = elsewhere.filter(|_| !global.quiet) {
        print_hint(&words);
    }
    Ok(ExitCode::SUCCESS)
}

fn newest<T>(all: &[T], limit: usize) -> &[T] {
    &all[all.len().saturating_sub(limit)..]
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
