//! Sentinels: their entries in full; their configurations by keys, id and references, because what they hold beyond
//! that is judged by whoever runs them.

use jsonc_parser::ast::Value;

use super::reference;
use crate::hank::document::{SentinelEntry, SentinelSource};
use crate::hank::keys;
use crate::hank::problem::quoted;
use crate::hank::reader::{Fields, Node, Reader};

pub(super) fn sentinels(reader: &mut Reader<'_>, node: &Node<'_>) -> Option<Vec<SentinelEntry>> {
    let mut ids: Vec<String> = Vec::new();
    reader.list(node, |reader, node| {
        let entry = entry(reader, node)?;
        if let SentinelSource::Inline(config) = &entry.sentinel_config
            && let Some(id) = config.get("id").and_then(serde_json::Value::as_str)
        {
            if ids.iter().any(|known| known == id) {
                reader.error(
                    node,
                    format!("sentinel id {} stands twice in this codon", quoted(id)),
                );
            }
            ids.push(id.to_owned());
        }
        Some(entry)
    })
}

fn entry(reader: &mut Reader<'_>, node: &Node<'_>) -> Option<SentinelEntry> {
    let fields = reader.fields(node, &keys::SENTINEL_ENTRY)?;
    let sentinel_config = fields.required(reader, "sentinelConfig", |reader, node| match node.value {
        Value::Object(_) => inline(reader, node),
        _ => reference(reader, node).map(SentinelSource::File),
    });
    let settings = fields.optional(reader, "settings", |reader, node| {
        let settings = reader.fields(node, &keys::SENTINEL_SETTINGS)?;
        settings.optional(reader, "failCodonIfNotLoaded", Reader::boolean);
        settings.optional(reader, "outputPaths", Reader::json_object);
        settings.optional(reader, "reportToWebsocket", Reader::json_object);
        reader.json_object(node)
    });
    Some(SentinelEntry {
        sentinel_config: sentinel_config?,
        settings,
    })
}

fn inline(reader: &mut Reader<'_>, node: &Node<'_>) -> Option<SentinelSource> {
    let fields = reader.fields(node, &keys::SENTINEL)?;
    fields.required(reader, "id", |reader, node| reader.checked(node, check_id));
    fields.required(reader, "name", Reader::non_empty);
    fields.required(reader, "model", Reader::non_empty);
    fields.required(reader, "trigger", Reader::json_object);
    fields.required(reader, "execution", Reader::json_object);
    prompts(reader, &fields);
    fields.optional(reader, "output", output);
    reader.json_object(node).map(SentinelSource::Inline)
}

fn prompts(reader: &mut Reader<'_>, fields: &Fields<'_>) {
    for file in ["systemPromptFile", "userPromptFile"] {
        fields.optional(reader, file, |reader, node| reader.one_or_more(node, reference));
    }
    fields.optional(reader, "systemPromptText", Reader::string);
    fields.optional(reader, "userPromptText", |reader, node| {
        let text = reader.string(node)?;
        if text.contains("{{") {
            reader.warning(
                node,
                "holds `{{…}}`, an older kind of placeholder that stays as it is; write `<%= … %>`",
            );
        }
        Some(text)
    });
    if fields.get("userPromptFile").is_none() && fields.get("userPromptText").is_none() {
        fields.missing(
            reader,
            "userPromptText",
            Some("a sentinel needs a userPromptFile or a userPromptText"),
        );
    }
}

fn output(reader: &mut Reader<'_>, node: &Node<'_>) -> Option<()> {
    let format = node.value.as_object()?.get_string("format")?;
    if format.value == "json" {
        let hint = r#"write "format": "jsonl""#;
        reader.error_with_hint(node, "format json is an older name", hint);
    }
    Some(())
}

fn check_id(id: &str) -> Result<(), &'static str> {
    let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    if !id.is_empty() && id.bytes().all(allowed) {
        Ok(())
    } else {
        Err("must consist of small letters, digits and `-`")
    }
}
