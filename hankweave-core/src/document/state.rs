//! The state document as a whole, with its smaller parts: the answer to an approval and the pending rollback (STATE-5).

use crate::time::Timestamp;
use std::collections::VecDeque;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::plan::read_plan;
use super::{ContinuationSource, Operation, PlanEntry, RunRecord, SharedList};
use crate::id::{CheckpointSha, CodonId, RunId};
use crate::machine::Extra;
use crate::shape::Shape;

/// Contents of `.hankweave/state.json`.
///
/// Runs, codons and the plan are shared, so a clone is a cheap snapshot: it copies one pointer for each run,
/// and the reducer copies only what it changes afterwards.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, Shape)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct HankweaveState {
    /// All runs, newest first; none is ever removed.
    pub runs: VecDeque<Arc<RunRecord>>,
    /// The run that a live server works on; `null` when there is none.
    #[serde(deserialize_with = "Option::deserialize")]
    pub current_run_id: Option<RunId>,
    /// The commit of the clean project, before any codon ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub initial_checkpoint: Option<CheckpointSha>,
    /// Every codon that runs, with the iterations of loops that are planned so far.
    #[serde(deserialize_with = "read_plan")]
    #[cfg_attr(feature = "schema", schemars(with = "Vec<PlanEntry>"))]
    pub execution_plan: SharedList<PlanEntry>,
    /// The rollback with which the next run starts; not part of the contract.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pending_rollback: Option<PendingRollback>,
    /// Last answer to an approval; not part of the contract.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<Approval>,
    /// Operations that restored files, oldest first; not part of the contract.
    #[serde(default, skip_serializing_if = "is_empty")]
    pub operations: Arc<Vec<Operation>>,
    /// Names that other versions wrote; kept as they are.
    #[serde(flatten)]
    #[cfg_attr(feature = "schema", schemars(skip))]
    pub extra: Extra,
}

impl HankweaveState {
    /// Makes this document equal to `newer`, a later version of it.
    ///
    /// Unlike a clone, this touches only the runs that changed: with a thousand runs, that is a fraction of
    /// the time.
    pub fn update_to(&mut self, newer: &Self) {
        let Self {
            runs,
            current_run_id,
            initial_checkpoint,
            execution_plan,
            pending_rollback,
            approval,
            operations,
            extra,
        } = newer;
        if self.runs.len() == runs.len() {
            let pairs = self.runs.iter_mut().zip(runs);
            let changed = pairs.filter(|(old, new)| !Arc::ptr_eq(old, new));
            changed.for_each(|(old, new)| old.clone_from(new));
        } else {
            self.runs.clone_from(runs);
        }
        self.current_run_id.clone_from(current_run_id);
        self.initial_checkpoint.clone_from(initial_checkpoint);
        self.execution_plan.clone_from(execution_plan);
        self.pending_rollback.clone_from(pending_rollback);
        self.approval.clone_from(approval);
        self.operations.clone_from(operations);
        self.extra.clone_from(extra);
    }
}

/// User's answer to an approval.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Shape)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Approval {
    /// The entry of the plan; each iteration of a loop is one of its own.
    pub codon_id: CodonId,
    /// Whether it may start.
    pub granted: bool,
    /// Why, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Client or user who answered, where known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// When it was given, where it is recorded later: the registry of a task had it before the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
    /// Names that other versions wrote; kept as they are.
    #[serde(flatten)]
    #[cfg_attr(feature = "schema", schemars(skip))]
    pub extra: Extra,
}

impl Approval {
    /// Returns when the answer was given: `at`, but not later than `recorded`, whatever clock `at` came from. Without `at` it is `recorded`.
    #[must_use]
    pub fn given_at(&self, recorded: Timestamp) -> Timestamp {
        self.at.map_or(recorded, |given| given.min(recorded))
    }
}

/// A rollback that was chosen and with which no run has started yet.
///
/// It is recorded before the first file changes, so the next start finishes an interrupted restore.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Shape)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct PendingRollback {
    /// The point at which the next run continues.
    pub source: ContinuationSource,
    /// The checkpoint that the files are in now: files that only it has are deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left: Option<CheckpointSha>,
    /// The checkpoint that keeps the files as they were before the first change. A restore that is finished
    /// later keeps it. `None` while nothing had to change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub safety: Option<CheckpointSha>,
    /// Whether the files are restored.
    pub restored: bool,
    /// Operation that is recorded once they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation: Option<Operation>,
    /// Names that other versions wrote; kept as they are.
    #[serde(flatten)]
    #[cfg_attr(feature = "schema", schemars(skip))]
    pub extra: Extra,
}

impl PendingRollback {
    /// Returns whether a user chose the rollback; if not, a run rolls back by itself.
    #[must_use]
    pub fn is_chosen(&self) -> bool {
        let operation = self.operation.as_ref();
        operation.is_some_and(|operation| operation.command != Operation::BY_A_RUN)
    }
}

fn is_empty(operations: &Arc<Vec<Operation>>) -> bool {
    operations.is_empty()
}
