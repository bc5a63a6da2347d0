//! Usage of a codon while its agent works, compared with the codon's limits (HANK-36, HANK-37).

use std::time::Duration;

use super::CodonLimits;
use crate::codon::BudgetExceeded;
use crate::cost::{ModelUsage, TokenUsage, Usd};

/// Counts what one execution of a codon uses and compares it with its limits.
#[derive(Debug, Clone)]
pub struct Meter {
    limits: CodonLimits,
    /// Cost of the agent.
    dollars: Usd,
    /// Cost of the sentinels.
    of_sentinels: Usd,
    output_tokens: u64,
    /// Tokens of the largest turn so far.
    context_tokens: u64,
    /// Whether the agent reports that it has spent all its money.
    is_out_of_money: bool,
}

impl Meter {
    /// Returns a meter with nothing used.
    #[must_use]
    pub fn new(limits: CodonLimits) -> Self {
        Self {
            limits,
            dollars: Usd::ZERO,
            of_sentinels: Usd::ZERO,
            output_tokens: 0,
            context_tokens: 0,
            is_out_of_money: false,
        }
    }

    /// Counts one model message; `usage` is all that it has used so far, `added` the part not counted before.
    ///
    /// `has_other_context` excludes it from the context of the main conversation: the message is a sub-agent's, or a sum of several requests.
    pub fn message(&mut self, usage: ModelUsage, added: ModelUsage, has_other_context: bool) {
        self.dollars += added.cost;
        self.output_tokens = self.output_tokens.saturating_add(added.tokens.output_tokens);
        if !has_other_context {
            self.context_tokens = self.context_tokens.max(usage.tokens.total());
        }
    }

    /// Sets the cost of the codon's sentinels so far, which counts against the total budget but against no limit of the codon (SENT-10).
    pub fn sentinels(&mut self, cost: Usd) {
        self.of_sentinels = cost;
    }

    /// Notes that the agent ended because it had spent all its money, by its own count.
    pub fn spent(&mut self) {
        self.is_out_of_money = true;
    }

    /// Whether money is limited.
    #[must_use]
    pub fn limits_dollars(&self) -> bool {
        self.limits.dollars.is_some() || self.limits.left_of_ceiling.is_some()
    }

    /// Returns the money that is left for another process of the codon; `None` without a limit.
    #[must_use]
    pub fn dollars_left(&self) -> Option<Usd> {
        let limit = self.limits.dollars?;
        let left = limit.saturating_sub(self.dollars);
        let of_ceiling = self.limits.left_of_ceiling;
        let of_ceiling = of_ceiling.map(|limit| limit.saturating_sub(self.total_cost()));
        Some(of_ceiling.map_or(left, |of_ceiling| left.min(of_ceiling)))
    }

    /// Returns the cost of agent and sentinels together.
    fn total_cost(&self) -> Usd {
        self.dollars + self.of_sentinels
    }

    /// Replaces the sums over messages by the totals that the agent itself reports.
    pub fn set_totals(&mut self, dollars: Usd, tokens: TokenUsage) {
        self.dollars = dollars;
        self.output_tokens = tokens.output_tokens;
    }

    /// Returns the limit that is reached after `elapsed`, if any; usage equal to a limit reaches it (HANK-37).
    #[must_use]
    pub fn exceeded(&self, elapsed: Duration) -> Option<BudgetExceeded> {
        let reached = self.reached(elapsed)?;
        Some(self.limits.with_larger(reached))
    }

    /// Returns the first limit that is reached, without the larger budget that it may be a part of.
    fn reached(&self, elapsed: Duration) -> Option<BudgetExceeded> {
        let limits = &self.limits;
        let reached = |used: u64| move |limit: &u64| used >= *limit;
        let cost = limits
            .dollars
            .filter(|limit| self.is_out_of_money || self.dollars >= *limit);
        if let Some(limit) = cost {
            return Some(BudgetExceeded::of_money(limit, self.dollars));
        }
        // Without costs of sentinels, `limits.dollars` covers the ceiling already.
        let ceiling = limits.left_of_ceiling.filter(|limit| self.total_cost() >= *limit);
        if let Some(limit) = ceiling.filter(|_| self.of_sentinels > Usd::ZERO) {
            return Some(BudgetExceeded::of_money(limit, self.total_cost()));
        }
        if let Some(limit) = limits.time.filter(|limit| elapsed >= *limit) {
            return Some(BudgetExceeded::of_time(limit, elapsed));
        }
        if let Some(limit) = limits.output_tokens.filter(reached(self.output_tokens)) {
            let used = self.output_tokens;
            return Some(BudgetExceeded::OutputTokens { limit, used });
        }
        let used = self.context_tokens;
        let limit = limits.context_tokens.filter(reached(used))?;
        Some(BudgetExceeded::ContextTokens { limit, used })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::Ceiling;

    fn message(input: u64, output: u64, cache_read: u64, micros: u64) -> ModelUsage {
        ModelUsage {
            tokens: TokenUsage {
                input_tokens: input,
                output_tokens: output,
                cache_read_tokens: cache_read,
                ..TokenUsage::ZERO
            },
            cost: Usd::from_micros(micros),
        }
    }

    #[track_caller]
    fn check(limits: CodonLimits, messages: &[ModelUsage], elapsed: u64, exceeded: Option<BudgetExceeded>) {
        let mut meter = Meter::new(limits);
        for usage in messages {
            meter.message(*usage, *usage, false);
        }
        assert_eq!(meter.exceeded(Duration::from_secs(elapsed)), exceeded);
    }

    // covers: HANK-37
    #[test]
    fn a_limit_is_reached_when_no_less_than_it_is_used() {
        let limits = CodonLimits {
            dollars: Some(Usd::from_micros(30)),
            ..CodonLimits::default()
        };
        check(limits, &[message(1, 1, 0, 29)], 0, None);
        let used = Usd::from_micros(30);
        let exceeded = Some(BudgetExceeded::of_money(used, used));
        check(limits, &[message(1, 1, 0, 29), message(1, 1, 0, 1)], 0, exceeded);
        let (limit, used) = (Duration::from_secs(2), Duration::from_secs(2));
        let limits = CodonLimits {
            time: Some(limit),
            ..CodonLimits::default()
        };
        check(limits, &[], 1, None);
        check(limits, &[], 2, Some(BudgetExceeded::of_time(limit, used)));
    }

    // covers: SENT-10
    #[test]
    fn what_sentinels_cost_uses_up_the_ceiling_and_not_the_limit_of_the_codon() {
        let cents = |cents: u64| Usd::from_micros(cents * 10_000);
        let limits = CodonLimits {
            dollars: Some(cents(50)),
            ceiling: Ceiling {
                max_dollars: Some(cents(300)),
                max_time: None,
            },
            left_of_ceiling: Some(cents(100)),
            ..CodonLimits::default()
        };
        let mut meter = Meter::new(limits);
        meter.message(message(1, 1, 0, 400_000), message(1, 1, 0, 400_000), false);
        meter.sentinels(cents(59));
        assert_eq!(meter.exceeded(Duration::ZERO), None);
        assert_eq!(meter.dollars_left(), Some(cents(1)));
        meter.sentinels(cents(60));
        let exceeded = meter.exceeded(Duration::ZERO).unwrap();
        let (limit, used) = (cents(100), cents(100));
        let of_the_total = BudgetExceeded::Cost {
            limit,
            used,
            total: Some(cents(300)),
            loop_total: None,
            share: false,
        };
        assert_eq!(exceeded, of_the_total);
        assert!(limits.is_of_the_ceiling(&exceeded));
        let own = BudgetExceeded::of_money(cents(50), used);
        assert!(!limits.is_of_the_ceiling(&own));
    }

    // covers: HANK-36
    #[test]
    fn output_tokens_are_counted_together() {
        let limits = CodonLimits {
            output_tokens: Some(10),
            ..CodonLimits::default()
        };
        check(limits, &[message(500, 9, 0, 0)], 0, None);
        let exceeded = Some(BudgetExceeded::OutputTokens { limit: 10, used: 12 });
        check(
            limits,
            &[message(500, 9, 0, 0), message(500, 3, 0, 0)],
            0,
            exceeded,
        );
    }

    // What comes from the cache is read as well.
    // covers: HANK-36
    #[test]
    fn context_tokens_are_those_of_the_largest_turn() {
        let limits = CodonLimits {
            context_tokens: Some(100),
            ..CodonLimits::default()
        };
        check(limits, &[message(60, 9, 0, 0), message(80, 9, 10, 0)], 0, None);
        let exceeded = Some(BudgetExceeded::ContextTokens {
            limit: 100,
            used: 100,
        });
        check(limits, &[message(10, 5, 85, 0), message(1, 1, 0, 0)], 0, exceeded);
    }

    // covers: HANK-36
    #[test]
    fn a_sub_agent_costs_money_and_output_tokens_and_fills_no_context() {
        let of_money = CodonLimits {
            dollars: Some(Usd::from_micros(9)),
            ..CodonLimits::default()
        };
        let of_output = CodonLimits {
            output_tokens: Some(2),
            ..CodonLimits::default()
        };
        for limits in [of_money, of_output] {
            let mut meter = Meter::new(CodonLimits {
                context_tokens: Some(50),
                ..limits
            });
            meter.message(message(90, 1, 0, 8), message(90, 1, 0, 8), true);
            assert_eq!(meter.exceeded(Duration::ZERO), None);
            meter.message(message(1, 1, 0, 1), message(1, 1, 0, 1), true);
            let exceeded = meter.exceeded(Duration::ZERO);
            assert!(
                exceeded.is_some() && !matches!(exceeded, Some(BudgetExceeded::ContextTokens { .. })),
                "{exceeded:?}"
            );
        }
    }

    // covers: RUN-12
    #[test]
    fn what_the_agent_reports_in_the_end_counts() {
        let limits = CodonLimits {
            dollars: Some(Usd::from_micros(9)),
            output_tokens: Some(40),
            ..CodonLimits::default()
        };
        let mut meter = Meter::new(limits);
        meter.message(message(90, 1, 0, 8), message(90, 1, 0, 8), false);
        meter.set_totals(Usd::from_micros(8), message(0, 50, 0, 0).tokens);
        let exceeded = BudgetExceeded::OutputTokens { limit: 40, used: 50 };
        assert_eq!(meter.exceeded(Duration::ZERO), Some(exceeded));
    }

    #[test]
    fn of_a_message_that_grows_only_what_is_new_counts_and_the_whole_fills_the_context() {
        let limits = CodonLimits {
            output_tokens: Some(4_000),
            context_tokens: Some(5_000),
            ..CodonLimits::default()
        };
        let mut meter = Meter::new(limits);
        let begin = message(1_000, 1, 0, 10);
        meter.message(begin, begin, false);
        meter.message(message(1_000, 3_999, 0, 50), message(0, 3_998, 0, 40), false);
        assert_eq!(meter.exceeded(Duration::ZERO), None);
        let end = message(1_000, 4_000, 0, 60);
        meter.message(end, message(0, 1, 0, 10), false);
        let exceeded = BudgetExceeded::OutputTokens {
            limit: 4_000,
            used: 4_000,
        };
        assert_eq!(meter.exceeded(Duration::ZERO), Some(exceeded));
    }

    #[test]
    fn an_agent_that_stopped_at_its_money_has_reached_the_limit_by_its_own_count() {
        let mut meter = Meter::new(CodonLimits {
            dollars: Some(Usd::from_micros(30)),
            ..CodonLimits::default()
        });
        meter.set_totals(Usd::from_micros(29), TokenUsage::ZERO);
        assert_eq!(meter.dollars_left(), Some(Usd::from_micros(1)));
        meter.spent();
        assert!(matches!(
            meter.exceeded(Duration::ZERO),
            Some(BudgetExceeded::Cost { .. })
        ));
        let mut unlimited = Meter::new(CodonLimits::default());
        unlimited.spent();
        assert_eq!(unlimited.exceeded(Duration::ZERO), None);
    }

    #[test]
    fn where_nothing_is_left_the_limit_is_reached_before_anything_is_used() {
        let limits = CodonLimits {
            dollars: Some(Usd::ZERO),
            ..CodonLimits::default()
        };
        check(
            limits,
            &[],
            0,
            Some(BudgetExceeded::of_money(Usd::ZERO, Usd::ZERO)),
        );
    }
}
