//! Walking a tree of values along rules.

use serde_json::{Map, Value};

/// Something that is not as it must be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Finding {
    /// Where, as a JSON path; empty for the whole value.
    pub(crate) path: String,
    /// What is wrong there.
    pub(crate) message: String,
}

/// Looks at one value and reports. It may take out known names whose value is `null`, which count as absent.
pub(crate) type Check = fn(&mut Checker, &mut Value);

/// What a name of an object must be.
pub(crate) struct Rule {
    pub(crate) name: &'static str,
    presence: Presence,
    check: Check,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Presence {
    /// There, and not `null`.
    Required,
    /// There, or `null`, or absent.
    Optional,
    /// There; `null` is a value of its own.
    Nullable,
}

pub(crate) const fn required(name: &'static str, check: Check) -> Rule {
    let presence = Presence::Required;
    Rule {
        name,
        presence,
        check,
    }
}

pub(crate) const fn optional(name: &'static str, check: Check) -> Rule {
    let presence = Presence::Optional;
    Rule {
        name,
        presence,
        check,
    }
}

pub(crate) const fn nullable(name: &'static str, check: Check) -> Rule {
    let presence = Presence::Nullable;
    Rule {
        name,
        presence,
        check,
    }
}

/// Walks the tree, knows where it is, and collects.
#[derive(Default)]
pub(crate) struct Checker {
    path: String,
    findings: Vec<Finding>,
    /// About elements that were judged before the value around them.
    earlier: Vec<Finding>,
}

impl Checker {
    /// A checker of a value whose lists have lost their elements; `earlier` was found in those.
    pub(crate) fn around(earlier: Vec<Finding>) -> Self {
        Self {
            earlier,
            ..Self::default()
        }
    }

    pub(crate) fn report(&mut self, message: impl Into<String>) {
        self.findings.push(Finding {
            path: self.path.clone(),
            message: message.into(),
        });
    }

    /// Everything that was reported, in the order in which it was found.
    pub(crate) fn into_findings(self) -> Vec<Finding> {
        self.findings
    }

    pub(crate) fn within<T>(&mut self, step: &str, check: impl FnOnce(&mut Self) -> T) -> T {
        let length = self.path.len();
        if length > 0 && !step.starts_with('[') {
            self.path.push('.');
        }
        self.path.push_str(step);
        let result = check(self);
        self.path.truncate(length);
        result
    }

    pub(crate) fn list(&mut self, value: &mut Value, check: Check) {
        let Value::Array(items) = value else {
            return self.report(format!("must be a list, not {}", kind_of(value)));
        };
        for (index, item) in items.iter_mut().enumerate() {
            self.within(&format!("[{index}]"), |checker| check(checker, item));
        }
    }

    /// A list whose elements were judged before: what was found in them takes its place in the order of the rules.
    pub(crate) fn judged_list(&mut self, value: &mut Value) {
        self.list(value, |_, _| {});
        let earlier = std::mem::take(&mut self.earlier);
        let (here, elsewhere) = earlier
            .into_iter()
            .partition::<Vec<_>, _>(|finding| finding.path.starts_with(&self.path));
        self.findings.extend(here);
        self.earlier = elsewhere;
    }

    pub(crate) fn object(&mut self, value: &mut Value, rules: &[Rule]) {
        let Value::Object(object) = value else {
            return self.report(format!("must be an object, not {}", kind_of(value)));
        };
        for Rule {
            name,
            presence,
            check,
        } in rules
        {
            let found = object.get_mut(*name);
            self.within(name, |checker| match (found, presence) {
                (None, Presence::Required | Presence::Nullable) => checker.report("is missing"),
                (Some(Value::Null), Presence::Required) => checker.report("must not be null"),
                (None | Some(Value::Null), _) => {}
                (Some(value), _) => check(checker, value),
            });
            if *presence == Presence::Optional {
                remove_null(object, name);
            }
        }
    }
}

/// An object of whatever names.
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
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}
