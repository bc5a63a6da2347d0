//! Why something failed, as the state document records it (STATE-11).

use serde::{Deserialize, Serialize};

use super::error_class::ErrorClass;
use crate::machine::Extra;
use crate::shape::Shape;
use crate::time::Timestamp;

/// The reason of a failed codon.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Shape)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct FailureReason {
    /// Kind of failure; JSON `type`.
    #[serde(rename = "type")]
    pub kind: FailureKind,
    /// Whether another attempt may help.
    pub retriable: bool,
    /// Message for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// How long the provider asks to wait before another attempt, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
    /// When the provider's usage limit ends that was used up; a name of our own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_at: Option<Timestamp>,
    /// The codon was stopped together with its run, so the failure is not the codon's; a name of our own, written only when it holds.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub interrupted: bool,
    /// Cause of an interruption; our own key, absent in records of older versions, which only knew a stop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interrupted_by: Option<InterruptedBy>,
    /// The sentinels that did not load, as hank.json names them; only for `sentinel-load-failure`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sentinel_refs: Option<Vec<String>>,
    /// Names that other versions wrote; kept as they are.
    #[serde(flatten)]
    #[cfg_attr(feature = "schema", schemars(skip))]
    pub extra: Extra,
}

/// Recorded message of a codon whose hankweave process ended without recording a reason.
pub(crate) const CRASHED: &str = "Server crashed";
/// Words for people in place of [`CRASHED`].
pub(crate) const CRASHED_IN_WORDS: &str = "its process ended without recording why";

/// Removes the seconds since 1970 from claude's `usage limit reached|1795449600`: people read the time in [`FailureReason::retry_at`].
fn without_moment(message: String) -> String {
    match message.split_once("limit reached|") {
        Some((head, rest)) => {
            let rest = rest.trim_start_matches(|c: char| c.is_ascii_digit());
            format!("{head}limit reached{rest}")
        }
        None => message,
    }
}

impl FailureReason {
    /// Returns the message for people.
    #[must_use]
    pub fn words(&self) -> Option<&str> {
        match self.message.as_deref() {
            Some(CRASHED) => Some(CRASHED_IN_WORDS),
            message => message,
        }
    }

    /// Returns a failure that did not come from an agent's provider, such as a failed rig or a forced stop.
    pub fn unknown(retriable: bool, message: impl Into<String>) -> Self {
        Self {
            kind: FailureKind::Unknown,
            retriable,
            message: Some(message.into()),
            retry_after_ms: None,
            retry_at: None,
            interrupted: false,
            interrupted_by: None,
            sentinel_refs: None,
            extra: Extra::default(),
        }
    }

    /// Returns the failure as a usage limit that ends at `ends_at`, which is not the codon's fault.
    #[must_use]
    pub fn limited_until(self, ends_at: Timestamp) -> Self {
        Self {
            kind: FailureKind::RateLimit,
            retriable: true,
            retry_at: Some(ends_at),
            interrupted: true,
            interrupted_by: Some(InterruptedBy::UsageLimit),
            message: self.message.map(without_moment),
            ..self
        }
    }

    /// Returns the reason of an interrupted codon: nothing is wrong with the codon, so it can continue.
    pub fn interrupted(by: InterruptedBy, message: impl Into<String>) -> Self {
        Self {
            interrupted: true,
            interrupted_by: Some(by),
            ..Self::unknown(true, message)
        }
    }

    /// Returns the cause for which another agent or model may succeed; `None` for failures of the codon itself.
    #[must_use]
    pub fn fallback_cause(&self) -> Option<FallbackCause> {
        if self.retry_at.is_some() {
            return Some(FallbackCause::UsageLimit);
        }
        let is_of_provider = matches!(
            self.kind,
            FailureKind::Timeout | FailureKind::RateLimit | FailureKind::ApiError
        );
        if !is_of_provider || self.interrupted {
            return None;
        }
        let of_words = self.message.as_deref().and_then(ErrorClass::of);
        let of_kind = match self.kind {
            FailureKind::Timeout => Some(FallbackCause::Outage),
            FailureKind::RateLimit => Some(FallbackCause::UsageLimit),
            _ => None,
        };
        // A known class decides even if it allows no fallback; the kind is the answer only for unknown words.
        of_words.map_or(of_kind, |class| class.fallback)
    }

    /// Returns the cause of the interruption, if the codon was interrupted.
    #[must_use]
    pub fn interruption(&self) -> Option<InterruptedBy> {
        self.interrupted
            .then(|| self.interrupted_by.unwrap_or(InterruptedBy::Stop))
    }
}

/// Cause for which another agent or model takes a codon over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, Shape)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum FallbackCause {
    /// The provider takes no more requests of this account, for now or until it is paid.
    UsageLimit,
    /// The provider cannot be reached, is overloaded or does not answer.
    Outage,
    /// The provider has no such model for this key.
    UnknownModel,
}

/// Cause of an interruption of a run or codon without a fault: both can continue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, Shape)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum InterruptedBy {
    /// Stopped by a command, a client or a signal.
    Stop,
    /// A limit was reached, and the run pauses until it is raised.
    Ceiling,
    /// The provider takes no more requests until a later time.
    UsageLimit,
    /// The user has to approve what comes next, or has denied it.
    Approval,
    /// A sentinel asked for a pause.
    Sentinel,
    /// The agent could not continue its session, so the codon starts again.
    LostSession,
    /// A loop repeats itself: nothing changed, and its check printed what it had printed before.
    Stuck,
    /// The record takes as much room as it may.
    Disk,
}

impl InterruptedBy {
    /// Returns whether the next run continues by itself where this one paused, in the session of its agent. After a stop the user may want something
    /// else.
    #[must_use]
    pub const fn is_pause(self) -> bool {
        matches!(
            self,
            Self::Ceiling | Self::UsageLimit | Self::Approval | Self::Sentinel | Self::Stuck | Self::Disk
        )
    }
}

/// The five sorts of failures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, Shape)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum FailureKind {
    /// A request or a connection took too long.
    Timeout,
    /// The provider asked to slow down.
    RateLimit,
    /// Any other failure of the provider.
    ApiError,
    /// A required sentinel did not load.
    SentinelLoadFailure,
    /// Everything else: rig failures, forced stops, a missing session, a crash of the server.
    Unknown,
}

#[cfg(test)]
mod tests {
    use super::*;

    // covers: AGENT-12
    #[test]
    fn a_usage_limit_has_its_end_beside_the_words_and_not_among_them() {
        let ends_at = Timestamp::parse("2026-11-23T16:00:00Z").unwrap();
        for (said, shown) in [
            (
                "Claude AI usage limit reached|1795449600",
                "Claude AI usage limit reached",
            ),
            (
                "x limit reached|1795449600 (status 429)",
                "x limit reached (status 429)",
            ),
            ("resets 4pm", "resets 4pm"),
        ] {
            let limited = FailureReason::unknown(false, said).limited_until(ends_at);
            assert_eq!(limited.message.as_deref(), Some(shown));
        }
    }

    // covers: STATE-11
    #[test]
    fn a_reason_has_the_documented_json_form() {
        let reason = FailureReason {
            kind: FailureKind::SentinelLoadFailure,
            retriable: false,
            message: None,
            retry_after_ms: Some(1_500),
            retry_at: None,
            interrupted: false,
            interrupted_by: None,
            sentinel_refs: Some(vec!["watch.json".to_owned()]),
            extra: Extra::default(),
        };
        let json = r#"{"type":"sentinel-load-failure","retriable":false,"retryAfterMs":1500,"sentinelRefs":["watch.json"]}"#;
        assert_eq!(serde_json::to_string(&reason).unwrap(), json);
        assert_eq!(serde_json::from_str::<FailureReason>(json).unwrap(), reason);
    }

    #[test]
    fn null_and_absent_are_the_same() {
        let json = r#"{"type":"rate-limit","retriable":true,"message":null,"later":1}"#;
        let reason: FailureReason = serde_json::from_str(json).unwrap();
        assert_eq!((reason.kind, reason.message), (FailureKind::RateLimit, None));
    }
}
