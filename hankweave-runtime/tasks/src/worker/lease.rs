//! The lease on a task: renewed as long as its job lives, and given up the moment that it cannot be (TASK-52).

use std::sync::Arc;
use std::time::Duration;

use hankweave_core::id::TaskId;
use hankweave_task_model::registry::TaskRow;
use hankweave_task_model::{Held, Holder, TaskError};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use crate::coordinator::{Coordinator, Release, Renew};

/// A task that is ours until it is dropped, or lost.
#[derive(Debug)]
pub(super) struct Lease {
    coordinator: Arc<dyn Coordinator>,
    id: TaskId,
    pub(super) holder: Holder,
    pub(super) token: u64,
    ends: watch::Receiver<Instant>,
    lost: CancellationToken,
    cancelled: CancellationToken,
    /// Ends with this.
    _keeper: AbortOnDropHandle<()>,
}

impl Lease {
    /// Keeps the lock that was granted for a task a moment ago, but after `asked`.
    pub(super) fn keep(
        coordinator: Arc<dyn Coordinator>,
        id: TaskId,
        held: &Held,
        asked: Instant,
        (length, look): (Duration, Duration),
    ) -> Self {
        let (told, ends) = watch::channel(asked + length);
        let keeper = Keeper {
            coordinator: Arc::clone(&coordinator),
            id: id.clone(),
            token: held.token,
            length,
            look,
            ends: told,
            lost: CancellationToken::new(),
            cancelled: CancellationToken::new(),
        };
        Self {
            coordinator,
            id,
            holder: held.holder.clone(),
            token: held.token,
            ends,
            lost: keeper.lost.clone(),
            cancelled: keeper.cancelled.clone(),
            _keeper: AbortOnDropHandle::new(tokio::spawn(keeper.work())),
        }
    }

    /// Whether something may still be written. By the clock of this machine: a worker that slept knows it before it asks anybody.
    pub(super) fn lives(&self) -> bool {
        !self.lost.is_cancelled() && Instant::now() < *self.ends.borrow()
    }

    /// Waits until it is lost.
    pub(super) async fn lost(&self) {
        self.lost.cancelled().await;
    }

    /// Waits until somebody wants the task to stop.
    pub(super) async fn cancelled(&self) {
        self.cancelled.cancelled().await;
    }

    /// Gives the task back; what cannot be given back ends by itself.
    pub(super) async fn release(self, written: u64) {
        let release = Release {
            resource: TaskRow::lock_name(&self.id),
            holder: self.holder.clone(),
            written: Some((self.id.clone(), written)),
        };
        if let Err(error) = self.coordinator.release(release).await {
            tracing::warn!(taskId = %self.id, %error, "the lock on the task was not given back");
        }
    }
}

struct Keeper {
    coordinator: Arc<dyn Coordinator>,
    id: TaskId,
    token: u64,
    length: Duration,
    look: Duration,
    ends: watch::Sender<Instant>,
    lost: CancellationToken,
    cancelled: CancellationToken,
}

impl Keeper {
    async fn work(self) {
        tokio::select! {
            () = self.renew() => self.lost.cancel(),
            () = self.watch() => {}
        }
    }

    /// Renews every third of the lease; returns when it is over.
    async fn renew(&self) {
        loop {
            let ends = *self.ends.borrow();
            sleep_until(ends - self.length * 2 / 3).await;
            if Instant::now() >= ends {
                return;
            }
            let asked = Instant::now();
            let renew = Renew {
                resource: TaskRow::lock_name(&self.id),
                token: self.token,
                lease: self.length,
            };
            let answer = tokio::time::timeout_at(ends, self.coordinator.renew(renew)).await;
            match answer {
                Ok(Ok(_)) => drop(self.ends.send(asked + self.length)),
                Ok(Err(error)) if is_lost(&error) => return,
                // The registry may come back before the end.
                Ok(Err(_)) => sleep(self.look.min(self.length / 10)).await,
                Err(_) => return,
            }
        }
    }

    /// Looks whether the task is to stop, at each hint and every now and then.
    async fn watch(&self) {
        let mut changes = self.coordinator.changes();
        loop {
            if let Ok(Some(row)) = self.coordinator.task(self.id.clone()).await
                && row.cancel_requested_at.is_some()
            {
                self.cancelled.cancel();
            }
            tokio::select! {
                () = changes.next() => {}
                () = sleep(self.look) => {}
            }
        }
    }
}

/// Whether this says that the task is no longer ours.
pub(super) fn is_lost(error: &TaskError) -> bool {
    matches!(
        error,
        TaskError::LockTimeout { .. }
            | TaskError::StaleToken { .. }
            | TaskError::VersionConflict { .. }
            | TaskError::TaskNotFound(_)
    )
}
