//! Answers to the agent's requests (AGENT-26). The only request that is granted or denied is that for permission to use a tool.

use super::line::{Params, PermissionOption};
use super::{AcpDecoder, AgentEvent, MOST_DENIALS, PermissionDenial, Value, json};
use crate::actions::{AcpAction, BAD_PARAMS, NO_METHOD, error_line, result_line};
use crate::lenient::{List, Object};

/// Longest request id that an answer repeats, in bytes. A request with a longer one is refused with the id `null`.
const MOST_ID_BYTES: usize = 256;

impl AcpDecoder {
    /// Answers a request: one for permission by the policy of the hank, any other with an error. Every request gets exactly one answer.
    pub(super) fn serve(
        &mut self,
        method: &str,
        id: Value,
        params: Params<'_>,
        events: &mut Vec<AgentEvent>,
    ) {
        let is_plain = match &id {
            Value::String(id) => id.len() <= MOST_ID_BYTES,
            Value::Number(_) => true,
            _ => false,
        };
        if !is_plain {
            return self.refuse(
                &Value::Null,
                BAD_PARAMS,
                "the id of a request is a number or a short text",
            );
        }
        let is_known = self.session.is_some() && self.is_ours(params.session_id.as_deref());
        match method {
            "session/request_permission" if is_known => self.permit(&id, params, events),
            "session/request_permission" => self.refuse(&id, BAD_PARAMS, "there is no such session"),
            _ => self.refuse(&id, NO_METHOD, "hankweave does not offer this method"),
        }
    }

    fn refuse(&mut self, id: &Value, code: i64, message: &str) {
        self.orders
            .push_back(AcpAction::Say(error_line(id, code, message)));
    }

    /// Answers a request for permission. If the agent offers no option that fits the policy, the answer is that the request was cancelled.
    fn permit(&mut self, id: &Value, params: Params<'_>, events: &mut Vec<AgentEvent>) {
        self.speech.flush(events);
        let call = self.calls.requested(params.tool_call.0.unwrap_or_default());
        let is_permitted = self.task.permissions.permit(&call.kind);
        let wanted = match is_permitted {
            true => ["allow_once", "allow_always"],
            false => ["reject_once", "reject_always"],
        };
        if !is_permitted && self.denied.len() < MOST_DENIALS {
            self.denied.push(PermissionDenial {
                tool_name: call.name,
                tool_use_id: call.id,
            });
        }
        let cancelled = result_line(id, &json!({"outcome": {"outcome": "cancelled"}}));
        let chosen = choose_option(params.options, wanted);
        let answer = chosen.map_or_else(
            || cancelled.clone(),
            |option| {
                result_line(
                    id,
                    &json!({"outcome": {"outcome": "selected", "optionId": option}}),
                )
            },
        );
        self.orders.push_back(AcpAction::Permit {
            answer,
            stopped: cancelled,
        });
    }
}

/// Returns the id of the option with the first of the `wanted` kinds, else of one with the second.
fn choose_option(options: List<Object<PermissionOption<'_>>>, wanted: [&str; 2]) -> Option<String> {
    let options: Vec<PermissionOption<'_>> = options.objects().collect();
    let of_kind = |kind: &str| {
        let mut options = options.iter();
        options.find(|option| option.kind.as_deref() == Some(kind))
    };
    let option = wanted.into_iter().find_map(of_kind)?;
    option.option_id.as_deref().map(str::to_owned)
}
