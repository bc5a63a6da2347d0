//! Opens the records of an execution directory in order: its lock, its journal, its state and its checkpoints. Once the lock is held, finishes the arrival of
//! a record from another machine, and moves damaged entries aside.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hankweave_core::discovery::{READ_ONLY_TOKEN_FILE, TOKEN_FILE};

use super::super::set_aside::{self, describe as describe_aside};
use super::super::shield;
use super::super::spared::SparedCheckpoints;
use super::OpenExecutionError;
use crate::arrival;
use crate::checkpoint::{self, CheckpointStore, GitCheckpoints, OpenReport};
use crate::instance_lock::{InstanceLock, LockWorld};
use crate::journal::{FileJournal, JournalLimits};
use crate::options::RunOptions;
use crate::paths::{ExecutionDir, PORT_FILE};
use crate::state_manager::{self, LoadedState, StateManagerParts, Strictness};
use crate::store::StateFiles;
use crate::world::World;
use crate::world::disk::{Disk, Spare, remove_if_present, with_suffix};

/// The opened records, with what was found damaged.
pub(super) struct OpenedRecords {
    pub(super) lock: InstanceLock,
    /// Files and journal for the state manager.
    pub(super) parts: StateManagerParts,
    pub(super) loaded: LoadedState,
    pub(super) checkpoints: Arc<dyn CheckpointStore>,
    /// Damage to the checkpoint repository.
    pub(super) report: OpenReport,
    /// Entries that were moved aside, in words.
    pub(super) set_aside: Vec<String>,
}

/// Makes the directory when it does not exist, and resolves its path. Syncs the folders around it, so that its name is durable: synced
/// files in a directory whose name is not durable are lost with the power (P1).
pub(super) fn prepare_directory(disk: &dyn Disk, dir: &Path) -> Result<PathBuf, OpenExecutionError> {
    let failed = |source| OpenExecutionError::Directory {
        path: dir.to_owned(),
        source,
    };
    if dir.to_str().is_none() {
        let reason = "state.json is text and cannot hold a path that is not UTF-8";
        return Err(failed(io::Error::new(io::ErrorKind::InvalidFilename, reason)));
    }
    let missing = dir
        .ancestors()
        .take_while(|folder| is_absent(disk, folder))
        .count();
    let real = disk.make_dirs(dir).map_err(failed)?;
    // The parent of an existing directory is synced as well: a killed process of ours may have made the directory.
    for (distance, folder) in real.ancestors().skip(1).take(missing.max(1)).enumerate() {
        match disk.sync_dir(folder) {
            // The parent of an existing directory may belong to another user.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied && distance >= missing => {}
            synced => synced.map_err(failed)?,
        }
    }
    Ok(real)
}

fn is_absent(disk: &dyn Disk, folder: &Path) -> bool {
    !folder.as_os_str().is_empty()
        && disk
            .metadata_followed(folder)
            .is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
}

/// Opens the files, in the documented order: lock, journal, state, checkpoints (RUN-1, L3). Blocks.
pub(super) fn open_records(
    world: &World,
    dir: &ExecutionDir,
    options: &RunOptions,
    checkpoints: Option<Arc<dyn CheckpointStore>>,
    most_bytes: u64,
) -> Result<OpenedRecords, OpenExecutionError> {
    let state_dir = dir.state_dir();
    let lock_world = LockWorld {
        disk: Arc::clone(&world.disk),
        clock: Arc::clone(&world.clock),
        ids: Arc::clone(&world.ids),
        identity: Arc::clone(&world.identity),
    };
    let lock =
        InstanceLock::acquire(lock_world, &state_dir, options.exclusion).map_err(OpenExecutionError::Lock)?;
    arrival::finish(world, dir).map_err(OpenExecutionError::Arrival)?;
    let mut set_aside: Vec<String> = lock
        .set_aside()
        .iter()
        .map(|aside| describe_aside(aside, ""))
        .collect();
    let lines = set_aside::set_aside(&*world.disk, dir, world.clock.now());
    set_aside.extend(lines.map_err(|source| OpenExecutionError::Directory {
        path: state_dir.clone(),
        source,
    })?);
    for file in [TOKEN_FILE, READ_ONLY_TOKEN_FILE, PORT_FILE] {
        // A process that was killed while it wrote the file may have left this. An error of the disk shows up below.
        let _ = remove_if_present(&*world.disk, &with_suffix(&state_dir.join(file), ".tmp"));
    }
    // Makes the spare copy of the record, which is outside of the workspace (P11), equal to the record.
    if let Some(spare) = spare_of(&*world.disk, &state_dir) {
        spare.start();
    }
    let journal = FileJournal::open(Arc::clone(&world.disk), &dir.events(), JournalLimits::default())
        .map_err(OpenExecutionError::Journal)?;
    let parts = StateManagerParts {
        files: StateFiles::new(Arc::clone(&world.disk), lock.guard(), state_dir),
        journal: Arc::new(journal),
        clock: Arc::clone(&world.clock),
        ids: Arc::clone(&world.ids),
        blocking: world.blocking,
    };
    let strictness = if options.strict_state {
        Strictness::Stop
    } else {
        Strictness::StartOver
    };
    let loaded = state_manager::load(&parts, strictness).map_err(OpenExecutionError::State)?;
    let (checkpoints, report) = match checkpoints {
        Some(store) => (store, OpenReport::default()),
        None => open_repository(world, dir, most_bytes)?,
    };
    Ok(OpenedRecords {
        lock,
        parts,
        loaded,
        checkpoints,
        report,
        set_aside,
    })
}

/// Opens the git repository of checkpoints, and protects the record from `git clean`.
fn open_repository(
    world: &World,
    dir: &ExecutionDir,
    most_bytes: u64,
) -> Result<(Arc<dyn CheckpointStore>, OpenReport), OpenExecutionError> {
    let request = checkpoint::OpenStoreRequest {
        repository: dir.checkpoints(),
        workspace: dir.root().to_owned(),
        at: world.clock.now(),
        nonce: world.ids.nonce(),
        most_bytes,
    };
    let (store, report) = GitCheckpoints::open(&request).map_err(OpenExecutionError::Checkpoints)?;
    if let Err(error) = shield::raise(&*world.disk, dir) {
        tracing::warn!(%error, "`git clean` is not kept away");
    }
    let state_dir = dir.state_dir();
    match spare_of(&*world.disk, &state_dir) {
        Some(spare) => {
            // Opening writes to the repository without `disk`, so the spare copy has to be updated.
            spare.follow();
            Ok((Arc::new(SparedCheckpoints::new(store, spare)), report))
        }
        None => Ok((Arc::new(store), report)),
    }
}

fn spare_of(disk: &dyn Disk, state_dir: &Path) -> Option<Arc<Spare>> {
    disk.spares()?.of(state_dir)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkpoint::MAX_FILE_BYTES;
    use crate::instance_lock::LockError;
    use crate::world::environment::Environment;

    // covers: L3, RUN-1
    #[test]
    fn a_start_that_is_refused_changes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let world = World::with_environment(Environment::default());
        let dir = ExecutionDir::new(folder.path().to_owned());
        let open = || open_records(&world, &dir, &RunOptions::default(), None, MAX_FILE_BYTES);
        let holder = open().map_err(|error| error.to_string()).ok().unwrap();
        // Everything that a start would repair: a torn line, and the remains of a save.
        let state_dir = dir.state_dir();
        let files = ["events/000001.jsonl", "state.json.tmp", "token.tmp"].map(|name| state_dir.join(name));
        for file in &files {
            std::fs::write(file, "torn").unwrap();
        }
        assert!(matches!(
            open().map(drop),
            Err(OpenExecutionError::Lock(LockError::Held { .. }))
        ));
        for file in &files {
            assert_eq!(
                std::fs::read_to_string(file).unwrap(),
                "torn",
                "{}",
                file.display()
            );
        }
        drop(holder);
        open().map_err(|error| error.to_string()).ok().unwrap();
        assert!(!files[1].exists() && !files[2].exists());
    }
}
