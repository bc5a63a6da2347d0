//! What a codon has cost, whatever its state (STATE-47).

use super::{CodonExecution, SentinelState};
use crate::cost::{TokenUsage, Usd};

impl CodonExecution {
    /// The cost that counts for the codon: a skipped codon counts nothing, sentinels are not included.
    #[must_use]
    pub fn codon_cost(&self) -> Usd {
        match self {
            Self::Preparing(_) | Self::Starting(_) | Self::Initializing(_) | Self::Skipped(_) => Usd::ZERO,
            Self::Running(codon) => codon.current_cost,
            Self::CompletingSentinels(codon) => codon.current_cost,
            Self::Completed(codon) => codon.final_cost,
            Self::Failed(codon) => codon.partial_cost,
        }
    }

    /// What the agent of the codon cost, also when the codon was skipped.
    #[must_use]
    pub fn agent_cost(&self) -> Usd {
        match self {
            Self::Skipped(codon) => codon.partial_cost,
            Self::Preparing(_)
            | Self::Starting(_)
            | Self::Initializing(_)
            | Self::Running(_)
            | Self::CompletingSentinels(_)
            | Self::Completed(_)
            | Self::Failed(_) => self.codon_cost(),
        }
    }

    /// The money that was spent: the agent's cost and that of the sentinels.
    #[must_use]
    pub fn spend(&self) -> Usd {
        self.agent_cost() + self.sentinel_cost()
    }

    /// The sentinels that watch or watched the codon, in the order in which they were loaded.
    #[must_use]
    pub fn sentinels(&self) -> &[SentinelState] {
        match self {
            Self::Preparing(_) => &[],
            Self::Starting(codon) => codon.sentinels.list(),
            Self::Initializing(codon) => codon.sentinels.list(),
            Self::Running(codon) => codon.sentinels.list(),
            Self::CompletingSentinels(codon) => codon.sentinels.list(),
            Self::Completed(codon) => codon.sentinels.list(),
            Self::Failed(codon) => codon.sentinels.list(),
            Self::Skipped(codon) => codon.sentinels.list(),
        }
    }

    /// What the sentinels of the codon cost together, as recorded.
    #[must_use]
    pub fn sentinel_cost(&self) -> Usd {
        match self {
            Self::Preparing(_) => Usd::ZERO,
            Self::Starting(codon) => codon.sentinels.total_cost(),
            Self::Initializing(codon) => codon.sentinels.total_cost(),
            Self::Running(codon) => codon.sentinels.total_cost(),
            Self::CompletingSentinels(codon) => codon.sentinels.total_cost(),
            Self::Completed(codon) => codon.sentinels.total_cost(),
            Self::Failed(codon) => codon.sentinels.total_cost(),
            Self::Skipped(codon) => codon.sentinels.total_cost(),
        }
    }

    /// The tokens that go with [`agent_cost`](Self::agent_cost).
    #[must_use]
    pub fn agent_tokens(&self) -> TokenUsage {
        match self {
            Self::Skipped(codon) => codon.partial_tokens.usage,
            Self::Preparing(_)
            | Self::Starting(_)
            | Self::Initializing(_)
            | Self::Running(_)
            | Self::CompletingSentinels(_)
            | Self::Completed(_)
            | Self::Failed(_) => self.codon_tokens(),
        }
    }

    /// The tokens that go with [`codon_cost`](Self::codon_cost).
    #[must_use]
    pub fn codon_tokens(&self) -> TokenUsage {
        match self {
            Self::Preparing(_) | Self::Starting(_) | Self::Initializing(_) | Self::Skipped(_) => {
                TokenUsage::ZERO
            }
            Self::Running(codon) => codon.current_tokens.usage,
            Self::CompletingSentinels(codon) => codon.current_tokens.usage,
            Self::Completed(codon) => codon.final_tokens.usage,
            Self::Failed(codon) => codon.partial_tokens.usage,
        }
    }
}
