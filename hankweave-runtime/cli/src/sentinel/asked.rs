//! Output of `sentinel test`: each action with the prompt that the model would have got, or the events for the command.

use std::fmt::Write as _;
use std::io;

use anstyle::Style;
use hankweave_core::hank::{PromptContext, TemplateError, render_prompt};
use hankweave_core::id::{CodonId, RunId};
use hankweave_core::sentinel::{Firing, ObservedEvent};
use hankweave_core::time::Timestamp;
use hankweave_runtime::journal::TailLine;
use serde_json::{Value, json};

use super::Sentinel;
use crate::args::Global;
use crate::journal::sentence;
use crate::terminal::report::counted;
use crate::terminal::screen::{JsonLines, SafeText, local_time, print};

/// Prints the actions of a sentinel, as text or as lines of JSON.
pub(super) struct RehearsalOutput<'a> {
    sentinel: &'a Sentinel,
    format: RehearsalFormat,
}

enum RehearsalFormat {
    Json(JsonLines),
    Text,
}

impl<'a> RehearsalOutput<'a> {
    pub(super) fn new(global: &Global, sentinel: &'a Sentinel) -> Self {
        let format = match global.json() {
            true => RehearsalFormat::Json(JsonLines::default()),
            false => RehearsalFormat::Text,
        };
        Self { sentinel, format }
    }

    /// Prints one action of the sentinel.
    pub(super) fn print_firing(
        &mut self,
        run: &RunId,
        codon: &CodonId,
        firing: &Firing,
        at: Timestamp,
    ) -> io::Result<()> {
        let values = || firing.events.iter().filter_map(|event| value(event)).collect();
        let prompt = self.sentinel.prompt.as_ref().map(|prompt| {
            let context = PromptContext {
                sentinel_id: self.sentinel.config.id.as_str(),
                run_id: run.as_str(),
                codon_id: codon.as_str(),
                trigger: firing.number,
                events: values(),
            };
            render_prompt(prompt, &context)
        });
        match &mut self.format {
            RehearsalFormat::Json(lines) => {
                let mut line = json!({"at": at, "sentinelId": self.sentinel.config.id, "runId": run, "codonId": codon,
                    "trigger": firing.number, "events": Value::Array(values())});
                match prompt {
                    Some(Ok(prompt)) => line["prompt"] = json!(prompt),
                    Some(Err(error)) => line["error"] = json!(error.message),
                    None => {}
                }
                lines.print(&line)
            }
            RehearsalFormat::Text => print(as_text(codon, firing, at, prompt)),
        }
    }

    pub(super) fn flush(&mut self) -> io::Result<()> {
        match &mut self.format {
            RehearsalFormat::Json(lines) => lines.flush(),
            RehearsalFormat::Text => Ok(()),
        }
    }
}

/// Returns an action as text: a model gets its prompt, a command gets the events.
fn as_text(
    codon: &CodonId,
    firing: &Firing,
    at: Timestamp,
    prompt: Option<Result<String, TemplateError>>,
) -> SafeText {
    let mut text = SafeText::default();
    // Writing to a text cannot fail.
    let _ = text.styled(Style::new().bold(), format_args!("{codon}  #{}", firing.number));
    let _ = writeln!(
        text,
        "  {}  {}",
        local_time(at),
        counted(firing.events.len(), "event")
    );
    let lines: Vec<String> = match prompt {
        Some(Ok(prompt)) => prompt.lines().map(str::to_owned).collect(),
        Some(Err(error)) => vec![error.message],
        None => firing.events.iter().map(|event| event_line(event)).collect(),
    };
    for line in lines {
        let _ = writeln!(text, "  {line}");
    }
    text
}

fn value(event: &ObservedEvent) -> Option<Value> {
    serde_json::from_str(&event.line).ok()
}

fn event_line(event: &ObservedEvent) -> String {
    let seq = value(event).and_then(|value| value.get("seq")?.as_u64());
    sentence(TailLine {
        seq: seq.unwrap_or_default(),
        kind: &event.kind,
        bytes: event.line.as_bytes(),
        removed: 0,
    })
}
