//! Meaning of a failure text: its kind, whether to retry, and how long to wait first.
//!
//! All meanings of words are in the table of [`ErrorClass`]es; the first class that matches decides (AGENT-9).

use std::time::Duration;

use super::error_class::{CONTEXT, ErrorClass, WAIT_HINTS};
use super::failure::{FailureKind, FailureReason};
use super::outcome::{ProcessExit, Verdict};

/// Words by which a line of standard error is taken for the cause, in lower case.
const ERROR_WORDS: [&str; 4] = ["error", "fatal", "panicked", "failed"];

/// Maximum length of the part of standard error that a message repeats, in bytes.
const MOST_STDERR_BYTES: usize = 1_000;

/// The meaning of a failure text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Classification {
    /// The sort of failure.
    pub kind: FailureKind,
    /// Whether another attempt may succeed.
    pub retriable: bool,
    /// How long the text asks to wait, at most a day.
    pub retry_after: Option<Duration>,
}

/// Classifies `text`, the words of an agent or a provider; blank text means that there are none.
///
/// `had_session` says whether the agent got as far as having a session. Without one, an unknown failure counts as a wrong set-up and is not retried
/// (AGENT-10).
#[must_use]
pub fn classify(text: &str, had_session: bool) -> Classification {
    let (kind, retriable) = match ErrorClass::of(text) {
        _ if text.trim().is_empty() => (FailureKind::Unknown, had_session),
        Some(class) => (class.kind, class.retriable),
        None => (FailureKind::ApiError, had_session),
    };
    Classification {
        kind,
        retriable,
        retry_after: retry_hint(&text.to_lowercase()).map(|hint| hint.min(LONGEST_HINT)),
    }
}

/// Returns the reason of a failure from the agent's `words`; people read `message`.
pub fn reason(words: &str, message: String, had_session: bool, context_exceeded: bool) -> FailureReason {
    let class = classify(words, had_session);
    let millis = |wait: Duration| u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
    FailureReason {
        kind: class.kind,
        retry_after_ms: class.retry_after.map(millis),
        ..FailureReason::unknown(class.retriable && !context_exceeded, message)
    }
}

/// Returns the failure of an agent from its `words`; people read `message`.
pub fn failure(words: &str, message: String, had_session: bool) -> Verdict {
    let context_exceeded = is_context_exceeded(words);
    Verdict::Failure {
        reason: reason(words, message, had_session, context_exceeded),
        context_exceeded,
    }
}

/// Returns the text to classify for an agent that ended without a result, and the message for people.
pub fn without_result(exit: ProcessExit, stderr: &str, had_session: bool) -> (&str, String) {
    let stderr = stderr.trim();
    if !stderr.is_empty() && !exit.is_success() {
        return (stderr, with_stderr(format!("the agent {exit}"), stderr));
    }
    let missing = if had_session { "a result" } else { "a session" };
    let message = format!("the agent {exit} without reporting {missing}");
    ("", with_stderr(message, stderr))
}

/// Adds the last lines of standard error to a message that does not show the cause: those lines are recorded nowhere else. The likeliest cause comes
/// first, because a summary shows only the first line.
pub fn with_stderr(message: String, stderr: &str) -> String {
    let stderr = stderr.trim();
    if stderr.is_empty() {
        return message;
    }
    let cut_at = stderr.len().saturating_sub(MOST_STDERR_BYTES);
    let start = (cut_at..).find(|&index| stderr.is_char_boundary(index));
    let end = &stderr[start.unwrap_or_default()..];
    // A cut leaves the first line incomplete, so it is dropped.
    let whole_lines = end.split_once('\n').filter(|_| cut_at > 0);
    let end = whole_lines.map_or(end, |(_, whole_lines)| whole_lines);
    let lines = || end.lines().map(str::trim).filter(|line| !line.is_empty());
    let names_error = |line: &&str| {
        let line = line.to_lowercase();
        ERROR_WORDS.iter().any(|word| line.contains(word))
    };
    match lines().rfind(names_error).or(lines().next_back()) {
        Some(cause) if lines().count() > 1 => format!("{message}: {cause}\n{end}"),
        _ => format!("{message}: {end}"),
    }
}

/// Returns whether `text` reports that the conversation no longer fits into the model's context, or that claude gave up on an answer which its
/// output limit had cut again and again (AGENT-11).
#[must_use]
pub fn is_context_exceeded(text: &str) -> bool {
    CONTEXT.matches(&text.to_lowercase())
}

/// Longest time to wait; a longer hint is cut to this.
const LONGEST_HINT: Duration = Duration::from_secs(24 * 60 * 60);

/// Reads `retry-after: 30`, `retry-after-ms=1500`, `try again in 2 minutes`, `"retryDelay": "38s"` and the like (AGENT-30). Dates, clock times and
/// unknown units are no hint.
fn retry_hint(lower_case: &str) -> Option<Duration> {
    WAIT_HINTS.iter().find_map(|hint| {
        let (_, rest) = lower_case.split_once(hint.before)?;
        let rest = [" again", " after", " in", " for", " at least"]
            .iter()
            .fold(rest, |rest, filler| rest.strip_prefix(filler).unwrap_or(rest));
        let time = rest.trim_start_matches(['"', '\'', ':', '=', ' ']);
        // Without a separator, the words are only the beginning of a longer word.
        if time.len() == rest.len() {
            return None;
        }
        wait(time, hint.bare_ms)
    })
}

/// Returns the time at the start of `text`: numbers with units, such as `1h2m3s` or `2 hours 5 minutes`, or one number without a unit, which is
/// multiplied by `bare_ms` milliseconds.
pub fn wait(text: &str, bare_ms: u32) -> Option<Duration> {
    let mut parts = UnitScanner(text);
    let (first, unit) = parts.next()?;
    let mut seconds = match unit {
        Unit::None => return Duration::try_from_secs_f64(first * f64::from(bare_ms) / 1_000.0).ok(),
        Unit::Seconds(scale) => first * scale,
        Unit::Unknown => return None,
    };
    while let Some((more, Unit::Seconds(scale))) = parts.next() {
        seconds += more * scale;
    }
    Duration::try_from_secs_f64(seconds).ok()
}

/// Unit of a number.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Unit {
    /// Unit of time, by its length in seconds.
    Seconds(f64),
    /// No unit follows.
    None,
    /// The number is no time to wait; it may be part of a date or a clock time.
    Unknown,
}

/// The numbers at the start of a text, with their units.
struct UnitScanner<'a>(&'a str);

impl Iterator for UnitScanner<'_> {
    type Item = (f64, Unit);

    fn next(&mut self) -> Option<Self::Item> {
        let text = self.0.trim_start_matches(|c: char| c.is_whitespace() || c == ',');
        let text = text.strip_prefix("and ").unwrap_or(text);
        let is_number = |c: char| c.is_ascii_digit() || c == '.';
        let (number, rest) = text.split_at(text.find(|c| !is_number(c)).unwrap_or(text.len()));
        let number: f64 = number.trim_end_matches('.').parse().ok()?;
        let rest = rest.trim_start();
        let end = rest
            .find(|c: char| !c.is_ascii_alphabetic())
            .unwrap_or(rest.len());
        let (unit, rest) = rest.split_at(end);
        self.0 = rest;
        let unit = match unit {
            "" if rest.starts_with([':', '-', '/']) => Unit::Unknown,
            "" => Unit::None,
            "ms" | "millisecond" | "milliseconds" => Unit::Seconds(0.001),
            "s" | "sec" | "secs" | "second" | "seconds" => Unit::Seconds(1.0),
            "m" | "min" | "mins" | "minute" | "minutes" => Unit::Seconds(60.0),
            "h" | "hr" | "hrs" | "hour" | "hours" => Unit::Seconds(3_600.0),
            "d" | "day" | "days" => Unit::Seconds(86_400.0),
            "w" | "week" | "weeks" => Unit::Seconds(604_800.0),
            _ => Unit::Unknown,
        };
        Some((number, unit))
    }
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
        hint("Please try again in 6m0.5s. Visit", Some(360_500));
        hint("Your quota will reset after 4h23m12s.", Some(15_792_000));
        hint("Please retry in 38.2s.", Some(38_200));
        hint("{\"retryDelay\": \"38s\"}", Some(38_000));
        hint("try again in 2 hours 5 minutes.", Some(7_500_000));
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

    // covers: S5
    #[test]
    fn a_message_without_another_cause_has_the_last_lines_of_standard_error() {
        let exited = |code, stderr: &str| without_result(ProcessExit::Exited(code), stderr, true).1;
        assert_eq!(exited(2, "no disk\n"), "the agent exited with code 2: no disk");
        assert_eq!(
            exited(0, " no disk "),
            "the agent exited with code 0 without reporting a result: no disk"
        );
        let trace = "node:1\n  throw x\nError: no such account\n    at x\n\nNode.js v22";
        assert_eq!(
            exited(1, trace),
            format!("the agent exited with code 1: Error: no such account\n{trace}")
        );
        let many = "line é\n".repeat(10_000) + "the cause";
        let message = exited(1, &many);
        assert!(
            message.len() < 1_100 && message.ends_with("line é\nthe cause"),
            "{message}"
        );
        assert!(
            message.starts_with("the agent exited with code 1: the cause\nline é"),
            "{message}"
        );
        let one = exited(1, &"é".repeat(10_000));
        assert!(one.len() < 1_100 && one.ends_with("éé"), "{one}");
    }
}
