//! What a sentinel says about itself. The reader of hanks has checked it (HANK-51); here it gets its types.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::Ask;
use super::model::Api;
use crate::cost::Usd;
use crate::hank::{SentinelEntry, SentinelSource};
use crate::id::SentinelId;

/// One sentinel, in hank.json or in a file of its own.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SentinelConfig {
    /// Small letters, digits and `-`; once in a codon.
    pub id: SentinelId,
    /// Name for people, not empty.
    pub name: String,
    /// Shown to people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The model that is asked, with its provider; either this or `command`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Where the model is asked, when that is not where its provider usually is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<EndpointConfig>,
    /// The program that is run, with its arguments; it gets the events as JSON on its standard input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<Vec<String>>,
    /// What the command prints: its text, or one JSON object; `text` when absent.
    #[cfg_attr(feature = "schema", schemars(extend("default" = "text")))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<AnswerFormat>,
    /// What it watches for.
    pub trigger: Trigger,
    /// When it acts on what it has seen.
    pub execution: Execution,
    /// Seconds that one answer may take, 1 to 3600; 120 when absent.
    #[cfg_attr(feature = "schema", schemars(extend("default" = 120)))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_seconds: Option<u64>,
    /// What it may cost in one codon, in US dollars, above 0; it is taken out of service at that limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_dollars: Option<Usd>,
    /// The system prompt, from files beside this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system_prompt_file: Option<Texts>,
    /// The system prompt; after that of the files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system_prompt_text: Option<String>,
    /// The prompt, from files beside this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_prompt_file: Option<Texts>,
    /// The prompt; after that of the files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_prompt_text: Option<String>,
    /// Earlier questions and answers go along; needs a system prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conversational: Option<Conversational>,
    /// What follows errors.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_handling: Option<ErrorHandling>,
    /// How the model is asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub llm_params: Option<LlmParams>,
    /// The form that answers of the model must have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub structured_output: Option<StructuredOutput>,
    /// Stands between the texts in the log file; `\n---\n` when absent. `\n`, `\t`, `\r` and `\\` may be written in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub join_string: Option<String>,
    /// Where answers are kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Output>,
    /// What is told to clients.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub report_to_websocket: Option<Reports>,
}

impl SentinelConfig {
    /// Reads one that the reader of hanks has checked.
    ///
    /// # Errors
    ///
    /// What is wrong with one that was not checked.
    pub fn from_checked(config: Map<String, Value>) -> serde_json::Result<Self> {
        Self::deserialize(Value::Object(config))
    }

    /// That of an entry of a codon; `files` are the sentinels in files of their own, by their paths.
    ///
    /// # Errors
    ///
    /// Why there is none.
    pub fn of(entry: &SentinelEntry, files: &BTreeMap<String, Map<String, Value>>) -> Result<Self, String> {
        let config = match &entry.sentinel_config {
            SentinelSource::Inline(config) => config.clone(),
            SentinelSource::File(path) => {
                let config = files.get(path).ok_or_else(|| format!("`{path}` was not read"))?;
                config.clone()
            }
        };
        Self::from_checked(config).map_err(|error| error.to_string())
    }

    /// The files of its prompt, as the hank would name them.
    #[must_use]
    pub fn user_prompt_files(&self, entry: &SentinelEntry) -> Vec<String> {
        Self::named_by(entry, self.user_prompt_file.as_ref())
    }

    /// The files of its system prompt, as the hank would name them.
    #[must_use]
    pub fn system_prompt_files(&self, entry: &SentinelEntry) -> Vec<String> {
        Self::named_by(entry, self.system_prompt_file.as_ref())
    }

    /// The file of its schema, as the hank would name it.
    #[must_use]
    pub fn schema_file(&self, entry: &SentinelEntry) -> Option<String> {
        let file = self.structured_output.as_ref()?.schema_file.clone()?;
        Self::named_by(entry, Some(&Texts::One(file))).pop()
    }

    /// A sentinel in a file of its own names files from the folder of that file on.
    fn named_by(entry: &SentinelEntry, files: Option<&Texts>) -> Vec<String> {
        let folder = match &entry.sentinel_config {
            SentinelSource::File(path) => path.rsplit_once('/').map(|(folder, _)| folder),
            SentinelSource::Inline(_) => None,
        };
        let from_hank = |file: &String| match folder {
            Some(folder) => format!("{folder}/{file}"),
            None => file.clone(),
        };
        match files {
            None => Vec::new(),
            Some(Texts::One(file)) => vec![from_hank(file)],
            Some(Texts::Several(files)) => files.iter().map(from_hank).collect(),
        }
    }

    /// What triggers it and when it then acts, in words.
    #[must_use]
    pub fn in_words(&self) -> String {
        let on = self.trigger.on().join(", ");
        let what = match &self.trigger {
            Trigger::Event { conditions, .. } if conditions.is_empty() => on,
            Trigger::Event { conditions, .. } => format!("{on} with {} conditions", conditions.len()),
            Trigger::Sequence { pattern, .. } => {
                let steps: Vec<&str> = pattern.iter().map(|step| step.kind.as_str()).collect();
                format!("{} among {on}", steps.join(", then "))
            }
        };
        let when = match self.execution {
            Execution::Immediate => "at once".to_owned(),
            Execution::Debounce { milliseconds } => format!("after {milliseconds} ms without another"),
            Execution::Count { threshold } => format!("for every {threshold}"),
            Execution::TimeWindow { milliseconds } => format!("every {milliseconds} ms"),
        };
        format!("{what}; {when}")
    }

    /// Whether it looks at what stands in files that have changed: a condition or its prompt, `prompt`, speaks of their content. A command reads files itself.
    #[must_use]
    pub fn speaks_of_contents(&self, prompt: &str) -> bool {
        let sees_files = self
            .trigger
            .on()
            .iter()
            .any(|kind| kind == "*" || kind == "file.updated");
        let conditions: Vec<&ConditionConfig> = match &self.trigger {
            Trigger::Event { conditions, .. } => conditions.iter().collect(),
            Trigger::Sequence { pattern, .. } => pattern.iter().flat_map(|step| &step.conditions).collect(),
        };
        let asks = conditions.iter().any(|condition| condition.path == "content");
        sees_files && (asks || prompt.contains("content"))
    }

    /// What is recorded and published as its model.
    #[must_use]
    pub fn model_name(&self) -> &str {
        self.model.as_deref().unwrap_or("command")
    }

    /// How long one answer may take.
    #[must_use]
    pub fn timeout(&self) -> Duration {
        Duration::from_secs(self.timeout_seconds.unwrap_or(120))
    }

    /// What stands between two texts in the log file.
    #[must_use]
    pub fn joint(&self) -> String {
        let Some(written) = &self.join_string else {
            return "\n---\n".to_owned();
        };
        let (mut joint, mut letters) = (String::new(), written.chars());
        while let Some(letter) = letters.next() {
            match (letter, letters.clone().next()) {
                ('\\', Some(escaped @ ('n' | 't' | 'r' | '\\'))) => {
                    letters.next();
                    joint.push(match escaped {
                        'n' => '\n',
                        't' => '\t',
                        'r' => '\r',
                        other => other,
                    });
                }
                (letter, _) => joint.push(letter),
            }
        }
        joint
    }

    /// How its answers are kept.
    #[must_use]
    pub fn output_format(&self) -> OutputFormat {
        self.output
            .as_ref()
            .and_then(|output| output.format)
            .unwrap_or(OutputFormat::Text)
    }

    /// Whether the failure of the sentinel fails its codon.
    #[must_use]
    pub fn fails_its_codon(&self) -> bool {
        let handling = self.error_handling.as_ref();
        handling.is_some_and(|handling| handling.on_error == Some(OnError::FailCodon))
    }
}

/// One text, or several.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum Texts {
    /// One.
    One(String),
    /// Several, at least one.
    Several(Vec<String>),
}

/// What a command prints.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum AnswerFormat {
    /// Text for people.
    Text,
    /// One JSON object.
    Json,
}

/// What a sentinel watches for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(
    tag = "type",
    rename_all = "camelCase",
    rename_all_fields = "camelCase",
    deny_unknown_fields
)]
pub enum Trigger {
    /// Single events.
    Event {
        /// Types of events, or `*` for all of them; at least one.
        on: Vec<String>,
        /// All of them must be true.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        conditions: Vec<ConditionConfig>,
    },
    /// Several events, one after the other.
    Sequence {
        /// The events among which it looks.
        interest_filter: InterestFilter,
        /// One after the other, at least one.
        pattern: Vec<PatternStep>,
        /// How strictly.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        options: Option<SequenceOptions>,
    },
}

impl Trigger {
    /// The types of events that it looks at.
    #[must_use]
    pub fn on(&self) -> &[String] {
        match self {
            Self::Event { on, .. } => on,
            Self::Sequence { interest_filter, .. } => &interest_filter.on,
        }
    }

    /// The word for it in events.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Event { .. } => "event",
            Self::Sequence { .. } => "sequence",
        }
    }
}

/// The events among which a sequence is looked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct InterestFilter {
    /// Types of events, or `*` for all of them; at least one.
    pub on: Vec<String>,
}

/// One event of a sequence.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct PatternStep {
    /// Its type, or `*`.
    #[serde(rename = "type")]
    pub kind: String,
    /// All of them must be true.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<ConditionConfig>,
}

/// How strictly a sequence is looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct SequenceOptions {
    /// Whether nothing else of interest may lie between the steps; true when absent.
    #[cfg_attr(feature = "schema", schemars(extend("default" = true)))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub consecutive: Option<bool>,
}

/// A comparison with a value in the data of an event; false where the event has none.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ConditionConfig {
    /// How the values are compared.
    pub operator: Operator,
    /// Where the value is in the data of the event: names with dots between them.
    pub path: String,
    /// What it is compared with.
    pub value: Value,
}

/// How two values are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum Operator {
    /// They are the same.
    Equals,
    /// They are not.
    NotEquals,
    /// It is one of a list.
    In,
    /// It is none of a list.
    NotIn,
    /// A text with this in it, or a list that has this.
    Contains,
    /// A text that matches a regular expression.
    Matches,
    /// A greater number.
    GreaterThan,
    /// A smaller number.
    LessThan,
}

/// When a sentinel acts on what it has seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "strategy", rename_all = "camelCase", deny_unknown_fields)]
pub enum Execution {
    /// At once.
    Immediate,
    /// Once nothing more has come for a while.
    Debounce {
        /// The while, 1 to 300000.
        milliseconds: u64,
    },
    /// For every so many.
    Count {
        /// How many, 1 to 1000.
        threshold: u64,
    },
    /// At the end of each window of time, counted from the first.
    TimeWindow {
        /// The length of a window, 1 to 3600000.
        milliseconds: u64,
    },
}

impl Execution {
    /// The word for it in events.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Immediate => "immediate",
            Self::Debounce { .. } => "debounce",
            Self::Count { .. } => "count",
            Self::TimeWindow { .. } => "timeWindow",
        }
    }
}

/// How a conversation with a model is kept short.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Conversational {
    /// What is left out first is the oldest.
    pub trimming_strategy: TrimmingStrategy,
    /// Whether it goes on after errors.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub continue_on_error: Option<bool>,
}

/// What of a conversation is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(
    tag = "type",
    rename_all = "camelCase",
    rename_all_fields = "camelCase",
    deny_unknown_fields
)]
pub enum TrimmingStrategy {
    /// So many questions with their answers.
    MaxTurns {
        /// 1 to 100.
        max_turns: u64,
    },
    /// So many tokens, estimated.
    MaxTokens {
        /// 1 to 100000.
        max_tokens: u64,
    },
}

/// What follows errors of a sentinel.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ErrorHandling {
    /// Failures in a row after which it is taken out of service, at least 1; 3 when absent.
    #[cfg_attr(feature = "schema", schemars(extend("default" = 3)))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_consecutive_failures: Option<u64>,
    /// Whether an error that will come again takes it out of service; true when absent.
    #[cfg_attr(feature = "schema", schemars(extend("default" = true)))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unload_on_fatal_error: Option<bool>,
    /// What becomes of the codon when errors take the sentinel out of service; `ignore` when absent.
    #[cfg_attr(feature = "schema", schemars(extend("default" = "ignore")))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_error: Option<OnError>,
}

/// What becomes of the codon of a sentinel that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum OnError {
    /// It goes on.
    Ignore,
    /// It fails.
    FailCodon,
}

/// Where a model is asked: what is absent is that of its provider.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EndpointConfig {
    /// The language of the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api: Option<Api>,
    /// The address before `/v1/messages`, `/chat/completions` or `/responses`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_url: Option<String>,
    /// The variable that holds the key. With a `baseUrl` and without this no key is sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_variable: Option<String>,
}

/// How a model is asked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LlmParams {
    /// As the provider understands it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// At least 1; 8192 when absent.
    #[cfg_attr(feature = "schema", schemars(extend("default" = 8192)))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_output_tokens: Option<u64>,
    /// How often a failed request is made again, at most 10; 2 when absent.
    #[cfg_attr(feature = "schema", schemars(extend("default" = 2)))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_retries: Option<u64>,
}

/// The form that answers of a model must have.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct StructuredOutput {
    /// What an answer is.
    pub output: StructuredKind,
    /// The JSON Schema of an object, or of the elements of a list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema_str: Option<String>,
    /// The same in a file beside this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema_file: Option<String>,
    /// The words of a choice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enum_values: Option<Vec<String>>,
    /// What the model is told the schema is called.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema_name: Option<String>,
    /// What the model is told about the schema.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema_description: Option<String>,
}

/// What a structured answer is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum StructuredKind {
    /// An object.
    Object,
    /// A list.
    Array,
    /// One of a few words.
    Enum,
}

/// Where answers are kept. A path with `/` in it is in the workspace, a bare name in `.hankweave/outputs/<id>`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Output {
    /// `text` when absent.
    #[cfg_attr(feature = "schema", schemars(extend("default" = "text")))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub format: Option<OutputFormat>,
    /// All answers, one after the other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The last answer alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_value_file: Option<String>,
}

/// How answers are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum OutputFormat {
    /// As they are, with a string between them.
    Text,
    /// One JSON object a line.
    Jsonl,
}

/// What clients are told; everything but triggers, when absent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Reports {
    /// When it is loaded and unloaded; true when absent.
    #[cfg_attr(feature = "schema", schemars(extend("default" = true)))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lifecycle: Option<bool>,
    /// Its errors; true when absent.
    #[cfg_attr(feature = "schema", schemars(extend("default" = true)))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub errors: Option<bool>,
    /// Its answers; true when absent.
    #[cfg_attr(feature = "schema", schemars(extend("default" = true)))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outputs: Option<bool>,
    /// Each time that it is triggered; false when absent.
    #[cfg_attr(feature = "schema", schemars(extend("default" = false)))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub triggers: Option<bool>,
}

impl Reports {
    /// These laid over `below`.
    #[must_use]
    pub fn over(self, below: Self) -> Self {
        Self {
            lifecycle: self.lifecycle.or(below.lifecycle),
            errors: self.errors.or(below.errors),
            outputs: self.outputs.or(below.outputs),
            triggers: self.triggers.or(below.triggers),
        }
    }
}

/// What the entry of a codon says about its sentinel.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SentinelSettings {
    /// Whether the codon fails when the sentinel cannot be loaded; false when absent.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub fail_codon_if_not_loaded: bool,
    /// Where answers are kept, before what the sentinel says.
    #[serde(default)]
    pub output_paths: OutputPaths,
    /// What is told to clients, before what the sentinel says.
    #[serde(default)]
    pub report_to_websocket: Reports,
    /// What the sentinel may ask the runner to do; nothing when absent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub may_ask: Vec<Ask>,
}

/// Where answers are kept.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OutputPaths {
    /// All answers, one after the other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log_file: Option<String>,
    /// The last answer alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_value_file: Option<String>,
}

impl SentinelSettings {
    /// Reads the settings of an entry that the reader of hanks has checked.
    ///
    /// # Errors
    ///
    /// What is wrong with settings that were not checked.
    pub fn from_checked(settings: Option<Map<String, Value>>) -> serde_json::Result<Self> {
        Self::deserialize(Value::Object(settings.unwrap_or_default()))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_string_between_texts_may_be_written_with_escapes() {
        let config = |join: Value| -> SentinelConfig {
            serde_json::from_value(
                json!({"id": "s", "name": "S", "command": ["x"], "joinString": join,
                "trigger": {"type": "event", "on": ["*"]}, "execution": {"strategy": "immediate"}}),
            )
            .unwrap()
        };
        assert_eq!(config(Value::Null).joint(), "\n---\n");
        assert_eq!(config(json!(r"\n\t\\n\x\")).joint(), "\n\t\\n\\x\\");
    }

    // covers: SENT-19
    #[test]
    fn a_condition_or_a_prompt_may_speak_of_what_stands_in_files() {
        let config = |on: &str, path: &str| -> SentinelConfig {
            let conditions = json!([{"operator": "contains", "path": path, "value": "x"}]);
            serde_json::from_value(json!({"id": "s", "name": "S", "command": ["x"],
                "trigger": {"type": "event", "on": [on], "conditions": conditions}, "execution": {"strategy": "immediate"}}))
            .unwrap()
        };
        assert!(config("file.updated", "content").speaks_of_contents(""));
        assert!(config("*", "path").speaks_of_contents("{{ (events | last).data.content }}"));
        assert!(!config("file.updated", "path").speaks_of_contents("{{ trigger }}"));
        assert!(
            !config("assistant.action", "content").speaks_of_contents(""),
            "that is not of a file"
        );
    }

    #[test]
    fn reports_of_the_entry_win() {
        let own = Reports {
            errors: Some(false),
            triggers: Some(true),
            ..Reports::default()
        };
        let entry = Reports {
            errors: Some(true),
            ..Reports::default()
        };
        let both = entry.over(own);
        assert_eq!(
            (both.errors, both.triggers, both.outputs),
            (Some(true), Some(true), None)
        );
    }
}
