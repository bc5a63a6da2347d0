//! What a failure text means: its kind, whether to try again, and how long to wait first.
//!
//! Rows of a table are tried in order; the first that matches decides (AGENT-9).

use std::time::Duration;

use super::failure::{FailureKind, FailureReason};
use super::outcome::ProcessExit;

/// The meaning of a failure text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Classification {
    /// The sort of failure.
    pub kind: FailureKind,
    /// Whether another try may succeed.
    pub retriable: bool,
    /// How long the text asks to wait, at most a day.
    pub retry_after: Option<Duration>,
}

/// Classifies `text`, the words of an agent or a provider; blank text means that there are none.
///
/// `had_session` says whether the agent got as far as having a session: without one, a failure nobody knows
/// is taken for a wrong set-up, and not tried again (AGENT-10).
#[must_use]
pub fn classify(text: &str, had_session: bool) -> Classification {
    let text = text.to_lowercase();
    let (kind, retriable) = if text.trim().is_empty() {
        (FailureKind::Unknown, had_session)
    } else {
        TABLE
            .iter()
            .find(|row| row.matches(&text))
            .map_or((FailureKind::ApiError, had_session), |row| {
                (row.kind, row.retriable)
            })
    };
    Classification {
        kind,
        retriable,
        retry_after: retry_hint(&text),
    }
}

/// Why an agent has failed that said these `words`; people read `message`.
pub(super) fn reason(
    words: &str,
    message: String,
    had_session: bool,
    context_exceeded: bool,
) -> FailureReason {
    let class = classify(words, had_session);
    let millis = |wait: Duration| u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
    FailureReason {
        kind: class.kind,
        retry_after_ms: class.retry_after.map(millis),
        ..FailureReason::unknown(class.retriable && !context_exceeded, message)
    }
}

/// The words that tell why an agent ended without a result, and what people should read.
pub(super) fn without_result(exit: ProcessExit, stderr: &str, had_session: bool) -> (&str, String) {
    let stderr = stderr.trim();
    if !stderr.is_empty() && !exit.is_success() {
        return (stderr, format!("the agent {exit}: {stderr}"));
    }
    let missing = if had_session { "a result" } else { "a session" };
    ("", format!("the agent {exit} without reporting {missing}"))
}

/// Whether `text` says that the conversation no longer fits into the model's context, or that claude gave up on an answer which its output
/// limit had cut again and again (AGENT-11).
#[must_use]
pub fn is_context_exceeded(text: &str) -> bool {
    const PHRASES: &[&str] = &[
        "prompt is too long",
        "prompt_too_long",
        "context_length_exceeded",
        "context window is full",
        "ran out of room in the model's context",
        "maximum context length",
        "exceed context limit",
        "output token maximum",
    ];
    let text = text.to_lowercase();
    PHRASES.iter().any(|phrase| text.contains(phrase))
}

struct Row {
    /// Match anywhere in the text.
    phrases: &'static [&'static str],
    /// Match as whole words only, so that `5000` is no status 500.
    codes: &'static [&'static str],
    kind: FailureKind,
    retriable: bool,
}

impl Row {
    fn matches(&self, text: &str) -> bool {
        self.phrases.iter().any(|phrase| text.contains(phrase))
            || self.codes.iter().any(|code| has_word(text, code))
    }
}

const TABLE: &[Row] = &[
    Row {
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
    },
    Row {
        phrases: &[
            "credit",
            "billing",
            "insufficient",
            "quota",
            "usage limit",
            "available balance",
            "out of budget",
        ],
        codes: &[],
        kind: FailureKind::ApiError,
        retriable: false,
    },
    Row {
        phrases: &["timeout", "timed out"],
        codes: &[],
        kind: FailureKind::Timeout,
        retriable: true,
    },
    Row {
        phrases: &["authentication", "unauthorized", "forbidden", "api key", "oauth"],
        codes: &["401", "403"],
        kind: FailureKind::ApiError,
        retriable: false,
    },
    Row {
        phrases: &["invalid request", "invalid_request", "prompt is too long"],
        codes: &["400"],
        kind: FailureKind::ApiError,
        retriable: false,
    },
    // A model that there is not; claude's words and the provider's.
    Row {
        phrases: &[
            "issue with the selected model",
            "not_found_error",
            "model_not_found",
        ],
        codes: &["404"],
        kind: FailureKind::ApiError,
        retriable: false,
    },
    Row {
        phrases: &[],
        codes: &["429"],
        kind: FailureKind::RateLimit,
        retriable: true,
    },
    Row {
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
    },
    Row {
        phrases: &[
            "overloaded",
            "internal server error",
            "bad gateway",
            "service unavailable",
        ],
        codes: &["500", "502", "503", "504", "529"],
        kind: FailureKind::ApiError,
        retriable: true,
    },
];

fn has_word(text: &str, word: &str) -> bool {
    text.split(|separator: char| !separator.is_ascii_alphanumeric())
        .any(|part| part == word)
}

const LONGEST_HINT: Duration = Duration::from_secs(24 * 60 * 60);

/// Reads `retry-after: 30`, `retry-after-ms=1500`, `try again in 2 minutes` and the like. A bare number is seconds;
/// dates, clock times and unknown units are no hint.
fn retry_hint(lower_case: &str) -> Option<Duration> {
    const FIELDS: &[(&str, f64)] = &[
        ("retry-after-ms", 0.001),
        ("retry_after_ms", 0.001),
        ("retry-after", 1.0),
        ("retry_after", 1.0),
    ];
    const WORDS: &[&str] = &["retry", "try again", "wait"];
    let field = FIELDS.iter().find_map(|(name, scale)| {
        let rest = after(lower_case, name)?;
        wait(rest.trim_start_matches(['"', '\'', ':', '=', ' ']), *scale)
    });
    field.or_else(|| {
        WORDS.iter().find_map(|word| {
            let rest = after(lower_case, word)?;
            let rest = [" again", " after", " in", " for", " at least"]
                .iter()
                .fold(rest, |rest, filler| rest.strip_prefix(filler).unwrap_or(rest));
            wait(rest.strip_prefix(' ')?, 1.0)
        })
    })
}

fn after<'a>(text: &'a str, word: &str) -> Option<&'a str> {
    Some(text.split_once(word)?.1)
}

/// The duration at the start of `text`: digits and perhaps a unit; a bare number counts in units of `scale` seconds.
fn wait(text: &str, scale: f64) -> Option<Duration> {
    let digits = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, rest) = text.split_at(digits);
    let number: f64 = number.trim_end_matches('.').parse().ok()?;
    let unit_text = rest.trim_start_matches(' ');
    let unit: String = unit_text.chars().take_while(char::is_ascii_alphabetic).collect();
    let seconds = match unit.as_str() {
        "" if matches!(unit_text.chars().next(), Some(':' | '-' | '/')) => return None,
        "" => scale,
        "ms" | "millisecond" | "milliseconds" => 0.001,
        "s" | "sec" | "secs" | "second" | "seconds" => 1.0,
        "m" | "min" | "mins" | "minute" | "minutes" => 60.0,
        _ => return None,
    };
    let duration = Duration::try_from_secs_f64(number * seconds).ok()?;
    Some(duration.min(LONGEST_HINT))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, kind: FailureKind, retriable: bool) {
        let found = classify(text, true);
        assert_eq!((found.kind, found.retriable), (kind, retriable), "{text}");
    }

    #[test]
    fn the_first_matching_row_decides() {
        check(
            "Rate limit reached for your billing tier",
            FailureKind::RateLimit,
            true,
        );
        check("Your credit balance is too low", FailureKind::ApiError, false);
        check("quota exceeded, request timed out", FailureKind::ApiError, false);
        check("API Error: Request timed out.", FailureKind::Timeout, true);
        check(
            "Invalid API key · Fix external API key",
            FailureKind::ApiError,
            false,
        );
        check("Prompt is too long", FailureKind::ApiError, false);
        check("HTTP 429", FailureKind::RateLimit, true);
        check("read ECONNRESET", FailureKind::ApiError, true);
        check("status 529: overloaded_error", FailureKind::ApiError, true);
        check("something odd", FailureKind::ApiError, true);
        check("  ", FailureKind::Unknown, true);
    }

    /// Every text of every row, in its order (AGENT-9).
    const DOCUMENTED: &[(&[&str], FailureKind, bool)] = &[
        (&["rate limit"], FailureKind::RateLimit, true),
        (
            &[
                "credit",
                "billing",
                "insufficient",
                "quota",
                "usage limit",
                "available balance",
                "out of budget",
            ],
            FailureKind::ApiError,
            false,
        ),
        (&["timeout", "timed out"], FailureKind::Timeout, true),
        (
            &[
                "401",
                "403",
                "authentication",
                "unauthorized",
                "forbidden",
                "API key",
                "OAuth",
            ],
            FailureKind::ApiError,
            false,
        ),
        (
            &["400", "invalid request", "prompt is too long"],
            FailureKind::ApiError,
            false,
        ),
        (&["429"], FailureKind::RateLimit, true),
        (
            &[
                "socket",
                "ECONNRESET",
                "ECONNREFUSED",
                "EPIPE",
                "ENOTFOUND",
                "EAI_AGAIN",
                "Unable to connect",
                "fetch failed",
                "connection reset",
                "connection closed",
                "connection error",
                "network",
                "stream terminated",
            ],
            FailureKind::ApiError,
            true,
        ),
        (
            &[
                "500",
                "502",
                "503",
                "504",
                "529",
                "overloaded",
                "internal server error",
                "bad gateway",
                "service unavailable",
            ],
            FailureKind::ApiError,
            true,
        ),
    ];

    // covers: AGENT-9
    #[test]
    fn every_text_of_every_row_means_what_is_documented_and_earlier_rows_win() {
        for (index, (texts, kind, retriable)) in DOCUMENTED.iter().enumerate() {
            let later = DOCUMENTED[index..].iter().flat_map(|(texts, ..)| texts.iter());
            for (text, other) in texts
                .iter()
                .flat_map(|text| later.clone().map(move |other| (text, other)))
            {
                check(&format!("it said: {other}, then {text}."), *kind, *retriable);
            }
        }
    }

    #[test]
    fn a_model_that_there_is_not_is_not_asked_again() {
        for text in [
            "There's an issue with the selected model (nine). It may not exist or you may not have access to it. (status 404)",
            "404 {\"type\":\"error\",\"error\":{\"type\":\"not_found_error\",\"message\":\"model: nine\"}}",
        ] {
            check(text, FailureKind::ApiError, false);
        }
    }

    // covers: AGENT-9
    #[test]
    fn status_codes_match_as_whole_words() {
        check("API Error: 401 refused", FailureKind::ApiError, false);
        check("wrote 14010 bytes", FailureKind::ApiError, true);
    }

    // covers: AGENT-10
    #[test]
    fn without_a_session_an_unknown_failure_is_not_tried_again() {
        assert!(!classify("something odd", false).retriable);
        assert!(!classify("", false).retriable);
        assert!(classify("503", false).retriable);
    }

    #[track_caller]
    fn hint(text: &str, milliseconds: Option<u64>) {
        let found = classify(text, true).retry_after;
        assert_eq!(found, milliseconds.map(Duration::from_millis), "{text}");
    }

    // covers: AGENT-9
    #[test]
    fn a_text_may_say_how_long_to_wait() {
        hint("429, Retry-After: 30", Some(30_000));
        hint("{\"retry_after\":2.5}", Some(2_500));
        hint("retry-after-ms=1500", Some(1_500));
        hint("please try again in 2 minutes.", Some(120_000));
        hint("wait 250ms", Some(250));
        hint("retry in 7s", Some(7_000));
        hint("Retry after 20 seconds", Some(20_000));
        hint("try again in 99999999 min", Some(86_400_000));
    }

    #[test]
    fn dates_clock_times_and_unknown_units_are_no_hint() {
        hint("Retry-After: Fri, 21 Nov 2026", None);
        hint("try again at 10:30", None);
        hint("retry in 10:30", None);
        hint("retry after 2026-11-21", None);
        hint("wait 3 fortnights", None);
        hint("no hint at all", None);
    }
}
