//! A codon as it is configured.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

use super::background::OnBackgroundCut;
use super::fallback::Fallback;
use super::prompt::{self, PromptSource};
use super::requires::Requires;
use super::rig::{OutputItem, RigItem};
use crate::agent::{AgentOptions, AskedResult};
use crate::hank::agent::{AgentChoice, agent_for_model};
use crate::hank::budget::CodonBudget;
#[cfg(feature = "hanks")]
use crate::hank::prompt::PromptValues;
use crate::id::CodonId;

/// One codon as it is configured.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct CodonConfig {
    /// Unique in the whole hank, without an iteration suffix.
    pub id: CodonId,
    /// Name for people, not empty.
    pub name: String,
    /// Shown to people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Which agent runs the codon; by default the model decides.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentChoice>,
    /// The model. Only scripted agents and commands may do without.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Whether the agent starts a new conversation.
    pub continuation_mode: ContinuationMode,
    /// Prompt of the agent (`promptFile` or `promptText`).
    #[serde(flatten, serialize_with = "prompt::prompt")]
    #[cfg_attr(feature = "schema", schemars(schema_with = "crate::hank::schema::prompt"))]
    pub prompt: PromptSource,
    /// Added to the agent's system prompt (`appendSystemPromptFile` or `appendSystemPromptText`).
    #[serde(flatten, serialize_with = "prompt::append_system_prompt")]
    #[cfg_attr(
        feature = "schema",
        schemars(schema_with = "crate::hank::schema::append_system_prompt")
    )]
    pub append_system_prompt: Option<PromptSource>,
    /// Prepares the workspace, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rig_setup: Vec<RigItem>,
    /// Globs of the files that belong to checkpoints; they accumulate along the plan.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub checkpointed_files: Vec<String>,
    /// Environment for the agent and for the rig commands; wins over everything else.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// Files to copy to the output directory after success.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub output_files: Vec<OutputItem>,
    /// Observers of this codon.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sentinels: Vec<SentinelEntry>,
    /// Globs of the files that are moved away after success.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub archive_on_success: Vec<String>,
    /// Action after a failure; `abort` when absent.
    #[cfg_attr(feature = "schema", schemars(extend("default" = "abort")))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_failure: Option<OnFailure>,
    /// How to retry; only with `onFailure: "retry"`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_config: Option<RetryConfig>,
    /// Agents and models that take the codon over at a usage limit, an outage or an unknown model, in their order; `"wait"` waits for the limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(schema_with = "crate::hank::schema::fallback"))]
    pub fallback: Option<Vec<Fallback>>,
    /// Resumes the agent with this text after each success.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exhaust_with_prompt: Option<String>,
    /// How often `exhaustWithPrompt` may resume, at least 1; 100 when absent.
    #[cfg_attr(feature = "schema", schemars(extend("default" = 100)))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_extensions: Option<u64>,
    /// A command that has to pass before the codon is complete.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub check: Option<Check>,
    /// Effects that it must have to be a success: `"changes"`, patterns of files that must have changed, or `"nothing"`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(schema_with = "crate::hank::schema::requires"))]
    pub requires: Option<Requires>,
    /// Form of the answer that the codon must end with; later prompts and commands use it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<AskedResult>,
    /// Whether the agent may compact its context; false when absent.
    #[cfg_attr(feature = "schema", schemars(extend("default" = false)))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auto_compact: Option<bool>,
    /// Seconds the agent may be silent, 1 to 1800; 1800 by default.
    ///
    /// A warning comes before the limit. An agent that has reported success has succeeded even if it falls
    /// silent after that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shim_idle_timeout: Option<u64>,
    /// Seconds after which work is ended that the agent left running after its answer, 1 to 86400; 10 by
    /// default.
    ///
    /// They are counted from the last output. They end only an agent that has answered and does nothing more itself; its answer decides whether the
    /// codon succeeds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub settle_seconds: Option<u64>,
    /// Seconds that an agent is waited for that waits for background work, or whose background work is busy, 1 to 86400; 1800 by default.
    ///
    /// They are counted from its answer. What still runs then is ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_background_seconds: Option<u64>,
    /// Action when background work is cut off that the agent was waiting for; `fail` by default.
    #[cfg_attr(feature = "schema", schemars(extend("default" = "fail")))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_background_cut: Option<OnBackgroundCut>,
    /// How its agent works.
    #[serde(flatten)]
    pub agent_options: AgentOptions,
    /// Limits of the codon.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget: Option<CodonBudget>,
    /// The user has to approve before the codon starts: `true`, or the question that is shown to the user.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(schema_with = "crate::hank::schema::approval"))]
    pub approval: Option<ApprovalQuestion>,
}

/// Question to the user who must approve a codon.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ApprovalQuestion {
    /// In the words of the hank, if it has any.
    pub question: Option<String>,
}

impl ApprovalQuestion {
    /// Returns the question for people as the hank has it, about this codon.
    #[must_use]
    pub fn words(&self, codon: &CodonId) -> String {
        match &self.question {
            Some(question) => question.clone(),
            None => format!("may {codon} begin?"),
        }
    }

    /// Returns the question as it is put: its text is filled in like a prompt (HANK-92).
    #[cfg(feature = "hanks")]
    #[must_use]
    pub fn fill(&self, codon: &CodonId, values: &PromptValues) -> String {
        values.render(&self.words(codon))
    }
}

impl Serialize for ApprovalQuestion {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.question {
            Some(question) => serializer.serialize_str(question),
            None => serializer.serialize_bool(true),
        }
    }
}

impl CodonConfig {
    /// Returns the name of the agent that runs this codon: the one chosen by `agent`, else by the model name.
    ///
    /// A script runs on `scripted`; a command of the author's own is called `command`.
    #[must_use]
    pub fn agent_name(&self) -> &str {
        match (&self.agent, &self.model) {
            (Some(choice), _) => choice.name(),
            (None, Some(model)) => agent_for_model(model),
            (None, None) => "scripted",
        }
    }

    /// Replaces the agent and the model by those that were chosen for every codon. A codon whose agent has the chosen name keeps its own choice, such as
    /// its script (HANK-57, CLI-38).
    pub fn override_with(&mut self, agent: Option<&AgentChoice>, model: Option<&String>) {
        if let Some(model) = model {
            self.model = Some(model.clone());
        }
        match agent {
            // Compared with the model in place: without `agent` the model names the agent.
            Some(AgentChoice::Named(name)) if self.agent_name() == name => {}
            Some(agent) => self.agent = Some(agent.clone()),
            None => {}
        }
    }

    /// Returns the sentinels with the JSON paths of their `sentinelConfig`; `at` is the path of the codon.
    pub fn located_sentinels(&self, at: &str) -> impl Iterator<Item = (String, &SentinelEntry)> {
        let entries = self.sentinels.iter().enumerate();
        entries.map(move |(index, entry)| (format!("{at}.sentinels[{index}].sentinelConfig"), entry))
    }

    /// Returns the action after a failure, with the default filled in.
    #[must_use]
    pub fn failure_policy(&self) -> OnFailure {
        self.on_failure.unwrap_or(OnFailure::Abort)
    }
}

/// Whether a codon starts a new conversation, resumes one or continues a copy of one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum ContinuationMode {
    /// A new conversation.
    Fresh,
    /// The conversation of the codon before it.
    ContinuePrevious,
    /// A copy of the conversation of this earlier codon, which stays as it is.
    Fork(CodonId),
}

/// Action after the failure of a codon.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum OnFailure {
    /// The run stops.
    Abort,
    /// The codon is tried again, see `retryConfig`.
    Retry,
    /// The failure is recorded and the next codon starts.
    Ignore,
}

/// A command that has to pass before a codon is complete.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[non_exhaustive]
pub struct Check {
    /// Text for the shell, not empty; it passes with the exit code 0.
    pub run: String,
    /// How often the agent continues, in its session and with what the command printed, when it does not pass; 0 to 100.
    #[cfg_attr(feature = "schema", schemars(extend("default" = 3)))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retries: Option<u64>,
}

/// Retries of a failed codon; absent fields mean 3 retries, 1,000 ms and 60,000 ms.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[non_exhaustive]
pub struct RetryConfig {
    /// How often the codon is tried again after its first failure, 1 to 10.
    #[cfg_attr(feature = "schema", schemars(extend("default" = 3)))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_attempts: Option<u64>,
    /// Milliseconds before the first retry, 0 to 60,000; doubles each time.
    #[cfg_attr(feature = "schema", schemars(extend("default" = 1000)))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay_ms: Option<u64>,
    /// Upper limit of the delay in milliseconds, 0 to 600,000.
    #[cfg_attr(feature = "schema", schemars(extend("default" = 60000)))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_delay_ms: Option<u64>,
}

impl RetryConfig {
    /// How often a codon is tried again after its first failure, with the default filled in.
    #[must_use]
    pub fn retries(&self) -> u32 {
        self.max_attempts
            .map_or(3, |attempts| u32::try_from(attempts).unwrap_or(u32::MAX))
    }

    /// The delay before the first retry, with the default filled in.
    #[must_use]
    pub fn delay(&self) -> Duration {
        Duration::from_millis(self.delay_ms.unwrap_or(1_000))
    }

    /// The longest delay, with the default filled in.
    #[must_use]
    pub fn max_delay(&self) -> Duration {
        Duration::from_millis(self.max_delay_ms.unwrap_or(60_000))
    }
}

/// A sentinel of a codon.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SentinelEntry {
    /// Source of its configuration.
    pub sentinel_config: SentinelSource,
    /// Settings in the codon: `SentinelSettings`, with checked keys and values.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub settings: Option<Map<String, Value>>,
}

impl SentinelEntry {
    /// Whether the codon fails if this sentinel does not load.
    #[must_use]
    pub fn is_needed(&self) -> bool {
        let settings = self.settings.as_ref();
        settings.is_some_and(|settings| settings.get("failCodonIfNotLoaded") == Some(&Value::Bool(true)))
    }
}

/// Source of a sentinel's configuration.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum SentinelSource {
    /// In a file, relative to the folder of hank.json.
    File(String),
    /// In hank.json itself; keys and id are checked, the parts are not.
    Inline(Map<String, Value>),
}
