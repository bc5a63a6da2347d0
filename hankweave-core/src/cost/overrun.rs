//! Words for spending above a budget, shared by all screens. Spending can pass a budget because an agent reports the tokens of an answer late (HANK-37).

use super::Usd;

/// Returns `over its budget by $0.0010`, or `over its budget by at least $0.0010` where more was spent than is known; `None` for spending within the limit.
#[must_use]
pub fn overrun_words(spent: Usd, is_lower_bound: bool, limit: Option<Usd>) -> Option<String> {
    let over = overrun(spent, is_lower_bound, limit?)?;
    Some(format!("over its budget by {over}"))
}

/// Returns the amount above a limit for people, such as `$0.4000`; `None` for an amount that is shown as zero.
pub(crate) fn overrun(spent: Usd, is_lower_bound: bool, limit: Usd) -> Option<String> {
    let over = spent.saturating_sub(limit);
    let is_shown = over.to_string() != Usd::ZERO.to_string();
    is_shown.then(|| over.display(is_lower_bound))
}

/// Returns both amounts and then [`overrun_words`]: `$0.9000 of $0.5000, over its budget by $0.4000`.
#[must_use]
pub fn over_budget(spent: Usd, budget: Usd, is_lower_bound: bool) -> Option<String> {
    let over = overrun_words(spent, is_lower_bound, Some(budget))?;
    Some(format!("{} of {budget}, {over}", spent.display(is_lower_bound)))
}

#[cfg(test)]
mod tests {
    use super::*;

    // covers: CLI-14, HANK-37
    #[test]
    fn spending_above_the_limit_is_said_where_people_can_see_it() {
        let limit = Usd::from_micros(500_000);
        let words = |spent, is_lower_bound| over_budget(Usd::from_micros(spent), limit, is_lower_bound);
        let over = "$0.9000 of $0.5000, over its budget by $0.4000";
        assert_eq!(words(900_000, false).unwrap(), over);
        let at_least = "at least $0.9000 of $0.5000, over its budget by at least $0.4000";
        assert_eq!(words(900_000, true).unwrap(), at_least);
        for within in [400_000, 500_000, 500_010] {
            assert_eq!(words(within, true), None);
        }
        assert_eq!(overrun_words(limit, false, None), None);
    }
}
