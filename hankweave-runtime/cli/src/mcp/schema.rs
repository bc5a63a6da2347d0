//! Descriptions of the tools for agents: name, purpose and schema of the arguments. [`check`] checks arguments against the schema.

use rmcp::model::JsonObject;
use serde_json::{Value, json};

use hankweave_task_model::task::TaskStatus;

use super::refusal::{INVALID_REQUEST, ToolError};
use super::tools::MAX_INTEGER;
use crate::task::STATUSES;

/// Description of one tool.
pub(super) struct ToolDescription {
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    /// Whether the tool only reads.
    pub(super) reads: bool,
    /// Whether the tool removes something for good.
    pub(super) destroys: bool,
    /// Returns the schemas of the arguments.
    properties: fn() -> Value,
    required: &'static [&'static str],
}

const fn tool(
    name: &'static str,
    about: &'static str,
    properties: fn() -> Value,
    required: &'static [&'static str],
) -> ToolDescription {
    ToolDescription {
        name,
        about,
        reads: false,
        destroys: false,
        properties,
        required,
    }
}

/// Required arguments of a tool that takes only a task.
const TASK: &[&str] = &["taskId"];

/// All tools.
pub(super) const TOOLS: &[ToolDescription] = &[
    tool(
        "create_task_sandbox",
        "Create a task with a folder of its own. With `hank` it waits for a worker that runs this hank; with `agentId` that agent is attached at once and works there with execute_in_task.",
        create_arguments,
        &["name"],
    ),
    tool(
        "attach_agent_to_task",
        "Let an agent begin to work on a pending task. No other agent or worker gets the task until it detaches or this server ends.",
        attach_arguments,
        &["taskId", "agentId"],
    ),
    tool(
        "detach_agent_from_task",
        "End the work of an attached agent: `outcome` is whether the task is `completed` (with `result`), `failed` (with `error`) or `pending` again, the default.",
        detach_arguments,
        TASK,
    ),
    tool(
        "execute_in_task",
        "Run a shell command in the workspace of a task that an agent has attached to here. Its output is cut off after 64 KiB; the command is stopped after `timeout` milliseconds.",
        execute_arguments,
        &["taskId", "command"],
    ),
    ToolDescription {
        reads: true,
        ..tool(
            "list_tasks",
            "List tasks, the newest first. A waiting task has a `question`, which a user answers with `hankweave task approve ID` or `hankweave task deny ID`; no tool does.",
            list_arguments,
            &[],
        )
    },
    ToolDescription {
        reads: true,
        ..tool(
            "get_task_status",
            "Read a task: status, progress, result or failure, question of a waiting task with the commands that answer it, and the folder of its files.",
            task_arguments,
            TASK,
        )
    },
    tool(
        "cancel_task",
        "Call a task off. When a worker runs it, that worker is asked to stop it; get_task_status tells when it has.",
        task_arguments,
        TASK,
    ),
    ToolDescription {
        destroys: true,
        ..tool(
            "delete_task",
            "Delete a task that has ended, with all its files. Its id stays taken.",
            task_arguments,
            TASK,
        )
    },
];

impl ToolDescription {
    /// Returns the schema of the tool's arguments.
    pub(super) fn schema(&self) -> JsonObject {
        let schema = json!({
            "type": "object", "properties": (self.properties)(), "required": self.required, "additionalProperties": false,
        });
        match schema {
            Value::Object(schema) => schema,
            _ => JsonObject::new(),
        }
    }
}

fn text(about: &str) -> Value {
    json!({"type": "string", "minLength": 1, "description": about})
}

fn task_id() -> Value {
    text("The id of the task.")
}

fn create_arguments() -> Value {
    json!({
        "name": text("What people call it."),
        "hank": text("The hank.json that a worker is to run, or the folder that holds one."),
        "data": text("A file or folder that the agents of the hank may read."),
        "arguments": {"type": "array", "items": {"type": "string"}, "description": "More arguments of its run, such as --max-cost."},
        "agentId": text("An agent that works on it itself."),
        "taskId": text("Its id, which nobody has used before; by default task_ and the time in milliseconds."),
        "description": text("What it is about."),
        "owner": text("Who is responsible for it."),
        "metadata": {"type": "object", "description": "Whatever belongs to it."},
        "priority": {"type": "integer", "minimum": i32::MIN, "maximum": i32::MAX, "default": 0, "description": "Workers claim the highest one first."},
        "after": {"type": "array", "items": {"type": "string", "minLength": 1}, "description": "Ids of tasks that must complete first."},
    })
}

fn attach_arguments() -> Value {
    json!({"taskId": task_id(), "agentId": text("Who works on it.")})
}

fn detach_arguments() -> Value {
    json!({
        "taskId": task_id(),
        "agentId": text("Who worked on it; refused if it is another one."),
        "outcome": {"type": "string", "enum": ["completed", "failed", "pending"], "default": "pending"},
        "result": {"type": "object", "description": "What came out, for `completed`: whatever belongs to it."},
        "error": text("What went wrong, for `failed`."),
    })
}

fn execute_arguments() -> Value {
    json!({
        "taskId": task_id(),
        "command": text("For sh -c."),
        "timeout": {"type": "integer", "minimum": 1, "maximum": 3_600_000, "default": 30_000, "description": "Milliseconds."},
    })
}

fn list_arguments() -> Value {
    json!({
        "status": {"type": "string", "enum": STATUSES.map(TaskStatus::as_str)},
        "owner": text("Only tasks of this owner."),
        "limit": {"type": "integer", "minimum": 0, "maximum": 1000, "default": 100},
        "offset": {"type": "integer", "minimum": 0, "maximum": MAX_INTEGER, "default": 0},
    })
}

fn task_arguments() -> Value {
    json!({"taskId": task_id()})
}

/// Checks arguments against the schema of their tool; the error lists everything that is wrong.
pub(super) fn check(tool: &ToolDescription, arguments: &JsonObject) -> Result<(), ToolError> {
    let schema = Value::Object(tool.schema());
    let validator = jsonschema::validator_for(&schema)
        .map_err(|error| ToolError::new(INVALID_REQUEST, error.to_string()))?;
    let arguments = Value::Object(arguments.clone());
    let problems: Vec<String> = validator
        .iter_errors(&arguments)
        .map(|error| match error.instance_path().to_string().as_str() {
            "" => error.to_string(),
            at => format!("{at}: {error}"),
        })
        .collect();
    match problems.is_empty() {
        true => Ok(()),
        false => Err(ToolError::request(problems)),
    }
}
