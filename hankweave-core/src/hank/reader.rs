//! Reads typed values from the syntax tree and reports every value that is not what it should be.
//!
//! Each reading function takes a [`JsonNode`] and returns the value, or `None` after it reported why there is
//! none. So the reader of an object reads all its fields before it gives up, and no problem hides another.
//! Functions such as [`integer`] and [`list`] make a reading function from what is expected.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use jsonc_parser::ast::{Object, ObjectProp, Value};
use jsonc_parser::common::Ranged;
use serde_json::{Map, Number};

use super::keys::{KeyTable, did_you_mean};
use super::lines::LineIndex;
use super::problem::{Problem, Problems, Severity, SourceMap, quoted};

/// A value of the syntax tree and its JSON path.
#[derive(Clone)]
pub(super) struct JsonNode<'n> {
    pub(super) value: &'n Value<'n>,
    pub(super) path: String,
}

impl<'n> JsonNode<'n> {
    /// The value of one property of the object at `path`.
    fn of(path: &str, property: &'n ObjectProp<'n>) -> Self {
        Self {
            value: &property.value,
            path: child_path(path, property.name.as_str()),
        }
    }

    /// The string at `key`, when this is an object that has one there.
    pub(super) fn string_at(&self, key: &str) -> Option<&'n str> {
        let literal = self.value.as_object()?.get_string(key)?;
        Some(literal.value.as_ref())
    }
}

/// Collects problems and positions while values are read.
pub(super) struct HankReader<'t> {
    pub(super) problems: Problems,
    pub(super) places: SourceMap,
    /// Number of ids and items that replace unreadable ones, so that everything else keeps its position.
    pub(super) stand_ins: usize,
    /// A continuation or the end of a loop could not be read, so what depends on it is not checked.
    pub(super) has_unread_links: bool,
    lines: LineIndex<'t>,
}

/// One string that passes `check`, which returns the broken rule.
pub(super) fn checked<E: Into<String>>(
    check: impl Fn(&str) -> Result<(), E>,
) -> impl Fn(&mut HankReader<'_>, &JsonNode<'_>) -> Option<String> {
    parsed(move |text| check(text).map(|()| text.to_owned()))
}

/// Returns the result of `parse` on a string, or reports the broken rule.
pub(super) fn parsed<T, E: Into<String>>(
    parse: impl Fn(&str) -> Result<T, E>,
) -> impl Fn(&mut HankReader<'_>, &JsonNode<'_>) -> Option<T> {
    move |reader, node| match parse(&reader.string(node)?) {
        Ok(value) => Some(value),
        Err(rule) => reader.refuse(node, rule),
    }
}

/// A whole number in `range`.
pub(super) fn integer(
    range: RangeInclusive<u64>,
) -> impl Fn(&mut HankReader<'_>, &JsonNode<'_>) -> Option<u64> {
    let expected = match (range.start(), range.end()) {
        (0, &u64::MAX) => "a whole number".to_owned(),
        (least, &u64::MAX) => format!("a whole number, at least {least}"),
        (least, most) => format!("a whole number from {least} to {most}"),
    };
    move |reader, node| {
        let number = |literal: &str| whole_number(literal).filter(|number| range.contains(number));
        reader.number_that(node, &expected, number)
    }
}

/// A whole number in `range`, written with digits alone: for files that other readers take literally.
pub(super) fn strict_integer(
    range: RangeInclusive<u64>,
) -> impl Fn(&mut HankReader<'_>, &JsonNode<'_>) -> Option<u64> {
    let expected = match range.end() {
        &u64::MAX => "a whole number without a point".to_owned(),
        most => format!("a whole number from {} to {most}, without a point", range.start()),
    };
    move |reader, node| {
        let number = |literal: &str| literal.parse().ok().filter(|number| range.contains(number));
        reader.number_that(node, &expected, number)
    }
}

/// One of a few words.
pub(super) fn choice<T: Copy>(
    choices: &[(&str, T)],
) -> impl Fn(&mut HankReader<'_>, &JsonNode<'_>) -> Option<T> {
    move |reader, node| {
        let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
        let expected = format!("one of {}", names.join(", "));
        let Value::StringLit(literal) = node.value else {
            return reader.wrong_type(node, &expected);
        };
        if let Some((_, choice)) = choices.iter().find(|(name, _)| *name == literal.value) {
            return reader.accept(node, *choice);
        }
        let message = format!("must be {expected}, not {}", quoted(&literal.value));
        match did_you_mean(&literal.value, &names) {
            Some(hint) => reader.refuse_with_hint(node, message, hint),
            None => reader.refuse(node, message),
        }
    }
}

/// The elements of a list, in order; those that cannot be read are reported and left out.
pub(super) fn list<T>(
    read: impl Fn(&mut HankReader<'_>, &JsonNode<'_>) -> Option<T>,
) -> impl Fn(&mut HankReader<'_>, &JsonNode<'_>) -> Option<Vec<T>> {
    move |reader, node| reader.list(node, &read)
}

/// As [`list`], but an empty list is an error.
pub(super) fn non_empty_list<T>(
    read: impl Fn(&mut HankReader<'_>, &JsonNode<'_>) -> Option<T>,
) -> impl Fn(&mut HankReader<'_>, &JsonNode<'_>) -> Option<Vec<T>> {
    move |reader, node| {
        if matches!(node.value, Value::Array(array) if array.elements.is_empty()) {
            reader.error(node, "must not be empty");
        }
        reader.list(node, &read)
    }
}

/// One string, or a list of at least one.
pub(super) fn one_or_more<T>(
    read: impl Fn(&mut HankReader<'_>, &JsonNode<'_>) -> Option<T>,
) -> impl Fn(&mut HankReader<'_>, &JsonNode<'_>) -> Option<Vec<T>> {
    move |reader, node| match node.value {
        Value::StringLit(_) => read(reader, node).map(|single| vec![single]),
        Value::Array(_) => non_empty_list(&read)(reader, node),
        _ => reader.wrong_type(node, "a string or a list of strings"),
    }
}

impl<'t> HankReader<'t> {
    pub(super) fn new(text: &'t str) -> Self {
        Self {
            problems: Problems::default(),
            places: SourceMap::default(),
            stand_ins: 0,
            has_unread_links: false,
            lines: LineIndex::new(text),
        }
    }

    /// Returns an id that replaces an unreadable one.
    pub(super) fn stand_in_id(&mut self) -> String {
        self.stand_ins += 1;
        format!("no-readable-id-{}", self.stand_ins)
    }

    pub(super) fn error(&mut self, node: &JsonNode<'_>, message: impl Into<String>) {
        self.report_at(Severity::Error, node, message.into(), None);
    }

    pub(super) fn warning(&mut self, node: &JsonNode<'_>, message: impl Into<String>) {
        self.report_at(Severity::Warning, node, message.into(), None);
    }

    /// Reports an error, and that there is no value.
    pub(super) fn refuse<T>(&mut self, node: &JsonNode<'_>, message: impl Into<String>) -> Option<T> {
        self.error(node, message);
        None
    }

    /// As [`refuse`](Self::refuse), with advice.
    pub(super) fn refuse_with_hint<T>(
        &mut self,
        node: &JsonNode<'_>,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) -> Option<T> {
        self.report_at(Severity::Error, node, message.into(), Some(hint.into()));
        None
    }

    pub(super) fn report_at(
        &mut self,
        level: Severity,
        node: &JsonNode<'_>,
        message: String,
        hint: Option<String>,
    ) {
        self.report(level, node.path.clone(), node.value.start(), message, hint);
    }

    pub(super) fn report(
        &mut self,
        level: Severity,
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
            inside: None,
        });
    }

    /// Remembers the position of the value; every function that accepts one calls it.
    fn accept<T>(&mut self, node: &JsonNode<'_>, value: T) -> Option<T> {
        let position = self.lines.position(node.value.start());
        self.places.add_position(&node.path, position);
        Some(value)
    }

    fn wrong_type<T>(&mut self, node: &JsonNode<'_>, expected: &str) -> Option<T> {
        self.refuse(node, format!("must be {expected}, not {}", kind(node.value)))
    }

    pub(super) fn string(&mut self, node: &JsonNode<'_>) -> Option<String> {
        match node.value {
            Value::StringLit(text) => self.accept(node, text.value.clone().into_owned()),
            _ => self.wrong_type(node, "a string"),
        }
    }

    pub(super) fn non_empty(&mut self, node: &JsonNode<'_>) -> Option<String> {
        checked(|text| match text.trim() {
            "" => Err("must not be empty"),
            _ => Ok(()),
        })(self, node)
    }

    pub(super) fn boolean(&mut self, node: &JsonNode<'_>) -> Option<bool> {
        match node.value {
            Value::BooleanLit(literal) => self.accept(node, literal.value),
            _ => self.wrong_type(node, "true or false"),
        }
    }

    /// A number that `read` accepts.
    fn number_that<T>(
        &mut self,
        node: &JsonNode<'_>,
        expected: &str,
        read: impl FnOnce(&str) -> Option<T>,
    ) -> Option<T> {
        let Value::NumberLit(literal) = node.value else {
            return self.wrong_type(node, expected);
        };
        match read(literal.value) {
            Some(number) => self.accept(node, number),
            None => self.refuse(node, format!("must be {expected}, not {}", quoted(literal.value))),
        }
    }

    /// A finite number above 0.
    pub(super) fn positive(&mut self, node: &JsonNode<'_>) -> Option<f64> {
        self.number_that(node, "a number above 0", |literal| {
            finite(literal).filter(|number| *number > 0.0)
        })
    }

    /// A finite number.
    pub(super) fn number(&mut self, node: &JsonNode<'_>) -> Option<f64> {
        match node.value {
            Value::NumberLit(literal) if finite(literal.value).is_none() => {
                self.refuse(node, format!("{} is out of range", quoted(literal.value)))
            }
            _ => self.number_that(node, "a number", finite),
        }
    }

    /// As the function [`list`], for a `read` that changes something.
    pub(super) fn list<T>(
        &mut self,
        node: &JsonNode<'_>,
        read: impl FnMut(&mut Self, &JsonNode<'_>) -> Option<T>,
    ) -> Option<Vec<T>> {
        Some(self.elements(node, read)?.into_iter().flatten().collect())
    }

    /// As [`list`](Self::list), but only what comes before the first item with mistakes: later checks name items by their positions.
    pub(super) fn leading_list<T>(
        &mut self,
        node: &JsonNode<'_>,
        read: impl FnMut(&mut Self, &JsonNode<'_>) -> Option<T>,
    ) -> Option<Vec<T>> {
        let elements = self.elements(node, read)?.into_iter();
        Some(elements.map_while(|element| element).collect())
    }

    fn elements<T>(
        &mut self,
        node: &JsonNode<'_>,
        mut read: impl FnMut(&mut Self, &JsonNode<'_>) -> Option<T>,
    ) -> Option<Vec<Option<T>>> {
        let Value::Array(array) = node.value else {
            return self.wrong_type(node, "a list");
        };
        self.accept(node, ());
        let elements = array.elements.iter().enumerate();
        let nodes = elements.map(|(index, value)| JsonNode {
            value,
            path: format!("{}[{index}]", node.path),
        });
        Some(nodes.map(|element| read(self, &element)).collect())
    }

    /// An object whose keys the author chooses.
    pub(super) fn map<T>(
        &mut self,
        node: &JsonNode<'_>,
        mut read: impl FnMut(&mut Self, &str, &JsonNode<'_>) -> Option<T>,
    ) -> Option<BTreeMap<String, T>> {
        let object = self.object(node)?;
        let mut map = BTreeMap::new();
        for property in &object.properties {
            let key = property.name.as_str();
            if let Some(value) = read(self, key, &JsonNode::of(&node.path, property)) {
                map.insert(key.to_owned(), value);
            }
        }
        Some(map)
    }

    /// Any object, as JSON.
    pub(super) fn json_object(&mut self, node: &JsonNode<'_>) -> Option<Map<String, serde_json::Value>> {
        let object = self.object(node)?;
        let mut map = Map::new();
        for property in &object.properties {
            let value = self.json(&JsonNode::of(&node.path, property))?;
            map.insert(property.name.as_str().to_owned(), value);
        }
        Some(map)
    }

    fn json(&mut self, node: &JsonNode<'_>) -> Option<serde_json::Value> {
        match node.value {
            Value::StringLit(literal) => Some(literal.value.as_ref().into()),
            Value::BooleanLit(literal) => Some(literal.value.into()),
            Value::NullKeyword(_) => Some(serde_json::Value::Null),
            Value::Array(_) => self.list(node, Self::json).map(Into::into),
            Value::Object(_) => self.json_object(node).map(Into::into),
            Value::NumberLit(literal) => match literal.value.parse::<Number>() {
                Ok(number) => Some(number.into()),
                Err(_) => self.refuse(node, format!("{} is out of range", quoted(literal.value))),
            },
        }
    }

    /// An object with the keys `keys` and no others.
    pub(super) fn fields<'n>(&mut self, node: &JsonNode<'n>, keys: &KeyTable) -> Option<ObjectFields<'n>> {
        let object = self.object(node)?;
        for property in &object.properties {
            let key = property.name.as_str();
            if !keys.contains(key) {
                let message = format!("{} is not a key of {}", quoted(key), keys.kind);
                let (path, hint) = (child_path(&node.path, key), keys.advice(key));
                self.report(Severity::Error, path, property.start(), message, Some(hint));
            }
        }
        Some(ObjectFields {
            path: node.path.clone(),
            object,
        })
    }

    pub(super) fn object<'n>(&mut self, node: &JsonNode<'n>) -> Option<&'n Object<'n>> {
        match node.value {
            Value::Object(object) => self.accept(node, object),
            _ => self.wrong_type(node, "an object"),
        }
    }
}

/// The fields of an object whose keys are known.
pub(super) struct ObjectFields<'n> {
    path: String,
    object: &'n Object<'n>,
}

impl<'n> ObjectFields<'n> {
    /// Number of keys, unknown ones included.
    pub(super) fn len(&self) -> usize {
        self.object.properties.len()
    }

    pub(super) fn get(&self, key: &str) -> Option<JsonNode<'n>> {
        let mut properties = self.object.properties.iter();
        let property = properties.find(|property| property.name.as_str() == key)?;
        Some(JsonNode::of(&self.path, property))
    }

    pub(super) fn optional<'t, T>(
        &self,
        reader: &mut HankReader<'t>,
        key: &str,
        read: impl FnOnce(&mut HankReader<'t>, &JsonNode<'n>) -> Option<T>,
    ) -> Option<T> {
        read(reader, &self.get(key)?)
    }

    /// As [`optional`](Self::optional), with the default of the type for a value that is not there or not
    /// readable.
    pub(super) fn or_default<'t, T: Default>(
        &self,
        reader: &mut HankReader<'t>,
        key: &str,
        read: impl FnOnce(&mut HankReader<'t>, &JsonNode<'n>) -> Option<T>,
    ) -> T {
        self.optional(reader, key, read).unwrap_or_default()
    }

    pub(super) fn required<'t, T>(
        &self,
        reader: &mut HankReader<'t>,
        key: &str,
        read: impl FnOnce(&mut HankReader<'t>, &JsonNode<'n>) -> Option<T>,
    ) -> Option<T> {
        if self.get(key).is_none() {
            self.missing(reader, key, None);
        }
        self.optional(reader, key, read)
    }

    /// Reports that `key` is missing, at the position of the object that should have it.
    pub(super) fn missing(&self, reader: &mut HankReader<'_>, key: &str, hint: Option<&str>) {
        let (path, hint) = (child_path(&self.path, key), hint.map(str::to_owned));
        let message = "is missing".to_owned();
        reader.report(Severity::Error, path, self.object.start(), message, hint);
    }

    /// Reports the second of two keys that exclude each other, when both are there.
    pub(super) fn exclusive(&self, reader: &mut HankReader<'_>, [first, second]: [&str; 2]) {
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

fn finite(literal: &str) -> Option<f64> {
    literal.parse().ok().filter(|number: &f64| number.is_finite())
}

/// Reads `3`, `3.0` and `3e0` as 3, as JavaScript does; `None` for anything that is not a whole number.
fn whole_number(literal: &str) -> Option<u64> {
    /// Above this, a float does not hold every whole number.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    literal.parse().ok().or_else(|| {
        let number: f64 = literal.parse().ok()?;
        let is_exact = number.fract() == 0.0 && (0.0..=EXACT).contains(&number);
        // `{:.0}` writes the digits of a whole number exactly.
        is_exact.then(|| format!("{number:.0}").parse().ok())?
    })
}
