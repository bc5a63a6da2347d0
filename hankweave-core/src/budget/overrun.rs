//! Spending above a budget: an agent that reports an answer's tokens late passes its budget by more than that answer.

use crate::cost::Usd;

/// Returns `over its budget by $0.0010`, or `over its budget by at least $0.0010` where more was spent than is known; `None` for spending within the limit.
#[must_use]
pub fn overrun_words(spent: Usd, is_lower_bound: bool, limit: Option<Usd>) -> Option<String> {
    let over = spent.saturating_sub(limit?);
    // An amount that people see as nothing is none.
    let is_shown = over.to_string() != Usd::ZERO.to_string();
    is_shown.then(|| format!("over its budget by {}", over.display(is_lower_bound)))
}

#[cfg(test)]
mod tests {
    use super::*;

    // covers: CLI-14
    #[test]
    fn only_spending_above_the_limit_is_over_it() {
        let words = |spent, is_lower_bound, limit: Option<u64>| {
            overrun_words(
                Usd::from_micros(spent),
                is_lower_bound,
                limit.map(Usd::from_micros),
            )
        };
        assert_eq!(words(5_000, false, None), None);
        assert_eq!(words(3_000, true, Some(4_000)), None);
        assert_eq!(words(4_000, false, Some(4_000)), None);
        assert_eq!(words(4_001, false, Some(4_000)), None, "nobody sees a millionth");
        assert_eq!(
            words(5_000, false, Some(4_000)).unwrap(),
            "over its budget by $0.0010"
        );
        let unknown = words(5_000, true, Some(4_000)).unwrap();
        assert_eq!(unknown, "over its budget by at least $0.0010");
    }
}
