//! Start and end of a run, as clients get them (WIRE-41).

use serde::{Deserialize, Serialize};

use super::Event;
use crate::agent::InterruptedBy;
use crate::budget::Ceiling;
use crate::hank::{Hank, HankItem, LoopConfig, TerminateOn};
use crate::id::{CodonId, LoopId};

/// Longest prompt in an event, in characters.
const MAX_PROMPT_CHARS: usize = 32_768;

/// Name and version of a hank.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HankTitle {
    /// Name for people.
    pub name: String,
    /// Version.
    pub version: String,
}

/// Description of a loop.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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

/// Outcome of a run.
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
    /// Returns the outcome of a run that did not complete.
    #[must_use]
    pub const fn of_failure(interrupted_by: Option<InterruptedBy>) -> Self {
        match interrupted_by {
            None => Self::Failed,
            Some(by) if by.is_pause() => Self::Paused,
            Some(_) => Self::Stopped,
        }
    }
}

impl Event {
    /// Returns the description of a run of `hank` with this total budget.
    #[must_use]
    pub fn run_described(hank: &Hank, ceiling: Ceiling) -> Self {
        let loops = hank.items.iter().filter_map(HankItem::as_loop);
        let time = ceiling.max_time.map(|time| time.as_millis());
        Self::RunDescribed {
            hank: hank.meta.as_ref().map(|meta| HankTitle {
                name: meta.name.clone(),
                version: meta.version.clone(),
            }),
            goal: hank.meta.as_ref().and_then(|meta| meta.description.clone()),
            max_dollars: ceiling.max_dollars,
            max_time_ms: time.and_then(|millis| u64::try_from(millis).ok()),
            loops: loops.map(DescribedLoop::from).collect(),
            rehearsal: false,
        }
    }

    /// Sets the purpose of a run whose hank does not describe it.
    #[must_use]
    pub fn or_goal(mut self, otherwise: impl FnOnce() -> Option<String>) -> Self {
        if let Self::RunDescribed {
            goal: goal @ None, ..
        } = &mut self
        {
            *goal = otherwise();
        }
        self
    }

    /// Returns the event for a prompt that an agent gets, which is cut where it is long.
    #[must_use]
    pub fn codon_prompted(codon_id: CodonId, prompt: &str) -> Self {
        let (prompt, original_length) = cut_prompt(prompt);
        Self::CodonPrompted {
            codon_id,
            prompt,
            original_length,
        }
    }

    /// Returns the description of a rehearsal, out of that of a run.
    #[must_use]
    pub fn of_rehearsal(mut self, is_rehearsal: bool) -> Self {
        if let Self::RunDescribed { rehearsal, .. } = &mut self {
            *rehearsal = is_rehearsal;
        }
        self
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
        let told = |prompt: &str| match Event::codon_prompted("a".parse().unwrap(), prompt) {
            Event::CodonPrompted {
                prompt,
                original_length,
                ..
            } => (prompt.chars().count(), original_length),
            other => panic!("{other:?}"),
        };
        assert_eq!(told(&"é".repeat(MAX_PROMPT_CHARS)), (MAX_PROMPT_CHARS, None));
        let more = MAX_PROMPT_CHARS + 1;
        assert_eq!(told(&"é".repeat(more)), (MAX_PROMPT_CHARS, Some(more)));
    }
}
