//! Guard of a lock, which is held until the guard is dropped or released.

use std::time::Duration;

use hankweave_core::id::TaskId;
use hankweave_core::time::Timestamp;
use hankweave_task_model::lock::{Acquired, Lock, Release as ReleaseStep};
use hankweave_task_model::{Holder, LockGrant, TaskError};
use tokio::runtime::Handle;
use tokio::time::{Instant, sleep_until, timeout_at};

use super::Locks;
use crate::coordinator::{Release, Renew};

/// Held lock. A dropped guard releases the lock in the background, and [`Locks::close`] waits for that (TASK-30).
#[derive(Debug)]
#[must_use = "the lock is given back when this is dropped"]
pub struct LockGuard {
    locks: Locks,
    holder: Holder,
    lease: Option<Duration>,
    /// `None` once the lock is released or has expired.
    lock: Option<Lock<Acquired>>,
    /// Locked resource, also once the lock has expired.
    resource: String,
    token: u64,
    /// Time at which the guard was made.
    since: Instant,
    /// Time at which the lock or its last successful renewal was requested. The guard counts the lease from here. The registry counts from the later moment
    /// of its answer, so the guard stops before another holder gets the lock.
    requested_at: Instant,
}

impl LockGuard {
    pub(super) fn new(
        locks: Locks,
        holder: Holder,
        lease: Option<Duration>,
        lock: Lock<Acquired>,
        requested_at: Instant,
    ) -> Self {
        let (resource, token) = (lock.resource.clone(), lock.token);
        Self {
            locks,
            holder,
            lease,
            lock: Some(lock),
            resource,
            token,
            since: Instant::now(),
            requested_at,
        }
    }

    /// Returns the token that a writer presents.
    #[must_use]
    pub fn token(&self) -> u64 {
        self.token
    }

    /// Returns the holder. A further acquisition with this value belongs to the same holder.
    #[must_use]
    pub fn holder(&self) -> &Holder {
        &self.holder
    }

    /// Returns the last moment of the lock, unless it is renewed; `None` if it never expires or has expired.
    #[must_use]
    pub fn expires_at(&self) -> Option<Timestamp> {
        self.lock.as_ref().and_then(|lock| lock.expires_at)
    }

    /// Renews the lock for a whole lease (TASK-4).
    ///
    /// # Errors
    ///
    /// Returns [`TaskError::LockTimeout`] if the lock has expired. Nothing may be written then.
    pub async fn renew(&mut self) -> Result<(), TaskError> {
        let Some(lease) = self.lease else {
            return Ok(());
        };
        let Some(lock) = &mut self.lock else {
            return Err(self.expired_error());
        };
        let (resource, token, requested_at) = (lock.resource.clone(), self.token, Instant::now());
        match self
            .locks
            .0
            .coordinator
            .renew(Renew {
                resource,
                token,
                lease,
            })
            .await
        {
            Ok(end) => {
                lock.set_expires_at(Some(end));
                self.requested_at = requested_at;
                self.locks.0.metrics.renewals.add(1);
                Ok(())
            }
            Err(error) => {
                if matches!(error, TaskError::LockTimeout { .. }) {
                    self.expire();
                }
                Err(error)
            }
        }
    }

    /// Gives the lock up after its lease has expired.
    fn expire(&mut self) {
        if let Some(lock) = self.lock.take() {
            let expired = lock.expire();
            self.locks.0.metrics.expired.add(1);
            // The user of the guard gets the error and reports its meaning.
            tracing::debug!(
                resource = expired.resource,
                owner = expired.owner,
                token = expired.token,
                since = %expired.acquired_at,
                "a lock has expired while its holder still works"
            );
        }
    }

    /// Runs `work` while renewing the lock, every third of its lease. If the lock is lost, drops the work at once, because its holder must stop
    /// writing (TASK-29). Our own clock is checked before the registry is asked, so a process that was suspended does nothing more under a lost lock.
    /// While the registry does not answer, the work continues until the lease has expired.
    ///
    /// # Errors
    ///
    /// Returns [`TaskError::LockTimeout`].
    pub async fn keep<T>(&mut self, work: impl Future<Output = T>) -> Result<T, TaskError> {
        tokio::select! {
            biased;
            lost = self.renew_until_lost() => Err(lost),
            output = work => Ok(output),
        }
    }

    /// Renews the lock until it is lost, and returns that error. Logs only the first of several failures.
    async fn renew_until_lost(&mut self) -> TaskError {
        let Some(lease) = self.lease else {
            return std::future::pending().await;
        };
        if self.lock.is_none() {
            return self.expired_error();
        }
        let mut next = self.requested_at + lease / 3;
        let mut is_late = false;
        loop {
            let end = self.requested_at + lease;
            sleep_until(next.min(end)).await;
            if Instant::now() >= end {
                return self.expired_error();
            }
            match timeout_at(end, self.renew()).await {
                Ok(Ok(())) => {
                    if std::mem::take(&mut is_late) {
                        tracing::warn!("the lease on {} is renewed again", self.resource);
                    }
                    next = self.requested_at + lease / 3;
                }
                Ok(Err(lost @ TaskError::LockTimeout { .. })) => return lost,
                Ok(Err(error)) => {
                    if !std::mem::replace(&mut is_late, true) {
                        tracing::warn!(%error, "the lease on {} was not renewed; trying again", self.resource);
                    }
                    next = Instant::now() + lease / 10;
                }
                Err(_) => return self.expired_error(),
            }
        }
    }

    /// Gives the lock up, unless that was done, and returns the error of a lock that has expired.
    fn expired_error(&mut self) -> TaskError {
        self.expire();
        TaskError::LockTimeout {
            resource: self.resource.clone(),
        }
    }

    /// Releases the lock, and notes that the log lines of a task are written up to this number.
    ///
    /// # Errors
    ///
    /// Returns [`TaskError::LockNotHeld`] if it has expired and others hold it, or [`TaskError::LockBackendUnavailable`].
    pub async fn release(mut self, written: Option<(TaskId, u64)>) -> Result<(), TaskError> {
        self.release_in_place(written).await
    }

    /// Releases the lock, and logs a failure. The lock ends with its lease then.
    pub async fn release_or_log(self, written: Option<(TaskId, u64)>) {
        // The failure was logged already.
        let _ = self.release(written).await;
    }

    async fn release_in_place(&mut self, written: Option<(TaskId, u64)>) -> Result<(), TaskError> {
        let Some(lock) = &self.lock else {
            return Ok(());
        };
        let release = Release {
            resource: lock.resource.clone(),
            holder: self.holder.clone(),
            written,
        };
        let released = self.locks.0.coordinator.release(release).await;
        // Not taken earlier: if this future is dropped at the await, the guard's drop still releases the lock.
        if let Some(lock) = self.lock.take() {
            finish(&self.locks, lock, self.since, &released);
        }
        released.map(|_| ())
    }
}

/// Takes the last step of the lock machine, counts it and logs it.
fn finish(
    locks: &Locks,
    lock: Lock<Acquired>,
    since: Instant,
    released: &Result<Option<LockGrant>, TaskError>,
) {
    let metrics = &locks.0.metrics;
    let (resource, owner, token) = (lock.resource.clone(), lock.owner.clone(), lock.token);
    let mode = lock.mode.as_str();
    let result = match released {
        Ok(Some(held)) => {
            let held_for = since.elapsed();
            let released_at = held.acquired_at.after(held_for);
            drop(lock.release(ReleaseStep { released_at }));
            metrics.held.add(held_for);
            "success"
        }
        Ok(None) => {
            drop(lock.expire());
            metrics.expired.add(1);
            tracing::warn!(resource, owner, "a lock was released that was not held");
            "success"
        }
        Err(error) => {
            metrics.expired.add(1);
            tracing::warn!(resource, owner, %error, "a lock was not released");
            "failed"
        }
    };
    tracing::debug!(
        resource,
        owner,
        token,
        mode,
        operation = "release",
        result,
        "Lock operation"
    );
}

impl Drop for LockGuard {
    fn drop(&mut self) {
        let Some(lock) = self.lock.take() else {
            return;
        };
        let Ok(runtime) = Handle::try_current() else {
            tracing::warn!("a lock ends with its lease: it was dropped outside of a runtime");
            return;
        };
        let (locks, since) = (self.locks.clone(), self.since);
        let release = Release {
            resource: lock.resource.clone(),
            holder: self.holder.clone(),
            written: None,
        };
        let release_lock = async move {
            let released = locks.0.coordinator.release(release).await;
            finish(&locks, lock, since, &released);
        };
        self.locks.0.releases.spawn_on(release_lock, &runtime);
    }
}
