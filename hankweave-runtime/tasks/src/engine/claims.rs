//! Claims of tasks, and orphans (TASK-24, TASK-25).

use std::time::Duration;

use hankweave_core::time::Timestamp;
use hankweave_task_model::registry::TaskRow;
use hankweave_task_model::task::TaskStatus;

use super::locks::{expired, grant, wall_offset};
use super::{ReadSet, Transaction, Tx, TxResult};
use crate::coordinator::{Claim, Claimed};

/// Number of candidates for one claim. Each worker that claims at the same moment takes one of them away, so there must be more candidates than workers.
const CANDIDATES: u32 = 64;

impl Transaction for Claim {
    type Output = Option<Claimed>;

    async fn perform<T: Tx>(&self, tx: &mut T) -> TxResult<Option<Claimed>> {
        let excluded = u32::try_from(self.except.len()).unwrap_or(u32::MAX);
        let most = CANDIDATES.saturating_add(excluded);
        let claimable = tx.claimable(self.owner.as_deref(), most).await?;
        for id in claimable.into_iter().filter(|id| !self.except.contains(id)) {
            let name = TaskRow::lock_name(&id);
            let read_set = ReadSet {
                task: Some(&id),
                token: true,
                ..ReadSet::default()
            };
            let Some(view) = tx.read_view_if_free(&name, read_set).await? else {
                continue;
            };
            // Another worker may have been quicker since the list was read.
            let is_pending = |row: &TaskRow| row.record.status() == TaskStatus::Pending;
            let Some(row) = view.task.filter(is_pending) else {
                continue;
            };
            let (before, now) = (view.resource, tx.lease_now().await?);
            if before.held.iter().any(|held| held.lives(now)) {
                continue;
            }
            let mut after = before.clone();
            let held = grant(tx, &name, &mut after, self.hold.demand(), view.token).await?;
            let expired = expired(tx, &before).await?;
            tx.put_resource(&name, &before, after).await?;
            // The lock has lease times, the caller wants wall times.
            let held = Some(held.moved_by(wall_offset(tx).await?));
            return Ok(Some(Claimed { row, held, expired }));
        }
        Ok(None)
    }
}

/// Finds running tasks without a holder that were unchanged for longer than this time.
pub(super) struct FindOrphans(pub(super) Duration);

impl Transaction for FindOrphans {
    type Output = Vec<TaskRow>;
    const WRITES: bool = false;

    async fn perform<T: Tx>(&self, tx: &mut T) -> TxResult<Vec<TaskRow>> {
        let now = tx.lease_now().await?;
        let ago = i64::try_from(self.0.as_millis()).unwrap_or(i64::MAX);
        let before = Timestamp::from_millis(now.as_millis().saturating_sub(ago));
        tx.orphans(before).await
    }
}
