//! Tests of a task's files.

mod checkpoints;
mod faults;
mod log;
mod origin;
mod paths;
mod recovery;
mod state;

use std::path::Path;
use std::sync::Arc;

use hankweave_core::id::TaskId;
use hankweave_runtime::world::World;
use hankweave_runtime::world::disk::RealDisk;
use serde_json::json;

use super::*;
use crate::faulty_disk::{Fault, FaultyDisk};
use crate::model::task::TaskStatus;
use crate::model::{LogEntry, LogLevel, TaskError, TaskState};

const TASK: &str = "report-7";

struct Stage {
    folder: tempfile::TempDir,
    files: TaskFiles,
}

impl Stage {
    /// Creates a stage without a root.
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let files = files_in(folder.path(), World::real());
        Self { folder, files }
    }

    /// Creates a task with a state of version 1, two log lines and a decision.
    fn with_task() -> Self {
        let stage = Self::new();
        unhindered(|| stage.files.update_state(Some(1), |state| pages(state, 1))).unwrap();
        stage
            .files
            .append_log(&[line(&stage.files, 1), line(&stage.files, 2)])
            .unwrap();
        stage.files.append_decision(&decision()).unwrap();
        stage
    }

    fn faulty(&self, fault: Fault) -> (FaultyDisk, TaskFiles) {
        let disk = FaultyDisk::new(Arc::new(RealDisk), fault);
        let world = World {
            disk: Arc::new(disk.clone()),
            ..World::real()
        };
        (disk, files_in(self.folder.path(), world))
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.files.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn text(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap()
    }

    /// Returns all files in the folder of the task, by path.
    fn everything(&self) -> std::collections::BTreeMap<String, Vec<u8>> {
        let mut all = std::collections::BTreeMap::new();
        let mut folders = vec![self.files.path()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(&folder).unwrap() {
                let path = entry.unwrap().path();
                match path.is_dir() {
                    true => folders.push(path),
                    false => {
                        let name = path.strip_prefix(self.files.path()).unwrap();
                        all.insert(name.display().to_string(), std::fs::read(&path).unwrap());
                    }
                }
            }
        }
        all
    }
}

/// Repeats the work while the folder is locked: a process that another test starts has copies of this process's locks until it runs its own program.
fn unhindered<T>(mut work: impl FnMut() -> Result<T, LayerError>) -> Result<T, LayerError> {
    for _ in 0..1_000_000 {
        match work() {
            Err(LayerError::Task(TaskError::ResourceLocked { .. })) => std::thread::yield_now(),
            done => return done,
        }
    }
    work()
}

fn files_in(folder: &Path, world: World) -> TaskFiles {
    TaskLayers::new(world, folder.join("root")).task(TaskId::new(TASK).unwrap())
}

fn pages(state: &mut TaskState, pages: u64) {
    state.status = TaskStatus::Running;
    state.data.insert("pages".into(), json!(pages));
}

fn line(files: &TaskFiles, number: usize) -> LogEntry {
    files.entry(LogLevel::Info, format!("line {number}"), None)
}

fn decision() -> crate::model::AgentDecision {
    crate::model::AgentDecision {
        timestamp: hankweave_core::time::Timestamp::from_millis(1_770_110_100_250),
        agent: "writer".into(),
        decision: "use ink".into(),
        reasoning: "## it is there\n".into(),
        metadata: None,
    }
}

fn code<T: std::fmt::Debug>(answer: Result<T, LayerError>) -> &'static str {
    answer.unwrap_err().code()
}
