//! Parts of the JSON Schema of hank.json that cannot be derived from the types.

use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::{Map, Value, json};

use super::{AgentChoice, CodonConfig, LoopConfig};

/// Returns the schema of the list `hank`; a codon may leave out its type.
pub(super) fn items(generator: &mut SchemaGenerator) -> Schema {
    let (codon, loop_config) = (
        generator.subschema_for::<CodonConfig>(),
        generator.subschema_for::<LoopConfig>(),
    );
    json_schema!({
        "type": "array",
        "minItems": 1,
        "items": {
            "if": {"properties": {"type": {"const": "loop"}}, "required": ["type"]},
            "then": tagged(loop_config, "loop", true),
            "else": tagged(codon, "codon", false),
        },
    })
}

/// Returns the schema of the codons of a loop; loops do not nest.
pub(super) fn inner_codons(generator: &mut SchemaGenerator) -> Schema {
    let codon = generator.subschema_for::<CodonConfig>();
    json_schema!({"type": "array", "minItems": 1, "items": tagged(codon, "codon", false)})
}

fn tagged(schema: Schema, tag: &str, required: bool) -> Value {
    let required: &[&str] = if required { &["type"] } else { &[] };
    json!({
        "allOf": [schema, {"properties": {"type": {"const": tag}}, "required": required}],
        "unevaluatedProperties": false,
    })
}

pub(super) fn prompt(_: &mut SchemaGenerator) -> Schema {
    let mut schema = one_of("promptFile", "promptText");
    schema.insert(
        "anyOf".to_owned(),
        json!([{"required": ["promptFile"]}, {"required": ["promptText"]}]),
    );
    schema
}

pub(super) fn append_system_prompt(_: &mut SchemaGenerator) -> Schema {
    one_of("appendSystemPromptFile", "appendSystemPromptText")
}

/// Returns the schema of an approval: whether one is needed, or the question.
pub(super) fn approval(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "description": "Somebody has to approve before the codon begins: true, or the question that is shown to them.",
        "anyOf": [{"type": "boolean"}, {"type": "string", "minLength": 1}],
        "default": false,
    })
}

/// Returns the schema of the list of models and agents that take a codon over.
pub(super) fn fallback(generator: &mut SchemaGenerator) -> Schema {
    let agent = generator.subschema_for::<AgentChoice>();
    json_schema!({
        "description": "Models and agents that take a codon over at a usage limit, an outage or an unknown model, in their order: the name of a model, \"wait\", or an agent with its model and environment.",
        "type": "array",
        "items": {
            "anyOf": [
                {"const": "wait"},
                {"type": "string", "minLength": 1},
                {
                    "type": "object",
                    "properties": {
                        "agent": agent,
                        "model": {"type": "string", "minLength": 1},
                        "env": {"type": "object", "additionalProperties": {"type": "string"}},
                    },
                    "minProperties": 1,
                    "additionalProperties": false,
                },
            ],
        },
    })
}

/// Returns the schema of the effects that a codon must have.
pub(super) fn requires(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "description": "Effects that a codon must have to be a success: \"changes\" (a checkpointed file differs from the start of the codon), patterns of which each must match such a file (one with ! takes files out), or \"nothing\" (none is needed).",
        "anyOf": [
            {"enum": ["nothing", "changes"]},
            {"type": "array", "items": {"type": "string", "minLength": 1}, "minItems": 1},
        ],
    })
}

pub(super) fn global_system_prompt(_: &mut SchemaGenerator) -> Schema {
    one_of("globalSystemPromptFile", "globalSystemPromptText")
}

/// Returns the schema of the answers that an ACP agent gets when it asks before it acts: one for everything, or one for each kind of action.
pub(super) fn acp_permissions(_: &mut SchemaGenerator) -> Schema {
    let answer = json!({"enum": ["allow", "deny"]});
    json_schema!({
        "anyOf": [
            answer,
            {
                "type": "object",
                "properties": {"read": answer, "edit": answer, "execute": answer},
                "additionalProperties": false,
            },
        ],
        "default": "allow",
    })
}

/// Returns the schema of a text that comes from files or stands in hank.json, not both.
fn one_of(file: &str, text: &str) -> Schema {
    let path = json!({"type": "string", "minLength": 1});
    let files = json!({"anyOf": [path, {"type": "array", "items": path, "minItems": 1}]});
    let mut properties = Map::new();
    properties.insert(file.to_owned(), files);
    properties.insert(text.to_owned(), json!({"type": "string"}));
    json_schema!({
        "type": "object",
        "properties": properties,
        "not": {"required": [file, text]},
    })
}
