//! Walks through a JSON value along the rules of types, and collects the problems with their paths.

use serde_json::{Map, Value};

use super::Variants;

/// One value that breaks a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ShapeProblem {
    /// JSON path; empty for the root value.
    pub path: String,
    /// Problem at that path.
    pub message: String,
}

/// Check of one value, which reports problems. It may remove optional names whose value is `null`, which count as absent.
pub type ShapeCheck = fn(&mut Checker, &mut Value);

/// Rule for a name of an object.
#[derive(Debug)]
pub struct FieldRule {
    name: &'static str,
    presence: FieldPresence,
    check: ShapeCheck,
}

/// Whether a name of an object may be absent or `null`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FieldPresence {
    /// It must be present and not `null`.
    Required,
    /// It may be absent, and `null` means absent.
    Optional,
    /// It must be present, and may be `null`, which is a value of its own.
    Nullable,
}

/// Returns the rule for a name that must be present and not `null`.
#[must_use]
pub const fn required(name: &'static str, check: ShapeCheck) -> FieldRule {
    let presence = FieldPresence::Required;
    FieldRule {
        name,
        presence,
        check,
    }
}

/// Returns the rule for a name that may be absent, or `null`.
#[must_use]
pub const fn optional(name: &'static str, check: ShapeCheck) -> FieldRule {
    let presence = FieldPresence::Optional;
    FieldRule {
        name,
        presence,
        check,
    }
}

/// Returns the rule for a name that must be present and may be `null`.
#[must_use]
pub const fn nullable(name: &'static str, check: ShapeCheck) -> FieldRule {
    let presence = FieldPresence::Nullable;
    FieldRule {
        name,
        presence,
        check,
    }
}

/// Walks through a JSON value and collects problems.
#[derive(Debug, Default)]
pub struct Checker {
    /// JSON path of the value that is being checked.
    path: String,
    findings: Vec<ShapeProblem>,
}

impl Checker {
    /// Reports a problem of the value that is being checked.
    pub fn report(&mut self, message: impl Into<String>) {
        self.findings.push(ShapeProblem {
            path: self.path.clone(),
            message: message.into(),
        });
    }

    /// Returns all problems, in the order in which they were found.
    #[must_use]
    pub fn into_findings(self) -> Vec<ShapeProblem> {
        self.findings
    }

    /// Runs `check` with `step` added to the path: a name, or an index such as `[0]`.
    pub fn within<T>(&mut self, step: &str, check: impl FnOnce(&mut Self) -> T) -> T {
        let length = self.path.len();
        if length > 0 && !step.starts_with('[') {
            self.path.push('.');
        }
        self.path.push_str(step);
        let result = check(self);
        self.path.truncate(length);
        result
    }

    /// Checks that the value is a list, and each of its elements.
    pub fn list(&mut self, value: &mut Value, check: ShapeCheck) {
        let Value::Array(items) = value else {
            return self.report(format!("must be a list, not {}", kind_of(value)));
        };
        for (index, item) in items.iter_mut().enumerate() {
            self.within(&format!("[{index}]"), |checker| check(checker, item));
        }
    }

    /// Checks that the value is an object, and its names by `rules`; other names are ignored.
    pub fn object(&mut self, value: &mut Value, rules: &[FieldRule]) {
        let Value::Object(object) = value else {
            return self.report(format!("must be an object, not {}", kind_of(value)));
        };
        for FieldRule {
            name,
            presence,
            check,
        } in rules
        {
            let found = object.get_mut(*name);
            self.within(name, |checker| match (found, presence) {
                (None, FieldPresence::Required | FieldPresence::Nullable) => checker.report("is missing"),
                (Some(Value::Null), FieldPresence::Required) => checker.report("must not be null"),
                (None | Some(Value::Null), _) => {}
                (Some(value), _) => check(checker, value),
            });
            if *presence == FieldPresence::Optional {
                remove_null(object, name);
            }
        }
    }

    /// Checks an object that has the name of its variant at the key `tag`.
    pub fn variant<T: Variants>(&mut self, value: &mut Value, tag: &str) {
        if !value.is_object() {
            return self.report(format!("must be an object, not {}", kind_of(value)));
        }
        let name = value.get(tag).and_then(Value::as_str);
        if let Some(rules) = name.and_then(T::rules) {
            return self.object(value, rules);
        }
        let known: Vec<String> = T::names().map(|name| format!("`{name}`")).collect();
        let found = name.map_or_else(String::new, |name| format!(", not `{name}`"));
        self.within(tag, |checker| {
            checker.report(format!("must be {}{found}", known.join(" or ")))
        });
    }
}

/// Checks an object with any names.
pub(crate) fn any_object(checker: &mut Checker, value: &mut Value) {
    checker.object(value, &[]);
}

/// Removes a name whose value is `null`.
pub(crate) fn remove_null(object: &mut Map<String, Value>, name: &str) {
    if object.get(name).is_some_and(Value::is_null) {
        object.shift_remove(name);
    }
}

/// Returns the type of a value, in words.
pub(crate) const fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}
