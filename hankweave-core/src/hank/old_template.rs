//! Converts the prompt of a sentinel from the template languages of older systems to that of today, which is Jinja's (SENT-14).
//!
//! The older languages have JavaScript in `<% ... %>` and `<%= ... %>`, or a field of the last event in `{{ ... }}`.

use super::template::{NAMES, find_fault};

/// A prompt that was written for an older system.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConvertedPrompt {
    /// The template.
    pub text: String,
    /// Losses: parts that the new form cannot express, with their replacements.
    pub lost: Vec<&'static str>,
}

/// Values of the older systems, each with the expression that replaces it and a note about the loss, if the new value is another one.
const REPLACED: [(&str, &str, Option<&str>); 5] = [
    ("codon.id", "codonId", None),
    (
        "codon.name",
        "codonId",
        Some("the name of the codon is not known to prompts; its id stands there"),
    ),
    (
        "codon.description",
        "codonId",
        Some("the description of the codon is not known to prompts; its id stands there"),
    ),
    (
        "codon.startTime",
        "(events | first).timestamp",
        Some("the start of the codon is not known to prompts; the time of the first event stands there"),
    ),
    (
        "world.currentTime",
        "(events | last).timestamp",
        Some("the current time is not known to prompts; the time of the last event stands there"),
    ),
];

/// Converts a prompt; `None` if nothing has to be converted, or if the prompt has JavaScript that this conversion does not know.
#[must_use]
pub fn convert_prompt(text: &str) -> Option<ConvertedPrompt> {
    let (mut converted, mut lost) = (String::new(), Vec::new());
    // `open` has the closing statement of each open block.
    let (mut open, mut rest) = (Vec::new(), text);
    while let Some((before, after)) = rest.split_once("<%") {
        let (inner, after) = after.split_once("%>")?;
        converted.push_str(before);
        // `-` and `_` only remove blanks around the brackets.
        let inner = inner.trim_matches(['-', '_']).trim();
        match inner.strip_prefix(['=', '~']) {
            Some(value) => {
                converted.push_str(&format!("{{{{ {} }}}}", convert_expression(value, &mut lost)?))
            }
            None => converted.push_str(&format!(
                "{{% {} %}}",
                convert_statement(inner, &mut open, &mut lost)?
            )),
        }
        rest = after;
    }
    converted.push_str(rest);
    let text = match convert_event_fields(&converted) {
        changed if changed == text => return None,
        changed => changed,
    };
    find_fault(&text)
        .is_ok()
        .then_some(ConvertedPrompt { text, lost })
}

/// Converts `{{field}}`, which was a field of the last event.
fn convert_event_fields(text: &str) -> String {
    let (mut converted, mut rest) = (String::new(), text);
    while let Some((before, after)) = rest.split_once("{{") {
        let Some((inner, after)) = after.split_once("}}") else {
            break;
        };
        converted.push_str(before);
        let name = inner.trim();
        let is_field = !name.is_empty()
            && !NAMES.contains(&name)
            && name.split('.').all(|part| {
                !part.is_empty()
                    && part
                        .chars()
                        .all(|letter| letter.is_alphanumeric() || letter == '_')
            })
            // In a text with statements, the name may be that of a loop's variable.
            && !text.contains("{%");
        if inner == "events" {
            // Without a filter the values would not be JSON.
            converted.push_str("{{ events | tojson }}");
        } else if is_field {
            converted.push_str(&format!("{{{{ (events | last).data.{name} }}}}"));
        } else {
            converted.push_str(&format!("{{{{{inner}}}}}"));
        }
        rest = after;
    }
    converted + rest
}

/// Converts a statement of JavaScript: a loop, a condition, or the end of a block. `None` for any other.
fn convert_statement(
    written: &str,
    open: &mut Vec<&'static str>,
    lost: &mut Vec<&'static str>,
) -> Option<String> {
    // `for (const event of events) {`
    if let Some(head) = written
        .strip_prefix("for")
        .and_then(|rest| rest.trim().strip_prefix('(')?.trim_end().strip_suffix('{'))
    {
        let (name, list) = head.trim_end().strip_suffix(')')?.split_once(" of ")?;
        let name = name.trim().rsplit(' ').next()?;
        open.push("endfor");
        return Some(format!("for {name} in {}", convert_expression(list, lost)?));
    }
    // `events.forEach(event => {`
    if let Some((list, function)) = written.split_once(".forEach(") {
        let name = function
            .split("=>")
            .next()?
            .trim()
            .trim_matches(['(', ')'])
            .trim();
        open.push("endfor");
        return Some(format!("for {name} in {}", convert_expression(list, lost)?));
    }
    // `if (condition) {`
    if let Some(head) = written.strip_prefix("if") {
        let condition = head.trim().strip_prefix('(')?.strip_suffix('{')?;
        open.push("endif");
        let condition = convert_expression(condition.trim_end().strip_suffix(')')?, lost)?;
        return Some(format!("if {condition}"));
    }
    // `} else if (condition) {`
    if let Some(head) = written.strip_prefix('}').map(str::trim_start)
        && let Some(head) = head.strip_prefix("else if")
    {
        let condition = head.trim().strip_prefix('(')?.strip_suffix('{')?;
        let condition = convert_expression(condition.trim_end().strip_suffix(')')?, lost)?;
        return Some(format!("elif {condition}"));
    }
    match written.split_whitespace().collect::<String>().as_str() {
        "}else{" => Some("else".to_owned()),
        "}" | "})" | "});" => open.pop().map(str::to_owned),
        _ => None,
    }
}

/// Converts an expression of JavaScript, of the kinds that occur in prompts.
fn convert_expression(written: &str, lost: &mut Vec<&'static str>) -> Option<String> {
    let written = written.trim().trim_end_matches(';');
    if let Some(inner) = written.strip_prefix("JSON.stringify(") {
        let inner = inner.strip_suffix(')')?.split(',').next()?;
        return Some(format!("{} | tojson", convert_expression(inner, lost)?));
    }
    let words = [
        ("===", "=="),
        ("!==", "!="),
        ("&&", "and"),
        ("||", "or"),
        ("?.", "."),
        (".length", " | length"),
    ];
    let plain = words
        .iter()
        .fold(written.to_owned(), |text, (from, to)| text.replace(from, to));
    let mut text = String::new();
    for (index, part) in plain.split("it.").enumerate() {
        // In older templates `it` holds all values, as in `it.events`. It is removed, unless it is the end of a longer word, such as `limit.`.
        if index > 0 && text.ends_with(|letter: char| letter.is_alphanumeric() || letter == '_') {
            text.push_str("it.");
        }
        text.push_str(part);
    }
    for (name, value, loss) in REPLACED {
        if text.contains(name) {
            text = text.replace(name, value);
            lost.extend(loss);
        }
    }
    Some(text)
}
