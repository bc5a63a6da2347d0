//! Summary of another agent's recorded work, for the prompt of the agent that takes the work over (HANK-81).

use std::collections::{BTreeMap, BTreeSet};

use hankweave_core::hank::agent_words;
use hankweave_core::id::CodonId;
use hankweave_core::time::Timestamp;
use hankweave_core::view::excerpt;
use hankweave_core::wire::{AgentAction, Event, JournalEntry};

use super::context::RunContext;

/// How far back the journal is read, in events.
const MOST_EVENTS: u64 = 50_000;

/// Longest part of an agent's last message, in bytes.
const MOST_OF_MESSAGE: usize = 4_000;

/// Longest part of an earlier task, in bytes.
const MOST_OF_TASK: usize = 4_000;

/// Maximum number of files that are named, and of tools.
const MOST_NAMES: usize = 50;

/// Work of another agent that a codon continues.
#[derive(Debug)]
pub(crate) struct EarlierWork {
    /// The codon of the work.
    pub(crate) codon: CodonId,
    /// Start of the work.
    pub(crate) since: Timestamp,
    /// Start of an earlier attempt of the agent that now takes over, if there was one: events from then on are not the other agent's.
    pub(crate) until: Option<Timestamp>,
    /// Name and model of the other agent.
    pub(crate) agent: (String, Option<String>),
    /// Task of the other agent; `None` if it is the task of the codon that continues.
    pub(crate) task: Option<String>,
    /// Message of the failure that ended the work.
    pub(crate) failure: Option<String>,
}

/// Work of the other agent, as found in the journal.
#[derive(Debug, Default)]
struct RecordedWork {
    last_message: Option<String>,
    /// Number of calls of each tool.
    tools: BTreeMap<String, usize>,
    files: BTreeSet<String>,
}

/// Returns the summary for the prompt; `None` when the agent did nothing on a task that the prompt has anyway. Reads the journal.
pub(crate) async fn summary(context: &RunContext, work: EarlierWork) -> Option<String> {
    let journal = context.manager.journal();
    let read = move || {
        let mut recorded = RecordedWork::default();
        let after = journal.last_seq().saturating_sub(MOST_EVENTS);
        let read = journal.lines_after(after, &mut |_, line| {
            if let Ok(entry) = serde_json::from_slice::<JournalEntry>(line) {
                recorded.take(&entry, &work);
            }
            true
        });
        if let Err(error) = read {
            tracing::warn!(error = %crate::error::chain(&error), "the journal could not be read for a summary");
        }
        recorded.into_summary(&work)
    };
    context.world.blocking.run(read).await
}

impl RecordedWork {
    /// Adds an entry of the journal, if it is part of the work.
    fn take(&mut self, entry: &JournalEntry, work: &EarlierWork) {
        let is_later = work.until.is_some_and(|until| entry.timestamp >= until);
        if entry.timestamp < work.since || is_later {
            return;
        }
        match &entry.event {
            Event::AssistantAction {
                codon_id,
                action,
                content,
                tool_name,
                parent_tool_use_id,
                ..
            } if *codon_id == work.codon => match action {
                AgentAction::Message if parent_tool_use_id.is_none() && !work.is_failure(content) => {
                    self.last_message = Some(content.clone());
                }
                AgentAction::ToolUse => {
                    let tool = tool_name.clone().unwrap_or_else(|| content.clone());
                    *self.tools.entry(tool).or_default() += 1;
                }
                _ => {}
            },
            Event::FileUpdated { path, .. } => drop(self.files.insert(path.clone())),
            _ => {}
        }
    }

    fn into_summary(self, work: &EarlierWork) -> Option<String> {
        let did_nothing = self.last_message.is_none() && self.tools.is_empty() && self.files.is_empty();
        if did_nothing && work.task.is_none() {
            return None;
        }
        let (agent, model) = &work.agent;
        let agent = agent_words(agent, None, model.as_deref());
        let mut text = match &work.task {
            None => format!(
                "Another agent ({agent}) began this task and was cut off before it had finished. You take it over, with the files as it left them. Look at them first, \
                 keep what is done, and finish the task as it is given above."
            ),
            Some(task) => format!(
                "The task above continues the conversation of another agent ({agent}), which you have not seen. The files are as it left them. It was asked:\n\n{}",
                quoted(task, MOST_OF_TASK)
            ),
        };
        if let Some(message) = &self.last_message {
            let message = quoted(message, MOST_OF_MESSAGE);
            text = format!("{text}\n\nIts last words were:\n\n{message}");
        }
        if !self.tools.is_empty() {
            let tools = self.tools.iter().map(|(tool, times)| match times {
                1 => tool.clone(),
                times => format!("{tool} ({times} times)"),
            });
            text = format!("{text}\n\nIt used these tools: {}.", listed(tools.collect()));
        }
        if !self.files.is_empty() {
            let files = self.files.into_iter().collect();
            text = format!("{text}\n\nThese files changed meanwhile: {}.", listed(files));
        }
        Some(text)
    }
}

impl EarlierWork {
    /// Whether a message of the agent only repeats the failure of its provider.
    fn is_failure(&self, message: &str) -> bool {
        let failure = self.failure.as_deref().unwrap_or_default();
        !message.trim().is_empty() && failure.contains(message.trim())
    }
}

/// Text as a quotation of Markdown, cut to `most` bytes.
fn quoted(text: &str, most: usize) -> String {
    let text = text.trim();
    let end = (0..=most.min(text.len()))
        .rev()
        .find(|end| text.is_char_boundary(*end));
    let (text, rest) = text.split_at(end.unwrap_or(0));
    let text = match rest.is_empty() {
        true => text.to_owned(),
        false => format!("{text}…"),
    };
    let lines = text.lines().map(|line| format!("> {line}"));
    lines.collect::<Vec<_>>().join("\n")
}

/// The first names in a line, with the number of the others.
fn listed(names: Vec<String>) -> String {
    let more = names.len().saturating_sub(MOST_NAMES);
    let shown = names.into_iter().take(MOST_NAMES).map(|name| excerpt(&name, 200));
    let shown = shown.collect::<Vec<_>>().join(", ");
    match more {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}
