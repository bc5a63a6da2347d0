//! The typed hank: what a hank.json says, after every value has been read and checked.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

use super::agent::{AgentChoice, agent_for_model};
use super::budget::{CodonBudget, ContainerBudget};
use super::problem::Places;
use crate::id::{CodonId, LoopId};

/// A whole hank.json.
///
/// Serialising it gives a hank.json again, without comments and with defaults left out.
#[derive(Debug, Clone, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Hank {
    /// A hint for editors; hankweave does not read it.
    #[serde(rename = "$schema", skip_serializing_if = "Option::is_none")]
    pub schema: Option<String>,
    /// Name and version for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
    /// Settings that win over the runtime's own file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub overrides: Option<Overrides>,
    /// What a run needs before it begins.
    #[serde(skip_serializing_if = "Requirements::is_empty")]
    pub requirements: Requirements,
    /// Put before every codon's own system prompt (`globalSystemPromptFile` or `globalSystemPromptText`).
    #[serde(flatten, serialize_with = "global_system_prompt")]
    #[cfg_attr(
        feature = "schema",
        schemars(schema_with = "super::schema::global_system_prompt")
    )]
    pub global_system_prompt: Option<PromptSource>,
    /// Codons and loops in the order they are executed, at least one (`hank`).
    #[serde(rename = "hank")]
    #[cfg_attr(feature = "schema", schemars(schema_with = "super::schema::items"))]
    pub items: Vec<HankItem>,
    /// The positions of the values in the text; empty for a hank that was not read from text.
    #[serde(skip)]
    pub places: Places,
}

impl Hank {
    /// All codons in the order they are written, those inside loops as well.
    pub fn codons(&self) -> impl Iterator<Item = &CodonConfig> {
        self.items.iter().flat_map(HankItem::codons)
    }

    /// All codons with their JSON paths, such as `hank[1].codons[0]`.
    pub fn located_codons(&self) -> impl Iterator<Item = (String, &CodonConfig)> {
        let items = self.items.iter().enumerate();
        items.flat_map(|(index, item)| item.located_codons(index))
    }

    /// All codons in the order they are written, to be changed.
    pub fn codons_mut(&mut self) -> impl Iterator<Item = &mut CodonConfig> {
        self.items.iter_mut().flat_map(|item| match item {
            HankItem::Codon(codon) => std::slice::from_mut(codon),
            HankItem::Loop(found) => found.codons.as_mut_slice(),
        })
    }

    /// The codon whose configured id is `configured`, wherever it stands.
    #[must_use]
    pub fn codon(&self, configured: &str) -> Option<&CodonConfig> {
        self.codons().find(|codon| codon.id.as_str() == configured)
    }

    /// The loop with the id `id`.
    #[must_use]
    pub fn find_loop(&self, id: &LoopId) -> Option<&LoopConfig> {
        let mut loops = self.items.iter().filter_map(HankItem::as_loop);
        loops.find(|found| found.id == *id)
    }

    /// The budget for everything in the hank.
    #[must_use]
    pub fn budget(&self) -> Option<&ContainerBudget> {
        self.overrides.as_ref()?.budget.as_ref()
    }
}

/// Name and version of a hank.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Meta {
    /// Not empty.
    pub name: String,
    /// Not empty; any scheme.
    pub version: String,
    /// Free text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Free text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub author: Option<String>,
}

/// Settings of the runtime in a hank.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Overrides {
    /// Who runs every codon.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentChoice>,
    /// The model of every codon.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Milliseconds that hashing the data may take, above 0.
    #[cfg_attr(feature = "schema", schemars(extend("default" = 5000)))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data_hash_time_limit: Option<u64>,
    /// Settings for all sentinels, checked for shape only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sentinel: Option<Map<String, Value>>,
    /// Seconds an agent may be silent, 1 to 1800, for codons without a limit of their own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shim_idle_timeout: Option<u64>,
    /// Seconds after which work is ended that an agent left running after its answer, 1 to 86400, for codons
    /// without a figure of their own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub settle_seconds: Option<u64>,
    /// What all codons together may use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget: Option<ContainerBudget>,
}

/// What a run needs before it begins; all names are trimmed and not empty.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Requirements {
    /// Environment variables that must be set and not empty, as `X` or as `HANKWEAVE_X`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<String>,
    /// Programs that must be found on PATH; bare names.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<String>,
}

impl Requirements {
    /// Whether nothing is required.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.env.is_empty() && self.tools.is_empty()
    }
}

/// One entry of the list `hank`.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "camelCase")]
pub enum HankItem {
    /// One agent run.
    Codon(CodonConfig),
    /// Codons that are repeated.
    Loop(LoopConfig),
}

impl HankItem {
    /// Its codons with their JSON paths, when it is the item number `index` of the hank.
    pub(super) fn located_codons(&self, index: usize) -> impl Iterator<Item = (String, &CodonConfig)> {
        let codons = self.codons().iter().enumerate();
        codons.map(move |(inner, codon)| match self {
            Self::Codon(_) => (format!("hank[{index}]"), codon),
            Self::Loop(_) => (format!("hank[{index}].codons[{inner}]"), codon),
        })
    }

    /// The loop, if it is one.
    #[must_use]
    pub fn as_loop(&self) -> Option<&LoopConfig> {
        match self {
            Self::Loop(found) => Some(found),
            Self::Codon(_) => None,
        }
    }

    /// The codon itself, or the codons of the loop, in order.
    #[must_use]
    pub fn codons(&self) -> &[CodonConfig] {
        match self {
            Self::Codon(codon) => std::slice::from_ref(codon),
            Self::Loop(item) => &item.codons,
        }
    }

    /// The configured id, which codons and loops share one namespace for.
    #[must_use]
    pub fn id(&self) -> &str {
        match self {
            Self::Codon(codon) => codon.id.as_str(),
            Self::Loop(item) => item.id.as_str(),
        }
    }
}

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
    /// What the agent is asked to do (`promptFile` or `promptText`).
    #[serde(flatten, serialize_with = "prompt")]
    #[cfg_attr(feature = "schema", schemars(schema_with = "super::schema::prompt"))]
    pub prompt: PromptSource,
    /// Added to the agent's system prompt (`appendSystemPromptFile` or `appendSystemPromptText`).
    #[serde(flatten, serialize_with = "append_system_prompt")]
    #[cfg_attr(
        feature = "schema",
        schemars(schema_with = "super::schema::append_system_prompt")
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
    /// What is copied to the output directory after success.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub output_files: Vec<OutputItem>,
    /// Observers of this codon.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sentinels: Vec<SentinelEntry>,
    /// Globs of the files that are moved away after success.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub archive_on_success: Vec<String>,
    /// What follows a failure; `abort` when absent.
    #[cfg_attr(feature = "schema", schemars(extend("default" = "abort")))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_failure: Option<OnFailure>,
    /// How to retry; only with `onFailure: "retry"`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_config: Option<RetryConfig>,
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
    /// Whether the agent may compact its context; false when absent.
    #[cfg_attr(feature = "schema", schemars(extend("default" = false)))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auto_compact: Option<bool>,
    /// Seconds the agent may be silent, 1 to 1800; 1800 when absent.
    ///
    /// A warning comes before the limit. An agent that has reported success has succeeded even if it falls
    /// silent after that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shim_idle_timeout: Option<u64>,
    /// Seconds after which work is ended that the agent left running after its answer, 1 to 86400; 10 when
    /// absent.
    ///
    /// They are counted from the last output. Only an agent that has answered and does nothing more itself is
    /// ended by them; its answer decides what becomes of the codon.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub settle_seconds: Option<u64>,
    /// What the codon may use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget: Option<CodonBudget>,
    /// Somebody has to approve before the codon begins: `true`, or the question that is shown to them.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(schema_with = "super::schema::approval"))]
    pub approval: Option<ApprovalQuestion>,
}

/// What somebody is asked who has to approve a codon.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApprovalQuestion {
    /// In the words of the hank, if it has any.
    pub question: Option<String>,
}

impl ApprovalQuestion {
    /// The question for people, about this codon.
    #[must_use]
    pub fn words(&self, codon: &CodonId) -> String {
        match &self.question {
            Some(question) => question.clone(),
            None => format!("may {codon} begin?"),
        }
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
    /// The name of the agent that runs this codon: the one chosen by `agent`, else by the model name.
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

    /// What follows a failure, with the default filled in.
    #[must_use]
    pub fn failure_policy(&self) -> OnFailure {
        self.on_failure.unwrap_or(OnFailure::Abort)
    }
}

/// Whether a codon starts a new conversation or resumes one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum ContinuationMode {
    /// A new conversation.
    Fresh,
    /// The conversation of the codon before it.
    ContinuePrevious,
}

/// What follows when a codon fails.
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
pub struct Check {
    /// Text for the shell, not empty; it passes with the exit code 0.
    pub run: String,
    /// How often the agent goes on, in its session and with what the command printed, when it does not pass; 0 to 100.
    #[cfg_attr(feature = "schema", schemars(extend("default" = 3)))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retries: Option<u64>,
}

/// How a failed codon is tried again; absent fields mean 3 attempts, 1,000 ms and 60,000 ms.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
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

/// Text for an agent: from files of the hank or written into hank.json.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PromptSource {
    /// Paths relative to the folder of hank.json, at least one; their texts are joined with a blank line.
    Files(Vec<String>),
    /// The text itself.
    Text(String),
}

/// Codons that are repeated.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct LoopConfig {
    /// Unique in the whole hank.
    pub id: LoopId,
    /// Name for people, not empty.
    pub name: String,
    /// Shown to people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// When the loop ends.
    pub terminate_on: TerminateOn,
    /// The codons of one iteration, at least one.
    #[cfg_attr(feature = "schema", schemars(schema_with = "super::schema::inner_codons"))]
    pub codons: Vec<CodonConfig>,
    /// What all iterations together may use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget: Option<ContainerBudget>,
    /// Globs of the files that are moved away when the loop has ended.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub archive_on_success: Vec<String>,
}

impl LoopConfig {
    /// How often it goes round at most; `None` when only the context ends it.
    #[must_use]
    pub const fn most_iterations(&self) -> Option<u32> {
        match self.terminate_on {
            TerminateOn::IterationLimit { limit } => Some(limit),
            TerminateOn::UntilCheckPasses {
                limit: Some(limit), ..
            } => Some(limit),
            TerminateOn::UntilCheckPasses { limit: None, .. } => Some(CHECKED_ITERATIONS),
            TerminateOn::ContextExceeded => None,
        }
    }
}

/// How often a loop goes round until its check passes, unless the hank says otherwise.
const CHECKED_ITERATIONS: u32 = 10;

/// When a loop ends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "type", rename_all = "camelCase")]
pub enum TerminateOn {
    /// After a fixed number of iterations.
    IterationLimit {
        /// How many iterations there are, at least 1.
        limit: u32,
    },
    /// When the context of the agent is full.
    ContextExceeded,
    /// When a command passes, which runs at the end of each iteration.
    UntilCheckPasses {
        /// Text for the shell, not empty; it passes with the exit code 0.
        run: String,
        /// How many iterations there are at most, 1 to 100; then the loop has failed.
        #[cfg_attr(feature = "schema", schemars(extend("default" = 10)))]
        #[serde(skip_serializing_if = "Option::is_none")]
        limit: Option<u32>,
    },
}

/// One step that prepares the workspace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RigItem {
    /// What is done.
    #[serde(flatten)]
    pub action: RigAction,
    /// Whether a failure is reported and then ignored.
    #[cfg_attr(feature = "schema", schemars(extend("default" = false)))]
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub allow_failure: bool,
}

/// What a rig item does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "type", rename_all = "camelCase")]
pub enum RigAction {
    /// Copies a file or folder of the hank into the workspace.
    ///
    /// An existing folder is merged: files are replaced one by one, and nothing else is deleted.
    Copy {
        /// From where to where.
        copy: CopyStep,
        /// Whether the target is removed first, with everything in it.
        #[cfg_attr(feature = "schema", schemars(extend("default" = false)))]
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        replace: bool,
    },
    /// Runs a shell command.
    Command {
        /// What and where.
        command: RigCommand,
    },
}

/// From where to where a rig copies.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct CopyStep {
    /// Relative to the folder of hank.json.
    pub from: String,
    /// Relative to the agent's workspace; its parent folder must exist.
    pub to: String,
}

/// A shell command of a rig.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RigCommand {
    /// Text for the shell, not empty.
    pub run: String,
    /// Where it runs.
    #[cfg_attr(feature = "schema", schemars(extend("default" = "project")))]
    #[serde(skip_serializing_if = "WorkingDirectory::is_default")]
    pub working_directory: WorkingDirectory,
}

/// Where a rig command runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum WorkingDirectory {
    /// The agent's workspace.
    #[default]
    Project,
    /// The target of this codon's latest copy, else the workspace.
    LastCopied,
}

impl WorkingDirectory {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// One group of files for the output directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OutputItem {
    /// Globs in the agent's workspace, at least one.
    pub copy: Vec<String>,
    /// Commands that run first.
    #[serde(skip_serializing_if = "Vec::is_empty", serialize_with = "tagged_commands")]
    #[cfg_attr(feature = "schema", schemars(with = "Vec<RigAction>"))]
    pub before_copy: Vec<RigCommand>,
}

/// A sentinel of a codon.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SentinelEntry {
    /// Where its configuration is.
    pub sentinel_config: SentinelSource,
    /// Settings for this codon, checked for shape only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub settings: Option<Map<String, Value>>,
}

/// Where the configuration of a sentinel is.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum SentinelSource {
    /// In a file, relative to the folder of hank.json.
    File(String),
    /// In hank.json itself; keys and id are checked, the parts are not.
    Inline(Map<String, Value>),
}

fn global_system_prompt<S: Serializer>(source: &Option<PromptSource>, to: S) -> Result<S::Ok, S::Error> {
    let keys = ["globalSystemPromptFile", "globalSystemPromptText"];
    prompt_entry(source.as_ref(), keys, to)
}

fn append_system_prompt<S: Serializer>(source: &Option<PromptSource>, to: S) -> Result<S::Ok, S::Error> {
    let keys = ["appendSystemPromptFile", "appendSystemPromptText"];
    prompt_entry(source.as_ref(), keys, to)
}

fn prompt<S: Serializer>(source: &PromptSource, serializer: S) -> Result<S::Ok, S::Error> {
    prompt_entry(Some(source), ["promptFile", "promptText"], serializer)
}

fn prompt_entry<S: Serializer>(
    source: Option<&PromptSource>,
    [file_key, text_key]: [&str; 2],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(None)?;
    match source {
        Some(PromptSource::Files(files)) => match files.as_slice() {
            [single] => map.serialize_entry(file_key, single)?,
            several => map.serialize_entry(file_key, several)?,
        },
        Some(PromptSource::Text(text)) => map.serialize_entry(text_key, text)?,
        None => {}
    }
    map.end()
}

fn tagged_commands<S: Serializer>(commands: &[RigCommand], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(commands.iter().map(|command| RigAction::Command {
        command: command.clone(),
    }))
}
