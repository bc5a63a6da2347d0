//! When a sentinel acts: triggers with their conditions, and executions (HANK-51 to HANK-54).

use jsonc_parser::ast::Value;

use super::events::{self, EventData};
use super::{keys, tagged};
use crate::hank::keys::nearest;
use crate::hank::problem::quoted;
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
            let watched = fields.required(reader, "on", event_types);
            conditions(reader, &fields, &watched.unwrap_or_default());
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
            let watched = step.required(reader, "type", event_type);
            conditions(reader, &step, watched.as_slice());
            Some(())
        })
    });
    fields.optional(reader, "options", |reader, node| {
        let options = reader.fields(node, &keys::SEQUENCE_OPTIONS)?;
        options.optional(reader, "consecutive", Reader::boolean)
    });
}

/// What a trigger names.
#[derive(Clone, Copy)]
enum Watched {
    /// `*`, or a name that was refused already.
    Anything,
    Event(&'static EventData),
}

impl Watched {
    fn can_have(self, path: &str) -> bool {
        match self {
            Self::Anything => true,
            Self::Event(event) => event.can_have(path),
        }
    }
}

fn event_types(reader: &mut Reader<'_>, node: &Node<'_>) -> Option<Vec<Watched>> {
    reader.non_empty_list(node, event_type)
}

/// An event that there is, or `*` (HANK-52).
fn event_type(reader: &mut Reader<'_>, node: &Node<'_>) -> Option<Watched> {
    let name = reader.non_empty(node)?;
    if name == "*" {
        return Some(Watched::Anything);
    }
    let Some(event) = events::event(&name) else {
        let names: Vec<&str> = events::names().collect();
        let hint = match nearest(&name, &names) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("events are {}, and `*` for all of them", names.join(", ")),
        };
        reader.error_with_hint(node, format!("there is no event {}", quoted(&name)), hint);
        return Some(Watched::Anything);
    };
    if let Some(why) = event.unseen() {
        reader.warning(node, why);
    }
    Some(Watched::Event(event))
}

/// Conditions on any of the events in `watched`; where that is empty, the list was refused already.
fn conditions(reader: &mut Reader<'_>, fields: &Fields<'_>, watched: &[Watched]) {
    fields.optional(reader, "conditions", |reader, node| {
        reader.list(node, |reader, node| condition(reader, node, watched))
    });
}

/// A path that no watched event can have makes a condition that is never true (HANK-53).
fn condition_path(reader: &mut Reader<'_>, node: &Node<'_>, watched: &[Watched]) -> Option<()> {
    let path = reader.non_empty(node)?;
    if watched.is_empty() || watched.iter().any(|event| event.can_have(&path)) {
        return Some(());
    }
    let events = watched.iter().filter_map(|watched| match watched {
        Watched::Anything => None,
        Watched::Event(event) => Some(*event),
    });
    let names: Vec<&str> = events.clone().map(|event| event.name).collect();
    let mut fields: Vec<&str> = events.flat_map(EventData::fields).collect();
    fields.sort_unstable();
    fields.dedup();
    let first = path.split('.').next().unwrap_or_default();
    let hint = match nearest(first, &fields).filter(|near| *near != first) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("the data has {}", fields.join(", ")),
    };
    let message = format!("{} is not in the data of {}", quoted(&path), names.join(" or "));
    reader.error_with_hint(node, message, hint);
    None
}

/// What the value of a condition must be.
#[derive(Clone, Copy)]
enum Operand {
    /// A text, a number, true, false or null.
    Scalar,
    /// A list with something in it.
    List,
    Regex,
    Number,
}

fn condition(reader: &mut Reader<'_>, node: &Node<'_>, watched: &[Watched]) -> Option<()> {
    let fields = reader.fields(node, &keys::CONDITION)?;
    fields.required(reader, "path", |reader, node| {
        condition_path(reader, node, watched)
    });
    let operand = fields.required(reader, "operator", |reader, node| {
        reader.choice(
            node,
            &[
                ("equals", Operand::Scalar),
                ("notEquals", Operand::Scalar),
                ("in", Operand::List),
                ("notIn", Operand::List),
                ("contains", Operand::Scalar),
                ("matches", Operand::Regex),
                ("greaterThan", Operand::Number),
                ("lessThan", Operand::Number),
            ],
        )
    });
    fields.required(reader, "value", |reader, node| match operand? {
        Operand::Scalar => scalar(reader, node),
        Operand::List => reader.non_empty_list(node, scalar).map(drop),
        Operand::Regex => reader.checked(node, check_regex).map(drop),
        Operand::Number => reader.number(node).map(drop),
    })
}

/// A condition whose regular expression cannot be read would never be true (HANK-54). The syntax is that of the crate `regex`.
fn check_regex(text: &str) -> Result<(), String> {
    let (kind, offset) = match regex_syntax::parse(text) {
        Ok(_) => return Ok(()),
        Err(regex_syntax::Error::Parse(error)) => (error.kind().to_string(), error.span().start.offset),
        Err(regex_syntax::Error::Translate(error)) => (error.kind().to_string(), error.span().start.offset),
        Err(error) => (error.to_string(), 0),
    };
    let before = text.get(..offset).unwrap_or_default();
    let at = before.chars().count() + 1;
    Err(format!("is no regular expression: {kind}, at its character {at}"))
}

fn scalar(reader: &mut Reader<'_>, node: &Node<'_>) -> Option<()> {
    match node.value {
        Value::Array(_) | Value::Object(_) => {
            reader.error(node, "must be a string, a number, true, false or null");
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
