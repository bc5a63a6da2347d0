//! `hankweave state apply`: applies events to a state document in memory, and prints the outcome of each event and the resulting document.

use std::fmt::Write;
use std::process::ExitCode;

use hankweave_core::document::{HankweaveState, parse, render};
use hankweave_core::event::{InvalidEvent, Recorded, StateEvent};
use hankweave_core::shape::plain_with_place;
use hankweave_core::state::LiveState;
use hankweave_core::time::Timestamp;
use hankweave_runtime::world::clock::{Clock, SystemClock};
use serde::Serialize;
use serde_json::Value;

use super::look;
use crate::args::{Global, StateApplyArgs};
use crate::terminal::exit::{CliError, CliErrorKind};
use crate::terminal::output;

pub(super) fn apply(global: &Global, args: &StateApplyArgs) -> Result<ExitCode, CliError> {
    let mut live = LiveState::new(match &args.state {
        None => HankweaveState::default(),
        Some(file) => parse(&look::bytes_of(file)?).map_err(|problems| {
            let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
            let message = format!("`{}` is no state document: {}", file.display(), lines.join("; "));
            CliError::new(CliErrorKind::Input, message)
        })?,
    });
    let events = read_events(&look::bytes_of(&args.events)?).map_err(|error| {
        let why = plain_with_place(&error);
        let message = format!("`{}` is no list of events, {why}", args.events.display());
        CliError::new(CliErrorKind::Input, message)
    })?;
    let now = args.now.unwrap_or_else(|| SystemClock.now());
    let outcomes: Vec<ApplyOutcome> = events
        .into_iter()
        .enumerate()
        .map(|(index, event)| apply_event(&mut live, index, event, args.now.is_none(), now))
        .collect();
    if global.json() {
        return output::print_json(&ApplyReport {
            state: live.document(),
            outcomes,
        });
    }
    let mut text = String::new();
    for outcome in &outcomes {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{outcome}");
    }
    text.push_str(&render(live.document()));
    output::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// Reads a JSON list, or one JSON value after the other.
fn read_events(bytes: &[u8]) -> Result<Vec<Value>, serde_json::Error> {
    if bytes.trim_ascii_start().starts_with(b"[") {
        return serde_json::from_slice(bytes);
    }
    serde_json::Deserializer::from_slice(bytes).into_iter().collect()
}

/// Output of `--format json` (CLI-10).
#[derive(Serialize)]
struct ApplyReport<'a> {
    state: &'a HankweaveState,
    outcomes: Vec<ApplyOutcome>,
}

#[derive(Serialize)]
struct ApplyOutcome {
    index: usize,
    /// `applied` or `rejected`.
    outcome: &'static str,
    kind: Option<&'static str>,
    /// Fields of the event that caused the rejection.
    fields: Vec<String>,
    message: Option<String>,
}

/// Applies an event, recorded at `now`. With `keep_time`, an event that names the time of its recording keeps that time.
fn apply_event(
    live: &mut LiveState,
    index: usize,
    event: Value,
    keep_time: bool,
    now: Timestamp,
) -> ApplyOutcome {
    let recorded_at = event
        .get("at")
        .or_else(|| event.get("timestamp"))
        .and_then(Value::as_str);
    let at = recorded_at
        .filter(|_| keep_time)
        .and_then(|time| Timestamp::parse(time).ok());
    let event = match StateEvent::from_json(event) {
        Ok(event) => event,
        Err(InvalidEvent {
            kind,
            fields,
            message,
        }) => {
            return ApplyOutcome::rejected(index, kind.as_str(), fields, message);
        }
    };
    let recorded = Recorded {
        seq: index as u64 + 1,
        at: at.unwrap_or(now),
        event,
    };
    match live.apply(&recorded) {
        Ok(_) => ApplyOutcome {
            index,
            outcome: "applied",
            kind: None,
            fields: Vec::new(),
            message: None,
        },
        Err(rejected) => {
            let fields = rejected.fields().into_iter().map(str::to_owned).collect();
            ApplyOutcome::rejected(index, rejected.kind(), fields, rejected.to_string())
        }
    }
}

impl ApplyOutcome {
    fn rejected(index: usize, kind: &'static str, fields: Vec<String>, message: String) -> Self {
        Self {
            index,
            outcome: "rejected",
            kind: Some(kind),
            fields,
            message: Some(message),
        }
    }
}

impl std::fmt::Display for ApplyOutcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "event {}: {}", self.index, self.outcome)?;
        if let (Some(kind), Some(message)) = (self.kind, &self.message) {
            write!(f, " ({kind}): {message}")?;
        }
        Ok(())
    }
}
