//! Draws what a [`View`] shows of a [`RunModel`]; decides nothing.

use anstyle::{AnsiColor, Color, Effects};
use hankweave_core::codon::CodonStatus;
use hankweave_core::time::Timestamp;
use hankweave_core::wire::FileAction;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{self, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Clear, Paragraph, Wrap};

use super::model::{CodonRow, RunModel};
use super::ring::holds;
use super::view::{HELP, Overlay, PARTS, Pane, View};
use crate::report::{duration, tokens};

/// Least number of columns for the plan next to the part.
const WIDE: u16 = 72;

const DIM: Style = Style::new().add_modifier(Modifier::DIM);
const BOLD: Style = Style::new().add_modifier(Modifier::BOLD);
const CHOSEN: Style = Style::new().add_modifier(Modifier::REVERSED);

/// Draws everything at `now`.
pub(super) fn draw(frame: &mut Frame<'_>, view: &mut View, model: &RunModel, now: Timestamp) {
    let rows = Layout::vertical([Constraint::Length(1), Constraint::Min(1), Constraint::Length(2)]);
    let [head, middle, foot] = rows.areas(frame.area());
    frame.render_widget(tabs(view), head);
    let part = match middle.width >= WIDE {
        true => {
            let columns =
                Layout::horizontal([Constraint::Length(30), Constraint::Length(1), Constraint::Min(1)]);
            let [plan, _, part] = columns.areas(middle);
            frame.render_widget(Paragraph::new(plan_lines(model, plan, now)), plan);
            part
        }
        false => middle,
    };
    view.height = usize::from(part.height);
    frame.render_widget(Paragraph::new(part_lines(view, model, part)), part);
    frame.render_widget(Paragraph::new(foot_lines(view, model, now)), foot);
    draw_front(frame, view, middle);
}

fn tabs(view: &View) -> Line<'static> {
    let mut spans = Vec::new();
    for (number, (part, name)) in (1..).zip(PARTS) {
        let style = if part == view.part { CHOSEN } else { DIM };
        spans.push(Span::styled(format!(" {number} {name} "), style));
    }
    spans.push(Span::styled("  ? help  q leave", DIM));
    Line::from(spans)
}

/// As many rows as fit, with the one that runs among them.
fn plan_lines(model: &RunModel, area: Rect, now: Timestamp) -> Vec<Line<'static>> {
    let height = usize::from(area.height);
    let at = model.current.unwrap_or_default();
    let first = at
        .saturating_sub(height / 3)
        .min(model.rows.len().saturating_sub(height));
    let shown = model.rows.iter().skip(first).take(height);
    shown.map(|row| plan_line(row, now)).collect()
}

fn plan_line(row: &CodonRow, now: Timestamp) -> Line<'static> {
    let (mark, style) = mark(row.status);
    let time = match (row.status, row.took, row.began) {
        (None, ..) => String::new(),
        (_, Some(took), _) => duration(took),
        (Some(_), None, Some(began)) => duration(now.since(began)),
        (Some(_), None, None) => String::new(),
    };
    let title: String = row.title.chars().take(18).collect();
    Line::styled(format!("{mark} {title:<18} {time:>9}"), style)
}

fn mark(status: Option<CodonStatus>) -> (&'static str, Style) {
    match status {
        None => ("·", DIM),
        Some(CodonStatus::Completed) => ("✓", Style::new().fg(style::Color::Green)),
        Some(CodonStatus::Failed) => ("✗", Style::new().fg(style::Color::Red)),
        Some(CodonStatus::Skipped) => ("■", Style::new().fg(style::Color::Yellow)),
        Some(_) => ("▸", Style::new().fg(style::Color::Cyan)),
    }
}

fn part_lines(view: &View, model: &RunModel, area: Rect) -> Vec<Line<'static>> {
    match view.part {
        Pane::Transcript => transcript(view, model),
        Pane::Files => files(view, model),
        Pane::Costs => costs(view, model),
        Pane::Sentinels => sentinels(view, model, usize::from(area.width)),
    }
}

fn transcript(view: &View, model: &RunModel) -> Vec<Line<'static>> {
    let top = view.top.unwrap_or_else(|| view.last_top(model));
    let lines = model.transcript.from(top).take(view.height);
    let drawn = lines.map(|(number, line)| {
        let text: String = line.text.chars().skip(view.left).collect();
        let mut style = of(line.style);
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
    let head = match (model.files.len(), model.more_files) {
        (0, _) => "no file has changed since the codon began".to_owned(),
        (count, 0) => format!("{count} changed since the codon began; Enter shows the differences"),
        (count, more) => {
            format!("{count} changed since the codon began, and {more} more that are not listed")
        }
    };
    let rows = model.files.iter().map(|(path, action)| {
        let mark = match action {
            FileAction::Created => "+",
            FileAction::Modified => "~",
            FileAction::Deleted => "-",
        };
        format!("{mark} {path}")
    });
    listed(view, head, rows)
}

fn costs(view: &View, model: &RunModel) -> Vec<Line<'static>> {
    let head = format!("{:<24} {:>12} {:>8} {:>12}", "codon", "time", "tokens", "cost");
    let all = std::iter::once(format!(
        "{:<24} {:>12} {:>8} {:>12}",
        "all runs",
        "",
        "",
        model.spent.to_string()
    ));
    let rows = model.rows.iter().map(|row| {
        let time = row.took.map_or(String::new(), duration);
        let cost = row.cost.display(row.is_lower_bound);
        let title: String = row.title.chars().take(24).collect();
        format!("{title:<24} {time:>12} {:>8} {cost:>12}", tokens(row.tokens))
    });
    listed(view, head, all.chain(rows))
}

fn sentinels(view: &View, model: &RunModel, width: usize) -> Vec<Line<'static>> {
    let head = match model.sentinels.is_empty() {
        true => "no sentinel watches".to_owned(),
        false => format!("{:<16} {:>7} {:>9}  said last", "sentinel", "answers", "cost"),
    };
    let rows = model.sentinels.iter().map(|(id, watcher)| {
        let said: String = watcher.said.replace('\n', " ").chars().take(width).collect();
        let mark = if watcher.is_lower_bound { "≥ " } else { "" };
        let cost = format!("{mark}{}", watcher.cost);
        format!("{:<16} {:>7} {cost:>9}  {said}", id.as_str(), watcher.answers)
    });
    listed(view, head, rows)
}

/// A head, and below it as many rows as fit with the chosen one among them.
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

fn foot_lines(view: &View, model: &RunModel, now: Timestamp) -> Vec<Line<'static>> {
    let mut parts = vec![format!("{} of {}", model.done(), model.rows.len())];
    parts.extend(model.began.map(|began| duration(now.since(began))));
    parts.push(model.spent.to_string());
    if let Some((tokens, window)) = model.context {
        parts.push(format!("ctx {} %", tokens.saturating_mul(100) / window.max(1)));
    }
    parts.extend(model.running().map(|row| row.title.clone()));
    let line = match &view.front {
        Overlay::Search(needle) => Line::from(format!("/{needle}█")),
        _ if !view.message.is_empty() => Line::from(view.message.clone()),
        _ => Line::styled("/ search  c next  s skip  r redo  x stop  b back  e end", DIM),
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
        Overlay::Places(places, at) => {
            let room = usize::from(area.height.saturating_sub(2)).max(1);
            let first = at.saturating_sub(room - 1);
            let lines = places.iter().enumerate().skip(first).take(room);
            let lines = lines.map(|(number, place)| {
                let (name, kind) = (&place.codon_name, place.checkpoint_type);
                let line = format!("{}  {name} ({kind})  {}", place.sha.short(), place.timestamp);
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
    let is_whole = matches!(view.front, Overlay::Differences(..) | Overlay::Places(..));
    let height = u16::try_from(lines.len()).unwrap_or(u16::MAX).saturating_add(2);
    let place = match is_whole {
        true => area,
        // A question may need several lines.
        false => centred(area, height.max(6)),
    };
    let block = Block::bordered().title(format!(" {title} "));
    frame.render_widget(Clear, place);
    let text = Paragraph::new(lines).block(block);
    match is_whole {
        true => frame.render_widget(text, place),
        false => frame.render_widget(text.wrap(Wrap { trim: false }), place),
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

/// A style of ours as one of ratatui's.
fn of(ours: anstyle::Style) -> Style {
    let mut of = Style::new();
    if let Some(Color::Ansi(colour)) = ours.get_fg_color() {
        of = of.fg(match colour {
            AnsiColor::Red => style::Color::Red,
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
