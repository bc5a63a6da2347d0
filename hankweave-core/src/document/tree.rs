//! Reads JSON text into a tree of values, and reports the names that an object has twice.
//!
//! A parser that keeps the last of two values would let two readers of one file see different documents, so a name that occurs twice is a problem.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use crate::shape::{Checker, ShapeProblem};

/// Reads a text, and reports every name that occurs twice.
///
/// # Errors
///
/// Returns the error of a text that is not JSON.
pub(super) fn read(bytes: &[u8]) -> Result<(Value, Vec<ShapeProblem>), serde_json::Error> {
    let mut checker = Checker::default();
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    let value = TreeSeed(&mut checker).deserialize(&mut deserializer)?;
    deserializer.end()?;
    Ok((value, checker.into_findings()))
}

/// Reader of one value, which reports repeated names to the checker.
struct TreeSeed<'a>(&'a mut Checker);

impl<'de> DeserializeSeed<'de> for TreeSeed<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for TreeSeed<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Value, A::Error> {
        let mut values = Vec::new();
        let mut next = |index| {
            let item = |checker: &mut Checker| list.next_element_seed(TreeSeed(checker));
            self.0.within(&format!("[{index}]"), item)
        };
        while let Some(value) = next(values.len())? {
            values.push(value);
        }
        Ok(Value::Array(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<Value, A::Error> {
        let mut values = Map::new();
        while let Some(name) = object.next_key::<String>()? {
            let value = self.0.within(&name, |checker| {
                let value = object.next_value_seed(TreeSeed(checker));
                if values.contains_key(&name) {
                    checker.report(format!("the name `{name}` stands twice in one object"));
                }
                value
            });
            values.insert(name, value?);
        }
        Ok(Value::Object(values))
    }
}
