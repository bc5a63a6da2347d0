//! When a sentinel acts: triggers with their conditions, and executions ("hank configuration", section 9).

use jsonc_parser::ast::Value;

use super::{keys, tagged};
use crate::hank::reader::{Fields, Node, Reader};

pub(super) fn trigger(reader: &mut Reader<'_>, node: &Node<'_>) -> Option<()> {
    let (kind, fields) = tagged(
        reader,
        node,
        "type",
        &[("event", &keys::EVENT), ("sequence", &keys::SEQUENCE)],
    )?;
    match kind {
        "event" => {
            fields.required(reader, "on", event_types);
            conditions(reader, &fields);
        }
        _ => sequence(reader, &fields),
    }
    Some(())
}

fn sequence(reader: &mut Reader<'_>, fields: &Fields<'_>) {
    fields.required(reader, "interestFilter", |reader, node| {
        let filter = reader.fields(node, &keys::INTEREST)?;
        filter.required(reader, "on", event_types)
    });
    fields.required(reader, "pattern", |reader, node| {
        reader.non_empty_list(node, |reader, node| {
            let step = reader.fields(node, &keys::PATTERN)?;
            step.required(reader, "type", Reader::non_empty);
            conditions(reader, &step);
            Some(())
        })
    });
    fields.optional(reader, "options", |reader, node| {
        let options = reader.fields(node, &keys::SEQUENCE_OPTIONS)?;
        options.optional(reader, "consecutive", Reader::boolean)
    });
}

fn event_types(reader: &mut Reader<'_>, node: &Node<'_>) -> Option<Vec<String>> {
    reader.non_empty_list(node, Reader::non_empty)
}

fn conditions(reader: &mut Reader<'_>, fields: &Fields<'_>) {
    fields.optional(reader, "conditions", |reader, node| reader.list(node, condition));
}

/// What the value of a condition must be.
#[derive(Clone, Copy)]
enum Operand {
    /// A text, a number, true, false or null.
    Scalar,
    /// A list with something in it.
    List,
    Text,
    Number,
}

fn condition(reader: &mut Reader<'_>, node: &Node<'_>) -> Option<()> {
    let fields = reader.fields(node, &keys::CONDITION)?;
    fields.required(reader, "path", Reader::non_empty);
    let operand = fields.required(reader, "operator", |reader, node| {
        reader.choice(
            node,
            &[
                ("equals", Operand::Scalar),
                ("notEquals", Operand::Scalar),
                ("in", Operand::List),
                ("notIn", Operand::List),
                ("contains", Operand::Scalar),
                ("matches", Operand::Text),
                ("greaterThan", Operand::Number),
                ("lessThan", Operand::Number),
            ],
        )
    });
    fields.required(reader, "value", |reader, node| match operand? {
        Operand::Scalar => scalar(reader, node),
        Operand::List => reader.non_empty_list(node, scalar).map(drop),
        Operand::Text => reader.string(node).map(drop),
        Operand::Number => reader.number(node).map(drop),
    })
}

fn scalar(reader: &mut Reader<'_>, node: &Node<'_>) -> Option<()> {
    match node.value {
        Value::Array(_) | Value::Object(_) => {
            reader.error(node, "must be a text, a number, true, false or null");
            None
        }
        _ => Some(()),
    }
}

pub(super) fn execution(reader: &mut Reader<'_>, node: &Node<'_>) -> Option<()> {
    let strategies = [
        ("immediate", &keys::IMMEDIATE),
        ("debounce", &keys::TIMED),
        ("count", &keys::COUNTED),
        ("timeWindow", &keys::TIMED),
    ];
    let (strategy, fields) = tagged(reader, node, "strategy", &strategies)?;
    let (key, most) = match strategy {
        "debounce" => ("milliseconds", 300_000),
        "count" => ("threshold", 1_000),
        "timeWindow" => ("milliseconds", 3_600_000),
        _ => return Some(()),
    };
    fields
        .required(reader, key, |reader, node| reader.integer(node, 1..=most))
        .map(drop)
}
