//! Cost of a codon in any state (STATE-47).

use super::{CodonExecution, CodonStatus, SentinelState};
use crate::cost::{RecordedTokens, TokenUsage, Usd};

impl CodonExecution {
    /// The cost that counts for the codon: a skipped codon counts nothing, sentinels are not included.
    #[must_use]
    pub fn codon_cost(&self) -> Usd {
        match self.is_counted() {
            true => self.agent_cost(),
            false => Usd::ZERO,
        }
    }

    /// Returns the cost of the codon's agent, also when the codon was skipped.
    #[must_use]
    pub fn agent_cost(&self) -> Usd {
        let ended = self.final_cost().or(self.partial_cost());
        self.current_cost().or(ended).copied().unwrap_or(Usd::ZERO)
    }

    /// The tokens that count for the codon, by the rule of [`codon_cost`](Self::codon_cost).
    #[must_use]
    pub fn codon_tokens(&self) -> TokenUsage {
        match self.is_counted() {
            true => self.agent_tokens(),
            false => TokenUsage::ZERO,
        }
    }

    /// The tokens of the codon's agent, also when the codon was skipped.
    #[must_use]
    pub fn agent_tokens(&self) -> TokenUsage {
        let ended = self.final_tokens().or(self.partial_tokens());
        let tokens: Option<&RecordedTokens> = self.current_tokens().or(ended);
        tokens.map_or(TokenUsage::ZERO, |tokens| tokens.usage)
    }

    /// The money that was spent: the agent's cost and that of the sentinels.
    #[must_use]
    pub fn spend(&self) -> Usd {
        self.agent_cost() + self.sentinel_cost()
    }

    /// The sentinels that watch or watched the codon, in the order in which they were loaded.
    #[must_use]
    pub fn sentinels(&self) -> &[SentinelState] {
        self.recorded_sentinels().0
    }

    /// Returns the recorded total cost of the codon's sentinels.
    #[must_use]
    pub fn sentinel_cost(&self) -> Usd {
        self.recorded_sentinels().1
    }

    /// Replaces the figures of the sentinels of a codon that has ended; returns whether the codon has ended and had any sentinels.
    pub fn finish_sentinels(&mut self, states: &[SentinelState], total_cost: Usd) -> bool {
        let sentinels = match self {
            Self::Completed(codon) => &mut codon.sentinels,
            Self::Failed(codon) => &mut codon.sentinels,
            Self::Skipped(codon) => &mut codon.sentinels,
            _ => return false,
        };
        let had_any = !sentinels.is_none();
        if had_any {
            sentinels.replace(states.to_vec(), total_cost);
        }
        had_any
    }

    fn is_counted(&self) -> bool {
        self.status() != CodonStatus::Skipped
    }

    /// Returns the recorded sentinels and their total cost. The field has another type once the codon has ended, hence the match.
    fn recorded_sentinels(&self) -> (&[SentinelState], Usd) {
        match self {
            Self::Preparing(_) => (&[], Usd::ZERO),
            Self::Starting(codon) => codon.sentinels.list_and_cost(),
            Self::Initializing(codon) => codon.sentinels.list_and_cost(),
            Self::Running(codon) => codon.sentinels.list_and_cost(),
            Self::CompletingSentinels(codon) => codon.sentinels.list_and_cost(),
            Self::Completed(codon) => codon.sentinels.list_and_cost(),
            Self::Failed(codon) => codon.sentinels.list_and_cost(),
            Self::Skipped(codon) => codon.sentinels.list_and_cost(),
        }
    }
}
