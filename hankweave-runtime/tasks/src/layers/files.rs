//! Handles for the folder of all tasks ([`TaskLayers`]) and the folder of one task ([`TaskFiles`]): opening, locking, errors and metrics. The other files of
//! this module add the operations on each layer.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hankweave_core::id::TaskId;
use hankweave_core::time::Timestamp;
use hankweave_runtime::world::World;
use hankweave_runtime::world::blocking::Blocking;
use hankweave_runtime::world::disk::{Folder, IoError};
use hankweave_runtime::world::process::uninterrupted;
use serde_json::Value;
use tokio::time::{Instant, sleep};

use super::error::LayerError;
use super::figures::{Layer, LayerMetric, LayerMetrics, LayerOperation};
use super::folder::{enter, enter_or_make};
use crate::model::{LogEntry, LogLevel, TaskError, Tries};

/// Files of all tasks, under one root folder.
#[derive(Debug, Clone)]
pub struct TaskLayers {
    pub(super) world: World,
    /// Folder of all tasks.
    pub(super) root: PathBuf,
    figures: Arc<LayerMetrics>,
}

impl TaskLayers {
    /// Creates the layers for `root`, a folder that is created when it is needed.
    #[must_use]
    pub fn new(world: World, root: impl Into<PathBuf>) -> Self {
        Self {
            world,
            root: root.into(),
            figures: Arc::default(),
        }
    }

    /// Returns the root folder.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the metrics of all files since this was created.
    #[must_use]
    pub fn figures(&self) -> Vec<LayerMetric> {
        self.figures.all()
    }

    /// Returns the pool for calls that wait for the disk.
    pub(crate) fn blocking(&self) -> Blocking {
        self.world.blocking
    }

    /// Returns the world through which the files are reached.
    pub(crate) fn world(&self) -> &World {
        &self.world
    }

    /// Returns the files of one task, which need not exist.
    #[must_use]
    pub fn task(&self, id: TaskId) -> TaskFiles {
        TaskFiles {
            layers: self.clone(),
            id: Arc::new(id),
            created_at: None,
        }
    }

    /// Lists the tasks that have a folder, by id.
    ///
    /// # Errors
    ///
    /// Returns [`LayerError::Load`] when the root cannot be read.
    pub fn tasks(&self) -> Result<Vec<TaskId>, LayerError> {
        let Some(root) = self.open_root()? else {
            return Ok(Vec::new());
        };
        let names = root.names().map_err(self.load_error())?;
        let ids = names.iter().filter_map(|name| TaskId::new(name.to_str()?).ok());
        Ok(ids.collect())
    }

    pub(super) fn open_root(&self) -> Result<Option<Box<dyn Folder>>, LayerError> {
        match self.world.disk.open_folder(&self.root) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            opened => opened.map(Some).map_err(self.load_error()),
        }
    }

    fn make_root(&self) -> Result<Box<dyn Folder>, LayerError> {
        let made = self.world.disk.make_private_dirs(&self.root);
        made.and_then(|()| self.world.disk.open_folder(&self.root))
            .map_err(|error| LayerError::Save(IoError::at("make", &self.root)(error)))
    }

    /// Returns a conversion of errors at reading the root.
    pub(super) fn load_error(&self) -> impl FnOnce(io::Error) -> LayerError + use<> {
        let at = IoError::at("read", &self.root);
        |error| LayerError::Load(at(error))
    }

    /// Returns a conversion of errors at writing in the root.
    pub(super) fn save_error(&self) -> impl FnOnce(io::Error) -> LayerError + use<> {
        let at = IoError::at("write", &self.root);
        |error| LayerError::Save(at(error))
    }
}

/// Files of one task.
#[derive(Debug, Clone)]
pub struct TaskFiles {
    pub(super) layers: TaskLayers,
    pub(super) id: Arc<TaskId>,
    /// Creation time of the task in its registry. Files of a task with another time are refused; `None` accepts all files.
    pub(super) created_at: Option<Timestamp>,
}

impl TaskFiles {
    /// Returns the id of the task.
    #[must_use]
    pub fn id(&self) -> &TaskId {
        &self.id
    }

    /// Returns the folder of the task.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.layers.root.join(self.id.as_str())
    }

    /// Returns a line for the log, with the present time.
    #[must_use]
    pub fn entry(&self, level: LogLevel, message: impl Into<String>, data: Option<Value>) -> LogEntry {
        LogEntry {
            timestamp: self.now(),
            level,
            message: message.into(),
            data,
            seq: None,
        }
    }

    /// Runs `work` on the pool for blocking calls. Repeats it a few times, with growing pauses, while another process works in the folder.
    ///
    /// # Errors
    ///
    /// Returns the last error of `work`.
    ///
    /// # Cancel safety
    ///
    /// Work that has started runs to its end.
    pub async fn run<T: Send + 'static>(
        &self,
        work: impl Fn(&Self) -> Result<T, LayerError> + Send + Sync + 'static,
    ) -> Result<T, LayerError> {
        let work = Arc::new(work);
        let tries = Tries::default();
        let mut failed = 0;
        loop {
            let (files, work) = (self.clone(), Arc::clone(&work));
            // A process that is suspended while it holds the lock on the folder would keep the next owner out.
            let work = move || uninterrupted(|| work(&files));
            let result = self.layers.world.blocking.run(work).await;
            failed += 1;
            match (&result, tries.wait_after(failed)) {
                (Err(LayerError::Task(TaskError::ResourceLocked { .. })), Some(wait)) => sleep(wait).await,
                _ => return result,
            }
        }
    }

    /// Opens the folder, if it exists and belongs to this task.
    pub(super) fn open(&self) -> Result<Option<Box<dyn Folder>>, LayerError> {
        let folder = self.open_any()?;
        if let Some(folder) = &folder {
            self.check_folder(&**folder)?;
        }
        Ok(folder)
    }

    /// Opens the folder, if it exists, whichever task it belongs to.
    pub(super) fn open_any(&self) -> Result<Option<Box<dyn Folder>>, LayerError> {
        let Some(root) = self.layers.open_root()? else {
            return Ok(None);
        };
        enter(&*root, self.id.as_str()).map_err(self.load_error(""))
    }

    /// Opens the folder, and creates it if it is missing. Fails for a folder of another task.
    pub(super) fn make(&self) -> Result<Box<dyn Folder>, LayerError> {
        let root = self.layers.make_root()?;
        let folder = enter_or_make(&*root, self.id.as_str()).map_err(self.save_error(""))?;
        self.check_folder(&*folder)?;
        Ok(folder)
    }

    /// Opens the folder and locks it until the result is dropped.
    pub(super) fn lock(&self) -> Result<Box<dyn Folder>, LayerError> {
        let folder = self.make()?;
        match folder.try_lock().map_err(self.save_error(""))? {
            true => Ok(folder),
            false => Err(self.held_error()),
        }
    }

    /// Returns the error while another process has the lock on the folder.
    pub(super) fn held_error(&self) -> LayerError {
        LayerError::Task(TaskError::ResourceLocked {
            resource: self.path().display().to_string(),
            existing_owner: "somebody who writes there right now".to_owned(),
        })
    }

    /// Returns a conversion of errors at reading the file `name`.
    pub(super) fn load_error(&self, name: &str) -> impl FnOnce(io::Error) -> LayerError + use<> {
        let at = IoError::at("read", &self.path().join(name));
        |error| LayerError::Load(at(error))
    }

    /// Returns a conversion of errors at writing the file `name`.
    pub(super) fn save_error(&self, name: &str) -> impl FnOnce(io::Error) -> LayerError + use<> {
        let at = IoError::at("write", &self.path().join(name));
        |error| LayerError::Save(at(error))
    }

    pub(super) fn now(&self) -> Timestamp {
        self.layers.world.clock.now()
    }

    pub(super) fn nonce(&self) -> String {
        self.layers.world.ids.nonce()
    }

    /// Performs an operation on a layer and logs its duration, but never its contents.
    pub(super) fn traced<T>(
        &self,
        layer: Layer,
        operation: LayerOperation,
        act: impl FnOnce() -> Result<T, LayerError>,
    ) -> Result<T, LayerError> {
        let began = Instant::now();
        let result = act();
        let took = began.elapsed();
        let failed = result.as_ref().err().map(LayerError::code);
        self.layers
            .figures
            .count(layer, operation, took, failed.is_some());
        let (layer, operation, duration) = (layer.as_str(), operation.as_str(), took.as_secs_f64() * 1000.0);
        tracing::trace!(layer, operation, taskId = %self.id, duration, failed, "Persistence operation");
        result
    }
}
