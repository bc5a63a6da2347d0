//! Requests of the agent to us (AGENT-26).

use super::line::{Params, PermissionOption};
use super::{AcpDecoder, AgentEvent, MOST_DENIALS, PermissionDenial, Value, json};
use crate::actions::{AcpAction, AcpRequest, BAD_PARAMS, NO_METHOD, error_line, result_line};
use crate::lenient::{List, Object};

/// The longest id of a request that is answered, in bytes of its text.
const MOST_ID_BYTES: usize = 256;

impl AcpDecoder {
    /// Answers a request, or orders that it is done. Every request gets exactly one answer.
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
        if method == "session/request_permission" && is_known {
            return self.permit(&id, params, events);
        }
        match parse_request(method, params) {
            None => self.refuse(&id, NO_METHOD, "hankweave does not know this method"),
            Some(_) if !is_known => self.refuse(&id, BAD_PARAMS, "there is no such session"),
            Some(None) => self.refuse(&id, BAD_PARAMS, "a parameter is missing"),
            Some(Some(what)) if !self.task.permissions.permit(kind(&what)) => {
                self.refuse(&id, BAD_PARAMS, "the hank does not permit this");
            }
            Some(Some(what)) => self.orders.push_back(AcpAction::Do { id, what }),
        }
    }

    fn refuse(&mut self, id: &Value, code: i64, message: &str) {
        self.orders
            .push_back(AcpAction::Say(error_line(id, code, message)));
    }

    /// Answers by the policy of the hank; an agent that offers no such answer is told that the request was cancelled.
    fn permit(&mut self, id: &Value, params: Params<'_>, events: &mut Vec<AgentEvent>) {
        self.speech.pause(events);
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
        let chosen = choose(params.options, wanted);
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

/// The first option of the first of these kinds that there is.
fn choose(options: List<Object<PermissionOption<'_>>>, wanted: [&str; 2]) -> Option<String> {
    let options: Vec<PermissionOption<'_>> = options.objects().collect();
    let of_kind = |kind: &str| {
        let mut options = options.iter();
        options.find(|option| option.kind.as_deref() == Some(kind))
    };
    let option = wanted.into_iter().find_map(of_kind)?;
    option.option_id.as_deref().map(str::to_owned)
}

/// As the protocol calls a tool that does this.
fn kind(what: &AcpRequest) -> &'static str {
    match what {
        AcpRequest::Read { .. } => "read",
        AcpRequest::Write { .. } => "edit",
        _ => "execute",
    }
}

/// Returns the action of a method; `None` for an unknown method, `Some(None)` when a parameter is missing.
fn parse_request(method: &str, params: Params<'_>) -> Option<Option<AcpRequest>> {
    let terminal =
        |deed: fn(String) -> AcpRequest, params: Params<'_>| params.terminal_id.into_owned().map(deed);
    Some(match method {
        "session/request_permission" => None,
        "fs/read_text_file" => params.path.into_owned().map(|path| AcpRequest::Read {
            path,
            line: params.line.0,
            limit: params.limit.0,
        }),
        "fs/write_text_file" => {
            let (path, content) = (params.path.into_owned(), params.content.into_owned());
            path.zip(content)
                .map(|(path, content)| AcpRequest::Write { path, content })
        }
        "terminal/create" => start(params),
        "terminal/output" => terminal(AcpRequest::Output, params),
        "terminal/wait_for_exit" => terminal(AcpRequest::Wait, params),
        "terminal/kill" => terminal(AcpRequest::Kill, params),
        "terminal/release" => terminal(AcpRequest::Release, params),
        _ => return None,
    })
}

fn start(params: Params<'_>) -> Option<AcpRequest> {
    let args = params.args.0.into_iter();
    let env = params.env.objects();
    Some(AcpRequest::Start {
        command: params.command.into_owned()?,
        args: args.filter_map(|arg| arg.into_owned()).collect(),
        env: env
            .filter_map(|variable| variable.name.into_owned().zip(variable.value.into_owned()))
            .collect(),
        cwd: params.cwd.into_owned(),
        output_byte_limit: params.output_byte_limit.0,
    })
}
