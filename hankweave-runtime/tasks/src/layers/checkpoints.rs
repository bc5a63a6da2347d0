//! Checkpoints: copies of a task's state, log and decisions (TASK-18, TASK-44).

use std::collections::BTreeMap;
use std::ffi::OsStr;

use hankweave_runtime::world::disk::Folder;

use super::error::LayerError;
use super::figures::{Layer, LayerOperation};
use super::files::TaskFiles;
use super::folder::{create, enter, enter_or_make, is_temporary, read, read_unpacked};
use super::{CHECKPOINTS, DECISIONS, LOGS, MANIFEST, STATE, UNFINISHED_FOLDER};
use crate::model::{CheckpointId, TaskCheckpoint, TaskCheckpointManifest, TaskError};

/// Checkpoints of a task.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct Checkpoints {
    /// Manifests of valid checkpoints, newest first.
    pub valid: Vec<TaskCheckpointManifest>,
    /// Names of folders without a fitting manifest, which are left alone.
    pub invalid: Vec<String>,
}

impl TaskFiles {
    /// Copies the files of the task, byte by byte. Requires a readable state.
    ///
    /// # Errors
    ///
    /// Returns why the state cannot be read, [`LayerError::Load`] or [`LayerError::Save`]; there is no new checkpoint then. Returns
    /// [`ResourceLocked`](TaskError::ResourceLocked) while another process writes.
    pub fn create_checkpoint(&self, description: Option<&str>) -> Result<TaskCheckpointManifest, LayerError> {
        self.create_checkpoint_under(None, description)
    }

    /// Makes a checkpoint under the lock with this token, unless the state was written under a later token (TASK-95).
    ///
    /// # Errors
    ///
    /// Fails like [`create_checkpoint`](Self::create_checkpoint), and with [`StaleToken`](TaskError::StaleToken).
    pub fn create_checkpoint_under(
        &self,
        token: Option<u64>,
        description: Option<&str>,
    ) -> Result<TaskCheckpointManifest, LayerError> {
        let folder = self.lock()?;
        self.create_checkpoint_in(&*folder, token, description)
    }

    /// Makes a checkpoint, unless the newest one has this description and the present files. A repeated step therefore leaves one checkpoint.
    ///
    /// # Errors
    ///
    /// Fails like [`create_checkpoint`](Self::create_checkpoint).
    pub fn ensure_checkpoint(&self, description: &str) -> Result<(), LayerError> {
        let folder = self.lock()?;
        let newest = self.checkpoints_in(&*folder)?.valid.into_iter().next();
        let files = self.current_files(&*folder)?;
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
            let files = self.current_files(folder)?;
            let checkpoints = enter_or_make(folder, CHECKPOINTS).map_err(self.save_error(CHECKPOINTS))?;
            let names = checkpoints.names().map_err(self.load_error(CHECKPOINTS))?;
            // Folders of invalid checkpoints count too: their names are in use.
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

    /// Reads the files that a checkpoint copies, by name.
    fn current_files(&self, folder: &dyn Folder) -> Result<BTreeMap<String, Vec<u8>>, LayerError> {
        let mut files = BTreeMap::new();
        for name in [STATE, LOGS, DECISIONS] {
            if let Some(bytes) = read(folder, name).map_err(self.load_error(name))? {
                files.insert(name.to_owned(), bytes);
            }
        }
        Ok(files)
    }

    /// Writes a checkpoint. Everything is durable under a temporary name before the folder gets its final name.
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
            .map_err(self.save_error(CHECKPOINTS))
    }

    /// Lists all checkpoints. A damaged one does not affect the others.
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
        let Some(folder) = enter(folder, CHECKPOINTS).map_err(self.load_error(CHECKPOINTS))? else {
            return Ok(all);
        };
        for name in folder.names().map_err(self.load_error(CHECKPOINTS))? {
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

    /// Returns the manifest in a checkpoint's folder; `None` if it is missing, unreadable or does not fit.
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
            Err(error) if is_temporary(&error) => Err(self.load_error(CHECKPOINTS)(error)),
            bytes => {
                let read = |bytes: Vec<u8>| TaskCheckpointManifest::read(id, self.id.as_str(), &bytes).ok();
                Ok(bytes.ok().flatten().and_then(read))
            }
        }
    }

    /// Reads a complete and undamaged checkpoint, packed or not.
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
        let checkpoints = enter(folder, CHECKPOINTS).map_err(self.load_error(CHECKPOINTS))?;
        let checkpoints = checkpoints.ok_or_else(not_found)?;
        let folder = enter(&*checkpoints, &id.to_string()).map_err(self.load_error(CHECKPOINTS))?;
        let folder = folder.ok_or_else(not_found)?;
        let bytes = read(&*folder, MANIFEST).map_err(self.load_error(CHECKPOINTS))?;
        // A missing manifest is read like an empty one, which is corrupt.
        let manifest =
            TaskCheckpointManifest::read(id, self.id.as_str(), bytes.as_deref().unwrap_or_default())?;
        let mut files = BTreeMap::new();
        for name in manifest.checksums.keys() {
            match read_unpacked(&*folder, name) {
                Ok(Some(bytes)) => drop(files.insert(name.clone(), bytes)),
                Err(error) if is_temporary(&error) => return Err(self.load_error(CHECKPOINTS)(error)),
                // An unreadable file counts as missing, and is named in the error.
                Ok(None) | Err(_) => {}
            }
        }
        let manifest = bytes.unwrap_or_default();
        Ok(TaskCheckpoint::check(id, self.id.as_str(), &manifest, &files)?)
    }
}
