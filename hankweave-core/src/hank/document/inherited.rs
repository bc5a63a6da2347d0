//! Settings of codons: their own, else those of the whole hank.

use std::time::Duration;

use super::Hank;
use super::background::{MAX_BACKGROUND_SECONDS, OnBackgroundCut};
use super::codon::CodonConfig;
use super::fallback::Fallback;
use super::requires::Requires;
use crate::agent::AgentOptions;

impl Hank {
    /// Returns how the agent of a codon works: the codon's options, else those of the hank.
    #[must_use]
    pub fn agent_options(&self, codon: &CodonConfig) -> AgentOptions {
        match &self.overrides {
            Some(overrides) => codon.agent_options.or(&overrides.agent_options),
            None => codon.agent_options.clone(),
        }
    }

    /// Returns how long a codon waits for background work: the codon's value, else that of the hank.
    #[must_use]
    pub fn longest_background(&self, codon: &CodonConfig) -> Duration {
        let everywhere = || self.overrides.as_ref()?.max_background_seconds;
        let own = codon.max_background_seconds.or_else(everywhere);
        Duration::from_secs(own.unwrap_or(MAX_BACKGROUND_SECONDS))
    }

    /// Returns the action when the background work of a codon is cut off: the codon's value, else that of the hank.
    #[must_use]
    pub fn on_background_cut(&self, codon: &CodonConfig) -> OnBackgroundCut {
        let everywhere = || self.overrides.as_ref()?.on_background_cut;
        codon.on_background_cut.or_else(everywhere).unwrap_or_default()
    }

    /// Returns the requirement of a codon: its own, else that of the whole hank.
    #[must_use]
    pub fn required_of<'h>(&'h self, codon: &'h CodonConfig) -> Option<&'h Requires> {
        let everywhere = || self.overrides.as_ref()?.requires.as_ref();
        codon.requires.as_ref().or_else(everywhere)
    }

    /// Removes all fallbacks.
    pub fn leave_out_fallbacks(&mut self) {
        if let Some(overrides) = &mut self.overrides {
            overrides.fallback = None;
        }
        for codon in self.codons_mut() {
            codon.fallback = None;
        }
    }

    /// Returns the fallbacks of a codon: its own, else those of the whole hank.
    #[must_use]
    pub fn fallbacks_of<'h>(&'h self, codon: &'h CodonConfig) -> &'h [Fallback] {
        let everywhere = || self.overrides.as_ref()?.fallback.as_deref();
        codon.fallback.as_deref().or_else(everywhere).unwrap_or_default()
    }
}
