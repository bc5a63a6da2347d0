//! Checks scripts of the scripted agent (docs/scripted-agent.md). The values are not kept: the agent reads the file itself.

use std::ops::RangeInclusive;

use jsonc_parser::ast::Value;

use crate::hank::keys;
use crate::hank::reader::{HankReader, JsonNode, ObjectFields, list, strict_integer};

/// Checks a whole script and reports everything that the agent would refuse.
pub(in crate::hank) fn script(reader: &mut HankReader<'_>, node: &JsonNode<'_>) -> Option<()> {
    let fields = reader.fields(node, &keys::SCRIPT)?;
    texts(reader, &fields, &["sessionId"]);
    flags(reader, &fields, &["noInit", "noResult", "ignoreTerm"]);
    number(reader, &fields, "exitCode", 0..=255);
    fields.optional(reader, "turns", list(turn));
    fields.optional(reader, "result", nullable(result))
}

fn turn(reader: &mut HankReader<'_>, node: &JsonNode<'_>) -> Option<()> {
    let fields = reader.fields(node, &keys::SCRIPT_TURN)?;
    texts(
        reader,
        &fields,
        &["thinking", "text", "raw", "stderr", "spawnDetached"],
    );
    flags(
        reader,
        &fields,
        &["afterBackground", "invalidUtf8", "holdStdout", "hang"],
    );
    fields.optional(reader, "delayMs", strict_integer(0..=u64::MAX));
    number(reader, &fields, "hugeLine", 0..=u64::MAX);
    number(reader, &fields, "signal", 0..=255);
    fields.optional(reader, "tools", list(tool));
    fields.optional(reader, "usage", nullable(usage))
}

/// Checks a tool call: an object with one key, the tool.
fn tool(reader: &mut HankReader<'_>, node: &JsonNode<'_>) -> Option<()> {
    let fields = reader.fields(node, &keys::SCRIPT_TOOL)?;
    if fields.len() != 1 {
        let names = "one of write, append, read, bash, background";
        return reader.refuse(node, format!("must hold exactly one tool: {names}"));
    }
    for (name, keys) in [
        ("write", &keys::SCRIPT_WRITE),
        ("append", &keys::SCRIPT_WRITE),
        ("read", &keys::SCRIPT_READ),
        ("bash", &keys::SCRIPT_BASH),
        ("background", &keys::SCRIPT_BASH),
    ] {
        fields.optional(reader, name, |reader, node| {
            let fields = reader.fields(node, keys)?;
            for key in keys.names() {
                fields.required(reader, key, HankReader::string);
            }
            Some(())
        });
    }
    Some(())
}

fn usage(reader: &mut HankReader<'_>, node: &JsonNode<'_>) -> Option<()> {
    let fields = reader.fields(node, &keys::SCRIPT_USAGE)?;
    for key in keys::SCRIPT_USAGE.names() {
        fields.optional(reader, key, strict_integer(0..=u64::MAX));
    }
    Some(())
}

fn result(reader: &mut HankReader<'_>, node: &JsonNode<'_>) -> Option<()> {
    let fields = reader.fields(node, &keys::SCRIPT_RESULT)?;
    fields.optional(reader, "message", HankReader::string);
    number(reader, &fields, "status", 0..=u64::from(u16::MAX));
    flags(reader, &fields, &["contextExceeded"]);
    Some(())
}

fn texts(reader: &mut HankReader<'_>, fields: &ObjectFields<'_>, names: &[&str]) {
    for key in names {
        fields.optional(reader, key, nullable(|reader, node| reader.string(node)));
    }
}

fn flags(reader: &mut HankReader<'_>, fields: &ObjectFields<'_>, names: &[&str]) {
    for key in names {
        fields.optional(reader, key, HankReader::boolean);
    }
}

fn number(reader: &mut HankReader<'_>, fields: &ObjectFields<'_>, key: &str, range: RangeInclusive<u64>) {
    fields.optional(reader, key, nullable(strict_integer(range)));
}

/// Returns a reading function that takes `null` as an absent value, and leaves all others to `read`.
fn nullable<T>(
    read: impl Fn(&mut HankReader<'_>, &JsonNode<'_>) -> Option<T>,
) -> impl Fn(&mut HankReader<'_>, &JsonNode<'_>) -> Option<T> {
    move |reader, node| match node.value {
        Value::NullKeyword(_) => None,
        _ => read(reader, node),
    }
}
