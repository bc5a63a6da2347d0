//! Start and end of a run, as clients get them (WIRE-41).

use serde::{Deserialize, Serialize};

use super::Event;
use crate::agent::InterruptedBy;
use crate::budget::Ceiling;
use crate::hank::{Hank, HankItem, LoopConfig, TerminateOn};
use crate::id::LoopId;

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
            max_dollars: ceiling.max_dollars,
            max_time_ms: time.and_then(|millis| u64::try_from(millis).ok()),
            loops: loops.map(DescribedLoop::from).collect(),
            rehearsal: false,
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
