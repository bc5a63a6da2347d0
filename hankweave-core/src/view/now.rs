//! Open attempt: its phase, what its agent does, and its last lines.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::attempt::AttemptKey;
use super::text::{LINE, NAME, TITLE, excerpt};
use super::words::{CHECK_FAILED, line_of, title_of_tool_use};
use crate::codon::CodonStatus;
use crate::time::Timestamp;
use crate::wire::{AgentAction, Event, ProgressKind};

/// Subject of a wait for the end of a usage limit.
pub(super) const USAGE_LIMIT: &str = "usage limit";

/// Maximum number of lines that a view keeps.
const LINES: usize = 20;
/// Maximum number of sub-agents that a view follows.
const AGENTS: usize = 32;
/// Maximum number of open tool uses that a view follows; the oldest is dropped. A sub-agent gets its title from the tool use that starts it, which is among
/// the newest then.
const TOOLS: usize = 32;

/// Open attempt.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct CurrentAttempt {
    /// Entry of the plan.
    pub item: String,
    /// Iteration of its loop, counted from 1; 1 outside of loops.
    pub iteration: u32,
    /// Number of the attempt in the iteration, counted from 1.
    pub attempt: u32,
    /// `rig`, `starting`, `working` or `sentinels`.
    pub phase: String,
    /// Conversation of the agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context: Option<ContextUse>,
    /// Newest lines of the agent, its rig and its run, by the number of the event.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub lines: BTreeMap<u64, String>,
    /// Tool uses without a result, by id.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub tools: BTreeMap<String, OpenTool>,
    /// Sub-agents that work, by the tool use that started each.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub agents: BTreeMap<String, SubAgentView>,
}

/// Tokens of a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct ContextUse {
    /// Tokens so far.
    pub tokens: u64,
    /// Most tokens.
    pub window: u64,
}

/// Lengthy activity of the run: a checkpoint, a restore, a rig item or a wait.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct CurrentActivity {
    /// Kind of activity.
    pub kind: ProgressKind,
    /// Command, or reason of a wait, cut.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// Files, rig items or retries so far.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub done: Option<u64>,
    /// Most of them, if that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<u64>,
    /// When it was reported.
    pub since: Timestamp,
    /// When a wait ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<Timestamp>,
}

/// Tool use without a result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct OpenTool {
    /// Description, command or path, cut.
    pub title: String,
    /// Tool use that started the sub-agent which uses it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// When it was used.
    pub since: Timestamp,
    /// Number of the event.
    pub seq: u64,
}

/// A sub-agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct SubAgentView {
    /// Its task, cut.
    pub title: String,
    /// Tool use that started the sub-agent which started it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// Last words or action, cut.
    pub last: String,
    /// Number of the event that started it.
    pub seq: u64,
}

impl CurrentActivity {
    /// Returns the wait for background work of an agent.
    #[must_use]
    pub fn background(subject: Option<&str>, since: Timestamp, ends: Option<Timestamp>) -> Self {
        Self {
            kind: ProgressKind::Background,
            subject: subject.map(|text| excerpt(text, TITLE)),
            done: None,
            total: None,
            since,
            to: ends,
        }
    }

    /// Returns the wait for the end of a usage limit.
    #[must_use]
    pub fn limit(since: Timestamp, ends: Timestamp) -> Self {
        Self {
            kind: ProgressKind::Wait,
            subject: Some(USAGE_LIMIT.to_owned()),
            done: None,
            total: None,
            since,
            to: Some(ends),
        }
    }
}

impl CurrentAttempt {
    pub(super) fn new(item: &str, key: AttemptKey) -> Self {
        Self {
            item: item.to_owned(),
            iteration: key.iteration,
            attempt: key.attempt,
            phase: phase(CodonStatus::Preparing).to_owned(),
            ..Self::default()
        }
    }

    /// Position of the attempt.
    #[must_use]
    pub const fn key(&self) -> AttemptKey {
        AttemptKey {
            iteration: self.iteration,
            attempt: self.attempt,
        }
    }

    /// Newest tool use without a result, of the agent or a sub-agent.
    #[must_use]
    pub fn doing(&self) -> Option<&OpenTool> {
        self.tools.values().max_by_key(|tool| tool.seq)
    }

    /// Applies an event to the tools, sub-agents and lines. What a sub-agent says or does is shown with it, not as a line of the attempt.
    pub(super) fn take(&mut self, event: &Event, at: Timestamp, seq: u64) {
        let line = line_of(event).map(|line| excerpt(&line, LINE));
        // The tool use that started the sub-agent of this event; `None` for the agent itself.
        let by = match event {
            Event::AssistantAction {
                action,
                tool_name,
                tool_input,
                tool_use_id,
                parent_tool_use_id,
                ..
            } => {
                if let (AgentAction::ToolUse, Some(id)) = (action, tool_use_id) {
                    let title = title_of_tool_use(tool_name.as_deref(), tool_input.as_ref());
                    self.open_tool(id, excerpt(title, TITLE), parent_tool_use_id.as_deref(), at, seq);
                }
                parent_tool_use_id.as_deref()
            }
            Event::ToolResult {
                tool_use_id,
                parent_tool_use_id,
                ..
            } => {
                let id = excerpt(tool_use_id, NAME);
                self.tools.remove(&id);
                self.agents.remove(&id);
                parent_tool_use_id.as_deref()
            }
            _ => None,
        };
        if let Event::CheckCompleted { passed: false, .. } = event {
            self.forget_earlier_check();
        }
        match (by, line) {
            (Some(by), line) => self.note_sub_agent(&excerpt(by, NAME), line, seq),
            (None, Some(line)) => self.push_line(line, seq),
            (None, None) => {}
        }
    }

    /// Removes the lines up to the previous failed check, after which the agent continued: a failure shows only the lines since then.
    fn forget_earlier_check(&mut self) {
        let mut lines = self.lines.iter().rev();
        let before = lines.find(|(_, line)| line.starts_with(CHECK_FAILED));
        if let Some((seq, _)) = before {
            self.lines = self.lines.split_off(&(*seq + 1));
        }
    }

    fn push_line(&mut self, line: String, seq: u64) {
        self.lines.insert(seq, line);
        while self.lines.len() > LINES {
            self.lines.pop_first();
        }
    }

    fn open_tool(&mut self, id: &str, title: String, by: Option<&str>, since: Timestamp, seq: u64) {
        let by = by.map(|by| excerpt(by, NAME));
        let tool = OpenTool {
            title,
            by,
            since,
            seq,
        };
        self.tools.insert(excerpt(id, NAME), tool);
        if self.tools.len() > TOOLS {
            let oldest = self.tools.values().map(|tool| tool.seq).min();
            self.tools.retain(|_, tool| Some(tool.seq) != oldest);
        }
    }

    /// Notes the last line of the sub-agent that the tool use `id` started; adds the sub-agent if it is new.
    fn note_sub_agent(&mut self, id: &str, line: Option<String>, seq: u64) {
        if !self.agents.contains_key(id) && self.agents.len() >= AGENTS {
            return;
        }
        let started = self.tools.get(id);
        let new = || SubAgentView {
            title: started.map_or("sub-agent", |tool| &tool.title).to_owned(),
            by: started.and_then(|tool| tool.by.clone()),
            last: String::new(),
            seq,
        };
        let agent = self.agents.entry(id.to_owned()).or_insert_with(new);
        if let Some(line) = line {
            agent.last = excerpt(&line, TITLE);
        }
    }
}

/// Phase of a codon whose agent works.
pub(super) const WORKING: &str = "working";

/// Phase of an open codon in a word.
pub(super) const fn phase(status: CodonStatus) -> &'static str {
    match status {
        CodonStatus::Preparing => "rig",
        CodonStatus::Starting | CodonStatus::Initializing => "starting",
        CodonStatus::Running => WORKING,
        CodonStatus::CompletingSentinels => "sentinels",
        CodonStatus::Completed | CodonStatus::Failed | CodonStatus::Skipped => "ended",
    }
}
