//! Section "Money" of a report.

use std::fmt::{self, Write as _};

use hankweave_core::cost::{TokenUsage, Usd};

use super::super::gathered::Receipt;
use super::super::markup::{code, plain};
use super::super::money::{BEFORE, OTHERS, SENTINELS};
use crate::terminal::report::tokens;

impl Receipt {
    /// Returns a sentence with the attempts that make the sum a lower bound; empty if there are none.
    fn why_at_least(&self) -> String {
        let cut_off = self
            .attempts
            .iter()
            .filter(|attempt| attempt.outcome.cost_is_lower_bound);
        let cut_off: Vec<String> = cut_off
            .map(|attempt| format!("{}, {}", code(attempt.codon.as_str()), attempt.name()))
            .collect();
        match cut_off.as_slice() {
            [] => String::new(),
            listed => format!(
                " What was used last in these is not known: {}.",
                listed.join("; ")
            ),
        }
    }

    pub(super) fn write_money(&self, text: &mut String) -> fmt::Result {
        let all = self.money.spent.display(self.money.at_least);
        writeln!(text, "## Money\n\n{all} in all.{}\n", self.why_at_least())?;
        if let Some(limit) = self.money.limit {
            let money = &self.money;
            let whose = money.limited_by.as_deref();
            let whose = whose.map_or_else(
                || " of the hank".to_owned(),
                |option| format!(", {}", code(option)),
            );
            let used = money.counted.display(money.counted_at_least);
            let over = money.counted.saturating_sub(limit);
            let over = match over == Usd::ZERO {
                true => String::new(),
                false => format!(": {} too much", over.display(money.counted_at_least)),
            };
            writeln!(
                text,
                "Of the total budget ({limit}{whose}), {used} is used{over}.\n"
            )?;
        }
        if self.money.by_model.is_empty() {
            return Ok(());
        }
        writeln!(
            text,
            "| Model | Cost | Tokens in | from cache | out |\n| --- | --- | --- | --- | --- |"
        )?;
        for (model, sum) in &self.money.by_model {
            let used = sum.tokens;
            let is_model = ![SENTINELS, BEFORE, OTHERS].contains(&model.as_str());
            let [read, cached, written] = match !is_model && used == TokenUsage::ZERO {
                true => ["-", "-", "-"].map(str::to_owned),
                false => [
                    used.input_tokens + used.cache_creation_tokens,
                    used.cache_read_tokens,
                    used.output_tokens,
                ]
                .map(|count| match (sum.at_least, count) {
                    (true, 0) => "-".to_owned(),
                    (true, count) => format!("at least {}", tokens(count)),
                    (false, count) => tokens(count),
                }),
            };
            writeln!(
                text,
                "| {} | {} | {read} | {cached} | {written} |",
                plain(model),
                sum.cost.display(sum.at_least),
            )?;
        }
        writeln!(text)
    }
}
