//! Operations on locks: grant, renew, release, list and remove (TASK-1 to TASK-5, TASK-13, TASK-16, TASK-92, TASK-100).

use hankweave_core::time::Timestamp;
use hankweave_task_model::{LockDemand, LockGrant, Resource, TaskError};

use super::registry::not_found;
use super::{LocksToRemove, ReadSet, Transaction, Tx, TxResult};
use crate::coordinator::{
    Acquire, Acquired, CommitRequest, HeldLock, Release, Renew, WorkerPresence, present, terms_in, terms_of,
};

/// Grants a lock on a resource. Both the resource and the token were read in this transaction.
pub(super) async fn grant<T: Tx>(
    tx: &mut T,
    name: &str,
    resource: &mut Resource,
    demand: LockDemand<'_>,
    token: u64,
) -> TxResult<LockGrant> {
    if demand.lease.is_none() && !T::ENDLESS {
        let text = "a lock that never expires is possible only inside one process; give it a lease";
        return Err(TaskError::InvalidArgument(text).into());
    }
    let now = tx.lease_now().await?;
    Ok(resource.acquire(name, demand, token, now)?)
}

/// Returns the number of locks on a resource that have expired.
pub(super) async fn expired<T: Tx>(tx: &mut T, resource: &Resource) -> TxResult<u64> {
    let now = tx.lease_now().await?;
    Ok(resource.held.iter().filter(|held| !held.lives(now)).count() as u64)
}

/// Returns the difference from lease time to wall time, in milliseconds. Users and callers only see wall times.
pub(super) async fn wall_offset<T: Tx>(tx: &mut T) -> TxResult<i64> {
    let (wall, lease) = (tx.now().await?, tx.lease_now().await?);
    Ok(wall.as_millis().saturating_sub(lease.as_millis()))
}

impl Transaction for Acquire {
    type Output = Acquired;

    async fn perform<T: Tx>(&self, tx: &mut T) -> TxResult<Acquired> {
        let (name, holder) = (&self.resource, &self.holder);
        let read_set = ReadSet {
            task: self.task.as_ref(),
            holder: self.in_order.then_some(holder),
            token: true,
            ..ReadSet::default()
        };
        let view = tx.read_view(name, read_set).await?;
        if let (Some(id), None) = (&self.task, &view.task) {
            return Err(not_found(id).into());
        }
        if let Some(held) = view.later_resource {
            let resource = name.clone();
            return Err(TaskError::LockOrder { resource, held }.into());
        }
        let (before, mut after) = (view.resource.clone(), view.resource);
        let (mode, lease) = (self.mode, self.lease);
        let held = grant(
            tx,
            name,
            &mut after,
            LockDemand { holder, mode, lease },
            view.token,
        )
        .await?;
        let (version, row) = (after.version, view.task);
        let expired = expired(tx, &before).await?;
        tx.put_resource(name, &before, after).await?;
        let held = held.moved_by(wall_offset(tx).await?);
        Ok(Acquired {
            held,
            version,
            row,
            expired,
        })
    }
}

impl Transaction for Release {
    type Output = Option<LockGrant>;

    async fn perform<T: Tx>(&self, tx: &mut T) -> TxResult<Option<LockGrant>> {
        let before = tx.resource(&self.resource).await?;
        let mut after = before.clone();
        let released = after.release(&self.resource, &self.holder, tx.lease_now().await?)?;
        if let Some((id, seq)) = &self.written {
            tx.mark_written(id, *seq).await?;
        }
        tx.put_resource(&self.resource, &before, after).await?;
        let offset = wall_offset(tx).await?;
        Ok(released.map(|held| held.moved_by(offset)))
    }

    fn notifies(&self) -> bool {
        // A task without a lock may be claimed.
        self.resource.starts_with("task:")
    }
}

impl Transaction for Renew {
    type Output = Timestamp;

    async fn perform<T: Tx>(&self, tx: &mut T) -> TxResult<Timestamp> {
        let before = tx.resource(&self.resource).await?;
        let mut after = before.clone();
        let end = after.renew(&self.resource, self.token, self.lease, tx.lease_now().await?)?;
        tx.put_resource(&self.resource, &before, after).await?;
        Ok(end.moved_by(wall_offset(tx).await?))
    }
}

impl Transaction for CommitRequest {
    type Output = u64;

    async fn perform<T: Tx>(&self, tx: &mut T) -> TxResult<u64> {
        let before = tx.resource(&self.resource).await?;
        let mut after = before.clone();
        let now = tx.lease_now().await?;
        let version = match tx.fencing() {
            super::Fencing::Checked => {
                after.commit(&self.resource, self.token, self.expected_version, now)?
            }
            #[cfg(test)]
            super::Fencing::Skipped => {
                after.version += 1;
                after.version
            }
        };
        tx.put_resource(&self.resource, &before, after).await?;
        Ok(version)
    }
}

pub(super) struct GetResource(pub(super) String);

impl Transaction for GetResource {
    type Output = Resource;
    const WRITES: bool = false;

    async fn perform<T: Tx>(&self, tx: &mut T) -> TxResult<Resource> {
        let offset = wall_offset(tx).await?;
        let mut resource = tx.resource(&self.0).await?;
        let held = resource.held.into_iter();
        resource.held = held.map(|held| held.moved_by(offset)).collect();
        Ok(resource)
    }
}

pub(super) struct ListHeld;

impl Transaction for ListHeld {
    type Output = Vec<HeldLock>;
    const WRITES: bool = false;

    async fn perform<T: Tx>(&self, tx: &mut T) -> TxResult<Vec<HeldLock>> {
        let mut held = held_by_wall(tx).await?;
        // Locks with terms are presences of workers.
        held.retain(|lock| terms_of(lock).is_none());
        Ok(held)
    }
}

/// Returns all locks, with wall times.
async fn held_by_wall<T: Tx>(tx: &mut T) -> TxResult<Vec<HeldLock>> {
    let offset = wall_offset(tx).await?;
    let held = tx.held().await?.into_iter();
    Ok(held
        .map(|HeldLock { resource, held }| HeldLock {
            resource,
            held: held.moved_by(offset),
        })
        .collect())
}

pub(super) struct ListWorkers;

impl Transaction for ListWorkers {
    type Output = Vec<WorkerPresence>;
    const WRITES: bool = false;

    async fn perform<T: Tx>(&self, tx: &mut T) -> TxResult<Vec<WorkerPresence>> {
        let held = held_by_wall(tx).await?;
        Ok(present(&held, tx.now().await?))
    }
}

/// Removes locks and returns their number.
async fn remove<T: Tx>(tx: &mut T, locks: LocksToRemove<'_>) -> TxResult<u64> {
    let mut number = 0;
    for name in tx.names_with(locks).await? {
        let before = tx.resource(&name).await?;
        let mut after = before.clone();
        // The removal of an owner's locks leaves the presence of a worker: a living worker renews it, and otherwise it ends with its lease.
        let stays = |held: &LockGrant| {
            matches!(locks, LocksToRemove::OfOwner(_)) && terms_in(&name, &held.holder).is_some()
        };
        after.held.retain(|held| !locks.matches(held) || stays(held));
        number += (before.held.len() - after.held.len()) as u64;
        tx.put_resource(&name, &before, after).await?;
    }
    Ok(number)
}

pub(super) struct CleanUp;

impl Transaction for CleanUp {
    type Output = u64;

    async fn perform<T: Tx>(&self, tx: &mut T) -> TxResult<u64> {
        let now = tx.lease_now().await?;
        remove(tx, LocksToRemove::Expired(now)).await
    }

    fn notifies(&self) -> bool {
        true
    }
}

pub(super) struct EmergencyCleanUp(pub(super) String);

impl Transaction for EmergencyCleanUp {
    type Output = u64;

    async fn perform<T: Tx>(&self, tx: &mut T) -> TxResult<u64> {
        remove(tx, LocksToRemove::OfOwner(&self.0)).await
    }

    fn notifies(&self) -> bool {
        true
    }
}
