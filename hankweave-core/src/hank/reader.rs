//! Reads typed values from the syntax tree and reports every value that is not as expected. `read` builds the functions for the objects of a hank on this.
//!
//! A reading function takes a [`JsonNode`] and returns the value, or `None` after reporting why there is none. The function for an object reads all its
//! fields before it gives up, so no problem hides another. [`HankReader`] has reading functions as methods; the functions [`checked`], [`integer`], [`list`]
//! and others return a reading function for the given range, words or elements.

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
    /// Returns the value of one property of the object at `path`.
    fn of(path: &str, property: &'n ObjectProp<'n>) -> Self {
        Self {
            value: &property.value,
            path: child_path(path, property.name.as_str()),
        }
    }

    /// Returns the string at `key`, if this is an object that has one there.
    pub(super) fn string_at(&self, key: &str) -> Option<&'n str> {
        let literal = self.value.as_object()?.get_string(key)?;
        Some(literal.value.as_ref())
    }
}

/// Collects problems and positions while values are read.
pub(super) struct HankReader<'t> {
    pub(super) problems: Problems,
    pub(super) places: SourceMap,
    /// Number of made-up ids, which stand in for unreadable ids and items, so that the others keep their positions.
    pub(super) stand_ins: usize,
    /// A `continuationMode` or `terminateOn` could not be read, so the rules between codons are not checked.
    pub(super) has_unread_links: bool,
    lines: LineIndex<'t>,
}

/// Reads one string that passes `check`, whose error is the broken rule.
pub(super) fn checked<E: Into<String>>(
    check: impl Fn(&str) -> Result<(), E>,
) -> impl Fn(&mut HankReader<'_>, &JsonNode<'_>) -> Option<String> {
    parsed(move |text| check(text).map(|()| text.to_owned()))
}

/// Reads one string and converts it by `parse`, whose error is the broken rule.
pub(super) fn parsed<T, E: Into<String>>(
    parse: impl Fn(&str) -> Result<T, E>,
) -> impl Fn(&mut HankReader<'_>, &JsonNode<'_>) -> Option<T> {
    move |reader, node| match parse(&reader.string(node)?) {
        Ok(value) => Some(value),
        Err(rule) => reader.refuse(node, rule),
    }
}

/// Reads a whole number in `range`, in any notation of JSON.
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

/// Reads a whole number in `range` that is written with digits alone, for files that another reader with stricter rules reads too.
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

/// Reads one of a few words.
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

/// Reads the elements of a list, in order; unreadable elements are reported and left out.
pub(super) fn list<T>(
    read: impl Fn(&mut HankReader<'_>, &JsonNode<'_>) -> Option<T>,
) -> impl Fn(&mut HankReader<'_>, &JsonNode<'_>) -> Option<Vec<T>> {
    move |reader, node| reader.list(node, &read)
}

/// Reads a list like [`list`], but an empty list is an error.
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

/// Reads one string, or a list with at least one element.
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

    /// Reports an error, and returns `None` in place of the value.
    pub(super) fn refuse<T>(&mut self, node: &JsonNode<'_>, message: impl Into<String>) -> Option<T> {
        self.error(node, message);
        None
    }

    /// Does the same as [`refuse`](Self::refuse), with a hint.
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

    /// Remembers the position of an accepted value, for later problems with it, and returns the value.
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

    /// Reads a number that `read` accepts.
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

    /// Reads a finite number above 0.
    pub(super) fn positive(&mut self, node: &JsonNode<'_>) -> Option<f64> {
        self.number_that(node, "a number above 0", |literal| {
            finite(literal).filter(|number| *number > 0.0)
        })
    }

    /// Reads a finite number.
    pub(super) fn number(&mut self, node: &JsonNode<'_>) -> Option<f64> {
        match node.value {
            Value::NumberLit(literal) if finite(literal.value).is_none() => {
                self.refuse(node, format!("{} is out of range", quoted(literal.value)))
            }
            _ => self.number_that(node, "a number", finite),
        }
    }

    /// Reads a list like the function [`list`], with a `read` that may have state.
    pub(super) fn list<T>(
        &mut self,
        node: &JsonNode<'_>,
        read: impl FnMut(&mut Self, &JsonNode<'_>) -> Option<T>,
    ) -> Option<Vec<T>> {
        Some(self.elements(node, read)?.into_iter().flatten().collect())
    }

    /// Reads a list like [`list`](Self::list), but returns only the elements before the first unreadable one, so that their indexes are still those of the
    /// text.
    pub(super) fn leading_list<T>(
        &mut self,
        node: &JsonNode<'_>,
        read: impl FnMut(&mut Self, &JsonNode<'_>) -> Option<T>,
    ) -> Option<Vec<T>> {
        let elements = self.elements(node, read)?.into_iter();
        Some(elements.map_while(|element| element).collect())
    }

    /// Reads all elements of a list; `None` for each unreadable one.
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

    /// Reads an object whose keys the author chooses.
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

    /// Reads any object, as JSON.
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

    /// Returns the fields of an object, after reporting the keys that are not in `keys`.
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

    /// Reads the field at `key`; `None` if it is absent or unreadable.
    pub(super) fn optional<'t, T>(
        &self,
        reader: &mut HankReader<'t>,
        key: &str,
        read: impl FnOnce(&mut HankReader<'t>, &JsonNode<'n>) -> Option<T>,
    ) -> Option<T> {
        read(reader, &self.get(key)?)
    }

    /// Reads a field like [`optional`](Self::optional); an absent or unreadable one becomes the default of the type.
    pub(super) fn or_default<'t, T: Default>(
        &self,
        reader: &mut HankReader<'t>,
        key: &str,
        read: impl FnOnce(&mut HankReader<'t>, &JsonNode<'n>) -> Option<T>,
    ) -> T {
        self.optional(reader, key, read).unwrap_or_default()
    }

    /// Reads the field at `key`, and reports if it is absent.
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

    /// Reports the second of two keys that exclude each other, if the object has both.
    pub(super) fn exclusive(&self, reader: &mut HankReader<'_>, [first, second]: [&str; 2]) {
        if let (Some(_), Some(node)) = (self.get(first), self.get(second)) {
            reader.error(&node, format!("must not stand beside `{first}`"));
        }
    }
}

/// Returns the path of the value at `key` in the object at `path`. A key with unusual characters is written in brackets.
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

/// Returns the type of a value, in words.
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
    if let Ok(whole) = literal.parse() {
        return Some(whole);
    }
    let number: f64 = literal.parse().ok()?;
    if number.fract() != 0.0 || !(0.0..=EXACT).contains(&number) {
        return None;
    }
    // `{:.0}` writes the digits of a whole number exactly.
    format!("{number:.0}").parse().ok()
}
