//! JSON answers of agents and of sentinels' models, checked against the schema that they must have (SENT-17, HANK-90).

use hankweave_core::sentinel::model::AnswerSchema;
use hankweave_core::view::excerpt;
use jsonschema::{PatternOptions, Validator};
use serde_json::Value;

/// Number of differences from a schema that are reported.
const MAX_DIFFERENCES: usize = 5;

/// Longest difference in a report, in bytes; the text of a difference repeats the value, which may be long.
const MAX_DIFFERENCE_BYTES: usize = 300;

/// A valid schema.
#[derive(Debug)]
pub(crate) struct CheckedSchema(Validator);

impl CheckedSchema {
    /// Compiles a schema. Its regular expressions take linear time, and nothing is fetched. The error describes the problem of the schema.
    pub(crate) fn of(schema: &Value) -> Result<Self, String> {
        let options = jsonschema::options().with_pattern_options(PatternOptions::regex());
        let validator = options.build(schema);
        let validator = validator.map_err(|error| format!("the schema cannot be used: {error}"))?;
        Ok(Self(validator))
    }

    /// Returns the differences of a value, each with its place; `None` if there are none.
    pub(crate) fn differences(&self, value: &Value) -> Option<String> {
        let differences: Vec<String> = self
            .0
            .iter_errors(value)
            .take(MAX_DIFFERENCES)
            .map(|error| {
                let message = excerpt(&error.to_string(), MAX_DIFFERENCE_BYTES);
                match error.instance_path().to_string().as_str() {
                    "" => message,
                    place => format!("{place}: {message}"),
                }
            })
            .collect();
        (!differences.is_empty()).then(|| differences.join("; "))
    }
}

/// The form of a model's answer, with its valid schema.
#[derive(Debug)]
pub(crate) struct CheckedForm {
    form: AnswerSchema,
    schema: CheckedSchema,
}

impl CheckedForm {
    /// The error describes the problem of the schema.
    pub(crate) fn of(form: AnswerSchema) -> Result<Self, String> {
        let schema = CheckedSchema::of(form.schema())?;
        Ok(Self { form, schema })
    }

    pub(crate) const fn form(&self) -> &AnswerSchema {
        &self.form
    }

    /// Returns the answer in a model's output, or the problem with it.
    pub(crate) fn answer(&self, output: Value) -> Result<Value, String> {
        match self.schema.differences(&output) {
            None => Ok(self.form.answer(output)),
            Some(differences) => Err(differences),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn checked(schema: Value) -> Result<CheckedForm, String> {
        let config = serde_json::from_value(json!({"output": "object"})).unwrap();
        CheckedForm::of(AnswerSchema::of(&config, Some(&schema.to_string())).unwrap())
    }

    // covers: SENT-17
    #[test]
    fn an_answer_is_checked_against_its_schema_and_every_difference_is_told() {
        let schema = json!({"required": ["a", "b"], "properties": {"a": {"type": "number"}, "b": {"pattern": "^x+$"}}});
        let form = checked(schema).unwrap();
        assert_eq!(
            form.answer(json!({"a": 1, "b": "xx"})),
            Ok(json!({"a": 1, "b": "xx"}))
        );
        let wrong = form.answer(json!({"a": "one"})).unwrap_err();
        assert!(
            wrong.contains("/a: ") && wrong.contains(r#""b" is a required property"#),
            "{wrong}"
        );
    }

    #[test]
    fn a_schema_that_cannot_be_used_is_refused_and_nothing_is_fetched() {
        for schema in [
            json!({"properties": {"a": {"type": "nothing"}}}),
            json!({"properties": {"a": {"pattern": "("}}}),
            json!({"$ref": "http://127.0.0.1:1/schema.json"}),
            json!({"$ref": "file:///etc/hostname"}),
        ] {
            let refused = checked(schema.clone()).unwrap_err();
            assert!(
                refused.starts_with("the schema cannot be used"),
                "{schema}: {refused}"
            );
        }
    }
}
