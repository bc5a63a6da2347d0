//! Sample values of our own types, for the tests that the machines generate.

use hankweave_core::cost::Usd;
use hankweave_core::machine::Sample;
use serde_json::Value;

use crate::lock::{LockFailure, LockMode};
use crate::task::{NeededBudget, TaskFailure, TaskResult};

impl Sample for TaskResult {
    fn sample(n: u32) -> Self {
        Self {
            success: bool::sample(n),
            status: Sample::sample(n),
            // JSON does not distinguish an absent value from `null`.
            data: Option::<u32>::sample(n).map(Value::from),
            error: Sample::sample(n.wrapping_add(1)),
            message: Sample::sample(n.wrapping_add(2)),
            by_hand: bool::sample(n.wrapping_add(1)),
            extra: Default::default(),
        }
    }
}

impl Sample for TaskFailure {
    fn sample(n: u32) -> Self {
        Self {
            cause: String::sample(n),
            codon_id: Sample::sample(n),
            last_lines: vec![String::sample(n.wrapping_add(1))],
            command: Sample::sample(n.wrapping_add(2)),
            needed: bool::sample(n).then(|| NeededBudget {
                max_dollars: Some(Usd::from_micros(u64::from(n))),
                max_time_seconds: bool::sample(n.wrapping_add(1)).then_some(u64::from(n)),
                ..NeededBudget::default()
            }),
            extra: Default::default(),
        }
    }
}

impl Sample for LockMode {
    fn sample(n: u32) -> Self {
        match n % 2 {
            0 => Self::Exclusive,
            _ => Self::Collaborative,
        }
    }
}

impl Sample for LockFailure {
    fn sample(n: u32) -> Self {
        let text = String::sample(n);
        match n % 3 {
            0 => Self::ResourceLocked { existing_owner: text },
            1 => Self::LockOrder { held: text },
            _ => Self::LockBackendUnavailable { message: text },
        }
    }
}
