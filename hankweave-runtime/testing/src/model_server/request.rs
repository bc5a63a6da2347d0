//! A model request, reduced to what a script can ask about.

use std::sync::LazyLock;

use regex::Regex;
use serde::Serialize;
use serde_json::{Map, Value};

/// The interface that a request speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Dialect {
    /// Anthropic Messages.
    Anthropic,
    /// OpenAI Responses.
    Responses,
    /// OpenAI Chat Completions.
    Chat,
    /// Gemini.
    Gemini,
}

/// One request for a model turn, in any dialect.
#[derive(Debug)]
pub(super) struct ModelRequest {
    pub(super) dialect: Dialect,
    pub(super) model: String,
    pub(super) stream: bool,
    pub(super) messages: Vec<Value>,
    pub(super) tools: Vec<Tool>,
    /// Estimated size: a quarter of the bytes, which is what scripts are written for.
    pub(super) tokens: u64,
    pub(super) body: Value,
}

/// A tool that the agent offers.
#[derive(Debug, Clone)]
pub(super) struct Tool {
    pub(super) name: String,
    pub(super) kind: ToolKind,
    pub(super) parameters: Map<String, Value>,
    pub(super) required: Vec<String>,
    pub(super) namespace: Option<String>,
}

/// How a call to a tool is written down.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum ToolKind {
    #[default]
    Function,
    /// Free text instead of arguments.
    Custom,
    LocalShell,
}

impl Dialect {
    /// Finds the dialect that is spoken at `path`.
    pub(super) fn of_path(path: &str) -> Option<Self> {
        [
            ("/messages", Self::Anthropic),
            ("/responses", Self::Responses),
            ("/chat/completions", Self::Chat),
            (":streamGenerateContent", Self::Gemini),
            (":generateContent", Self::Gemini),
        ]
        .into_iter()
        .find_map(|(end, dialect)| path.ends_with(end).then_some(dialect))
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Anthropic => "anthropic",
            Self::Responses => "responses",
            Self::Chat => "chat",
            Self::Gemini => "gemini",
        }
    }
}

impl ModelRequest {
    pub(super) fn new(dialect: Dialect, body: Value, bytes: usize) -> Self {
        Self {
            dialect,
            model: body["model"].as_str().unwrap_or("scripted-model").to_owned(),
            stream: body["stream"].as_bool().unwrap_or(false),
            messages: messages(&body),
            tools: tools(&body),
            tokens: estimated_tokens(bytes),
            body,
        }
    }

    /// Returns this request with the facts of its path, which names the model in Gemini's dialect and shows whether the
    /// answer is streamed.
    pub(super) fn at(mut self, path: &str) -> Self {
        let named = path.rsplit('/').next().and_then(|last| last.split_once(':'));
        if let (Dialect::Gemini, Some((model, method))) = (self.dialect, named) {
            model.clone_into(&mut self.model);
            self.stream = method.starts_with("stream");
        }
        self
    }

    pub(super) fn system_text(&self) -> String {
        let mut text = Text::default();
        text.take(&self.body["system"]);
        text.take(&self.body["instructions"]);
        text.take(&self.body["systemInstruction"]);
        for message in self
            .messages
            .iter()
            .filter(|m| matches!(role(m), Some("system" | "developer")))
        {
            text.take(&message["content"]);
        }
        text.0
    }

    pub(super) fn user_text(&self) -> String {
        let mut text = Text::default();
        self.user_messages().for_each(|message| text.take(said(message)));
        text.0
    }

    pub(super) fn first_user_text(&self) -> String {
        let mut text = Text::default();
        self.user_messages()
            .take(1)
            .for_each(|message| text.take(said(message)));
        text.0
    }

    pub(super) fn tool(&self, name: &str) -> Option<&Tool> {
        self.tools.iter().find(|tool| tool.name == name)
    }

    /// How many turns of the model the conversation already holds. Neighbouring items of one turn count once.
    pub(super) fn model_turns(&self) -> u64 {
        let sides = self.messages.iter().map(is_from_model);
        let mut before = false;
        let mut turns = 0;
        for side in sides {
            turns += u64::from(side && !before);
            before = side;
        }
        turns
    }

    /// Returns the working directory of the agent, if its own prompt names it.
    pub(super) fn working_directory(&self) -> Option<String> {
        static PLACES: LazyLock<[Regex; 2]> = LazyLock::new(|| {
            [
                r#"(?i)working directory:\s*(/[^\s<"\\]+)"#,
                r"<cwd>\s*(/[^<]+?)\s*</cwd>",
            ]
            .map(|pattern| Regex::new(pattern).expect("the pattern is constant"))
        });
        let mut text = Text(self.system_text());
        self.messages.iter().for_each(|message| text.take(message));
        let found = PLACES.iter().find_map(|place| place.captures(&text.0))?;
        Some(found[1].trim_end_matches(['/', '.', ',']).to_owned())
    }

    fn user_messages(&self) -> impl Iterator<Item = &Value> {
        self.messages
            .iter()
            .filter(|message| role(message) == Some("user"))
    }
}

/// Four bytes count as one token.
pub(super) fn estimated_tokens(bytes: usize) -> u64 {
    bytes as u64 / 4
}

/// All strings of a JSON value in document order, one a line.
#[derive(Default)]
struct Text(String);

impl Text {
    fn take(&mut self, value: &Value) {
        match value {
            Value::String(text) => {
                if !self.0.is_empty() {
                    self.0.push('\n');
                }
                self.0.push_str(text);
            }
            Value::Array(items) => items.iter().for_each(|item| self.take(item)),
            Value::Object(fields) => fields.values().for_each(|field| self.take(field)),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
}

fn role(message: &Value) -> Option<&str> {
    message["role"].as_str()
}

/// Returns the content of a message; Gemini has a key of its own for it.
fn said(message: &Value) -> &Value {
    match &message["parts"] {
        Value::Null => &message["content"],
        parts => parts,
    }
}

fn is_from_model(message: &Value) -> bool {
    matches!(role(message), Some("assistant" | "model"))
        || matches!(
            message["type"].as_str(),
            Some("function_call" | "reasoning" | "custom_tool_call" | "local_shell_call")
        )
}

/// `input` of the Responses interface may be one bare text.
fn messages(body: &Value) -> Vec<Value> {
    if let Value::Array(contents) = &body["contents"] {
        return contents.clone();
    }
    match (&body["messages"], &body["input"]) {
        (Value::Array(messages), _) | (_, Value::Array(messages)) => messages.clone(),
        (_, Value::String(text)) => vec![serde_json::json!({"role": "user", "content": text})],
        _ => Vec::new(),
    }
}

fn tools(body: &Value) -> Vec<Tool> {
    let offered = body["tools"].as_array().map(Vec::as_slice).unwrap_or_default();
    offered.iter().flat_map(tools_of_entry).collect()
}

fn tools_of_entry(entry: &Value) -> Vec<Tool> {
    let text = |key: &str| entry[key].as_str().map(str::to_owned);
    match entry["type"].as_str() {
        Some("namespace") => {
            let inner = entry["tools"].as_array().map(Vec::as_slice).unwrap_or_default();
            let in_namespace = |tool: Tool| Tool {
                namespace: text("name"),
                ..tool
            };
            inner.iter().flat_map(tools_of_entry).map(in_namespace).collect()
        }
        Some("local_shell") => {
            vec![tool("local_shell".to_owned(), ToolKind::LocalShell, &Value::Null)]
        }
        Some("custom") => text("name")
            .map(|name| tool(name, ToolKind::Custom, &Value::Null))
            .into_iter()
            .collect(),
        _ if entry["functionDeclarations"].is_array() => {
            let declared = entry["functionDeclarations"].as_array();
            declared.into_iter().flatten().flat_map(tools_of_entry).collect()
        }
        _ if entry["function"].is_object() => tools_of_entry(&entry["function"]),
        _ => {
            let names = ["input_schema", "parametersJsonSchema"];
            let schema = names.into_iter().find(|name| entry[*name].is_object());
            let schema = schema.unwrap_or("parameters");
            text("name")
                .map(|name| tool(name, ToolKind::Function, &entry[schema]))
                .into_iter()
                .collect()
        }
    }
}

fn tool(name: String, kind: ToolKind, schema: &Value) -> Tool {
    let required = schema["required"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    Tool {
        name,
        kind,
        parameters: schema["properties"].as_object().cloned().unwrap_or_default(),
        required: required
            .iter()
            .filter_map(Value::as_str)
            .map(str::to_owned)
            .collect(),
        namespace: None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn request(body: Value) -> ModelRequest {
        ModelRequest::new(Dialect::Anthropic, body, 0)
    }

    #[test]
    fn the_working_directory_is_read_from_the_prompt() {
        let told = request(json!({"system": [{"text": "Primary working directory: /tmp/a-b/c.\nOther"}]}));
        assert_eq!(told.working_directory().as_deref(), Some("/tmp/a-b/c"));
        let tagged = request(json!({"messages": [{"role": "user", "content": "<cwd>/x y</cwd>"}]}));
        assert_eq!(tagged.working_directory().as_deref(), Some("/x y"));
        assert_eq!(request(json!({})).working_directory(), None);
    }

    #[test]
    fn neighbouring_items_of_the_model_are_one_turn() {
        let items = json!([
            {"role": "user", "content": "a"}, {"type": "reasoning"}, {"type": "function_call"},
            {"type": "function_call_output"}, {"role": "assistant", "content": "b"}]);
        assert_eq!(request(json!({"input": items})).model_turns(), 2);
    }

    #[test]
    fn tools_of_every_dialect_are_found() {
        let found = request(json!({"tools": [
            {"name": "Write", "input_schema": {"properties": {"file_path": {}}, "required": ["file_path"]}},
            {"type": "function", "function": {"name": "bash", "parameters": {"properties": {"cmd": {}}}}},
            {"type": "function", "name": "shell", "parameters": {}},
            {"type": "namespace", "name": "team", "tools": [{"type": "function", "name": "spawn"}]},
            {"type": "custom", "name": "patch"},
            {"type": "local_shell"}, {"type": "web_search"}, 7,
            {"functionDeclarations": [{"name": "write_file", "parametersJsonSchema": {"properties": {"content": {}}}}]}]}));
        let names: Vec<_> = found.tools.iter().map(|tool| tool.name.as_str()).collect();
        let wanted = [
            "Write",
            "bash",
            "shell",
            "spawn",
            "patch",
            "local_shell",
            "write_file",
        ];
        assert_eq!(names, wanted);
        assert!(found.tools[6].parameters.contains_key("content"));
        assert_eq!(found.tools[0].required, ["file_path"]);
        assert!(found.tools[1].parameters.contains_key("cmd"));
        assert_eq!(found.tools[3].namespace.as_deref(), Some("team"));
    }
}
