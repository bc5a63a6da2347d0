//! Everything in hankweave that decides, as pure functions over plain data.
//!
//! Nothing here reads a file, starts a process, asks for the time or draws a random number: a function gets such values as arguments. So other
//! programs can link this crate to understand what hankweave wrote, and get equal answers.
//!
//! # What a project did
//!
//! [`document::parse`] reads a `state.json`, or reports every error in it with its path. [`thread::build`] makes one history out of its runs:
//!
//! ```
//! use hankweave_core::{codon::CodonExecution, document::parse, thread::build};
//!
//! # let bytes = include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/state/full-state.json"));
//! let state = parse(bytes).map_err(|problems| problems[0].to_string())?;
//! let thread = build(&state, None, None);
//! assert_eq!(thread.codons[0].codon.codon_id().as_str(), "review#1");
//!
//! let records = state.runs.iter().flat_map(|run| &run.codons);
//! let failed = records.filter_map(|codon| match codon.as_ref() {
//!     CodonExecution::Failed(failed) => Some((failed.codon_id.as_str(), failed.failed_during.as_str())),
//!     _ => None,
//! });
//! assert_eq!(failed.collect::<Vec<_>>(), [("review#0", "running")]);
//! # Ok::<(), String>(())
//! ```
//!
//! A document that cannot be used is no dead end: every problem has a kind, a place and a sentence.
//!
//! ```
//! use hankweave_core::document::parse;
//!
//! let text = r#"{"runs": {}, "currentRunId": "gone", "executionPlan": []}"#;
//! let problems = parse(text.as_bytes()).unwrap_err();
//! assert_eq!(problems[0].to_string(), "corrupted_data at runs: must be a list, not an object");
//! assert_eq!(problems[1].path, "currentRunId");
//! ```
//!
//! # What happened, step by step
//!
//! The document is the sum of its [events](event::StateEvent). [`state::LiveState`] takes one after the other; an event that does not fit is refused
//! with a reason, and then nothing has changed:
//!
//! ```
//! use hankweave_core::document::render;
//! use hankweave_core::event::StateEvent;
//! use hankweave_core::state::LiveState;
//! use hankweave_core::time::Timestamp;
//! use serde_json::json;
//!
//! let noon = Timestamp::parse("2025-01-04T12:00:00Z").unwrap();
//! let begin = StateEvent::from_json(json!({"type": "RunStarted", "data": {
//!     "runId": "r1", "runFolder": "/p/.hankweave/runs/r1", "gitBranch": "run-r1",
//!     "startingConditions": {"type": "fresh"}, "serverPid": 7}})).unwrap();
//! let mut live = LiveState::default();
//! live.apply_event(&begin, noon).unwrap();
//! let refused = live.apply_event(&begin, noon).unwrap_err();
//! assert_eq!(refused.to_string(), "run `r1` exists already");
//! assert!(render(live.document()).contains("\"currentRunId\": \"r1\""));
//! ```
//!
//! # What may come next
//!
//! Codons and runs are state machines, each declared once with [`machine`](macro@machine): in Rust an illegal step does not compile, and input from
//! outside is checked against that declaration. See the [`machine`](mod@machine) module for machines of your own, [`plan`] for what a hank does
//! next, [`hank`] for reading hank.json, and [`cost`] for prices.
//!
//! Comments cite the rules of [docs/rules](https://github.com/hankweave/hankweave/tree/main/docs/rules) by ids such as `STATE-12`.

extern crate self as hankweave_core;

pub use hankweave_machine as machine;

pub mod agent;
pub mod attempt;
pub mod budget;
pub mod codon;
pub mod cost;
pub mod discovery;
pub mod document;
pub mod event;
pub mod hank;
pub mod id;
pub mod plan;
pub mod run;
#[cfg(any(test, feature = "testing"))]
mod samples;
#[cfg(feature = "schema")]
pub mod schema;
pub mod sentinel;
pub mod shape;
pub mod state;
#[cfg(feature = "testing")]
pub mod testing;
pub mod text;
pub mod thread;
pub mod time;
pub mod view;
pub mod wire;

pub use hankweave_core_macros::machine;
