//! JSON text as a tree of values, with the names that an object has twice.
//!
//! A parser that keeps the last of two values would let two readers of one file see different documents, so a name that stands twice is a problem.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use super::{ProblemKind, StateProblem};

/// Reads a text, and every name that stands twice.
///
/// # Errors
///
/// Returns the error of a text that is not JSON.
pub(super) fn read(bytes: &[u8]) -> Result<(Value, Vec<StateProblem>), serde_json::Error> {
    let mut problems = Vec::new();
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    let node = TreeSeed {
        path: Path::Root,
        problems: &mut problems,
    };
    let value = node.deserialize(&mut deserializer)?;
    deserializer.end()?;
    Ok((value, problems))
}

/// Path of a value; its parents are on the stack of the reader.
enum Path<'a> {
    Root,
    Name(&'a Path<'a>, &'a str),
    Index(&'a Path<'a>, usize),
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => Ok(()),
            Self::Name(Self::Root, name) => f.write_str(name),
            Self::Name(parent, name) => write!(f, "{parent}.{name}"),
            Self::Index(parent, index) => write!(f, "{parent}[{index}]"),
        }
    }
}

struct TreeSeed<'a> {
    path: Path<'a>,
    problems: &'a mut Vec<StateProblem>,
}

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
        loop {
            let child = TreeSeed {
                path: Path::Index(&self.path, values.len()),
                problems: &mut *self.problems,
            };
            match list.next_element_seed(child)? {
                Some(value) => values.push(value),
                None => return Ok(Value::Array(values)),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<Value, A::Error> {
        let mut values = Map::new();
        while let Some(name) = object.next_key::<String>()? {
            let child = TreeSeed {
                path: Path::Name(&self.path, &name),
                problems: &mut *self.problems,
            };
            let value = object.next_value_seed(child)?;
            if values.contains_key(&name) {
                self.problems.push(StateProblem {
                    kind: ProblemKind::CorruptedData,
                    path: Path::Name(&self.path, &name).to_string(),
                    message: format!("the name `{name}` stands twice in one object"),
                });
            }
            values.insert(name, value);
        }
        Ok(Value::Object(values))
    }
}
