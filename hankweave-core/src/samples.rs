//! Made-up values of core's own types, for the tests that the machines generate.

use crate::agent::FailureReason;
use crate::codon::{Loaded, LoopContext, Sentinels, UnloadReason};
use crate::cost::{RecordedTokens, TokenUsage, Usd};
use crate::id::{AgentId, CheckpointSha, CodonId, LoopId, Pid, RunId, SentinelId, SessionId, TaskId};
use crate::machine::Sample;
use crate::time::Timestamp;

macro_rules! ids {
    ($($id:ty),*) => {
        $(impl Sample for $id {
            fn sample(n: u32) -> Self {
                Self::new(format!("id-{n}")).expect("the text is an id")
            }
        })*
    };
}

ids!(AgentId, CodonId, LoopId, RunId, SentinelId, SessionId, TaskId);

impl Sample for CheckpointSha {
    fn sample(n: u32) -> Self {
        Self::new(format!("{n:040x}"))
    }
}

impl Sample for Pid {
    fn sample(n: u32) -> Self {
        Self(n)
    }
}

impl Sample for Timestamp {
    fn sample(n: u32) -> Self {
        Self::from_millis(1_736_000_000_000 + i64::from(n))
    }
}

impl Sample for Usd {
    fn sample(n: u32) -> Self {
        Self::from_micros(u64::from(n) * 1_000)
    }
}

impl Sample for TokenUsage {
    fn sample(n: u32) -> Self {
        Self {
            input_tokens: u64::from(n),
            output_tokens: u64::from(n) + 1,
            cache_creation_tokens: u64::from(n) + 2,
            cache_read_tokens: u64::from(n) + 3,
        }
    }
}

impl Sample for RecordedTokens {
    fn sample(n: u32) -> Self {
        TokenUsage::sample(n).into()
    }
}

impl Sample for LoopContext {
    fn sample(n: u32) -> Self {
        Self {
            loop_id: Sample::sample(n),
            iteration: n,
            codon_index_in_loop: n,
            extra: Default::default(),
        }
    }
}

impl Sample for Sentinels<Loaded> {
    fn sample(n: u32) -> Self {
        match n % 2 {
            0 => Self::none(),
            _ => Self::new(Vec::new(), Sample::sample(n)),
        }
    }
}

impl Sample for FailureReason {
    fn sample(n: u32) -> Self {
        Self::unknown(bool::sample(n), format!("reason {n}"))
    }
}

impl Sample for UnloadReason {
    fn sample(_: u32) -> Self {
        Self::CodonComplete
    }
}
