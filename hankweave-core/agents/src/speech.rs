//! Text that an agent prints in chunks. The chunks are collected and reported as one event when another kind of line follows.

use hankweave_core::agent::AgentEvent;

/// Size at which a longer text is reported in several parts, so that little is held in memory.
const MOST_BYTES: usize = 64 << 10;

/// Text in progress.
#[derive(Debug, Default)]
pub(super) struct Speech {
    /// Whether `text` is a thought, not a message.
    is_thought: bool,
    /// Id of the message that contains `text`, where the agent names one.
    message: Option<String>,
    /// Chunks that are not reported yet.
    text: String,
    /// Text of the last message that was reported; of one that was reported in parts, only the last part.
    last: String,
}

impl Speech {
    /// Adds a chunk; `message` is the id of its message, where the agent names one. A chunk of another message first reports the text so far.
    pub(super) fn add(
        &mut self,
        text: &str,
        is_thought: bool,
        message: Option<&str>,
        events: &mut Vec<AgentEvent>,
    ) {
        let continues = is_thought == self.is_thought && message == self.message.as_deref();
        if !continues || self.text.len() + text.len() > MOST_BYTES {
            self.flush(events);
        }
        self.is_thought = is_thought;
        if !continues {
            self.message = message.map(str::to_owned);
        }
        self.text.push_str(text);
    }

    /// Reports the text in progress as an event.
    pub(super) fn flush(&mut self, events: &mut Vec<AgentEvent>) {
        if self.text.is_empty() {
            return;
        }
        let text = std::mem::take(&mut self.text);
        events.push(match self.is_thought {
            true => AgentEvent::thinking(text),
            false => {
                self.last.clone_from(&text);
                AgentEvent::message(text)
            }
        });
    }

    /// Returns the text of the last message that was reported, or its last part.
    pub(super) fn last(&self) -> &str {
        &self.last
    }
}
