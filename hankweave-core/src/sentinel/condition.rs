//! Tests the conditions of a sentinel's trigger on the data of an event (SENT-2).

use regex_automata::meta::Regex;
use serde_json::Value;

use super::{ConditionConfig, Operator};

/// A condition that is ready to be tested.
#[derive(Debug, Clone)]
pub(super) struct Condition {
    /// Names on the path to the tested value.
    path: Vec<String>,
    test: Test,
}

#[derive(Debug, Clone)]
enum Test {
    /// The value must be among `values`, or must not be if `expected` is false.
    Among {
        values: Vec<Value>,
        expected: bool,
    },
    Contains(Value),
    /// `None` for an invalid expression, which matches nothing.
    Matches(Option<Regex>),
    Greater(f64),
    Less(f64),
    /// A comparison of numbers with a value that is no number: never true.
    Never,
}

impl Condition {
    pub(super) fn new(config: &ConditionConfig) -> Self {
        let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
        let one = |value: &Value| vec![value.clone()];
        let among = |values, expected| Test::Among { values, expected };
        let value = &config.value;
        let test = match config.operator {
            Operator::Equals => among(one(value), true),
            Operator::NotEquals => among(one(value), false),
            Operator::In => among(list(value), true),
            Operator::NotIn => among(list(value), false),
            Operator::Contains => Test::Contains(value.clone()),
            Operator::Matches => Test::Matches(value.as_str().and_then(|text| Regex::new(text).ok())),
            Operator::GreaterThan => value.as_f64().map_or(Test::Never, Test::Greater),
            Operator::LessThan => value.as_f64().map_or(Test::Never, Test::Less),
        };
        let path = config.path.split('.').map(str::to_owned).collect();
        Self { path, test }
    }

    /// Whether the condition is true for an event with this data; false if the data has no value at the path.
    pub(super) fn is_true(&self, data: &Value) -> bool {
        let Some(found) = self.path.iter().try_fold(data, |value, name| inside(value, name)) else {
            return false;
        };
        match &self.test {
            Test::Among { values, expected } => values.iter().any(|value| same(value, found)) == *expected,
            Test::Contains(value) => contains(found, value),
            Test::Matches(regex) => match (regex, found.as_str()) {
                (Some(regex), Some(text)) => regex.is_match(text),
                _ => false,
            },
            Test::Greater(than) => found.as_f64().is_some_and(|number| number > *than),
            Test::Less(than) => found.as_f64().is_some_and(|number| number < *than),
            Test::Never => false,
        }
    }
}

/// Returns the value at a key of an object or at an index of a list.
fn inside<'v>(value: &'v Value, name: &str) -> Option<&'v Value> {
    match value {
        Value::Object(object) => object.get(name),
        Value::Array(list) => list.get(name.parse::<usize>().ok()?),
        _ => None,
    }
}

/// Returns whether two values are equal; numbers count by their value, not by their spelling.
fn same(a: &Value, b: &Value) -> bool {
    match (a.as_f64(), b.as_f64()) {
        (Some(a), Some(b)) => a.total_cmp(&b).is_eq(),
        _ => a == b,
    }
}

fn contains(found: &Value, part: &Value) -> bool {
    match (found, part) {
        (Value::String(text), Value::String(part)) => text.contains(part.as_str()),
        (Value::Array(list), part) => list.iter().any(|element| same(element, part)),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(operator: &str, path: &str, value: Value, expected: bool) {
        let config =
            serde_json::from_value(json!({"operator": operator, "path": path, "value": value})).unwrap();
        let data = json!({"text": "src/a.ts", "number": 3, "list": ["x", 2, {"deep": true}], "null": null});
        assert_eq!(Condition::new(&config).is_true(&data), expected, "{config:?}");
    }

    // covers: SENT-2
    #[test]
    fn every_operator_compares_what_is_there() {
        for (operator, path, value, expected) in [
            ("equals", "number", json!(3.0), true),
            ("equals", "number", json!("3"), false),
            ("equals", "null", json!(null), true),
            ("notEquals", "text", json!("x"), true),
            ("notEquals", "text", json!("src/a.ts"), false),
            ("in", "text", json!(["b", "src/a.ts"]), true),
            ("notIn", "number", json!([1, 2]), true),
            ("notIn", "number", json!([3]), false),
            ("contains", "text", json!("a."), true),
            ("contains", "list", json!(2.0), true),
            ("contains", "number", json!(3), false),
            ("matches", "text", json!(r"\.ts$"), true),
            ("matches", "text", json!("^a"), false),
            ("matches", "number", json!("3"), false),
            ("matches", "text", json!("("), false),
            ("greaterThan", "number", json!(2.5), true),
            ("greaterThan", "number", json!(3), false),
            ("lessThan", "number", json!(4), true),
            ("lessThan", "text", json!(4), false),
            ("equals", "list.2.deep", json!(true), true),
            ("equals", "list.0", json!("x"), true),
        ] {
            check(operator, path, value, expected);
        }
    }

    // covers: SENT-2
    #[test]
    fn nothing_is_true_of_what_is_not_there() {
        for path in ["none", "text.x", "list.9", "list.x", "null.x", ""] {
            for (operator, value) in [
                ("equals", json!(null)),
                ("notEquals", json!("x")),
                ("notIn", json!(["x"])),
                ("contains", json!("")),
                ("matches", json!("")),
                ("lessThan", json!(9)),
            ] {
                check(operator, path, value, false);
            }
        }
    }
}
