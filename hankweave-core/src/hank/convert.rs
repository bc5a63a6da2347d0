//! Converts the file of a sentinel that was written for an older system to the form of today (SENT-24).
//!
//! Only the outdated places of the text are edited; the rest, comments included, stays as it is.

use jsonc_parser::ast::{Object, ObjectProp, Value};
use jsonc_parser::common::Ranged;

use super::keys::SENTINEL;
use super::lines::LineIndex;
use super::old_template::convert_prompt;
use super::parse::{check_sentinel, read_with};
use super::problem::{Position, Problems, quoted};
use super::read::sentinel::{self, SentinelFile};

/// Keys of a sentinel in older systems, with their names of today.
const OLD_KEYS: [(&str, &str); 4] = [
    ("prompt", "userPromptText"),
    ("userPrompt", "userPromptText"),
    ("systemPrompt", "systemPromptText"),
    ("llm", "llmParams"),
];

/// Beginnings of model names, with the provider of the models.
const PROVIDERS: [(&str, &str); 5] = [
    ("claude-", "anthropic"),
    ("gpt-", "openai"),
    ("o3", "openai"),
    ("o4-", "openai"),
    ("gemini-", "google"),
];

/// Schema that any answer fits, as a JSON string; replaces a schema that is a program.
const ANYTHING: &str = r#""{}""#;

/// A sentinel in the form of today.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ConvertedSentinel {
    /// The whole text of the file.
    pub text: String,
    /// Changes of form, which keep the meaning.
    pub changed: Vec<ConversionNote>,
    /// Losses: parts that could not be carried over, with their replacements.
    pub lost: Vec<ConversionNote>,
    /// Problems that remain, with their positions in the new text.
    pub problems: Problems,
    /// Valid paths of prompt files that the sentinel names, also if it has problems; relative to the folder of the sentinel.
    pub prompt_files: Vec<String>,
}

/// A change or a loss at one place of the old text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConversionNote {
    /// Place in the old text.
    pub position: Position,
    /// JSON path of the value.
    pub path: String,
    /// Change or loss, in words.
    pub message: String,
}

/// Converts the text of a sentinel's own file; `path` is the path of the file from the folder of the hank.
///
/// # Errors
///
/// Problems that keep the text from being read at all.
pub fn convert_sentinel(text: &str, path: &str) -> Result<ConvertedSentinel, Problems> {
    let empty = "a sentinel is an object with id, name, model, trigger, execution and a prompt";
    let (reader, conversion) = read_with(text, empty, |reader, node| {
        let fields = reader.object(node)?;
        let mut conversion = Conversion::new(text);
        conversion.convert_keys(fields);
        Some(conversion)
    });
    let Some(conversion) = conversion else {
        return Err(reader.problems);
    };
    let text = conversion.edited_text();
    let problems = check_sentinel(&text, path).problems;
    let prompt_files = read_with(&text, empty, |reader, node| {
        sentinel::user_prompt_files(reader, node, SentinelFile::at(path))
    });
    Ok(ConvertedSentinel {
        prompt_files: prompt_files.1.unwrap_or_default(),
        text,
        changed: conversion.changed,
        lost: conversion.lost,
        problems,
    })
}

/// Edits of a text, and the notes about them.
struct Conversion<'t> {
    text: &'t str,
    lines: LineIndex<'t>,
    /// Start and end in bytes, and the replacement, of each edit.
    edits: Vec<(usize, usize, String)>,
    changed: Vec<ConversionNote>,
    lost: Vec<ConversionNote>,
}

impl<'t> Conversion<'t> {
    fn new(whole: &'t str) -> Self {
        let text = whole.strip_prefix('\u{feff}').unwrap_or(whole);
        Self {
            text,
            lines: LineIndex::new(text),
            edits: Vec::new(),
            changed: Vec::new(),
            lost: Vec::new(),
        }
    }

    fn edited_text(&self) -> String {
        let mut edits = self.edits.clone();
        edits.sort_by_key(|(start, ..)| *start);
        let (mut edited, mut at) = (String::new(), 0);
        for (start, end, replacement) in edits {
            // The removals of two neighbours may overlap, because each takes a comma.
            edited.push_str(self.text.get(at..start.max(at)).unwrap_or_default());
            edited.push_str(&replacement);
            at = end.max(at);
        }
        edited.push_str(self.text.get(at..).unwrap_or_default());
        edited
    }

    fn note(&self, value: &impl Ranged, path: &str, message: String) -> ConversionNote {
        ConversionNote {
            position: self.lines.position(value.range().start),
            path: path.to_owned(),
            message,
        }
    }

    fn note_change(&mut self, value: &impl Ranged, path: &str, message: impl Into<String>) {
        let note = self.note(value, path, message.into());
        self.changed.push(note);
    }

    fn note_loss(&mut self, value: &impl Ranged, path: &str, message: impl Into<String>) {
        let note = self.note(value, path, message.into());
        self.lost.push(note);
    }

    fn replace(&mut self, value: &impl Ranged, text: impl Into<String>) {
        let range = value.range();
        self.edits.push((range.start, range.end, text.into()));
    }

    /// Removes a property, and with it the comma after it or, at the end, before it.
    fn remove(&mut self, object: &Object<'_>, property: &ObjectProp<'_>) {
        let own_start = property.range.start;
        let index = object
            .properties
            .iter()
            .position(|other| other.range.start == own_start);
        let index = index.unwrap_or_default();
        let next_start = object.properties.get(index + 1).map(|next| next.range.start);
        let before = index
            .checked_sub(1)
            .and_then(|before| object.properties.get(before));
        let (start, end) = match (next_start, before) {
            (Some(next_start), _) => (own_start, next_start),
            (None, Some(before)) => (before.range.end, property.range.end),
            (None, None) => (own_start, property.range.end),
        };
        self.edits.push((start, end, String::new()));
    }

    /// Renames old keys, converts the values that need it, and removes unknown keys.
    fn convert_keys(&mut self, sentinel: &Object<'_>) {
        for property in &sentinel.properties {
            let name = property.name.as_str();
            let renamed = OLD_KEYS.iter().find(|(old, _)| *old == name);
            match renamed {
                Some((_, new)) if sentinel.get(new).is_none() => {
                    self.replace(&property.name, format!("\"{new}\""));
                    self.note_change(&property.name, name, format!("the key is called `{new}` now"));
                    self.convert_value(new, sentinel, property);
                }
                _ if SENTINEL.contains(name) => self.convert_value(name, sentinel, property),
                _ => {
                    self.remove(sentinel, property);
                    self.note_loss(property, name, "a sentinel has no such key; it was removed");
                }
            }
        }
    }

    /// Converts the value of a property; `name` is the name that its key has today.
    fn convert_value(&mut self, name: &str, sentinel: &Object<'_>, property: &ObjectProp<'_>) {
        let is_structured = sentinel.get("structuredOutput").is_some();
        match name {
            "userPromptText" => self.convert_template(name, &property.value),
            "systemPromptText" => self.check_system_prompt(&property.value),
            "model" => self.convert_model(&property.value),
            "output" => self.convert_output(&property.value, is_structured),
            "structuredOutput" => self.convert_structured_output(&property.value),
            "joinString" if is_structured => {
                self.remove(sentinel, property);
                self.note_change(
                    property,
                    name,
                    "removed: answers with a form are one JSON value a line",
                );
            }
            _ => {}
        }
    }

    fn convert_template(&mut self, path: &str, value: &Value<'_>) {
        let Some(written) = value.as_string_lit() else {
            return;
        };
        match convert_prompt(&written.value) {
            Some(converted) => {
                self.replace(value, serde_json::Value::from(converted.text).to_string());
                self.note_change(
                    value,
                    path,
                    "the template is written in the language of Jinja now",
                );
                for loss in converted.lost {
                    self.note_loss(value, path, loss);
                }
            }
            None if written.value.contains("<%") => {
                let message = "the program inside `<% … %>` is beyond this conversion; write it as a template, as in `{% for event in events %}`";
                self.note_loss(value, path, message);
            }
            None => {}
        }
    }

    /// Notes placeholders in a system prompt as lost: system prompts are no templates.
    fn check_system_prompt(&mut self, value: &Value<'_>) {
        let text = value.as_string_lit().map(|text| &*text.value);
        if text.is_some_and(|text| text.contains("<%") || text.contains("{{")) {
            let message = "a system prompt is no template: its placeholders are sent as they are; move them to userPromptText";
            self.note_loss(value, "systemPromptText", message);
        }
    }

    /// Writes the provider in front of the name of a model.
    fn convert_model(&mut self, value: &Value<'_>) {
        let Some(model) = value.as_string_lit().filter(|model| !model.value.contains('/')) else {
            return;
        };
        let provider = PROVIDERS.iter().find(|(start, _)| model.value.starts_with(start));
        match provider {
            Some((_, provider)) => {
                let named = format!("{provider}/{}", model.value);
                self.replace(value, serde_json::Value::from(named.clone()).to_string());
                self.note_change(
                    value,
                    "model",
                    format!("written with its provider: {}", quoted(&named)),
                );
            }
            None => {
                let message = "the provider is not known; write it before the name, such as `anthropic/claude-haiku-4-5`";
                self.note_loss(value, "model", message);
            }
        }
    }

    fn convert_output(&mut self, value: &Value<'_>, is_structured: bool) {
        let Some(output) = value.as_object() else { return };
        let Some(format) = output.get("format") else {
            return;
        };
        let path = "output.format";
        if is_structured {
            self.remove(output, format);
            self.note_change(
                format,
                path,
                "removed: answers with a form are one JSON value a line",
            );
            return;
        }
        let written = format.value.as_string_lit().map(|format| &*format.value);
        if let Some(old) = written.filter(|format| ["json", "ndjson"].contains(format)) {
            self.replace(&format.value, "\"jsonl\"");
            self.note_change(
                &format.value,
                path,
                format!("{} is called `jsonl` now", quoted(old)),
            );
        }
    }

    /// Replaces a schema that is a program: no program is run for a schema.
    fn convert_structured_output(&mut self, value: &Value<'_>) {
        let Some(output) = value.as_object() else { return };
        let Some(file) = output.get("schemaFile") else {
            return;
        };
        let Some(name) = file.value.as_string_lit().map(|name| &*name.value) else {
            return;
        };
        let endings = [".ts", ".mts", ".js", ".mjs", ".cjs"];
        if !endings.iter().any(|ending| name.ends_with(ending)) {
            return;
        }
        self.replace(&file.name, "\"schemaStr\"");
        self.replace(&file.value, ANYTHING);
        let message = format!(
            "{} is a program, and no program is run for a schema; any answer is accepted until you write its JSON Schema into `schemaStr` or name a file with it in `schemaFile`",
            quoted(name)
        );
        self.note_loss(&file.value, "structuredOutput.schemaFile", message);
    }
}
