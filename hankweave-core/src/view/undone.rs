//! Attempts that count no longer (WIRE-48): a rollback undid them, or a later run repeats them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::attempt::{AttemptKey, AttemptView, EarlierAttempts};
use super::run_view::RunView;
use crate::document::{Operation, PendingRollback};
use crate::id::{CheckpointSha, CodonId};
use crate::time::Timestamp;

/// Attempts that count no longer. Their money and time stay spent.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
#[non_exhaustive]
pub struct UndoneAttempts {
    /// Newest of them, by the `seq` or `record` of each.
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
#[non_exhaustive]
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
#[non_exhaustive]
pub struct RolledBack {
    /// Codon after which the next run continues; absent at the start.
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
#[non_exhaustive]
pub struct UndoView {
    /// Id of the rollback's operation.
    pub operation: String,
    /// Checkpoint of the files as they were before it.
    pub to: CheckpointSha,
    /// Checkpoint of the files to which it led.
    pub from: CheckpointSha,
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

impl RunView {
    /// Applies a rollback of the files to a position.
    pub(super) fn roll_back(&mut self, pending: &PendingRollback, at: Timestamp, seq: u64) {
        let first = self.continue_at(&pending.source, seq);
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

    /// Undoes the attempts that the start of a rollback marked.
    pub(super) fn undo_marked(&mut self, seq: u64) {
        let marked = self.remove_attempts(seq, |attempt| attempt.undone);
        if marked.is_empty() {
            return;
        }
        self.list_undone(marked);
        let counting = self.items.values().flat_map(|item| item.attempts.values());
        self.history.tip = counting.map(AttemptView::number).max();
        self.forget_iterations();
    }

    /// Forgets the iterations and checks whose attempts no longer count. A loop is checked after its last codon, any other item after itself.
    pub(super) fn forget_iterations(&mut self) {
        let newest_of = |codon: &String| {
            let attempts = &self.items.get(codon)?.attempts;
            attempts.keys().next_back().map(|key| key.iteration)
        };
        let loops = self.items.iter().filter(|(_, item)| !item.order.is_empty());
        let loops = loops.map(|(id, item)| {
            let newest = item.order.iter().filter_map(newest_of).max();
            let checked = item.order.last().and_then(newest_of);
            (id.clone(), newest, checked)
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
