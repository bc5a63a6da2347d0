//! Why something failed, as the state document records it.

use serde::{Deserialize, Serialize};

use crate::machine::Extra;

/// The reason of a failed codon.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct FailureReason {
    /// What sort of failure it was; JSON `type`.
    #[serde(rename = "type")]
    pub kind: FailureKind,
    /// Whether trying the same again may help.
    pub retriable: bool,
    /// What a person should read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// How long the provider asks to wait before another try, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
    /// The codon was stopped together with its run, so this says nothing about the codon; a name of our own, written only when it holds.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub interrupted: bool,
    /// The sentinels that did not load, as hank.json names them; only for `sentinel-load-failure`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sentinel_refs: Option<Vec<String>>,
    /// Names that other versions wrote; kept as they are.
    #[serde(flatten)]
    #[cfg_attr(feature = "schema", schemars(skip))]
    pub extra: Extra,
}

impl FailureReason {
    /// A failure that is none of an agent's API, such as a failed rig or a forced stop.
    pub fn unknown(retriable: bool, message: impl Into<String>) -> Self {
        Self {
            kind: FailureKind::Unknown,
            retriable,
            message: Some(message.into()),
            retry_after_ms: None,
            interrupted: false,
            sentinel_refs: None,
            extra: Extra::default(),
        }
    }

    /// The codon was stopped with its run: nothing is wrong with it, so another try makes sense.
    pub fn interrupted(message: impl Into<String>) -> Self {
        Self {
            interrupted: true,
            ..Self::unknown(true, message)
        }
    }
}

/// The five sorts of failures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
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

    #[test]
    fn a_reason_has_the_documented_json_form() {
        let reason = FailureReason {
            kind: FailureKind::SentinelLoadFailure,
            retriable: false,
            message: None,
            retry_after_ms: Some(1_500),
            interrupted: false,
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
