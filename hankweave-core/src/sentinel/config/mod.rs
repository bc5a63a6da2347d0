//! Typed configuration of a sentinel, made out of JSON that the reader of hanks has checked (HANK-51).

mod asking;
mod results;
mod watching;

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::cost::Usd;
use crate::hank::{SentinelEntry, SentinelSource};
use crate::id::SentinelId;

pub use asking::{
    ConversationConfig, EndpointConfig, LlmParams, StructuredKind, StructuredOutput, TrimmingStrategy,
};
pub use results::{
    ErrorHandling, OnError, OutputConfig, OutputFormat, OutputPaths, ReportToWebsocket, SentinelSettings,
};
pub use watching::{
    ConditionConfig, InterestFilter, Operator, PatternStep, SentinelExecution, SequenceOptions, Trigger,
};

/// One sentinel, in hank.json or in a file of its own.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schema",
    derive(schemars::JsonSchema),
    schemars(rename = "Sentinel")
)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SentinelConfig {
    /// A hint for editors; hankweave does not read it.
    #[serde(rename = "$schema", default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<String>,
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
    /// Endpoint of the model, when it is not that of its provider.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<EndpointConfig>,
    /// The program that is run, with its arguments; it gets the events as JSON on its standard input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<Vec<String>>,
    /// Format of the command's output: text, or one JSON object; `text` when absent.
    #[cfg_attr(feature = "schema", schemars(extend("default" = "text")))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<AnswerFormat>,
    /// Trigger.
    pub trigger: Trigger,
    /// When it acts on what it has seen.
    pub execution: SentinelExecution,
    /// Seconds that one answer may take, 1 to 3600; 120 when absent.
    #[cfg_attr(feature = "schema", schemars(extend("default" = 120)))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_seconds: Option<u64>,
    /// Spending limit in one codon, in US dollars, above 0; the sentinel is taken out of service there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_dollars: Option<Usd>,
    /// The system prompt, from files next to this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system_prompt_file: Option<Texts>,
    /// The system prompt; after that of the files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system_prompt_text: Option<String>,
    /// The prompt, from files next to this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_prompt_file: Option<Texts>,
    /// The prompt; after that of the files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_prompt_text: Option<String>,
    /// Earlier questions and answers go along; needs a system prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conversational: Option<ConversationConfig>,
    /// Action on errors.
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
    /// Files for the answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<OutputConfig>,
    /// Reports to clients.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub report_to_websocket: Option<ReportToWebsocket>,
}

/// The event of the end of a codon.
pub const CODON_COMPLETED: &str = "codon.completed";

impl SentinelConfig {
    /// Reads a configuration that the reader of hanks has checked.
    ///
    /// # Errors
    ///
    /// The mistake in a configuration that was not checked.
    pub fn from_checked(config: Map<String, Value>) -> serde_json::Result<Self> {
        Self::deserialize(Value::Object(config))
    }

    /// Returns the configuration for an entry of a codon; the path of a command's program becomes one from the folder of the hank. `files` has the
    /// configurations in files of their own, by path.
    ///
    /// # Errors
    ///
    /// The reason why the entry has no readable configuration.
    pub fn of(entry: &SentinelEntry, files: &BTreeMap<String, Map<String, Value>>) -> Result<Self, String> {
        let config = match &entry.sentinel_config {
            SentinelSource::Inline(config) => config.clone(),
            SentinelSource::File(path) => {
                let config = files.get(path).ok_or_else(|| format!("`{path}` was not read"))?;
                config.clone()
            }
        };
        let mut config = Self::from_checked(config).map_err(|error| error.to_string())?;
        // Only a relative path depends on the folder: a bare name is looked up on PATH.
        let program = config
            .command
            .iter_mut()
            .flat_map(|words| words.first_mut())
            .next();
        if let Some(program) = program.filter(|program| program.contains('/') && !program.starts_with('/')) {
            *program = Self::from_hank(entry, program);
        }
        Ok(config)
    }

    /// Returns the files of the prompt, as paths from the folder of the hank.
    #[must_use]
    pub fn user_prompt_files(&self, entry: &SentinelEntry) -> Vec<String> {
        Self::named_by(entry, self.user_prompt_file.as_ref())
    }

    /// Returns the files of the system prompt, as paths from the folder of the hank.
    #[must_use]
    pub fn system_prompt_files(&self, entry: &SentinelEntry) -> Vec<String> {
        Self::named_by(entry, self.system_prompt_file.as_ref())
    }

    /// Returns the file of the answer's schema, as a path from the folder of the hank.
    #[must_use]
    pub fn schema_file(&self, entry: &SentinelEntry) -> Option<String> {
        let file = self.structured_output.as_ref()?.schema_file.clone()?;
        Self::named_by(entry, Some(&Texts::One(file))).pop()
    }

    /// Returns files that a sentinel names, as paths from the folder of the hank.
    fn named_by(entry: &SentinelEntry, files: Option<&Texts>) -> Vec<String> {
        match files {
            None => Vec::new(),
            Some(Texts::One(file)) => vec![Self::from_hank(entry, file)],
            Some(Texts::Several(files)) => files.iter().map(|file| Self::from_hank(entry, file)).collect(),
        }
    }

    /// Returns the path from the folder of the hank of a file that a sentinel names. A sentinel in a file of its own names files from the folder of that file.
    fn from_hank(entry: &SentinelEntry, file: &str) -> String {
        match &entry.sentinel_config {
            SentinelSource::File(path) => match path.rsplit_once('/') {
                Some((folder, _)) => format!("{folder}/{}", file.strip_prefix("./").unwrap_or(file)),
                None => file.to_owned(),
            },
            SentinelSource::Inline(_) => file.to_owned(),
        }
    }

    /// Describes the trigger and the strategy.
    #[must_use]
    pub fn in_words(&self) -> String {
        let on = self.trigger.on().join(", ");
        let what = match &self.trigger {
            Trigger::Event { conditions, .. } if conditions.is_empty() => on,
            Trigger::Event { conditions, .. } => match conditions.len() {
                1 => format!("{on} with 1 condition"),
                count => format!("{on} with {count} conditions"),
            },
            Trigger::Sequence { pattern, .. } => {
                let steps: Vec<&str> = pattern.iter().map(|step| step.kind.as_str()).collect();
                format!("{} among {on}", steps.join(", then "))
            }
        };
        let when = match self.execution {
            SentinelExecution::Immediate => "at once".to_owned(),
            SentinelExecution::Debounce { milliseconds } => {
                format!("after {milliseconds} ms without another")
            }
            SentinelExecution::Count { threshold } => format!("for every {threshold}"),
            SentinelExecution::TimeWindow { milliseconds } => format!("every {milliseconds} ms"),
        };
        format!("{what}; {when}")
    }

    /// Returns whether the sentinel uses the content of changed files: a condition or its prompt, `prompt`, names the field `content`. A command reads
    /// files itself.
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

    /// Whether the trigger names the end of the codon, so that the sentinel acts after it; `*` does not count.
    #[must_use]
    pub fn acts_on_end(&self) -> bool {
        self.trigger.on().iter().any(|kind| kind == CODON_COMPLETED)
    }

    /// Returns the model name that is recorded and published.
    #[must_use]
    pub fn model_name(&self) -> &str {
        self.model.as_deref().unwrap_or("command")
    }

    /// How long one answer may take.
    #[must_use]
    pub fn timeout(&self) -> Duration {
        Duration::from_secs(self.timeout_seconds.unwrap_or(120))
    }

    /// Returns the separator of two texts in the log file.
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

    /// Returns the format in which the answers are written to files.
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

/// Output of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum AnswerFormat {
    /// Text for people.
    Text,
    /// One JSON object.
    Json,
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

    // covers: SENT-9
    #[test]
    fn a_program_counts_from_the_file_of_its_sentinel() {
        let program = |file: &str, program: &str| {
            let Value::Object(config) = json!({"id": "s", "name": "S", "command": [program, "./x"],
                "trigger": {"type": "event", "on": ["*"]}, "execution": {"strategy": "immediate"}})
            else {
                panic!("an object")
            };
            let entry = SentinelEntry {
                sentinel_config: SentinelSource::File(file.to_owned()),
                settings: None,
            };
            let files = BTreeMap::from([(file.to_owned(), config)]);
            SentinelConfig::of(&entry, &files)
                .unwrap()
                .command
                .unwrap()
                .join(" ")
        };
        assert_eq!(
            program("team/guards/s.json", "./look.sh"),
            "team/guards/look.sh ./x"
        );
        assert_eq!(program("team/s.json", "bin/look"), "team/bin/look ./x");
        assert_eq!(program("s.json", "./look.sh"), "./look.sh ./x");
        assert_eq!(program("team/s.json", "look"), "look ./x", "is looked up");
        assert_eq!(program("team/s.json", "/bin/look"), "/bin/look ./x");
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
        let words = config("file.updated", "content").in_words();
        assert!(words.starts_with("file.updated with 1 condition"), "{words}");
        assert!(!words.contains("conditions"), "{words}");
        assert!(config("file.updated", "content").speaks_of_contents(""));
        assert!(config("*", "path").speaks_of_contents("{{ (events | last).data.content }}"));
        assert!(!config("file.updated", "path").speaks_of_contents("{{ trigger }}"));
        assert!(
            !config("assistant.action", "content").speaks_of_contents(""),
            "that is not of a file"
        );
    }
}
