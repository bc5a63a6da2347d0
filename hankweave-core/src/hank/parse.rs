//! From the text of a hank.json to a [`Hank`] or to everything that is wrong with it.

use jsonc_parser::ast::Value;
use jsonc_parser::common::Ranged;
use jsonc_parser::errors::{ParseError, ParseErrorKind};
use jsonc_parser::{CollectOptions, ParseOptions, parse_to_ast};

use super::check;
use super::document::Hank;
use super::problem::{Level, Problems, quoted};
use super::read::sentinel::{self, SentinelFile};
use super::read::{self, ReadHank};
use super::reader::{Node, Reader, child_path};

/// A hank.json may not be larger.
pub const MAX_HANK_BYTES: usize = 4 << 20;

/// Lists and objects may not be nested deeper.
const MAX_DEPTH: usize = 64;

/// The outcome of reading a hank.json.
#[derive(Debug, Clone)]
pub struct Parsed {
    /// The hank; `None` when there are errors.
    pub hank: Option<Hank>,
    /// What could be read of a hank with errors, so that the files it names can be looked at as well; not fit to run.
    pub draft: Option<Hank>,
    /// All errors and warnings.
    pub problems: Problems,
}

/// Reads the text of a hank.json: JSON with comments and trailing commas.
///
/// Every problem is found at once, as far as the text can be understood (HANK-1). The files that the hank names are not looked at.
#[must_use]
pub fn parse(text: &str) -> Parsed {
    let empty = r#"the smallest hank is { "hank": [ … ] } with one codon"#;
    let (reader, read) = match read_with(text, empty, read::hank) {
        Ok(read) => read,
        Err(problems) => return nothing(problems),
    };
    let Reader {
        mut problems, places, ..
    } = reader;
    let hank = read.map(|ReadHank { hank, has_all_items }| {
        let hank = Hank { places, ..hank };
        problems.extend(check::ids(&hank));
        if has_all_items {
            problems.extend(check::neighbours(&hank));
        }
        hank
    });
    let (draft, hank) = if problems.has_errors() {
        (hank, None)
    } else {
        (None, hank)
    };
    Parsed {
        hank,
        draft,
        problems,
    }
}

/// A sentinel's own file.
#[derive(Debug, Clone)]
pub struct CheckedSentinel {
    /// Its id, where it has a good one.
    pub id: Option<String>,
    /// All errors and warnings.
    pub problems: Problems,
}

/// Reads the text of a sentinel's own file, which lies at `path` in the folder of the hank, and reports everything that is wrong with it.
///
/// The rules are those of a sentinel that stands in hank.json (HANK-51); the files that it names are not looked at.
#[must_use]
pub fn check_sentinel(text: &str, path: &str) -> CheckedSentinel {
    let empty = "a sentinel is an object with id, name, model, trigger, execution and a prompt";
    let config =
        |reader: &mut Reader<'_>, node: &Node<'_>| sentinel::config(reader, node, SentinelFile::at(path));
    match read_with(text, empty, config) {
        Ok((reader, id)) => CheckedSentinel {
            id,
            problems: reader.problems,
        },
        Err(problems) => CheckedSentinel { id: None, problems },
    }
}

/// Parses a text and gives its tree to `read`; problems only, when there is no tree that could be read.
pub(super) fn read_with<'t, T>(
    text: &'t str,
    empty: &str,
    read: impl FnOnce(&mut Reader<'t>, &Node<'_>) -> Option<T>,
) -> Result<(Reader<'t>, Option<T>), Problems> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if text.len() > MAX_HANK_BYTES {
        return Err(unreadable(
            text,
            0,
            "the file is larger than 4 MiB".to_owned(),
            None,
        ));
    }
    let root = match syntax_tree(text) {
        Ok(Some(root)) => root,
        Ok(None) => return Err(unreadable(text, 0, "the file is empty".to_owned(), Some(empty))),
        Err(error) => {
            let hint = syntax_hint(error.kind());
            return Err(unreadable(
                text,
                error.range().start,
                syntax_message(&error),
                hint,
            ));
        }
    };
    let mut reader = Reader::new(text);
    if !check_structure(&mut reader, &root, "", 1) {
        return Err(reader.problems);
    }
    let node = Node {
        value: &root,
        path: String::new(),
    };
    let read = read(&mut reader, &node);
    Ok((reader, read))
}

/// Reads the bytes of a hank.json, which must be UTF-8; see [`parse()`].
#[must_use]
pub fn parse_bytes(bytes: &[u8]) -> Parsed {
    match std::str::from_utf8(bytes) {
        Ok(text) => parse(text),
        Err(error) => {
            let valid = std::str::from_utf8(&bytes[..error.valid_up_to()]).unwrap_or_default();
            nothing(unreadable(
                valid,
                valid.len(),
                "the file is not UTF-8 text".to_owned(),
                None,
            ))
        }
    }
}

fn nothing(problems: Problems) -> Parsed {
    Parsed {
        hank: None,
        draft: None,
        problems,
    }
}

fn unreadable(text: &str, offset: usize, message: String, hint: Option<&str>) -> Problems {
    let mut reader = Reader::new(text);
    reader.report(
        Level::Error,
        String::new(),
        offset,
        message,
        hint.map(str::to_owned),
    );
    reader.problems
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
    let message = error.kind().to_string();
    let mut characters = message.chars();
    let first = characters.next().map(|first| first.to_ascii_lowercase());
    format!(
        "not JSON: {}",
        first.into_iter().chain(characters).collect::<String>()
    )
}

fn syntax_hint(kind: &ParseErrorKind) -> Option<&'static str> {
    match kind {
        ParseErrorKind::SingleQuotedStringsNotAllowed => Some("write texts in double quotes"),
        ParseErrorKind::ExpectedStringObjectProperty => Some("write keys in double quotes"),
        ParseErrorKind::UnterminatedArray => Some("the list that begins here has no `]`"),
        ParseErrorKind::UnterminatedObject => Some("the object that begins here has no `}`"),
        _ => None,
    }
}

fn too_deep() -> String {
    format!("nested deeper than {MAX_DEPTH} levels")
}

/// Reports every key that stands twice in one object; gives up with `false` where the document is nested too deep.
fn check_structure(reader: &mut Reader<'_>, value: &Value<'_>, path: &str, depth: usize) -> bool {
    if depth > MAX_DEPTH {
        reader.report(Level::Error, String::new(), value.start(), too_deep(), None);
        return false;
    }
    match value {
        Value::Array(array) => array.elements.iter().enumerate().all(|(index, element)| {
            is_scalar(element) || check_structure(reader, element, &format!("{path}[{index}]"), depth + 1)
        }),
        Value::Object(object) => {
            let mut keys: Vec<_> = object
                .properties
                .iter()
                .map(|key| (key.name.as_str(), key.start()))
                .collect();
            keys.sort_unstable();
            for pair in keys.windows(2).filter(|pair| pair[0].0 == pair[1].0) {
                let (key, offset) = pair[1];
                let message = format!("{} stands twice in this object", quoted(key));
                reader.report(Level::Error, child_path(path, key), offset, message, None);
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
