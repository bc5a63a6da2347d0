//! JSON Schemas of the files and messages that people and tools read and write, mostly derived from the types (feature `schema`).
//!
//! The schemas describe the present form. Forms that are only tolerated on reading (older spellings, `null` for an absent name, comments in hank.json) are left
//! out, so that an editor leads to the present one.

use std::borrow::Cow;

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Map, Value, json};

use crate::codon::{SentinelPhase, SentinelState, Sentinels};
use crate::cost::{RecordedTokens, TokenUsage, Usd};
use crate::document::HankweaveState;
use crate::event::StateEvent;
use crate::hank::{Hank, SentinelEntry, Setting, WITHOUT_EFFECT};
use crate::id::MODEL_NAME;
use crate::sentinel::{SentinelConfig, SentinelSettings};
use crate::time::Timestamp;
use crate::wire::{ClientRequest, Direct, JournalEntry, Response, ShaPrefix};

/// The schema of hank.json.
#[must_use]
pub fn hank() -> Value {
    for_editors(of::<Hank>("hank.json"))
}

/// The schema of a sentinel in a file of its own.
#[must_use]
pub fn sentinel() -> Value {
    for_editors(of::<SentinelConfig>("sentinel"))
}

/// The schema of state.json.
#[must_use]
pub fn state() -> Value {
    of::<HankweaveState>("state.json")
}

/// Returns the schema of everything that reports what happened: a state event, `{type, data}`, and what a client gets over the WebSocket. That is an
/// event of the journal, `{seq, id, timestamp, type, data}`, an event for one client, without `seq`, or the answer to its handshake.
#[must_use]
pub fn event() -> Value {
    of::<AnyEventSchema>("event")
}

/// The schema of a command that a client sends over the WebSocket, `{id, type, data?}`.
#[must_use]
pub fn command() -> Value {
    of::<ClientRequest>("command")
}

/// The schema of hankweave.json.
#[must_use]
pub fn config() -> Value {
    let (mut properties, mut budget) = (Map::new(), Map::new());
    properties.insert("$schema".to_owned(), json!({"type": "string"}));
    for setting in Setting::ALL {
        match setting.name().split_once('.') {
            Some((_, key)) => budget.insert(key.to_owned(), value_of(setting)),
            None => properties.insert(setting.name().to_owned(), value_of(setting)),
        };
    }
    let budget = json!({"type": "object", "properties": budget, "additionalProperties": false});
    properties.insert("budget".to_owned(), budget);
    properties.extend(WITHOUT_EFFECT.iter().map(|(key, why)| {
        let schema = json!({"deprecated": true, "description": format!("Has no effect: {why}.")});
        ((*key).to_owned(), schema)
    }));
    for_editors(json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "hankweave.json",
        "type": "object",
        "properties": properties,
        "additionalProperties": false,
    }))
}

/// Returns the schema of a setting's value.
fn value_of(setting: Setting) -> Value {
    let mut schema = match setting {
        Setting::Port => json!({"type": "integer", "minimum": 0, "maximum": 65_535}),
        Setting::Autostart | Setting::IgnoreRigFailures => json!({"type": "boolean"}),
        Setting::Agent => agent(),
        Setting::Model => json!({"type": "string", "pattern": MODEL_NAME}),
        Setting::AnthropicBaseUrl => json!({"type": "string", "pattern": "^https?://"}),
        Setting::OutputDirectory | Setting::Notify | Setting::Registry | Setting::Remote => {
            json!({"type": "string", "minLength": 1})
        }
        Setting::DataHashTimeLimit => json!({"type": "integer", "minimum": 1}),
        Setting::CheckpointedFileLimitMb => {
            json!({"type": "integer", "minimum": 1, "maximum": 1_048_576})
        }
        Setting::ShimIdleTimeout => json!({"type": "integer", "minimum": 1, "maximum": 1_800}),
        Setting::SettleSeconds | Setting::MaxBackgroundSeconds => {
            json!({"type": "integer", "minimum": 1, "maximum": 86_400})
        }
        Setting::MaxWaitSeconds => json!({"type": "integer", "minimum": 0}),
        Setting::MaxDollars | Setting::MaxTimeSeconds | Setting::MaxDiskGb => {
            json!({"type": "number", "exclusiveMinimum": 0})
        }
        Setting::Prices => json!({"anyOf": [{"type": "string", "minLength": 1}, prices()]}),
    };
    if let Some(default) = setting.default() {
        schema["default"] = json!(default);
    }
    schema
}

/// An agent by its name or its program, as codons have it as well.
fn agent() -> Value {
    let words = json!({"type": "array", "items": {"type": "string"}, "minItems": 1});
    let permission = json!({"enum": ["allow", "deny"]});
    let each = json!({"read": permission, "edit": permission, "execute": permission});
    let acp = json!({
        "acp": words,
        "permissions": {"anyOf": [permission, {"type": "object", "properties": each, "additionalProperties": false}]},
        "auth": {"type": "string", "minLength": 1},
    });
    let command = json!({"command": words, "stream": {"type": "string"}});
    json!({"anyOf": [
        {"type": "string", "minLength": 1},
        {"type": "object", "properties": acp, "required": ["acp"], "additionalProperties": false},
        {"type": "object", "properties": command, "required": ["command", "stream"], "additionalProperties": false},
    ]})
}

/// Prices of single models, as a file of prices has them as well.
fn prices() -> Value {
    let dollars = json!({"type": "number", "minimum": 0, "maximum": 1_000_000});
    let mut rates: Map<String, Value> = ["input", "output", "cacheWrite", "cacheWrite1h", "cacheRead"]
        .map(|key| (key.to_owned(), dollars.clone()))
        .into_iter()
        .collect();
    let mut long = rates.clone();
    long.insert("aboveTokens".to_owned(), json!({"type": "integer", "minimum": 1}));
    rates.insert("webSearch".to_owned(), dollars);
    rates.insert("from".to_owned(), json!({"type": "string"}));
    let required = ["aboveTokens", "input", "output"];
    let long =
        json!({"type": "object", "properties": long, "required": required, "additionalProperties": false});
    rates.insert("longPrompt".to_owned(), long);
    for tier in ["priority", "flex"] {
        let multiple = json!({"type": "number", "minimum": 0, "maximum": 1_000});
        rates.insert(tier.to_owned(), multiple);
    }
    rates.insert(
        "contextWindow".to_owned(),
        json!({"type": "integer", "minimum": 1}),
    );
    let rate = json!({"type": "object", "properties": rates, "required": ["input", "output"], "additionalProperties": false});
    let text = json!({"type": "string"});
    json!({
        "type": "object",
        "properties": {
            "$schema": text,
            "asOf": text,
            "unit": text,
            "sources": {"type": "array", "items": text},
            "models": {"type": "object", "additionalProperties": rate},
        },
        "required": ["models"],
        "additionalProperties": false,
    })
}

/// Events, as clients get them.
struct AnyEventSchema;

impl JsonSchema for AnyEventSchema {
    fn schema_name() -> Cow<'static, str> {
        "Told".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let forms = [
            generator.subschema_for::<StateEvent>(),
            generator.subschema_for::<JournalEntry>(),
            generator.subschema_for::<Direct>(),
            generator.subschema_for::<Response>(),
        ];
        json_schema!({"anyOf": forms})
    }
}

/// Adds the words by which VS Code knows that a file of this schema may hold comments and trailing commas. Other tools ignore these words.
fn for_editors(mut schema: Value) -> Value {
    schema["allowComments"] = json!(true);
    schema["allowTrailingCommas"] = json!(true);
    schema
}

/// Returns the schema of a type as a document.
fn of<T: JsonSchema>(title: &str) -> Value {
    let settings = SchemaSettings::draft2020_12().for_serialize();
    let mut schema = settings.into_generator().into_root_schema_for::<T>();
    schema.insert("title".to_owned(), json!(title));
    schema.to_value()
}

/// Implements `JsonSchema` for types outside of this module with a fixed name and schema.
macro_rules! text {
    ($($type:ty, $name:literal, $schema:tt;)*) => {
        $(impl JsonSchema for $type {
            fn schema_name() -> Cow<'static, str> {
                $name.into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!($schema)
            }
        })*
    };
}

text! {
    ShaPrefix, "ShaPrefix", {"type": "string", "pattern": ShaPrefix::PATTERN};
    Timestamp, "Timestamp", {"type": "string", "format": "date-time"};
    Usd, "Usd", {"type": "number", "minimum": 0, "description": "US dollars"};
}

impl<P: SentinelPhase> JsonSchema for Sentinels<P> {
    fn schema_name() -> Cow<'static, str> {
        format!("Sentinels_{}", P::KEY).into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let sentinel = generator.subschema_for::<SentinelState>();
        let mut properties = Map::new();
        properties.insert(P::KEY.to_owned(), json!({"type": "array", "items": sentinel}));
        properties.insert("totalCost".to_owned(), json!(generator.subschema_for::<Usd>()));
        json_schema!({"type": "object", "properties": properties, "required": [P::KEY, "totalCost"]})
    }
}

/// In the types of a hank the configuration of a sentinel is plain JSON; the schema refers to the types that later read it.
impl JsonSchema for SentinelEntry {
    fn schema_name() -> Cow<'static, str> {
        "SentinelEntry".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let file = json!({"type": "string", "description": "A file, relative to the folder of hank.json."});
        let inline = generator.subschema_for::<SentinelConfig>();
        let settings = generator.subschema_for::<SentinelSettings>();
        json_schema!({
            "type": "object",
            "description": "A sentinel of a codon.",
            "properties": {"sentinelConfig": {"anyOf": [file, inline]}, "settings": settings},
            "required": ["sentinelConfig"],
            "additionalProperties": false,
        })
    }
}

impl JsonSchema for RecordedTokens {
    fn schema_name() -> Cow<'static, str> {
        TokenUsage::schema_name()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        TokenUsage::json_schema(generator)
    }
}
