//! Sentinels: the entries of a codon and what a sentinel says about itself, here or in a file of its own
//! (HANK-51).

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

/// The file that a sentinel is in; its references are relative to the folder of that file.
#[derive(Clone, Copy)]
pub(in crate::hank) struct SentinelFile<'p> {
    /// The folder relative to that of the hank, without a `/` at its end; empty for that folder itself.
    folder: &'p str,
}

impl<'p> SentinelFile<'p> {
    /// hank.json.
    const HANK: Self = Self { folder: "" };

    /// A file of its own, at this path in the folder of the hank.
    pub(in crate::hank) fn at(path: &'p str) -> Self {
        let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
        Self { folder }
    }

    fn reference(self, reader: &mut HankReader<'_>, node: &JsonNode<'_>) -> Option<String> {
        if self.folder.is_empty() {
            return reference(reader, node);
        }
        checked(|path| {
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
    reader.leading_list(node, |reader, node| {
        let entry = entry(reader, node)?;
        if let SentinelSource::Inline(config) = &entry.sentinel_config
            && let Some(id) = config.get("id").and_then(serde_json::Value::as_str)
        {
            if ids.iter().any(|known| known == id) {
                let message = format!("sentinel id {} stands twice in this codon", quoted(id));
                reader.error(node, message);
            }
            ids.push(id.to_owned());
        }
        Some(entry)
    })
}

fn entry(reader: &mut HankReader<'_>, node: &JsonNode<'_>) -> Option<SentinelEntry> {
    let fields = reader.fields(node, &hank_keys::SENTINEL_ENTRY)?;
    let sentinel_config = fields.required(reader, "sentinelConfig", |reader, node| match node.value {
        Value::Object(_) => {
            config(reader, node, SentinelFile::HANK);
            reader.json_object(node).map(SentinelSource::Inline)
        }
        _ => reference(reader, node).map(SentinelSource::File),
    });
    let settings = fields.optional(reader, "settings", |reader, node| {
        let fields = reader.fields(node, &hank_keys::SENTINEL_SETTINGS)?;
        settings::entry(reader, &fields);
        reader.json_object(node)
    });
    Some(SentinelEntry {
        sentinel_config: sentinel_config?,
        settings,
    })
}

/// Reads the configuration of a sentinel; returns its id.
pub(in crate::hank) fn config(
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
        Some(_) => command(reader, &fields),
        None => asks_a_model(reader, &fields),
    }
    settings::config(reader, &fields, file);
    id
}

/// Keys that only a sentinel with a model can have.
const OF_MODELS: [&str; 9] = [
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

/// A program of the author's own gets the events and needs nothing else (HANK-60).
fn command(reader: &mut HankReader<'_>, fields: &ObjectFields<'_>) {
    let words = non_empty_list(|reader: &mut HankReader<'_>, node: &JsonNode<'_>| reader.string(node));
    fields.optional(reader, "command", |reader, node| {
        let words = words(reader, node)?;
        match words.first() {
            Some(program) if program.is_empty() => reader.refuse(node, "must begin with a program"),
            _ => Some(()),
        }
    });
    fields.optional(reader, "answer", choice(&[("text", ()), ("json", ())]));
    for node in OF_MODELS.iter().filter_map(|key| fields.get(key)) {
        let message = "must not stand beside `command`: it is about asking a model";
        reader.error(&node, message);
    }
}

fn asks_a_model(reader: &mut HankReader<'_>, fields: &ObjectFields<'_>) {
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

/// The fields of an object whose `tag` says which of a few kinds it is, with that kind.
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
        Err("must consist of small letters, digits and `-`")
    }
}
