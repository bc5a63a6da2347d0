//! Full text of agents' words and actions, for readers of a log.

use std::fmt::{self, Write};

use anstyle::{AnsiColor, Style};
use hankweave_core::id::CodonId;
use hankweave_core::view::subject;
use hankweave_core::wire::{AgentAction, Event};

use super::event_text::event_text;
use super::words::answer;
use crate::terminal::screen::SafeText;

/// Part of a log in which every line begins with one mark.
#[derive(Debug)]
pub(crate) struct MarkedText {
    pub(crate) mark: &'static str,
    pub(crate) style: Style,
    pub(crate) words: String,
}

impl MarkedText {
    /// Returns the words of an event about `codon`; thoughts and tool results only with `all`.
    pub(crate) fn of(event: &Event, codon: &CodonId, all: bool) -> Option<Self> {
        let red = Style::new().fg_color(Some(AnsiColor::Red.into()));
        let (mark, style, words) = match event {
            Event::AssistantAction {
                action,
                content,
                tool_name,
                tool_input,
                ..
            } => match action {
                AgentAction::Thinking if all => ("~ ", Style::new().dimmed(), content.clone()),
                AgentAction::Thinking => return None,
                AgentAction::ToolUse => {
                    let tool = tool_name.as_deref().unwrap_or(content);
                    let cyan = Style::new().fg_color(Some(AnsiColor::Cyan.into()));
                    ("› ", cyan, format!("{tool} {}", subject(tool_input.as_ref())))
                }
                // Messages of the agent, and actions that only a newer version knows.
                _ => ("", Style::new(), content.clone()),
            },
            Event::ToolResult {
                result,
                is_error: true,
                ..
            } => ("! ", red, result.clone()),
            Event::ToolResult { result, .. } if all => ("  ", Style::new().dimmed(), result.clone()),
            Event::SentinelOutput {
                sentinel_id, content, ..
            } => {
                let said = answer(content);
                let magenta = Style::new().fg_color(Some(AnsiColor::Magenta.into()));
                ("◇ ", magenta, format!("{sentinel_id}: {said}"))
            }
            Event::SentinelError {
                sentinel_id, message, ..
            } => ("! ", red, format!("{sentinel_id}: {message}")),
            Event::RigOutput { line, .. } => ("| ", Style::new().dimmed(), line.clone()),
            other => {
                let words = event_text(other)?;
                let own = words.strip_prefix(&format!("{codon}: ")).unwrap_or(&words);
                ("— ", Style::new().dimmed(), own.to_owned())
            }
        };
        Some(Self { mark, style, words })
    }

    pub(crate) fn write(&self, text: &mut SafeText) -> fmt::Result {
        for line in self.words.trim_end().lines() {
            write!(text, "  {}", self.mark)?;
            text.styled(self.style, line)?;
            writeln!(text)?;
        }
        Ok(())
    }
}
