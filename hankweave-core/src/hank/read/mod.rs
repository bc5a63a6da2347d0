//! From the syntax tree to the typed hank, one function for each kind of object (`docs/hank.md`).

mod codon;
mod rig;
pub(super) mod sentinel;
pub(super) mod settings;

use jsonc_parser::ast::Value;

use super::budget::OnExceeded;
use super::document::{Hank, HankItem, LoopConfig, PromptSource, TerminateOn};
use super::keys;
use super::paths;
use super::problem::quoted;
use super::reader::{Fields, Node, Reader};
use crate::id::{LoopId, check_configured_id, is_model_name};

/// What could be read of a hank.
pub(super) struct ReadHank {
    /// The hank, without the items that could not be read at all.
    pub(super) hank: Hank,
    /// Whether every item could be read, so that neighbours in `hank` are neighbours in the text.
    pub(super) has_all_items: bool,
}

/// Iterations are counted in ids of at most nine digits.
const MOST_ITERATIONS: u64 = 1_000_000_000;

/// Reads the whole document; also the contents of files in the older formats, after their names have been reported.
pub(super) fn hank(reader: &mut Reader<'_>, root: &Node<'_>) -> Option<ReadHank> {
    if matches!(root.value, Value::Array(_)) {
        let hint = "write { \"hank\": [ … ] }";
        reader.error_with_hint(
            root,
            "must be an object, not a list: this is an older format",
            hint,
        );
        return items(
            reader,
            &Node {
                path: "hank".to_owned(),
                value: root.value,
            },
        );
    }
    let fields = reader.fields(root, &keys::ROOT)?;
    let schema = fields.optional(reader, "$schema", Reader::string);
    let meta = fields.optional(reader, "meta", settings::meta);
    let overrides = fields.optional(reader, "overrides", settings::overrides);
    let requirements = fields
        .optional(reader, "requirements", settings::requirements)
        .unwrap_or_default();
    let global_system_prompt = prompt_source(
        reader,
        &fields,
        ["globalSystemPromptFile", "globalSystemPromptText"],
    );
    let read = match (fields.get("hank"), fields.get("strand")) {
        (Some(node), _) => items(reader, &node),
        (None, Some(older)) => items(
            reader,
            &Node {
                path: "hank".to_owned(),
                ..older
            },
        ),
        (None, None) => {
            fields.missing(reader, "hank", Some("`hank` is the list of codons and loops"));
            None
        }
    }?;
    let hank = Hank {
        schema,
        meta,
        overrides,
        requirements,
        global_system_prompt,
        ..read.hank
    };
    Some(ReadHank { hank, ..read })
}

fn items(reader: &mut Reader<'_>, node: &Node<'_>) -> Option<ReadHank> {
    let expected = match node.value {
        Value::Array(array) => array.elements.len(),
        _ => 0,
    };
    let items = reader.non_empty_list(node, item)?;
    let has_all_items = items.len() == expected;
    Some(ReadHank {
        hank: Hank {
            items,
            ..Hank::default()
        },
        has_all_items,
    })
}

fn item(reader: &mut Reader<'_>, node: &Node<'_>) -> Option<HankItem> {
    match type_of(node) {
        None | Some("codon") => codon::codon(reader, node).map(HankItem::Codon),
        Some("loop") => loop_config(reader, node).map(HankItem::Loop),
        Some(other) => {
            reader.error(node, format!("type must be codon or loop, not {}", quoted(other)));
            None
        }
    }
}

fn loop_config(reader: &mut Reader<'_>, node: &Node<'_>) -> Option<LoopConfig> {
    name_item(reader, node, "loop");
    let fields = reader.fields(node, &keys::LOOP)?;
    let id = fields.required(reader, "id", |reader, node| {
        reader
            .checked(node, check_configured_id)
            .and_then(|id| LoopId::new(id).ok())
    });
    let name = fields
        .required(reader, "name", Reader::non_empty)
        .unwrap_or_default();
    let description = fields.optional(reader, "description", Reader::string);
    let terminate_on = fields.required(reader, "terminateOn", terminate_on);
    let mut has_all_codons = true;
    let codons = fields.required(reader, "codons", |reader, node| {
        reader.non_empty_list(node, |reader, node| {
            let codon = inner_codon(reader, node);
            has_all_codons &= codon.is_some();
            codon
        })
    });
    let budget = fields.optional(reader, "budget", settings::container_budget);
    let archive_on_success = fields
        .optional(reader, "archiveOnSuccess", globs)
        .unwrap_or_default();
    let codons = codons.filter(|_| has_all_codons)?;
    Some(LoopConfig {
        id: id?,
        name,
        description,
        terminate_on: terminate_on?,
        codons,
        budget,
        archive_on_success,
    })
}

fn inner_codon(reader: &mut Reader<'_>, node: &Node<'_>) -> Option<super::CodonConfig> {
    match type_of(node) {
        None | Some("codon") => codon::codon(reader, node),
        Some("loop") => {
            reader.error(node, "loops cannot stand inside loops");
            None
        }
        Some(other) => {
            reader.error(node, format!("type must be codon, not {}", quoted(other)));
            None
        }
    }
}

fn terminate_on(reader: &mut Reader<'_>, node: &Node<'_>) -> Option<TerminateOn> {
    match type_of(node) {
        Some("contextExceeded") => reader
            .fields(node, &keys::CONTEXT_EXCEEDED)
            .map(|_| TerminateOn::ContextExceeded),
        Some("iterationLimit") => {
            let fields = reader.fields(node, &keys::ITERATION_LIMIT)?;
            let limit = fields.required(reader, "limit", |reader, node| {
                reader.integer(node, 1..=MOST_ITERATIONS)
            })?;
            Some(TerminateOn::IterationLimit {
                limit: u32::try_from(limit).ok()?,
            })
        }
        _ => {
            let hint = r#"write { "type": "iterationLimit", "limit": 3 } or { "type": "contextExceeded" }"#;
            reader.error_with_hint(node, "must be an iterationLimit or contextExceeded", hint);
            None
        }
    }
}

/// The text of an object's `type`, when it has one.
fn type_of<'n>(node: &Node<'n>) -> Option<&'n str> {
    let object = node.value.as_object()?;
    object.get_string("type").map(|literal| literal.value.as_ref())
}

/// Lets problems inside the object name it as people do: `codon "review", "Review everything"`, without a name that says no more than the id.
fn name_item(reader: &mut Reader<'_>, node: &Node<'_>, kind: &str) {
    let text = |key| {
        node.value
            .as_object()?
            .get_string(key)
            .map(|literal| literal.value.as_ref())
    };
    let shown = |text: &str| format!("\"{}\"", quoted(text).trim_matches('`'));
    let item = match (text("id"), text("name")) {
        (Some(id), Some(name)) if !name.is_empty() && !name.eq_ignore_ascii_case(id) => {
            format!("{kind} {}, {}", shown(id), shown(name))
        }
        (Some(only), _) | (None, Some(only)) => format!("{kind} {}", shown(only)),
        (None, None) => return,
    };
    reader.places.add_item(&node.path, item);
}

/// A text that is either in files or written out; `None` when there is neither.
fn prompt_source(
    reader: &mut Reader<'_>,
    fields: &Fields<'_>,
    [file, text]: [&str; 2],
) -> Option<PromptSource> {
    fields.exclusive(reader, [file, text]);
    let files = fields.optional(reader, file, |reader, node| reader.one_or_more(node, reference));
    let text = fields.optional(reader, text, prompt_text);
    files.map(PromptSource::Files).or(text.map(PromptSource::Text))
}

fn prompt_text(reader: &mut Reader<'_>, node: &Node<'_>) -> Option<String> {
    let text = reader.string(node)?;
    if text.trim().is_empty() {
        reader.warning(node, "is empty");
    }
    Some(text)
}

/// A path to a file of the hank.
fn reference(reader: &mut Reader<'_>, node: &Node<'_>) -> Option<String> {
    reader.checked(node, |path| {
        paths::reference(path)
            .map(drop)
            .map_err(|rule| format!("`{path}` {rule}"))
    })
}

fn globs(reader: &mut Reader<'_>, node: &Node<'_>) -> Option<Vec<String>> {
    let globs = reader.list(node, |reader, node| reader.checked(node, paths::check_glob))?;
    if globs.len() > paths::MAX_GLOBS {
        reader.error(
            node,
            format!("must not have more than {} patterns", paths::MAX_GLOBS),
        );
    }
    Some(globs)
}

/// The name of a model, safe to stand on a command line.
pub(super) fn model(reader: &mut Reader<'_>, node: &Node<'_>) -> Option<String> {
    reader.checked(node, |name| match name {
        "" => Err("must not be empty"),
        name if is_model_name(name) => Ok(()),
        _ => Err("is no model name: only letters, digits and . _ : / - are allowed, beginning with a letter or a digit, and a note such as [1m] behind them"),
    })
}

pub(super) fn seconds_of_silence(reader: &mut Reader<'_>, node: &Node<'_>) -> Option<u64> {
    reader.integer(node, 1..=1800)
}

pub(super) fn seconds_to_settle(reader: &mut Reader<'_>, node: &Node<'_>) -> Option<u64> {
    reader.integer(node, 1..=86_400)
}

fn on_exceeded(reader: &mut Reader<'_>, node: &Node<'_>) -> Option<OnExceeded> {
    reader.choice(
        node,
        &[
            ("complete", OnExceeded::Complete),
            ("fail", OnExceeded::Fail),
            ("pause", OnExceeded::Pause),
        ],
    )
}
