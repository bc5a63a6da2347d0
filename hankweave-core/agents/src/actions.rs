//! Actions for an agent that talks both ways, and how it receives their outcome.

use serde_json::{Value, json};

/// Something that the decoder wants done; in this order. Whoever carries it out answers requests with the lines of this module.
#[derive(Debug, Clone, PartialEq)]
pub enum AcpAction {
    /// A line for the standard input of the agent, without its line break.
    Say(String),
    /// Answers a permission request; the user who was told to stop has no permission left.
    Permit {
        /// Answer of the policy.
        answer: String,
        /// Answer once [`StopWith`](Self::StopWith) was sent.
        stopped: String,
    },
    /// From now on this line asks the agent to stop what it does.
    StopWith(String),
    /// The agent's work is over: its standard input is closed, and then it may be ended.
    Over,
    /// A request for a file of the workspace or a process in it.
    Do {
        /// Names the request; it stands in its answer.
        id: Value,
        /// Requested action.
        what: AcpRequest,
    },
}

/// Action that an agent asks its client for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AcpRequest {
    /// Read a file of text.
    Read {
        /// The file, absolute.
        path: String,
        /// The first line that is wanted, counted from 1.
        line: Option<u64>,
        /// How many lines are wanted.
        limit: Option<u64>,
    },
    /// Write a file.
    Write {
        /// The file, absolute.
        path: String,
        /// All of its content.
        content: String,
    },
    /// Start a process.
    Start {
        /// The program.
        command: String,
        /// Its arguments.
        args: Vec<String>,
        /// Its variables, over those of the agent.
        env: Vec<(String, String)>,
        /// Working directory; the folder of the agent when absent.
        cwd: Option<String>,
        /// How much of its output is kept, in bytes.
        output_byte_limit: Option<u64>,
    },
    /// Tell what a process has printed.
    Output(String),
    /// Tell when a process has ended.
    Wait(String),
    /// Kill a process.
    Kill(String),
    /// Kill a process and forget it.
    Release(String),
}

/// JSON-RPC: the method is not known.
pub const NO_METHOD: i64 = -32601;

/// JSON-RPC: what is wanted makes no sense.
pub const BAD_PARAMS: i64 = -32602;

/// JSON-RPC: it did not work.
pub const FAILED: i64 = -32603;

/// The line that answers a request with what came of it.
#[must_use]
pub fn result_line(id: &Value, result: &Value) -> String {
    json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string()
}

/// The line that answers a request that was not done.
#[must_use]
pub fn error_line(id: &Value, code: i64, message: &str) -> String {
    json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}}).to_string()
}

/// The line of a request of ours.
pub(super) fn request_line(id: u64, method: &str, params: &Value) -> String {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string()
}

/// The line of a notification of ours.
pub(super) fn notification_line(method: &str, params: &Value) -> String {
    json!({"jsonrpc": "2.0", "method": method, "params": params}).to_string()
}
