//! Table of failures: the words by which each class is recognised, its meaning, and the remedy (AGENT-9, AGENT-30). `classify` looks texts up here.

use super::failure::{FailureKind, FallbackCause};

/// A class of failures, recognised by the words of an agent or a provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ErrorClass {
    /// Name of the class, unique in the table.
    pub id: &'static str,
    /// The agents and providers that are known to use these words.
    pub said_by: &'static str,
    /// Phrases in lower case that match anywhere in a text.
    pub phrases: &'static [&'static str],
    /// Codes that match as whole words only, so that `5000` is no status 500.
    pub codes: &'static [&'static str],
    /// Kind of failure in a record.
    pub kind: FailureKind,
    /// Whether another attempt may help.
    pub retriable: bool,
    /// Cause for which another agent or model may succeed; `None` where the request, the key or the conversation is at fault.
    pub fallback: Option<FallbackCause>,
    /// Description for people; fits after "what it is:".
    pub words: &'static str,
    /// Remedy: a command, or a key for the codon.
    pub hint: &'static str,
}

/// Form in which a text names a time to wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct WaitHint {
    /// Text in front of the number, in lower case.
    pub before: &'static str,
    /// The agents and providers that are known to use this form.
    pub said_by: &'static str,
    /// Unit of a bare number, in milliseconds.
    pub bare_ms: u32,
}

/// Hint for failures that another attempt may overcome.
const AGAIN: &str = r#""onFailure": "retry" in the codon"#;
/// Hint for a missing or wrong key.
const KEYS: &str = "hankweave doctor";

impl ErrorClass {
    /// Returns the class of a text; `None` for unknown words.
    #[must_use]
    pub fn of(text: &str) -> Option<&'static Self> {
        let text = text.to_lowercase();
        CLASSES.iter().find(|class| class.matches(&text))
    }

    /// Whether a text in lower case has a phrase or code of this class.
    pub(super) fn matches(&self, text: &str) -> bool {
        self.phrases.iter().any(|phrase| text.contains(phrase))
            || self.codes.iter().any(|code| has_word(text, code))
    }
}

fn has_word(text: &str, word: &str) -> bool {
    text.split(|separator: char| !separator.is_ascii_alphanumeric())
        .any(|part| part == word)
}

/// Class: the conversation no longer fits, or claude gave up on an answer which its output limit had cut again and again (AGENT-11).
pub(super) const CONTEXT: ErrorClass = ErrorClass {
    id: "context",
    said_by: "claude, codex, pi, Anthropic, OpenAI",
    phrases: &[
        "prompt is too long",
        "prompt_too_long",
        "context_length_exceeded",
        "context window is full",
        "ran out of room in the model's context",
        "maximum context length",
        "exceed context limit",
        "output token maximum",
    ],
    codes: &[],
    kind: FailureKind::ApiError,
    retriable: false,
    fallback: None,
    words: "the conversation no longer fits into the context of the model",
    hint: r#""autoCompact": true in the codon"#,
};

/// All classes. The order matters: the first class that matches decides.
pub const CLASSES: &[ErrorClass] = &[
    ErrorClass {
        id: "rate-limit",
        said_by: "everybody",
        phrases: &[
            "rate limit",
            "rate-limit",
            "rate_limit",
            "ratelimit",
            "too many requests",
        ],
        codes: &[],
        kind: FailureKind::RateLimit,
        retriable: true,
        fallback: Some(FallbackCause::UsageLimit),
        words: "the provider asks to slow down",
        hint: AGAIN,
    },
    ErrorClass {
        id: "resource-exhausted",
        said_by: "Google",
        phrases: &["resource_exhausted", "resource has been exhausted"],
        codes: &[],
        kind: FailureKind::RateLimit,
        retriable: true,
        fallback: Some(FallbackCause::UsageLimit),
        words: "the quota of the key is used up for now",
        hint: AGAIN,
    },
    ErrorClass {
        id: "session-limit",
        said_by: "claude",
        phrases: &["hit your limit", "hour limit reached"],
        codes: &[],
        kind: FailureKind::RateLimit,
        retriable: true,
        fallback: Some(FallbackCause::UsageLimit),
        words: "the limit of the subscription is used up until it resets",
        hint: "hankweave run",
    },
    ErrorClass {
        id: "usage-limit",
        said_by: "claude, codex",
        phrases: &["usage limit"],
        codes: &[],
        kind: FailureKind::ApiError,
        retriable: false,
        fallback: Some(FallbackCause::UsageLimit),
        words: "the limit of the subscription is used up",
        hint: "hankweave run",
    },
    ErrorClass {
        id: "billing",
        said_by: "everybody",
        phrases: &[
            "credit",
            "billing",
            "insufficient",
            "quota",
            "available balance",
            "out of budget",
        ],
        codes: &[],
        kind: FailureKind::ApiError,
        retriable: false,
        fallback: Some(FallbackCause::UsageLimit),
        words: "the provider wants to be paid first",
        hint: "hankweave run",
    },
    ErrorClass {
        id: "timeout",
        said_by: "everybody",
        phrases: &["timeout", "timed out"],
        codes: &[],
        kind: FailureKind::Timeout,
        retriable: true,
        fallback: Some(FallbackCause::Outage),
        words: "a request took too long",
        hint: AGAIN,
    },
    ErrorClass {
        id: "authentication",
        said_by: "everybody",
        phrases: &["authentication", "unauthorized", "forbidden", "api key", "oauth"],
        codes: &["401", "403"],
        kind: FailureKind::ApiError,
        retriable: false,
        fallback: None,
        words: "the provider does not take the key",
        hint: KEYS,
    },
    CONTEXT,
    // Not retriable: the same request would get the same answer, and be paid for again.
    ErrorClass {
        id: "incomplete-answer",
        said_by: "codex, OpenAI",
        phrases: &["incomplete response returned", "max_output_tokens"],
        codes: &[],
        kind: FailureKind::ApiError,
        retriable: false,
        fallback: None,
        words: "the provider ended the answer early, at its output limit or by a filter",
        hint: "hankweave logs",
    },
    ErrorClass {
        id: "bad-request",
        said_by: "everybody",
        phrases: &["invalid request", "invalid_request"],
        codes: &["400"],
        kind: FailureKind::ApiError,
        retriable: false,
        fallback: None,
        words: "the provider does not understand the request",
        hint: "hankweave validate",
    },
    ErrorClass {
        id: "unknown-model",
        said_by: "claude, Anthropic, OpenAI",
        phrases: &[
            "issue with the selected model",
            "not_found_error",
            "model_not_found",
        ],
        codes: &["404"],
        kind: FailureKind::ApiError,
        retriable: false,
        fallback: Some(FallbackCause::UnknownModel),
        words: "there is no such model for this key",
        hint: "hankweave prices",
    },
    ErrorClass {
        id: "status-429",
        said_by: "everybody",
        phrases: &[],
        codes: &["429"],
        kind: FailureKind::RateLimit,
        retriable: true,
        fallback: Some(FallbackCause::UsageLimit),
        words: "the provider asks to slow down",
        hint: AGAIN,
    },
    ErrorClass {
        id: "connection",
        said_by: "everybody",
        phrases: &[
            "socket",
            "econn",
            "epipe",
            "enotfound",
            "eai_again",
            "unable to connect",
            "fetch failed",
            "connection reset",
            "connection closed",
            "connection error",
            "network",
            "stream terminated",
        ],
        codes: &[],
        kind: FailureKind::ApiError,
        retriable: true,
        fallback: Some(FallbackCause::Outage),
        words: "the connection to the provider was lost",
        hint: AGAIN,
    },
    ErrorClass {
        id: "overloaded",
        said_by: "everybody",
        phrases: &[
            "overloaded",
            "internal server error",
            "bad gateway",
            "service unavailable",
            "experiencing high demand",
        ],
        codes: &["500", "502", "503", "504", "529"],
        kind: FailureKind::ApiError,
        retriable: true,
        fallback: Some(FallbackCause::Outage),
        words: "the provider has too much to do, or is broken",
        hint: AGAIN,
    },
];

/// All forms. The order matters: the first form that a text has, with a time after it, decides.
pub const WAIT_HINTS: &[WaitHint] = &[
    WaitHint {
        before: "retry-after-ms",
        said_by: "OpenAI",
        bare_ms: 1,
    },
    WaitHint {
        before: "retry_after_ms",
        said_by: "OpenAI",
        bare_ms: 1,
    },
    WaitHint {
        before: "retry-after",
        said_by: "Anthropic, OpenAI",
        bare_ms: 1_000,
    },
    WaitHint {
        before: "retry_after",
        said_by: "Anthropic, OpenRouter",
        bare_ms: 1_000,
    },
    WaitHint {
        before: "retrydelay",
        said_by: "Google",
        bare_ms: 1_000,
    },
    WaitHint {
        before: "quota will reset after",
        said_by: "Google",
        bare_ms: 1_000,
    },
    WaitHint {
        before: "retry",
        said_by: "Google, pi",
        bare_ms: 1_000,
    },
    WaitHint {
        before: "try again",
        said_by: "OpenAI, codex",
        bare_ms: 1_000,
    },
    WaitHint {
        before: "wait",
        said_by: "everybody",
        bare_ms: 1_000,
    },
];
