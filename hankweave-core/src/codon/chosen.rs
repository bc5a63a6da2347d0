//! Agent that was chosen for one attempt of a codon with fallbacks (STATE-70).

use serde::{Deserialize, Serialize};

use crate::agent::FallbackCause;
use crate::hank::agent_words;
use crate::shape::Shape;
use crate::time::Timestamp;

/// Agent and model of one attempt, recorded for codons that have fallbacks; other codons run as configured in hank.json.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Shape)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ChosenAgent {
    /// Position in the list: 0 is what the codon itself names, 1 the first fallback.
    pub entry: u32,
    /// Name of the agent.
    pub agent: String,
    /// Script that the scripted agent plays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub script: Option<String>,
    /// Requested model, where one is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Sign-in method of the agent, where one was configured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auth: Option<String>,
    /// Agent that it replaces; absent for the codon's own agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instead: Option<InsteadOf>,
}

/// Agent that a fallback replaces.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Shape)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct InsteadOf {
    /// Name of the agent.
    pub agent: String,
    /// Script that the scripted agent plays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub script: Option<String>,
    /// Its model, where one is named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Why it cannot work.
    pub cause: FallbackCause,
    /// When its usage limit ends, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
}

impl ChosenAgent {
    /// Returns agent and model for people: `codex with gpt-5.6`. The number of the fallback is added if agent and model equal those of the replaced
    /// agent; then only the program, or a variable, is another one.
    #[must_use]
    pub fn words(&self) -> String {
        let words = agent_words(&self.agent, self.script.as_deref(), self.model.as_deref());
        let is_same = |instead: &InsteadOf| {
            (&instead.agent, &instead.script, &instead.model) == (&self.agent, &self.script, &self.model)
        };
        match self.instead.as_ref().is_some_and(is_same) {
            true => format!("{words} (fallback {})", self.entry),
            false => words,
        }
    }
}

impl InsteadOf {
    /// Returns the replaced agent and the cause for people, with the time in UTC: `instead of claude with opus, whose usage limit ends at …`.
    #[must_use]
    pub fn words(&self) -> String {
        let agent = agent_words(&self.agent, self.script.as_deref(), self.model.as_deref());
        match (self.cause, self.until) {
            (FallbackCause::UsageLimit, Some(until)) => {
                format!("instead of {agent}, whose usage limit ends at {until}")
            }
            (FallbackCause::UsageLimit, None) => format!("instead of {agent}, whose usage limit is used up"),
            (FallbackCause::Outage, _) => format!("instead of {agent}, which has an outage"),
            (FallbackCause::UnknownModel, _) => format!("instead of {agent}, whose model is unknown"),
        }
    }
}
