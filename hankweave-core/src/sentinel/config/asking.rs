//! Configuration of a sentinel's questions: the model's server, the parameters of a request, the memory, and the form of an answer.
//!
//! The types take any number and any combination of fields: the limits in their documentation are checked before, by `hank::read::sentinel`.

use serde::{Deserialize, Serialize};

use crate::sentinel::model::Api;

/// Server of a model. A field that is absent is that of the model's provider; only `keyVariable` depends on `baseUrl`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[non_exhaustive]
pub struct EndpointConfig {
    /// Protocol that the server speaks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api: Option<Api>,
    /// Address of the server, without `/v1/messages`, `/chat/completions` or `/responses`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_url: Option<String>,
    /// Environment variable with the API key. With a `baseUrl` and without this no key is sent: a provider's key goes nowhere else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_variable: Option<String>,
}

/// Parameters of the requests to a model.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[non_exhaustive]
pub struct LlmParams {
    /// Passed on to the provider as it is; when absent, the provider decides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// Limit of an answer, at least 1; 8192 when absent.
    #[cfg_attr(feature = "schema", schemars(extend("default" = 8192)))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_output_tokens: Option<u64>,
    /// Number of retries of a failed request, at most 10; 2 when absent.
    #[cfg_attr(feature = "schema", schemars(extend("default" = 2)))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_retries: Option<u64>,
}

/// Memory of a sentinel: earlier questions and answers that it repeats with each question.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[non_exhaustive]
pub struct ConversationConfig {
    /// Limit of the memory; beyond it the oldest exchanges are forgotten.
    pub trimming_strategy: TrimmingStrategy,
    /// Whether the sentinel stays loaded after any number of failures in a row; false when absent. One that will come again still unloads it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub continue_on_error: Option<bool>,
}

/// Limit of a sentinel's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(
    tag = "type",
    rename_all = "camelCase",
    rename_all_fields = "camelCase",
    deny_unknown_fields
)]
pub enum TrimmingStrategy {
    /// By the number of questions with their answers.
    MaxTurns {
        /// 1 to 100.
        max_turns: u64,
    },
    /// By the estimated number of tokens.
    MaxTokens {
        /// 1 to 100000.
        max_tokens: u64,
    },
}

/// Form that the answers of a model must have. An object or a list needs `schemaStr` or `schemaFile`, not both, and a choice needs `enumValues`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[non_exhaustive]
pub struct StructuredOutput {
    /// Kind of the answer.
    pub output: StructuredKind,
    /// JSON Schema of an object, or of the elements of a list, as text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema_str: Option<String>,
    /// Path of a file with that JSON Schema, from the folder of this file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema_file: Option<String>,
    /// Answers of a choice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enum_values: Option<Vec<String>>,
    /// Name of the schema for the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema_name: Option<String>,
    /// Description of the schema for the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema_description: Option<String>,
}

/// Kind of a structured answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum StructuredKind {
    /// An object.
    Object,
    /// A list.
    Array,
    /// A choice: one of `enumValues`.
    Enum,
}
