//! Reads codons, their agents and fallbacks, and the schemas of their results.

use std::collections::BTreeMap;

use jsonc_parser::ast::Value;

use super::options::agent_options;
use super::{
    at_least_one, dollars, globs, model, name_item, on_background_cut, on_exceeded, prompt_source, reference,
    requires, rig, seconds_of_silence, seconds_to_settle, sentinel,
};
use crate::agent::{AskedResult, Permission, Permissions};
use crate::hank::agent::{AcpAgent, AgentChoice, AgentCommand};
use crate::hank::budget::CodonBudget;
use crate::hank::document::{
    ApprovalQuestion, Check, CodonConfig, ContinuationMode, Fallback, FallbackAgent, OnFailure, PromptSource,
    RetryConfig, WAIT,
};
use crate::hank::keys;
use crate::hank::problem::quoted;
use crate::hank::reader::{
    HankReader, JsonNode, ObjectFields, checked, choice, integer, non_empty_list, parsed,
};
use crate::id::{CodonId, check_configured_id};

/// Reads a codon. A missing or invalid id, name or prompt is reported. Parts that cannot be read are replaced, so that the rest of the codon is
/// still checked (HANK-1).
pub(super) fn codon(reader: &mut HankReader<'_>, node: &JsonNode<'_>) -> Option<CodonConfig> {
    name_item(reader, node, "codon");
    let fields = reader.fields(node, &keys::CODON)?;
    let id = fields.required(reader, "id", codon_id);
    let agent = fields.optional(reader, "agent", agent);
    let on_failure = fields.optional(reader, "onFailure", on_failure);
    let continuation_mode = fields.required(reader, "continuationMode", continuation_mode);
    Some(CodonConfig {
        name: fields
            .required(reader, "name", HankReader::non_empty)
            .unwrap_or_default(),
        description: fields.optional(reader, "description", HankReader::string),
        model: codon_model(reader, &fields, agent.as_ref()),
        agent,
        prompt: prompt(reader, &fields),
        append_system_prompt: prompt_source(
            reader,
            &fields,
            ["appendSystemPromptFile", "appendSystemPromptText"],
        ),
        rig_setup: fields.or_default(reader, "rigSetup", rig::rig_setup),
        checkpointed_files: fields.or_default(reader, "checkpointedFiles", globs),
        env: fields.or_default(reader, "env", environment),
        output_files: fields.or_default(reader, "outputFiles", rig::output_files),
        sentinels: fields.or_default(reader, "sentinels", sentinel::sentinels),
        archive_on_success: fields.or_default(reader, "archiveOnSuccess", globs),
        retry_config: retry_config(reader, &fields, on_failure),
        on_failure,
        fallback: fields.optional(reader, "fallback", fallback),
        exhaust_with_prompt: fields.optional(reader, "exhaustWithPrompt", HankReader::non_empty),
        max_extensions: fields.optional(reader, "maxExtensions", at_least_one),
        check: fields.optional(reader, "check", check),
        requires: fields.optional(reader, "requires", requires),
        result: fields.optional(reader, "result", result_or_any),
        auto_compact: fields.optional(reader, "autoCompact", HankReader::boolean),
        shim_idle_timeout: fields.optional(reader, "shimIdleTimeout", seconds_of_silence),
        settle_seconds: fields.optional(reader, "settleSeconds", seconds_to_settle),
        max_background_seconds: fields.optional(reader, "maxBackgroundSeconds", seconds_to_settle),
        on_background_cut: fields.optional(reader, "onBackgroundCut", on_background_cut),
        agent_options: agent_options(reader, &fields),
        budget: fields.optional(reader, "budget", budget),
        approval: fields.optional(reader, "approval", approval).flatten(),
        id: id.unwrap_or_else(|| stand_in_id(reader)),
        continuation_mode: continuation_mode.unwrap_or_else(|| {
            reader.has_unread_links = true;
            ContinuationMode::Fresh
        }),
    })
}

fn stand_in_id(reader: &mut HankReader<'_>) -> CodonId {
    CodonId::new(reader.stand_in_id()).expect("its characters are those of an id")
}

fn agent(reader: &mut HankReader<'_>, node: &JsonNode<'_>) -> Option<AgentChoice> {
    match node.value {
        Value::Object(object) if object.get("script").is_some() => {
            let fields = reader.fields(node, &keys::AGENT_SCRIPT)?;
            fields
                .required(reader, "script", reference)
                .map(|script| AgentChoice::Script { script })
        }
        Value::Object(object) if object.get("acp").is_some() => {
            let fields = reader.fields(node, &keys::AGENT_ACP)?;
            let acp = fields.required(reader, "acp", non_empty_list(argument));
            let permissions = fields.optional(reader, "permissions", permissions);
            let auth = fields.optional(reader, "auth", HankReader::non_empty);
            Some(AgentChoice::Acp(AcpAgent {
                acp: acp?,
                permissions,
                auth,
            }))
        }
        Value::Object(_) => {
            let fields = reader.fields(node, &keys::AGENT_COMMAND)?;
            let command = fields.required(reader, "command", non_empty_list(argument));
            let stream = fields.required(reader, "stream", agent_name);
            Some(AgentChoice::Command(AgentCommand {
                command: command?,
                stream: stream?,
            }))
        }
        Value::StringLit(_) => agent_name(reader, node).map(AgentChoice::Named),
        _ => {
            let hint = r#"write "claude", { "command": ["program"], "stream": "claude" }, { "acp": ["program"] } or { "script": "script.json" }"#;
            reader.refuse_with_hint(node, "must be the name of an agent or an object", hint)
        }
    }
}

/// Reads the agent of all codons. A script is refused: it is a file of the hank, and each codon has its own.
pub(in crate::hank) fn agent_of_all(reader: &mut HankReader<'_>, node: &JsonNode<'_>) -> Option<AgentChoice> {
    match agent(reader, node)? {
        AgentChoice::Script { .. } => {
            let hint = r#"write "scripted", which keeps the scripts that the codons have"#;
            reader.refuse_with_hint(node, "only a codon has a script", hint)
        }
        choice => Some(choice),
    }
}

/// Reads the permissions; an absent one is granted.
fn permissions(reader: &mut HankReader<'_>, node: &JsonNode<'_>) -> Option<Permissions> {
    if !matches!(node.value, Value::Object(_)) {
        return permission(reader, node).map(Permissions::all);
    }
    let fields = reader.fields(node, &keys::PERMISSIONS)?;
    let mut permission_at = |key| {
        let answer = fields.optional(reader, key, permission);
        answer.unwrap_or(Permission::Allow)
    };
    Some(Permissions {
        read: permission_at("read"),
        edit: permission_at("edit"),
        execute: permission_at("execute"),
    })
}

fn permission(reader: &mut HankReader<'_>, node: &JsonNode<'_>) -> Option<Permission> {
    choice(&[("allow", Permission::Allow), ("deny", Permission::Deny)])(reader, node)
}

/// Reads the name of an agent. It becomes part of file names, so the rules of ids apply.
fn agent_name(reader: &mut HankReader<'_>, node: &JsonNode<'_>) -> Option<String> {
    checked(check_configured_id)(reader, node)
}

fn argument(reader: &mut HankReader<'_>, node: &JsonNode<'_>) -> Option<String> {
    let is_program = node.path.ends_with("[0]");
    checked(|argument| match argument {
        "" if is_program => Err("must be the name of a program"),
        argument => without_nul(argument),
    })(reader, node)
}

/// Reads the list of agents and models that take a codon over. A second `"wait"` in a row is refused: it would wait for nothing.
pub(in crate::hank) fn fallback(reader: &mut HankReader<'_>, node: &JsonNode<'_>) -> Option<Vec<Fallback>> {
    let hint = r#"write such as ["claude-sonnet-5", { "agent": "codex", "model": "gpt-5.6" }, "wait"]"#;
    let Value::Array(_) = node.value else {
        return reader.refuse_with_hint(node, "must be a list of models and agents", hint);
    };
    let mut waits_before = false;
    reader.list(node, |reader, node| {
        // An unreadable entry keeps its position in the list: it is replaced by `Wait`, but does not count as one.
        let entry = fallback_entry(reader, node, hint);
        let waits = entry == Some(Fallback::Wait);
        if waits && waits_before {
            reader.error(node, "waits already: `wait` stands before it");
        }
        waits_before = waits;
        Some(entry.unwrap_or(Fallback::Wait))
    })
}

fn fallback_entry(reader: &mut HankReader<'_>, node: &JsonNode<'_>, hint: &str) -> Option<Fallback> {
    match node.value {
        Value::StringLit(text) if text.value == WAIT => Some(Fallback::Wait),
        Value::StringLit(_) => {
            let model = Some(model(reader, node)?);
            Some(Fallback::Agent(FallbackAgent {
                model,
                ..FallbackAgent::default()
            }))
        }
        Value::Object(_) => {
            let fields = reader.fields(node, &keys::FALLBACK)?;
            let agent = fields.optional(reader, "agent", agent);
            let needs_model = agent.as_ref().is_some_and(|agent| !agent.works_without_model());
            let model = match needs_model {
                true => fields.required(reader, "model", model),
                false => fields.optional(reader, "model", model),
            };
            let env = fields.or_default(reader, "env", environment);
            if agent.is_none() && model.is_none() && env.is_empty() {
                return reader.refuse_with_hint(node, "must name a model, an agent or an environment", hint);
            }
            Some(Fallback::Agent(FallbackAgent { agent, model, env }))
        }
        _ => reader.refuse_with_hint(node, "must be a model, \"wait\" or an object", hint),
    }
}

pub(super) fn without_nul(text: &str) -> Result<(), &'static str> {
    match text.contains('\0') {
        true => Err("must not contain a NUL character"),
        false => Ok(()),
    }
}

fn codon_model(
    reader: &mut HankReader<'_>,
    fields: &ObjectFields<'_>,
    agent: Option<&AgentChoice>,
) -> Option<String> {
    // A mistake in the agent is reported; whether the agent needs a model is unknown then.
    let is_unreadable = agent.is_none() && fields.get("agent").is_some();
    if is_unreadable || agent.is_some_and(AgentChoice::works_without_model) {
        fields.optional(reader, "model", model)
    } else {
        fields.required(reader, "model", model)
    }
}

/// Reads the prompt of a codon; a missing one is reported and replaced by an empty one (HANK-5).
fn prompt(reader: &mut HankReader<'_>, fields: &ObjectFields<'_>) -> PromptSource {
    let keys = ["promptFile", "promptText"];
    if keys.iter().all(|key| fields.get(key).is_none()) {
        let hint = "a codon needs a promptFile or a promptText";
        fields.missing(reader, "promptFile", Some(hint));
    }
    prompt_source(reader, fields, keys).unwrap_or_else(|| PromptSource::Text(String::new()))
}

fn continuation_mode(reader: &mut HankReader<'_>, node: &JsonNode<'_>) -> Option<ContinuationMode> {
    match node.value {
        Value::Object(_) => {
            let fields = reader.fields(node, &keys::CONTINUATION)?;
            let fork = fields.required(reader, "fork", codon_id)?;
            Some(ContinuationMode::Fork(fork))
        }
        Value::StringLit(_) => {
            let is_fresh = choice(&[("fresh", true), ("continue-previous", false)])(reader, node)?;
            Some(match is_fresh {
                true => ContinuationMode::Fresh,
                false => ContinuationMode::ContinuePrevious,
            })
        }
        _ => {
            let hint =
                r#"write "fresh", "continue-previous" or { "fork": "ID" } with the id of an earlier codon"#;
            reader.refuse_with_hint(node, "must be a word, or an object with `fork`", hint)
        }
    }
}

/// Reads the id of a codon as hank.json has it: without the `#` that would begin the number of an iteration.
fn codon_id(reader: &mut HankReader<'_>, node: &JsonNode<'_>) -> Option<CodonId> {
    parsed(|id| check_configured_id(id).and_then(|()| CodonId::new(id).map_err(|error| error.reason)))(
        reader, node,
    )
}

fn on_failure(reader: &mut HankReader<'_>, node: &JsonNode<'_>) -> Option<OnFailure> {
    use OnFailure::{Abort, Ignore, Retry};
    choice(&[("abort", Abort), ("retry", Retry), ("ignore", Ignore)])(reader, node)
}

fn retry_config(
    reader: &mut HankReader<'_>,
    fields: &ObjectFields<'_>,
    policy: Option<OnFailure>,
) -> Option<RetryConfig> {
    let node = fields.get("retryConfig")?;
    if policy != Some(OnFailure::Retry) {
        let hint = r#"add "onFailure": "retry""#;
        reader.refuse_with_hint::<()>(&node, "needs `onFailure` to be retry", hint);
    }
    let fields = reader.fields(&node, &keys::RETRY)?;
    Some(RetryConfig {
        max_attempts: fields.optional(reader, "maxAttempts", integer(1..=10)),
        delay_ms: fields.optional(reader, "delayMs", integer(0..=60_000)),
        max_delay_ms: fields.optional(reader, "maxDelayMs", integer(0..=600_000)),
    })
}

fn check(reader: &mut HankReader<'_>, node: &JsonNode<'_>) -> Option<Check> {
    let fields = reader.fields(node, &keys::CHECK)?;
    let retries = fields.optional(reader, "retries", integer(0..=100));
    let run = fields.required(reader, "run", HankReader::non_empty)?;
    Some(Check { run, retries })
}

/// Reads the form of the answer. A form that cannot be read is replaced by one that allows any answer, so that references may name it.
fn result_or_any(reader: &mut HankReader<'_>, node: &JsonNode<'_>) -> Option<AskedResult> {
    let any = || AskedResult {
        schema: serde_json::Map::new(),
        file: None,
    };
    Some(result(reader, node).unwrap_or_else(any))
}

/// Reads the form of the answer. Whether the schema is a valid one is checked later, by the runtime.
fn result(reader: &mut HankReader<'_>, node: &JsonNode<'_>) -> Option<AskedResult> {
    let fields = reader.fields(node, &keys::RESULT)?;
    let is_file = fields
        .get("schema")
        .is_some_and(|node| matches!(node.value, Value::StringLit(_)));
    if is_file {
        let file = Some(fields.required(reader, "schema", reference)?);
        let schema = serde_json::Map::new();
        return Some(AskedResult { schema, file });
    }
    let schema = fields.required(reader, "schema", result_schema)?;
    Some(AskedResult { schema, file: None })
}

/// Reads the schema of a result, which stands in hank.json or is the content of its own file.
pub(in crate::hank) fn result_schema(
    reader: &mut HankReader<'_>,
    node: &JsonNode<'_>,
) -> Option<serde_json::Map<String, serde_json::Value>> {
    let schema = reader.json_object(node)?;
    if schema.get("type") != Some(&"object".into()) {
        let hint = r#"write { "type": "object", "properties": { "files": … } }"#;
        return reader.refuse_with_hint(node, "must have the type object: a result has keys", hint);
    }
    let length = serde_json::Value::from(schema.clone()).to_string().len();
    if length > AskedResult::MAX_BYTES {
        let message = format!(
            "has {length} bytes; a schema has at most {}",
            AskedResult::MAX_BYTES
        );
        return reader.refuse(node, message);
    }
    Some(schema)
}

/// Reads variables for the agent. Their values may be secrets and never become part of a message.
pub(super) fn environment(
    reader: &mut HankReader<'_>,
    node: &JsonNode<'_>,
) -> Option<BTreeMap<String, String>> {
    reader.map(node, |reader, name, node| {
        if name.is_empty() || name.contains(['=', '\0']) {
            let message = format!("{} is no name for an environment variable", quoted(name));
            reader.error(node, message);
        }
        checked(without_nul)(reader, node)
    })
}

/// Reads `true`, `false` or a question. The inner `None` means `false`: no approval is needed.
fn approval(reader: &mut HankReader<'_>, node: &JsonNode<'_>) -> Option<Option<ApprovalQuestion>> {
    match node.value {
        Value::BooleanLit(literal) => Some(literal.value.then_some(ApprovalQuestion { question: None })),
        Value::StringLit(_) => {
            let question = Some(HankReader::non_empty(reader, node)?);
            Some(Some(ApprovalQuestion { question }))
        }
        _ => reader.refuse_with_hint(
            node,
            "must be true, false or a question",
            r#"write true, or "Deploy to production?""#,
        ),
    }
}

fn budget(reader: &mut HankReader<'_>, node: &JsonNode<'_>) -> Option<CodonBudget> {
    let fields = reader.fields(node, &keys::CODON_BUDGET)?;
    Some(CodonBudget {
        max_dollars: fields.optional(reader, "maxDollars", dollars),
        max_time_seconds: fields.optional(reader, "maxTimeSeconds", HankReader::positive),
        max_output_tokens: fields.optional(reader, "maxOutputTokens", at_least_one),
        max_context_tokens: fields.optional(reader, "maxContextTokens", at_least_one),
        on_exceeded: fields.optional(reader, "onExceeded", on_exceeded),
    })
}
