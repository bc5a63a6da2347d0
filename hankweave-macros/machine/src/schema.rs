//! JSON Schemas of stored values and events, for [`machine(Name, schema)`](macro@crate::machine) (feature `schema`).
//!
//! The macro implements [`JsonSchema`] for the stored enum, the event enum, the status and the phase, with the parts below. The types of fields
//! contribute their own schemas; a field whose type has none uses that of another type with `#[schema(Type)]`. A schema describes values as they
//! are written. It refuses fields of other states, like the code that reads stored values.

use alloc::string::ToString;
use alloc::vec::Vec;

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema};
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::Name;

/// One field of an object.
#[derive(Debug)]
pub struct Property {
    /// Stored name of the field.
    pub name: &'static str,
    /// Documentation of the field, may be empty.
    pub docs: &'static str,
    /// Whether the field must be there.
    pub required: bool,
    /// Schema of the value.
    pub schema: Schema,
}

/// The schema of `T` as a document of its own, with the schemas of all types that it mentions in `$defs`.
pub fn document<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().for_serialize();
    settings.into_generator().into_root_schema_for::<T>().to_value()
}

/// Schema of a value that has exactly one of several forms.
pub fn one_of(docs: &str, forms: impl IntoIterator<Item = Schema>) -> Schema {
    let forms: Vec<Schema> = forms.into_iter().collect();
    described(json!({ "oneOf": forms }), docs)
}

/// Schema of a value in one state: the tag, the fields of the state, and none of the names `elsewhere`, which only other states have.
pub fn state(
    tag: &str,
    name: &str,
    docs: &str,
    fields: impl IntoIterator<Item = Property>,
    elsewhere: &[&str],
) -> Schema {
    let mut schema = object(Some((tag, name)), fields);
    for other in elsewhere {
        schema["properties"][*other] = Value::Bool(false);
    }
    described(schema, docs)
}

/// Schema of the event of a step: the method and, if the caller supplies any fields, these as `metadata`.
pub fn event(method: &str, docs: &str, metadata: impl IntoIterator<Item = Property>) -> Schema {
    let mut metadata = metadata.into_iter().peekable();
    let metadata = metadata.peek().is_some().then(|| Property {
        name: "metadata",
        docs: "",
        required: true,
        schema: described(object(None, metadata), ""),
    });
    described(object(Some(("method", method)), metadata), docs)
}

/// Schema of the event of a live field's change: the method, and the value as `metadata`.
pub fn change(method: &str, docs: &str, value: Schema) -> Schema {
    let value = Property {
        name: "metadata",
        docs: "",
        required: true,
        schema: value,
    };
    described(object(Some(("method", method)), [value]), docs)
}

/// Schema of any name of a status or a phase.
pub fn names<N: Name>(docs: &str) -> Schema {
    described(json!({"type": "string", "enum": N::NAMES}), docs)
}

/// Schema of the given names of a status or a phase.
pub fn among<N: Name>(members: &[N]) -> Schema {
    let names: Vec<&str> = members.iter().map(|member| member.as_str()).collect();
    described(json!({"type": "string", "enum": names}), "")
}

/// Schema of a fixed field's one legal value; a schema that accepts anything if the value has no JSON form.
pub fn constant<T: Serialize>(value: &T) -> Schema {
    serde_json::to_value(value).map_or_else(
        |_| Schema::default(),
        |value| described(json!({ "const": value }), ""),
    )
}

/// Returns the schema of an object with these fields, and in front of them the tag that names the object.
fn object(tag: Option<(&str, &str)>, fields: impl IntoIterator<Item = Property>) -> Value {
    let mut properties = Map::new();
    let mut required = Vec::new();
    if let Some((name, text)) = tag {
        properties.insert(name.to_string(), json!({ "const": text }));
        required.push(name);
    }
    for field in fields {
        if field.required {
            required.push(field.name);
        }
        let schema = described(field.schema.to_value(), field.docs);
        properties.insert(field.name.to_string(), schema.to_value());
    }
    json!({"type": "object", "properties": properties, "required": required})
}

fn described(mut schema: Value, docs: &str) -> Schema {
    if !docs.is_empty()
        && let Value::Object(object) = &mut schema
    {
        object.insert("description".to_string(), Value::from(docs));
    }
    Schema::try_from(schema).unwrap_or_default()
}
