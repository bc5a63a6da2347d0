//! Description of a codon before it starts: the answer to the command `plan.codon` (WIRE-52).

use serde::{Deserialize, Serialize};

use crate::id::CodonId;

/// Codon as the hank has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct CodonDescription {
    /// Id of hank.json.
    pub codon_id: CodonId,
    /// Agent, with its script and model.
    pub agent: String,
    /// Prompt with the values that are known; absent where its files cannot be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    /// Length of the prompt in characters, where it was cut.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub original_length: Option<usize>,
    /// Files of the prompt, where it is not written in hank.json.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub prompt_files: Vec<String>,
    /// Limits, checks, requirements and programs, a clause each, as `hankweave validate` prints them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub terms: Vec<String>,
    /// The hank has changed since the codon was planned.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub changed: bool,
}
