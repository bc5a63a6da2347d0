//! Checks when a sentinel acts: its trigger with conditions, and its execution, which decides how triggers are gathered (HANK-51 to HANK-54).

use jsonc_parser::ast::Value;

use super::events::{self, EventData};
use super::{keys, tagged, unseen};
use crate::hank::keys::did_you_mean;
use crate::hank::problem::quoted;
use crate::hank::reader::{
    HankReader, JsonNode, ObjectFields, checked, choice, integer, list, non_empty_list,
};

pub(super) fn trigger(reader: &mut HankReader<'_>, node: &JsonNode<'_>) -> Option<()> {
    let kinds = [("event", &keys::EVENT), ("sequence", &keys::SEQUENCE)];
    let (kind, fields) = tagged(reader, node, "type", &kinds)?;
    match kind {
        "event" => {
            let watched = fields.required(reader, "on", event_types);
            conditions(reader, &fields, &watched.unwrap_or_default());
        }
        _ => sequence(reader, &fields),
    }
    Some(())
}

fn sequence(reader: &mut HankReader<'_>, fields: &ObjectFields<'_>) {
    let interest = fields.required(reader, "interestFilter", |reader, node| {
        let filter = reader.fields(node, &keys::INTEREST)?;
        filter.required(reader, "on", event_types)
    });
    let interest = interest.unwrap_or_else(|| vec![TriggerEvent::Anything]);
    let step = |reader: &mut HankReader<'_>, node: &JsonNode<'_>| {
        let step = reader.fields(node, &keys::PATTERN)?;
        let watched = step.required(reader, "type", |reader, node| {
            let watched = event_type(reader, node)?;
            if !watched.is_among(&interest) {
                reader.warning(
                    node,
                    "is not in `interestFilter.on`, so the sequence is never found",
                );
            }
            Some(watched)
        });
        conditions(reader, &step, watched.as_slice());
        Some(())
    };
    fields.required(reader, "pattern", non_empty_list(step));
    fields.optional(reader, "options", |reader, node| {
        let options = reader.fields(node, &keys::SEQUENCE_OPTIONS)?;
        options.optional(reader, "consecutive", HankReader::boolean)
    });
}

/// Event that a trigger names.
#[derive(Clone, Copy)]
enum TriggerEvent {
    /// `*`, which means all events, or a name that was refused already.
    Anything,
    Event(EventData),
}

impl TriggerEvent {
    /// Whether a trigger that names only `others` is shown this event.
    fn is_among(self, others: &[Self]) -> bool {
        let Self::Event(event) = self else {
            return true;
        };
        others.iter().any(|other| match other {
            Self::Anything => true,
            Self::Event(other) => other.name == event.name,
        })
    }

    fn is(self, name: &str) -> bool {
        matches!(self, Self::Event(event) if event.name == name)
    }

    fn can_have(self, path: &str) -> bool {
        match self {
            Self::Anything => true,
            Self::Event(event) => event.can_have(path),
        }
    }
}

fn event_types(reader: &mut HankReader<'_>, node: &JsonNode<'_>) -> Option<Vec<TriggerEvent>> {
    non_empty_list(event_type)(reader, node)
}

/// Reads the name of an event, or `*` (HANK-52).
fn event_type(reader: &mut HankReader<'_>, node: &JsonNode<'_>) -> Option<TriggerEvent> {
    let name = reader.non_empty(node)?;
    if name == "*" {
        return Some(TriggerEvent::Anything);
    }
    let Some(event) = events::find_event(&name) else {
        let names: Vec<&str> = events::all().map(|event| event.name).collect();
        let all = || format!("events are {}, and `*` for all of them", names.join(", "));
        let hint = did_you_mean(&name, &names).unwrap_or_else(all);
        reader.refuse_with_hint::<()>(node, format!("there is no event {}", quoted(&name)), hint);
        return Some(TriggerEvent::Anything);
    };
    if let Some(why) = event.unseen() {
        reader.warning(node, why);
    }
    Some(TriggerEvent::Event(event))
}

/// Checks the conditions on the events in `watched`; if that is empty, the events were refused already.
fn conditions(reader: &mut HankReader<'_>, fields: &ObjectFields<'_>, watched: &[TriggerEvent]) {
    let condition = |reader: &mut HankReader<'_>, node: &JsonNode<'_>| condition(reader, node, watched);
    fields.optional(reader, "conditions", list(condition));
}

/// Refuses a path that no watched event can have: the condition would never be true (HANK-53).
fn condition_path(reader: &mut HankReader<'_>, node: &JsonNode<'_>, watched: &[TriggerEvent]) -> Option<()> {
    let path = reader.non_empty(node)?;
    if watched.is_empty() || watched.iter().any(|event| event.can_have(&path)) {
        return Some(());
    }
    let events = watched.iter().filter_map(|watched| match watched {
        TriggerEvent::Anything => None,
        TriggerEvent::Event(event) => Some(*event),
    });
    let names: Vec<&str> = events.clone().map(|event| event.name).collect();
    let mut fields: Vec<&str> = events.flat_map(EventData::fields).collect();
    fields.sort_unstable();
    fields.dedup();
    let first = path.split('.').next().unwrap_or_default();
    let misspelled = Some(first).filter(|first| !fields.contains(first));
    let near = misspelled.and_then(|first| did_you_mean(first, &fields));
    let hint = near.unwrap_or_else(|| format!("the data has {}", fields.join(", ")));
    let message = format!("{} is not in the data of {}", quoted(&path), names.join(" or "));
    reader.refuse_with_hint(node, message, hint)
}

/// Warns of a condition on files that no sentinel is ever shown (SENT-22).
fn unseen_files(reader: &mut HankReader<'_>, node: &JsonNode<'_>, operator: &str) -> Option<()> {
    let elements = match node.value {
        Value::Array(list) => list.elements.iter().collect(),
        _ => vec![node.value],
    };
    let mut texts = elements
        .iter()
        .filter_map(|element| Some(element.as_string_lit()?.value.as_ref()));
    let found = texts.find(|text| unseen::is_of_unseen_files(operator, text))?;
    let message = format!("{} is about files that {}", quoted(found), unseen::WHY);
    reader.warning(node, &message);
    Some(())
}

/// Required value of a condition.
#[derive(Clone, Copy)]
enum Operand {
    /// A string, a number, true, false or null.
    Scalar,
    /// A list that is not empty.
    List,
    Regex,
    Number,
}

const OPERATORS: [(&str, Operand); 8] = [
    ("equals", Operand::Scalar),
    ("notEquals", Operand::Scalar),
    ("in", Operand::List),
    ("notIn", Operand::List),
    ("contains", Operand::Scalar),
    ("matches", Operand::Regex),
    ("greaterThan", Operand::Number),
    ("lessThan", Operand::Number),
];

fn condition(reader: &mut HankReader<'_>, node: &JsonNode<'_>, watched: &[TriggerEvent]) -> Option<()> {
    let fields = reader.fields(node, &keys::CONDITION)?;
    fields.required(reader, "path", |reader, node| {
        condition_path(reader, node, watched)
    });
    let operand = fields.required(reader, "operator", choice(&OPERATORS));
    if node.string_at("path") == Some("path") && watched.iter().all(|event| event.is("file.updated")) {
        let operator = node.string_at("operator").unwrap_or_default();
        fields.optional(reader, "value", |reader, node| {
            unseen_files(reader, node, operator)
        });
    }
    fields.required(reader, "value", |reader, node| match operand? {
        Operand::Scalar => scalar(reader, node),
        Operand::List => non_empty_list(scalar)(reader, node).map(drop),
        Operand::Regex => checked(check_regex)(reader, node).map(drop),
        Operand::Number => reader.number(node).map(drop),
    })
}

/// Checks a regular expression, in the syntax of the crate `regex`: a condition with an invalid one would never be true (HANK-54).
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

fn scalar(reader: &mut HankReader<'_>, node: &JsonNode<'_>) -> Option<()> {
    match node.value {
        Value::Array(_) | Value::Object(_) => {
            reader.refuse(node, "must be a string, a number, true, false or null")
        }
        _ => Some(()),
    }
}

pub(super) fn execution(reader: &mut HankReader<'_>, node: &JsonNode<'_>) -> Option<()> {
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
    fields.required(reader, key, integer(1..=most)).map(drop)
}
