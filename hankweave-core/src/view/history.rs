//! History of a view: which attempts count (WIRE-48).
//!
//! A history is a chain of attempts that continue one another; a run that starts over begins another history. Only the attempts of the current history up to
//! its newest one, the tip, count. Each attempt names the one before it, so a history is found from its tip back, as the execution thread finds it from its
//! newest run (STATE-49 to STATE-52). A run that continues an older point makes exactly the attempts that led there count, also if that point is in an earlier
//! history.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::attempt::{AttemptKey, AttemptView, EarlierAttempts, is_free};
use super::run_view::RunView;
use super::undone::UndoneAttempt;
use crate::cost::Usd;
use crate::document::ContinuationSource;

/// Maximum number of listed attempts that do not count and have started since the start of the current history.
const UNDONE: usize = 40;
/// Maximum number of listed attempts that do not count and have started before the current history.
const LEFT: usize = 40;
/// Maximum number of histories to which a view can return.
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
    /// Starts another history with the run whose first event is `seq`. Money spent before that run does not count against the limit.
    pub(super) fn start_over(&mut self, seq: u64) {
        let start = HistoryStart {
            seq,
            before: self.money.spent,
            before_at_least: self.money.at_least || self.money.before_at_least,
            forgotten: None,
        };
        let known = self.history.starts.keys().next_back().copied();
        let number = known.unwrap_or_default().max(self.history.current) + 1;
        // The first history may have no entry yet.
        self.history.starts.entry(self.history.current).or_default();
        self.history.starts.insert(number, start);
        self.set_tip(None, number, seq);
        while self.history.starts.len() > HISTORIES {
            self.history.starts.pop_first();
        }
        let oldest = self.history.starts.keys().next().copied();
        let is_known = |undone: &UndoneAttempt| Some(undone.attempt.history) >= oldest;
        self.history.left.retain(|_, undone| is_known(undone));
    }

    /// Ends the history at `source`, because of the event `seq`: attempts that led there count, others no longer do. Returns the `seq` of the first attempt
    /// that no longer counts; `None` if there is none.
    pub(super) fn continue_at(&mut self, source: &ContinuationSource, seq: u64) -> Option<u64> {
        let (tip, history) = self.position_of(source)?;
        self.set_tip(tip, history, seq)
    }

    /// Makes `history` the current one, with the attempt `tip` as its newest; `None` where no attempt of it counts. The result is that of
    /// [`continue_at`](Self::continue_at).
    fn set_tip(&mut self, tip: Option<u64>, history: u64, seq: u64) -> Option<u64> {
        let (counting, unlisted) = self.attempts_up_to(tip);
        // Where the chain leads to an attempt that is no longer listed, it cannot be followed further: older attempts of the history count, but for those
        // that a rollback has undone.
        let is_older = |attempt: &AttemptView| attempt.number() < unlisted && attempt.history == history;
        let leads_there = |attempt: &AttemptView| counting.contains(&attempt.number());
        if history != self.history.current {
            self.forget_sums();
        }
        (self.history.tip, self.history.current) = (tip, history);
        let undone = self.remove_attempts(seq, |attempt| !leads_there(attempt) && !is_older(attempt));
        let first = undone.iter().filter_map(|undone| undone.attempt.seq).min();
        let newest = std::mem::take(&mut self.undone.newest);
        let left = std::mem::take(&mut self.history.left);
        let uncounted = newest.into_values().chain(left.into_values());
        let starts = &self.history.starts;
        let ended_by_start = |undone: &UndoneAttempt| starts.values().any(|start| start.seq == undone.by);
        let (counts_again, others): (Vec<_>, Vec<_>) = uncounted.partition(|undone| {
            leads_there(&undone.attempt) || is_older(&undone.attempt) && ended_by_start(undone)
        });
        for UndoneAttempt {
            item,
            key,
            mut attempt,
            ..
        } in counts_again
        {
            attempt.undone = false;
            if let Some(id) = &attempt.id {
                self.find_or_lay_out(&id.clone(), None);
            }
            self.add_attempt(&item, key, attempt);
        }
        self.list_undone(undone.into_iter().chain(others));
        let start = self.history.start();
        (self.money.before, self.money.before_at_least) = (start.before, start.before_at_least);
        // A rollback has marked the attempts that it was to undo. It undoes exactly those removed above, so marks on others do not hold.
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

    /// Returns the numbers of the attempts from `tip` back to the first one of its history. If an attempt on the way is no longer listed, the numbers
    /// end before it, and the second value is its number; else that is 0.
    fn attempts_up_to(&self, tip: Option<u64>) -> (BTreeSet<u64>, u64) {
        let predecessors: BTreeMap<u64, Option<u64>> = self
            .all_attempts()
            .map(|attempt| (attempt.number(), attempt.after))
            .collect();
        let mut chain = BTreeSet::new();
        let mut at = tip;
        while let Some(number) = at {
            let Some(before) = predecessors.get(&number) else {
                break;
            };
            chain.insert(number);
            // An `after` that is not older could lead in a circle.
            at = before.filter(|before| *before < number);
        }
        (chain, at.unwrap_or_default())
    }

    /// Returns all listed attempts, those that count and those that do not.
    fn all_attempts(&self) -> impl Iterator<Item = &AttemptView> {
        let counting = self.items.values().flat_map(|item| item.attempts.values());
        let others = self.undone.newest.values().chain(self.history.left.values());
        counting.chain(others.map(|undone| &undone.attempt))
    }

    /// Removes the attempts that the event `seq` undoes from their items.
    pub(super) fn remove_attempts(
        &mut self,
        seq: u64,
        is_undone: impl Fn(&AttemptView) -> bool,
    ) -> Vec<UndoneAttempt> {
        let mut removed = Vec::new();
        for (id, item) in &mut self.items {
            let undone = item.attempts.iter().filter(|(_, attempt)| is_undone(attempt));
            let undone: Vec<AttemptKey> = undone.map(|(key, _)| *key).collect();
            for key in undone {
                if let Some(mut attempt) = item.attempts.remove(&key) {
                    attempt.undone = true;
                    let (item, by) = (id.clone(), seq);
                    removed.push(UndoneAttempt {
                        item,
                        key,
                        by,
                        attempt,
                    });
                }
            }
        }
        removed
    }

    /// Lists attempts that no longer count: in `undone` those since the start of the current history, in `history` the older ones. Where a list is full, its
    /// oldest attempt is added to a sum.
    pub(super) fn list_undone(&mut self, attempts: impl IntoIterator<Item = UndoneAttempt>) {
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
                let history = self.history.starts.entry(oldest.attempt.history).or_default();
                let forgotten = history.forgotten.get_or_insert_default();
                forgotten.add(oldest.key, &oldest.attempt);
            }
        }
        self.sum_forgotten();
    }

    /// Moves the sums of the items to the current history, before another one becomes current.
    fn forget_sums(&mut self) {
        let sums = self.items.values_mut().filter_map(|item| item.earlier.take());
        for sum in sums {
            let current = self.history.starts.entry(self.history.current).or_default();
            current.forgotten.get_or_insert_default().add_sum(&sum);
        }
    }

    /// Updates the sum of the attempts since the start of the current history that are not listed and do not count.
    pub(super) fn sum_forgotten(&mut self) {
        let start = self.history.start().seq;
        let since = self.history.starts.values().filter(|known| known.seq >= start);
        let mut sum: Option<EarlierAttempts> = None;
        for forgotten in since.filter_map(|known| known.forgotten) {
            sum.get_or_insert_default().add_sum(&forgotten);
        }
        self.undone.earlier = sum;
    }

    /// Whether the attempt before this one is no longer listed.
    fn follows_unlisted(&self, attempt: &AttemptView) -> bool {
        let is_unlisted = |number: u64| self.all_attempts().all(|other| other.number() != number);
        attempt.after.is_some_and(is_unlisted)
    }

    /// Returns the oldest listed attempt of the current history that follows attempts of which only the sum is known.
    fn oldest_after_sum(&self) -> Option<&AttemptView> {
        let counting = self.items.values().flat_map(|item| item.attempts.values());
        let is_next = |attempt: &&AttemptView| {
            attempt.history == self.history.current && self.follows_unlisted(attempt)
        };
        counting.filter(is_next).min_by_key(|attempt| attempt.number())
    }

    /// Returns the attempt after which a run continues at `source`, as the execution thread has it (STATE-50 to STATE-52), and the number of its history. The
    /// attempt is `None` before the first one of a history; the result is `None` where no attempt of the source's run is listed or summed.
    fn position_of(&self, source: &ContinuationSource) -> Option<(Option<u64>, u64)> {
        let of_run = self
            .all_attempts()
            .filter(|attempt| attempt.run.as_ref() == Some(&source.run_id));
        let mut of_run: Vec<&AttemptView> = of_run.collect();
        of_run.sort_by_key(|attempt| attempt.number());
        let before = |attempt: &AttemptView| Some((attempt.after, attempt.history));
        // Attempts of the run that are only summed are older than the listed one that follows the sum.
        let (Some(first), Some(last)) = (of_run.first(), of_run.last()) else {
            return before(self.oldest_after_sum()?);
        };
        let Some(codon) = &source.after_codon else {
            return before(first);
        };
        // The newest attempts of the codon in a row, the newest first.
        let is_of_codon = |attempt: &&AttemptView| attempt.id.as_ref() == Some(codon);
        let newest_first = of_run.iter().rev().copied();
        let attempts: Vec<&AttemptView> = newest_first
            .skip_while(|attempt| !is_of_codon(attempt))
            .take_while(is_of_codon)
            .collect();
        let sha = Some(&source.checkpoint_sha).filter(|sha| !sha.is_blank());
        // From the checkpoint after its rig, the codon itself is repeated.
        let has_rig_checkpoint =
            |attempt: &&&AttemptView| sha.is_some() && attempt.rig_checkpoint.as_ref() == sha;
        if let Some(repeated) = attempts.iter().rev().find(has_rig_checkpoint) {
            return before(repeated);
        }
        // An attempt of the codon that is only summed is older than the listed one that follows the sum.
        if attempts.is_empty()
            && let Some(oldest) = of_run.iter().find(|attempt| self.follows_unlisted(attempt))
        {
            return before(oldest);
        }
        let has_checkpoint = |attempt: &&&AttemptView| sha.is_some() && attempt.checkpoint.as_ref() == sha;
        let end = attempts.iter().find(has_checkpoint).or(attempts.first());
        let end = end.unwrap_or(last);
        Some((Some(end.number()), end.history))
    }
}
