//! Copies of the other files of a task (TASK-18, TASK-44).

use std::collections::BTreeMap;
use std::ffi::OsStr;

use hankweave_runtime::world::disk::Folder;

use super::error::LayerError;
use super::figures::{Layer, LayerOperation};
use super::files::TaskFiles;
use super::folder::{create, enter, enter_or_make, is_passing, read, read_unpacked};
use super::{CHECKPOINTS, DECISIONS, LOGS, MANIFEST, STATE, UNFINISHED_FOLDER};
use crate::model::{CheckpointId, TaskCheckpoint, TaskCheckpointManifest, TaskError};

/// The checkpoints of a task.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct Checkpoints {
    /// Manifests, the newest first.
    pub valid: Vec<TaskCheckpointManifest>,
    /// Folders without a manifest that fits, by name; nothing is done with them.
    pub invalid: Vec<String>,
}

impl TaskFiles {
    /// Copies the files of the task, byte by byte. A state that cannot be read, and none, has no checkpoint.
    ///
    /// # Errors
    ///
    /// Why the state cannot be read, [`LayerError::Load`] or [`LayerError::Save`]; there is then no new checkpoint.
    /// [`ResourceLocked`](TaskError::ResourceLocked) while another process writes.
    pub fn create_checkpoint(&self, description: Option<&str>) -> Result<TaskCheckpointManifest, LayerError> {
        self.create_checkpoint_under(None, description)
    }

    /// Makes a checkpoint under the lock with this token, unless the state was written under a later one (TASK-95).
    ///
    /// # Errors
    ///
    /// As [`create_checkpoint`](Self::create_checkpoint), and [`StaleToken`](TaskError::StaleToken).
    pub fn create_checkpoint_under(
        &self,
        token: Option<u64>,
        description: Option<&str>,
    ) -> Result<TaskCheckpointManifest, LayerError> {
        let folder = self.lock()?;
        self.create_checkpoint_in(&*folder, token, description)
    }

    /// Makes a checkpoint, unless the newest one has this description and the files as they are: a step that is tried again leaves one.
    ///
    /// # Errors
    ///
    /// As [`create_checkpoint`](Self::create_checkpoint).
    pub fn ensure_checkpoint(&self, description: &str) -> Result<(), LayerError> {
        let folder = self.lock()?;
        let newest = self.checkpoints_in(&*folder)?.valid.into_iter().next();
        let files = self.copied(&*folder)?;
        match newest.is_some_and(|newest| newest.description == description && newest.is_of(&files)) {
            true => Ok(()),
            false => self
                .create_checkpoint_in(&*folder, None, Some(description))
                .map(drop),
        }
    }

    pub(super) fn create_checkpoint_in(
        &self,
        folder: &dyn Folder,
        token: Option<u64>,
        description: Option<&str>,
    ) -> Result<TaskCheckpointManifest, LayerError> {
        self.traced(Layer::Checkpoints, LayerOperation::Save, || {
            let state = self.state_in(folder)?;
            let state = state.ok_or_else(|| TaskError::StateLoadFailed("there is none".to_owned()))?;
            token.map_or(Ok(()), |token| state.check_token(token))?;
            let files = self.copied(folder)?;
            let checkpoints = enter_or_make(folder, CHECKPOINTS).map_err(self.save(CHECKPOINTS))?;
            let names = checkpoints.names().map_err(self.load(CHECKPOINTS))?;
            let newest = names
                .iter()
                .filter_map(|name| CheckpointId::parse(name.to_str()?).ok())
                .max();
            let now = self.now();
            let id = CheckpointId::next(now, newest);
            let mut manifest =
                TaskCheckpointManifest::of(id, self.id.as_str(), now, description.map(str::to_owned), &files);
            manifest.state_version = state.version;
            self.put_checkpoint(&*checkpoints, &manifest, &files)?;
            Ok(manifest)
        })
    }

    fn copied(&self, folder: &dyn Folder) -> Result<BTreeMap<String, Vec<u8>>, LayerError> {
        let mut files = BTreeMap::new();
        for name in [STATE, LOGS, DECISIONS] {
            if let Some(bytes) = read(folder, name).map_err(self.load(name))? {
                files.insert(name.to_owned(), bytes);
            }
        }
        Ok(files)
    }

    /// Everything is durable in a folder of another name before it gets its own.
    fn put_checkpoint(
        &self,
        checkpoints: &dyn Folder,
        manifest: &TaskCheckpointManifest,
        files: &BTreeMap<String, Vec<u8>>,
    ) -> Result<(), LayerError> {
        let text = serde_json::to_string_pretty(manifest)
            .map_err(|_| TaskError::StateSaveFailed("the manifest is no JSON"))?;
        let unfinished = format!("{UNFINISHED_FOLDER}{}", manifest.id);
        let put = || {
            // A crash may have left one.
            checkpoints.remove(OsStr::new(&unfinished))?;
            let folder = enter_or_make(checkpoints, &unfinished)?;
            for (name, bytes) in files {
                create(&*folder, name, bytes)?;
            }
            create(&*folder, MANIFEST, text.as_bytes())?;
            folder.sync()?;
            checkpoints.rename(OsStr::new(&unfinished), OsStr::new(&manifest.id))
        };
        put()
            .inspect_err(|_| {
                let _ = checkpoints.remove(OsStr::new(&unfinished));
            })
            .and_then(|()| checkpoints.sync())
            .map_err(self.save(CHECKPOINTS))
    }

    /// All checkpoints; what is wrong with one costs no other.
    ///
    /// # Errors
    ///
    /// Returns [`LayerError::Load`].
    pub fn checkpoints(&self) -> Result<Checkpoints, LayerError> {
        self.traced(Layer::Checkpoints, LayerOperation::Load, || {
            match self.open()? {
                Some(folder) => self.checkpoints_in(&*folder),
                None => Ok(Checkpoints::default()),
            }
        })
    }

    pub(super) fn checkpoints_in(&self, folder: &dyn Folder) -> Result<Checkpoints, LayerError> {
        let mut all = Checkpoints::default();
        let Some(folder) = enter(folder, CHECKPOINTS).map_err(self.load(CHECKPOINTS))? else {
            return Ok(all);
        };
        for name in folder.names().map_err(self.load(CHECKPOINTS))? {
            let name = name.to_string_lossy().into_owned();
            if name.starts_with(UNFINISHED_FOLDER) {
                continue;
            }
            let manifest = match CheckpointId::parse(&name) {
                Ok(id) => self.manifest(&*folder, id)?,
                Err(_) => None,
            };
            match manifest {
                Some(manifest) => all.valid.push(manifest),
                None => all.invalid.push(name),
            }
        }
        all.valid
            .sort_by_key(|manifest| std::cmp::Reverse(CheckpointId::parse(&manifest.id).ok()));
        Ok(all)
    }

    fn manifest(
        &self,
        checkpoints: &dyn Folder,
        id: CheckpointId,
    ) -> Result<Option<TaskCheckpointManifest>, LayerError> {
        let bytes = || match enter(checkpoints, &id.to_string())? {
            Some(folder) => read(&*folder, MANIFEST),
            None => Ok(None),
        };
        match bytes() {
            Err(error) if is_passing(&error) => Err(self.load(CHECKPOINTS)(error)),
            bytes => {
                let read = |bytes: Vec<u8>| TaskCheckpointManifest::read(id, self.id.as_str(), &bytes).ok();
                Ok(bytes.ok().flatten().and_then(read))
            }
        }
    }

    /// Reads a checkpoint of which nothing is missing or spoiled, packed or not.
    ///
    /// # Errors
    ///
    /// [`CheckpointNotFound`](TaskError::CheckpointNotFound), [`CheckpointCorrupt`](TaskError::CheckpointCorrupt) or [`LayerError::Load`].
    pub fn read_checkpoint(&self, id: CheckpointId) -> Result<TaskCheckpoint, LayerError> {
        self.traced(Layer::Checkpoints, LayerOperation::Load, || {
            let not_found = || TaskError::CheckpointNotFound { id: id.to_string() };
            let folder = self.open()?.ok_or_else(not_found)?;
            self.read_checkpoint_in(&*folder, id)
        })
    }

    pub(super) fn read_checkpoint_in(
        &self,
        folder: &dyn Folder,
        id: CheckpointId,
    ) -> Result<TaskCheckpoint, LayerError> {
        let not_found = || TaskError::CheckpointNotFound { id: id.to_string() };
        let checkpoints = enter(folder, CHECKPOINTS).map_err(self.load(CHECKPOINTS))?;
        let checkpoints = checkpoints.ok_or_else(not_found)?;
        let folder = enter(&*checkpoints, &id.to_string()).map_err(self.load(CHECKPOINTS))?;
        let folder = folder.ok_or_else(not_found)?;
        let bytes = read(&*folder, MANIFEST).map_err(self.load(CHECKPOINTS))?;
        let manifest =
            TaskCheckpointManifest::read(id, self.id.as_str(), bytes.as_deref().unwrap_or_default())?;
        let mut files = BTreeMap::new();
        for name in manifest.checksums.keys() {
            match read_unpacked(&*folder, name) {
                Ok(Some(bytes)) => drop(files.insert(name.clone(), bytes)),
                Err(error) if is_passing(&error) => return Err(self.load(CHECKPOINTS)(error)),
                // What cannot be read is as good as missing, and is named.
                Ok(None) | Err(_) => {}
            }
        }
        let manifest = bytes.unwrap_or_default();
        Ok(TaskCheckpoint::check(id, self.id.as_str(), &manifest, &files)?)
    }
}
