//! What each codon costs, from the events of a run.

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
    cost: Usd,
    tokens: u64,
}

impl Costs {
    /// Takes an event in; returns whether the table is worth printing again.
    pub(crate) fn take(&mut self, event: &Event) -> bool {
        match event {
            Event::CodonStarted { codon_id, .. } => {
                self.row(codon_id).state = "running";
                true
            }
            Event::TokenUsage {
                codon_id,
                input_tokens,
                output_tokens,
                total_cost,
                ..
            } => {
                let row = self.row(codon_id);
                row.cost = *total_cost;
                row.tokens = input_tokens + output_tokens;
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
                row.cost = *cost + sentinel_cost.unwrap_or_default();
                row.state = if *success { "completed" } else { "not completed" };
                true
            }
            _ => false,
        }
    }

    /// Returns the row of a codon. A codon that runs again keeps its row.
    fn row(&mut self, codon: &CodonId) -> &mut Row {
        let index = self.rows.iter().position(|row| row.codon == *codon);
        let index = index.unwrap_or_else(|| {
            self.rows.push(Row {
                codon: codon.clone(),
                state: "starting",
                cost: Usd::ZERO,
                tokens: 0,
            });
            self.rows.len() - 1
        });
        &mut self.rows[index]
    }
}

impl fmt::Display for Costs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut total = Usd::ZERO;
        for row in &self.rows {
            total += row.cost;
            let (codon, state) = (row.codon.as_str(), row.state);
            writeln!(
                f,
                "{codon:<24} {state:<14} {:>10} tokens  {:>12}",
                row.tokens,
                row.cost.to_string()
            )?;
        }
        writeln!(
            f,
            "{:<24} {:<14} {:>10}         {:>12}",
            "together",
            "",
            "",
            total.to_string()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_codon_that_runs_twice_has_one_row_with_its_last_cost() {
        let codon_id: CodonId = "write".parse().expect("the text is an id");
        let usage = |cost: u64| Event::TokenUsage {
            codon_id: codon_id.clone(),
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
        };
        let mut costs = Costs::default();
        assert!(!costs.take(&usage(1_000)));
        assert!(!costs.take(&usage(2_000)));
        assert!(!costs.take(&Event::Info {
            message: "x".to_owned()
        }));
        assert_eq!(costs.rows.len(), 1);
        assert_eq!(
            (costs.rows[0].cost, costs.rows[0].tokens),
            (Usd::from_micros(2_000), 15)
        );
        assert!(costs.to_string().contains("together"));
    }
}
