//! Events as the journal will have them, before anybody knows their numbers.

use hankweave_core::json::{push_member, push_text_member};
use hankweave_core::wire::Event;

/// Events that happened one after the other, each written down as the journal's line will say it: whoever sends them does that, and what
/// they hold need not go from thread to thread.
#[derive(Debug, Clone, Default)]
pub struct EventTexts {
    json: Vec<u8>,
    events: Vec<Place>,
}

#[derive(Debug, Clone, Copy)]
struct Place {
    kind: &'static str,
    /// Where its text ends in `json`.
    end: usize,
}

impl EventTexts {
    /// Writes down one more event.
    ///
    /// # Errors
    ///
    /// What its serialisation says, as for a path that is not UTF-8; the event is left out then.
    pub fn push(&mut self, event: &Event) -> serde_json::Result<()> {
        let begin = self.json.len();
        if let Err(error) = write(&mut self.json, event) {
            self.json.truncate(begin);
            return Err(error);
        }
        let (kind, end) = (event.name(), self.json.len());
        self.events.push(Place { kind, end });
        Ok(())
    }

    /// How many events there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.events.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// How long all texts are together, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.json.len()
    }

    /// The type and the text of each event, `{"type":…,"data":…}`, oldest first.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&'static str, &[u8])> {
        let mut begin = 0;
        self.events.iter().map(move |place| {
            let text = &self.json[begin..place.end];
            begin = place.end;
            (place.kind, text)
        })
    }
}

/// What the serialisation of the event gives. Nearly all events are these two kinds, so they are put together from their parts, which takes
/// half the time.
fn write(json: &mut Vec<u8>, event: &Event) -> serde_json::Result<()> {
    match event {
        Event::AssistantAction {
            codon_id,
            action,
            content,
            tool_name,
            tool_input,
            tool_use_id,
        } => {
            push_text_member(
                json,
                "{\"type\":\"assistant.action\",\"data\":{\"codonId\":",
                codon_id.as_str(),
            );
            push_text_member(json, ",\"action\":", action.name());
            push_text_member(json, ",\"content\":", content);
            if let Some(tool_name) = tool_name {
                push_text_member(json, ",\"toolName\":", tool_name);
            }
            if let Some(tool_input) = tool_input {
                push_member(json, ",\"toolInput\":", tool_input)?;
            }
            if let Some(tool_use_id) = tool_use_id {
                push_text_member(json, ",\"toolUseId\":", tool_use_id);
            }
        }
        Event::ToolResult {
            codon_id,
            tool_use_id,
            tool_name,
            result,
            truncated,
            original_length,
            execution_time_ms,
            is_error,
        } => {
            push_text_member(
                json,
                "{\"type\":\"tool.result\",\"data\":{\"codonId\":",
                codon_id.as_str(),
            );
            push_text_member(json, ",\"toolUseId\":", tool_use_id);
            push_text_member(json, ",\"toolName\":", tool_name);
            push_text_member(json, ",\"result\":", result);
            push_member(json, ",\"truncated\":", truncated)?;
            push_member(json, ",\"originalLength\":", original_length)?;
            push_member(json, ",\"executionTimeMs\":", execution_time_ms)?;
            push_member(json, ",\"isError\":", is_error)?;
        }
        other => return serde_json::to_writer(json, other),
    }
    json.extend_from_slice(b"}}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use hankweave_core::id::CodonId;
    use hankweave_core::wire::AgentAction;
    use serde_json::json;

    use super::*;

    #[test]
    fn what_an_agent_did_is_written_as_its_serialisation_writes_it() {
        let codon_id = CodonId::new("write#1").unwrap();
        let mut events = Vec::new();
        for action in [AgentAction::Thinking, AgentAction::Message, AgentAction::ToolUse] {
            for more in [None, Some("a \"tool\"\n")] {
                events.push(Event::AssistantAction {
                    codon_id: codon_id.clone(),
                    action,
                    content: "ü\u{1}\\".to_owned(),
                    tool_name: more.map(str::to_owned),
                    tool_input: more.map(|more| json!({"a": [1, null, more]})),
                    tool_use_id: more.map(str::to_owned),
                });
            }
        }
        for flag in [false, true] {
            events.push(Event::ToolResult {
                codon_id: codon_id.clone(),
                tool_use_id: "t-1".to_owned(),
                tool_name: String::new(),
                result: "line\nline\t".to_owned(),
                truncated: flag,
                original_length: 10,
                execution_time_ms: u64::MAX,
                is_error: !flag,
            });
        }
        let mut texts = EventTexts::default();
        for event in &events {
            texts.push(event).unwrap();
        }
        for (event, (kind, text)) in events.iter().zip(texts.iter()) {
            let expected = serde_json::to_string(event).unwrap();
            assert_eq!(
                (kind, std::str::from_utf8(text).unwrap()),
                (event.name(), &*expected)
            );
        }
    }

    #[test]
    fn each_event_has_its_type_and_its_serialisation() {
        let info = |message: &str| Event::Info {
            message: message.to_owned(),
        };
        let events = [info("one"), info("\"two\"\n")];
        let mut texts = EventTexts::default();
        assert!(texts.is_empty());
        for event in &events {
            texts.push(event).unwrap();
        }
        let expected = events.each_ref().map(|event| serde_json::to_vec(event).unwrap());
        let found: Vec<_> = texts.iter().map(|(kind, text)| (kind, text.to_vec())).collect();
        assert_eq!(found, expected.map(|text| ("info", text)));
        assert_eq!(texts.len(), 2);
    }
}
