//! Lock manager: attempts and waits, several locks at once, renewed leases, release on every exit path (TASK-28 to TASK-31, TASK-93).

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
    /// Holder. Each acquisition has its own scope, unless the caller knows one.
    pub holder: Holder,
    /// Requested mode. An exclusive lock gets one attempt and never waits.
    pub mode: LockMode,
    /// Number of attempts at a collaborative lock.
    pub tries: Tries,
    /// Random part of waits, as a fraction between 0 and 1, so that many holders do not retry at once.
    pub jitter: f64,
    /// Length of the lease; `None` for no end, inside one process only.
    pub lease: Option<Duration>,
    /// Task to read under the lock.
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

/// Lock manager on top of a [`Coordinator`]. Copies are one manager.
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
    /// Returns the last refusal. [`TaskError::ResourceLocked`] is inside [`TaskError::TriesUsedUp`] if there were several attempts.
    /// [`TaskError::LockOrder`], [`TaskError::LockBackendUnavailable`] and others are returned at once.
    ///
    /// # Cancel safety
    ///
    /// A lock that is granted after this future was dropped is held until its lease has expired.
    pub async fn acquire(&self, request: LockRequest) -> Result<GrantedLock, TaskError> {
        let asked = Instant::now();
        let LockRequest {
            resource,
            holder,
            mode,
            ..
        } = &request;
        let text = |text: &str| text.to_owned();
        let mut lock = Lock::new(resource.clone(), text(&holder.owner), text(&holder.scope), *mode);
        loop {
            match self.try_once(&request, lock, asked).await? {
                TryLock::Granted(granted) => return Ok(*granted),
                TryLock::Waiting(waiting, pause) => {
                    self.0.metrics.waits.add(1);
                    sleep(pause).await;
                    self.0.metrics.retries.add(1);
                    lock = waiting.retry();
                }
            }
        }
    }

    async fn try_once(
        &self,
        request: &LockRequest,
        lock: Lock<Unlocked>,
        asked: Instant,
    ) -> Result<TryLock, TaskError> {
        let acquire = Acquire {
            resource: request.resource.clone(),
            holder: request.holder.clone(),
            mode: request.mode,
            lease: request.lease,
            in_order: true,
            task: request.task.clone(),
        };
        let (made, tried) = (lock.attempt.number(), Instant::now());
        let error = match self.0.coordinator.acquire(acquire).await {
            Ok(acquired) => {
                let held = &acquired.held;
                let mut lock = lock.acquire(lock::Acquire {
                    token: held.token,
                    acquired_at: held.acquired_at,
                    expires_at: held.expires_at,
                });
                lock.set_count(held.count);
                self.log_operation(request, "success", Some(held.token), asked);
                self.0.metrics.expired.add(acquired.expired);
                let guard = self.guard(request, lock, tried);
                let (version, row) = (acquired.version, acquired.row);
                return Ok(TryLock::Granted(Box::new(GrantedLock { guard, version, row })));
            }
            Err(error) => error,
        };
        if matches!(error, TaskError::ResourceLocked { .. }) {
            self.0.metrics.conflicts.add(1);
            if let Some(pause) = self.pause(request, made) {
                let retry_at = self.0.coordinator.now().await?.after(pause);
                return Ok(TryLock::Waiting(lock.wait(lock::Wait { retry_at }), pause));
            }
        }
        if let Some(reason) = failure(&error) {
            drop(lock.refuse(lock::Refuse { reason }));
        }
        self.log_operation(request, "failed", None, asked);
        match made {
            1 => Err(error),
            attempts => Err(TaskError::TriesUsedUp {
                attempts,
                last: Box::new(error),
            }),
        }
    }

    /// Returns the wait after this number of attempts; `None` after the last one.
    fn pause(&self, request: &LockRequest, made: u32) -> Option<Duration> {
        let pause = match request.mode {
            LockMode::Exclusive => None,
            LockMode::Collaborative => request.tries.wait_after(made),
        }?;
        let [random, ..] = self.0.ids.secret();
        let off = (f64::from(random) / 127.5 - 1.0) * request.jitter.clamp(0.0, 1.0);
        Some(if request.jitter > 0.0 {
            pause.mul_f64(1.0 + off)
        } else {
            pause
        })
    }

    fn guard(&self, request: &LockRequest, lock: Lock<Acquired>, asked: Instant) -> LockGuard {
        self.0.metrics.granted.add(1);
        LockGuard::new(self.clone(), request.holder.clone(), request.lease, lock, asked)
    }

    /// Takes over a lock that was granted in another way, such as with a claimed task, no earlier than `asked`.
    pub fn adopt(
        &self,
        resource: String,
        held: &hankweave_task_model::LockGrant,
        lease: Option<Duration>,
        asked: Instant,
    ) -> LockGuard {
        let text = |text: &str| text.to_owned();
        let (owner, scope) = (text(&held.holder.owner), text(&held.holder.scope));
        let lock = Lock::new(resource, owner, scope, held.mode).acquire(lock::Acquire {
            token: held.token,
            acquired_at: held.acquired_at,
            expires_at: held.expires_at,
        });
        self.0.metrics.granted.add(1);
        LockGuard::new(self.clone(), held.holder.clone(), lease, lock, asked)
    }

    fn log_operation(&self, request: &LockRequest, result: &str, token: Option<u64>, asked: Instant) {
        let waited = asked.elapsed();
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
        let done = granted.guard.keep(work(token)).await;
        granted.guard.release_or_log(None).await;
        done
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

enum TryLock {
    Granted(Box<GrantedLock>),
    Waiting(Lock<lock::Waiting>, Duration),
}

/// Converts the error of an acquisition for the lock machine; `None` for an error that is not about the lock.
fn failure(error: &TaskError) -> Option<LockFailure> {
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
