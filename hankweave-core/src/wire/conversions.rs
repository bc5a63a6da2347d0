//! Conversions into the messages of the protocol: from state events, agent events, hanks and answers.

use std::borrow::Cow;

use super::{
    AgentAction, BudgetRow, BudgetTotals, CheckpointList, CodonDescription, CurrentFigures, DescribedLoop,
    DirectPayload, Event, FileDifferences, HankTitle, LineDifferences, RunSnapshot, cut_prompt,
};
use crate::agent::AgentEvent;
use crate::budget::{Ceiling, Summary};
use crate::event::StateEvent;
use crate::hank::{Hank, HankItem};
use crate::id::CodonId;

impl Event {
    /// The [`name`](Self::name) of a change of the state document.
    pub const STATE_TRANSITION: &'static str = "state.transition";

    /// The [`name`](Self::name) of the news that nothing runs.
    pub const SERVER_IDLE: &'static str = "server.idle";

    /// Returns the event that reports an accepted state event to clients; `figures` are those after it.
    #[must_use]
    pub fn state_transition(event: Box<StateEvent>, figures: CurrentFigures) -> Self {
        Self::StateTransition {
            transition_type: Cow::Borrowed(event.name()),
            run_id: event.run_id().cloned(),
            codon_id: event.codon_id().cloned(),
            transition: event,
            resulting_state: figures,
        }
    }

    /// Returns the event of an agent's output in its codon; `None` for output that clients get in another form: sessions, usage and ends.
    ///
    /// A tool result has the time 0 and perhaps no name: only the caller knows when the tool was called, and by which name.
    #[must_use]
    pub fn of_agent(codon_id: CodonId, event: AgentEvent) -> Option<Self> {
        let action = |codon_id, action, content, parent_tool_use_id| Self::AssistantAction {
            codon_id,
            action,
            content,
            tool_name: None,
            tool_input: None,
            tool_use_id: None,
            parent_tool_use_id,
        };
        Some(match event {
            AgentEvent::Message {
                text,
                parent_tool_use_id: parent,
            } => action(codon_id, AgentAction::Message, text, parent),
            AgentEvent::Thinking {
                text,
                parent_tool_use_id: parent,
            } => action(codon_id, AgentAction::Thinking, text, parent),
            AgentEvent::ToolUse {
                id,
                name,
                input,
                parent_tool_use_id,
            } => Self::AssistantAction {
                codon_id,
                action: AgentAction::ToolUse,
                content: name.clone(),
                tool_name: Some(name),
                tool_input: Some(input),
                tool_use_id: Some(id),
                parent_tool_use_id,
            },
            AgentEvent::ToolResult(result) => Self::ToolResult {
                codon_id,
                tool_use_id: result.tool_use_id,
                tool_name: result.tool_name.unwrap_or_default(),
                result: result.text,
                truncated: result.truncated,
                original_length: result.original_length,
                execution_time_ms: 0,
                is_error: result.is_error,
                parent_tool_use_id: result.parent_tool_use_id,
            },
            AgentEvent::Compacted => Self::Info {
                message: "the agent shortened its conversation".to_owned(),
            },
            AgentEvent::Retrying {
                attempt,
                max_retries,
                error,
                ..
            } => {
                let most = max_retries.map_or(String::new(), |most| format!(" of {most}"));
                let why = error.unwrap_or_else(|| "a failed request".to_owned());
                let message = format!("the agent retries after {why} (retry {attempt}{most})");
                Self::Info { message }
            }
            AgentEvent::OutputTruncated { bytes, sha256 } => Self::OutputTruncated {
                codon_id,
                length: bytes,
                sha256,
            },
            AgentEvent::Unparsed { start } => Self::OutputUnparsed { codon_id, start },
            AgentEvent::SessionStarted { .. }
            | AgentEvent::Usage(_)
            | AgentEvent::Result(_)
            | AgentEvent::Background(_)
            | AgentEvent::Finished(_) => return None,
        })
    }

    /// Returns the description of a run of `hank` with this total budget. [`of_rehearsal`](Self::of_rehearsal) sets whether it is a rehearsal.
    #[must_use]
    pub fn run_described(hank: &Hank, ceiling: Ceiling) -> Self {
        let loops = hank.items.iter().filter_map(HankItem::as_loop);
        let time = ceiling.max_time.map(|time| time.as_millis());
        Self::RunDescribed {
            hank: hank.meta.as_ref().map(|meta| HankTitle {
                name: meta.name.clone(),
                version: meta.version.clone(),
            }),
            goal: hank.meta.as_ref().and_then(|meta| meta.description.clone()),
            max_dollars: ceiling.max_dollars,
            max_time_ms: time.and_then(|millis| u64::try_from(millis).ok()),
            loops: loops.map(DescribedLoop::from).collect(),
            rehearsal: false,
        }
    }

    /// Sets the purpose in the description of a run, unless it has one.
    #[must_use]
    pub fn or_goal(mut self, otherwise: impl FnOnce() -> Option<String>) -> Self {
        if let Self::RunDescribed {
            goal: goal @ None, ..
        } = &mut self
        {
            *goal = otherwise();
        }
        self
    }

    /// Returns the event for a prompt that an agent gets, which is cut where it is long.
    #[must_use]
    pub fn codon_prompted(codon_id: CodonId, prompt: &str) -> Self {
        let (prompt, original_length) = cut_prompt(prompt);
        Self::CodonPrompted {
            codon_id,
            prompt,
            original_length,
        }
    }

    /// Sets in the description of a run whether the run is a rehearsal.
    #[must_use]
    pub fn of_rehearsal(mut self, is_rehearsal: bool) -> Self {
        if let Self::RunDescribed { rehearsal, .. } = &mut self {
            *rehearsal = is_rehearsal;
        }
        self
    }
}

impl From<Summary> for Event {
    fn from(summary: Summary) -> Self {
        Self::BudgetSummary {
            ceiling: summary.ceiling.into(),
            allocation: summary.allocation,
            rows: summary.rows.into_iter().map(BudgetRow::from).collect(),
            totals: BudgetTotals {
                budget_dollars: summary.ceiling.max_dollars,
                actual_dollars: summary.spent,
                actual_is_lower_bound: summary.is_lower_bound.then_some(true),
                actual_time_seconds: summary.elapsed.as_secs_f64(),
                actual_time_is_lower_bound: summary.elapsed_is_lower_bound.then_some(true),
            },
        }
    }
}

impl From<CheckpointList> for Event {
    fn from(list: CheckpointList) -> Self {
        Self::CheckpointList {
            run_id: list.run_id,
            current_branch: list.current_branch,
            checkpoints: list.checkpoints,
        }
    }
}

impl From<CheckpointList> for DirectPayload {
    fn from(list: CheckpointList) -> Self {
        Self::CheckpointList {
            run_id: list.run_id,
            current_branch: list.current_branch,
            checkpoints: list.checkpoints,
        }
    }
}

impl From<CodonDescription> for DirectPayload {
    fn from(description: CodonDescription) -> Self {
        Self::PlanCodon(Box::new(description))
    }
}

impl From<FileDifferences> for DirectPayload {
    fn from(differences: FileDifferences) -> Self {
        Self::DiffFiles(Box::new(differences))
    }
}

impl From<LineDifferences> for DirectPayload {
    fn from(differences: LineDifferences) -> Self {
        Self::DiffLines(Box::new(differences))
    }
}

impl From<RunSnapshot> for DirectPayload {
    fn from(snapshot: RunSnapshot) -> Self {
        Self::StateSnapshot(Box::new(snapshot))
    }
}
