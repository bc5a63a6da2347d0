//! Background work of agents: how long a codon waits for it, and what follows when it is cut off.

use serde::Serialize;

/// Default of `maxBackgroundSeconds`: how long a codon waits for background work of its agent. It equals the time that an agent may be silent.
pub const MAX_BACKGROUND_SECONDS: u64 = 30 * 60;

/// Action when background work is cut off that the agent was waiting for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum OnBackgroundCut {
    /// The codon fails.
    #[default]
    Fail,
    /// The answer decides, as without the work.
    Complete,
}
