//! Abilities of an agent, as its driver states them.

use serde::Serialize;

use super::options::OptionSupport;

/// Abilities of an agent. A run refuses a hank that needs more, and `validate` reports it earlier (AGENT-22).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Capabilities {
    /// It continues with a session of an earlier process.
    pub resume: bool,
    /// How it tells what it cost.
    pub cost: CostReporting,
    /// It tells what it has used with each message, so a limit ends it while it works.
    pub per_message_usage: bool,
    /// Interrupted, it still says what it has used.
    pub interrupt: bool,
    /// It takes text for its system prompt.
    pub system_prompt: bool,
    /// It works with the model that a codon names.
    pub model_choice: bool,
    /// It asks before it acts, and somebody has to answer.
    pub permissions: bool,
    /// It says whether it has succeeded. What another one did is a success only where something shows it (AGENT-24).
    pub success: bool,
    /// Options of a hank that it takes.
    pub options: OptionSupport,
}

impl Capabilities {
    /// Of an agent of which nothing is known.
    pub const NONE: Self = Self {
        resume: false,
        cost: CostReporting::Unknown,
        per_message_usage: false,
        interrupt: false,
        system_prompt: false,
        model_choice: false,
        permissions: false,
        success: true,
        options: OptionSupport::NONE,
    };
}

/// How an agent tells what it cost.
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
