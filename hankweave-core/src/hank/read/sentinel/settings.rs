//! How a sentinel asks its model and where its answers go (HANK-51).

use super::{SentinelFile, keys, tagged};
use crate::hank::keys::Keys;
use crate::hank::reader::{Fields, Node, Reader};

/// What the entry of a codon says about a sentinel.
pub(super) fn entry(reader: &mut Reader<'_>, fields: &Fields<'_>) {
    fields.optional(reader, "failCodonIfNotLoaded", Reader::boolean);
    fields.optional(reader, "outputPaths", |reader, node| {
        strings(reader, node, &keys::OUTPUT_PATHS)
    });
    report(reader, fields);
}

/// What a sentinel says about itself, apart from its trigger and its prompts.
pub(super) fn config(reader: &mut Reader<'_>, fields: &Fields<'_>, file: SentinelFile<'_>) {
    fields.optional(reader, "description", Reader::string);
    fields.optional(reader, "conversational", conversational);
    if let (Some(node), None, None) = (
        fields.get("conversational"),
        fields.get("systemPromptFile"),
        fields.get("systemPromptText"),
    ) {
        reader.error_with_hint(
            &node,
            "needs a system prompt",
            "add a systemPromptText or a systemPromptFile",
        );
    }
    fields.optional(reader, "errorHandling", |reader, node| {
        let fields = reader.fields(node, &keys::ERROR_HANDLING)?;
        fields.optional(reader, "maxConsecutiveFailures", |reader, node| {
            reader.integer(node, 1..=u64::MAX)
        });
        fields.optional(reader, "unloadOnFatalError", Reader::boolean)
    });
    fields.optional(reader, "llmParams", |reader, node| {
        let fields = reader.fields(node, &keys::LLM_PARAMS)?;
        fields.optional(reader, "temperature", Reader::number);
        fields.optional(reader, "maxOutputTokens", |reader, node| {
            reader.integer(node, 1..=u64::MAX)
        });
        fields.optional(reader, "maxRetries", |reader, node| {
            reader.integer(node, 0..=u64::MAX)
        })
    });
    fields.optional(reader, "structuredOutput", |reader, node| {
        structured_output(reader, node, file)
    });
    fields.optional(reader, "joinString", Reader::string);
    fields.optional(reader, "output", output);
    text_output_only(reader, fields);
    report(reader, fields);
}

fn conversational(reader: &mut Reader<'_>, node: &Node<'_>) -> Option<()> {
    let fields = reader.fields(node, &keys::CONVERSATIONAL)?;
    fields.optional(reader, "continueOnError", Reader::boolean);
    fields.required(reader, "trimmingStrategy", |reader, node| {
        let strategies = [("maxTurns", &keys::MAX_TURNS), ("maxTokens", &keys::MAX_TOKENS)];
        let (key, fields) = tagged(reader, node, "type", &strategies)?;
        let most = if key == "maxTurns" { 100 } else { 100_000 };
        fields.required(reader, key, |reader, node| reader.integer(node, 1..=most))
    });
    Some(())
}

/// One schema for an object or a list, the words for a choice, and nothing of the other.
fn structured_output(reader: &mut Reader<'_>, node: &Node<'_>, file: SentinelFile<'_>) -> Option<()> {
    let fields = reader.fields(node, &keys::STRUCTURED_OUTPUT)?;
    let is_choice = fields.required(reader, "output", |reader, node| {
        reader.choice(node, &[("object", false), ("array", false), ("enum", true)])
    });
    for text in ["schemaStr", "schemaName", "schemaDescription"] {
        fields.optional(reader, text, Reader::string);
    }
    fields.optional(reader, "schemaFile", |reader, node| file.reference(reader, node));
    fields.optional(reader, "enumValues", |reader, node| {
        reader.non_empty_list(node, Reader::string)
    });
    let (needed, foreign): (&[&str], &[&str]) = match is_choice? {
        true => (&["enumValues"], &["schemaStr", "schemaFile"]),
        false => (&["schemaStr", "schemaFile"], &["enumValues"]),
    };
    if needed.iter().all(|key| fields.get(key).is_none()) {
        let hint = format!("add {}", needed.join(" or "));
        fields.missing(reader, needed[0], Some(&hint));
    }
    fields.exclusive(reader, ["schemaStr", "schemaFile"]);
    for node in foreign.iter().filter_map(|key| fields.get(key)) {
        reader.error(
            &node,
            format!("has no meaning here; this output needs {}", needed.join(" or ")),
        );
    }
    Some(())
}

fn output(reader: &mut Reader<'_>, node: &Node<'_>) -> Option<()> {
    let fields = reader.fields(node, &keys::OUTPUT)?;
    for file in ["file", "lastValueFile"] {
        fields.optional(reader, file, Reader::non_empty);
    }
    fields.optional(reader, "format", |reader, node| {
        if node
            .value
            .as_string_lit()
            .is_some_and(|format| format.value == "json")
        {
            reader.error_with_hint(node, "json is an older name", r#"write "jsonl""#);
            return None;
        }
        reader.choice(node, &[("text", ()), ("jsonl", ())])
    })
}

/// An output with a structure has its own format, and nothing between its parts.
fn text_output_only(reader: &mut Reader<'_>, fields: &Fields<'_>) {
    if fields.get("structuredOutput").is_none() {
        return;
    }
    fields.optional(reader, "output", |reader, node| {
        node.value.as_object()?.get("format")?;
        reader.error_with_hint(
            node,
            "must not have a format beside `structuredOutput`",
            "remove `format`",
        );
        Some(())
    });
    if let Some(node) = fields.get("joinString") {
        reader.error_with_hint(
            &node,
            "must not stand beside `structuredOutput`: it joins texts",
            "remove `joinString`",
        );
    }
}

fn report(reader: &mut Reader<'_>, fields: &Fields<'_>) {
    fields.optional(reader, "reportToWebsocket", |reader, node| {
        let fields = reader.fields(node, &keys::REPORT)?;
        for key in keys::REPORT.valid {
            fields.optional(reader, key, Reader::boolean);
        }
        Some(())
    });
}

fn strings(reader: &mut Reader<'_>, node: &Node<'_>, keys: &Keys) -> Option<()> {
    let fields = reader.fields(node, keys)?;
    for key in keys.valid {
        fields.optional(reader, key, Reader::non_empty);
    }
    Some(())
}
