//! Sentinels: watchers of one codon, as pure decisions over the events that they see and points in time that are given to them.
//!
//! A [`SentinelConfig`] says what a sentinel watches for and what it then does. Its [`SentinelEngine`] takes events and the time, and returns when
//! the sentinel is to act, and on which events. [`model`] has the requests to a model. [`Tracked`] keeps the sentinel's life and its figures, and
//! [`Failures`] decides when it is taken out of service.

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
