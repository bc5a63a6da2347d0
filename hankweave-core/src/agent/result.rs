//! Form of the answer that a codon must end with (HANK-90).

use serde::Serialize;
use serde_json::{Map, Value};

/// Form of the answer that a codon must end with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct AskedResult {
    /// JSON Schema of the answer, whose `type` is `object`, or the path of a file with it.
    // With a file it is empty until the hank is loaded.
    #[cfg_attr(feature = "schema", schemars(schema_with = "schema_or_file"))]
    pub schema: Map<String, Value>,
    /// The file of the schema, which is read once, when the hank is loaded: what is checked is what runs.
    #[serde(skip)]
    pub file: Option<String>,
}

#[cfg(feature = "schema")]
fn schema_or_file(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({"anyOf": [{"type": "object"}, {"type": "string", "minLength": 1}]})
}

impl AskedResult {
    /// Longest result as JSON, in bytes; also the longest schema.
    pub const MAX_BYTES: usize = 16 << 10;

    /// Beginning of the failure message of a codon whose answer does not fit.
    pub const UNMET: &'static str = "its answer is no result (`result`)";

    /// Returns the text that is added to the prompt of an agent that takes no schema.
    #[must_use]
    pub fn request(&self) -> String {
        let schema = Value::from(self.schema.clone());
        format!(
            "When you have finished, end with an answer that is one JSON object and nothing else. It must fit this JSON Schema:\n\n{schema:#}"
        )
    }

    /// Whether providers with strict rules take this schema: each object requires all its keys and allows no others.
    #[must_use]
    pub fn is_strict(&self) -> bool {
        is_strict(&self.schema)
    }
}

/// Keywords whose meaning strict providers know, besides those of objects, lists and choices.
const PLAIN: [&str; 6] = ["type", "description", "title", "enum", "const", "$schema"];

fn is_strict(schema: &Map<String, Value>) -> bool {
    let is_nested = |value: &Value| value.as_object().is_some_and(is_strict);
    schema.iter().all(|(keyword, value)| match keyword.as_str() {
        "properties" => value
            .as_object()
            .is_some_and(|properties| properties.values().all(is_nested)),
        "items" => is_nested(value),
        "anyOf" => value
            .as_array()
            .is_some_and(|choices| choices.iter().all(is_nested)),
        "required" => true,
        "additionalProperties" => *value == Value::Bool(false),
        keyword => PLAIN.contains(&keyword),
    }) && is_typed(schema)
        && is_closed(schema)
}

/// Whether the schema says what the value is, and a list what its entries are.
fn is_typed(schema: &Map<String, Value>) -> bool {
    let has = |keyword| schema.contains_key(keyword);
    (has("type") || has("anyOf")) && (!has_type(schema, "array") || has("items"))
}

fn has_type(schema: &Map<String, Value>, name: &str) -> bool {
    schema.get("type").is_some_and(|types| match types {
        Value::Array(types) => types.contains(&name.into()),
        types => types == name,
    })
}

/// Whether the schema of an object requires all its keys and allows no others.
fn is_closed(schema: &Map<String, Value>) -> bool {
    if !has_type(schema, "object") {
        return !schema.contains_key("properties");
    }
    let no_keys = Map::new();
    let properties = schema
        .get("properties")
        .and_then(Value::as_object)
        .unwrap_or(&no_keys);
    let required = schema.get("required").and_then(Value::as_array);
    let is_required = |key: &String| required.is_some_and(|required| required.contains(&key.as_str().into()));
    schema.contains_key("additionalProperties") && properties.keys().all(is_required)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn asked(schema: &Value) -> AskedResult {
        let schema = schema.as_object().unwrap().clone();
        AskedResult { schema, file: None }
    }

    // covers: AGENT-70
    #[test]
    fn a_strict_schema_requires_all_keys_and_allows_no_others() {
        let files = json!({"type": "array", "items": {"type": "string"}});
        let object = |required: Value| json!({"type": "object", "properties": {"files": files}, "required": required, "additionalProperties": false});
        assert!(asked(&object(json!(["files"]))).is_strict());
        assert!(!asked(&object(json!([]))).is_strict(), "a key may be missing");
        let open = json!({"type": "object", "properties": {"files": files}, "required": ["files"]});
        assert!(!asked(&open).is_strict(), "there may be others");
        let inner = json!({"type": "object", "properties": {"a": open}, "required": ["a"], "additionalProperties": false});
        assert!(!asked(&inner).is_strict(), "an inner object counts as well");
        let other = json!({"type": "object", "additionalProperties": false, "minProperties": 1});
        assert!(!asked(&other).is_strict(), "a keyword that not all know");
        for untyped in [json!({}), json!({"enum": ["x"]}), json!({"type": "array"})] {
            let with = json!({"type": "object", "properties": {"a": untyped}, "required": ["a"], "additionalProperties": false});
            assert!(
                !asked(&with).is_strict(),
                "{untyped} does not say what the value is"
            );
        }
    }

    // covers: HANK-90
    #[test]
    fn the_request_holds_the_schema() {
        let request = asked(&json!({"type": "object"})).request();
        assert!(request.contains("one JSON object") && request.contains(r#""type": "object""#));
    }
}
