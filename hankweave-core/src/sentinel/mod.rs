//! Sentinels: watchers of one codon, as pure decisions over the events that they see and points in time that are given to them.
//!
//! A [`SentinelConfig`] says which events a sentinel watches for and what it does then: ask a model or run a command. Its [`SentinelEngine`] takes events
//! and the time, and returns when the sentinel has to act, and on which events. [`model`] has the requests to a model. [`Tracked`] has the sentinel's
//! state and figures, and [`Failures`] decides when a failing sentinel is taken out of service. The runtime feeds them and does the requests.

mod answer;
#[cfg(feature = "hanks")]
mod condition;
mod config;
#[cfg(feature = "hanks")]
mod engine;
#[cfg(feature = "hanks")]
mod file_interest;
mod life;
pub mod model;
#[cfg(feature = "hanks")]
mod trigger;

pub use answer::{AnswerError, Ask, SentinelAnswer};
pub use config::{
    AnswerFormat, CODON_COMPLETED, ConditionConfig, ConversationConfig, EndpointConfig, ErrorHandling,
    InterestFilter, LlmParams, OnError, Operator, OutputConfig, OutputFormat, OutputPaths, PatternStep,
    ReportToWebsocket, SentinelConfig, SentinelExecution, SentinelSettings, SequenceOptions, StructuredKind,
    StructuredOutput, Texts, Trigger, TrimmingStrategy,
};
#[cfg(feature = "hanks")]
pub use engine::{Firing, MOST_BYTES, MOST_EVENTS, MOST_FIRINGS, SentinelEngine};
#[cfg(feature = "hanks")]
pub use file_interest::FileInterest;
pub use life::{Failures, SentinelCounts, Tracked, machine};
#[cfg(feature = "hanks")]
pub use trigger::{ObservedEvent, SEQUENCE_MEMORY};
