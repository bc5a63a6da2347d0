//! Background work of agents: how long a codon waits for it, and what follows when it is cut off.

use std::time::Duration;

use serde::Serialize;

use super::Hank;
use super::codon::CodonConfig;

/// How long a codon waits by default for work in the background that its agent waits for: as long as an agent may be silent.
pub const MAX_BACKGROUND_SECONDS: u64 = 30 * 60;

/// What follows when background work is cut off that the agent was waiting for.
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

impl Hank {
    /// Returns how long a codon waits for background work: as it says, else as the whole hank says.
    #[must_use]
    pub fn longest_background(&self, codon: &CodonConfig) -> Duration {
        let everywhere = || self.overrides.as_ref()?.max_background_seconds;
        let own = codon.max_background_seconds.or_else(everywhere);
        Duration::from_secs(own.unwrap_or(MAX_BACKGROUND_SECONDS))
    }

    /// Returns what follows when the background work of a codon is cut off: as it says, else as the whole hank says.
    #[must_use]
    pub fn on_background_cut(&self, codon: &CodonConfig) -> OnBackgroundCut {
        let everywhere = || self.overrides.as_ref()?.on_background_cut;
        codon.on_background_cut.or_else(everywhere).unwrap_or_default()
    }
}
