//! The tools: their names, what they take and what they do.

use rmcp::model::JsonObject;
use serde_json::{Value, json};

use hankweave_task_model::task::TaskStatus;

use super::refusal::{INVALID_REQUEST, ToolError};
use crate::task::STATUSES;

/// One tool.
pub(super) struct ToolDescription {
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    /// Whether it only reads, and whether it takes something away for good.
    pub(super) reads: bool,
    pub(super) destroys: bool,
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

const TASK: &[&str] = &["taskId"];

/// All of them.
pub(super) const TOOLS: &[ToolDescription] = &[
    tool(
        "create_task_sandbox",
        "Create a task with a folder of its own. With `hank` it waits for a worker that runs this hank; with `agentId` that agent is attached at once and works there with execute_in_task.",
        created,
        &["name"],
    ),
    tool(
        "attach_agent_to_task",
        "Let an agent begin to work on a pending task. No other agent or worker gets the task until it detaches or this server ends.",
        attached,
        &["taskId", "agentId"],
    ),
    tool(
        "detach_agent_from_task",
        "End the work of an attached agent: `outcome` is whether the task is `completed` (with `result`), `failed` (with `error`) or is requeued, the default.",
        detached,
        TASK,
    ),
    tool(
        "execute_in_task",
        "Run a shell command in the workspace of a task that an agent has attached to here. Its output is cut off after 64 KiB; the command is stopped after `timeout` milliseconds.",
        executed,
        &["taskId", "command"],
    ),
    ToolDescription {
        reads: true,
        ..tool(
            "list_tasks",
            "List tasks, the newest first. A waiting task has a `question`, which a user answers with `hankweave task approve ID` or `hankweave task deny ID`; no tool does.",
            listed,
            &[],
        )
    },
    ToolDescription {
        reads: true,
        ..tool(
            "get_task_status",
            "Read a task: status, progress, result or failure, question of a waiting task with the commands that answer it, and the folder of its files.",
            named,
            TASK,
        )
    },
    tool(
        "cancel_task",
        "Call a task off. When a worker runs it, that worker is asked to stop it; get_task_status tells when it has.",
        named,
        TASK,
    ),
    ToolDescription {
        destroys: true,
        ..tool(
            "delete_task",
            "Delete a task that has ended, with all its files. Its id stays taken.",
            named,
            TASK,
        )
    },
];

impl ToolDescription {
    /// Returns the schema of its arguments.
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

fn created() -> Value {
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

fn attached() -> Value {
    json!({"taskId": task_id(), "agentId": text("Who works on it.")})
}

fn detached() -> Value {
    json!({
        "taskId": task_id(),
        "agentId": text("Who worked on it; somebody else is not detached."),
        "outcome": {"type": "string", "enum": ["completed", "failed", "pending"], "default": "pending"},
        "result": {"type": "object", "description": "What came out, for `completed`: whatever belongs to it."},
        "error": text("What went wrong, for `failed`."),
    })
}

fn executed() -> Value {
    json!({
        "taskId": task_id(),
        "command": text("For sh -c."),
        "timeout": {"type": "integer", "minimum": 1, "maximum": 3_600_000, "default": 30_000, "description": "Milliseconds."},
    })
}

fn listed() -> Value {
    json!({
        "status": {"type": "string", "enum": STATUSES.map(TaskStatus::as_str)},
        "owner": text("Only tasks of this owner."),
        "limit": {"type": "integer", "minimum": 0, "maximum": 1000, "default": 100},
        "offset": {"type": "integer", "minimum": 0, "default": 0},
    })
}

fn named() -> Value {
    json!({"taskId": task_id()})
}

/// Says everything that is wrong with the arguments, each at its place.
pub(super) fn check(described: &ToolDescription, given: &JsonObject) -> Result<(), ToolError> {
    let schema = Value::Object(described.schema());
    let validator = jsonschema::validator_for(&schema)
        .map_err(|error| ToolError::new(INVALID_REQUEST, error.to_string()))?;
    let given = Value::Object(given.clone());
    let problems: Vec<String> = validator
        .iter_errors(&given)
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
