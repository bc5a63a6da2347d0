//! Draws what a [`View`] shows of a [`RunModel`]; decides nothing.

use std::borrow::Cow;
use std::time::Duration;

use anstyle::{AnsiColor, Color, Effects};
use console::{Alignment, measure_text_width, pad_str};
use hankweave_core::time::Timestamp;
use hankweave_core::view::{AttemptState, WatchStatus, changed};
use hankweave_core::wire::FileAction;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{self, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Clear, Paragraph, Wrap};

use super::attention::Viewer;
use super::model::{CodonRow, RunModel};
use super::ring::holds;
use super::view::{HELP, Overlay, PARTS, Pane, View};
use crate::terminal::report::{money, progress, style_of_attempt, tokens, worked};
use crate::terminal::screen::local_time;
use crate::terminal::wrap::wrap;

/// Least number of columns for the plan and, next to it, the chosen part (transcript, files, costs or sentinels). With fewer there is no plan.
const WIDE: u16 = 72;

/// Least width of the plan, in columns.
const LEAST_PLAN: u16 = 28;

/// Columns of time, tokens and cost after a title.
const COSTS: usize = 31;

/// Columns of the number of changed files, which is shown only where there is room.
const CHANGED: usize = 18;

/// Columns of the plan for a mark and a time.
const FIGURES: usize = 10;

/// Least width at which all parts are named, in columns.
const NARROW: usize = 65;

/// Title of the row of the attempts that no longer count.
const UNDONE: &str = "undone or run again";

const DIM: Style = Style::new().add_modifier(Modifier::DIM);
const BOLD: Style = Style::new().add_modifier(Modifier::BOLD);
/// Style of a warning. It is not bold: many terminals draw bold yellow as bright yellow, which is unreadable on white.
const WARN: Style = Style::new().fg(style::Color::Yellow);
const CHOSEN: Style = Style::new().add_modifier(Modifier::REVERSED);

/// Most lines at the top: the state of the run and the user's task.
const TOP: usize = 6;

/// Draws everything at `now`.
pub(super) fn draw(
    frame: &mut Frame<'_>,
    view: &mut View,
    model: &RunModel,
    viewer: &Viewer,
    now: Timestamp,
) {
    let top = top_lines(model, viewer, usize::from(frame.area().width), now);
    let height = u16::try_from(top.len()).unwrap_or_default();
    let rows = Layout::vertical([
        Constraint::Length(height),
        Constraint::Length(1),
        Constraint::Min(1),
        Constraint::Length(2),
    ]);
    let [top_area, head, middle, foot] = rows.areas(frame.area());
    frame.render_widget(Paragraph::new(top), top_area);
    frame.render_widget(tabs(view, usize::from(head.width)), head);
    let part = match middle.width >= WIDE {
        true => {
            let wanted = widest(model.rows()) + FIGURES;
            let plan = u16::try_from(wanted)
                .unwrap_or(u16::MAX)
                .clamp(LEAST_PLAN, middle.width * 9 / 20);
            let columns = [
                Constraint::Length(plan),
                Constraint::Length(1),
                Constraint::Min(1),
            ];
            let columns = Layout::horizontal(columns);
            let [plan, _, part] = columns.areas(middle);
            frame.render_widget(Paragraph::new(plan_lines(model, plan, now)), plan);
            part
        }
        false => middle,
    };
    view.height = usize::from(part.height);
    frame.render_widget(Paragraph::new(part_lines(view, model, part, now)), part);
    frame.render_widget(Paragraph::new(foot_lines(view, model, viewer, now)), foot);
    draw_front(frame, view, middle);
}

/// Returns the state of the run, and below it what the user has to do, which gets its room first.
fn top_lines(model: &RunModel, viewer: &Viewer, width: usize, now: Timestamp) -> Vec<Line<'static>> {
    let is_asked = viewer.prompt.question().is_some();
    let state = if is_asked { WARN } else { BOLD };
    let task = if is_asked { BOLD } else { DIM };
    let sentence = viewer.state(&model.view, now);
    let sentence = wrap(&sentence, width);
    let tasks = viewer.task(&model.view);
    let tasks = tasks.map_or_else(Vec::new, |task| wrap(&task, width));
    let room = TOP.saturating_sub(tasks.len()).max(1);
    let sentence = sentence
        .into_iter()
        .take(room)
        .map(|line| Line::styled(line, state));
    sentence
        .chain(tasks.into_iter().map(|line| Line::styled(line, task)))
        .collect()
}

fn tabs(view: &View, width: usize) -> Line<'static> {
    let mut spans = Vec::new();
    for (number, (part, name)) in (1..).zip(PARTS) {
        let style = if part == view.part { CHOSEN } else { DIM };
        // A narrow terminal names the part that is shown, and the keys of the others.
        let text = match width >= NARROW || part == view.part {
            true => format!(" {number} {name} "),
            false => format!(" {number} "),
        };
        spans.push(Span::styled(text, style));
    }
    spans.push(Span::styled("  ? help  q leave", DIM));
    Line::from(spans)
}

/// Returns as many rows of the plan as fit, with the running codon among them.
fn plan_lines(model: &RunModel, area: Rect, now: Timestamp) -> Vec<Line<'static>> {
    let height = usize::from(area.height);
    let (at, _) = model.view.position();
    let at = at.saturating_sub(model.view.omitted.before);
    let first = at.saturating_sub(height / 3);
    let first = first.min(model.rows().count().saturating_sub(height));
    let asked = model.view.ask.as_ref().and_then(|ask| ask.codon.as_ref());
    let asked = asked.map(|codon| codon.configured());
    let shown = model.rows().skip(first).take(height);
    shown
        .map(|row| plan_line(&row, usize::from(area.width), asked == Some(row.id), now))
        .collect()
}

/// Returns the width of the longest title.
fn widest<'v>(rows: impl Iterator<Item = CodonRow<'v>>) -> usize {
    rows.map(|row| measure_text_width(&row.title))
        .max()
        .unwrap_or_default()
}

/// Returns a title of `width` columns, cut if it is longer.
fn padded(title: &str, width: usize) -> Cow<'_, str> {
    pad_str(title, width, Alignment::Left, Some("…"))
}

fn plan_line(row: &CodonRow<'_>, width: usize, is_asked: bool, now: Timestamp) -> Line<'static> {
    let (mark, style) = match row.attempt {
        _ if is_asked => ("?", WARN),
        None => ("·", DIM),
        Some((_, attempt)) => (mark(attempt.state), to_ratatui(style_of_attempt(attempt.state))),
    };
    let time = row.time(now);
    let title = padded(&row.title, width.saturating_sub(FIGURES));
    Line::styled(format!("{mark} {title} {time:>7}"), style)
}

const fn mark(state: AttemptState) -> &'static str {
    match state {
        AttemptState::Running => "▸",
        AttemptState::Completed => "✓",
        AttemptState::Failed => "✗",
        _ => "■",
    }
}

fn part_lines(view: &View, model: &RunModel, area: Rect, now: Timestamp) -> Vec<Line<'static>> {
    match view.part {
        Pane::Transcript => transcript(view, model),
        Pane::Files => files(view, model),
        Pane::Costs => costs(view, model, usize::from(area.width), now),
        Pane::Sentinels => sentinels(view, model, usize::from(area.width)),
    }
}

fn transcript(view: &View, model: &RunModel) -> Vec<Line<'static>> {
    let top = view.top.unwrap_or_else(|| view.last_top(model));
    let lines = model.transcript.from(top).take(view.height);
    let drawn = lines.map(|(number, line)| {
        let text: String = line.text.chars().skip(view.left).collect();
        let mut style = to_ratatui(line.style);
        if holds(&line.text, &view.needle) {
            style = style.add_modifier(Modifier::BOLD | Modifier::UNDERLINED);
        }
        if view.found == Some(number) {
            style = style.add_modifier(Modifier::REVERSED);
        }
        Line::styled(text, style)
    });
    drawn.collect()
}

fn files(view: &View, model: &RunModel) -> Vec<Line<'static>> {
    let head = match (model.files().count(), model.view.files.more) {
        (0, _) => "no file has changed since the codon began".to_owned(),
        (count, 0) => format!("{count} changed since the codon began; Enter shows the differences"),
        (count, _) => format!("the {count} files that changed last; Enter shows the differences"),
    };
    let rows = model.files().map(|(path, file)| {
        let mark = match file.action {
            FileAction::Created => "+",
            FileAction::Modified => "~",
            FileAction::Deleted => "-",
        };
        format!("{mark} {path}")
    });
    listed(view, head, rows)
}

fn costs(view: &View, model: &RunModel, width: usize, now: Timestamp) -> Vec<Line<'static>> {
    let longest = widest(model.attempts());
    // Names are worth more than the number of changed files.
    let has_files = width >= longest.max(UNDONE.len()) + COSTS + CHANGED;
    let titles = longest
        .max(UNDONE.len())
        .clamp(8, width.saturating_sub(COSTS).max(8));
    let line = |title: &str, time: &str, tokens: &str, cost: &str| {
        format!("{} {time:>10} {tokens:>8} {cost:>10}", padded(title, titles))
    };
    let head = line("codon", "time", "tokens", "cost");
    let spent = &model.view.money;
    let all = money(spent.spent, spent.spent_at_least() || model.view.is_working());
    let undone = model.undone().map(|undone| {
        let time = worked(Duration::from_millis(undone.duration_ms), undone.lost_time);
        let time = time
            .replace("at least", "≥")
            .replace("an unknown time", "unknown");
        let cost = money(undone.cost, undone.at_least);
        line(UNDONE, &time, &tokens(undone.tokens.total()), &cost)
    });
    let before = model.has_earlier_cost().then(|| {
        let cost = money(spent.before, spent.before_at_least);
        line("before it started over", "", "", &cost)
    });
    let all = std::iter::once(line("all runs", "", "", &all));
    let all = all.chain(undone).chain(before);
    let rows = model.attempts().map(|row| {
        let time = row.time(now);
        let used = row.attempt.map_or(0, |(_, attempt)| attempt.tokens.total());
        let changed = changed(row.attempt.and_then(|(_, attempt)| attempt.files_changed));
        let line = line(&row.title, &time, &tokens(used), &row.cost());
        match has_files {
            true => format!("{line}  {changed}").trim_end().to_owned(),
            false => line,
        }
    });
    listed(view, head, all.chain(rows))
}

fn sentinels(view: &View, model: &RunModel, width: usize) -> Vec<Line<'static>> {
    let head = match model.view.sentinels.is_empty() {
        true => "no sentinel watches".to_owned(),
        false => format!("{:<16} {:>7} {:>9}  said last", "sentinel", "answers", "cost"),
    };
    let rows = model.view.sentinels.iter().map(|(id, sentinel)| {
        let failed = if sentinel.state == WatchStatus::Failed {
            "failed: "
        } else {
            ""
        };
        let says = sentinel.says.as_deref().unwrap_or("watches");
        let says: String = says.chars().take(width).collect();
        let cost = money(sentinel.cost, sentinel.at_least);
        format!("{id:<16} {:>7} {cost:>9}  {failed}{says}", sentinel.answers)
    });
    listed(view, head, rows)
}

/// Returns a head, and below it as many rows as fit with the chosen one among them.
fn listed(view: &View, head: String, rows: impl Iterator<Item = String>) -> Vec<Line<'static>> {
    let room = view.height.saturating_sub(1).max(1);
    let first = view.chosen.saturating_sub(room - 1);
    let drawn = rows.enumerate().skip(first).take(room).map(|(number, row)| {
        let style = if number == view.chosen {
            CHOSEN
        } else {
            Style::new()
        };
        Line::styled(row, style)
    });
    std::iter::once(Line::styled(head, DIM)).chain(drawn).collect()
}

fn foot_lines(view: &View, model: &RunModel, viewer: &Viewer, now: Timestamp) -> Vec<Line<'static>> {
    let shown = &model.view;
    let parts = progress(shown, now);
    let keys = match viewer.may_command && !shown.state.has_ended() {
        true => "/ search  c next  s skip  r redo  x stop  b back  e end",
        false => "/ search  q leave",
    };
    let line = match &view.front {
        Overlay::Search(needle) => Line::from(format!("/{needle}█")),
        _ if !view.message.is_empty() => Line::from(view.message.clone()),
        _ => Line::styled(keys, DIM),
    };
    vec![Line::styled(parts.join(" · "), BOLD), line]
}

/// Draws the overlay in front of the part.
fn draw_front(frame: &mut Frame<'_>, view: &View, area: Rect) {
    let (title, lines): (&str, Vec<Line<'static>>) = match &view.front {
        Overlay::Nothing | Overlay::Search(_) => return,
        Overlay::Help => ("keys", HELP.map(Line::from).to_vec()),
        Overlay::Question(question, _) => (
            "y means it, any other key does nothing",
            vec![Line::from(question.clone())],
        ),
        Overlay::Checkpoints(checkpoints, at) => {
            let room = usize::from(area.height.saturating_sub(2)).max(1);
            let first = at.saturating_sub(room - 1);
            let lines = checkpoints.iter().enumerate().skip(first).take(room);
            let lines = lines.map(|(number, checkpoint)| {
                let (name, kind) = (&checkpoint.codon_name, checkpoint.checkpoint_type);
                let line = format!(
                    "{}  {name} ({kind})  {}",
                    checkpoint.sha.short(),
                    local_time(checkpoint.timestamp)
                );
                Line::styled(line, if number == *at { CHOSEN } else { Style::new() })
            });
            (
                "roll back to: Enter chooses, any other key leaves",
                lines.collect(),
            )
        }
        Overlay::Differences(name, lines, at) => {
            let room = usize::from(area.height.saturating_sub(2)).max(1);
            let lines = lines.iter().skip(*at).take(room).map(|line| difference(line));
            (name.as_str(), lines.collect())
        }
    };
    let is_whole = matches!(view.front, Overlay::Differences(..) | Overlay::Checkpoints(..));
    let height = u16::try_from(lines.len()).unwrap_or(u16::MAX).saturating_add(2);
    let front_area = match is_whole {
        true => area,
        // A question may need several lines.
        false => centred(area, height.max(6)),
    };
    let block = Block::bordered().title(format!(" {title} "));
    frame.render_widget(Clear, front_area);
    let text = Paragraph::new(lines).block(block);
    match is_whole {
        true => frame.render_widget(text, front_area),
        false => frame.render_widget(text.wrap(Wrap { trim: false }), front_area),
    }
}

fn difference(line: &str) -> Line<'static> {
    let style = match line.as_bytes().first() {
        Some(b'+') => Style::new().fg(style::Color::Green),
        Some(b'-') => Style::new().fg(style::Color::Red),
        Some(b'@') => Style::new().fg(style::Color::Cyan),
        _ => Style::new(),
    };
    Line::styled(line.to_owned(), style)
}

fn centred(area: Rect, height: u16) -> Rect {
    let (width, height) = (area.width.min(76), area.height.min(height));
    Rect {
        x: area.x + (area.width - width) / 2,
        y: area.y + (area.height - height) / 2,
        width,
        height,
    }
}

/// Converts a style of anstyle to one of ratatui.
fn to_ratatui(ours: anstyle::Style) -> Style {
    let mut of = Style::new();
    if let Some(Color::Ansi(colour)) = ours.get_fg_color() {
        of = of.fg(match colour {
            AnsiColor::Red => style::Color::Red,
            AnsiColor::Green => style::Color::Green,
            AnsiColor::Yellow => style::Color::Yellow,
            AnsiColor::Magenta => style::Color::Magenta,
            AnsiColor::Cyan => style::Color::Cyan,
            _ => style::Color::Reset,
        });
    }
    let effects = ours.get_effects();
    if effects.contains(Effects::DIMMED) {
        of = of.add_modifier(Modifier::DIM);
    }
    if effects.contains(Effects::BOLD) {
        of = of.add_modifier(Modifier::BOLD);
    }
    of
}
