//! Actions for an agent that talks both ways, and the JSON-RPC lines that are written to it. The decoder of ACP orders the actions; a driver of the
//! runtime carries them out.

use serde_json::{Value, json};

/// Action that a decoder orders; a driver carries the actions out in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AcpAction {
    /// A line for the standard input of the agent, without its line break.
    Say(String),
    /// Answers a permission request. Once the agent was asked to stop, it gets no permission any more.
    Permit {
        /// Line with the answer of the policy.
        answer: String,
        /// Line to write instead once the line of [`StopWith`](Self::StopWith) was sent.
        stopped: String,
    },
    /// Sets the line with which the driver asks the agent to stop, if it has to. Nothing is written now.
    StopWith(String),
    /// The agent's work has ended: the driver closes its standard input, and then may end the process.
    Over,
}

/// JSON-RPC error code: the method is not known.
pub(super) const NO_METHOD: i64 = -32601;

/// JSON-RPC error code: the parameters are invalid.
pub(super) const BAD_PARAMS: i64 = -32602;

/// Returns the line that answers a request with its result.
pub(super) fn result_line(id: &Value, result: &Value) -> String {
    json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string()
}

/// Returns the line that answers a request with an error.
pub(super) fn error_line(id: &Value, code: i64, message: &str) -> String {
    json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}}).to_string()
}

/// Returns the line of a request to the agent.
pub(super) fn request_line(id: u64, method: &str, params: &Value) -> String {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string()
}

/// Returns the line of a notification to the agent.
pub(super) fn notification_line(method: &str, params: &Value) -> String {
    json!({"jsonrpc": "2.0", "method": method, "params": params}).to_string()
}
