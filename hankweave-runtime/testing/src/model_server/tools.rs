//! Portable tool calls: "write a file" becomes whatever the asking agent calls its writer.

use serde_json::{Map, Value, json};

use super::request::{ModelRequest, Tool, ToolKind};
use super::scenario::{Call, Operation, PortableCall, VerbatimCall};

/// A call as it goes out: a tool of the agent with its own parameter names.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ToolCall {
    pub(super) name: String,
    pub(super) kind: ToolKind,
    pub(super) namespace: Option<String>,
    pub(super) arguments: Value,
}

impl ToolCall {
    /// Matches a scripted call to the tools that `request` offers.
    pub(super) fn resolve(call: &Call, request: &ModelRequest) -> Self {
        match call {
            Call::Verbatim(call) => Self::verbatim(call, request),
            Call::Portable(call) => Self::portable(call, request),
        }
    }

    fn verbatim(call: &VerbatimCall, request: &ModelRequest) -> Self {
        let tool = request.tool(&call.name);
        let arguments = if call.input.is_null() {
            json!({})
        } else {
            call.input.clone()
        };
        Self {
            name: call.name.clone(),
            kind: tool.map(|tool| tool.kind).unwrap_or_default(),
            namespace: tool.and_then(|tool| tool.namespace.clone()),
            arguments,
        }
    }

    fn portable(call: &PortableCall, request: &ModelRequest) -> Self {
        if let Some(tool) = tool_for(call.op, request) {
            return Self::to_tool(call, tool);
        }
        match (shell_substitute(call), tool_for(Operation::Bash, request)) {
            (Some(call), Some(shell)) => Self::to_tool(&call, shell),
            _ => Self {
                name: format!("no_tool_for_{:?}", call.op).to_lowercase(),
                kind: ToolKind::Function,
                namespace: None,
                arguments: Value::Object(call.fields.clone()),
            },
        }
    }

    fn to_tool(call: &PortableCall, tool: &Tool) -> Self {
        let arguments = match tool.kind {
            ToolKind::LocalShell => json!({"command": through_bash(&call.fields["command"])}),
            ToolKind::Function | ToolKind::Custom => Value::Object(arguments(call, tool)),
        };
        Self {
            name: tool.name.clone(),
            kind: tool.kind,
            namespace: tool.namespace.clone(),
            arguments,
        }
    }
}

/// The names under which agents offer an operation, the likeliest first.
fn tool_names(op: Operation) -> &'static [&'static str] {
    match op {
        Operation::Write => &["Write", "write", "write_file", "create_file"],
        Operation::Edit => &["Edit", "edit", "replace", "str_replace", "edit_file"],
        Operation::Read => &["Read", "read", "read_file"],
        Operation::Bash => &[
            "Bash",
            "bash",
            "run_shell_command",
            "exec_command",
            "shell_command",
            "shell",
            "local_shell",
        ],
        Operation::Task => &["Agent", "Task", "task", "spawn_agent"],
    }
}

/// The names that agents give to one of our fields, the likeliest first.
fn parameter_names(field: &str) -> &'static [&'static str] {
    match field {
        "path" => &["file_path", "filePath", "absolute_path", "path", "filename"],
        "content" => &["content", "contents", "file_text", "text"],
        "old" => &["old_string", "oldString", "oldText", "old_str"],
        "new" => &["new_string", "newString", "newText", "new_str"],
        "command" => &["command", "cmd"],
        "description" => &["description"],
        "prompt" => &["prompt", "message", "input"],
        "subagent" => &["subagent_type", "agent_type", "agent"],
        "background" => &["run_in_background", "is_background"],
        "timeout" => &["timeout", "timeout_ms", "yield_time_ms"],
        _ => &[],
    }
}

fn tool_for(op: Operation, request: &ModelRequest) -> Option<&Tool> {
    tool_names(op).iter().find_map(|name| request.tool(name))
}

/// Fields that the tool does not know are left out; parameters that it demands are filled in.
fn arguments(call: &PortableCall, tool: &Tool) -> Map<String, Value> {
    let mut arguments = Map::new();
    for (field, value) in &call.fields {
        let known = parameter_names(field)
            .iter()
            .find(|name| tool.parameters.contains_key(**name));
        let Some(parameter) = known else { continue };
        let as_list = field == "command" && tool.parameters[*parameter]["type"] == "array";
        let value = if as_list {
            through_bash(value)
        } else {
            value.clone()
        };
        arguments.insert((*parameter).to_owned(), value);
    }
    if call.op == Operation::Edit
        && tool.parameters.contains_key("edits")
        && !arguments.contains_key("oldText")
    {
        let edit = json!([{"oldText": call.fields.get("old"), "newText": call.fields.get("new")}]);
        arguments.insert("edits".to_owned(), edit);
    }
    for parameter in &tool.required {
        if !arguments.contains_key(parameter) {
            arguments.insert(parameter.clone(), filler(&tool.parameters[parameter.as_str()]));
        }
    }
    arguments
}

fn filler(schema: &Value) -> Value {
    match schema["type"].as_str() {
        Some("boolean") => json!(false),
        Some("integer" | "number") => json!(1),
        Some("array") => json!([]),
        Some("object") => json!({}),
        _ => json!("scripted"),
    }
}

/// Says how the shell does what an agent without the right tool cannot do.
fn shell_substitute(call: &PortableCall) -> Option<PortableCall> {
    let field = |name: &str| call.fields.get(name).and_then(Value::as_str).map(shell_quoted);
    let path = field("path")?;
    let command = match call.op {
        Operation::Write => {
            let content = field("content").unwrap_or_else(|| "''".to_owned());
            format!("mkdir -p \"$(dirname {path})\" && printf '%s' {content} > {path}")
        }
        Operation::Read => format!("cat {path}"),
        Operation::Edit | Operation::Bash | Operation::Task => return None,
    };
    let fields = Map::from_iter([("command".to_owned(), Value::String(command))]);
    Some(PortableCall {
        op: Operation::Bash,
        fields,
    })
}

fn shell_quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

fn through_bash(command: &Value) -> Value {
    json!(["bash", "-lc", command])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model_server::request::Dialect;

    #[track_caller]
    fn check(tools: Value, call: Value, name: &str, arguments: Value) {
        let request = ModelRequest::new(Dialect::Chat, json!({"tools": tools}), 0);
        let call: Call = serde_json::from_value(call).unwrap();
        let resolved = ToolCall::resolve(&call, &request);
        assert_eq!((resolved.name.as_str(), resolved.arguments), (name, arguments));
    }

    fn tool(name: &str, properties: Value, required: Value) -> Value {
        json!({"name": name, "input_schema": {"properties": properties, "required": required}})
    }

    #[test]
    fn a_write_takes_the_names_of_the_tool_that_is_offered() {
        let writer = tool(
            "Write",
            json!({"file_path": {}, "content": {}}),
            json!(["file_path"]),
        );
        let call = json!({"op": "write", "path": "/a", "content": "b", "extra": 1});
        check(
            json!([writer]),
            call,
            "Write",
            json!({"file_path": "/a", "content": "b"}),
        );
    }

    #[test]
    fn what_a_tool_demands_is_filled_in() {
        let shell = tool(
            "bash",
            json!({"cmd": {}, "reason": {"type": "string"}, "yes": {"type": "boolean"}}),
            json!(["cmd", "reason", "yes"]),
        );
        let filled = json!({"cmd": "ls", "reason": "scripted", "yes": false});
        check(
            json!([shell]),
            json!({"op": "bash", "command": "ls"}),
            "bash",
            filled,
        );
    }

    #[test]
    fn an_agent_without_a_writer_writes_through_its_shell() {
        let shell = tool("shell", json!({"command": {"type": "array"}}), json!([]));
        let command = r#"mkdir -p "$(dirname '/d/it'\''s')" && printf '%s' 'x' > '/d/it'\''s'"#;
        let call = json!({"op": "write", "path": "/d/it's", "content": "x"});
        check(
            json!([shell]),
            call,
            "shell",
            json!({"command": ["bash", "-lc", command]}),
        );
    }

    #[test]
    fn a_call_that_no_tool_can_take_goes_out_under_a_telling_name() {
        check(
            json!([]),
            json!({"op": "task", "prompt": "p"}),
            "no_tool_for_task",
            json!({"prompt": "p"}),
        );
    }

    #[test]
    fn a_verbatim_call_is_not_touched() {
        check(
            json!([]),
            json!({"name": "Any", "input": {"x": [1]}}),
            "Any",
            json!({"x": [1]}),
        );
    }
}
