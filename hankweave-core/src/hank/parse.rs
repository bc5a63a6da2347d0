//! From the text of a hank.json to a [`Hank`] or to all its problems; also from the files of a sentinel, a result's schema and a script.
//!
//! The text becomes a syntax tree, whose structure is checked; then a function of `read` turns the tree into a value, and the rules of `check` follow.

use jsonc_parser::ast::Value;
use jsonc_parser::common::Ranged;
use jsonc_parser::errors::{ParseError, ParseErrorKind};
use jsonc_parser::{CollectOptions, ParseOptions, parse_to_ast};
use serde::de::IgnoredAny;
use serde_json::{Map, Value as JsonValue};

use super::check;
use super::document::Hank;
use super::problem::{Problems, Severity, quoted};
use super::read::sentinel::{self, SentinelFile};
use super::read::{self, script};
use super::reader::{HankReader, JsonNode, child_path};

/// Maximum size of a hank.json in bytes.
pub const MAX_HANK_BYTES: usize = 4 << 20;

/// Maximum depth to which lists and objects are nested.
const MAX_DEPTH: usize = 64;

/// Result of reading a hank.json.
#[derive(Debug, Clone)]
pub struct Parsed {
    /// The hank; `None` when there are errors.
    pub hank: Option<Hank>,
    /// Readable part of a hank with errors, so that its files and the abilities of its agents can be checked as well; not fit to run.
    pub draft: Option<Hank>,
    /// An id or an item that could not be read was replaced by a stand-in, so references to other codons are not checked.
    pub has_stand_ins: bool,
    /// All errors and warnings.
    pub problems: Problems,
}

/// Reads the text of a hank.json: JSON with comments and trailing commas.
///
/// All problems that can be found in the text are reported at once (HANK-1). The files that the hank names are not read.
#[must_use]
pub fn parse(text: &str) -> Parsed {
    let empty = r#"the smallest hank is { "hank": [ … ] } with one codon"#;
    let (reader, read) = read_with(text, empty, read::hank);
    let (mut problems, places) = (reader.problems, reader.places);
    let (has_stand_ins, has_unread_links) = (reader.stand_ins > 0, reader.has_unread_links);
    let hank = read.map(|hank| {
        let hank = Hank { places, ..hank };
        problems.extend(check::ids(&hank));
        problems.extend(check::each_codon(&hank));
        if !has_stand_ins && !has_unread_links {
            problems.extend(check::neighbours(&hank));
        }
        hank
    });
    let (draft, hank) = match problems.has_errors() {
        true => (hank, None),
        false => (None, hank),
    };
    Parsed {
        hank,
        draft,
        has_stand_ins,
        problems,
    }
}

/// Reads the bytes of a hank.json, which must be UTF-8; see [`parse()`].
#[must_use]
pub fn parse_bytes(bytes: &[u8]) -> Parsed {
    let Err(error) = std::str::from_utf8(bytes) else {
        return parse(&String::from_utf8_lossy(bytes));
    };
    let valid = String::from_utf8_lossy(&bytes[..error.valid_up_to()]);
    let message = "the file is not UTF-8 text".to_owned();
    Parsed {
        hank: None,
        draft: None,
        has_stand_ins: false,
        problems: unreadable(&valid, valid.len(), message, None).problems,
    }
}

/// Result of reading a sentinel's own file.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct CheckedSentinel {
    /// Id of the sentinel, if it is valid.
    pub id: Option<String>,
    /// Configuration; `None` if it has errors.
    pub config: Option<Map<String, JsonValue>>,
    /// All errors and warnings.
    pub problems: Problems,
}

/// Reads the text of a sentinel's own file, at `path` in the folder of the hank, and reports all problems.
///
/// The rules are those of a sentinel inside hank.json (HANK-51); the files that the sentinel names are not read.
#[must_use]
pub fn check_sentinel(text: &str, path: &str) -> CheckedSentinel {
    let empty = "a sentinel is an object with id, name, model, trigger, execution and a prompt";
    let file = SentinelFile::at(path);
    let (reader, read) = read_with(text, empty, |reader, node| {
        let id = sentinel::check_config(reader, node, file);
        Some((id, reader.json_object(node)))
    });
    let problems = reader.problems;
    let (id, config) = read.unwrap_or_default();
    let config = config.filter(|_| !problems.has_errors());
    CheckedSentinel { id, config, problems }
}

/// Reads the text of a result's schema, and reports all problems (HANK-93). Whether the JSON is a valid schema is checked by the runtime, with the other
/// files of the hank.
#[must_use]
pub fn check_result_schema(text: &str) -> (Option<Map<String, JsonValue>>, Problems) {
    let empty = r#"the smallest schema of a result is { "type": "object" }"#;
    let (reader, schema) = read_with(text, empty, read::result_schema);
    let problems = reader.problems;
    (schema.filter(|_| !problems.has_errors()), problems)
}

/// Reads a script of the scripted agent and returns all problems (HANK-74).
#[must_use]
pub fn check_script(text: &str) -> Problems {
    let empty = "a script is an object with `turns`, the list of what the agent says and does";
    let (mut reader, _) = read_with(text, empty, script::script);
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    // The agent reads plain JSON, while this reader also accepts comments and trailing commas.
    if !reader.problems.has_errors()
        && let Err(error) = serde_json::from_str::<IgnoredAny>(text)
    {
        let lines_before = text.split_inclusive('\n').take(error.line().saturating_sub(1));
        let offset = lines_before.map(str::len).sum::<usize>() + error.column().saturating_sub(1);
        let message = "is JSON with comments or trailing commas, which the scripted agent does not read";
        let hint = Some("take them out".to_owned());
        let offset = (0..=offset.min(text.len()))
            .rev()
            .find(|at| text.is_char_boundary(*at))
            .unwrap_or(0);
        reader.report(Severity::Error, String::new(), offset, message.to_owned(), hint);
    }
    reader.problems
}

/// Parses a text and passes its tree to `read`. Returns the reader, which has the problems, and the value, if there is one. `empty` is the hint for an
/// empty file.
pub(super) fn read_with<'t, T>(
    text: &'t str,
    empty: &str,
    read: impl FnOnce(&mut HankReader<'t>, &JsonNode<'_>) -> Option<T>,
) -> (HankReader<'t>, Option<T>) {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if text.len() > MAX_HANK_BYTES {
        let message = "the file is larger than 4 MiB".to_owned();
        return (unreadable(text, 0, message, None), None);
    }
    let root = match syntax_tree(text) {
        Ok(Some(root)) => root,
        Ok(None) => {
            let message = "the file is empty".to_owned();
            return (unreadable(text, 0, message, Some(empty)), None);
        }
        Err(error) => {
            let (offset, hint) = (error.range().start, syntax_hint(error.kind()));
            return (unreadable(text, offset, syntax_message(&error), hint), None);
        }
    };
    let mut reader = HankReader::new(text);
    if !check_structure(&mut reader, &root, "", 1) {
        return (reader, None);
    }
    let path = String::new();
    let read = read(&mut reader, &JsonNode { value: &root, path });
    (reader, read)
}

/// Returns a reader with one problem: the reason why nothing can be read.
fn unreadable<'t>(text: &'t str, offset: usize, message: String, hint: Option<&str>) -> HankReader<'t> {
    let mut reader = HankReader::new(text);
    let hint = hint.map(str::to_owned);
    reader.report(Severity::Error, String::new(), offset, message, hint);
    reader
}

fn syntax_tree(text: &str) -> Result<Option<Value<'_>>, ParseError> {
    let options = ParseOptions {
        allow_comments: true,
        allow_trailing_commas: true,
        allow_loose_object_property_names: false,
        allow_missing_commas: false,
        allow_single_quoted_strings: false,
        allow_hexadecimal_numbers: false,
        allow_unary_plus_numbers: false,
        allow_bare_decimal_point_numbers: false,
        allow_non_finite_numbers: false,
        allow_extended_string_escapes: false,
    };
    Ok(parse_to_ast(text, &CollectOptions::default(), &options)?.value)
}

fn syntax_message(error: &ParseError) -> String {
    if matches!(error.kind(), ParseErrorKind::NestingDepthExceeded) {
        return too_deep();
    }
    let mut message = error.kind().to_string();
    if let Some(first) = message.get_mut(..1) {
        first.make_ascii_lowercase();
    }
    format!("not JSON: {message}")
}

fn syntax_hint(kind: &ParseErrorKind) -> Option<&'static str> {
    match kind {
        ParseErrorKind::SingleQuotedStringsNotAllowed => Some("write strings in double quotes"),
        ParseErrorKind::ExpectedStringObjectProperty => Some("write keys in double quotes"),
        ParseErrorKind::UnterminatedArray => Some("the list that begins here has no `]`"),
        ParseErrorKind::UnterminatedObject => Some("the object that begins here has no `}`"),
        _ => None,
    }
}

fn too_deep() -> String {
    format!("nested deeper than {MAX_DEPTH} levels")
}

/// Reports every key that an object has twice; returns `false` where the document is nested too deep.
fn check_structure(reader: &mut HankReader<'_>, value: &Value<'_>, path: &str, depth: usize) -> bool {
    if depth > MAX_DEPTH {
        reader.report(Severity::Error, String::new(), value.start(), too_deep(), None);
        return false;
    }
    match value {
        Value::Array(array) => array.elements.iter().enumerate().all(|(index, element)| {
            is_scalar(element) || check_structure(reader, element, &format!("{path}[{index}]"), depth + 1)
        }),
        Value::Object(object) => {
            let keys = object.properties.iter();
            let mut keys: Vec<_> = keys.map(|key| (key.name.as_str(), key.start())).collect();
            keys.sort_unstable();
            for pair in keys.windows(2).filter(|pair| pair[0].0 == pair[1].0) {
                let (key, offset) = pair[1];
                let message = format!("{} stands twice in this object", quoted(key));
                reader.report(Severity::Error, child_path(path, key), offset, message, None);
            }
            object.properties.iter().all(|property| {
                let path = || child_path(path, property.name.as_str());
                is_scalar(&property.value) || check_structure(reader, &property.value, &path(), depth + 1)
            })
        }
        _ => true,
    }
}

fn is_scalar(value: &Value<'_>) -> bool {
    !matches!(value, Value::Array(_) | Value::Object(_))
}
