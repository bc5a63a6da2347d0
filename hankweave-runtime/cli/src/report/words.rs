//! Figures and other small things in words.

use std::time::Duration;

use hankweave_core::agent::InterruptedBy;
use hankweave_core::codon::{BudgetExceeded, CodonStatus};
use hankweave_core::view::AttemptState;
use hankweave_core::wire::{BudgetCeiling, BudgetTotals};
use serde_json::Value;

/// Longest text of an agent that a line shows, in characters.
const EXCERPT: usize = 100;

/// `0.4 s`, `12 s`, `3 min 20 s`, `2 h 5 min`
pub(crate) fn duration(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0..10 => format!("{:.1} s", duration.as_secs_f64()),
        10..60 => format!("{seconds} s"),
        60..3_600 => format!("{} min {} s", seconds / 60, seconds % 60),
        _ => format!("{} h {} min", seconds / 3_600, seconds / 60 % 60),
    }
}

/// `950`, `12.3k`, `4.5M`
pub(crate) fn tokens(count: u64) -> String {
    #[expect(clippy::cast_precision_loss, reason = "one digit after the point is shown")]
    let value = count as f64;
    match count {
        0..1_000 => count.to_string(),
        1_000..1_000_000 => format!("{:.1}k", value / 1e3),
        _ => format!("{:.1}M", value / 1e6),
    }
}

/// `1 warning`, `2 warnings`
pub(crate) fn counted(number: usize, noun: &str) -> String {
    match number {
        1 => format!("1 {noun}"),
        _ => format!("{number} {noun}s"),
    }
}

/// State of a codon in a word: the phase while it is open, else the outcome (WIRE-39).
pub(crate) fn standing(status: CodonStatus, interrupted_by: Option<InterruptedBy>) -> &'static str {
    AttemptState::of(status, interrupted_by).map_or(status.as_str(), AttemptState::as_str)
}

/// That a codon ended at a limit of its own, which is no failure.
pub(crate) fn at_its_budget(status: CodonStatus, exceeded: BudgetExceeded) -> String {
    match status {
        CodonStatus::Skipped => format!("nothing was left of its budget: {exceeded}"),
        _ => format!("stopped at its budget: {exceeded}"),
    }
}

/// A codon in one line: what it is, how it stands, what it used. How long it took may be unknown.
pub(crate) fn codon_line(standing: &str, elapsed: Option<Duration>, token_count: u64, cost: &str) -> String {
    format!(
        "{standing:<12} {:>12} {:>8} tokens {cost:>10}",
        elapsed.map_or_else(|| "-".to_owned(), duration),
        tokens(token_count)
    )
}

/// `budget: $0.0210 of $1.0000, 12 s of 1 min 0 s`
pub(crate) fn budget(ceiling: &BudgetCeiling, totals: &BudgetTotals) -> String {
    let seconds = |seconds: f64| duration(Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX));
    let dollars = ceiling
        .max_dollars
        .map(|most| format!(" of {most}"))
        .unwrap_or_default();
    let time = ceiling
        .max_time_seconds
        .map(|most| format!(" of {}", seconds(most)));
    let spent = totals
        .actual_dollars
        .display(totals.actual_is_lower_bound == Some(true));
    let lived = seconds(totals.actual_time_seconds);
    format!("budget: {spent}{dollars}, {lived}{}", time.unwrap_or_default())
}

/// One line, cut.
pub(super) fn excerpt(text: &str) -> String {
    let line = text.trim().replace(['\n', '\r', '\t'], " ");
    let mut cut: String = line.chars().take(EXCERPT).collect();
    if cut.len() < line.len() {
        cut.push('…');
    }
    cut
}

/// Returns a sentinel's answer: a text, or a value as JSON.
pub(super) fn answer(content: &Value) -> String {
    content
        .as_str()
        .map_or_else(|| content.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_as_exact_as_a_person_wants_them() {
        let said: Vec<String> = [400, 12_000, 200_000, 7_500_000]
            .map(|millis| duration(Duration::from_millis(millis)))
            .to_vec();
        assert_eq!(said, ["0.4 s", "12 s", "3 min 20 s", "2 h 5 min"]);
    }

    #[test]
    fn an_excerpt_is_one_line() {
        assert_eq!(excerpt("two\nlines"), "two lines");
    }
}
