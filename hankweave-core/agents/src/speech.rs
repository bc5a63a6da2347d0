//! Text that comes in chunks, and is reported when something else comes.

use hankweave_core::agent::AgentEvent;

/// Size at which a longer text is reported in several parts, so that little is held in memory.
const MOST_BYTES: usize = 64 << 10;

/// Text in progress.
#[derive(Debug, Default)]
pub(super) struct Speech {
    is_thought: bool,
    /// The message that contains it, where the agent names one.
    message: Option<String>,
    text: String,
    /// The last message that was reported, cut to the length that helps to find out what went wrong.
    last: String,
}

impl Speech {
    /// Adds a piece of a message, which the agent may name.
    pub(super) fn piece(
        &mut self,
        text: &str,
        is_thought: bool,
        message: Option<&str>,
        events: &mut Vec<AgentEvent>,
    ) {
        let goes_on = is_thought == self.is_thought && message == self.message.as_deref();
        if !goes_on || self.text.len() + text.len() > MOST_BYTES {
            self.pause(events);
        }
        self.is_thought = is_thought;
        if !goes_on {
            self.message = message.map(str::to_owned);
        }
        self.text.push_str(text);
    }

    /// Something else comes.
    pub(super) fn pause(&mut self, events: &mut Vec<AgentEvent>) {
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

    /// The last message.
    pub(super) fn last(&self) -> &str {
        &self.last
    }
}
