//! Hooks that give each task a branch in a user's repository (TASK-109).

use std::path::{Path, PathBuf};
use std::sync::Arc;

use hankweave_core::text::blank_controls;
use hankweave_core::thread::{build, position};
use hankweave_remote::{RemoteError, history};
use hankweave_runtime::ExecutionDir;
use hankweave_runtime::checkpoint::{ReviewBranch, ReviewRequest};
use hankweave_runtime::error::chain;
use hankweave_task_model::registry::TaskRow;
use hankweave_task_model::{DEFAULT_PRIORITY, HookPoint, HookPolicy, LogLevel};

use super::{HookRun, Lifecycle};
use crate::layers::{TaskLayers, WORKSPACE};

/// Folder on a task's branch. The task's files are in a subfolder that is named after the task.
const FOLDER: &str = ".task-memory";

/// Priority after the final checkpoint and the check of its files.
const LAST: i64 = 100;

impl Lifecycle {
    /// Registers hooks that give each task the branch `task/ID` in this git repository. A task that cannot have the branch does not start. The branch
    /// is created at HEAD when the task starts for the first time. Before an attempt ends, the files of the workspace's last checkpoint are committed
    /// to it, in `.task-memory/ID`.
    pub fn register_branch(&self, repository: &Path) {
        let hook = |act: fn(&ReviewBranch, &TaskLayers, &TaskRow) -> Result<(), String>| {
            on_branch(self, repository.into(), act)
        };
        let (before, after) = (HookPoint::BeforeStart, HookPoint::AfterStart);
        let check = hook(|branch, _, _| branch.check().map_err(|error| chain(&error)));
        self.register(before, DEFAULT_PRIORITY, HookPolicy::Veto, check);
        let start = hook(|branch, layers, row| {
            let started = branch.start().map_err(|error| chain(&error));
            started.inspect_err(|why| note(layers, row, why))
        });
        self.register(after, DEFAULT_PRIORITY, HookPolicy::Continue, start);
        for point in [
            HookPoint::BeforeComplete,
            HookPoint::BeforeFail,
            HookPoint::BeforeCancel,
        ] {
            let commit = hook(|branch, layers, row| {
                commit_checkpoint(branch, layers, row).inspect_err(|why| note(layers, row, why))
            });
            self.register(point, LAST, HookPolicy::Continue, commit);
        }
    }
}

/// Returns a hook that calls `act` with the task and its branch.
fn on_branch(
    lifecycle: &Lifecycle,
    repository: Arc<Path>,
    act: fn(&ReviewBranch, &TaskLayers, &TaskRow) -> Result<(), String>,
) -> HookRun {
    lifecycle.on_task(move |layers, row| {
        let branch = branch_of(repository.to_path_buf(), &row);
        async move { layers.blocking().run(move || act(&branch, &layers, &row)).await }
    })
}

/// Returns the branch of a task. Its mark, a reference of hankweave's own, contains the task's creation time, because tasks of different registries can
/// have one id.
fn branch_of(repository: PathBuf, row: &TaskRow) -> ReviewBranch {
    let (id, created) = (row.id(), row.record.created_at().as_millis());
    ReviewBranch {
        repository,
        name: format!("task/{id}"),
        mark: format!("refs/hankweave/task/{id}-{created}"),
        folder: [FOLDER, id.as_str()].map(str::to_owned).to_vec(),
    }
}

/// Writes the reason into the task's log, where users look.
fn note(layers: &TaskLayers, row: &TaskRow, why: &str) {
    let files = layers.task_of(row);
    let line = files.entry(
        LogLevel::Warning,
        format!("Its branch lacks something: {why}"),
        None,
    );
    if let Err(error) = files.append_log(&[line]) {
        tracing::warn!(taskId = %row.id(), %error, "the log of a task lacks a line about its branch");
    }
}

/// Commits the files of the workspace's last checkpoint to the branch; does nothing if there is no checkpoint.
fn commit_checkpoint(branch: &ReviewBranch, layers: &TaskLayers, row: &TaskRow) -> Result<(), String> {
    let workspace = layers.task(row.id().clone()).path().join(WORKSPACE);
    let dir = ExecutionDir::new(workspace);
    let state = match history(layers.world(), &dir) {
        Err(RemoteError::NothingRecorded) => return Ok(()),
        state => state.map_err(|error| chain(&error))?,
    };
    let Some(checkpoint) = position(&state, &build(&state, None, None)) else {
        return Ok(());
    };
    let request = ReviewRequest {
        checkpoints: dir.checkpoints(),
        message: message(row, checkpoint.as_str()),
        checkpoint,
        at: layers.world().clock.now(),
    };
    branch.show(&request).map_err(|error| chain(&error))
}

fn message(row: &TaskRow, checkpoint: &str) -> String {
    let name = blank_controls(row.record.name());
    let id = row.id();
    format!("task {id}: {name}\n\nThe files of its workspace at the checkpoint {checkpoint}.\n")
}
