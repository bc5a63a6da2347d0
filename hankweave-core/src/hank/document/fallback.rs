//! Agents and models that take a codon over when its own agent is at its usage limit, out of reach or without the model (HANK-80).

use std::collections::BTreeMap;

use serde::{Serialize, Serializer};

use super::codon::CodonConfig;
use crate::hank::agent::{AgentChoice, agent_for_model};

/// The entry of the list that stands for waiting.
pub(in crate::hank) const WAIT: &str = "wait";

/// Agents that run only the models of one provider. A fallback may name a model alone: if the codon's agent is in this list, and another agent in it runs
/// the model, the codon changes to that agent.
const OF_ONE_PROVIDER: [&str; 3] = ["claude", "codex", "gemini"];

/// Entry of the list `fallback`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fallback {
    /// The run waits for the end of the usage limit.
    Wait,
    /// Another model, agent or account.
    Agent(FallbackAgent),
}

/// Another model, agent or account for a codon.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct FallbackAgent {
    /// The agent; by default that of the codon, or the one that the model belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentChoice>,
    /// The model; by default that of the codon or, if `agent` is set, none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Environment in addition to that of the codon. A value such as `$WORK_KEY` is that of this variable.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
}

impl Serialize for Fallback {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Wait => serializer.serialize_str(WAIT),
            Self::Agent(FallbackAgent {
                agent: None,
                model: Some(model),
                env,
            }) if env.is_empty() => serializer.serialize_str(model),
            Self::Agent(agent) => agent.serialize(serializer),
        }
    }
}

impl FallbackAgent {
    /// Returns the name of the environment variable, if a value of `env` refers to one, as in `$WORK_KEY`.
    #[must_use]
    pub fn variable(value: &str) -> Option<&str> {
        let name = value.strip_prefix('$')?;
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        (!name.is_empty() && name.chars().all(is_name)).then_some(name)
    }

    /// Returns the entry for people, without values of its environment.
    #[must_use]
    pub fn words(&self) -> String {
        let named = match (&self.agent, &self.model) {
            (Some(agent), model) => {
                let detail = agent.detail();
                Some(agent_words(agent.name(), detail.as_deref(), model.as_deref()))
            }
            (None, model) => model.clone(),
        };
        let variables: Vec<&str> = self.env.keys().map(String::as_str).collect();
        match (named, variables.as_slice()) {
            (Some(named), []) => named,
            (Some(named), variables) => format!("{named} with another {}", variables.join(", ")),
            (None, variables) => format!("another {}", variables.join(", ")),
        }
    }

    /// Returns the codon as it runs with this entry.
    #[must_use]
    pub fn applied_to(&self, codon: &CodonConfig) -> CodonConfig {
        let mut codon = codon.clone();
        match (&self.agent, &self.model) {
            (Some(agent), model) => {
                codon.agent = Some(agent.clone());
                codon.model.clone_from(model);
            }
            (None, Some(model)) => {
                let (own, of_model) = (codon.agent_name(), agent_for_model(model));
                let are_exclusive = OF_ONE_PROVIDER.contains(&own) && OF_ONE_PROVIDER.contains(&of_model);
                // The codon's own agent cannot run the model, so the model decides again.
                if codon.agent.is_some() && are_exclusive && own != of_model {
                    codon.agent = None;
                }
                codon.model = Some(model.clone());
            }
            (None, None) => {}
        }
        codon.env.extend(self.env.clone());
        codon
    }
}

impl CodonConfig {
    /// Returns whether both run with equal agents, models and environments.
    #[must_use]
    pub fn has_agent_of(&self, other: &Self) -> bool {
        let is_same_agent = match (&self.agent, &other.agent) {
            (Some(own), Some(other)) => own == other,
            _ => self.agent_name() == other.agent_name(),
        };
        is_same_agent && self.model == other.model && self.env == other.env
    }

    /// Returns agent and model for people: `codex with gpt-5.6`, `command (sh agent.sh)`.
    #[must_use]
    pub fn agent_words(&self) -> String {
        let detail = self.agent.as_ref().and_then(AgentChoice::detail);
        agent_words(self.agent_name(), detail.as_deref(), self.model.as_deref())
    }
}

/// Returns agent, script or program, and model for people: `codex with gpt-5.6`, `scripted (plan.json) with sonnet`.
#[must_use]
pub fn agent_words(agent: &str, detail: Option<&str>, model: Option<&str>) -> String {
    let agent = match detail {
        Some(detail) => format!("{agent} ({detail})"),
        None => agent.to_owned(),
    };
    match model {
        Some(model) => format!("{agent} with {model}"),
        None => agent,
    }
}

/// Returns a list for people: `codex with gpt-5.6, then a wait for the usage limit, then claude-sonnet-5`; `None` for an empty one.
#[must_use]
pub fn fallback_list(list: &[Fallback]) -> Option<String> {
    let words = list.iter().map(|entry| match entry {
        Fallback::Wait => "a wait for the usage limit".to_owned(),
        Fallback::Agent(agent) => agent.words(),
    });
    let words: Vec<String> = words.collect();
    (!words.is_empty()).then(|| words.join(", then "))
}
