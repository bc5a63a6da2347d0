//! Sentinels: watchers of one codon, as pure decisions over the events that they see and points in time that are given to them.
//!
//! A [`SentinelConfig`] says what a sentinel watches for and what it then does. Its [`Engine`] takes events and the time and says when the sentinel is to
//! act, and on which events; [`model`] has what a model is asked; [`Tracked`] keeps its life and its figures, and [`Failures`] tells when it is taken out of service.

mod answer;
mod condition;
mod config;
mod engine;
mod life;
pub mod model;
mod trigger;

pub use answer::{Answer, AnswerError, Ask};
pub use config::{
    AnswerFormat, ConditionConfig, Conversational, EndpointConfig, ErrorHandling, Execution, InterestFilter,
    LlmParams, OnError, Operator, Output, OutputFormat, OutputPaths, PatternStep, Reports, SentinelConfig,
    SentinelSettings, SequenceOptions, StructuredKind, StructuredOutput, Texts, Trigger, TrimmingStrategy,
};
pub use engine::{Engine, Firing, MOST_BYTES, MOST_EVENTS, MOST_FIRINGS};
pub use life::{Failures, Tally, Tracked, machine};
pub use trigger::{SEQUENCE_MEMORY, Seen};
