//! Whether the files of a started task are in this folder of tasks, in another folder of this machine, or elsewhere (TASK-127). A worker asks before it takes
//! a task, because a task that starts without its files starts anew.

use std::path::{Path, PathBuf};

use hankweave_core::cost::Usd;
use hankweave_core::id::TaskId;
use hankweave_runtime::ExecutionDir;
use hankweave_task_model::TaskError;
use hankweave_task_model::registry::{FilesLocation, TaskCost, TaskRow};
use hankweave_task_model::task::TaskStatus;

use super::WORKSPACE;
use super::files::{TaskFiles, TaskLayers};

/// Reason for which a worker leaves a task to others.
#[derive(Debug, Clone)]
pub enum LeaveReason {
    /// The task was started, and its files are elsewhere.
    Missing(MissingFiles),
    /// The folder has files of another registry's task with this id: a [`TaskError::FolderTaken`].
    Taken(TaskError),
}

/// Files of a started task that are not in this folder of tasks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissingFiles {
    /// Folder in which the task was started.
    pub location: FilesLocation,
    /// Whether the files are in that folder, on this machine.
    pub is_found: bool,
    /// Whether the machine of that folder has the name of this machine.
    pub is_of_machine: bool,
}

impl TaskLayers {
    /// Returns the location of this folder, as a task that is started in it stores it.
    #[must_use]
    pub fn location(&self) -> FilesLocation {
        FilesLocation {
            machine: machine_name(),
            folder: self.real_root().display().to_string(),
        }
    }

    /// Returns the real path of this folder, which need not exist yet.
    fn real_root(&self) -> PathBuf {
        // Only an existing ancestor has a real path; the names below it are added as they are.
        let through_ancestor = |ancestor: &Path| {
            let named = if ancestor == Path::new("") {
                Path::new(".")
            } else {
                ancestor
            };
            let real = self.world.disk.real_path(named).ok()?;
            let below = self.root.strip_prefix(ancestor).ok()?;
            Some(real.join(below).components().collect())
        };
        let real_path = self.root.ancestors().find_map(through_ancestor);
        real_path.unwrap_or_else(|| self.root.clone())
    }

    /// Returns the location of a started task's files, if they are not in this folder. A run without its files would start anew, and pay for each codon
    /// again. Blocks.
    #[must_use]
    pub fn missing(&self, row: &TaskRow) -> Option<MissingFiles> {
        let location = FilesLocation::of(&row.record)?;
        let own = self.location();
        let is_own = location.folder == own.folder;
        let is_of_machine = location.machine == own.machine;
        let has_run = self.has_run(row.id());
        let is_found = !is_own && self.layers_at(&location).has_run(row.id());
        // The files in this folder are of an earlier attempt if a later attempt has worked elsewhere.
        let is_older = has_run && self.task(row.id().clone()).went_on_in(row).is_some();
        // A run in this folder counts, whatever location the task has stored: the folder may have been mounted or moved since.
        if has_run && !is_found && !is_older {
            return None;
        }
        // An attempt that was lost before its workspace existed has left only its log in this folder, and ran nothing.
        let ran_nothing = is_own && self.has_folder(row.id());
        // Without a trace of files or cost, nothing is lost by a start anew.
        let is_missing = is_found || is_older || !is_of_machine || is_paid(row, ran_nothing);
        is_missing.then_some(MissingFiles {
            location,
            is_found,
            is_of_machine,
        })
    }

    /// Returns the files of a task on this machine: in the folder in which it was started if they are there, otherwise in this one. Blocks.
    #[must_use]
    pub fn find(&self, row: &TaskRow) -> TaskFiles {
        match self.missing(row) {
            Some(missing) if missing.is_found => self.layers_at(&missing.location).task_of(row),
            _ => self.task_of(row),
        }
    }

    /// Returns the folder of tasks at a location, as if it were on this machine.
    fn layers_at(&self, location: &FilesLocation) -> Self {
        Self::new(self.world.clone(), &location.folder)
    }

    fn has_run(&self, id: &TaskId) -> bool {
        self.task(id.clone()).has_run()
    }

    fn has_folder(&self, id: &TaskId) -> bool {
        self.task(id.clone()).is_there()
    }
}

impl TaskFiles {
    /// Returns the other folder in which an attempt has worked after the one that wrote these files. `None` if these files are the newest, or if a pull has
    /// copied the newest files here. Blocks.
    #[must_use]
    pub fn went_on_in(&self, row: &TaskRow) -> Option<FilesLocation> {
        let location = FilesLocation::of(&row.record)?;
        let state = self.load_state().ok()??;
        let attempt_here = state.data.get("attempt")?.as_u64()?;
        let attempt = serde_json::to_value(&row.record).ok()?["attempt"].as_u64()?;
        // A pending task has the number of its next attempt.
        let newest = attempt.saturating_sub(u64::from(row.record.status() == TaskStatus::Pending));
        // An attempt after an approval has the number of the attempt before it, and only its token is later.
        let is_later = attempt_here < newest
            || (attempt_here == newest && state.fencing_token.is_some_and(|known| known < row.fencing_token));
        if !is_later || location == self.layers.location() || self.is_pulled_since(row) {
            return None;
        }
        Some(location)
    }

    /// Whether a pull has copied a record of runs into these files after the last step of the task. False while the task runs: its attempt can go on after
    /// the pull.
    fn is_pulled_since(&self, row: &TaskRow) -> bool {
        let dir = ExecutionDir::new(self.path().join(WORKSPACE));
        let remote = hankweave_remote::remembered(&*self.layers.world.disk, &dir);
        let arrived = remote.ok().flatten().and_then(|remote| remote.arrived_at);
        row.record.status() != TaskStatus::Running && arrived.is_some_and(|at| at > row.updated_at)
    }

    /// Whether the folder of the task exists.
    pub(crate) fn is_there(&self) -> bool {
        self.layers.world.disk.metadata(&self.path()).is_ok()
    }

    /// Whether a run is recorded in the workspace of the task.
    #[must_use]
    pub fn has_run(&self) -> bool {
        let dir = ExecutionDir::new(self.path().join(WORKSPACE));
        self.layers.world.disk.metadata(&dir.state_dir()).is_ok()
    }
}

/// Whether an attempt of the task has or may have cost something, as far as its registry knows. An attempt that `ran_nothing` cannot have cost more than
/// is known.
fn is_paid(row: &TaskRow, ran_nothing: bool) -> bool {
    let noted = TaskCost::of(&row.record);
    noted.is_some_and(|cost| cost.cost > Usd::ZERO || cost.cost_is_lower_bound && !ran_nothing)
}

/// Returns the name of this machine, as in [`FilesLocation::machine`].
#[must_use]
pub fn machine_name() -> String {
    let machine = rustix::system::uname();
    machine.nodename().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use hankweave_core::time::Timestamp;
    use hankweave_runtime::world::World;
    use hankweave_task_model::TaskState;
    use hankweave_task_model::registry::NewTask;
    use serde_json::json;

    use super::*;

    /// A worker that is killed before it creates the workspace leaves a lower bound of nothing. Its task can start, and is not left alone for ever.
    // covers: TASK-127
    #[test]
    fn an_attempt_that_was_lost_before_its_workspace_was_made_has_lost_no_files() {
        let folder = tempfile::tempdir().unwrap();
        let layers = TaskLayers::new(World::real(), folder.path());
        let id = TaskId::new("lost").unwrap();
        let (mut row, _) = TaskRow::new(NewTask::new(id.clone()), 0, Timestamp::from_millis(0));
        let mut record = serde_json::to_value(&row.record).unwrap();
        record["filesLocation"] = json!(layers.location());
        record["lastAttemptCost"] = 0.into();
        record["cost"] = 0.into();
        record["costIsLowerBound"] = true.into();
        record["lastAttemptCostIsLowerBound"] = true.into();
        row.record = serde_json::from_value(record.clone()).unwrap();
        assert!(
            layers.missing(&row).is_some(),
            "its folder is gone, and with it what it may have cost"
        );
        fs::create_dir(layers.task(id).path()).unwrap();
        assert_eq!(layers.missing(&row), None);
        record["cost"] = 0.45.into();
        row.record = serde_json::from_value(record).unwrap();
        assert!(
            layers.missing(&row).is_some(),
            "what was paid would be paid again"
        );
    }

    /// After an approval another machine may continue with the same attempt number. Its folder may also just have another name here.
    // covers: TASK-123
    #[test]
    fn files_know_that_the_task_went_on_elsewhere_after_an_approval() {
        let folder = tempfile::tempdir().unwrap();
        let layers = TaskLayers::new(World::real(), folder.path());
        let id = TaskId::new("blog").unwrap();
        let (mut row, _) = TaskRow::new(NewTask::new(id.clone()), 0, Timestamp::from_millis(0));
        let mut record = serde_json::to_value(&row.record).unwrap();
        record["filesLocation"] = json!({"machine": "other", "folder": "/tasks"});
        record["attempt"] = 2.into();
        // The task was requeued, so the attempt before has started.
        record["status"] = "pending".into();
        row.record = serde_json::from_value(record).unwrap();
        let files = layers.task(id.clone());
        fs::create_dir(files.path()).unwrap();
        let state = json!({"taskId": id, "status": "pending", "data": {"attempt": 1}, "lastUpdated": "2026-11-29T12:00:00Z", "fencingToken": 7});
        let mut state: TaskState = serde_json::from_value(state).unwrap();
        files.save_state(&state).unwrap();
        fs::create_dir_all(files.path().join(WORKSPACE).join(".hankweave")).unwrap();
        row.fencing_token = 7;
        assert_eq!(files.went_on_in(&row), None);
        assert_eq!(layers.missing(&row), None);
        row.fencing_token = 9;
        // A worker here would pay again for what was done there.
        assert!(layers.missing(&row).is_some());
        assert_eq!(
            files.went_on_in(&row).map(|there| there.machine),
            Some("other".to_owned())
        );
        // A pull after the task's last step copies the newest files here; an earlier pull does not.
        let remote = files.path().join(WORKSPACE).join(".hankweave/remote.json");
        for (arrived, is_newest) in [(-1, false), (1, true)] {
            let at = row.updated_at.moved_by(arrived);
            let noted =
                json!({"url": "/r.git", "execution": "tasks/blog", "arrived": true, "arrived_at": at});
            fs::write(&remote, noted.to_string()).unwrap();
            assert_eq!(files.went_on_in(&row).is_none(), is_newest, "{noted}");
        }
        fs::remove_file(&remote).unwrap();
        state.fencing_token = Some(9);
        files.save_state(&state).unwrap();
        assert_eq!(files.went_on_in(&row), None);
    }
}
