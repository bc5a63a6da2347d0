//! Reads the sentinels of a codon: each entry, and the configuration in hank.json or in a file of its own (HANK-51).
//!
//! Configurations are only checked here and kept as JSON, so most functions return no value. `crate::sentinel` makes types out of the JSON.

mod events;
mod keys;
mod settings;
mod trigger;
mod unseen;

use jsonc_parser::ast::Value;

use super::reference;
use crate::hank::document::{SentinelEntry, SentinelSource};
use crate::hank::keys::{self as hank_keys, KeyTable};
use crate::hank::paths;
use crate::hank::problem::{Severity, quoted};
use crate::hank::reader::{HankReader, JsonNode, ObjectFields, checked, choice, non_empty_list, one_or_more};
use crate::hank::template::check_prompt;

/// File that has the configuration of a sentinel. The paths in it are relative to its folder.
#[derive(Clone, Copy)]
pub(in crate::hank) struct SentinelFile<'p> {
    /// Folder relative to that of the hank, without a `/` at its end; empty for the hank's own folder.
    folder: &'p str,
}

impl<'p> SentinelFile<'p> {
    /// hank.json.
    const HANK: Self = Self { folder: "" };

    /// Returns the file at `path`, which is relative to the folder of the hank.
    pub(in crate::hank) fn at(path: &'p str) -> Self {
        let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
        Self { folder }
    }

    fn reference(self, reader: &mut HankReader<'_>, node: &JsonNode<'_>) -> Option<String> {
        if self.folder.is_empty() {
            return reference(reader, node);
        }
        checked(|path| {
            // An absolute or empty path stays as it is, so that it is refused: after the folder it would look valid.
            let from_hank = match path.starts_with('/') || path.is_empty() {
                true => path.to_owned(),
                false => format!("{}/{path}", self.folder),
            };
            match paths::reference(&from_hank) {
                Ok(_) => Ok(()),
                Err(rule) => Err(format!("`{path}` {rule}")),
            }
        })(reader, node)
    }
}

pub(super) fn sentinels(reader: &mut HankReader<'_>, node: &JsonNode<'_>) -> Option<Vec<SentinelEntry>> {
    let mut ids: Vec<String> = Vec::new();
    reader.leading_list(node, |reader, node| entry(reader, node, &mut ids))
}

/// Reads an entry; `ids` has the ids of the entries before it. Ids in files are compared later, when the files are read (`repeated_sentinels`).
fn entry(reader: &mut HankReader<'_>, node: &JsonNode<'_>, ids: &mut Vec<String>) -> Option<SentinelEntry> {
    let fields = reader.fields(node, &hank_keys::SENTINEL_ENTRY)?;
    let mut inline_id = None;
    let sentinel_config = fields.required(reader, "sentinelConfig", |reader, node| match node.value {
        Value::Object(_) => {
            inline_id = check_config(reader, node, SentinelFile::HANK);
            reader.json_object(node).map(SentinelSource::Inline)
        }
        _ => reference(reader, node).map(SentinelSource::File),
    });
    let settings = fields.optional(reader, "settings", |reader, node| {
        let fields = reader.fields(node, &hank_keys::SENTINEL_SETTINGS)?;
        settings::entry(reader, &fields);
        reader.json_object(node)
    });
    if let Some(id) = inline_id {
        if ids.contains(&id) {
            let message = format!("sentinel id {} stands twice in this codon", quoted(&id));
            reader.error(node, message);
        }
        ids.push(id);
    }
    Some(SentinelEntry {
        sentinel_config: sentinel_config?,
        settings,
    })
}

/// Checks the configuration of a sentinel, and returns its id if that is valid.
pub(in crate::hank) fn check_config(
    reader: &mut HankReader<'_>,
    node: &JsonNode<'_>,
    file: SentinelFile<'_>,
) -> Option<String> {
    let fields = reader.fields(node, &hank_keys::SENTINEL)?;
    let id = fields.required(reader, "id", checked(check_id));
    fields.required(reader, "name", HankReader::non_empty);
    fields.required(reader, "trigger", trigger::trigger);
    fields.required(reader, "execution", trigger::execution);
    prompts(reader, &fields, file);
    match fields.get("command") {
        Some(_) => check_command(reader, &fields),
        None => check_model_call(reader, &fields),
    }
    settings::config(reader, &fields, file);
    id
}

/// Returns the valid paths of prompt files that a sentinel names.
pub(in crate::hank) fn user_prompt_files(
    reader: &mut HankReader<'_>,
    node: &JsonNode<'_>,
    file: SentinelFile<'_>,
) -> Option<Vec<String>> {
    let fields = reader.fields(node, &hank_keys::SENTINEL)?;
    let references = one_or_more(|reader, node| file.reference(reader, node));
    fields.optional(reader, "userPromptFile", references)
}

/// Keys that only a sentinel with a model may have.
const MODEL_KEYS: [&str; 9] = [
    "model",
    "endpoint",
    "systemPromptFile",
    "systemPromptText",
    "userPromptFile",
    "userPromptText",
    "conversational",
    "llmParams",
    "structuredOutput",
];

/// Checks the keys of a sentinel whose command gets the events (HANK-60).
fn check_command(reader: &mut HankReader<'_>, fields: &ObjectFields<'_>) {
    let words = non_empty_list(|reader: &mut HankReader<'_>, node: &JsonNode<'_>| reader.string(node));
    fields.optional(reader, "command", |reader, node| {
        let words = words(reader, node)?;
        match words.first() {
            Some(program) if program.is_empty() => reader.refuse(node, "must begin with a program"),
            _ => Some(()),
        }
    });
    fields.optional(reader, "answer", choice(&[("text", ()), ("json", ())]));
    for node in MODEL_KEYS.iter().filter_map(|key| fields.get(key)) {
        let message = "must not stand beside `command`: it is about asking a model";
        reader.error(&node, message);
    }
}

/// Checks the keys of a sentinel that asks a model.
fn check_model_call(reader: &mut HankReader<'_>, fields: &ObjectFields<'_>) {
    match fields.get("model") {
        Some(_) => drop(fields.optional(reader, "model", model)),
        None => fields.missing(
            reader,
            "model",
            Some("a sentinel needs a `model`, or a `command` that gets the events"),
        ),
    }
    if fields.get("userPromptFile").is_none() && fields.get("userPromptText").is_none() {
        let hint = "a sentinel that asks a model needs a userPromptFile or a userPromptText";
        fields.missing(reader, "userPromptText", Some(hint));
    }
    if let Some(node) = fields.get("answer") {
        reader.error(&node, "is about what a `command` prints");
    }
}

fn model(reader: &mut HankReader<'_>, node: &JsonNode<'_>) -> Option<String> {
    let model = reader.non_empty(node)?;
    if !model.contains('/') {
        let message = "is written without its provider, such as `anthropic/claude-haiku-4-5`; the sentinel would be skipped";
        reader.warning(node, message);
    }
    Some(model)
}

fn prompts(reader: &mut HankReader<'_>, fields: &ObjectFields<'_>, file: SentinelFile<'_>) {
    for key in ["systemPromptFile", "userPromptFile"] {
        let references = one_or_more(|reader, node| file.reference(reader, node));
        fields.optional(reader, key, references);
    }
    fields.optional(reader, "systemPromptText", HankReader::string);
    fields.optional(reader, "userPromptText", |reader, node| {
        let text = reader.string(node)?;
        if let Err(wrong) = check_prompt(&text) {
            reader.report_at(Severity::Error, node, wrong.message, wrong.hint);
        }
        Some(text)
    });
}

/// Reads an object whose `tag` names one of `kinds`, and returns that kind and the fields.
fn tagged<'n>(
    reader: &mut HankReader<'_>,
    node: &JsonNode<'n>,
    tag: &str,
    kinds: &[(&'static str, &KeyTable)],
) -> Option<(&'static str, ObjectFields<'n>)> {
    let found = node.string_at(tag);
    let Some((name, keys)) = kinds.iter().find(|(name, _)| found == Some(*name)) else {
        let names: Vec<&str> = kinds.iter().map(|(name, _)| *name).collect();
        let message = format!("must be an object whose `{tag}` is one of {}", names.join(", "));
        return reader.refuse(node, message);
    };
    Some((name, reader.fields(node, keys)?))
}

fn check_id(id: &str) -> Result<(), &'static str> {
    let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    if !id.is_empty() && id.bytes().all(allowed) {
        Ok(())
    } else {
        Err("must consist of lowercase letters, digits and `-`")
    }
}
