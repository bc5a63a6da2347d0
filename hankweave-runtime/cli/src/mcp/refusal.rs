//! Errors of tools for the agent that calls them, each with a code that never changes (CLI-56).

use hankweave_runtime::error::chain;
use hankweave_task_model::TaskError;
use hankweave_tasks::layers::LayerError;
use serde_json::{Value, json};

pub(super) const TOOL_NOT_FOUND: &str = "TOOL_NOT_FOUND";
pub(super) const INVALID_REQUEST: &str = "INVALID_REQUEST";
pub(super) const EXECUTION_FAILED: &str = "EXECUTION_FAILED";

/// Error of a tool.
#[derive(Debug)]
pub(super) struct ToolError {
    pub(super) code: &'static str,
    pub(super) message: String,
    /// Everything that is wrong with a request; empty for other errors.
    problems: Vec<String>,
}

impl ToolError {
    pub(super) fn new(code: &'static str, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            problems: Vec::new(),
        }
    }

    /// Returns the error for a wrong request.
    pub(super) fn request(problems: Vec<String>) -> Self {
        Self {
            code: INVALID_REQUEST,
            message: problems.join("; "),
            problems,
        }
    }

    /// Returns a status number like those of HTTP.
    pub(super) fn status(&self) -> u16 {
        match self.code {
            TOOL_NOT_FOUND | "TASK_NOT_FOUND" => 404,
            INVALID_REQUEST | "INVALID_TASK_ID" | "INVALID_ARGUMENT" | "TASK_CREATE_FAILED"
            | "FOLDER_TAKEN" => 400,
            "RESOURCE_LOCKED" | "INVALID_TRANSITION" | "VERSION_CONFLICT" | "STALE_TOKEN" | "HOOK_VETO" => {
                409
            }
            "LOCK_BACKEND_UNAVAILABLE" => 503,
            _ => 500,
        }
    }

    pub(super) fn document(&self) -> Value {
        let mut error = json!({"code": self.code, "status": self.status(), "message": self.message});
        if !self.problems.is_empty() {
            error["problems"] = json!(self.problems);
        }
        json!({ "error": error })
    }
}

impl From<TaskError> for ToolError {
    fn from(error: TaskError) -> Self {
        Self::new(error.code(), error.to_string())
    }
}

impl From<LayerError> for ToolError {
    fn from(error: LayerError) -> Self {
        Self::new(error.code(), chain(&error))
    }
}
