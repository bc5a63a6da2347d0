//! Sentinels in files of their own that were written for an older system, in the form of today (SENT-24).
//!
//! The text is edited where it is old; everything else in it, comments included, stays as it is.

use jsonc_parser::ast::{Object, ObjectProp, Value};
use jsonc_parser::common::Ranged;

use super::keys::SENTINEL;
use super::lines::LineIndex;
use super::old_template::convert_prompt;
use super::parse::{check_sentinel, read_with};
use super::problem::{Position, Problems, quoted};
use super::read::sentinel::{self, SentinelFile};

/// Other names that older systems had for keys of a sentinel.
const OLD_KEYS: [(&str, &str); 4] = [
    ("prompt", "userPromptText"),
    ("userPrompt", "userPromptText"),
    ("systemPrompt", "systemPromptText"),
    ("llm", "llmParams"),
];

/// Beginnings of the names of models, and the provider that each of them is of.
const PROVIDERS: [(&str, &str); 5] = [
    ("claude-", "anthropic"),
    ("gpt-", "openai"),
    ("o3", "openai"),
    ("o4-", "openai"),
    ("gemini-", "google"),
];

/// Stand-in for a schema that cannot be read here.
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
    /// Problems that remain, by their places in the new text.
    pub problems: Problems,
    /// Paths of its prompt files, from the folder of the sentinel: the valid ones, whatever else is wrong.
    pub prompt_files: Vec<String>,
}

/// Something about one place of the old text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConversionNote {
    /// Place in the old text.
    pub position: Position,
    /// JSON path of the value.
    pub path: String,
    /// Result, in words.
    pub message: String,
}

/// Converts the text of a sentinel's own file; `path` is that of the file in the folder of the hank.
///
/// # Errors
///
/// Problems that keep the text from being read at all.
pub fn convert_sentinel(text: &str, path: &str) -> Result<ConvertedSentinel, Problems> {
    let empty = "a sentinel is an object with id, name, model, trigger, execution and a prompt";
    let (reader, conversion) = read_with(text, empty, |reader, node| {
        let fields = reader.object(node)?;
        let mut conversion = Conversion::new(text);
        conversion.sentinel(fields);
        Some(conversion)
    });
    let Some(conversion) = conversion else {
        return Err(reader.problems);
    };
    let text = conversion.edited();
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

/// Edits of a text, and what they are for.
struct Conversion<'t> {
    text: &'t str,
    lines: LineIndex<'t>,
    /// Start, end and replacement.
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

    fn edited(&self) -> String {
        let mut edits = self.edits.clone();
        edits.sort_by_key(|(start, ..)| *start);
        let (mut edited, mut at) = (String::new(), 0);
        for (start, end, replacement) in edits {
            // Two removals side by side share what is between them.
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

    fn changed(&mut self, value: &impl Ranged, path: &str, message: impl Into<String>) {
        let note = self.note(value, path, message.into());
        self.changed.push(note);
    }

    fn lost(&mut self, value: &impl Ranged, path: &str, message: impl Into<String>) {
        let note = self.note(value, path, message.into());
        self.lost.push(note);
    }

    fn replace(&mut self, value: &impl Ranged, text: impl Into<String>) {
        let range = value.range();
        self.edits.push((range.start, range.end, text.into()));
    }

    /// Removes a property, and with it the comma after it or, at the end, before it.
    fn remove(&mut self, object: &Object<'_>, property: &ObjectProp<'_>) {
        let place = property.range.start;
        let at = object
            .properties
            .iter()
            .position(|other| other.range.start == place);
        let at = at.unwrap_or_default();
        let next = object.properties.get(at + 1).map(|next| next.range.start);
        let before = at.checked_sub(1).and_then(|before| object.properties.get(before));
        let (start, end) = match (next, before) {
            (Some(next), _) => (place, next),
            (None, Some(before)) => (before.range.end, property.range.end),
            (None, None) => (place, property.range.end),
        };
        self.edits.push((start, end, String::new()));
    }

    fn sentinel(&mut self, sentinel: &Object<'_>) {
        for property in &sentinel.properties {
            let name = property.name.as_str();
            let renamed = OLD_KEYS.iter().find(|(old, _)| *old == name);
            match renamed {
                Some((_, new)) if sentinel.get(new).is_none() => {
                    self.replace(&property.name, format!("\"{new}\""));
                    self.changed(&property.name, name, format!("the key is called `{new}` now"));
                    self.value(new, sentinel, property);
                }
                _ if SENTINEL.contains(name) => self.value(name, sentinel, property),
                _ => {
                    self.remove(sentinel, property);
                    self.lost(property, name, "a sentinel has no such key; it was removed");
                }
            }
        }
    }

    fn value(&mut self, name: &str, sentinel: &Object<'_>, property: &ObjectProp<'_>) {
        let is_structured = sentinel.get("structuredOutput").is_some();
        match name {
            "userPromptText" => self.prompt(name, &property.value),
            "systemPromptText" => self.system_prompt(&property.value),
            "model" => self.model(&property.value),
            "output" => self.output(&property.value, is_structured),
            "structuredOutput" => self.structured_output(&property.value),
            "joinString" if is_structured => {
                self.remove(sentinel, property);
                self.changed(
                    property,
                    name,
                    "removed: answers with a form are one JSON value a line",
                );
            }
            _ => {}
        }
    }

    fn prompt(&mut self, path: &str, value: &Value<'_>) {
        let Some(written) = value.as_string_lit() else {
            return;
        };
        match convert_prompt(&written.value) {
            Some(converted) => {
                self.replace(value, serde_json::Value::from(converted.text).to_string());
                self.changed(
                    value,
                    path,
                    "the template is written in the language of Jinja now",
                );
                for loss in converted.lost {
                    self.lost(value, path, loss);
                }
            }
            None if written.value.contains("<%") => {
                let message = "the program inside `<% … %>` is beyond this conversion; write it as a template, as in `{% for event in events %}`";
                self.lost(value, path, message);
            }
            None => {}
        }
    }

    /// System prompts are sent as they are.
    fn system_prompt(&mut self, value: &Value<'_>) {
        let text = value.as_string_lit().map(|text| &*text.value);
        if text.is_some_and(|text| text.contains("<%") || text.contains("{{")) {
            let message = "a system prompt is no template: its placeholders are sent as they are; move them to userPromptText";
            self.lost(value, "systemPromptText", message);
        }
    }

    fn model(&mut self, value: &Value<'_>) {
        let Some(model) = value.as_string_lit().filter(|model| !model.value.contains('/')) else {
            return;
        };
        let provider = PROVIDERS.iter().find(|(start, _)| model.value.starts_with(start));
        match provider {
            Some((_, provider)) => {
                let named = format!("{provider}/{}", model.value);
                self.replace(value, serde_json::Value::from(named.clone()).to_string());
                self.changed(
                    value,
                    "model",
                    format!("written with its provider: {}", quoted(&named)),
                );
            }
            None => {
                let message = "the provider is not known; write it before the name, such as `anthropic/claude-haiku-4-5`";
                self.lost(value, "model", message);
            }
        }
    }

    fn output(&mut self, value: &Value<'_>, is_structured: bool) {
        let Some(output) = value.as_object() else { return };
        let Some(format) = output.get("format") else {
            return;
        };
        let path = "output.format";
        if is_structured {
            self.remove(output, format);
            self.changed(
                format,
                path,
                "removed: answers with a form are one JSON value a line",
            );
            return;
        }
        let written = format.value.as_string_lit().map(|format| &*format.value);
        if let Some(old) = written.filter(|format| ["json", "ndjson"].contains(format)) {
            self.replace(&format.value, "\"jsonl\"");
            self.changed(
                &format.value,
                path,
                format!("{} is called `jsonl` now", quoted(old)),
            );
        }
    }

    /// A schema that is a program cannot be read here.
    fn structured_output(&mut self, value: &Value<'_>) {
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
        self.lost(&file.value, "structuredOutput.schemaFile", message);
    }
}
