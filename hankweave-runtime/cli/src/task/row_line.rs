//! Line of a task in lists: id, status, owner, time, cost and name, and the reason of [`super::reasons`] below.

use std::fmt::{self, Write as _};

use anstyle::{AnsiColor, Style};
use console::{measure_text_width, truncate_str};
use hankweave_core::time::Timestamp;
use hankweave_task_model::registry::{TaskCost, TaskRow};
use hankweave_task_model::task::{TaskRecord, TaskStatus};

use super::details::broken;
use super::reasons::reason;
use crate::running_tasks::ended_cost;
use crate::terminal::report::money;
use crate::terminal::screen::{SafeText, columns_of_output, local_time, one_line};

/// Returns a cost for a column.
pub(super) fn in_table(cost: TaskCost) -> String {
    money(cost.cost, cost.cost_is_lower_bound)
}

/// Returns the cost of a task by its row alone, for the lines of a worker; `None` for a task that no worker has run. The cost of a running attempt is not in
/// the row.
fn known_cost(row: &TaskRow) -> Option<TaskCost> {
    let is_running = matches!(&row.record, TaskRecord::Running(running) if !running.by_hand);
    let ended = ended_cost(row).or_else(|| is_running.then(TaskCost::default))?;
    Some(TaskCost {
        cost_is_lower_bound: ended.cost_is_lower_bound || is_running,
        ..ended
    })
}

/// Returns id, status, owner, time, cost and name; in a second line the question of a waiting task and the error of a failed one.
/// The time is that of the task's last step.
pub(crate) fn line_with_reason(row: &TaskRow) -> SafeText {
    let mut text = SafeText::default();
    // Writing to a text cannot fail.
    let cost = known_cost(row);
    let _ = write_with(
        row,
        row.updated_at,
        cost,
        reason(row),
        LineWidths::default(),
        &mut text,
    );
    text
}

/// Widths of the columns that differ from list to list.
#[derive(Debug, Clone, Copy)]
pub(super) struct LineWidths {
    id: usize,
    owner: usize,
    time: usize,
}

/// Widths for usual tasks, so that lines that are printed one at a time align and leave room for a name in 80 columns.
impl Default for LineWidths {
    fn default() -> Self {
        Self {
            id: 18,
            owner: 6,
            time: 5,
        }
    }
}

impl LineWidths {
    pub(super) fn of(rows: &[TaskRow]) -> Self {
        rows.iter().fold(Self::default(), |widths, row| Self {
            id: widths.id.max(row.id().as_str().len()),
            owner: widths.owner.max(row.record.owner().chars().count()),
            time: widths.time.max(local_time(*row.record.created_at()).len()),
        })
    }
}

/// Writes the line of a task, and its reason below.
pub(super) fn write_with(
    row: &TaskRow,
    at: Timestamp,
    cost: Option<TaskCost>,
    reason: Option<String>,
    widths: LineWidths,
    text: &mut SafeText,
) -> fmt::Result {
    write_line(row, at, cost, widths, text)?;
    let reason = reason.map(one_line).unwrap_or_default();
    if reason.is_empty() {
        return Ok(());
    }
    let mut lines = broken(&reason, columns_of_output(), 4).into_iter();
    lines.try_for_each(|line| writeln!(text, "    {line}"))
}

/// Returns id, status, owner, time, cost and name.
pub(super) fn line(row: &TaskRow, cost: Option<TaskCost>) -> SafeText {
    let mut text = SafeText::default();
    // Writing to a text cannot fail.
    let _ = write_line(
        row,
        *row.record.created_at(),
        cost,
        LineWidths::default(),
        &mut text,
    );
    text
}

fn write_line(
    row: &TaskRow,
    at: Timestamp,
    cost: Option<TaskCost>,
    widths: LineWidths,
    text: &mut SafeText,
) -> fmt::Result {
    let LineWidths { id, owner, time } = widths;
    let record = &row.record;
    let stopping = if row.cancel_requested_at.is_some() {
        " (stopping)"
    } else {
        ""
    };
    let cost = format!(" {:>10}  ", cost.map_or_else(|| "-".to_owned(), in_table));
    let columns = format!(
        " {:<owner$}  {:<time$} {cost}",
        one_line(record.owner()),
        local_time(at)
    );
    let (room, name) = (
        columns_of_output(),
        format!("{}{stopping}", one_line(record.name())),
    );
    // A narrow terminal loses owner and time: the name is worth more.
    let has_room = |room| STATUS + measure_text_width(&columns) + LEAST_NAME <= room;
    let columns = if room.is_none_or(has_room) { columns } else { cost };
    let rest = STATUS + measure_text_width(&columns);
    // An id that leaves no room for some words of the name has a line of its own.
    let widest = room.map_or(usize::MAX, |room| room.saturating_sub(rest + LEAST_NAME));
    let length = row.id().as_str().len();
    let id = id.max(length).min(widest);
    if length > id {
        writeln!(text, "{}", row.id())?;
        write!(text, "{:<id$}  ", "")?;
    } else {
        write!(text, "{:<id$}  ", row.id().as_str())?;
    }
    let status = record.status();
    text.styled(style_of(status), format_args!("{:<10}", status.as_str()))?;
    match room.map(|room| room.saturating_sub(id + rest)) {
        Some(room) => writeln!(
            text,
            "{columns}{}",
            truncate_str(&name, room.max(LEAST_NAME), "…")
        ),
        None => writeln!(text, "{columns}{name}"),
    }
}

/// Columns of a status with the two spaces in front of it.
const STATUS: usize = 12;

/// Least room for a name that is cut, in columns.
const LEAST_NAME: usize = 12;

/// Returns the style of a status: a colour for those that a user looks for in a long list.
fn style_of(status: TaskStatus) -> Style {
    match status {
        TaskStatus::Failed => AnsiColor::Red.on_default(),
        TaskStatus::Waiting | TaskStatus::Cancelled => AnsiColor::Yellow.on_default(),
        TaskStatus::Running => AnsiColor::Cyan.on_default(),
        _ => Style::new(),
    }
}
