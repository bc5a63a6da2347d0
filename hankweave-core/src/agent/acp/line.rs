//! What the lines of an agent hold that speaks the Agent Client Protocol, as far as anybody asks.

use serde::Deserialize;
use serde_json::Value;

use crate::agent::lenient::{Count, Dollars, Flag, List, Object, Text};
use crate::cost::TokenUsage;

/// A request, a notification or an answer.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Line<'l> {
    pub(super) id: Option<Value>,
    #[serde(borrow)]
    pub(super) method: Text<'l>,
    #[serde(borrow)]
    pub(super) params: Object<Params<'l>>,
    #[serde(borrow)]
    pub(super) result: Object<Answer<'l>>,
    #[serde(borrow)]
    pub(super) error: Object<Failure<'l>>,
}

/// What the agent asks for, or tells.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Params<'l> {
    #[serde(borrow)]
    pub(super) session_id: Text<'l>,
    #[serde(borrow)]
    pub(super) update: Object<Update<'l>>,
    #[serde(borrow)]
    pub(super) tool_call: Object<Update<'l>>,
    #[serde(borrow)]
    pub(super) options: List<Object<PermissionOption<'l>>>,
    #[serde(borrow)]
    pub(super) path: Text<'l>,
    #[serde(borrow)]
    pub(super) content: Text<'l>,
    pub(super) line: Count,
    pub(super) limit: Count,
    #[serde(borrow)]
    pub(super) command: Text<'l>,
    #[serde(borrow)]
    pub(super) args: List<Text<'l>>,
    #[serde(borrow)]
    pub(super) env: List<Object<Variable<'l>>>,
    #[serde(borrow)]
    pub(super) cwd: Text<'l>,
    pub(super) output_byte_limit: Count,
    #[serde(borrow)]
    pub(super) terminal_id: Text<'l>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Variable<'l> {
    #[serde(borrow)]
    pub(super) name: Text<'l>,
    #[serde(borrow)]
    pub(super) value: Text<'l>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct PermissionOption<'l> {
    #[serde(borrow)]
    pub(super) option_id: Text<'l>,
    #[serde(borrow)]
    pub(super) kind: Text<'l>,
}

/// Something that happens in a session; also the call of a tool that wants permission.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Update<'l> {
    #[serde(borrow)]
    pub(super) session_update: Text<'l>,
    pub(super) content: Value,
    #[serde(borrow)]
    pub(super) message_id: Text<'l>,
    #[serde(borrow)]
    pub(super) tool_call_id: Text<'l>,
    #[serde(borrow)]
    pub(super) title: Text<'l>,
    #[serde(borrow)]
    pub(super) kind: Text<'l>,
    #[serde(borrow)]
    pub(super) status: Text<'l>,
    pub(super) raw_input: Value,
    pub(super) raw_output: Value,
    #[serde(borrow)]
    pub(super) cost: Object<Cost<'l>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Cost<'l> {
    pub(super) amount: Dollars,
    #[serde(borrow)]
    pub(super) currency: Text<'l>,
}

/// What is answered to any of our requests.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Answer<'l> {
    pub(super) protocol_version: Count,
    pub(super) agent_capabilities: Object<Offers>,
    #[serde(borrow)]
    pub(super) auth_methods: List<Object<Named<'l>>>,
    #[serde(borrow)]
    pub(super) session_id: Text<'l>,
    #[serde(borrow)]
    pub(super) models: Object<Models<'l>>,
    #[serde(borrow)]
    pub(super) config_options: List<Object<ConfigOption<'l>>>,
    #[serde(borrow)]
    pub(super) stop_reason: Text<'l>,
    pub(super) usage: Object<Usage>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Offers {
    pub(super) load_session: Flag,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Named<'l> {
    #[serde(borrow)]
    pub(super) id: Text<'l>,
}

/// The older way to choose a model.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Models<'l> {
    #[serde(borrow)]
    pub(super) available_models: List<Object<Model<'l>>>,
    #[serde(borrow)]
    pub(super) current_model_id: Text<'l>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Model<'l> {
    #[serde(borrow)]
    pub(super) model_id: Text<'l>,
}

/// A setting of a session that the agent lets choose.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct ConfigOption<'l> {
    #[serde(borrow)]
    pub(super) id: Text<'l>,
    #[serde(borrow)]
    pub(super) category: Text<'l>,
    #[serde(borrow)]
    pub(super) current_value: Text<'l>,
    #[serde(borrow)]
    pub(super) options: List<Object<Choice<'l>>>,
}

/// A value, or a group of them.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Choice<'l> {
    #[serde(borrow)]
    pub(super) value: Text<'l>,
    #[serde(borrow)]
    pub(super) options: List<Object<Inner<'l>>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Inner<'l> {
    #[serde(borrow)]
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
        let output = self.output_tokens.or_none();
        TokenUsage {
            input_tokens: self.input_tokens.or_none(),
            output_tokens: output.saturating_add(self.thought_tokens.or_none()),
            cache_creation_tokens: self.cached_write_tokens.or_none(),
            cache_read_tokens: self.cached_read_tokens.or_none(),
        }
    }
}

/// Why a request was not done.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Failure<'l> {
    pub(super) code: Value,
    #[serde(borrow)]
    pub(super) message: Text<'l>,
    pub(super) data: Value,
}
