//! Prints what a sentinel is asked.

use std::fmt::Write as _;
use std::io;

use anstyle::Style;
use hankweave_core::hank::{PromptContext, PromptError, render_prompt};
use hankweave_core::id::{CodonId, RunId};
use hankweave_core::sentinel::{Firing, Seen};
use hankweave_core::time::Timestamp;
use hankweave_runtime::journal::TailLine;
use serde_json::{Value, json};

use super::Sentinel;
use crate::args::Global;
use crate::journal::sentence;
use crate::report::counted;
use crate::screen::{JsonLines, Text, print};

pub(super) struct Asked<'a> {
    sentinel: &'a Sentinel,
    out: Out,
}

enum Out {
    Json(JsonLines),
    Text,
}

impl<'a> Asked<'a> {
    pub(super) fn new(global: &Global, sentinel: &'a Sentinel) -> Self {
        let out = match global.json() {
            true => Out::Json(JsonLines::default()),
            false => Out::Text,
        };
        Self { sentinel, out }
    }

    /// One time that the sentinel acts.
    pub(super) fn tell(
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
        match &mut self.out {
            Out::Json(lines) => {
                let mut line = json!({"at": at, "sentinelId": self.sentinel.config.id, "runId": run, "codonId": codon,
                    "trigger": firing.number, "events": Value::Array(values())});
                match prompt {
                    Some(Ok(prompt)) => line["prompt"] = json!(prompt),
                    Some(Err(error)) => line["error"] = json!(error.message),
                    None => {}
                }
                lines.print(&line)
            }
            Out::Text => print(as_text(codon, firing, at, prompt)),
        }
    }

    pub(super) fn flush(&mut self) -> io::Result<()> {
        match &mut self.out {
            Out::Json(lines) => lines.flush(),
            Out::Text => Ok(()),
        }
    }
}

/// A model is asked its prompt, a command gets the events.
fn as_text(
    codon: &CodonId,
    firing: &Firing,
    at: Timestamp,
    prompt: Option<Result<String, PromptError>>,
) -> Text {
    let mut text = Text::default();
    // Writing to a text cannot fail.
    let _ = text.styled(Style::new().bold(), format_args!("{codon}  #{}", firing.number));
    let _ = writeln!(text, "  {at}  {}", counted(firing.events.len(), "event"));
    let lines: Vec<String> = match prompt {
        Some(Ok(prompt)) => prompt.lines().map(str::to_owned).collect(),
        Some(Err(error)) => vec![error.message],
        None => firing.events.iter().map(|event| told(event)).collect(),
    };
    for line in lines {
        let _ = writeln!(text, "  {line}");
    }
    text
}

fn value(event: &Seen) -> Option<Value> {
    serde_json::from_str(&event.line).ok()
}

fn told(event: &Seen) -> String {
    let seq = value(event).and_then(|value| value.get("seq")?.as_u64());
    sentence(TailLine {
        seq: seq.unwrap_or_default(),
        kind: &event.kind,
        bytes: event.line.as_bytes(),
        removed: 0,
    })
}
