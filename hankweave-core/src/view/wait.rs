//! Waits: for a retry, for the end of a usage limit, for an answer, and while the run is suspended.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::id::CodonId;
use crate::time::{SHORTEST_WAIT, Timestamp};

/// Maximum number of waits that a view lists.
const WAITS: usize = 40;

/// One wait.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct WaitView {
    /// Entry of the plan that waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub item: Option<String>,
    /// Codon as it is executed, such as `build#1`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub codon: Option<CodonId>,
    /// Kind of wait.
    pub kind: WaitKind,
    /// When it started.
    pub from: Timestamp,
    /// When it ends or ended; absent while that is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<Timestamp>,
    /// Reason, cut.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// Answer that ended it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<AnsweredApproval>,
    /// Number of the retry that follows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub n: Option<u64>,
    /// Most retries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of: Option<u64>,
}

/// Kind of wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum WaitKind {
    /// Before another attempt, or another request of the agent.
    Retry,
    /// For work in the background of an agent.
    Background,
    /// For the end of a usage limit.
    Limit,
    /// For the answer of a user.
    Approval,
    /// For the user who suspended the run.
    Suspended,
}

/// Answer of a user to an [`AskedApproval`](super::AskedApproval).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct AnsweredApproval {
    /// Codon that was asked about.
    pub codon: CodonId,
    /// Whether it may start.
    pub granted: bool,
    /// Reason that the user gave, cut.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Name of the client that sent it, or of the user, cut; absent where neither is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    /// When it was recorded.
    pub at: Timestamp,
}

/// Ends the waits of a codon for a retry or a usage limit, because it starts: with another agent, or because the user did not wait longer. A wait for a limit
/// that was shorter than `SHORTEST_WAIT` is removed.
pub(super) fn end_for_start(waits: &mut BTreeMap<u64, WaitView>, codon: &CodonId, at: Timestamp) {
    waits.retain(|_, wait| {
        let is_own =
            matches!(wait.kind, WaitKind::Limit | WaitKind::Retry) && wait.codon.as_ref() == Some(codon);
        if is_own && wait.to.is_none_or(|to| to > at) {
            wait.to = Some(at);
        }
        let is_short = wait.to.is_some_and(|to| to.since(wait.from) < SHORTEST_WAIT);
        !(is_own && is_short && wait.kind == WaitKind::Limit)
    });
}

/// Sets the end of the newest wait, if it is the wait of `codon` for a usage limit; else returns `false`.
pub(super) fn set_end_of_limit(
    waits: &mut BTreeMap<u64, WaitView>,
    codon: Option<&CodonId>,
    to: Option<Timestamp>,
) -> bool {
    let newest = waits.values_mut().next_back();
    let newest = newest.filter(|wait| wait.kind == WaitKind::Limit && wait.codon.as_ref() == codon);
    newest.is_some_and(|wait| {
        wait.to = to.or(wait.to);
        true
    })
}

/// Adds a wait, unless it is the newest one reported again.
pub(super) fn add(waits: &mut BTreeMap<u64, WaitView>, seq: u64, wait: WaitView) {
    let newest = waits.values().next_back();
    let is_listed = newest.is_some_and(|newest| {
        (newest.kind, newest.to, newest.n, &newest.item) == (wait.kind, wait.to, wait.n, &wait.item)
    });
    if is_listed {
        return;
    }
    waits.insert(seq, wait);
    while waits.len() > WAITS {
        waits.pop_first();
    }
}
