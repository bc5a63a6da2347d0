//! Makes up a result that fits the schema of a codon's `result`: the answer of the scripted agent when it has no script (AGENT-70).

use std::cell::Cell;

use serde_json::{Map, Value};

use super::result::AskedResult;

/// Maximum depth to which the parts of a schema are followed: a schema that refers to itself has no end.
const MAX_DEPTH: usize = 12;

/// Maximum of parts that are followed in all: a schema that refers to itself several times grows with each level.
const MAX_PARTS: usize = 1_000;

/// Longest list, or longest padding of a text, that an example gets.
const LONGEST: usize = 256;

impl AskedResult {
    /// Returns an object that fits the usual keywords of its schema. Each value is an example, default or choice of the schema, else the smallest
    /// value of the type. For schemas with other keywords the object may not fit.
    #[must_use]
    pub fn example(&self) -> Option<Map<String, Value>> {
        let root = Value::from(self.schema.clone());
        match example(&root, &root, &Cell::new(MAX_PARTS), 0)? {
            Value::Object(object) => Some(object),
            _ => None,
        }
    }
}

/// Returns an example for `schema`, a part of `root`. `parts_left` is the number of parts that may still be followed.
fn example(schema: &Value, root: &Value, parts_left: &Cell<usize>, depth: usize) -> Option<Value> {
    parts_left.set(parts_left.get().checked_sub(1)?);
    if depth > MAX_DEPTH || *schema == Value::Bool(false) {
        return None;
    }
    let inner = |schema: &Value| example(schema, root, parts_left, depth + 1);
    let first = |key: &str| schema.get(key)?.as_array()?.first().cloned();
    let stated = schema.get("const").or_else(|| schema.get("default")).cloned();
    if let Some(stated) = first("examples").or(stated).or_else(|| first("enum")) {
        return Some(stated);
    }
    if let Some(pointer) = schema.get("$ref") {
        return inner(root.pointer(pointer.as_str()?.strip_prefix('#')?)?);
    }
    for choices in ["anyOf", "oneOf"] {
        if let Some(choices) = schema.get(choices).and_then(Value::as_array) {
            return choices.iter().find_map(inner);
        }
    }
    match type_of(schema)? {
        "object" => object(schema, inner),
        "array" => list(schema, inner),
        "string" => text(schema).map(Value::from),
        "integer" | "number" => Some(number(schema)),
        "boolean" => Some(true.into()),
        "null" => Some(Value::Null),
        _ => None,
    }
}

/// Returns the first type that a schema allows. Without a `type`, its keywords show an object or a list; otherwise it is a string.
fn type_of(schema: &Value) -> Option<&str> {
    match schema.get("type") {
        Some(Value::Array(types)) => types.first()?.as_str(),
        Some(named) => named.as_str(),
        None if schema.get("properties").is_some() => Some("object"),
        None if schema.get("items").is_some() => Some("array"),
        None => Some("string"),
    }
}

/// Returns an object with all keys that have an example: later prompts may use keys that are not required, too.
fn object(schema: &Value, inner: impl Fn(&Value) -> Option<Value>) -> Option<Value> {
    let properties = schema.get("properties").and_then(Value::as_object);
    let properties = properties.into_iter().flatten();
    let filled = properties.filter_map(|(key, schema)| Some((key.clone(), inner(schema)?)));
    let mut object: Map<String, Value> = filled.collect();
    let required = schema.get("required").and_then(Value::as_array);
    for key in required.into_iter().flatten().filter_map(Value::as_str) {
        if !object.contains_key(key) {
            // A required key without a schema gets a made-up value. If its schema has no example, no object fits.
            let is_described = schema
                .get("properties")
                .is_some_and(|keys| keys.get(key).is_some());
            let value = (!is_described).then(|| Value::from("example"))?;
            object.insert(key.to_owned(), value);
        }
    }
    Some(object.into())
}

/// Returns a list with one entry, or with more if the schema requires them.
fn list(schema: &Value, inner: impl Fn(&Value) -> Option<Value>) -> Option<Value> {
    let number = |key: &str| schema.get(key).and_then(Value::as_u64);
    let least = number("minItems").unwrap_or(0);
    let count = least.max(1).min(number("maxItems").unwrap_or(u64::MAX));
    let count = usize::try_from(count).unwrap_or(LONGEST).min(LONGEST);
    let entry = schema.get("items").map_or_else(|| Some("example".into()), inner);
    match entry {
        Some(entry) => Some(vec![entry; count].into()),
        None => (least == 0).then(|| Vec::<Value>::new().into()),
    }
}

fn text(schema: &Value) -> Option<String> {
    let format = schema.get("format").and_then(Value::as_str);
    let text = match format {
        Some("date") => "2026-01-01",
        Some("date-time") => "2026-01-01T00:00:00Z",
        Some("time") => "00:00:00Z",
        Some("email") => "example@example.com",
        Some("uri" | "url") => "https://example.com",
        Some("uuid") => "00000000-0000-4000-8000-000000000000",
        Some(_) | None => "example",
    };
    let length = |key: &str| {
        let length = schema.get(key).and_then(Value::as_u64)?;
        usize::try_from(length).ok()
    };
    let (least, most) = (
        length("minLength").unwrap_or(0),
        length("maxLength").unwrap_or(usize::MAX),
    );
    let missing = least.saturating_sub(text.len()).min(LONGEST);
    let padding = std::iter::repeat_n('x', missing);
    Some(text.chars().chain(padding).take(most).collect())
}

/// Returns the whole number within the limits that is nearest to 0.
fn number(schema: &Value) -> Value {
    let limit = |key: &str| schema.get(key).and_then(Value::as_f64);
    let above = limit("exclusiveMinimum").map(|limit| limit.floor() + 1.0);
    let below = limit("exclusiveMaximum").map(|limit| limit.ceil() - 1.0);
    let least = limit("minimum").map(f64::ceil).into_iter().chain(above);
    let most = limit("maximum").map(f64::floor).into_iter().chain(below);
    let number = least.fold(0.0, f64::max);
    let number = most.fold(number, f64::min);
    // A number too large for an `i64` becomes the largest one, and then does not fit the schema.
    Value::from(number as i64)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn example_of(schema: &Value) -> Option<Value> {
        let schema = schema.as_object().unwrap().clone();
        let asked = AskedResult { schema, file: None };
        asked.example().map(Value::from)
    }

    // covers: AGENT-70
    #[test]
    fn an_example_has_all_keys_with_the_smallest_values_that_fit() {
        let schema = json!({"type": "object", "required": ["files", "free"], "properties": {
            "files": {"type": "array", "items": {"type": "string", "minLength": 9}, "minItems": 2},
            "size": {"type": "integer", "minimum": 3}, "less": {"type": "number", "exclusiveMaximum": -1},
            "kind": {"enum": ["new", "old"]}, "day": {"type": "string", "format": "date"},
            "ok": {"type": ["boolean", "null"]}, "who": {"$ref": "#/$defs/who"}, "either": {"anyOf": [false, {"const": 7}]}},
            "$defs": {"who": {"type": "object", "properties": {"name": {"type": "string", "default": "Ada"}, "boss": {"$ref": "#/$defs/who"}}}}});
        let made = example_of(&schema).unwrap();
        assert_eq!(made["files"], json!(["examplexx", "examplexx"]));
        assert_eq!(
            (&made["size"], &made["less"], &made["either"]),
            (&json!(3), &json!(-2), &json!(7))
        );
        assert_eq!(
            (&made["kind"], &made["day"], &made["ok"]),
            (&json!("new"), &json!("2026-01-01"), &json!(true))
        );
        assert_eq!(
            (&made["who"]["name"], &made["free"]),
            (&json!("Ada"), &json!("example"))
        );
        let given = json!({"type": "object", "examples": [{"id": "AB-1"}], "properties": {"id": {"pattern": "^[A-Z]+-1$"}}});
        assert_eq!(example_of(&given), Some(json!({"id": "AB-1"})));
        let endless = json!({"type": "object", "required": ["next"], "properties": {"next": {"$ref": "#"}}});
        assert_eq!(example_of(&endless), None, "it has no end");
    }
}
