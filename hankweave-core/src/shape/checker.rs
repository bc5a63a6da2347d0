//! Walking a tree of values along rules.

use serde_json::{Map, Value};

use super::Variants;

/// Something that is not as it must be.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ShapeProblem {
    /// JSON path; empty for the root value.
    pub path: String,
    /// Problem at that path.
    pub message: String,
}

/// Looks at one value and reports. It may take out known names whose value is `null`, which count as absent.
pub type ShapeCheck = fn(&mut Checker, &mut Value);

/// Rule for a name of an object.
#[derive(Debug)]
pub struct FieldRule {
    name: &'static str,
    presence: FieldPresence,
    check: ShapeCheck,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FieldPresence {
    /// There, and not `null`.
    Required,
    /// There, or `null`, or absent.
    Optional,
    /// There; `null` is a value of its own.
    Nullable,
}

/// A name that must be there.
#[must_use]
pub const fn required(name: &'static str, check: ShapeCheck) -> FieldRule {
    let presence = FieldPresence::Required;
    FieldRule {
        name,
        presence,
        check,
    }
}

/// A name that may be absent, or `null`.
#[must_use]
pub const fn optional(name: &'static str, check: ShapeCheck) -> FieldRule {
    let presence = FieldPresence::Optional;
    FieldRule {
        name,
        presence,
        check,
    }
}

/// A name that must be there and may be `null`.
#[must_use]
pub const fn nullable(name: &'static str, check: ShapeCheck) -> FieldRule {
    let presence = FieldPresence::Nullable;
    FieldRule {
        name,
        presence,
        check,
    }
}

/// Walks the tree, knows where it is, and collects.
#[derive(Debug, Default)]
pub struct Checker {
    path: String,
    findings: Vec<ShapeProblem>,
}

impl Checker {
    /// Something is wrong here.
    pub fn report(&mut self, message: impl Into<String>) {
        self.findings.push(ShapeProblem {
            path: self.path.clone(),
            message: message.into(),
        });
    }

    /// Everything that was reported, in the order in which it was found.
    #[must_use]
    pub fn into_findings(self) -> Vec<ShapeProblem> {
        self.findings
    }

    /// Checks the value under a name or, as `[0]`, in a list.
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

    /// A list, each of its elements.
    pub fn list(&mut self, value: &mut Value, check: ShapeCheck) {
        let Value::Array(items) = value else {
            return self.report(format!("must be a list, not {}", kind_of(value)));
        };
        for (index, item) in items.iter_mut().enumerate() {
            self.within(&format!("[{index}]"), |checker| check(checker, item));
        }
    }

    /// An object with such names; others do not matter.
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

    /// Checks an object that names its variant under `tag`.
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

pub(crate) fn remove_null(object: &mut Map<String, Value>, name: &str) {
    if object.get(name).is_some_and(Value::is_null) {
        object.shift_remove(name);
    }
}

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
