//! Attempts that count no longer (WIRE-48): a rollback undid them, or a later run repeats them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::attempt::{AttemptKey, AttemptView, EarlierAttempts};
use super::run_view::RunView;
use crate::document::{ContinuationSource, Operation, PendingRollback};
use crate::id::{CheckpointSha, CodonId};
use crate::time::Timestamp;

/// Attempts of them that a view lists.
const UNDONE: usize = 40;

/// Attempts that count no longer. Their money and time stay spent.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct UndoneAttempts {
    /// Newest of them, by the number of the event that started each.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub newest: BTreeMap<u64, UndoneAttempt>,
    /// The others, summed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub earlier: Option<EarlierAttempts>,
}

/// Attempt that counts no longer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct UndoneAttempt {
    /// Entry of the plan.
    pub item: String,
    /// Its position there while it counted, `ITERATION.ATTEMPT`.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub key: AttemptKey,
    /// Number of the event that undid it.
    pub by: u64,
    /// Attempt.
    pub attempt: AttemptView,
}

/// Position to which the files and the history were rolled back, until a run starts there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct RolledBack {
    /// Codon after which the next run continues; absent at the beginning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub codon: Option<CodonId>,
    /// Checkpoint of the files.
    pub checkpoint: CheckpointSha,
    /// When it was recorded; absent where that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
}

/// Undo of a rollback.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct UndoView {
    /// Id of the rollback's operation.
    pub operation: String,
    /// Checkpoint of the files as they were before it.
    pub to: CheckpointSha,
    /// Checkpoint of the files to which it led.
    pub from: CheckpointSha,
}

/// Position of an attempt in time. Those of a state document have no number, and are older than those with one.
type Moment = (u64, Option<Timestamp>);

/// Moment at which a history ends.
#[derive(Debug, Clone, Copy)]
struct HistoryEnd {
    moment: Moment,
    /// The attempt of this moment counts, too.
    is_included: bool,
}

impl HistoryEnd {
    fn has(self, attempt: &AttemptView) -> bool {
        let at = moment(attempt);
        at < self.moment || (self.is_included && at == self.moment)
    }
}

impl UndoneAttempts {
    pub(super) fn is_none(&self) -> bool {
        self.newest.is_empty() && self.earlier.is_none()
    }

    /// Returns the sum of all of them; `None` without any.
    #[must_use]
    pub fn sum(&self) -> Option<EarlierAttempts> {
        let mut sum = self.earlier;
        for undone in self.newest.values() {
            sum.get_or_insert_default().add(undone.key, &undone.attempt);
        }
        sum
    }

    fn add(&mut self, undone: UndoneAttempt) {
        let Some(seq) = undone.attempt.seq else {
            return self.forget(&undone);
        };
        self.newest.insert(seq, undone);
        if self.newest.len() > UNDONE
            && let Some((_, oldest)) = self.newest.pop_first()
        {
            self.forget(&oldest);
        }
    }

    fn forget(&mut self, undone: &UndoneAttempt) {
        self.earlier
            .get_or_insert_default()
            .add(undone.key, &undone.attempt);
    }
}

impl RolledBack {
    pub(super) fn of(pending: &PendingRollback, at: Option<Timestamp>) -> Self {
        Self {
            codon: pending.source.after_codon.clone(),
            checkpoint: pending.source.checkpoint_sha.clone(),
            at,
        }
    }
}

impl UndoView {
    pub(super) fn of(operation: &Operation) -> Self {
        Self {
            operation: operation.id.clone(),
            to: operation.before.checkpoint_sha.clone(),
            from: operation.after.checkpoint_sha.clone(),
        }
    }
}

const fn moment(attempt: &AttemptView) -> Moment {
    let seq = match attempt.seq {
        Some(seq) => seq,
        None => 0,
    };
    (seq, attempt.began)
}

impl RunView {
    /// Takes in that the files were rolled back to a position.
    pub(super) fn roll_back(&mut self, pending: &PendingRollback, at: Timestamp, seq: u64) {
        let first = self.stand_at(&pending.source, seq);
        if let Some(first) = first {
            self.files.roll_back(first);
        }
        (self.ask, self.answered) = (None, None);
        self.rollback = Some(RolledBack::of(pending, Some(at)));
        let operation = pending
            .operation
            .as_ref()
            .filter(|operation| operation.is_rollback());
        self.undo = operation.map(UndoView::of);
    }

    /// Lets the history end at `source`: attempts after it count no longer, and those that led there count again. Returns the number of the event that
    /// started the first one that counts no longer.
    pub(super) fn stand_at(&mut self, source: &ContinuationSource, seq: u64) -> Option<u64> {
        let end = self.end_of(source)?;
        let again = self.undone.newest.iter();
        let again = again.filter(|(_, undone)| end.has(&undone.attempt) && undone.by > end.moment.0);
        let again: Vec<u64> = again.map(|(started, _)| *started).collect();
        for started in again {
            if let Some(undone) = self.undone.newest.remove(&started) {
                let attempt = AttemptView {
                    undone: false,
                    ..undone.attempt
                };
                self.add_attempt(&undone.item, undone.key, attempt);
            }
        }
        let mut first = None;
        for (id, item) in &mut self.items {
            let later = item.attempts.iter().filter(|(_, attempt)| !end.has(attempt));
            let later: Vec<AttemptKey> = later.map(|(key, _)| *key).collect();
            for key in later {
                let Some(mut attempt) = item.attempts.remove(&key) else {
                    continue;
                };
                attempt.undone = true;
                first = [first, attempt.seq].into_iter().flatten().min();
                self.undone.add(UndoneAttempt {
                    item: id.clone(),
                    key,
                    by: seq,
                    attempt,
                });
            }
        }
        // What a rollback was to undo is exactly that.
        for item in self.items.values_mut() {
            item.attempts
                .values_mut()
                .for_each(|attempt| attempt.undone = false);
        }
        self.forget_iterations();
        let problem = self.problem.take();
        self.problem = problem.filter(|problem| self.attempt(&problem.item, problem.attempt).is_some());
        first
    }

    /// Takes out the attempts that a rollback was to undo.
    pub(super) fn undo_marked(&mut self, seq: u64) {
        for (id, item) in &mut self.items {
            let marked = item.attempts.iter().filter(|(_, attempt)| attempt.undone);
            let marked: Vec<AttemptKey> = marked.map(|(key, _)| *key).collect();
            for key in marked {
                if let Some(attempt) = item.attempts.remove(&key) {
                    self.undone.add(UndoneAttempt {
                        item: id.clone(),
                        key,
                        by: seq,
                        attempt,
                    });
                }
            }
        }
        self.forget_iterations();
    }

    /// Returns the end of the history that a run continues at `source`, as the execution thread has it (STATE-50 to STATE-52); `None` where no attempt of
    /// its run is known.
    fn end_of(&self, source: &ContinuationSource) -> Option<HistoryEnd> {
        let counting = self.items.values().flat_map(|item| item.attempts.values());
        let undone = self.undone.newest.values().map(|undone| &undone.attempt);
        let all = counting.chain(undone);
        let of_run = all.filter(|attempt| attempt.run.as_ref() == Some(&source.run_id));
        let mut run: Vec<&AttemptView> = of_run.collect();
        run.sort_by_key(|attempt| moment(attempt));
        let end = |attempt: &AttemptView, is_included| HistoryEnd {
            moment: moment(attempt),
            is_included,
        };
        let (first, last) = (run.first()?, run.last()?);
        let Some(after) = &source.after_codon else {
            return Some(end(first, false));
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
            return Some(end(again, false));
        }
        let ended_there = |attempt: &&&AttemptView| sha.is_some() && attempt.checkpoint.as_ref() == sha;
        let found = tries.iter().find(ended_there).or(tries.first());
        Some(end(found.unwrap_or(last), true))
    }

    /// Drops the iterations and checks of loops whose attempts count no longer.
    fn forget_iterations(&mut self) {
        let loops = self.items.iter().filter(|(_, item)| !item.order.is_empty());
        let loops = loops.map(|(id, item)| {
            let newest = item.order.iter().filter_map(|codon| {
                let attempts = &self.items.get(codon)?.attempts;
                attempts.keys().next_back().map(|key| key.iteration)
            });
            let last = item.order.last().and_then(|codon| self.items.get(codon));
            let checked = last.and_then(|last| last.attempts.keys().next_back().map(|key| key.iteration));
            (id.clone(), newest.max(), checked)
        });
        let loops: Vec<_> = loops.collect();
        for (id, newest, checked) in loops {
            if let Some(item) = self.items.get_mut(&id) {
                item.iteration = newest;
                item.checks.retain(|iteration, _| Some(*iteration) <= checked);
            }
        }
        for item in self.items.values_mut().filter(|item| item.order.is_empty()) {
            let newest = item.attempts.keys().next_back().map(|key| key.iteration);
            item.checks.retain(|iteration, _| Some(*iteration) <= newest);
        }
    }
}
