//! Differences between the record and its replay.

use std::fmt;

use hankweave_core::document::HankweaveState;
use serde_json::Value;

/// Maximum length of a reported value, in characters.
const MOST_CHARS: usize = 200;

/// A value that came out of the replay different from the recorded one.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Difference {
    /// The codon, the event or the field.
    pub place: String,
    /// Recorded value.
    pub recorded: String,
    /// Replayed value.
    pub replayed: String,
}

impl Difference {
    pub(super) fn new(
        place: impl Into<String>,
        recorded: impl fmt::Display,
        replayed: impl fmt::Display,
    ) -> Self {
        Self {
            place: place.into(),
            recorded: short(&recorded.to_string()),
            replayed: short(&replayed.to_string()),
        }
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            place,
            recorded,
            replayed,
        } = self;
        write!(f, "{place}: recorded {recorded}, replayed {replayed}")
    }
}

fn short(text: &str) -> String {
    match text.char_indices().nth(MOST_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// The first field in which two documents differ.
pub(super) fn first(recorded: &HankweaveState, replayed: &HankweaveState) -> Option<Difference> {
    if recorded == replayed {
        return None;
    }
    let [recorded, replayed] =
        [recorded, replayed].map(|state| serde_json::to_value(state).unwrap_or_default());
    within("state.json".to_owned(), &recorded, &replayed)
}

/// Returns the first difference inside two JSON values at `place`.
fn within(place: String, recorded: &Value, replayed: &Value) -> Option<Difference> {
    let of = |value: Option<&Value>| value.map_or("nothing".to_owned(), Value::to_string);
    match (recorded, replayed) {
        (left, right) if left == right => None,
        (Value::Object(left), Value::Object(right)) => {
            let mut names = left
                .keys()
                .chain(right.keys().filter(|name| !left.contains_key(*name)));
            names.find_map(|name| match (left.get(name), right.get(name)) {
                (Some(left), Some(right)) => within(format!("{place}.{name}"), left, right),
                (left, right) => Some(Difference::new(format!("{place}.{name}"), of(left), of(right))),
            })
        }
        (Value::Array(left), Value::Array(right)) => (0..left.len().max(right.len())).find_map(|index| {
            let place = format!("{place}[{index}]");
            match (left.get(index), right.get(index)) {
                (Some(left), Some(right)) => within(place, left, right),
                (left, right) => Some(Difference::new(place, of(left), of(right))),
            }
        }),
        (left, right) => Some(Difference::new(place, left, right)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    // covers: RUN-22
    #[test]
    fn the_first_field_that_differs_is_named() {
        let check =
            |left: Value, right: Value| within("s".to_owned(), &left, &right).map(|found| found.to_string());
        assert_eq!(
            check(json!({"a": [1, {"b": 2}]}), json!({"a": [1, {"b": 2}]})),
            None
        );
        let told = check(json!({"a": [1, {"b": 2}]}), json!({"a": [1, {"b": 3}]}));
        assert_eq!(told.unwrap(), "s.a[1].b: recorded 2, replayed 3");
        assert_eq!(
            check(json!([1]), json!([])).unwrap(),
            "s[0]: recorded 1, replayed nothing"
        );
        assert_eq!(
            check(json!({}), json!({"x": 1})).unwrap(),
            "s.x: recorded nothing, replayed 1"
        );
    }
}
