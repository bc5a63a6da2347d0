//! What an agent is to hankweave: how it is launched, what it reports, why it fails.

mod failure;

pub use failure::{FailureKind, FailureReason};
