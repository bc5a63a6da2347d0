//! Lines of an agent that speaks the Agent Client Protocol, reduced to the fields in use.

use serde::Deserialize;
use serde_json::Value;

use crate::lenient::{Count, Dollars, Flag, List, Object, Text};
use hankweave_core::cost::TokenUsage;

/// A request, a notification or an answer.
#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'l"))]
pub(super) struct RpcMessage<'l> {
    pub(super) id: Option<Value>,
    pub(super) method: Text<'l>,
    pub(super) params: Object<Params<'l>>,
    pub(super) result: Object<RpcResponse<'l>>,
    pub(super) error: Object<RpcError<'l>>,
}

/// Parameters of the agent's requests and notifications.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'l"))]
pub(super) struct Params<'l> {
    pub(super) session_id: Text<'l>,
    pub(super) update: Object<SessionUpdate<'l>>,
    pub(super) tool_call: Object<SessionUpdate<'l>>,
    pub(super) options: List<Object<PermissionOption<'l>>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'l"))]
pub(super) struct PermissionOption<'l> {
    pub(super) option_id: Text<'l>,
    pub(super) kind: Text<'l>,
}

/// Update of a session, whose kind is in `session_update`; also the tool call in a request for permission, which has no kind.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'l"))]
pub(super) struct SessionUpdate<'l> {
    pub(super) session_update: Text<'l>,
    /// Text of a chunk, or output of a tool call.
    pub(super) content: Value,
    pub(super) message_id: Text<'l>,

    // Tool calls.
    pub(super) tool_call_id: Text<'l>,
    pub(super) title: Text<'l>,
    pub(super) kind: Text<'l>,
    pub(super) status: Text<'l>,
    pub(super) raw_input: Value,
    pub(super) raw_output: Value,

    /// Cost of the session, in `usage_update`.
    pub(super) cost: Object<Cost<'l>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'l"))]
pub(super) struct Cost<'l> {
    pub(super) amount: Dollars,
    pub(super) currency: Text<'l>,
}

/// Response to any of our requests.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'l"))]
pub(super) struct RpcResponse<'l> {
    // To the greeting.
    pub(super) protocol_version: Count,
    pub(super) agent_capabilities: Object<AgentCapabilities>,
    pub(super) auth_methods: List<Object<IdOnly<'l>>>,

    // To the opening of a session.
    pub(super) session_id: Text<'l>,
    pub(super) models: Object<Models<'l>>,
    pub(super) config_options: List<Object<ConfigOption<'l>>>,

    // To the prompt.
    pub(super) stop_reason: Text<'l>,
    pub(super) usage: Object<Usage>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct AgentCapabilities {
    pub(super) load_session: Flag,
    pub(super) session_capabilities: Object<SessionCapabilities>,
}

/// Abilities beyond version 1 of the protocol; each that an agent has is an object.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct SessionCapabilities {
    pub(super) fork: Object<Offer>,
}

/// An ability whose details are not read.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Offer {}

#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'l"))]
pub(super) struct IdOnly<'l> {
    pub(super) id: Text<'l>,
}

/// The older way to choose a model.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'l"))]
pub(super) struct Models<'l> {
    pub(super) available_models: List<Object<AcpModel<'l>>>,
    pub(super) current_model_id: Text<'l>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'l"))]
pub(super) struct AcpModel<'l> {
    pub(super) model_id: Text<'l>,
}

/// A setting of a session that the agent lets choose.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'l"))]
pub(super) struct ConfigOption<'l> {
    pub(super) id: Text<'l>,
    pub(super) category: Text<'l>,
    pub(super) current_value: Text<'l>,
    pub(super) options: List<Object<ConfigChoice<'l>>>,
}

/// A value, or a group of values in `options`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'l"))]
pub(super) struct ConfigChoice<'l> {
    pub(super) value: Text<'l>,
    pub(super) options: List<Object<ChoiceGroup<'l>>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'l"))]
pub(super) struct ChoiceGroup<'l> {
    pub(super) value: Text<'l>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Usage {
    input_tokens: Count,
    output_tokens: Count,
    thought_tokens: Count,
    cached_read_tokens: Count,
    cached_write_tokens: Count,
}

impl Usage {
    pub(super) fn tokens(&self) -> TokenUsage {
        let output = self.output_tokens.or_zero();
        TokenUsage {
            input_tokens: self.input_tokens.or_zero(),
            output_tokens: output.saturating_add(self.thought_tokens.or_zero()),
            cache_creation_tokens: self.cached_write_tokens.or_zero(),
            cache_read_tokens: self.cached_read_tokens.or_zero(),
        }
    }
}

/// Error in place of the answer to a request.
#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'l"))]
pub(super) struct RpcError<'l> {
    pub(super) code: Value,
    pub(super) message: Text<'l>,
    pub(super) data: Value,
}
