//! hank.json: from text to a typed document, with every problem of the text at its place.
//!
//! [`parse()`] is the way in. It reads JSON with comments and trailing commas, reports all problems at once,
//! each with line, column, JSON path and a hint where there is a next step, and returns a [`Hank`] only when
//! nothing is wrong. Every key is described in `docs/hank.md`.
//!
//! Nothing here opens a file: [`references()`] lists what a hank names, and the runtime looks at the files.

mod agent;
mod budget;
mod check;
mod document;
pub mod exclude;
mod keys;
mod lines;
mod parse;
pub mod paths;
mod patterns;
mod prices;
mod problem;
pub mod prompt;
mod read;
mod reader;
mod redirects;
mod references;
pub mod reserved;
mod runnable;
#[cfg(feature = "schema")]
mod schema;
mod setting;
mod template;

pub use agent::{AcpAgent, AgentChoice, AgentCommand, agent_for_model};
pub use budget::{Allocation, CodonBudget, ContainerBudget, OnExceeded};
pub use check::repeated_sentinels;
pub use document::{
    ApprovalQuestion, Check, CodonConfig, ContinuationMode, CopyStep, Hank, HankItem, HankMeta, LoopConfig,
    OnFailure, OutputItem, Overrides, PromptSource, Requirements, RetryConfig, RigAction, RigCommand,
    RigItem, SentinelEntry, SentinelSource, TerminateOn, WorkingDirectory,
};
pub use parse::{CheckedSentinel, MAX_HANK_BYTES, Parsed, check_sentinel, parse, parse_bytes};
pub use patterns::{PatternError, Patterns};
pub use prices::{PriceFile, PriceSource};
pub use problem::{Position, Problem, Problems, Severity, SourceMap};
pub use redirects::redirecting_variables;
pub use references::{Reference, ReferenceKind, copy_targets, references};
pub use runnable::{STREAMS, beyond_agents, nearest_models, price_example, uncounted_money, unknown_names};
#[cfg(feature = "schema")]
pub(crate) use setting::WITHOUT_EFFECT;
pub use setting::{
    CHECKPOINTED_FILE_LIMIT_MB, LONGEST_SILENCE_SECONDS, MAX_WAIT_SECONDS, RuntimeFile, SETTLE_SECONDS,
    Setting, SettingValue,
};
pub use template::{PromptContext, TemplateError, check_prompt, render_prompt};
