//! Lock manager on top of a coordinator, for lifecycles, workers and embedders: attempts and waits, several locks at once, renewed leases, release on every
//! exit path (TASK-28 to TASK-31, TASK-93).

mod batch;
mod clean;
mod guard;
mod metrics;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use hankweave_core::id::TaskId;
use hankweave_runtime::world::ids::IdSource;
use hankweave_task_model::lock::{self, Acquired, Lock, LockFailure, LockMode, Unlocked};
use hankweave_task_model::registry::TaskRow;
use hankweave_task_model::{Holder, TaskError, Tries};
use tokio::time::{Instant, sleep};
use tokio_util::task::TaskTracker;

use crate::coordinator::{Acquire, Coordinator};

pub use batch::LockBatch;
pub use clean::Cleaner;
pub use guard::LockGuard;
pub use metrics::{LockMetrics, LockSummary, OldestLock};

/// Default length of a lease.
pub const DEFAULT_LEASE: Duration = Duration::from_secs(30);

/// Request for a lock.
#[derive(Debug, Clone)]
pub struct LockRequest {
    /// Requested resource.
    pub resource: String,
    /// Holder. [`Locks::request`] gives each request a scope of its own; requests with one scope are of one holder.
    pub holder: Holder,
    /// Requested mode. An exclusive lock gets one attempt and never waits.
    pub mode: LockMode,
    /// Number of attempts at a collaborative lock.
    pub tries: Tries,
    /// Random part of waits, as a fraction between 0 and 1, so that many holders do not retry at once.
    pub jitter: f64,
    /// Length of the lease; `None` for no end, inside one process only.
    pub lease: Option<Duration>,
    /// Task to read under the lock. If it does not exist, no lock is granted.
    pub task: Option<TaskId>,
}

/// Granted lock, and the data read with it.
#[derive(Debug)]
pub struct GrantedLock {
    /// Guard that releases the lock.
    pub guard: LockGuard,
    /// Version of the resource.
    pub version: u64,
    /// Requested task.
    pub row: Option<TaskRow>,
}

pub(crate) struct Shared {
    coordinator: Arc<dyn Coordinator>,
    ids: Arc<dyn IdSource>,
    metrics: LockMetrics,
    /// Background releases, for which closing the manager waits.
    releases: TaskTracker,
}

/// Lock manager on top of a [`Coordinator`]. Copies share one manager.
#[derive(Clone)]
pub struct Locks(Arc<Shared>);

impl fmt::Debug for Locks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Locks")
            .field("coordinator", &self.0.coordinator)
            .finish_non_exhaustive()
    }
}

impl Locks {
    /// Creates a manager of this coordinator's locks.
    #[must_use]
    pub fn new(coordinator: Arc<dyn Coordinator>, ids: Arc<dyn IdSource>) -> Self {
        Self(Arc::new(Shared {
            coordinator,
            ids,
            metrics: LockMetrics::default(),
            releases: TaskTracker::new(),
        }))
    }

    /// Returns a new, unique scope of this owner.
    #[must_use]
    pub fn scope(&self, owner: &str) -> Holder {
        Holder::new(owner, self.0.ids.nonce())
    }

    /// Returns a request with a new scope of this owner, three attempts and the default lease.
    #[must_use]
    pub fn request(&self, resource: impl Into<String>, owner: &str, mode: LockMode) -> LockRequest {
        LockRequest {
            resource: resource.into(),
            holder: self.scope(owner),
            mode,
            tries: Tries::default(),
            jitter: 0.0,
            lease: Some(DEFAULT_LEASE),
            task: None,
        }
    }

    /// Returns the counts so far.
    #[must_use]
    pub fn metrics(&self) -> &LockMetrics {
        &self.0.metrics
    }

    /// Acquires a lock. An exclusive lock is granted or refused at once. A collaborative one is requested again after each wait (TASK-28).
    ///
    /// # Errors
    ///
    /// Returns the error of the last attempt, inside [`TaskError::TriesUsedUp`] if it was not the first. Only [`TaskError::ResourceLocked`] leads to another
    /// attempt. [`TaskError::LockBackendUnavailable`] can also come from the wait between two attempts, as it is.
    ///
    /// # Cancel safety
    ///
    /// A lock that is granted after this future was dropped is held until its lease has expired.
    pub async fn acquire(&self, request: LockRequest) -> Result<GrantedLock, TaskError> {
        let requested_at = Instant::now();
        let LockRequest {
            resource,
            holder,
            mode,
            ..
        } = &request;
        let text = |text: &str| text.to_owned();
        let mut lock = Lock::new(resource.clone(), text(&holder.owner), text(&holder.scope), *mode);
        loop {
            match self.attempt(&request, lock, requested_at).await? {
                AttemptOutcome::Granted(granted) => return Ok(*granted),
                AttemptOutcome::Waiting(waiting, pause) => {
                    self.0.metrics.waits.add(1);
                    sleep(pause).await;
                    self.0.metrics.retries.add(1);
                    lock = waiting.retry();
                }
            }
        }
    }

    async fn attempt(
        &self,
        request: &LockRequest,
        lock: Lock<Unlocked>,
        requested_at: Instant,
    ) -> Result<AttemptOutcome, TaskError> {
        let acquire = Acquire {
            resource: request.resource.clone(),
            holder: request.holder.clone(),
            mode: request.mode,
            lease: request.lease,
            in_order: true,
            task: request.task.clone(),
        };
        let (number, attempted_at) = (lock.attempt.number(), Instant::now());
        let error = match self.0.coordinator.acquire(acquire).await {
            Ok(acquired) => {
                let held = &acquired.held;
                let mut lock = lock.acquire(lock::Acquire {
                    token: held.token,
                    acquired_at: held.acquired_at,
                    expires_at: held.expires_at,
                });
                lock.set_count(held.count);
                self.log_operation(request, "success", Some(held.token), requested_at);
                self.0.metrics.expired.add(acquired.expired);
                let guard = self.guard(request, lock, attempted_at);
                let (version, row) = (acquired.version, acquired.row);
                return Ok(AttemptOutcome::Granted(Box::new(GrantedLock {
                    guard,
                    version,
                    row,
                })));
            }
            Err(error) => error,
        };
        if matches!(error, TaskError::ResourceLocked { .. }) {
            self.0.metrics.conflicts.add(1);
            if let Some(pause) = self.pause_after(number, request) {
                let retry_at = self.0.coordinator.now().await?.after(pause);
                return Ok(AttemptOutcome::Waiting(lock.wait(lock::Wait { retry_at }), pause));
            }
        }
        if let Some(reason) = lock_failure(&error) {
            // The last step of the lock machine; its record is not needed.
            drop(lock.refuse(lock::Refuse { reason }));
        }
        self.log_operation(request, "failed", None, requested_at);
        match number {
            1 => Err(error),
            attempts => Err(TaskError::TriesUsedUp {
                attempts,
                last: Box::new(error),
            }),
        }
    }

    /// Returns the wait after this number of failed attempts; `None` after the last one, which for an exclusive lock is the first.
    fn pause_after(&self, failed: u32, request: &LockRequest) -> Option<Duration> {
        if request.mode == LockMode::Exclusive {
            return None;
        }
        let pause = request.tries.wait_after(failed)?;
        // The byte becomes a number from -1 to 1.
        let [random, ..] = self.0.ids.secret();
        let deviation = (f64::from(random) / 127.5 - 1.0) * request.jitter.clamp(0.0, 1.0);
        Some(if request.jitter > 0.0 {
            pause.mul_f64(1.0 + deviation)
        } else {
            pause
        })
    }

    fn guard(&self, request: &LockRequest, lock: Lock<Acquired>, requested_at: Instant) -> LockGuard {
        self.0.metrics.granted.add(1);
        LockGuard::new(
            self.clone(),
            request.holder.clone(),
            request.lease,
            lock,
            requested_at,
        )
    }

    /// Returns a guard of a lock that was granted in another way, such as with a claimed task. `requested_at` is a time before the grant.
    pub fn adopt(
        &self,
        resource: String,
        held: &hankweave_task_model::LockGrant,
        lease: Option<Duration>,
        requested_at: Instant,
    ) -> LockGuard {
        let text = |text: &str| text.to_owned();
        let (owner, scope) = (text(&held.holder.owner), text(&held.holder.scope));
        let lock = Lock::new(resource, owner, scope, held.mode).acquire(lock::Acquire {
            token: held.token,
            acquired_at: held.acquired_at,
            expires_at: held.expires_at,
        });
        self.0.metrics.granted.add(1);
        LockGuard::new(self.clone(), held.holder.clone(), lease, lock, requested_at)
    }

    fn log_operation(&self, request: &LockRequest, result: &str, token: Option<u64>, requested_at: Instant) {
        let waited = requested_at.elapsed();
        self.0.metrics.waited.add(waited);
        tracing::debug!(
            resource = request.resource,
            owner = &*request.holder.owner,
            mode = request.mode.as_str(),
            operation = "acquire",
            result,
            token,
            waited = waited.as_millis() as u64,
            "Lock operation"
        );
    }

    /// Runs `work` under a lock, which is renewed meanwhile and released on every exit path: an error, a panic, a dropped future (TASK-30). A failed
    /// release is logged and not returned.
    ///
    /// # Errors
    ///
    /// Returns why the lock was refused, or [`TaskError::LockTimeout`] if it was lost and `work` was dropped.
    pub async fn with_lock<T, F: Future<Output = T>>(
        &self,
        request: LockRequest,
        work: impl FnOnce(u64) -> F,
    ) -> Result<T, TaskError> {
        let mut granted = self.acquire(request).await?;
        let token = granted.guard.token();
        let result = granted.guard.keep(work(token)).await;
        granted.guard.release_or_log(None).await;
        result
    }

    /// Removes all locks of an owner, in every scope, and returns their number (TASK-13).
    ///
    /// # Errors
    ///
    /// Returns [`TaskError::LockBackendUnavailable`].
    pub async fn emergency_clean_up(&self, owner: &str) -> Result<u64, TaskError> {
        let removed = self.0.coordinator.emergency_clean_up(owner.to_owned()).await?;
        tracing::warn!(owner, removed, "the locks of an owner were removed");
        Ok(removed)
    }

    /// Waits until the locks of all dropped guards are released. Locks of guards that are dropped later end with their lease.
    pub async fn close(&self) {
        self.0.releases.close();
        self.0.releases.wait().await;
    }
}

/// Outcome of an attempt that did not fail.
enum AttemptOutcome {
    Granted(Box<GrantedLock>),
    /// Another attempt follows after this pause.
    Waiting(Lock<lock::Waiting>, Duration),
}

/// Converts the error of an acquisition for the lock machine; `None` for an error that is not about the lock.
fn lock_failure(error: &TaskError) -> Option<LockFailure> {
    match error {
        TaskError::ResourceLocked { existing_owner, .. } => Some(LockFailure::ResourceLocked {
            existing_owner: existing_owner.clone(),
        }),
        TaskError::LockOrder { held, .. } => Some(LockFailure::LockOrder { held: held.clone() }),
        TaskError::LockBackendUnavailable(message) => Some(LockFailure::LockBackendUnavailable {
            message: message.clone(),
        }),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
