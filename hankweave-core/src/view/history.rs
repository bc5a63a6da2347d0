//! History of a view: which attempts count (WIRE-48).
//!
//! Each attempt names the one before it, so a history is found from its newest attempt back, as the execution thread finds it from its newest run
//! (STATE-49 to STATE-52). A run that continues an older point restores exactly the attempts that led there, also if that point is in a history that
//! a later run started over.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::attempt::{AttemptKey, AttemptView, EarlierAttempts, is_free};
use super::run_view::RunView;
use super::undone::UndoneAttempt;
use crate::cost::Usd;
use crate::document::ContinuationSource;

/// Attempts that count no longer which a view lists.
const UNDONE: usize = 40;
/// Attempts of earlier histories that a view keeps.
const LEFT: usize = 40;
/// Histories to which a view can return.
const HISTORIES: usize = 20;

/// History of the run, and the earlier ones, to which an undo may lead.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
#[non_exhaustive]
pub struct HistoryView {
    /// Number of the newest attempt that counts (`seq` or `record`); absent where none does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tip: Option<u64>,
    /// Number of the history.
    pub current: u64,
    /// Starts of the newest histories, by their numbers.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub starts: BTreeMap<u64, HistoryStart>,
    /// Newest attempts of earlier histories, by the `seq` or `record` of each.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub left: BTreeMap<u64, UndoneAttempt>,
}

/// Start of a history.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
#[non_exhaustive]
pub struct HistoryStart {
    /// Number of the event that started its first run; 0 for the first history.
    pub seq: u64,
    /// Money spent before it, in US dollars.
    #[serde(skip_serializing_if = "is_free")]
    pub before: Usd,
    /// More was spent before it than is known.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub before_at_least: bool,
    /// Attempts of it that are not listed and do not count.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub forgotten: Option<EarlierAttempts>,
}

impl HistoryView {
    pub(super) fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the start of the current history.
    fn start(&self) -> HistoryStart {
        self.starts.get(&self.current).copied().unwrap_or_default()
    }
}

impl RunView {
    /// Starts a history with the run whose first event is `seq`: what was spent before it does not count against its limit.
    pub(super) fn start_over(&mut self, seq: u64) {
        let start = HistoryStart {
            seq,
            before: self.money.spent,
            before_at_least: self.money.at_least || self.money.before_at_least,
            forgotten: None,
        };
        let known = self.history.starts.keys().next_back().copied();
        let number = known.unwrap_or_default().max(self.history.current) + 1;
        self.history.starts.entry(self.history.current).or_default();
        self.history.starts.insert(number, start);
        self.stand(None, number, seq);
        while self.history.starts.len() > HISTORIES {
            self.history.starts.pop_first();
        }
        let oldest = self.history.starts.keys().next().copied();
        let is_known = |undone: &UndoneAttempt| Some(undone.attempt.history) >= oldest;
        self.history.left.retain(|_, undone| is_known(undone));
    }

    /// Lets the history end at `source`: attempts that did not lead there count no longer, and those that did count again. Returns the number of the event that
    /// started the first one that counts no longer.
    pub(super) fn stand_at(&mut self, source: &ContinuationSource, seq: u64) -> Option<u64> {
        let (tip, history) = self.position_of(source)?;
        self.stand(tip, history, seq)
    }

    /// Lets the history end with the attempt `tip`.
    fn stand(&mut self, tip: Option<u64>, history: u64, seq: u64) -> Option<u64> {
        let (counting, unknown) = self.led_to(tip);
        let counts = |attempt: &AttemptView| {
            let is_older = attempt.number() < unknown && attempt.history == history;
            is_older || counting.contains(&attempt.number())
        };
        if history != self.history.current {
            self.forget_sums();
        }
        (self.history.tip, self.history.current) = (tip, history);
        let undone = self.take_out(seq, |attempt| !counts(attempt));
        let first = undone.iter().filter_map(|undone| undone.attempt.seq).min();
        let newest = std::mem::take(&mut self.undone.newest);
        let left = std::mem::take(&mut self.history.left);
        let known = newest.into_values().chain(left.into_values());
        let (again, others): (Vec<_>, Vec<_>) = known.partition(|undone| counts(&undone.attempt));
        for UndoneAttempt {
            item,
            key,
            mut attempt,
            ..
        } in again
        {
            attempt.undone = false;
            if let Some(id) = &attempt.id {
                self.find_or_lay_out(&id.clone(), None);
            }
            self.add_attempt(&item, key, attempt);
        }
        self.put_aside(undone.into_iter().chain(others));
        let start = self.history.start();
        (self.money.before, self.money.before_at_least) = (start.before, start.before_at_least);
        // What a rollback was to undo is exactly that.
        let counting = self
            .items
            .values_mut()
            .flat_map(|item| item.attempts.values_mut());
        counting.for_each(|attempt| attempt.undone = false);
        self.forget_iterations();
        let problem = self.problem.take();
        self.problem = problem.filter(|problem| self.attempt(&problem.item, problem.attempt).is_some());
        first
    }

    /// Returns the attempts from `tip` back to the first one of its history. Where the view no longer has one of them, it is returned as well, else 0: older ones
    /// stay as they are.
    fn led_to(&self, tip: Option<u64>) -> (BTreeSet<u64>, u64) {
        let before: BTreeMap<u64, Option<u64>> = self
            .all_attempts()
            .map(|attempt| (attempt.number(), attempt.after))
            .collect();
        let mut counting = BTreeSet::new();
        let mut at = tip;
        while let Some(number) = at {
            let Some(after) = before.get(&number) else { break };
            counting.insert(number);
            at = after.filter(|after| *after < number);
        }
        (counting, at.unwrap_or_default())
    }

    /// Returns all attempts that are listed, those that count and those that do not.
    fn all_attempts(&self) -> impl Iterator<Item = &AttemptView> {
        let counting = self.items.values().flat_map(|item| item.attempts.values());
        let others = self.undone.newest.values().chain(self.history.left.values());
        counting.chain(others.map(|undone| &undone.attempt))
    }

    /// Takes the attempts that are to count no longer out of their items.
    pub(super) fn take_out(
        &mut self,
        seq: u64,
        is_meant: impl Fn(&AttemptView) -> bool,
    ) -> Vec<UndoneAttempt> {
        let mut taken = Vec::new();
        for (id, item) in &mut self.items {
            let meant = item.attempts.iter().filter(|(_, attempt)| is_meant(attempt));
            let meant: Vec<AttemptKey> = meant.map(|(key, _)| *key).collect();
            for key in meant {
                if let Some(mut attempt) = item.attempts.remove(&key) {
                    attempt.undone = true;
                    let (item, by) = (id.clone(), seq);
                    taken.push(UndoneAttempt {
                        item,
                        key,
                        by,
                        attempt,
                    });
                }
            }
        }
        taken
    }

    /// Lists attempts that count no longer with those of their history, or of earlier ones; the oldest ones are summed.
    pub(super) fn put_aside(&mut self, attempts: impl IntoIterator<Item = UndoneAttempt>) {
        let start = self.history.start().seq;
        for undone in attempts {
            let number = undone.attempt.number();
            let (list, most) = match number >= start {
                true => (&mut self.undone.newest, UNDONE),
                false => (&mut self.history.left, LEFT),
            };
            list.insert(number, undone);
            if list.len() > most
                && let Some((_, oldest)) = list.pop_first()
            {
                let of = self.history.starts.entry(oldest.attempt.history).or_default();
                let forgotten = of.forgotten.get_or_insert_default();
                forgotten.add(oldest.key, &oldest.attempt);
            }
        }
        self.sum_forgotten();
    }

    /// Adds the sums of the items to those of the history that is left.
    fn forget_sums(&mut self) {
        let sums = self.items.values_mut().filter_map(|item| item.earlier.take());
        for sum in sums {
            let left = self.history.starts.entry(self.history.current).or_default();
            left.forgotten.get_or_insert_default().add_sum(&sum);
        }
    }

    /// Sums the attempts since the start of the history that are not listed.
    pub(super) fn sum_forgotten(&mut self) {
        let start = self.history.start().seq;
        let since = self.history.starts.values().filter(|known| known.seq >= start);
        let mut sum: Option<EarlierAttempts> = None;
        for forgotten in since.filter_map(|known| known.forgotten) {
            sum.get_or_insert_default().add_sum(&forgotten);
        }
        self.undone.earlier = sum;
    }

    /// Returns the newest attempt of the history that a run continues at `source`, as the execution thread has it (STATE-50 to STATE-52), and the number of that
    /// history; `None` where no attempt of its run is known.
    fn position_of(&self, source: &ContinuationSource) -> Option<(Option<u64>, u64)> {
        let of_run = self
            .all_attempts()
            .filter(|attempt| attempt.run.as_ref() == Some(&source.run_id));
        let mut run: Vec<&AttemptView> = of_run.collect();
        run.sort_by_key(|attempt| attempt.number());
        let before = |attempt: &AttemptView| Some((attempt.after, attempt.history));
        let (first, last) = (run.first()?, run.last()?);
        let Some(after) = &source.after_codon else {
            return before(first);
        };
        let is_try = |attempt: &&AttemptView| attempt.id.as_ref() == Some(after);
        let newest_first = run.iter().rev().copied();
        let tries: Vec<&AttemptView> = newest_first
            .skip_while(|attempt| !is_try(attempt))
            .take_while(is_try)
            .collect();
        let sha = Some(&source.checkpoint_sha).filter(|sha| !sha.is_blank());
        let at_rig = |attempt: &&&AttemptView| sha.is_some() && attempt.rig_checkpoint.as_ref() == sha;
        if let Some(again) = tries.iter().rev().find(at_rig) {
            return before(again);
        }
        let ended_there = |attempt: &&&AttemptView| sha.is_some() && attempt.checkpoint.as_ref() == sha;
        let end = tries.iter().find(ended_there).or(tries.first()).unwrap_or(last);
        Some((Some(end.number()), end.history))
    }
}
