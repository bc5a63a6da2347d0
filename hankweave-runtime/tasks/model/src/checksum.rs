//! Canonical JSON (RFC 8785) and the checksum of a state file (TASK-8).

use std::fmt;

use hankweave_core::text::hex;
use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};
use serde_json::{Map, Number, Value};
use sha2::{Digest, Sha256};

use crate::error::TaskError;

/// Greatest integer that every JSON reader keeps exactly.
const GREATEST: u64 = (1 << 53) - 1;

/// Parses an object exactly as its writer meant it, or returns an error (TASK-15). Text that is to be sealed must be read by this function: serde_json
/// rounds an integer of more than 64 bits to a float, and the parsed [`Value`] no longer shows that.
///
/// # Errors
///
/// Returns [`TaskError::StateLoadFailed`] if the text is no object, has a duplicate name in an object, or has an integer that other readers would
/// round.
pub fn read_object(text: &str) -> Result<Map<String, Value>, TaskError> {
    let Strict(value) =
        serde_json::from_str(text).map_err(|error| TaskError::StateLoadFailed(error.to_string()))?;
    match (value, rounded_integer(text)) {
        (Value::Object(object), None) => Ok(object),
        (Value::Object(_), Some(number)) => Err(TaskError::StateLoadFailed(format!(
            "the integer {number} is beyond 2^53 - 1, which other readers round"
        ))),
        _ => Err(TaskError::StateLoadFailed("it is no object".to_owned())),
    }
}

/// Returns the first integer of this JSON that some readers would round.
fn rounded_integer(text: &str) -> Option<&str> {
    let mut in_string = false;
    let mut escaped = false;
    // Splits at all characters of strings and all separators, so that only numbers, `true`, `false`, `null` and empty words are left.
    let words_outside_strings = text.split(|character: char| {
        let was_in_string = in_string;
        match character {
            _ if escaped => escaped = false,
            '\\' if in_string => escaped = true,
            '"' => in_string = !in_string,
            _ => {}
        }
        was_in_string || !(character.is_ascii_alphanumeric() || "+-.".contains(character))
    });
    let is_integer = |word: &&str| {
        let digits = word.strip_prefix('-').unwrap_or(word);
        !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
    };
    let is_rounded = |word: &&str| {
        let digits = word.strip_prefix('-').unwrap_or(word);
        !digits.parse::<u64>().is_ok_and(|size| size <= GREATEST)
    };
    words_outside_strings.filter(is_integer).find(is_rounded)
}

/// Value whose objects have no duplicate names; serde_json alone would keep the last one.
struct Strict(Value);

impl<'de> Deserialize<'de> for Strict {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(StrictVisitor).map(Self)
    }
}

struct StrictVisitor;

impl<'de> Visitor<'de> for StrictVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: serde::de::SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(Strict(item)) = items.next_element()? {
            list.push(item);
        }
        Ok(list.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some((name, Strict(value))) = members.next_entry::<String, Strict>()? {
            if object.contains_key(&name) {
                return Err(A::Error::custom(format!("`{name}` is there twice")));
            }
            object.insert(name, value);
        }
        Ok(object.into())
    }
}

/// Returns the canonical text of this value: sorted keys, no white space, numbers as JavaScript writes them.
///
/// # Errors
///
/// Returns [`TaskError::StateSaveFailed`] for an integer that other readers would round.
pub fn canonical(value: &Value) -> Result<String, TaskError> {
    let mut text = String::new();
    write_value(&mut text, value)?;
    Ok(text)
}

/// Adds the checksum of all other fields to the object.
///
/// # Errors
///
/// Fails like [`canonical`].
pub fn seal(state: &mut Map<String, Value>) -> Result<(), TaskError> {
    let sum = checksum(state)?;
    state.insert("checksum".to_owned(), Value::String(sum));
    Ok(())
}

/// Compares the object's checksum with its other fields; repairs nothing.
///
/// # Errors
///
/// Returns [`TaskError::StateValidationFailed`] when the checksum is missing or wrong.
pub fn verify(state: &Map<String, Value>) -> Result<(), TaskError> {
    let Some(given) = state.get("checksum").and_then(Value::as_str) else {
        return Err(TaskError::StateValidationFailed("there is no checksum"));
    };
    match checksum(state) {
        Ok(sum) if sum == given => Ok(()),
        _ => Err(TaskError::StateValidationFailed("the checksum is another")),
    }
}

fn checksum(state: &Map<String, Value>) -> Result<String, TaskError> {
    let covered = state.iter().filter(|(name, _)| *name != "checksum");
    let mut text = String::new();
    write_object(&mut text, covered)?;
    Ok(digest(text.as_bytes()))
}

/// Returns the SHA-256 of these bytes, in 64 lower-case hexadecimal digits.
pub(crate) fn digest(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

fn write_value(text: &mut String, value: &Value) -> Result<(), TaskError> {
    match value {
        Value::Object(object) => write_object(text, object.iter())?,
        Value::Array(items) => {
            text.push('[');
            for (place, item) in items.iter().enumerate() {
                text.push_str(if place > 0 { "," } else { "" });
                write_value(text, item)?;
            }
            text.push(']');
        }
        Value::Number(number) => text.push_str(&number_text(number)?),
        // serde_json escapes exactly what RFC 8785 escapes.
        other => text.push_str(&other.to_string()),
    }
    Ok(())
}

fn write_object<'a>(
    text: &mut String,
    members: impl Iterator<Item = (&'a String, &'a Value)>,
) -> Result<(), TaskError> {
    let mut members: Vec<_> = members.collect();
    // RFC 8785 sorts names by their UTF-16 code units.
    members.sort_by(|(a, _), (b, _)| a.encode_utf16().cmp(b.encode_utf16()));
    text.push('{');
    for (place, (name, value)) in members.into_iter().enumerate() {
        text.push_str(if place > 0 { "," } else { "" });
        text.push_str(&Value::from(name.as_str()).to_string());
        text.push(':');
        write_value(text, value)?;
    }
    text.push('}');
    Ok(())
}

fn number_text(number: &Number) -> Result<String, TaskError> {
    let integer = number.as_u64().or(number.as_i64().map(i64::unsigned_abs));
    match (integer, number.as_f64()) {
        (Some(size), _) if size > GREATEST => Err(TaskError::StateSaveFailed(
            "an integer is beyond 2^53 - 1, which other readers round",
        )),
        (Some(_), _) => Ok(number.to_string()),
        (None, Some(float)) => Ok(float_text(float)),
        (None, None) => Err(TaskError::StateSaveFailed("a number cannot be written")),
    }
}

/// Returns the shortest digits of a number, in the form that JavaScript chooses.
fn float_text(float: f64) -> String {
    match float.abs() {
        0.0 => "0".to_owned(),
        1e-6..1e21 => float.to_string(),
        size if size < 1.0 => format!("{float:e}"),
        _ => format!("{float:e}").replace('e', "e+"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    // covers: TASK-8
    #[test]
    fn the_checksum_covers_the_canonical_text_without_itself() {
        let mut state = json!({
            "taskId": "report-7", "status": "completed", "data": {"title": "Q1 – Übersicht", "pages": 3},
            "lastUpdated": "2026-02-03T09:15:00.250Z",
        });
        let text = r#"{"data":{"pages":3,"title":"Q1 – Übersicht"},"lastUpdated":"2026-02-03T09:15:00.250Z","status":"completed","taskId":"report-7"}"#;
        assert_eq!(canonical(&state).unwrap(), text);
        let state = state.as_object_mut().unwrap();
        assert_eq!(verify(state).unwrap_err().code(), "STATE_VALIDATION_FAILED");
        seal(state).unwrap();
        assert_eq!(
            state["checksum"],
            "832643dc3e8aa21976c602553dd237155807559b75936065a5d68081eb0a94ed"
        );
        verify(state).unwrap();
        state["data"]["pages"] = json!(4);
        assert_eq!(verify(state).unwrap_err().code(), "STATE_VALIDATION_FAILED");
    }

    // covers: TASK-8
    #[test]
    fn numbers_are_written_as_javascript_does_and_none_is_rounded() {
        let numbers = json!([
            1e21,
            1e20,
            1.5e-7,
            0.000001,
            -0.0,
            100.0,
            4.5,
            -7,
            9007199254740991u64
        ]);
        let text = "[1e+21,100000000000000000000,1.5e-7,0.000001,0,100,4.5,-7,9007199254740991]";
        assert_eq!(canonical(&numbers).unwrap(), text);
        for beyond in [json!(9007199254740992u64), json!(-9007199254740992i64)] {
            assert_eq!(canonical(&beyond).unwrap_err().code(), "STATE_SAVE_FAILED");
        }
    }

    // covers: TASK-15
    #[test]
    fn an_object_is_read_as_it_was_meant_or_not_at_all() {
        let text = r#"{"s":"\\\"18446744073709551616","a":[1e21,-9007199254740991,0.5,18446744073709551616.0],"n":null,"t":true,"i":-7}"#;
        let read = read_object(text).unwrap();
        assert_eq!(Value::Object(read), serde_json::from_str::<Value>(text).unwrap());
        for (text, why) in [
            (
                r#"{"a":[18446744073709551616]}"#,
                "the integer 18446744073709551616 is",
            ),
            (
                r#"{"\"":1,"a":-9007199254740992}"#,
                "the integer -9007199254740992 is",
            ),
            (r#"{"a":{"b":1,"b":2}}"#, "`b` is there twice"),
            ("[]", "no object"),
            (r#"{"a":1"#, "EOF"),
        ] {
            let refused = read_object(text).unwrap_err();
            assert_eq!(refused.code(), "STATE_LOAD_FAILED");
            assert!(refused.to_string().contains(why), "{refused}");
        }
    }
}
