//! How a sentinel's model is asked, and what an answer must look like.

use serde::{Deserialize, Serialize};

use crate::sentinel::model::Api;

/// Endpoint of a model; an absent key is that of its provider.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[non_exhaustive]
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
#[non_exhaustive]
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

/// How a conversation with a model is kept short.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[non_exhaustive]
pub struct Conversational {
    /// Items that are left out first: the oldest.
    pub trimming_strategy: TrimmingStrategy,
    /// Whether it continues after errors.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub continue_on_error: Option<bool>,
}

/// Part of a conversation that is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(
    tag = "type",
    rename_all = "camelCase",
    rename_all_fields = "camelCase",
    deny_unknown_fields
)]
pub enum TrimmingStrategy {
    /// Number of questions with their answers.
    MaxTurns {
        /// 1 to 100.
        max_turns: u64,
    },
    /// Estimated number of tokens.
    MaxTokens {
        /// 1 to 100000.
        max_tokens: u64,
    },
}

/// The form that answers of a model must have.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[non_exhaustive]
pub struct StructuredOutput {
    /// Form of the answer.
    pub output: StructuredKind,
    /// The JSON Schema of an object, or of the elements of a list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema_str: Option<String>,
    /// Schema in a file next to this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema_file: Option<String>,
    /// The words of a choice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enum_values: Option<Vec<String>>,
    /// Name of the schema for the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema_name: Option<String>,
    /// Description of the schema for the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema_description: Option<String>,
}

/// Form of a structured answer.
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
