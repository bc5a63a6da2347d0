//! The scenario document as written: the model's answers, turn by turn, and the failures of the line.

use std::str::FromStr;

use regex::Regex;
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

/// A whole script: lanes of turns and the rules that hold for all of them.
///
/// Made from JSON text with `parse()`. Unknown keys are refused, so that a misspelt fault does not silently turn
/// into a friendly answer.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    #[serde(default)]
    pub(super) name: String,
    #[serde(default, rename = "note")]
    _note: String,
    #[serde(default)]
    pub(super) turns: Vec<Turn>,
    #[serde(default)]
    pub(super) lanes: Vec<Lane>,
    #[serde(default)]
    pub(super) select: Select,
    #[serde(default)]
    pub(super) after: After,
    #[serde(default = "Turn::ok")]
    pub(super) aux: Turn,
    #[serde(default)]
    pub(super) aux_when: AuxWhen,
    #[serde(default)]
    pub(super) require_key: Option<String>,
    #[serde(default)]
    pub(super) context_limit: Option<u64>,
    #[serde(default = "default_models")]
    pub(super) models: Vec<String>,
}

/// Why a text is not a scenario.
#[derive(Debug, thiserror::Error)]
#[error("failed to read the scenario: {0}")]
pub struct ParseScenarioError(serde_json::Error);

impl FromStr for Scenario {
    type Err = ParseScenarioError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        serde_json::from_str(text).map_err(ParseScenarioError)
    }
}

impl TryFrom<Value> for Scenario {
    type Error = ParseScenarioError;

    fn try_from(document: Value) -> Result<Self, Self::Error> {
        serde_json::from_value(document).map_err(ParseScenarioError)
    }
}

/// Turns for the requests that match `when`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Lane {
    #[serde(default = "main_lane")]
    pub(super) name: String,
    #[serde(default)]
    pub(super) when: When,
    pub(super) turns: Vec<Turn>,
    #[serde(default)]
    pub(super) select: Option<Select>,
}

/// The conditions of a lane. All that are given must hold.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct When {
    pub(super) dialect: Option<Pattern>,
    pub(super) model: Option<Pattern>,
    pub(super) system: Option<Pattern>,
    pub(super) not_system: Option<Pattern>,
    pub(super) user: Option<Pattern>,
    pub(super) first_user: Option<Pattern>,
    pub(super) tools: Option<Pattern>,
    pub(super) has_tools: Option<bool>,
}

/// A regular expression that is searched for anywhere in its subject.
#[derive(Debug, Clone)]
pub(super) struct Pattern(pub(super) Regex);

impl<'de> Deserialize<'de> for Pattern {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Regex::new(&text).map(Self).map_err(serde::de::Error::custom)
    }
}

/// How a lane finds the turn for a request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Select {
    /// In order of arrival; a retry takes a turn, which is what error scripts need.
    #[default]
    Sequence,
    /// By the model turns that the request already holds; a retry gets its turn again.
    History,
}

/// Answer when the turns run out.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub(super) enum After {
    RepeatLast(RepeatLast),
    Turn(Box<Turn>),
}

#[derive(Debug, Clone, Copy, Deserialize)]
pub(super) enum RepeatLast {
    #[serde(rename = "repeat-last")]
    RepeatLast,
}

impl Default for After {
    fn default() -> Self {
        Self::Turn(Box::new(Turn::saying("(script finished)")))
    }
}

/// Rule for side requests (an agent asking for a title), which get `aux` instead of a turn.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum AuxWhen {
    #[default]
    NoTools,
    Never,
}

/// One answer of the model, and what goes wrong while it is given.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Turn {
    pub(super) id: Option<String>,
    pub(super) model: Option<String>,
    pub(super) thinking: String,
    pub(super) text: String,
    pub(super) tools: Vec<Call>,
    pub(super) usage: Usage,
    pub(super) stop_reason: Option<String>,
    pub(super) delay_ms: u64,
    pub(super) chunks: Option<usize>,
    pub(super) chunk_delay_ms: u64,
    pub(super) hang: Option<Hang>,
    pub(super) error: Option<Failure>,
    pub(super) stream_error: Option<Failure>,
    pub(super) failed: Option<Failure>,
    pub(super) drop: Option<Cut>,
    pub(super) repeat: Repeat,
}

impl Turn {
    pub(super) fn saying(text: &str) -> Self {
        Self {
            text: text.to_owned(),
            ..Self::default()
        }
    }

    fn ok() -> Self {
        Self::saying("ok")
    }
}

/// A tool call: word for word, or portable and matched to the tools that the agent offers.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub(super) enum Call {
    Verbatim(VerbatimCall),
    Portable(PortableCall),
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct VerbatimCall {
    pub(super) name: String,
    #[serde(default)]
    pub(super) input: Value,
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct PortableCall {
    pub(super) op: Operation,
    #[serde(flatten)]
    pub(super) fields: Map<String, Value>,
}

/// Operation of a portable call, independent of the agent's name for its tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Operation {
    Write,
    Edit,
    Read,
    Bash,
    Task,
}

/// Token counts of one turn, in the terms of the Anthropic interface: `input` is without the cached part.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Usage {
    pub(super) input: u64,
    pub(super) output: u64,
    pub(super) cache_creation: u64,
    /// How many of those written to the cache stay there for an hour.
    pub(super) cache_creation_1h: u64,
    pub(super) cache_read: u64,
    pub(super) reasoning: u64,
    /// Searches of the web; they are reported when the answer ends.
    pub(super) web_searches: u64,
    /// Cost of the answer as OpenRouter reports it, in US dollars.
    pub(super) cost: Option<f64>,
}

impl Usage {
    /// Everything that was read, as the OpenAI interfaces count it.
    pub(super) fn prompt(&self) -> u64 {
        self.input + self.cache_creation + self.cache_read
    }

    pub(super) fn total(&self) -> u64 {
        self.prompt() + self.output
    }
}

impl Default for Usage {
    fn default() -> Self {
        Self {
            input: 100,
            output: 20,
            cache_creation: 0,
            cache_creation_1h: 0,
            cache_read: 0,
            reasoning: 0,
            web_searches: 0,
            cost: None,
        }
    }
}

/// Silence in the middle of a stream.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(untagged)]
pub(super) enum Hang {
    Milliseconds(u64),
    /// `true`: until the client goes away.
    Forever(bool),
}

/// An answer that is an error.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Failure {
    pub(super) status: u16,
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) code: Option<String>,
    pub(super) message: String,
    pub(super) headers: Map<String, Value>,
}

impl Default for Failure {
    fn default() -> Self {
        Self {
            status: 500,
            kind: "api_error".to_owned(),
            code: None,
            message: "scripted failure".to_owned(),
            headers: Map::new(),
        }
    }
}

/// Position at which the connection is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Cut {
    BeforeHeaders,
    AfterHeaders,
    MidStream,
    BeforeStop,
}

/// How often a turn is given before the next one.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(untagged)]
pub(super) enum Repeat {
    Times(u64),
    Word(RepeatWord),
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum RepeatWord {
    Forever,
}

impl Default for Repeat {
    fn default() -> Self {
        Self::Times(1)
    }
}

fn main_lane() -> String {
    "main".to_owned()
}

fn default_models() -> Vec<String> {
    vec!["scripted-model".to_owned()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_fault_is_refused() {
        let error = r#"{"turns": [{"text": "x", "hangs": 5}]}"#.parse::<Scenario>().unwrap_err();
        assert!(error.to_string().contains("hangs"), "{error}");
    }

    #[test]
    fn a_broken_pattern_is_refused() {
        let error = r#"{"lanes": [{"when": {"user": "("}, "turns": []}]}"#
            .parse::<Scenario>()
            .unwrap_err();
        assert!(error.to_string().contains("unclosed group"), "{error}");
    }

    #[test]
    fn both_forms_of_repeat_and_hang_and_after_are_read() {
        let scenario: Scenario = r#"{"after": "repeat-last", "turns": [
            {"repeat": 3, "hang": 250},
            {"repeat": "forever", "hang": true, "drop": "before_stop"}]}"#
            .parse()
            .unwrap();
        assert!(matches!(scenario.after, After::RepeatLast(_)));
        assert!(matches!(scenario.turns[0].repeat, Repeat::Times(3)));
        assert!(matches!(scenario.turns[0].hang, Some(Hang::Milliseconds(250))));
        assert!(matches!(
            scenario.turns[1].repeat,
            Repeat::Word(RepeatWord::Forever)
        ));
        assert!(matches!(scenario.turns[1].hang, Some(Hang::Forever(true))));
        assert_eq!(scenario.turns[1].drop, Some(Cut::BeforeStop));
    }
}
