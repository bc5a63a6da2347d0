//! Cost of each codon, from the events of all runs in a directory.

use std::fmt;

use hankweave_core::cost::Usd;
use hankweave_core::id::CodonId;
use hankweave_core::wire::Event;

/// One row for each codon, in the order in which they started.
#[derive(Debug, Default)]
pub(crate) struct Costs {
    rows: Vec<Row>,
}

#[derive(Debug)]
struct Row {
    codon: CodonId,
    state: &'static str,
    /// Attempts that have ended. A codon that failed or was rolled back runs again, and what it had cost was paid.
    ended: AttemptCost,
    running: AttemptCost,
}

#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct AttemptCost {
    cost: Usd,
    /// Tokens that were sent and received, without those that came from the cache.
    tokens: u64,
}

impl Costs {
    /// Takes an event in; returns whether the table is worth printing again.
    pub(crate) fn take(&mut self, event: &Event) -> bool {
        match event {
            Event::CodonStarted { codon_id, .. } => {
                let row = self.row(codon_id);
                // A crash has left the attempt before without an end.
                row.end_attempt();
                row.state = "running";
                true
            }
            Event::TokenUsage {
                codon_id,
                input_tokens,
                output_tokens,
                total_cost,
                ..
            } => {
                // The event has the figures of the attempt so far, of the agent alone.
                self.row(codon_id).running = AttemptCost {
                    cost: *total_cost,
                    tokens: input_tokens + output_tokens,
                };
                false
            }
            Event::CodonCompleted {
                codon_id,
                success,
                cost,
                sentinel_cost,
                ..
            } => {
                let row = self.row(codon_id);
                // What sentinels cost is known at the end.
                row.running.cost = *cost + sentinel_cost.unwrap_or_default();
                row.end_attempt();
                row.state = if *success { "completed" } else { "not completed" };
                true
            }
            _ => false,
        }
    }

    /// Returns the row of a codon, and makes it for a new one.
    fn row(&mut self, codon: &CodonId) -> &mut Row {
        let index = self.rows.iter().position(|row| row.codon == *codon);
        let index = index.unwrap_or_else(|| {
            self.rows.push(Row {
                codon: codon.clone(),
                state: "starting",
                ended: AttemptCost::default(),
                running: AttemptCost::default(),
            });
            self.rows.len() - 1
        });
        &mut self.rows[index]
    }
}

impl Row {
    fn end_attempt(&mut self) {
        self.ended = self.total();
        self.running = AttemptCost::default();
    }

    fn total(&self) -> AttemptCost {
        AttemptCost {
            cost: self.ended.cost + self.running.cost,
            tokens: self.ended.tokens + self.running.tokens,
        }
    }
}

impl fmt::Display for Costs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut all = Usd::ZERO;
        for row in &self.rows {
            let AttemptCost { cost, tokens } = row.total();
            all += cost;
            let (codon, state) = (row.codon.as_str(), row.state);
            writeln!(
                f,
                "{codon:<24} {state:<14} {tokens:>10} tokens  {:>12}",
                cost.to_string()
            )?;
        }
        // As wide as a row.
        writeln!(f, "{:<24} {:>46}", "together", all.to_string())
    }
}

#[cfg(test)]
mod tests {
    use hankweave_core::time::Timestamp;
    use hankweave_core::wire::ExitStatus;

    use super::*;

    fn codon() -> CodonId {
        "write".parse().expect("the text is an id")
    }

    fn started() -> Event {
        Event::CodonStarted {
            codon_id: codon(),
            codon_name: "Write".to_owned(),
            codon_description: None,
            session_id: "s".parse().expect("the text is an id"),
            previous_session_id: None,
            start_time: Timestamp::UNIX_EPOCH,
            prompt_metadata: None,
            agent: None,
            model: None,
        }
    }

    fn usage(cost: u64) -> Event {
        Event::TokenUsage {
            codon_id: codon(),
            input_tokens: 10,
            output_tokens: 5,
            cache_creation_tokens: 0,
            cache_read_tokens: 0,
            total_cost: Usd::from_micros(cost),
            cost_is_lower_bound: None,
            model_id: None,
            message: None,
            context_tokens: None,
            context_window: None,
        }
    }

    fn ended(success: bool, cost: u64, sentinel_cost: u64) -> Event {
        Event::CodonCompleted {
            codon_id: codon(),
            success,
            cost: Usd::from_micros(cost),
            sentinel_cost: Some(Usd::from_micros(sentinel_cost)),
            cost_is_lower_bound: None,
            duration: 1,
            exit_status: ExitStatus::Success,
            failure_reason: None,
            failure_ignored: None,
            budget_exceeded: None,
            files_changed: None,
            result: None,
        }
    }

    #[test]
    fn a_codon_that_runs_again_has_one_row_with_the_cost_of_all_its_attempts() {
        let mut costs = Costs::default();
        let mut take = |events: &[Event]| {
            for event in events {
                costs.take(event);
            }
            assert_eq!(costs.rows.len(), 1);
            (costs.rows[0].total().cost, costs.rows[0].total().tokens)
        };
        let figures = |cost, tokens| (Usd::from_micros(cost), tokens);
        assert_eq!(take(&[started(), usage(1_000), usage(2_000)]), figures(2_000, 15));
        assert_eq!(take(&[ended(false, 2_500, 500)]), figures(3_000, 15));
        // The next attempt is cut off by a crash.
        assert_eq!(take(&[started(), usage(4_000)]), figures(7_000, 30));
        assert_eq!(take(&[started(), usage(100)]), figures(7_100, 45));
        assert_eq!(take(&[ended(true, 100, 0)]), figures(7_100, 45));
        let text = costs.to_string();
        let widths: Vec<usize> = text.lines().map(str::len).collect();
        assert!(widths.len() == 2 && widths[0] == widths[1], "{text}");
        assert!(!costs.take(&usage(1)), "usage alone prints no table");
    }
}
