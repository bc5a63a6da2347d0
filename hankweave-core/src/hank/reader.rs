//! Reads typed values from the syntax tree and reports every value that is not what it should be.
//!
//! Each reading function takes a [`Node`] and returns the value, or `None` after it reported why there is none. So the
//! reader of an object reads all its fields before it gives up, and no problem hides another.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use jsonc_parser::ast::{Object, Value};
use jsonc_parser::common::Ranged;
use serde_json::{Map, Number};

use super::keys::Keys;
use super::lines::Lines;
use super::problem::{Level, Places, Problem, Problems, quoted};

/// A value of the syntax tree and its JSON path.
#[derive(Clone)]
pub(super) struct Node<'n> {
    pub(super) value: &'n Value<'n>,
    pub(super) path: String,
}

/// Collects what is found out while reading.
pub(super) struct Reader<'t> {
    pub(super) problems: Problems,
    pub(super) places: Places,
    lines: Lines<'t>,
}

impl<'t> Reader<'t> {
    pub(super) fn new(text: &'t str) -> Self {
        Self {
            problems: Problems::default(),
            places: Places::default(),
            lines: Lines::new(text),
        }
    }

    pub(super) fn error(&mut self, node: &Node<'_>, message: impl Into<String>) {
        self.report(
            Level::Error,
            node.path.clone(),
            node.value.start(),
            message.into(),
            None,
        );
    }

    pub(super) fn error_with_hint(
        &mut self,
        node: &Node<'_>,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) {
        self.report(
            Level::Error,
            node.path.clone(),
            node.value.start(),
            message.into(),
            Some(hint.into()),
        );
    }

    pub(super) fn warning(&mut self, node: &Node<'_>, message: impl Into<String>) {
        self.report(
            Level::Warning,
            node.path.clone(),
            node.value.start(),
            message.into(),
            None,
        );
    }

    pub(super) fn report(
        &mut self,
        level: Level,
        path: String,
        offset: usize,
        message: String,
        hint: Option<String>,
    ) {
        let position = Some(self.lines.position(offset));
        let item = self.places.item(&path);
        self.problems.push(Problem {
            level,
            path,
            item,
            position,
            message,
            hint,
        });
    }

    /// Remembers where the value stands; called by every function that accepts one.
    fn accept<T>(&mut self, node: &Node<'_>, value: T) -> Option<T> {
        self.places
            .add_position(&node.path, self.lines.position(node.value.start()));
        Some(value)
    }

    fn wrong_type<T>(&mut self, node: &Node<'_>, expected: &str) -> Option<T> {
        self.error(node, format!("must be {expected}, not {}", kind(node.value)));
        None
    }

    pub(super) fn string(&mut self, node: &Node<'_>) -> Option<String> {
        match node.value {
            Value::StringLit(text) => self.accept(node, text.value.clone().into_owned()),
            _ => self.wrong_type(node, "a string"),
        }
    }

    pub(super) fn non_empty(&mut self, node: &Node<'_>) -> Option<String> {
        self.checked(node, |text| {
            if text.trim().is_empty() {
                Err("must not be empty")
            } else {
                Ok(())
            }
        })
    }

    /// A text that passes `check`, which returns the broken rule.
    pub(super) fn checked<E: Into<String>>(
        &mut self,
        node: &Node<'_>,
        check: impl FnOnce(&str) -> Result<(), E>,
    ) -> Option<String> {
        let text = self.string(node)?;
        match check(&text) {
            Ok(()) => Some(text),
            Err(rule) => {
                self.error(node, rule);
                None
            }
        }
    }

    pub(super) fn boolean(&mut self, node: &Node<'_>) -> Option<bool> {
        match node.value {
            Value::BooleanLit(literal) => self.accept(node, literal.value),
            _ => self.wrong_type(node, "true or false"),
        }
    }

    /// A whole number in `range`.
    pub(super) fn integer(&mut self, node: &Node<'_>, range: RangeInclusive<u64>) -> Option<u64> {
        let expected = match (range.start(), range.end()) {
            (0, &u64::MAX) => "a whole number".to_owned(),
            (least, &u64::MAX) => format!("a whole number, at least {least}"),
            (least, most) => format!("a whole number from {least} to {most}"),
        };
        match node.value {
            Value::NumberLit(literal) => {
                match whole_number(literal.value).filter(|number| range.contains(number)) {
                    Some(number) => self.accept(node, number),
                    None => {
                        self.error(node, format!("must be {expected}, not {}", quoted(literal.value)));
                        None
                    }
                }
            }
            _ => self.wrong_type(node, &expected),
        }
    }

    /// A finite number above 0.
    pub(super) fn positive(&mut self, node: &Node<'_>) -> Option<f64> {
        match node.value {
            Value::NumberLit(literal) => match literal.value.parse::<f64>() {
                Ok(number) if number.is_finite() && number > 0.0 => self.accept(node, number),
                _ => {
                    self.error(
                        node,
                        format!("must be a number above 0, not {}", quoted(literal.value)),
                    );
                    None
                }
            },
            _ => self.wrong_type(node, "a number above 0"),
        }
    }

    /// A finite number.
    pub(super) fn number(&mut self, node: &Node<'_>) -> Option<f64> {
        match node.value {
            Value::NumberLit(literal) => match literal.value.parse::<f64>() {
                Ok(number) if number.is_finite() => self.accept(node, number),
                _ => {
                    self.error(node, format!("{} is out of range", quoted(literal.value)));
                    None
                }
            },
            _ => self.wrong_type(node, "a number"),
        }
    }

    /// One of a few words.
    pub(super) fn choice<T: Copy>(&mut self, node: &Node<'_>, choices: &[(&str, T)]) -> Option<T> {
        let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
        let expected = format!("one of {}", names.join(", "));
        let Value::StringLit(literal) = node.value else {
            return self.wrong_type(node, &expected);
        };
        match choices.iter().find(|(name, _)| *name == literal.value) {
            Some((_, choice)) => self.accept(node, *choice),
            None => {
                let message = format!("must be {expected}, not {}", quoted(&literal.value));
                match super::keys::nearest(&literal.value, &names) {
                    Some(near) => self.error_with_hint(node, message, format!("did you mean `{near}`?")),
                    None => self.error(node, message),
                }
                None
            }
        }
    }

    /// The elements of a list, in order; those that cannot be read are reported and left out.
    pub(super) fn list<T>(
        &mut self,
        node: &Node<'_>,
        mut read: impl FnMut(&mut Self, &Node<'_>) -> Option<T>,
    ) -> Option<Vec<T>> {
        let Value::Array(array) = node.value else {
            return self.wrong_type(node, "a list");
        };
        self.accept(node, ());
        let elements = array.elements.iter().enumerate();
        let nodes = elements.map(|(index, value)| Node {
            value,
            path: format!("{}[{index}]", node.path),
        });
        Some(nodes.filter_map(|element| read(self, &element)).collect())
    }

    /// As [`list`](Self::list), but an empty list is an error.
    pub(super) fn non_empty_list<T>(
        &mut self,
        node: &Node<'_>,
        read: impl FnMut(&mut Self, &Node<'_>) -> Option<T>,
    ) -> Option<Vec<T>> {
        let is_empty = matches!(node.value, Value::Array(array) if array.elements.is_empty());
        if is_empty {
            self.error(node, "must not be empty");
        }
        self.list(node, read)
    }

    /// One value, or a list of at least one.
    pub(super) fn one_or_more<T>(
        &mut self,
        node: &Node<'_>,
        mut read: impl FnMut(&mut Self, &Node<'_>) -> Option<T>,
    ) -> Option<Vec<T>> {
        match node.value {
            Value::StringLit(_) => read(self, node).map(|single| vec![single]),
            Value::Array(_) => self.non_empty_list(node, read),
            _ => self.wrong_type(node, "a string or a list of strings"),
        }
    }

    /// An object whose keys the author chooses.
    pub(super) fn map<T>(
        &mut self,
        node: &Node<'_>,
        mut read: impl FnMut(&mut Self, &str, &Node<'_>) -> Option<T>,
    ) -> Option<BTreeMap<String, T>> {
        let object = self.object(node)?;
        let mut map = BTreeMap::new();
        for property in &object.properties {
            let key = property.name.as_str();
            let child = Node {
                value: &property.value,
                path: child_path(&node.path, key),
            };
            if let Some(value) = read(self, key, &child) {
                map.insert(key.to_owned(), value);
            }
        }
        Some(map)
    }

    /// Any object, as JSON.
    pub(super) fn json_object(&mut self, node: &Node<'_>) -> Option<Map<String, serde_json::Value>> {
        let object = self.object(node)?;
        let mut map = Map::new();
        for property in &object.properties {
            let key = property.name.as_str();
            let value = self.json(&Node {
                value: &property.value,
                path: child_path(&node.path, key),
            })?;
            map.insert(key.to_owned(), value);
        }
        Some(map)
    }

    fn json(&mut self, node: &Node<'_>) -> Option<serde_json::Value> {
        match node.value {
            Value::StringLit(literal) => Some(literal.value.as_ref().into()),
            Value::BooleanLit(literal) => Some(literal.value.into()),
            Value::NullKeyword(_) => Some(serde_json::Value::Null),
            Value::Array(_) => self.list(node, Self::json).map(Into::into),
            Value::Object(_) => self.json_object(node).map(Into::into),
            Value::NumberLit(literal) => match literal.value.parse::<Number>() {
                Ok(number) => Some(number.into()),
                Err(_) => {
                    self.error(node, format!("{} is out of range", quoted(literal.value)));
                    None
                }
            },
        }
    }

    /// An object with the keys `keys` and no others.
    pub(super) fn fields<'n>(&mut self, node: &Node<'n>, keys: &Keys) -> Option<Fields<'n>> {
        let object = self.object(node)?;
        for property in object
            .properties
            .iter()
            .filter(|property| !keys.valid.contains(&property.name.as_str()))
        {
            let key = property.name.as_str();
            let message = format!("{} is not a key of {}", quoted(key), keys.kind);
            let path = child_path(&node.path, key);
            self.report(
                Level::Error,
                path,
                property.start(),
                message,
                Some(keys.advice(key)),
            );
        }
        Some(Fields {
            path: node.path.clone(),
            object,
        })
    }

    fn object<'n>(&mut self, node: &Node<'n>) -> Option<&'n Object<'n>> {
        match node.value {
            Value::Object(object) => self.accept(node, object),
            _ => self.wrong_type(node, "an object"),
        }
    }
}

/// The fields of an object whose keys are known.
pub(super) struct Fields<'n> {
    path: String,
    object: &'n Object<'n>,
}

impl<'n> Fields<'n> {
    pub(super) fn get(&self, key: &str) -> Option<Node<'n>> {
        let property = self
            .object
            .properties
            .iter()
            .find(|property| property.name.as_str() == key)?;
        Some(Node {
            value: &property.value,
            path: child_path(&self.path, key),
        })
    }

    pub(super) fn optional<'t, T>(
        &self,
        reader: &mut Reader<'t>,
        key: &str,
        read: impl FnOnce(&mut Reader<'t>, &Node<'n>) -> Option<T>,
    ) -> Option<T> {
        read(reader, &self.get(key)?)
    }

    pub(super) fn required<'t, T>(
        &self,
        reader: &mut Reader<'t>,
        key: &str,
        read: impl FnOnce(&mut Reader<'t>, &Node<'n>) -> Option<T>,
    ) -> Option<T> {
        match self.get(key) {
            Some(node) => read(reader, &node),
            None => {
                self.missing(reader, key, None);
                None
            }
        }
    }

    /// Reports that `key` is not there, at the object that should have it.
    pub(super) fn missing(&self, reader: &mut Reader<'_>, key: &str, hint: Option<&str>) {
        let path = child_path(&self.path, key);
        reader.report(
            Level::Error,
            path,
            self.object.start(),
            "is missing".to_owned(),
            hint.map(str::to_owned),
        );
    }

    /// Reports the second of two keys that exclude each other, when both are there.
    pub(super) fn exclusive(&self, reader: &mut Reader<'_>, [first, second]: [&str; 2]) {
        if let (Some(_), Some(node)) = (self.get(first), self.get(second)) {
            reader.error(&node, format!("must not stand beside `{first}`"));
        }
    }
}

/// The path of the value at `key` in the object at `path`.
pub(super) fn child_path(path: &str, key: &str) -> String {
    let plain = !key.is_empty()
        && key.len() <= 60
        && key
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"$_-".contains(&b));
    match (path, plain) {
        ("", true) => key.to_owned(),
        (_, true) => format!("{path}.{key}"),
        (_, false) => format!("{path}[{}]", quoted(key)),
    }
}

fn kind(value: &Value<'_>) -> &'static str {
    match value {
        Value::StringLit(_) => "a string",
        Value::NumberLit(_) => "a number",
        Value::BooleanLit(_) => "true or false",
        Value::Object(_) => "an object",
        Value::Array(_) => "a list",
        Value::NullKeyword(_) => "null",
    }
}

/// Reads `3`, `3.0` and `3e0` as 3, as JavaScript does; `None` for anything that is not a whole number.
fn whole_number(literal: &str) -> Option<u64> {
    /// Above this, a float does not hold every whole number.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    literal.parse().ok().or_else(|| {
        let number: f64 = literal.parse().ok()?;
        let is_exact = number.fract() == 0.0 && (0.0..=EXACT).contains(&number);
        // `{:.0}` writes the digits of a whole number exactly.
        if is_exact {
            format!("{number:.0}").parse().ok()
        } else {
            None
        }
    })
}
