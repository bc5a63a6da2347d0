//! Parts of events about the start and the end of a run (WIRE-41), and the cut of long prompts.

use serde::{Deserialize, Serialize};

use crate::agent::InterruptedBy;
use crate::hank::{LoopConfig, TerminateOn};
use crate::id::LoopId;

/// Longest prompt in an event, in characters.
const MAX_PROMPT_CHARS: usize = 32_768;

/// Name and version of a hank.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct HankTitle {
    /// Name for people.
    pub name: String,
    /// Version.
    pub version: String,
}

/// Description of a loop.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct DescribedLoop {
    /// Id of hank.json.
    pub id: LoopId,
    /// Name for people.
    pub name: String,
    /// Most iterations; absent when only the context ends it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub most: Option<u32>,
    /// Command that ends it once it passes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
}

/// Result of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum RunEnding {
    /// Every codon is done.
    Completed,
    /// The work itself went wrong.
    Failed,
    /// A command, a client or a signal stopped it.
    Stopped,
    /// A limit or an approval paused it.
    Paused,
}

impl RunEnding {
    /// Returns the result of a run that did not complete.
    #[must_use]
    pub const fn of_failure(interrupted_by: Option<InterruptedBy>) -> Self {
        match interrupted_by {
            None => Self::Failed,
            Some(by) if by.is_pause() => Self::Paused,
            Some(_) => Self::Stopped,
        }
    }
}

/// Returns the prompt as clients get it, and its length in characters where it was cut.
#[must_use]
pub fn cut_prompt(prompt: &str) -> (String, Option<usize>) {
    match prompt.char_indices().nth(MAX_PROMPT_CHARS) {
        Some((end, _)) => (prompt[..end].to_owned(), Some(prompt.chars().count())),
        None => (prompt.to_owned(), None),
    }
}

impl From<&LoopConfig> for DescribedLoop {
    fn from(config: &LoopConfig) -> Self {
        Self {
            id: config.id.clone(),
            name: config.name.clone(),
            most: config.most_iterations(),
            until: match &config.terminate_on {
                TerminateOn::UntilCheckPasses { run, .. } => Some(run.clone()),
                TerminateOn::IterationLimit { .. } | TerminateOn::ContextExceeded => None,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // covers: WIRE-41
    #[test]
    fn a_long_prompt_is_cut_and_says_how_long_it_was() {
        let cut = |prompt: &str| {
            let (prompt, original_length) = cut_prompt(prompt);
            (prompt.chars().count(), original_length)
        };
        assert_eq!(cut(&"é".repeat(MAX_PROMPT_CHARS)), (MAX_PROMPT_CHARS, None));
        let more = MAX_PROMPT_CHARS + 1;
        assert_eq!(cut(&"é".repeat(more)), (MAX_PROMPT_CHARS, Some(more)));
    }
}
