//! Checks one text, number or name, with a message for people when it cannot be read.
//!
//! A type decides through serde which values it accepts, but the error messages of serde are not made for people. The deserializer `Leaf` passes the value
//! to the type, and its error type `Unreadable` phrases the errors in our words.

use std::fmt::{self, Display};

use serde::de::value::StrDeserializer;
use serde::de::{DeserializeOwned, Deserializer, Error, Expected, Unexpected, Visitor};
use serde_json::Value;

use super::Checker;

/// Maximum length of a text in a message, in characters.
const SHOWN_CHARACTERS: usize = 60;

/// Reports the value if it cannot be read as a `T`, which is a text, a number or a name.
pub fn leaf<T: DeserializeOwned>(checker: &mut Checker, value: &mut Value) {
    if let Err(Unreadable(message)) = T::deserialize(Leaf(value)) {
        checker.report(message);
    }
}

/// Implements [`Shape`](super::Shape) for types that are one text, number or name.
macro_rules! leaves {
    ($($type:ty),* $(,)?) => {
        $(impl $crate::shape::Shape for $type {
            fn check(checker: &mut $crate::shape::Checker, value: &mut serde_json::Value) {
                $crate::shape::leaf::<Self>(checker, value);
            }
        })*
    };
}
pub(crate) use leaves;

/// Reason why a value cannot be read, in words that fit after the name of its field.
#[derive(Debug)]
struct Unreadable(String);

impl Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Unreadable {}

impl Error for Unreadable {
    fn custom<T: Display>(message: T) -> Self {
        Self(message.to_string())
    }

    fn invalid_type(found: Unexpected<'_>, wanted: &dyn Expected) -> Self {
        Self(format!("must be {}, not {}", plain(wanted), shown(found)))
    }

    fn invalid_value(found: Unexpected<'_>, wanted: &dyn Expected) -> Self {
        Self::invalid_type(found, wanted)
    }

    fn unknown_variant(found: &str, names: &'static [&'static str]) -> Self {
        Self(format!(
            "must be one of {}, not {}",
            list(names),
            shown(Unexpected::Str(found))
        ))
    }
}

/// Describes the expectation of a type, in our words.
fn plain(wanted: &dyn Expected) -> String {
    let wanted = wanted.to_string();
    let words = match wanted.as_str() {
        "u64" => "a whole number from 0 on",
        "u32" => "a whole number from 0 to 4294967295",
        "i64" => "a whole number",
        "f64" => "a number",
        "a boolean" => "true or false",
        "path string" => "a string",
        other => other,
    };
    words.to_owned()
}

fn shown(found: Unexpected<'_>) -> String {
    match found {
        Unexpected::Bool(value) => value.to_string(),
        Unexpected::Unsigned(number) => number.to_string(),
        Unexpected::Signed(number) => number.to_string(),
        // `{:?}` keeps the point of `1.0`, which is refused where a whole number is expected.
        Unexpected::Float(number) => format!("{number:?}"),
        Unexpected::Str(text) => match text.char_indices().nth(SHOWN_CHARACTERS) {
            None => format!("`{text}`"),
            Some((end, _)) => format!("`{}…`", &text[..end]),
        },
        Unexpected::Unit => "null".to_owned(),
        Unexpected::Seq => "a list".to_owned(),
        Unexpected::Map => "an object".to_owned(),
        // JSON has no other values.
        other => other.to_string(),
    }
}

fn list(names: &[&str]) -> String {
    let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    names.join(", ")
}

/// Deserializer of one value.
struct Leaf<'a>(&'a Value);

impl Leaf<'_> {
    fn unexpected(&self) -> Unexpected<'_> {
        match self.0 {
            Value::Null => Unexpected::Unit,
            Value::Bool(value) => Unexpected::Bool(*value),
            Value::Number(number) => match (number.as_u64(), number.as_i64()) {
                (Some(number), _) => Unexpected::Unsigned(number),
                (None, Some(number)) => Unexpected::Signed(number),
                (None, None) => Unexpected::Float(number.as_f64().unwrap_or(f64::NAN)),
            },
            Value::String(text) => Unexpected::Str(text),
            Value::Array(_) => Unexpected::Seq,
            Value::Object(_) => Unexpected::Map,
        }
    }
}

impl<'de> Deserializer<'de> for Leaf<'de> {
    type Error = Unreadable;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Unreadable> {
        match (self.0, self.unexpected()) {
            (Value::String(text), _) => visitor.visit_borrowed_str(text),
            (_, Unexpected::Bool(value)) => visitor.visit_bool(value),
            (_, Unexpected::Unsigned(number)) => visitor.visit_u64(number),
            (_, Unexpected::Signed(number)) => visitor.visit_i64(number),
            (_, Unexpected::Float(number)) => visitor.visit_f64(number),
            (_, found) => Err(Unreadable::invalid_type(found, &visitor)),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Unreadable> {
        match self.0 {
            Value::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        names: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Unreadable> {
        match self.0 {
            Value::String(name) => visitor.visit_enum(StrDeserializer::new(name)),
            _ => Err(Unreadable(format!(
                "must be one of {}, not {}",
                list(names),
                shown(self.unexpected())
            ))),
        }
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct newtype_struct seq tuple
        tuple_struct map struct identifier ignored_any
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use serde_json::json;

    use super::*;
    use crate::agent::FailureKind;
    use crate::codon::CodonStatus;
    use crate::cost::Usd;
    use crate::id::{CodonId, Pid};
    use crate::time::Timestamp;

    #[track_caller]
    fn says<T: DeserializeOwned>(mut value: Value, expected: &str) {
        let mut checker = Checker::default();
        leaf::<T>(&mut checker, &mut value);
        let findings = checker.into_findings();
        let messages: Vec<&str> = findings.iter().map(|finding| finding.message.as_str()).collect();
        assert_eq!(messages, [expected]);
    }

    #[test]
    fn messages_are_in_plain_words() {
        says::<u64>(json!("x"), "must be a whole number from 0 on, not `x`");
        says::<u64>(json!(-1), "must be a whole number from 0 on, not -1");
        says::<u64>(json!(1.5), "must be a whole number from 0 on, not 1.5");
        says::<Pid>(
            json!(null),
            "must be a whole number from 0 to 4294967295, not null",
        );
        says::<bool>(json!([]), "must be true or false, not a list");
        says::<PathBuf>(json!({}), "must be a string, not an object");
        says::<Usd>(json!("1"), "must be a number, not `1`");
        says::<Option<CodonId>>(json!(7), "must be a string, not 7");
        says::<Timestamp>(
            json!("now"),
            "`now` is not an RFC 3339 time such as 2025-01-04T12:00:00.000Z",
        );
        let kinds = "`timeout`, `rate-limit`, `api-error`, `sentinel-load-failure`, `unknown`";
        says::<FailureKind>(json!("bad"), &format!("must be one of {kinds}, not `bad`"));
        says::<FailureKind>(json!(true), &format!("must be one of {kinds}, not true"));
        says::<CodonStatus>(json!(3), "must be the name of a status, not 3");
        says::<u64>(
            json!("x".repeat(99)),
            &format!("must be a whole number from 0 on, not `{}…`", "x".repeat(60)),
        );
    }
}
