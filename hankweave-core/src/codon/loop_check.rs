//! Result of a loop's check, and how long the loop has only repeated itself; both are noted on the last codon of an iteration (STATE-68).

use serde::{Deserialize, Serialize};

/// Result of the check that ends a loop, after the last codon of an iteration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoopCheck {
    /// Whether the command ended with 0, so that the loop has ended.
    pub passed: bool,
    /// Message for the next iteration: why the check failed, and the end of its output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub says: Option<String>,
    /// Last line of its output, or how the command ended where it printed nothing; absent in records of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_line: Option<String>,
}

/// How long a loop has repeated itself, noted on the last codon of an iteration.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LoopStall {
    /// Number of iterations in a row that changed no file and whose check printed no other text than before.
    pub iterations: u32,
    /// Fingerprint of the output of the loop's check; absent where no check ran.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
}

impl LoopCheck {
    /// Returns the last line of the check's output, or the beginning of its message.
    #[must_use]
    pub fn words(&self) -> Option<&str> {
        let message = || self.says.as_deref()?.lines().find(|line| !line.trim().is_empty());
        self.last_line.as_deref().or_else(message)
    }
}

impl LoopStall {
    /// Returns the stall after one more iteration; `output` is the fingerprint of what its check printed. `before` is the stall after the previous iteration.
    /// Without one, as for the first iteration, there is nothing to repeat.
    #[must_use]
    pub fn after(before: Option<&Self>, changed_nothing: bool, output: Option<String>) -> Self {
        let repeats = before.filter(|before| changed_nothing && before.output == output);
        Self {
            iterations: repeats.map_or(0, |before| before.iterations.saturating_add(1)),
            output,
        }
    }
}

/// Returns the text without durations and times of day, which differ each time by themselves: `ok in 0.31s` and `ok in 0.29s` become equal.
#[must_use]
pub fn without_times(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find(|c: char| c.is_ascii_digit()) {
        let (before, from) = rest.split_at(start);
        plain.push_str(before);
        let is_number = |c: char| c.is_ascii_digit() || matches!(c, '.' | ':' | ',');
        let end = from.find(|c| !is_number(c)).unwrap_or(from.len());
        let (number, after) = from.split_at(end);
        let is_inside_a_word = before.ends_with(|c: char| c.is_alphanumeric() || c == '_');
        let may_be_clock = number.contains(':') && !before.ends_with([':', '/']);
        let is_time = starts_with_time_unit(after) || (may_be_clock && is_time_of_day(number));
        match is_time && !is_inside_a_word {
            true => plain.push('~'),
            false => plain.push_str(number),
        }
        rest = after;
    }
    plain.push_str(rest);
    plain
}

/// Whether the text after a number starts with a unit of time.
fn starts_with_time_unit(after: &str) -> bool {
    // The first letters of the third and fourth unit are different characters: the micro sign and the Greek letter.
    const UNITS: [&str; 15] = [
        "ns", "us", "µs", "μs", "ms", "s", "sec", "secs", "second", "seconds", "m", "min", "mins", "minute",
        "minutes",
    ];
    let after = after.strip_prefix(' ').unwrap_or(after);
    let end = after.find(|c: char| !c.is_alphabetic()).unwrap_or(after.len());
    UNITS.contains(&&after[..end])
}

/// Whether this is `h:mm`, `hh:mm:ss` or the like, and not a line with its column.
fn is_time_of_day(number: &str) -> bool {
    let parts: Vec<&str> = number.trim_end_matches([':', ',', '.']).split(':').collect();
    let digits = |part: &str| part.split(['.', ',']).next().map_or(0, str::len);
    let [hours, minutes @ ..] = parts.as_slice() else {
        return false;
    };
    let has_minutes = matches!(minutes.len(), 1 | 2) && minutes.iter().all(|part| digits(part) == 2);
    has_minutes && matches!(hours.len(), 1 | 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    // covers: STATE-69
    #[test]
    fn durations_and_times_of_day_make_no_difference_and_other_numbers_do() {
        for (one, other) in [
            ("2 failed in 0.31s", "2 failed in 0.29s"),
            ("finished in 1.02 seconds", "finished in 3 seconds"),
            ("[12:04:59] error", "[12:05:01.250] error"),
            ("took 1m 2s", "took 2m 31s"),
        ] {
            assert_eq!(without_times(one), without_times(other), "{one}");
        }
        for (one, other) in [
            ("2 failed", "1 failed"),
            ("src/a.rs:12:5: error", "src/a.rs:13:5: error"),
            ("expected 5, got 7", "expected 5, got 8"),
            ("4 sheep", "5 sheep"),
        ] {
            assert_ne!(without_times(one), without_times(other), "{one}");
        }
        assert_eq!(without_times("exit 1"), "exit 1");
    }

    // covers: STATE-69
    #[test]
    fn an_iteration_repeats_another_only_without_a_change_and_with_the_same_output() {
        let output = |text: &str| Some(text.to_owned());
        let first = LoopStall::after(None, true, output("x"));
        assert_eq!(first.iterations, 0, "it repeats nothing yet");
        let second = LoopStall::after(Some(&first), true, output("x"));
        let third = LoopStall::after(Some(&second), true, output("x"));
        assert_eq!((second.iterations, third.iterations), (1, 2));
        assert_eq!(LoopStall::after(Some(&third), false, output("x")).iterations, 0);
        assert_eq!(LoopStall::after(Some(&third), true, output("y")).iterations, 0);
        assert_eq!(LoopStall::after(Some(&third), true, output("x")).iterations, 3);
    }
}
