//! The codon that runs: what it has used, and what was said and done in it last, by its sub-agents as well.

use std::collections::VecDeque;
use std::fmt::{self, Write};

use anstyle::Style;
use console::{Alignment, measure_text_width, pad_str};
use hankweave_core::agent::{FailureReason, InterruptedBy};
use hankweave_core::codon::{BudgetExceeded, CheckpointType, CodonStatus, SentinelState};
use hankweave_core::cost::{TokenUsage, Usd};
use hankweave_core::event::StateEvent;
use hankweave_core::id::{CheckpointSha, CodonId, SentinelId};
use hankweave_core::time::Timestamp;
use hankweave_core::wire::{AgentAction, Event, FileAction};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::helpers::SubAgents;
use crate::report::colours::style_of;
use crate::report::say::say;
use crate::report::words::{answer, at_its_budget, duration, excerpt, standing, tokens};
use crate::screen::{SafeText, columns};

/// How many lines of what runs are kept, to be said when it fails.
const KEPT: usize = 20;

/// A longer line of a rig is cut, in characters.
const LONGEST: usize = 400;

/// The codon that has begun last and has not ended.
#[derive(Debug)]
pub(super) struct Current {
    pub(super) id: CodonId,
    pub(super) title: String,
    pub(super) began: Timestamp,
    pub(super) status: CodonStatus,
    pub(super) cost: Usd,
    /// Additional cost of its sentinels.
    pub(super) of_sentinels: Usd,
    /// These have cost more than is known.
    sentinels_cost_more: bool,
    /// Its agent has cost more than is known.
    pub(super) is_lower_bound: bool,
    pub(super) usage: TokenUsage,
    /// How many tokens the conversation has, of how many that fit in.
    pub(super) context: Option<(u64, u64)>,
    checkpoint: Option<CheckpointSha>,
    /// Last lines of the agent itself, its rig and its run, newest last.
    pub(super) lines: VecDeque<String>,
    /// Last lines of sub-agents, newest last.
    last: VecDeque<String>,
    pub(super) helpers: SubAgents,
    /// Last words of each sentinel, the most recent one at the end.
    pub(super) sentinels: Vec<(SentinelId, String)>,
}

/// Metadata of the end of a codon.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct EndMetadata {
    pub(super) failure_reason: Option<FailureReason>,
    budget_exceeded: Option<BudgetExceeded>,
}

impl EndMetadata {
    pub(super) fn of(metadata: Option<&Map<String, Value>>) -> Self {
        let end = metadata.map(Self::deserialize);
        end.and_then(Result::ok).unwrap_or_default()
    }

    fn interrupted_by(&self) -> Option<InterruptedBy> {
        self.failure_reason.as_ref()?.interruption()
    }
}

impl Current {
    pub(super) fn new(id: CodonId, title: String, began: Timestamp) -> Self {
        Self {
            id,
            title,
            began,
            status: CodonStatus::Preparing,
            cost: Usd::ZERO,
            of_sentinels: Usd::ZERO,
            sentinels_cost_more: false,
            is_lower_bound: false,
            usage: TokenUsage::ZERO,
            context: None,
            checkpoint: None,
            lines: VecDeque::new(),
            last: VecDeque::new(),
            helpers: SubAgents::default(),
            sentinels: Vec::new(),
        }
    }

    pub(super) fn transition(&mut self, event: &StateEvent) {
        match event {
            StateEvent::CodonTransitioned { to, .. } => self.status = *to,
            StateEvent::CostsIncremented { tokens_delta, .. } => self.usage += *tokens_delta,
            StateEvent::CodonFinalCostSet {
                final_cost,
                final_tokens,
                ..
            } => (self.cost, self.usage) = (*final_cost, *final_tokens),
            StateEvent::SentinelStatesUpdated {
                total_cost,
                sentinel_states,
                ..
            } => {
                self.of_sentinels = *total_cost;
                self.sentinels_cost_more = sentinel_states.iter().any(SentinelState::cost_is_lower_bound);
            }
            StateEvent::CheckpointCreated {
                sha, checkpoint_type, ..
            } if *checkpoint_type != CheckpointType::RigSetup => self.checkpoint = Some(sha.clone()),
            _ => {}
        }
    }

    /// Keeps what was said or done.
    pub(super) fn keep(&mut self, event: &Event) {
        if let Some((sentinel, words)) = words_of_sentinel(event) {
            self.sentinels.retain(|(known, _)| known != sentinel);
            self.sentinels.push((sentinel.clone(), words));
            return;
        }
        let own = format!("{}: ", self.id);
        let line = line_of(event).map(|line| line.strip_prefix(&own).unwrap_or(&line).to_owned());
        let is_of_helper = self.helpers.take(event, line.as_deref());
        let Some(line) = line else { return };
        push(&mut self.last, line.clone());
        if !is_of_helper {
            push(&mut self.lines, line);
        }
    }

    /// Describes the cost of the codon so far, with its sentinels.
    pub(super) fn told_cost(&self) -> String {
        (self.cost + self.of_sentinels).told(self.is_lower_bound || self.sentinels_cost_more)
    }

    /// The line that stays when it has ended; below it why, and when it has failed what was said last.
    pub(super) fn say_end(
        &self,
        status: CodonStatus,
        end: &EndMetadata,
        at: Timestamp,
        said: &mut SafeText,
    ) -> fmt::Result {
        let interrupted = end.interrupted_by();
        let mark = match status {
            CodonStatus::Completed => "✓",
            CodonStatus::Failed if interrupted.is_none() => "✗",
            _ => "■",
        };
        let outcome = match status {
            CodonStatus::Completed => String::new(),
            other => format!("{}, ", standing(other, interrupted)),
        };
        let time = format!("{outcome}{}", duration(at.since(self.began)));
        let (cost, used) = (self.told_cost(), tokens(self.usage.total()));
        let checkpoint = self.checkpoint.as_ref().map_or("", |sha| sha.short());
        said.styled(style_of(status, interrupted), mark)?;
        let figures = [
            format!("{time:>11}"),
            format!("{cost:>9}"),
            format!("{used:>8} tokens"),
            format!(" {checkpoint}"),
        ];
        writeln!(said, " {}", fitting(&self.title, &figures, columns()))?;
        if let Some(exceeded) = end.budget_exceeded {
            writeln!(said, "    {}", at_its_budget(status, exceeded))?;
        }
        let message = end
            .failure_reason
            .as_ref()
            .and_then(|reason| reason.message.as_deref());
        if let Some(message) = message {
            writeln!(said, "    {message}")?;
        }
        if status == CodonStatus::Failed && interrupted.is_none() {
            for line in &self.last {
                said.styled(Style::new().dimmed(), format_args!("    │ {line}"))?;
                writeln!(said)?;
            }
        }
        Ok(())
    }
}

/// As much of a title is shown before the figures that can be looked up elsewhere are left out.
const TITLE: usize = 12;

/// A title and what is told of it, on one line of a terminal with so many columns, behind a mark (CLI-43).
fn fitting(title: &str, figures: &[String], columns: usize) -> String {
    let width = |figures: &[String]| {
        figures
            .iter()
            .map(|figure| measure_text_width(figure) + 1)
            .sum::<usize>()
    };
    let room = |shown: usize| columns.saturating_sub(2 + width(&figures[..shown]));
    let wanted = measure_text_width(title).min(TITLE);
    let shown = (0..=figures.len())
        .rev()
        .find(|shown| room(*shown) >= wanted)
        .unwrap_or(0);
    let widest = measure_text_width(title).max(24).min(room(shown));
    let title = pad_str(title, widest, Alignment::Left, Some("…"));
    let line = std::iter::once(title.as_ref()).chain(figures[..shown].iter().map(String::as_str));
    line.collect::<Vec<_>>().join(" ").trim_end().to_owned()
}

fn push(lines: &mut VecDeque<String>, line: String) {
    lines.push_back(line);
    if lines.len() > KEPT {
        lines.pop_front();
    }
}

/// Returns the words of a sentinel, which is listed from the moment it watches.
fn words_of_sentinel(event: &Event) -> Option<(&SentinelId, String)> {
    Some(match event {
        Event::SentinelLoaded { sentinel_id, .. } => (sentinel_id, "watches".to_owned()),
        Event::SentinelOutput {
            sentinel_id, content, ..
        } => (sentinel_id, excerpt(&answer(content))),
        Event::SentinelError {
            sentinel_id, message, ..
        } => (sentinel_id, format!("failed: {}", excerpt(message))),
        _ => return None,
    })
}

/// Returns the line of an event for the screen while a codon runs.
fn line_of(event: &Event) -> Option<String> {
    match event {
        Event::AssistantAction {
            action: AgentAction::Thinking,
            content,
            ..
        } => Some(format!("thinks: {}", excerpt(content))),
        Event::FileUpdated { path, action, .. } => Some(match action {
            FileAction::Created => format!("+ {path}"),
            FileAction::Modified => format!("~ {path}"),
            FileAction::Deleted => format!("- {path}"),
        }),
        Event::RigOutput { line, .. } => {
            Some(format!("| {}", line.chars().take(LONGEST).collect::<String>()))
        }
        Event::RollbackProgress {
            current_step,
            total_steps,
            message,
        } => Some(format!("{current_step} of {total_steps}: {message}")),
        Event::CodonCompleted { .. } => None,
        other => say(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // covers: CLI-43
    #[test]
    fn what_stays_is_one_line_of_any_terminal() {
        let figures = [
            "failed, 4.6 s",
            "at least $1.2345",
            "  310.4k tokens",
            " 5e7c33ec384c",
        ]
        .map(str::to_owned);
        let title = "Write all of it, 漢字漢字漢字 and more, 1 of at most 10";
        for columns in 30..140 {
            let line = fitting(title, &figures, columns);
            assert!(measure_text_width(&line) + 2 <= columns, "{columns}: {line:?}");
            assert!(line.starts_with("Write all"), "{line:?}");
            assert_eq!(line.contains("failed"), columns >= 30, "{columns}: {line:?}");
        }
        assert!(fitting(title, &figures, 200).contains(title));
        assert_eq!(
            fitting("Plan", &figures, 79),
            "Plan             failed, 4.6 s at least $1.2345   310.4k tokens  5e7c33ec384c"
        );
    }
}
