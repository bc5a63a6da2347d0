//! A value that carries its JSON.

use std::fmt;
use std::ops::Deref;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A value and its JSON text, which is made once and then copied to wherever the value goes: log, journal, clients.
#[derive(Clone)]
pub struct Encoded<T> {
    value: T,
    json: String,
}

/// Room for the text of most events, so that it is allocated once.
const USUAL_BYTES: usize = 512;

impl<T: Serialize> Encoded<T> {
    /// Encodes a value.
    ///
    /// # Errors
    ///
    /// What its serialisation says, as for a path that is not UTF-8.
    pub fn new(value: T) -> serde_json::Result<Self> {
        let mut json = Vec::with_capacity(USUAL_BYTES);
        serde_json::to_writer(&mut json, &value)?;
        let json = String::from_utf8(json).expect("JSON is UTF-8");
        Ok(Self { value, json })
    }
}

impl<T> Encoded<T> {
    /// The JSON text.
    #[must_use]
    pub fn json(&self) -> &str {
        &self.json
    }
}

impl<T> Deref for Encoded<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T: PartialEq> PartialEq for Encoded<T> {
    fn eq(&self, other: &Self) -> bool {
        self.value == other.value
    }
}

impl<T: fmt::Debug> fmt::Debug for Encoded<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.value.fmt(f)
    }
}

impl<T: Serialize> Serialize for Encoded<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.value.serialize(serializer)
    }
}

impl<'de, T: Serialize + Deserialize<'de>> Deserialize<'de> for Encoded<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::new(T::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_written_like_its_value_and_read_back() {
        let encoded = Encoded::new(vec!["a\"b".to_owned(), "c".to_owned()]).unwrap();
        let text = serde_json::to_string(&encoded).unwrap();
        assert_eq!(text, serde_json::to_string(&*encoded).unwrap());
        assert_eq!(
            serde_json::from_str::<Encoded<Vec<String>>>(&text).unwrap(),
            encoded
        );
    }
}
