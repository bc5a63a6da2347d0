//! What all variants have in common: types of fields, and the values of one walk.

use serde::{Deserialize, Serialize};

/// Sentinels at work.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Loaded(pub Vec<String>);

/// Sentinels that are done.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Executed(pub Vec<String>);

impl From<Loaded> for Executed {
    fn from(loaded: Loaded) -> Self {
        Self(loaded.0)
    }
}

/// Every value that a walk hands to the machine.
pub struct Input {
    pub codon_id: String,
    pub start_time: i64,
    pub rig_setup_checkpoint: Option<String>,
    pub sentinels: Loaded,
    pub claude_pid: u32,
    pub claude_log_path: String,
    pub previous_session_id: Option<String>,
    pub claude_session_id: String,
    pub cost: u64,
    pub tokens: u64,
    pub messages: u32,
    pub end_time: i64,
    pub completion_checkpoint: String,
}

impl Input {
    /// The values of walk number `n`. Texts are made again, as they are where a machine is used.
    #[inline(never)]
    pub fn new(n: u64) -> Self {
        Self {
            codon_id: "build#0".to_owned(),
            start_time: 1_736_000_000_000,
            rig_setup_checkpoint: Some("4b825dc642cb6eb9a060e54bf8d69288fbee4904".to_owned()),
            sentinels: Loaded(vec!["cost".to_owned()]),
            claude_pid: 4711,
            claude_log_path: "runs/1/build-0.log".to_owned(),
            previous_session_id: None,
            claude_session_id: "6f1c2d1e-0000-4000-8000-000000000001".to_owned(),
            cost: n,
            tokens: 900,
            messages: 12,
            end_time: 1_736_000_060_000,
            completion_checkpoint: "9c1185a5c5e9fc54612808977ee8f548b2258d31".to_owned(),
        }
    }
}

/// What a walk is judged by, so that no part of it can be left out.
#[inline(never)]
pub fn sum(rig: &Option<String>, session: &str, sentinels: &Executed, checkpoint: &str, cost: u64) -> u64 {
    let texts = [rig.as_deref().unwrap_or_default(), session, checkpoint];
    let lengths = texts.map(str::len).iter().sum::<usize>() + sentinels.0.len();
    cost + lengths as u64
}
