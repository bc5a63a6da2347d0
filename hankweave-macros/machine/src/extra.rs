//! Unknown fields: those that a stored value has and its machine does not declare, kept in a field marked `#[extra]`.

use alloc::string::String;
use alloc::vec::Vec;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::Value;

/// Unknown fields of a stored value, in the order in which they were read; written back as they are.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Extra(Vec<(String, Value)>);

impl Extra {
    /// Whether there are no unknown fields.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Finds the value of a field by its stored name.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.0
            .iter()
            .find(|(known, _)| known == name)
            .map(|(_, value)| value)
    }

    /// Sets a field and returns the value that it had before.
    pub fn insert(&mut self, name: impl Into<String>, value: Value) -> Option<Value> {
        let name = name.into();
        match self.0.iter_mut().find(|(known, _)| *known == name) {
            Some((_, old)) => Some(core::mem::replace(old, value)),
            None => {
                self.0.push((name, value));
                None
            }
        }
    }

    /// Goes through all fields in their order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value))
    }
}

impl Serialize for Extra {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, value) in self.iter() {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for Extra {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries;

        impl<'de> Visitor<'de> for Entries {
            type Value = Extra;

            fn expecting(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Extra, A::Error> {
                let mut extra = Extra::default();
                while let Some((name, value)) = map.next_entry::<String, Value>()? {
                    if extra.get(&name).is_some() {
                        return Err(serde::de::Error::custom(format_args!("duplicate field `{name}`")));
                    }
                    extra.insert(name, value);
                }
                Ok(extra)
            }
        }

        deserializer.deserialize_map(Entries)
    }
}
