//! Usage of one agent process, from overlapping reports.
//!
//! An agent reports its usage with each model message, roughly when it begins and exactly when it has ended,
//! and again with each result. The reports of messages count until a result covers them, so that a killed
//! process still has a cost (AGENT-6). Usage that will never be reported leaves a lower bound.

use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::pricing::Prices;
use super::{Billed, TokenUsage, Usd};

/// Maximum of messages whose end is awaited; an agent that reports the ends has a handful at once.
const MAX_OPEN: usize = 1_024;

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
    /// Usage by model, under the name that the agent reports.
    pub models: BTreeMap<String, ModelUsage>,
    /// Whether more was used than is known: an answer was cut off, or its model has no known price.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub lower_bound: bool,
}

impl UsageTotals {
    /// Whether it is known that nothing was used.
    #[must_use]
    pub fn is_nothing(&self) -> bool {
        self.tokens == TokenUsage::ZERO && self.cost == Usd::ZERO && !self.lower_bound
    }

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
        self.lower_bound |= other.lower_bound;
    }
}

/// How a result of an agent states its usage, best source first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReportedUsage {
    /// Exactly what was used since the previous result of this process, for each model.
    SinceLastResult(UsageTotals),
    /// All usage since the process began, for each model. Only for a process that did not resume a session:
    /// a resumed session counts the earlier processes again.
    SinceProcessStart(UsageTotals),
    /// The money since the process began, with the tokens of the main conversation since the previous result.
    Money {
        /// The model of the main conversation.
        model: String,
        /// Its tokens, without those of sub-agents.
        tokens: TokenUsage,
        /// All money, sub-agents included.
        cost: Usd,
    },
    /// Tokens of the main conversation since the previous result, without money and without sub-agents.
    Tokens {
        /// The model of the main conversation.
        model: String,
        /// Its tokens.
        billed: Billed,
    },
    /// The result reports no usage; the sum of the messages counts.
    Nothing,
}

/// How far a report about a message's usage can be trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UsageConfidence {
    /// Made when the message began: its output is a placeholder, and a better report may never follow.
    Rough,
    /// Made when the message began, and its end will be reported.
    Begun,
    /// Made when the message ended, so it is exact.
    Final,
}

/// Change made by a report about a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct CountedUsage {
    /// All that the message is known to have used.
    pub usage: ModelUsage,
    /// Part of `usage` that this report has added.
    pub added: ModelUsage,
    /// Whether it is the first report about the message.
    pub is_new: bool,
}

/// The running account of one agent process.
#[derive(Debug, Clone, Default)]
pub struct ProcessUsage {
    prices: Arc<Prices>,
    /// Usage up to the last result.
    settled: UsageTotals,
    /// Usage of messages since the last result.
    unsettled: UsageTotals,
    /// Messages about which no further report counts.
    closed: MessageIds,
    /// Messages whose final report may still come, by the hashes of their ids.
    open: HashMap<u64, OpenMessage>,
}

/// Ids of messages, as hashes: an id may be as long as a line (AGENT-35).
#[derive(Debug, Clone, Default)]
pub struct MessageIds(HashSet<u64>);

impl MessageIds {
    /// Adds an id, and returns whether it is new.
    pub fn insert(&mut self, id: &str) -> bool {
        self.0.insert(hash(id))
    }
}

/// A message whose final report may still come.
#[derive(Debug, Clone, Default)]
struct OpenMessage {
    model: String,
    /// Usage reported so far.
    billed: Billed,
    /// Part of the totals that is this message's.
    counted: ModelUsage,
    /// Whether its end will be reported ([`UsageConfidence::Begun`]).
    begun: bool,
}

impl ProcessUsage {
    /// Returns an empty account at these prices instead of those of the list.
    #[must_use]
    pub fn priced_by(prices: Arc<Prices>) -> Self {
        Self {
            prices,
            ..Self::default()
        }
    }

    /// Returns the prices.
    #[must_use]
    pub fn prices(&self) -> &Prices {
        &self.prices
    }

    /// Returns the prices, to be shared.
    #[must_use]
    pub fn shared_prices(&self) -> &Arc<Prices> {
        &self.prices
    }

    /// Whether the final report of some message is missing.
    #[must_use]
    pub fn is_open(&self) -> bool {
        !self.open.is_empty()
    }

    /// Counts a report about one message: only the increase since earlier reports, at its price. `None` if the report changes nothing.
    pub fn message(
        &mut self,
        id: &str,
        model: &str,
        billed: Billed,
        confidence: UsageConfidence,
    ) -> Option<CountedUsage> {
        let id = hash(id);
        if billed.is_nothing() || self.closed.0.contains(&id) {
            return None;
        }
        let known = self.open.remove(&id);
        let is_new = known.is_none();
        let before = known.unwrap_or_else(|| OpenMessage {
            model: model.to_owned(),
            ..OpenMessage::default()
        });
        let billed = before.billed.at_least(billed);
        let (usage, is_priced) = self.priced(&before.model, billed);
        self.unsettled.lower_bound |= !is_priced;
        let added = ModelUsage {
            tokens: usage.tokens - before.counted.tokens,
            cost: usage.cost.saturating_sub(before.counted.cost),
        };
        self.unsettled.add(&before.model, added);
        if confidence == UsageConfidence::Final {
            self.closed.0.insert(id);
        } else {
            let open = OpenMessage {
                billed,
                counted: usage,
                begun: before.begun || confidence == UsageConfidence::Begun,
                ..before
            };
            self.keep_open(id, open);
        }
        let has_changed = is_new || added != ModelUsage::default();
        has_changed.then_some(CountedUsage { usage, added, is_new })
    }

    /// Remembers a message whose end may still be reported. If there are too many, all others are closed without their ends.
    fn keep_open(&mut self, id: u64, message: OpenMessage) {
        if self.open.len() >= MAX_OPEN {
            self.unsettled.lower_bound = true;
            self.closed.0.extend(self.open.drain().map(|(id, _)| id));
        }
        self.open.insert(id, message);
    }

    /// Replaces the messages since the previous result by what this result reports.
    pub fn result(&mut self, reported: ReportedUsage) {
        if reported == ReportedUsage::Nothing {
            return;
        }
        // The result of an interrupted process only guesses at the answer that was cut off.
        let cut_off = self.open.values().any(|message| message.begun);
        self.settled.lower_bound |= cut_off;
        self.closed.0.extend(self.open.drain().map(|(id, _)| id));
        let messages = std::mem::take(&mut self.unsettled);
        match reported {
            ReportedUsage::SinceLastResult(totals) => self.settled.merge(&totals),
            ReportedUsage::SinceProcessStart(mut totals) => {
                totals.lower_bound |= self.settled.lower_bound;
                self.settled = totals;
            }
            ReportedUsage::Money { model, tokens, cost } => {
                // The reported tokens lack sub-agents, which the messages may include; the reported cost has them.
                let tokens = tokens.at_least(messages.tokens);
                let cost = cost.saturating_sub(self.settled.cost);
                self.settled.add(&model, ModelUsage { tokens, cost });
            }
            ReportedUsage::Tokens { model, billed } => {
                let (usage, is_priced) = self.priced(&model, billed);
                self.settled.lower_bound |= !is_priced;
                // This report lacks sub-agents. If the messages cost more, they include sub-agents and count instead.
                match messages.cost > usage.cost {
                    true => self.settled.merge(&messages),
                    false => self.settled.add(&model, usage),
                }
            }
            ReportedUsage::Nothing => {}
        }
    }

    /// Returns the usage with its price, which is zero if unknown, and whether the price is known (AGENT-46).
    fn priced(&self, model: &str, billed: Billed) -> (ModelUsage, bool) {
        let (tokens, priced) = (billed.tokens, billed.priced(model, &self.prices));
        let cost = priced.cost;
        (ModelUsage { tokens, cost }, priced.is_whole)
    }

    /// Returns all usage of the process so far.
    #[must_use]
    pub fn totals(&self) -> UsageTotals {
        let mut totals = self.settled.clone();
        totals.merge(&self.unsettled);
        totals.lower_bound = self.is_lower_bound();
        totals
    }

    /// Whether more was used than the totals show.
    #[must_use]
    pub fn is_lower_bound(&self) -> bool {
        self.settled.lower_bound || self.unsettled.lower_bound || !self.open.is_empty()
    }
}

fn hash(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MODEL: &str = "claude-sonnet-4-5";

    fn tokens(input: u64, output: u64) -> TokenUsage {
        TokenUsage {
            input_tokens: input,
            output_tokens: output,
            ..TokenUsage::ZERO
        }
    }

    fn billed(input: u64, output: u64) -> Billed {
        Billed {
            tokens: tokens(input, output),
            ..Billed::default()
        }
    }

    fn report(input: u64) -> UsageTotals {
        let mut totals = UsageTotals::default();
        let cost = Usd::from_nanos(3_000).times(input);
        let tokens = tokens(input, 0);
        totals.add(MODEL, ModelUsage { tokens, cost });
        totals
    }

    // covers: AGENT-6
    #[test]
    fn a_message_counts_what_is_new_of_it_until_its_end() {
        let mut usage = ProcessUsage::default();
        let begin = usage
            .message("a", MODEL, billed(1_000, 1), UsageConfidence::Begun)
            .unwrap();
        assert!(begin.is_new && begin.usage == begin.added);
        assert_eq!(
            usage.message("a", MODEL, billed(1_000, 1), UsageConfidence::Rough),
            None
        );
        assert!(usage.totals().lower_bound);
        let end = usage
            .message("a", MODEL, billed(0, 4_000), UsageConfidence::Final)
            .unwrap();
        assert_eq!((end.is_new, end.added.tokens), (false, tokens(0, 3_999)));
        assert_eq!(end.usage.tokens, tokens(1_000, 4_000));
        assert_eq!(
            usage.message("a", MODEL, billed(9_000, 9_000), UsageConfidence::Final),
            None
        );
        let totals = usage.totals();
        assert_eq!((totals.tokens, totals.lower_bound), (tokens(1_000, 4_000), false));
        assert_eq!(totals.cost, Usd::from_micros(63_000));
    }

    // covers: AGENT-6
    #[test]
    fn a_result_replaces_the_messages_it_covers() {
        let mut usage = ProcessUsage::default();
        usage.message("a", MODEL, billed(10, 1), UsageConfidence::Rough);
        usage.result(ReportedUsage::SinceLastResult(report(15)));
        assert!(!usage.totals().lower_bound);
        assert_eq!(
            usage.message("a", MODEL, billed(10, 1), UsageConfidence::Rough),
            None
        );
        usage.message("b", MODEL, billed(7, 0), UsageConfidence::Rough);
        assert_eq!(usage.totals().tokens, tokens(22, 0));
        usage.result(ReportedUsage::SinceProcessStart(report(30)));
        assert_eq!(usage.totals().tokens, tokens(30, 0));
        assert_eq!(usage.totals().cost, Usd::from_nanos(3_000).times(30));
    }

    #[test]
    fn a_result_does_not_know_an_answer_that_was_cut_off() {
        let mut usage = ProcessUsage::default();
        usage.message("a", MODEL, billed(10, 1), UsageConfidence::Begun);
        usage.result(ReportedUsage::SinceLastResult(report(10)));
        assert!(usage.totals().lower_bound);
    }

    // covers: AGENT-46
    #[test]
    fn money_without_a_list_of_models_counts_since_the_process_began() {
        let mut usage = ProcessUsage::default();
        let money = |tokens, micros| ReportedUsage::Money {
            model: "unheard-of".to_owned(),
            tokens,
            cost: Usd::from_micros(micros),
        };
        usage.message("a", "unheard-of", billed(10, 1), UsageConfidence::Rough);
        assert!(usage.totals().lower_bound && usage.totals().cost == Usd::ZERO);
        usage.result(money(tokens(10, 5), 40));
        usage.message("b", "unheard-of", billed(30, 1), UsageConfidence::Rough);
        usage.result(money(tokens(20, 6), 100));
        let totals = usage.totals();
        assert_eq!((totals.cost, totals.lower_bound), (Usd::from_micros(100), false));
        assert_eq!(totals.tokens, tokens(40, 11));
    }

    #[test]
    fn a_result_without_numbers_keeps_the_messages() {
        let mut usage = ProcessUsage::default();
        usage.message("a", MODEL, billed(10, 0), UsageConfidence::Rough);
        usage.result(ReportedUsage::Nothing);
        usage.result(ReportedUsage::Nothing);
        assert_eq!(usage.totals().tokens, tokens(10, 0));
    }

    #[test]
    fn the_memory_for_messages_that_never_end_is_bounded() {
        let mut usage = ProcessUsage::default();
        for number in 0..3 * MAX_OPEN {
            usage.message(&number.to_string(), MODEL, billed(1, 0), UsageConfidence::Rough);
        }
        assert!(usage.open.len() <= MAX_OPEN && usage.totals().lower_bound);
        assert_eq!(
            usage.message("0", MODEL, billed(1, 0), UsageConfidence::Rough),
            None
        );
        assert_eq!(usage.totals().tokens, tokens(3 * MAX_OPEN as u64, 0));
    }
}
