//! Next steps in an execution directory, for a user who may type commands there (WIRE-47).

use serde::{Deserialize, Serialize};

use crate::id::CodonId;
use crate::time::Timestamp;

/// Next steps: the outlook, the question that waits, and the commands that can be typed.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct NextSteps {
    /// Next codon, or what blocks it, in words; absent before the first run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outlook: Option<String>,
    /// Question that waits for the answer of a user, or that was denied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub question: Option<OpenQuestion>,
    /// Commands, the first one the most likely. They name the directory, so they can be typed in any folder of its machine.
    pub commands: Vec<NextCommand>,
}

/// Question before a codon starts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct OpenQuestion {
    /// Codon that starts once it is approved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub codon_id: Option<CodonId>,
    /// Question for the user.
    pub question: String,
    /// When it was asked.
    pub since: Timestamp,
}

/// Command line for a shell.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct NextCommand {
    /// Command line.
    pub command: String,
    /// Effect of the command, such as `lets ship begin`.
    pub effect: String,
}
