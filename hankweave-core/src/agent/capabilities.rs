//! Abilities of an agent, as its driver states them.

use serde::Serialize;

use super::options::OptionSupport;
use super::result::AskedResult;

/// Abilities of an agent. A run refuses a hank that needs more, and `validate` reports it earlier (AGENT-22).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Capabilities {
    /// It continues with a session of an earlier process.
    pub resume: bool,
    /// It continues with a copy of an earlier session, which stays as it is.
    pub fork: bool,
    /// Form in which it reports its cost.
    pub cost: CostReporting,
    /// It reports its usage with each message, so a limit can end it while it works.
    pub per_message_usage: bool,
    /// It reports its usage also when it was interrupted.
    pub interrupt: bool,
    /// It takes text for its system prompt.
    pub system_prompt: bool,
    /// It works with the model that a codon names.
    pub model_choice: bool,
    /// It asks before it acts, and needs an answer.
    pub permissions: bool,
    /// It reports whether it has succeeded. For any other agent, success needs other evidence (AGENT-24).
    pub success: bool,
    /// How it is asked for an answer in the form of the codon's `result`.
    pub result: ResultSupport,
    /// Options of a hank that it supports.
    pub options: OptionSupport,
}

impl Capabilities {
    /// Abilities of an unknown agent.
    pub const NONE: Self = Self {
        resume: false,
        fork: false,
        cost: CostReporting::Unknown,
        per_message_usage: false,
        interrupt: false,
        system_prompt: false,
        model_choice: false,
        permissions: false,
        // Otherwise every hank would need other evidence of success.
        success: true,
        result: ResultSupport::None,
        options: OptionSupport::NONE,
    };
}

/// How an agent is asked for an answer in the form of the codon's `result` (AGENT-70).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum ResultSupport {
    /// Not at all: it returns no answer.
    None,
    /// In its prompt.
    Prompt,
    /// With a schema if that requires all its keys and allows no others, else in its prompt.
    StrictSchema,
    /// With a schema.
    Schema,
}

impl ResultSupport {
    /// Whether the agent takes the schema of this result itself.
    #[must_use]
    pub fn takes(self, asked: &AskedResult) -> bool {
        match self {
            Self::None | Self::Prompt => false,
            Self::StrictSchema => asked.is_strict(),
            Self::Schema => true,
        }
    }
}

/// Form in which an agent reports its cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum CostReporting {
    /// In money, for what it does itself.
    Exact,
    /// In money, as the sum of its session, earlier processes included.
    Cumulative,
    /// In tokens; the money follows from prices.
    TokensOnly,
    /// Not at all.
    Unknown,
}
