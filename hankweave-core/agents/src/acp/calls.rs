//! The calls of tools: announced bit by bit, and told once when it is known what they are.

use std::collections::HashMap;

use serde_json::{Value, json};

use super::line::SessionUpdate;
use crate::open_tools::MAX_REMEMBERED_BYTES;
use hankweave_core::agent::{AgentEvent, ToolResult};

/// Calls that are remembered; a sane agent has a handful.
const MOST_CALLS: usize = 1_024;

/// Tool calls that have not ended, by their ids.
#[derive(Debug, Default)]
pub(super) struct Calls(HashMap<String, ToolCall>);

#[derive(Debug, Default)]
struct ToolCall {
    name: String,
    kind: String,
    input: Value,
    /// The last content that was told.
    text: String,
    is_told: bool,
}

impl Calls {
    /// Adds what an update says of a call. Its input comes after its announcement, often in pieces, so a call is told when it begins to work.
    pub(super) fn update(&mut self, update: SessionUpdate<'_>, events: &mut Vec<AgentEvent>) {
        let Some(id) = update.tool_call_id.as_deref().map(str::to_owned) else {
            return;
        };
        let is_short = id.len() <= MAX_REMEMBERED_BYTES;
        if !is_short || (self.0.len() >= MOST_CALLS && !self.0.contains_key(&id)) {
            return;
        }
        let status = update.status.into_owned().unwrap_or_default();
        let call = self.0.entry(id.clone()).or_default();
        call.learn(
            update.title.into_owned(),
            update.kind.into_owned(),
            update.raw_input,
        );
        if let Some(text) = text_of(&update.content) {
            call.text = text;
        }
        let has_ended = matches!(status.as_str(), "completed" | "failed");
        if has_ended || status == "in_progress" {
            events.extend(call.report_call(&id));
        }
        if !has_ended {
            return;
        }
        let call = self.0.remove(&id).unwrap_or_default();
        let text = match call.text.is_empty() {
            true => plain(&update.raw_output),
            false => call.text,
        };
        let result = ToolResult::new(id, Some(call.name), text, status == "failed");
        events.push(AgentEvent::ToolResult(result));
    }

    /// Name and kind of a call that wants permission: what it says itself, else what was said of it before.
    pub(super) fn described(&self, call: SessionUpdate<'_>) -> (String, String, String) {
        let id = call.tool_call_id.into_owned().unwrap_or_default();
        let known = self.0.get(&id);
        let name = call.title.into_owned().filter(|title| !title.is_empty());
        let name = name.or_else(|| known.map(|known| known.name.clone()));
        let kind = call.kind.into_owned();
        let kind = kind.or_else(|| known.map(|known| known.kind.clone()));
        (id, name.unwrap_or_default(), kind.unwrap_or_default())
    }
}

impl ToolCall {
    fn learn(&mut self, title: Option<String>, kind: Option<String>, input: Value) {
        if let Some(title) = title.filter(|title| !title.is_empty()) {
            self.name = title;
        }
        if let Some(kind) = kind {
            self.kind = kind;
        }
        if has_input(&input) {
            self.input = input;
        }
    }

    fn report_call(&mut self, id: &str) -> Option<AgentEvent> {
        if std::mem::replace(&mut self.is_told, true) {
            return None;
        }
        if self.name.is_empty() {
            self.name.clone_from(&self.kind);
        }
        let input = match std::mem::take(&mut self.input) {
            Value::Null => json!({}),
            input => input,
        };
        Some(AgentEvent::tool_use(id.to_owned(), self.name.clone(), input))
    }
}

fn has_input(input: &Value) -> bool {
    match input {
        Value::Null => false,
        Value::Object(fields) => !fields.is_empty(),
        _ => true,
    }
}

/// Returns the content of a call as text: texts, changed files and started processes.
fn text_of(content: &Value) -> Option<String> {
    let parts: Vec<&str> = content
        .as_array()?
        .iter()
        .filter_map(|part| match part["type"].as_str()? {
            "content" => part["content"]["text"].as_str(),
            "diff" => part["path"].as_str(),
            "terminal" => part["terminalId"].as_str(),
            _ => None,
        })
        .collect();
    (!parts.is_empty()).then(|| parts.join("\n"))
}

fn plain(output: &Value) -> String {
    match output {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Object(fields) => match fields.get("output").and_then(Value::as_str) {
            Some(text) => text.to_owned(),
            None => output.to_string(),
        },
        output => output.to_string(),
    }
}
