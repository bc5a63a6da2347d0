//! A turn made ready for one request: variables replaced, calls resolved, defaults filled in.

use std::collections::BTreeMap;

use serde_json::Value;

use super::ids::Ids;
use super::request::ModelRequest;
use super::scenario::{Call, Failure, Turn, Usage};
use super::script::Picked;
use super::tools::ToolCall;

/// Values for `${NAME}` in the strings of a script.
pub(super) type Variables = BTreeMap<String, String>;

/// Output of the model, before it is written in a dialect.
#[derive(Debug)]
pub(super) struct Reply<'a> {
    pub(super) id: Option<String>,
    pub(super) model: String,
    pub(super) thinking: String,
    pub(super) text: String,
    pub(super) calls: Vec<ToolCall>,
    pub(super) stop_reason: Option<String>,
    pub(super) usage: Usage,
    pub(super) failed: Option<Failure>,
    pub(super) chunks: usize,
    pub(super) ids: &'a Ids,
}

impl<'a> Reply<'a> {
    pub(super) fn new(picked: &Picked, request: &ModelRequest, given: &Variables, ids: &'a Ids) -> Self {
        let variables = variables(picked, request, given);
        let turn: &Turn = &picked.turn;
        let calls = turn
            .tools
            .iter()
            .map(|call| ToolCall::resolve(&filled_call(call, &variables), request));
        Self {
            id: turn.id.clone(),
            model: turn.model.clone().unwrap_or_else(|| request.model.clone()),
            thinking: filled(&turn.thinking, &variables),
            text: filled(&turn.text, &variables),
            calls: calls.collect(),
            stop_reason: turn.stop_reason.clone(),
            usage: turn.usage,
            failed: turn.failed.clone(),
            chunks: turn.chunks.unwrap_or(3),
            ids,
        }
    }

    /// The id of the answer: the scripted one, else a new one with `prefix`.
    pub(super) fn id(&self, prefix: &str) -> String {
        self.id.clone().unwrap_or_else(|| self.ids.next(prefix))
    }

    pub(super) fn stop_reason<'r>(&'r self, with_calls: &'r str, without: &'r str) -> &'r str {
        let usual = if self.calls.is_empty() {
            without
        } else {
            with_calls
        };
        self.stop_reason.as_deref().unwrap_or(usual)
    }

    /// Cuts a text into the pieces that are streamed one by one; never returns an empty list.
    pub(super) fn pieces(&self, text: &str) -> Vec<String> {
        let letters: Vec<char> = text.chars().collect();
        let size = letters.len().div_ceil(self.chunks.max(1)).max(1);
        let pieces: Vec<String> = letters.chunks(size).map(String::from_iter).collect();
        if pieces.is_empty() {
            vec![String::new()]
        } else {
            pieces
        }
    }
}

fn variables(picked: &Picked, request: &ModelRequest, given: &Variables) -> Variables {
    let mut variables = given.clone();
    let mut default = |name: &str, value: String| {
        variables.entry(name.to_owned()).or_insert(value);
    };
    default("N", picked.index.to_string());
    default("MODEL", request.model.clone());
    if let Some(directory) = request.working_directory() {
        default("CWD", directory);
    }
    variables
}

/// A variable without a value stays as it is written, so that a script's mistake can be seen.
fn filled(text: &str, variables: &Variables) -> String {
    variables.iter().fold(text.to_owned(), |text, (name, value)| {
        text.replace(&format!("${{{name}}}"), value)
    })
}

fn filled_value(value: &Value, variables: &Variables) -> Value {
    match value {
        Value::String(text) => Value::String(filled(text, variables)),
        Value::Array(items) => items.iter().map(|item| filled_value(item, variables)).collect(),
        Value::Object(fields) => fields
            .iter()
            .map(|(key, field)| (key.clone(), filled_value(field, variables)))
            .collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    }
}

fn filled_call(call: &Call, variables: &Variables) -> Call {
    let mut call = call.clone();
    match &mut call {
        Call::Verbatim(call) => call.input = filled_value(&call.input, variables),
        Call::Portable(call) => {
            call.fields
                .values_mut()
                .for_each(|value| *value = filled_value(value, variables));
        }
    }
    call
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::model_server::request::Dialect;

    fn reply(turn: Value, ids: &Ids) -> Reply<'_> {
        let body = json!({"model": "m", "system": "Working directory: /w", "tools": [{"name": "x"}]});
        let request = ModelRequest::new(Dialect::Anthropic, body, 0);
        let turn = serde_json::from_value(turn).unwrap();
        let picked = Picked {
            lane: "main".to_owned(),
            index: 4,
            turn,
        };
        let given = Variables::from([("WHO".to_owned(), "you".to_owned())]);
        Reply::new(&picked, &request, &given, ids)
    }

    #[test]
    fn variables_are_replaced_in_texts_and_calls() {
        let ids = Ids::new(1);
        let turn = json!({"text": "${WHO} ${N} ${MODEL} ${NOPE}", "tools": [
            {"name": "x", "input": {"path": ["${CWD}/f"]}}]});
        let reply = reply(turn, &ids);
        assert_eq!(reply.text, "you 4 m ${NOPE}");
        assert_eq!(reply.calls[0].arguments, json!({"path": ["/w/f"]}));
    }

    #[test]
    fn pieces_join_to_the_whole_text() {
        let ids = Ids::new(1);
        let reply = reply(json!({"chunks": 4}), &ids);
        assert_eq!(reply.pieces("größer"), ["gr", "öß", "er"]);
        assert_eq!(reply.pieces(""), [""]);
    }
}
