//! A locked execution directory with open records: what runs, rollbacks and cleanups work with.

use std::sync::Arc;

use hankweave_core::wire::Event;
use tokio::task::JoinHandle;

use crate::checkpoint::{CheckpointStore, CheckpointsBySha};
use crate::instance_lock::InstanceLock;
use crate::paths::ExecutionDir;
use crate::rig::RigCopies;
use crate::state_manager::{PersistenceError, StateManager};
use crate::world::World;

/// A locked execution directory, with its records opened and repaired. The lock itself is kept next to it by the caller.
#[derive(Debug)]
pub(crate) struct LockedExecution {
    pub(crate) world: World,
    pub(crate) dir: ExecutionDir,
    pub(crate) manager: StateManager,
    /// The task of `manager` that writes the state.
    pub(crate) writer: JoinHandle<()>,
    pub(crate) checkpoints: Arc<dyn CheckpointStore>,
    /// The recorded checkpoints that can be restored; `None` once a run may have made another one.
    pub(crate) restorable: Option<CheckpointsBySha>,
    /// Number of processes of an earlier run that could not be ended.
    pub(crate) survivors: usize,
    /// Copies that the rigs of the hank make; empty when no hank is known.
    pub(crate) rig_copies: Arc<RigCopies>,
    /// Notices for the user about the directory.
    pub(crate) notices: Vec<String>,
}

impl LockedExecution {
    /// Runs `work` with the checkpoints, on a blocking thread.
    pub(crate) async fn with_checkpoints<T: Send + 'static>(
        &self,
        work: impl FnOnce(&dyn CheckpointStore) -> T + Send + 'static,
    ) -> T {
        let store = Arc::clone(&self.checkpoints);
        self.world.blocking.run(move || work(&*store)).await
    }

    /// Records and publishes an event that does not change the state.
    pub(crate) async fn publish(&self, event: Event) {
        // Losing the receipt is harmless: a journal that cannot be written shows up in the next transition.
        drop(self.manager.record(event).await);
    }

    /// Releases the directory without a run; an error of the last save is only logged.
    pub(crate) async fn give_back(self, lock: InstanceLock) {
        if let Err(unsaved) = self.release(Arc::new(lock), std::future::ready(())).await {
            tracing::warn!(error = %crate::error::chain(&*unsaved), "the last save failed");
        }
    }

    /// Writes everything that is not written yet, waits for `last`, and releases the lock (D8).
    ///
    /// # Errors
    ///
    /// [`PersistenceError`] when the last save failed.
    pub(crate) async fn release(
        self,
        lock: Arc<InstanceLock>,
        last: impl Future<Output = ()>,
    ) -> Result<(), Arc<PersistenceError>> {
        let saved = self.manager.shutdown().await;
        // The writer ends with `shutdown`, unless its disk hangs; a panic in it is passed on.
        let hangs = saved
            .as_ref()
            .is_err_and(|error| matches!(**error, PersistenceError::TimedOut { .. }));
        if !hangs
            && let Err(error) = self.writer.await
            && error.is_panic()
        {
            std::panic::resume_unwind(error.into_panic());
        }
        if saved.is_err() {
            // The spare copy of the record may have what the record lacks.
            lock.keep_spare();
        }
        last.await;
        if let Err(error) = self.world.blocking.run(move || lock.release()).await {
            tracing::warn!(error = %crate::error::chain(&error), "server.lock is left behind");
        }
        saved
    }
}
