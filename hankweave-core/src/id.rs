//! Identifiers: one newtype for each kind, checked where it is made.
//!
//! An identifier that exists has passed its check, so no later code needs to check whether a codon id may become a file
//! name. Identifiers are shared strings, so that a clone is cheap. The rules are X1, STATE-3 and STATE-4.

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Longest codon, loop or sentinel id, in bytes, without an iteration suffix.
pub const MAX_ID_BYTES: usize = 128;

/// Pattern of the ids of hank.json and of tasks, for JSON Schemas. The checks below enforce this pattern and report what is wrong.
#[cfg(any(test, feature = "schema"))]
const PLAIN_ID: &str = "^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$";

/// Pattern of a codon id, with the iteration of a loop after it.
#[cfg(any(test, feature = "schema"))]
const CODON_ID: &str = "^[A-Za-z0-9][A-Za-z0-9._-]{0,127}(#[0-9]{1,9})?$";

/// Pattern of the names that [`is_model_name`] accepts.
#[cfg(any(test, feature = "schema"))]
pub(crate) const MODEL_NAME: &str = r"^[A-Za-z0-9][A-Za-z0-9._:/-]{0,127}(\[[A-Za-z0-9]{1,16}\])?$";

/// Why a string is not an identifier.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a valid {kind}: {reason}")]
pub struct InvalidId {
    /// Intended meaning of the string, such as "codon id".
    pub kind: &'static str,
    /// The rejected string.
    pub text: String,
    /// The broken rule.
    pub reason: &'static str,
}

macro_rules! string_id {
    ($(#[$doc:meta])* $name:ident, $kind:literal, $check:path, $schema:tt) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Checks `text` and takes it over.
            ///
            /// # Errors
            ///
            /// Returns [`InvalidId`] with the broken rule.
            pub fn new(text: impl Into<Arc<str>>) -> Result<Self, InvalidId> {
                let text = text.into();
                match $check(&text) {
                    Ok(()) => Ok(Self(text)),
                    Err(reason) => Err(InvalidId { kind: $kind, text: text.as_ref().to_owned(), reason }),
                }
            }

            /// The identifier as a string.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        #[cfg(feature = "schema")]
        impl schemars::JsonSchema for $name {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!($schema)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.0, f)
            }
        }

        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl std::str::FromStr for $name {
            type Err = InvalidId;

            fn from_str(text: &str) -> Result<Self, InvalidId> {
                Self::new(text)
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.0)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = std::borrow::Cow::<str>::deserialize(deserializer)?;
                Self::new(&*text).map_err(serde::de::Error::custom)
            }
        }
    };
}

string_id! {
    /// One run: an opaque string that is also a folder name and, after `run-`, a branch name.
    RunId, "run id", check_folder_name,
    {"type": "string", "minLength": 1, "maxLength": 200}
}
string_id! {
    /// A codon as it is executed: the id written in hank.json, with `#0`, `#1`, … after it inside a loop.
    CodonId, "codon id", check_codon_id,
    {"type": "string", "pattern": CODON_ID}
}
string_id! {
    /// A loop, as it is named in hank.json.
    LoopId, "loop id", check_configured_id,
    {"type": "string", "pattern": PLAIN_ID}
}
string_id! {
    /// An agent's own name for a conversation; opaque, usually a UUID.
    SessionId, "session id", check_not_empty,
    {"type": "string", "minLength": 1}
}
string_id! {
    /// A sentinel.
    SentinelId, "sentinel id", check_not_empty,
    {"type": "string", "minLength": 1}
}
string_id! {
    /// One event in the journal.
    EventId, "event id", check_not_empty,
    {"type": "string", "minLength": 1}
}

string_id! {
    /// A task of the task system; it is also a folder name (STATE-62).
    TaskId, "task id", check_plain,
    {"type": "string", "pattern": PLAIN_ID}
}
string_id! {
    /// An agent that works on a task, as it calls itself.
    AgentId, "agent id", check_not_empty,
    {"type": "string", "minLength": 1}
}

impl CodonId {
    /// The id of iteration `iteration` (counted from 0) of the codon configured as `configured`.
    ///
    /// # Errors
    ///
    /// Returns [`InvalidId`] when `configured` is not an id from a hank.json, or `iteration` has more than nine digits.
    pub fn in_loop(configured: &str, iteration: u32) -> Result<Self, InvalidId> {
        Self::new(format!("{configured}#{iteration}"))
    }

    /// Returns the id as hank.json has it, without an iteration suffix.
    #[must_use]
    pub fn configured(&self) -> &str {
        self.0
            .split_once('#')
            .map_or(&*self.0, |(configured, _)| configured)
    }

    /// Returns the iteration of its loop, counted from 1; 1 outside of loops.
    #[must_use]
    pub fn iteration(&self) -> u32 {
        let suffix = self
            .0
            .split_once('#')
            .and_then(|(_, number)| number.parse::<u32>().ok());
        suffix.map_or(1, |from_zero| from_zero.saturating_add(1))
    }

    /// The id as part of a file name: `review#1` becomes `review-1` (STATE-4).
    #[must_use]
    pub fn file_stem(&self) -> String {
        self.0.replace('#', "-")
    }
}

impl SessionId {
    /// Whether the id is safe as an argument on a command line (S7).
    #[must_use]
    pub fn is_safe_argument(&self) -> bool {
        is_safe_argument(&self.0)
    }
}

/// The number of an operating system process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct Pid(pub u32);

impl fmt::Display for Pid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// A commit in the checkpoint repository.
///
/// Files of the older system hold abbreviated and even blank values, so any string is accepted; only `is_blank` shows whether it can name a commit
/// at all.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct CheckpointSha(Arc<str>);

impl CheckpointSha {
    /// Takes the string as it is.
    pub fn new(text: impl Into<Arc<str>>) -> Self {
        Self(text.into())
    }

    /// The SHA as a string.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The first digits, enough for a person to recognise the checkpoint.
    #[must_use]
    pub fn short(&self) -> &str {
        self.0.get(..12).unwrap_or(&self.0)
    }

    /// Whether it has nothing but white space, so that it cannot name a commit.
    #[must_use]
    pub fn is_blank(&self) -> bool {
        self.0.trim().is_empty()
    }
}

impl fmt::Display for CheckpointSha {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// Whether `text` is safe as an argument on a command line: `[A-Za-z0-9][A-Za-z0-9._:/-]{0,127}` (S7).
#[must_use]
pub fn is_safe_argument(text: &str) -> bool {
    let mut bytes = text.bytes();
    text.len() <= MAX_ID_BYTES
        && bytes.next().is_some_and(|first| first.is_ascii_alphanumeric())
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || b"._:/-".contains(&byte))
}

/// Whether `text` may be an argument on a command line as the name of a model: a safe argument, with or without a note in
/// brackets of at most 16 letters and digits (`opus[1m]`).
#[must_use]
pub fn is_model_name(text: &str) -> bool {
    let Some((name, note)) = text.strip_suffix(']').and_then(|text| text.split_once('[')) else {
        return is_safe_argument(text);
    };
    is_safe_argument(name)
        && (1..=16).contains(&note.len())
        && note.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

/// Checks an id that an author wrote into hank.json: `[A-Za-z0-9][A-Za-z0-9._-]{0,127}` and no name that Windows
/// reserves for a device (X1).
///
/// # Errors
///
/// Returns the broken rule as a phrase that follows "… is not valid:".
pub fn check_configured_id(text: &str) -> Result<(), &'static str> {
    if text.contains('#') {
        return Err("`#` is reserved for loop iterations");
    }
    if text.contains(['/', '\\']) {
        return Err("it must not contain a path separator");
    }
    check_plain(text)?;
    if is_device_name(text) {
        return Err("it is a device name on Windows");
    }
    Ok(())
}

/// Checks that a text is short and has only plain characters.
fn check_plain(text: &str) -> Result<(), &'static str> {
    if text.is_empty() {
        return Err("it is empty");
    }
    if text.len() > MAX_ID_BYTES {
        return Err("it is longer than 128 characters");
    }
    if !text.starts_with(|first: char| first.is_ascii_alphanumeric()) {
        return Err("it must begin with a letter or a digit");
    }
    if !text.bytes().all(is_plain) {
        return Err("only letters, digits, `.`, `_` and `-` are allowed");
    }
    Ok(())
}

fn check_codon_id(text: &str) -> Result<(), &'static str> {
    match text.split_once('#') {
        None => check_configured_id(text),
        Some((configured, iteration)) => {
            let digits = !iteration.is_empty() && iteration.bytes().all(|byte| byte.is_ascii_digit());
            if !digits || iteration.len() > 9 {
                return Err("`#` must be followed by an iteration number");
            }
            check_configured_id(configured)
        }
    }
}

fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"._-".contains(&byte)
}

fn check_folder_name(text: &str) -> Result<(), &'static str> {
    if text.is_empty() {
        return Err("it is empty");
    }
    if text.len() > 200 {
        return Err("it is longer than 200 bytes");
    }
    if text == "." || text == ".." || text.contains(['/', '\\', '\0']) {
        return Err("it must be usable as a folder name");
    }
    Ok(())
}

fn check_not_empty(text: &str) -> Result<(), &'static str> {
    match text.is_empty() {
        true => Err("it is empty"),
        false => Ok(()),
    }
}

fn is_device_name(text: &str) -> bool {
    let stem = text.split('.').next().unwrap_or(text).to_ascii_lowercase();
    match stem.as_str() {
        "con" | "prn" | "aux" | "nul" => true,
        _ => stem
            .strip_prefix("com")
            .or_else(|| stem.strip_prefix("lpt"))
            .is_some_and(|rest| matches!(rest.as_bytes(), [b'1'..=b'9'])),
    }
}

crate::shape::leaves!(RunId, CodonId, LoopId, SessionId, SentinelId, Pid, CheckpointSha);

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn codon_id(text: &str, valid: bool) {
        assert_eq!(CodonId::new(text).is_ok(), valid, "{text:?}");
    }

    // covers: X1, STATE-4
    #[test]
    fn a_codon_id_can_always_become_a_file_name() {
        for good in ["a", "review", "review#0", "x.y_z-1", "9lives", "common", "com10"] {
            codon_id(good, true);
        }
        for bad in [
            "", ".", "..", "-x", "a/b", "a\\b", "a#", "a#x", "#0", "a b", "ä", "con", "COM1.txt", "a#-1",
        ] {
            codon_id(bad, false);
        }
        codon_id(&"a".repeat(128), true);
        codon_id(&"a".repeat(129), false);
    }

    proptest::proptest! {
        /// What the patterns allow is an id, but for the names of devices, and one character more is none.
        #[test]
        fn the_patterns_say_what_is_checked(
            plain in proptest::string::string_regex(&PLAIN_ID[1..PLAIN_ID.len() - 1]).unwrap(),
            codon in proptest::string::string_regex(&CODON_ID[1..CODON_ID.len() - 1]).unwrap(),
            model in proptest::string::string_regex(&MODEL_NAME[1..MODEL_NAME.len() - 1]).unwrap(),
        ) {
            let is_device = |text: &str| text.split_once('#').map_or(is_device_name(text), |(text, _)| is_device_name(text));
            assert!(TaskId::new(&*plain).is_ok());
            assert_eq!(LoopId::new(&*plain).is_ok(), !is_device(&plain));
            assert_eq!(CodonId::new(&*codon).is_ok(), !is_device(&codon));
            assert!(is_model_name(&model));
            for outside in [" ", "!", "ä"] {
                assert!(TaskId::new(plain.clone() + outside).is_err());
                assert!(LoopId::new(plain.clone() + outside).is_err());
                assert!(CodonId::new(codon.clone() + outside).is_err());
                assert!(!is_model_name(&(model.clone() + outside)));
            }
        }
    }

    // covers: STATE-4
    #[test]
    fn an_iteration_knows_its_configured_id_and_file_name() {
        let id = CodonId::in_loop("review", 2).unwrap();
        assert_eq!(
            (id.as_str(), id.configured(), id.file_stem().as_str()),
            ("review#2", "review", "review-2")
        );
    }

    // covers: X1
    #[test]
    fn an_unchecked_id_cannot_be_deserialised() {
        assert!(serde_json::from_str::<CodonId>("\"a/b\"").is_err());
        assert!(serde_json::from_str::<RunId>("\"../x\"").is_err());
    }

    // covers: S7
    #[test]
    fn an_option_is_not_a_safe_argument() {
        assert!(is_safe_argument("claude-sonnet-4-5"));
        assert!(!is_safe_argument("--model"));
        assert!(!is_safe_argument(""));
        assert!(!is_safe_argument("a b"));
        for name in ["opus", "opus[1m]", "anthropic/claude-opus-5[1m]"] {
            assert!(is_model_name(name), "{name}");
        }
        for name in [
            "",
            "[1m]",
            "opus[]",
            "opus[1m",
            "opus]",
            "opus[--x]",
            "-x[1m]",
            "opus[1m][1m]",
            "opus[12345678901234567]",
        ] {
            assert!(!is_model_name(name), "{name}");
        }
    }
}
