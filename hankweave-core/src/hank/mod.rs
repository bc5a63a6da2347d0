//! hank.json: from text to a typed document, with every problem of the text at its place.
//!
//! [`parse()`] is the entry point. It reads JSON with comments and trailing commas, reports all problems at once, each with line, column, JSON path and
//! often a hint, and returns a [`Hank`] only when nothing is wrong. `parse` makes the syntax tree, `read` turns it into the types of `document`, and
//! `check` has the rules about several values at once. Every key is described in `docs/hank.md`.
//!
//! Nothing here opens a file: [`references()`] lists the files that a hank names, and the runtime reads them.

mod agent;
mod budget;
#[cfg(feature = "hanks")]
mod check;
#[cfg(feature = "hanks")]
mod convert;
mod document;
pub mod exclude;
#[cfg(feature = "hanks")]
mod keys;
#[cfg(feature = "hanks")]
mod lines;
#[cfg(feature = "hanks")]
mod old_template;
#[cfg(feature = "hanks")]
mod parse;
#[cfg(feature = "hanks")]
pub mod paths;
#[cfg(feature = "hanks")]
mod patterns;
#[cfg(feature = "hanks")]
mod prices;
mod problem;
#[cfg(feature = "hanks")]
pub mod prompt;
#[cfg(feature = "hanks")]
mod read;
#[cfg(feature = "hanks")]
mod reader;
#[cfg(feature = "hanks")]
mod redirects;
#[cfg(feature = "hanks")]
mod references;
mod rehearsal;
pub mod reserved;
#[cfg(feature = "hanks")]
mod result_references;
mod results;
#[cfg(feature = "hanks")]
mod runnable;
#[cfg(feature = "schema")]
mod schema;
#[cfg(feature = "hanks")]
mod setting;
#[cfg(feature = "hanks")]
mod template;

/// Names of a hank's file in its folder, the usual one first.
pub const FILE_NAMES: [&str; 2] = ["hank.json", "hank.jsonc"];

pub use agent::{AcpAgent, AgentChoice, AgentCommand, agent_for_model};
pub use budget::{Allocation, CodonBudget, ContainerBudget, OnExceeded};
#[cfg(feature = "hanks")]
pub use check::repeated_sentinels;
#[cfg(feature = "hanks")]
pub use convert::{ConversionNote, ConvertedSentinel, convert_sentinel};
pub use document::{
    ApprovalQuestion, Check, CodonConfig, ContinuationMode, CopyStep, Fallback, FallbackAgent, Hank,
    HankItem, HankMeta, LoopConfig, MAX_BACKGROUND_SECONDS, OnBackgroundCut, OnFailure, OutputItem,
    Overrides, PromptSource, Requirements, Requires, RetryConfig, RigAction, RigCommand, RigItem,
    SentinelEntry, SentinelSource, TerminateOn, WorkingDirectory, agent_words, fallback_list,
};
#[cfg(feature = "hanks")]
pub use keys::did_you_mean;
#[cfg(feature = "hanks")]
pub use old_template::{ConvertedPrompt, convert_prompt};
#[cfg(feature = "hanks")]
pub use parse::{
    CheckedSentinel, MAX_HANK_BYTES, Parsed, check_result_schema, check_script, check_sentinel, parse,
    parse_bytes,
};
#[cfg(feature = "hanks")]
pub use patterns::{PatternError, Patterns};
#[cfg(feature = "hanks")]
pub use prices::{PriceFile, PriceSource};
pub use problem::{InnerPlace, Position, Problem, Problems, Severity, SourceMap};
#[cfg(feature = "hanks")]
pub use prompt::{unknown_variables, variables_in};
#[cfg(feature = "hanks")]
pub use redirects::redirecting_variables;
#[cfg(feature = "hanks")]
pub use references::{CopyTarget, Reference, ReferenceKind, copy_targets, references};
pub use rehearsal::{REHEARSAL_VARIABLE, RehearsedKind};
#[cfg(feature = "hanks")]
pub use result_references::{ReferenceMistake, reference_mistakes};
pub use results::Results;
#[cfg(feature = "hanks")]
pub use runnable::{STREAMS, beyond_agents, nearest_models, price_example, uncounted_money, unknown_names};
#[cfg(feature = "schema")]
pub(crate) use setting::WITHOUT_EFFECT;
#[cfg(feature = "hanks")]
pub use setting::{
    CHECKPOINTED_FILE_LIMIT_MB, LONGEST_SILENCE_SECONDS, MAX_WAIT_SECONDS, RuntimeFile, SETTLE_SECONDS,
    Setting, SettingValue,
};
#[cfg(feature = "hanks")]
pub use template::{PromptContext, TemplateError, check_prompt, render_prompt};
