//! Entries of the plan as a view shows them: codons and loops, with their attempts and checks.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::attempt::{AttemptKey, Attempts, EarlierAttempts};
use super::text::{LINE, excerpt};
use super::words::CHECK_FAILED;
use crate::codon::LoopCheck;
use crate::cost::Usd;

/// Maximum number of check results of an item; those of the first iterations are dropped.
pub(super) const CHECKS: usize = 8;

/// Entry of the plan.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct ItemView {
    /// Codon or loop.
    pub kind: ItemKind,
    /// Loop that holds the codon.
    #[serde(rename = "in", skip_serializing_if = "Option::is_none")]
    pub within: Option<String>,
    /// Name for people.
    pub name: String,
    /// Codons of a loop, in the order of one iteration.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub order: Vec<String>,
    /// Iteration of a loop that started last, counted from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub iteration: Option<u32>,
    /// Most iterations of a loop.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub most: Option<u32>,
    /// Command that ends a loop once it passes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
    /// Configured model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Question that is asked before the codon starts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub asks: Option<String>,
    /// Attempts that are shown one by one.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[cfg_attr(feature = "schema", schemars(with = "BTreeMap<String, super::AttemptView>"))]
    pub attempts: Attempts,
    /// Older attempts, summed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub earlier: Option<EarlierAttempts>,
    /// Results of the check that ends a loop, or that a codon must pass, by iteration; the newest ones.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub checks: BTreeMap<u32, CheckView>,
}

/// Kind of entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum ItemKind {
    /// One step.
    #[default]
    Codon,
    /// Codons that are repeated.
    Loop,
}

/// Result of a check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct CheckView {
    /// The command ended with 0.
    pub passed: bool,
    /// How it failed, and the end of its output, cut.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub says: Option<String>,
}

impl CheckView {
    /// Returns the result in words: `check failed: 1 of 3 fixed`.
    #[must_use]
    pub fn words(&self) -> String {
        let says = self.says.as_ref();
        match (self.passed, says) {
            (true, _) => "check passed".to_owned(),
            (false, None) => CHECK_FAILED.to_owned(),
            (false, Some(says)) => format!("{CHECK_FAILED}: {says}"),
        }
    }
}

impl From<&LoopCheck> for CheckView {
    fn from(check: &LoopCheck) -> Self {
        Self {
            passed: check.passed,
            says: check.words().map(|text| excerpt(text, LINE)),
        }
    }
}

impl ItemView {
    /// Returns the position of the next attempt in `iteration`.
    pub(super) fn next_attempt(&self, iteration: u32) -> AttemptKey {
        // The newest attempt of the iteration may be in the sum of old ones.
        let newest_summed = self.earlier.and_then(|earlier| earlier.last);
        let newest_summed = newest_summed.filter(|key| key.iteration == iteration);
        let newest = self.newest_in(iteration).max(newest_summed);
        let attempt = newest.map_or(1, |key| key.attempt.saturating_add(1));
        AttemptKey { iteration, attempt }
    }

    /// Returns the position of the newest listed attempt in `iteration`.
    pub(super) fn newest_in(&self, iteration: u32) -> Option<AttemptKey> {
        let of = |attempt| AttemptKey { iteration, attempt };
        let range = self.attempts.range(of(0)..=of(u32::MAX));
        range.map(|(key, _)| *key).next_back()
    }

    /// Cost of all attempts with their sentinels, in US dollars.
    #[must_use]
    pub fn spent(&self) -> Usd {
        let earlier = self.earlier.map_or(Usd::ZERO, |earlier| earlier.cost);
        let shown = self.attempts.values().map(super::AttemptView::spent);
        shown.fold(earlier, |sum, cost| sum + cost)
    }

    pub(super) fn keep_check(&mut self, iteration: u32, check: CheckView) {
        self.checks.insert(iteration, check);
        while self.checks.len() > CHECKS {
            self.checks.pop_first();
        }
    }

    /// Returns an upper bound for the length of the entry in JSON, in bytes, without attempts.
    pub(super) fn weight(&self, id: &str) -> usize {
        // A text may double in JSON, where quotes are escaped; the numbers are for keys and punctuation.
        let optional = |text: &Option<String>| text.as_ref().map_or(0, |text| text.len() * 2 + 16);
        let texts = [&self.within, &self.until, &self.model, &self.asks].map(optional);
        let order: usize = self.order.iter().map(|id| id.len() + 3).sum();
        let checks = self.checks.len() * (LINE + 40);
        2 * id.len() + 2 * self.name.len() + texts.iter().sum::<usize>() + order + checks + 80
    }
}
