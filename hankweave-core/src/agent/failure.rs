//! Why a codon failed, as the state file records it.

use serde::{Deserialize, Serialize};

/// The five kinds of failure ("state model", section 3). Where a codon failed is told by `failedDuring`, not here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FailureKind {
    /// A request or a connection timed out.
    Timeout,
    /// The provider limits the rate of requests.
    RateLimit,
    /// The provider refused or failed a request in another way.
    ApiError,
    /// A sentinel that the codon requires did not load.
    SentinelLoadFailure,
    /// Everything else: rig set-up, spawning, a forced stop, a crash of the server.
    Unknown,
}

/// Why a codon failed and whether another try can help.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FailureReason {
    /// The kind of failure.
    #[serde(rename = "type")]
    pub kind: FailureKind,
    /// Whether the same codon may succeed when it is run again unchanged.
    pub retriable: bool,
    /// What happened, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The sentinels that did not load, for [`FailureKind::SentinelLoadFailure`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sentinel_refs: Option<Vec<String>>,
    /// Names that other versions wrote; kept as they are.
    #[serde(flatten)]
    pub extra: crate::machine::Extra,
}

impl FailureReason {
    /// A failure that is none of an agent's API, such as a failed rig or a forced stop.
    pub fn unknown(retriable: bool, message: impl Into<String>) -> Self {
        Self {
            kind: FailureKind::Unknown,
            retriable,
            message: Some(message.into()),
            sentinel_refs: None,
            extra: Default::default(),
        }
    }
}
