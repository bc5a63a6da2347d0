//! The form that the answer of a model must have, as a JSON Schema, and the answer in that form (SENT-17).

use serde_json::{Map, Value, json};

use crate::sentinel::{StructuredKind, StructuredOutput};

/// The form of the answers of one sentinel. Models are always asked for an object, so a list or a word is wrapped in one, as its only value.
#[derive(Debug, Clone, PartialEq)]
pub struct AnswerSchema {
    kind: StructuredKind,
    name: String,
    description: Option<String>,
    schema: Value,
}

impl AnswerSchema {
    /// Returns the form that a sentinel configures; `schema` is the text of its schema, if it has one.
    ///
    /// # Errors
    ///
    /// The mistake in the schema.
    pub fn of(config: &StructuredOutput, schema: Option<&str>) -> Result<Self, String> {
        let written = || -> Result<Value, String> {
            let text = schema.ok_or("there is no schema")?;
            serde_json::from_str(text).map_err(|error| format!("the schema is no JSON: {error}"))
        };
        let schema = match config.output {
            StructuredKind::Object => {
                let mut schema = written()?;
                if let Some(object) = schema.as_object_mut() {
                    object.entry("type").or_insert_with(|| "object".into());
                }
                schema
            }
            StructuredKind::Array => wrap_in_object(ELEMENTS, json!({"type": "array", "items": written()?})),
            StructuredKind::Enum => {
                let words = config.enum_values.clone().unwrap_or_default();
                wrap_in_object(RESULT, json!({"type": "string", "enum": words}))
            }
        };
        if schema.get("type") != Some(&"object".into()) {
            return Err("the schema of an object must have the type `object`".to_owned());
        }
        Ok(Self {
            kind: config.output,
            name: config
                .schema_name
                .as_deref()
                .map_or_else(|| "answer".to_owned(), valid_name),
            description: config.schema_description.clone(),
            schema,
        })
    }

    /// Returns the name of the form for the model: letters, digits, `_` and `-`.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the description of the form for the model.
    #[must_use]
    pub fn description(&self) -> Option<&str> {
        self.description.as_deref()
    }

    /// Returns the JSON Schema of the model's answer; always that of an object.
    #[must_use]
    pub const fn schema(&self) -> &Value {
        &self.schema
    }

    /// Returns the object in a model's text; some models put it into a block of code.
    ///
    /// # Errors
    ///
    /// Fails when the text is no JSON.
    pub fn parse(text: &str) -> Result<Value, String> {
        let text = text.trim();
        let inner = text.strip_prefix("```").and_then(|rest| rest.strip_suffix("```"));
        let inner = inner.map(|rest| rest.strip_prefix("json").unwrap_or(rest));
        serde_json::from_str(inner.unwrap_or(text)).map_err(|error| format!("it is no JSON: {error}"))
    }

    /// Returns the answer out of an object that satisfies the schema: a list or a word is unwrapped.
    #[must_use]
    pub fn answer(&self, mut said: Value) -> Value {
        match self.kind {
            StructuredKind::Object => said,
            StructuredKind::Array => said[ELEMENTS].take(),
            StructuredKind::Enum => said[RESULT].take(),
        }
    }
}

/// Key of the list in the object around it.
const ELEMENTS: &str = "elements";
/// Key of the word in the object around it.
const RESULT: &str = "result";

/// Returns the schema of an object whose only value, at the key `name`, has the schema `inner`.
fn wrap_in_object(name: &str, mut inner: Value) -> Value {
    // References in a schema begin at its root, so the definitions of the list's elements move to the new root.
    let mut root = Map::new();
    for key in ["$defs", "definitions"] {
        let item = inner.get_mut("items").and_then(Value::as_object_mut);
        if let Some(found) = item.and_then(|item| item.remove(key)) {
            root.insert(key.to_owned(), found);
        }
    }
    root.insert("type".to_owned(), "object".into());
    root.insert("properties".to_owned(), json!({name: inner}));
    root.insert("required".to_owned(), json!([name]));
    root.insert("additionalProperties".to_owned(), false.into());
    root.into()
}

/// Returns a name that providers accept: at most 64 letters, digits, `_` and `-`.
fn valid_name(name: &str) -> String {
    let letter = |letter: char| match letter.is_ascii_alphanumeric() || "_-".contains(letter) {
        true => letter,
        false => '_',
    };
    name.chars().take(64).map(letter).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form(config: Value, schema: Option<&str>) -> Result<AnswerSchema, String> {
        AnswerSchema::of(&serde_json::from_value(config).unwrap(), schema)
    }

    // covers: SENT-17
    #[test]
    fn lists_and_words_are_put_into_an_object_and_taken_out_again() {
        let object = form(json!({"output": "object"}), Some(r#"{"properties": {"a": {}}}"#)).unwrap();
        assert_eq!(object.schema()["type"], "object");
        assert_eq!(object.answer(json!({"a": 1})), json!({"a": 1}));
        let list = r##"{"$ref": "#/$defs/n", "$defs": {"n": {"type": "number"}}}"##;
        let list = form(json!({"output": "array", "schemaName": "my numbers"}), Some(list)).unwrap();
        assert_eq!(list.schema()["$defs"]["n"]["type"], "number");
        assert_eq!(
            list.schema()["properties"]["elements"]["items"],
            json!({"$ref": "#/$defs/n"})
        );
        assert_eq!(list.answer(json!({"elements": [1, 2]})), json!([1, 2]));
        assert_eq!(list.name(), "my_numbers");
        let word = form(json!({"output": "enum", "enumValues": ["yes", "no"]}), None).unwrap();
        assert_eq!(
            word.schema()["properties"]["result"]["enum"],
            json!(["yes", "no"])
        );
        assert_eq!(word.answer(json!({"result": "no"})), json!("no"));
    }

    #[test]
    fn an_answer_in_words_may_stand_in_a_block_of_code() {
        for text in ["{\"a\": 1}", "```json\n{\"a\": 1}\n```", " ```\n{\"a\": 1}``` "] {
            assert_eq!(AnswerSchema::parse(text), Ok(json!({"a": 1})), "{text}");
        }
        assert!(
            AnswerSchema::parse("Here it is: {}")
                .unwrap_err()
                .starts_with("it is no JSON")
        );
    }

    #[test]
    fn a_schema_that_is_none_is_refused() {
        let object = || json!({"output": "object"});
        assert!(form(object(), Some("{")).unwrap_err().contains("no JSON"));
        assert!(
            form(object(), Some(r#"{"type": "string"}"#))
                .unwrap_err()
                .contains("type `object`")
        );
        assert!(form(object(), Some("7")).unwrap_err().contains("type `object`"));
    }
}
