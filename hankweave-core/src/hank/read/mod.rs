//! From the syntax tree to the typed hank, one function for each kind of object (`docs/hank.md`).
//!
//! Each function reports all problems of its object. A part that cannot be read is replaced by a stand-in where that allows more checks of the rest.

mod codon;
mod options;
mod rig;
pub(super) mod script;
pub(super) mod sentinel;
pub(super) mod settings;

pub(super) use codon::{agent_of_all, fallback, result_schema};

use jsonc_parser::ast::Value;

use super::budget::OnExceeded;
use super::document::{
    CodonConfig, Hank, HankItem, LoopConfig, OnBackgroundCut, PromptSource, Requires, TerminateOn,
};
use super::keys;
use super::paths;
use super::problem::quoted;
use super::reader::{
    HankReader, JsonNode, ObjectFields, checked, choice, integer, list, non_empty_list, one_or_more, parsed,
};
use crate::cost::Usd;
use crate::id::{LoopId, is_model_name};

/// The highest limit of iterations: their numbers, counted from 0, have at most nine digits in ids.
const MAX_ITERATIONS: u64 = 1_000_000_000;

/// The highest `stalledAfter`.
const MAX_STALLED_ITERATIONS: u64 = 100;

/// The highest limit of an `untilCheckPasses` loop: the output of each of its checks stays in state.json.
const MAX_CHECKED_ITERATIONS: u64 = 100;

/// Reads the whole document. An older format (a list, or an object with `strand`) is reported, and its codons are checked as well.
pub(super) fn hank(reader: &mut HankReader<'_>, root: &JsonNode<'_>) -> Option<Hank> {
    if matches!(root.value, Value::Array(_)) {
        let message = "must be an object, not a list: this is an older format";
        reader.refuse_with_hint::<()>(root, message, "write { \"hank\": [ … ] }");
        return Some(Hank {
            items: items(reader, root.value)?,
            ..Hank::default()
        });
    }
    let fields = reader.fields(root, &keys::ROOT)?;
    let schema = fields.optional(reader, "$schema", HankReader::string);
    let meta = fields.optional(reader, "meta", settings::meta);
    let overrides = fields.optional(reader, "overrides", settings::overrides);
    let requirements = fields.or_default(reader, "requirements", settings::requirements);
    let global_system_prompt = prompt_source(
        reader,
        &fields,
        ["globalSystemPromptFile", "globalSystemPromptText"],
    );
    let Some(list) = fields.get("hank").or_else(|| fields.get("strand")) else {
        fields.missing(reader, "hank", Some("`hank` is the list of codons and loops"));
        return None;
    };
    Some(Hank {
        schema,
        meta,
        overrides,
        requirements,
        global_system_prompt,
        items: items(reader, list.value)?,
        ..Hank::default()
    })
}

/// Reads the items. An item that cannot be read is replaced by a loop without codons, so that the others keep their positions.
fn items(reader: &mut HankReader<'_>, value: &Value<'_>) -> Option<Vec<HankItem>> {
    // The path also of an older format, because later checks look up positions by it.
    let path = "hank".to_owned();
    let item = |reader: &mut HankReader<'_>, node: &JsonNode<'_>| {
        let read = item(reader, node);
        Some(read.unwrap_or_else(|| HankItem::Loop(stand_in_loop(reader))))
    };
    non_empty_list(item)(reader, &JsonNode { path, value })
}

fn stand_in_loop(reader: &mut HankReader<'_>) -> LoopConfig {
    LoopConfig {
        id: stand_in_id(reader),
        name: String::new(),
        description: None,
        terminate_on: TerminateOn::IterationLimit { limit: 1 },
        codons: Vec::new(),
        budget: None,
        stalled_after: None,
        archive_on_success: Vec::new(),
    }
}

fn stand_in_id(reader: &mut HankReader<'_>) -> LoopId {
    LoopId::new(reader.stand_in_id()).expect("its characters are those of an id")
}

fn item(reader: &mut HankReader<'_>, node: &JsonNode<'_>) -> Option<HankItem> {
    match type_of(node) {
        None | Some("codon") => codon::codon(reader, node).map(HankItem::Codon),
        Some("loop") => loop_config(reader, node).map(HankItem::Loop),
        Some(other) => reader.refuse(node, format!("type must be codon or loop, not {}", quoted(other))),
    }
}

fn loop_config(reader: &mut HankReader<'_>, node: &JsonNode<'_>) -> Option<LoopConfig> {
    name_item(reader, node, "loop");
    let fields = reader.fields(node, &keys::LOOP)?;
    let id = parsed(|id| LoopId::new(id).map_err(|error| error.reason));
    let id = fields.required(reader, "id", id);
    let name = fields.required(reader, "name", HankReader::non_empty);
    let description = fields.optional(reader, "description", HankReader::string);
    let terminate_on = fields.required(reader, "terminateOn", terminate_on);
    // An unreadable codon becomes `None`, which makes the whole loop unreadable below: the codons next to it cannot be checked without it.
    let inner_codon = |reader: &mut HankReader<'_>, node: &JsonNode<'_>| Some(inner_codon(reader, node));
    let codons = fields.required(reader, "codons", non_empty_list(inner_codon));
    let budget = fields.optional(reader, "budget", settings::container_budget);
    let stalled_after = fields.optional(reader, "stalledAfter", integer(0..=MAX_STALLED_ITERATIONS));
    let archive_on_success = fields.or_default(reader, "archiveOnSuccess", globs);
    Some(LoopConfig {
        id: id.unwrap_or_else(|| stand_in_id(reader)),
        name: name.unwrap_or_default(),
        description,
        terminate_on: terminate_on.unwrap_or_else(|| {
            reader.has_unread_links = true;
            TerminateOn::IterationLimit { limit: 1 }
        }),
        codons: codons?.into_iter().collect::<Option<_>>()?,
        budget,
        stalled_after: stalled_after.and_then(|most| u32::try_from(most).ok()),
        archive_on_success,
    })
}

fn inner_codon(reader: &mut HankReader<'_>, node: &JsonNode<'_>) -> Option<CodonConfig> {
    match type_of(node) {
        None | Some("codon") => codon::codon(reader, node),
        Some("loop") => reader.refuse(node, "loops cannot stand inside loops"),
        Some(other) => reader.refuse(node, format!("type must be codon, not {}", quoted(other))),
    }
}

fn terminate_on(reader: &mut HankReader<'_>, node: &JsonNode<'_>) -> Option<TerminateOn> {
    match type_of(node) {
        Some("contextExceeded") => reader
            .fields(node, &keys::CONTEXT_EXCEEDED)
            .map(|_| TerminateOn::ContextExceeded),
        Some("iterationLimit") => {
            let fields = reader.fields(node, &keys::ITERATION_LIMIT)?;
            let limit = fields.required(reader, "limit", integer(1..=MAX_ITERATIONS))?;
            Some(TerminateOn::IterationLimit {
                limit: u32::try_from(limit).ok()?,
            })
        }
        Some("untilCheckPasses") => {
            let fields = reader.fields(node, &keys::UNTIL_CHECK_PASSES)?;
            let limit = fields.optional(reader, "limit", integer(1..=MAX_CHECKED_ITERATIONS));
            let run = fields.required(reader, "run", HankReader::non_empty)?;
            let limit = limit.and_then(|limit| u32::try_from(limit).ok());
            Some(TerminateOn::UntilCheckPasses { run, limit })
        }
        _ => {
            let hint = r#"write { "type": "iterationLimit", "limit": 3 }, { "type": "contextExceeded" } or { "type": "untilCheckPasses", "run": "cargo test" }"#;
            reader.refuse_with_hint(
                node,
                "must be an iterationLimit, contextExceeded or untilCheckPasses",
                hint,
            )
        }
    }
}

/// Returns the string at the key `type` of an object, if it has one.
fn type_of<'n>(node: &JsonNode<'n>) -> Option<&'n str> {
    node.string_at("type")
}

/// Sets the words with which problems inside this object name it: `codon "review", "Review everything"`.
///
/// A name that only repeats the id is left out.
fn name_item(reader: &mut HankReader<'_>, node: &JsonNode<'_>, kind: &str) {
    let shown = |text: &str| format!("\"{}\"", quoted(text).trim_matches('`'));
    let item = match (node.string_at("id"), node.string_at("name")) {
        (Some(id), Some(name)) if !name.is_empty() && !name.eq_ignore_ascii_case(id) => {
            format!("{kind} {}, {}", shown(id), shown(name))
        }
        (Some(only), _) | (None, Some(only)) => format!("{kind} {}", shown(only)),
        (None, None) => return,
    };
    reader.places.add_item(&node.path, item);
}

/// Reads a prompt, in files or written out; `None` when there is neither. The keys are `[file, text]`.
fn prompt_source(
    reader: &mut HankReader<'_>,
    fields: &ObjectFields<'_>,
    [file, text]: [&str; 2],
) -> Option<PromptSource> {
    fields.exclusive(reader, [file, text]);
    let files = fields.optional(reader, file, one_or_more(reference));
    let text = fields.optional(reader, text, prompt_text);
    files.map(PromptSource::Files).or(text.map(PromptSource::Text))
}

fn prompt_text(reader: &mut HankReader<'_>, node: &JsonNode<'_>) -> Option<String> {
    let text = reader.string(node)?;
    if text.trim().is_empty() {
        reader.warning(node, "is empty");
    }
    Some(text)
}

/// Reads the path of a file of the hank.
fn reference(reader: &mut HankReader<'_>, node: &JsonNode<'_>) -> Option<String> {
    checked(|path| match paths::reference(path) {
        Ok(_) => Ok(()),
        Err(rule) => Err(format!("`{path}` {rule}")),
    })(reader, node)
}

/// Reads `"nothing"`, `"changes"` or patterns. At least one of the patterns must take files in.
fn requires(reader: &mut HankReader<'_>, node: &JsonNode<'_>) -> Option<Requires> {
    let hint = r#"write "changes", "nothing" or patterns such as ["src/**"]"#;
    match node.value {
        Value::Array(array) => {
            let patterns = globs(reader, node)?;
            // A pattern that cannot be read was reported and is missing here; it might be the one that takes files in.
            let is_complete = patterns.len() == array.elements.len();
            if is_complete && patterns.iter().all(|pattern| pattern.starts_with('!')) {
                return reader.refuse_with_hint(node, "must have a pattern that takes files in", hint);
            }
            Some(Requires::Patterns(patterns))
        }
        Value::StringLit(_) => match reader.string(node)?.as_str() {
            "nothing" => Some(Requires::Nothing),
            "changes" => Some(Requires::Changes),
            other => {
                let message = format!(
                    "must be changes, nothing or a list of patterns, not {}",
                    quoted(other)
                );
                reader.refuse_with_hint(node, message, hint)
            }
        },
        _ => reader.refuse_with_hint(node, "must be changes, nothing or a list of patterns", hint),
    }
}

fn globs(reader: &mut HankReader<'_>, node: &JsonNode<'_>) -> Option<Vec<String>> {
    let globs = list(checked(paths::check_glob))(reader, node)?;
    if globs.len() > paths::MAX_GLOBS {
        let message = format!("must not have more than {} patterns", paths::MAX_GLOBS);
        reader.error(node, message);
    }
    Some(globs)
}

/// Reads the name of a model, which is safe as an argument on a command line.
pub(super) fn model(reader: &mut HankReader<'_>, node: &JsonNode<'_>) -> Option<String> {
    checked(|name| match name {
        "" => Err("must not be empty"),
        name if is_model_name(name) => Ok(()),
        _ => Err(
            "is no model name: only letters, digits and . _ : / - are allowed, beginning with a letter or a digit, and a note such as [1m] after them",
        ),
    })(reader, node)
}

pub(super) fn seconds_of_silence(reader: &mut HankReader<'_>, node: &JsonNode<'_>) -> Option<u64> {
    integer(1..=1800)(reader, node)
}

pub(super) fn seconds_to_settle(reader: &mut HankReader<'_>, node: &JsonNode<'_>) -> Option<u64> {
    integer(1..=86_400)(reader, node)
}

pub(super) fn on_background_cut(reader: &mut HankReader<'_>, node: &JsonNode<'_>) -> Option<OnBackgroundCut> {
    use OnBackgroundCut::{Complete, Fail};
    choice(&[("fail", Fail), ("complete", Complete)])(reader, node)
}

/// Reads the size in MiB up to which a file belongs to checkpoints.
pub(super) fn file_limit(reader: &mut HankReader<'_>, node: &JsonNode<'_>) -> Option<u64> {
    integer(1..=1_048_576)(reader, node)
}

pub(super) fn dollars(reader: &mut HankReader<'_>, node: &JsonNode<'_>) -> Option<Usd> {
    let dollars = Usd::from_dollars(reader.positive(node)?);
    match dollars {
        Ok(Usd::ZERO) => reader.error(node, "must be at least a billionth of a dollar"),
        Ok(_) => {}
        Err(_) => reader.error(node, "is too much money"),
    }
    dollars.ok()
}

/// Reads a whole number of at least 1.
pub(super) fn at_least_one(reader: &mut HankReader<'_>, node: &JsonNode<'_>) -> Option<u64> {
    integer(1..=u64::MAX)(reader, node)
}

fn on_exceeded(reader: &mut HankReader<'_>, node: &JsonNode<'_>) -> Option<OnExceeded> {
    use OnExceeded::{Complete, Fail, Pause};
    choice(&[("complete", Complete), ("fail", Fail), ("pause", Pause)])(reader, node)
}
