//! Actions for an agent that talks both ways, and the lines that are written to it.

use serde_json::{Value, json};

/// Something that the decoder wants done; in this order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AcpAction {
    /// A line for the standard input of the agent, without its line break.
    Say(String),
    /// Answers a permission request. Once the agent was asked to stop, it gets no permission any more.
    Permit {
        /// Answer of the policy.
        answer: String,
        /// Answer once [`StopWith`](Self::StopWith) was sent.
        stopped: String,
    },
    /// From now on this line asks the agent to stop what it does.
    StopWith(String),
    /// The agent's work has ended: its standard input is closed, and then the process may be ended.
    Over,
}

/// JSON-RPC: the method is not known.
pub(super) const NO_METHOD: i64 = -32601;

/// JSON-RPC: what is wanted makes no sense.
pub(super) const BAD_PARAMS: i64 = -32602;

/// Returns the line that answers a request with its result.
pub(super) fn result_line(id: &Value, result: &Value) -> String {
    json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string()
}

/// The line that answers a request that was not done.
pub(super) fn error_line(id: &Value, code: i64, message: &str) -> String {
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
