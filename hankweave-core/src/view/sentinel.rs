//! Sentinels of a run: status, last answer and cost of each.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::attempt::is_free;
use super::text::{LINE, NAME, answer, excerpt};
use crate::cost::Usd;
use crate::wire::Event;

/// Maximum number of sentinels in a view; the one whose last event is the oldest is dropped first.
const MAX_SENTINELS: usize = 50;

/// A sentinel, summed over all codons that it watched.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
#[non_exhaustive]
pub struct SentinelView {
    /// Status.
    pub state: WatchStatus,
    /// Last answer or failure, cut.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub says: Option<String>,
    /// Number of the last event about it.
    pub seq: u64,
    /// Number of published answers.
    pub answers: u64,
    /// Known cost in US dollars: of each published answer at once, of failed and unpublished ones when it stops watching a codon. A sentinel that does not
    /// publish that either (`lifecycle` of its reports) has their cost in [`AttemptView::sentinels`](super::AttemptView::sentinels) alone.
    pub cost: Usd,
    /// Part of `cost` that its answers about the current codon have, in US dollars.
    #[serde(skip_serializing_if = "is_free")]
    pub codon_cost: Usd,
    /// Whether it may have cost more than `cost`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub at_least: bool,
}

/// Status of a sentinel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum WatchStatus {
    /// Watches a codon.
    #[default]
    Watching,
    /// Watches a codon, but failed to answer last.
    Failed,
    /// Has stopped watching; the next codon may start it again.
    Ended,
}

/// Applies an event about a sentinel; other events change nothing.
pub(super) fn take(sentinels: &mut BTreeMap<String, SentinelView>, event: &Event, seq: u64) {
    let id = match event {
        Event::SentinelLoaded { sentinel_id, .. }
        | Event::SentinelOutput { sentinel_id, .. }
        | Event::SentinelError { sentinel_id, .. }
        | Event::SentinelUnloaded { sentinel_id, .. } => excerpt(sentinel_id.as_str(), NAME),
        _ => return,
    };
    let sentinel = sentinels.entry(id).or_default();
    sentinel.seq = seq;
    sentinel.apply(event);
    if sentinels.len() > MAX_SENTINELS {
        let oldest = sentinels.values().map(|sentinel| sentinel.seq).min();
        sentinels.retain(|_, sentinel| Some(sentinel.seq) != oldest);
    }
}

impl SentinelView {
    fn apply(&mut self, event: &Event) {
        match event {
            Event::SentinelLoaded { .. } => {
                self.state = WatchStatus::Watching;
                self.codon_cost = Usd::ZERO;
            }
            Event::SentinelOutput {
                content,
                cost,
                cost_is_lower_bound,
                ..
            } => {
                self.state = WatchStatus::Watching;
                self.says = Some(excerpt(&answer(content), LINE));
                self.answers = self.answers.saturating_add(1);
                self.cost += *cost;
                self.codon_cost += *cost;
                self.at_least |= *cost_is_lower_bound == Some(true);
            }
            Event::SentinelError { message, .. } => {
                self.state = WatchStatus::Failed;
                self.says = Some(excerpt(message, LINE));
            }
            Event::SentinelUnloaded {
                final_cost,
                cost_is_lower_bound,
                ..
            } => {
                self.state = WatchStatus::Ended;
                // `final_cost` counts the published answers too.
                self.cost += final_cost.saturating_sub(self.codon_cost);
                self.codon_cost = Usd::ZERO;
                self.at_least |= *cost_is_lower_bound == Some(true);
            }
            _ => {}
        }
    }
}
