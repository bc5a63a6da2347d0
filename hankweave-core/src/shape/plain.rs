//! Errors of the JSON parser in plain words: without the names of Rust's types, and without the position, which the caller reports in its own form.

/// Returns an error in words for a file that people write: ``unknown key `txt`; valid keys are `text`, `turns` ``.
#[must_use]
pub fn plain(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let place = format!(" at line {} column {}", error.line(), error.column());
    let text = text.strip_suffix(&place).unwrap_or(&text);
    known(text).unwrap_or_else(|| syntax(text).to_owned())
}

/// Returns an error in words with its place in the file: `line 3, column 7: …`.
#[must_use]
pub fn plain_with_place(error: &serde_json::Error) -> String {
    let words = plain(error);
    match error.line() {
        0 => words,
        line => format!("line {line}, column {}: {words}", error.column()),
    }
}

/// Returns a mistake in the syntax of JSON in words.
pub(crate) fn syntax(text: &str) -> &str {
    match text {
        "trailing characters" => "there is more text after the end of the document",
        "expected ident" | "expected value" => "there is no JSON value here",
        "key must be a string" => "a name must stand in double quotes",
        "trailing comma" => "there is a comma, and nothing follows it",
        "number out of range" => "the number is too large",
        other => other,
    }
}

/// Returns an error of serde about the data in words; `None` for other errors, such as those about the syntax.
fn known(text: &str) -> Option<String> {
    if let Some(rest) = text.strip_prefix("missing field ") {
        return Some(format!("{rest} is missing"));
    }
    if let Some(rest) = text.strip_prefix("duplicate field ") {
        return Some(format!("{rest} stands there twice"));
    }
    if let Some(rest) = text.strip_prefix("unknown field ") {
        let (key, expected) = rest.split_once(", ")?;
        return Some(match alternatives(expected) {
            Some(keys) => format!("unknown key {key}; valid keys are {keys}"),
            None => format!("unknown key {key}"),
        });
    }
    if let Some(rest) = text.strip_prefix("unknown variant ") {
        let (value, expected) = rest.split_once(", ")?;
        let values = alternatives(expected).unwrap_or_default();
        return Some(format!("{value} is none of {values}"));
    }
    if let Some(rest) = text.strip_prefix("EOF while parsing ") {
        return Some(format!("it ends in the middle of {rest}"));
    }
    if text.starts_with("data did not match any variant") {
        return Some("it does not have the right form".to_owned());
    }
    let rest = text
        .strip_prefix("invalid type: ")
        .or_else(|| text.strip_prefix("invalid value: "));
    if let Some((found, expected)) = rest.and_then(|rest| rest.rsplit_once(", expected ")) {
        return Some(format!("must be {}, not {}", kind(expected), value(found)));
    }
    let (length, expected) = text.strip_prefix("invalid length ")?.rsplit_once(", expected ")?;
    Some(format!("must be {}, not {length} entries", kind(expected)))
}

/// Returns the names after `expected`, with commas between them.
fn alternatives(expected: &str) -> Option<String> {
    let names = expected.strip_prefix("expected ")?;
    let names = names.strip_prefix("one of ").unwrap_or(names);
    Some(names.replace(" or ", ", "))
}

/// Returns an expected type in words.
fn kind(expected: &str) -> &str {
    match expected {
        "u8" | "u16" | "u32" | "u64" | "usize" => "a whole number from 0 on",
        "i8" | "i16" | "i32" | "i64" => "a whole number",
        "f32" | "f64" => "a number",
        "a string" | "a borrowed string" | "string" => "a text",
        "a boolean" => "true or false",
        "a sequence" => "a list",
        "a map" => "an object",
        other if other.starts_with("struct ") || other.contains("tagged enum") => "an object",
        other if other.starts_with("enum ") => "a text or an object",
        other if other.starts_with("tuple ") || other.starts_with("a tuple") => "a list",
        other => other,
    }
}

/// Returns the found value in words.
fn value(found: &str) -> String {
    let of = |kind: &str| Some(found.strip_prefix(kind)?.trim_matches('`').to_owned());
    match found {
        "map" => "an object".to_owned(),
        "sequence" => "a list".to_owned(),
        "null" | "unit value" | "Option value" => "null".to_owned(),
        _ => of("string ")
            .map(|text| format!("the text {text}"))
            .or_else(|| of("integer "))
            .or_else(|| of("floating point "))
            .or_else(|| of("boolean "))
            .unwrap_or_else(|| found.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "only read")]
    struct Inner {
        count: u64,
        name: Option<String>,
        is: Option<bool>,
        list: Option<Vec<Inner>>,
    }

    #[test]
    fn nothing_of_rust_is_told() {
        for (text, words) in [
            (
                r#"{"cuont":1}"#,
                "unknown key `cuont`; valid keys are `count`, `name`, `is`, `list`",
            ),
            (r#"{"name":"x"}"#, "`count` is missing"),
            (
                r#"{"count":"x"}"#,
                "must be a whole number from 0 on, not the text \"x\"",
            ),
            (r#"{"count":-1}"#, "must be a whole number from 0 on, not -1"),
            (r#"{"count":1,"name":5}"#, "must be a text, not 5"),
            (
                r#"{"count":1,"is":null,"list":{}}"#,
                "must be a list, not an object",
            ),
            (
                r#"{"count":1,"is":"yes"}"#,
                "must be true or false, not the text \"yes\"",
            ),
            ("7", "must be an object, not 7"),
            (r#"{"count":1,"count":2}"#, "`count` stands there twice"),
            (r#"{"count":1"#, "it ends in the middle of an object"),
            (r#"{"count":1,}"#, "there is a comma, and nothing follows it"),
        ] {
            let error = serde_json::from_str::<Inner>(text).unwrap_err();
            assert_eq!(plain(&error), words, "{error}");
            let placed = plain_with_place(&error);
            assert!(
                placed.starts_with("line 1, column ") && placed.ends_with(words),
                "{placed}"
            );
        }
    }
}
