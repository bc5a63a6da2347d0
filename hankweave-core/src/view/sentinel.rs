//! Sentinels, whichever codon they watch.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::text::{LINE, NAME, answer, excerpt};
use crate::cost::Usd;
use crate::wire::Event;

/// Sentinels that a view lists.
const SENTINELS: usize = 50;

/// A sentinel.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct SentinelView {
    /// State.
    pub state: WatchStatus,
    /// Last answer or failure, cut.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub says: Option<String>,
    /// Number of the event that changed it last.
    pub seq: u64,
    /// Number of answers.
    pub answers: u64,
    /// Cost of the answers, in US dollars.
    pub cost: Usd,
    /// It has cost more than is known.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub at_least: bool,
}

/// State of a sentinel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum WatchStatus {
    /// It watches a codon.
    #[default]
    Watching,
    /// Its last answer failed.
    Failed,
    /// It watches no longer.
    Ended,
}

/// Takes an event about a sentinel in; others change nothing.
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
    sentinel.change(event);
    if sentinels.len() > SENTINELS {
        let oldest = sentinels.iter().min_by_key(|(_, sentinel)| sentinel.seq);
        let oldest = oldest.map(|(id, _)| id.clone());
        sentinels.retain(|id, _| Some(id) != oldest.as_ref());
    }
}

impl SentinelView {
    fn change(&mut self, event: &Event) {
        match event {
            Event::SentinelLoaded { .. } => self.state = WatchStatus::Watching,
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
                self.at_least |= *cost_is_lower_bound == Some(true);
            }
            Event::SentinelError { message, .. } => {
                self.state = WatchStatus::Failed;
                self.says = Some(excerpt(message, LINE));
            }
            Event::SentinelUnloaded {
                cost_is_lower_bound, ..
            } => {
                self.state = WatchStatus::Ended;
                self.at_least |= *cost_is_lower_bound == Some(true);
            }
            _ => {}
        }
    }
}
