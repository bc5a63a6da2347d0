//! JSON text as a tree of values, with the names that an object has twice, and without the elements that are taken out on the way.
//!
//! A parser that keeps the last of two values would let two readers of one file see different documents, so a name that stands twice is a problem.

use std::cell::RefCell;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use super::{ProblemKind, StateProblem};

/// Takes elements out of lists as soon as they are read, so that the tree never holds all of them.
pub(super) trait Take {
    /// A list begins. A name that stands twice can bring the same list once more; the last one counts.
    fn begin(&mut self, list: &Path<'_>);

    /// Takes the element at `index`, or gives it back to the tree.
    fn take(&mut self, list: &Path<'_>, index: usize, element: Value) -> Option<Value>;
}

/// Reads a text. The tree lacks what `parts` took.
///
/// # Errors
///
/// Returns the error of a text that is not JSON.
pub(super) fn read<P: Take>(
    bytes: &[u8],
    parts: P,
) -> Result<(Value, P, Vec<StateProblem>), serde_json::Error> {
    let reading = Reading {
        problems: RefCell::default(),
        parts: RefCell::new(parts),
    };
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    let value = Node {
        path: Path::Root,
        reading: &reading,
    }
    .deserialize(&mut deserializer)?;
    deserializer.end()?;
    Ok((value, reading.parts.into_inner(), reading.problems.into_inner()))
}

/// Where a value stands; the way up is on the stack of the reader.
pub(super) enum Path<'a> {
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

/// What all nodes of one text share.
struct Reading<P> {
    problems: RefCell<Vec<StateProblem>>,
    parts: RefCell<P>,
}

struct Node<'a, P> {
    path: Path<'a>,
    reading: &'a Reading<P>,
}

impl<'de, P: Take> DeserializeSeed<'de> for Node<'_, P> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de, P: Take> Visitor<'de> for Node<'_, P> {
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
        self.reading.parts.borrow_mut().begin(&self.path);
        let mut values = Vec::new();
        let mut index = 0;
        let child = |index| Node {
            path: Path::Index(&self.path, index),
            reading: self.reading,
        };
        while let Some(value) = list.next_element_seed(child(index))? {
            let mut parts = self.reading.parts.borrow_mut();
            values.extend(parts.take(&self.path, index, value));
            index += 1;
        }
        Ok(Value::Array(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<Value, A::Error> {
        let mut values = Map::new();
        while let Some(name) = object.next_key::<String>()? {
            let child = Node {
                path: Path::Name(&self.path, &name),
                reading: self.reading,
            };
            let value = object.next_value_seed(child)?;
            if values.contains_key(&name) {
                self.reading.problems.borrow_mut().push(StateProblem {
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
