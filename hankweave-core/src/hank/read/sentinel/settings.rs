//! Checks how a sentinel asks its model and where its answers go (HANK-51).

use super::{SentinelFile, keys, tagged};
use crate::hank::read::at_least_one;
use crate::hank::read::dollars;
use crate::hank::reader::{HankReader, JsonNode, ObjectFields, choice, integer, list, non_empty_list};

/// Checks the settings of a sentinel in a codon's entry.
pub(super) fn entry(reader: &mut HankReader<'_>, fields: &ObjectFields<'_>) {
    fields.optional(reader, "failCodonIfNotLoaded", HankReader::boolean);
    fields.optional(reader, "outputPaths", |reader, node| {
        let fields = reader.fields(node, &keys::OUTPUT_PATHS)?;
        for key in keys::OUTPUT_PATHS.names() {
            fields.optional(reader, key, HankReader::non_empty);
        }
        Some(())
    });
    fields.optional(
        reader,
        "mayAsk",
        list(choice(&[("skip", ()), ("stop", ()), ("pause", ())])),
    );
    report(reader, fields);
}

/// Checks the configuration of a sentinel, apart from its trigger and prompts.
pub(super) fn config(reader: &mut HankReader<'_>, fields: &ObjectFields<'_>, file: SentinelFile<'_>) {
    fields.optional(reader, "$schema", HankReader::string);
    fields.optional(reader, "description", HankReader::string);
    fields.optional(reader, "endpoint", endpoint);
    fields.optional(reader, "conversational", conversational);
    let prompts = ["systemPromptFile", "systemPromptText"];
    if let Some(node) = fields.get("conversational")
        && prompts.iter().all(|key| fields.get(key).is_none())
    {
        let hint = "add a systemPromptText or a systemPromptFile";
        reader.refuse_with_hint::<()>(&node, "needs a system prompt", hint);
    }
    fields.optional(reader, "errorHandling", |reader, node| {
        let fields = reader.fields(node, &keys::ERROR_HANDLING)?;
        fields.optional(reader, "maxConsecutiveFailures", at_least_one);
        fields.optional(reader, "unloadOnFatalError", HankReader::boolean);
        fields.optional(reader, "onError", choice(&[("ignore", ()), ("failCodon", ())]))
    });
    fields.optional(reader, "timeoutSeconds", integer(1..=3_600));
    fields.optional(reader, "maxDollars", dollars);
    fields.optional(reader, "llmParams", |reader, node| {
        let fields = reader.fields(node, &keys::LLM_PARAMS)?;
        fields.optional(reader, "temperature", HankReader::number);
        fields.optional(reader, "maxOutputTokens", at_least_one);
        fields.optional(reader, "maxRetries", integer(0..=10))
    });
    fields.optional(reader, "structuredOutput", |reader, node| {
        structured_output(reader, node, file)
    });
    fields.optional(reader, "joinString", HankReader::string);
    fields.optional(reader, "output", output);
    text_output_only(reader, fields);
    report(reader, fields);
}

fn endpoint(reader: &mut HankReader<'_>, node: &JsonNode<'_>) -> Option<()> {
    let fields = reader.fields(node, &keys::ENDPOINT)?;
    let languages = [("anthropic", ()), ("openai-chat", ()), ("openai-responses", ())];
    fields.optional(reader, "api", choice(&languages));
    fields.optional(reader, "baseUrl", |reader, node| {
        let url = reader.string(node)?;
        match ["http://", "https://"]
            .iter()
            .any(|scheme| url.starts_with(scheme))
        {
            true => Some(url),
            false => reader.refuse_with_hint(
                node,
                "is no address",
                r#"write it with its beginning, such as "http://127.0.0.1:11434/v1""#,
            ),
        }
    });
    fields.optional(reader, "keyVariable", HankReader::non_empty);
    Some(())
}

fn conversational(reader: &mut HankReader<'_>, node: &JsonNode<'_>) -> Option<()> {
    let fields = reader.fields(node, &keys::CONVERSATIONAL)?;
    fields.optional(reader, "continueOnError", HankReader::boolean);
    fields.required(reader, "trimmingStrategy", |reader, node| {
        let strategies = [("maxTurns", &keys::MAX_TURNS), ("maxTokens", &keys::MAX_TOKENS)];
        let (key, fields) = tagged(reader, node, "type", &strategies)?;
        let most = if key == "maxTurns" { 100 } else { 100_000 };
        fields.required(reader, key, integer(1..=most))
    });
    Some(())
}

/// Checks the form of an answer: an object or a list needs one schema and no words, a choice (`enum`) needs words and no schema.
fn structured_output(reader: &mut HankReader<'_>, node: &JsonNode<'_>, file: SentinelFile<'_>) -> Option<()> {
    let fields = reader.fields(node, &keys::STRUCTURED_OUTPUT)?;
    let outputs = [("object", false), ("array", false), ("enum", true)];
    let is_choice = fields.required(reader, "output", choice(&outputs));
    for text in ["schemaStr", "schemaName", "schemaDescription"] {
        fields.optional(reader, text, HankReader::string);
    }
    fields.optional(reader, "schemaFile", |reader, node| file.reference(reader, node));
    fields.optional(
        reader,
        "enumValues",
        non_empty_list(|reader, node| reader.string(node)),
    );
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
        let message = format!("has no meaning here; this output needs {}", needed.join(" or "));
        reader.error(&node, message);
    }
    Some(())
}

fn output(reader: &mut HankReader<'_>, node: &JsonNode<'_>) -> Option<()> {
    let fields = reader.fields(node, &keys::OUTPUT)?;
    for file in ["file", "lastValueFile"] {
        fields.optional(reader, file, HankReader::non_empty);
    }
    fields.optional(reader, "format", |reader, node| {
        let format = node.value.as_string_lit();
        if format.is_some_and(|format| format.value == "json") {
            return reader.refuse_with_hint(node, "json is an older name", r#"write "jsonl""#);
        }
        choice(&[("text", ()), ("jsonl", ())])(reader, node)
    })
}

/// Reports settings for texts next to a structured output, which has its own format and no string between its parts.
fn text_output_only(reader: &mut HankReader<'_>, fields: &ObjectFields<'_>) {
    if fields.get("structuredOutput").is_none() {
        return;
    }
    fields.optional(reader, "output", |reader, node| {
        node.value.as_object()?.get("format")?;
        let message = "must not have a format beside `structuredOutput`";
        reader.refuse_with_hint::<()>(node, message, "remove `format`")
    });
    if let Some(node) = fields.get("joinString") {
        let message = "must not stand beside `structuredOutput`: it joins texts";
        reader.refuse_with_hint::<()>(&node, message, "remove `joinString`");
    }
}

fn report(reader: &mut HankReader<'_>, fields: &ObjectFields<'_>) {
    fields.optional(reader, "reportToWebsocket", |reader, node| {
        let fields = reader.fields(node, &keys::REPORT)?;
        for key in keys::REPORT.names() {
            fields.optional(reader, key, HankReader::boolean);
        }
        Some(())
    });
}
