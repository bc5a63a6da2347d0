//! What one agent process has used, from reports that overlap.
//!
//! An agent tells its usage twice: roughly with each model message, exactly with each result. The rough numbers count
//! until a result covers them, so that a killed process still has a cost ("agent streams", costs and tokens).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{TokenUsage, Usd, pricing};

/// Tokens and money of one model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ModelUsage {
    /// The tokens.
    pub tokens: TokenUsage,
    /// Their price; zero for a model without a known price.
    pub cost: Usd,
}

/// Tokens and money of some part of an agent's work.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UsageTotals {
    /// All tokens, sub-agents included.
    pub tokens: TokenUsage,
    /// All money, sub-agents included.
    pub cost: Usd,
    /// The same for each model, by the name the agent reports.
    pub models: BTreeMap<String, ModelUsage>,
}

impl UsageTotals {
    /// Adds the usage of one model.
    pub fn add(&mut self, model: &str, usage: ModelUsage) {
        self.tokens += usage.tokens;
        self.cost += usage.cost;
        let entry = self.models.entry(model.to_owned()).or_default();
        entry.tokens += usage.tokens;
        entry.cost += usage.cost;
    }

    /// Adds other totals.
    pub fn merge(&mut self, other: &Self) {
        for (model, usage) in &other.models {
            self.add(model, *usage);
        }
    }
}

/// How a result of an agent states its usage, best source first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReportedUsage {
    /// Exactly what was used since the previous result of this process, for each model.
    SinceLastResult(BTreeMap<String, ModelUsage>),
    /// Everything since the process began, for each model. Only for a process that did not resume a session:
    /// a resumed session counts the earlier processes again.
    SinceProcessStart(BTreeMap<String, ModelUsage>),
    /// Tokens of the main conversation since the previous result, without money and without sub-agents.
    Tokens {
        /// The model of the main conversation.
        model: String,
        /// Its tokens.
        tokens: TokenUsage,
    },
    /// The result says nothing about usage; the sum of the messages stands.
    Nothing,
}

/// The running account of one agent process.
#[derive(Debug, Clone, Default)]
pub struct ProcessUsage {
    settled: UsageTotals,
    unsettled: UsageTotals,
}

impl ProcessUsage {
    /// Counts one model message at its list price and returns what was counted; the caller leaves out repetitions.
    pub fn message(&mut self, model: &str, tokens: TokenUsage) -> ModelUsage {
        let usage = priced(model, tokens);
        self.unsettled.add(model, usage);
        usage
    }

    /// Replaces the messages since the previous result by what this result reports.
    pub fn result(&mut self, reported: ReportedUsage) {
        let messages = std::mem::take(&mut self.unsettled);
        match reported {
            ReportedUsage::SinceLastResult(models) => self.settled.merge(&totals(models)),
            ReportedUsage::SinceProcessStart(models) => self.settled = totals(models),
            ReportedUsage::Tokens { model, tokens } => self.settled.add(&model, priced(&model, tokens)),
            ReportedUsage::Nothing => self.settled.merge(&messages),
        }
    }

    /// Everything the process has used until now.
    #[must_use]
    pub fn totals(&self) -> UsageTotals {
        let mut totals = self.settled.clone();
        totals.merge(&self.unsettled);
        totals
    }
}

fn priced(model: &str, tokens: TokenUsage) -> ModelUsage {
    let cost = pricing::price(model, &tokens).unwrap_or(Usd::ZERO);
    ModelUsage { tokens, cost }
}

fn totals(models: BTreeMap<String, ModelUsage>) -> UsageTotals {
    let mut totals = UsageTotals::default();
    for (model, usage) in models {
        totals.add(&model, usage);
    }
    totals
}

#[cfg(test)]
mod tests {
    use super::*;

    const MODEL: &str = "claude-sonnet-4-5";

    fn input(count: u64) -> TokenUsage {
        TokenUsage {
            input_tokens: count,
            ..TokenUsage::ZERO
        }
    }

    fn report(count: u64) -> BTreeMap<String, ModelUsage> {
        BTreeMap::from([(MODEL.to_owned(), priced(MODEL, input(count)))])
    }

    #[test]
    fn a_result_replaces_the_messages_it_covers() {
        let mut usage = ProcessUsage::default();
        usage.message(MODEL, input(10));
        usage.result(ReportedUsage::SinceLastResult(report(15)));
        usage.message(MODEL, input(7));
        assert_eq!(usage.totals().tokens, input(22));
        usage.result(ReportedUsage::SinceProcessStart(report(30)));
        assert_eq!(usage.totals().tokens, input(30));
        assert_eq!(usage.totals().cost, Usd::from_nanos(3_000).times(30));
    }

    #[test]
    fn a_result_without_numbers_keeps_the_messages() {
        let mut usage = ProcessUsage::default();
        usage.message(MODEL, input(10));
        usage.result(ReportedUsage::Nothing);
        usage.result(ReportedUsage::Nothing);
        assert_eq!(usage.totals().tokens, input(10));
    }
}
