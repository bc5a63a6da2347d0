//! Several locks at once (TASK-6, TASK-31).

use std::collections::BTreeSet;

use hankweave_task_model::TaskError;

use super::{LockGuard, LockRequest, Locks};

/// Locks that were acquired together.
#[derive(Debug)]
#[must_use = "the locks are given back when this is dropped"]
pub struct LockBatch(Vec<(String, LockGuard)>);

impl Locks {
    /// Acquires these locks in byte order, each once, with the options of `request`, whose own resource is ignored. If one is refused, all are
    /// released, the last one first.
    ///
    /// # Errors
    ///
    /// Returns the refusal, which names the resource.
    pub async fn acquire_all(
        &self,
        resources: &[&str],
        request: &LockRequest,
    ) -> Result<LockBatch, TaskError> {
        let ordered: BTreeSet<&str> = resources.iter().copied().collect();
        let mut taken = LockBatch(Vec::new());
        for resource in ordered {
            let resource = resource.to_owned();
            let request = LockRequest {
                resource: resource.clone(),
                ..request.clone()
            };
            match self.acquire(request).await {
                Ok(granted) => taken.0.push((resource, granted.guard)),
                Err(refused) => {
                    // A failed release was logged, and the lock ends with its lease.
                    let _ = taken.release().await;
                    return Err(refused);
                }
            }
        }
        Ok(taken)
    }
}

impl LockBatch {
    /// Iterates over the held resources, in the order in which they were taken.
    pub fn resources(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(resource, _)| resource.as_str())
    }

    /// Returns the lock on a resource.
    pub fn get_mut(&mut self, resource: &str) -> Option<&mut LockGuard> {
        let mut all = self.0.iter_mut();
        all.find(|(name, _)| name == resource).map(|(_, guard)| guard)
    }

    /// Releases all locks, the last one first. A failed release does not stop the others.
    ///
    /// # Errors
    ///
    /// Returns [`TaskError::BatchUnlockFailed`] with the locks that were not released.
    pub async fn release(self) -> Result<(), TaskError> {
        let mut failed = Vec::new();
        for (resource, guard) in self.0.into_iter().rev() {
            if guard.release(None).await.is_err() {
                failed.push(resource);
            }
        }
        match failed.is_empty() {
            true => Ok(()),
            false => Err(TaskError::BatchUnlockFailed { resources: failed }),
        }
    }
}
