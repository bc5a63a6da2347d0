//! An execution directory for commands that start no run, such as `undo`, `op restore` and `cleanup`.

use hankweave_core::time::Timestamp;
use std::path::Path;
use std::sync::Arc;

use hankweave_core::document::{CheckpointTable, HankweaveState};
use hankweave_core::id::CodonId;
use hankweave_core::thread::RetentionRule;

use crate::checkpoint::Counts;
use crate::instance_lock::{InstanceLock, LockError};
use crate::options::RunOptions;
use crate::paths::ExecutionDir;
use crate::recovery::{self, LockedExecution, OpenExecutionError};
use crate::runner::{
    self, CleanupError, CleanupPlan, CleanupReport, Rollback, RollbackError, RollbackTarget,
};
use crate::state_manager::{PersistenceError, TransitionError};
use crate::world::World;

/// Locked execution directory of a program that has no hank. The program can inspect the files, roll them back, remove
/// what old runs have left, and answer what the next run would ask. It cannot run anything.
#[derive(Debug)]
pub struct OpenDirectory {
    possession: LockedExecution,
    lock: InstanceLock,
}

impl OpenDirectory {
    /// Locks `dir` and repairs its records, as [`Builder::open`](crate::Builder::open) does.
    ///
    /// # Errors
    ///
    /// Returns [`OpenExecutionError`].
    pub async fn open(world: World, dir: &Path, options: &RunOptions) -> Result<Self, OpenExecutionError> {
        let (possession, lock) = recovery::possess_without_hank(world, dir, options).await?;
        Ok(Self { possession, lock })
    }

    /// Returns the paths of the directory.
    #[must_use]
    pub fn directory(&self) -> &ExecutionDir {
        &self.possession.dir
    }

    /// Notes for other processes whether a person is asked before this one does anything. Waits for the disk.
    ///
    /// # Errors
    ///
    /// [`LockError`] when the lock file cannot be written.
    pub fn note_question(&self, asking: bool) -> Result<(), LockError> {
        self.lock.note_question(asking)
    }

    /// Returns notices about the state in which the directory was found.
    #[must_use]
    pub fn notices(&self) -> &[String] {
        &self.possession.notices
    }

    /// Returns the durable state.
    #[must_use]
    pub fn state(&self) -> Arc<HankweaveState> {
        self.possession.manager.snapshot()
    }

    /// The recorded checkpoints that can be restored.
    ///
    /// # Errors
    ///
    /// Returns [`RollbackError`] when they cannot be read.
    pub async fn known_checkpoints(&self) -> Result<CheckpointTable, RollbackError> {
        runner::known_checkpoints(&self.possession).await
    }

    /// Plans a rollback to `target`; see [`Hankweave::look_back`](crate::Hankweave::look_back).
    ///
    /// # Errors
    ///
    /// Returns [`RollbackError`] if that rollback is not possible.
    pub async fn look_back(&self, target: &RollbackTarget) -> Result<Rollback, RollbackError> {
        runner::preview(&self.possession, target).await
    }

    /// Rolls back to `target`; see [`Hankweave::roll_back`](crate::Hankweave::roll_back).
    ///
    /// # Errors
    ///
    /// Returns [`RollbackError`]; it says whether files were changed.
    pub async fn go_back(&self, target: &RollbackTarget) -> Result<Rollback, RollbackError> {
        runner::go_back(&self.possession, target).await
    }

    /// Lists what `rule` lets a cleanup remove of old runs (RUN-23). Changes nothing.
    ///
    /// # Errors
    ///
    /// Returns [`CleanupError`] when the record or the checkpoints cannot be read.
    pub async fn plan_cleanup(&self, rule: RetentionRule) -> Result<CleanupPlan, CleanupError> {
        runner::plan_cleanup(&self.possession, rule).await
    }

    /// Removes what `plan` names, for good, and finishes what an earlier cleanup began; `command` is the command line of the cleanup, for the log of
    /// operations.
    ///
    /// # Errors
    ///
    /// Returns [`CleanupError`]; it says whether anything was removed.
    pub async fn clean_up(&self, plan: &CleanupPlan, command: &str) -> Result<CleanupReport, CleanupError> {
        runner::clean_up(&self.possession, plan, command).await
    }

    /// Records whether `codon` may start, with a `reason` if there is one. The next run follows the answer (STATE-65).
    /// `by` and `at` name the author and the time of the answer, if it comes from another person or was given earlier.
    ///
    /// # Errors
    ///
    /// Returns [`TransitionError`] when the plan has no such codon, or the answer could not be made durable.
    pub async fn answer(
        &self,
        codon: &CodonId,
        granted: bool,
        reason: Option<String>,
        (by, at): (Option<String>, Option<Timestamp>),
    ) -> Result<(), TransitionError> {
        let by = by.or_else(|| self.possession.world.environment.user());
        runner::answer_approval(&self.possession.manager, codon, granted, reason, (by, at)).await
    }

    /// Withdraws the recorded answer, so that the next run asks again (STATE-65).
    ///
    /// # Errors
    ///
    /// Returns [`TransitionError`] when the withdrawal could not be made durable.
    pub async fn withdraw_answer(&self) -> Result<(), TransitionError> {
        runner::withdraw_approval(&self.possession.manager).await
    }

    /// Returns a function that returns the progress of a rollback, for callers that wait for it.
    pub fn progress(&self) -> impl Fn() -> Option<Counts> + Clone + Send + Sync + 'static + use<> {
        let store = Arc::clone(&self.possession.checkpoints);
        move || store.progress()
    }

    /// Releases the directory.
    ///
    /// # Errors
    ///
    /// Returns [`PersistenceError`] when the last save failed.
    pub async fn close(self) -> Result<(), Arc<PersistenceError>> {
        let lock = Arc::new(self.lock);
        self.possession.release(lock, std::future::ready(())).await
    }
}
