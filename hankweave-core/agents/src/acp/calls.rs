//! Tool calls of an agent that speaks ACP. The agent announces a call and adds to it in updates; one event reports the call, a second one its result.

use std::collections::HashMap;

use serde_json::{Value, json};

use super::line::SessionUpdate;
use crate::open_tools::MAX_REMEMBERED_BYTES;
use hankweave_core::agent::{AgentEvent, ToolResult};

/// Maximum of open calls; further ones are not reported. Agents have a handful.
const MAX_OPEN_CALLS: usize = 1_024;

/// Tool calls that have not ended, by their ids.
#[derive(Debug, Default)]
pub(super) struct OpenCalls(HashMap<String, ToolCall>);

/// Known facts of one call, put together from its updates.
#[derive(Debug, Default)]
struct ToolCall {
    title: String,
    kind: String,
    input: Value,
    /// Content of the newest update that had any.
    text: String,
    /// The event of the call was reported.
    is_reported: bool,
}

/// Tool call for which an agent asks permission.
pub(super) struct RequestedCall {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) kind: String,
}

impl OpenCalls {
    /// Applies an update to its call and adds the events that follow. A call is reported when it starts to work, not when it is announced: its input comes
    /// later, often in several updates.
    pub(super) fn update(&mut self, update: SessionUpdate<'_>, events: &mut Vec<AgentEvent>) {
        let Some(id) = update.tool_call_id.as_deref().map(str::to_owned) else {
            return;
        };
        let has_room = self.0.len() < MAX_OPEN_CALLS || self.0.contains_key(&id);
        if id.len() > MAX_REMEMBERED_BYTES || !has_room {
            return;
        }
        let status = update.status.into_owned().unwrap_or_default();
        let call = self.0.entry(id.clone()).or_default();
        call.set_known(
            update.title.into_owned(),
            update.kind.into_owned(),
            update.raw_input,
        );
        if let Some(text) = content_text(&update.content) {
            call.text = text;
        }
        let has_ended = matches!(status.as_str(), "completed" | "failed");
        if has_ended || status == "in_progress" {
            events.extend(call.report(&id));
        }
        if !has_ended {
            return;
        }
        let call = self.0.remove(&id).unwrap_or_default();
        let name = call.name().to_owned();
        let text = match call.text.is_empty() {
            true => output_text(&update.raw_output),
            false => call.text,
        };
        let result = ToolResult::new(id, Some(name), text, status == "failed");
        events.push(AgentEvent::ToolResult(result));
    }

    /// Returns the call of a request for permission. What the request leaves out comes from earlier updates of that call.
    pub(super) fn requested(&self, request: SessionUpdate<'_>) -> RequestedCall {
        let id = request.tool_call_id.into_owned().unwrap_or_default();
        let known = self.0.get(&id);
        let mut call = ToolCall {
            title: known.map(|known| known.title.clone()).unwrap_or_default(),
            kind: known.map(|known| known.kind.clone()).unwrap_or_default(),
            ..ToolCall::default()
        };
        call.set_known(request.title.into_owned(), request.kind.into_owned(), Value::Null);
        RequestedCall {
            id,
            name: call.name().to_owned(),
            kind: call.kind,
        }
    }
}

impl ToolCall {
    /// Stores the values that an update has; an empty title or input counts as missing.
    fn set_known(&mut self, title: Option<String>, kind: Option<String>, input: Value) {
        if let Some(title) = title.filter(|title| !title.is_empty()) {
            self.title = title;
        }
        if let Some(kind) = kind {
            self.kind = kind;
        }
        if has_input(&input) {
            self.input = input;
        }
    }

    /// Returns the title, or the kind of a call without one.
    fn name(&self) -> &str {
        match self.title.is_empty() {
            true => &self.kind,
            false => &self.title,
        }
    }

    /// Returns the event of the call, once.
    fn report(&mut self, id: &str) -> Option<AgentEvent> {
        if std::mem::replace(&mut self.is_reported, true) {
            return None;
        }
        let input = match std::mem::take(&mut self.input) {
            Value::Null => json!({}),
            input => input,
        };
        Some(AgentEvent::tool_use(id.to_owned(), self.name().to_owned(), input))
    }
}

fn has_input(input: &Value) -> bool {
    match input {
        Value::Null => false,
        Value::Object(fields) => !fields.is_empty(),
        _ => true,
    }
}

/// Returns the texts of a call's content and the paths of changed files, one a line; `None` if it has neither.
fn content_text(content: &Value) -> Option<String> {
    let parts: Vec<&str> = content
        .as_array()?
        .iter()
        .filter_map(|part| match part["type"].as_str()? {
            "content" => part["content"]["text"].as_str(),
            "diff" => part["path"].as_str(),
            _ => None,
        })
        .collect();
    (!parts.is_empty()).then(|| parts.join("\n"))
}

/// Returns the raw output of a call as text: a string, the field `output` of an object, or else the JSON.
fn output_text(raw_output: &Value) -> String {
    match raw_output {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => match other.get("output").and_then(Value::as_str) {
            Some(text) => text.to_owned(),
            None => other.to_string(),
        },
    }
}
